"""Slow, obviously right versions of every function in plain torch: the oracle of tests and documentation.

Everything is summed in float64, tap by tap, on the extended image that the border describes, and rounded once.
Signatures are those of `torch_conv` without `algorithm` and `out`.

    >>> import torch
    >>> from torch_conv import reference
    >>> reference.filter1d(torch.tensor([8., 2, 5, 4, 1, 7, 3]), torch.tensor([1., 3, 5, 3, 1]), "constant")
    tensor([51., 53., 52., 47., 46., 51., 37.])
"""

from torch_conv.reference.causal import causal_conv1d, causal_conv1d_update
from torch_conv.reference.conv import conv1d, conv2d, conv3d
from torch_conv.reference.edges import laplacian, sobel, spatial_gradient, spatial_gradient3d
from torch_conv.reference.filters import (
    box_blur,
    box_blur3d,
    filter1d,
    filter2d,
    filter2d_separable,
    filter3d,
    filter3d_separable,
)
from torch_conv.reference.pipelines import (
    gaussian_downsample,
    gaussian_gradient_magnitude3d,
    gaussian_sobel,
    structure_tensor,
    thin_edges,
)
from torch_conv.reference.smooth import (
    difference_of_gaussians,
    gaussian_blur2d,
    gaussian_blur3d,
    gaussian_laplace,
    unsharp_mask,
)

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
