"""Kernels of derivatives: float64 taps on the CPU, made once for each choice and cached."""

import torch
from torch import Tensor

from torch_conv.functional._gaussian_kernels import exact_tensor, outer
from torch_conv.functional._kernel_cache import with_cache
from torch_conv.kernels import laplacian_kernel


@with_cache
def gradient_kernels(mode: str, order: int, normalized: bool, dtype: torch.dtype) -> Tensor:
    """The derivative kernels x, y, or xx, xy, yy for order 2, as (2 | 3, k, k)."""
    difference = [-1.0, 0.0, 1.0]
    if order == 1:
        smooth = [1.0, 2.0, 1.0]
        if mode == "scharr":
            smooth = [3.0, 10.0, 3.0]
        elif mode == "prewitt":
            smooth = [1.0, 1.0, 1.0]
        elif mode == "diff":
            smooth = [0.0, 1.0, 0.0]
        x = torch.outer(exact_tensor(smooth), exact_tensor(difference))
        kernels = torch.stack([x, x.t()])
        scale = kernels.abs().sum([-2, -1], keepdim=True)
    else:
        # kornia's units: the response to x^2 / 2, x * y and y^2 / 2 becomes 1
        second, smooth, scales = [1.0, -2.0, 1.0], [0.0, 1.0, 0.0], [1.0, 4.0, 1.0]
        if mode == "sobel":
            second, smooth, scales = [1.0, 0.0, -2.0, 0.0, 1.0], [1.0, 4.0, 6.0, 4.0, 1.0], [64.0, 64.0, 64.0]
            difference = [-1.0, -2.0, 0.0, 2.0, 1.0]
        xx = torch.outer(exact_tensor(smooth), exact_tensor(second))
        xy = torch.outer(exact_tensor(difference), exact_tensor(difference))
        kernels = torch.stack([xx, xy, xx.t()])
        scale = exact_tensor(scales).reshape(3, 1, 1)
    kernels = kernels / scale if normalized else kernels
    return kernels.to(dtype)


@with_cache
def gradient_kernels3d(mode: str, order: int, dtype: torch.dtype) -> Tensor:
    """The derivative kernels x, y, z, or xx, yy, zz, xy, yz, xz for order 2, as (3 | 6, 3, 3, 3)."""
    one = exact_tensor([0.0, 1.0, 0.0])
    slope = exact_tensor([-0.5, 0.0, 0.5])
    if order == 1:
        smooth = exact_tensor([0.25, 0.5, 0.25]) if mode == "sobel" else one
        x, y, z = [smooth, smooth, slope], [smooth, slope, smooth], [slope, smooth, smooth]
        kernels = [outer(x), outer(y), outer(z)]
    else:
        bend = exact_tensor([1.0, -2.0, 1.0])
        xx, yy, zz = [one, one, bend], [one, bend, one], [bend, one, one]
        xy, yz, xz = [one, slope, slope], [slope, slope, one], [slope, one, slope]
        kernels = [outer(xx), outer(yy), outer(zz), outer(xy), outer(yz), outer(xz)]
    return torch.stack(kernels).to(dtype)


@with_cache
def laplacian_taps(ky: int, kx: int, variant: str, dtype: torch.dtype) -> Tensor:
    """The raw taps (ky, kx) of a Laplacian."""
    return laplacian_kernel("laplacian", "kernel_size", ky, kx, variant).to(dtype)
