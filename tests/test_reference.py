"""torch_conv.reference itself: against witnesses that share no code with it, and against the functions themselves."""

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
from hypothesis import strategies as st
from oracle import check
from strategies import BORDERS, filter_cases, make_image, make_window, separable_cases
from tolerance import assert_within
from witness import outer

import torch_conv
from torch_conv import kernels, reference

# Arguments that no reference takes.
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
OF_SIGMA = [
    "gaussian_blur2d",
    "gaussian_downsample",
    "gaussian_sobel",
    "structure_tensor",
    "thin_edges",
    "unsharp_mask",
]
OF_SIGMA += ["gaussian_blur3d", "gaussian_gradient_magnitude3d"]
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


@pytest.mark.parametrize("name", OF_SIGMA)
def test_a_sigma_for_every_sample(device, name):
    axes = 3 if name.endswith("3d") else 2
    image, size = make_image({2: (2, 3, 13, 17), 3: (2, 3, 7, 9, 11)}[axes], torch.float64), (1, 3, 5)[-axes:]
    sigma = torch.tensor([[0.8, 1.1, 0.9], [1.3, 0.7, 1.0]])[:, :axes]
    for rows in (sigma, sigma[:1]):
        got = getattr(torch_conv, name)(image.to(device), size, rows.to(device)).cpu()
        torch.testing.assert_close(got, getattr(reference, name)(image, size, rows), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("axes", [2, 3])
@given(data=st.data())
def test_filter_against_numpy(axes, data):
    case = data.draw(filter_cases(dtypes=[torch.float64, torch.float32, torch.uint8], axes=axes))
    (kernel,), image, name = case.kernels, case.image, f"filter{axes}d"
    if image.dim() < axes + 2:
        kernel = kernel.reshape(kernel.shape[-axes:])
    got = getattr(reference, name)(image.double(), kernel, **case.options)
    expected = getattr(witness, name)(image.double().numpy(), kernel.double().numpy(), **case.options)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("axes", [2, 3])
@given(data=st.data())
def test_separable_against_numpy(axes, data):
    case = data.draw(separable_cases(dtypes=[torch.float64], axes=axes))
    taps = [k.reshape(-1) for k in case.kernels]
    got = getattr(reference, f"filter{axes}d_separable")(case.image, *taps, **case.options)
    expected = getattr(witness, f"filter{axes}d")(case.image.numpy(), outer(*reversed(taps)), **case.options)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("border", witness.SCIPY)
def test_filter_against_scipy(border):
    for shape, size in (*(((13, 17), k) for k in ((3, 3), (4, 7), (29, 40))), ((6, 9, 11), (3, 4, 7))):
        image, kernel = make_image(shape, torch.float64), make_window(size, torch.float64)
        got = getattr(reference, f"filter{len(shape)}d")(image, kernel, border, anchor=-1, value=0.5)
        expected = ndi.correlate(image.numpy(), kernel.numpy(), mode=witness.SCIPY[border], cval=0.5)
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("sizes", "window", "stride", "padding", "dilation"),
    [
        *itertools.product([(15, 17)], [(3, 5)], [1, 2, (3, 1)], [0, 3, (1, 2), "valid", "same"], [1, (2, 3)]),
        *itertools.product([(7, 6, 11)], [(2, 3, 3)], [1, (2, 1, 3)], [0, (1, 2, 0), "valid", "same"], [1, (2, 1, 3)]),
        ((30,), (5,), 2, 3, 2),
    ],
)
def test_conv_against_torch(sizes, window, stride, padding, dilation, groups):
    name, stride = f"conv{len(sizes)}d", 1 if padding == "same" else stride
    image, weight = make_image((2, 4, *sizes), torch.float64), make_window((6, 4 // groups, *window), torch.float64)
    call = (image, weight, make_window((6,), torch.float64), stride, padding, dilation, groups)
    torch.testing.assert_close(getattr(reference, name)(*call), getattr(F, name)(*call))


@pytest.mark.parametrize("padding_mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("axes", [2, 3])
def test_padding_modes_against_torch(padding_mode, axes):
    options = {"padding": 2, "groups": 2, "padding_mode": padding_mode}
    layer = (torch.nn.Conv2d if axes == 2 else torch.nn.Conv3d)(2, 4, 3, dtype=torch.float64, **options)
    image = make_image((2, 2, 9, 11, 7)[: axes + 2], torch.float64)
    got = getattr(reference, f"conv{axes}d")(image, layer.weight, layer.bias, **options)
    torch.testing.assert_close(got, layer(image))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_convolution_has_its_own_name_and_axes(axes):
    conv = getattr(reference, f"conv{axes}d")
    assert conv.__name__ == f"conv{axes}d"
    image, weight = make_image((1, 2, *[5] * axes)), make_window((2, 2, *[3] * (axes + 1)))
    with pytest.raises(ValueError, match=f"^conv{axes}d: weight must have {axes + 2} dimensions, got {axes + 3}$"):
        conv(image, weight)


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


@pytest.mark.parametrize(
    ("name", "shape", "size"), [("box_blur", (13, 17), (5, 8)), ("box_blur3d", (6, 9, 11), (2, 5, 8))]
)
def test_box_blur_against_scipy(name, shape, size):
    image = make_image(shape, torch.float64)
    got = getattr(reference, name)(image, size, "symmetric", anchor=-1)
    np.testing.assert_allclose(got.numpy(), ndi.uniform_filter(image.numpy(), size, mode="reflect"), rtol=1e-12)


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


@pytest.mark.parametrize("name", ["gaussian_blur2d", "gaussian_blur3d", "unsharp_mask"])
def test_no_sigma(name):
    with pytest.raises(ValueError, match=f"^{name}: sigma must be given$"):
        getattr(reference, name)(torch.ones(3, 4, 5))
