"""Workloads that torch and this library do in turn: models, layers and steps of training."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from torch_conv._timing import queue_sampler, turns

FORMATS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}


@dataclass(frozen=True)
class Pair:
    """One workload: a row of the results, whose facts say what it is."""

    device: str
    facts: dict[str, Any]
    # Seconds of the samples of "torch" and "torch_conv", so many rounds of them, and what else the row says: `correct`.
    run: Callable[[int], tuple[dict[str, list[float]], dict[str, Any]]]
    group: str = ""  # what an option of the family calls it

    @property
    def name(self) -> str:
        facts = self.facts
        what = facts.get("model") or f"{'x'.join(map(str, facts['shape']))} k={facts['window']} step {facts['stride']}"
        batch = f"batch {facts['batch']}" if "batch" in facts else ""
        parts = (facts.get("part"), what, batch, facts.get("dtype"), facts["layout"], facts["way"])
        return " ".join(part for part in parts if part)

    def measure(self, rounds: int) -> dict[str, Any]:
        with torch_at_its_best():
            times, more = self.run(rounds)
        theirs, ours = (1e6 * statistics.median(times[side]) for side in ("torch", "torch_conv"))
        low, _, high = statistics.quantiles(times["torch_conv"], n=4, method="inclusive")
        row = {"name": self.name, "device": self.device, **self.facts, "torch_us": theirs, "ours_us": ours}
        return {**row, "ours_iqr_us": 1e6 * (high - low), "speedup": theirs / ours, **more}


@contextmanager
def torch_at_its_best() -> Iterator[None]:
    """cudnn.benchmark on, and TF32 off, as this library has none."""
    matmul = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        with torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=False, allow_tf32=False):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = matmul


def clocked(calls: Mapping[str, Callable[[], Any]], rounds: int, device: str) -> dict[str, list[float]]:
    """Seconds per call by the host's clock, of queues of at least 20 ms that take turns."""
    samplers = {name: queue_sampler(call, [device]) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _, name in turns(calls, rounds):
        times[name].append(samplers[name]())
    return times
