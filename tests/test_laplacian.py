"""laplacian: kornia's box form and the fixed 3x3 windows."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import check
from strategies import BORDERS, DTYPES, LAYOUTS, make_image, seeds, sides
from tolerance import assert_same_bits

import torch_conv

FIXED = {
    "4": [[0.0, 1, 0], [1, -4, 1], [0, 1, 0]],
    "8": [[1.0, 1, 1], [1, -8, 1], [1, 1, 1]],
    "opencv3": [[2.0, 0, 2], [0, -8, 0], [2, 0, 2]],
}


@given(
    size=st.sampled_from([3, 5, (3, 7), (9, 1), 15]),
    normalized=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), sides(), sides(40)),
    border=st.sampled_from(BORDERS),
    layout=st.sampled_from(LAYOUTS),
    seed=seeds(),
)
def test_any_call_agrees_with_the_oracle(device, size, normalized, dtype, shape, border, layout, seed):
    image = make_image(shape, dtype, seed)
    ky, kx = (size, size) if isinstance(size, int) else size
    taps = 1.0 if normalized else 2.0 * (ky * kx - 1)
    scale = torch.full(shape, taps * (image.double().abs().max().item() + 1e-300), dtype=torch.float64)
    if border == "skip" and normalized:
        scale = scale * (ky * kx)  # the divisor is a part of the sum of |taps|
    check("laplacian", image, size, border, normalized, device=device, window=(ky, kx), layout=layout, scale=scale)


@pytest.mark.parametrize("variant", FIXED)
@pytest.mark.parametrize("normalized", [True, False])
def test_fixed_windows(device, variant, normalized):
    image, kernel = make_image((2, 3, 14, 19), device=device), torch.tensor(FIXED[variant], device=device)
    got = torch_conv.laplacian(image, 3, normalized=normalized, variant=variant)
    assert_same_bits(got, torch_conv.filter2d(image, kernel, normalized=normalized))


@pytest.mark.parametrize(("variant", "ksize"), [("4", 1), ("opencv3", 3)])
def test_witness_opencv(device, variant, ksize):
    image = make_image((14, 19), torch.float64)
    expected = cv2.Laplacian(image.numpy(), cv2.CV_64F, ksize=ksize, borderType=cv2.BORDER_REFLECT_101)
    got = torch_conv.laplacian(image.to(device), 3, normalized=False, variant=variant).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [3, 5, (3, 7)])
@pytest.mark.parametrize("normalized", [True, False])
def test_witness_kornia(size, normalized):
    kornia = pytest.importorskip("kornia")
    image = make_image((2, 3, 13, 17), torch.float64)
    expected = kornia.filters.laplacian(image, size, normalized=normalized)
    torch.testing.assert_close(
        torch_conv.laplacian(image, size, normalized=normalized), expected, rtol=1e-11, atol=1e-11
    )


@pytest.mark.parametrize("size", [1, 2, 4, (3, 2), 0, -3])
def test_bad_size(device, size):
    with pytest.raises(ValueError, match="^laplacian: kernel_size"):
        torch_conv.laplacian(torch.zeros(1, 1, 8, 9, device=device), size)


def test_bad_variant(device):
    with pytest.raises(ValueError, match="^laplacian: variant"):
        torch_conv.laplacian(torch.zeros(1, 1, 8, 9, device=device), 3, variant="6")


def test_fixed_windows_are_3x3(device):
    with pytest.raises(ValueError, match="^laplacian: kernel_size"):
        torch_conv.laplacian(torch.zeros(1, 1, 8, 9, device=device), 5, variant="4")
