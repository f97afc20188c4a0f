"""Every filter and convolution as a function of tensors; `torch_conv` exports them all."""

from torch_conv.functional.conv import conv1d, conv2d
from torch_conv.functional.edges import gaussian_sobel, laplacian, sobel, spatial_gradient
from torch_conv.functional.filters import box_blur, filter1d, filter2d, filter2d_separable
from torch_conv.functional.smooth import difference_of_gaussians, gaussian_blur2d, gaussian_laplace, unsharp_mask

__all__ = [
    "box_blur",
    "conv1d",
    "conv2d",
    "difference_of_gaussians",
    "filter1d",
    "filter2d",
    "filter2d_separable",
    "gaussian_blur2d",
    "gaussian_laplace",
    "gaussian_sobel",
    "laplacian",
    "sobel",
    "spatial_gradient",
    "unsharp_mask",
]
