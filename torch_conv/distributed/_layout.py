"""Which rank holds which rows, which rows an output needs: numbers only, no tensors, no communication.

"Rows" are the indices along one sharded axis. Every rank computes the same numbers for all ranks, so nobody has to ask.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass


def chunk_bounds(n: int, parts: int) -> list[int]:
    """Where torch.chunk cuts `n` rows, and so a DTensor does: part i holds [bounds[i], bounds[i + 1])."""
    step = -(-n // parts)
    return [min(i * step, n) for i in range(parts + 1)]


@dataclass(frozen=True)
class Reach:
    """What an operator reads along one axis: output o reads rows [o * stride - pad, ... + length).

    It belongs to row o * stride + middle, if there is one, else to the first or the last.
    """

    pad: int
    length: int
    stride: int
    middle: int
    out: int
    circular: bool

    def is_trivial(self, n: int) -> bool:
        """Whether every row is by itself: nothing to exchange."""
        return (self.pad, self.length, self.stride, self.out) == (0, 1, 1, n)


@dataclass(frozen=True)
class Piece:
    """The part [begin, end) of an axis that gives a rank its outputs, when it is filtered like a whole image.

    Its ends are the image's own, where the border policy acts as it should, or lie beyond every wanted output's
    window. Only a circular axis goes on beyond [0, n), by itself.
    """

    begin: int
    end: int
    skip: int  # outputs of the piece before the wanted ones
    count: int  # wanted outputs
    cut: tuple[int, int]  # rows of the piece to which the wanted outputs belong
    cut_skip: int  # outputs that belong to those rows but stand before the wanted ones


NOTHING = Piece(0, 0, 0, 0, (0, 0), 0)


def piece_for(first: int, last: int, n: int, reach: Reach, held: tuple[int, int]) -> Piece:
    """The piece for the outputs [first, last) of an axis of n rows, on the rank that holds the rows `held`."""
    if first >= last:
        return NOTHING
    pad, length, stride = reach.pad, reach.length, reach.stride
    low, high = first * stride - pad, (last - 1) * stride - pad + length
    if reach.circular:
        begin, end = low, max(high, (last - 1) * stride + 1)
        begin -= begin % stride  # outputs of the piece stand where the image's do
    else:
        begin = min(max(low, 0), n - 1)
        end = max(min(high, n), min((last - 1) * stride + 1, n), begin + 1)
        if low < 0:  # a mirrored border reads as far inside as outside, a chain of windows a window further
            end = max(end, min(n, length - low))
        if high > n:
            begin = min(begin, max(0, 2 * n - high - length))
        if pad >= length:  # a convolution that pads by more than its window wants a piece longer than that
            begin = max(0, min(begin, end - pad - 1))
            end = min(n, max(end, begin + pad + 1))
        begin -= begin % stride
    ahead = begin // stride
    rows = end - begin

    # Cuts between the rows of the outputs before, of the wanted ones and of those behind; where the rank's own rows
    # end, if that is one of the places to cut.
    cuts = []
    for output, own in ((first, held[0]), (last, held[1])):
        highest = output * stride + reach.middle
        cuts.append((own if highest - stride < own <= highest else highest) - begin)
    start = min(max(cuts[0], 0), rows - 1)
    stop = max(min(cuts[1], rows), start + 1)
    belonging = max(0, -((reach.middle - start) // stride)) if start > 0 else 0
    return Piece(begin, end, first - ahead, last - first, (start, stop), first - ahead - belonging)


@dataclass(frozen=True)
class Run:
    """Rows that one rank holds and another needs, in the order in which it needs them."""

    owner: int  # -1: nobody's, the border's value
    first: int  # the lowest row, counted from the owner's first
    count: int
    step: int = 1  # -1: from the last to the first; 0: one row `count` times


def runs_of(low: int, high: int, bounds: list[int], border: str) -> list[Run]:
    """The rows [low, high), which may lie outside of [0, bounds[-1]), as the border policy maps them.

    The policy is core/border.h's: a test holds the two together.
    """
    runs: list[Run] = []
    n, at = bounds[-1], low
    while at < high:
        first, count, step = _run(at, high - at, n, border)
        at += count
        if step == 0:
            owner = _owner(bounds, first) if first >= 0 else -1
            runs.append(Run(owner, first - bounds[owner] if first >= 0 else 0, count, 0))
            continue
        parts: list[Run] = []
        row = first
        while row < first + count:
            owner = _owner(bounds, row)
            stop = min(first + count, bounds[owner + 1])
            parts.append(Run(owner, row - bounds[owner], stop - row, step))
            row = stop
        runs += parts if step > 0 else parts[::-1]
    return runs


def _owner(bounds: list[int], row: int) -> int:
    return bisect.bisect_right(bounds, row) - 1


def _run(at: int, most: int, n: int, border: str) -> tuple[int, int, int]:
    """The lowest row, number (at most `most`) and direction of the rows that stand from position `at` on."""
    if 0 <= at < n:
        return at, min(most, n - at), 1
    outside = min(most, -at) if at < 0 else most
    if border == "constant":
        return -1, outside, 0
    if border == "replicate" or n == 1:
        return (0 if at < 0 else n - 1), outside, 0
    if border == "circular":
        return at % n, min(most, n - at % n), 1
    period = 2 * n - 2 if border == "reflect" else 2 * n
    place = at % period
    if place < n:
        return place, min(most, n - place), 1
    back = period - place - (border == "symmetric")  # the row that stands there; it goes down from here
    lowest = 1 if border == "reflect" else 0
    count = min(most, back - lowest + 1)
    return back - count + 1, count, -1
