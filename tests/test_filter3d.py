"""filter3d: one window over a volume, against the oracle and other libraries."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
import torch.nn.functional as F
from hypothesis import given
from oracle import check
from strategies import BORDERS, DTYPES, filter_cases, make_image, make_window
from tolerance import assert_same_bits

import torch_conv

SCIPY = [
    ("constant", "constant"),
    ("replicate", "nearest"),
    ("reflect", "mirror"),
    ("symmetric", "reflect"),
    ("circular", "wrap"),
]


@given(case=filter_cases(axes=3))
def test_any_call_agrees_with_the_oracle(device, case):
    (kernel,) = case.kernels
    check("filter3d", case.image, kernel, device=device, window=kernel.shape[-3:], layout=case.layout, **case.options)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 70), (9, 1, 1), (1, 12, 1), (2, 3, 2), (5, 9, 33)])
@pytest.mark.parametrize("window", [(1, 1, 1), (3, 3, 3), (2, 4, 6), (7, 1, 1), (1, 5, 1), (1, 1, 9), (1, 3, 5)])
def test_shapes_and_windows(device, border, shape, window):
    kernel = make_window(window).abs() + 0.1
    check("filter3d", make_image((2, *shape)), kernel, border, device=device, window=window, value=1.5)


@pytest.mark.parametrize("window", [(3, 3, 3), (5, 5, 5), (7, 7, 7), (4, 6, 5), (9, 9, 9)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.float64])
def test_sizes(device, window, dtype):
    kernel = make_window(window) / torch.tensor(window).prod().sqrt()
    check("filter3d", make_image((2, 11, 14, 37), dtype), kernel, "reflect", device=device, window=window)


@pytest.mark.parametrize(("ours", "theirs"), SCIPY)
@pytest.mark.parametrize("window", [(3, 3, 3), (4, 6, 2), (1, 5, 1), (15, 2, 3)])
def test_witness_scipy(device, ours, theirs, window):
    volume, kernel = make_image((9, 8, 13), torch.float64), make_window(window, torch.float64)
    expected = ndi.correlate(volume.numpy(), kernel.numpy(), mode=theirs, cval=0.7)
    got = torch_conv.filter3d(volume.to(device), kernel.to(device), ours, value=0.7, anchor=-1).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_witness_conv3d(device):
    volume, kernel = make_image((2, 3, 8, 9, 11), torch.float64), make_window((5, 4, 3), torch.float64)
    expected = F.conv3d(volume.reshape(6, 1, 8, 9, 11), kernel[None, None]).reshape(2, 3, 4, 6, 9)
    got = torch_conv.filter3d(volume.to(device), kernel.to(device), padding="valid").cpu()
    torch.testing.assert_close(got, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("border", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("behaviour", ["corr", "conv"])
def test_witness_kornia(border, normalized, behaviour):
    kornia = pytest.importorskip("kornia")
    volume, kernel = make_image((2, 3, 7, 9, 8), torch.float64), make_window((2, 3, 5, 3), torch.float64)
    expected = kornia.filters.filter3d(volume, kernel, border, normalized, behaviour)
    got = torch_conv.filter3d(volume, kernel, border, normalized, behaviour)
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_window_s_axes_are_depth_height_width(device, axis):
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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0, 4, 5), (4, 0, 5), (4, 5, 0), (0, 3, 5, 7, 6), (2, 0, 5, 7, 6), (2, 3, 0, 7, 6)])
def test_no_elements_in_no_elements_out(device, dtype, shape):
    volume = torch.zeros(shape, dtype=dtype, device=device)
    got = torch_conv.filter3d(volume, torch.ones(3, 3, 3, device=device))
    assert got.shape == volume.shape
    assert got.dtype == dtype


@pytest.mark.parametrize(
    ("size", "stride", "expected"),
    [
        ((5, 7, 8), 2, (3, 4, 4)),
        ((5, 7, 8), (1, 3, 2), (5, 3, 4)),
        ((7, 4, 6), (3, 1, 1), (3, 4, 6)),
        ((1, 1, 1), 5, (1, 1, 1)),
    ],
)
def test_same_with_stride_starts_at_voxel_zero(device, size, stride, expected):
    volume, kernel = make_image(size, device=device), make_window((3, 3, 3), device=device)
    got = torch_conv.filter3d(volume, kernel, stride=stride)
    assert tuple(got.shape) == expected
    sz, sy, sx = (stride,) * 3 if isinstance(stride, int) else stride
    assert_same_bits(got, torch_conv.filter3d(volume, kernel)[::sz, ::sy, ::sx])


def test_valid_is_the_inside_of_same(device):
    volume, kernel = make_image((2, 3, 9, 12, 15), device=device), make_window((3, 4, 5), device=device)
    same = torch_conv.filter3d(volume, kernel)
    got = torch_conv.filter3d(volume, kernel, padding="valid")
    assert_same_bits(got, same[..., 1:-1, 1 : 12 - 2, 2 : 15 - 2])


def test_function_and_operator_are_one(device):
    volume, kernel = make_image((2, 3, 6, 12, 15), device=device), make_window((3, 3, 5), device=device)
    assert_same_bits(torch.ops.torch_conv.filter3d(volume, kernel), torch_conv.filter3d(volume, kernel))
    got = torch.ops.torch_conv.filter3d(volume, kernel, "reflect", True, "conv", stride=[1, 2, 1])
    assert_same_bits(got, torch_conv.filter3d(volume, kernel, "reflect", True, "conv", stride=(1, 2, 1)))


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 1, 3), (2, 1, 1, 3)])
def test_any_leading_dimensions(device, lead):
    volume, kernel = make_image((*lead, 6, 9, 15), device=device), make_window((3, 2, 5), device=device)
    got = torch_conv.filter3d(volume, kernel)
    one_by_one = torch.stack([torch_conv.filter3d(v, kernel) for v in volume.reshape(-1, 6, 9, 15)])
    assert_same_bits(got, one_by_one.reshape(volume.shape))


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
