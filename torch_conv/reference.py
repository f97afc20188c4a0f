"""Slow, obviously right versions of the filters in plain torch: the oracle of tests and documentation.

Everything is summed in float64, tap by tap, on the extended image that the border describes, and rounded once.
Signatures are those of `torch_conv` without what says how to compute (`algorithm`, `out`).

    >>> import torch
    >>> from torch_conv import reference
    >>> reference.filter1d(torch.tensor([8., 2, 5, 4, 1, 7, 3]), torch.tensor([1., 3, 5, 3, 1]), "constant")
    tensor([51., 53., 52., 47., 46., 51., 37.])
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "box_blur",
    "box_blur3d",
    "conv1d",
    "conv2d",
    "conv3d",
    "filter1d",
    "filter2d",
    "filter2d_separable",
    "filter3d",
    "filter3d_separable",
]

_ALIASES = {
    "zeros": "constant",
    "edge": "replicate",
    "nearest": "replicate",
    "mirror": "reflect",
    "reflect_101": "reflect",
    "reflect101": "reflect",
    "reflect_1001": "symmetric",
    "grid-mirror": "symmetric",
    "wrap": "circular",
    "grid-wrap": "circular",
}


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
    """What `torch_conv.filter2d` must return."""
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
    """What `torch_conv.filter3d` must return."""
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
    window = _accumulation(kernel, input)
    if behaviour == "conv":
        window = window.flip(spatial)
    if window.dim() == axes + 1:
        window = window.unsqueeze(1)  # (B, 1, ...): one per sample
    n, k, s, d = input.shape[-axes:], window.shape[-axes:], _per_axis(stride, axes), _per_axis(dilation, axes)
    middle = [(size - 1) // 2 for size in k] if anchor is None else _per_axis(anchor, axes)
    middle = [size // 2 if a == -1 else a for a, size in zip(middle, k, strict=True)]
    before = [0] * axes if padding == "valid" else [a * step for a, step in zip(middle, d, strict=True)]
    sizes = [_length(*axis, padding) for axis in zip(n, k, s, d, strict=True)]
    border = _ALIASES.get(border_type, border_type)
    image, inside = _extended(input.double(), border, value, before, sizes, k, s, d)

    weight = window.abs().sum(spatial, keepdim=True)
    if normalized and border != "skip":
        window = window / weight
    total = torch.zeros(*input.shape[:-axes], *sizes, dtype=torch.float64, device=input.device)
    weight = torch.zeros_like(total)
    whole = torch.ones(sizes, dtype=torch.bool, device=input.device)
    taps = window.flatten(-axes).unbind(-1)
    for tap, w in zip(itertools.product(*map(range, k)), taps, strict=True):
        at = _reads(tap, sizes, s, d)
        tap_inside = inside[at]
        whole &= tap_inside
        w = w.reshape(*w.shape, *[1] * axes)
        if border == "skip":
            total += torch.where(tap_inside, w * image[at], 0.0)
            weight += torch.where(tap_inside, w.abs(), 0.0)
        else:
            total += w * image[at]
    if border == "skip" and normalized:
        total = total / weight
    if border == "zero_output":
        total = torch.where(whole, total, 0.0)
    return _rounded(total, output_dtype or input.dtype)


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
    """What `torch_conv.filter2d_separable` must return: `filter2d` with the outer product of the two windows."""
    y, x = (_accumulation(k, input) for k in (kernel_y, kernel_x))
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
    return _rounded(total, output_dtype or input.dtype)


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
    """What `torch_conv.filter3d_separable` must return: `filter3d` with the outer product of the three windows."""
    z, y, x = (_accumulation(k, input) for k in (kernel_z, kernel_y, kernel_x))
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
    return _rounded(total, output_dtype or input.dtype)


def box_blur(
    input: Tensor,
    kernel_size: int | Sequence[int],
    border_type: str = "reflect",
    separable: bool = True,
    *,
    normalized: bool = True,
    padding: str = "same",
    value: float = 0.0,
    anchor: int | Sequence[int] | None = None,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """What `torch_conv.box_blur` must return: `filter2d` with a window of ones."""
    kernel = torch.ones(*_per_axis(kernel_size, 2), dtype=torch.float64, device=input.device)
    total = filter2d(input.double(), kernel, border_type, normalized, padding, value=value, anchor=anchor)
    return _rounded(total, output_dtype or input.dtype)


def box_blur3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    border_type: str = "replicate",
    *,
    normalized: bool = True,
    padding: str = "same",
    value: float = 0.0,
    anchor: int | Sequence[int] | None = None,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """What `torch_conv.box_blur3d` must return: `filter3d` with a window of ones."""
    kernel = torch.ones(*_per_axis(kernel_size, 3), dtype=torch.float64, device=input.device)
    total = filter3d(input.double(), kernel, border_type, normalized, padding=padding, value=value, anchor=anchor)
    return _rounded(total, output_dtype or input.dtype)


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
    """What `torch_conv.filter1d` must return: every row along `dim` is an image of one row."""
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
) -> Tensor:
    """What `torch_conv.conv1d` must return."""
    return _convolve(1, input, weight, bias, stride, padding, dilation, groups, padding_mode)


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
) -> Tensor:
    """What `torch_conv.conv2d` must return."""
    return _convolve(2, input, weight, bias, stride, padding, dilation, groups, padding_mode)


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
) -> Tensor:
    """What `torch_conv.conv3d` must return."""
    return _convolve(3, input, weight, bias, stride, padding, dilation, groups, padding_mode)


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
) -> Tensor:
    """The convolutions over the last `axes` dimensions."""
    n, k, s, d = input.shape[-axes:], weight.shape[-axes:], _per_axis(stride, axes), _per_axis(dilation, axes)
    spare = [step * (size - 1) for size, step in zip(k, d, strict=True)]
    if padding == "same":  # an odd number of pixels to add puts one more after than before
        before, after = [p // 2 for p in spare], [p - p // 2 for p in spare]
    else:
        before = after = [0] * axes if isinstance(padding, str) else _per_axis(padding, axes)
    sizes = [(n[a] + before[a] + after[a] - spare[a] - 1) // s[a] + 1 for a in range(axes)]
    border = _ALIASES.get(padding_mode, padding_mode)
    image, _ = _extended(input.double(), border, 0.0, before, sizes, k, s, d)

    window = _accumulation(weight, input)
    c_out, c_group = weight.shape[:2]
    total = torch.zeros(*input.shape[: -axes - 1], c_out, *sizes, dtype=torch.float64, device=input.device)
    for co in range(c_out):
        first = co // (c_out // groups) * c_group
        output = total.select(-axes - 1, co)
        for ci in range(c_group):
            channel = image.select(-axes - 1, first + ci)
            taps = window[co, ci].flatten()
            for tap, w in zip(itertools.product(*map(range, k)), taps, strict=True):
                output += w * channel[_reads(tap, sizes, s, d)]
    if bias is not None:
        total += _accumulation(bias, input).reshape(-1, *[1] * axes)
    return _rounded(total, input.dtype)


def _per_axis(value: int | Sequence[int], axes: int) -> list[int]:
    """A number, or a list of one, for every axis."""
    return [value] * axes if isinstance(value, int) else list(value) * (axes // len(value))


def _accumulation(taps: Tensor, image: Tensor) -> Tensor:
    """Taps as a kernel sees them: float32, or float64 for float64 images; then widened."""
    return taps.to(image.device, torch.float64 if image.dtype == torch.float64 else torch.float32).double()


def _length(n: int, k: int, s: int, d: int, padding: str) -> int:
    return (n - d * (k - 1) - 1) // s + 1 if padding == "valid" else -(-n // s)


def _reads(tap: Sequence[int], sizes: Sequence[int], s: Sequence[int], d: Sequence[int]) -> tuple[Any, ...]:
    """Where a tap of every output lies on the extended image: an index."""
    at: list[Any] = [...]
    for axis, i in enumerate(tap):
        first, size = i * d[axis], sizes[axis]
        at.append(slice(first, first + (size - 1) * s[axis] + 1 if size else first, s[axis]))
    return tuple(at)


def _extended(
    image: Tensor,
    border: str,
    value: float,
    before: Sequence[int],
    sizes: Sequence[int],
    k: Sequence[int],
    s: Sequence[int],
    d: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """The image as far out as any window reaches, and a mask over its last len(k) dimensions of what is inside it."""
    axes, inside = len(k), torch.ones((), dtype=torch.bool, device=image.device)
    for axis in range(axes):
        dim = axis - axes
        n = image.shape[dim]
        reach = max(sizes[axis] - 1, 0) * s[axis] + (k[axis] - 1) * d[axis] + 1
        position = torch.arange(reach, device=image.device) - before[axis]
        if n == 0 or image.numel() == 0:
            image = image.new_zeros(*image.shape[:dim], reach, *image.shape[dim:][1:])
        else:
            image = image.index_select(dim, _source(position, n, border))
        inside = inside[..., None] & (position >= 0) & (position < n)
    if border in ("constant", "zero_output"):
        image = torch.where(inside, image, value if border == "constant" else 0.0)
    return image, inside


def _source(position: Tensor, n: int, border: str) -> Tensor:
    """Where on an axis of n pixels each position is read, by writing the repeated pattern out."""
    row = list(range(n))
    if border == "reflect":
        pattern = row + row[-2:0:-1]  # abcd cb
    elif border == "symmetric":
        pattern = row + row[::-1]  # abcd dcba
    elif border == "circular":
        pattern = row
    elif border in ("replicate", "constant", "skip", "zero_output"):
        return position.clamp(0, n - 1)  # what is outside is masked by the caller, replicate apart
    else:
        raise ValueError(f"reference: unknown border {border!r}")
    return torch.tensor(pattern, device=position.device)[position.remainder(len(pattern))]


def _rounded(total: Tensor, dtype: torch.dtype) -> Tensor:
    """Integers: half to even, clamped, NaN becomes 0. Floats: rounded to nearest."""
    if dtype.is_floating_point:
        return total.to(dtype)
    limits = torch.iinfo(dtype)
    return (
        total.nan_to_num(nan=0.0, posinf=limits.max, neginf=limits.min).round().clamp(limits.min, limits.max).to(dtype)
    )
