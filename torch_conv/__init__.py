"""Filters and small convolutions of images and volumes as PyTorch operators.

>>> import torch, torch_conv
>>> torch_conv.gaussian_blur2d(torch.rand(1, 3, 64, 64), 5, 1.5).shape
torch.Size([1, 3, 64, 64])
"""

from torch_conv import _library

_library.load()  # registers torch.ops.torch_conv, which everything below binds

from torch_conv import autograd, fake, functional, kernels, reference  # noqa: E402
from torch_conv._explain import explain  # noqa: E402
from torch_conv._prepare import prepare  # noqa: E402
from torch_conv.functional import *  # noqa: E402, F403
from torch_conv.split import SplitTensor, split  # noqa: E402

autograd.register()
fake.register()

__version__ = "0.1.0"
__all__ = [
    "SplitTensor",
    "__version__",
    "explain",
    "functional",
    "kernels",
    "prepare",
    "reference",
    "split",
    *functional.__all__,
]
