"""spatial_gradient: derivative windows with replicated borders."""

from __future__ import annotations

import pytest
import scipy.ndimage as ndi
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import exact
from strategies import BORDERS, DTYPES, FLOATS, LAYOUTS, lay_out, make_image, seeds, sides
from tolerance import assert_same_bits, assert_within

import torch_conv

KINDS = [("sobel", 1), ("sobel", 2), ("diff", 1), ("diff", 2), ("scharr", 1), ("prewitt", 1)]


@given(
    kind=st.sampled_from(KINDS),
    normalized=st.booleans(),
    dtype=st.sampled_from(FLOATS),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), sides(), sides(40)),
    border=st.sampled_from(["replicate", "reflect", "constant", "symmetric", "circular"]),
    layout=st.sampled_from(LAYOUTS),
    way=st.sampled_from(["auto", "direct", "separable"]),
    seed=seeds(),
)
def test_any_call_agrees_with_the_oracle(device, kind, normalized, dtype, shape, border, layout, way, seed):
    mode, order = kind
    image = make_image(shape, dtype, seed)
    options = {"border_type": border, "algorithm": way}
    got = torch_conv.spatial_gradient(lay_out(image.to(device), layout), mode, order, normalized, **options)
    b, c, h, w = shape
    assert tuple(got.shape) == (b, c, 2 if order == 1 else 3, h, w)
    expected = exact("spatial_gradient", image, mode, order, normalized, border_type=border)
    weight = 1.0 if normalized else 64.0  # the largest sum of |taps| of a raw window
    scale = torch.full_like(expected, weight * image.double().abs().max().item())
    assert_within(got, expected, scale, in_dtype=dtype, algorithm="composed", window=(5, 5))


# The windows as rows of taps, x and y; what normalisation divides them by stands in the row pass.
SLOPE, BEND, WIDE, BINOMIAL = [-1, 0, 1], [1, -2, 1], [-1, -2, 0, 2, 1], [1, 4, 6, 4, 1]
ROWS = {
    ("sobel", 1): ([(SLOPE, [1, 2, 1]), ([1, 2, 1], SLOPE)], [8, 8]),
    ("diff", 1): ([(SLOPE, [0, 1, 0]), ([0, 1, 0], SLOPE)], [2, 2]),
    ("scharr", 1): ([(SLOPE, [3, 10, 3]), ([3, 10, 3], SLOPE)], [32, 32]),
    ("prewitt", 1): ([(SLOPE, [1, 1, 1]), ([1, 1, 1], SLOPE)], [6, 6]),
    ("sobel", 2): ([([1, 0, -2, 0, 1], BINOMIAL), (WIDE, WIDE), (BINOMIAL, [1, 0, -2, 0, 1])], [64, 64, 64]),
    ("diff", 2): ([(BEND, [0, 1, 0]), (SLOPE, SLOPE), ([0, 1, 0], BEND)], [1, 4, 1]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_is_separable_filters_to_the_last_bit(device, kind, normalized, dtype):
    image = make_image((2, 20, 31), dtype, device=device)
    for border in BORDERS:
        options = {"border_type": border, "value": 1.5, "output_dtype": torch.float32}
        got = torch_conv.spatial_gradient(image, *kind, normalized, **options)
        for i, (rows, divisor) in enumerate(zip(*ROWS[kind], strict=True)):
            x, y = (torch.tensor(row, dtype=torch.float64) for row in rows)
            expected = torch_conv.filter2d_separable(image, x / divisor if normalized else x, y, **options)
            assert_same_bits(got[:, i], expected)


@pytest.mark.parametrize("kind", KINDS)
def test_direct_is_the_windows_of_filter2d(device, kind):
    image = make_image((2, 3, 20, 31), device=device)
    got = torch_conv.spatial_gradient(image, *kind, algorithm="direct")
    for i, (rows, divisor) in enumerate(zip(*ROWS[kind], strict=True)):
        x, y = (torch.tensor(row, dtype=torch.float64) for row in rows)
        assert_same_bits(got[:, :, i], torch_conv.filter2d(image, torch.outer(y, x) / divisor, "replicate"))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != ("diff", 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_sum_on_the_way_overflows(device, kind, dtype):
    """The |taps| of a normalised window sum to 1 or less, so an image as large as numbers get has a gradient."""
    largest = torch.finfo(dtype).max
    image = (make_image((20, 31), torch.float64).sign() * largest).to(dtype).to(device)
    assert torch_conv.spatial_gradient(image, *kind).isfinite().all()


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
