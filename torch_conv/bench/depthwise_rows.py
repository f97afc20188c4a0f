"""Rows of depthwise.py, depthwise1d.py and depthwise3d.py: depthwise convolutions against F.convNd in both layouts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_conv
from torch_conv.bench.checks import correlate
from torch_conv.bench.common import SHORT, TOLERANCE, Candidate, Row
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
        tolerance=TOLERANCE[dtype],
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
