"""Chains of filters, step by step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_conv import kernels
from torch_conv.reference._extend import per_axis, rounded
from torch_conv.reference.filters import filter2d_separable, filter3d_separable

Numbers = float | Sequence[float]
_SMOOTH = {"sobel": [1, 2, 1], "diff": [0, 1, 0], "scharr": [3, 10, 3], "prewitt": [1, 1, 1]}


def gaussian_downsample(
    input: Tensor,
    kernel_size: int | Sequence[int] | None,
    sigma: Numbers,
    factor: int = 2,
    border_type: str = "reflect",
    *,
    truncate: float = 4.0,
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """What `torch_conv.gaussian_downsample` must return."""
    blurred = _gaussian(input, kernel_size, sigma, border_type, padding, value, truncate)
    return rounded(blurred[..., ::factor, ::factor], output_dtype or input.dtype)


def structure_tensor(
    input: Tensor,
    kernel_size: int | Sequence[int] | None,
    sigma: Numbers,
    border_type: str = "reflect",
    *,
    mode: str = "sobel",
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """What `torch_conv.structure_tensor` must return."""
    gx, gy = _gradient(input.double(), mode, True, border_type, padding, value)
    products = torch.stack([gx * gx, gx * gy, gy * gy], -3)
    smooth = _gaussian(products, kernel_size, sigma, border_type, padding, value)
    return rounded(smooth, output_dtype or input.dtype)


def thin_edges(
    input: Tensor,
    kernel_size: int | Sequence[int] | None,
    sigma: Numbers,
    border_type: str = "reflect",
    *,
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """What `torch_conv.thin_edges` must return."""
    blurred = _gaussian(input, kernel_size, sigma, border_type, padding, value)
    gx, gy = _gradient(blurred, "sobel", False, border_type, padding, value)
    thin = suppress(gx.square() + gy.square(), gx, gy).sqrt()
    if padding == "valid":
        thin = thin[..., 1:-1, 1:-1]
    return rounded(thin, output_dtype or input.dtype)


def suppress(m: Tensor, gx: Tensor, gy: Tensor) -> Tensor:
    """`m` (..., H, W) where it is larger than before and not smaller than after along (gx, gy), else 0."""
    h, w = m.shape[-2:]
    around = torch.nn.functional.pad(m, (1, 1, 1, 1))  # magnitudes outside are 0

    def neighbour(dy: int, dx: int) -> Tensor:
        return around[..., 1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w]

    slope = 2.0**0.5 - 1.0  # of 22.5 degrees
    across, along = gy.abs() <= slope * gx.abs(), gx.abs() <= slope * gy.abs()
    falling = (gx < 0) != (gy < 0)  # the diagonal that runs up to the right, as the y axis points down
    before = torch.where(falling, neighbour(-1, 1), neighbour(-1, -1))
    after = torch.where(falling, neighbour(1, -1), neighbour(1, 1))
    before = torch.where(across, neighbour(0, -1), torch.where(along, neighbour(-1, 0), before))
    after = torch.where(across, neighbour(0, 1), torch.where(along, neighbour(1, 0), after))
    return torch.where((m <= before) | (m < after), 0.0, m)


def gaussian_gradient_magnitude3d(
    input: Tensor,
    kernel_size: int | Sequence[int] | None,
    sigma: Numbers,
    border_type: str = "replicate",
    *,
    mode: str = "diff",
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """What `torch_conv.gaussian_gradient_magnitude3d` must return."""
    blurred = _gaussian(input, kernel_size, sigma, border_type, padding, value, axes=3)
    slope = torch.tensor([-0.5, 0.0, 0.5], dtype=torch.float64, device=input.device)
    smooth = torch.tensor(_SMOOTH[mode], dtype=torch.float64, device=input.device)
    smooth = smooth / smooth.sum()
    squares = torch.zeros((), dtype=torch.float64, device=input.device)
    for axis in range(3):
        x, y, z = (slope if a == axis else smooth for a in range(3))
        gradient = filter3d_separable(blurred, x, y, z, border_type, padding=padding, value=value)
        squares = squares + gradient.square()
    return rounded(squares.sqrt(), output_dtype or input.dtype)


def _gaussian(
    image: Tensor,
    kernel_size: int | Sequence[int] | None,
    sigma: Numbers,
    border_type: str,
    padding: str,
    value: float,
    truncate: float = 4.0,
    axes: int = 2,
) -> Tensor:
    """A Gaussian blur in float64, with the window that `truncate` sets where there is no size."""
    sigmas = [sigma] * axes if isinstance(sigma, (int, float)) else list(sigma)
    sizes = [2 * int(truncate * s + 0.5) + 1 for s in sigmas] if kernel_size is None else per_axis(kernel_size, axes)
    taps = [kernels.gaussian1d(k, s, dtype=torch.float64) for k, s in zip(sizes, sigmas, strict=True)]
    if axes == 2:
        return filter2d_separable(image.double(), taps[1], taps[0], border_type, padding=padding, value=value)
    return filter3d_separable(image.double(), taps[2], taps[1], taps[0], border_type, padding=padding, value=value)


def _gradient(
    image: Tensor, mode: str, normalized: bool, border_type: str, padding: str, value: float
) -> tuple[Tensor, Tensor]:
    """(gx, gy) of an image in float64."""
    slope = torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64, device=image.device)
    smooth = torch.tensor(_SMOOTH[mode], dtype=torch.float64, device=image.device)
    scale = 2 * smooth.sum() if normalized else 1.0
    gx = filter2d_separable(image, slope / scale, smooth, border_type, padding=padding, value=value)
    gy = filter2d_separable(image, smooth / scale, slope, border_type, padding=padding, value=value)
    return gx, gy
