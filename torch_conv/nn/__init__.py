"""The functions as modules: filters with kornia's constructor arguments, and torch.nn's convolutions.

Every module calls the function of its name, on tensors of any device and on a `SplitTensor`. Modules can be compiled,
exported, scripted, saved and copied. The constructor of a filter checks its arguments.

>>> import torch, torch_conv
>>> model = torch.nn.Sequential(torch_conv.nn.GaussianBlur2d(5, 1.5), torch.nn.Conv2d(8, 8, 3, groups=8))
>>> torch_conv.nn.replace_depthwise(model)
['1']
>>> model(torch.rand(1, 8, 16, 16)).shape
torch.Size([1, 8, 14, 14])
"""

from torch_conv.nn.conv import Conv1d, Conv2d, Conv3d
from torch_conv.nn.edges import Laplacian, Sobel, SpatialGradient
from torch_conv.nn.filters import BoxBlur, Filter2d, Filter3d
from torch_conv.nn.gaussian import GaussianBlur2d, GaussianBlur3d, UnsharpMask
from torch_conv.nn.replace import Replaced, replace_depthwise

__all__ = [
    "BoxBlur",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "Filter2d",
    "Filter3d",
    "GaussianBlur2d",
    "GaussianBlur3d",
    "Laplacian",
    "Replaced",
    "Sobel",
    "SpatialGradient",
    "UnsharpMask",
    "replace_depthwise",
]


def __dir__() -> list[str]:
    return __all__
