"""Depthwise 2-D convolutions against F.conv2d on this machine; benchmarks/README.md states the rules.

torch-conv bench depthwise [--device cuda] [--rows '*NHWC'] [--rounds 7] [--json FILE] [--list]
"""

from __future__ import annotations

import torch

from torch_conv.bench.common import Row
from torch_conv.bench.depthwise_rows import LAYOUTS, depthwise_row
from torch_conv.bench.families import Family

BUDGET_S = 110.0

# Layers of ConvNeXt (7x7), MobileNet and EfficientNet (3x3 and 5x5, steps of 2), and RepLKNet (13x13 and 31x31).
HALF = [
    ((64, 96, 56, 56), 3, 1),
    ((64, 96, 56, 56), 5, 1),
    ((64, 96, 56, 56), 7, 1),
    ((64, 384, 28, 28), 7, 1),
    ((64, 768, 14, 14), 7, 1),
    ((64, 672, 14, 14), 5, 1),
    ((64, 1152, 7, 7), 3, 1),
    ((64, 96, 112, 112), 3, 2),
    ((64, 144, 56, 56), 5, 2),
    ((64, 384, 32, 32), 13, 1),
    ((64, 384, 32, 32), 31, 1),
]
FULL = [((64, 96, 56, 56), 3, 1), ((64, 96, 56, 56), 5, 1), ((64, 96, 56, 56), 7, 1), ((64, 96, 112, 112), 3, 2)]
ONE = [((1, 96, 56, 56), 7, 1), ((1, 768, 14, 14), 7, 1), ((1, 384, 32, 32), 31, 1)]  # a batch of one, in L2
CPU = [
    ((8, 96, 56, 56), 3, 1),
    ((8, 96, 56, 56), 5, 1),
    ((8, 96, 56, 56), 7, 1),
    ((8, 384, 14, 14), 7, 1),
    ((1, 96, 112, 112), 3, 2),
    ((1, 672, 14, 14), 5, 1),
]


def rows(device: str) -> list[Row]:
    def made(cases: list, dtype: torch.dtype, layouts: list[str] = LAYOUTS[2], **options: bool) -> list[Row]:
        return [
            depthwise_row(device, shape, dtype, layout, k, stride, **options)
            for shape, k, stride in cases
            for layout in layouts
        ]

    if device == "cpu":
        return made(CPU, torch.float32) + made(CPU, torch.bfloat16)
    return [
        *made(HALF, torch.float16),
        *made([((128, 192, 28, 28), 7, 1)], torch.bfloat16),
        *made(FULL, torch.float32),
        *made([((64, 384, 32, 32), 31, 1), ((16, 3, 1080, 1920), 5, 1)], torch.float32, ["NCHW"]),
        *made(ONE, torch.float16, resident=True),
    ]


def quick(device: str) -> list[Row]:
    cases = [((1, 96, 56, 56), 3, 1), ((1, 96, 56, 56), 7, 1), ((1, 96, 112, 112), 3, 2)]
    return [
        depthwise_row(device, shape, torch.float32, layout, k, stride)
        for shape, k, stride in cases
        for layout in LAYOUTS[2]
    ]


FAMILY = Family("depthwise", rows, quick, budget_s=BUDGET_S)
