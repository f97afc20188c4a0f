"""A study: its sweep, its columns, its cases, and the measurement of a case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from torch_conv.bench.ladder.columns import Column
from torch_conv.bench.load import Watch, median_and_range
from torch_conv.bench.timing import Function, interleaved, median, time_call

Row = dict[str, Any]
Tensor = torch.Tensor
Calls = Mapping[str, Callable[[], Tensor]]

TOLERANCE = 1e-5  # of the studies, for sums in float32
RUNGS = ("naive", "constant", "tiled", "l2_halo")  # of one kernel; the fused kernel has a table of its own
BLOCKS = ((8, 8), (16, 16), (32, 8), (32, 16))  # (x, y), as the 2-D study writes them


@dataclass(frozen=True)
class Sweep:
    """The sizes that the tables vary; empty: those of the studies."""

    sizes: tuple[int, ...] = ()  # of images; tables that vary something else use the last one
    windows: tuple[int, ...] = (3, 5, 7)
    blocks: tuple[tuple[int, int], ...] = BLOCKS
    quick: bool = False  # without sizes above 1024

    def of(self, *sizes: int) -> list[int]:
        return [*self.sizes] or [size for size in sizes if size <= 1024 or not self.quick]

    @property
    def size(self) -> int:
        return self.sizes[-1] if self.sizes else 1024


@dataclass(frozen=True)
class Study:
    name: str
    title: str
    columns: Sequence[Column]
    cases: Sequence[Any]
    measure: Callable[[Bench, Any], Row]
    note: str = ""


@dataclass
class Bench:
    """The device and the rounds of a run, its wrong results, and the time that other programs take."""

    device: torch.device
    rounds: int
    wrong: list[str] = field(default_factory=list)
    watch: Watch = field(default_factory=Watch)

    @property
    def cuda(self) -> bool:
        return self.device.type == "cuda"

    def image(self, size: int) -> Tensor:
        noise = torch.rand(1, 1, size, size, generator=torch.Generator().manual_seed(42))
        return noise.to(self.device)

    def gold(self, call: Callable[[], Tensor]) -> tuple[Tensor, float]:
        """The result of a slow call on the CPU, and its time in milliseconds (median of 3)."""
        times = time_call(call, "cpu", repeats=3, warmup=0)
        return call(), 1e3 * median(times)

    def check(self, what: str, errors: Mapping[str, float], tolerance: float) -> float:
        """Notes every error above the tolerance and returns the largest."""
        self.wrong += [f"{what}: {name} is off by {e:.3g}" for name, e in errors.items() if not e <= tolerance]
        return max(errors.values())

    def time(self, calls: Mapping[str, Function | Sequence[Function]]) -> Row:
        row: Row = {"iqr_ms": {}}
        for name, seconds in interleaved(calls, self.device, rounds=self.rounds).items():
            row[f"{name}_ms"], row["iqr_ms"][name] = (1e3 * time for time in median_and_range(seconds))
        return row

    def contest(
        self, what: str, image: Tensor, gold: Tensor, ours: Calls, rival: Calls, tolerance: float = TOLERANCE
    ) -> Row:
        """Our calls, checked against the gold, then timed beside copies of the image and a rival."""
        worst = self.check(what, {name: error(call(), gold) for name, call in ours.items()}, tolerance)
        row = self.time({**copies(image), **ours, **rival})
        return row | {"error": worst, "copy_percent": copy_percent(row)}

    def rungs(self, what: str, image: Tensor, ladder: Callable[..., Tensor], ours: Calls, rival: Calls) -> Row:
        """The CPU loop and, on a GPU, the kernels of one window beside the library's own and a rival."""
        gold, cpu_ms = self.gold(partial(ladder, image.cpu()))
        if self.cuda:
            ours = {**ours, **{rung: partial(ladder, image, variant=rung) for rung in RUNGS}}
        row = self.contest(what, image, gold, ours, rival) | {"cpu_ms": cpu_ms}
        if self.cuda:
            row["naive_over_cpu"] = cpu_ms / row["naive_ms"]
            row["tiled_over_cpu"] = cpu_ms / row["tiled_ms"]
            row["tiled_over_naive"] = row["naive_ms"] / row["tiled_ms"]
        return row


def error(result: Tensor, gold: Tensor) -> float:
    return (result.cpu().double() - gold.double()).abs().max().item()


def copies(image: Tensor) -> dict[str, Function]:
    """Two calls that read an image once and write it once; the faster one counts."""
    target = torch.empty_like(image)
    return {"copy": partial(target.copy_, image), "add": partial(torch.add, image, 1, out=target)}


def copy_percent(row: Row) -> float:
    return 100 * min(row["copy_ms"], row["add_ms"]) / row["production_ms"]
