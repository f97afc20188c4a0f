"""compat.torchvision against torchvision, both of its functional modules: tensors, PIL images, refusals."""

import doctest
import importlib
import inspect
import sys

import pytest
import torch
from refusals import refuses
from strategies import LAYOUTS, lay_out
from tolerance import assert_same_bits

pytest.importorskip("torchvision")

import torchvision.transforms.functional as v1
import torchvision.transforms.v2.functional as v2

import torch_conv
from torch_conv.compat import torchvision as ours

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.int64]
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
SHAPES = [(3, 40, 41), (2, 3, 17, 23), (1, 1, 16, 16), (2, 2, 3, 18, 16)]
# Kernel sizes (kx, ky) and sigmas, in every way to give them.
WINDOWS = [(3, None), ([3, 5], None), ((5, 3), 1.3), ([7, 1], [0.4, 2.0]), ((1, 7), (2.0, 0.4)), (11, [2.5]), (15, 7)]
WINDOWS += [([9, 13], (0.1, 30)), (1, 1.0)]
# The tolerance of half precision: one step between numbers of [0.5, 1], as both results are rounded once.
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.float16: 5e-4, torch.bfloat16: 4e-3}


def image(shape, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.rand(shape, generator=generator, dtype=torch.float64).to(dtype)
    least, most = max(torch.iinfo(dtype).min, -(2**17)), min(torch.iinfo(dtype).max, 2**17)
    return torch.randint(least, most + 1, shape, generator=generator).to(dtype)


def theirs(blur, x, *args):
    """torchvision's result, of half precision by sums in float32.

    torchvision itself rounds the taps and every product. On CPUs with AVX512-FP16, torch 2.11's depthwise convolution
    of 15x15 in float16 never returns.
    """
    half = x.dtype in (torch.float16, torch.bfloat16)
    return blur(x.float() if half else x, *args).to(x.dtype)


def check(got, expected):
    assert (got.dtype, got.shape, got.device) == (expected.dtype, expected.shape, expected.device)
    error = (got.double() - expected.double()).abs()
    if got.dtype.is_floating_point:
        assert error.max() <= TOLERANCE[got.dtype]
    else:
        assert error.max() <= 1
        # Both libraries round float32 half to even: only sums within rounding of the middle may differ. Two thirds of
        # float32's digits are before the point in int32.
        assert (error > 0).double().mean() <= (0.002 if got.dtype.itemsize == 1 else 0.05)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_tensors(device, dtype, shape):
    for kernel_size, sigma in WINDOWS:
        x = image(shape, dtype).to(device)
        before = x.clone()
        got = ours.gaussian_blur(x, kernel_size, sigma)
        assert_same_bits(x, before)
        check(got, theirs(v2.gaussian_blur, x, kernel_size, sigma))
        # The older one takes no further dimensions, and cuts uint16 off instead of rounding it.
        if len(shape) <= 4 and dtype != torch.uint16:
            check(got, theirs(v1.gaussian_blur, x, kernel_size, sigma))


@pytest.mark.parametrize("kernel_size", [3, 5, [3, 7], [15, 9]])
def test_truth_values(device, kernel_size):
    x = (image((2, 3, 17, 23), torch.float32) > 0.5).to(device)
    assert_same_bits(ours.gaussian_blur(x, kernel_size), v2.gaussian_blur(x, kernel_size))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_layouts(device, layout, dtype):
    x = lay_out(image((2, 3, 17, 23), dtype).to(device), layout)
    got = ours.gaussian_blur(x, [5, 3], (1.0, 2.0))
    check(got, v2.gaussian_blur(x.contiguous(), [5, 3], (1.0, 2.0)))
    if layout in ("contiguous", "channels_last"):
        assert got.stride() == x.stride()


def test_it_is_the_librarys_own_blur(device):
    x = image((2, 3, 17, 23), torch.float32).to(device)
    got = ours.gaussian_blur(x, [5, 9], (1.0, 2.0))
    assert_same_bits(got, torch_conv.gaussian_blur2d(x, (9, 5), (2.0, 1.0)))
    assert_same_bits(ours.gaussian_blur(x[0, 0], [5, 9], (1.0, 2.0)), got[0, 0])  # no channels


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (5, 4)])
def test_windows_larger_than_the_image(device, size):
    # torchvision refuses them; the reflection goes on and on
    x = image((2, *size), torch.float64).to(device)
    got = ours.gaussian_blur(x, [13, 11], 3.0)
    with pytest.raises(RuntimeError):
        v2.gaussian_blur(x, [13, 11], 3.0)

    def indices(n):
        there_and_back = list(range(n)) + list(range(n - 2, 0, -1))
        return [there_and_back[i % len(there_and_back)] for i in range(-20, n + 20)]

    wide = x[:, indices(size[0])][:, :, indices(size[1])]
    expected = v2.gaussian_blur(wide, [13, 11], 3.0)[:, 20:-20, 20:-20]
    check(got, expected)


def test_nothing_in_nothing_out(device):
    for shape in [(0, 3, 9, 9), (3, 0, 9)]:
        assert ours.gaussian_blur(torch.zeros(shape, device=device), 3).shape == shape


MODES = ["L", "LA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "I", "F"]


@pytest.mark.parametrize("mode", MODES)
def test_pil_images(mode):
    pil = pytest.importorskip("PIL.Image")
    bands, depth = len(pil.new(mode, (1, 1)).getbands()), 4 if mode in "IF" else 1
    if mode == "F":
        values = image((19, 24), torch.float32)
    elif mode == "I":
        values = image((19, 24), torch.int32)
    else:
        values = image((19, 24, bands), torch.uint8)
    x = pil.frombytes(mode, (24, 19), values.numpy().tobytes())
    before = x.tobytes()
    assert len(before) == values.numel() * depth
    for kernel_size, sigma in WINDOWS:
        got = ours.gaussian_blur(x, kernel_size, sigma)
        assert isinstance(got, pil.Image)
        assert (got.mode, got.size) == (mode, (24, 19))
        assert x.tobytes() == before
        for expected in (v1.gaussian_blur(x, kernel_size, sigma), v2.gaussian_blur(x, kernel_size, sigma)):
            pixels = [torch.frombuffer(bytearray(i.tobytes()), dtype=values.dtype) for i in (got, expected)]
            check(*pixels)


@pytest.mark.parametrize("mode", ["1", "P", "PA", "I;16", "RGBa"])
def test_other_modes_are_refused_as_there(mode):
    pil = pytest.importorskip("PIL.Image")
    x = pil.new(mode, (9, 8))
    with refuses(ValueError, f"gaussian_blur: img should be a PIL Image of mode {', '.join(MODES)}. Got {mode}"):
        ours.gaussian_blur(x, 3)
    with pytest.raises(ValueError):
        v2.gaussian_blur(x, 3)


x = torch.zeros(1, 9, 9)
REFUSED = [  # type of error, arguments, torchvision's message
    (ValueError, (x, [3]), "If kernel_size is a sequence its length should be 2. Got 1"),
    (ValueError, (x, [3, 3, 3]), "If kernel_size is a sequence its length should be 2. Got 3"),
    (ValueError, (x, 4), "kernel_size should have odd and positive integers. Got [4, 4]"),
    (ValueError, (x, [3, 0]), "kernel_size should have odd and positive integers. Got [3, 0]"),
    (ValueError, (x, -1), "kernel_size should have odd and positive integers. Got [-1, -1]"),
    (TypeError, (x, 3.0), "kernel_size should be int or a sequence of integers. Got <class 'float'>"),
    (TypeError, (x, "3"), "kernel_size should be int or a sequence of integers. Got <class 'str'>"),
    (ValueError, (x, 3, 0.0), "sigma should have positive values. Got [0.0, 0.0]"),
    (ValueError, (x, 3, [1.0, -1.0]), "sigma should have positive values. Got [1.0, -1.0]"),
    (ValueError, (x, 3, []), "If sigma is a sequence, its length should be 2. Got 0"),
    (ValueError, (x, 3, [1.0, 1.0, 1.0]), "If sigma is a sequence, its length should be 2. Got 3"),
    (TypeError, (x, 3, "1"), "sigma should be either float or sequence of floats. Got <class 'str'>"),
    (TypeError, (x.numpy(), 3), "img should be PIL Image or Tensor. Got <class 'numpy.ndarray'>"),
]


@pytest.mark.parametrize(("error", "args", "sentence"), REFUSED)
def test_refusals_are_torchvisions(error, args, sentence):
    with refuses(error, f"gaussian_blur: {sentence}"):
        ours.gaussian_blur(*args)
    with refuses(error, sentence):
        v1.gaussian_blur(*args)


def test_own_refusals():
    for error, args, sentence in [
        (TypeError, (x, [3.0, 3]), "kernel_size should be int or a sequence of integers. Got [3.0, 3]"),
        (TypeError, (x, 3, ["a"]), "sigma should be either float or sequence of floats. Got ['a']"),
        (TypeError, (x, 3, ["1", 1.0]), "sigma should be either float or sequence of floats. Got ['1', 1.0]"),
        (TypeError, (x, 3, [None, 1.0]), "sigma should be either float or sequence of floats. Got [None, 1.0]"),
        (
            TypeError,
            (x, 3, [torch.ones(2)]),
            "sigma should be either float or sequence of floats. Got [tensor([1., 1.])]",
        ),
        (ValueError, (x, 3, float("nan")), "sigma should have positive values. Got [nan, nan]"),
        (ValueError, (torch.zeros(9), 3), "img should have at least 2 dimensions. Got 1"),
        (TypeError, (x.to(torch.complex64), 3), "img should be of a real dtype that filters take. Got torch.complex64"),
        (
            TypeError,
            (x.to(torch.float8_e5m2), 3),
            "img should be of a real dtype that filters take. Got torch.float8_e5m2",
        ),
    ]:
        with refuses(error, f"gaussian_blur: {sentence}"):
            ours.gaussian_blur(*args)


def test_arguments_are_torchvisions():
    mine, theirs = (inspect.signature(module.gaussian_blur).parameters for module in (ours, v1))
    assert [(p.name, p.default) for p in mine.values()] == [(p.name, p.default) for p in theirs.values()]


def test_scripts(device):
    image_of = {dtype: image((2, 3, 9, 11), dtype).to(device) for dtype in (*INTEGERS, torch.float32, torch.float64)}
    scripted = torch.jit.script(ours.gaussian_blur)
    inside = torch.jit.script(blurred_twice)
    for given in image_of.values():
        for args in (([5, 3], [1.1, 0.7]), ([5, 3], [1.1]), ([3, 3],)):
            assert_same_bits(scripted(given, *args), ours.gaussian_blur(given, *args))
        assert_same_bits(inside(given), blurred_twice(given))
    with pytest.raises(torch.jit.Error, match="gaussian_blur: kernel_size should have odd and positive integers"):
        scripted(x, [4, 5])


def blurred_twice(given: torch.Tensor) -> torch.Tensor:
    return ours.gaussian_blur(ours.gaussian_blur(given, [5, 5], [1.5, 0.5]), [3, 3])


def test_sigmas_that_want_a_gradient():
    given = image((2, 3, 9, 11), torch.float64)
    sigma = torch.tensor(1.1, dtype=torch.float64, requires_grad=True)
    for sigmas in ([sigma], (sigma, 2.0), [0.7, sigma]):
        got, expected = (
            torch.autograd.grad(module.gaussian_blur(given, [7, 5], sigmas).square().sum(), sigma)[0]
            for module in (ours, v1)
        )
        torch.testing.assert_close(got, expected)
        with torch.no_grad():
            assert not ours.gaussian_blur(given, [7, 5], sigmas).requires_grad


def test_integers_with_a_sigma_that_wants_a_gradient():
    sigma = torch.tensor(1.1, dtype=torch.float64, requires_grad=True)
    for dtype in INTEGERS:
        given = image((2, 3, 9, 11), dtype)
        got, expected = ours.gaussian_blur(given, [7, 5], [sigma]), ours.gaussian_blur(given, [7, 5], 1.1)
        assert got.dtype == dtype
        assert (got.double() - expected.double()).abs().max() <= 1


def test_torchvision_is_not_needed(monkeypatch):
    expected = ours.gaussian_blur(x, 3)
    for name in ("torchvision", "PIL", "PIL.Image"):
        monkeypatch.setitem(sys.modules, name, None)
    importlib.reload(ours)
    assert_same_bits(ours.gaussian_blur(x, 3), expected)
    with pytest.raises(TypeError, match="^gaussian_blur: img should be PIL Image or Tensor. Got <class 'str'>$"):
        ours.gaussian_blur("picture", 3)


def test_examples():
    result = doctest.testmod(ours)
    assert (result.failed, result.attempted) == (0, 4)
