"""torch_conv.reference itself, against witnesses that share no code with it."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
import torch.nn.functional as F
import witness
from definitions import outer
from hypothesis import given
from strategies import as_tuple, filter_cases, make_image, make_window, separable_cases
from tolerance import assert_within

import torch_conv
from torch_conv import kernels, reference


@given(case=filter_cases(dtypes=[torch.float64, torch.float32, torch.uint8]))
def test_filter2d_against_numpy(case):
    (kernel,), image = case.kernels, case.image
    if image.dim() < 4:
        kernel = kernel.reshape(kernel.shape[-2:])
    got = reference.filter2d(image.double(), kernel, **case.options)
    expected = witness.filter2d(image.double().numpy(), kernel.double().numpy(), **case.options)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-10, atol=1e-9)


@given(case=separable_cases(dtypes=[torch.float64]))
def test_separable_against_numpy(case):
    x, y = (k.reshape(-1) for k in case.kernels)
    got = reference.filter2d_separable(case.image, x, y, **case.options)
    outer = np.outer(y.double().numpy(), x.double().numpy())
    np.testing.assert_allclose(
        got.numpy(), witness.filter2d(case.image.numpy(), outer, **case.options), rtol=1e-10, atol=1e-9
    )


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("constant", "constant"),
        ("replicate", "nearest"),
        ("reflect", "mirror"),
        ("symmetric", "reflect"),
        ("circular", "wrap"),
    ],
)
def test_filter2d_against_scipy(ours, theirs):
    image = make_image((13, 17), torch.float64)
    for size in ((3, 3), (4, 7), (29, 40)):
        kernel = make_window(size, torch.float64)
        got = reference.filter2d(image, kernel, ours, anchor=-1, value=0.5)
        expected = ndi.correlate(image.numpy(), kernel.numpy(), mode=theirs, cval=0.5)
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-11, atol=1e-11)


@given(case=filter_cases(dtypes=[torch.float64, torch.float32, torch.uint8], axes=3))
def test_filter3d_against_numpy(case):
    (kernel,), volume = case.kernels, case.image
    if volume.dim() < 5:
        kernel = kernel.reshape(kernel.shape[-3:])
    got = reference.filter3d(volume.double(), kernel, **case.options)
    expected = witness.filter3d(volume.double().numpy(), kernel.double().numpy(), **case.options)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-10, atol=1e-9)


@given(case=separable_cases(dtypes=[torch.float64], axes=3))
def test_separable3d_against_numpy(case):
    x, y, z = (k.reshape(-1) for k in case.kernels)
    got = reference.filter3d_separable(case.image, x, y, z, **case.options)
    expected = witness.filter3d(case.image.numpy(), outer(z, y, x), **case.options)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-10, atol=1e-9)


def test_volumes_against_scipy():
    volume, kernel = make_image((6, 9, 11), torch.float64), make_window((3, 4, 7), torch.float64)
    got = reference.filter3d(volume, kernel, "symmetric", anchor=-1)
    np.testing.assert_allclose(got.numpy(), ndi.correlate(volume.numpy(), kernel.numpy(), mode="reflect"), rtol=1e-11)
    got = reference.box_blur3d(volume, (2, 5, 8), "symmetric", anchor=-1)
    np.testing.assert_allclose(got.numpy(), ndi.uniform_filter(volume.numpy(), (2, 5, 8), mode="reflect"), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("stride", [1, (2, 1, 3)])
@pytest.mark.parametrize("padding", [0, (1, 2, 0), "valid", "same"])
@pytest.mark.parametrize("dilation", [1, (2, 1, 3)])
@pytest.mark.parametrize("groups", [1, 2])
def test_conv3d_against_torch(stride, padding, dilation, groups):
    if padding == "same" and stride != 1:
        stride = 1
    volume, weight = make_image((2, 4, 7, 6, 11), torch.float64), make_window((6, 4 // groups, 2, 3, 3), torch.float64)
    bias = make_window((6,), torch.float64)
    got = reference.conv3d(volume, weight, bias, stride, padding, dilation, groups)
    torch.testing.assert_close(got, F.conv3d(volume, weight, bias, stride, padding, dilation, groups))


@pytest.mark.parametrize("stride", [1, 2, (3, 1)])
@pytest.mark.parametrize("padding", [0, 3, (1, 2), "valid", "same"])
@pytest.mark.parametrize("dilation", [1, (2, 3)])
@pytest.mark.parametrize("groups", [1, 2])
def test_conv2d_against_torch(stride, padding, dilation, groups):
    if padding == "same" and as_tuple(stride) != (1, 1):
        stride = 1
    image, weight = make_image((2, 4, 15, 17), torch.float64), make_window((6, 4 // groups, 3, 5), torch.float64)
    bias = make_window((6,), torch.float64)
    got = reference.conv2d(image, weight, bias, stride, padding, dilation, groups)
    torch.testing.assert_close(got, F.conv2d(image, weight, bias, stride, padding, dilation, groups))


@pytest.mark.parametrize("padding_mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("axes", [2, 3])
def test_padding_modes_against_torch(padding_mode, axes):
    options = {"padding": 2, "groups": 2, "padding_mode": padding_mode}
    layer = (torch.nn.Conv2d if axes == 2 else torch.nn.Conv3d)(2, 4, 3, dtype=torch.float64, **options)
    image = make_image((2, 2, 9, 11, 7)[: axes + 2], torch.float64)
    got = getattr(reference, f"conv{axes}d")(image, layer.weight, layer.bias, **options)
    torch.testing.assert_close(got, layer(image))


def test_conv1d_against_torch():
    signal, weight = make_image((2, 4, 30), torch.float64), make_window((6, 2, 5), torch.float64)
    bias = make_window((6,), torch.float64)
    got = reference.conv1d(signal, weight, bias, 2, 3, 2, 2)
    torch.testing.assert_close(got, F.conv1d(signal, weight, bias, 2, 3, 2, 2))


def test_the_textbook_example():
    x, f = torch.tensor([8.0, 2, 5, 4, 1, 7, 3]), torch.tensor([1.0, 3, 5, 3, 1])
    y = reference.filter1d(x, f, "constant")
    assert y[1:4].tolist() == [53, 52, 47]
    np.testing.assert_array_equal(y.numpy(), np.convolve(x.numpy(), f.numpy(), "same"))


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_filter1d_against_scipy(dim):
    image, kernel = make_image((5, 6, 7), torch.float64), make_window((4,), torch.float64)
    got = reference.filter1d(image, kernel, "symmetric", dim=dim, anchor=-1)
    np.testing.assert_allclose(got.numpy(), ndi.correlate1d(image.numpy(), kernel.numpy(), dim, mode="reflect"))


def test_box_blur_against_scipy():
    image = make_image((13, 17), torch.float64)
    got = reference.box_blur(image, (5, 8), "symmetric", anchor=-1)
    np.testing.assert_allclose(got.numpy(), ndi.uniform_filter(image.numpy(), (5, 8), mode="reflect"), rtol=1e-12)


def test_rounding():
    image = torch.tensor([[0.5, 1.5, 2.5, -0.5, 254.5, 300.0, float("nan"), float("inf"), float("-inf")]])
    one = torch.ones(1, 1)
    got = reference.filter2d(image, one, output_dtype=torch.uint8)
    assert got[0].tolist() == [0, 2, 2, 0, 254, 255, 0, 255, 0]


@pytest.mark.parametrize("module", [reference, kernels], ids=lambda m: m.__name__)
def test_examples_in_docstrings(module):
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", torch_conv.functional.__all__)
def test_example_of_a_function(name):
    names = {n: getattr(torch_conv, n) for n in torch_conv.functional.__all__}
    names |= {"torch": torch, "F": F, "torch_conv": torch_conv, "kernels": kernels}
    example = doctest.DocTestParser().get_doctest(getattr(torch_conv, name).__doc__, names, name, None, None)
    assert example.examples
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example)
    assert result.failed == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.uint8])
def test_the_comparison_can_fail(dtype):
    """A few units in the last place are seen, in one pixel of many; half a one is allowed."""
    image = make_image((9, 11), torch.uint8).to(dtype)
    exact = image.double()
    options = {"in_dtype": dtype, "algorithm": "direct", "window": (1, 1)}
    assert_within(image, exact, exact, **options)
    wrong = image.clone()
    step = 1 if dtype == torch.uint8 else 2**4 * torch.finfo(dtype).eps * 256
    wrong[4, 5] = wrong[4, 5] + step
    with pytest.raises(AssertionError, match=r"1 of 99 elements are off, the first at \(4, 5\)"):
        assert_within(wrong, exact, exact, **options)
