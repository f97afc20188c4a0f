"""Names of border policies."""

_BORDER_ALIASES = {
    "zeros": "constant",
    "edge": "replicate",
    "nearest": "replicate",
    "mirror": "reflect",
    "reflect_101": "reflect",
    "reflect101": "reflect",
    "reflect_1001": "symmetric",
    "grid-mirror": "symmetric",
    "wrap": "circular",
    "grid-wrap": "circular",
}


def border_name(name: str) -> str:
    """Resolves an alias of a border policy, as csrc/tensors/checks.cpp does."""
    return _BORDER_ALIASES.get(name, name)
