"""`torch-conv bench FAMILY`: filters, convolutions and models beside their rivals, measured on this machine."""

from __future__ import annotations

import argparse
import fnmatch
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from torch_conv.bench.common import Row
from torch_conv.bench.compare import SLOWER, changes, lines, older_run, ratios
from torch_conv.bench.families import NAMES, family_named
from torch_conv.bench.files import check_file, write_json
from torch_conv.bench.pairs import Pair
from torch_conv.bench.results import Results, as_row, document, import_time, kept_rows, metadata
from torch_conv.bench.running import measure_all
from torch_conv.bench.timing import wait_for_compiler
from torch_conv.bench.usage import UsageError
from torch_conv.cli import anywhere, ladder, scaling, volume
from torch_conv.cli._images import device_named
from torch_conv_cli import did_you_mean

LEAST_ROUNDS = QUICK_ROUNDS = 5
# Benchmarks with options and tables of their own.
OTHERS = {"anywhere": anywhere, "ladder": ladder, "volume": volume, "scaling": scaling}
# (option, fact of a row, default, help)
CHOICES = {
    "models": (
        ("models", "model", None, "names of models"),
        ("batches", "batch", None, "sizes of batches"),
        ("ways", "way", "eager,graph", "of eager, graph and compile (default: %(default)s)"),
    ),
    "training": (("only", "group", None, "of weights, layers and models"),),
}


def add_parser(commands: argparse._SubParsersAction) -> None:
    """`bench` and its families; without a name it lists them."""
    parser = commands.add_parser("bench", description="Measure kernels on this machine.")
    benchmarks = parser.add_subparsers(dest="benchmark", metavar="FAMILY")
    for name, what in NAMES.items():
        add_family(benchmarks, name, what)
    for module in OTHERS.values():
        module.add_parser(benchmarks)
    parser.set_defaults(run=list_families)


def list_families(args: argparse.Namespace) -> None:
    for name, what in (NAMES | {name: module.SUMMARY for name, module in OTHERS.items()}).items():
        print(f"{name:15} {what}")
    print("\nMeasure one: torch-conv bench NAME, with --quick in seconds; --help shows the options.")


def add_family(benchmarks: argparse._SubParsersAction, name: str, what: str) -> None:
    parser = benchmarks.add_parser(
        name,
        help=what,
        description=f"Measure {what}. Every result is checked against float64; exit status 1 if one of this "
        "library's is wrong or a row fails. Rivals that are not installed, fail or take too long are named, not timed.",
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
    parser.add_argument("--quick", action="store_true", help=f"a few small rows, {QUICK_ROUNDS} rounds: some seconds")
    parser.add_argument(
        "--compare",
        metavar="OLD.json",
        type=Path,
        help="say, row by row, how the times are to those of an older run, and which ratios to ours are others; exit "
        "status 1 if a row is slower beyond noise",
    )
    parser.add_argument("--list", action="store_true", help="print the rows' names and stop")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    wait_for_compiler()
    family = family_named(args.benchmark)
    usual = QUICK_ROUNDS if args.quick else family.rounds
    rounds = usual if args.rounds is None else args.rounds
    if rounds < LEAST_ROUNDS:
        raise UsageError(f"--rounds must be at least {LEAST_ROUNDS}, got {rounds}")
    check_file(args.json, force=True)
    devices = devices_named(args.device)
    quick, others = ([row for device in devices for row in rows(device)] for rows in (family.quick, family.rows))
    chosen = [row for row in (quick if args.quick else others) if wanted(row, args)]
    if not others:
        raise UsageError(f"{family.name} has no rows for {devices[0]}: it needs a GPU")
    if not chosen:
        row = "row of --quick" if args.quick else "row"
        near = nearest(quick if args.quick else others, args) or ";"
        raise UsageError(f"no {row} is called for by these options{near} {args.prog} --list prints the names")
    if args.list:
        print("\n".join(f"{row.device:4}  {row.name}" for row in chosen))
        return
    meta = metadata(rounds)
    known = list(dict.fromkeys((row.device, row.name) for row in (*others, *quick)))
    called_for = [(row.device, row.name) for row in chosen]
    older = older_run(args.compare, family.name, meta["gpu"], called_for) if args.compare else None
    kept = kept_rows(args.json, family.name, meta, known)
    extra = import_time(rounds) if family.imports and not args.quick else {}

    def save(results: Results) -> None:
        if args.json:
            write_json(args.json, document(family.name, meta, results, extra, kept))

    results, right = measure_all(family, chosen, rounds, save)
    found = []
    if older:
        rows = [as_row(result) for result in results]
        found = changes(older, rows)
        measured = [(row["device"], row["name"]) for row in rows]
        idle = {*known} - {*called_for}  # not selected
        gone = [key for key in older.rows if key not in measured and key not in idle and key[0] in devices]
        new = [key for key in measured if key not in older.rows]
        print("", *lines(older, found, ratios(older, rows), new, gone), sep="\n")
    if not right or any(change.verdict == SLOWER for change in found):
        raise SystemExit(1)


def devices_named(name: str) -> list[str]:
    """The kinds of the devices. A GPU that is named becomes the current one."""
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


def nearest(rows: Sequence[Row | Pair], args: argparse.Namespace) -> str:
    """did_you_mean for the first part of --rows, or value of another option, that stands in no row."""
    words = {word for row in rows for word in row.name.split()}
    given = [(part, words) for part in re.split(r"[*?\[\]\s]+", args.rows)]
    for option, fact, _, _ in CHOICES.get(args.benchmark, ()):
        known = {fact_of(row, fact) for row in rows}
        given += [(name, known) for name in (getattr(args, option) or "").split(",")]
    hints = (did_you_mean(part, known) for part, known in given if not any(part in name for name in known))
    return next(filter(None, hints), "")


def fact_of(row: Any, fact: str) -> str:
    return row.group if fact == "group" else str(row.facts[fact])
