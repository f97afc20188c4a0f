"""Derivatives: Sobel, Scharr and the Laplacian."""
# ruff: noqa: N802 (the names are OpenCV's)

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_conv.compat._types import ArrayImage
from torch_conv.compat.cv2._arguments import whole
from torch_conv.compat.cv2._call import BORDER_DEFAULT, OF_BOX, OF_FILTER2D, OF_PASSES, Call
from torch_conv.compat.cv2._taps import derivative_rows, differences, laplacian_parts
from torch_conv.functional._composites import correlate2d_sum
from torch_conv.functional._kernel_cache import cached
from torch_conv.functional.filters import filter2d, filter2d_separable


def Sobel(
    src: ArrayImage,
    ddepth: int,
    dx: int,
    dy: int,
    dst: ArrayImage | None = None,
    ksize: int = 3,
    scale: float = 1,
    delta: float = 0,
    borderType: int = BORDER_DEFAULT,
) -> ArrayImage:
    """A derivative of an image: differences along one axis or both, with binomial smoothing.

    Args:
        src: image, as in `filter2D`.
        ddepth: as in `sepFilter2D`.
        dx: order of the derivative along the width, less than the kernel size.
        dy: order along the height; dx or dy is not 0.
        dst: image that receives the result.
        ksize: the kernel's size, odd, up to 31; 1 does not smooth, 0 or less (FILTER_SCHARR) is `Scharr`.
        scale: factor on the derivative.
        delta: number added before rounding.
        borderType: as in `filter2D`.

    Returns:
        Image of src's shape and kind.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `cv2.Sobel`

    Example:
        >>> Sobel(torch.arange(5.0).square().expand(3, 5), -1, 1, 0)[1]
        tensor([ 0., 16., 32., 48.,  0.])
    """
    call = Call("Sobel", src, dst, borderType, ddepth, OF_PASSES)
    dx, dy, size = whole("Sobel", "dx", dx), whole("Sobel", "dy", dy), whole("Sobel", "ksize", ksize, 3)
    if size <= 0:
        return _scharr(call, dx, dy, scale, delta)
    if size % 2 == 0 or size > 31:
        raise ValueError(f"Sobel: ksize must be odd and not larger than 31, got {size}")
    if dx < 0 or dy < 0 or dx + dy == 0:
        raise ValueError(f"Sobel: dx and dy must not be negative and not both 0, got {dx} and {dy}")
    width, height = (3 if size == 1 and order > 0 else size for order in (dx, dy))
    if dx >= width or dy >= height:
        raise ValueError(f"Sobel: dx and dy must be less than the window's size, got {dx} and {dy} for ksize {size}")
    return _derivative(call, differences(width, dx), differences(height, dy), scale, delta)


def Scharr(
    src: ArrayImage,
    ddepth: int,
    dx: int,
    dy: int,
    dst: ArrayImage | None = None,
    scale: float = 1,
    delta: float = 0,
    borderType: int = BORDER_DEFAULT,
) -> ArrayImage:
    """A first derivative of an image: differences along one axis, (3, 10, 3) along the other.

    Args:
        src: image, as in `filter2D`.
        ddepth: as in `sepFilter2D`.
        dx: 1 for the derivative along the width, else 0.
        dy: 1 for the derivative along the height, else 0.
        dst: image that receives the result.
        scale: factor on the derivative.
        delta: number added before rounding.
        borderType: as in `filter2D`.

    Returns:
        Image of src's shape and kind.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `cv2.Scharr`

    Example:
        >>> Scharr(torch.arange(5.0).expand(3, 5), -1, 1, 0)[1]
        tensor([ 0., 32., 32., 32.,  0.])
    """
    call = Call("Scharr", src, dst, borderType, ddepth, OF_PASSES)
    return _scharr(call, whole("Scharr", "dx", dx), whole("Scharr", "dy", dy), scale, delta)


def Laplacian(
    src: ArrayImage,
    ddepth: int,
    dst: ArrayImage | None = None,
    ksize: int = 1,
    scale: float = 1,
    delta: float = 0,
    borderType: int = BORDER_DEFAULT,
) -> ArrayImage:
    """The Laplacian of an image: the sum of its second derivatives.

    Args:
        src: image, as in `filter2D`.
        ddepth: as in `filter2D` for ksize 1 and 3; every depth from 5 on.
        dst: image that receives the result.
        ksize: the kernel's size, odd, up to 31. 1 is the 5-point stencil, 3 the (2, 0, 2), (0, -8, 0), (2, 0, 2); from
            5 on the two second derivatives of `Sobel` are added up.
        scale: factor on the Laplacian.
        delta: number added before rounding.
        borderType: as in `filter2D`.

    Returns:
        Image of src's shape and kind.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `cv2.Laplacian`

    Example:
        >>> Laplacian(torch.arange(5.0).square().expand(3, 5), -1)[1]
        tensor([ 2.,  2.,  2.,  2., -14.])
    """
    size = whole("Laplacian", "ksize", ksize, 1)
    if size <= 0 or size % 2 == 0 or size > 31:
        raise ValueError(f"Laplacian: ksize must be odd, positive and not larger than 31, got {size}")
    call = Call("Laplacian", src, dst, borderType, ddepth, OF_FILTER2D if size <= 3 else OF_BOX)
    factor, delta = call.number("scale", scale, 1.0), call.number("delta", delta)
    call.sum_exactly(16.0 if size <= 3 else 2.0 * 4 ** (size - 1), factor)
    parts = cached(laplacian_parts, size, factor, call.sums)
    if len(parts) == 1:
        return call.run(filter2d, parts[0], rows=size, delta=delta)
    return call.run(_passes, parts, rows=size, delta=delta)


def _derivative(call: Call, x: tuple[int, ...], y: tuple[int, ...], scale: float, delta: float) -> Any:
    factor, delta = call.number("scale", scale, 1.0), call.number("delta", delta)
    if call.sums == torch.float64 and not call.into_float64:
        call.sum_exactly(sum(map(abs, x)) * sum(map(abs, y)), factor)
    # OpenCV scales the window that smooths.
    in_x, in_y = (factor, 1.0) if sum(x) != 0 else (1.0, factor)
    taps = cached(derivative_rows, x, y, in_x, in_y, call.sums)
    return call.run(filter2d_separable, *taps, rows=len(y), delta=delta)


def _scharr(call: Call, dx: int, dy: int, scale: float, delta: float) -> Any:
    if (dx, dy) not in ((1, 0), (0, 1)):
        raise ValueError(f"{call.name}: dx and dy of Scharr's windows must be 1 and 0 or 0 and 1, got {dx} and {dy}")
    x, y = ((-1, 0, 1), (3, 10, 3)) if dx else ((3, 10, 3), (-1, 0, 1))
    return _derivative(call, x, y, scale, delta)


def _passes(
    image: Tensor,
    parts: list[Tensor],
    *,
    border_type: str,
    output_dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    return correlate2d_sum(image, parts, border_type, "same", 0.0, output_dtype, out, "auto")
