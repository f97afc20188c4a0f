"""torch_conv.reference itself: against witnesses that share no code with it, and against the functions themselves."""

from __future__ import annotations

import doctest
import inspect
import itertools

import cv2
import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
import torch.nn.functional as F
import witness
from hypothesis import given
from oracle import check
from strategies import BORDERS, as_tuple, filter_cases, make_image, make_window, separable_cases
from tolerance import assert_within
from witness import outer

import torch_conv
from torch_conv import kernels, reference

# What says how to compute, or where to: no reference takes it.
HOW = {"algorithm", "out"}

# name, arguments after the image, options
NAMED = [
    ("difference_of_gaussians", (0.6,), {}),
    ("difference_of_gaussians", ((0.5, 0.9), (1.0, 0.9)), {"truncate": 3.0}),
    ("gaussian_blur2d", ((5, 3), (1.3, 0.8)), {}),
    ("gaussian_blur2d", (None, 0.9), {"truncate": 3.0}),
    ("gaussian_blur3d", ((1, 3, 5), (0.7, 0.8, 1.3)), {}),
    ("gaussian_blur3d", (None, 0.4), {"truncate": 3.0}),
    ("gaussian_downsample", (5, 1.1, 3), {}),
    ("gaussian_gradient_magnitude3d", ((1, 3, 3), 0.8), {}),
    ("gaussian_laplace", ((1.0, 0.6),), {"truncate": 3.0}),
    ("gaussian_sobel", ((3, 5), 1.1), {}),
    ("gaussian_sobel", (3, (0.8, 1.1)), {"magnitude": "l1"}),
    ("laplacian", ((3, 5),), {}),
    ("laplacian", (5,), {"normalized": False}),
    *(("laplacian", (3,), {"variant": variant}) for variant in ("4", "8", "opencv3")),
    ("sobel", (), {}),
    ("sobel", (False, 0.5), {}),
    *(("spatial_gradient", (mode, 1), {}) for mode in ("sobel", "diff", "scharr", "prewitt")),
    *(("spatial_gradient", (mode, 2), {}) for mode in ("sobel", "diff")),
    ("spatial_gradient", ("sobel", 2, False), {}),
    *(("spatial_gradient3d", kind, {}) for kind in (("diff", 1), ("sobel", 1), ("diff", 2))),
    ("unsharp_mask", ((3, 5), 1.1), {}),
    ("unsharp_mask", (None, 0.5), {"amount": 2.5}),
]
LARGEST = 64  # the largest sum of a window's |taps| among them


def test_every_function_has_a_reference():
    assert sorted(reference.__all__) == sorted(torch_conv.functional.__all__)


@pytest.mark.parametrize("name", torch_conv.functional.__all__)
def test_signatures(name):
    """Arguments, their order and their defaults are the function's."""
    public, slow = (inspect.signature(getattr(module, name)).parameters.values() for module in (torch_conv, reference))
    expected = [(p.name, p.kind, p.default) for p in public if p.name not in HOW]
    assert [(p.name, p.kind, p.default) for p in slow] == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8])
@pytest.mark.parametrize(("name", "args", "options"), NAMED)
def test_named_functions_return_it(device, name, args, options, dtype):
    image = make_image((2, 9, 11, 13) if name.endswith("3d") else (2, 13, 17), dtype)
    scale = LARGEST * image.double().abs().max()
    for border, padding in itertools.product(BORDERS, ["same", "valid"]):
        call = options | {"border_type": border, "padding": padding, "value": 1.5}
        window = (9,) * (image.dim() - 1)  # none of them is larger
        got = check(name, image, *args, device=device, window=window, algorithm="composed", scale=scale, **call)
        slow = getattr(reference, name)(image, *args, **call)
        assert slow.dtype == got.dtype
        close = {"rtol": 0, "atol": 1} if dtype == torch.uint8 else {"rtol": 1e-5, "atol": 1e-4}
        torch.testing.assert_close(got.cpu(), slow, **close)


@pytest.mark.parametrize(
    "name",
    ["gaussian_blur2d", "gaussian_downsample", "gaussian_sobel", "structure_tensor", "thin_edges", "unsharp_mask"],
)
def test_a_sigma_for_every_sample(device, name):
    image, sigma = make_image((2, 3, 13, 17), torch.float64), torch.tensor([[0.8, 1.1], [1.3, 0.7]])
    for rows in (sigma, sigma[:1]):
        got = getattr(torch_conv, name)(image.to(device), (3, 5), rows.to(device)).cpu()
        torch.testing.assert_close(got, getattr(reference, name)(image, (3, 5), rows), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["gaussian_blur3d", "gaussian_gradient_magnitude3d"])
def test_a_sigma_for_every_volume(device, name):
    volume, sigma = make_image((2, 3, 7, 9, 11), torch.float64), torch.tensor([[0.8, 1.1, 0.9], [1.3, 0.7, 1.0]])
    for rows in (sigma, sigma[:1]):
        got = getattr(torch_conv, name)(volume.to(device), (1, 3, 5), rows.to(device)).cpu()
        torch.testing.assert_close(got, getattr(reference, name)(volume, (1, 3, 5), rows), rtol=1e-11, atol=1e-11)


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
    expected = witness.filter2d(case.image.numpy(), outer(y, x), **case.options)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-10, atol=1e-9)


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


@pytest.mark.parametrize("sigma", [0.7, 1.4])
@pytest.mark.parametrize("truncate", [4.0, 2.5])
def test_gaussians_against_scipy(sigma, truncate):
    image, volume = make_image((13, 17), torch.float64), make_image((7, 9, 11), torch.float64)
    theirs = {"truncate": truncate, "mode": "reflect"}

    def same(got, expected):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-11, atol=1e-12)

    narrow, wide = (ndi.gaussian_filter(image.numpy(), s, **theirs) for s in (sigma, 1.6 * sigma))
    same(reference.gaussian_blur2d(image, None, sigma, "symmetric", truncate=truncate), narrow)
    same(reference.difference_of_gaussians(image, sigma, None, "symmetric", truncate=truncate), narrow - wide)
    sharp = image.numpy() + 0.5 * (image.numpy() - ndi.gaussian_filter(image.numpy(), sigma, mode="reflect"))
    same(reference.unsharp_mask(image, None, sigma, "symmetric", amount=0.5), sharp)
    curved = ndi.gaussian_laplace(image.numpy(), (sigma, 0.6), **theirs)
    same(reference.gaussian_laplace(image, (sigma, 0.6), "symmetric", truncate=truncate), curved)
    blurred = ndi.gaussian_filter(volume.numpy(), (0.6, sigma, 0.9), **theirs)
    same(reference.gaussian_blur3d(volume, None, (0.6, sigma, 0.9), "symmetric", truncate=truncate), blurred)


def test_derivatives_against_opencv():
    image, border = make_image((13, 17), torch.float64), cv2.BORDER_REFLECT_101

    def derivative(dx, dy, ksize):
        return cv2.Sobel(image.numpy(), cv2.CV_64F, dx, dy, ksize=ksize, borderType=border)

    for order, pairs, ksize in ((1, [(1, 0), (0, 1)], 3), (2, [(2, 0), (1, 1), (0, 2)], 5)):
        got = reference.spatial_gradient(image, "sobel", order, False, border_type="reflect")
        expected = np.stack([derivative(*pair, ksize) for pair in pairs])
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)
    for variant, ksize in (("4", 1), ("opencv3", 3)):
        got = reference.laplacian(image, 3, normalized=False, variant=variant)
        expected = cv2.Laplacian(image.numpy(), cv2.CV_64F, ksize=ksize, borderType=border)
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_derivatives_of_volumes_against_numpy():
    volume, inside = make_image((7, 8, 9), torch.float64), (..., *[slice(2, -2)] * 3)
    z, y, x = np.gradient(volume.numpy())
    (_, zy, zx), (_, _, yx) = (np.gradient(g) for g in (z, y))
    xx, yy, zz = (np.diff(volume.numpy(), 2, axis, 0, 0) for axis in (2, 1, 0))
    for order, expected in ((1, (x, y, z)), (2, (xx, yy, zz, yx, zy, zx))):
        got = reference.spatial_gradient3d(volume, order=order)
        np.testing.assert_allclose(got.numpy()[inside], np.stack(expected)[inside], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("activation", ["relu", "relu6", "gelu", "silu", "hardswish"])
def test_activations(device, activation):
    image, weight = 3 * make_image((2, 4, 9, 11)), make_window((4, 1, 3, 3))
    expected = reference.conv2d(image, weight, groups=4, activation=activation)
    torch.testing.assert_close(expected, getattr(F, activation)(F.conv2d(image, weight, groups=4)))
    got = torch_conv.conv2d(image.to(device), weight.to(device), groups=4, activation=activation).cpu()
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


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
