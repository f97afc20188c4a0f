"""`torch-conv bench volume`: the 3-D study's program, with its options, beside the library's kernels and F.conv3d."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_conv
from torch_conv.bench.files import check_file, write_json
from torch_conv.bench.ladder.columns import COLUMNS
from torch_conv.bench.ladder.running import document, exit_if_wrong, measure, show
from torch_conv.bench.ladder.study import TOLERANCE, Bench, Row, Study, error
from torch_conv.bench.load import median_and_range
from torch_conv.bench.machine import metadata
from torch_conv.bench.timing import time_call, wait_for_compiler
from torch_conv.bench.usage import UsageError
from torch_conv.cli import add_force
from torch_conv.cli._images import device_named

SUMMARY = "a 3-D filter: the textbook kernels beside the library's own and F.conv3d"
# (name, default, least value, help), in the study's order
OPTIONS = (
    ("width", 128, 1, "voxels of the volume along x"),
    ("height", 128, 1, "voxels of the volume along y"),
    ("depth", 8, 1, "voxels of the volume along z"),
    ("kernel-radius-x", 7, 0, "the window has 2 N + 1 taps along x"),
    ("kernel-radius-y", 7, 0, "... along y"),
    ("kernel-radius-z", 7, 0, "... along z"),
    ("iterations", 20, 1, "timed iterations of every row; of the CPU loop at most 3"),
    ("warmup-iterations", 5, 0, "iterations before them that are not timed"),
    ("block-dim-x", 8, 1, "threads of a block along x"),
    ("block-dim-y", 8, 1, "threads of a block along y"),
    ("block-dim-z", 8, 1, "threads of a block along z"),
)
MOST_TAPS, MOST_THREADS, MOST_THREADS_Z = 8000, 1024, 64  # of the textbook kernels
GOLD_ITERATIONS = 3  # it is thousands of times slower than the kernels

NOTE = """\
max error: against the gold, which sums in float64; up to 1e-5 is allowed, and rows are checked before they are timed.
An iteration is a sample: a call of less than 2 ms is repeated until it fills 2 ms, and counts as the mean.
Published by the study, not measured here (128x128x8, a window it calls 7x7x7, RTX 500 Ada / Core Ultra 7): CPU \
5616 ms, naive 2.677 ms, constant + shared tile 1.049 ms, separable 0.568 ms."""
NO_GPU = "No GPU is measured: the rungs, from naive to separable, need a GPU and are absent."


@dataclass(frozen=True)
class Contender:
    """One row: its call and its device."""

    name: str
    call: Callable[[], Tensor]
    device: torch.device
    checked: bool = True  # ours: an error above the tolerance fails the command


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "volume",
        help=SUMMARY,
        description="Filter a volume of noise with a random separable window of sum 1: a float64 CPU loop, the "
        "textbook CUDA kernels (naive, constant, constant + shared tile, L2 halo, separable), the library's own and "
        "F.conv3d. Every result is checked against the CPU loop before it is timed; exit status 1 if one is wrong.",
    )
    for name, default, _, meaning in OPTIONS:
        parser.add_argument(
            f"--{name}", metavar="N", type=int, default=default, help=f"{meaning} (default: %(default)s)"
        )
    parser.add_argument("--device", metavar="D", help="cpu, cuda or cuda:N (default: the GPU, where there is one)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the table and the machine's data here")
    add_force(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    wait_for_compiler()
    check_options(args)
    check_file(args.json, args.force)
    bench = Bench(device_named(args.device), args.iterations)
    size = (args.width, args.height, args.depth)
    block = (args.block_dim_x, args.block_dim_y, args.block_dim_z)
    study = Study(
        "volume",
        f"3-D study: volume {times(size)}, window {times(window_extents(args))}, block {times(block)}, float32, "
        "times in ms",
        COLUMNS["volume"],
        contenders(args, bench.device),
        partial(Gold().measure, warmup=args.warmup_iterations),
        NOTE,
    )
    rows = measure("volume", bench, [study])
    meta = metadata(bench.device, bench.rounds)
    meta["options"] = {name: getattr(args, name.replace("-", "_")) for name, *_ in OPTIONS}
    show(meta, bench, [study], rows, NO_GPU)
    if args.json:
        write_json(args.json, document("volume", meta, [study], rows, bench.cuda), args.force)
    exit_if_wrong(bench, args.prog)


def check_options(args: argparse.Namespace) -> None:
    """Refuses impossible sizes, and sizes that the textbook kernels cannot serve."""
    for name, _, least, _ in OPTIONS:
        value = getattr(args, name.replace("-", "_"))
        if value < least:
            raise UsageError(f"--{name} must be at least {least}, got {value}")
    window, block = window_extents(args), (args.block_dim_x, args.block_dim_y, args.block_dim_z)
    if math.prod(window) > MOST_TAPS:
        raise UsageError(
            f"the window must have at most {MOST_TAPS} taps to fit into constant memory (torch_conv.filter3d has no "
            f"such limit), got {times(window)} = {math.prod(window)}"
        )
    if math.prod(block) > MOST_THREADS:
        raise UsageError(f"the block must have at most {MOST_THREADS} threads, got {times(block)} = {math.prod(block)}")
    if block[2] > MOST_THREADS_Z:
        raise UsageError(f"--block-dim-z must be at most {MOST_THREADS_Z}, got {block[2]}")


def window_extents(args: argparse.Namespace) -> tuple[int, int, int]:
    """Along x, y and z, as the options are ordered."""
    return tuple(2 * getattr(args, f"kernel_radius_{axis}") + 1 for axis in "xyz")


def times(extents: tuple[int, int, int]) -> str:
    return "x".join(map(str, extents))


def contenders(args: argparse.Namespace, device: torch.device) -> list[Contender]:
    generator = torch.Generator().manual_seed(42)
    host = torch.rand(1, 1, args.depth, args.height, args.width, generator=generator)
    # Random taps, because a symmetric kernel would hide a flipped or exchanged axis.
    x, y, z = (0.5 + torch.rand(k, generator=generator, dtype=torch.float64) for k in window_extents(args))
    x, y, z = x / x.sum(), y / y.sum(), z / z.sum()
    kernel = (z[:, None, None] * y[:, None] * x).float()

    volume, window = host.to(device), kernel.to(device)
    taps_x, taps_y, taps_z = (t.float().to(device) for t in (x, y, z))
    block = (args.block_dim_x, args.block_dim_y, args.block_dim_z)
    radius = (args.kernel_radius_z, args.kernel_radius_y, args.kernel_radius_x)
    ladder3d = torch.ops.torch_conv.ladder3d

    rows = [Contender("gold CPU", partial(ladder3d, host, kernel), torch.device("cpu"))]
    if device.type == "cuda":
        for name, variant in (
            ("naive", "naive"),
            ("constant", "constant"),
            ("constant + shared tile", "tiled"),
            ("L2 halo", "l2_halo"),
            ("separable, 3 x 1-D", "separable"),
        ):
            rows.append(Contender(name, partial(ladder3d, volume, kernel, variant, block), device))
    direct = partial(torch_conv.filter3d, volume, window, "constant", algorithm="direct")
    rows.append(Contender("torch_conv.filter3d, direct", direct, device))
    separable = partial(torch_conv.filter3d_separable, volume, taps_x, taps_y, taps_z, "constant")
    rows.append(Contender("torch_conv.filter3d_separable", separable, device))
    conv3d = partial(F.conv3d, volume, window[None, None], padding=radius)
    rows.append(Contender("F.conv3d", conv3d, device, checked=False))
    return rows


@dataclass
class Gold:
    """The first row's result, which the others are checked against."""

    result: Tensor | None = None

    def measure(self, bench: Bench, contender: Contender, warmup: int) -> Row:
        """Checks one row, then times it. A wrong row has no times."""
        row: Row = {"row": contender.name}
        try:
            result = contender.call()
        except RuntimeError as refusal:
            sentence = str(refusal).splitlines()[0]
            if sentence.startswith("ladder3d: "):  # tile and halo beyond this device's shared memory
                raise UsageError(sentence) from refusal
            raise
        iterations = bench.rounds
        if self.result is None:
            self.result = result
            iterations, warmup = min(iterations, GOLD_ITERATIONS), 0
        else:
            row["error"] = error(result, self.result)
            if contender.checked:
                bench.check("volume", {contender.name: row["error"]}, TOLERANCE)
                if not row["error"] <= TOLERANCE:
                    return row
        seconds = time_call(contender.call, contender.device, repeats=iterations, warmup=warmup)
        return row | {
            "iterations": iterations,
            "average_ms": 1e3 * fmean(seconds),
            "median_ms": 1e3 * median(seconds),
            "minimum_ms": 1e3 * min(seconds),
            "iqr_ms": {"median": 1e3 * median_and_range(seconds)[1]},
        }
