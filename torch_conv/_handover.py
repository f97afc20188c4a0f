"""Where torch's conv1d, conv2d and conv3d are ahead of our kernels; the table is that of csrc/dispatch/handover.cpp.

The functions ask before they call an operator, which asks the same table, because what torch computes keeps torch's
autograd and is seen by torch.compile as torch's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from torch_conv._symbols import is_known

# The bits of csrc/dispatch/handover.cpp.
_DEVICES = {"cpu": 1, "cuda": 2}
_TYPES = {torch.float32: 1, torch.float16: 2, torch.bfloat16: 4, torch.float64: 8}
_SETS, _SPANS = 8, 6  # in a row: sets of bits, then lowest and highest values
_UNBOUNDED = 1 << 40

_Row = tuple[int, ...]  # its number in the table, its spans, and of what the channels are a multiple


def _read() -> dict[tuple[int, ...], list[_Row]]:
    """The rows by one bit of each of their sets."""
    numbers = torch.ops.torch_conv._handover_table()
    width = _SETS + 2 * _SPANS + 1
    table: dict[tuple[int, ...], list[_Row]] = {}
    for index, at in enumerate(range(0, len(numbers), width)):
        sets, spans = numbers[at : at + _SETS], numbers[at + _SETS : at + width]
        for key in product(*([1 << bit for bit in range(5) if bits >> bit & 1] for bits in sets)):
            table.setdefault(key, []).append((index, *spans))
    return table


_TABLE = _read()
OURS = -1  # no row
ROWS = 1 + max(row[0] for rows in _TABLE.values() for row in rows)


def row_of(
    axes: int,
    input: Tensor,
    weight: Tensor,
    stride: int | Sequence[int],
    dilation: int | Sequence[int],
    groups: int,
    padding_mode: str,
) -> int | None:
    """The row of the table that hands a convolution to torch which our kernels serve as well, or OURS.

    None where sizes decide that torch.compile leaves open: the operator asks the table when it runs, for what was
    compiled would have to be compiled again for sizes of another row.
    """
    size, taps = input.shape, weight.shape
    if len(size) <= axes or len(taps) != axes + 2:
        return OURS
    last = False  # where an image lies on several ranks, they must all find the same, whatever their parts look like
    if type(input) is Tensor or isinstance(input, Tensor):
        strides = input.stride()
        last = strides[-axes - 1] == 1 and strides[-1] != 1
    try:
        if type(stride) is not int and isinstance(stride, (list, tuple)):
            stride = max(stride)
        if type(dilation) is not int and isinstance(dilation, (list, tuple)):
            dilation = max(dilation)
        zeros = padding_mode == "zeros"
        given: Any = (axes, input.device.type, input.dtype, last, size, taps, stride, dilation, groups, zeros)
        if torch.compiler.is_compiling():
            if not is_known(groups):
                return None
            if all(map(is_known, size)):
                return find(*given)
            return _find_of_any_size(*given)
        return find(*given)
    except (TypeError, ValueError):  # no numbers: the operator's checks say so
        return OURS


def find(
    axes: int,
    device: str,
    dtype: torch.dtype,
    channels_last: bool,
    size: Sequence[int],
    taps: Sequence[int],
    stride: int,
    dilation: int,
    groups: int,
    zeros: bool,
) -> int:
    """The same of numbers, as csrc/dispatch/handover.cpp finds it."""
    side, least, pixels = size[-1], 1, size[-1]
    if axes > 1:
        h = size[-2]
        pixels = pixels * h
    if axes == 2:
        side = min(side, 4 * h)
    elif axes == 3:
        d = size[-3]
        side, least = max(side, h), min(side, h, 2 * d)
        pixels = pixels * d
    values = pixels * taps[0] * (size[0] if len(size) == axes + 2 else 1)
    for row, side0, side1, least0, least1, values0, values1 in _of_windows(
        axes, device, dtype, channels_last, taps, stride, dilation, groups, zeros
    ):
        if side0 <= side <= side1 and least0 <= least <= least1 and values0 <= values <= values1:
            return row
    return OURS


def _find_of_any_size(
    axes: int, device: str, dtype: torch.dtype, channels_last: bool, size: Sequence[int], *rest: Any
) -> int | None:
    """The row for all sizes; None if there is none, but some for some."""
    rows = _of_windows(axes, device, dtype, channels_last, *rest)
    if not rows:
        return OURS
    row, *spans = rows[0]
    return row if max(spans[::2]) <= 1 and min(spans[1::2]) >= _UNBOUNDED else None


def _of_windows(
    axes: int,
    device: str,
    dtype: torch.dtype,
    channels_last: bool,
    taps: Sequence[int],
    stride: int,
    dilation: int,
    groups: int,
    zeros: bool,
) -> list[_Row]:
    """The rows of such windows, each with its spans of `side`, `least` and `values`."""
    kw = taps[-1]
    kh = taps[-2] if axes > 1 else 1
    kd = taps[-3] if axes > 2 else 1
    longest = (kw - 1) * dilation + 1 if axes == 1 else max(kd, kh, kw)
    if axes == 3 and (kh != kw or kd != kw):
        shape = 8 if kh != kw else 4 if kd == 1 else 2 if kw == 1 else 8
    elif kh == kw:
        shape = 1 if kw == 3 or kw == 5 or kw == 7 else 16 if axes == 3 else 8
    else:
        shape = 2 if kw == 1 else 4 if kh == 1 else 8
    key = (
        _DEVICES.get(device, 0),
        1 << (axes - 1),
        4 if taps[1] > 1 else 1 if groups > 1 else 2,
        2 if channels_last else 1,
        _TYPES[dtype],
        2 if stride > 1 else 4 if dilation > 1 else 1,
        1 if zeros else 2,
        shape,
    )
    found = []
    for row, k0, k1, out0, out1, in0, in1, *of_sizes, multiple in _TABLE.get(key, ()):
        if (
            k0 <= longest <= k1
            and out0 <= taps[0] // max(groups, 1) <= out1
            and in0 <= taps[1] * groups <= in1
            and taps[1] * groups % multiple == 0
        ):
            found.append((row, *of_sizes))
    return found


def reason(row: int) -> str:
    """What `explain` says of it."""
    return torch.ops.torch_conv._handover_reason(row)
