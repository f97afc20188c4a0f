"""F.conv1d, F.conv2d and F.conv3d against our kernels: measurements for csrc/dispatch/conv/handover_table.h.

python benchmarks/handover.py [--device cuda] [--only '*NHWC*'] [--seconds 230] [--json FILE] [--list]
python benchmarks/handover.py --device cpu --json FILE --again       # on a CPU that others use: some runs
python benchmarks/handover.py --tuned FILE

python benchmarks/handover.py --ours FILE --only 'depthwise*'        # our kernels have changed, torch has not

A line is one convolution: our time with algorithm='ours', torch's time with default settings, and the ratio of torch's
best over ours. Below 1 torch is faster. A second run with --tuned FILE adds torch's time with cudnn.benchmark on. It
must be another process, because cuDNN caches plans by the sizes of a call.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import torch.nn.functional as F
from handover_cases import Case, cases
from handover_table import DTYPES
from torch import Tensor

import torch_conv
from torch_conv.bench.common import first_line
from torch_conv.bench.results import metadata
from torch_conv.bench.sampling import buffers_needed, once
from torch_conv.bench.timing import median, sampler, wait_for_compiler

LAST = {"NHWC": torch.channels_last, "NDHWC": torch.channels_last_3d}
# Ours and torch's differ by so much of the windows' sum of |taps|; float32 by torch may be TF32.
TOLERANCE = {"f32": 2e-3, "f16": 4e-3, "bf16": 3e-2, "f64": 1e-10}
ROUNDS = {"cuda": 3, "cpu": 10}  # medians there; the least here, where other processes only make it slower
MOST_BUFFERS = 4  # rotated through: together larger than the L2 cache from 16 MB a tensor on
LONG_S = 8e-3  # a call that takes longer is timed by itself, twice
BEHIND = 0.8  # where torch's ratio is below, it is ahead without cudnn.benchmark


@dataclass
class Measured:
    case: Case
    ours_us: float
    torch_us: float  # with torch's default settings
    backend: str  # what torch picks
    plan: str
    error: float
    tuned_us: float | None = None  # with cudnn.benchmark

    @property
    def ratio(self) -> float:
        return min(self.torch_us, self.tuned_us or self.torch_us) / self.ours_us


# ---- how -------------------------------------------------------------------------------------------------------------


def in_layout(x: Tensor, layout: str) -> Tensor:
    if layout in LAST:
        return x.contiguous(memory_format=LAST[layout])
    return x.transpose(1, 2).contiguous().transpose(1, 2) if layout == "NLC" else x


def arguments(case: Case, device: str) -> tuple[list[Tensor], Tensor, list[int], dict[str, Any]]:
    """Images, the weight, the padding and the other options."""
    torch.manual_seed(0)
    dtype = DTYPES[case.dtype]
    pad = [case.dilation * (k - 1) // 2 for k in case.window]
    count = min(MOST_BUFFERS, buffers_needed(device, 2 * prod(case.shape) * dtype.itemsize))
    inputs = [in_layout(torch.rand(case.shape, device=device).to(dtype), case.layout) for _ in range(count)]
    weight = torch.randn(case.out, case.shape[1] // case.groups, *case.window, device=device)
    weight = (weight / weight.flatten(1).abs().sum(1).reshape(-1, *[1] * (case.axes + 1))).to(dtype)
    if case.layout in LAST:
        weight = weight.contiguous(memory_format=LAST[case.layout])
    return inputs, weight, pad, {"stride": case.stride, "dilation": case.dilation, "groups": case.groups}


def rival_of(case: Case, weight: Tensor, pad: list[int], options: dict[str, Any]) -> Callable[[Tensor], Tensor]:
    conv: Callable[..., Tensor] = getattr(F, f"conv{case.axes}d")
    if case.mode == "zeros":
        return lambda x: conv(x, weight, padding=pad, **options)
    around = [p for p in reversed(pad) for _ in range(2)]
    return lambda x: conv(F.pad(x, around, case.mode), weight, **options)


def ours_of(case: Case, weight: Tensor, pad: list[int], options: dict[str, Any]) -> Callable[[Tensor], Tensor]:
    conv = getattr(torch_conv, f"conv{case.axes}d")
    return partial(conv, weight=weight, padding=pad, padding_mode=case.mode, algorithm="ours", **options)


def plan_of(call: Callable[[Tensor], Tensor], x: Tensor) -> str:
    return str(torch_conv.explain(call, x)).split(" (")[0].split(": ")[-1]


def measure(case: Case, device: str) -> Measured:
    inputs, weight, pad, options = arguments(case, device)
    call = ours_of(case, weight, pad, options)
    rival = rival_of(case, weight, pad, options)
    got, expected = call(inputs[0]), rival(inputs[0])
    error = (got.double() - expected.double()).abs().max().item() if got.numel() else 0.0
    del got, expected
    time_ours, time_torch = seconds(call, inputs, device), seconds(rival, inputs, device)
    return Measured(
        case,
        round(time_ours * 1e6, 2),
        round(time_torch * 1e6, 2),
        backend_of(case, inputs[0], weight, pad),
        plan_of(call, inputs[0]),
        error,
    )


def seconds(call: Callable[[Tensor], Tensor], inputs: list[Tensor], device: str) -> float:
    calls = [partial(call, x) for x in inputs]
    calls[0]()
    long = once(calls[0], device)
    if long > LONG_S:
        return min(long, *(once(calls[-1], device) for _ in range(1 if device == "cuda" else 4)))
    sample = sampler(calls, device, warmup=1)
    samples = [sample() for _ in range(ROUNDS[device])]
    return median(samples) if device == "cuda" else min(samples)


def backend_of(case: Case, x: Tensor, weight: Tensor, pad: list[int]) -> str:
    """The backend that torch picks, which gets rows as images."""
    if case.axes == 1:
        x, weight = x.unsqueeze(2), weight.unsqueeze(2)
    axes = max(case.axes, 2)
    pads = pad if case.axes > 1 else [0, *pad]
    steps, spread = [case.stride] * axes, [case.dilation] * axes
    picked = torch._C._select_conv_backend(x, weight, None, steps, pads, spread, False, [0] * axes, case.groups, None)
    return str(picked).split(".")[-1]


def line(m: Measured) -> str:
    wrong = "  WRONG" if m.error > TOLERANCE[m.case.dtype] else ""
    return (
        f"{m.ratio:8.3f}  {m.case.name:60} {m.ours_us:10.1f} {m.torch_us:10.1f}  "
        f"{m.plan:18} {m.backend:16} {m.error:.0e}{wrong}"
    )


def tune(path: Path, limit: float) -> int:
    """Adds torch's times with cudnn.benchmark to a file of results, where they could change who is ahead."""
    meta, results = read(path)
    start, count = time.perf_counter(), 0
    torch.backends.cudnn.benchmark = True
    for m in sorted(results, key=lambda m: m.ratio):
        if "Cudnn" not in m.backend or m.ratio < BEHIND or time.perf_counter() - start > limit:
            continue
        inputs, weight, pad, options = arguments(m.case, "cuda")
        before = m.ratio
        with torch.inference_mode():
            m.tuned_us = round(1e6 * seconds(rival_of(m.case, weight, pad, options), inputs, "cuda"), 2)
        print(f"{before:8.3f} {m.ratio:8.3f}  {m.case.name}", flush=True)
        count += 1
    write(path, meta, results)
    print(f"{count} cases in {time.perf_counter() - start:.0f} s")
    return 0


def ours_again(path: Path, pattern: str, limit: float, device: str) -> int:
    """Measures our side of a file of results anew, of the cases that match."""
    meta, results = read(path)
    start, count = time.perf_counter(), 0
    chosen = [m for m in results if fnmatch.fnmatch(m.case.name, f"*{pattern}*")]
    for m in chosen:
        if time.perf_counter() - start > limit:
            break
        inputs, weight, pad, options = arguments(m.case, device)
        call = ours_of(m.case, weight, pad, options)
        before = m.ratio
        with torch.inference_mode():
            m.ours_us = round(1e6 * seconds(call, inputs, device), 2)
            m.plan = plan_of(call, inputs[0])
        print(f"{before:8.3f} {m.ratio:8.3f}  {m.case.name:60} {m.ours_us:10.1f} {m.plan}", flush=True)
        count += 1
    write(
        path, {**meta, **metadata(ROUNDS[device]), "torch_measured": meta.get("torch_measured", meta["date"])}, results
    )
    print(f"{count} of {len(chosen)} cases in {time.perf_counter() - start:.0f} s")
    return 0 if count == len(chosen) else 1


def read(path: Path) -> tuple[dict[str, Any], list[Measured]]:
    document = json.loads(path.read_text())
    results = []
    for row in document["rows"]:
        kind, layout, dtype, shape, *rest = row.pop("case")
        results.append(Measured(Case(kind, layout, dtype, tuple(shape), *rest), **row))
    return document["metadata"], results


def write(path: Path, meta: dict[str, Any], results: list[Measured]) -> None:
    """JSON with a line for every result; a case is the list of its numbers."""
    rows = [json.dumps({**asdict(m), "case": [*asdict(m.case).values()]}, separators=(",", ":")) for m in results]
    head = json.dumps({"benchmark": "handover", "metadata": meta, "rows": []}, indent=1).removesuffix("[]\n}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + "[\n" + ",\n".join(rows) + "\n]}\n")


def least(results: list[Measured], before: list[Measured]) -> list[Measured]:
    """Of every time the less, of this run and of an earlier one."""
    known = {m.case: m for m in before}
    for m in results:
        if m.case in known:
            m.ours_us = min(m.ours_us, known[m.case].ours_us)
            m.torch_us = min(m.torch_us, known[m.case].torch_us)
            m.tuned_us = known[m.case].tuned_us
    measured = {m.case for m in results}
    return [*results, *(m for m in before if m.case not in measured)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--only", metavar="PATTERN", default="*", help="only the cases whose name matches (shell style)"
    )
    parser.add_argument("--seconds", type=float, default=230.0, help="stop after so long (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here as well")
    parser.add_argument("--again", action="store_true", help="of every time keep the less of this run's and FILE's")
    parser.add_argument("--tuned", type=Path, metavar="FILE", help="add torch's times with cudnn.benchmark to results")
    parser.add_argument("--ours", type=Path, metavar="FILE", help="measure our side of results again, and keep torch's")
    parser.add_argument("--list", action="store_true", help="print the cases' names and stop")
    args = parser.parse_args()
    wait_for_compiler()
    if args.tuned:
        return tune(args.tuned, args.seconds)
    if args.ours:
        return ours_again(args.ours, args.only, args.seconds, args.device)
    chosen = [c for c in cases(args.device) if fnmatch.fnmatch(c.name, f"*{args.only}*")]
    if args.list:
        print("\n".join(c.name for c in chosen))
        return 0
    start = time.perf_counter()
    results: list[Measured] = []
    print(f"{'x torch':>8}  {'case':60} {'ours us':>10} {'torch us':>10}", flush=True)
    with torch.inference_mode():
        for case in chosen:
            if time.perf_counter() - start > args.seconds:
                break
            try:
                results.append(measure(case, args.device))
            except RuntimeError as error:
                print(f"{'-':>8}  {case.name:60} {first_line(error)}", flush=True)
                continue
            print(line(results[-1]), flush=True)
    if args.again:
        results = least(results, read(args.json)[1])
    results.sort(key=lambda m: (m.case.axes, m.case.kind, m.case.layout, m.case.dtype, m.case.k, m.case.shape))
    if args.json:
        write(args.json, metadata(ROUNDS[args.device]) | {"threads": torch.get_num_threads()}, results)
    behind = sum(m.ratio < 1 for m in results)
    wrong = [m.case.name for m in results if m.error > TOLERANCE[m.case.dtype]]
    print(f"{len(results)} of {len(chosen)} cases in {time.perf_counter() - start:.0f} s; torch ahead in {behind}")
    print("\n".join(f"differ: {name}" for name in wrong) or "all results agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
