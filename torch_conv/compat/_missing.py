"""Names that a façade does not have: the error names the original."""

from collections.abc import Callable
from typing import Any


def missing(module: str, original: str) -> Callable[[str], Any]:
    """A module's `__getattr__`: `compat.cv2 has no medianBlur; import the original cv2 beside it`."""

    def refuse(name: str) -> Any:
        if name.startswith("__"):  # names that Python and its tools look up in modules
            raise AttributeError(f"module 'torch_conv.{module}' has no attribute {name!r}")
        raise AttributeError(f"{module} has no {name}; import the original {original} beside it")

    return refuse
