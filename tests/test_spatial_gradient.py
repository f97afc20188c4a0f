"""spatial_gradient: derivative windows with replicated borders."""

from __future__ import annotations

import pytest
import scipy.ndimage as ndi
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import exact
from strategies import FLOATS, LAYOUTS, lay_out, make_image, seeds, sides
from tolerance import assert_within

import torch_conv

KINDS = [("sobel", 1), ("sobel", 2), ("diff", 1), ("diff", 2), ("scharr", 1), ("prewitt", 1)]


@given(
    kind=st.sampled_from(KINDS),
    normalized=st.booleans(),
    dtype=st.sampled_from(FLOATS),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), sides(), sides(40)),
    border=st.sampled_from(["replicate", "reflect", "constant", "symmetric", "circular"]),
    layout=st.sampled_from(LAYOUTS),
    seed=seeds(),
)
def test_any_call_agrees_with_the_oracle(device, kind, normalized, dtype, shape, border, layout, seed):
    mode, order = kind
    image = make_image(shape, dtype, seed)
    got = torch_conv.spatial_gradient(lay_out(image.to(device), layout), mode, order, normalized, border_type=border)
    b, c, h, w = shape
    assert tuple(got.shape) == (b, c, 2 if order == 1 else 3, h, w)
    expected = exact("spatial_gradient", image, mode, order, normalized, border_type=border)
    weight = 1.0 if normalized else 64.0  # the largest sum of |taps| of a raw window
    scale = torch.full_like(expected, weight * image.double().abs().max().item())
    assert_within(got, expected, scale, in_dtype=dtype, algorithm="composed", window=(5, 5))


@pytest.mark.parametrize("mode", ["sobel", "diff", "scharr", "prewitt"])
def test_a_ramp_has_its_slope(device, mode):
    """Normalised, every first-order mode returns slope * (sum of positive taps * their distance) / normaliser."""
    y, x = torch.meshgrid(torch.arange(9.0), torch.arange(11.0), indexing="ij")
    got = torch_conv.spatial_gradient((3 * x - 2 * y)[None, None].to(device), mode).cpu()
    # the windows weigh both neighbours by 1/2 in all; replicated borders see half a step
    torch.testing.assert_close(got[0, 0, 0, 2:-2, 2:-2], torch.full((5, 7), 3.0))
    torch.testing.assert_close(got[0, 0, 1, 2:-2, 2:-2], torch.full((5, 7), -2.0))


@pytest.mark.parametrize(("mode", "divisor", "witness"), [("sobel", 8, ndi.sobel), ("prewitt", 6, ndi.prewitt)])
def test_witness_scipy(device, mode, divisor, witness):
    image = make_image((1, 1, 15, 18), torch.float64)
    got = torch_conv.spatial_gradient(image.to(device), mode).cpu()[0, 0]
    raw = torch_conv.spatial_gradient(image.to(device), mode, normalized=False).cpu()[0, 0]
    for channel, axis in ((0, 1), (1, 0)):
        expected = torch.from_numpy(witness(image[0, 0].numpy(), axis, mode="nearest"))
        torch.testing.assert_close(got[channel], expected / divisor, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(raw[channel], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", ["sobel", "diff"])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("normalized", [True, False])
def test_witness_kornia(mode, order, normalized):
    kornia = pytest.importorskip("kornia")
    image = make_image((2, 3, 13, 17), torch.float64)
    expected = kornia.filters.spatial_gradient(image, mode, order, normalized)
    torch.testing.assert_close(
        torch_conv.spatial_gradient(image, mode, order, normalized), expected, rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("args", [("laplace",), ("sobel", 3), ("sobel", 0), ("scharr", 2), ("prewitt", 2)])
def test_bad_mode_or_order(device, args):
    with pytest.raises(ValueError, match="^spatial_gradient: (mode|order)"):
        torch_conv.spatial_gradient(torch.zeros(1, 1, 8, 9, device=device), *args)
