"""The kernels of OpenCV's named filters: taps on the CPU, in OpenCV's order, x first where rows come in pairs."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from torch_conv.functional._gaussian_kernels import outer


def gaussian_rows(
    width: int, height: int, sigma_x: float, sigma_y: float, bits: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    x, y = _gaussian(width, sigma_x, bits), _gaussian(height, sigma_y, bits)
    return torch.tensor(x, dtype=dtype, device="cpu"), torch.tensor(y, dtype=dtype, device="cpu")


# OpenCV's taps for a sigma of 0, in units of 1/256.
_FIXED_GAUSSIANS = {
    1: (256,),
    3: (64, 128, 64),
    5: (16, 64, 96, 64, 16),
    7: (8, 28, 56, 72, 56, 28, 8),
    9: (4, 13, 30, 51, 60, 51, 30, 13, 4),
}


def _gaussian(size: int, sigma: float, bits: int) -> list[float]:
    """A Gaussian's taps; with `bits`, multiples of 2^-bits that add up to 1."""
    if sigma <= 0 and size in _FIXED_GAUSSIANS:
        return [tap / 256 for tap in _FIXED_GAUSSIANS[size]]
    if sigma <= 0:
        sigma = 0.15 * size + 0.35
    # Distances are doubled to be whole numbers.
    weights = [math.exp(-0.125 / (sigma * sigma) * (x * x)) for x in range(1 - size, size, 2)]
    middle = size // 2
    total = math.fsum(weights)
    taps = [weight / total for weight in weights]
    if bits == 0:
        return taps
    # From the ends inwards every tap takes the rounding error of its neighbour. The middle tap takes the rest.
    one, error = 1 << bits, 0.0
    half: list[int] = []
    for tap in taps[:middle]:
        exact = tap * one + error
        half.append(round(exact))
        error = exact - half[-1]
    return [tap / one for tap in [*half, one - 2 * sum(half), *reversed(half)]]


@functools.cache
def differences(size: int, order: int) -> tuple[int, ...]:
    """`order` differences of neighbours, then sums of neighbours until there are `size` taps."""
    taps = [1]
    for step in range(size - 1):
        sign = -1 if step < order else 1
        taps = [sign * a + b for a, b in zip([*taps, 0], [0, *taps], strict=True)]
    return tuple(taps)


def derivative_rows(
    x: Sequence[int], y: Sequence[int], factor_x: float, factor_y: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    return (
        torch.tensor([tap * factor_x for tap in x], dtype=dtype, device="cpu"),
        torch.tensor([tap * factor_y for tap in y], dtype=dtype, device="cpu"),
    )


_LAPLACIANS = {1: [[0, 1, 0], [1, -4, 1], [0, 1, 0]], 3: [[2, 0, 2], [0, -8, 0], [2, 0, 2]]}


def laplacian_parts(size: int, scale: float, dtype: torch.dtype) -> list[Tensor]:
    """One dense kernel up to 7x7, where it is faster; else the taps [y, x, y, x] of two derivatives in one launch."""
    if size in _LAPLACIANS:
        return [(torch.tensor(_LAPLACIANS[size], dtype=torch.float64, device="cpu") * scale).to(dtype)]
    second, smooth = (torch.tensor(differences(size, n), dtype=torch.float64, device="cpu") for n in (2, 0))
    rows = [smooth * scale, second, second * scale, smooth]
    if size <= 7:
        return [(outer(rows[:2]) + outer(rows[2:])).to(dtype)]
    return [row.to(dtype) for row in rows]
