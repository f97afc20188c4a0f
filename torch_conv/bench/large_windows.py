"""The time of filter2d over the size of its window, 3 to 255, by algorithm; benchmarks/README.md states the rules.

torch-conv bench large_windows [--device cuda] [--rows 'dense'] [--rounds 7] [--json FILE] [--list]

'dense' kernels are random, 'rank2' kernels are sums of two outer products. `report.py --figure` draws the times.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_conv
from torch_conv.bench.checks import correlate
from torch_conv.bench.common import Candidate, Row, square
from torch_conv.bench.families import Family
from torch_conv.bench.filter2d_formats import conv2d_candidates, in_opencv, row_name
from torch_conv.bench.rivals import by_fft, cupyx_candidate, cupyx_correlate, opencv_candidate

ALGORITHMS = ("direct", "low_rank", "fft")  # an algorithm that refuses a kernel is left out, with its reason
DENSE = (3, 7, 15, 23, 31, 45, 63, 95, 127, 191, 255)
RANK2 = (7, 15, 31, 63, 127, 255)
SIDE = {"cuda": 4096, "cpu": 1024}
# Beyond it transforms are far faster. At 255x255 on one NVIDIA H200 direct sums take 317 ms, F.conv2d 452, cupyx 750.
# On the CPU F.conv2d takes 12 s at 63x63.
TAP_BY_TAP_BELOW = {"cuda": 64, "cpu": 63}


def window_row(device: str, k: int, rank: int = 0, side: int = 0) -> Row:
    """filter2d with a k x k kernel, zeros outside: random for rank 0, else of this rank."""
    generator = torch.Generator().manual_seed(k)
    columns, rows_ = (torch.randn(max(rank, 1), k, generator=generator) for _ in range(2))
    taps = columns.T @ rows_ if rank else torch.randn(k, k, generator=generator)
    total = taps.abs().sum()
    taps /= total
    shape = square(side or SIDE[device])
    weight = taps.to(device)

    few = k < TAP_BY_TAP_BELOW[device]

    def conv(x: Tensor) -> Tensor:
        return F.conv2d(x, weight[None, None], padding=k // 2)

    def axis_by_axis(x: Tensor, columns: Tensor, rows_: Tensor) -> Tensor:
        """Two passes with the kernel's factors as channels of one image."""
        down = F.conv2d(x, columns[:, None, :, None], padding=(k // 2, 0))
        return F.conv2d(down, rows_[None, :, None, :], padding=(0, k // 2))

    def rivals() -> list[Candidate]:
        found = [
            Candidate(f"torch_conv {name}", partial(ours, algorithm=name), own=True, planned=True)
            for name in ALGORITHMS
            if name != "direct" or device == "cpu" or few
        ]
        if few:
            found += conv2d_candidates(device, torch.float32, conv)
        if rank:
            factors = partial(axis_by_axis, columns=(columns / total).to(device), rows_=rows_.to(device))
            found += [
                Candidate(f"{c.name} by rows and columns", c.call, c.prepare, context=c.context)
                for c in conv2d_candidates(device, torch.float32, factors)[:1]
            ]
        found.append(Candidate("torch.fft", by_fft(weight, shape[-2:])))
        found.append(Candidate("torch.fft, the window's too", lambda x: by_fft(weight, shape[-2:])(x)))
        if device == "cpu":
            return found + opencv_candidate(partial(in_opencv, taps, 1, torch.float32))

        def signal_way(cupy: Any, ndimage: Any) -> Callable[[Any], Any]:
            from cupyx.scipy import signal

            return partial(signal.oaconvolve, in2=cupy.from_dlpack(weight.flip(0, 1)), mode="same")

        found += cupyx_correlate(weight) if few else []
        return [*found, *cupyx_candidate(signal_way, 2, "cupyx oaconvolve")]

    def ours(x: Tensor, algorithm: Any = "auto") -> Tensor:
        return torch_conv.filter2d(x, taps, "constant", algorithm=algorithm)

    kind = f"rank{rank}" if rank else "dense"
    return Row(
        name=row_name(kind, (k, k), torch.float32, shape),
        device=device,
        shape=shape,
        dtype=torch.float32,
        ours=ours,
        rivals=rivals,
        reference=partial(correlate, window=taps),
        border="constant",
        halo=k // 2,
        taps=2 * k * rank or k * k,
        series=kind,
    )


def rows(device: str) -> list[Row]:
    return [*(window_row(device, k) for k in DENSE), *(window_row(device, k, rank=2) for k in RANK2)]


def quick(device: str) -> list[Row]:
    return [*(window_row(device, k, side=512) for k in (7, 31)), *(window_row(device, k, 2, 512) for k in (15, 63))]


FAMILIES = (Family("large_windows", rows, quick),)
