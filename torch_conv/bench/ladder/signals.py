"""The chapter's 1-D convolution: the rungs over signals, beside filter1d and F.conv1d."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F

import torch_conv
from torch_conv import kernels
from torch_conv.bench.ladder.columns import COLUMNS
from torch_conv.bench.ladder.study import Bench, Row, Study, Sweep, Tensor

WINDOWS = (5, 31)  # taps: the chapter's five, and a kernel with a large halo
BLOCK = (256,)


def ladder(signal: Tensor, kernel: Tensor, variant: str = "naive") -> Tensor:
    return torch.ops.torch_conv.ladder1d(signal, kernel, variant, BLOCK)


def measure_signal(bench: Bench, case: tuple[int, int]) -> Row:
    side, k = case
    signal, kernel = bench.image(side).reshape(1, 1, -1), kernels.gaussian1d(k)
    samples = signal.numel()
    ours = {"production": lambda: torch_conv.filter1d(signal, kernel, "constant")}
    rival = {"conv1d": partial(F.conv1d, signal, kernel[None, None].to(signal), padding=k // 2)}
    row = bench.rungs(f"signal of {samples}, {k} taps", signal, partial(ladder, kernel=kernel), ours, rival)
    return row | {"numbers": samples, "k": k}


def signal(sweep: Sweep, cuda: bool) -> Study:
    """The table of one row with as many numbers as the other tables' images."""
    return Study(
        "signal",
        f"1-D: Gaussian of K taps, zero ghost cells, block {BLOCK[0]}, float32, times in ms",
        COLUMNS["signal"],
        [(side, k) for side in sweep.of(1024, 4096) for k in WINDOWS],
        measure_signal,
        "One signal again and again. The CPU loop has one thread and sums in float64.",
    )
