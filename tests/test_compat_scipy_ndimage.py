"""torch_conv.compat.scipy_ndimage beside scipy.ndimage: results, forms of arguments, and sentences of refusals.

Integers must be equal; floats lie within TOLERANCE of the largest number that takes part.
"""

from __future__ import annotations

import doctest
import inspect
import itertools

import numpy as np
import pytest
import scipy.ndimage as ndi
import torch

from torch_conv.compat import scipy_ndimage as ours

# The signatures and results are this release's; `axes` is younger than the oldest that tests may meet.
pytest.importorskip("scipy", minversion="1.17")
# scipy's own warnings: the root of a negative integer, a sum that float32 does not hold
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered", "ignore:overflow encountered in cast")

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"]
MODES = ["nearest", "mirror", "reflect", "wrap", "constant", "grid-constant", "grid-mirror", "grid-wrap"]
TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 3e-7}
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


def same_refusal(name, *args, **kwargs):
    """Both refuse, with the same type and the same words."""
    with pytest.raises(Exception) as theirs:
        getattr(ndi, name)(*args, **kwargs)
    with pytest.raises(Exception) as refusal:
        getattr(ours, name)(*args, **kwargs)
    assert (refusal.type, str(refusal.value)) == (theirs.type, str(theirs.value))


@pytest.mark.parametrize("name", ours.__all__)
def test_signatures_are_scipys(name):
    def plain(function):
        return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]

    assert plain(getattr(ours, name)) == plain(getattr(ndi, name))


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
    """The sum lies within rounding of an integer everywhere: its order decides what it is cut to."""
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


def test_tiny_taps():
    """scipy takes a tap within 2.2e-16 of zero for zero, and a window within that of an even one for even."""
    image = noise((6, 7), "float64")
    agree("correlate", image, np.array([[1e-16, 2e-16], [3e-16, 1e-17]]))
    agree("correlate1d", 1e17 * image, [1e-17, 0, 5e-17])
    agree("correlate1d", 1e17 * image, [1e-17, 0, -5e-17])


def test_a_mean_keeps_nan_and_inf_in_their_windows():
    """Where scipy's running sum drags them along to the end of the line."""
    image = np.array([1.0, 2, np.nan, 4, 5, 6, np.inf, 8, 9])
    expected = [4 / 3, np.nan, np.nan, np.nan, 5, np.inf, np.inf, np.inf, 26 / 3]
    np.testing.assert_allclose(ours.uniform_filter1d(image, 3), expected)
    assert np.isnan(ndi.uniform_filter1d(image, 3)[4])
    got = ours.uniform_filter(np.ones((2, 4)), (1, 3), mode="constant", cval=np.nan)
    np.testing.assert_array_equal(got, [[np.nan, 1, 1, np.nan]] * 2)


FORMS = {
    "transposed": lambda x: x.T,
    "reversed": lambda x: x[::-1, ::-2],
    "every other": lambda x: x[:, ::2],
    "broadcast": lambda x: np.broadcast_to(x[0], (4, x.shape[1])),
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
    "Fortran": np.asfortranarray,
    "list": lambda x: x.tolist(),
    "empty": lambda x: x[:0],
    "empty lines": lambda x: x[:, :0],
    "one pixel": lambda x: x[:1, :1],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "uint16", "float32", "float64"])
@pytest.mark.filterwarnings("error")
def test_every_form_of_an_array(form, dtype):
    image = FORMS[form](noise((6, 8), dtype))
    agree("correlate", image, [[1, 2], [3, 4], [0.5, 6]])
    agree("correlate", image, [[0.7]], output="int32")
    agree("convolve1d", image, [1, 2, 0.5], 0)
    agree("gaussian_filter", image, 1)
    agree("gaussian_filter", image, 0)
    agree("uniform_filter", image, 3)
    agree("sobel", image, mode="mirror")
    agree("laplace", image)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "weights", [[1, 2.5, 3], (1, 2, 3), np.arange(3)[::-1], np.float32([1, 2, 3]), np.array([True] * 3)]
)
def test_every_form_of_a_window(weights):
    image = noise((6, 8), "float64")
    for form in (weights, torch.tensor(np.array(weights)), torch.tensor(np.array(weights)).to(torch.bfloat16)):
        expected = np.asarray(weights, dtype=np.float64)
        compare(ours.correlate1d(image, form), ndi.correlate1d(image, expected), 100)
        compare(ours.convolve1d(image, form), ndi.convolve1d(image, expected), 100)
        compare(ours.correlate(image, form, axes=0), ndi.correlate(image, expected, axes=0), 100)


def test_images_without_axes():
    for image in (np.array(3.0), 3, np.uint8(7)):
        for name, args in [("correlate", (2.5,)), ("convolve", (np.array(-1),)), ("gaussian_filter", (1,))]:
            agree(name, image, *args)
        agree("uniform_filter", image)
        agree("laplace", image)
        agree("gaussian_laplace", image, 1)
        agree("gaussian_gradient_magnitude", image, 1, output="float32")
    got = ours.gaussian_filter(torch.tensor(3.0), 1)
    assert isinstance(got, torch.Tensor)
    assert got.shape == ()


CALLS = {
    "correlate": ([[1, 2, 0], [3, 4, 0.5]],),
    "convolve": ([[1, 2, 0], [3, 4, 0.5]],),
    "correlate1d": ([0.5, 1, 2],),
    "convolve1d": ([0.5, 1, 2],),
    "gaussian_filter": (1.1,),
    "gaussian_filter1d": (1.1,),
    "uniform_filter": (3,),
    "uniform_filter1d": (3,),
    "sobel": (),
    "prewitt": (),
    "laplace": (),
    "gaussian_laplace": (1.1,),
    "gaussian_gradient_magnitude": (1.1,),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_tensors_give_tensors(device, name, dtype):
    image = noise((6, 8), dtype)
    tensor = torch.from_numpy(image).to(device)
    got = getattr(ours, name)(tensor, *CALLS[name], mode="wrap")
    assert isinstance(got, torch.Tensor)
    assert got.device == tensor.device
    assert got.dtype == tensor.dtype
    compare(got.cpu().numpy(), getattr(ndi, name)(image, *CALLS[name], mode="wrap"), 100)
    assert torch.equal(tensor.cpu(), torch.from_numpy(image))
    turned = getattr(ours, name)(tensor.cpu().T.to(device), *CALLS[name])
    compare(turned.cpu().numpy(), getattr(ndi, name)(image.T, *CALLS[name]), 100)


@pytest.mark.parametrize("output", [torch.float32, np.float32, np.dtype("f4"), "float32", "f"])
@pytest.mark.parametrize("name", CALLS)
def test_output_names_a_dtype(device, name, output):
    image = noise((6, 8), "uint8")
    expected = getattr(ndi, name)(image, *CALLS[name], output=np.float32)
    compare(getattr(ours, name)(image, *CALLS[name], output=output), expected)
    got = getattr(ours, name)(torch.from_numpy(image).to(device), *CALLS[name], output=output)
    assert got.dtype == torch.float32
    compare(got.cpu().numpy(), expected)


@pytest.mark.parametrize("output", [float, int, bool, ">i2", np.dtype(">f8"), np.longlong])
@pytest.mark.parametrize("name", ["correlate", "gaussian_filter", "uniform_filter"])
def test_output_is_of_python_or_of_another_byte_order(name, output):
    got = agree(name, noise((6, 8), "int16"), *CALLS[name], output=output)
    assert got.dtype == np.dtype(output)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "bool", "float32", "float64"])
@pytest.mark.parametrize("name", CALLS)
def test_output_receives_the_result(device, name, dtype):
    image = noise((6, 8), "int16")
    expected = getattr(ndi, name)(image, *CALLS[name], output=np.dtype(dtype))
    for array in (np.ones((6, 8), dtype), np.ones((8, 6), dtype).T, np.ones((6, 16), dtype)[:, ::-2]):
        assert getattr(ours, name)(image, *CALLS[name], output=array) is array
        compare(array, expected)
        array[...] = 1
        assert getattr(ours, name)(torch.from_numpy(image).to(device), *CALLS[name], output=array) is array
        compare(array, expected)
    tensor = torch.ones(8, 6, dtype=torch.from_numpy(expected).dtype, device=device).T
    assert getattr(ours, name)(image, *CALLS[name], output=tensor) is tensor
    compare(tensor.cpu().numpy(), expected)
    tensor.fill_(1)
    assert getattr(ours, name)(torch.from_numpy(image).to(device), *CALLS[name], output=tensor) is tensor
    compare(tensor.cpu().numpy(), expected)


@pytest.mark.parametrize("name", CALLS)
def test_output_may_be_the_input(name):
    image = noise((6, 8), "float64")
    expected = getattr(ndi, name)(image, *CALLS[name])
    tensor = torch.from_numpy(image.copy())
    assert getattr(ours, name)(tensor, *CALLS[name], output=tensor) is tensor
    compare(tensor.numpy(), expected)
    assert getattr(ours, name)(image, *CALLS[name], output=image) is image
    compare(image, expected)


@pytest.mark.parametrize("name", [n for n in CALLS if not n.startswith("uniform")])
def test_gradients_pass_through(name):
    """The slope along a direction, of functions that are linear or nearly so over this step."""
    image = torch.from_numpy(noise((5, 6), "float64")).requires_grad_()
    direction = torch.from_numpy(noise((5, 6), "float64", seed=9)) * 1e-6
    getattr(ours, name)(image, *CALLS[name]).square().sum().backward()
    with torch.no_grad():
        ahead = getattr(ours, name)(image + direction, *CALLS[name]).square().sum()
        behind = getattr(ours, name)(image - direction, *CALLS[name]).square().sum()
    torch.testing.assert_close((image.grad * direction).sum(), (ahead - behind) / 2, rtol=1e-6, atol=1e-12)


X = np.arange(12.0).reshape(3, 4)
SQUARE = np.ones((3, 3))


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("gaussian_filter", (X, 1), {"mode": "bad"}),
        ("correlate", (X, SQUARE), {"mode": "symmetric"}),
        ("correlate", (X, SQUARE), {"mode": 3}),
        ("correlate", (X, SQUARE), {"mode": ["wrap", "wrap"]}),
        ("correlate1d", (X, [1]), {"mode": ["wrap"]}),
        ("correlate1d", (X, [1]), {"mode": None}),
        ("uniform_filter", (X,), {"mode": ["wrap"]}),
        ("sobel", (X,), {"mode": ["wrap"]}),
        ("laplace", (X,), {"mode": "no"}),
        ("correlate1d", (X, [1, 2, 3]), {"origin": 2}),
        ("correlate1d", (X, [1, 2]), {"origin": 1}),
        ("correlate1d", (X, [1, 2, 3]), {"origin": 1.0}),
        ("convolve1d", (X, [1, 2]), {"origin": 1}),
        ("correlate", (X, SQUARE), {"origin": 2}),
        ("correlate", (X, SQUARE), {"origin": (0, 1, 0)}),
        ("convolve", (X, SQUARE), {"origin": (0, -2)}),
        ("correlate", (X, SQUARE), {"origin": 1.0}),
        ("uniform_filter1d", (X, 3), {"origin": 2}),
        ("uniform_filter", (X, 3), {"origin": [0, -2]}),
        ("uniform_filter1d", (X, 0), {}),
        ("uniform_filter1d", (X, -1), {}),
        ("uniform_filter1d", (X, 3.0), {}),
        ("uniform_filter", (X, [3]), {}),
        ("correlate1d", (X, [1], 2), {}),
        ("correlate1d", (X, [1], 0.0), {}),
        ("uniform_filter1d", (X, 3, -3), {}),
        ("gaussian_filter1d", (X, 1, 5), {}),
        ("sobel", (X, 2), {}),
        ("prewitt", (X, -3), {}),
        ("sobel", (np.array(1.0),), {}),
        ("correlate1d", (np.array(1.0), [1]), {}),
        ("correlate", (X, SQUARE), {"axes": (0, 2)}),
        ("correlate", (X, [1, 2]), {"axes": -1}),
        ("correlate", (X, SQUARE), {"axes": (0,)}),
        ("gaussian_filter", (X, 1), {"axes": (0, 0)}),
        ("gaussian_filter", (X, 1), {"axes": 7}),
        ("gaussian_filter", (X, 1), {"axes": 1.5}),
        ("gaussian_filter", (X, 1), {"axes": len}),
        ("laplace", (X,), {"axes": (1, -1)}),
        ("correlate", (X, [1, 2, 3]), {}),
        ("convolve", (X, np.ones((3, 3, 3))), {}),
        ("correlate", (X, np.ones((3, 0))), {}),
        ("correlate1d", (X, []), {}),
        ("correlate1d", (X, [[1]]), {}),
        ("convolve1d", (X, []), {}),
        ("correlate1d", (X, 3.0), {}),
        ("gaussian_filter", (X, [1]), {}),
        ("gaussian_filter", (X, 1, -1), {}),
        ("gaussian_filter1d", (X, -1), {}),
        ("gaussian_filter1d", (X, 0), {}),
        ("gaussian_filter1d", (X, 1), {"radius": 1.5}),
        ("gaussian_filter", (X, 1), {"radius": -1}),
        ("gaussian_laplace", (X, [1, 2, 3]), {}),
        ("gaussian_laplace", (X, 1), {"reach": 2}),
        ("gaussian_gradient_magnitude", (X, [1]), {"axes": (0,)}),
        ("correlate", (X, SQUARE), {"output": np.zeros((4, 3))}),
        ("gaussian_filter", (X, 1), {"output": "bool"}),
        ("gaussian_filter", (X, 1), {"output": "nonsense"}),
        ("gaussian_filter", (X, 1), {"output": np.float16}),
        ("correlate", (X, SQUARE), {"output": np.float16}),
        ("gaussian_filter", (X, 1), {"output": object}),
        ("uniform_filter", (X.astype(np.float16),), {}),
        ("correlate", (X.astype(np.float16), SQUARE), {}),
        ("sobel", (X.astype(np.longdouble),), {}),
        ("laplace", (X.astype(object),), {}),
        ("correlate1d", (X, [1]), {"cval": None}),
        ("correlate", (X, SQUARE), {"cval": "1"}),
    ],
)
def test_refusals_are_scipys(name, args, kwargs):
    same_refusal(name, *args, **kwargs)


def test_a_read_only_output_is_refused():
    array = X.copy()
    array.flags.writeable = False
    same_refusal("gaussian_filter", X, 1, output=array)
    same_refusal("correlate", X, SQUARE, output=array)


def test_dtypes_of_torch_alone_are_refused():
    for dtype in (torch.bfloat16, torch.float16):
        shown = "torch.bfloat16" if dtype is torch.bfloat16 else "dtype('float16')"
        with pytest.raises(RuntimeError) as refusal:
            ours.gaussian_filter(torch.zeros(3, 3, dtype=dtype), 1)
        assert str(refusal.value) == f"array type {shown} not supported"
        with pytest.raises(RuntimeError) as refusal:
            ours.correlate(torch.zeros(3, 3), SQUARE, output=dtype)
        assert str(refusal.value) == "array type not supported"


@pytest.mark.parametrize("name", CALLS)
def test_complex_numbers_are_refused_by_name(name):
    function, args = getattr(ours, name), CALLS[name]
    cases = [
        ("input", X * 1j, args, {}),
        ("input", torch.ones(3, 4, dtype=torch.complex64), args, {}),
        ("output", X, args, {"output": complex}),
        ("output", X, args, {"output": "complex64"}),
        ("output", X, args, {"output": torch.complex64}),
        ("output", X, args, {"output": np.zeros((3, 4), np.complex128)}),
        ("cval", X, args, {"cval": 1j}),
        ("cval", X, args, {"cval": np.complex64(1)}),
    ]
    if "correlate" in name or "convolve" in name:
        window = np.array(args[0]) * 1j
        cases += [("weights", X, (window,), {}), ("weights", X, (torch.from_numpy(window),), {})]
    for what, image, args, kwargs in cases:
        with pytest.raises(TypeError) as refusal:
            function(image, *args, **kwargs)
        assert str(refusal.value) == f"{name}: complex {what} is not served".replace("weights is", "weights are")


def test_weights_that_require_a_gradient_are_refused():
    weights = torch.ones(3, requires_grad=True)
    for name in ("correlate1d", "convolve1d", "correlate", "convolve"):
        with pytest.raises(RuntimeError) as refusal:
            getattr(ours, name)(torch.ones(5), weights)
        assert str(refusal.value) == f"{name}: weights that require a gradient are not served"
        with torch.no_grad():
            assert getattr(ours, name)(torch.ones(5), weights).tolist() == [3.0] * 5


def test_settings_may_be_tensors():
    image = noise((6, 8), "float64")
    expected = ndi.gaussian_filter(image, [0.7, 1.5], [0, 1])
    compare(ours.gaussian_filter(image, torch.tensor([0.7, 1.5], dtype=torch.float64), torch.tensor([0, 1])), expected)
    compare(ours.gaussian_filter1d(image, torch.tensor(1.5)), ndi.gaussian_filter1d(image, 1.5))
    compare(ours.uniform_filter(image, torch.tensor([2, 3])), ndi.uniform_filter(image, [2, 3]))


def test_settings_that_require_a_gradient_are_refused():
    """They are read as numbers: the gradient would be lost without a word."""
    sigma = torch.tensor(1.0, requires_grad=True)
    with pytest.raises(RuntimeError) as refused:
        ours.gaussian_filter(torch.ones(4, 5), sigma)
    assert str(refused.value) == "scipy_ndimage: settings that require a gradient are not served"
    with torch.no_grad():
        image = torch.arange(20.0).reshape(4, 5)
        assert torch.equal(ours.gaussian_filter(image, sigma), ours.gaussian_filter(image, 1.0))
