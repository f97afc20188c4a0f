"""Seconds per call, for the command line and the benchmarks: CUDA graphs and events on a GPU, a clock on a CPU.

What no graph can hold is queued behind a kernel that spins, so that here, too, events tell the device's time alone.

What runs on several devices is timed by the clock, over a long queue of calls, with all of them idle before and after.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median

import torch

__all__ = ["enqueue_seconds", "interleaved", "median", "queue_sampler", "sampler", "synchronize", "time_call", "turns"]

Call = Callable[[], object]

SAMPLE_SECONDS = 2e-3  # one sample holds calls for at least this long: events resolve 0.5 us, clocks about as much
CPU_SAMPLE_SECONDS = 20e-3  # long: the first calls of a sample find the caches as the candidate before left them
MOST_CALLS = 4096  # in one sample
WARMING_SECONDS = 0.3  # before the first sample of a process on the CPU
QUEUE_SECONDS = 20e-3  # of calls in one queue: waiting for two idle GPUs costs some 20 us
ENQUEUED = 16  # calls in a queue that must not fill: a stream holds some 1000 launches before it blocks the host
# For how many cycles a kernel may spin while the host queues calls: from some 40 us to 40 ms at 1.7 GHz.
GATES = tuple(1 << n for n in range(16, 27))
# Calls of one sample behind such kernels: the first one after another candidate's finds caches cold (cupyx, 512³: 7.5
# to 8.8 ms).
LEAST_CALLS = 3
QUEUES = 5  # at most, of one sample behind such kernels: their median counts


def time_call(
    fn: Call | Sequence[Call], device: torch.device | str, *, repeats: int = 20, warmup: int = 3
) -> list[float]:
    """Times one operation; each of the `repeats` results is a mean over enough calls to fill a sample.

    Args:
        fn: what to call; or several calls over different buffers, made in turn, for a working set beyond the L2 cache.
        device: where the work runs.
        repeats: number of samples.
        warmup: calls (rounds of calls) before the first sample.

    Returns:
        `repeats` times in seconds per call; on a GPU the device's time, without the host's. Only what no CUDA graph can
        hold and waits for the device in itself, or takes the host longer than some 40 ms, has the host's time in it.
    """
    sample = sampler(fn, device, warmup=warmup)
    return [sample() for _ in range(repeats)]


def interleaved(
    calls: Mapping[str, Call | Sequence[Call]], device: torch.device | str, *, rounds: int = 5, warmup: int = 3
) -> dict[str, list[float]]:
    """Times several operations in turn, round by round, so that a drifting clock rate meets them all alike."""
    samples = {name: sampler(fn, device, warmup=warmup) for name, fn in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _, name in turns(calls, rounds):
        times[name].append(samples[name]())
    return times


def turns(names: Iterable[str], rounds: int) -> Iterator[tuple[int, str]]:
    """The number of each round and, in an order of its own, each name.

    What a call finds in a CPU's caches is what the one before it left there.
    """
    names, order = list(names), random.Random(0)
    for played in range(rounds):
        for name in order.sample(names, len(names)):
            yield played, name


def sampler(
    fn: Call | Sequence[Call], device: torch.device | str, *, warmup: int = 3, graph: bool = True
) -> Callable[[], float]:
    """Prepares (warms up, captures) and returns a function that takes one sample: seconds per call.

    Where `graph` is false, or capture is refused, the calls run from the host; they must use torch's current stream.
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
    fn: Call | Sequence[Call], devices: Sequence[torch.device | str], *, seconds: float = QUEUE_SECONDS
) -> Callable[[], float]:
    """Prepares and returns a function that takes one sample by the clock: seconds per call of a long queue.

    That is what a caller sees who issues call after call on one or several devices: the slower one of host and devices.
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


def enqueue_seconds(fn: Call, devices: Sequence[torch.device | str], *, samples: int = 160) -> float:
    """The host's time for one call on idle devices, nothing waited for: the median of many."""
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


def _play(calls: list[Call], rounds: int) -> None:
    """Makes all calls `rounds` times, keeping one round of results alive: they then fill different memory too."""
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
    """Rounds of `count` calls that fill a queue; queue(rounds) are the seconds of so many, `few` to begin with."""
    rounds = few
    for _ in range(2):  # among few, a call takes longer than in a long queue
        rounds = _rounds(queue(rounds) / rounds, count, seconds, most)
    return rounds


def _rounds(seconds: float, count: int, sample: float = SAMPLE_SECONDS, most: int = MOST_CALLS) -> int:
    """Rounds of `count` calls, `seconds` long each, that fill a sample."""
    return min(math.ceil(sample / max(seconds, 1e-9)), max(1, most // count))


@functools.cache
def warm_cpu() -> None:
    """Keeps the CPU busy, once a process: torch starts its threads and the clock rises before anything is timed."""
    numbers = torch.rand(1 << 20)
    result = torch.empty_like(numbers)
    end = time.perf_counter() + WARMING_SECONDS
    while time.perf_counter() < end:
        torch.add(numbers, 1, out=result)


def _cpu_sampler(calls: list[Call], warmup: int) -> Callable[[], float]:
    warm_cpu()
    _play(calls, warmup)

    def seconds(rounds: int) -> float:
        start = time.perf_counter()
        _play(calls, rounds)
        return time.perf_counter() - start

    rounds = _rounds(seconds(1), len(calls), CPU_SAMPLE_SECONDS)
    return lambda: seconds(rounds) / (rounds * len(calls))


def _cuda_sampler(calls: list[Call], warmup: int, graph: bool) -> Callable[[], float]:
    _play(calls, max(1, warmup))
    torch.cuda.synchronize()
    device = torch.cuda.current_device()
    if not graph:
        return _gated_sampler(calls, device)

    def seconds(play: Callable[[], None]) -> float:
        with torch.cuda.device(device):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            play()
            end.record()
            end.synchronize()
            return start.elapsed_time(end) / 1e3

    try:
        # The time of an eager round is mostly the host's; that of a replayed round tells how many fill a sample.
        play = _capture(calls, 1)
        play()
        rounds = _rounds(seconds(play), len(calls))
        play = _capture(calls, rounds)
        play()
    except RuntimeError:  # something in the calls cannot be captured
        torch.cuda.synchronize()
        return _gated_sampler(calls, device)

    return lambda: seconds(play) / (rounds * len(calls))


def _gated_sampler(calls: list[Call], device: int) -> Callable[[], float]:
    """Samples of short queues that the host fills while a kernel ahead of them spins: the device then never waits.

    How long it must spin is tried out, twice as long each time, until all calls are queued before it ends; where a host
    is too slow for that, with a single call once more. What waits for the device in itself, or takes the host longer
    than the longest spinning (some 40 ms), gets none, and the host's time is in its own.
    """
    turn = itertools.cycle(calls)  # a queue goes on where the one before it stopped: over all buffers, as in a graph
    results: deque[object] = deque(maxlen=len(calls))

    def queue(count: int, cycles: int) -> tuple[float, bool]:
        """Seconds of so many calls, and whether all were queued before the first one began."""
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
    # Twice what was enough once, for a host that is slower now and then.
    fitting = ((n, 2 * gate) for n in (count, 1) for gate in GATES if queue(n, gate)[1])
    count, cycles = next(fitting, (count, 0))
    filling = math.ceil(SAMPLE_SECONDS / max(queue(count, cycles)[0], 1e-9))
    queues = max(math.ceil(LEAST_CALLS / count), min(QUEUES, filling))
    return lambda: median(queue(count, cycles)[0] for _ in range(queues)) / count


def _capture(calls: list[Call], rounds: int) -> Callable[[], None]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _play(calls, rounds)
    return graph.replay
