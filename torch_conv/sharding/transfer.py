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
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor

# What a pageable image passes through: so many for every device, made when first needed and kept. 1 GiB at 51.3 GB/s by
# 4 of 16 MiB, 47.9 by 3, 37.8 by 2 or by 2 of 32 MiB 46.9, 40.9 by 8 of 4 MiB; pinned 54.6 (one NVIDIA H200).
_BUFFERS = 4
_BUFFER = 16 << 20
# Shorter rows are gathered by the host rather than copied one by one. 1 GiB in rows of 1 MiB: 47.8 GB/s one by one,
# 36.7 gathered; in rows of 256 KiB 15.6 and 35.6 (one NVIDIA H200, pinned).
_ROW = 1 << 20


class DeviceStreams:
    """The streams of one device and the pinned buffers in front of it."""

    def __init__(self, device: torch.device) -> None:
        self.up = torch.cuda.Stream(device)
        self.down = torch.cuda.Stream(device)
        self._peer_streams: dict[tuple[str, torch.device], torch.cuda.Stream] = {}
        self._buffers: list[tuple[Tensor, torch.cuda.Event]] = []
        self._turn = 0

    def peer_stream(self, direction: str, other: torch.device) -> torch.cuda.Stream:
        """A stream on this device for what it receives from another one, or sends there: `way` says which."""
        with _lock:
            if (direction, other) not in self._peer_streams:
                self._peer_streams[direction, other] = torch.cuda.Stream(self.up.device)
            return self._peer_streams[direction, other]

    def send(self, chunk: Tensor, target: Tensor) -> None:
        """Copies a matrix of bytes, at most a buffer's, to contiguous memory of the device; `chunk` may then change.

        `up` is the device's current stream meanwhile.
        """
        if len(self._buffers) < _BUFFERS:
            self._buffers.append((torch.empty(_BUFFER, dtype=torch.uint8, pin_memory=True), torch.cuda.Event()))
        self._turn = (self._turn + 1) % len(self._buffers)
        buffer, free = self._buffers[self._turn]
        free.synchronize()  # the only wait of the host: until its own buffer has been read
        staged = buffer[: chunk.numel()].view(chunk.shape)
        staged.copy_(chunk)
        target.copy_(staged, non_blocking=True)
        free.record(self.up)


_streams: dict[torch.device, DeviceStreams] = {}
_lock = threading.Lock()


def streams_of(device: torch.device) -> DeviceStreams:
    with _lock:
        if device not in _streams:
            _streams[device] = DeviceStreams(device)
        return _streams[device]


@contextmanager
def current_are(streams: Iterable[torch.cuda.Stream]) -> Iterator[None]:
    """Makes each the current stream of its device: once a call, because that takes the host as long as a copy."""
    with ExitStack() as stack:
        for stream in streams:
            stack.enter_context(torch.cuda.stream(stream))
        yield


def memory_order(t: Tensor) -> list[int]:
    """The dimensions from the outermost in memory to the innermost; as they are if the memory has gaps."""
    order = list(range(t.dim()))
    if not t.is_contiguous():
        by_stride = sorted(order, key=t.stride, reverse=True)
        if t.permute(by_stride).is_contiguous():
            return by_stride
    return order


def inverse(order: Sequence[int]) -> list[int]:
    return [order.index(d) for d in range(len(order))]


def moved(part: Tensor, order: list[int], device: torch.device, non_blocking: bool) -> Tensor:
    """A part of a tensor with this memory order on another device, in the same order; itself if it is there."""
    if part.device == device:
        return part
    return part.permute(order).contiguous().to(device, non_blocking=non_blocking).permute(inverse(order))


def _bytes_in_rows(t: Tensor, at: int) -> Tensor:
    """A contiguous tensor as a matrix of bytes: a row for every index in front of dimension `at`."""
    flat = t.as_strided((t.numel(),), (1,))  # a dimension of size 1 may have any stride
    return flat.view(torch.uint8).view(math.prod(t.shape[:at]), -1)


def _in_rows(t: Tensor, at: int) -> Sequence[Tensor]:
    """The blocks of a range along dimension `at` of a contiguous tensor: one for every index in front of it."""
    count = math.prod(t.shape[:at])
    return (t,) if count == 1 else t.view(count, *t.shape[at:]).unbind()


def upload(
    tensor: Tensor, dim: int, sizes: Sequence[int], devices: Sequence[torch.device]
) -> tuple[list[Tensor], list[torch.cuda.Event | None]]:
    """The shards of a CPU tensor on CUDA devices, and the event behind each one's arrival.

    A pinned tensor is read where it lies, until then; of another one nothing is read after the call. Shards belong to
    the streams they arrive on: whoever reads them elsewhere waits for the event and records its stream.
    """
    order = memory_order(tensor)
    tensor = tensor.permute(order).resolve_conj().resolve_neg().contiguous()
    at = order.index(dim)
    before, behind = tensor.shape[:at], tensor.shape[at + 1 :]
    streams = {device: streams_of(device) for device in devices}
    arrived: list[torch.cuda.Event | None] = [None] * len(sizes)
    with current_are(of_device.up for of_device in streams.values()):
        shards = [
            torch.empty((*before, size, *behind), dtype=tensor.dtype, device=device)
            for size, device in zip(sizes, devices, strict=True)
        ]
        if tensor.numel() > 0:
            _send_all(tensor, at, sizes, shards, [streams[device] for device in devices], arrived)
    return [shard.permute(inverse(order)) for shard in shards] if order != sorted(order) else shards, arrived


def _send_all(
    tensor: Tensor,
    at: int,
    sizes: Sequence[int],
    shards: Sequence[Tensor],
    streams: Sequence[DeviceStreams],
    arrived: list[torch.cuda.Event | None],
) -> None:
    pinned, count = tensor.is_pinned(), math.prod(tensor.shape[:at])
    unit = tensor.element_size() * math.prod(tensor.shape[at + 1 :])
    parts = tensor.split(list(sizes), at)
    queues: dict[DeviceStreams, deque[Iterator[None]]] = {}
    begin = 0
    for i, size in enumerate(sizes):
        if size > 0:
            if pinned and (count == 1 or size * unit >= _ROW):
                sending = _sending_rows(_in_rows(parts[i], at), _in_rows(shards[i], at))
            else:
                columns = _bytes_in_rows(tensor, at)[:, begin * unit : (begin + size) * unit]
                sending = _sending_staged(columns, _bytes_in_rows(shards[i], at), streams[i])
            queues.setdefault(streams[i], deque()).append(_send_and_record(sending, streams[i], arrived, i))
        begin += size
    # A chunk for each device in turn, so that all links are busy.
    with _sending_lock:
        turns = deque(queues.values())
        while turns:
            queue = turns.popleft()
            if next(queue[0], _DONE) is _DONE:
                queue.popleft()
            if queue:
                turns.append(queue)


_DONE = object()
_sending_lock = threading.Lock()


def _send_and_record(
    sending: Iterator[None], streams: DeviceStreams, arrived: list[torch.cuda.Event | None], i: int
) -> Iterator[None]:
    """Queues a shard chunk by chunk, and behind the last one the event of its arrival."""
    yield from sending
    arrived[i] = streams.up.record_event()


def _sending_rows(source: Sequence[Tensor], target: Sequence[Tensor]) -> Iterator[None]:
    for row, place in zip(source, target, strict=True):
        place.copy_(row, non_blocking=True)
        yield


def _sending_staged(source: Tensor, target: Tensor, streams: DeviceStreams) -> Iterator[None]:
    count, length = source.shape
    rows, columns = max(1, _BUFFER // length), min(length, _BUFFER)
    for row in range(0, count, rows):
        for column in range(0, length, columns):
            piece = slice(row, row + rows), slice(column, column + columns)
            streams.send(source[piece], target[piece])
            yield


def download(shards: Sequence[Tensor], ready: Sequence[torch.cuda.Event], turns: Sequence[int], dim: int) -> Tensor:
    """One pinned tensor of shards on CUDA devices, complete on return; `turns` is the order in which they get ready."""
    order = memory_order(next((s for s in shards if s.numel() > 0), shards[0]))
    at, back = order.index(dim), inverse(order)
    sizes = [s.size(dim) for s in shards]
    shape = [shards[0].size(d) for d in order]
    shape[at] = sum(sizes)
    out = torch.empty(shape, dtype=shards[0].dtype, pin_memory=True)
    if out.numel() == 0:
        return out.permute(back)
    count, unit = math.prod(shape[:at]), out.element_size() * math.prod(shape[at + 1 :])
    places = out.split(sizes, at)
    gathered: list[tuple[torch.cuda.Event, Tensor, Tensor]] = []
    streams = {device: streams_of(device).down for device in {s.device for s in shards}}
    awaited: set[tuple[torch.device, torch.cuda.Event]] = set()
    # Nothing here needs record_stream: the shards are alive until their streams have been waited for.
    try:
        with current_are(streams.values()):
            for i in turns:
                if sizes[i] == 0:
                    continue
                device, stream = shards[i].device, streams[shards[i].device]
                if (device, ready[i]) not in awaited:
                    awaited.add((device, ready[i]))
                    stream.wait_event(ready[i])
                source = shards[i].permute(order).resolve_conj().resolve_neg().contiguous()
                if count == 1 or sizes[i] * unit >= _ROW:
                    for place, row in zip(_in_rows(places[i], at), _in_rows(source, at), strict=True):
                        place.copy_(row, non_blocking=True)
                else:
                    staged = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
                    staged.copy_(source, non_blocking=True)
                    gathered.append((stream.record_event(), places[i], staged))
        for event, place, staged in gathered:
            event.synchronize()
            place.copy_(staged)
    finally:
        for stream in streams.values():
            stream.synchronize()
    return out.permute(back)
