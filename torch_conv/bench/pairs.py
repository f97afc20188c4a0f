"""Workloads that torch and this library run in turn: models, layers and steps of training."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from torch_conv.bench.timing import in_rounds, queue_sampler

FORMATS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}


@dataclass(frozen=True)
class Pair:
    """One workload: its device, its facts and its measurement."""

    device: str
    facts: dict[str, Any]
    # rounds -> samples of "torch" and "torch_conv" in seconds, and more facts: `correct`
    run: Callable[[int], tuple[dict[str, list[float]], dict[str, Any]]]
    group: str = ""  # its name in an option of the family

    @property
    def name(self) -> str:
        facts = self.facts
        what = facts.get("model") or f"{'x'.join(map(str, facts['shape']))} k={facts['window']} step {facts['stride']}"
        batch = f"batch {facts['batch']}" if "batch" in facts else ""
        parts = (facts.get("part"), what, batch, facts.get("dtype"), facts["layout"], facts["way"])
        return " ".join(part for part in parts if part)

    def measure(self, rounds: int) -> dict[str, Any]:
        with fastest_torch_settings():
            times, more = self.run(rounds)
        theirs, ours = (1e6 * statistics.median(times[side]) for side in ("torch", "torch_conv"))
        low, _, high = statistics.quantiles(times["torch_conv"], n=4, method="inclusive")
        row = {"name": self.name, "device": self.device, **self.facts, "torch_us": theirs, "ours_us": ours}
        return {**row, "ours_iqr_us": 1e6 * (high - low), "speedup": theirs / ours, **more}


@contextmanager
def fastest_torch_settings() -> Iterator[None]:
    """cudnn.benchmark on, and TF32 off, as this library has none."""
    matmul = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        with torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=False, allow_tf32=False):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = matmul


def clocked(calls: Mapping[str, Callable[[], Any]], rounds: int, device: str) -> dict[str, list[float]]:
    """Seconds per call by the host's clock, in alternating queues of at least 20 ms."""
    return in_rounds({name: queue_sampler(call, [device]) for name, call in calls.items()}, rounds)
