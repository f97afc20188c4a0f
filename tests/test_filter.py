"""filter2d and filter3d: one window over an image or a volume, against the oracle and other libraries."""

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
from strategies import BORDERS, DTYPES, filter_cases, make_image, make_window
from tolerance import assert_same_bits

import torch_conv

AXES = [2, 3]
SIZES = {2: (20, 31), 3: (6, 12, 15)}
WINDOWS = {2: (3, 5), 3: (3, 2, 5)}
OPENCV = {
    "constant": cv2.BORDER_CONSTANT,
    "replicate": cv2.BORDER_REPLICATE,
    "reflect": cv2.BORDER_REFLECT_101,
    "symmetric": cv2.BORDER_REFLECT,
}


def filter_of(kernel):
    """filter2d or filter3d, for a window without leading dimensions."""
    return getattr(torch_conv, f"filter{kernel.dim()}d")


def noise(side):
    return torch.rand(side, side, generator=torch.Generator().manual_seed(42))


@pytest.mark.parametrize("axes", AXES)
@given(data=st.data())
def test_any_call_agrees_with_the_oracle(device, axes, data):
    case = data.draw(filter_cases(axes=axes))
    (kernel,) = case.kernels
    options = {"window": kernel.shape[-axes:], "layout": case.layout, **case.options}
    check(f"filter{axes}d", case.image, kernel, device=device, **options)


@pytest.mark.parametrize("kind", ["checkerboard", "noise"])
@pytest.mark.parametrize("name", ["gaussian 3", "gaussian 5", "gaussian 7", "sobel_x", "laplacian", "box 5", "sharpen"])
def test_textbook_windows(device, kind, name):
    """Zero padding, images in [0, 1], at most 1e-5 away from float64 sums."""
    squares = torch.arange(64) // 8
    image = ((squares[:, None] + squares) % 2).float() if kind == "checkerboard" else noise(64)
    name, *size = name.split()
    kernel = torch_conv.kernels.named(name, *map(int, size))
    got = torch_conv.filter2d(image.to(device), kernel.to(device), "constant").cpu()
    expected = F.conv2d(image.double()[None, None], kernel.double()[None, None], padding=kernel.shape[-1] // 2)[0, 0]
    assert (got - expected).abs().max() <= 1e-5
    assert got.abs().max() > 0.5  # the comparison saw a picture


@pytest.mark.parametrize("side", [64, 256])
def test_interior_only_box(device, side):
    """The 3x3 box whose border output is 0, within 1e-3 of a plain double loop on the interior."""
    image = noise(side)
    got = torch_conv.filter2d(image.to(device), torch.full((3, 3), 1 / 9, device=device), "zero_output").cpu()
    pixels = image.double().tolist()
    for y in range(1, side - 1, 7):
        for x in range(1, side - 1):
            mean = sum(pixels[y + i][x + j] for i in (-1, 0, 1) for j in (-1, 0, 1)) / 9
            assert abs(got[y, x].item() - mean) <= 1e-3
    for edge in (got[0], got[-1], got[:, 0], got[:, -1]):
        assert torch.equal(edge, torch.zeros(side))


@pytest.mark.parametrize("shape", [(1, 1), (1, 70), (70, 1), (2, 3), (33, 65), (5, 333), (129, 130)])
@pytest.mark.parametrize("window", [(1, 1), (3, 3), (5, 5), (7, 7), (2, 4), (1, 9), (9, 1), (11, 6)])
def test_shapes_and_windows(device, shape, window):
    image, kernel = make_image((2, 3, *shape)), make_window(window)
    for border in ("constant", "reflect"):
        check("filter2d", image, kernel, border, device=device, window=window)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 70), (9, 1, 1), (1, 12, 1), (2, 3, 2), (5, 9, 33)])
@pytest.mark.parametrize("window", [(1, 1, 1), (3, 3, 3), (2, 4, 6), (7, 1, 1), (1, 5, 1), (1, 1, 9), (1, 3, 5)])
def test_shapes_and_windows_of_volumes(device, border, shape, window):
    kernel = make_window(window).abs() + 0.1
    check("filter3d", make_image((2, *shape)), kernel, border, device=device, window=window, value=1.5)


@pytest.mark.parametrize("window", [(3, 3, 3), (5, 5, 5), (7, 7, 7), (4, 6, 5), (9, 9, 9)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.float64])
def test_sizes_of_volumes(device, window, dtype):
    kernel = make_window(window) / torch.tensor(window).prod().sqrt()
    check("filter3d", make_image((2, 11, 14, 37), dtype), kernel, "reflect", device=device, window=window)


@pytest.mark.parametrize("window", [(31, 31), (64, 63), (3, 101)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_large_windows(device, window, dtype):
    kernel = make_window(window) / (window[0] * window[1])
    check("filter2d", make_image((1, 40, 75), dtype), kernel, "symmetric", device=device, window=window, way="direct")


@pytest.mark.parametrize("border", ["replicate", "circular"])
def test_even_200x200_mask_on_bytes(device, border):
    """The even mask is centred at mask / 2 and larger than one of the images; sums of bytes are exact."""
    for shape in ((2, 210, 205), (3, 50, 61)):
        image = make_image(shape, torch.uint8)
        options = {"anchor": -1, "output_dtype": torch.float32, "algorithm": "direct"}
        got = torch_conv.filter2d(image.to(device), torch.ones(200, 200), border, **options).cpu()
        expected = witness.box_sum(image.numpy(), (200, 200), border, (100, 100))
        assert torch.equal(got.double(), torch.from_numpy(expected))


def test_even_mask_anchor_is_half_the_mask(device):
    """200 / 2 = 100 taps lie before the pixel, 99 after it."""
    image = torch.zeros(1, 300, dtype=torch.uint8, device=device)
    image[0, 150] = 200
    got = torch_conv.filter2d(image, torch.ones(1, 200, device=device), "constant", anchor=(0, -1))
    assert got[0].nonzero().flatten().tolist() == list(range(150 - 99, 150 + 101))
    assert set(got[0].tolist()) == {0, 200}


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axes_of_a_window_are_depth_height_width(device, axis):
    """An impulse shows the window, flipped."""
    volume = torch.zeros(7, 7, 7, device=device)
    volume[3, 3, 3] = 1
    shape = [1, 1, 1]
    shape[axis] = 3
    taps = torch.tensor([1.0, 2.0, 4.0], device=device)
    got = torch_conv.filter3d(volume, taps.reshape(shape), "constant")
    assert got.count_nonzero() == 3
    assert got.movedim(axis, -1)[3, 3].tolist() == [0, 0, 4, 2, 1, 0, 0]


def test_a_window_one_plane_deep_is_filter2d_on_every_plane(device):
    volume, kernel = make_image((2, 3, 6, 12, 15), device=device), make_window((3, 5), device=device)
    got = torch_conv.filter3d(volume, kernel[None], "reflect")
    assert_same_bits(got, torch_conv.filter2d(volume, kernel, "reflect"))


def test_one_plane_under_a_deep_window_repeats_itself(device):
    plane, kernel = make_image((1, 12, 15), torch.float64, device=device), make_window((3, 3, 3), torch.float64)
    got = torch_conv.filter3d(plane, kernel.to(device))
    expected = torch_conv.filter2d(plane, kernel.sum(0).to(device), "replicate")
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


EMPTY = [(2, (0, 5)), (2, (4, 0)), (2, (0, 3, 5, 7)), (2, (2, 0, 5, 7)), (2, (2, 3, 0, 7))]
EMPTY += [(3, (0, 4, 5)), (3, (4, 0, 5)), (3, (4, 5, 0))]
EMPTY += [(3, (0, 3, 5, 7, 6)), (3, (2, 0, 5, 7, 6)), (3, (2, 3, 0, 7, 6))]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("axes", "shape"), EMPTY)
def test_no_elements_in_no_elements_out(device, dtype, axes, shape):
    kernel = torch.ones((3,) * axes, device=device)
    got = filter_of(kernel)(torch.zeros(shape, dtype=dtype, device=device), kernel)
    assert got.shape == shape
    assert got.dtype == dtype


@pytest.mark.parametrize(
    ("size", "stride", "expected"),
    [
        ((7, 8), 2, (4, 4)),
        ((7, 8), (1, 3), (7, 3)),
        ((1, 1), 5, (1, 1)),
        ((5, 7, 8), 2, (3, 4, 4)),
        ((5, 7, 8), (1, 3, 2), (5, 3, 4)),
        ((7, 4, 6), (3, 1, 1), (3, 4, 6)),
        ((1, 1, 1), 5, (1, 1, 1)),
    ],
)
def test_same_with_stride_starts_at_element_zero(device, size, stride, expected):
    axes = len(size)
    image, kernel = make_image(size, device=device), make_window((3,) * axes, device=device)
    got = filter_of(kernel)(image, kernel, stride=stride)
    assert tuple(got.shape) == expected
    steps = (stride,) * axes if isinstance(stride, int) else stride
    assert_same_bits(got, filter_of(kernel)(image, kernel)[tuple(slice(None, None, s) for s in steps)])


@pytest.mark.parametrize("window", [(4, 5), (3, 4, 5)])
def test_valid_is_the_inside_of_same(device, window):
    image, kernel = make_image((2, 3, *SIZES[len(window)]), device=device), make_window(window, device=device)
    inside = [slice((k - 1) // 2, n - k // 2) for n, k in zip(SIZES[len(window)], window, strict=True)]
    same = filter_of(kernel)(image, kernel)
    assert_same_bits(filter_of(kernel)(image, kernel, padding="valid"), same[(..., *inside)])


@pytest.mark.parametrize("axes", AXES)
def test_function_and_operator_are_one(device, axes):
    image, kernel = make_image((2, 3, *SIZES[axes]), device=device), make_window(WINDOWS[axes], device=device)
    operator, function = getattr(torch.ops.torch_conv, f"filter{axes}d"), filter_of(kernel)
    assert_same_bits(operator(image, kernel), function(image, kernel))
    options = {"border_type": "reflect", "normalized": True, "behaviour": "conv", "stride": [1, 2, 1][:axes]}
    assert_same_bits(operator(image, kernel, **options), function(image, kernel, **options))


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 1, 3), (2, 1, 1, 3)])
def test_any_leading_dimensions(device, axes, lead):
    image, kernel = make_image((*lead, *SIZES[axes]), device=device), make_window(WINDOWS[axes], device=device)
    got = filter_of(kernel)(image, kernel)
    one_by_one = torch.stack([filter_of(kernel)(each, kernel) for each in image.reshape(-1, *SIZES[axes])])
    assert_same_bits(got, one_by_one.reshape(image.shape))


def test_many_planes(device):
    """More planes than one grid axis of a GPU counts to (65535)."""
    image, kernel = make_image((70001, 1, 3, 5)), make_window((3, 3))
    got = torch_conv.filter2d(image.to(device), kernel.to(device)).cpu()
    for n in (0, 1, 65534, 65535, 65536, 70000):
        assert_same_bits(got[n], torch_conv.filter2d(image[n], kernel))


@pytest.mark.parametrize("shape", [(70001, 1, 2, 3, 2), (2, 66000, 2, 2, 3), (1, 1, 70001, 2, 3)])
def test_many_volumes_and_planes(device, shape):
    """More than one grid axis of a GPU counts to (65535), along each of three axes."""
    volume, kernel = make_image(shape), make_window((3, 3, 3))
    got = torch_conv.filter3d(volume.to(device), kernel.to(device)).cpu()
    if shape[2] > 2:
        for z in (1, 65535, 69998):
            assert_same_bits(got[0, 0, z], torch_conv.filter3d(volume[0, 0, z - 1 : z + 2], kernel)[1])
        return
    for n, c in ((0, 0), (shape[0] - 1, shape[1] - 1), (shape[0] // 2, shape[1] // 2)):
        assert_same_bits(got[n, c], torch_conv.filter3d(volume[n, c], kernel))


@pytest.mark.parametrize(("shape", "window"), [((30, 41), (5, 4)), ((8, 9, 11), (5, 4, 3))])
def test_witness_torch(device, shape, window):
    image, kernel = make_image((2, 3, *shape), torch.float64), make_window(window, torch.float64)
    expected = getattr(F, f"conv{len(shape)}d")(image.reshape(6, 1, *shape), kernel[None, None])
    got = filter_of(kernel)(image.to(device), kernel.to(device), padding="valid").cpu()
    torch.testing.assert_close(got, expected.reshape(got.shape), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("border", witness.SCIPY)
@pytest.mark.parametrize("window", [(3, 3), (4, 6), (15, 2), (3, 3, 3), (4, 6, 2), (1, 5, 1), (15, 2, 3)])
def test_witness_scipy(device, border, window):
    image, kernel = (
        make_image({2: (9, 23), 3: (9, 8, 13)}[len(window)], torch.float64),
        make_window(window, torch.float64),
    )
    expected = ndi.correlate(image.numpy(), kernel.numpy(), mode=witness.SCIPY[border], cval=0.7)
    got = filter_of(kernel)(image.to(device), kernel.to(device), border, value=0.7, anchor=-1).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("border", OPENCV)
@pytest.mark.parametrize("window", [(3, 3), (4, 6)])
def test_witness_opencv(device, border, window):
    image, kernel = make_image((19, 23)), make_window(window)
    expected = cv2.filter2D(image.numpy(), cv2.CV_32F, kernel.numpy(), borderType=OPENCV[border])
    got = torch_conv.filter2d(image.to(device), kernel.to(device), border, anchor=-1).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("border", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("behaviour", ["corr", "conv"])
@pytest.mark.parametrize(("shape", "window"), [((19, 23), (3, 5)), ((7, 9, 8), (3, 5, 3))])
def test_witness_kornia(border, normalized, behaviour, shape, window):
    kornia, name = pytest.importorskip("kornia"), f"filter{len(shape)}d"
    image, kernel = make_image((2, 3, *shape), torch.float64), make_window((2, *window), torch.float64)
    options = {"border_type": border, "normalized": normalized, "behaviour": behaviour}
    expected = getattr(kornia.filters, name)(image, kernel, **options)
    torch.testing.assert_close(getattr(torch_conv, name)(image, kernel, **options), expected, rtol=1e-12, atol=1e-12)
