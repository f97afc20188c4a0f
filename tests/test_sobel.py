"""sobel: the gradient's magnitude."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import exact
from strategies import FLOATS, LAYOUTS, lay_out, make_image, seeds, sides
from tolerance import assert_same_bits, assert_within

import torch_conv


@given(
    normalized=st.booleans(),
    dtype=st.sampled_from(FLOATS),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), sides(), sides(40)),
    border=st.sampled_from(["replicate", "reflect", "constant", "circular"]),
    layout=st.sampled_from(LAYOUTS),
    way=st.sampled_from(["auto", "direct", "separable"]),
    seed=seeds(),
)
def test_any_call_agrees_with_the_oracle(device, normalized, dtype, shape, border, layout, way, seed):
    image = make_image(shape, dtype, seed)
    got = torch_conv.sobel(lay_out(image.to(device), layout), normalized, border_type=border, algorithm=way)
    expected = exact("sobel", image, normalized, border_type=border)
    scale = torch.full_like(expected, (2.0 if normalized else 16.0) * image.double().abs().max().item())
    assert_within(got, expected, scale, in_dtype=dtype, algorithm="composed", window=(3, 3))


def test_is_the_magnitude_of_the_gradient(device):
    image = make_image((2, 3, 20, 31), torch.float64, device=device)
    gx, gy = torch_conv.spatial_gradient(image).unbind(2)
    torch.testing.assert_close(torch_conv.sobel(image, eps=0.5), (gx * gx + gy * gy + 0.5).sqrt(), rtol=1e-12, atol=0)


def test_direct_is_the_windows_of_filter2d(device):
    image = make_image((2, 3, 20, 31), torch.float16, device=device)
    gx, gy = torch_conv.spatial_gradient(image, algorithm="direct", output_dtype=torch.float32).unbind(2)
    expected = (gx * gx + gy * gy + 1e-6).sqrt()
    assert_same_bits(torch_conv.sobel(image, algorithm="direct", output_dtype=torch.float32), expected)
    out = torch.empty_like(image)
    assert torch_conv.sobel(image, algorithm="direct", out=out) is out
    assert_same_bits(out, expected.to(torch.float16))
    with pytest.raises(ValueError, match=r"^sobel: out must not overlap input$"):
        torch_conv.sobel(image, algorithm="direct", out=image)


def test_flat_image_gives_the_root_of_eps(device):
    got = torch_conv.sobel(torch.full((1, 1, 6, 7), 3.0, device=device), eps=1e-4)
    torch.testing.assert_close(got, torch.full_like(got, 1e-2))


@pytest.mark.parametrize("normalized", [True, False])
def test_witness_kornia(normalized):
    kornia = pytest.importorskip("kornia")
    image = make_image((2, 3, 13, 17), torch.float64)
    torch.testing.assert_close(
        torch_conv.sobel(image, normalized), kornia.filters.sobel(image, normalized), rtol=1e-12, atol=1e-12
    )
