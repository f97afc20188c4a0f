"""The exchange of rows between ranks, and `halo_exchange`, which extends a shard by its neighbours' rows."""

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

from torch_conv.dispatch.borders import BORDERS, border_name
from torch_conv.dispatch.remedies import no_tensor
from torch_conv.distributed._mesh_view import MeshView, mesh_view_of
from torch_conv.distributed._progress import ExchangeError, Progress, call_distributed, progress_of
from torch_conv.distributed._symmetric_memory import Puts, SymmetricBuffer, buffer_of, buffers, offsets, signed
from torch_conv.distributed._verify import Check
from torch_conv.sharding.geometry import Run, runs_of

_EXTENDING = tuple(border for border in BORDERS if border not in ("skip", "zero_output"))  # borders that add pixels
Message = tuple[Callable[..., dist.Work], Tensor, int]  # group.send or group.recv, the rows, the other rank


class Exchange:
    """The rows that ranks along a mesh dimension send to each other, for all tensors with the same bounds.

    `wants` holds the runs that each rank along the mesh dimension reads. Two ranks exchange runs in the order of the
    receiver's list.
    """

    def __init__(self, wants: list[list[Run]], view: MeshView, mesh_dim: int) -> None:
        me, peers = view.at[mesh_dim], view.peers[mesh_dim]
        self.view, self.mesh_dim = view, mesh_dim
        self.runs = wants[me]
        # For each rank: (owner, first row, rows). The owner -1 stands for the border's value.
        self._all_receives = [[(run.owner, run.first, run.count if run.step else 1) for run in runs] for runs in wants]
        self._receives = self._all_receives[me]
        self._sends = [
            (peers[reader], first, rows)
            for reader, receives in enumerate(self._all_receives)
            for owner, first, rows in receives
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
        """Starts to send rows of `local` and to receive this rank's runs. The host waits in a group's first call only.

        With `reuses`, received rows may be in memory that the call after the next overwrites.
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
        """The exchange through symmetric memory. All ranks get None without this memory, or if a slot is too small."""
        buffer = buffer_of(group, local.device)
        if buffer is None:
            return None
        key = (dim, local.shape, local.dtype)
        if key not in self._puts:
            with torch.inference_mode(False):  # the tensors then serve calls in either mode
                self._puts[key] = self.address(buffer, _with_rows(local.shape, dim, 1), dim, local.dtype)
        return self._puts[key]

    def by_puts(self, local: Tensor, dim: int) -> tuple[Puts, list[list[Tensor | None]]] | None:
        """The exchange of tensors like `local`, and for each slot this rank's parts, with None for all of `local`.

        Returns None without symmetric memory, for another memory format, or if `local` is not one of the parts.
        """
        puts = self._puts_for(self.view.group(self.mesh_dim), local, dim)
        own = [rows for owner, _, rows in self._receives if owner == self._me]
        if puts is None or own != [local.shape[dim]] or memory_format(local) is not torch.contiguous_format:
            return None
        slots: list[list[Tensor | None]] = []
        for parts in puts.received:
            received = iter(parts)
            slots.append(
                [None if owner == self._me else next(received) for owner, _, _ in self._receives if owner >= 0]
            )
        return puts, slots

    def address(self, buffer: SymmetricBuffer, row: list[int], dim: int, dtype: torch.dtype) -> Puts | None:
        """Addresses an exchange of rows of the shape `row`; None if no rows travel, or if they exceed a slot."""
        size = math.prod(row) * dtype.itemsize
        if size == 0:
            return None
        first_rows: list[int] = []
        sent: tuple[list[Tensor], ...] = ([], [])
        received: tuple[list[Tensor], ...] = ([], [])
        has_remote = False
        for reader, receives in enumerate(self._all_receives):
            remote = [receive for receive in receives if receive[0] not in (reader, -1)]
            begins = offsets([rows * size for *_, rows in remote])
            if begins is None:
                return None
            has_remote = has_remote or bool(remote)
            for (owner, first, rows), begin in zip(remote, begins, strict=True):
                shape = _with_rows(row, dim, rows)
                if owner == self._me:
                    first_rows.append(first)
                for slot in (0, 1):
                    target = buffer.at(self._peers[reader], slot, begin, shape, dtype)
                    if reader == self._me:
                        received[slot].append(target)
                    if owner == self._me:
                        sent[slot].append(target)
        return Puts(buffer, dim, first_rows, sent, received) if has_remote else None


class PendingExchange:
    """An exchange that has begun: its messages, and this rank's parts."""

    def __init__(self, progress: Progress | None) -> None:
        """`progress` counts exchanges by messages; it is None for an exchange through symmetric memory."""
        self.queued = progress is None  # on the current stream, in front of all further work
        self._progress = progress
        if progress:
            progress.stages += 1
        self.parts: list[Tensor | None] = []
        self.works: list[dist.Work] = []
        self.messages: list[Tensor] = []  # keeps the tensors' memory until the end
        self.copies: list[tuple[Tensor, Tensor]] = []  # (target in the image's memory format, source)

    def wait(self) -> list[Tensor | None]:
        """Returns a part for each run of this rank: rows in ascending order, one row for a step of 0.

        A part is a view for rows of this rank, and None for the border's value. On a GPU the current stream waits, the
        host does not.
        """
        for work in self.works:
            call_distributed(work.wait)
        for target, source in self.copies:
            target.copy_(source)
        if self._progress:
            self._progress.stages += 1
            self._progress.exchanged = self._progress.calls
        return self.parts


def fetch(
    local: Tensor, dim: int, view: MeshView, mesh_dim: int, key: Any, wants: Callable[[], list[list[Run]]]
) -> tuple[list[Run], list[Tensor | None]]:
    """This rank's runs and their parts, as `PendingExchange.wait` returns them. The view caches the exchange."""
    exchange: Exchange = view.cached((Exchange, mesh_dim, key), lambda: Exchange(wants(), view, mesh_dim))
    return exchange.runs, exchange.post(local, dim).wait()


def _with_rows(shape: Sequence[int], dim: int, rows: int) -> list[int]:
    return [*shape[:dim], rows, *shape[dim + 1 :]]


def _sendable(t: Tensor) -> Tensor:
    """A dense tensor as bytes, if NCCL may not know its dtype; NCCL has no 16-bit integers."""
    return t if t.dtype in (torch.float32, torch.uint8) else t.view(-1).view(torch.uint8)


def memory_format(t: Tensor) -> torch.memory_format:
    inner = {4: torch.channels_last, 5: torch.channels_last_3d}.get(t.dim())
    if t.is_contiguous() or inner is None or not t.is_contiguous(memory_format=inner):
        return torch.contiguous_format
    return inner


_opened: weakref.WeakSet[dist.ProcessGroup] = weakref.WeakSet()


def _in_one_launch(group: dist.ProcessGroup, device: torch.device, messages: list[Message]) -> dist.Work:
    """Starts all messages in one launch. dist.batch_isend_irecv takes the host several times as long."""
    group._start_coalescing(device)
    for carry, tensor, peer in messages:
        carry([tensor], peer, 0)
    return group._end_coalescing(device)


def _open(group: dist.ProcessGroup, device: torch.device) -> None:
    """Runs a group's first operation, in which NCCL needs all ranks, also those without messages."""
    if group not in _opened and not buffers.get(group):
        call_distributed(dist.all_reduce, torch.zeros(1, device=device), group=group)
        _opened.add(group)


def assembled(local: Tensor, dim: int, runs: list[Run], parts: list[Tensor | None], value: float) -> Tensor:
    """Concatenates the parts of runs, each in the direction of its step; `value` stands where a part is None."""
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
    """torch.cat, also for uint16."""
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
    """Extends a rank's rows by the rows before and after them in the whole tensor.

    All ranks of the mesh call it. The whole tensor has the ranks' rows in the order of the ranks.

    Args:
        local: this rank's shard, of any dtype; its shape may differ between ranks along `dim` only.
        mesh: a mesh of one dimension, or one dimension of a larger one, `mesh["rows"]`.
        dim: the dimension along which the whole tensor is cut.
        before: rows to add before the first, 0 or more; they may come from several ranks.
        after: rows to add behind the last, 0 or more.
        border_type: the border of the whole tensor: 'constant', 'replicate', 'reflect', 'symmetric' or 'circular', as
            in `filter2d`.
        value: the pixels outside the whole tensor for 'constant'.

    Returns:
        Tensor like `local`, with `before` + `after` more rows along `dim`; a copy.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a type that is not described above.
        RankError: if another rank's call was refused, or had other arguments.
        ExchangeError: if a rank is gone, or does not answer.

    Equivalent to:
        this rank's part of `F.pad(whole, (before, after), border_type)` along `dim`
    """
    name = "halo_exchange"
    view = mesh_view_of(name, mesh)
    check = Check(name, view, wanted=True)  # the ranks gather their numbers of rows anyway
    try:
        if not isinstance(local, Tensor):
            raise no_tensor(name, "local", local)
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
