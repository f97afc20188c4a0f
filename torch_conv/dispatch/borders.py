"""Names of border policies and their aliases, from C++ (csrc/core/border.h)."""

from torch import _C

# Called below all modes, because an import may be traced.
_borders = _C._dispatch_find_schema_or_throw("torch_conv::_borders", "").redispatch_boxed
_ROWS = [row.split() for row in _borders(_C.DispatchKeySet(_C.DispatchKey.CPU))]  # a name, then its aliases
BORDERS = tuple(names[0] for names in _ROWS)  # in the order of Border (core/border.h)
_NAMES = {alias: names[0] for names in _ROWS for alias in names}


def border_name(name: str) -> str:
    """Resolves an alias of a border policy."""
    return _NAMES.get(name, name)
