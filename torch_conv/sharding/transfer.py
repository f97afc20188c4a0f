"""Copies of shards between the host and GPUs, through pinned memory, on separate streams, ordered by events.

    host image  |  shard 0  |  shard 1  |  shard 2  |
                      |           |           |          the stream `up` of each device, an event behind each shard
    GPUs           filter 0    filter 1    filter 2      the device's current stream
                      |           |           |          the stream `down` of each device
    host result |  shard 0  |  shard 1  |  shard 2  |

A host tensor counts as a matrix of bytes, with a row for each index in front of the split dimension. A shard is a range
of columns. Short rows and memory that is not pinned go through pinned buffers.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor

# Pinned buffers of each device for pageable images, allocated at first use. GB/s for 1 GiB on one NVIDIA H200:
#
#     16 MiB: 4 buffers 51.3, 3 buffers 47.9, 2 buffers 37.8
#     2 of 32 MiB 46.9, 8 of 4 MiB 40.9; pinned image 54.6
_BUFFERS = 4
_BUFFER_BYTES = 16 << 20
# The host gathers shorter rows into a buffer. GB/s for 1 GiB on one NVIDIA H200, pinned:
#
#     rows of 1 MiB     copied one by one 47.8, gathered 36.7
#     rows of 256 KiB   copied one by one 15.6, gathered 35.6
_ROW_BYTES = 1 << 20


class DeviceStreams:
    """The copy streams of one device, and its pinned buffers."""

    def __init__(self, device: torch.device) -> None:
        self.up = torch.cuda.Stream(device)
        self.down = torch.cuda.Stream(device)
        self._peer_streams: dict[tuple[str, torch.device], torch.cuda.Stream] = {}
        self._buffers: list[tuple[Tensor, torch.cuda.Event]] = []
        self._next = 0

    def peer_stream(self, direction: str, other: torch.device) -> torch.cuda.Stream:
        """The stream of this device for copies "from" or "to" (the direction) another device."""
        with _lock:
            if (direction, other) not in self._peer_streams:
                self._peer_streams[direction, other] = torch.cuda.Stream(self.up.device)
            return self._peer_streams[direction, other]

    def send(self, chunk: Tensor, target: Tensor) -> None:
        """Copies a matrix of bytes that fits a buffer to contiguous memory of the device.

        `up` must be the device's current stream. After the call, `chunk` may change.
        """
        if len(self._buffers) < _BUFFERS:
            self._buffers.append((torch.empty(_BUFFER_BYTES, dtype=torch.uint8, pin_memory=True), torch.cuda.Event()))
        self._next = (self._next + 1) % len(self._buffers)
        buffer, free = self._buffers[self._next]
        free.synchronize()  # the host waits until the device has read the buffer
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
    """Makes each stream the current one of its device. This takes the host as long as a copy."""
    with ExitStack() as stack:
        for stream in streams:
            stack.enter_context(torch.cuda.stream(stream))
        yield


def memory_order(t: Tensor) -> list[int]:
    """The dimensions from the outermost in memory to the innermost, or in order if the memory has gaps."""
    order = list(range(t.dim()))
    if not t.is_contiguous():
        by_stride = sorted(order, key=t.stride, reverse=True)
        if t.permute(by_stride).is_contiguous():
            return by_stride
    return order


def inverse(order: Sequence[int]) -> list[int]:
    return [order.index(d) for d in range(len(order))]


def _bytes_in_rows(t: Tensor, at: int) -> Tensor:
    """A contiguous tensor as a matrix of bytes: a row for every index in front of dimension `at`."""
    flat = t.as_strided((t.numel(),), (1,))  # a dimension of size 1 may have any stride
    return flat.view(torch.uint8).view(math.prod(t.shape[:at]), -1)


def _in_rows(t: Tensor, at: int) -> Sequence[Tensor]:
    """The blocks of a contiguous tensor, one for each index in front of dimension `at`."""
    count = math.prod(t.shape[:at])
    return (t,) if count == 1 else t.view(count, *t.shape[at:]).unbind()


def upload(
    tensor: Tensor, dim: int, sizes: Sequence[int], devices: Sequence[torch.device]
) -> tuple[list[Tensor], list[torch.cuda.Event | None]]:
    """Copies the shards of a CPU tensor to CUDA devices. Returns them with events behind their copies.

    A pinned tensor must not change before these events; any other may change after the call. The memory of a shard
    belongs to its copy stream. Other streams must wait for the event and record themselves (record_stream).
    """
    order = memory_order(tensor)
    tensor = tensor.permute(order).resolve_conj().resolve_neg().contiguous()
    at = order.index(dim)
    before, behind = tensor.shape[:at], tensor.shape[at + 1 :]
    streams = {device: streams_of(device) for device in devices}
    arrived: list[torch.cuda.Event | None] = [None] * len(sizes)
    with current_are(device_streams.up for device_streams in streams.values()):
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
            if pinned and (count == 1 or size * unit >= _ROW_BYTES):
                sending = _sending_rows(_in_rows(parts[i], at), _in_rows(shards[i], at))
            else:
                columns = _bytes_in_rows(tensor, at)[:, begin * unit : (begin + size) * unit]
                sending = _sending_staged(columns, _bytes_in_rows(shards[i], at), streams[i])
            queues.setdefault(streams[i], deque()).append(_send_and_record(sending, streams[i], arrived, i))
        begin += size
    # The devices take turns, one chunk each, so that all links are busy.
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
    """Queues a shard chunk by chunk, then records the event of its arrival."""
    yield from sending
    arrived[i] = streams.up.record_event()


def _sending_rows(source: Sequence[Tensor], target: Sequence[Tensor]) -> Iterator[None]:
    for row, target_row in zip(source, target, strict=True):
        target_row.copy_(row, non_blocking=True)
        yield


def _sending_staged(source: Tensor, target: Tensor, streams: DeviceStreams) -> Iterator[None]:
    count, length = source.shape
    rows, columns = max(1, _BUFFER_BYTES // length), min(length, _BUFFER_BYTES)
    for row in range(0, count, rows):
        for column in range(0, length, columns):
            piece = slice(row, row + rows), slice(column, column + columns)
            streams.send(source[piece], target[piece])
            yield


def download(shards: Sequence[Tensor], ready: Sequence[torch.cuda.Event], turns: Sequence[int], dim: int) -> Tensor:
    """Concatenates shards on CUDA devices into a pinned tensor, and waits. `turns` is the order of their readiness."""
    order = memory_order(next((s for s in shards if s.numel() > 0), shards[0]))
    at, back = order.index(dim), inverse(order)
    sizes = [s.size(dim) for s in shards]
    shape = [shards[0].size(d) for d in order]
    shape[at] = sum(sizes)
    out = torch.empty(shape, dtype=shards[0].dtype, pin_memory=True)
    if out.numel() == 0:
        return out.permute(back)
    count, unit = math.prod(shape[:at]), out.element_size() * math.prod(shape[at + 1 :])
    targets = out.split(sizes, at)
    gathered: list[tuple[torch.cuda.Event, Tensor, Tensor]] = []
    streams = {device: streams_of(device).down for device in {s.device for s in shards}}
    awaited: set[tuple[torch.device, torch.cuda.Event]] = set()
    # The shards live until the host has waited for all streams, so record_stream is not needed.
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
                if count == 1 or sizes[i] * unit >= _ROW_BYTES:
                    for target, row in zip(_in_rows(targets[i], at), _in_rows(source, at), strict=True):
                        target.copy_(row, non_blocking=True)
                else:
                    staged = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
                    staged.copy_(source, non_blocking=True)
                    gathered.append((stream.record_event(), targets[i], staged))
        for event, target, staged in gathered:
            event.synchronize()
            target.copy_(staged)
    finally:
        for stream in streams.values():
            stream.synchronize()
    return out.permute(back)
