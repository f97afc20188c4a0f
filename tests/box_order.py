"""The order in which boxes add up floats, step by step. The operators must give these bits.

csrc/kernels/box/order.h defines it.
"""

import ctypes
import ctypes.util

import numpy as np
import torch
from torch import Tensor

from torch_conv.reference import _extend

_LIBM = ctypes.CDLL(ctypes.util.find_library("m"))
_FMA = {}
for _dtype, _name, _type in ((np.float32, "fmaf", ctypes.c_float), (np.float64, "fma", ctypes.c_double)):
    _function = getattr(_LIBM, _name)
    _function.restype, _function.argtypes = _type, [_type] * 3
    _FMA[_dtype] = np.vectorize(_function, otypes=[_dtype])


def box2d(image, size, border="reflect", normalized=True, padding="same", *, value=0.0, anchor=None):
    """Sums or means of an image (..., H, W) of floats, in the order of the box kernels."""
    kh, kw = size
    pads, out = _place(image.shape[-2:], size, padding, anchor)
    a = torch.float64 if image.dtype == torch.float64 else torch.float32
    rows, inside = _extend.extended(image.to(a), border, value, pads, out, size, (1, 1), (1, 1))
    if border == "skip":
        rows = torch.where(inside, rows, 0)
    window_sums = across(down(rows, kh, -2), kw)
    if border == "skip" and normalized:
        result = window_sums / counts(inside, size).to(a)
    elif normalized:
        result = mean(window_sums, kh * kw)
    else:
        result = window_sums
    if border == "zero_output":
        result = torch.where(counts(inside, size) == kh * kw, result, 0)
    return result.to(image.dtype)


def box3d(volume, size, border="replicate", normalized=True, padding="same", *, value=0.0, anchor=None):
    """Sums of a volume (..., D, H, W): sums of planes, then along z in the order of columns."""
    pads, out = _place(volume.shape[-3:], size, padding, anchor)
    a = torch.float64 if volume.dtype == torch.float64 else torch.float32
    kd, (kh, kw) = size[0], size[1:]
    rows, inside = _extend.extended(volume.to(a), border, value, pads[1:], out[1:], (kh, kw), (1, 1), (1, 1))
    if border == "skip":
        rows = torch.where(inside, rows, 0)
    sums = across(down(rows, kh, -2), kw)
    outside = torch.tensor(value * (kh * kw), dtype=torch.float64).to(a).item()
    planes, inside_z = _extend.extended(sums.movedim(-3, -1), border, outside, pads[:1], out[:1], (kd,), (1,), (1,))
    if border == "skip":
        planes = torch.where(inside_z, planes, 0)
    window_sums = down(planes, kd, -1).movedim(-1, -3)
    voxels = inside_z.to(torch.int64).unfold(-1, kd, 1).sum(-1)[:, None, None] * counts(inside, (kh, kw))
    if border == "skip" and normalized:
        result = window_sums / voxels.to(a)
    elif normalized:
        result = mean(window_sums, kd * kh * kw)
    else:
        result = window_sums
    if border == "zero_output":
        result = torch.where(voxels == kd * kh * kw, result, 0)
    return result.to(volume.dtype)


def _place(shape, size, padding, anchor):
    if padding == "valid":
        return [0] * len(size), [n - k + 1 for n, k in zip(shape, size, strict=True)]
    return anchor or [(k - 1) // 2 for k in size], list(shape)


def down(rows: Tensor, k: int, dim: int) -> Tensor:
    """Sums of k neighbours along `dim`: those of output y depend on y % 8."""
    rows = rows.movedim(dim, 0)
    outputs = rows.shape[0] - k + 1
    sums = rows.new_empty(outputs, *rows.shape[1:])
    for j in range(8):
        at = torch.tensor(range(j, outputs, 8), dtype=torch.int64)
        sums[at] = _sum_of_place(lambda i, at=at: rows[at + i], k, j)
    return sums.movedim(0, dim)


def _sum_of_place(row, k, j):
    """row(i): row i of the windows of the outputs that are the j-th of their groups."""
    if k < 9:
        total = row(0)
        for i in range(1, k):
            total = total + row(i)
        return total
    # The group's rows 0, 1, ... are the window's -j, 1 - j, ...
    lead = row(7 - j)
    for i in range(6, j - 1, -1):
        lead = row(i - j) + lead
    trail = row(k - 1 - j)
    for i in range(1, j + 1):
        trail = trail + row(k - 1 - j + i)
    middle = [row(i - j) for i in range(8, k - 1)]
    rest, blocks = middle[: len(middle) % 8], middle[len(middle) % 8 :]
    terms = [_chain(rest)] if rest else []
    for i in range(0, len(blocks), 8):
        r = blocks[i : i + 8]
        terms.append(((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7])))
    return (lead + _chain(terms)) + trail if terms else lead + trail


def _chain(terms):
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def across(sums: Tensor, k: int) -> Tensor:
    """Sums of k neighbours along the last dimension, by doubling."""
    total, m = None, 1
    while m <= k:
        if k & m and total is None:
            total = sums
        elif k & m:
            n = total.shape[-1] - m
            total = sums[..., :n] + total[..., m:]
        sums = sums[..., : sums.shape[-1] - m] + sums[..., m:] if 2 * m <= k else sums
        m *= 2
    return total


def mean(sums: Tensor, count: int) -> Tensor:
    """sums / count by a reciprocal of two parts."""
    if count == 1:
        return sums
    real = np.float64 if sums.dtype == torch.float64 else np.float32
    hi = real(1.0 / count)
    left = _FMA[np.float64](-np.float64(hi), np.float64(count), 1.0)
    if left <= 0:
        hi = np.nextafter(hi, real(0))
        left = _FMA[np.float64](-np.float64(hi), np.float64(count), 1.0)
    lo = real(left / count)
    numbers = sums.numpy()
    if numbers.size == 0:
        return sums
    return torch.from_numpy(_FMA[real](numbers, hi, numbers * lo))


def counts(inside: Tensor, size) -> Tensor:
    """The number of pixels of every window that are inside the image."""
    total = inside.to(torch.int64)
    for dim, k in zip((-2, -1), size, strict=True):
        total = total.unfold(dim, k, 1).sum(-1)
    return total
