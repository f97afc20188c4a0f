"""gaussian_laplace: the sum of the Gaussian's second derivatives, as scipy.ndimage defines it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import check
from strategies import BORDERS, FLOATS, make_image, seeds, sides

import torch_conv


@given(
    sigma=st.sampled_from([0.6, 1.0, 2.2]),
    dtype=st.sampled_from(FLOATS),
    shape=st.tuples(st.integers(1, 3), sides(), sides(40)),
    border=st.sampled_from(BORDERS),
    way=st.sampled_from(["auto", "direct", "separable"]),
    seed=seeds(),
)
def test_any_call_agrees_with_the_oracle(device, sigma, dtype, shape, border, way, seed):
    image = make_image(shape, dtype, seed)
    size = 2 * int(4 * sigma + 0.5) + 1
    # the second derivative's taps sum to less than 2 / sigma^2 in absolute value, and there are two of them
    scale = torch.full(shape, 4 / sigma**2 * image.double().abs().max().item(), dtype=torch.float64)
    check(
        "gaussian_laplace",
        image,
        sigma,
        border,
        device=device,
        window=(size, size),
        algorithm="composed",
        way=way,
        scale=scale,
    )


@pytest.mark.parametrize("sigma", [0.7, 1.0, 2.6, (1.0, 2.0)])
@pytest.mark.parametrize("truncate", [4.0, 3.0])
def test_witness_scipy(device, sigma, truncate):
    image = make_image((35, 42), torch.float64)
    expected = ndi.gaussian_laplace(image.numpy(), sigma, mode="mirror", truncate=truncate)
    got = torch_conv.gaussian_laplace(image.to(device), sigma, truncate=truncate).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("sigma", [0.0, -1.0])
def test_bad_sigma(device, sigma):
    with pytest.raises(ValueError, match="^gaussian_laplace: sigma"):
        torch_conv.gaussian_laplace(torch.zeros(8, 9, device=device), sigma)
