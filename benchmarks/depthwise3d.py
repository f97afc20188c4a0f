"""Depthwise 3-D convolutions against F.conv3d on this machine; README.md states the rules.

python benchmarks/depthwise3d.py [--device cuda] [--rows '*NDHWC'] [--rounds 7] [--json FILE] [--list]
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import torch.nn.functional as F
from checks import correlate
from command import main
from common import SHORT, TOLERANCE, Candidate, Row
from rivals import compiled, conv_candidates, cudnn, shifted_sum
from torch import Tensor

import torch_conv

BUDGET_S = 75.0  # the whole run stays below 90 s on an H200
LAYOUTS = {"NCDHW": torch.contiguous_format, "NDHWC": torch.channels_last_3d}


def depthwise_row(
    device: str, shape: tuple[int, ...], dtype: torch.dtype, layout: str, k: int = 3, compile: bool = False
) -> Row:
    """conv3d with groups == C and zeros outside; the rivals in this layout and in the other one."""
    channels = shape[1]
    taps = torch.randn(channels, k, k, k, generator=torch.Generator().manual_seed(k))
    taps /= taps.abs().sum((-3, -2, -1), keepdim=True)
    taps = taps.to(dtype).float()  # the weights are rounded once, for ours, the rivals and the reference
    weight = taps[:, None].to(device, dtype)
    memory_format = LAYOUTS[layout]
    last = taps[-1]

    def conv(x: Tensor, weight: Tensor) -> Tensor:
        return F.conv3d(x, weight, padding=k // 2, groups=channels)

    def rivals() -> list[Candidate]:
        def same(x: Tensor) -> Tensor:
            return x

        out = conv_candidates("F.conv3d", device, dtype, partial(conv, weight=weight_in(memory_format)), same)
        other = next(name for name in LAYOUTS if name != layout)
        swapped = partial(torch.Tensor.contiguous, memory_format=LAYOUTS[other])
        call = partial(conv, weight=weight_in(LAYOUTS[other]))
        out.append(Candidate(f"F.conv3d on {other}", call, prepare=swapped, context=cudnn(False)))
        if compile:
            each = weight[:, 0].float().permute(1, 2, 3, 0)[..., None, None, None]  # [z][y][x]: (C, 1, 1, 1)
            window = [[[each[z, y, x] for x in range(k)] for y in range(k)] for z in range(k)]
            out.append(compiled(lambda x: shifted_sum(x, window, spatial=3)))
        return out

    def weight_in(memory_format: torch.memory_format) -> Tensor:
        return weight.contiguous(memory_format=memory_format)

    return Row(
        name=f"conv3d {k}x{k}x{k} {SHORT[dtype]} {'x'.join(map(str, shape))} {layout}",
        device=device,
        shape=shape,
        dtype=dtype,
        ours=lambda x: torch_conv.conv3d(x, weight, padding=k // 2, groups=channels),
        rivals=rivals,
        reference=lambda piece: correlate(piece, last),
        border="constant",
        halo=k // 2,
        taps=k**3,
        tolerance=TOLERANCE[dtype],
        spatial=3,
        memory_format=memory_format,
    )


# Of video networks: an early stage, a cube, a middle and a late stage.
VIDEO = [(8, 64, 32, 56, 56), (2, 32, 64, 64, 64), (8, 256, 16, 28, 28), (8, 512, 8, 14, 14)]


def rows(device: str) -> list[Row]:
    if device == "cpu":
        return [depthwise_row("cpu", (1, 32, 16, 56, 56), torch.float32, layout) for layout in LAYOUTS]
    return [
        depthwise_row("cuda", shape, dtype, layout, compile=dtype == torch.float16 and shape in VIDEO[:2])
        for dtype in (torch.float16, torch.float32)
        for shape in VIDEO
        for layout in LAYOUTS
    ]


if __name__ == "__main__":
    sys.exit(main("depthwise3d", __doc__, rows, BUDGET_S))
