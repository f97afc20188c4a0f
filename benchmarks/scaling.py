"""Images and volumes in shards on several GPUs: the efficiency of N GPUs; README.md states the rules.

    python benchmarks/scaling.py --devices 2 --json benchmarks/results/scaling2-h100.json
    python benchmarks/scaling.py --device cpu                  # tiny, to see that it runs
    python benchmarks/scaling.py --only host,link,'strong/*7x7*'

Parts: strong (one image, one GPU against all), weak (an image for each GPU), link and host (from host memory and back).
More parts: gather (between GPUs), rivals (halos by hand), processes (torch.distributed), graph (device time alone).

Efficiency is the time of one GPU divided by N times that of N. Times are clock times of a queue of calls of at
least 20 ms, with all GPUs idle before and after. Times of `graph` come from one CUDA graph that spans the GPUs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from isolated import results
from scaling_filters import ON_GPU
from scaling_host import host, link
from scaling_processes import processes
from scaling_rivals import rivals
from scaling_rows import Row, Task
from scaling_split import gather, strong, weak

from torch_conv.bench.results import metadata
from torch_conv.bench.timing import wait_for_compiler

MEASURE: dict[str, Callable[[Task], Row]] = {
    "strong": strong,
    "weak": weak,
    "rivals": rivals,
    "link": link,
    "host": host,
    "gather": gather,
    "graph": partial(strong, graph=True),
}
TASK_S = 60.0  # the longest a task may take before its process is ended
GROUP_S = 200.0  # ... of the processes' tasks together
SMALL = {2048: 64, 4096: 96, 8192: 128, 16384: 144, 32768: 160, 1024: 24}  # what a size becomes on the CPU
SIZES = (2048, 4096, 8192, 16384, 32768)  # of the filter whose efficiency is drawn over the image's side


def measure(task: Task) -> Row:
    with torch.inference_mode():
        return MEASURE[task.part](task)


def tasks(devices: tuple[str, ...], rounds: int) -> list[Task]:
    """All rows, the more wanted ones first: a run may be cut short."""
    cuda = devices[0] != "cpu"

    def side(n: int) -> int:
        return n if cuda else SMALL[n]

    def task(part: str, filtering: str, shape: tuple[int, ...], border: str = "reflect", **more: Any) -> Task:
        extent = f"{shape[-1]}{'²' if len(shape) == 4 else '³'}"
        name = " ".join(w for w in (filtering, border if filtering else "", extent) if w)
        seconds = 20e-3 if cuda else 2e-3
        given = {"name": name, "devices": devices, "rounds": rounds, "seconds": seconds, **more}
        return Task(part=part, filter=filtering, shape=shape, border=border, **given)

    def square(n: int) -> tuple[int, ...]:
        return (1, 1, side(n), side(n))

    large = (8192, 32768)
    small, wide, gaussian = "filter2d 3x3", "filter2d 7x7", "gaussian 31"
    others = ["sobel", "gaussian_sobel 5", "box 15", "gaussian 31 float16", *([f"{small} {ON_GPU}"] if cuda else [])]
    strongest = []
    for n in (*large, *sorted(set(SIZES) - set(large))):
        strongest += [
            task("strong", small, square(n), "reflect", staged=n in large),
            task("strong", small, square(n), "constant"),
        ]
        if n in (4096, *large):
            strongest += [task("strong", name, square(n)) for name in (wide, gaussian, *others)]
    volume = (1, 1, *[side(1024)] * 3)
    volumes = ("filter3d 3x3x3", "filter3d 7x7x7", "gaussian3d 9")
    strongest += [task("strong", name, volume, dim=-3) for name in volumes]

    hosts = []
    for pinned in (True, False) if cuda else (False,):
        for n in (8192, 4096):
            name = f"gaussian 3x3 {side(n)}² {'pinned' if pinned else 'pageable'}"
            each = (1, 2, 4, 8) if pinned else (1, 4)
            hosts.append(task("host", "gaussian 3", square(n), name=name, pinned=pinned, per_device=each))
    return [
        *strongest,
        *([task("link", "", (1, 1, 8192, 8192), name="256 MiB a GPU")] if cuda else []),
        *hosts,
        *(task("gather", "", square(n), name=f"{side(n)}² f32") for n in large),
        *(task("weak", name, square(8192)) for name in (small, gaussian)),
        *(task("rivals", small, square(n), border) for n in SIZES for border in ("constant", "reflect")),
        *(task("rivals", wide, square(n)) for n in large),
        *(task("processes", small, square(n), "constant") for n in SIZES),
        *(replace(t, part="graph", staged=False) for t in strongest if cuda),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], help="default: cuda, where there is one")
    parser.add_argument(
        "--devices", type=int, metavar="N", help="how many GPUs (default: all), or shards on the CPU (2)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds, at least 5 (default: %(default)s)")
    parser.add_argument("--only", metavar="NAME[,NAME]", default="*", help="parts, or patterns of 'part/row'")
    parser.add_argument(
        "--budget", type=float, default=540, metavar="S", help="begin nothing later (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here as well")
    parser.add_argument("--list", action="store_true", help="print the rows' names and stop")
    args = parser.parse_args()
    wait_for_compiler()
    cuda = torch.cuda.is_available() if args.device is None else args.device == "cuda"
    there = torch.cuda.device_count()
    n = args.devices if args.devices is not None else there if cuda else 2
    if args.rounds < 5:
        parser.error("--rounds must be at least 5")
    if cuda and not there:
        parser.error("torch sees no CUDA device here")
    if n < 2 or (cuda and n > there):
        parser.error(f"--devices must be 2 to {there}, got {n}" if cuda else f"--devices must be at least 2, got {n}")
    devices = tuple(f"cuda:{i}" for i in range(n)) if cuda else ("cpu",) * n
    chosen = [t for t in tasks(devices, args.rounds) if wanted(t, args.only)]
    if not chosen:
        parser.error(f"no row matches {args.only!r}; --list prints the names")
    if args.list:
        print("\n".join(f"{t.part}/{t.name}" for t in chosen))
        return 0

    start = time.monotonic()
    meta = {**metadata(args.rounds), "gpus": n if cuda else 0, "shards": list(devices)}
    if cuda:
        meta["peer_access"] = all(torch.cuda.can_device_access_peer(i, j) for i in range(n) for j in range(n) if i != j)
    rows: list[Row] = []
    for row in measured(chosen, lambda: time.monotonic() > start + args.budget):
        rows.append(row)
        print(line(row), flush=True)
        for sentence in row.wrong:
            print(f"      WRONG: {sentence}", flush=True)
        for name, why in row.left_out.items():
            print(f"      left out: {name}: {why}", flush=True)
        if args.json:  # row by row: what was measured survives a run that is cut short
            document = {"benchmark": "scaling", "metadata": meta, "rows": [asdict(r) for r in rows]}
            args.json.parent.mkdir(parents=True, exist_ok=True)
            args.json.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{len(rows)} of {len(chosen)} rows in {time.monotonic() - start:.0f} s")
    return 0 if len(rows) == len(chosen) and all(r.correct and r.timings for r in rows) else 1


def wanted(task: Task, only: str) -> bool:
    name = f"{task.part}/{task.name}"
    return any(task.part == pattern or fnmatch(name, pattern) for pattern in only.split(","))


def measured(chosen: list[Task], late: Any) -> Iterator[Row]:
    """Every task's row: those of one process one by one in a process of their own, the groups' in theirs."""
    before = [t for t in chosen if t.part not in ("processes", "graph")]
    together = [t for t in chosen if t.part == "processes"]
    after = [t for t in chosen if t.part == "graph"]
    yield from alone(before, late)
    if together and not late():
        yield from processes(together, GROUP_S)
    yield from alone(after, late)


def alone(chosen: list[Task], late: Any) -> Iterator[Row]:
    for task, row, failure in results(measure, chosen, TASK_S, late):
        yield row or Row(task.part, task.name, list(task.shape), len(task.devices), left_out={"all": str(failure)})


def line(row: Row) -> str:
    parts = [f"{row.part:9} {row.name:36}"]
    parts += [f"{name} {t.median_us:.1f} us ±{t.iqr_us:.1f}" for name, t in row.timings.items()]
    parts += [f"[{way} {100 * e:.1f} %]" for way, e in row.efficiency.items()]
    parts += [f"host {name} {us:.1f} us" for name, us in row.host_us.items()]
    parts += [f"{name} {rate:.1f} GB/s" for name, rate in row.facts.get("gbs", {}).items()]
    return "  ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
