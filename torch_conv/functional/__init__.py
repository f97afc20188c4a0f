"""Every filter and convolution as a function of tensors; `torch_conv` exports them all."""

from torch_conv.functional.causal import causal_conv1d, causal_conv1d_update
from torch_conv.functional.conv import conv1d, conv2d, conv3d
from torch_conv.functional.edges import gaussian_sobel, laplacian, sobel, spatial_gradient
from torch_conv.functional.edges3d import gaussian_gradient_magnitude3d, spatial_gradient3d
from torch_conv.functional.features import structure_tensor, thin_edges
from torch_conv.functional.filters import box_blur, filter2d, filter2d_separable
from torch_conv.functional.filters1d import filter1d
from torch_conv.functional.smooth import (
    difference_of_gaussians,
    gaussian_blur2d,
    gaussian_downsample,
    gaussian_laplace,
    unsharp_mask,
)
from torch_conv.functional.volumes import box_blur3d, filter3d, filter3d_separable, gaussian_blur3d

__all__ = [
    "box_blur",
    "box_blur3d",
    "causal_conv1d",
    "causal_conv1d_update",
    "conv1d",
    "conv2d",
    "conv3d",
    "difference_of_gaussians",
    "filter1d",
    "filter2d",
    "filter2d_separable",
    "filter3d",
    "filter3d_separable",
    "gaussian_blur2d",
    "gaussian_blur3d",
    "gaussian_downsample",
    "gaussian_gradient_magnitude3d",
    "gaussian_laplace",
    "gaussian_sobel",
    "laplacian",
    "sobel",
    "spatial_gradient",
    "spatial_gradient3d",
    "structure_tensor",
    "thin_edges",
    "unsharp_mask",
]


def __dir__() -> list[str]:
    return __all__
