"""Depthwise 1-D convolutions against F.conv1d on this machine; benchmarks/README.md states the rules.

torch-conv bench depthwise1d [--device cuda] [--rows '*NLC'] [--rounds 7] [--json FILE] [--list]
"""

from __future__ import annotations

import torch

from torch_conv.bench.common import Row
from torch_conv.bench.depthwise_rows import LAYOUTS, depthwise_row
from torch_conv.bench.families import Family

BUDGET_S = 60.0


def rows(device: str) -> list[Row]:
    if device == "cpu":
        cases = [((8, 768, 1024), torch.float32, 3), ((8, 768, 1024), torch.float32, 31)]
    else:
        cases = [
            ((3072, 128, 202), torch.float32, 3),
            ((64, 768, 1024), torch.float16, 31),
            ((64, 768, 1024), torch.float16, 7),
            ((16, 2048, 4096), torch.bfloat16, 3),
            ((64, 512, 999), torch.float16, 15),
        ]
    return [depthwise_row(device, *case[:2], layout, case[2]) for case in cases for layout in LAYOUTS[1]]


def quick(device: str) -> list[Row]:
    return [depthwise_row(device, (1, 256, 1024), torch.float32, layout, k) for k in (3, 15) for layout in LAYOUTS[1]]


FAMILY = Family("depthwise1d", rows, quick, budget_s=BUDGET_S)
