"""Gaussians and boxes over the size of the window, 3 to 255, for each dtype; benchmarks/README.md states the rules.

torch-conv bench blur [--device cuda] [--rows 'gaussian*f16*'] [--rounds 7] [--json FILE] [--list]

`report.py --figure` draws the times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_conv
from torch_conv import kernels
from torch_conv.bench.checks import correlate_axes
from torch_conv.bench.common import Candidate, Row, square
from torch_conv.bench.families import Family
from torch_conv.bench.filter2d_formats import conv2d_candidates, one_plane, planes, row_name
from torch_conv.bench.rivals import absent, by_fft, cudnn, cupyx_candidate, kornia_candidate, opencv_candidate

SIZES = (3, 5, 9, 15, 31, 63, 127, 255)
SIDE = {"cuda": 4096, "cpu": 1024}
TAP_BY_TAP_BELOW = 64  # F.avg_pool2d and torchvision take every tap: beyond, many images take seconds to minutes


def floats_of(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which torch's convolution computes images of `dtype`."""
    return dtype if dtype.is_floating_point else torch.float32


def rounded(y: Tensor, dtype: torch.dtype) -> Tensor:
    return y.to(dtype) if dtype.is_floating_point else y.round_().to(dtype)


# ---- Gaussian --------------------------------------------------------------------------------------------------------


def of_channels(shape: tuple[int, ...], layout: str, call: Callable[..., Tensor]) -> list[Candidate]:
    """Depthwise convolutions of an image (N, H, W, C) in its memory format; `call` gets the channels."""
    if layout != "NHWC":
        return []
    return [Candidate("F.conv2d channels_last", partial(call, channels=shape[1]), context=cudnn(False))]


def gaussian_row(
    device: str, shape: tuple[int, ...], k: int, dtype: torch.dtype = torch.float32, layout: str = ""
) -> Row:
    """gaussian_blur2d with border 'reflect', torch as two 1-D convolutions, and libraries with a Gaussian.

    The layout is '' for planes, or 'NHWC'.
    """
    sigma, r = kernels.default_sigma(k), k // 2  # torchvision's and OpenCV's for a size
    taps = kernels.gaussian1d(k, sigma, dtype=torch.float64)
    floats = floats_of(dtype)
    own = taps.to(device, floats)

    def two_passes(x: Tensor, channels: int = 1) -> Tensor:
        x = F.pad(x.to(floats), (r, r, r, r), mode="reflect")
        across, down = (own.view(1, 1, *s).expand(channels, 1, *s) for s in ((1, k), (k, 1)))
        return rounded(F.conv2d(F.conv2d(x, across, groups=channels), down, groups=channels), dtype)

    def rivals() -> list[Candidate]:
        fft = by_fft(torch.outer(own, own).float(), [n + 2 * r for n in shape[-2:]])

        def padded(x: Tensor) -> Tensor:
            y = fft(F.pad(x.float(), (r, r, r, r), mode="reflect"))
            return rounded(y[..., r : r + shape[-2], r : r + shape[-1]], dtype)

        out = [*conv2d_candidates(device, dtype, two_passes), Candidate("torch.fft", padded)]
        out += of_channels(shape, layout, two_passes)
        if device == "cuda" and dtype != torch.float32:
            chains = partial(torch_conv.gaussian_blur2d, kernel_size=k, sigma=sigma, algorithm="separable")
            out.append(Candidate("torch_conv separable", chains, own=True, planned=True))
        out += kornia_candidate(
            lambda kornia: lambda x: rounded(kornia.gaussian_blur2d(x.to(floats), (k, k), (sigma, sigma)), dtype)
        )
        try:
            from torchvision.transforms.v2.functional import gaussian_blur
        except ImportError as error:
            out.append(absent("torchvision", error))
        else:
            if k < TAP_BY_TAP_BELOW:
                call = partial(gaussian_blur, kernel_size=[k, k], sigma=[sigma, sigma])
                out.append(Candidate("torchvision", call, graph=False))
        if device == "cpu":
            out += opencv_candidate(
                lambda cv2: lambda x: cv2.GaussianBlur(x, (k, k), sigma, borderType=cv2.BORDER_REFLECT_101),
                photo=layout == "NHWC",
            )
        elif one_plane(device, shape, dtype):
            out += cupyx_candidate(
                lambda cupy, ndimage: partial(ndimage.gaussian_filter, sigma=sigma, mode="mirror", truncate=r / sigma),
                spatial=2,
            )
        return out

    return Row(
        name=f"{row_name('gaussian', (k, k), dtype, shape)} {layout}".rstrip(),
        device=device,
        shape=shape,
        dtype=dtype,
        inner=layout == "NHWC",
        ours=lambda x: torch_conv.gaussian_blur2d(x, k, sigma),
        rivals=rivals,
        reference=lambda piece: correlate_axes(piece, taps),
        border="reflect",
        halo=r,
        taps=2 * k,
    )


# ---- box -------------------------------------------------------------------------------------------------------------


def box_row(device: str, shape: tuple[int, ...], k: int, dtype: torch.dtype = torch.float32, layout: str = "") -> Row:
    """box_blur, zeros outside. Tap (k - 1) // 2 lies on the pixel, so an even box has one tap more after it.

    The layout is '' for planes, or 'NHWC'.
    """
    after = k // 2
    floats = floats_of(dtype)
    even = 1 - k % 2  # for an even box, padding by `after` on both sides gives one row and column too many in front

    def two_passes(x: Tensor, channels: int = 1) -> Tensor:
        taps = torch.full((channels, 1, 1, k), 1 / k, dtype=floats, device=x.device)
        rows = F.conv2d(x.to(floats), taps, padding=(0, after), groups=channels)
        both = F.conv2d(rows, taps.view(channels, 1, k, 1), padding=(after, 0), groups=channels)
        return rounded(both[..., even:, even:], dtype)

    def rivals() -> list[Candidate]:
        def pooled(x: Tensor) -> Tensor:
            return rounded(F.avg_pool2d(x.to(floats), k, stride=1, padding=after)[..., even:, even:], dtype)

        fft = by_fft(torch.full((k, k), 1 / k**2, device=device), shape[-2:])
        whole = Candidate("torch.fft", lambda x: rounded(fft(x.float()), dtype))
        out = [*conv2d_candidates(device, dtype, two_passes), whole, *of_channels(shape, layout, two_passes)]
        if k < TAP_BY_TAP_BELOW or one_plane(device, shape, dtype):
            out.append(Candidate("F.avg_pool2d", pooled, prepare=planes))
        if device == "cpu":
            anchor = ((k - 1) // 2,) * 2
            out += opencv_candidate(
                lambda cv2: lambda x: cv2.blur(x, (k, k), anchor=anchor, borderType=cv2.BORDER_CONSTANT),
                photo=layout == "NHWC",
            )
        elif one_plane(device, shape, dtype):
            out += cupyx_candidate(
                lambda cupy, ndimage: partial(ndimage.uniform_filter, size=k, mode="constant", origin=-even), spatial=2
            )
        return out

    return Row(
        name=f"{row_name('box', (k, k), dtype, shape)} {layout}".rstrip(),
        device=device,
        shape=shape,
        dtype=dtype,
        inner=layout == "NHWC",
        ours=lambda x: torch_conv.box_blur(x, k, "constant"),
        rivals=rivals,
        reference=lambda piece: correlate_axes(piece, torch.full((k,), 1 / k, dtype=torch.float64))[even:, even:],
        border="constant",
        halo=after,
        taps=2,  # two additions a pixel and axis, whatever the size
    )


# ---- the table -------------------------------------------------------------------------------------------------------


def rows(device: str) -> list[Row]:
    dtypes = (torch.float32, torch.float16, torch.uint8) if device == "cuda" else (torch.float32, torch.uint8)
    return of_sizes(device, SIDE[device], SIZES, dtypes)


def quick(device: str) -> list[Row]:
    return of_sizes(device, 512, (5, 31), (torch.float32,))


def of_sizes(device: str, side: int, sizes: Sequence[int], dtypes: Sequence[torch.dtype]) -> list[Row]:
    return [
        replace(row(device, square(side), k, dtype), series=f"{kind} {dtype}".replace("torch.", ""))
        for kind, row in (("gaussian", gaussian_row), ("box", box_row))
        for dtype in dtypes
        for k in sizes
    ]


FAMILIES = (Family("blur", rows, quick),)
