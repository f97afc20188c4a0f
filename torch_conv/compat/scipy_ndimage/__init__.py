"""The linear filters of scipy.ndimage: `from torch_conv.compat.scipy_ndimage import gaussian_filter`.

Arguments, defaults, results and exceptions are scipy's, for images of any number of axes. Sums are in float64, and
every pass stores them in the output's dtype by a cast of C: an integer is cut, not rounded, and wraps. numpy arrays and
lists give numpy arrays; tensors give tensors on their device. Dtypes are bool, the integers of 8 to 64 bits, float32
and float64. scipy refuses float16; this module also refuses complex numbers.

On the CPU sums follow scipy's order, so results are the same to the last bit. On other devices, and for gradients,
floats are the same up to rounding. There a sum that becomes an integer is computed again in scipy's order if rounding
could change the integer. This check, and the one for NaN under taps of zero, synchronise with the device.

Three things differ. In `uniform_filter` NaN and Inf stay in the boxes that hold them. There scipy's running sum carries
them to the end of the line, and its rounding, too. The rounding shows in integers beyond `2**53` and in those cut from
floats. float16 is refused even where no axis is filtered. Weights that require a gradient are refused; tensors of
float32 and float64 propagate gradients as in the library's filters.

    >>> import numpy as np
    >>> from torch_conv.compat.scipy_ndimage import uniform_filter
    >>> uniform_filter(np.array([[0, 90, 180], [90, 180, 255]], dtype=np.uint8), size=(1, 3))
    array([[ 30,  90, 150],
           [120, 175, 230]], dtype=uint8)
"""

from torch_conv.compat._missing import missing
from torch_conv.compat.scipy_ndimage._correlate import convolve, convolve1d, correlate, correlate1d
from torch_conv.compat.scipy_ndimage._derivatives import (
    gaussian_gradient_magnitude,
    gaussian_laplace,
    laplace,
    prewitt,
    sobel,
)
from torch_conv.compat.scipy_ndimage._smooth import gaussian_filter, gaussian_filter1d, uniform_filter, uniform_filter1d

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


def __dir__() -> list[str]:
    return __all__
