"""The geometry of shards: footprints, pieces and runs of rows. C++ computes them (csrc/sharding/geometry.h).

"Rows" are the indices along one sharded axis. `bounds` says which shard holds which: shard i the rows from bounds[i] to
bounds[i + 1]. There are numbers only, no tensors and no communication: every rank computes those of all ranks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import _C, Tensor

from torch_conv.dispatch.query import Asking

BORDERS = ("constant", "replicate", "reflect", "symmetric", "circular", "skip", "zero_output")  # csrc/core/border.h
# Below all modes and transforms: the gradients' formulas ask while they are traced.
_shard_runs = _C._dispatch_find_schema_or_throw("torch_conv::_shard_runs", "").redispatch_boxed
_CPU = _C.DispatchKeySet(_C.DispatchKey.CPU)


class Footprint(NamedTuple):
    """The rows that an operator reads along one axis: output o reads [o * stride - pad, ... + length).

    Output o belongs to row o * stride + middle, if there is one, else to the first or the last. Its bits depend on o
    modulo `group`. There are `out` outputs.
    """

    pad: int
    length: int
    stride: int
    middle: int
    out: int
    group: int = 1
    border: int = 0  # its number in BORDERS

    @property
    def is_circular(self) -> bool:
        return BORDERS[self.border] == "circular"

    def is_trivial(self, n: int) -> bool:
        """Whether every output reads its own row only: nothing to exchange."""
        return (self.pad, self.length, self.stride, self.out) == (0, 1, 1, n)


def axes_of(operator: str) -> int:
    """Over how many of the last dimensions the windows of an operator extend, by its name."""
    return int(re.findall("([123])d", operator)[-1])


def footprints_of(call: Callable[[Tensor], Any], like: Tensor, shape: Sequence[int]) -> list[Footprint]:
    """The footprints along d, h and w of `call`, one call of an operator on an image like `like` of this shape.

    The operator checks its arguments, and refuses them; nothing runs.
    """
    answers: list[list[int]] = []
    with Asking("footprint", answers.append):
        call(like.new_empty(1).expand(shape))
    (numbers,) = answers
    return [Footprint(*numbers[i : i + 6], *numbers[18:]) for i in (0, 6, 12)]


def chunk_bounds(n: int, parts: int) -> list[int]:
    """The bounds that torch.chunk gives `n` rows, and so a DTensor does."""
    step = -(-n // parts)
    return [min(i * step, n) for i in range(parts + 1)]


@dataclass(frozen=True)
class Piece:
    """Rows of an axis that give a rank its outputs, when they are filtered like a whole image.

    The ends of that image are those of the axis, where the border policy acts as it should, or lie beyond every wanted
    output's window. Where circular outputs at one end need rows of the other, the rows between may be left out.
    """

    skip: int  # outputs of the piece before the wanted ones
    count: int  # wanted outputs
    cut: tuple[int, int]  # rows of the piece to which the wanted outputs belong
    cut_skip: int  # outputs that belong to those rows but stand before the wanted ones
    rows: tuple[tuple[int, int], ...]  # from, to: one range after the other


def piece_for(first: int, last: int, n: int, footprint: Footprint, held: Sequence[int]) -> Piece:
    """The piece for the outputs [first, last) of an axis of n rows, on the rank that holds the rows `held`."""
    skip, count, low, high, cut_skip, *rows = torch.ops.torch_conv._shard_piece(first, last, n, footprint, held)
    return Piece(skip, count, (low, high), cut_skip, tuple(zip(rows[::2], rows[1::2], strict=True)))


@dataclass(frozen=True)
class Run:
    """Rows that one rank holds and another needs, in the order in which it needs them."""

    owner: int  # -1: nobody's, the border's value
    first: int  # the lowest row, counted from the owner's first
    count: int
    step: int = 1  # -1: from the last to the first; 0: one row `count` times


def runs_of(low: int, high: int, bounds: Sequence[int], border: str = "constant") -> list[Run]:
    """The rows [low, high), which may lie outside of [0, bounds[-1]), as the border policy maps them."""
    numbers = _shard_runs(_CPU, low, high, bounds, BORDERS.index(border))
    return [Run(*numbers[i : i + 4]) for i in range(0, len(numbers), 4)]


def shards_read(sizes: Sequence[int], footprint: Footprint) -> list[list[int]]:
    """For every shard of a result the shards of the image whose rows it is made of."""
    flags = torch.ops.torch_conv._shards_read(sizes, footprint)
    rows = pairwise(range(0, len(flags) + 1, len(sizes)))
    return [[j for j, read in enumerate(flags[low:high]) if read] for low, high in rows]
