"""Kernels made of Gaussians: float64 taps on the CPU, made once for each set of numbers.

The launch carries the taps, so a call neither synchronises nor waits for a copy. TorchScript compiles this module.
"""
# ruff: noqa: UP007, UP045

from typing import Optional, Union

import torch
from torch import Tensor

from torch_conv.dispatch.symbols import is_known
from torch_conv.functional._composites import sum_dtype
from torch_conv.functional._kernel_arguments import (
    check_host_sigma,
    check_rows,
    odd_sizes,
    positive_pair,
    positive_triple,
)
from torch_conv.functional._kernel_cache import cached, with_cache
from torch_conv.functional._types import BroadcastingList2, BroadcastingList3, Numbers, Numbers3
from torch_conv.kernels import gaussian_of_symbols, gaussian_taps, size_of

# "Parts" are a sum of outer products: [kernel], or the taps of each product along every axis, [y, x, y, x, ...] for
# images and [z, y, x] for volumes. All products have one size, so that the sum of the passes equals the dense kernel
# for every border, 'skip' and 'zero_output' included.


def _parts(rows: list[Tensor], algorithm: str, dtype: torch.dtype) -> list[Tensor]:
    """One dense kernel for 'direct', taps per axis for 'separable'. 'auto' takes the dense kernel up to 27 taps."""
    if algorithm not in ["auto", "separable", "direct"]:  # public() puts the right name
        raise RuntimeError(f"filter2d: algorithm must be 'auto', 'separable' or 'direct', got '{algorithm}'")
    taps = 1
    for row in rows:
        taps *= row.size(-1)
    if algorithm == "direct" or (algorithm == "auto" and taps <= 27):
        return [outer(rows).to(dtype)]
    return [row.to(dtype) for row in rows]


def _is_dense(ky: int, kx: int, algorithm: str) -> bool:
    """Whether a sum of products over images is computed with one dense kernel (ky, kx).

    Up to 7x7 the dense kernel runs at 90 % of a copy or more (float32, one NVIDIA H200). Beyond it passes cost less.
    """
    if algorithm not in ["auto", "direct", "fused", "separable"]:  # public() puts the right name
        raise RuntimeError(f"filter2d: algorithm must be 'auto', 'direct', 'fused' or 'separable', got '{algorithm}'")
    return algorithm == "direct" or (algorithm == "auto" and ky * kx <= 49)


def outer(rows: list[Tensor]) -> Tensor:
    """The outer product along the last dimensions; the dimensions before them are shared."""
    kernel = rows[0]
    for axis in range(1, len(rows)):
        row = rows[axis]
        for _ in range(axis):
            row = row.unsqueeze(-2)
        kernel = kernel.unsqueeze(-1) * row
    return kernel


def gaussian_parts(
    name: str,
    kernel_size: Optional[BroadcastingList2[int]],
    sigma: Optional[Union[Tensor, Numbers]],
    truncate: float,
    algorithm: str,
    input: Tensor,
) -> list[Tensor]:
    """A Gaussian for an image; batched taps where sigma is a tensor (B, 2)."""
    if sigma is None:
        raise ValueError(f"{name}: sigma must be given")
    dtype = sum_dtype(input)
    if isinstance(sigma, Tensor):
        check_rows(name, sigma, input, 2)
    if not torch.jit.is_scripting() and not isinstance(sigma, Tensor):
        return cached(_gaussian_parts, name, kernel_size, sigma, truncate, algorithm, dtype)
    return _gaussian_parts(name, kernel_size, sigma, truncate, algorithm, dtype)


def _gaussian_parts(
    name: str,
    kernel_size: Optional[BroadcastingList2[int]],
    sigma: Union[Tensor, Numbers],
    truncate: float,
    algorithm: str,
    dtype: torch.dtype,
) -> list[Tensor]:
    return _parts(_gaussian_pair(name, kernel_size, sigma, truncate), algorithm, dtype)


def gaussian_parts3d(
    name: str,
    kernel_size: Optional[BroadcastingList3[int]],
    sigma: Optional[Union[Tensor, Numbers3]],
    truncate: float,
    algorithm: str,
    input: Tensor,
) -> list[Tensor]:
    """A Gaussian for a volume; batched taps where sigma is a tensor (B, 3)."""
    if sigma is None:
        raise ValueError(f"{name}: sigma must be given")
    dtype = sum_dtype(input)
    if isinstance(sigma, Tensor):
        check_rows(name, sigma, input, 3)
    if not torch.jit.is_scripting() and not isinstance(sigma, Tensor):
        return cached(_gaussian_parts3d, name, kernel_size, sigma, truncate, algorithm, dtype)
    return _gaussian_parts3d(name, kernel_size, sigma, truncate, algorithm, dtype)


def _gaussian_parts3d(
    name: str,
    kernel_size: Optional[BroadcastingList3[int]],
    sigma: Union[Tensor, Numbers3],
    truncate: float,
    algorithm: str,
    dtype: torch.dtype,
) -> list[Tensor]:
    sizes: Optional[list[int]] = None
    if kernel_size is not None:
        sizes = odd_sizes(name, kernel_size, 3)
    if isinstance(sigma, Tensor):
        return _parts(_gaussians_per_sample(name, sizes, sigma, 3), algorithm, dtype)
    return _parts(_gaussians(name, sizes, positive_triple(name, "sigma", sigma), truncate), algorithm, dtype)


def unsharp_parts(
    kernel_size: Optional[BroadcastingList2[int]],
    sigma: Optional[Union[Tensor, Numbers]],
    amount: float,
    algorithm: str,
    input: Tensor,
) -> list[Tensor]:
    """One dense kernel, (1 + amount) times the pixel minus amount times a Gaussian; or the Gaussian, [y, x]."""
    if sigma is None:
        raise ValueError("unsharp_mask: sigma must be given")
    dtype = sum_dtype(input)
    if isinstance(sigma, Tensor):
        check_rows("unsharp_mask", sigma, input, 2)
    if not torch.jit.is_scripting() and not isinstance(sigma, Tensor):
        return cached(_unsharp_parts, kernel_size, sigma, amount, algorithm, dtype)
    return _unsharp_parts(kernel_size, sigma, amount, algorithm, dtype)


def _unsharp_parts(
    kernel_size: Optional[BroadcastingList2[int]],
    sigma: Union[Tensor, Numbers],
    amount: float,
    algorithm: str,
    dtype: torch.dtype,
) -> list[Tensor]:
    y, x = _gaussian_pair("unsharp_mask", kernel_size, sigma, 4.0)
    delta_y, delta_x = _delta_like(y), _delta_like(x)
    # Each term is a tensor times the number: torch.compile keeps no sum of numbers as a symbol.
    pixel, blurred = [delta_y + amount * delta_y, delta_x], [amount * y, x]
    if _is_dense(y.size(-1), x.size(-1), algorithm):
        return [(outer(pixel) - outer(blurred)).to(dtype)]
    return [y.to(dtype), x.to(dtype)]


@with_cache
def difference_parts(
    low_sigma: Numbers, high_sigma: Optional[Numbers], truncate: float, algorithm: str, dtype: torch.dtype
) -> list[Tensor]:
    """A Gaussian, padded with zeros to the size of a wider one, minus the wider one."""
    name = "difference_of_gaussians"
    low = positive_pair(name, "low_sigma", low_sigma)
    high = [1.6 * low[0], 1.6 * low[1]]
    if high_sigma is not None:
        high = positive_pair(name, "high_sigma", high_sigma)
    if high[0] < low[0] or high[1] < low[1]:
        raise ValueError(f"{name}: high_sigma must be at least low_sigma {(low[0], low[1])}, got {(high[0], high[1])}")
    wide_y, wide_x = _truncated_gaussian(name, high[0], truncate), _truncated_gaussian(name, high[1], truncate)
    narrow_y, narrow_x = _truncated_gaussian(name, low[0], truncate), _truncated_gaussian(name, low[1], truncate)
    narrow = [_centred(narrow_y, wide_y.size(0)), _centred(narrow_x, wide_x.size(0))]
    return _sum_parts(narrow, [-wide_y, wide_x], algorithm, dtype)


@with_cache
def curvature_parts(sigma: Numbers, truncate: float, algorithm: str, dtype: torch.dtype) -> list[Tensor]:
    """The second derivatives of a Gaussian along y and along x."""
    sy, sx = positive_pair("gaussian_laplace", "sigma", sigma)
    y, x = _truncated_gaussian("gaussian_laplace", sy, truncate), _truncated_gaussian("gaussian_laplace", sx, truncate)
    return _sum_parts([_second_derivative(y, sy), x], [y, _second_derivative(x, sx)], algorithm, dtype)


def _sum_parts(one: list[Tensor], other: list[Tensor], algorithm: str, dtype: torch.dtype) -> list[Tensor]:
    if _is_dense(one[0].size(-1), one[1].size(-1), algorithm):
        return [(outer(one) + outer(other)).to(dtype)]
    return [row.to(dtype) for row in one + other]


# The taps of single Gaussians, in float64.


def _gaussian_pair(
    name: str,
    kernel_size: Optional[BroadcastingList2[int]],
    sigma: Union[Tensor, Numbers],
    truncate: float,
) -> list[Tensor]:
    """The taps along y and along x of a Gaussian: (k,), or (B, k) where sigma is a tensor (B, 2)."""
    sizes: Optional[list[int]] = None
    if kernel_size is not None:
        sizes = odd_sizes(name, kernel_size, 2)
    if isinstance(sigma, Tensor):
        return _gaussians_per_sample(name, sizes, sigma, 2)
    return _gaussians(name, sizes, positive_pair(name, "sigma", sigma), truncate)


def _gaussians(name: str, sizes: Optional[list[int]], sigmas: list[float], truncate: float) -> list[Tensor]:
    """A Gaussian's taps (k,) along each axis."""
    rows: list[Tensor] = []
    for axis in range(len(sigmas)):
        size = size_of(name, sigmas[axis], truncate) if sizes is None else sizes[axis]
        rows.append(_gaussian(size, sigmas[axis]))
    return rows


def _gaussians_per_sample(name: str, sizes: Optional[list[int]], sigma: Tensor, axes: int) -> list[Tensor]:
    """The taps (B, k) along each axis of a Gaussian per row of `sigma`, which is (B, axes)."""
    if sizes is None:
        raise ValueError(f"{name}: kernel_size must be given where sigma is a tensor")
    if not torch.jit.is_scripting():
        check_host_sigma(name, sigma)
    return [_gaussian_rows(sizes[axis], sigma[:, axis : axis + 1]) for axis in range(axes)]


def _gaussian_rows(size: int, sigma: Tensor) -> Tensor:
    """`_gaussian` for every sigma of a column (B, 1), on its device."""
    x = torch.arange(size, dtype=torch.float64, device=sigma.device) - 0.5 * (size - 1)
    taps = torch.exp(-0.5 * (x / sigma.to(torch.float64)).square())
    return taps / taps.sum(-1, keepdim=True)


def _gaussian(size: int, sigma: float) -> Tensor:
    if not torch.jit.is_scripting():  # noqa: SIM102 (TorchScript skips what is under this condition alone)
        if not (is_known(size) and is_known(sigma)):
            return gaussian_of_symbols(size, sigma)
    return exact_tensor(gaussian_taps(size, sigma))


def _truncated_gaussian(name: str, sigma: float, truncate: float) -> Tensor:
    return _gaussian(size_of(name, sigma, truncate), sigma)


def _centred(taps: Tensor, size: int) -> Tensor:
    wider = torch.zeros((size - taps.size(0)) // 2, dtype=torch.float64, device="cpu")
    return torch.cat([wider, taps, wider])


def _second_derivative(gaussian: Tensor, sigma: float) -> Tensor:
    # of exp(-x^2 / (2 s^2)): x^2 / s^4 - 1 / s^2 times it
    x = torch.arange(gaussian.numel(), dtype=torch.float64, device="cpu") - gaussian.numel() // 2
    return gaussian * ((x / sigma).square() - 1.0) / (sigma * sigma)


def _delta_like(taps: Tensor) -> Tensor:
    """Taps (k,) of 0 with a 1 in the middle, on the device of `taps`."""
    k = taps.size(-1)
    delta = torch.zeros(k, dtype=torch.float64, device=taps.device)
    delta[k // 2] = 1.0
    return delta


def exact_tensor(taps: list[float]) -> Tensor:
    if torch.jit.is_scripting():  # where torch.tensor() rounds the numbers of a list to float32
        exact = torch.zeros(len(taps), dtype=torch.float64, device="cpu")
        for i in range(len(taps)):
            exact[i].fill_(taps[i])
        return exact
    return torch.tensor(taps, dtype=torch.float64, device="cpu")
