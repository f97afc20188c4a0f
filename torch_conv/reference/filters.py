"""Filters of images and volumes: dense and separable kernels, a box."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_conv.dispatch.borders import border_name
from torch_conv.dispatch.numbers import per_axis
from torch_conv.reference._extend import accumulation, extended, length, reads, rounded

__all__ = ["box_blur", "box_blur3d", "filter1d", "filter2d", "filter2d_separable", "filter3d", "filter3d_separable"]


def filter2d(
    input: Tensor,
    kernel: Tensor,
    border_type: str = "reflect",
    normalized: bool = False,
    padding: str = "same",
    behaviour: str = "corr",
    *,
    value: float = 0.0,
    anchor: int | Sequence[int] | None = None,
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.filter2d`."""
    return _filter(
        2, input, kernel, border_type, normalized, padding, behaviour, value, anchor, stride, dilation, output_dtype
    )


def filter3d(
    input: Tensor,
    kernel: Tensor,
    border_type: str = "replicate",
    normalized: bool = False,
    behaviour: str = "corr",
    *,
    padding: str = "same",
    value: float = 0.0,
    anchor: int | Sequence[int] | None = None,
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.filter3d`."""
    return _filter(
        3, input, kernel, border_type, normalized, padding, behaviour, value, anchor, stride, dilation, output_dtype
    )


def _filter(
    axes: int,
    input: Tensor,
    kernel: Tensor,
    border_type: str,
    normalized: bool,
    padding: str,
    behaviour: str,
    value: float,
    anchor: int | Sequence[int] | None,
    stride: int | Sequence[int],
    dilation: int | Sequence[int],
    output_dtype: torch.dtype | None,
) -> Tensor:
    """The filters over the last `axes` dimensions."""
    if kernel.dim() > axes and input.dim() < axes + 2:  # windows per sample or channel: write every dimension out
        lead = axes + 2 - input.dim()
        whole = input[(None,) * lead]
        options = (border_type, normalized, padding, behaviour, value, anchor, stride, dilation, output_dtype)
        return _filter(axes, whole, kernel, *options)[(0,) * lead]
    spatial = tuple(range(-axes, 0))
    window = accumulation(kernel, input)
    if behaviour == "conv":
        window = window.flip(spatial)
    if window.dim() == axes + 1:
        window = window.unsqueeze(1)  # (B, 1, ...): one per sample
    n, k, s, d = input.shape[-axes:], window.shape[-axes:], per_axis(stride, axes), per_axis(dilation, axes)
    middle = [(size - 1) // 2 for size in k] if anchor is None else per_axis(anchor, axes)
    middle = [size // 2 if a == -1 else a for a, size in zip(middle, k, strict=True)]
    before = [0] * axes if padding == "valid" else [a * step for a, step in zip(middle, d, strict=True)]
    sizes = [length(*axis, padding) for axis in zip(n, k, s, d, strict=True)]
    border = border_name(border_type)
    image, inside = extended(input.double(), border, value, before, sizes, k, s, d)

    weight = window.abs().sum(spatial, keepdim=True)
    if normalized and border != "skip":
        window = window / weight
    total = torch.zeros(*input.shape[:-axes], *sizes, dtype=torch.float64, device=input.device)
    weight = torch.zeros_like(total)
    whole = torch.ones(sizes, dtype=torch.bool, device=input.device)
    taps = window[(..., *[None] * axes)].flatten(-2 * axes, -axes - 1).unbind(-axes - 1)
    for at, w in zip(reads(sizes, k, s, d), taps, strict=True):
        if border == "skip":
            total += torch.where(inside[at], w * image[at], 0.0)
            weight += torch.where(inside[at], w.abs(), 0.0)
        else:
            total.addcmul_(w, image[at])
        if border == "zero_output":
            whole &= inside[at]
    if border == "skip" and normalized:
        total = total / weight
    if border == "zero_output":
        total = torch.where(whole, total, 0.0)
    return rounded(total, output_dtype or input.dtype)


def filter2d_separable(
    input: Tensor,
    kernel_x: Tensor,
    kernel_y: Tensor,
    border_type: str = "reflect",
    normalized: bool = False,
    padding: str = "same",
    *,
    value: float = 0.0,
    anchor: int | Sequence[int] | None = None,
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.filter2d_separable`: `filter2d` with the outer product of the two kernels."""
    y, x = (accumulation(k, input) for k in (kernel_y, kernel_x))
    total = filter2d(
        input.double(),
        y[..., :, None] * x[..., None, :],
        border_type,
        normalized,
        padding,
        value=value,
        anchor=anchor,
        stride=stride,
        dilation=dilation,
    )
    return rounded(total, output_dtype or input.dtype)


def filter3d_separable(
    input: Tensor,
    kernel_x: Tensor,
    kernel_y: Tensor,
    kernel_z: Tensor,
    border_type: str = "replicate",
    normalized: bool = False,
    *,
    padding: str = "same",
    value: float = 0.0,
    anchor: int | Sequence[int] | None = None,
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.filter3d_separable`: `filter3d` with the outer product of the three kernels."""
    z, y, x = (accumulation(k, input) for k in (kernel_z, kernel_y, kernel_x))
    total = filter3d(
        input.double(),
        z[..., :, None, None] * y[..., None, :, None] * x[..., None, None, :],
        border_type,
        normalized,
        padding=padding,
        value=value,
        anchor=anchor,
        stride=stride,
        dilation=dilation,
    )
    return rounded(total, output_dtype or input.dtype)


def box_blur(
    input: Tensor,
    kernel_size: int | Sequence[int],
    border_type: str = "reflect",
    separable: bool = True,
    *,
    normalized: bool = True,
    anchor: int | Sequence[int] | None = None,
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.box_blur`: `filter2d` with a kernel of ones."""
    kernel = torch.ones(*per_axis(kernel_size, 2), dtype=torch.float64, device=input.device)
    total = filter2d(input.double(), kernel, border_type, normalized, padding, value=value, anchor=anchor)
    return rounded(total, output_dtype or input.dtype)


def box_blur3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    border_type: str = "replicate",
    *,
    normalized: bool = True,
    anchor: int | Sequence[int] | None = None,
    padding: str = "same",
    value: float = 0.0,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.box_blur3d`: `filter3d` with a kernel of ones."""
    kernel = torch.ones(*per_axis(kernel_size, 3), dtype=torch.float64, device=input.device)
    total = filter3d(input.double(), kernel, border_type, normalized, padding=padding, value=value, anchor=anchor)
    return rounded(total, output_dtype or input.dtype)


def filter1d(
    input: Tensor,
    kernel: Tensor,
    border_type: str = "reflect",
    normalized: bool = False,
    padding: str = "same",
    behaviour: str = "corr",
    *,
    dim: int = -1,
    value: float = 0.0,
    anchor: int | None = None,
    stride: int = 1,
    dilation: int = 1,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """The result of `torch_conv.filter1d`: every row along `dim` is an image of one row."""
    rows = input.movedim(dim, -1).unsqueeze(-2)
    window = kernel.unsqueeze(-2)
    if kernel.dim() > 1:  # (B, k) or (B, C, k), to stand over (B, C, ..., 1, L)
        lead = [*kernel.shape[:-1], 1][:2] + [1] * (input.dim() - 3)
        window = kernel.reshape(*lead, 1, kernel.shape[-1])
    result = filter2d(
        rows,
        window,
        border_type,
        normalized,
        padding,
        behaviour,
        value=value,
        anchor=None if anchor is None else (0, anchor),
        stride=(1, stride),
        dilation=(1, dilation),
        output_dtype=output_dtype,
    )
    return result.squeeze(-2).movedim(-1, dim)
