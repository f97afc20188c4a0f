"""Filters and small convolutions of images and volumes as PyTorch operators.

>>> import torch, torch_conv
>>> torch_conv.gaussian_blur2d(torch.rand(1, 3, 64, 64), 5, 1.5).shape
torch.Size([1, 3, 64, 64])
"""

import importlib
from typing import TYPE_CHECKING, Any

from torch_conv.dispatch import library

library.load()  # registers torch.ops.torch_conv, which the imports below use

from torch_conv import autograd, functional, kernels, reference  # noqa: E402
from torch_conv.dispatch import autocast, batching, flops  # noqa: E402
from torch_conv.dispatch.explain import explain, prepare  # noqa: E402
from torch_conv.dispatch.library import library_path  # noqa: E402
from torch_conv.fakes import registration as fakes  # noqa: E402
from torch_conv.functional import *  # noqa: E402, F403
from torch_conv.split import SplitTensor, split  # noqa: E402

if TYPE_CHECKING:
    from torch_conv import compat as compat
    from torch_conv import distributed as distributed
    from torch_conv import nn as nn
    from torch_conv import typing as typing

autocast.register()
autograd.register()
batching.register()
fakes.register()
flops.register()

__version__ = "0.1.0"
__all__ = [
    "SplitTensor",
    "__version__",
    "explain",
    "functional",
    "kernels",
    "library_path",
    "prepare",
    "reference",
    "split",
    *functional.__all__,
]

# Imported at first access: `distributed` with torch's DTensor takes 0.36 s, all imports above 0.11 s.
_ON_DEMAND = ("compat", "distributed", "nn", "typing")


if not TYPE_CHECKING:  # type checkers would accept any attribute

    def __getattr__(name: str) -> Any:
        if name in _ON_DEMAND:
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*__all__, *_ON_DEMAND, *(name for name in globals() if name.startswith("__"))})
