"""A rank's plan of an operator: footprints, halos, and the kernels that are cut as the image is."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket

from torch_conv.dispatch.operators import OPERATORS, Arguments
from torch_conv.distributed._exchange import Exchange
from torch_conv.distributed._mesh_view import MeshView
from torch_conv.distributed._sharded import Axis, Dim, Sharded
from torch_conv.sharding.geometry import Footprint, Piece, Run, footprints_of, piece_for, runs_of


@dataclass(frozen=True)
class OperatorForms:
    """An operator, its forms on shards, its arguments' names and the number of axes that it filters along."""

    op: OpOverload
    split: OpOverload
    split_query: OpOverload
    names: list[str]
    axes: int


@functools.lru_cache(maxsize=128)
def forms_of(func: OpOverload | OpOverloadPacket) -> OperatorForms:
    op = func.default if isinstance(func, OpOverloadPacket) else func
    name = op._schema.name.split("::")[1]
    split, query = (
        getattr(getattr(torch.ops.torch_conv, form), op._overloadname)
        for form in (f"{name}_split", f"_{name}_split_query")
    )
    return OperatorForms(op, split, query, [a.name for a in op._schema.arguments], OPERATORS[name].axes)


def footprints_by_dim(op: Callable[..., Any], arguments: Arguments, image: Sharded, axes: int) -> dict[int, Footprint]:
    """The operator's footprints for the whole image. It checks its arguments, and does not run."""
    if image.numel() == 0:
        op(**{**arguments, "input": image.local.new_empty(1).expand(image.shape)})
        return {}
    footprints = footprints_of(lambda whole: op(**{**arguments, "input": whole}), image.local, image.shape)
    return {dim: footprints[dim] for dim in range(-min(axes, image.dim()), 0)}


# The least rows of a rank with strips, in footprints. The footprints of its first and its last outputs are then
# disjoint, also with mirrored borders.
_FOOTPRINTS = 4


class Strips:
    """The boundary strips of a rank: its outputs that read rows of other ranks.

        rows        above | own: top  beyond ...............  before  bottom | below
        outputs             ^^^^^^^^^                                 ^^^^^^^^         pad and length - 1 - pad of them

    The strips are the outputs of the shards `top` and `bottom` of a thin image: above, top, beyond, before, bottom,
    below. Their footprints do not cross from one half of this image into the other, and do not leave it. An index names
    the run of received rows, a range names own rows.
    """

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


class Halo:
    """This rank's piece along a dimension, and the exchange that brings its parts."""

    def __init__(self, dim: int, piece: Piece, exchange: Exchange, strips: Strips | None) -> None:
        self.dim, self.piece, self.exchange, self.strips = dim, piece, exchange, strips
        # (part, begin, end) of the parts, cut at the first and last row of the wanted outputs. `wanted` lists the cut
        # parts between these rows.
        self._cuts: list[tuple[int, int, int]] = []
        self.wanted: list[int] = []
        row = 0
        for i, run in enumerate(exchange.runs):
            bounds = sorted({0, run.count, *(cut - row for cut in piece.cut if 0 < cut - row < run.count)})
            for low, high in pairwise(bounds):
                if piece.cut[0] <= row + low < piece.cut[1]:
                    self.wanted.append(len(self._cuts))
                self._cuts.append((i, low, high))
            row += run.count

    def takes_whole(self, parts: list[Any]) -> bool:
        """Whether no part is cut."""
        return len(self._cuts) == len(parts)

    def cut(self, parts: list[Tensor]) -> list[Tensor]:
        if self.takes_whole(parts):
            return parts
        return [parts[i].narrow(self.dim, low, high - low) for i, low, high in self._cuts]


class RankPlan:
    """A rank's plan for calls of an operator with equal arguments and equally sharded images."""

    def __init__(
        self, axes: int, footprints: dict[int, Footprint], weight: Tensor | None, halos: list[Halo], cuts_channels: bool
    ) -> None:
        self.axes, self.footprints, self.halos = axes, footprints, halos
        self.cuts_channels = cuts_channels  # whether ranks share the groups and weights of a convolution
        self.has_outputs = all(halo.piece.count for halo in halos)  # of an image that is not empty
        self.weight = weight.shape if weight is not None else None
        self._indices: dict[int, Tensor] | None = None
        self._dims: dict[torch.Size, tuple[Dim, ...]] = {}

    def cut_kernels(self, image: Sharded, rest: Arguments) -> Arguments:
        """Cuts kernels per sample or channel as the image is cut."""
        if self._indices is None:
            batch, channels = image.dim() - self.axes - 2, image.dim() - self.axes - 1
            indices = {i: image.indices(dim) for i, dim in ((0, batch), (1, channels)) if dim >= 0}
            self._indices = {i: at for i, at in indices.items() if at is not None}
        return self.apply_cuts(rest)

    @property
    def cuts_kernels(self) -> bool:
        return bool(self._indices)

    def apply_cuts(self, rest: Arguments) -> Arguments:
        """`cut_kernels` for an image that is cut like the first one."""
        return _cut_kernels(self._indices, rest, self.axes) if self._indices else rest

    def result_dims(self, image: Sharded, shape: Sequence[int]) -> tuple[Dim, ...]:
        shape = torch.Size(shape)
        dims = self._dims.get(shape)
        if dims is None:
            dims = self._dims[shape] = tuple(_result_dims(image, shape, self.axes, self.weight, self.footprints))
        return dims


def plan_of(
    name: str, view: MeshView, image: Sharded, axes: int, footprints: dict[int, Footprint], weight: Tensor | None
) -> RankPlan:
    """`weight` is given for a convolution, which has output channels of its own."""
    halos = [dim for dim in footprints if image.cut(dim) and not footprints[dim].is_trivial(image.shape[dim])]
    if any(len([axis for axis in image.dims[dim] if axis.size != 1]) > 1 for dim in halos):
        raise ValueError(f"{name}: a window must not reach along merged dimensions of a DTensor")
    cuts_channels = weight is not None and image.cut(image.dim() - axes - 1) is not None
    all_halos = [_halo(view, image, dim, footprints[dim]) for dim in sorted(halos)]
    return RankPlan(axes, footprints, weight, all_halos, cuts_channels)


def _halo(view: MeshView, image: Sharded, dim: int, footprint: Footprint) -> Halo:
    axis = image.cut(dim)
    assert axis is not None
    outs = axis.of_size(footprint.out).bounds
    pieces = [
        piece_for(outs[i], outs[i + 1], axis.size, footprint, axis.bounds[i : i + 2]) for i in range(len(outs) - 1)
    ]
    wants = [[run for low, high in p.rows for run in runs_of(low, high, axis.bounds)] for p in pieces]
    exchange = Exchange(wants, view, axis.mesh_dim)
    strips = Strips.of(axis.size, axis.held, footprint, axis.bounds, exchange.runs)
    return Halo(dim, pieces[axis.mine], exchange, strips)


def _cut_kernels(indices: dict[int, Tensor], rest: Arguments, axes: int) -> Arguments:
    def cut(kernel: Tensor, kernel_axes: int) -> Tensor:
        for i in range(kernel.dim() - kernel_axes):
            at = indices.get(i)
            if at is not None and kernel.size(i) > 1:
                kernel = kernel.index_select(i, at.to(kernel.device))
        return kernel

    changed = dict(rest)
    for argument, value in rest.items():
        if argument == "kernel":
            changed[argument] = cut(value, axes)
        elif argument.startswith("kernel_") and isinstance(value, Tensor):
            changed[argument] = cut(value, 1)
        elif argument.startswith("kernels_"):
            changed[argument] = [cut(kernel, 1) for kernel in value]
    return changed


def _result_dims(
    image: Sharded, shape: Sequence[int], axes: int, weight: torch.Size | None, footprints: dict[int, Footprint]
) -> list[Dim]:
    """The axes of a result of this shape, which may be the local or the whole one.

    An operator may add a dimension before the spatial ones. A convolution replaces the channels.
    """
    spatial = min(axes, image.dim())
    lead = image.dim() - spatial
    dims: list[Dim] = list(image.dims[:lead])
    if weight is not None:
        channels, axis = image.dims[lead - 1], image.cut(lead - 1)
        if axis is None:
            dims[-1] = (axis_of(channels).of_size(weight[0]),)
        else:
            groups = axis.size // weight[1]
            bounds = tuple(b // weight[1] * (weight[0] // groups) for b in axis.bounds)
            dims[-1] = (Axis(weight[0], axis.mesh_dim, bounds, axis.mine),)
    dims += [(Axis(n),) for n in shape[lead : len(shape) - spatial]]
    for dim in range(-spatial, 0):
        footprint = footprints.get(dim)
        out = footprint.out if footprint else shape[dim]
        dims.append(image.dims[dim] if out == image.shape[dim] else (axis_of(image.dims[dim]).of_size(out),))
    return dims


def axis_of(dim: Dim) -> Axis:
    """The axis of a dimension that is sharded over the mesh, else one of size 1."""
    return next((axis for axis in dim if axis.mesh_dim >= 0), Axis(1))
