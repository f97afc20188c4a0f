"""`torch-conv bench FAMILY`: filters, convolutions and models beside their rivals, measured on this machine."""

from __future__ import annotations

import argparse
import fnmatch
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from torch_conv.bench.families import NAMES, family_named
from torch_conv.cli import UsageError, ladder, scaling, volume
from torch_conv.cli._files import check_file, write_json
from torch_conv.cli._images import device_named

if TYPE_CHECKING:
    from torch_conv.bench.common import Candidate, Result, Row, Timing
    from torch_conv.bench.families import Family
    from torch_conv.bench.pairs import Pair

LEAST_ROUNDS = 5
ABSENT = "not installed: "  # said once, not row by row
COUNTING_S = 20.0  # for the rivals' launches, after what is timed
# With options and tables of their own.
OTHERS = {"ladder": ladder, "volume": volume, "scaling": scaling}
# (option, what of a row it names, default: all, what it is)
CHOICES = {
    "models": (
        ("models", "model", None, "names of models"),
        ("batches", "batch", None, "sizes of batches"),
        ("ways", "way", "eager,graph", "of eager, graph and compile (default: %(default)s)"),
    ),
    "training": (("only", "group", None, "of weights, layers and models"),),
}


def add_parser(commands: argparse._SubParsersAction) -> None:
    """`bench` and what stands behind it; without a name it says what there is."""
    parser = commands.add_parser(
        "bench", help="measure kernels on this machine", description="Measure kernels on this machine."
    )
    benchmarks = parser.add_subparsers(dest="benchmark", metavar="FAMILY")
    for name, what in NAMES.items():
        add_family(benchmarks, name, what)
    for module in OTHERS.values():
        module.add_parser(benchmarks)
    parser.set_defaults(run=list_families)


def list_families(args: argparse.Namespace) -> None:
    for name, what in (NAMES | {name: module.SUMMARY for name, module in OTHERS.items()}).items():
        print(f"{name:15} {what}")


def add_family(benchmarks: argparse._SubParsersAction, name: str, what: str) -> None:
    parser = benchmarks.add_parser(
        name,
        help=what,
        description=f"Measure {what}. Every result is checked against float64; exit status 1 if one of this "
        "library's is wrong or a row fails. What is not installed, fails or takes too long is left out and named.",
    )
    parser.add_argument(
        "--device", metavar="D", default="all", help="cpu, cuda, cuda:N or all (default: all there are)"
    )
    parser.add_argument("--rows", metavar="PATTERN", default="*", help="only the rows whose name matches (shell style)")
    for option, _, default, meaning in CHOICES.get(name, ()):
        parser.add_argument(f"--{option}", metavar="NAME[,NAME]", default=default, help=meaning)
    parser.add_argument("--rounds", metavar="N", type=int, help=f"interleaved rounds, at least {LEAST_ROUNDS}")
    parser.add_argument(
        "--json",
        metavar="FILE",
        type=Path,
        help="write the results here as well; rows that it holds and that are not measured now stay, with their commit",
    )
    parser.add_argument("--list", action="store_true", help="print the rows' names and stop")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from torch_conv.bench.results import document, kept_rows, metadata
    from torch_conv.bench.sampling import keep_freed_memory

    family = family_named(args.benchmark)
    rounds = args.rounds if args.rounds is not None else family.rounds
    if rounds < LEAST_ROUNDS:
        raise UsageError(f"--rounds must be at least {LEAST_ROUNDS}, got {rounds}")
    check_file(args.json, force=True)
    there_are = [row for device in devices_named(args.device) for row in family.rows(device)]
    chosen = [row for row in there_are if wanted(row, args)]
    if not there_are:
        raise UsageError(f"{family.name} has no rows for {args.device}: it needs a GPU")
    if not chosen:
        raise UsageError(
            f"no row is called for by these options; torch-conv bench {family.name} --list prints the names"
        )
    if args.list:
        print("\n".join(f"{row.device:4}  {row.name}" for row in chosen))
        return
    meta = metadata(rounds)
    kept = kept_rows(args.json, family.name, meta, [(row.device, row.name) for row in there_are])
    keep_freed_memory()
    extra = import_time(rounds) if family.imports else {}
    results: list[Result | dict[str, Any]] = []

    def save() -> None:
        if args.json:
            write_json(args.json, document(family.name, meta, results, extra, kept))

    start = time.perf_counter()
    measure(family, chosen, rounds, results, save)
    print(f"{len(results)} of {len(chosen)} rows in {time.perf_counter() - start:.0f} s")
    if len(results) < len(chosen) or not all(correct(result) for result in results):
        raise SystemExit(1)


# --- what is measured ---------------------------------------------------------------------------------------------


def devices_named(name: str) -> list[str]:
    """The kinds of the devices; of several GPUs the one that was named becomes the current one."""
    if name == "all":
        return [*(["cuda"] if device_named(None).type == "cuda" else []), "cpu"]
    device = device_named(name)
    if device.type == "cuda":
        torch.cuda.set_device(device.index or 0)
    return [device.type]


def wanted(row: Row | Pair, args: argparse.Namespace) -> bool:
    if not fnmatch.fnmatch(row.name, f"*{args.rows}*"):
        return False
    for option, fact, _, _ in CHOICES.get(args.benchmark, ()):
        names = getattr(args, option)
        if names is not None and fact_of(row, fact) not in names.split(","):
            return False
    return True


def fact_of(row: Any, fact: str) -> str:
    return row.group if fact == "group" else str(row.facts[fact])


def import_time(rounds: int) -> dict[str, float]:
    from torch_conv.bench.results import import_seconds

    seconds = statistics.median(import_seconds("torch_conv", after="torch", rounds=rounds))
    print(f"import torch_conv after torch: {1e3 * seconds:.0f} ms", flush=True)
    return {"import_seconds": seconds}


def measure(
    family: Family,
    chosen: Sequence[Row | Pair],
    rounds: int,
    results: list[Result | dict[str, Any]],
    save: Callable[[], None],
) -> None:
    """Adds to the results row by row, a line on the screen for each: what was measured survives a run cut short."""
    from torch_conv.bench.common import Row, first_line, make_image, measure
    from torch_conv.bench.launches import count
    from torch_conv.bench.lines import line_of

    deadline = time.perf_counter() + family.budget_s
    uncounted: list[tuple[Row, list[tuple[Candidate, Timing]]]] = []
    said: set[tuple[str, str]] = set()
    for row in chosen:
        try:
            if isinstance(row, Row):
                uncounted.append((row, []))
                with torch.inference_mode():
                    results.append(measure(row, rounds, deadline, uncounted[-1][1]))
            else:
                results.append(row.measure(rounds))
        except (RuntimeError, ValueError, TypeError, ImportError) as error:  # the other rows are worth having
            print(f"{row.device:4}  {row.name:46} FAILED: {first_line(error)}", flush=True)
            continue
        print(line_of(results[-1]), flush=True)
        for name, why in left_out(results[-1]):
            if (name, why) not in said or not why.startswith(ABSENT):
                print(f"      left out: {name}: {why}", flush=True)
            said.add((name, why))
        if row.device == "cuda":
            torch.cuda.empty_cache()
        save()
    for counted, candidates in uncounted:
        if candidates and time.perf_counter() < deadline + COUNTING_S:
            with torch.inference_mode():
                count(make_image(counted), candidates)
            torch.cuda.empty_cache()
    if any(candidates for _, candidates in uncounted):
        save()


def left_out(result: Result | dict[str, Any]) -> list[tuple[str, str]]:
    return [] if isinstance(result, dict) else list(result.left_out.items())


def correct(result: Result | dict[str, Any]) -> bool:
    return bool(result["correct"] if isinstance(result, dict) else result.correct)
