"""`torch-conv bench scaling`: one image on one device and in shards on all, measured on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import torch_conv
from torch_conv import kernels
from torch_conv.bench.files import check_file, write_json
from torch_conv.bench.ladder.columns import Column
from torch_conv.bench.ladder.running import document, exit_if_wrong, measure, show
from torch_conv.bench.ladder.study import Bench, Row, Study
from torch_conv.bench.load import median_and_range
from torch_conv.bench.machine import metadata
from torch_conv.bench.timing import enqueue_seconds, in_rounds, queue_sampler, wait_for_compiler
from torch_conv.bench.usage import UsageError
from torch_conv.cli import add_force
from torch_conv.cli._images import device_named

SUMMARY = "one image on one device and in shards on all"
SIZES, CPU_SIZES = (4096, 8192, 16384), (1024, 2048)
CPU_SHARDS = 2
ROUNDS = 5
FILTERS: dict[str, Callable[[Any], Any]] = {
    "filter2d 3x3": lambda x: torch_conv.filter2d(x, kernels.sharpen()),
    "gaussian_blur2d 31x31": lambda x: torch_conv.gaussian_blur2d(x, 31, kernels.default_sigma(31)),
}
COLUMNS = (
    Column("filter", "", "s"),
    Column("size", "size", "d"),
    Column("one_ms", "one device ms"),
    Column("split_ms", "in shards ms"),
    Column("efficiency", "efficiency %", ".1f", cuda=True),
    Column("one_us", "host us", ".1f", cuda=True),
    Column("split_us", "host us, shards", ".1f", cuda=True),
    Column("mpixels", "Mpixel/s", ".0f"),
    Column("same", "same bits", "s"),
)
NOTE = """\
Times of one call in a queue of calls of 20 ms or more, by the clock, all devices idle before and after. Efficiency: \
one device's time over that of the shards and the number of devices. Host: what one call takes of the caller's time."""
NO_GPU = (
    "No GPU is measured: the shards lie on the CPU, which filters one after the other with all its threads, so the "
    "times show what the cuts cost and not what more devices gain."
)


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "scaling",
        help=SUMMARY,
        description="Filter one float32 image on one device, and cut into shards of rows on all GPUs of this machine, "
        "or on the CPU where there is none. Exit status 1 if the shards give other bits than the whole.",
    )
    parser.add_argument(
        "--sizes",
        metavar="N",
        type=int,
        nargs="+",
        help=f"images of N x N pixels (default: {words(SIZES)}; on the CPU {words(CPU_SIZES)})",
    )
    parser.add_argument(
        "--devices",
        metavar="D",
        help="a number of GPUs, or of shards where there is no GPU, or names as cuda:0,cuda:1 or cpu,cpu,cpu "
        f"(default: all GPUs, or {CPU_SHARDS} shards on the CPU)",
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the table and the machine's data here")
    add_force(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    wait_for_compiler()
    check_file(args.json, args.force)
    devices = devices_given(args.devices)
    bench = Bench(devices[0], ROUNDS)
    sizes = args.sizes or (SIZES if bench.cuda else CPU_SIZES)
    for size in sizes:
        if size < 1:
            raise UsageError(f"--sizes must be at least 1, got {size}")
    study = Study(
        "scaling",
        f"Shards of rows on {words(devices)}, float32, border reflect",
        COLUMNS,
        [(name, size) for size in sizes for name in FILTERS],
        partial(measure_split, devices=devices),
        NOTE if bench.cuda else NOTE.partition(" Efficiency")[0],
    )
    rows = measure("scaling", bench, [study])
    meta = metadata(bench.device, bench.rounds)
    meta["shards"] = [str(d) for d in devices]
    show(meta, bench, [study], rows, NO_GPU)
    if args.json:
        write_json(args.json, document("scaling_quick", meta, [study], rows, bench.cuda), args.force)
    exit_if_wrong(bench, args.prog)


def devices_given(text: str | None) -> list[torch.device]:
    """The shards' devices by number or by names, all of one kind."""
    if text is None or text.isdecimal():
        best = device_named(None)
        there = torch.cuda.device_count() if best.type == "cuda" else CPU_SHARDS
        count = there if text is None else int(text)
        if count < 1 or (best.type == "cuda" and count > there):
            limit = f"1 to {there}" if best.type == "cuda" else "at least 1"
            raise UsageError(f"--devices must be {limit}, got {text}")
        return [torch.device("cuda", i) if best.type == "cuda" else best for i in range(count)]
    devices = [device_named(name.strip()) for name in text.split(",")]
    if len({d.type for d in devices}) > 1:
        raise UsageError(f"--devices must be all on the CPU or all CUDA devices, got {text}")
    return [torch.device("cuda", d.index or 0) if d.type == "cuda" else d for d in devices]


def measure_split(bench: Bench, case: tuple[str, int], devices: Sequence[torch.device]) -> Row:
    name, size = case
    function = FILTERS[name]
    images = [bench.image(size)]
    if bench.cuda:  # together four times as large as the L2 cache of a device, in its shards
        cache = torch.cuda.get_device_properties(bench.device).L2_cache_size
        images += [images[0].clone() for _ in range(4 * cache * len(devices) // (2 * images[0].nbytes))]
    splits = [torch_conv.split(x, devices) for x in images]
    expected: Tensor = function(images[0])
    same = torch.equal(function(splits[0]).gather(), expected)
    if not same:
        bench.wrong.append(f"{name} {size}x{size}: the shards give other bits than the whole image")
    calls = {"one": [partial(function, x) for x in images], "split": [partial(function, s) for s in splits]}
    samples = in_rounds({way: queue_sampler(each, devices) for way, each in calls.items()}, bench.rounds)
    row: Row = {"filter": name, "size": size, "same": "yes" if same else "NO", "iqr_ms": {}}
    for way, each in calls.items():
        row[f"{way}_ms"], row["iqr_ms"][way] = (1e3 * seconds for seconds in median_and_range(samples[way]))
        row[f"{way}_us"] = 1e6 * enqueue_seconds(each[0], devices)
    row["efficiency"] = 100 * row["one_ms"] / (row["split_ms"] * len(set(devices)))
    row["mpixels"] = size * size / (1e3 * row["split_ms"])
    return row


def words(names: Sequence[object]) -> str:
    return ", ".join(map(str, names))
