"""2-D filters against torch, torchvision, cupyx and OpenCV on this machine; benchmarks/README.md states the rules.

torch-conv bench filter2d [--device cuda] [--rows 'gaussian*'] [--rounds 7] [--json FILE] [--list]
"""

from __future__ import annotations

import torch

from torch_conv.bench.blur import box_row, gaussian_row
from torch_conv.bench.common import Row, square
from torch_conv.bench.families import Family
from torch_conv.bench.filter2d_formats import PHOTOS, dense_row, format_rows

ODD = (*PHOTOS[:3], 1917)  # rows that start at any address


def rows(device: str) -> list[Row]:
    if device == "cpu":
        photo = square(2048)
        return [
            dense_row("cpu", photo, 3),
            dense_row("cpu", photo, 5),
            dense_row("cpu", photo, 7),
            dense_row("cpu", photo, 3, torch.uint8),
            gaussian_row("cpu", photo, 31),
            box_row("cpu", photo, 15),
            box_row("cpu", photo, 200),
            *format_rows("cpu"),
        ]
    big = [PHOTOS, square(4096), square(8192)]
    half, byte = torch.float16, torch.uint8
    return [
        *(dense_row("cuda", shape, k) for shape in big for k in (3, 5, 7)),
        *(dense_row("cuda", shape, k, dtype) for dtype in (half, byte) for shape in big[:2] for k in (3, 5)),
        *(gaussian_row("cuda", shape, k) for shape in big[:2] for k in (7, 15, 31)),
        *(
            gaussian_row("cuda", shape, k, d)
            for d in (half, torch.bfloat16, byte)
            for shape in big
            for k in (5, 15, 31)
        ),
        *(gaussian_row("cuda", PHOTOS, k, layout="NHWC") for k in (5, 15, 31)),
        *(gaussian_row("cuda", PHOTOS, k, dtype, "NHWC") for dtype in (half, byte) for k in (5, 15)),
        *(gaussian_row("cuda", ODD, k, dtype) for dtype in (torch.float32, half, byte) for k in (5, 15)),
        *(box_row("cuda", shape, k) for shape in big for k in (15, 200)),
        *(box_row("cuda", PHOTOS, k, layout="NHWC") for k in (15, 31)),
        box_row("cuda", PHOTOS, 15, byte, "NHWC"),
        *(box_row("cuda", ODD, 15, dtype) for dtype in (torch.float32, half, byte)),
        *(dense_row("cuda", square(n), 3, resident=True) for n in (256, 512)),
        *format_rows("cuda"),
    ]


def quick(device: str) -> list[Row]:
    plane, photo = square(512), (1, 3, 256, 384)
    return [
        dense_row(device, plane, 3),
        dense_row(device, plane, 5, torch.uint8),
        dense_row(device, photo, 3, torch.uint8, layout="NHWC"),
        gaussian_row(device, plane, 15),
        box_row(device, plane, 15),
    ]


FAMILIES = (Family("filter2d", rows, quick, imports=True),)
