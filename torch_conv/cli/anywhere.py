"""`torch-conv bench anywhere`: random realistic calls of every function, measured on this machine."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import torch

from torch_conv.bench.files import check_file, write_json
from torch_conv.bench.results import metadata
from torch_conv.bench.usage import UsageError
from torch_conv.cli import add_force
from torch_conv.cli._images import device_named
from torch_conv_cli import did_you_mean

SUMMARY = "random realistic calls of every function and dtype, beside the least time that they can take"
ROUNDS, LEAST_ROUNDS = 5, 3
# The largest call: its bytes as a part of the device's memory, and its multiply-adds.
SHARE_OF_MEMORY = {"cuda": 1 / 64, "cpu": 1 / 512}
MULTIPLY_ADDS = {"cuda": 2e11, "cpu": 1e9}


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "anywhere",
        help=SUMMARY,
        description="Draw random realistic calls from a seed: every function, dtype and border, over photos, video, "
        "microscopy, satellite tiles, CT and MRI, signals and layers of networks. Each is checked against float64, and "
        "timed beside its floor and the rivals that can do it. The summary names the losses first. Exit status 1 if a "
        "result is wrong or a call fails.",
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="other seeds give other calls (default: 0)")
    parser.add_argument(
        "--calls", metavar="N", type=int, default=0, help="only so many calls (default: 8 of each function and dtype)"
    )
    parser.add_argument("--family", metavar="NAME[,NAME]", help="only these functions")
    parser.add_argument("--backward", action="store_true", help="gradients in the image, of a given gradient")
    parser.add_argument("--device", metavar="D", help="cpu, cuda or cuda:N (default: the GPU, where there is one)")
    parser.add_argument("--rounds", metavar="N", type=int, default=ROUNDS, help="interleaved rounds (default: 5)")
    parser.add_argument("--minutes", metavar="M", type=float, default=0.0, help="stop after so many minutes")
    parser.add_argument("--no-rivals", action="store_true", help="time this library and the copies only")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the results here, after every few calls")
    add_force(parser)
    parser.add_argument("--list", action="store_true", help="print the calls and stop")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    from torch_conv.bench.anywhere import draws, floors, measure, report, running

    for name, value, least in (("calls", args.calls, 0), ("rounds", args.rounds, LEAST_ROUNDS)):
        if value < least:
            raise UsageError(f"--{name} must be at least {least}, got {value}")
    if not args.minutes >= 0:
        raise UsageError(f"--minutes must not be negative, got {args.minutes:g}")
    families = names(args.family, draws.cells(args.backward))
    device = device_named(args.device)
    check_file(args.json, args.force)
    loading = measure.loading_seconds(device)
    limits = limits_of(device.type)
    calls = draws.draw(args.seed, limits, backward=args.backward, families=families, calls=args.calls)
    if args.list:
        print("\n".join(call.name for call in calls))
        return
    torch.manual_seed(0)
    facts: dict[str, Any] = metadata(args.rounds)
    rates = floors.measure_rates(device.type)
    facts |= {"seed": args.seed, "limits": vars(limits), "rates": rates.metadata()}

    def save(outcome: running.Outcome) -> None:
        if args.json:
            write_json(args.json, {"benchmark": "anywhere", "metadata": facts, **outcome.document()})

    options = measure.Options(device.type, args.rounds, rates, not args.no_rivals)
    print(report.opening(len(calls), args.seed, rates.metadata()), flush=True)
    outcome = running.run(calls, options, 60 * args.minutes or float("inf"), loading, save)
    cells = [cell for cell in draws.cells(args.backward) if not families or cell[0] in families]
    print("\n".join(report.summary(outcome, cells)))
    if not outcome.right:
        raise SystemExit(1)


def names(text: str | None, cells: list[tuple[str, Any]]) -> list[str]:
    """The functions of --family."""
    known = list(dict.fromkeys(name for name, _ in cells))
    given = text.split(",") if text is not None else []
    if unknown := [name for name in given if name not in known]:
        raise UsageError(f"unknown family '{unknown[0]}'{did_you_mean(unknown[0], known) or ': ' + ', '.join(known)}")
    return given


def limits_of(device: str) -> Any:
    from torch_conv.bench.anywhere.draws import Limits

    if device == "cuda":
        memory = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    else:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Limits(memory * SHARE_OF_MEMORY[device], MULTIPLY_ADDS[device])
