"""Convolutions as torch.nn.functional defines them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_conv.dispatch.borders import border_name
from torch_conv.dispatch.numbers import per_axis
from torch_conv.reference._extend import accumulation, extended, reads, rounded

__all__ = ["conv1d", "conv2d", "conv3d"]


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    *,
    padding_mode: str = "zeros",
    activation: str | None = None,
) -> Tensor:
    """The result of `torch_conv.conv1d`."""
    return _convolve(1, input, weight, bias, stride, padding, dilation, groups, padding_mode, activation)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    *,
    padding_mode: str = "zeros",
    activation: str | None = None,
) -> Tensor:
    """The result of `torch_conv.conv2d`."""
    return _convolve(2, input, weight, bias, stride, padding, dilation, groups, padding_mode, activation)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    *,
    padding_mode: str = "zeros",
    activation: str | None = None,
) -> Tensor:
    """The result of `torch_conv.conv3d`."""
    return _convolve(3, input, weight, bias, stride, padding, dilation, groups, padding_mode, activation)


def _convolve(
    axes: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int | Sequence[int],
    padding: str | int | Sequence[int],
    dilation: int | Sequence[int],
    groups: int,
    padding_mode: str,
    activation: str | None,
) -> Tensor:
    """A convolution over the last `axes` dimensions."""
    if weight.dim() != axes + 2:
        raise ValueError(f"conv{axes}d: weight must have {axes + 2} dimensions, got {weight.dim()}")
    n, k, s, d = input.shape[-axes:], weight.shape[-axes:], per_axis(stride, axes), per_axis(dilation, axes)
    spare = [step * (size - 1) for size, step in zip(k, d, strict=True)]
    if padding == "same":  # an odd number of pixels to add puts one more after than before
        before, after = [p // 2 for p in spare], [p - p // 2 for p in spare]
    else:
        before = after = [0] * axes if isinstance(padding, str) else per_axis(padding, axes)
    sizes = [(n[a] + before[a] + after[a] - spare[a] - 1) // s[a] + 1 for a in range(axes)]
    border = border_name(padding_mode)
    image, _ = extended(input.double(), border, 0.0, before, sizes, k, s, d)

    window = accumulation(weight, input)
    c_out, c_group = weight.shape[:2]
    total = torch.zeros(*input.shape[: -axes - 1], c_out, *sizes, dtype=torch.float64, device=input.device)
    for co in range(c_out):
        first = co // (c_out // groups) * c_group
        output = total.select(-axes - 1, co)
        for ci in range(c_group):
            channel = image.select(-axes - 1, first + ci)
            for at, w in zip(reads(sizes, k, s, d), window[co, ci].flatten(), strict=True):
                output.addcmul_(w, channel[at])
    if bias is not None:
        total += accumulation(bias, input).reshape(-1, *[1] * axes)
    if activation is not None:
        total = getattr(F, activation)(total)
    return rounded(total, input.dtype)
