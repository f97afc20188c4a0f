"""How a figure is made: interleaved rounds, rotating buffers, a float64 check, JSON. README.md states the rules."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_conv._timing import sampler
from torch_conv.cli.ladder import metadata as machine

ROOT = Path(__file__).resolve().parent.parent
HOST_CALLS = 20  # in one sample of host time: far fewer than the launches a stream holds before it blocks
CHECKED = 64  # side of the crops compared with float64


@dataclass(frozen=True)
class Candidate:
    """One way to do the row's job: ours, a copy or a rival."""

    name: str
    call: Callable[[Any], Any]
    prepare: Callable[[Tensor], Any] = lambda x: x  # once per buffer, untimed: another memory format, a numpy view
    result: Callable[[Any], Tensor] = lambda y: y  # the result as a tensor shaped like the row's, untimed
    context: Callable[[], AbstractContextManager[Any]] = nullcontext
    graph: bool = True  # False where the library cannot be captured in a CUDA graph


@dataclass(frozen=True)
class Row:
    """One workload: a line of the table."""

    name: str
    device: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    ours: Callable[[Tensor], Tensor]
    rivals: Callable[[], list[Candidate]]
    reference: Callable[[Tensor], Tensor]  # float64 (1, 1, h, w) on the CPU, same border
    halo: int
    taps: int  # multiply-adds per pixel of the direct window
    tolerance: float
    resident: bool = False  # measured on one buffer, which L2 holds: small images


@dataclass
class Timing:
    median_us: float
    iqr_us: float
    max_error: float | None = None
    extra_bytes: int | None = None  # peak beyond input and output (CUDA)
    host_us: float | None = None  # time of the Python call alone (CUDA)


@dataclass
class Result:
    name: str
    device: str
    shape: list[int]
    dtype: str
    bytes: int
    flops: int
    resident: bool
    copy: str  # which copy was the faster: the yardstick
    copy_fraction: float
    best_rival: str
    speedup: float
    correct: bool
    timings: dict[str, Timing] = field(default_factory=dict)


def measure(row: Row, rounds: int) -> Result:
    """Checks and times one row: copy, ours and rivals, one sample each per round."""
    torch.manual_seed(0)
    size = torch.Size(row.shape).numel() * row.dtype.itemsize
    buffers = [make_image(row) for _ in range(1 if row.resident else buffers_needed(row.device, 2 * size))]
    outputs = [torch.empty_like(x) for x in buffers]
    destination = {x.data_ptr(): y for x, y in zip(buffers, outputs, strict=True)}
    copies = [
        Candidate("copy_", lambda x: destination[x.data_ptr()].copy_(x)),
        Candidate("add", lambda x: torch.add(x, 1, out=destination[x.data_ptr()])),
    ]
    candidates = [*copies, Candidate("torch_conv", row.ours), *row.rivals()]
    expected = crops(buffers[0], row)
    timings: dict[str, Timing] = {}
    samplers: dict[str, Callable[[], float]] = {}
    for c in candidates:
        calls = [partial(c.call, c.prepare(x)) for x in buffers]
        timings[c.name] = timing = Timing(0, 0)
        with c.context():
            if c not in copies:
                result = calls[0]()
                timing.max_error = max_error(c.result(result), expected, row)
                if row.device == "cuda" and isinstance(result, Tensor):  # other libraries have other allocators
                    timing.extra_bytes = extra_memory(calls[0])
                    timing.host_us = host_us(calls[0])
                del result
            samplers[c.name] = prepared_sampler(c, calls, row.device)
    samples: dict[str, list[float]] = {c.name: [] for c in candidates}
    for _ in range(rounds):
        for c in candidates:
            with c.context():
                samples[c.name].append(samplers[c.name]())
    for name, seconds in samples.items():
        low, _, high = statistics.quantiles(seconds, n=4)
        timings[name].median_us = statistics.median(seconds) * 1e6
        timings[name].iqr_us = (high - low) * 1e6

    ours = timings["torch_conv"]
    copy = min((c.name for c in copies), key=lambda name: timings[name].median_us)
    rival = min((c.name for c in candidates[3:]), key=lambda name: timings[name].median_us)
    error = ours.max_error
    return Result(
        name=row.name,
        device=row.device,
        shape=list(row.shape),
        dtype=str(row.dtype).removeprefix("torch."),
        bytes=2 * size,
        flops=2 * row.taps * torch.Size(row.shape).numel(),
        resident=row.resident,
        copy=copy,
        copy_fraction=timings[copy].median_us / ours.median_us,
        best_rival=rival,
        speedup=timings[rival].median_us / ours.median_us,
        correct=error is not None and error <= row.tolerance,
        timings=timings,
    )


def make_image(row: Row) -> Tensor:
    if row.dtype.is_floating_point:
        return torch.rand(row.shape, device=row.device).to(row.dtype)
    return torch.randint(0, 256, row.shape, dtype=row.dtype, device=row.device)


def buffers_needed(device: str, bytes_per_call: int) -> int:
    """So many buffers that going round them touches at least four times the last cache."""
    cache = torch.cuda.get_device_properties(device).L2_cache_size if device == "cuda" else 0
    return max(1, -(-4 * cache // bytes_per_call))


# ---- correctness -----------------------------------------------------------------------------------------------------


def crops(x: Tensor, row: Row) -> list[tuple[slice, slice, Tensor]]:
    """(rows, columns, float64 result) of two crops: the image's corner with its border, and its middle without."""
    h, w = x.shape[-2:]
    plane = x.reshape(-1, h, w)[-1]
    out = []
    for y0, x0 in ((0, 0), ((h - CHECKED) // 2, (w - CHECKED) // 2)):
        top, left = max(y0 - row.halo, 0), max(x0 - row.halo, 0)
        piece = plane[top : y0 + CHECKED + row.halo, left : x0 + CHECKED + row.halo].cpu().double()
        filtered = row.reference(piece[None, None])[0, 0]
        if not row.dtype.is_floating_point:
            filtered = filtered.round().clamp(0, 255)
        rows, columns = slice(y0, y0 + CHECKED), slice(x0, x0 + CHECKED)
        out.append((rows, columns, filtered[y0 - top :, x0 - left :][:CHECKED, :CHECKED]))
    return out


def max_error(result: Tensor, expected: Sequence[tuple[slice, slice, Tensor]], row: Row) -> float:
    plane = result.reshape(-1, *row.shape[-2:])[-1]
    return max(float((plane[r, c].cpu().double() - e).abs().max()) for r, c, e in expected)


# ---- time and memory -------------------------------------------------------------------------------------------------


def prepared_sampler(candidate: Candidate, calls: Sequence[Callable[[], Any]], device: str) -> Callable[[], float]:
    """A function that takes one sample, seconds per call: from a CUDA graph, or the host's loop where it must be."""
    if device == "cpu" or candidate.graph:
        return sampler(calls, device)

    def events(repeats: int) -> float:
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(repeats):
            for call in calls:
                call()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) * 1e-3 / (repeats * len(calls))

    repeats = max(1, round(4e-3 / min(events(1) for _ in range(3)) / len(calls)))
    return lambda: events(repeats)


def extra_memory(call: Callable[[], Any]) -> int:
    """Peak bytes of one call beyond what lives already and its output (as the allocator rounds it)."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    output = call()
    torch.cuda.synchronize()
    after = torch.cuda.memory_allocated()
    del output
    return torch.cuda.max_memory_allocated() - max(before, after)


def host_us(call: Callable[[], Any]) -> float | None:
    """What one call costs the Python thread, in microseconds; None for calls so long that nobody asks."""
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    if time.perf_counter() - start > 5e-3:
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


def import_seconds(package: str, after: str, rounds: int) -> list[float]:
    """Time of `import package` in fresh interpreters that have already imported `after`."""
    code = f"import time, {after}; t = time.perf_counter(); import {package}; print(time.perf_counter() - t)"
    run = [sys.executable, "-c", code]
    return [
        float(subprocess.run(run, cwd=ROOT, check=True, capture_output=True, text=True).stdout) for _ in range(rounds)
    ]


# ---- results ---------------------------------------------------------------------------------------------------------


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def metadata(rounds: int) -> dict[str, Any]:
    """What every result says about where it was measured."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    facts = {**machine(device, rounds), "cpu": processor()}
    del facts["dtype"]  # every row has its own
    return facts


def write_json(path: Path, benchmark: str, meta: dict[str, Any], results: list[Result], extra: dict[str, Any]) -> None:
    document = {"benchmark": benchmark, "metadata": meta, **extra, "rows": [asdict(r) for r in results]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
