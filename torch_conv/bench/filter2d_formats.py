"""Rows of filter2d.py: dense kernels over images of all dtypes, memory formats and widths.

The first word of a row's name is its family, for `--rows`: 'formats' are dtypes and memory formats, 'widths' rows that
start at any address, 'windows' other windows, strides and dilations, 'small' images that L2 holds.
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
from torch_conv.bench.common import SHORT, TOLERANCE, Candidate, Row, extent, square
from torch_conv.bench.rivals import conv_candidates, cudnn, cupyx_correlate, images, opencv_candidate

PHOTOS = (16, 3, 1080, 1920)
ODD, EVEN = (7, 3, 1081, 1917), (7, 3, 1081, 1918)  # rows of 1918 elements start at even addresses, but not aligned
UNSIGNED = (torch.uint8, torch.uint16)
FLOAT, HALF, BFLOAT, BYTE, INT = torch.float32, torch.float16, torch.bfloat16, torch.uint8, torch.int16

planes = partial(images, spatial=2)


def row_name(
    op: str, window: tuple[int, int], dtype: torch.dtype, shape: tuple[int, ...], out: torch.dtype | None = None
) -> str:
    types = f"{SHORT[dtype]} to {SHORT[out]}" if out else SHORT[dtype]
    return f"{op} {window[0]}x{window[1]} {types} {extent(shape)}"


def conv2d_candidates(device: str, dtype: torch.dtype, call: Callable[[Tensor], Tensor]) -> list[Candidate]:
    return conv_candidates("F.conv2d", device, dtype, call, planes)


def one_plane(device: str, shape: tuple[int, ...], dtype: torch.dtype) -> bool:
    return device == "cuda" and shape == square(4096) and dtype == torch.float32


# ---- one row ---------------------------------------------------------------------------------------------------------


def dense_row(
    device: str,
    shape: tuple[int, ...],
    window: int | tuple[int, int],
    dtype: torch.dtype = torch.float32,
    out: torch.dtype | None = None,
    *,
    family: str = "filter2d",
    layout: str = "",
    stride: int = 1,
    dilation: int = 1,
    resident: bool = False,
) -> Row:
    """filter2d with a random kernel, zeros outside; results of dtype `out`, by default the image's.

    The layout is '' for planes, 'NHWC', or either with 'crop', a part of a larger image, or with 'own', a kernel per
    channel. In half precision the kernel has the images' dtype, as in F.conv2d. Two more candidates take the kernel in
    float32, and sums by the plain chain.
    """
    kh, kw = (window, window) if isinstance(window, int) else window
    result = out or dtype
    taps = torch.randn(kh, kw, generator=torch.Generator().manual_seed(kh))
    taps /= taps.abs().sum()
    if result in UNSIGNED:
        taps = taps.abs()  # results stay in the dtype's range: rounding, not clamping, is compared
    half = dtype in (HALF, BFLOAT)
    if half:
        taps = taps.to(dtype).float()
    own = taps.to(device)
    inner = "NHWC" in layout
    if "own" in layout:
        own = own.expand(1, shape[1], kh, kw).contiguous()
    floats = dtype if dtype.is_floating_point else torch.float32
    weight = taps[None, None].to(device, floats)

    def conv(x: Tensor, weight: Tensor, groups: int = 1) -> Tensor:
        around = [dilation * (k // 2) for k in (kh, kw)]
        y = F.conv2d(x.to(floats), weight, None, stride, around, dilation, groups)
        y = y[..., 1 - kh % 2 :, 1 - kw % 2 :]  # an even kernel with equal padding starts one pixel too early
        if not result.is_floating_point:
            limits = torch.iinfo(result)
            y = y.round_().clamp_(limits.min, limits.max)
        return y.to(result)

    def ours(x: Tensor, window: Tensor, algorithm: Any = "auto") -> Tensor:
        return torch_conv.filter2d(
            x, window, "constant", output_dtype=out, stride=stride, dilation=dilation, algorithm=algorithm
        )

    def rivals() -> list[Candidate]:
        found = [] if "own" in layout else conv2d_candidates(device, dtype, partial(conv, weight=weight))
        if half and device == "cuda" and "own" not in layout:
            found += [
                Candidate("torch_conv float32 window", partial(ours, window=own), own=True, planned=True),
                Candidate("torch_conv direct", partial(ours, window=own, algorithm="direct"), own=True, planned=True),
            ]
        channels = shape[1]
        if channels > 1:
            each = weight.expand(channels, 1, kh, kw).contiguous(memory_format=torch.channels_last)
            nhwc = partial(torch.Tensor.contiguous, memory_format=torch.channels_last)
            call = partial(conv, weight=each, groups=channels)
            found.append(Candidate("F.conv2d channels_last", call, prepare=nhwc, context=cudnn(False)))
        theirs = stride == 1 and not half  # OpenCV has neither steps nor half precision
        if device == "cpu" and theirs and (inner or channels == 1):
            found += opencv_candidate(partial(in_opencv, taps, dilation, result), photo=inner and channels > 1)
        elif one_plane(device, shape, dtype) and stride == dilation == 1 and kh % 2 and kw % 2:
            found += cupyx_correlate(own)
        return found

    centred = centred_window(taps, dilation)
    name = row_name(family, (kh, kw), dtype, shape, out)
    options = f" stride {stride}" * (stride > 1) + f" dilation {dilation}" * (dilation > 1)
    loose = 1.0 if dtype.is_floating_point or not result.is_floating_point else 256.0  # images are not within [0, 1)
    return Row(
        name=name + f" {layout}" * bool(layout) + options,
        device=device,
        shape=shape,
        dtype=dtype,
        ours=partial(ours, window=own.to(dtype) if half else own),
        rivals=rivals,
        reference=partial(correlate, window=centred),
        border="constant",
        halo=centred.shape[0] // 2,
        taps=max(1, kh * kw // stride**2),
        tolerance=TOLERANCE[result] * loose,
        resident=resident,
        inner=inner,
        cropped="crop" in layout,
        traffic=(1 + result.itemsize / dtype.itemsize / stride**2) / 2,
        out_dtype=out,
        step=stride,
    )


def in_opencv(taps: Tensor, dilation: int, result: torch.dtype, cv2: Any) -> Callable[[Any], Any]:
    """cv2.filter2D for results of this dtype; the zeros of a dilated kernel are taps."""
    depth = {torch.float32: cv2.CV_32F, torch.int16: cv2.CV_16S, torch.uint16: cv2.CV_16U, torch.uint8: cv2.CV_8U}
    spread = dilated(taps, dilation).numpy()
    place = tuple(dilation * ((k - 1) // 2) for k in reversed(taps.shape))
    return lambda x: cv2.filter2D(x, depth[result], spread, anchor=place, borderType=cv2.BORDER_CONSTANT)


def dilated(taps: Tensor, dilation: int) -> Tensor:
    spread = taps.new_zeros([dilation * (k - 1) + 1 for k in taps.shape])
    spread[::dilation, ::dilation] = taps
    return spread


def centred_window(taps: Tensor, dilation: int) -> Tensor:
    """The taps in a square odd kernel, with tap (k - 1) // 2 in the middle and zeros around."""
    radius = dilation * (max(taps.shape) // 2)
    window = taps.new_zeros(2 * radius + 1, 2 * radius + 1)
    spread = dilated(taps, dilation)
    top, left = (radius - dilation * ((k - 1) // 2) for k in taps.shape)
    window[top : top + spread.shape[0], left : left + spread.shape[1]] = spread
    return window


# ---- the families ----------------------------------------------------------------------------------------------------


def format_rows(device: str) -> list[Row]:
    return [*formats(device), *widths(device), *windows(device), *small(device)]


def formats(device: str) -> list[Row]:
    """Every dtype, in planes and as photographs (H, W, C); then other numbers of channels."""
    row = partial(dense_row, device, family="formats")
    others = [(BFLOAT, None), (BYTE, FLOAT), (BYTE, INT), (INT, None), (torch.uint16, None)]
    if device == "cpu":
        photo, plane = (1, 3, 1080, 1920), (1, 1, 1080, 1920)
        return [
            *(row(plane, 3, dtype) for dtype in (HALF, BFLOAT, INT, torch.uint16)),
            *(row(photo, k, dtype, layout="NHWC") for dtype in (FLOAT, BYTE) for k in (3, 5)),
            *(row(photo, 3, dtype, out, layout="NHWC") for dtype, out in others[1:]),
            row((1, 4, 1080, 1920), 5, BYTE, layout="NHWC"),
            row((1, 64, 270, 480), 3, layout="NHWC"),
        ]
    rgba, features, many = (16, 4, 1080, 1920), (8, 8, 1080, 1920), (1, 64, 1080, 1920)
    return [
        *(row(PHOTOS, k, dtype, out) for dtype, out in others for k in (3, 5)),  # the others: see filter2d.py
        *(row(PHOTOS, k, dtype, layout="NHWC") for dtype in (FLOAT, HALF, BYTE) for k in (3, 5, 7)),
        *(row(PHOTOS, k, HALF, layout="NHWC") for k in (9, 15)),
        *(row(PHOTOS, 5, dtype, out, layout="NHWC") for dtype, out in others),
        *(row(rgba, k, dtype, layout="NHWC") for dtype in (FLOAT, HALF, BYTE) for k in (3, 5)),
        *(row(square(4096), 5, dtype, layout="NHWC") for dtype in (FLOAT, BYTE)),
        *(row(shape, 5, dtype, layout="NHWC") for shape in (features, many) for dtype in (FLOAT, HALF)),
        *(row((8, 3, 1080, 1920), k, dtype, layout="NHWC own") for dtype in (FLOAT, HALF, BYTE) for k in (3, 5)),
        row((8, 3, 1080, 1920), 7, HALF, layout="NHWC own"),
        *(row((16, 64, 224, 224), k, dtype, layout="NHWC own") for dtype in (FLOAT, HALF) for k in (3, 5)),
        *(row(shape, 3, HALF, layout="NHWC own") for shape in (features, (4, 24, 1080, 1920))),
    ]


def widths(device: str) -> list[Row]:
    """Rows that start at any address: odd and even widths, a crop, a photograph."""
    row = partial(dense_row, device, family="widths")
    if device == "cpu":
        odd = (1, 1, 1081, 1917)
        return [*(row(odd, 5, dtype) for dtype in (FLOAT, BYTE)), row(odd, 5, layout="crop")]
    dtypes = (FLOAT, HALF, BYTE)
    return [
        *(row(ODD, k, dtype) for dtype in dtypes for k in (3, 5)),
        *(row(EVEN, k, dtype) for dtype in dtypes for k in (3, 5)),
        *(row(PHOTOS, 5, dtype, layout="crop") for dtype in dtypes),
        *(row(ODD, 5, dtype, layout="NHWC") for dtype in dtypes),
        row(PHOTOS, 5, BYTE, layout="NHWC crop"),
    ]


def windows(device: str) -> list[Row]:
    """Windows that are neither 3x3 nor 5x5, strides and dilations."""
    row = partial(dense_row, device, square(2048 if device == "cpu" else 4096), family="windows")
    if device == "cpu":
        return [
            *(row(k) for k in (9, 15, (3, 11), 4)),
            *(row(k, BYTE) for k in (7, 15)),
            row(5, stride=2),
            row(5, dilation=2),
        ]
    dtypes = (FLOAT, HALF, BYTE)
    return [
        *(row(7, dtype) for dtype in dtypes[1:]),
        *(row(k, dtype) for k in (9, 11, 15, (3, 11), 4) for dtype in dtypes),
        *(dense_row(device, square(8192), k, HALF, family="windows") for k in (5, 7, 9, 15)),
        *(dense_row(device, square(8192), k, BYTE, family="windows") for k in (3, 5)),
        row(9, BFLOAT),
        *(row(5, dtype, stride=2) for dtype in dtypes),
        *(row(5, dtype, dilation=2) for dtype in dtypes),
    ]


def small(device: str) -> list[Row]:
    """Images so small that the time is that of the launch, and on the host that of the call."""
    row = partial(dense_row, device, resident=True, family="small")
    sides = (64, 256) if device == "cpu" else (64, 128, 256, 512)
    return [
        *(row(square(n), 3) for n in sides if n < 256 or device == "cpu"),  # the others: see filter2d.py
        *(row((1, 3, n, n), 3, BYTE, layout="NHWC") for n in sides),
        *(row(square(n), 5, HALF) for n in sides if n >= 256),
    ]
