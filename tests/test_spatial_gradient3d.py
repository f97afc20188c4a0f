"""spatial_gradient3d: derivative windows over volumes."""

from __future__ import annotations

import pytest
import scipy.ndimage as ndi
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import exact
from strategies import FLOATS, VOLUME_LAYOUTS, lay_out, make_image, seeds, shapes
from tolerance import assert_same_bits, assert_within

import torch_conv

KINDS = [("diff", 1), ("diff", 2), ("sobel", 1)]


@given(
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(FLOATS),
    lead=st.lists(st.integers(1, 3), max_size=3),
    size=shapes(3),
    border=st.sampled_from(["replicate", "reflect", "constant", "symmetric", "circular"]),
    layout=st.sampled_from(VOLUME_LAYOUTS),
    seed=seeds(),
)
def test_any_call_agrees_with_the_oracle(device, kind, dtype, lead, size, border, layout, seed):
    mode, order = kind
    volume = make_image((*lead, *size), dtype, seed)
    got = torch_conv.spatial_gradient3d(lay_out(volume.to(device), layout), mode, order, border_type=border)
    assert tuple(got.shape) == (*lead, 3 if order == 1 else 6, *size)
    expected = exact("spatial_gradient3d", volume, mode, order, border_type=border)
    scale = torch.full_like(expected, 4 * volume.double().abs().max().item())  # the largest sum of |taps|
    assert_within(got, expected, scale, in_dtype=dtype, algorithm="direct", window=(3, 3, 3))


def cubic():
    """A polynomial whose derivatives are known, in units of voxels."""
    z, y, x = torch.meshgrid(*(torch.arange(float(n), dtype=torch.float64) for n in (7, 8, 9)), indexing="ij")
    return 2 * x * x + 3 * y * y - z * z + 5 * x * y - 4 * y * z + 7 * x * z + x - 6 * y + 8 * z, z, y, x


@pytest.mark.parametrize("mode", ["diff", "sobel"])
def test_a_quadratic_has_its_slopes(device, mode):
    """Central differences of a quadratic are exact away from the border, smoothed or not up to its curvature."""
    volume, z, y, x = cubic()
    got = torch_conv.spatial_gradient3d(volume.to(device), mode).cpu()
    inside = (slice(1, -1),) * 3
    for derivative, expected in zip(
        got, (4 * x + 5 * y + 7 * z + 1, 6 * y + 5 * x - 4 * z - 6, -2 * z - 4 * y + 7 * x + 8), strict=True
    ):
        torch.testing.assert_close(derivative[inside], expected[inside])


def test_a_quadratic_has_its_curvatures(device):
    got = torch_conv.spatial_gradient3d(cubic()[0].to(device), "diff", 2).cpu()
    for derivative, expected in zip(got, (4.0, 6.0, -2.0, 5.0, -4.0, 7.0), strict=True):
        inside = derivative[1:-1, 1:-1, 1:-1]
        torch.testing.assert_close(inside, torch.full_like(inside, expected))


@pytest.mark.parametrize("order", [1, 2])
def test_witness_kornia(order):
    kornia = pytest.importorskip("kornia")
    volume = make_image((2, 3, 5, 8, 9), torch.float64)
    expected = kornia.filters.spatial_gradient3d(volume, "diff", order)
    got = torch_conv.spatial_gradient3d(volume, "diff", order)
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
    assert_same_bits(torch_conv.spatial_gradient3d(volume, order=order), got)


def test_witness_scipy_sobel(device):
    volume = make_image((1, 1, 7, 8, 9), torch.float64)
    got = torch_conv.spatial_gradient3d(volume.to(device), "sobel").cpu()[0, 0]
    for derivative, axis in zip(got, (2, 1, 0), strict=True):
        expected = torch.from_numpy(ndi.sobel(volume[0, 0].numpy(), axis, mode="nearest"))
        torch.testing.assert_close(derivative, expected / 32, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("laplace",), "mode must be 'diff' or 'sobel', got 'laplace'"),
        (("diff", 3), "order must be 1 or 2 for mode 'diff', got 3"),
        (("sobel", 2), "order must be 1 for mode 'sobel', got 2"),
    ],
)
def test_bad_mode_or_order(device, args, sentence):
    with pytest.raises(ValueError) as caught:
        torch_conv.spatial_gradient3d(torch.zeros(1, 1, 5, 8, 9, device=device), *args)
    assert str(caught.value) == f"spatial_gradient3d: {sentence}"


def test_bad_input_and_out(device):
    with pytest.raises(ValueError, match="^spatial_gradient3d: input must have at least 3 dimensions, got 2$"):
        torch_conv.spatial_gradient3d(torch.zeros(8, 9, device=device))
    with pytest.raises(ValueError) as caught:
        torch_conv.spatial_gradient3d(torch.zeros(5, 8, 9, device=device), out=torch.zeros(6, 5, 8, 9, device=device))
    assert str(caught.value) == "spatial_gradient3d: out must have shape (3, 5, 8, 9), got (6, 5, 8, 9)"


def test_into_a_strided_out(device):
    volume = make_image((2, 3, 5, 8, 9), device=device)
    expected = torch_conv.spatial_gradient3d(volume, padding="valid")
    out = torch.zeros(2, 3, 3, 6, 7, 3, device=device).movedim(-1, 2)
    assert torch_conv.spatial_gradient3d(volume, padding="valid", out=out) is out
    assert_same_bits(out.contiguous(), expected)
