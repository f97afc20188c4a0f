"""box2d and box3d, the operators, box_blur and box_blur3d, the functions: sums and means over boxes of any size."""

import cv2
import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
import witness
from hypothesis import given
from hypothesis import strategies as st
from oracle import check as check_function
from oracle import check_box, exact
from strategies import BORDERS, DTYPES, INTEGERS, box_cases, lay_out, make_image
from tolerance import assert_same_bits, assert_within

import torch_conv

AXES = [2, 3]
box2d, box3d = torch.ops.torch_conv.box2d, torch.ops.torch_conv.box3d
DEFAULT_BORDER = {2: "reflect", 3: "replicate"}
UNEVEN = {2: (20, 31), 3: (6, 9, 15)}


def box_of(size):
    return {2: box2d, 3: box3d}[len(size)]


def blur_of(size):
    return {2: torch_conv.box_blur, 3: torch_conv.box_blur3d}[len(size)]


def check(operator, image, size, border_type, *, device, **options):
    return check_box(operator, image, size, border_type=border_type, device=device, **options)


@pytest.mark.parametrize("axes", AXES)
@given(data=st.data())
def test_any_call_agrees_with_the_oracle(device, axes, data):
    image, size, options = data.draw(box_cases(axes))
    check_box(f"box{axes}d", image, size, device=device, **options)


FLAT = [(1, 1), (3, 3), (15, 15), (16, 31), (1, 64), (64, 1), (31, 40)]
DEEP = [(1, 1, 1), (3, 3, 3), (5, 5, 5), (4, 2, 6), (9, 1, 1), (1, 9, 1), (1, 1, 17), (1, 4, 5)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [*FLAT, *DEEP])
def test_sizes(device, dtype, size):
    image = make_image({2: (2, 70, 131), 3: (2, 11, 12, 25)}[len(size)], dtype)
    for border in ("reflect", "constant", "skip"):
        check(f"box{len(size)}d", image, size, border, device=device, value=2.5)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("border", ["replicate", "constant", "symmetric", "circular"])
@pytest.mark.parametrize(
    ("size", "shapes"),
    [((200, 200), [(3, 220, 310), (2, 50, 61)]), ((30, 32, 40), [(1, 35, 36, 50), (2, 9, 11, 21)])],
    ids=["200x200", "30x32x40"],
)
def test_large_even_boxes(device, dtype, border, size, shapes):
    """The anchor of an even box is half of it, in an image that holds it and in one that does not."""
    middle, area = tuple(k // 2 for k in size), np.prod(size)
    for shape in shapes:
        image = make_image(shape, dtype)
        got = blur_of(size)(image.to(device), size, border, anchor=-1)
        sums = (torch.from_numpy(witness.box_sum(x.numpy(), size, border, middle)) / area for x in (image, image.abs()))
        assert_within(got, *sums, in_dtype=dtype, algorithm="box", window=size)


LARGER_2D = [(1, 1), (1, 50), (50, 1), (7, 333), (300, 5)]
LARGER_3D = [(1, 1, 1), (1, 1, 50), (1, 50, 1), (50, 1, 1), (3, 4, 33), (30, 5, 2)]


@pytest.mark.parametrize("shape", [*LARGER_2D, *LARGER_3D])
def test_window_larger_than_the_image(device, shape):
    for border in BORDERS:
        size = {2: (45, 37), 3: (7, 6, 9)}[len(shape)]
        check(f"box{len(shape)}d", make_image(shape), size, border, device=device)


@pytest.mark.parametrize(("shape", "size"), [((4000, 65), (31, 31)), ((3000, 3, 9), (31, 3, 5))])
def test_long_image_with_an_offset_does_not_drift(device, shape, size):
    """Running sums that never restart would lose digits row by row: 1000 plus noise along the first axis."""
    image = make_image(shape) + 1000
    sums = witness.box_sum(image.numpy(), size, "reflect", tuple(k // 2 for k in size))
    means = torch.from_numpy(sums) / np.prod(size)
    got = blur_of(size)(image.to(device), size, "reflect")
    assert_within(got, means, means, in_dtype=image.dtype, algorithm="box", window=size)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(("shape", "size"), [((2, 40, 57), (9, 14)), ((2, 9, 12, 25), (3, 5, 4))])
def test_integer_sums_are_exact(device, dtype, normalized, shape, size):
    """Sums below 2^24 hold in float32 whatever their order: equal to the rounded float64 result."""
    image = (make_image(shape, dtype).int() // 3).to(dtype)
    got = box_of(size)(image.to(device), size, "reflect", normalized, output_dtype=torch.float64).cpu()
    expected = exact(f"filter{len(size)}d", image, torch.ones(size), "reflect", normalized)
    if normalized:
        assert (got - expected).abs().max() <= expected.abs().max() * 2**-23
    else:
        assert torch.equal(got, expected)


def sums_of(image, size):
    """The sum of every window in int64."""
    sums = image.numpy().astype(np.int64)
    for axis, k in zip(range(-len(size), 0), size, strict=True):
        running = np.insert(sums.cumsum(axis), 0, 0, axis)
        n = running.shape[axis]
        sums = running.take(np.arange(k, n), axis) - running.take(np.arange(n - k), axis)
    return sums


def half_to_even(sums, area):
    down = sums // area
    rest = 2 * (sums - down * area)
    return down + ((rest > area) | ((rest == area) & (down % 2 == 1)))


MEANS_2D = [(1, 2), (2, 7), (4, 6), (100, 101), (200, 200)]
MEANS_3D = [(1, 1, 2), (2, 1, 1), (2, 3, 7), (4, 2, 6), (20, 31, 32)]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("size", [*MEANS_2D, *MEANS_3D])
def test_integer_means_are_rounded_once(device, dtype, size):
    """Half to even of the rational sum / area; floats are the quotient's nearest."""
    axes, area = len(size), int(np.prod(size))
    image = make_image({2: (2, 230, 260), 3: (2, 22, 33, 40)}[axes], dtype)
    sums = sums_of(image, size)
    for layout in ("contiguous", "transposed" if axes == 2 else "depth_inner"):
        given_image = lay_out(image.to(device), layout)
        for border in ("reflect", "skip", "constant"):
            got = box_of(size)(given_image, size, border, True, padding="valid", value=2.5).cpu()
            assert np.array_equal(got.numpy().astype(np.int64), half_to_even(sums, area)), border
        for output in (torch.float32, torch.float64)[: 4 - axes]:
            got = box_of(size)(given_image, size, "reflect", True, padding="valid", output_dtype=output).cpu().numpy()
            assert np.array_equal(got, (sums / area).astype(got.dtype))


@pytest.mark.parametrize("normalized", [True, False])
def test_every_sum_of_bytes_that_fits_into_16_bits(normalized):
    """All areas below 256 with all sums from 0 to 255 * area: the CPU's means of them are products of 16 bits."""
    for area in range(1, 256):
        sums = np.arange(255 * area + 1)
        expected = half_to_even(sums, area) if normalized else np.minimum(sums, 255)
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
                check("box2d", image, size, border, device=device, **options)


INF, NAN = float("inf"), float("nan")
NONFINITE = {
    (100, 80): [
        [(20, 3, INF), (20, 30, -INF)],
        [(20, 3, -INF), (20, 5, INF), (20, 60, NAN)],
        [(0, 0, INF), (1, 40, -INF), (2, 41, NAN), (21, 77, INF)],
        [(5, 10, INF), (6, 10, -INF), (50, 10, NAN), (99, 79, -INF)],
    ],
    (12, 11, 40): [
        [(4, 5, 3, INF), (4, 5, 9, -INF)],
        [(4, 5, 3, -INF), (6, 5, 3, INF), (4, 9, 30, NAN)],
        [(0, 0, 0, INF), (1, 0, 20, -INF), (2, 1, 21, NAN), (11, 10, 37, INF)],
        [(5, 10, 10, INF), (6, 10, 10, -INF), (11, 0, 39, -INF)],
    ],
}


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", NONFINITE)
def test_nonfinite_pixels_reach_their_windows_only(device, border, dtype, shape):
    """NaN, Inf and -Inf in one row, in neighbouring rows and far apart: every pixel as the plain sum has it."""
    flat = len(shape) == 2
    for pixels in NONFINITE[shape]:
        image = make_image(shape, dtype)
        for *at, value in pixels:
            image[tuple(at)] = value
        for size in ((3, 5), (9, 4), (1, 21), (30, 1)) if flat else ((3, 3, 5), (4, 1, 2), (1, 3, 9), (9, 4, 1)):
            got = box_of(size)(image.to(device), size, border, False, algorithm="box").cpu()
            window = torch.ones(size, dtype=torch.float64)
            expected = exact(f"filter{len(size)}d", image, window, border, False)
            finite = expected.isfinite()
            assert torch.equal(got.isfinite(), finite)
            assert_same_bits(got[~finite].double(), expected[~finite])
            assert (got[finite] - expected[finite]).abs().max() < 1e-3


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("border", BORDERS)
def test_window_far_larger_than_the_image(device, border, dtype):
    """The gradient by the number of times that windows read each row and column."""
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
    """The number of reads of each pixel of an axis by the window of each output, as differences of running counts."""
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


@pytest.mark.parametrize(("shape", "size"), [((3, 100, 130), (17, 9)), ((3, 12, 20, 30), (5, 7, 4))])
def test_repeats_itself_bit_for_bit(device, shape, size):
    image = make_image(shape, device=device)
    first = box_of(size)(image, size)
    for _ in range(3):
        assert_same_bits(box_of(size)(image, size), first)
    alone = torch.stack([box_of(size)(each, size) for each in image])
    assert_same_bits(first, alone)  # every position in the batch


@pytest.mark.parametrize(("shape", "size"), [((70, 90), (21, 33)), ((20, 30, 40), (9, 21, 33))])
def test_constant_image_stays_constant(device, shape, size):
    image = torch.full(shape, 7.0, device=device)
    torch.testing.assert_close(box_of(size)(image, size), image, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("axes", "axis"), [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_skip_divides_by_the_pixels_inside(device, axes, axis):
    shape, size = [1] * axes, [1] * axes
    shape[axis], size[axis] = 4, 3
    image = torch.arange(1.0, 5.0, device=device).reshape(shape)
    assert box_of(size)(image, size, "skip", True).flatten().tolist() == [1.5, 2.0, 3.0, 3.5]
    assert box_of(size)(image, size, "skip", False).flatten().tolist() == [3.0, 6.0, 9.0, 7.0]


@pytest.mark.parametrize(("axes", "shape"), [(2, (2, 0, 5)), (3, (2, 0, 5)), (3, (0, 4, 5)), (3, (0, 3, 4, 5, 6))])
def test_no_elements_in_no_elements_out(device, axes, shape):
    image = torch.zeros(shape, device=device)
    assert box_of([3] * axes)(image, [3] * axes).shape == image.shape


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        *(((45, 52), size) for size in ((3, 3), (4, 6), (41, 8))),
        *(((25, 12, 32), size) for size in ((3, 3, 3), (4, 6, 2), (21, 8, 5))),
    ],
)
def test_witness_scipy(device, shape, size):
    image = make_image(shape, torch.float64)
    expected = ndi.uniform_filter(image.numpy(), size, mode="mirror")
    got = box_of(size)(image.to(device), size, "reflect", anchor=[-1] * len(size)).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("size", [(5, 5), (6, 9), (200, 200)])
def test_witness_opencv_on_bytes(device, size):
    """OpenCV rounds the scaled sum its own way: at most one grey level apart, and seldom."""
    image = make_image((210, 230), torch.uint8)
    expected = cv2.blur(image.numpy(), size[::-1], borderType=cv2.BORDER_REFLECT_101).astype(int)
    got = torch_conv.box_blur(image.to(device), size, anchor=-1).cpu().numpy().astype(int)
    assert np.abs(got - expected).max() <= 1
    assert (got != expected).mean() < 0.01


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_a_border_value_that_is_not_finite_stays_in_its_windows(device, dtype, value):
    volume, size = make_image((7, 9, 33), dtype).to(device), (3, 5, 7)
    got = box3d(volume, size, "constant", value=value, output_dtype=torch.float32, algorithm="box")
    plain = torch_conv.filter3d(volume, torch.ones(size), "constant", value=value, output_dtype=torch.float32)
    assert torch.equal(got.isfinite(), plain.isfinite())
    assert torch.equal(got.isnan(), plain.isnan())
    assert got.isfinite().any()


@pytest.mark.parametrize("value", [0.1, 70000.3])
def test_a_border_value_no_voxel_can_hold(device, value):
    """The border's value is not rounded to the voxels' dtype, and means with this value are rounded once."""
    volume = make_image((7, 9, 13), torch.uint8)
    for output_dtype in (torch.float32, torch.uint16):
        check("box3d", volume, (3, 5, 7), "constant", device=device, value=value, output_dtype=output_dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_means_of_voxels_near_the_largest_number(device, dtype):
    """No sum of a window overflows that float32 holds."""
    for size in ((3, 3, 3), (4, 5, 6)):
        voxel = 3e38 / (size[0] * size[1] * size[2])
        volume = torch.full((6, 8, 16), voxel, dtype=dtype, device=device)
        mean = box3d(volume, size, algorithm="box").double()
        assert ((mean / voxel - 1).abs() < 2e-2).all()


# ---- the functions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(("size", "anchor"), [((5, 4), (0, 3)), ((3, 5, 4), (2, 0, 3))])
def test_function_and_operator_are_one(device, border, normalized, size, anchor):
    image = make_image((2, 3, *UNEVEN[len(size)]), device=device)
    got = blur_of(size)(image, size, border, normalized=normalized, anchor=anchor)
    assert_same_bits(got, box_of(size)(image, size, border, normalized, anchor=anchor))


@pytest.mark.parametrize("axes", AXES)
def test_defaults(device, axes):
    """The mean over a square or cube; kornia's border for images, repeated voxels for volumes."""
    image, size = make_image((2, *UNEVEN[axes])), (3,) * axes
    name = {2: "box_blur", 3: "box_blur3d"}[axes]
    check_function(name, image, 3, device=device, algorithm="box", window=size)
    expected = blur_of(size)(image.to(device), size, DEFAULT_BORDER[axes], normalized=True)
    assert_same_bits(blur_of(size)(image.to(device), 3), expected)


def test_separable_changes_nothing(device):
    image = make_image((20, 31), device=device)
    assert_same_bits(torch_conv.box_blur(image, 5, "reflect", False), torch_conv.box_blur(image, 5, "reflect", True))


@pytest.mark.parametrize(("axes", "axis"), [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_order_of_a_size_is_depth_height_width(device, axes, axis):
    image, size = torch.zeros((7,) * axes, device=device), [1] * axes
    image[(3,) * axes] = 3
    size[axis] = 3
    got = blur_of(size)(image, size, "constant")
    assert got.movedim(axis, -1)[(3,) * (axes - 1)].tolist() == [0, 0, 1, 1, 1, 0, 0]
    assert got.count_nonzero() == 3


def test_one_plane_deep_is_box_blur_on_every_plane(device):
    volume = make_image((2, 5, 12, 15), torch.uint8, device=device)
    got = torch_conv.box_blur3d(volume, (1, 5, 4), "reflect")
    assert_same_bits(got, torch_conv.box_blur(volume, (5, 4), "reflect"))


@pytest.mark.parametrize("size", [3, (3, 7), (9, 5)])
@pytest.mark.parametrize("border", ["constant", "reflect", "replicate", "circular"])
def test_witness_kornia(size, border):
    kornia = pytest.importorskip("kornia")
    image = make_image((2, 3, 19, 23), torch.float64)
    expected = kornia.filters.box_blur(image, size, border)
    torch.testing.assert_close(torch_conv.box_blur(image, size, border), expected, rtol=1e-11, atol=1e-11)
