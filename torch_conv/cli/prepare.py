"""`torch-conv prepare --filter NAME`: the kernels of a filter, compiled before a program first calls it."""

from __future__ import annotations

import argparse

import torch

import torch_conv
from torch_conv.bench.usage import UsageError
from torch_conv.cli import of_memory, user_arguments
from torch_conv.cli._filters import FILTERS, add_options, filter_of
from torch_conv.cli._images import device_named
from torch_conv_cli import LARGEST

DTYPES = ("float32", "float16", "bfloat16", "float64", "uint8", "int16", "uint16")


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "prepare",
        description="Compile and load the kernels that a filter of such images needs on a GPU, and print where each "
        "came from. Those that were not built ahead stay in the cache on disk, where later programs find them.",
        epilog=FILTERS,
    )
    add_options(parser)
    parser.add_argument("--dtype", metavar="T", choices=DTYPES, default="float32", help=" | ".join(DTYPES))
    parser.add_argument(
        "--shape", metavar="SHAPE", default="1080x1920", help="HxW, CxHxW or BxCxHxW (default: %(default)s)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    function, shape, device = filter_of(args), shape_given(args.shape), device_named(args.device)
    try:
        image = torch.empty(shape, dtype=getattr(torch, args.dtype), device=device)
        with user_arguments():
            torch_conv.prepare(function, image)
    except RuntimeError as error:  # from a compiler or a driver
        if of_memory(error):
            raise
        raise UsageError(str(error).splitlines()[0]) from error
    if device.type == "cpu":
        print("nothing is to be made ready on the CPU")
        return
    for line in torch.ops.torch_conv._store_report():
        if line.startswith(("cache: ", "loaded: ")):
            print(line)


def shape_given(text: str) -> list[int]:
    sizes = text.split("x")
    if not (2 <= len(sizes) <= 4 and all(size.isdecimal() and 0 < int(size) <= LARGEST for size in sizes)):
        raise UsageError(f"--shape must be HxW, CxHxW or BxCxHxW, got {text}")
    return [int(size) for size in sizes]
