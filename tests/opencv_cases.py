"""Cases of the tests of compat.cv2: the functions, OpenCV's dtypes, images and windows."""

import pytest

np = pytest.importorskip("numpy")

DTYPES = ["uint8", "uint16", "int16", "float32", "float64"]
FUNCTIONS = ["filter2D", "sepFilter2D", "GaussianBlur", "blur", "boxFilter", "Sobel", "Scharr", "Laplacian"]


def image(shape, dtype, seed=0, least=None):
    """Noise: normal for floats, the whole range for integers."""
    generator = np.random.default_rng([seed, *shape])
    if dtype.startswith("float"):
        return generator.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return generator.integers(limits.min if least is None else least, limits.max + 1, shape).astype(dtype)


def window(*shape, seed=1):
    """Taps whose absolute values add up to 1."""
    taps = np.random.default_rng([seed, *shape]).standard_normal(shape)
    return taps / np.abs(taps).sum()
