"""Images on one GPU, in shards on several, and the rivals: what one task of scaling.py measures in one process."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import ceil, prod
from typing import Any

import torch
import torch.nn.functional as F
from across import graph_sampler
from common import buffers_needed, first_line
from torch import Tensor

import torch_conv
from torch_conv import kernels
from torch_conv._timing import QUEUE_SECONDS, enqueue_seconds, queue_sampler, synchronize

HOST_BELOW_S = 5e-3  # nobody asks for the host's time of a longer call
LARGE = 1 << 29  # pixels: trying one of cuDNN's plans takes up to seconds
MANY_PLANS, FEW_PLANS = 10, 3  # 10 is torch's own limit
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


# ---- what is filtered, and how ---------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _block(device: torch.device) -> Tensor:
    return torch.rand(BLOCK, generator=torch.Generator().manual_seed(0)).to(device)


def image(shape: Sequence[int], device: torch.device | str) -> Tensor:
    """The same numbers in [0, 1) on every device; no generator of a GPU takes part, which a failed capture breaks."""
    n = prod(shape)
    block = _block(torch.device(device))
    out = block.repeat(ceil(n / BLOCK))[:n].view(-1, shape[-1])
    out.mul_(torch.linspace(0.5, 1.0, out.shape[0]).to(device)[:, None])  # no two rows alike
    return out.view(*shape)


@dataclass(frozen=True)
class Filter:
    """One filter three ways: its operator, that of shards, its function on anything."""

    whole: Callable[[Tensor], Tensor]
    shards: Callable[[Sequence[Tensor]], list[Tensor]]
    function: Callable[[Any], Any]
    window: Tensor | None  # of a direct filter

    @property
    def rows(self) -> int:
        """Of a neighbour that an image needs above and below its own."""
        return 0 if self.window is None else self.window.shape[-1] // 2


def window(*size: int) -> Tensor:
    """Random taps, whose magnitudes sum to 1."""
    taps = torch.rand(size, generator=torch.Generator().manual_seed(1)) - 0.3
    return taps / taps.abs().sum()


def filter_named(name: str, border: str, dim: int) -> Filter:
    ops = torch.ops.torch_conv
    function: Callable[..., Any]
    k = int(name.rpartition(" ")[2].partition("x")[0])
    if name.startswith("filter2d"):
        taps = window(k, k)
        whole, shards, function = ops.filter2d.default, ops.filter2d_split.default, torch_conv.filter2d
    elif name.startswith("filter3d"):
        taps = window(k, k, k)
        whole, shards, function = ops.filter3d.default, ops.filter3d_split.default, torch_conv.filter3d
    else:
        row, sigma = kernels.gaussian1d(k), kernels.default_sigma(k)
        return Filter(
            lambda x: ops.filter2d_separable.default(x, row, row, border),
            lambda xs: ops.filter2d_separable_split.default(xs, row, row, border, dim=dim),
            lambda x: torch_conv.gaussian_blur2d(x, k, sigma, border),
            None,
        )
    return Filter(
        lambda x: whole(x, taps, border),
        lambda xs: shards(xs, taps, border, dim=dim),
        lambda x: function(x, taps, border),
        taps,
    )


# ---- rivals ----------------------------------------------------------------------------------------------------------


def with_halos(shards: Sequence[Tensor], rows: int, border: str) -> list[Tensor]:
    """Shards with the rows of their neighbours around them, as it is written by hand: copies, then torch.cat."""

    def beyond(own: Tensor, end: slice) -> Tensor:
        outside = own[..., end, :]
        return outside.flip(-2) if border == "reflect" else torch.zeros_like(outside)

    padded = []
    for i, own in enumerate(shards):
        above = beyond(own, slice(1, rows + 1)) if i == 0 else shards[i - 1][..., -rows:, :]
        last = i == len(shards) - 1
        below = beyond(own, slice(-rows - 1, -1)) if last else shards[i + 1][..., :rows, :]
        parts = [above.to(own.device, non_blocking=True), own, below.to(own.device, non_blocking=True)]
        padded.append(torch.cat(parts, -2))
    return padded


def by_hand(
    filtering: Filter, border: str, cuda: bool, plans: int
) -> dict[str, tuple[Callable[[Any], list[Tensor]], Any]]:
    """Pad, exchange, concatenate around F.conv2d and around our own filter; name: (call, context).

    cuDNN tries the first so many of its `plans`.
    """
    taps, r = filtering.window, filtering.rows
    assert taps is not None
    ours = torch.ops.torch_conv.filter2d.default
    sides = {"constant": "constant", "reflect": "reflect"}[border]

    @lru_cache(maxsize=16)
    def weight(device: torch.device) -> Tensor:
        return taps[None, None].to(device)

    def by_conv(shards: Sequence[Tensor]) -> list[Tensor]:
        whole = with_halos(shards, r, border)
        if border == "constant":  # the convolution's own padding of columns, which costs nothing
            return [F.conv2d(x, weight(x.device), padding=(0, r)) for x in whole]
        return [F.conv2d(F.pad(x, (r, r, 0, 0), sides), weight(x.device)) for x in whole]

    def by_ours(shards: Sequence[Tensor]) -> list[Tensor]:
        whole = with_halos(shards, r, border)
        return [ours(F.pad(x, (r, r, 0, 0), sides), taps, border, False, "valid") for x in whole]

    def cropped(shards: Sequence[Tensor]) -> list[Tensor]:  # its own border for the columns, rows cut off again
        return [ours(x, taps, border)[..., r : x.shape[-2] - r, :] for x in with_halos(shards, r, border)]

    found: dict[str, tuple[Callable[[Any], list[Tensor]], Any]] = {
        "cat, F.conv2d": (by_conv, partial(trying, plans, False)),
        "cat, torch_conv": (by_ours, nullcontext),
        "cat, torch_conv cropped": (cropped, nullcontext),
    }
    if cuda:
        found["cat, F.conv2d TF32"] = (by_conv, partial(trying, plans, True))
    return found


def trying(plans: int, tf32: bool) -> Any:
    return torch.backends.cudnn.flags(
        enabled=True, benchmark=True, benchmark_limit=plans, deterministic=False, allow_tf32=tf32
    )


@contextmanager
def without_peers() -> Iterator[None]:
    """No kernel reads another device's memory: halos are copied."""
    before = os.environ.get("TORCH_CONV_NO_PEER")
    os.environ["TORCH_CONV_NO_PEER"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TORCH_CONV_NO_PEER"]
        else:
            os.environ["TORCH_CONV_NO_PEER"] = before


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
    return buffers_needed("cuda" if cuda else "cpu", 2 * 4 * prod(task.shape) // parts)


def strong(task: Task, graph: bool = False) -> Row:
    """One image on one device and in shards on all: the operators and the functions; or graphs of the operators."""
    devices = devices_of(task)
    n, first = len(devices), devices[0]
    row = Row(task.part, task.name, list(task.shape), n)
    filtering = filter_named(task.filter, task.border, task.dim)
    wholes = [image(task.shape, first)]
    wholes += [wholes[0].clone() for _ in range(buffers_of(task, n) - 1)]
    splits = [torch_conv.split(x, devices, task.dim) for x in wholes]
    shards = [list(s.shards) for s in splits]
    row.facts["buffers"] = len(wholes)
    rounds = Rounds(row, task, devices)
    same, _ = checks(row, task, filtering.whole(wholes[0]))
    of_shards = [partial(filtering.shards, s) for s in shards]
    rounds.add("one", [partial(filtering.whole, x) for x in wholes], graph=graph, host=not graph)
    rounds.add("operator", of_shards, check=partial(same, "operator"), graph=graph, host=not graph)
    if not graph:
        functions = [partial(filtering.function, x) for x in wholes]
        rounds.add("one function", functions, check=lambda y: same("one function", [y]), host=True)
        functions = [partial(filtering.function, s) for s in splits]
        rounds.add("function", functions, check=partial(same, "function"), host=True)
    if task.staged:
        rounds.add("staged", of_shards, without_peers, partial(same, "staged"))
    rounds.play()
    rounds.efficiency("operator", "one", "operator", n)
    rounds.efficiency("function", "one function", "function", n)
    rounds.efficiency("staged", "one", "staged", n)
    return row


def checks(row: Row, task: Task, expected: Tensor) -> tuple[Callable[[str, Any], None], Callable[[str, Any], None]]:
    """Functions that compare a result in shards: all bits, or within what TF32 and another order of sums leave."""

    def gathered(result: Any) -> Tensor:
        parts = result.shards if isinstance(result, torch_conv.SplitTensor) else result
        return torch.cat([p.to(expected.device) for p in parts], task.dim)

    def same(what: str, result: Any) -> None:
        row.expect(f"{what}: other bits than one device's", torch.equal(gathered(result), expected))

    def close(what: str, result: Any) -> None:
        error = (gathered(result) - expected).abs_().max().item()
        row.max_error[what] = error
        row.expect(f"{what}: off by {error:.2g}", error < (5e-3 if what.endswith("TF32") else 5e-6))

    return same, close


def rivals(task: Task) -> Row:
    """The same image in shards, filtered as one does it by hand, beside the operator."""
    devices = devices_of(task)
    row = Row(task.part, task.name, list(task.shape), len(devices))
    filtering = filter_named(task.filter, task.border, task.dim)
    whole = image(task.shape, devices[0])
    shards = [list(torch_conv.split(whole, devices, task.dim).shards)]
    shards += [[s.clone() for s in shards[0]] for _ in range(buffers_of(task, len(devices)) - 1)]
    same, close = checks(row, task, filtering.whole(whole))
    rounds = Rounds(row, task, devices)
    rounds.add("one", [partial(filtering.whole, whole)])
    rounds.add("operator", [partial(filtering.shards, s) for s in shards], check=partial(same, "operator"))
    plans = MANY_PLANS if prod(task.shape) < LARGE else FEW_PLANS
    for name, (call, context) in by_hand(filtering, task.border, devices[0].type == "cuda", plans).items():
        check = partial(same if "torch_conv" in name else close, name)
        rounds.add(name, [partial(call, s) for s in shards], context, check)
    rounds.play()
    rounds.efficiency("operator", "one", "operator", len(devices))
    return row


def weak(task: Task) -> Row:
    """As many images, one below the other, as there are devices: the time should stay."""
    devices = devices_of(task)
    row = Row("weak", task.name, list(task.shape), len(devices))
    filtering = filter_named(task.filter, task.border, task.dim)
    rounds = Rounds(row, task, devices)
    for n in range(1, len(devices) + 1):
        shape = [*task.shape[:-2], n * task.shape[-2], task.shape[-1]]
        whole = image(shape, devices[0])
        shards = list(torch_conv.split(whole, devices[:n], task.dim).shards)
        expected = filtering.whole(whole)

        def check(result: Sequence[Tensor], n: int = n, expected: Tensor = expected) -> None:
            whole = torch.cat([y.to(devices[0]) for y in result], task.dim)
            row.expect(f"{n} devices: other bits than one device's", torch.equal(whole, expected))

        rounds.add(str(n), [partial(filtering.shards, shards)], check=check)
    rounds.play()
    if "1" in row.timings:
        row.efficiency = {n: row.timings["1"].median_us / t.median_us for n, t in row.timings.items() if n != "1"}
    return row


def gather(task: Task) -> Row:
    """`split` of a tensor on one device and `gather` back, beside plain copies of as many bytes between devices."""
    devices = devices_of(task)
    first = devices[0]
    row = Row("gather", task.name, list(task.shape), len(devices))
    whole = image(task.shape, first)
    split = torch_conv.split(whole, devices, task.dim)
    row.expect("gather: other values than what was split", torch.equal(split.gather(first), whole))
    away = [s for s in split.shards if s.device != first]
    here = [torch.empty_like(s, device=first) for s in away]
    row.facts["bytes"] = sum(s.nbytes for s in away)

    def out() -> None:
        for near, far in zip(here, away, strict=True):
            far.copy_(near, non_blocking=True)

    def back() -> None:
        for near, far in zip(here, away, strict=True):
            near.copy_(far, non_blocking=True)

    rounds = Rounds(row, task, devices)
    rounds.add("split", [lambda: torch_conv.split(whole, devices, task.dim)])
    rounds.add("gather", [lambda: split.gather(first)])
    rounds.add("copy out", [out])
    rounds.add("copy back", [back])
    rounds.play()
    row.facts["gbs"] = {name: row.facts["bytes"] / t.median_us / 1e3 for name, t in row.timings.items()}
    return row
