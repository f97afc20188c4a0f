"""difference_of_gaussians: a band-pass, as scikit-image defines it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import check, magnitude
from strategies import BORDERS, FLOATS, make_image, seeds, sides

import torch_conv


@given(
    low=st.sampled_from([0.5, 1.0, 1.7]),
    high=st.sampled_from([None, 2.5, 3.1]),
    dtype=st.sampled_from(FLOATS),
    shape=st.tuples(st.integers(1, 3), sides(), sides(40)),
    border=st.sampled_from(BORDERS),
    way=st.sampled_from(["auto", "direct", "separable"]),
    seed=seeds(),
)
def test_any_call_agrees_with_the_oracle(device, low, high, dtype, shape, border, way, seed):
    image = make_image(shape, dtype, seed)
    wide = high or 1.6 * low
    size = 2 * int(4 * wide + 0.5) + 1
    scale = sum(magnitude("gaussian_blur2d", image, None, s, border) for s in (low, wide))
    check(
        "difference_of_gaussians",
        image,
        low,
        high,
        border,
        device=device,
        window=(size, size),
        algorithm="composed",
        way=way,
        scale=scale,
    )


@pytest.mark.parametrize(("low", "high"), [(1.0, None), (0.7, 2.0), (2.0, 2.5)])
def test_witness_scikit_image(device, low, high):
    filters = pytest.importorskip("skimage.filters")
    image = make_image((35, 42), torch.float64)
    expected = filters.difference_of_gaussians(image.numpy(), low, high, mode="nearest")
    got = torch_conv.difference_of_gaussians(image.to(device), low, high, "replicate").cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-11, atol=1e-11)


def test_is_a_difference_of_blurs(device):
    image = make_image((2, 30, 41), torch.float64, device=device)
    expected = torch_conv.gaussian_blur2d(image, None, 1.0) - torch_conv.gaussian_blur2d(image, None, 1.6)
    torch.testing.assert_close(torch_conv.difference_of_gaussians(image, 1.0), expected, rtol=1e-11, atol=1e-12)


def test_flat_image_gives_nothing(device):
    got = torch_conv.difference_of_gaussians(torch.full((20, 20), 5.0, device=device), 1.0)
    assert got.abs().max() < 1e-5


@pytest.mark.parametrize("sigmas", [(0.0,), (-1.0,), (2.0, 1.0)])
def test_bad_sigma(device, sigmas):
    with pytest.raises(ValueError, match="^difference_of_gaussians: (low|high)_sigma"):
        torch_conv.difference_of_gaussians(torch.zeros(8, 9, device=device), *sigmas)
