"""OpenCV's linear filters under their own names: `from torch_conv.compat import cv2 as fast`.

Arguments, their order, defaults and constants are OpenCV 5's. Sizes and anchors are (width, height) and (x, y), and
kernels come x first. Images are (H, W) or (H, W, C) with any number of channels, and (H, W, 1) gives (H, W). A numpy
array gives a numpy array; a torch tensor gives a tensor on its device. The exchange copies nothing. `dst` is written
and returned if it has the shape, dtype and device of the result. Otherwise, as in OpenCV, a new image is returned.

Results are OpenCV's up to the rounding of sums. Integers are always rounded half to even here. OpenCV rounds up in
fixed point: in GaussianBlur, means and some calls of sepFilter2D on 8 and 16 bits. There a result that lies halfway
differs by one, and so do some others in means of an even number of pixels. Negative sums of int16 are 0 in an unsigned
result; OpenCV's boxFilter makes them the largest number. Depths and BORDER_WRAP are refused where OpenCV takes them
only for some sizes, dtypes or processors: in `filter2D` with many taps, in `blur` of floats.

    >>> import torch
    >>> from torch_conv.compat import cv2 as fast
    >>> fast.Sobel(torch.arange(5, dtype=torch.uint8).expand(3, 5), fast.CV_16S, 1, 0)[1]
    tensor([0, 8, 8, 8, 0], dtype=torch.int16)
"""

from torch_conv.compat._missing import missing
from torch_conv.compat.cv2._call import (
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
)
from torch_conv.compat.cv2._correlate import filter2D, sepFilter2D
from torch_conv.compat.cv2._edges import Laplacian, Scharr, Sobel
from torch_conv.compat.cv2._smooth import GaussianBlur, blur, boxFilter

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

__getattr__ = missing("compat.cv2", "cv2")


def __dir__() -> list[str]:
    return __all__
