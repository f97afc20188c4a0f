"""unsharp_mask: image + amount * (image - blurred image)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import check, magnitude
from strategies import BORDERS, DTYPES, LAYOUTS, make_image, seeds, sides

import torch_conv


@given(
    size=st.sampled_from([1, 3, (5, 7), 15]),
    sigma=st.sampled_from([0.6, (1.5, 0.9), 3.0]),
    amount=st.sampled_from([1.0, 0.0, 0.5, 2.5]),
    dtype=st.sampled_from(DTYPES),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), sides(), sides(40)),
    border=st.sampled_from(BORDERS),
    layout=st.sampled_from(LAYOUTS),
    way=st.sampled_from(["auto", "direct", "separable"]),
    seed=seeds(),
)
def test_any_call_agrees_with_the_oracle(device, size, sigma, amount, dtype, shape, border, layout, way, seed):
    image = make_image(shape, dtype, seed)
    ky, kx = (size, size) if isinstance(size, int) else size
    blurred = magnitude("gaussian_blur2d", image, size, sigma, border)
    check(
        "unsharp_mask",
        image,
        size,
        sigma,
        border,
        amount=amount,
        device=device,
        window=(ky, kx),
        algorithm="composed",
        way=way,
        layout=layout,
        scale=(1 + amount) * image.double().abs() + amount * blurred,
    )


def test_adds_what_the_blur_took_away(device):
    image = make_image((2, 3, 20, 31), torch.float64, device=device)
    blurred = torch_conv.gaussian_blur2d(image, 5, 1.2)
    got = torch_conv.unsharp_mask(image, 5, 1.2, amount=0.7)
    torch.testing.assert_close(got, image + 0.7 * (image - blurred), rtol=1e-12, atol=1e-12)


def test_bytes_are_rounded_once_and_clamped(device):
    """A step edge overshoots on both sides; bytes stop at 0 and 255."""
    image = torch.zeros(1, 1, 9, 20, dtype=torch.uint8, device=device)
    image[..., 10:] = 255
    got = torch_conv.unsharp_mask(image, 5, 1.0, amount=3.0)
    assert got.min() == 0
    assert got.max() == 255
    wide = torch_conv.unsharp_mask(image, 5, 1.0, amount=3.0, output_dtype=torch.int16)
    assert wide.min() < 0
    assert wide.max() > 255


@pytest.mark.parametrize("border", ["reflect", "replicate", "constant", "circular"])
def test_witness_kornia(border):
    kornia = pytest.importorskip("kornia")
    image = make_image((2, 3, 13, 17), torch.float64)
    expected = kornia.filters.unsharp_mask(image, (5, 3), (1.5, 0.8), border)
    torch.testing.assert_close(
        torch_conv.unsharp_mask(image, (5, 3), (1.5, 0.8), border), expected, rtol=2e-6, atol=2e-6
    )


@pytest.mark.parametrize(("size", "sigma"), [(4, 1.0), (3, 0.0), (3, -2.0)])
def test_bad_size_or_sigma(device, size, sigma):
    with pytest.raises(ValueError, match="^unsharp_mask: (kernel_size|sigma)"):
        torch_conv.unsharp_mask(torch.zeros(1, 1, 8, 9, device=device), size, sigma)
