"""Helpers of the tests of compat.scipy_ndimage: noise of scipy's dtypes, and the comparison of both libraries.

Integers must be equal; floats may differ by TOLERANCE of the largest number that takes part.
"""

import numpy as np
import pytest
import scipy.ndimage as ndi

from torch_conv.compat import scipy_ndimage as ours

# The signatures and results are this release's; `axes` is younger than the oldest that tests may meet.
pytest.importorskip("scipy", minversion="1.17")
# scipy's own warnings: the root of a negative integer, a sum that float32 does not hold
scipys_warnings = pytest.mark.filterwarnings("ignore:invalid value encountered", "ignore:overflow encountered in cast")

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
MODES = ["nearest", "mirror", "reflect", "wrap", "constant", "grid-constant", "grid-mirror", "grid-wrap"]
TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 3e-7}


def noise(shape, dtype, seed=3, full=False):
    """Noise of any of scipy's dtypes; integers within 100 of zero, or with `full` over their whole range."""
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.random(shape) < 0.5
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        low, high = (limits.min, limits.max) if full else (max(limits.min, -100), min(limits.max, 100))
        return generator.integers(low, high, shape, dtype=dtype, endpoint=True)
    return (3 * generator.normal(size=shape)).astype(dtype)


def compare(got, expected, scale=1.0):
    """Two arrays, the same up to rounding; a byte of scipy's bool may be any, so only its truth is compared."""
    assert isinstance(got, np.ndarray)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    if expected.dtype == bool:
        expected = expected.view(np.uint8) != 0
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(got, expected)
        return
    finite = expected[np.isfinite(expected)]
    scale = max(scale, float(np.abs(finite).max(initial=0)))
    np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE[expected.dtype.newbyteorder("=")] * scale)


def agree(name, image, *args, **kwargs):
    image_before = np.array(image)
    got = getattr(ours, name)(image, *args, **kwargs)
    expected = getattr(ndi, name)(image, *args, **kwargs)
    finite = np.asarray(image, dtype=np.float64)[np.isfinite(np.asarray(image, dtype=np.float64))]
    compare(got, expected, scale=float(np.abs(finite).max(initial=1)))
    np.testing.assert_array_equal(image, image_before)
    return got
