"""filter2d: one window over an image, against the oracle, the textbook's checks and other libraries."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
import torch.nn.functional as F
import witness
from hypothesis import given
from oracle import check
from strategies import DTYPES, filter_cases, make_image, make_window
from tolerance import assert_same_bits

import torch_conv

# The seven windows of the textbook study, by the name and size that torch_conv.kernels gives them.
TEXTBOOK = [
    ("gaussian", 3),
    ("gaussian", 5),
    ("gaussian", 7),
    ("sobel_x", 3),
    ("laplacian", 3),
    ("box", 5),
    ("sharpen", 3),
]


def checkerboard(side=64, square=8):
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    return ((y // square + x // square) % 2).float()


def textbook_image(kind):
    if kind == "checkerboard":
        return checkerboard()
    return torch.rand(64, 64, generator=torch.Generator().manual_seed(42))


@given(case=filter_cases())
def test_any_call_agrees_with_the_oracle(device, case):
    (kernel,) = case.kernels
    check("filter2d", case.image, kernel, device=device, window=kernel.shape[-2:], layout=case.layout, **case.options)


@pytest.mark.parametrize("kind", ["checkerboard", "noise"])
@pytest.mark.parametrize(("name", "size"), TEXTBOOK)
def test_textbook_windows(device, kind, name, size):
    """Zero padding, images in [0, 1], at most 1e-5 away from float64 sums."""
    image, kernel = textbook_image(kind), torch_conv.kernels.named(name, size)
    k = kernel.shape[-1]
    got = torch_conv.filter2d(image.to(device), kernel.to(device), "constant").cpu()
    expected = F.conv2d(image.double()[None, None], kernel.double()[None, None], padding=k // 2)[0, 0]
    assert (got - expected).abs().max() <= 1e-5
    assert got.abs().max() > 0.5  # the comparison saw a picture


@pytest.mark.parametrize("side", [64, 256])
def test_interior_only_box(device, side):
    """The 3x3 box whose border output is 0, within 1e-3 of a plain double loop on the interior."""
    image = torch.rand(side, side, generator=torch.Generator().manual_seed(42))
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
        assert torch.equal(
            got.double(), torch.from_numpy(witness.box_sum(image.numpy(), (200, 200), border, (100, 100)))
        )


def test_even_mask_anchor_is_half_the_mask(device):
    """200 / 2 = 100 taps lie before the pixel, 99 after it."""
    image = torch.zeros(1, 300, dtype=torch.uint8, device=device)
    image[0, 150] = 200
    got = torch_conv.filter2d(image, torch.ones(1, 200, device=device), "constant", anchor=(0, -1))
    assert got[0].nonzero().flatten().tolist() == list(range(150 - 99, 150 + 101))
    assert set(got[0].tolist()) == {0, 200}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0, 5), (4, 0), (0, 3, 5, 7), (2, 0, 5, 7), (2, 3, 0, 7)])
def test_no_elements_in_no_elements_out(device, dtype, shape):
    image = torch.zeros(shape, dtype=dtype, device=device)
    got = torch_conv.filter2d(image, torch.ones(3, 3, device=device))
    assert got.shape == image.shape
    assert got.dtype == dtype


@pytest.mark.parametrize(
    ("size", "stride", "expected"), [((7, 8), 2, (4, 4)), ((7, 8), (1, 3), (7, 3)), ((1, 1), 5, (1, 1))]
)
def test_same_with_stride_starts_at_pixel_zero(device, size, stride, expected):
    image, kernel = make_image(size, device=device), make_window((3, 3), device=device)
    got = torch_conv.filter2d(image, kernel, stride=stride)
    assert tuple(got.shape) == expected
    sy, sx = (stride, stride) if isinstance(stride, int) else stride
    assert_same_bits(got, torch_conv.filter2d(image, kernel)[::sy, ::sx])


def test_valid_is_the_inside_of_same(device):
    image, kernel = make_image((2, 3, 20, 31), device=device), make_window((4, 5), device=device)
    same = torch_conv.filter2d(image, kernel)
    assert_same_bits(torch_conv.filter2d(image, kernel, padding="valid"), same[..., 1 : 20 - 2, 2 : 31 - 2])


def test_function_and_operator_are_one(device):
    image, kernel = make_image((2, 3, 20, 31), device=device), make_window((3, 5), device=device)
    assert_same_bits(torch.ops.torch_conv.filter2d(image, kernel), torch_conv.filter2d(image, kernel))


@pytest.mark.parametrize("shape", [(20, 31), (3, 20, 31), (2, 3, 20, 31), (2, 1, 3, 20, 31), (2, 1, 1, 3, 20, 31)])
def test_any_leading_dimensions(device, shape):
    image, kernel = make_image(shape, device=device), make_window((3, 5), device=device)
    got = torch_conv.filter2d(image, kernel)
    one_by_one = torch.stack([torch_conv.filter2d(plane, kernel) for plane in image.reshape(-1, 20, 31)])
    assert_same_bits(got, one_by_one.reshape(shape))


def test_many_planes(device):
    """More planes than one grid axis of a GPU counts to (65535)."""
    image, kernel = make_image((70001, 1, 3, 5)), make_window((3, 3))
    got = torch_conv.filter2d(image.to(device), kernel.to(device)).cpu()
    for n in (0, 1, 65534, 65535, 65536, 70000):
        assert_same_bits(got[n], torch_conv.filter2d(image[n], kernel))


def test_witness_conv2d(device):
    image, kernel = make_image((2, 3, 30, 41), torch.float64), make_window((5, 4), torch.float64)
    expected = F.conv2d(image.reshape(6, 1, 30, 41), kernel[None, None]).reshape(2, 3, 26, 38)
    got = torch_conv.filter2d(image.to(device), kernel.to(device), padding="valid").cpu()
    torch.testing.assert_close(got, expected, rtol=1e-13, atol=1e-13)


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
@pytest.mark.parametrize("window", [(3, 3), (4, 6), (15, 2)])
def test_witness_scipy(device, ours, theirs, window):
    image, kernel = make_image((9, 23), torch.float64), make_window(window, torch.float64)
    expected = ndi.correlate(image.numpy(), kernel.numpy(), mode=theirs, cval=0.7)
    got = torch_conv.filter2d(image.to(device), kernel.to(device), ours, value=0.7, anchor=-1).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("constant", cv2.BORDER_CONSTANT),
        ("replicate", cv2.BORDER_REPLICATE),
        ("reflect", cv2.BORDER_REFLECT_101),
        ("symmetric", cv2.BORDER_REFLECT),
    ],
)
@pytest.mark.parametrize("window", [(3, 3), (4, 6)])
def test_witness_opencv(device, ours, theirs, window):
    image, kernel = make_image((19, 23)), make_window(window)
    expected = cv2.filter2D(image.numpy(), cv2.CV_32F, kernel.numpy(), borderType=theirs)
    got = torch_conv.filter2d(image.to(device), kernel.to(device), ours, anchor=-1).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("border", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("behaviour", ["corr", "conv"])
def test_witness_kornia(border, normalized, behaviour):
    kornia = pytest.importorskip("kornia")
    image, kernel = make_image((2, 3, 19, 23), torch.float64), make_window((2, 3, 5), torch.float64)
    expected = kornia.filters.filter2d(image, kernel, border, normalized, "same", behaviour)
    got = torch_conv.filter2d(image, kernel, border, normalized, "same", behaviour)
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
