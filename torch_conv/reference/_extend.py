"""Steps of all references: the extended image, the positions of taps, dtypes and the last rounding."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor


def accumulation(taps: Tensor, image: Tensor) -> Tensor:
    """Taps as a kernel sees them: float32, or float64 for float64 images; then widened."""
    return taps.to(image.device, torch.float64 if image.dtype == torch.float64 else torch.float32).double()


def length(n: int, k: int, s: int, d: int, padding: str) -> int:
    return (n - d * (k - 1) - 1) // s + 1 if padding == "valid" else -(-n // s)


def reads(sizes: Sequence[int], k: Sequence[int], s: Sequence[int], d: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """An index for every tap of a kernel, in order: the pixel of the extended image for every output."""
    axes: list[list[Any]] = []
    for size, taps, step, distance in zip(sizes, k, s, d, strict=True):
        extent = (size - 1) * step + 1 if size else 0
        axes.append([slice(i * distance, i * distance + extent, step) for i in range(taps)])
    return itertools.product([...], *axes)


def extended(
    image: Tensor,
    border: str,
    value: float,
    before: Sequence[int],
    sizes: Sequence[int],
    k: Sequence[int],
    s: Sequence[int],
    d: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """The image extended by the footprint, and a mask over its last len(k) dimensions of the pixels inside."""
    axes, inside = len(k), torch.ones((), dtype=torch.bool, device=image.device)
    for axis in range(axes):
        dim = axis - axes
        n = image.shape[dim]
        extent = max(sizes[axis] - 1, 0) * s[axis] + (k[axis] - 1) * d[axis] + 1
        position = torch.arange(extent, device=image.device) - before[axis]
        if n == 0 or image.numel() == 0:
            image = image.new_zeros(*image.shape[:dim], extent, *image.shape[dim:][1:])
        else:
            image = image.index_select(dim, source_of(position, n, border))
        inside = inside[..., None] & (position >= 0) & (position < n)
    if border in ("constant", "zero_output"):
        image = torch.where(inside, image, value if border == "constant" else 0.0)
    return image, inside


def source_of(position: Tensor, n: int, border: str) -> Tensor:
    """The pixel that each position on an axis of n pixels reads, by writing out the repeated pattern."""
    row = list(range(n))
    if border == "reflect":
        pattern = row + row[-2:0:-1]  # abcd cb
    elif border == "symmetric":
        pattern = row + row[::-1]  # abcd dcba
    elif border == "circular":
        pattern = row
    elif border in ("replicate", "constant", "skip", "zero_output"):
        return position.clamp(0, n - 1)  # the caller masks pixels outside, except for 'replicate'
    else:
        raise ValueError(f"reference: unknown border {border!r}")
    return torch.tensor(pattern, device=position.device)[position.remainder(len(pattern))]


def rounded(total: Tensor, dtype: torch.dtype) -> Tensor:
    """Integers: half to even, clamped, NaN becomes 0. Floats: rounded to nearest."""
    if dtype.is_floating_point:
        return total.to(dtype)
    limits = torch.iinfo(dtype)
    return (
        total.nan_to_num(nan=0.0, posinf=limits.max, neginf=limits.min).round().clamp(limits.min, limits.max).to(dtype)
    )
