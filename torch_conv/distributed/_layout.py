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

    It belongs to row o * stride + middle, if there is one, else to the first or the last. Its bits depend on o modulo
    `group`.
    """

    pad: int
    length: int
    stride: int
    middle: int
    out: int
    group: int
    circular: bool

    def is_trivial(self, n: int) -> bool:
        """Whether every row is by itself: nothing to exchange."""
        return (self.pad, self.length, self.stride, self.out) == (0, 1, 1, n)


@dataclass(frozen=True)
class Piece:
    """Rows of an axis that give a rank its outputs, when they are filtered like a whole image.

    The ends of that image are those of the axis, where the border policy acts as it should, or lie beyond every wanted
    output's window. Where circular outputs at one end need rows of the other, the rows between may be left out.
    """

    rows: tuple[tuple[int, int], ...]  # from, to: one range after the other
    skip: int  # outputs of the piece before the wanted ones
    count: int  # wanted outputs
    cut: tuple[int, int]  # rows of the piece to which the wanted outputs belong
    cut_skip: int  # outputs that belong to those rows but stand before the wanted ones


NOTHING = Piece((), 0, 0, (0, 0), 0)


def piece_for(first: int, last: int, n: int, reach: Reach, held: tuple[int, int]) -> Piece:
    """The piece for the outputs [first, last) of an axis of n rows, on the rank that holds the rows `held`."""
    if first >= last:
        return NOTHING
    pad, length, stride = reach.pad, reach.length, reach.stride
    low, high = first * stride - pad, (last - 1) * stride - pad + length
    made = min((last - 1) * stride + 1, n)  # with padding='same' an output is made where its row is
    if reach.circular and (low < 0 or high > n):
        rows = _around(low, max(high, made), n, reach)
    else:
        begin = min(max(low, 0), n - 1)
        end = max(min(high, n), made, begin + 1)
        if low < 0:  # a mirrored border reads as far inside as outside, a chain of windows a window further
            end = max(end, min(n, length - low))
        if high > n:
            begin = min(begin, max(0, 2 * n - high - length))
        if pad >= length:  # a convolution that pads by more than its window wants a piece longer than that
            begin = max(0, min(begin, end - pad - 1))
            end = min(n, max(end, begin + pad + 1))
        rows = ((begin - begin % (stride * reach.group), end),)  # outputs of the piece stand where the image's do
    size = sum(end - begin for begin, end in rows)
    # Row i of the image is row i - ahead of the piece, as far as the outputs' own rows go.
    ahead = rows[0][0] if len(rows) == 1 or low < 0 else rows[1][0] - rows[0][1]

    # Cuts between the rows of the outputs before, of the wanted ones and of those behind; where the rank's own rows
    # end, if that is one of the places to cut.
    cuts = []
    for output, own in ((first, held[0]), (last, held[1])):
        highest = output * stride + reach.middle
        cuts.append((own if highest - stride < own <= highest else highest) - ahead)
    start = min(max(cuts[0], 0), size - 1)
    stop = max(min(cuts[1], size), start + 1)
    belonging = max(0, -((reach.middle - start) // stride)) if start > 0 else 0
    skip = first - ahead // stride
    return Piece(rows, skip, last - first, (start, stop), skip - belonging)


def _around(low: int, high: int, n: int, reach: Reach) -> tuple[tuple[int, int], ...]:
    """Circular rows [low, high), which go on beyond an end: the rows at this end and those at the other one."""
    whole = ((0, n),)
    if reach.pad >= reach.length or high <= 0 or low >= n or (low < 0 and high > n):
        return whole
    if low < 0:
        return ((0, high), (n + low, n)) if high < n + low else whole
    begin = low - (low - (high - n)) % (reach.stride * reach.group)
    return ((0, high - n), (begin, n)) if high - n < begin else whole


@dataclass(frozen=True)
class Run:
    """Rows that one rank holds and another needs, in the order in which it needs them."""

    owner: int  # -1: nobody's, the border's value
    first: int  # the lowest row, counted from the owner's first
    count: int
    step: int = 1  # -1: from the last to the first; 0: one row `count` times


def runs_of(low: int, high: int, bounds: list[int], border: str = "constant") -> list[Run]:
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
