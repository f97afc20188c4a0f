"""torch_conv.compat.scipy_ndimage has scipy.ndimage's results over dtypes, modes, windows and axes."""

import doctest
import itertools

import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from scipy_cases import DTYPES, MODES, agree, compare, noise, scipys_warnings

from torch_conv.compat import scipy_ndimage as ours

pytestmark = scipys_warnings

# A window of each kind that scipy tells apart: even, odd, neither, of no width, and as good as even.
WINDOWS = {
    "even": [0.25, 1.0, 0.3, 1.0, 0.25],
    "odd": [-1.5, 0.1, 0.7, -0.1, 1.5],
    "neither": [0.3, -0.2, 0.9],
    "two": [1.0, -0.4],
    "four": [0.1, 0.2, 0.3, 0.4],
    "one": [0.7],
    "thirds": [1 / 3, 1 / 3, 1 / 3],
    "nearly even": [1e-17, 2.0, 3e-17],
    "zeros": [0.0, 0.0, 0.0],
}


@pytest.mark.parametrize("name", ["", *ours.__all__])
def test_examples(name):
    documented = getattr(ours, name) if name else ours
    names = {n: getattr(ours, n) for n in ours.__all__} | {"torch": torch}
    example = doctest.DocTestParser().get_doctest(documented.__doc__, names, name, None, None)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
    for section in ("Args", "Returns", "Raises", "Equivalent to", "Example") if name else ():
        assert f"    {section}:\n" in documented.__doc__


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["correlate1d", "convolve1d"])
def test_every_dtype_mode_and_origin_along_an_axis(name, dtype, mode):
    image = noise((3, 7), dtype, full=True)
    for window in WINDOWS.values():
        k = len(window)
        origins = {-(k // 2), 0, (k - 1) // 2}
        for axis, origin in itertools.product((0, -1), origins):
            origin = origin if name == "correlate1d" else -origin - (k + 1) % 2
            agree(name, image, window, axis, mode=mode, cval=1.5, origin=origin)


@pytest.mark.parametrize("output", DTYPES[1:])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_output_dtype(dtype, output):
    """Every cast: fractions are cut, negative and large numbers wrap, and 64 bits take more than a double holds."""
    image = noise((5, 8), dtype, full=True)
    agree("correlate1d", image, [-1.5, 0.3, 1.2], output=output)
    agree("correlate", image, [[-1.5, 0.3, 1.2], [0.4, 0, 1]], output=output)
    agree("gaussian_filter", image, 0, output=output)
    small = noise((5, 8), dtype)
    if dtype.startswith(("uint", "bool")) or output.startswith("float"):  # see test_means_that_scipy_rounds_otherwise
        agree("uniform_filter", small, (2, 3), output=output)
    for name in ("sobel", "prewitt", "laplace"):
        agree(name, small, output=output)
    for name in ("gaussian_filter", "gaussian_laplace", "gaussian_gradient_magnitude"):
        agree(name, small, 0.8, output=output)


@pytest.mark.parametrize("output", DTYPES[1:])
@pytest.mark.parametrize("name", ["correlate1d", "correlate"])
def test_casts_of_numbers_that_no_integer_holds(name, output):
    edges = [2.0**e for e in (7, 8, 15, 16, 31, 32, 53, 62, 63, 64, 70)]
    numbers = np.array([0.0, 0.9, 1.2, 127.5, *edges, *(e * (1 - 2.0**-52) for e in edges), *(e + 1.7 for e in edges)])
    numbers = np.concatenate([numbers, -numbers, [1e300, -1e300, np.inf, -np.inf, np.nan]])
    agree(name, numbers, [1.0], output=output)


def test_means_that_scipy_rounds_otherwise():
    """Its running sum carries rounding along the line, where it adds up floats or more bits than a double holds."""
    image = noise((9, 11), "float64")
    got, expected = ours.uniform_filter1d(image, 3, 0, np.int32), ndi.uniform_filter1d(image, 3, 0, np.int32)
    np.testing.assert_allclose(got, expected, atol=1)
    assert (got == expected).mean() > 0.9
    image = noise((9, 11), "int64", full=True)
    got, expected = ours.uniform_filter(image, 3), ndi.uniform_filter(image, 3)
    np.testing.assert_allclose(got.astype(float), expected.astype(float), rtol=0, atol=2.0**63 * 1e-15)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(13,), (6, 5), (3, 4, 5), (2, 3, 2, 4), (2, 2, 3, 1, 3)])
@pytest.mark.parametrize("name", ["correlate", "convolve"])
def test_windows_along_all_axes(name, shape, mode):
    generator = np.random.default_rng(len(shape))
    for dtype, trial in itertools.product(("uint8", "int32", "float32", "float64"), range(4)):
        window = generator.normal(size=generator.integers(1, 4 if len(shape) > 3 else 6, len(shape)))
        if trial % 2:
            window = np.where(generator.random(window.shape) < 0.4, 0, window.round())
        origin = [int(generator.integers(-((k - 1) // 2), (k - 1) // 2 + 1)) for k in window.shape]
        agree(name, noise(shape, dtype, trial), window, mode=mode, cval=-2.0, origin=origin)
        agree(name, noise(shape, dtype, trial), window, mode=mode)


@pytest.mark.parametrize(
    "axes", [(0,), (1,), (2,), (0, 1), (2, 0), (1, 2), (-1, 1), (2, 1, 0), (0, 1, 2), 1, [0, 2], None]
)
@pytest.mark.parametrize("name", ["correlate", "convolve"])
def test_windows_along_some_axes(name, axes):
    image = noise((4, 5, 6), "float64")
    count = 3 if axes is None else np.size(axes)
    window = np.random.default_rng(1).normal(size=(3, 5, 4)[:count])
    agree(name, image, window, axes=axes, mode="wrap")
    agree(name, image, np.ones((3,) * count), axes=axes, origin=[1, -1, 0][:count])
    agree(name, image.astype(np.uint8), np.ones((3,) * count) / 3, axes=axes, origin=-1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_windows_larger_than_the_image(n, mode):
    image = noise((n, 2), "int16")
    weights = np.random.default_rng(n).normal(size=(9, 11))
    for dtype in ("int16", "float64"):
        agree("correlate", image, weights, output=dtype, mode=mode, cval=3.0, origin=(-4, 2))
        agree("correlate1d", image, weights[0], 0, output=dtype, mode=mode, cval=3.0, origin=5)
        agree("uniform_filter", image.astype(dtype), (10, 7), mode=mode, cval=3.0, origin=(4, -3))
        agree("gaussian_filter", image, 3, output=dtype, mode=mode, cval=3.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(40,), (7, 9), (3, 4, 5), (2, 3, 2, 3), (2, 1, 2, 2, 3)])
def test_gaussians(shape, dtype):
    image = noise(shape, dtype)
    dims = len(shape)
    modes = (MODES * 2)[:dims]
    sigmas = [0.5, 1.2, 0, 0.9, 2.0][:dims]
    agree("gaussian_filter", image, 1)
    agree("gaussian_filter", image, sigmas, [0, 1, 2, 0, 3][:dims], mode=modes, cval=2.0)
    agree("gaussian_filter", image, 1.1, mode="constant", cval=-7.5, truncate=2.5)
    agree("gaussian_filter", image, 1.1, radius=[2, 0, 1, 3, 1][:dims])
    agree("gaussian_filter", image, 0.7, axes=(dims - 1,), order=1, radius=2)
    agree("gaussian_filter", image, [0.7], axes=-1, mode=["mirror"])
    for order in range(5):
        agree("gaussian_filter1d", image, 1.3, 0, order, mode=MODES[order])
    agree("gaussian_filter1d", image, np.float32(2.5), truncate=3, output="float64")
    agree("gaussian_filter1d", image, 0.6, radius=6, cval=4, mode="constant")


@pytest.mark.parametrize(
    "sigma", [0.3, 1e-2, 1e-5, 1e-14, 1e-100, np.float32(1e-3), np.float32(1e-20), np.float64(1e-140)]
)
def test_tiny_sigmas(sigma):
    """Orders from 1 on divide by the variance, in float64 whatever the sigma's type."""
    image = noise((6, 7), "float64")
    for order, radius in itertools.product(range(4), (None, 2)):
        with np.errstate(all="ignore"):
            agree("gaussian_filter1d", image, sigma, 0, order, radius=radius)
            agree("gaussian_filter", image, sigma, order, radius=radius)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if not d.endswith("64")] + ["float64"])
@pytest.mark.parametrize("shape", [(40,), (7, 9), (3, 4, 5), (2, 3, 2, 3), (2, 1, 2, 2, 3)])
def test_boxes(shape, dtype):
    image = noise(shape, dtype, full=True)
    dims = len(shape)
    agree("uniform_filter", image)
    agree("uniform_filter", image, [2, 5, 1, 4, 3][:dims], origin=[-1, 2, 0, 1, 1][:dims], mode=(MODES * 2)[:dims])
    agree("uniform_filter", image, 4, axes=(dims - 1,), mode="constant", cval=9)
    agree("uniform_filter", image, 1)
    agree("uniform_filter", image, [0, -3, 1, 1, 1][:dims])
    for size, axis in itertools.product((1, 2, 3, 8, 50), (0, -1)):
        for origin in {-(size // 2), 0, (size - 1) // 2}:
            agree("uniform_filter1d", image, size, axis, mode=MODES[size % 8], cval=-3, origin=origin)


@pytest.mark.parametrize("output", [None, "float32", "float64", "int16", "uint8"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_derivatives(dtype, output):
    for shape in [(11,), (6, 7), (3, 4, 5), (2, 3, 2, 3)]:
        image, dims = noise(shape, dtype), len(shape)
        modes = (MODES * 2)[3 : 3 + dims]
        for name, axis in itertools.product(("sobel", "prewitt"), (0, -1)):
            agree(name, image, axis, output, modes, 2.5)
        agree("laplace", image, output, modes, 2.5)
        agree("laplace", image, output, axes=(-1,))
        agree("gaussian_laplace", image, 0.8, output, modes, 2.5, truncate=3)
        agree("gaussian_laplace", image, [0.8], output, axes=(dims - 1,), radius=2)
        agree("gaussian_gradient_magnitude", image, 0.8, output, modes, 2.5)
        agree("gaussian_gradient_magnitude", image, [0.8] * dims, output, axes=(dims - 1,), radius=2)


@pytest.mark.parametrize("level", [1, 3, 7, 100, 200, 255])
def test_flat_images_come_out_as_scipys(level):
    """The sum is within rounding of an integer everywhere: its order decides the integer."""
    image = np.full((24, 31), level, np.uint8)
    for sigma in (0.6, 1.0, 1.7, 3.3):
        agree("gaussian_filter", image, sigma)
    for weights in (np.ones((3, 3)) / 9, np.full((5, 7), 1 / 35), np.ones((1, 10)) / 10, np.ones((3, 3, 3)) / 27):
        agree("correlate", np.broadcast_to(image, (4, 24, 31)) if weights.ndim == 3 else image, weights)
    image[::9, ::13] = 0
    agree("gaussian_filter", image, 1.2)  # some sums are near integers, most are not
    agree("correlate", image, np.ones((3, 3)) / 9, mode="constant", cval=0.1)


def test_means_by_fractions_that_no_float_holds():
    image = noise((40, 50), "uint8", full=True)
    for k in (3, 5, 6, 7):
        agree("correlate", image, np.full((k, k), 1 / k**2))
        agree("correlate1d", image, np.full(k, 1 / k), mode="wrap")
        agree("correlate", image.astype(np.float32), np.full((k, k), 1 / k**2), output=np.int16)


@pytest.mark.parametrize("cval", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("special", [None, np.nan, np.inf, -np.inf])
def test_numbers_that_are_none(special, cval):
    """Taps of zero count along one axis, and are left out of windows along all."""
    image = noise((7, 9), "float64")
    if special is not None:
        image[3, 4] = special
    cross = [[0, 1, 0], [1, -4, 1], [0, 1, 0]]
    for output in ("float64", "float32", "int16", "int64"):
        agree("correlate", image, cross, output, "constant", cval)
        agree("correlate", image, np.zeros((3, 3)), output, "constant", cval)
        agree("correlate", image, np.ones((3, 2)), output, "constant", cval)
        agree("correlate1d", image, [1, 0, 2], 0, output, "constant", cval)
        agree("gaussian_filter", image, 0.5, 0, output, "constant", cval)
        agree("sobel", image, 0, output, "constant", cval)
    agree("correlate", noise((7, 9), "uint8"), cross, "float64", "constant", cval)
    agree("correlate", image[:, :, None, None] * np.ones((2, 2)), np.eye(3)[:, :, None, None] * np.eye(2), mode="wrap")


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(("mode", "pad"), [("reflect", "symmetric"), ("mirror", "reflect"), ("wrap", "wrap")])
def test_windows_that_reach_far_beyond_a_short_axis(mode, pad, n):
    """The documented extension; scipy's own correlate reads other pixels from four lengths on with `reflect`."""
    image = noise((n,), "float64")
    for radius in (1, 4 * n - 1, 4 * n, 30):
        window = np.arange(2 * radius + 1.0)
        extended = np.pad(image, radius, pad)
        expected = np.array([(extended[i : i + len(window)] * window).sum() for i in range(n)])
        compare(ours.correlate(image, window, mode=mode), expected, window.sum())
        compare(ours.correlate1d(image, window, mode=mode), expected, window.sum())


def test_tiny_taps():
    """scipy takes a tap within 2.2e-16 of zero for zero, and a window within that of an even one for even."""
    image = noise((6, 7), "float64")
    agree("correlate", image, np.array([[1e-16, 2e-16], [3e-16, 1e-17]]))
    agree("correlate1d", 1e17 * image, [1e-17, 0, 5e-17])
    agree("correlate1d", 1e17 * image, [1e-17, 0, -5e-17])


def test_a_mean_keeps_nan_and_inf_in_their_windows():
    """scipy's running sum carries NaN and infinities to the end of the line."""
    image = np.array([1.0, 2, np.nan, 4, 5, 6, np.inf, 8, 9])
    expected = [4 / 3, np.nan, np.nan, np.nan, 5, np.inf, np.inf, np.inf, 26 / 3]
    np.testing.assert_allclose(ours.uniform_filter1d(image, 3), expected)
    assert np.isnan(ndi.uniform_filter1d(image, 3)[4])
    got = ours.uniform_filter(np.ones((2, 4)), (1, 3), mode="constant", cval=np.nan)
    np.testing.assert_array_equal(got, [[np.nan, 1, 1, np.nan]] * 2)
