"""What the families share as programs: options, lines on the screen, JSON with metadata."""

from __future__ import annotations

import argparse
import ctypes
import fnmatch
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any

import torch

import torch_conv
from torch_conv.bench.common import Candidate, Result, Row, Timing, first_line, make_image, measure
from torch_conv.bench.launches import count
from torch_conv.cli.ladder import metadata as machine

PACKAGE = Path(torch_conv.__file__).resolve().parent.parent  # what a fresh interpreter imports from
COUNTING_S = 20.0  # for the rivals' launches, after what is timed


def main(
    benchmark: str,
    description: str | None,
    rows: Callable[[str], list[Row]],
    budget_s: float = inf,
    imports: bool = False,
) -> int:
    """Measures what the command line asks for; exit status 1 if a result of ours is wrong or a row fails.

    After `budget_s` seconds the rows that are left get no rivals. `imports` measures the time of the import as well.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu", "all"], default="all", help="default: all there are")
    parser.add_argument("--rows", metavar="PATTERN", default="*", help="only the rows whose name matches (shell style)")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds, at least 5 (default: %(default)s)")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the results here as well; rows that it holds and that are not measured now stay, with their commit",
    )
    parser.add_argument("--list", action="store_true", help="print the rows' names and stop")
    args = parser.parse_args()
    keep_freed_memory()
    if args.rounds < 5:
        parser.error("--rounds must be at least 5")
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no CUDA device here")
    devices = ["cuda", "cpu"] if args.device == "all" else [args.device]
    devices = [d for d in devices if d == "cpu" or torch.cuda.is_available()]
    there_are = [r for d in devices for r in rows(d)]
    chosen = [r for r in there_are if fnmatch.fnmatch(r.name, f"*{args.rows}*")]
    if not chosen:
        parser.error(f"no row matches {args.rows!r}; --list prints the names")
    if args.list:
        print("\n".join(f"{r.device:4}  {r.name}" for r in chosen))
        return 0

    meta = metadata(args.rounds)
    try:
        kept = kept_rows(args.json, benchmark, meta, [(r.device, r.name) for r in there_are])
    except ValueError as error:
        parser.error(str(error))
    start = time.perf_counter()
    extra = {}
    if imports:
        seconds = statistics.median(import_seconds("torch_conv", after="torch", rounds=args.rounds))
        extra["import_seconds"] = seconds
        print(f"import torch_conv after torch: {1e3 * seconds:.0f} ms", flush=True)
    results: list[Result] = []
    uncounted: list[tuple[Row, list[tuple[Candidate, Timing]]]] = []
    with torch.inference_mode():
        for row in chosen:
            try:
                uncounted.append((row, []))
                results.append(measure(row, args.rounds, start + budget_s, uncounted[-1][1]))
            except (RuntimeError, ValueError, TypeError) as error:  # the other rows are worth having
                print(f"{row.device:4}  {row.name:46} FAILED: {first_line(error)}", flush=True)
                continue
            print(line(results[-1]), flush=True)
            for name, why in results[-1].left_out.items():
                print(f"      left out: {name}: {why}", flush=True)
            if row.device == "cuda":
                torch.cuda.empty_cache()
            if args.json:  # row by row: what was measured survives a run that is cut short
                write_json(args.json, benchmark, meta, results, extra, kept)
        for row, candidates in uncounted:
            if candidates and time.perf_counter() < start + budget_s + COUNTING_S:
                count(make_image(row), candidates)
                torch.cuda.empty_cache()
    if args.json and any(candidates for _, candidates in uncounted):
        write_json(args.json, benchmark, meta, results, extra, kept)
    print(f"{len(results)} of {len(chosen)} rows in {time.perf_counter() - start:.0f} s")
    return 0 if len(results) == len(chosen) and all(r.correct for r in results) else 1


def keep_freed_memory() -> None:
    """Lets malloc hand out again what was freed instead of fresh pages, whatever its size (glibc)."""
    trim_threshold, mmap_max = -1, -4
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(mmap_max, 0)
        libc.mallopt(trim_threshold, 2**31 - 1)


def line(result: Result) -> str:
    ours = result.timings["torch_conv"]
    parts = [
        f"{result.device:4}  {result.name:46} {ours.median_us:10.1f} us ±{ours.iqr_us:6.1f}",
        f"{100 * result.copy_fraction:5.1f} % of copy",
    ]
    if result.fma_fraction is not None:
        parts.append(f"{100 * result.fma_fraction:4.1f} % of FMA")
    if result.best_rival is None:
        parts.append("no rival")
    else:
        rival = result.timings[result.best_rival]
        parts.append(f"{result.speedup:7.2f} x {result.best_rival} ({rival.median_us:.1f} us)")
    parts.append(f"error {ours.max_error:.1e}")
    if any(name.startswith("torch_conv ") for name in result.timings):
        own = min((n for n in result.timings if n.startswith("torch_conv ")), key=lambda n: result.timings[n].median_us)
        parts.append(f"{result.timings[own].median_us / ours.median_us:5.2f} x {own}")
    if ours.extra_bytes is not None:
        parts.append(f"extra {ours.extra_bytes / 2**20:.1f} MiB")
    if ours.host_us is not None:
        parts.append(f"host {ours.host_us:.1f} us")
        convs = [t.host_us for n, t in result.timings.items() if n.startswith("F.conv") and t.host_us is not None]
        if convs and result.resident:
            parts[-1] += f" (F.conv {min(convs):.1f} us)"
    if not result.correct:
        parts.append("WRONG")
    return "  ".join(parts)


# ---- results ---------------------------------------------------------------------------------------------------------


def import_seconds(package: str, after: str, rounds: int) -> list[float]:
    """Time of `import package` in fresh interpreters that have already imported `after`."""
    code = f"import time, {after}; t = time.perf_counter(); import {package}; print(time.perf_counter() - t)"
    run = [sys.executable, "-c", code]
    return [
        float(subprocess.run(run, cwd=PACKAGE, check=True, capture_output=True, text=True).stdout)
        for _ in range(rounds)
    ]


def processor() -> str:
    for text in Path("/proc/cpuinfo").read_text().splitlines():
        if text.startswith("model name"):
            return text.split(":", 1)[1].strip()
    return platform.machine()


def metadata(rounds: int) -> dict[str, Any]:
    """What every result says about where it was measured."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    facts = {**machine(device, rounds), "cpu": processor()}
    del facts["dtype"]  # every row has its own
    if device.type == "cuda":
        facts["l2_bytes"] = torch.cuda.get_device_properties(device).L2_cache_size
    return facts


Kept = dict[tuple[str, str], dict[str, Any] | None]


def kept_rows(path: Path | None, benchmark: str, meta: dict[str, Any], names: list[tuple[str, str]]) -> Kept:
    """What an older file holds of the rows that there are, in their order, and of devices that are not measured.

    Every row is a ratio within one run, so those of several runs on one kind of GPU may stand side by side.

    Raises: ValueError, if the file is of another benchmark or machine.
    """
    kept: Kept = dict.fromkeys(names)
    if path is None or not path.exists():
        return kept
    older = json.loads(path.read_text())
    if older["benchmark"] != benchmark or any(older["metadata"][k] != meta[k] for k in ("gpu", "threads")):
        raise ValueError(f"{path} holds results of another benchmark or machine; delete it first, or name another file")
    commit, measured = older["metadata"]["commit"], {device for device, _ in names}
    for row in older["rows"]:
        at = row["device"], row["name"]
        if at in kept or row["device"] not in measured:
            kept[at] = {"commit": commit, **row}
    return kept


def write_json(
    path: Path, benchmark: str, meta: dict[str, Any], results: list[Result], extra: dict[str, Any], kept: Kept
) -> None:
    measured = {(r.device, r.name): {"commit": meta["commit"], **asdict(r)} for r in results}
    rows = [row for row in {**kept, **measured}.values() if row is not None]
    document = {"benchmark": benchmark, "metadata": meta, **extra, "rows": rows}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
