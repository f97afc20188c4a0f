"""gaussian_blur2d: kornia's arguments, scipy's truncation, one rounding at the end."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import check
from strategies import BORDERS, DTYPES, LAYOUTS, make_image, seeds, sides
from tolerance import assert_same_bits

import torch_conv


@st.composite
def blur_cases(draw):
    shape = (*draw(st.lists(st.integers(1, 3), max_size=3)), draw(sides()), draw(sides(40)))
    image = make_image(shape, draw(st.sampled_from(DTYPES)), draw(seeds()))
    size = tuple(draw(st.sampled_from([1, 3, 5, 9, 15, 31])) for _ in range(2))
    sigma = tuple(draw(st.floats(0.3, 6)) for _ in range(2))
    return image, size, sigma, draw(st.sampled_from(BORDERS)), draw(st.sampled_from(LAYOUTS))


@given(case=blur_cases())
def test_any_call_agrees_with_the_oracle(device, case):
    image, size, sigma, border, layout = case
    check(
        "gaussian_blur2d",
        image,
        size,
        sigma,
        border,
        device=device,
        window=size,
        algorithm="separable",
        layout=layout,
    )


@pytest.mark.parametrize("sigma", [0.4, 1.0, 2.3, (1.0, 3.0)])
@pytest.mark.parametrize("truncate", [4.0, 2.5])
def test_witness_scipy_sets_the_size(device, sigma, truncate):
    image = make_image((45, 52), torch.float64)
    expected = ndi.gaussian_filter(image.numpy(), sigma, mode="mirror", truncate=truncate)
    got = torch_conv.gaussian_blur2d(image.to(device), None, sigma, truncate=truncate).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [(3, 3), (5, 9), (31, 7)])
def test_witness_opencv(device, size):
    image = make_image((45, 52), torch.float64)
    expected = cv2.GaussianBlur(image.numpy(), size[::-1], sigmaX=1.9, sigmaY=1.2, borderType=cv2.BORDER_REFLECT_101)
    got = torch_conv.gaussian_blur2d(image.to(device), size, (1.2, 1.9)).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("separable", [True, False])
@pytest.mark.parametrize("border", ["constant", "reflect", "replicate", "circular"])
def test_witness_kornia(separable, border):
    kornia = pytest.importorskip("kornia")
    image = make_image((2, 3, 21, 24), torch.float64)
    expected = kornia.filters.gaussian_blur2d(image, (5, 7), (1.5, 0.8), border, separable)
    got = torch_conv.gaussian_blur2d(image, (5, 7), (1.5, 0.8), border, separable)
    # kornia computes the taps of a tuple of sigmas in float32
    torch.testing.assert_close(got, expected, rtol=2e-6, atol=2e-6)


def test_sigma_per_sample(device):
    image = make_image((3, 2, 21, 24), device=device)
    sigma = torch.tensor([[0.5, 1.0], [1.5, 1.5], [3.0, 0.7]])
    got = torch_conv.gaussian_blur2d(image, 9, sigma.to(device))
    for b in range(3):
        one = torch_conv.gaussian_blur2d(image[b], 9, tuple(sigma[b].tolist()))
        torch.testing.assert_close(got[b], one, rtol=0, atol=5e-6)


def test_separable_is_only_a_way_to_compute(device):
    image = make_image((2, 30, 41), device=device)
    separable = torch_conv.gaussian_blur2d(image, 7, 1.5, "constant", True, value=2.0)
    dense = torch_conv.gaussian_blur2d(image, 7, 1.5, "constant", False, value=2.0)
    torch.testing.assert_close(separable, dense, rtol=0, atol=5e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_constant_image_stays_constant(device, dtype):
    image = torch.full((3, 20, 33), 77, device=device).to(dtype)
    got = torch_conv.gaussian_blur2d(image, 15, 2.5)
    if dtype in (torch.float32, torch.float64):
        torch.testing.assert_close(got, image, rtol=1e-6, atol=0)
    else:
        assert_same_bits(got, image)


def test_one_number_serves_both_axes(device):
    image = make_image((20, 31), device=device)
    assert_same_bits(torch_conv.gaussian_blur2d(image, 5, 1.1), torch_conv.gaussian_blur2d(image, (5, 5), (1.1, 1.1)))


def test_default_size_is_the_truncated_radius(device):
    """radius = int(4 * 1.3 + 0.5) = 5"""
    image = make_image((20, 31), device=device)
    assert_same_bits(torch_conv.gaussian_blur2d(image, None, 1.3), torch_conv.gaussian_blur2d(image, 11, 1.3))


@pytest.mark.parametrize(
    ("size", "sigma"),
    [(4, 1.0), ((3, 4), 1.0), (0, 1.0), (-3, 1.0), (3, 0.0), (3, -1.0), (3, (1.0, 0.0)), (3, float("nan"))],
)
def test_bad_size_or_sigma(device, size, sigma):
    with pytest.raises(ValueError, match="^gaussian_blur2d: (kernel_size|sigma)"):
        torch_conv.gaussian_blur2d(torch.zeros(8, 9, device=device), size, sigma)


def test_sigma_tensor_needs_a_size(device):
    image, sigma = torch.zeros(1, 1, 8, 9, device=device), torch.ones(1, 2, device=device)
    with pytest.raises(ValueError, match="^gaussian_blur2d: kernel_size"):
        torch_conv.gaussian_blur2d(image, None, sigma)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("gaussian_blur2d", (9, 9)),
        ("gaussian_blur3d", (9, 9, 9)),
        ("gaussian_downsample", (9, 9)),
        ("unsharp_mask", (9, 9)),
        ("gaussian_sobel", (9, 9)),
        ("structure_tensor", (9, 9)),
        ("thin_edges", (9, 9)),
        ("gaussian_gradient_magnitude3d", (9, 9, 9)),
    ],
)
def test_sigma_alone(name, shape):
    function, image = getattr(torch_conv, name), torch.rand(shape)
    assert torch.equal(function(image, sigma=1.0), function(image, None, 1.0))
    with pytest.raises(ValueError, match=f"^{name}: sigma must be given$"):
        function(image, 5)
