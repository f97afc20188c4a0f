"""laplacian, gaussian_laplace, difference_of_gaussians and unsharp_mask against other libraries."""

import cv2
import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from strategies import make_image
from tolerance import assert_same_bits

import torch_conv

FIXED = {
    "4": [[0.0, 1, 0], [1, -4, 1], [0, 1, 0]],
    "8": [[1.0, 1, 1], [1, -8, 1], [1, 1, 1]],
    "opencv3": [[2.0, 0, 2], [0, -8, 0], [2, 0, 2]],
}


@pytest.mark.parametrize("variant", FIXED)
@pytest.mark.parametrize("normalized", [True, False])
def test_fixed_windows_of_laplacian(device, variant, normalized):
    image, kernel = make_image((2, 3, 14, 19), device=device), torch.tensor(FIXED[variant], device=device)
    got = torch_conv.laplacian(image, 3, normalized=normalized, variant=variant)
    assert_same_bits(got, torch_conv.filter2d(image, kernel, normalized=normalized))


@pytest.mark.parametrize(("variant", "ksize"), [("4", 1), ("opencv3", 3)])
def test_witness_opencv_of_laplacian(device, variant, ksize):
    image = make_image((14, 19), torch.float64)
    expected = cv2.Laplacian(image.numpy(), cv2.CV_64F, ksize=ksize, borderType=cv2.BORDER_REFLECT_101)
    got = torch_conv.laplacian(image.to(device), 3, normalized=False, variant=variant).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sigma", [0.7, 1.0, 2.6, (1.0, 2.0)])
@pytest.mark.parametrize("truncate", [4.0, 3.0])
def test_witness_scipy_of_gaussian_laplace(device, sigma, truncate):
    image = make_image((35, 42), torch.float64)
    expected = ndi.gaussian_laplace(image.numpy(), sigma, mode="mirror", truncate=truncate)
    got = torch_conv.gaussian_laplace(image.to(device), sigma, truncate=truncate).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("low", "high"), [(1.0, None), (0.7, 2.0), (2.0, 2.5)])
def test_witness_scikit_image_of_difference_of_gaussians(device, low, high):
    filters = pytest.importorskip("skimage.filters")
    image = make_image((35, 42), torch.float64)
    expected = filters.difference_of_gaussians(image.numpy(), low, high, mode="nearest")
    got = torch_conv.difference_of_gaussians(image.to(device), low, high, "replicate").cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-11, atol=1e-11)


def test_is_a_difference_of_blurs(device):
    image = make_image((2, 30, 41), torch.float64, device=device)
    expected = torch_conv.gaussian_blur2d(image, None, 1.0) - torch_conv.gaussian_blur2d(image, None, 1.6)
    torch.testing.assert_close(torch_conv.difference_of_gaussians(image, 1.0), expected, rtol=1e-11, atol=1e-12)


def test_unsharp_mask_adds_image_minus_blur(device):
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
