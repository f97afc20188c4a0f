"""gaussian_sobel: edges of a blurred image in one call."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import exact, magnitude
from strategies import BORDERS, EXTENDING, FLOATS, LAYOUTS, lay_out, make_image, seeds, sides
from tolerance import assert_within

import torch_conv

SOBEL_X = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]], dtype=torch.float64)


@given(
    size=st.sampled_from([1, 3, 5, (3, 7)]),
    kind=st.sampled_from(["l1", "l2"]),
    dtype=st.sampled_from(FLOATS),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), sides(), sides(40)),
    border=st.sampled_from(BORDERS),
    layout=st.sampled_from(LAYOUTS),
    way=st.sampled_from(["auto", "separable"]),
    seed=seeds(),
)
def test_any_call_agrees_with_the_oracle(device, size, kind, dtype, shape, border, layout, way, seed):
    image = make_image(shape, dtype, seed)
    ky, kx = (size, size) if isinstance(size, int) else size
    options = {"magnitude": kind, "algorithm": way}
    got = torch_conv.gaussian_sobel(lay_out(image.to(device), layout), size, 1.3, border, **options)
    scale = torch.full(shape, 16 * image.double().abs().max().item(), dtype=torch.float64)
    expected = exact("gaussian_sobel", image, size, 1.3, border, magnitude=kind)
    assert_within(got, expected, scale, in_dtype=dtype, algorithm="composed", window=(ky + 2, kx + 2))


@pytest.mark.parametrize("border", EXTENDING)
@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_equals_the_two_step_result(device, border, kind):
    """Blur, then the raw Sobel windows with the same border."""
    image = make_image((2, 3, 20, 31), torch.float64, device=device)
    blurred = torch_conv.gaussian_blur2d(image, 5, 1.2, border)
    gx, gy = (torch_conv.filter2d(blurred, k.to(device), border) for k in (SOBEL_X, SOBEL_X.T))
    expected = gx.abs() + gy.abs() if kind == "l1" else (gx * gx + gy * gy).sqrt()
    got = torch_conv.gaussian_sobel(image, 5, 1.2, border, magnitude=kind)
    torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("kind", ["checkerboard", "noise"])
def test_textbook_fused_pass(device, kind):
    """Gaussian 3x3 and Sobel with |Gx| + |Gy|, at most 1e-4 away from float64."""
    if kind == "noise":
        image = torch.rand(64, 64, generator=torch.Generator().manual_seed(42))
    else:
        image = (torch.arange(64)[:, None] // 8 + torch.arange(64) // 8).remainder(2).float()
    got = torch_conv.gaussian_sobel(image.to(device), 3, 0.85, "constant", magnitude="l1").cpu()
    blurred = magnitude("gaussian_blur2d", image, 3, 0.85, "constant")  # the image is not negative
    gx, gy = (torch_conv.reference.filter2d(blurred, k, "constant") for k in (SOBEL_X, SOBEL_X.T))
    assert (got - (gx.abs() + gy.abs())).abs().max() <= 1e-4
    assert got.max() > 1


def test_bad_magnitude(device):
    with pytest.raises(ValueError, match="^gaussian_sobel: magnitude"):
        torch_conv.gaussian_sobel(torch.zeros(8, 9, device=device), 3, 1.0, magnitude="linf")
