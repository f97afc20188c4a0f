"""The measurement of a row: interleaved rounds, rotating buffers, a float64 check (rules: benchmarks/README.md)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from math import inf, prod
from typing import Any

import torch
from torch import Tensor

from torch_conv.bench import checks
from torch_conv.bench.copies import COPIES, worth_a_copy
from torch_conv.bench.documents import OURS
from torch_conv.bench.launches import planned
from torch_conv.bench.sampling import (
    ENDLESS_S,
    LONGER,
    ONCE_S,
    buffers_needed,
    extra_memory,
    fma_peak,
    host_us,
    in_turn,
    once,
    prepared_sampler,
    time_limit,
)

SLOW = 20  # a rival that takes SLOW times our time has SLOW_ROUNDS samples
SLOW_ROUNDS = 2
CROPPED = 5, 3  # rows and columns around a cropped image, so that its rows start at any address
INTEGERS = {torch.uint8: (0, 256), torch.int16: (-1000, 3000), torch.uint16: (0, 4096)}  # photographs, CT, microscopy


SHORT = {
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.uint8: "u8",
    torch.int16: "i16",
    torch.uint16: "u16",
}
# Floats lie in [0, 1) and the |taps| sum to 1, so floats differ by some roundings, and integers by one at a tie.
TOLERANCE = {
    torch.float32: 5e-6,
    torch.float16: 1e-3,
    torch.bfloat16: 8e-3,  # a unit in the last place of the result
    torch.uint8: 1.0,
    torch.int16: 1.0,
    torch.uint16: 1.0,
}


@dataclass(frozen=True)
class Candidate:
    """One way to do the row's job: ours, a copy or a rival."""

    name: str
    call: Callable[[Any], Any]
    prepare: Callable[[Tensor], Any] = lambda x: x  # once per buffer, untimed: another memory format, a numpy view
    result: Callable[[Any], Tensor] = lambda y: y  # the result as a tensor shaped like the row's, untimed
    context: Callable[[], AbstractContextManager[Any]] = nullcontext
    graph: bool = True  # False where the library cannot be captured in a CUDA graph
    limit_s: float = inf  # left out if its first call (a compilation, say) takes longer
    own: bool = False  # another algorithm of this library: shown, but no rival
    planned: bool = False  # only calls of this library, so explain() has launches and bytes


@dataclass(frozen=True)
class Row:
    """One workload: a line of the table."""

    name: str
    device: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    ours: Callable[[Tensor], Tensor]
    rivals: Callable[[], list[Candidate]]
    reference: Callable[[Tensor], Tensor]  # the crop's float64 values from the crop with its halo (checks.extended)
    border: str
    halo: int
    taps: int  # useful multiply-adds per element of the input (taps of 0 do not count), direct or separable as ours
    tolerance: float | None = None  # by default that of the result's dtype
    spatial: int = 2
    resident: bool = False  # measured on one buffer, which L2 holds: small images
    memory_format: torch.memory_format = torch.contiguous_format
    traffic: float = 1.0  # bytes read and written, in copies of the input: 2 for an output three times as large
    inner: bool = False  # the channels lie innermost: signals (N, L, C), photographs (N, H, W, C)
    cropped: bool = False  # the image is a part of a larger one; the copies move as many bytes without gaps
    series: str = ""  # the line in the figure over sizes
    out_dtype: torch.dtype | None = None  # of the result, if not the input's
    step: int = 1  # distance of the result's pixels along every axis
    chained: bool = False  # `reference` applies the border itself, stage by stage
    ties: int = 0  # pixels of the crops that are not compared: rounding decides whether they are edges
    count: bool = False  # launches of the rivals are counted as well


@dataclass
class Timing:
    median_us: float
    iqr_us: float
    max_error: float | None = None
    extra_bytes: int | None = None  # peak beyond input and output (CUDA)
    host_us: float | None = None  # time of the Python call alone (CUDA)
    rounds: int = 0
    launches: int | None = None
    moved: int | None = None  # bytes read and written, all launches together


@dataclass
class Result:
    name: str
    device: str
    shape: list[int]
    dtype: str
    bytes: int
    flops: int
    resident: bool
    copy: str  # the faster copy
    copy_fraction: float | None  # none where a copy is launch latency (copies.py)
    fma_fraction: float | None  # of the float32 multiply-adds that the GPU's clock allows
    best_rival: str | None
    speedup: float | None
    correct: bool
    series: str
    left_out: dict[str, str]  # rivals that failed here, and why
    timings: dict[str, Timing] = field(default_factory=dict)


def measure(
    row: Row, rounds: int, deadline: float = inf, uncounted: list[tuple[Candidate, Timing]] | None = None
) -> Result:
    """Checks and times one row: copy, ours and rivals, one sample each per round; no rivals after the deadline.

    `uncounted` receives those whose launches can be counted only after all that is timed.
    """
    torch.manual_seed(0)
    size = prod(row.shape) * row.dtype.itemsize
    buffers = [make_image(row) for _ in range(1 if row.resident else buffers_needed(row.device, 2 * size))]
    moved = {x.data_ptr(): copied(x, row.cropped) for x in buffers}
    copies = [
        Candidate("copy_", lambda pair: pair[1].copy_(pair[0]), prepare=lambda x: moved[x.data_ptr()]),
        Candidate("add", lambda pair: torch.add(pair[0], 1, out=pair[1]), prepare=lambda x: moved[x.data_ptr()]),
    ]
    ours = Candidate(OURS, row.ours, planned=True)
    out_dtype = row.out_dtype or row.dtype
    expected = checks.crops(
        buffers[0], row.spatial, row.halo, row.border, row.reference, out_dtype, row.step, row.chained
    )
    timings: dict[str, Timing] = {}
    samplers: dict[str, Callable[[], float]] = {}
    contexts = {}
    left_out = {}
    our_seconds = 0.0
    in_time = time.perf_counter() < deadline
    if not in_time:
        left_out["the rivals"] = "after the time budget of the whole run"
    candidates = [*copies, ours, *(c for c in row.rivals() if in_time or c.own)]
    for c in candidates:
        timing = Timing(0, 0, rounds=rounds)
        try:
            with c.context():
                calls = [partial(c.call, c.prepare(x)) for x in buffers]
                with time_limit(c.limit_s):
                    result = calls[0]()
                if c not in copies:
                    timing.max_error = checks.max_error(c.result(result), expected, row.ties)
                    if c.planned:
                        timing.launches, timing.moved = planned(c.call, c.prepare(buffers[0]))
                    elif row.count and row.device == "cuda" and uncounted is not None:
                        uncounted.append((c, timing))
                    seconds = once(calls[0], row.device)
                    our_seconds = our_seconds or seconds
                    if seconds > SLOW * our_seconds:
                        timing.rounds = SLOW_ROUNDS
                    if seconds > ONCE_S:
                        timing.rounds = 1
                    # torch's allocator counts only torch's tensors.
                    if row.device == "cuda" and isinstance(result, Tensor):
                        timing.extra_bytes = extra_memory(calls[0])
                        timing.host_us = host_us(calls[0], seconds)
                    slow = seconds if timing.rounds < rounds or seconds > ENDLESS_S else 0.0
                    samplers[c.name] = prepared_sampler(calls, row.device, c.graph, slow)
                else:
                    samplers[c.name] = prepared_sampler(calls, row.device, c.graph)
                del result
        except Exception as error:
            if c in (*copies, ours):
                raise
            left_out[c.name] = first_line(error)
            continue
        timings[c.name], contexts[c.name] = timing, c.context
    planned_rounds = {name: timing.rounds for name, timing in timings.items()}
    samples = in_turn(samplers, contexts, planned_rounds, LONGER if row.device == "cuda" else 1)
    for name, seconds_each in samples.items():
        few = len(seconds_each) < 2
        low, _, high = [0.0] * 3 if few else statistics.quantiles(seconds_each, n=4, method="inclusive")
        timings[name].median_us = statistics.median(seconds_each) * 1e6
        timings[name].iqr_us = (high - low) * 1e6
        timings[name].rounds = len(seconds_each)
    return summarised(row, candidates, timings, left_out)


def summarised(
    row: Row, candidates: Sequence[Candidate], timings: dict[str, Timing], left_out: dict[str, str]
) -> Result:
    """The result of a row: its shares of the copy and of the multiply-adds, and its ratio to the best rival."""
    own = timings[OURS]
    copy = min(COPIES, key=lambda name: timings[name].median_us)
    rivals = [c.name for c in candidates if c.name in timings and c.name not in (*COPIES, OURS) and not c.own]
    rival = min(rivals, key=lambda name: timings[name].median_us, default=None)
    size = prod(row.shape) * row.dtype.itemsize
    tolerance = TOLERANCE[row.out_dtype or row.dtype] if row.tolerance is None else row.tolerance
    flops, peak = 2 * row.taps * prod(row.shape), fma_peak(row.device)
    moved_bytes, share = round(2 * size * row.traffic), timings[copy].median_us * row.traffic / own.median_us
    return Result(
        name=row.name,
        device=row.device,
        shape=list(row.shape),
        dtype=str(row.dtype).removeprefix("torch."),
        bytes=moved_bytes,
        flops=flops,
        resident=row.resident,
        copy=copy,
        copy_fraction=share if worth_a_copy(row.device, moved_bytes) else None,
        fma_fraction=flops / (own.median_us * 1e-6) / peak if peak else None,
        best_rival=rival,
        speedup=timings[rival].median_us / own.median_us if rival else None,
        correct=own.max_error is not None and own.max_error <= tolerance,
        series=row.series,
        left_out=left_out,
        timings=timings,
    )


def square(n: int) -> tuple[int, ...]:
    return (1, 1, n, n)


def cube(n: int) -> tuple[int, ...]:
    return (1, 1, n, n, n)


def extent(shape: tuple[int, ...]) -> str:
    """The sizes of a row's name, without a single sample of one channel."""
    return "x".join(map(str, shape[2:] if shape[:2] == (1, 1) else shape))


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def make_image(row: Row) -> Tensor:
    top, left = CROPPED if row.cropped else (0, 0)
    shape = (*row.shape[:-2], row.shape[-2] + top, row.shape[-1] + left)
    if row.dtype.is_floating_point:
        x = torch.rand(shape, device=row.device).to(row.dtype)
    else:
        x = torch.randint(*INTEGERS[row.dtype], shape, dtype=torch.int32, device=row.device).to(row.dtype)
    x = x.movedim(1, -1).contiguous().movedim(-1, 1) if row.inner else x.contiguous(memory_format=row.memory_format)
    return x[..., top:, left:]


def copied(x: Tensor, cropped: bool) -> tuple[Tensor, Tensor]:
    """Source and destination of the copies: the image, and memory with its layout."""
    source = checks.as_signed(x.contiguous() if cropped else x)
    return source, torch.empty_like(source)
