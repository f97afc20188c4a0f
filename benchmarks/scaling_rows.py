"""What the parts of scaling.py share: tasks, rows, images, and rounds in which candidates take turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, prod
from typing import Any

import torch
from across import graph_sampler
from torch import Tensor

import torch_conv
from torch_conv.bench.common import first_line
from torch_conv.bench.sampling import buffers_needed
from torch_conv.bench.timing import QUEUE_SECONDS, enqueue_seconds, queue_sampler, synchronize

HOST_BELOW_S = 5e-3  # nobody asks for the host's time of a longer call
HALF = 5e-4  # a unit of float16 below 1
BLOCK = 1 << 24  # random numbers that images repeat


@dataclass(frozen=True)
class Task:
    """One row of the results, or, of the host's images, some."""

    part: str
    name: str
    filter: str
    shape: tuple[int, ...]
    border: str = "reflect"
    dim: int = -2
    staged: bool = False
    devices: tuple[str, ...] = ()
    rounds: int = 5
    seconds: float = QUEUE_SECONDS  # of one queue
    pinned: bool = True
    per_device: tuple[int, ...] = (1,)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the image. The filter's name ends with it unless it is float32."""
        return torch.float16 if self.filter.endswith(" float16") else torch.float32


@dataclass
class Timing:
    median_us: float
    iqr_us: float
    samples: int


@dataclass
class Row:
    part: str
    name: str
    shape: list[int]
    devices: int
    timings: dict[str, Timing] = field(default_factory=dict)
    host_us: dict[str, float] = field(default_factory=dict)
    efficiency: dict[str, float] = field(default_factory=dict)  # of which way
    max_error: dict[str, float] = field(default_factory=dict)  # of what need not have our bits
    correct: bool = True
    wrong: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)  # what failed here, and why
    facts: dict[str, Any] = field(default_factory=dict)

    def expect(self, what: str, same: bool) -> None:
        if not same:
            self.correct = False
            self.wrong.append(what)


# ---- what is filtered ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _block(device: torch.device) -> Tensor:
    return torch.rand(BLOCK, generator=torch.Generator().manual_seed(0)).to(device)


def image(shape: Sequence[int], device: torch.device | str, dtype: torch.dtype = torch.float32) -> Tensor:
    """The same numbers in [0, 1) on every device; no generator of a GPU takes part, which a failed capture breaks."""
    n = prod(shape)
    block = _block(torch.device(device))
    out = block.repeat(ceil(n / BLOCK))[:n].view(-1, shape[-1])
    out.mul_(torch.linspace(0.5, 1.0, out.shape[0]).to(device)[:, None])  # no two rows alike
    return out.view(*shape).to(dtype)


# ---- rounds ----------------------------------------------------------------------------------------------------------


class Rounds:
    """Candidates that take turns; what fails is left out with its reason."""

    def __init__(self, row: Row, task: Task, devices: Sequence[torch.device]) -> None:
        self.row, self.task, self.devices = row, task, list(dict.fromkeys(devices))
        self.samplers: dict[str, tuple[Callable[[], float], Callable[[], AbstractContextManager[Any]]]] = {}
        self.alive: list[Any] = []

    def add(
        self,
        name: str,
        calls: Sequence[Callable[[], object]],
        context: Callable[[], AbstractContextManager[Any]] = nullcontext,
        check: Callable[[Any], None] | None = None,
        graph: bool = False,
        host: bool = False,
    ) -> None:
        try:
            with context():
                result = calls[0]()
                synchronize(self.devices)
                if check is not None:
                    check(result)
                del result
                if graph:
                    sample, alive = graph_sampler(calls, self.devices)
                    self.alive.append(alive)
                else:
                    sample = queue_sampler(calls, self.devices, seconds=self.task.seconds)
                if host and sample() < HOST_BELOW_S:
                    self.row.host_us[name] = 1e6 * enqueue_seconds(calls[0], self.devices)
        except Exception as error:
            self.row.left_out[name] = f"{type(error).__name__}: {first_line(error)}"
            synchronize(self.devices)
            return
        self.samplers[name] = sample, context

    def play(self) -> None:
        samples: dict[str, list[float]] = {name: [] for name in self.samplers}
        for _ in range(self.task.rounds):
            for name, (sample, context) in list(self.samplers.items()):
                try:
                    with context():
                        samples[name].append(sample())
                except Exception as error:
                    self.row.left_out[name] = f"{type(error).__name__}: {first_line(error)}"
                    del self.samplers[name]
        for name in self.samplers:
            low, middle, high = statistics.quantiles(samples[name], n=4, method="inclusive")
            self.row.timings[name] = Timing(1e6 * middle, 1e6 * (high - low), len(samples[name]))

    def efficiency(self, way: str, one: str, several: str, n: int) -> None:
        timings = self.row.timings
        if one in timings and several in timings:
            self.row.efficiency[way] = timings[one].median_us / (n * timings[several].median_us)


# ---- rows ------------------------------------------------------------------------------------------------------------


def devices_of(task: Task) -> list[torch.device]:
    return [torch.device(d) for d in task.devices]


def buffers_of(task: Task, parts: int) -> int:
    """Buffers whose shards together are larger than four times a GPU's last cache."""
    cuda = task.devices[0] != "cpu"
    return buffers_needed("cuda" if cuda else "cpu", 2 * task.dtype.itemsize * prod(task.shape) // parts)


def checks(row: Row, task: Task, expected: Tensor) -> tuple[Callable[[str, Any], None], Callable[[str, Any], None]]:
    """Functions that compare a result in shards: all bits, or within what TF32 and another order of sums leave.

    In half precision the first asks for no more than the same but for one rounding: each shard takes tensor cores where
    its own rows allow.
    """

    def gathered(result: Any) -> Tensor:
        parts = result.shards if isinstance(result, torch_conv.SplitTensor) else result
        return torch.cat([p.to(expected.device) for p in parts], task.dim)

    def within(what: str, result: Any, limit: float) -> None:
        error = (gathered(result) - expected).abs_().max().item()
        row.max_error[what] = error
        row.expect(f"{what}: off by {error:.2g}", error < limit)

    def same(what: str, result: Any) -> None:
        if expected.dtype == torch.float16:
            within(what, result, HALF)
        else:
            row.expect(f"{what}: other bits than one device's", torch.equal(gathered(result), expected))

    def close(what: str, result: Any) -> None:
        within(what, result, 5e-3 if what.endswith("TF32") else 5e-6)

    return same, close
