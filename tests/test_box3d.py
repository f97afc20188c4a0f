"""box3d (the operator under box_blur3d): sums and means over a box of any size."""

from __future__ import annotations

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

box3d = torch.ops.torch_conv.box3d


def check_box(volume, size, border_type="replicate", *, device, **options):
    return check_operator("box3d", volume, size, border_type=border_type, device=device, **options)


@given(case=box_cases(axes=3))
def test_any_call_agrees_with_the_oracle(device, case):
    volume, size, options = case
    check_box(volume, size, device=device, **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "size", [(1, 1, 1), (3, 3, 3), (5, 5, 5), (4, 2, 6), (9, 1, 1), (1, 9, 1), (1, 1, 17), (1, 4, 5)]
)
def test_sizes(device, dtype, size):
    volume = make_image((2, 11, 12, 25), dtype)
    for border in ("reflect", "constant", "skip"):
        check_box(volume, size, border, device=device, value=2.5)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("border", ["replicate", "constant", "symmetric", "circular"])
def test_a_large_even_box(device, dtype, border):
    """In a volume that holds it and in one that does not."""
    for shape in ((1, 35, 36, 50), (2, 9, 11, 21)):
        volume, size = make_image(shape, dtype), (30, 32, 40)
        got = torch_conv.box_blur3d(volume.to(device), size, border, anchor=-1)
        area = 30 * 32 * 40
        assert_within(
            got,
            torch.from_numpy(witness.box_sum(volume.numpy(), size, border, (15, 16, 20))) / area,
            torch.from_numpy(witness.box_sum(volume.abs().numpy(), size, border, (15, 16, 20))) / area,
            in_dtype=dtype,
            algorithm="box",
            window=size,
        )


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 50), (1, 50, 1), (50, 1, 1), (3, 4, 33), (30, 5, 2)])
def test_window_larger_than_the_volume(device, shape):
    for border in BORDERS:
        check_box(make_image(shape), (7, 6, 9), border, device=device)


def test_deep_volume_with_an_offset_does_not_drift(device):
    """Running sums that never restart would lose digits plane by plane: 3000 planes of 1000 plus noise."""
    volume = make_image((3000, 3, 9)) + 1000
    sums = torch.from_numpy(witness.box_sum(volume.numpy(), (31, 3, 5), "reflect", (15, 1, 2))) / (31 * 15)
    got = torch_conv.box_blur3d(volume.to(device), (31, 3, 5), "reflect")
    assert_within(got, sums, sums, in_dtype=volume.dtype, algorithm="box", window=(31, 3, 5))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("normalized", [True, False])
def test_integer_sums_are_exact(device, dtype, normalized):
    volume = (make_image((2, 9, 12, 25), dtype).int() // 3).to(dtype)
    got = box3d(volume.to(device), [3, 5, 4], "reflect", normalized, output_dtype=torch.float64).cpu()
    expected = exact("filter3d", volume, torch.ones(3, 5, 4), "reflect", normalized)
    if normalized:
        assert (got - expected).abs().max() <= expected.abs().max() * 2**-23
    else:
        assert torch.equal(got, expected)


def sums_of(volume, size):
    """Every window's sum in int64."""
    sums = volume.numpy().astype(np.int64)
    for axis, k in zip((-3, -2, -1), size, strict=True):
        running = np.insert(sums.cumsum(axis), 0, 0, axis)
        n = running.shape[axis]
        sums = running.take(np.arange(k, n), axis) - running.take(np.arange(n - k), axis)
    return sums


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("size", [(1, 1, 2), (2, 1, 1), (2, 3, 7), (4, 2, 6), (20, 31, 32)])
def test_integer_means_are_rounded_once(device, dtype, size):
    """Half to even of the rational sum / area; float32 outputs are the quotient's nearest."""
    volume = make_image((2, 22, 33, 40), dtype)
    area = int(np.prod(size))
    sums = sums_of(volume, size)
    down = sums // area
    rest = 2 * (sums - down * area)
    expected = down + ((rest > area) | ((rest == area) & (down % 2 == 1)))
    for layout in ("contiguous", "depth_inner"):
        given_volume = lay_out(volume.to(device), layout)
        for border in ("reflect", "skip", "constant"):
            got = box3d(given_volume, list(size), border, True, padding="valid", value=2.5).cpu()
            assert np.array_equal(got.numpy().astype(np.int64), expected), border
        got = box3d(given_volume, list(size), "reflect", True, padding="valid", output_dtype=torch.float32).cpu()
        assert np.array_equal(got.numpy(), (sums / area).astype(np.float32))


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nonfinite_voxels_reach_their_windows_only(device, border, dtype):
    """NaN, Inf and -Inf in one row, one column and far apart: every voxel as the plain sum has it."""
    inf, nan = float("inf"), float("nan")
    for voxels in (
        [(4, 5, 3, inf), (4, 5, 9, -inf)],
        [(4, 5, 3, -inf), (6, 5, 3, inf), (4, 9, 30, nan)],
        [(0, 0, 0, inf), (1, 0, 20, -inf), (2, 1, 21, nan), (11, 10, 37, inf)],
        [(5, 10, 10, inf), (6, 10, 10, -inf), (11, 0, 39, -inf)],
    ):
        volume = make_image((12, 11, 40), dtype)
        for z, y, x, value in voxels:
            volume[z, y, x] = value
        for size in ((3, 3, 5), (4, 1, 2), (1, 3, 9), (9, 4, 1)):
            got = box3d(volume.to(device), list(size), border, False, algorithm="box").cpu()
            expected = exact("filter3d", volume, torch.ones(size, dtype=torch.float64), border, False)
            finite = expected.isfinite()
            assert torch.equal(got.isfinite(), finite)
            assert_same_bits(got[~finite].double(), expected[~finite])
            assert (got[finite] - expected[finite]).abs().max() < 1e-3


def test_repeats_itself_bit_for_bit(device):
    volume = make_image((3, 12, 20, 30), device=device)
    first = box3d(volume, [5, 7, 4])
    for _ in range(3):
        assert_same_bits(box3d(volume, [5, 7, 4]), first)
    alone = torch.stack([box3d(v, [5, 7, 4]) for v in volume])
    assert_same_bits(first, alone)  # every position in the batch


def test_constant_volume_stays_constant(device):
    volume = torch.full((20, 30, 40), 7.0, device=device)
    torch.testing.assert_close(box3d(volume, [9, 21, 33]), volume, rtol=1e-6, atol=0)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_skip_divides_by_the_voxels_inside(device, axis):
    shape, size = [1, 1, 1], [1, 1, 1]
    shape[axis], size[axis] = 4, 3
    volume = torch.arange(1.0, 5.0, device=device).reshape(shape)
    assert box3d(volume, size, "skip", True).flatten().tolist() == [1.5, 2.0, 3.0, 3.5]
    assert box3d(volume, size, "skip", False).flatten().tolist() == [3.0, 6.0, 9.0, 7.0]


@pytest.mark.parametrize("shape", [(2, 0, 5), (0, 4, 5), (0, 3, 4, 5, 6)])
def test_no_elements_in_no_elements_out(device, shape):
    volume = torch.zeros(shape, device=device)
    assert box3d(volume, [3, 3, 3]).shape == volume.shape


@pytest.mark.parametrize("size", [(3, 3, 3), (4, 6, 2), (21, 8, 5)])
def test_witness_scipy(device, size):
    volume = make_image((25, 12, 32), torch.float64)
    expected = ndi.uniform_filter(volume.numpy(), size, mode="mirror")
    got = box3d(volume.to(device), list(size), "reflect", anchor=[-1, -1, -1]).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-11, atol=1e-11)


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
    """It is not rounded to the voxels' dtype, and means of whole numbers and it are rounded once."""
    volume = make_image((7, 9, 13), torch.uint8)
    for output_dtype in (torch.float32, torch.uint16):
        check_box(volume, (3, 5, 7), "constant", device=device, value=value, output_dtype=output_dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_means_of_voxels_near_the_largest_number(device, dtype):
    """No sum of a window overflows that float32 holds."""
    for size in ((3, 3, 3), (4, 5, 6)):
        voxel = 3e38 / (size[0] * size[1] * size[2])
        volume = torch.full((6, 8, 16), voxel, dtype=dtype, device=device)
        mean = box3d(volume, size, algorithm="box").double()
        assert ((mean / voxel - 1).abs() < 2e-2).all()
