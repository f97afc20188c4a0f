"""compat.scipy_ndimage on the CPU: scipy's bits, images of many tiles, memory, and the same with gradients."""

import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from memory_use import peak_growth
from scipy_cases import compare, noise, scipys_warnings
from torch.utils._python_dispatch import TorchDispatchMode

import torch_conv
from torch_conv.compat import scipy_ndimage as ours

pytestmark = scipys_warnings

# Calls for images of any number of axes.
CALLS = {
    "correlate": lambda module, x: module.correlate(x, np.linspace(-0.3, 1, 3**x.ndim).reshape((3,) * x.ndim)),
    "convolve": lambda module, x: module.convolve(x, np.linspace(-0.3, 1, 4).reshape((1,) * (x.ndim - 1) + (4,))),
    "correlate, first": lambda module, x: module.correlate(x, np.ones((7,) + (1,) * (x.ndim - 1)) / 7, mode="wrap"),
    "correlate1d": lambda module, x: module.correlate1d(x, [0.5, 1, 2, -0.3], 0, mode="mirror"),
    "convolve1d": lambda module, x: module.convolve1d(x, [0.5, 1, 2, -0.3], origin=-1),
    "gaussian_filter": lambda module, x: module.gaussian_filter(x, 3, mode="nearest"),
    "gaussian_filter1d": lambda module, x: module.gaussian_filter1d(x, 9, 0, mode="constant", cval=1.5),
    "sobel": lambda module, x: module.sobel(x, 0),
    "prewitt": lambda module, x: module.prewitt(x),
    "laplace": lambda module, x: module.laplace(x, mode="wrap"),
    "gaussian_laplace": lambda module, x: module.gaussian_laplace(x, 1.5),
    "gaussian_gradient_magnitude": lambda module, x: module.gaussian_gradient_magnitude(x, 1.5),
    "uniform_filter": lambda module, x: module.uniform_filter(x, 3),
    "uniform_filter, large": lambda module, x: module.uniform_filter(x, 41, mode="mirror"),
    "uniform_filter1d": lambda module, x: module.uniform_filter1d(x, 16, 0, mode="constant", cval=3, origin=-5),
}
# Tiles smaller than the image, lines too long to be filtered in place, rows of few channels, and windows larger than
# the image.
SHAPES = [(5, 150, 300), (9, 600, 3), (70000,), (5000, 20), (20, 9000), (2, 3, 40, 50), (300, 500)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CALLS)
def test_bits_are_scipys(name, shape):
    for dtype in ("uint8", "uint16", "int32", "float32", "float64"):
        image = noise(shape, dtype)
        got, expected = CALLS[name](ours, image), CALLS[name](ndi, image)
        if name.startswith("uniform") and dtype.startswith("float"):  # scipy's running sum drags its rounding along
            compare(got, expected)
        else:
            np.testing.assert_array_equal(got, expected, strict=True)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "int32", "uint32"])
def test_means_of_integers_are_scipys(dtype):
    """Running sums and sums of terms are exact, and so must be the division."""
    for shape in [(30, 70), (3, 50, 3), (4, 60, 40)]:
        image = noise(shape, dtype, full=True)
        for size in (2, 3, 7, 8, 9, 23, 24, 25, 31, 32, 33, 100, 1001):
            for axis in range(image.ndim):
                for output in (None, "float64"):
                    got = ours.uniform_filter1d(image, size, axis, output, "wrap")
                    expected = ndi.uniform_filter1d(image, size, axis, output, "wrap")
                    np.testing.assert_array_equal(got, expected, strict=True)


def test_bits_are_those_of_one_thread():
    image, before = noise((40, 200, 300), "uint16"), torch.get_num_threads()
    for name, call in CALLS.items():
        torch.set_num_threads(1)
        expected = call(ours, image)
        torch.set_num_threads(4)
        try:
            np.testing.assert_array_equal(call(ours, image), expected, err_msg=name)
        finally:
            torch.set_num_threads(before)


class _Results(TorchDispatchMode):
    """Adds up the bytes of the results of all operators."""

    bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = [a.untyped_storage().data_ptr() for a in args if isinstance(a, torch.Tensor)]
        if isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() not in given:
            self.bytes += result.numel() * result.element_size()
        return result


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint16", "float32", "float64"])
@pytest.mark.parametrize("name", CALLS)
def test_no_results_but_those_of_the_sums(name, dtype):
    """Passes after the first are stored where the first was: two results for sums of derivatives, else one."""
    image = torch.from_numpy(noise((16, 64, 64), dtype))
    with _Results() as results:
        CALLS[name](ours, image)
    derivatives = image.dim() if "laplace" in name or "magnitude" in name else 1
    weights = 4096
    assert results.bytes <= (derivatives + (dtype == "bool")) * image.numel() * image.element_size() + weights


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize("name", CALLS)
def test_no_memory_but_for_results(name, dtype):
    """Neither torch's, nor numpy's, nor the library's: no copy in float64."""
    small, image = (torch.from_numpy(noise(shape, dtype)) for shape in ((16, 40, 40), (64, 256, 256)))
    CALLS[name](ours, small)  # memory that a first call loads does not count
    results = image.dim() if "laplace" in name or "magnitude" in name else 1
    kept = image.nbytes + (4 << 20)  # freed memory that the C library may keep, and blocks of 128 KB a thread
    assert peak_growth(lambda: CALLS[name](ours, image)) <= results * image.nbytes + kept


@pytest.mark.parametrize("with_gradient", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_derivatives_of_a_constant_are_zero(device, dtype, with_gradient):
    for level in np.random.default_rng(0).normal(size=20) * 9:
        for shape in [(23,), (11, 40), (5, 6, 19)]:
            image = torch.full(shape, level, dtype=dtype, device=device, requires_grad=with_gradient)
            for result in (
                ours.gaussian_filter(image, 2.0, order=[1] + [0] * (image.dim() - 1)),
                ours.gaussian_filter(image, 1.3, order=3, mode="wrap"),
                ours.gaussian_gradient_magnitude(image, 1.5, mode="mirror"),
                ours.correlate1d(image, [-1.0, -0.3, 0, 0.3, 1.0]),
                ours.sobel(image, 0),
                ours.prewitt(image, mode="nearest"),
            ):
                assert result.requires_grad == with_gradient
                assert not result.any()


@pytest.mark.parametrize("name", CALLS)
def test_results_with_gradients_are_those_without(name):
    for shape in [(6, 7), (3, 4, 9)]:
        image = torch.from_numpy(noise(shape, "float32"))
        with_gradient = CALLS[name](ours, image.clone().requires_grad_())
        without = CALLS[name](ours, image)
        assert with_gradient.stride() == without.stride()
        torch.testing.assert_close(with_gradient.detach(), without, rtol=1e-6, atol=1e-6)


def test_explain_names_the_operators():
    image = torch.full((6, 7), 3.0)
    lines = torch_conv.explain(lambda x: ours.gaussian_laplace(x, 1.5), image).lines
    how, n = "stepwise/tiles (sums of float64 in scipy's order)", 42
    assert lines == (f"stepwise_passes: {how}; launches 2; bytes {8 * n}, flops {2 * (13 + 13) * n}",) * 2
    lines = torch_conv.explain(ours.uniform_filter, image.to(torch.uint8)).lines
    assert lines == (f"stepwise_means: {how}; launches 2; bytes {2 * n}",)
    lines = torch_conv.explain(ours.correlate, image, np.eye(3)).lines
    assert lines == (f"stepwise_window: {how}; launches 1; bytes {8 * n}, flops {2 * 3 * n}",)


def test_operators_refuse_in_one_sentence():
    image, taps = torch.ones(4, 5), torch.ones(3, dtype=torch.float64)
    ops = torch.ops.torch_conv
    for call, sentence in [
        (
            lambda: ops._stepwise_passes(image.half(), [taps], [0], [0], [1], [0], 0.0, torch.float32),
            "_stepwise_passes: input must have dtype float32, float64 or an integer, got float16",
        ),
        (
            lambda: ops._stepwise_passes(image, [taps], [0], [2], [1], [0], 0.0, torch.float32),
            "_stepwise_passes: dims must be 0 to 1, got 2",
        ),
        (
            lambda: ops._stepwise_means(image, [3], [0], [3], [0], 0.0, torch.float32),
            "_stepwise_means: anchors must lie in the window, got 3",
        ),
        (
            lambda: ops._stepwise_window(image, taps, [1, 1], 0, 0.0, torch.float32),
            "_stepwise_window: window must be contiguous, of float64, with 2 dimensions",
        ),
    ]:
        with pytest.raises(RuntimeError) as refused:
            call()
        assert sentence in str(refused.value)


@pytest.mark.parametrize("name", ["laplace", "gaussian_filter", "gaussian_laplace", "gaussian_gradient_magnitude"])
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_traces_hold_every_step(name):
    call = CALLS[name]
    example, image = (torch.from_numpy(noise((9, 11), "float32", seed)) for seed in (1, 2))
    expected = call(ours, image)
    torch.testing.assert_close(torch.jit.trace(lambda x: call(ours, x), example, check_trace=False)(image), expected)


def test_a_freed_image_is_refused():
    image = torch.ones(4, 5)
    image.untyped_storage().resize_(0)
    for call in (ours.gaussian_filter, ours.uniform_filter):
        with pytest.raises(ValueError, match="^scipy_ndimage: .*its storage was freed$"):
            call(image, 3)
