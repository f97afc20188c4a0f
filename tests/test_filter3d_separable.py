"""filter3d_separable: three 1-D windows, equal to their outer product on the extended volume."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from hypothesis import given
from oracle import check, exact, magnitude
from strategies import BORDERS, DTYPES, make_image, make_window, separable_cases
from tolerance import assert_same_bits, assert_within
from witness import outer

import torch_conv


@given(case=separable_cases(axes=3))
def test_any_call_agrees_with_the_oracle(device, case):
    check(
        "filter3d_separable",
        case.image,
        *case.kernels,
        device=device,
        algorithm="separable",
        window=tuple(k.shape[-1] for k in case.kernels),
        layout=case.layout,
        **case.options,
    )


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("window", [(1, 1, 1), (1, 1, 7), (1, 7, 1), (7, 1, 1), (3, 3, 3), (4, 2, 6), (5, 9, 3)])
def test_equals_the_outer_product_on_the_extended_volume(device, border, padding, window):
    """Also for a border value other than 0, and where two or three axes are outside at once."""
    volume = make_image((2, 8, 11, 20))
    taps = [make_window((k,), seed=i) for i, k in enumerate(window)]
    product = torch.from_numpy(outer(*taps))
    z, y, x = (t.to(device) for t in taps)
    options = {"border_type": border, "padding": padding, "value": 3.0}
    assert_within(
        torch_conv.filter3d_separable(volume.to(device), x, y, z, **options),
        exact("filter3d", volume, product, **options),
        magnitude("filter3d", volume, product, **options),
        in_dtype=torch.float32,
        algorithm="separable",
        window=window,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [3, 5, 7, 9, 15])
def test_sizes_and_dtypes(device, dtype, size):
    kernel = make_window((size,)).abs() / size
    volume = make_image((2, 7, 9, 21), dtype)
    expected = torch_conv.reference.filter3d_separable(volume, kernel, kernel.flip(0), kernel, "reflect")
    call = [volume, kernel, kernel.flip(0), kernel, "reflect"]
    got = torch_conv.filter3d_separable(*(t.to(device) if isinstance(t, torch.Tensor) else t for t in call))
    scale = torch_conv.reference.filter3d_separable(volume.double().abs(), *call[1:])
    exact_sum = torch_conv.reference.filter3d_separable(volume.double(), *call[1:])
    assert_within(got, exact_sum, scale, in_dtype=dtype, algorithm="separable", window=(size,) * 3)
    assert got.dtype == expected.dtype == dtype


def test_one_rounding_at_the_end(device):
    """Rounding a pass to uint8 would lose the halves."""
    volume = torch.ones(5, 6, 6, dtype=torch.uint8, device=device)
    half = torch.full((2,), 0.5, device=device)
    assert torch_conv.filter3d_separable(volume, half * 0.5, half * 0.5, half * 4).eq(1).all()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_each_window_lies_along_its_axis(device, axis):
    volume = torch.zeros(7, 7, 7, device=device)
    volume[3, 3, 3] = 1
    taps = [torch.tensor([2.0], device=device)] * 3
    taps[axis] = torch.tensor([1.0, 2.0, 3.0], device=device)
    z, y, x = taps
    got = torch_conv.filter3d_separable(volume, x, y, z, "constant")
    assert got.movedim(axis, -1)[3, 3].tolist() == [0, 0, 12, 8, 4, 0, 0]
    assert got.count_nonzero() == 3


@pytest.mark.parametrize("form", [(3,), (1, 2), (3, 2)])
def test_windows_per_sample_and_channel(device, form):
    """Also where the three have different forms."""
    volume = make_image((3, 2, 6, 9, 12))
    x, y, z = make_window((*form, 5)), make_window((3, 3), seed=8), make_window((3,), seed=9)
    got = torch_conv.filter3d_separable(volume.to(device), x.to(device), y.to(device), z.to(device)).cpu()
    full = (x[:, None] if len(form) == 1 else x).expand(3, 2, 5)
    for b in range(3):
        for c in range(2):
            assert_same_bits(got[b, c], torch_conv.filter3d_separable(volume[b, c], full[b, c].clone(), y[b], z))


def test_function_and_operator_are_one(device):
    volume, k = make_image((2, 3, 6, 12, 15), device=device), make_window((5,), device=device)
    operator = torch.ops.torch_conv.filter3d_separable
    assert_same_bits(operator(volume, k, k, k), torch_conv.filter3d_separable(volume, k, k, k))


@pytest.mark.parametrize("shape", [(0, 3, 4, 5, 6), (4, 0, 5), (0, 4, 5)])
def test_no_elements_in_no_elements_out(device, shape):
    volume, k = torch.zeros(shape, device=device), torch.ones(3, device=device)
    assert torch_conv.filter3d_separable(volume, k, k, k).shape == volume.shape


@pytest.mark.parametrize("mode", [("reflect", "mirror"), ("replicate", "nearest"), ("circular", "wrap")])
def test_witness_scipy(device, mode):
    volume = make_image((9, 13, 17), torch.float64)
    z, y, x = (make_window((k,), torch.float64, seed=k) for k in (7, 4, 5))
    expected = volume.numpy()
    for axis, taps in ((2, x), (1, y), (0, z)):
        expected = ndi.correlate1d(expected, taps.numpy(), axis, mode=mode[1])
    moved = (t.to(device) for t in (x, y, z))
    got = torch_conv.filter3d_separable(volume.to(device), *moved, mode[0], anchor=-1).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_a_far_border_value_costs_no_memory(device):
    """A window that reaches a billion planes outside, whose values are all the same."""
    volume, taps = make_image((4, 5, 16)), [make_window((3,), seed=i) for i in range(3)]
    z, y, x = (t.to(device) for t in taps)
    got = torch_conv.filter3d_separable(
        volume.to(device), x, y, z, "constant", value=1.5, dilation=(1_000_000_000, 1, 1)
    )
    product = torch.from_numpy(outer(*taps)).to(volume.dtype)
    expected = torch_conv.filter3d(volume, product, "constant", value=1.5, dilation=(1_000_000_000, 1, 1))
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tap", [float("nan"), float("inf")])
def test_zero_output_is_zero_whatever_the_taps(device, tap):
    volume, ones = make_image((2, 6, 7, 16)).to(device), torch.ones(3, device=device)
    z = torch.tensor([1.0, tap, 1.0], device=device)
    got = torch_conv.filter3d_separable(volume, ones, ones, z, "zero_output")
    expected = torch.zeros_like(volume, dtype=torch.bool)
    expected[:, 1:-1, 1:-1, 1:-1] = True
    assert torch.equal(~got.isfinite(), expected)
    assert (got[~expected] == 0).all()
