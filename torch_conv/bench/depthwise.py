"""Depthwise convolutions of signals, images and volumes against F.convNd in both layouts, on this machine.

torch-conv bench depthwise|depthwise1d|depthwise3d [--device cuda] [--rows '*NHWC'] [--rounds 7] [--json FILE] [--list]

benchmarks/README.md states the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_conv
from torch_conv.bench.checks import correlate
from torch_conv.bench.common import SHORT, Candidate, Row
from torch_conv.bench.families import Family
from torch_conv.bench.rivals import compiled, conv_candidates, cudnn, shifted_sum

# By the number of spatial axes. torch has no memory format for signals.
LAYOUTS = {1: ["NCL", "NLC"], 2: ["NCHW", "NHWC"], 3: ["NCDHW", "NDHWC"]}
FORMATS = {"NHWC": torch.channels_last, "NDHWC": torch.channels_last_3d}
OURS: dict[int, Callable[..., Tensor]] = {1: torch_conv.conv1d, 2: torch_conv.conv2d, 3: torch_conv.conv3d}
THEIRS: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def channels_inner(x: Tensor) -> Tensor:
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


def depthwise_row(
    device: str,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    layout: str,
    k: int = 3,
    stride: int = 1,
    compile: bool = False,
    resident: bool = False,
) -> Row:
    """groups == C and zeros outside; the rivals in this layout and in the other one."""
    axes, channels = len(shape) - 2, shape[1]
    taps = torch.randn(channels, *[k] * axes, generator=torch.Generator().manual_seed(k))
    taps /= taps.abs().flatten(1).sum(1).view(channels, *[1] * axes)
    taps = taps.to(dtype).float()  # the weights are rounded once, for ours, the rivals and the reference
    weight = taps[:, None].to(device, dtype)
    last = taps[-1]
    name = f"conv{axes}d"
    steps = {"stride": stride, "padding": k // 2, "groups": channels}

    def rivals() -> list[Candidate]:
        def same(x: Tensor) -> Tensor:
            return x

        call = partial(THEIRS[axes], weight=weight_in(layout), **steps)
        out = conv_candidates(f"F.{name}", device, dtype, call, same)
        other = next(one for one in LAYOUTS[axes] if one != layout)
        swapped = contiguous if other == LAYOUTS[axes][0] else channels_inner
        call = partial(THEIRS[axes], weight=weight_in(other), **steps)
        out.append(Candidate(f"F.{name} on {other}", call, prepare=swapped, context=cudnn(False)))
        if compile:
            each = weight[:, 0].float().movedim(0, -1)[(..., *[None] * axes)]  # [z][y][x]: (C, 1, 1, 1)
            out.append(compiled(lambda x: shifted_sum(x, nested(each, axes), spatial=axes)))
        return out

    def weight_in(layout: str) -> Tensor:
        return weight.contiguous(memory_format=FORMATS.get(layout, torch.contiguous_format))

    return Row(
        name=f"{name} {'x'.join([str(k)] * axes) if axes > 1 else f'k={k}'}"
        + (f" stride {stride}" if stride > 1 else "")
        + f" {SHORT[dtype]} {'x'.join(map(str, shape))} {layout}",
        device=device,
        shape=shape,
        dtype=dtype,
        ours=partial(OURS[axes], weight=weight_in(layout), **steps),
        rivals=rivals,
        reference=lambda piece: correlate(piece, last),
        border="constant",
        halo=k // 2,
        taps=max(1, k**axes // stride**axes),
        spatial=axes,
        resident=resident,
        memory_format=FORMATS.get(layout, torch.contiguous_format),
        inner=layout == "NLC",
        traffic=(1 + stride**-axes) / 2,
        step=stride,
    )


def contiguous(x: Tensor) -> Tensor:
    return x.contiguous()


def nested(each: Tensor, axes: int) -> list:
    """The first `axes` dimensions of a tensor as nested lists."""
    return [nested(part, axes - 1) if axes > 1 else part for part in each]


# ---- images ----------------------------------------------------------------------------------------------------------

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


Case = tuple[tuple[int, ...], int, int]  # shape, taps along an axis, stride


def rows_of(
    device: str, cases: Sequence[Case], dtype: torch.dtype, layouts: list[str], resident: bool = False
) -> list[Row]:
    return [
        depthwise_row(device, shape, dtype, layout, k, stride, resident=resident)
        for shape, k, stride in cases
        for layout in layouts
    ]


def images(device: str) -> list[Row]:
    both = LAYOUTS[2]
    if device == "cpu":
        return [*rows_of(device, CPU, torch.float32, both), *rows_of(device, CPU, torch.bfloat16, both)]
    large = [((64, 384, 32, 32), 31, 1), ((16, 3, 1080, 1920), 5, 1)]
    return [
        *rows_of(device, HALF, torch.float16, both),
        *rows_of(device, [((128, 192, 28, 28), 7, 1)], torch.bfloat16, both),
        *rows_of(device, FULL, torch.float32, both),
        *rows_of(device, large, torch.float32, ["NCHW"]),
        *rows_of(device, ONE, torch.float16, both, resident=True),
    ]


def quick_images(device: str) -> list[Row]:
    cases = [((1, 96, 56, 56), 3, 1), ((1, 96, 56, 56), 7, 1), ((1, 96, 112, 112), 3, 2)]
    return rows_of(device, cases, torch.float32, LAYOUTS[2])


# ---- signals ---------------------------------------------------------------------------------------------------------


def signals(device: str) -> list[Row]:
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


def quick_signals(device: str) -> list[Row]:
    return rows_of(device, [((1, 256, 1024), k, 1) for k in (3, 15)], torch.float32, LAYOUTS[1])


# ---- volumes ---------------------------------------------------------------------------------------------------------

# Layers of video networks: an early stage, a cube, a middle and a late stage.
VIDEO = [(8, 64, 32, 56, 56), (2, 32, 64, 64, 64), (8, 256, 16, 28, 28), (8, 512, 8, 14, 14)]


def volumes(device: str) -> list[Row]:
    if device == "cpu":
        return rows_of(device, [((1, 32, 16, 56, 56), 3, 1)], torch.float32, LAYOUTS[3])
    return [
        depthwise_row("cuda", shape, dtype, layout, compile=dtype == torch.float16 and shape in VIDEO[:2])
        for dtype in (torch.float16, torch.float32)
        for shape in VIDEO
        for layout in LAYOUTS[3]
    ]


def quick_volumes(device: str) -> list[Row]:
    return rows_of(device, [((1, 16, 8, 28, 28), 3, 1)], torch.float32, LAYOUTS[3])


FAMILIES = (
    Family("depthwise", images, quick_images, budget_s=110.0),
    Family("depthwise1d", signals, quick_signals, budget_s=60.0),
    Family("depthwise3d", volumes, quick_volumes, budget_s=75.0),  # the whole run stays below 90 s on an H200
)
