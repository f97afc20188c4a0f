"""The linear filters of scipy.ndimage: `from torch_conv.compat.scipy_ndimage import gaussian_filter`.

Arguments, defaults and results are scipy's: sums in float64, which every pass stores in the output's dtype by a cast of
C (an integer is cut, not rounded, and wraps), images of any number of axes, and scipy's exceptions with its sentences.
numpy arrays and lists give numpy arrays; tensors give tensors, on their device. Dtypes are bool, the integers of 8 to
64 bits, float32 and float64; scipy refuses float16, and complex numbers are refused here.

On the CPU sums are taken in scipy's order, so results are the same to the last bit. On other devices, and where a
gradient is wanted, floats are the same up to rounding. There a sum that becomes an integer is taken again in scipy's
order if rounding would decide which. That, and a look for NaN where a window holds zeros, waits for the device.

Three things differ. In `uniform_filter` NaN and Inf stay in the windows that hold them, while scipy's running sum drags
them along to the end of the line, and its rounding too, which shows in integers beyond `2**53` and in those cut from
floats. float16 is refused even where nothing is filtered. Weights that require a gradient are refused; tensors of
float32 and float64 hand gradients on as the library's filters do.

    >>> import numpy as np
    >>> from torch_conv.compat.scipy_ndimage import uniform_filter
    >>> uniform_filter(np.array([[0, 90, 180], [90, 180, 255]], dtype=np.uint8), size=(1, 3))
    array([[ 30,  90, 150],
           [120, 175, 230]], dtype=uint8)
"""

from torch_conv.compat._missing import missing
from torch_conv.compat.scipy_ndimage._derivatives import (
    gaussian_gradient_magnitude,
    gaussian_laplace,
    laplace,
    prewitt,
    sobel,
)
from torch_conv.compat.scipy_ndimage._smooth import gaussian_filter, gaussian_filter1d, uniform_filter, uniform_filter1d
from torch_conv.compat.scipy_ndimage._windows import convolve, convolve1d, correlate, correlate1d

__all__ = [
    "convolve",
    "convolve1d",
    "correlate",
    "correlate1d",
    "gaussian_filter",
    "gaussian_filter1d",
    "gaussian_gradient_magnitude",
    "gaussian_laplace",
    "laplace",
    "prewitt",
    "sobel",
    "uniform_filter",
    "uniform_filter1d",
]

__getattr__ = missing("compat.scipy_ndimage", "scipy.ndimage")
