"""The chapter's 1-D convolution: the rungs over signals, beside filter1d and F.conv1d."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F

import torch_conv
from torch_conv import kernels
from torch_conv.cli.ladder_bench import TOLERANCE, Bench, Row, Study, Sweep, Tensor, copies, copy_percent, error
from torch_conv.cli.ladder_columns import COLUMNS

RUNGS = ("naive", "constant", "tiled", "l2_halo")
WINDOWS = (5, 31)  # taps: the chapter's five, and a window whose halo counts
BLOCK = (256,)


def ladder(signal: Tensor, kernel: Tensor, variant: str = "naive") -> Tensor:
    return torch.ops.torch_conv.ladder1d(signal, kernel, variant, BLOCK)


def measure_signal(bench: Bench, case: tuple[int, int]) -> Row:
    side, k = case
    signal, kernel = bench.image(side).reshape(1, 1, -1), kernels.gaussian1d(k)
    weight = kernel[None, None].to(signal)
    gold, cpu_ms = bench.gold(partial(ladder, signal.cpu(), kernel))
    ours: dict[str, Callable[[], Tensor]] = {"production": lambda: torch_conv.filter1d(signal, kernel, "constant")}
    if bench.cuda:
        ours |= {rung: partial(ladder, signal, kernel, rung) for rung in RUNGS}
    errors = {name: error(call(), gold) for name, call in ours.items()}
    worst = bench.check(f"signal of {signal.numel()}, {k} taps", errors, TOLERANCE)
    conv1d = partial(F.conv1d, signal, weight, padding=k // 2)
    row = bench.time({**copies(signal), **ours, "conv1d": conv1d})
    row |= {"numbers": signal.numel(), "k": k, "cpu_ms": cpu_ms, "error": worst, "copy_percent": copy_percent(row)}
    if bench.cuda:
        row["naive_over_cpu"] = cpu_ms / row["naive_ms"]
        row["tiled_over_naive"] = row["naive_ms"] / row["tiled_ms"]
    return row


def signal(sweep: Sweep, cuda: bool) -> Study:
    """As many numbers in one row as the images of the other tables have pixels."""
    return Study(
        "signal",
        f"1-D: Gaussian of K taps, zero ghost cells, block {BLOCK[0]}, float32, times in ms",
        COLUMNS["signal"],
        [(side, k) for side in sweep.of(1024, 4096) for k in WINDOWS],
        measure_signal,
        "One signal again and again. The CPU loop has one thread and sums in float64.",
    )
