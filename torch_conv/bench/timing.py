"""Seconds per call, for the command line and the benchmarks: CUDA graphs and events on a GPU, a clock on a CPU.

Calls that no CUDA graph can capture are queued behind a spinning kernel, so that events measure the device's time.
Calls on several devices are timed by the clock, over a long queue, with all devices idle before and after.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median

import torch

__all__ = ["enqueue_seconds", "interleaved", "median", "queue_sampler", "sampler", "synchronize", "time_call", "turns"]

Function = Callable[[], object]

SAMPLE_SECONDS = 2e-3  # the least length of a sample; events and clocks resolve 0.5 us
CPU_SAMPLE_SECONDS = 20e-3  # longer, because the first calls of a sample miss the caches
MOST_CALLS = 4096  # in one sample
WARMING_SECONDS = 0.3  # before the first sample of a process on the CPU
QUEUE_SECONDS = 20e-3  # of one queue; a wait for two idle GPUs takes 20 us
ENQUEUED = 16  # calls in a queue that must not block the host; a stream holds 1000 launches

# Cycles of a kernel that spins while the host queues calls: 40 us to 40 ms at 1.7 GHz.
SPIN_CYCLES = tuple(1 << n for n in range(16, 27))
LEAST_CALLS = 3  # of one sample behind a spinning kernel; the first finds cold caches (cupyx, 512³: 7.5 to 8.8 ms)
QUEUES = 5  # of one sample behind spinning kernels, at most; the sample is their median


def time_call(
    fn: Function | Sequence[Function], device: torch.device | str, *, repeats: int = 20, warmup: int = 3
) -> list[float]:
    """Times one operation; each of the `repeats` results is a mean over enough calls to fill a sample.

    Args:
        fn: a function without arguments, or several on different buffers, for a working set beyond the L2 cache.
        device: the device of the work.
        repeats: number of samples.
        warmup: calls (rounds of calls) before the first sample.

    Returns:
        `repeats` times in seconds per call, on a GPU without the host's time. The host's time is included if no CUDA
        graph can capture the call and the call waits for the device, or takes the host more than 40 ms.
    """
    sample = sampler(fn, device, warmup=warmup)
    return [sample() for _ in range(repeats)]


def interleaved(
    calls: Mapping[str, Function | Sequence[Function]], device: torch.device | str, *, rounds: int = 5, warmup: int = 3
) -> dict[str, list[float]]:
    """Times several operations in turn, round by round, so that a drifting clock rate affects all of them."""
    return in_rounds({name: sampler(fn, device, warmup=warmup) for name, fn in calls.items()}, rounds)


def in_rounds(samplers: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """A sample of each in every round."""
    times: dict[str, list[float]] = {name: [] for name in samplers}
    for _, name in turns(samplers, rounds):
        times[name].append(samplers[name]())
    return times


def turns(names: Iterable[str], rounds: int) -> Iterator[tuple[int, str]]:
    """(round, name) for each round and each name, in another order each round.

    The order matters because each call finds the caches that the call before it left.
    """
    names, order = list(names), random.Random(0)
    for played in range(rounds):
        for name in order.sample(names, len(names)):
            yield played, name


def sampler(
    fn: Function | Sequence[Function], device: torch.device | str, *, warmup: int = 3, graph: bool = True
) -> Callable[[], float]:
    """Warms up, captures and returns a function that takes one sample: seconds per call.

    Without `graph`, or if the capture fails, the host launches the calls, which must use torch's current stream.
    """
    calls = [fn] if callable(fn) else list(fn)
    device = torch.device(device)
    if device.type == "cuda":
        with torch.cuda.device(device):
            return _cuda_sampler(calls, warmup, graph)
    return _cpu_sampler(calls, warmup)


def synchronize(devices: Iterable[torch.device | str]) -> None:
    """Waits until all of these devices are idle."""
    for device in {torch.device(d) for d in devices}:
        if device.type == "cuda":
            torch.cuda.synchronize(device)


def queue_sampler(
    fn: Function | Sequence[Function], devices: Sequence[torch.device | str], *, seconds: float = QUEUE_SECONDS
) -> Callable[[], float]:
    """Returns a function that takes one sample by the clock: seconds per call of a long queue.

    The sample is the time of the host or of the devices, whichever is slower.
    """
    calls = [fn] if callable(fn) else list(fn)

    def queue(rounds: int) -> float:
        synchronize(devices)
        start = time.perf_counter()
        _play(calls, rounds)
        synchronize(devices)
        return time.perf_counter() - start

    queue(2)
    rounds = rounds_of_queue(queue, len(calls), seconds)
    return lambda: queue(rounds) / (rounds * len(calls))


def enqueue_seconds(fn: Function, devices: Sequence[torch.device | str], *, samples: int = 160) -> float:
    """The host's median time for one call on idle devices, without waits."""
    times: list[float] = []
    while len(times) < samples:
        synchronize(devices)
        for _ in range(ENQUEUED):
            start = time.perf_counter()
            result = fn()
            times.append(time.perf_counter() - start)
            del result
    synchronize(devices)
    return median(times)


def _play(calls: list[Function], rounds: int) -> None:
    """Makes all calls `rounds` times, and keeps one round of results, so that results fill different memory."""
    results: deque[object] = deque(maxlen=len(calls))
    for _ in range(rounds):
        for call in calls:
            results.append(call())


def rounds_of_queue(
    queue: Callable[[int], float],
    count: int = 1,
    seconds: float = QUEUE_SECONDS,
    *,
    few: int = 1,
    most: int = MOST_CALLS,
) -> int:
    """Rounds of `count` calls that fill a queue. queue(rounds) returns seconds; it is first called with `few`."""
    rounds = few
    for _ in range(2):  # a call takes longer in a short queue than in a long one
        rounds = _rounds(queue(rounds) / rounds, count, seconds, most)
    return rounds


def _rounds(seconds: float, count: int, sample: float = SAMPLE_SECONDS, most: int = MOST_CALLS) -> int:
    """Rounds of `count` calls that fill a sample, if each call takes `seconds`."""
    return min(math.ceil(sample / max(seconds, 1e-9)), max(1, most // count))


@functools.cache
def warm_cpu() -> None:
    """Keeps the CPU busy once a process, so that torch starts its threads and the clock rate rises."""
    values = torch.rand(1 << 20)
    result = torch.empty_like(values)
    end = time.perf_counter() + WARMING_SECONDS
    while time.perf_counter() < end:
        torch.add(values, 1, out=result)


def _cpu_sampler(calls: list[Function], warmup: int) -> Callable[[], float]:
    warm_cpu()
    _play(calls, warmup)

    def seconds(rounds: int) -> float:
        start = time.perf_counter()
        _play(calls, rounds)
        return time.perf_counter() - start

    rounds = _rounds(seconds(1), len(calls), CPU_SAMPLE_SECONDS)
    return lambda: seconds(rounds) / (rounds * len(calls))


def wait_for_compiler() -> None:
    """From here on calls wait for their kernels, unless TORCH_CONV_COMPILE says otherwise: other kernels' times say
    nothing about the library."""
    os.environ.setdefault("TORCH_CONV_COMPILE", "wait")


def _cuda_sampler(calls: list[Function], warmup: int, graph: bool) -> Callable[[], float]:
    _play(calls, 1)
    torch.ops.torch_conv._finish_compiling()  # only later calls run on the kernels that they keep
    _play(calls, max(1, warmup))
    torch.cuda.synchronize()
    device = torch.cuda.current_device()
    if not graph:
        return _spinning_sampler(calls, device)

    def seconds(play: Callable[[], None]) -> float:
        with torch.cuda.device(device):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            play()
            end.record()
            end.synchronize()
            return start.elapsed_time(end) / 1e3

    try:
        # A replayed round is timed, because an eager round takes mostly the host's time.
        play = _capture(calls, 1)
        play()
        rounds = _rounds(seconds(play), len(calls))
        play = _capture(calls, rounds)
        play()
    except RuntimeError:  # the calls cannot be captured
        torch.cuda.synchronize()
        return _spinning_sampler(calls, device)

    return lambda: seconds(play) / (rounds * len(calls))


def _spinning_sampler(calls: list[Function], device: int) -> Callable[[], float]:
    """Samples of short queues behind a spinning kernel, during which the host queues the calls.

    The spinning time doubles until the host queues all calls in it. If the longest spin is too short, a queue has a
    single call. If it is too short for one call, no kernel spins, and the samples include the host's time.
    """
    turn = itertools.cycle(calls)  # each queue continues with the next buffer
    results: deque[object] = deque(maxlen=len(calls))

    def queue(count: int, cycles: int) -> tuple[float, bool]:
        """Seconds of `count` calls, and whether all were queued before the first began."""
        with torch.cuda.device(device):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(cycles)
            start.record()
            for call in itertools.islice(turn, count):
                results.append(call())
            end.record()
            ahead = not start.query()
            end.synchronize()
            return start.elapsed_time(end) / 1e3, ahead

    count = min(ENQUEUED, max(LEAST_CALLS, math.ceil(SAMPLE_SECONDS / max(queue(1, 0)[0], 1e-9))))
    # Twice the sufficient cycles, because the host's time varies.
    fitting = ((n, 2 * cycles) for n in (count, 1) for cycles in SPIN_CYCLES if queue(n, cycles)[1])
    count, cycles = next(fitting, (count, 0))
    filling = math.ceil(SAMPLE_SECONDS / max(queue(count, cycles)[0], 1e-9))
    queues = max(math.ceil(LEAST_CALLS / count), min(QUEUES, filling))
    return lambda: median(queue(count, cycles)[0] for _ in range(queues)) / count


def _capture(calls: list[Function], rounds: int) -> Callable[[], None]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _play(calls, rounds)
    return graph.replay
