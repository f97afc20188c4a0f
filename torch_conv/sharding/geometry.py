"""Footprints, pieces and runs of rows, which C++ computes (csrc/sharding/geometry.h).

"Rows" are the indices along one sharded axis. Shard i holds the rows from bounds[i] to bounds[i + 1].
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import _C, Tensor

from torch_conv.dispatch.borders import BORDERS
from torch_conv.dispatch.query import QueryMode

# Called below all modes and transforms: gradients are traced.
_shard_runs = _C._dispatch_find_schema_or_throw("torch_conv::_shard_runs", "").redispatch_boxed
_CPU = _C.DispatchKeySet(_C.DispatchKey.CPU)


class Footprint(NamedTuple):
    """The rows that an operator reads along one axis: output o reads [o * stride - pad, ... + length).

    Output o belongs to row o * stride + middle, clamped to the axis. Its bits depend on o modulo `group`. `out` is the
    number of outputs.
    """

    pad: int
    length: int
    stride: int
    middle: int
    out: int
    group: int = 1
    border: int = 0  # the border's index in BORDERS

    @property
    def is_circular(self) -> bool:
        return BORDERS[self.border] == "circular"

    def is_trivial(self, n: int) -> bool:
        """Whether each output reads its own row only."""
        return (self.pad, self.length, self.stride, self.out) == (0, 1, 1, n)


def axes_of(operator: str) -> int:
    """The number of last dimensions that an operator filters along, from its name."""
    return int(re.findall("([123])d", operator)[-1])


def footprints_of(call: Callable[[Tensor], Any], like: Tensor, shape: Sequence[int]) -> list[Footprint]:
    """The footprints along d, h and w of `call`, which calls one operator on an image like `like` of this shape.

    The operator checks its arguments and does not run.
    """
    answers: list[list[int]] = []
    with QueryMode("footprint", answers.append):
        call(like.new_empty(1).expand(shape))
    (numbers,) = answers
    return [Footprint(*numbers[i : i + 6], *numbers[18:]) for i in (0, 6, 12)]


def chunk_bounds(n: int, parts: int) -> list[int]:
    """The bounds of the parts of `n` rows by torch.chunk, and so by a DTensor."""
    step = -(-n // parts)
    return [min(i * step, n) for i in range(parts + 1)]


@dataclass(frozen=True)
class Piece:
    """Rows that form a smaller image, whose outputs include those of one rank.

    An end of this image is an end of the axis, where the border applies, or is outside all wanted footprints. A piece
    for circular outputs may join rows of both ends of the axis.
    """

    skip: int  # outputs of the piece before the wanted ones
    count: int  # wanted outputs
    cut: tuple[int, int]  # rows of the piece to which the wanted outputs belong
    cut_skip: int  # outputs that belong to the rows of `cut`, before the wanted ones
    rows: tuple[tuple[int, int], ...]  # ranges (begin, end) in order


def piece_for(first: int, last: int, n: int, footprint: Footprint, held: Sequence[int]) -> Piece:
    """The piece for the outputs [first, last) of an axis of n rows, on the rank that holds the rows `held`."""
    skip, count, low, high, cut_skip, *rows = torch.ops.torch_conv._shard_piece(first, last, n, footprint, held)
    return Piece(skip, count, (low, high), cut_skip, tuple(zip(rows[::2], rows[1::2], strict=True)))


@dataclass(frozen=True)
class Run:
    """Rows of one rank, in the order in which another rank reads them."""

    owner: int  # the shard that holds the rows; -1 for the border's value
    first: int  # the lowest row, counted from the owner's first row
    count: int
    step: int = 1  # -1: from the last row to the first; 0: one row `count` times


def runs_of(low: int, high: int, bounds: Sequence[int], border: str = "constant") -> list[Run]:
    """The rows [low, high), mapped by the border policy outside of [0, bounds[-1])."""
    numbers = _shard_runs(_CPU, low, high, bounds, BORDERS.index(border))
    return [Run(*numbers[i : i + 4]) for i in range(0, len(numbers), 4)]
