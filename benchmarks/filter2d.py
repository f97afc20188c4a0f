"""2-D filters against torch, torchvision, cupyx and OpenCV on this machine; README.md states the rules.

python benchmarks/filter2d.py [--device cuda] [--rows 'gaussian*'] [--rounds 7] [--json FILE] [--list]
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import torch.nn.functional as F
from checks import correlate_axes
from command import main
from common import BOX_TOLERANCE, TOLERANCE, Candidate, Row
from filter2d_formats import PHOTOS, conv2d_candidates, dense_row, format_rows, one_plane, planes, row_name, square
from rivals import by_fft, cupyx_candidate, opencv_candidate
from torch import Tensor

import torch_conv

# ---- Gaussian --------------------------------------------------------------------------------------------------------


def gaussian_row(device: str, shape: tuple[int, ...], k: int) -> Row:
    """gaussian_blur2d, mirrored borders: torch as two 1-D convolutions, and whoever has a Gaussian of its own."""
    sigma, r = 0.15 * k + 0.35, k // 2  # torchvision's and OpenCV's sigma for a size
    taps = torch.exp(-0.5 * ((torch.arange(k, dtype=torch.float64) - r) / sigma) ** 2)
    taps /= taps.sum()
    own = taps.float().to(device)

    def two_passes(x: Tensor, taps: Tensor) -> Tensor:
        x = F.pad(x, (r, r, r, r), mode="reflect")
        return F.conv2d(F.conv2d(x, taps.view(1, 1, 1, k)), taps.view(1, 1, k, 1))

    def rivals() -> list[Candidate]:
        out = conv2d_candidates(device, torch.float32, partial(two_passes, taps=own))
        try:
            from torchvision.transforms.v2.functional import gaussian_blur
        except ImportError:
            pass
        else:
            out.append(Candidate("torchvision", lambda x: gaussian_blur(x, [k, k], [sigma, sigma]), graph=False))
        if device == "cpu":
            out += opencv_candidate(
                lambda cv2: lambda x: cv2.GaussianBlur(x, (k, k), sigma, borderType=cv2.BORDER_REFLECT_101)
            )
        elif one_plane(device, shape, torch.float32):
            out += cupyx_candidate(
                lambda cupy, ndimage: partial(ndimage.gaussian_filter, sigma=sigma, mode="mirror", truncate=r / sigma),
                spatial=2,
            )
        return out

    return Row(
        name=row_name("gaussian", (k, k), torch.float32, shape),
        device=device,
        shape=shape,
        dtype=torch.float32,
        ours=lambda x: torch_conv.gaussian_blur2d(x, k, sigma),
        rivals=rivals,
        reference=lambda piece: correlate_axes(piece, taps),
        border="reflect",
        halo=r,
        taps=2 * k,
        tolerance=TOLERANCE[torch.float32],
    )


# ---- box -------------------------------------------------------------------------------------------------------------


def box_row(device: str, shape: tuple[int, ...], k: int) -> Row:
    """box_blur, zeros outside; tap (k - 1) // 2 lies on the pixel, so an even window reaches one further after it."""
    after = k // 2
    even = 1 - k % 2  # a symmetric padding of `after` gives an even window one row and column too many, in front

    def two_passes(x: Tensor) -> Tensor:
        taps = torch.full((k,), 1 / k, dtype=x.dtype, device=x.device)
        rows = F.conv2d(x, taps.view(1, 1, 1, k), padding=(0, after))
        return F.conv2d(rows, taps.view(1, 1, k, 1), padding=(after, 0))[..., even:, even:]

    def rivals() -> list[Candidate]:
        def pooled(x: Tensor) -> Tensor:
            return F.avg_pool2d(x, k, stride=1, padding=after)[..., even:, even:]

        fft = by_fft(torch.full((k, k), 1 / k**2, device=device), shape[-2:])
        out = [*conv2d_candidates(device, torch.float32, two_passes), Candidate("torch.fft", fft)]
        if one_plane(device, shape, torch.float32) or k < 32:  # elsewhere a large window takes seconds to minutes
            out.append(Candidate("F.avg_pool2d", pooled, prepare=planes))
        if device == "cpu":
            anchor = ((k - 1) // 2,) * 2
            out += opencv_candidate(
                lambda cv2: lambda x: cv2.blur(x, (k, k), anchor=anchor, borderType=cv2.BORDER_CONSTANT)
            )
        elif one_plane(device, shape, torch.float32):
            out += cupyx_candidate(
                lambda cupy, ndimage: partial(ndimage.uniform_filter, size=k, mode="constant", origin=-even), spatial=2
            )
        return out

    return Row(
        name=row_name("box", (k, k), torch.float32, shape),
        device=device,
        shape=shape,
        dtype=torch.float32,
        ours=lambda x: torch_conv.box_blur(x, k, "constant"),
        rivals=rivals,
        reference=lambda piece: correlate_axes(piece, torch.full((k,), 1 / k, dtype=torch.float64))[even:, even:],
        border="constant",
        halo=after,
        taps=2,  # two additions a pixel and axis, whatever the size
        tolerance=BOX_TOLERANCE,
    )


# ---- the table -------------------------------------------------------------------------------------------------------


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
        *(box_row("cuda", shape, k) for shape in big for k in (15, 200)),
        *(dense_row("cuda", square(n), 3, resident=True) for n in (256, 512)),
        *format_rows("cuda"),
    ]


if __name__ == "__main__":
    sys.exit(main("filter2d", __doc__, rows, imports=True))
