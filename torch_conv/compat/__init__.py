"""Other libraries' functions under their own names and conventions, for a change of an import."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch_conv.compat import causal_conv1d as causal_conv1d
    from torch_conv.compat import cv2 as cv2
    from torch_conv.compat import scipy_ndimage as scipy_ndimage
    from torch_conv.compat import torchvision as torchvision

__all__ = ["causal_conv1d", "cv2", "scipy_ndimage", "torchvision"]


if not TYPE_CHECKING:  # type checkers would accept any attribute

    def __getattr__(name: str) -> Any:
        if name in __all__:
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
