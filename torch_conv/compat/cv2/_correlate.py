"""filter2D and sepFilter2D: a dense kernel, or a row and a column."""
# ruff: noqa: N802 (the names are OpenCV's)

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from torch_conv.compat._types import Array, ArrayImage
from torch_conv.compat.cv2._call import BORDER_DEFAULT, OF_FILTER2D, OF_PASSES, Call
from torch_conv.functional.filters import filter2d, filter2d_separable


def filter2D(
    src: ArrayImage,
    ddepth: int,
    kernel: Tensor | Array | tuple[float, ...],
    dst: ArrayImage | None = None,
    anchor: Sequence[int] = (-1, -1),
    delta: float = 0,
    borderType: int = BORDER_DEFAULT,
) -> ArrayImage:
    """Correlates every channel of an image with a kernel.

    Args:
        src: image (H, W) or (H, W, C) of dtype uint8, uint16, int16, float32 or float64; array or tensor, any strides.
        ddepth: CV_8U, CV_16U, CV_16S, CV_32F or CV_64F, the result's dtype, also as a type with channels (CV_8UC3);
            negative takes the image's. 8 bits go to every depth, 16 bits to themselves or to floats, floats to
            themselves.
        kernel: taps (kH, kW) of any real dtype; array or tensor, which may stay on the CPU. (k,) is a row, as in OpenCV
            5 (OpenCV 4 reads a column); a tuple of numbers is a column.
        dst: image that receives the result; a number is ignored, as in OpenCV.
        anchor: the tap (x, y) that lies on the pixel; -1 means the middle, k // 2.
        delta: number added to every sum before rounding.
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
    window = window.reshape(1, -1) if window.dim() < 2 else window
    if window.dim() != 2 or window.numel() == 0:
        raise ValueError(f"filter2D: kernel must be (kH, kW), got {tuple(window.shape)}")
    at = call.anchor(anchor, window.size(1), window.size(0))
    return call.run(filter2d, window, rows=window.size(0), delta=call.number("delta", delta), anchor=at)


def sepFilter2D(
    src: ArrayImage,
    ddepth: int,
    kernelX: Tensor | Array | tuple[float, ...],
    kernelY: Tensor | Array | tuple[float, ...],
    dst: ArrayImage | None = None,
    anchor: Sequence[int] = (-1, -1),
    delta: float = 0,
    borderType: int = BORDER_DEFAULT,
) -> ArrayImage:
    """Correlates every channel of an image with a kernel along its rows and one along its columns.

    Args:
        src: image, as in `filter2D`.
        ddepth: as in `filter2D`, but every depth is taken, save CV_32F for float64.
        kernelX: taps along the width: (kW,), (1, kW) or (kW, 1), of any real dtype, or a tuple of numbers.
        kernelY: taps along the height, likewise and of the same dtype.
        dst: image that receives the result.
        anchor: the tap (x, y) that lies on the pixel; -1 means the middle, k // 2.
        delta: number added to every sum before rounding.
        borderType: as in `filter2D`.

    Returns:
        Image of src's shape and kind; values between the passes are not rounded.

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
    x, y = call.row("kernelX", kernelX), call.row("kernelY", kernelY)
    if x.dtype != y.dtype:
        x_dtype, y_dtype = (str(taps.dtype).removeprefix("torch.") for taps in (x, y))
        raise TypeError(f"sepFilter2D: kernelX and kernelY must have one dtype, got {x_dtype} and {y_dtype}")
    width, height = x.numel(), y.numel()  # len() of a tensor takes a microsecond
    at = call.anchor(anchor, width, height)
    return call.run(filter2d_separable, x, y, rows=height, delta=call.number("delta", delta), anchor=at)
