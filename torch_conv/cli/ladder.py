"""`torch-conv bench ladder`: the tables of the textbook studies, measured on this machine."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

from torch_conv.bench.files import check_file, check_folder, make_folder, write_file, write_json
from torch_conv.bench.ladder.running import document, exit_if_wrong, measure, show
from torch_conv.bench.machine import metadata
from torch_conv.bench.timing import wait_for_compiler
from torch_conv.bench.usage import UsageError, needed
from torch_conv.cli import add_force
from torch_conv.cli._images import device_named
from torch_conv_cli import did_you_mean, whole_number

SUMMARY = "the textbook kernels, from naive to fused, beside the library's own and F.conv2d"
ROUNDS, QUICK_ROUNDS = 9, 3


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "ladder",
        help=SUMMARY,
        description="Measure the textbook kernels, from naive to fused, beside the library's own and F.conv2d. "
        "Every result is checked against a float64 CPU loop; exit status 1 if one is wrong.",
    )
    parser.add_argument("--device", metavar="D", help="cpu, cuda or cuda:N (default: the GPU, where there is one)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the tables and the machine's data here")
    parser.add_argument(
        "--figures", metavar="DIR", type=Path, help="draw the 2-D study's figures into this folder, over older ones"
    )
    add_force(parser)
    parser.add_argument("--quick", action="store_true", help="images up to 1024x1024 only, and fewer rounds")
    parser.add_argument("--table", metavar="NAME[,NAME]", type=names, help="only these of the tables, by name")
    parser.add_argument(
        "--image-size",
        metavar="N[,N]",
        type=sides,
        help="sides of images; the last one for windows, blocks and borders",
    )
    parser.add_argument(
        "--kernel-size", metavar="K[,K]", type=windows, help="sides of the table window's windows (default: 3,5,7)"
    )
    parser.add_argument(
        "--block", metavar="WxH[,WxH]", type=blocks, help="threads of a block (default: 8x8,16x16,32x8,32x16)"
    )
    parser.add_argument(
        "--iterations",
        metavar="N",
        type=int,
        help=f"rounds in which all take turns, at least {QUICK_ROUNDS} (default: {ROUNDS}; --quick: {QUICK_ROUNDS})",
    )
    parser.set_defaults(run=run)


# Bounds of the options: a rung has 800 taps of a kernel in constant memory.


def names(text: str) -> list[str]:
    from torch_conv.bench.ladder.tables import TABLES

    found = text.split(",")
    if unknown := [name for name in found if name not in TABLES]:
        near = did_you_mean(unknown[0], TABLES)
        raise argparse.ArgumentTypeError(f"must be of {', '.join(TABLES)}, got {unknown[0]}{near}")
    return found


def sides(text: str) -> tuple[int, ...]:
    return each(text, "must be 8 to 16384", lambda side: 8 <= side <= 16384)


def windows(text: str) -> tuple[int, ...]:
    return each(text, "must be odd, 1 to 27", lambda side: side % 2 == 1 and 1 <= side <= 27)


def blocks(text: str) -> tuple[tuple[int, int], ...]:
    found = []
    for pair in text.split(","):
        threads = tuple(whole_number(part) for part in pair.lower().split("x"))
        if len(threads) != 2 or min(threads) < 1 or math.prod(threads) > 1024:
            raise argparse.ArgumentTypeError(f"must be WIDTHxHEIGHT with at most 1024 threads, got {pair}")
        found.append(threads)
    return tuple(found)


def each(text: str, rule: str, holds: Callable[[int], bool]) -> tuple[int, ...]:
    numbers = tuple(whole_number(part) for part in text.split(","))
    if wrong := [number for number in numbers if not holds(number)]:
        raise argparse.ArgumentTypeError(f"{rule}, got {wrong[0]}")
    return numbers


def run(args: argparse.Namespace) -> None:
    from torch_conv.bench.ladder.study import Bench, Sweep
    from torch_conv.bench.ladder.tables import studies
    from torch_conv.cli.report.textbook import figures

    wait_for_compiler()
    rounds = args.iterations or (QUICK_ROUNDS if args.quick else ROUNDS)
    if rounds < QUICK_ROUNDS:
        raise UsageError(f"--iterations must be at least {QUICK_ROUNDS}, got {rounds}")
    given = {"sizes": args.image_size, "windows": args.kernel_size, "blocks": args.block}
    sweep = Sweep(quick=args.quick, **{name: value for name, value in given.items() if value})
    device = device_named(args.device)
    check_file(args.json, args.force)
    check_folder(args.figures)
    if args.figures:
        needed("matplotlib.figure", "matplotlib")
    bench = Bench(device, rounds)
    wanted = [study for study in studies(bench.cuda, sweep) if not args.table or study.name in args.table]
    rows = measure("ladder", bench, wanted)
    meta = metadata(device, bench.rounds)
    absent = "No GPU is measured: the tables hold the CPU columns only, and the rungs are absent."
    show(meta, bench, wanted, rows, absent)
    if args.json:
        write_json(args.json, document("ladder", meta, wanted, rows, bench.cuda), args.force)
    if args.figures:
        make_folder(args.figures)
        title = f"Textbook kernels in float32, {meta['gpu'] or 'CPU'}"
        for name, figure in figures(rows, bench.cuda, title):
            write_file(args.figures / f"ladder_{name}.png", figure.png(dpi=150))
    exit_if_wrong(bench, args.prog)
