"""Slow, obviously right versions of the filters in plain torch: the oracle of tests and documentation.

Everything is summed in float64, tap by tap, on the extended image that the border describes, and rounded once.
Signatures are those of `torch_conv` without what says how to compute (`algorithm`, `out`).

    >>> import torch
    >>> from torch_conv import reference
    >>> reference.filter1d(torch.tensor([8., 2, 5, 4, 1, 7, 3]), torch.tensor([1., 3, 5, 3, 1]), "constant")
    tensor([51., 53., 52., 47., 46., 51., 37.])
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["box_blur", "conv1d", "conv2d", "filter1d", "filter2d", "filter2d_separable"]

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
    if kernel.dim() > 2 and input.dim() < 4:  # windows per sample or channel: every leading dimension written out
        lead = 4 - input.dim()
        return filter2d(
            input[(None,) * lead],
            kernel,
            border_type,
            normalized,
            padding,
            behaviour,
            value=value,
            anchor=anchor,
            stride=stride,
            dilation=dilation,
            output_dtype=output_dtype,
        )[(0,) * lead]
    window = _accumulation(kernel, input)
    if behaviour == "conv":
        window = window.flip((-2, -1))
    if window.dim() == 3:
        window = window.unsqueeze(1)  # (B, 1, kH, kW): one per sample
    k, s, d = window.shape[-2:], _pair(stride), _pair(dilation)
    tap = [(n - 1) // 2 for n in k] if anchor is None else _pair(anchor)
    tap = [n // 2 if a == -1 else a for a, n in zip(tap, k, strict=True)]
    before = [0, 0] if padding == "valid" else [a * step for a, step in zip(tap, d, strict=True)]
    sizes = [_length(input.shape[axis - 2], k[axis], s[axis], d[axis], padding) for axis in range(2)]
    border = _ALIASES.get(border_type, border_type)
    image, inside = _extended(input.double(), border, value, before, sizes, k, s, d)

    weight = window.abs().sum((-2, -1), keepdim=True)
    if normalized and border != "skip":
        window = window / weight
    total = torch.zeros(*input.shape[:-2], *sizes, dtype=torch.float64, device=input.device)
    weight = torch.zeros_like(total)
    whole = torch.ones(sizes, dtype=torch.bool, device=input.device)
    for i in range(k[0]):
        for j in range(k[1]):
            y, x = _tap(i, sizes[0], s[0], d[0]), _tap(j, sizes[1], s[1], d[1])
            tap_inside = inside[y, x]
            whole &= tap_inside
            w = window[..., i, j, None, None]
            if border == "skip":
                total += torch.where(tap_inside, w * image[..., y, x], 0.0)
                weight += torch.where(tap_inside, w.abs(), 0.0)
            else:
                total += w * image[..., y, x]
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
    kernel = _accumulation(kernel_y, input).unsqueeze(-1) * _accumulation(kernel_x, input).unsqueeze(-2)
    options = {"value": value, "anchor": anchor, "stride": stride, "dilation": dilation}
    total = filter2d(input.double(), kernel, border_type, normalized, padding, **options)  # type: ignore[arg-type]
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
    kernel = torch.ones(*_pair(kernel_size), dtype=torch.float64, device=input.device)
    total = filter2d(input.double(), kernel, border_type, normalized, padding, value=value, anchor=anchor)
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
    k, s, d = weight.shape[-2:], _pair(stride), _pair(dilation)
    spare = [step * (n - 1) for n, step in zip(k, d, strict=True)]
    if padding == "same":  # an odd number of pixels to add puts one more after than before
        before, after = [n // 2 for n in spare], [n - n // 2 for n in spare]
    else:
        before = after = [0, 0] if isinstance(padding, str) else _pair(padding)
    n = input.shape[-2:]
    sizes = [(n[a] + before[a] + after[a] - spare[a] - 1) // s[a] + 1 for a in range(2)]
    border = _ALIASES.get(padding_mode, padding_mode)
    image, _ = _extended(input.double(), border, 0.0, before, sizes, k, s, d)

    window = _accumulation(weight, input)
    c_out, c_group = weight.shape[:2]
    total = torch.zeros(*input.shape[:-3], c_out, *sizes, dtype=torch.float64, device=input.device)
    for co in range(c_out):
        first = co // (c_out // groups) * c_group
        for ci in range(c_group):
            for i in range(k[0]):
                for j in range(k[1]):
                    y, x = _tap(i, sizes[0], s[0], d[0]), _tap(j, sizes[1], s[1], d[1])
                    total[..., co, :, :] += window[co, ci, i, j] * image[..., first + ci, y, x]
    if bias is not None:
        total += _accumulation(bias, input)[:, None, None]
    return _rounded(total, input.dtype)


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
    """What `torch_conv.conv1d` must return: `conv2d` on images of one row."""

    def row(given: int | Sequence[int], other: int) -> tuple[int, int]:
        return other, given if isinstance(given, int) else given[0]

    result = conv2d(
        input.unsqueeze(-2),
        weight.unsqueeze(-2),
        bias,
        row(stride, 1),
        padding if isinstance(padding, str) else row(padding, 0),
        row(dilation, 1),
        groups,
        padding_mode=padding_mode,
    )
    return result.squeeze(-2)


def _pair(value: int | Sequence[int]) -> list[int]:
    return [value, value] if isinstance(value, int) else list(value) * (2 // len(value))


def _accumulation(taps: Tensor, image: Tensor) -> Tensor:
    """Taps as a kernel sees them: float32, or float64 for float64 images; then widened."""
    return taps.to(image.device, torch.float64 if image.dtype == torch.float64 else torch.float32).double()


def _length(n: int, k: int, s: int, d: int, padding: str) -> int:
    return (n - d * (k - 1) - 1) // s + 1 if padding == "valid" else -(-n // s)


def _tap(i: int, size: int, s: int, d: int) -> slice:
    """Where tap i of every output lies on the extended axis."""
    return slice(i * d, i * d + max(size - 1, 0) * s + 1 if size else i * d, s)


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
    """The image as far out as any window reaches, and a (rows, columns) mask of what is inside it."""
    insides = []
    for axis in range(2):
        n = image.shape[axis - 2]
        reach = max(sizes[axis] - 1, 0) * s[axis] + (k[axis] - 1) * d[axis] + 1
        position = torch.arange(reach, device=image.device) - before[axis]
        if n == 0 or image.numel() == 0:
            image = image.new_zeros(*image.shape[: axis - 2], reach, *image.shape[axis - 2 :][1:])
        else:
            image = image.index_select(axis - 2, _source(position, n, border))
        insides.append((position >= 0) & (position < n))
    inside = insides[0][:, None] & insides[1]
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
