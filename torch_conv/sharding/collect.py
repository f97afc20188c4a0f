"""Shards from several GPUs to one of them: every way between two has a stream at each end.

    GPU 1   shard 1 --.      the stream "to GPU 0" of GPU 1, "from GPU 1" of GPU 0
    GPU 0   shard 0 ----> whole     GPU 0's current stream, which waits for the others at last
    GPU 2   shard 2 --'      the stream "to GPU 0" of GPU 2, "from GPU 2" of GPU 0

Torch makes a copy between devices in the source's current stream. A default stream would begin it when both devices'
default streams have come to it, and neither would go on before its end (CUDA's programming guide): shards would come
one after the other, and the target's own would be copied when no other one is under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from torch_conv.sharding.transfer import current_are, inverse, memory_order, streams_of

_Step = tuple[Tensor, Tensor, torch.cuda.Event]  # a place, the shard that goes there, what it waits for


def collect(shards: Sequence[Tensor], ready: Sequence[torch.cuda.Event], device: torch.device, dim: int) -> Tensor:
    """One tensor of shards on CUDA devices, on one of them; ready on its current stream.

    All current streams wait for what reads or writes for them: so the shards may change, and memory be used again,
    right behind the call.
    """
    order = memory_order(next((s for s in shards if s.numel() > 0), shards[0]))
    sizes = [s.size(dim) for s in shards]
    shape = [shards[0].size(d) for d in order]
    shape[order.index(dim)] = sum(sizes)
    out = torch.empty(shape, dtype=shards[0].dtype, device=device).permute(inverse(order))
    current = torch.cuda.current_stream(device)
    allocated = current.record_event()
    steps: dict[torch.device, list[_Step]] = {}
    for step in zip(out.split(sizes, dim), shards, ready, strict=True):
        if step[0].numel() > 0:
            steps.setdefault(step[1].device, []).append(step)
    own = steps.pop(device, [])
    joins: list[tuple[torch.cuda.Stream, torch.cuda.Stream]] = []  # who waits at last, and for whom
    try:
        for origin, far in steps.items():
            source = torch.cuda.current_stream(origin)
            sending = streams_of(origin).peer_stream("to", device)
            receiving = streams_of(device).peer_stream("from", origin)
            joins += (source, sending), (current, receiving)
            sending.wait_stream(source)
            receiving.wait_event(allocated)
            with current_are((sending, receiving)):
                _copy(far, sending, source)
        _copy(own, current, current)
    finally:
        for waiting, stream in joins:
            waiting.wait_stream(stream)
    return out


def _copy(steps: Iterable[_Step], stream: torch.cuda.Stream, kept: torch.cuda.Stream) -> None:
    """Copies shards to their places on `stream` when they are ready; `kept` is the current one that waits for it."""
    awaited: set[torch.cuda.Event] = set()
    for place, shard, event in steps:
        if event not in awaited:
            awaited.add(event)
            stream.wait_event(event)
        shard.record_stream(kept)
        place.copy_(shard, non_blocking=True)
