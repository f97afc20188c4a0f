"""Whether other programs disturbed a measurement: the processor time that they took, and equal calls that vary."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median, quantiles

MedianAndRange = tuple[float, float]  # the median and the interquartile range of equal calls

STAT = Path("/proc/stat")
CROWDED = 0.5  # cores that others take beyond those that torch's threads leave free
# Interquartile range over median, in the median of all calls. In benchmarks/results it is 0.01 on GPUs, 0.02 to 0.08 on
# CPUs, and 0.4 in a run beside other programs.
NOISY = 0.2


class Watch:
    """The processor time that other programs take from its creation on."""

    def __init__(self) -> None:
        self.start = counters()

    def others(self) -> float:
        """The number of this process's cores that others kept busy; 0 where the system does not count them."""
        wall, busy, own = (now - then for now, then in zip(counters(), self.start, strict=True))
        return max(0.0, busy - own) / wall


def counters() -> tuple[float, float, float]:
    """Seconds: of the clock, of this process's cores without their idle time, and of this process with its children."""
    try:
        lines = [line.split() for line in STAT.read_text().splitlines()]
    except OSError:
        lines = []
    usable = {f"cpu{i}" for i in os.sched_getaffinity(0)}
    # user, nice, system, (idle, iowait,) irq, softirq, steal: guests count as users
    ticks = sum(sum(map(int, (*line[1:4], *line[6:9]))) for line in lines if line[0] in usable)
    return time.perf_counter(), ticks / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4])


def median_and_range(samples: Sequence[float]) -> MedianAndRange:
    if len(samples) < 2:
        return samples[0], 0.0
    low, middle, high = quantiles(samples, n=4, method="inclusive")
    return middle, high - low


def within_noise(a: MedianAndRange, b: MedianAndRange) -> bool:
    """Whether the medians differ by less than their halves of the interquartile ranges together."""
    return abs(a[0] - b[0]) <= (a[1] + b[1]) / 2


def disturbance(others: float, measured: Iterable[MedianAndRange]) -> str:
    """A sentence about a busy machine, empty for a quiet one.

    Args:
        others: cores that other programs took; 0 if no time of the CPU is shown.
        measured: the times of all calls.
    """
    import torch  # `torch-conv report` and `make lint` read this module without it

    cores, noise = len(os.sched_getaffinity(0)), median([spread / middle for middle, spread in measured] or [0.0])
    reasons = []
    if others > max(0, cores - torch.get_num_threads()) + CROWDED:
        reasons.append(f"other programs took {others:.1f} of {cores} cores")
    if noise > NOISY:
        reasons.append(f"the times of equal calls vary by {100 * noise:.0f} %")
    return f"The machine was busy: {' and '.join(reasons)}. Measure again when it is idle." if reasons else ""
