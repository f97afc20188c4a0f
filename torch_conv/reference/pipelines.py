"""Chains of filters, step by step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_conv.reference._extend import rounded
from torch_conv.reference.edges import spatial_gradient, spatial_gradient3d
from torch_conv.reference.smooth import Sigma, gaussian_blur2d, gaussian_blur3d

__all__ = ["gaussian_downsample", "gaussian_gradient_magnitude3d", "gaussian_sobel", "structure_tensor", "thin_edges"]


def gaussian_downsample(
    input: Tensor,
    kernel_size: int | Sequence[int] | None = None,
    sigma: Sigma = None,
    factor: int = 2,
    border_type: str = "reflect",
    *,
    truncate: float = 4.0,
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.gaussian_downsample`."""
    image = input.double()
    blurred = gaussian_blur2d(image, kernel_size, sigma, border_type, truncate=truncate, padding=padding, value=value)
    return rounded(blurred[..., ::factor, ::factor], output_dtype or input.dtype)


def gaussian_sobel(
    input: Tensor,
    kernel_size: int | Sequence[int] | None = None,
    sigma: Sigma = None,
    border_type: str = "reflect",
    *,
    magnitude: str = "l2",
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.gaussian_sobel`."""
    gx, gy = _sobel_of_blurred(input, kernel_size, sigma, border_type, padding, value)
    total = gx.abs() + gy.abs() if magnitude == "l1" else (gx.square() + gy.square()).sqrt()
    return rounded(total, output_dtype or input.dtype)


def structure_tensor(
    input: Tensor,
    kernel_size: int | Sequence[int] | None = None,
    sigma: Sigma = None,
    border_type: str = "reflect",
    *,
    mode: str = "sobel",
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.structure_tensor`."""
    gradient = spatial_gradient(input.double(), mode, border_type=border_type, padding=padding, value=value)
    gx, gy = gradient.unbind(-3)
    smooth = [
        gaussian_blur2d(product, kernel_size, sigma, border_type, padding=padding, value=value)
        for product in (gx * gx, gx * gy, gy * gy)
    ]
    return rounded(torch.stack(smooth, -3), output_dtype or input.dtype)


def thin_edges(
    input: Tensor,
    kernel_size: int | Sequence[int] | None = None,
    sigma: Sigma = None,
    border_type: str = "reflect",
    *,
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.thin_edges`."""
    gx, gy = _sobel_of_blurred(input, kernel_size, sigma, border_type, padding, value)
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
    kernel_size: int | Sequence[int] | None = None,
    sigma: Sigma = None,
    border_type: str = "replicate",
    *,
    mode: str = "diff",
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.gaussian_gradient_magnitude3d`."""
    blurred = gaussian_blur3d(input.double(), kernel_size, sigma, border_type, padding=padding, value=value)
    gradient = spatial_gradient3d(blurred, mode, border_type=border_type, padding=padding, value=value)
    return rounded(gradient.square().sum(-4).sqrt(), output_dtype or input.dtype)


def _sobel_of_blurred(
    input: Tensor, kernel_size: int | Sequence[int] | None, sigma: Sigma, border_type: str, padding: str, value: float
) -> tuple[Tensor, ...]:
    """(gx, gy) of a smoothed image by the raw Sobel kernels, in float64."""
    blurred = gaussian_blur2d(input.double(), kernel_size, sigma, border_type, padding=padding, value=value)
    gradient = spatial_gradient(blurred, "sobel", 1, False, border_type=border_type, padding=padding, value=value)
    return gradient.unbind(-3)
