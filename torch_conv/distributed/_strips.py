"""The boundary strips of a rank: its outputs that read rows of other ranks.

    rows        above | own: top  beyond ...............  before  bottom | below
    outputs             ^^^^^^^^^                                 ^^^^^^^^         pad and length - 1 - pad of them

The strips are the outputs of the shards `top` and `bottom` of a thin image: above, top, beyond, before, bottom, below.
Their footprints do not cross from one half of this image into the other, and do not leave it.
"""

from __future__ import annotations

from torch import Tensor

from torch_conv.sharding.geometry import Footprint, Run

# The least rows of a rank with strips, in footprints. The footprints of its first and its last outputs are then
# disjoint, also with mirrored borders.
_FOOTPRINTS = 4


class Strips:
    """The thin image of one rank: received rows by the index of their run, own rows as ranges."""

    def __init__(self, above: list[int], below: list[int], rows: int, footprint: Footprint) -> None:
        self._above, self._below = above, below
        pad, tail = footprint.pad, footprint.length - 1 - footprint.pad
        self._top = [(0, pad), (pad, pad + tail)] if above else []
        self._bottom = [(rows - tail - pad, rows - tail), (rows - tail, rows)] if below else []
        if above and not tail:
            self._top.pop()
        if below and not pad:
            self._bottom.pop(0)
        self.firsts = ([0] if above else []) + ([rows - tail] if below else [])
        self.wanted = [len(above)] if above else []
        if below:
            self.wanted.append(len(above) + len(self._top) + len(self._bottom) - 1)

    @classmethod
    def of(cls, n: int, held: tuple[int, int], f: Footprint, bounds: tuple[int, ...], runs: list[Run]) -> Strips | None:
        """None if outputs and rows differ in number, or if the rank has too few rows for an interior."""
        pad, tail, rows, circular = f.pad, f.length - 1 - f.pad, held[1] - held[0], f.is_circular
        is_one_to_one = (f.stride, f.group, f.middle, f.out) == (1, 1, 0, n)
        if not is_one_to_one or min(pad, tail) < 0 or rows < _FOOTPRINTS * f.length:
            return None
        first, last = held[0] == 0 and not circular, held[1] == n and not circular
        if not (n - rows > pad + tail if circular else (first or held[0] >= pad) and (last or n - held[1] >= tail)):
            return None
        above: list[int] = []
        below: list[int] = []
        for i, run in enumerate(runs):
            row = bounds[run.owner] + run.first
            if row == held[0] and run.count == rows:
                continue
            (above if (row - held[0] + pad) % n < pad else below).append(i)
        whole = sum(run.count for run in runs) == rows + (0 if first else pad) + (0 if last else tail)
        return cls(above, below, rows, f) if whole else None

    def shards(self, own: Tensor, dim: int, parts: list[Tensor | None]) -> list[Tensor]:
        def pieces(ranges: list[tuple[int, int]]) -> list[Tensor]:
            return [own.narrow(dim, low, high - low) for low, high in ranges]

        received = [[part for i in runs if (part := parts[i]) is not None] for runs in (self._above, self._below)]
        return [*received[0], *pieces(self._top), *pieces(self._bottom), *received[1]]
