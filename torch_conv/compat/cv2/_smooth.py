"""Gaussians and boxes: means and sums."""
# ruff: noqa: N802 (the names are OpenCV's)

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from torch_conv.compat._types import ArrayImage
from torch_conv.compat.cv2._arguments import truth
from torch_conv.compat.cv2._call import ALGO_HINT_DEFAULT, BORDER_DEFAULT, OF_BOX, Call
from torch_conv.compat.cv2._taps import gaussian_rows
from torch_conv.functional._kernel_cache import cached
from torch_conv.functional.filters import box_blur, filter2d_separable


def GaussianBlur(
    src: ArrayImage,
    ksize: Sequence[int],
    sigmaX: float,
    dst: ArrayImage | None = None,
    sigmaY: float = 0,
    borderType: int = BORDER_DEFAULT,
    hint: int = ALGO_HINT_DEFAULT,
) -> ArrayImage:
    """Smooths an image with a sampled Gaussian.

    On 8 and 16 unsigned bits the taps are OpenCV's: multiples of 1/256 and 1/65536 that add up to 1.

    Args:
        src: image, as in `filter2D`.
        ksize: (width, height) of the kernel, odd; 0 takes it from a sigma > 0: the odd number next to
            6 sigma + 1 for uint8 and 8 sigma + 1 for the others.
        sigmaX: standard deviation in pixels along the width; 0 takes it from the size, 0.15 width + 0.35, and for a
            width up to 9 fixed binary fractions.
        dst: image that receives the result.
        sigmaY: standard deviation along the height; 0 takes sigmaX.
        borderType: as in `filter2D`; for uint8 and uint16 also BORDER_WRAP.
        hint: accepted as in OpenCV, without effect.

    Returns:
        Image of src's shape, dtype and kind.

    Raises:
        ValueError: for an even size, a size of 0 without sigma, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `cv2.GaussianBlur`

    Example:
        >>> GaussianBlur(torch.tensor([[0.0, 0, 16, 0, 0]]), (3, 1), 0)
        tensor([[0., 4., 8., 4., 0.]])
    """
    call = Call("GaussianBlur", src, dst, borderType, wrapping=(torch.uint8, torch.uint16))
    width, height = call.pair("ksize", ksize)
    sigma_x, sigma_y = call.number("sigmaX", sigmaX), call.number("sigmaY", sigmaY)
    call.whole("hint", hint)
    if not (math.isfinite(sigma_x) and math.isfinite(sigma_y)):
        raise ValueError(f"GaussianBlur: sigmaX and sigmaY must be finite, got {sigma_x} and {sigma_y}")
    if call.border != "constant":
        # Along an axis of length 1 every border repeats the one pixel, so OpenCV leaves that pass out.
        rows, columns = call.image.shape[-2:]
        width, height = 1 if columns == 1 else width, 1 if rows == 1 else height
    if sigma_y <= 0:
        sigma_y = sigma_x
    sigmas = 3 if call.image.dtype == torch.uint8 else 4
    if width <= 0 and sigma_x > 0:
        width = round(2 * sigmas * sigma_x + 1) | 1
    if height <= 0 and sigma_y > 0:
        height = round(2 * sigmas * sigma_y + 1) | 1
    if width <= 0 or width % 2 == 0 or height <= 0 or height % 2 == 0:
        raise ValueError(f"GaussianBlur: ksize must be odd, or 0 where a sigma is given, got ({width}, {height})")
    bits = {torch.uint8: 8, torch.uint16: 16}.get(call.image.dtype, 0)
    x, y = cached(gaussian_rows, width, height, max(sigma_x, 0.0), max(sigma_y, 0.0), bits, call.sums)
    return call.run(filter2d_separable, x, y, rows=height)


def blur(
    src: ArrayImage,
    ksize: Sequence[int],
    dst: ArrayImage | None = None,
    anchor: Sequence[int] = (-1, -1),
    borderType: int = BORDER_DEFAULT,
) -> ArrayImage:
    """The mean over a box around each pixel, at a cost that hardly depends on its size.

    Args:
        src: image, as in `filter2D`.
        ksize: (width, height) of the box, each at least 1, odd or even.
        dst: image that receives the result.
        anchor: the tap (x, y) that lies on the pixel; -1 means the middle, k // 2.
        borderType: as in `filter2D`.

    Returns:
        Image of src's shape, dtype and kind.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `cv2.blur`

    Example:
        >>> blur(torch.tensor([[0.0, 3, 6, 9, 12]]), (3, 1))
        tensor([[ 2.,  3.,  6.,  9., 10.]])
    """
    return _box("blur", src, -1, ksize, dst, anchor, True, borderType)


def boxFilter(
    src: ArrayImage,
    ddepth: int,
    ksize: Sequence[int],
    dst: ArrayImage | None = None,
    anchor: Sequence[int] = (-1, -1),
    normalize: bool = True,
    borderType: int = BORDER_DEFAULT,
) -> ArrayImage:
    """The mean or the sum over a box around each pixel, at a cost that hardly depends on its size.

    Args:
        src: image, as in `filter2D`.
        ddepth: as in `filter2D`, but every depth is taken.
        ksize: (width, height) of the box, each at least 1, odd or even.
        dst: image that receives the result.
        anchor: the tap (x, y) that lies on the pixel; -1 means the middle, k // 2.
        normalize: divide by width * height; False gives the sum.
        borderType: as in `filter2D`.

    Returns:
        Image of src's shape and kind.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `cv2.boxFilter`

    Example:
        >>> boxFilter(torch.ones(2, 3, dtype=torch.uint8), CV_16U, (2, 2), normalize=False)
        tensor([[4, 4, 4],
                [4, 4, 4]], dtype=torch.uint16)
    """
    return _box("boxFilter", src, ddepth, ksize, dst, anchor, truth("boxFilter", "normalize", normalize), borderType)


def _box(
    name: str,
    src: Any,
    ddepth: int,
    ksize: Sequence[int],
    dst: Any,
    anchor: Sequence[int],
    normalize: bool,
    borderType: int,
) -> Any:
    call = Call(name, src, dst, borderType, ddepth, OF_BOX)
    width, height = call.pair("ksize", ksize)
    if width <= 0 or height <= 0:
        raise ValueError(f"{name}: ksize must be positive, got ({width}, {height})")
    at = call.anchor(anchor, width, height)
    if not call.image.is_floating_point():
        call.sums = torch.float32  # sums of integers are exact, and their means are rounded to the result's dtype alone
    return call.run(box_blur, (height, width), rows=height, normalized=normalize, anchor=at)
