"""The measurement of one drawn call: checked first, then timed in turn with copies of as many bytes and the rivals."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

import torch_conv
from torch_conv.bench.anywhere.call import Call
from torch_conv.bench.anywhere.checking import Piece, error_of, pieces_of, tolerance
from torch_conv.bench.anywhere.floors import Rates, cache_bytes, copies
from torch_conv.bench.anywhere.gradients import gradient_of, gradient_pieces
from torch_conv.bench.anywhere.rivals import rivals
from torch_conv.bench.anywhere.work import bytes_moved, multiply_adds
from torch_conv.bench.common import SLOW_ROUNDS, Candidate, Timing, first_line
from torch_conv.bench.copies import COPIES
from torch_conv.bench.documents import OURS
from torch_conv.bench.load import median_and_range
from torch_conv.bench.rivals import cudnn
from torch_conv.bench.sampling import ENDLESS_S, buffers_needed, in_turn, once, prepared_sampler, time_limit

LONGER = 2  # times the rounds, while a median on a GPU is not known
MOST_S = 0.8  # of all samples of a candidate, where one takes long
SLOW = 5  # a rival that takes so many times our time has SLOW_ROUNDS samples
SLOPPY = 4  # times our tolerance: rivals round between their steps
CACHE = "TORCH_CONV_CACHE"


@dataclass(frozen=True)
class Options:
    device: str
    rounds: int
    rates: Rates
    rivals: bool = True


def ours(call: Call, device: str, benchmark: bool = True) -> Candidate:
    """The call or gradient by this library. What it hands to torch runs as the rivals do: no TF32, cudnn.benchmark."""
    context = cudnn(False, benchmark) if device == "cuda" else nullcontext
    own = Candidate(OURS, call.bound(device), context=context)
    return gradient_of(own) if call.backward else own


def wait_for_kernels(own: Candidate, x: Tensor) -> None:
    """Waits until the call has the kernels that it keeps: the only place that knows how the library compiles."""
    torch_conv.prepare(own.call, own.prepare(x))


# ---- the first call --------------------------------------------------------------------------------------------------


def loading_seconds(device: torch.device) -> dict[str, float]:
    """What a process pays once: the CUDA context, and the library's first call of all."""
    if device.type == "cpu":
        return {}
    started = time.perf_counter()
    torch.cuda.set_device(device.index or 0)
    image = torch.zeros(8, 8, device=device)
    torch.cuda.synchronize()
    context = time.perf_counter() - started
    return {"context_seconds": context, "library_seconds": once(lambda: torch_conv.sobel(image), device.type)}


@contextmanager
def empty_kernel_cache() -> Iterator[None]:
    """A fresh folder of compiled kernels, which is removed in the end."""
    before = os.environ.get(CACHE)
    with tempfile.TemporaryDirectory(prefix="torch-conv-") as folder:
        os.environ[CACHE] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ[CACHE]
            else:
                os.environ[CACHE] = before


def first_call(call: Call, device: str) -> float:
    """Seconds from the call to its finished result; the image and the kernel's numbers are there."""
    own = ours(call, device, benchmark=False)
    with own.context():
        x = own.prepare(call.image(device))
        return once(partial(own.call, x), device)


def kernels_compiled() -> int:
    """The kernels that this process has compiled, not found ready."""
    report: list[str] = torch.ops.torch_conv._store_report()
    return sum(line.startswith("loaded: ") and line.endswith(", compiled") for line in report)


# ---- steady speed ----------------------------------------------------------------------------------------------------


def measure(call: Call, options: Options, first: float | None = None) -> dict[str, Any]:
    """A row of results, in the form of those of all benchmarks, with the floor and the share of it."""
    device, moved = options.device, bytes_moved(call)
    fits = moved <= cache_bytes(device)
    count = 1 if fits else max(buffers_needed(device, moved), -(-4 * cache_bytes(device) // moved))
    buffers = [call.image(device, number) for number in range(count)]
    own = ours(call, device)
    pieces = expected(call, buffers[0])
    others = rivals(call, device) if options.rivals else []
    candidates = [own, *(map(gradient_of, others) if call.backward else others)]
    wait_for_kernels(own, buffers[0])
    run = Run(options, [*copies(device, moved, count), *candidates], buffers, pieces, call.backward)
    row = facts(call, device) | {
        "plan": plan_of(own, buffers[0]),
        "bytes": moved,
        "resident": fits,
        "correct": run.check(),
    }
    if not row["correct"]:
        return row | {"error": run.errors[OURS]}
    return row | figures(call, run.times(), options, moved, first) | {"left_out": run.left_out}


def expected(call: Call, x: Tensor) -> list[Piece]:
    return (gradient_pieces if call.backward else pieces_of)(call, x, call.arguments(x.device))


class Run:
    """The candidates of one call on its buffers."""

    def __init__(
        self,
        options: Options,
        candidates: Sequence[Candidate],
        buffers: Sequence[Tensor],
        pieces: Sequence[Piece],
        backward: bool,
    ) -> None:
        self.options, self.buffers, self.pieces, self.backward = options, buffers, pieces, backward
        self.candidates = {c.name: c for c in candidates}
        self.calls: dict[str, list[Callable[[], Any]]] = {}
        self.errors: dict[str, float] = {}
        self.left_out: dict[str, str] = {}

    def check(self) -> bool:
        """Whether our result is right. Rivals that fail, or compute something else, are left out."""
        for name, c in self.candidates.items():
            try:
                with c.context(), time_limit(c.limit_s):
                    each = range(len(self.buffers)) if name in COPIES else self.buffers
                    self.calls[name] = [partial(c.call, c.prepare(x)) for x in each]  # type: ignore[arg-type]
                    if name in COPIES:
                        continue
                    result = c.result(self.calls[name][0]())
                    self.errors[name] = error_of(result, self.pieces)
                    allowed = tolerance(result.dtype, self.backward) * (1 if name == OURS else SLOPPY)
            except Exception as error:
                if name == OURS:
                    raise
                self.drop(name, first_line(error))
                continue
            if not self.errors[name] <= allowed:
                if name == OURS:
                    return False
                self.drop(name, f"another result: error {self.errors[name]:.1e}")
        return True

    def drop(self, name: str, why: str) -> None:
        self.calls.pop(name, None)
        self.left_out[name] = why

    def times(self) -> dict[str, Timing]:
        """Median times, all candidates in turn."""
        device, rounds = self.options.device, self.options.rounds
        samplers, planned, seconds = {}, {}, {}
        for name in [OURS, *(name for name in self.calls if name != OURS)]:
            c, calls = self.candidates[name], self.calls[name]
            with c.context():
                once(calls[0], device)
                seconds[name] = once(calls[0], device)
                slow = name not in COPIES and seconds[name] > SLOW * seconds[OURS]
                fitting = max(1, min(rounds, int(MOST_S / seconds[name])))
                planned[name] = min(fitting, SLOW_ROUNDS) if slow else fitting
                alone = seconds[name] if slow or seconds[name] > ENDLESS_S else 0.0
                samplers[name] = prepared_sampler(calls, device, c.graph, alone)
        contexts = {name: self.candidates[name].context for name in samplers}
        samples = in_turn(samplers, contexts, planned, LONGER if device == "cuda" else 1)
        return {name: timing(taken, self.errors.get(name)) for name, taken in samples.items()}


def timing(samples: Sequence[float], error: float | None) -> Timing:
    middle, spread = median_and_range(samples)
    return Timing(middle * 1e6, spread * 1e6, max_error=error, rounds=len(samples))


def facts(call: Call, device: str) -> dict[str, Any]:
    """What the call is, for people and programs."""
    return {
        "name": call.name,
        "device": device,
        "function": call.function,
        "source": call.source,
        "number": call.number,
        "shape": list(call.shape),
        "dtype": str(call.dtype).removeprefix("torch."),
        "layout": call.layout,
        "options": {k: str(v) if isinstance(v, torch.dtype) else v for k, v in call.options.items()},
        "tensors": {key: [taps.kind, *taps.shape] for key, taps in call.tensors.items()},
        "backward": call.backward,
    }


def plan_of(own: Candidate, x: Tensor) -> list[str]:
    """The algorithms of the call, a line for each kernel call, as `explain` begins it."""
    lines = torch_conv.explain(own.call, own.prepare(x)).lines
    return list(dict.fromkeys(line.partition(";")[0].partition(" (")[0] for line in lines))


def figures(
    call: Call, timings: dict[str, Timing], options: Options, moved: int, first: float | None
) -> dict[str, Any]:
    """Times, the floor, and the ratio to the best rival."""
    own = timings[OURS].median_us
    copy = min(COPIES, key=lambda name: timings[name].median_us)
    arithmetic = options.rates.seconds(call) * 1e6
    floor = max(timings[copy].median_us, arithmetic)
    others = [name for name in timings if name not in (*COPIES, OURS)]
    rival = min(others, key=lambda name: timings[name].median_us, default=None)
    return {
        "flops": round(2 * multiply_adds(call)),
        "copy": copy,
        "copy_fraction": timings[copy].median_us / own,
        "floor_us": floor,
        "floor_of": "bytes" if floor > arithmetic else "arithmetic",
        "share": min(1.0, floor / own),
        "first_ms": None if first is None else max(0.0, first * 1e3 - own / 1e3),
        "best_rival": rival,
        "speedup": timings[rival].median_us / own if rival else None,
        "timings": {name: asdict(each) for name, each in timings.items()},
    }
