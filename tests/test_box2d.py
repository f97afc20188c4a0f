"""box2d (the operator under box_blur): sums and means over a rectangle of any size."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
import witness
from hypothesis import given
from oracle import check_box as check_operator
from oracle import exact
from strategies import BORDERS, DTYPES, INTEGERS, box_cases, lay_out, make_image
from tolerance import assert_same_bits, assert_within

import torch_conv

box2d = torch.ops.torch_conv.box2d


def check_box(image, size, border_type="reflect", *, device, **options):
    return check_operator("box2d", image, size, border_type=border_type, device=device, **options)


@given(case=box_cases())
def test_any_call_agrees_with_the_oracle(device, case):
    image, size, options = case
    check_box(image, size, device=device, **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(1, 1), (3, 3), (15, 15), (16, 31), (1, 64), (64, 1), (31, 40)])
def test_sizes(device, dtype, size):
    image = make_image((2, 70, 131), dtype)
    for border in ("reflect", "constant", "skip"):
        check_box(image, size, border, device=device)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("border", ["replicate", "constant", "symmetric", "circular"])
def test_200x200_with_an_even_anchor(device, dtype, border):
    """mask / 2 is the centre of the even mask, in an image that holds it and in one that does not."""
    for shape in ((3, 220, 310), (2, 50, 61)):
        image = make_image(shape, dtype)
        got = torch_conv.box_blur(image.to(device), 200, border, anchor=-1)
        assert_within(
            got,
            torch.from_numpy(witness.box_sum(image.numpy(), (200, 200), border, (100, 100))) / 200**2,
            torch.from_numpy(witness.box_sum(image.abs().numpy(), (200, 200), border, (100, 100))) / 200**2,
            in_dtype=dtype,
            algorithm="box",
            window=(200, 200),
        )


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (50, 1), (7, 333), (300, 5)])
def test_window_larger_than_the_image(device, shape):
    for border in BORDERS:
        check_box(make_image(shape), (45, 37), border, device=device)


def test_tall_image_with_an_offset_does_not_drift(device):
    """Running sums that never restart would lose digits row by row: 4000 rows of 1000 plus noise."""
    image = make_image((4000, 65)) + 1000
    sums = torch.from_numpy(witness.box_sum(image.numpy(), (31, 31), "reflect", (15, 15))) / 31**2
    got = torch_conv.box_blur(image.to(device), 31)
    assert_within(got, sums, sums, in_dtype=image.dtype, algorithm="box", window=(31, 31))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("normalized", [True, False])
def test_integer_sums_are_exact(device, dtype, normalized):
    """Sums below 2^24 hold in float32 whatever their order: equal to the rounded float64 result."""
    image = (make_image((2, 40, 57), dtype).int() // 3).to(dtype)
    got = box2d(image.to(device), [9, 14], "reflect", normalized, output_dtype=torch.float64).cpu()
    expected = exact("filter2d", image, torch.ones(9, 14), "reflect", normalized)
    if normalized:
        assert (got - expected).abs().max() <= expected.abs().max() * 2**-23
    else:
        assert torch.equal(got, expected)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("size", [(1, 2), (2, 7), (4, 6), (100, 101), (200, 200)])
def test_integer_means_are_rounded_once(device, dtype, size):
    """Half to even of the rational sum / area; floats are the quotient's nearest."""
    image = make_image((2, 230, 260), dtype)
    area = size[0] * size[1]
    sums = np.pad(image.numpy().astype(np.int64).cumsum(1).cumsum(2), ((0, 0), (1, 0), (1, 0)))
    h, w = size
    sums = sums[:, h:, w:] - sums[:, :-h, w:] - sums[:, h:, :-w] + sums[:, :-h, :-w]
    down = sums // area
    rest = 2 * (sums - down * area)
    expected = down + ((rest > area) | ((rest == area) & (down % 2 == 1)))
    for layout in ("contiguous", "transposed"):
        given_image = lay_out(image.to(device), layout)
        for border in ("reflect", "skip", "constant"):
            got = box2d(given_image, list(size), border, True, "valid", value=2.5).cpu()
            assert np.array_equal(got.numpy().astype(np.int64), expected), border
        for dtype in (torch.float32, torch.float64):
            got = box2d(given_image, list(size), "reflect", True, "valid", output_dtype=dtype).cpu().numpy()
            assert np.array_equal(got, (sums / area).astype(got.dtype))


@pytest.mark.parametrize("normalized", [True, False])
def test_every_sum_of_bytes_that_fits_into_16_bits(normalized):
    """All areas below 256 with all sums from 0 to 255 * area: the CPU's means of them are products of 16 bits."""
    for area in range(1, 256):
        sums = np.arange(255 * area + 1)
        down = sums // area
        rest = 2 * (sums - down * area)
        means = down + ((rest > area) | ((rest == area) & (down % 2 == 1)))
        expected = means if normalized else np.minimum(sums, 255)
        # Column x holds the sums from x * count on, one a row: n is the sum of (n + i) // area over 0 <= i < area.
        count = -(-len(sums) // 70)
        image = np.minimum((np.arange(70) * count + np.arange(count + area - 1)[:, None]) // area, 255)
        got = box2d(torch.from_numpy(image.astype(np.uint8)), [area, 1], "reflect", normalized, "valid")
        assert np.array_equal(got.numpy().T.reshape(-1)[: len(sums)], expected), area


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("width", [1, 5, 15, 16, 31, 32, 33, 63, 64, 200])
def test_rows_of_bytes_of_any_width(device, width, channels):
    """Narrower than a register, a few registers wide, with windows as wide as the image, for each kind of output."""
    image = make_image((1, 21, width, channels), torch.uint8).permute(0, 3, 1, 2)
    for size in ((3, 3), (4, 4), (9, 16), (5, 17), (255, 1)):
        for border in BORDERS:
            for options in ({"value": 7.0}, {"normalized": False}, {"output_dtype": torch.float32}):
                check_box(image, size, border, device=device, **options)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nonfinite_pixels_reach_their_windows_only(device, border, dtype):
    """NaN, Inf and -Inf in one row, in neighbouring rows and far apart: every pixel as the plain sum has it."""
    inf, nan = float("inf"), float("nan")
    for pixels in (
        [(20, 3, inf), (20, 30, -inf)],
        [(20, 3, -inf), (20, 5, inf), (20, 60, nan)],
        [(0, 0, inf), (1, 40, -inf), (2, 41, nan), (21, 77, inf)],
        [(5, 10, inf), (6, 10, -inf), (50, 10, nan), (99, 79, -inf)],
    ):
        image = make_image((100, 80), dtype)
        for y, x, value in pixels:
            image[y, x] = value
        for size in ((3, 5), (9, 4), (1, 21), (30, 1)):
            got = box2d(image.to(device), list(size), border, False, algorithm="box").cpu()
            expected = exact("filter2d", image, torch.ones(size, dtype=torch.float64), border, False)
            finite = expected.isfinite()
            assert torch.equal(got.isfinite(), finite)
            assert_same_bits(got[~finite].double(), expected[~finite])
            assert (got[finite] - expected[finite]).abs().max() < 1e-3


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("border", BORDERS)
def test_window_far_larger_than_the_image(device, border, dtype):
    """Folded onto the image by counting how often a window reads each row and column."""
    image = make_image((9, 8), dtype).abs()[None] if dtype.is_floating_point else make_image((1, 9, 8), dtype)
    sizes = [(2**10 + 1, 7), (6, 2**12), (2**10, 2**11 + 1)]
    sizes += [(2**20, 2**20), (5, 2**31 - 1)] if device == "cpu" else []
    # A float sum on CUDA is as exact as one chain over kh rows and max(kw, 128) columns (box/streaming/kernel.cuh).
    chain = [size[0] + max(size[1], 128) for size in sizes]
    for size, length in zip(sizes, chain, strict=True):
        bound = 2e-6 if device == "cpu" or not dtype.is_floating_point else length * 2**-24
        for anchor in (None, [size[0] - 1, 0], [0, size[1] - 1]):
            rows, columns = (
                torch.from_numpy(reads(n, k, (k - 1) // 2 if anchor is None else anchor[axis], border))
                for axis, (n, k) in enumerate(zip(image.shape[-2:], size, strict=True))
            )
            sums = rows @ image.double() @ columns.T
            got = box2d(image.to(device), list(size), border, False, anchor=anchor, output_dtype=torch.float64).cpu()
            fits = border != "zero_output"
            assert ((got - sums * fits).abs() <= bound * sums).all(), (size, anchor)


def reads(n, k, pad, border):
    """How often the window of each output reads each pixel of an axis, as differences of running counts."""
    period = {"circular": n, "symmetric": 2 * n, "reflect": 2 * n - 2}.get(border)
    counts = np.zeros((n, n))
    for y in range(n):
        first, end = y - pad, y - pad + k
        if period is None:
            counts[y] = [first <= i < end for i in range(n)]
            if border == "replicate":
                counts[y, 0] += max(0, min(end, 0) - first)
                counts[y, -1] += max(0, end - max(first, n))
            continue
        for i in range(period):  # positions i, i +- period, ... within [first, end)
            times = (end - 1 - i) // period - (first - 1 - i) // period
            counts[y, i if i < n else (2 * n - 1 - i if border == "symmetric" else period - i)] += times
    return counts


def test_repeats_itself_bit_for_bit(device):
    image = make_image((3, 100, 130), device=device)
    first = box2d(image, [17, 9])
    for _ in range(3):
        assert_same_bits(box2d(image, [17, 9]), first)
    alone = torch.stack([box2d(plane, [17, 9]) for plane in image])
    assert_same_bits(first, alone)  # every position in the batch


def test_constant_image_stays_constant(device):
    image = torch.full((70, 90), 7.0, device=device)
    torch.testing.assert_close(box2d(image, [21, 33]), image, rtol=1e-6, atol=0)


def test_skip_divides_by_the_pixels_inside(device):
    image = torch.arange(1.0, 5.0, device=device)[None]
    got = box2d(image, [1, 3], "skip", True)
    assert got[0].tolist() == [1.5, 2.0, 3.0, 3.5]
    assert box2d(image, [1, 3], "skip", False)[0].tolist() == [3.0, 6.0, 9.0, 7.0]


def test_no_elements_in_no_elements_out(device):
    image = torch.zeros(2, 0, 5, device=device)
    assert box2d(image, [3, 3]).shape == image.shape


@pytest.mark.parametrize("size", [(3, 3), (4, 6), (41, 8)])
def test_witness_scipy(device, size):
    image = make_image((45, 52), torch.float64)
    expected = ndi.uniform_filter(image.numpy(), size, mode="mirror")
    got = box2d(image.to(device), list(size), "reflect", anchor=[-1, -1]).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("size", [(5, 5), (6, 9), (200, 200)])
def test_witness_opencv_on_bytes(device, size):
    """OpenCV rounds the scaled sum its own way: at most one grey level apart, and seldom."""
    image = make_image((210, 230), torch.uint8)
    expected = cv2.blur(image.numpy(), size[::-1], borderType=cv2.BORDER_REFLECT_101).astype(int)
    got = torch_conv.box_blur(image.to(device), size, anchor=-1).cpu().numpy().astype(int)
    assert np.abs(got - expected).max() <= 1
    assert (got != expected).mean() < 0.01
