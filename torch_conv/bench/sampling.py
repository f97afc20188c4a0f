"""The samples of one call: its time and its memory; the properties of the machine."""

from __future__ import annotations

import ctypes
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from math import inf, sqrt
from typing import Any

import torch

from torch_conv.bench.timing import sampler, turns

HOST_CALLS = 20  # in one sample of host time; a stream holds far more launches before it blocks
ENDLESS_S = 0.05  # a call that takes longer than this is timed by itself, once a round
ONCE_S = 0.5  # a call that takes longer than this is timed once
# Relative standard error at which a median counts as known. The ratios of two runs have four medians, so they mostly
# differ by 2 %. On one NVIDIA H100 75 of 3006 medians had a larger error after 5 or 7 rounds.
KNOWN = 0.01
LONGER = 3  # more rounds on a GPU while a median is not known; a sample takes some ms


def buffers_needed(device: str, bytes_per_call: int) -> int:
    """The number of buffers that together are at least four times as large as the last cache."""
    cache = torch.cuda.get_device_properties(device).L2_cache_size if device == "cuda" else 0
    return max(1, -(-4 * cache // bytes_per_call))


def fma_peak(device: str) -> float | None:
    """float32 operations per second at the highest clock, 67e12 on an H200; None where torch does not say."""
    gpu = torch.cuda.get_device_properties(device) if device == "cuda" else None
    if gpu is None or not getattr(gpu, "clock_rate", 0):
        return None
    lanes = 64 if (gpu.major, gpu.minor) == (8, 0) else 128
    return 2.0 * lanes * gpu.multi_processor_count * gpu.clock_rate * 1e3


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TimeoutError in the running code after so many seconds."""
    if seconds == inf:
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError(f"not ready in {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def once(call: Callable[[], Any], device: str) -> float:
    """Seconds of one call, start to end."""
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def prepared_sampler(
    calls: Sequence[Callable[[], Any]], device: str, graph: bool, slow: float = 0.0
) -> Callable[[], float]:
    """A function that takes one sample, seconds per call: from a CUDA graph, or by the host where `graph` is false.

    `slow` is the time of a long call, or of one many times slower than ours. Such a call is timed by itself.
    """
    if slow > ONCE_S:
        return lambda: slow
    if slow and (device == "cpu" or slow > ENDLESS_S):
        return lambda: once(calls[0], device)
    return sampler(calls, device, warmup=1 if slow else 3, graph=graph)


def in_turn(
    samplers: Mapping[str, Callable[[], float]],
    contexts: Mapping[str, Callable[[], AbstractContextManager[Any]]],
    rounds: Mapping[str, int],
    longer: int,
) -> dict[str, list[float]]:
    """Samples of each call, round by round: `rounds`, and up to `longer` times as many while a median is not known.

    Extra rounds sample all calls with the most rounds, so that a drift affects them alike.
    """
    samples: dict[str, list[float]] = {name: [] for name in samplers}
    most = max(rounds.values())
    order = turns(samplers, longer * most)
    for _ in range(longer * most):
        noisy = {name for name, taken in samples.items() if len(taken) < longer * rounds[name] and not known(taken)}
        for _, name in islice(order, len(samplers)):
            if len(samples[name]) < rounds[name] or name in noisy or (noisy and rounds[name] == most):
                with contexts[name]():
                    samples[name].append(samplers[name]())
    return samples


def known(samples: Sequence[float]) -> bool:
    """Whether the median's standard error is small: 0.93 interquartile ranges over sqrt(n) for normal samples."""
    if len(samples) < 2:  # a long call is timed once
        return True
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return 0.93 * (high - low) <= KNOWN * middle * sqrt(len(samples))


def keep_freed_memory() -> None:
    """Lets malloc (glibc) reuse freed memory of any size instead of fresh pages."""
    trim_threshold, mmap_max = -1, -4
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(mmap_max, 0)
        libc.mallopt(trim_threshold, 2**31 - 1)


def extra_memory(call: Callable[[], Any]) -> int:
    """Peak bytes of one call beyond live memory and its output, as the allocator rounds them."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    output = call()
    torch.cuda.synchronize()
    after = torch.cuda.memory_allocated()
    del output
    return torch.cuda.max_memory_allocated() - max(before, after)


def host_us(call: Callable[[], Any], seconds: float) -> float | None:
    """The time of one call in the Python thread, in microseconds; None for calls of more than 5 ms."""
    if seconds > 5e-3:
        return None
    samples = []
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(HOST_CALLS):
            call()
        samples.append((time.perf_counter() - start) / HOST_CALLS)
    torch.cuda.synchronize()
    return statistics.median(samples) * 1e6
