"""Shards on their way between the host and the GPUs: pinned memory, streams of their own, events instead of waiting.

    host image  |  shard 0  |  shard 1  |  shard 2  |
                      |           |           |          the stream `up` of each device, an event behind each shard
    GPUs           filter 0    filter 1    filter 2      the device's current stream
                      |           |           |          the stream `down` of each device
    host result |  shard 0  |  shard 1  |  shard 2  |

A host tensor is taken as a matrix of bytes, one row for every index in front of the split dimension; a shard is a range
of columns. Where the rows are short, or the memory is not pinned, they go through pinned buffers.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

# What a pageable image passes through: so many for every device, made when first needed and kept. 1 GiB at 51.3 GB/s by
# 4 of 16 MiB, 47.9 by 3, 37.8 by 2 or by 2 of 32 MiB 46.9, 40.9 by 8 of 4 MiB; pinned 54.6 (one NVIDIA H200).
_BUFFERS = 4
_BUFFER = 16 << 20
# Shorter rows are gathered by the host rather than copied one by one. 1 GiB in rows of 1 MiB: 47.8 GB/s one by one,
# 36.7 gathered; in rows of 256 KiB 15.6 and 35.6 (one NVIDIA H200, pinned).
_ROW = 1 << 20


class _Lanes:
    """The streams of one device and the pinned buffers in front of it."""

    def __init__(self, device: torch.device) -> None:
        self.up = torch.cuda.Stream(device)
        self.down = torch.cuda.Stream(device)
        self._from: dict[torch.device, torch.cuda.Stream] = {}
        self._buffers: list[tuple[Tensor, torch.cuda.Event]] = []
        self._turn = 0

    def from_device(self, source: torch.device) -> torch.cuda.Stream:
        """A stream on this device for what comes from `source`, so that several sources send at a time."""
        if source not in self._from:
            self._from[source] = torch.cuda.Stream(self.up.device)
        return self._from[source]

    def send(self, chunk: Tensor, target: Tensor) -> None:
        """Copies a matrix of bytes, at most a buffer's, to contiguous memory of the device; `chunk` may then change."""
        if len(self._buffers) < _BUFFERS:
            self._buffers.append((torch.empty(_BUFFER, dtype=torch.uint8, pin_memory=True), torch.cuda.Event()))
        self._turn = (self._turn + 1) % len(self._buffers)
        buffer, free = self._buffers[self._turn]
        free.synchronize()  # the only wait of the host: until its own buffer has been read
        staged = buffer[: chunk.numel()].view(chunk.shape)
        staged.copy_(chunk)
        with torch.cuda.stream(self.up):
            target.copy_(staged, non_blocking=True)
            free.record(self.up)


_lanes: dict[torch.device, _Lanes] = {}
_lock = threading.Lock()


def _lanes_of(device: torch.device) -> _Lanes:
    with _lock:
        if device not in _lanes:
            _lanes[device] = _Lanes(device)
        return _lanes[device]


def memory_order(t: Tensor) -> list[int]:
    """The dimensions from the outermost in memory to the innermost; as they are if the memory has gaps."""
    order = list(range(t.dim()))
    if not t.is_contiguous():
        by_stride = sorted(order, key=t.stride, reverse=True)
        if t.permute(by_stride).is_contiguous():
            return by_stride
    return order


def _inverse(order: Sequence[int]) -> list[int]:
    return [order.index(d) for d in range(len(order))]


def moved(part: Tensor, order: list[int], device: torch.device, non_blocking: bool) -> Tensor:
    """A part of a tensor with this memory order on another device, in the same order; itself if it is there."""
    if part.device == device:
        return part
    return part.permute(order).contiguous().to(device, non_blocking=non_blocking).permute(_inverse(order))


def _bytes_in_rows(t: Tensor, at: int) -> Tensor:
    """A contiguous tensor as a matrix of bytes: a row for every index in front of dimension `at`."""
    flat = t.as_strided((t.numel(),), (1,))  # a dimension of size 1 may have any stride
    return flat.view(torch.uint8).view(math.prod(t.shape[:at]), -1)


def upload(
    tensor: Tensor, dim: int, sizes: Sequence[int], devices: Sequence[torch.device]
) -> tuple[list[Tensor], list[torch.cuda.Event | None]]:
    """The shards of a CPU tensor on CUDA devices, and the event behind each one's arrival.

    A pinned tensor is read where it lies, until then; of another one nothing is read after the call. Shards belong to
    the streams they arrive on: whoever reads them elsewhere waits for the event and records its stream.
    """
    order = memory_order(tensor)
    tensor = tensor.permute(order).contiguous()
    at = order.index(dim)
    shards: list[Tensor] = []
    for size, device in zip(sizes, devices, strict=True):
        with torch.cuda.stream(_lanes_of(device).up):
            shape = [*tensor.shape[:at], size, *tensor.shape[at + 1 :]]
            shards.append(torch.empty(shape, dtype=tensor.dtype, device=device))
    arrived: list[torch.cuda.Event | None] = [None] * len(shards)
    if tensor.numel() > 0:
        _send_all(tensor, at, sizes, shards, arrived)
    back = _inverse(order)
    return [shard.permute(back) for shard in shards], arrived


def _send_all(
    tensor: Tensor, at: int, sizes: Sequence[int], shards: list[Tensor], arrived: list[torch.cuda.Event | None]
) -> None:
    rows = _bytes_in_rows(tensor, at)
    unit = rows.size(1) // tensor.size(at)
    queues: dict[torch.device, list[Iterator[None]]] = {}
    begin = 0
    for i, size in enumerate(sizes):
        if size > 0:
            columns = rows[:, begin * unit : (begin + size) * unit]
            direct = tensor.is_pinned() and (rows.size(0) == 1 or columns.size(1) >= _ROW)
            target = _bytes_in_rows(shards[i], at)
            sending = _sending(columns, target, direct, arrived, i)
            queues.setdefault(shards[i].device, []).append(sending)
        begin += size
    # A chunk for each device in turn, so that all links are busy.
    with _sending_lock:
        turns = deque(deque(queue) for queue in queues.values())
        while turns:
            queue = turns.popleft()
            if next(queue[0], _DONE) is _DONE:
                queue.popleft()
            if queue:
                turns.append(queue)


_DONE = object()
_sending_lock = threading.Lock()


def _sending(
    source: Tensor, target: Tensor, direct: bool, arrived: list[torch.cuda.Event | None], i: int
) -> Iterator[None]:
    """Queues a shard chunk by chunk and at its end the event of its arrival."""
    lanes = _lanes_of(target.device)
    count, length = source.shape
    if direct:
        for row in range(count):
            with torch.cuda.stream(lanes.up):
                target[row].copy_(source[row], non_blocking=True)
            yield
    else:
        rows, columns = max(1, _BUFFER // length), min(length, _BUFFER)
        for row in range(0, count, rows):
            for column in range(0, length, columns):
                piece = slice(row, row + rows), slice(column, column + columns)
                lanes.send(source[piece], target[piece])
                yield
    arrived[i] = lanes.up.record_event()


def download(shards: Sequence[Tensor], ready: Sequence[torch.cuda.Event], turns: Sequence[int], dim: int) -> Tensor:
    """One pinned tensor of shards on CUDA devices, complete on return; `turns` is the order in which they get ready."""
    order = memory_order(next((s for s in shards if s.numel() > 0), shards[0]))
    at = order.index(dim)
    shape = [shards[0].size(d) for d in order]
    shape[at] = sum(s.size(dim) for s in shards)
    out = torch.empty(shape, dtype=shards[0].dtype, pin_memory=True)
    if out.numel() == 0:
        return out.permute(_inverse(order))
    rows = _bytes_in_rows(out, at)
    unit = rows.size(1) // shape[at]
    ends = [unit * sum(s.size(dim) for s in shards[: i + 1]) for i in range(len(shards))]
    gathered: list[tuple[torch.cuda.Event, Tensor, Tensor]] = []
    streams: dict[torch.device, torch.cuda.Stream] = {}
    for i in turns:
        shard = shards[i]
        if shard.numel() == 0:
            continue
        stream = streams.setdefault(shard.device, _lanes_of(shard.device).down)
        place = rows[:, ends[i] - unit * shard.size(dim) : ends[i]]
        with torch.cuda.stream(stream):
            stream.wait_event(ready[i])
            shard.record_stream(stream)
            source = _bytes_in_rows(shard.permute(order).contiguous(), at)
            if rows.size(0) == 1 or place.size(1) >= _ROW:
                for row in range(rows.size(0)):
                    place[row].copy_(source[row], non_blocking=True)
            else:
                staged = torch.empty(source.shape, dtype=torch.uint8, pin_memory=True)
                staged.copy_(source, non_blocking=True)
                gathered.append((stream.record_event(), place, staged))
    for event, place, staged in gathered:
        event.synchronize()
        place.copy_(staged)
    for stream in streams.values():
        stream.synchronize()
    return out.permute(_inverse(order))


def collect(shards: Sequence[Tensor], ready: Sequence[torch.cuda.Event], device: torch.device, dim: int) -> Tensor:
    """One tensor of shards on CUDA devices, on one of them; ready on its current stream."""
    order = memory_order(next((s for s in shards if s.numel() > 0), shards[0]))
    shape = [shards[0].size(d) for d in order]
    shape[order.index(dim)] = sum(s.size(dim) for s in shards)
    out = torch.empty(shape, dtype=shards[0].dtype, device=device).permute(_inverse(order))
    current = torch.cuda.current_stream(device)
    allocated = current.record_event()
    streams: set[torch.cuda.Stream] = set()
    begin = 0
    for shard, event in zip(shards, ready, strict=True):
        place = out.narrow(dim, begin, shard.size(dim))
        begin += shard.size(dim)
        if shard.numel() == 0:
            continue
        source = torch.cuda.current_stream(shard.device)
        source.wait_event(event)
        shard.record_stream(source)
        if shard.device == device:
            place.copy_(shard)
            continue
        # torch orders a copy between devices behind both current streams; a stream for each source keeps them apart.
        stream = _lanes_of(device).from_device(shard.device)
        stream.wait_event(allocated)
        with torch.cuda.stream(stream):
            place.copy_(shard, non_blocking=True)
        out.record_stream(stream)
        streams.add(stream)
    for stream in streams:
        current.wait_stream(stream)
    return out
