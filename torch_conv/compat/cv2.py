"""OpenCV's linear filters under their own names: `from torch_conv.compat import cv2`.

Arguments, their order, defaults and constants are OpenCV 5's: sizes and anchors are (width, height) and (x, y), kernels
come x first, images are (H, W) or (H, W, C) with any number of channels, and (H, W, 1) gives (H, W). What a numpy array
goes into returns one; what a torch tensor goes into returns one on its device, and nothing is copied for the exchange.
`dst` is written and returned where its shape and dtype (and device) are the result's; else, as in OpenCV, it is left
alone and a new image is returned.

Results are OpenCV's up to the rounding of sums. Integers are always rounded half to even here. OpenCV rounds up where
it works in fixed point: in GaussianBlur, means and some calls of sepFilter2D on 8 and 16 bits. There a result that lies
halfway differs by one, and so do some others in means of an even number of pixels. Sums of int16 that are negative are
0 in an unsigned result; OpenCV's boxFilter makes them the largest number. Depths and BORDER_WRAP are refused where
OpenCV takes them for some sizes, dtypes or processors alone: in `filter2D` with many taps, in `blur` of floats.

    >>> import torch
    >>> from torch_conv.compat import cv2
    >>> cv2.Sobel(torch.arange(5, dtype=torch.uint8).expand(3, 5), cv2.CV_16S, 1, 0)[1]
    tensor([0, 8, 8, 8, 0], dtype=torch.int16)
"""
# ruff: noqa: N802 (the names are OpenCV's)

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_conv.compat._cv2_call import (
    ALGO_HINT_ACCURATE,
    ALGO_HINT_APPROX,
    ALGO_HINT_DEFAULT,
    BORDER_CONSTANT,
    BORDER_DEFAULT,
    BORDER_ISOLATED,
    BORDER_REFLECT,
    BORDER_REFLECT101,
    BORDER_REFLECT_101,
    BORDER_REPLICATE,
    BORDER_TRANSPARENT,
    BORDER_WRAP,
    CV_8U,
    CV_16S,
    CV_16U,
    CV_32F,
    CV_64F,
    FILTER_SCHARR,
    OF_BOX,
    OF_FILTER2D,
    OF_PASSES,
    Call,
    whole,
)
from torch_conv.compat._cv2_taps import derivative_rows, differences, gaussian_rows, laplacian_parts
from torch_conv.functional._composites import sum_of_passes
from torch_conv.functional._windows import remembered
from torch_conv.functional.filters import box_blur, filter2d, filter2d_separable

__all__ = [
    "ALGO_HINT_ACCURATE",
    "ALGO_HINT_APPROX",
    "ALGO_HINT_DEFAULT",
    "BORDER_CONSTANT",
    "BORDER_DEFAULT",
    "BORDER_ISOLATED",
    "BORDER_REFLECT",
    "BORDER_REFLECT101",
    "BORDER_REFLECT_101",
    "BORDER_REPLICATE",
    "BORDER_TRANSPARENT",
    "BORDER_WRAP",
    "CV_8U",
    "CV_16S",
    "CV_16U",
    "CV_32F",
    "CV_64F",
    "FILTER_SCHARR",
    "GaussianBlur",
    "Laplacian",
    "Scharr",
    "Sobel",
    "blur",
    "boxFilter",
    "filter2D",
    "sepFilter2D",
]


def filter2D(
    src: Any,
    ddepth: int,
    kernel: Any,
    dst: Any = None,
    anchor: Sequence[int] = (-1, -1),
    delta: float = 0,
    borderType: int = BORDER_DEFAULT,
) -> Any:
    """Correlates every channel of an image with a window.

    Args:
        src: image (H, W) or (H, W, C) of dtype uint8, uint16, int16, float32 or float64; array or tensor, any strides.
        ddepth: CV_8U, CV_16U, CV_16S, CV_32F or CV_64F, the result's dtype; negative takes the image's. 8 bits go to
            every depth, 16 bits to themselves or to floats, floats to themselves.
        kernel: the window (kH, kW) of any real dtype; array or tensor, which may stay on the CPU.
        dst: image that receives the result.
        anchor: the tap (x, y) that lies on the pixel; -1 means the middle, k // 2.
        delta: what is added to every sum before it is rounded.
        borderType: BORDER_CONSTANT (zeros), BORDER_REPLICATE, BORDER_REFLECT or BORDER_REFLECT_101; BORDER_ISOLATED
            may be added and changes nothing.

    Returns:
        Image of src's shape and kind.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `cv2.filter2D`

    Example:
        >>> filter2D(torch.arange(5.0).reshape(1, 5), -1, torch.ones(1, 3), borderType=BORDER_CONSTANT)
        tensor([[1., 3., 6., 9., 7.]])
    """
    call = Call("filter2D", src, dst, borderType, ddepth, OF_FILTER2D)
    window = call.taps("kernel", kernel)
    if window.dim() == 3 and window.size(2) == 1:
        window = window[:, :, 0]
    if window.dim() != 2 or window.numel() == 0:
        raise ValueError(f"filter2D: kernel must be (kH, kW), got {tuple(window.shape)}")
    at = call.anchor(anchor, window.size(1), window.size(0))
    return call.run(filter2d, window, delta=delta, anchor=at)


def sepFilter2D(
    src: Any,
    ddepth: int,
    kernelX: Any,
    kernelY: Any,
    dst: Any = None,
    anchor: Sequence[int] = (-1, -1),
    delta: float = 0,
    borderType: int = BORDER_DEFAULT,
) -> Any:
    """Correlates every channel of an image with a window along its rows and one along its columns.

    Args:
        src: image, as in `filter2D`.
        ddepth: as in `filter2D`, but every depth is taken, save CV_32F for float64.
        kernelX: taps along the width: (kW,), (1, kW) or (kW, 1), of any real dtype.
        kernelY: taps along the height, likewise and of the same dtype.
        dst: image that receives the result.
        anchor: the tap (x, y) that lies on the pixel; -1 means the middle, k // 2.
        delta: what is added to every sum before it is rounded.
        borderType: as in `filter2D`.

    Returns:
        Image of src's shape and kind; what lies between the passes is not rounded.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `cv2.sepFilter2D`

    Example:
        >>> sepFilter2D(torch.arange(5.0).reshape(1, 5), -1, torch.ones(3), torch.ones(1), delta=0.5)
        tensor([[ 2.5000,  3.5000,  6.5000,  9.5000, 10.5000]])
    """
    call = Call("sepFilter2D", src, dst, borderType, ddepth, OF_PASSES)
    x, y = (call.row(n, k) for n, k in (("kernelX", kernelX), ("kernelY", kernelY)))
    dtypes = [str(k.dtype).removeprefix("torch.") for k in (kernelX, kernelY)]
    if dtypes[0] != dtypes[1]:
        raise TypeError(f"sepFilter2D: kernelX and kernelY must have one dtype, got {dtypes[0]} and {dtypes[1]}")
    return call.run(filter2d_separable, x, y, delta=delta, anchor=call.anchor(anchor, len(x), len(y)))


def GaussianBlur(
    src: Any,
    ksize: Sequence[int],
    sigmaX: float,
    dst: Any = None,
    sigmaY: float = 0,
    borderType: int = BORDER_DEFAULT,
    hint: int = ALGO_HINT_DEFAULT,
) -> Any:
    """Smooths an image with a sampled Gaussian.

    On 8 and 16 unsigned bits the taps are OpenCV's: multiples of 1/256 and 1/65536 that add up to 1.

    Args:
        src: image, as in `filter2D`.
        ksize: (width, height) of the window, odd; 0 takes it from a sigma > 0: the odd number next to
            6 sigma + 1 for uint8 and 8 sigma + 1 for the others.
        sigmaX: standard deviation in pixels along the width; 0 takes it from the size, 0.15 width + 0.35, and for a
            width up to 9 fixed binary fractions.
        dst: image that receives the result.
        sigmaY: that along the height; 0 takes sigmaX.
        borderType: as in `filter2D`; for uint8 and uint16 also BORDER_WRAP.
        hint: taken for OpenCV's sake; it changes nothing.

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
    if torch.is_grad_enabled() and any(isinstance(s, Tensor) and s.requires_grad for s in (sigmaX, sigmaY)):
        raise RuntimeError("GaussianBlur: sigmas that require a gradient are not served")
    sigma_x, sigma_y = float(sigmaX), float(sigmaY)
    if not (math.isfinite(sigma_x) and math.isfinite(sigma_y)):
        raise ValueError(f"GaussianBlur: sigmaX and sigmaY must be finite, got {sigma_x} and {sigma_y}")
    if call.border != "constant":
        # Along an axis of length 1 every border repeats the one pixel, so OpenCV leaves that pass out.
        rows, columns = call.image.shape[-2:]
        width, height = 1 if columns == 1 else width, 1 if rows == 1 else height
    if sigma_y <= 0:
        sigma_y = sigma_x
    reach = 3 if call.image.dtype == torch.uint8 else 4
    if width <= 0 and sigma_x > 0:
        width = round(2 * reach * sigma_x + 1) | 1
    if height <= 0 and sigma_y > 0:
        height = round(2 * reach * sigma_y + 1) | 1
    if width <= 0 or width % 2 == 0 or height <= 0 or height % 2 == 0:
        raise ValueError(f"GaussianBlur: ksize must be odd, or 0 where a sigma is given, got ({width}, {height})")
    bits = {torch.uint8: 8, torch.uint16: 16}.get(call.image.dtype, 0)
    x, y = remembered(gaussian_rows, width, height, max(sigma_x, 0.0), max(sigma_y, 0.0), bits, call.sums)
    return call.run(filter2d_separable, x, y)


def blur(
    src: Any,
    ksize: Sequence[int],
    dst: Any = None,
    anchor: Sequence[int] = (-1, -1),
    borderType: int = BORDER_DEFAULT,
) -> Any:
    """The mean over a window around each pixel, at a cost that does not depend on its size.

    Args:
        src: image, as in `filter2D`.
        ksize: (width, height) of the window, each at least 1, odd or even.
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
    src: Any,
    ddepth: int,
    ksize: Sequence[int],
    dst: Any = None,
    anchor: Sequence[int] = (-1, -1),
    normalize: bool = True,
    borderType: int = BORDER_DEFAULT,
) -> Any:
    """The mean or the sum over a window around each pixel, at a cost that does not depend on its size.

    Args:
        src: image, as in `filter2D`.
        ddepth: as in `filter2D`, but every depth is taken.
        ksize: (width, height) of the window, each at least 1, odd or even.
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
    return _box("boxFilter", src, ddepth, ksize, dst, anchor, bool(normalize), borderType)


def Sobel(
    src: Any,
    ddepth: int,
    dx: int,
    dy: int,
    dst: Any = None,
    ksize: int = 3,
    scale: float = 1,
    delta: float = 0,
    borderType: int = BORDER_DEFAULT,
) -> Any:
    """A derivative of an image: differences along one axis or both, binomial smoothing along the rest of the window.

    Args:
        src: image, as in `filter2D`.
        ddepth: as in `sepFilter2D`.
        dx: order of the derivative along the width, less than the window's.
        dy: that along the height; one of the two is not 0.
        dst: image that receives the result.
        ksize: the window's size, odd, up to 31; 1 does not smooth, 0 or less (FILTER_SCHARR) is `Scharr`.
        scale: factor on the derivative.
        delta: what is added to it before it is rounded.
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
    dx, dy, size = (call.whole(n, k) for n, k in (("dx", dx), ("dy", dy), ("ksize", ksize)))
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
    src: Any,
    ddepth: int,
    dx: int,
    dy: int,
    dst: Any = None,
    scale: float = 1,
    delta: float = 0,
    borderType: int = BORDER_DEFAULT,
) -> Any:
    """A first derivative of an image: differences along one axis, (3, 10, 3) along the other.

    Args:
        src: image, as in `filter2D`.
        ddepth: as in `sepFilter2D`.
        dx: 1 for the derivative along the width, else 0.
        dy: 1 for that along the height, else 0.
        dst: image that receives the result.
        scale: factor on the derivative.
        delta: what is added to it before it is rounded.
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
    return _scharr(call, call.whole("dx", dx), call.whole("dy", dy), scale, delta)


def Laplacian(
    src: Any,
    ddepth: int,
    dst: Any = None,
    ksize: int = 1,
    scale: float = 1,
    delta: float = 0,
    borderType: int = BORDER_DEFAULT,
) -> Any:
    """The Laplacian of an image: the sum of its second derivatives.

    Args:
        src: image, as in `filter2D`.
        ddepth: as in `filter2D` for ksize 1 and 3; every depth from 5 on.
        dst: image that receives the result.
        ksize: the window's size, odd, up to 31. 1 is the 5-point stencil, 3 the (2, 0, 2), (0, -8, 0), (2, 0, 2); from
            5 on the two second derivatives of `Sobel` are added up.
        scale: factor on the Laplacian.
        delta: what is added to it before it is rounded.
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
    size = whole("Laplacian", "ksize", ksize)
    if size <= 0 or size % 2 == 0 or size > 31:
        raise ValueError(f"Laplacian: ksize must be odd, positive and not larger than 31, got {size}")
    call = Call("Laplacian", src, dst, borderType, ddepth, OF_FILTER2D if size <= 3 else OF_BOX)
    parts = remembered(laplacian_parts, size, float(scale), call.sums)
    if len(parts) == 1:
        return call.run(filter2d, parts[0], delta=delta)
    return call.run(_passes, parts, delta=delta)


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
    return call.run(box_blur, (height, width), normalized=normalize, anchor=call.anchor(anchor, width, height))


def _derivative(call: Call, x: Sequence[int], y: Sequence[int], scale: float, delta: float) -> Any:
    # OpenCV scales the window that smooths.
    in_x = float(scale) if sum(x) != 0 else 1.0
    in_y = float(scale) if sum(x) == 0 else 1.0
    rows = remembered(derivative_rows, tuple(x), tuple(y), in_x, in_y, call.sums)
    return call.run(filter2d_separable, *rows, delta=delta)


def _scharr(call: Call, dx: int, dy: int, scale: float, delta: float) -> Any:
    if (dx, dy) not in ((1, 0), (0, 1)):
        raise ValueError(f"{call.name}: dx and dy of Scharr's windows must be 1 and 0 or 0 and 1, got {dx} and {dy}")
    x, y = ((-1, 0, 1) if order else (3, 10, 3) for order in (dx, dy))
    return _derivative(call, x, y, scale, delta)


def _passes(
    image: Tensor, parts: list[Tensor], *, border_type: str, output_dtype: torch.dtype, out: Tensor | None
) -> Tensor:
    return sum_of_passes(image, parts, border_type, "same", 0.0, output_dtype, out, "auto")
