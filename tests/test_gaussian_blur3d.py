"""gaussian_blur3d: a size and a sigma per axis, scipy's truncation, one rounding at the end."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import check, exact, magnitude
from strategies import BORDERS, DTYPES, VOLUME_LAYOUTS, lay_out, make_image, seeds, shapes
from tolerance import assert_same_bits, assert_within

import torch_conv


@st.composite
def blur_cases(draw):
    shape = (*draw(st.lists(st.integers(1, 3), max_size=3)), *draw(shapes(3)))
    image = make_image(shape, draw(st.sampled_from(DTYPES)), draw(seeds()))
    size = tuple(draw(st.sampled_from(sizes)) for sizes in ([1, 3, 5], [1, 3, 5], [1, 3, 5, 9]))
    sigma = tuple(draw(st.floats(0.3, 6)) for _ in range(3))
    return image, size, sigma, draw(st.sampled_from(BORDERS)), draw(st.sampled_from(VOLUME_LAYOUTS))


@given(case=blur_cases(), way=st.sampled_from(["direct", "separable"]))
def test_any_call_agrees_with_the_oracle(device, case, way):
    volume, size, sigma, border, layout = case
    call = (volume, size, sigma, border)
    check("gaussian_blur3d", *call, device=device, window=size, layout=layout, algorithm="separable")
    got = torch_conv.gaussian_blur3d(lay_out(volume.to(device), layout), *call[1:], algorithm=way)
    assert_within(
        got,
        exact("gaussian_blur3d", *call),
        magnitude("gaussian_blur3d", *call),
        in_dtype=volume.dtype,
        algorithm=way,
        window=size,
    )


@pytest.mark.parametrize("sigma", [0.4, 1.0, (0.5, 1.0, 2.3)])
@pytest.mark.parametrize("truncate", [4.0, 2.5])
def test_witness_scipy_sets_the_size(device, sigma, truncate):
    volume = make_image((15, 16, 22), torch.float64)
    expected = ndi.gaussian_filter(volume.numpy(), sigma, mode="nearest", truncate=truncate)
    got = torch_conv.gaussian_blur3d(volume.to(device), None, sigma, truncate=truncate).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [3, (3, 5, 7), (1, 3, 3)])
def test_witness_kornia(size):
    """kornia has the window, and filter3d."""
    kornia = pytest.importorskip("kornia")
    volume, sigma = make_image((2, 3, 7, 9, 8), torch.float64), (1.5, 0.8, 1.1)
    sizes = (size,) * 3 if isinstance(size, int) else size
    window = kornia.filters.get_gaussian_kernel3d(sizes, torch.tensor([sigma], dtype=torch.float64))
    expected = kornia.filters.filter3d(volume, window, "replicate")
    torch.testing.assert_close(torch_conv.gaussian_blur3d(volume, size, sigma), expected, rtol=1e-10, atol=1e-10)


def test_sigma_per_sample(device):
    volume = make_image((3, 2, 5, 9, 12), device=device)
    sigma = torch.tensor([[0.5, 1.0, 2.0], [1.5, 1.5, 1.5], [3.0, 0.7, 1.0]])
    for size in (3, (3, 5, 7)):  # one window, and three
        got = torch_conv.gaussian_blur3d(volume, size, sigma.to(device))
        for b in range(3):
            one = torch_conv.gaussian_blur3d(volume[b], size, tuple(sigma[b].tolist()))
            torch.testing.assert_close(got[b], one, rtol=0, atol=5e-6)


def test_auto_takes_one_window_up_to_27_taps(device):
    volume = make_image((2, 9, 12, 15), device=device)
    for size, way in ((3, "direct"), ((1, 3, 9), "direct"), ((3, 3, 5), "separable"), (5, "separable")):
        expected = torch_conv.gaussian_blur3d(volume, size, 1.2, algorithm=way)
        assert_same_bits(torch_conv.gaussian_blur3d(volume, size, 1.2), expected)
        plan = str(torch_conv.explain(torch_conv.gaussian_blur3d, volume, size, 1.2))
        assert ("filter3d_separable" in plan) == (way == "separable")


def test_algorithm_is_only_a_way_to_compute(device):
    volume = make_image((2, 9, 12, 15), device=device)
    ways = [
        torch_conv.gaussian_blur3d(volume, 5, 1.5, "constant", value=2.0, algorithm=a) for a in ("separable", "direct")
    ]
    torch.testing.assert_close(*ways, rtol=0, atol=5e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [3, 7])
def test_constant_volume_stays_constant(device, dtype, size):
    volume = torch.full((3, 6, 10, 13), 77, device=device).to(dtype)
    got = torch_conv.gaussian_blur3d(volume, size, 2.5)
    if dtype in (torch.float32, torch.float64):
        torch.testing.assert_close(got, volume, rtol=1e-6, atol=0)
    else:
        assert_same_bits(got, volume)


def test_one_number_serves_every_axis(device):
    volume = make_image((6, 9, 15), device=device)
    expected = torch_conv.gaussian_blur3d(volume, (5, 5, 5), (1.1, 1.1, 1.1))
    assert_same_bits(torch_conv.gaussian_blur3d(volume, 5, 1.1), expected)


def test_default_size_is_the_truncated_radius(device):
    """radius = int(4 * sigma + 0.5) = 2, 5, 8"""
    volume = make_image((6, 9, 15), device=device)
    expected = torch_conv.gaussian_blur3d(volume, (5, 11, 17), (0.5, 1.3, 2.0))
    assert_same_bits(torch_conv.gaussian_blur3d(volume, None, (0.5, 1.3, 2.0)), expected)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sigma_s_order_is_z_y_x(device, axis):
    """A Gaussian that is wide along one axis leaves an impulse's other two narrow."""
    volume, sigma = torch.zeros(9, 9, 9, device=device), [0.1, 0.1, 0.1]
    volume[4, 4, 4] = 1
    sigma[axis] = 1.0
    got = torch_conv.gaussian_blur3d(volume, 5, tuple(sigma), "constant")
    expected = torch_conv.kernels.gaussian1d(5, 1.0)
    torch.testing.assert_close(got.movedim(axis, -1)[4, 4, 2:7].cpu(), expected)
    assert got.sum().item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("size", "sigma", "sentence"),
    [
        (4, 1.0, "kernel_size must be odd and at least 1, got (4, 4, 4)"),
        ((3, 3, 4), 1.0, "kernel_size must be odd and at least 1, got (3, 3, 4)"),
        (0, 1.0, "kernel_size must be odd and at least 1, got (0, 0, 0)"),
        ((3, 3), 1.0, "kernel_size must be one number or three (z, y, x), got 2"),
        (3, (1.0, 1.0), "sigma must be one number or three (z, y, x), got 2"),
        (3, 0.0, "sigma must be finite and greater than 0, got 0.0"),
        (3, (1.0, -1.0, 1.0), "sigma must be finite and greater than 0, got (1.0, -1.0, 1.0)"),
        (3, float("nan"), "sigma must be finite and greater than 0, got nan"),
        (None, torch.ones(1, 3), "kernel_size must be given where sigma is a tensor"),
        (3, torch.ones(1, 2), "sigma must have shape (B, 3), got (1, 2)"),
        (3, torch.tensor([[1.0, 0.0, 1.0]]), "sigma must be finite and greater than 0, got [[1.0, 0.0, 1.0]]"),
    ],
)
def test_bad_size_or_sigma(size, sigma, sentence):
    with pytest.raises(ValueError) as caught:
        torch_conv.gaussian_blur3d(torch.zeros(1, 1, 5, 8, 9), size, sigma)
    assert str(caught.value) == f"gaussian_blur3d: {sentence}"


@pytest.mark.parametrize(("size", "sigma"), [("3", 1.0), (3.0, 1.0), (3, "1"), (3, (1.0, "1", 1.0))])
def test_wrong_types(size, sigma):
    with pytest.raises(TypeError, match="^gaussian_blur3d: (kernel_size|sigma) must be of type "):
        torch_conv.gaussian_blur3d(torch.zeros(5, 8, 9), size, sigma)
