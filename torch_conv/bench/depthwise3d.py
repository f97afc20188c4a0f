"""Depthwise 3-D convolutions against F.conv3d on this machine; benchmarks/README.md states the rules.

torch-conv bench depthwise3d [--device cuda] [--rows '*NDHWC'] [--rounds 7] [--json FILE] [--list]
"""

from __future__ import annotations

import torch

from torch_conv.bench.common import Row
from torch_conv.bench.depthwise_rows import LAYOUTS, depthwise_row
from torch_conv.bench.families import Family

BUDGET_S = 75.0  # the whole run stays below 90 s on an H200


# Layers of video networks: an early stage, a cube, a middle and a late stage.
VIDEO = [(8, 64, 32, 56, 56), (2, 32, 64, 64, 64), (8, 256, 16, 28, 28), (8, 512, 8, 14, 14)]


def rows(device: str) -> list[Row]:
    if device == "cpu":
        return [depthwise_row("cpu", (1, 32, 16, 56, 56), torch.float32, layout) for layout in LAYOUTS[3]]
    return [
        depthwise_row("cuda", shape, dtype, layout, compile=dtype == torch.float16 and shape in VIDEO[:2])
        for dtype in (torch.float16, torch.float32)
        for shape in VIDEO
        for layout in LAYOUTS[3]
    ]


def quick(device: str) -> list[Row]:
    return [depthwise_row(device, (1, 16, 8, 28, 28), torch.float32, layout) for layout in LAYOUTS[3]]


FAMILY = Family("depthwise3d", rows, quick, budget_s=BUDGET_S)
