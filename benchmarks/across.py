"""CUDA graphs that span several devices: their time without the host's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch

from torch_conv.bench.timing import _play, rounds_of_queue, synchronize

MOST_NODES = 1000  # calls in one graph: each is some kernels and events a device


def graph_sampler(
    calls: Sequence[Callable[[], object]], devices: Sequence[torch.device]
) -> tuple[Callable[[], float], Any]:
    """A function that takes one sample, device seconds per call, and what must live as long as it is used."""
    first = devices[0]
    _play(list(calls), 2)
    synchronize(devices)

    def seconds(graph: torch.cuda.CUDAGraph) -> float:
        with torch.cuda.device(first):
            synchronize(devices)
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            return start.elapsed_time(end) / 1e3

    def warmed(rounds: int) -> tuple[torch.cuda.CUDAGraph, Any]:
        graph, pools = capture(calls, devices, rounds)
        seconds(graph)
        return graph, pools

    def queue(rounds: int) -> float:
        alive = warmed(rounds)  # the pools, too
        return seconds(alive[0])

    # Four GPUs begin and end together: 8192² takes 53 us in a graph of 2 ms, 51 in one of 20.
    rounds = rounds_of_queue(queue, len(calls), most=MOST_NODES)
    graph, pools = warmed(rounds)
    return lambda: seconds(graph) / (rounds * len(calls)), (graph, pools)


def capture(
    calls: Sequence[Callable[[], object]], devices: Sequence[torch.device], rounds: int
) -> tuple[torch.cuda.CUDAGraph, Any]:
    """One graph of all work that the calls queue on these devices, and the objects that it needs as long as it lives.

    The first device's stream captures. The other streams are forked from it by an event and joined to it at the end.
    Each device has a memory pool of its own, as the capturing device has.
    """
    first, *others = dict.fromkeys(devices)
    graph = torch.cuda.CUDAGraph()
    streams = {d: torch.cuda.Stream(d) for d in (first, *others)}
    pools = []
    try:
        with ExitStack() as stack:
            for d in others:
                with torch.cuda.device(d):
                    pools.append(torch.cuda.MemPool())
                stack.enter_context(torch.cuda.use_mem_pool(pools[-1], device=d))
            stack.enter_context(torch.cuda.device(first))
            stack.enter_context(torch.cuda.graph(graph, stream=streams[first], capture_error_mode="relaxed"))
            fork = streams[first].record_event()
            for d in others:
                streams[d].wait_event(fork)
            with ExitStack() as current:
                for d in (*others, first):
                    current.enter_context(torch.cuda.stream(streams[d]))
                _play(list(calls), rounds)
            for d in others:
                streams[first].wait_event(streams[d].record_event())
    finally:  # a capture that fails leaves its stream behind as the current one
        for d in (*others, first):
            torch.cuda.set_stream(torch.cuda.default_stream(d))
    return graph, pools
