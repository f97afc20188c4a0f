"""Derivatives: gradients, their magnitude, Laplacians."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_conv.dispatch.numbers import per_axis
from torch_conv.reference._extend import rounded
from torch_conv.reference.filters import filter2d, filter3d

__all__ = ["laplacian", "sobel", "spatial_gradient", "spatial_gradient3d"]

# d/dx, or d2/dx2 and d2/dxdy, and the divisor by which each window is normalised. Those along y are transposed.
_WINDOWS = {
    ("sobel", 1): [([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], 8)],
    ("diff", 1): [([[0, 0, 0], [-1, 0, 1], [0, 0, 0]], 2)],
    ("scharr", 1): [([[-3, 0, 3], [-10, 0, 10], [-3, 0, 3]], 32)],
    ("prewitt", 1): [([[-1, 0, 1], [-1, 0, 1], [-1, 0, 1]], 6)],
    ("sobel", 2): [
        ([[1, 0, -2, 0, 1], [4, 0, -8, 0, 4], [6, 0, -12, 0, 6], [4, 0, -8, 0, 4], [1, 0, -2, 0, 1]], 64),
        ([[1, 2, 0, -2, -1], [2, 4, 0, -4, -2], [0, 0, 0, 0, 0], [-2, -4, 0, 4, 2], [-1, -2, 0, 2, 1]], 64),
    ],
    ("diff", 2): [([[0, 0, 0], [1, -2, 1], [0, 0, 0]], 1), ([[1, 0, -1], [0, 0, 0], [-1, 0, 1]], 4)],
}
_LAPLACIANS = {
    "4": [[0, 1, 0], [1, -4, 1], [0, 1, 0]],
    "8": [[1, 1, 1], [1, -8, 1], [1, 1, 1]],
    "opencv3": [[2, 0, 2], [0, -8, 0], [2, 0, 2]],
}


def spatial_gradient(
    input: Tensor,
    mode: str = "sobel",
    order: int = 1,
    normalized: bool = True,
    *,
    border_type: str = "replicate",
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.spatial_gradient`: `filter2d` with the kernel of each derivative."""
    windows = [
        torch.tensor(taps, dtype=torch.float64) / (divisor if normalized else 1)
        for taps, divisor in _WINDOWS[mode, order]
    ]
    windows.append(windows[0].T)
    image = input.double()
    derivatives = [filter2d(image, window, border_type, padding=padding, value=value) for window in windows]
    return rounded(torch.stack(derivatives, -3), output_dtype or input.dtype)


def spatial_gradient3d(
    input: Tensor,
    mode: str = "diff",
    order: int = 1,
    *,
    border_type: str = "replicate",
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.spatial_gradient3d`: `filter3d` with the kernel of each derivative."""
    smooth = [0.25, 0.5, 0.25] if mode == "sobel" else [0.0, 1.0, 0.0]
    volume, derivatives = input.double(), []
    for derivative in ("x", "y", "z") if order == 1 else ("xx", "yy", "zz", "xy", "yz", "xz"):
        times = [derivative.count(axis) for axis in "zyx"]  # how often it is derived along each axis
        z, y, x = (torch.tensor([smooth, [-0.5, 0, 0.5], [1, -2, 1]][n], dtype=torch.float64) for n in times)
        window = z[:, None, None] * y[:, None] * x
        derivatives.append(filter3d(volume, window, border_type, padding=padding, value=value))
    return rounded(torch.stack(derivatives, -4), output_dtype or input.dtype)


def sobel(
    input: Tensor,
    normalized: bool = True,
    eps: float = 1e-6,
    *,
    border_type: str = "replicate",
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.sobel`: the root of gx^2 + gy^2 + eps."""
    image = input.double()
    gradient = spatial_gradient(image, "sobel", 1, normalized, border_type=border_type, padding=padding, value=value)
    return rounded((gradient.square().sum(-3) + eps).sqrt(), output_dtype or input.dtype)


def laplacian(
    input: Tensor,
    kernel_size: int | Sequence[int],
    border_type: str = "reflect",
    normalized: bool = True,
    *,
    variant: str = "box",
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.laplacian`: `filter2d` with the kernel of `variant`."""
    if variant == "box":
        ky, kx = per_axis(kernel_size, 2)
        window = torch.ones(ky, kx, dtype=torch.float64)
        window[ky // 2, kx // 2] = 1 - ky * kx
    else:
        window = torch.tensor(_LAPLACIANS[variant], dtype=torch.float64)
    dtype = output_dtype or input.dtype
    return filter2d(input.double(), window, border_type, normalized, padding, value=value, output_dtype=dtype)
