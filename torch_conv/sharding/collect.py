"""Copies shards from several GPUs to one of them. Each pair of GPUs has a stream on both devices.

    GPU 1   shard 1 --.      the stream "to GPU 0" of GPU 1, "from GPU 1" of GPU 0
    GPU 0   shard 0 ----> whole     GPU 0's current stream, which finally waits for the others
    GPU 2   shard 2 --'      the stream "to GPU 0" of GPU 2, "from GPU 2" of GPU 0

Torch copies between devices on the source's current stream. On default streams, a copy would wait for both devices'
streams and hold both up until its end (CUDA's programming guide). The copies would then run one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from torch_conv.sharding.transfer import current_are, inverse, memory_order, streams_of

_Copy = tuple[Tensor, Tensor, torch.cuda.Event]  # target, shard, the event that makes the shard ready


def collect(shards: Sequence[Tensor], ready: Sequence[torch.cuda.Event], device: torch.device, dim: int) -> Tensor:
    """Concatenates shards on CUDA devices into a tensor on `device`, ready on its current stream.

    All current streams wait for the copies, so shards may change, and their memory may be reused, after the call.
    """
    order = memory_order(next((s for s in shards if s.numel() > 0), shards[0]))
    sizes = [s.size(dim) for s in shards]
    shape = [shards[0].size(d) for d in order]
    shape[order.index(dim)] = sum(sizes)
    out = torch.empty(shape, dtype=shards[0].dtype, device=device).permute(inverse(order))
    current = torch.cuda.current_stream(device)
    allocated = current.record_event()
    copies: dict[torch.device, list[_Copy]] = {}
    for target, shard, event in zip(out.split(sizes, dim), shards, ready, strict=True):
        if target.numel() > 0:
            copies.setdefault(shard.device, []).append((target, shard, event))
    own = copies.pop(device, [])
    joins: list[tuple[torch.cuda.Stream, torch.cuda.Stream]] = []  # (waiting stream, stream it waits for)
    try:
        for origin, remote in copies.items():
            source = torch.cuda.current_stream(origin)
            sending = streams_of(origin).peer_stream("to", device)
            receiving = streams_of(device).peer_stream("from", origin)
            joins += (source, sending), (current, receiving)
            sending.wait_stream(source)
            receiving.wait_event(allocated)
            with current_are((sending, receiving)):
                _run(remote, sending, source)
        _run(own, current, current)
    finally:
        for waiting, stream in joins:
            waiting.wait_stream(stream)
    return out


def _run(copies: Iterable[_Copy], stream: torch.cuda.Stream, current: torch.cuda.Stream) -> None:
    """Copies shards on `stream` when they are ready. `current`, which later waits for it, keeps their memory."""
    awaited: set[torch.cuda.Event] = set()
    for target, shard, event in copies:
        if event not in awaited:
            awaited.add(event)
            stream.wait_event(event)
        shard.record_stream(current)
        target.copy_(shard, non_blocking=True)
