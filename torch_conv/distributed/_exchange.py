"""Rows from other ranks: the transport, and `halo_exchange`, which extends a shard by its neighbours' rows."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from torch_conv._arguments import border_name
from torch_conv.distributed._errors import ExchangeError, call_distributed, wait_for
from torch_conv.distributed._mesh_view import MeshView, mesh_view_of
from torch_conv.distributed._progress import Progress, progress_of
from torch_conv.distributed._symmetric_memory import Puts, SymmetricBuffer, buffer_of, buffers, offsets, signed
from torch_conv.distributed._verify import Check
from torch_conv.sharding.geometry import Run, runs_of

_EXTENDING = ("constant", "replicate", "reflect", "symmetric", "circular")


Message = tuple[Callable[..., dist.Work], Tensor, int]  # send or receive, the rows, the other rank


class Exchange:
    """Who sends which rows to whom along a mesh dimension; the same for every tensor that is cut alike.

    `wants` holds the runs of every rank along the mesh dimension, so that each knows what to send. Two ranks exchange
    their runs in the order of the receiver's list.
    """

    def __init__(self, wants: list[list[Run]], view: MeshView, mesh_dim: int) -> None:
        me, peers = view.at[mesh_dim], view.peers(mesh_dim)
        self.view, self.mesh_dim = view, mesh_dim
        self.runs = wants[me]
        # By rank: (owner or -1 for nobody, first row, rows)
        self._all_receives = [[(run.owner, run.first, run.count if run.step else 1) for run in runs] for runs in wants]
        self._receives = self._all_receives[me]
        self._sends = [
            (peers[reader], first, rows)
            for reader, takes in enumerate(self._all_receives)
            for owner, first, rows in takes
            if reader != me and owner == me
        ]
        self._me, self._peers = me, peers
        self.progress = progress_of(view.group(mesh_dim))
        self._puts: dict[Any, Puts | None] = {}

    @property
    def is_over(self) -> bool:
        """Whether this rank has sent and received its rows of the current call."""
        return self.progress.exchanged == self.progress.calls

    def post(self, local: Tensor, dim: int, reuses: bool = False) -> PendingExchange:
        """Sends what others want of `local`, and asks for what this rank wants. The host waits only in a group's first.

        With `reuses`, what comes may lie in memory that the call after the next overwrites.
        """
        group = self.view.group(self.mesh_dim)
        if self.progress.failed:
            buffer = buffers.get(group)
            self.progress.resume(group, local.device, buffer.calls if buffer else 0)
        puts = self._puts_for(group, local, dim) if reuses else None
        received = iter(puts.post(local)) if puts else None
        layout = memory_format(local)
        pending = PendingExchange(None if received else self.progress)
        messages: list[Message] = []
        for owner, first, rows in self._receives:
            if owner == self._me:
                part = local if rows == local.shape[dim] else local.narrow(dim, first, rows)
            elif owner < 0:
                pending.parts.append(None)
                continue
            else:
                if received:
                    part = next(received)
                else:
                    part = local.new_empty(_with_rows(local.shape, dim, rows))
                    if part.numel():
                        messages.append((group.recv, _sendable(part), self._peers[owner]))
                if layout is not torch.contiguous_format:
                    pending.copies.append((torch.empty_like(part, memory_format=layout), part))
                    part = pending.copies[-1][0]
            pending.parts.append(part)
        if received:
            return pending
        for peer, first, rows in self._sends:
            part = local.narrow(dim, first, rows).contiguous()
            if part.numel():
                messages.append((group.send, _sendable(part), peer))
        pending.messages = [tensor for _, tensor, _ in messages]
        device = local.device
        if device.type == "cpu" or not group._get_backend(device).supports_coalescing:
            pending.works = [call_distributed(carry, [tensor], peer, 0) for carry, tensor, peer in messages]
            return pending
        _open(group, device)
        if messages:
            pending.works = [call_distributed(_in_one_launch, group, device, messages)]
        return pending

    def _puts_for(self, group: dist.ProcessGroup, local: Tensor, dim: int) -> Puts | None:
        """The exchange through symmetric memory; None where there is none or it is too small: alike on all ranks."""
        buffer = buffer_of(group, local.device)
        if buffer is None:
            return None
        key = (dim, local.shape, local.dtype)
        if key not in self._puts:
            with torch.inference_mode(False):  # else they could be used in that mode alone
                self._puts[key] = self.address(buffer, _with_rows(local.shape, dim, 1), dim, local.dtype)
        return self._puts[key]

    def by_puts(self, local: Tensor, dim: int) -> tuple[Puts, list[list[Tensor | None]]] | None:
        """The exchange of such tensors, and by slot the parts that this rank has then, None for the tensor itself.

        None where it takes more than that: other transport, another memory format, rows of its own apart.
        """
        puts = self._puts_for(self.view.group(self.mesh_dim), local, dim)
        own = [rows for owner, _, rows in self._receives if owner == self._me]
        if puts is None or own != [local.shape[dim]] or memory_format(local) is not torch.contiguous_format:
            return None
        slots: list[list[Tensor | None]] = []
        for parts in puts.parts:
            received = iter(parts)
            slots.append(
                [None if owner == self._me else next(received) for owner, _, _ in self._receives if owner >= 0]
            )
        return puts, slots

    def address(self, buffer: SymmetricBuffer, row: list[int], dim: int, dtype: torch.dtype) -> Puts | None:
        runs = [
            [take for take in takes if take[0] not in (reader, -1)] for reader, takes in enumerate(self._all_receives)
        ]
        size = math.prod(row) * dtype.itemsize
        places = []
        for mine in runs:
            begins = offsets([rows * size for _, _, rows in mine])
            if begins is None:
                return None
            places.append(begins)
        if size == 0 or not any(runs):
            return None

        out: list[int] = []
        there: tuple[list[Tensor], ...] = ([], [])
        here: tuple[list[Tensor], ...] = ([], [])
        for reader, (mine, begins) in enumerate(zip(runs, places, strict=True)):
            for (owner, first, rows), begin in zip(mine, begins, strict=True):
                shape = _with_rows(row, dim, rows)
                if owner == self._me:
                    out.append(first)
                for slot in (0, 1):
                    at = buffer.at(self._peers[reader], slot, begin, shape, dtype)
                    if reader == self._me:
                        here[slot].append(at)
                    if owner == self._me:
                        there[slot].append(at)
        return Puts(buffer, dim, out, there, here)


class PendingExchange:
    """What an exchange has on its way to this rank."""

    def __init__(self, progress: Progress | None) -> None:
        """`progress` counts an exchange by messages."""
        self.queued = progress is None  # on the current stream, before whatever comes next
        self._progress = progress
        if progress:
            progress.steps += 1
        self.parts: list[Tensor | None] = []
        self.works: list[dist.Work] = []
        self.messages: list[Tensor] = []  # their memory, until all is over
        self.copies: list[tuple[Tensor, Tensor]] = []  # to, from: into the image's memory format

    def wait(self) -> list[Tensor | None]:
        """What this rank wants, run by run: rows in ascending order, one row where step is 0, None for the border's
        value. Rows of its own are views. On a GPU the current stream waits, and not the host."""
        for work in self.works:
            wait_for(work)
        for target, source in self.copies:
            target.copy_(source)
        if self._progress:
            self._progress.steps += 1
            self._progress.exchanged = self._progress.calls
        return self.parts


def fetch(
    local: Tensor, dim: int, view: MeshView, mesh_dim: int, key: Any, wants: Callable[[], list[list[Run]]]
) -> tuple[list[Run], list[Tensor | None]]:
    """This rank's runs, and what PendingExchange.wait gives for them; what `wants` returns is kept under `key`."""
    exchange: Exchange = view.cached((Exchange, mesh_dim, key), lambda: Exchange(wants(), view, mesh_dim))
    return exchange.runs, exchange.post(local, dim).wait()


def _with_rows(shape: Sequence[int], dim: int, rows: int) -> list[int]:
    return [*shape[:dim], rows, *shape[dim + 1 :]]


def _sendable(t: Tensor) -> Tensor:
    """A dense tensor, as bytes where NCCL may not know its dtype: it knows no 16-bit integers."""
    return t if t.dtype in (torch.float32, torch.uint8) else t.view(-1).view(torch.uint8)


def memory_format(t: Tensor) -> torch.memory_format:
    if t.is_contiguous():
        return torch.contiguous_format
    if t.dim() == 4 and t.is_contiguous(memory_format=torch.channels_last):
        return torch.channels_last
    if t.dim() == 5 and t.is_contiguous(memory_format=torch.channels_last_3d):
        return torch.channels_last_3d
    return torch.contiguous_format


_opened: weakref.WeakSet[dist.ProcessGroup] = weakref.WeakSet()


def _in_one_launch(group: dist.ProcessGroup, device: torch.device, messages: list[Message]) -> dist.Work:
    """As dist.batch_isend_irecv does it, which takes the host several times as long."""
    group._start_coalescing(device)
    for carry, tensor, peer in messages:
        carry([tensor], peer, 0)
    return group._end_coalescing(device)


def _open(group: dist.ProcessGroup, device: torch.device) -> None:
    """NCCL wants every rank at a group's first operation, but not every rank may have something to send."""
    if group not in _opened and not buffers.get(group):
        call_distributed(dist.all_reduce, torch.zeros(1, device=device), group=group)
        _opened.add(group)


def assembled(local: Tensor, dim: int, runs: list[Run], parts: list[Tensor | None], value: float) -> Tensor:
    """The parts one after the other in one tensor, each in its direction."""
    pieces = []
    for run, part in zip(runs, parts, strict=True):
        shape = list(local.shape)
        shape[dim] = run.count
        if part is None:
            pieces.append(local.new_full(shape, value))
        else:
            pieces.append(part.flip(dim) if run.step < 0 else part.expand(shape) if run.step == 0 else part)
    if len(pieces) == 1 and runs[0].step > 0:
        return pieces[0]
    return together(pieces, dim) if pieces else local.narrow(dim, 0, 0)


def together(parts: list[Tensor], dim: int) -> Tensor:
    """torch.cat, of 16-bit integers without a sign too."""
    if len(parts) == 1:
        return parts[0]
    return torch.cat([signed(part) for part in parts], dim).view(parts[0].dtype)


def halo_exchange(
    local: Tensor,
    mesh: DeviceMesh,
    dim: int,
    before: int,
    after: int,
    border_type: str = "constant",
    *,
    value: float = 0.0,
) -> Tensor:
    """A rank's rows with those that stand before and after them in the whole tensor.

    Every rank of the mesh calls it, with as many rows as it has; they stand in the order of the ranks.

    Args:
        local: this rank's shard, of any dtype; all but `dim` is equal on all ranks.
        mesh: a mesh of one dimension, or one dimension of a larger one, `mesh["rows"]`.
        dim: the dimension along which the whole tensor is cut.
        before: rows to add before the first, 0 or more; also more than the rank before holds.
        after: rows to add behind the last.
        border_type: what stands before the first rank's rows and behind the last one's: 'constant', 'replicate',
            'reflect', 'symmetric' or 'circular', as in `filter2d`.
        value: what 'constant' writes there.

    Returns:
        Tensor like `local`, with `before` + `after` more rows along `dim`; a copy.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a type that is not described above.
        RankError: if another rank's call was refused, or had other arguments.
        ExchangeError: if a rank is gone or does not answer.

    Equivalent to:
        `F.pad(whole, (before, after), border_type)` along `dim`, of which each rank keeps its part.
    """
    name = "halo_exchange"
    view = mesh_view_of(name, mesh)
    check = Check(name, view, wanted=True)  # the ranks gather their numbers of rows in any case
    try:
        if not isinstance(local, Tensor):
            raise TypeError(f"{name}: local must be of type Tensor, got {type(local).__name__}")
        if mesh.ndim != 1:
            raise ValueError(f"{name}: mesh must have 1 dimension, got {mesh.ndim}; name one: mesh['rows']")
        for argument, number in (("dim", dim), ("before", before), ("after", after)):
            if not isinstance(number, int):
                raise TypeError(f"{name}: {argument} must be of type int, got {type(number).__name__}")
        dims = local.dim()
        if not -dims <= dim < dims:
            raise ValueError(f"{name}: dim must name one of local's {dims} dimensions, got {dim}")
        dim %= dims
        if min(before, after) < 0:
            raise ValueError(f"{name}: before and after must be at least 0, got {min(before, after)}")
        border = border_name(border_type)
        if border not in _EXTENDING:
            known = ", ".join(f"'{b}'" for b in _EXTENDING)
            raise ValueError(f"{name}: border_type must be one of {known}, got '{border_type}'")
        others = [*local.shape[:dim], *local.shape[dim + 1 :]]
        arguments = {"dim": dim, "before": before, "after": after, "border_type": border, "value": float(value)}
        check.describe(arguments, (*others, local.dtype, local.device.type))
        bounds = [0]
        for rows in check.agree(local.device, local.shape[dim]):
            bounds.append(bounds[-1] + rows)
        if bounds[-1] == 0 and border != "constant" and before + after > 0:
            raise ValueError(f"{name}: local must have rows on some rank, for border_type '{border_type}' to extend")
        key = (tuple(bounds), before, after, border)
        bits = signed(local.detach())
        runs, parts = fetch(
            bits, dim, view, 0, key,
            lambda: [runs_of(low - before, high + after, bounds, border) for low, high in pairwise(bounds)],
        )  # fmt: skip
    except BaseException as error:
        check.fail(error)
        if isinstance(error, ExchangeError):
            raise ExchangeError(f"{name}: {error}") from error.__cause__
        raise
    if local.dtype == torch.uint16:
        value = float(torch.tensor(int(value), dtype=torch.int64).to(torch.uint16).view(torch.int16))
    whole = assembled(bits, dim, runs, parts, value)
    return (whole.clone() if whole.data_ptr() == local.data_ptr() else whole).view(local.dtype)
