"""Gaussians of images and volumes: one dense kernel each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_conv.dispatch.numbers import per_axis
from torch_conv.reference.filters import filter2d, filter2d_separable, filter3d_separable

__all__ = ["difference_of_gaussians", "gaussian_blur2d", "gaussian_blur3d", "gaussian_laplace", "unsharp_mask"]

Numbers = float | Sequence[float]
Sigma = Numbers | Tensor | None


def gaussian_blur2d(
    input: Tensor,
    kernel_size: int | Sequence[int] | None = None,
    sigma: Sigma = None,
    border_type: str = "reflect",
    separable: bool = True,
    *,
    truncate: float = 4.0,
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.gaussian_blur2d`: `filter2d` with a sampled Gaussian."""
    y, x = _gaussians("gaussian_blur2d", kernel_size, sigma, truncate, 2)
    dtype = output_dtype or input.dtype
    return filter2d_separable(input.double(), x, y, border_type, padding=padding, value=value, output_dtype=dtype)


def gaussian_blur3d(
    input: Tensor,
    kernel_size: int | Sequence[int] | None = None,
    sigma: Sigma = None,
    border_type: str = "replicate",
    *,
    truncate: float = 4.0,
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.gaussian_blur3d`: `filter3d` with a sampled Gaussian."""
    z, y, x = _gaussians("gaussian_blur3d", kernel_size, sigma, truncate, 3)
    dtype = output_dtype or input.dtype
    return filter3d_separable(input.double(), x, y, z, border_type, padding=padding, value=value, output_dtype=dtype)


def unsharp_mask(
    input: Tensor,
    kernel_size: int | Sequence[int] | None = None,
    sigma: Sigma = None,
    border_type: str = "reflect",
    *,
    amount: float = 1.0,
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.unsharp_mask`: `filter2d` with the pixel + amount * (the pixel - a Gaussian)."""
    blur = _outer(*_gaussians("unsharp_mask", kernel_size, sigma, 4.0, 2))
    pixel = torch.zeros_like(blur)
    pixel[..., blur.shape[-2] // 2, blur.shape[-1] // 2] = 1
    window = pixel + amount * (pixel - blur)
    dtype = output_dtype or input.dtype
    return filter2d(input.double(), window, border_type, padding=padding, value=value, output_dtype=dtype)


def difference_of_gaussians(
    input: Tensor,
    low_sigma: Numbers,
    high_sigma: Numbers | None = None,
    border_type: str = "reflect",
    *,
    truncate: float = 4.0,
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.difference_of_gaussians`: `filter2d` with a narrow Gaussian minus a wide one."""
    if high_sigma is None:
        high_sigma = [1.6 * s for s in per_axis(low_sigma, 2)]
    low, high = (
        _outer(*_gaussians("difference_of_gaussians", None, sigma, truncate, 2)) for sigma in (low_sigma, high_sigma)
    )
    dy, dx = ((wide - narrow) // 2 for wide, narrow in zip(high.shape, low.shape, strict=True))
    window = F.pad(low, (dx, dx, dy, dy)) - high
    dtype = output_dtype or input.dtype
    return filter2d(input.double(), window, border_type, padding=padding, value=value, output_dtype=dtype)


def gaussian_laplace(
    input: Tensor,
    sigma: Numbers,
    border_type: str = "reflect",
    *,
    truncate: float = 4.0,
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.gaussian_laplace`: `filter2d` with the sum of a Gaussian's second derivatives."""
    y, x = _gaussians("gaussian_laplace", None, sigma, truncate, 2)
    sigma_y, sigma_x = per_axis(sigma, 2)
    window = _outer(_second_derivative(y, sigma_y), x) + _outer(y, _second_derivative(x, sigma_x))
    dtype = output_dtype or input.dtype
    return filter2d(input.double(), window, border_type, padding=padding, value=value, output_dtype=dtype)


def _gaussians(
    name: str, kernel_size: int | Sequence[int] | None, sigma: Sigma, truncate: float, axes: int
) -> list[Tensor]:
    """The taps along every axis in float64: (k,), or (B, k) where sigma is a tensor (B, axes)."""
    if sigma is None:
        raise ValueError(f"{name}: sigma must be given")
    if isinstance(sigma, Tensor):
        sigmas = list(sigma.double().unbind(-1))
    else:
        sigmas = [torch.tensor(s, dtype=torch.float64) for s in per_axis(sigma, axes)]
    if kernel_size is None:
        sizes = [2 * int(truncate * s.item() + 0.5) + 1 for s in sigmas]
    else:
        sizes = per_axis(kernel_size, axes)
    return [_gaussian(k, s) for k, s in zip(sizes, sigmas, strict=True)]


def _gaussian(size: int, sigma: Tensor) -> Tensor:
    """exp(-x^2 / (2 sigma^2)) around the middle of `size` taps, divided by its sum."""
    taps = torch.exp(-0.5 * (_positions(size, sigma.device) / sigma[..., None]) ** 2)
    return taps / taps.sum(-1, keepdim=True)


def _second_derivative(gaussian: Tensor, sigma: float) -> Tensor:
    """(x^2 / sigma^4 - 1 / sigma^2) times a Gaussian's taps."""
    x = _positions(len(gaussian), gaussian.device)
    return gaussian * (x**2 / sigma**4 - 1 / sigma**2)


def _positions(size: int, device: torch.device) -> Tensor:
    """Distances from the middle of an odd kernel, in pixels."""
    return torch.arange(size, dtype=torch.float64, device=device) - size // 2


def _outer(y: Tensor, x: Tensor) -> Tensor:
    return y[..., :, None] * x[..., None, :]
