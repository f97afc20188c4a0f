"""gaussian_blur2d, gaussian_blur3d and gaussian_downsample against other libraries and the filters that they are."""

import cv2
import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from strategies import BORDERS, DTYPES, make_image
from tolerance import assert_same_bits

import torch_conv


@pytest.mark.parametrize("truncate", [4.0, 2.5])
@pytest.mark.parametrize(
    ("shape", "sigma"),
    [*(((45, 52), s) for s in (0.4, 1.0, 2.3, (1.0, 3.0))), *(((15, 16, 22), s) for s in (0.4, 1.0, (0.5, 1.0, 2.3)))],
)
def test_witness_scipy_sets_the_size(device, shape, sigma, truncate):
    image, mode = make_image(shape, torch.float64), {2: "mirror", 3: "nearest"}[len(shape)]
    expected = ndi.gaussian_filter(image.numpy(), sigma, mode=mode, truncate=truncate)
    function = getattr(torch_conv, f"gaussian_blur{len(shape)}d")
    got = function(image.to(device), None, sigma, truncate=truncate).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [(3, 3), (5, 9), (31, 7)])
def test_witness_opencv(device, size):
    image = make_image((45, 52), torch.float64)
    expected = cv2.GaussianBlur(image.numpy(), size[::-1], sigmaX=1.9, sigmaY=1.2, borderType=cv2.BORDER_REFLECT_101)
    got = torch_conv.gaussian_blur2d(image.to(device), size, (1.2, 1.9)).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("size", [3, (3, 5, 7), (1, 3, 3)])
def test_witness_kornia(size):
    """kornia has the window, and filter3d."""
    kornia = pytest.importorskip("kornia")
    volume, sigma = make_image((2, 3, 7, 9, 8), torch.float64), (1.5, 0.8, 1.1)
    sizes = (size,) * 3 if isinstance(size, int) else size
    window = kornia.filters.get_gaussian_kernel3d(sizes, torch.tensor([sigma], dtype=torch.float64))
    expected = kornia.filters.filter3d(volume, window, "replicate")
    torch.testing.assert_close(torch_conv.gaussian_blur3d(volume, size, sigma), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("shape", "size", "ways"),
    [((2, 30, 41), 7, ({"separable": True}, {"separable": False})), ((2, 9, 12, 15), 5, ("separable", "direct"))],
)
def test_algorithm_is_only_a_way_to_compute(device, shape, size, ways):
    image, function = make_image(shape, device=device), getattr(torch_conv, f"gaussian_blur{len(shape) - 1}d")
    options = [way if isinstance(way, dict) else {"algorithm": way} for way in ways]
    results = [function(image, size, 1.5, "constant", value=2.0, **way) for way in options]
    torch.testing.assert_close(*results, rtol=0, atol=5e-6)


def test_auto_takes_one_window_up_to_27_taps(device):
    volume = make_image((2, 9, 12, 15), device=device)
    for size, way in ((3, "direct"), ((1, 3, 9), "direct"), ((3, 3, 5), "separable"), (5, "separable")):
        expected = torch_conv.gaussian_blur3d(volume, size, 1.2, algorithm=way)
        assert_same_bits(torch_conv.gaussian_blur3d(volume, size, 1.2), expected)
        plan = str(torch_conv.explain(torch_conv.gaussian_blur3d, volume, size, 1.2))
        assert ("filter3d_separable" in plan) == (way == "separable")


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_order_of_sigma_is_z_y_x(device, axis):
    """A Gaussian that is wide along one axis leaves an impulse's other two narrow."""
    volume, sigma = torch.zeros(9, 9, 9, device=device), [0.1, 0.1, 0.1]
    volume[4, 4, 4] = 1
    sigma[axis] = 1.0
    got = torch_conv.gaussian_blur3d(volume, 5, tuple(sigma), "constant")
    expected = torch_conv.kernels.gaussian1d(5, 1.0)
    torch.testing.assert_close(got.movedim(axis, -1)[4, 4, 2:7].cpu(), expected)
    assert got.sum().item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("algorithm", ["auto", "separable", "fused"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_downsample_is_a_part_of_the_blur(device, algorithm, dtype):
    if device != "cpu" and algorithm == "fused":
        algorithm = "auto"  # the kernel family leaves some of these to others
    for shape in ((1, 1), (2, 3, 9, 8), (1, 130, 257), (64, 256)):
        image = make_image(shape, dtype, device=device)
        for border in BORDERS:
            for size in (3, 5, (5, 3)):
                options = {"border_type": border, "value": 2.0}
                expected = torch_conv.gaussian_blur2d(image, size, 1.2, **options)[..., ::2, ::2]
                got = torch_conv.gaussian_downsample(image, size, 1.2, algorithm=algorithm, **options)
                assert_same_bits(got, expected)


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("factor", [1, 2, 3, 7])
def test_factors_of_downsample(device, padding, factor):
    image = make_image((2, 3, 20, 31), device=device)
    expected = torch_conv.gaussian_blur2d(image, 5, 1.2, padding=padding)[..., ::factor, ::factor]
    assert_same_bits(torch_conv.gaussian_downsample(image, 5, 1.2, factor, padding=padding), expected)


def test_witness_scipy_of_downsample(device):
    image = make_image((35, 42), torch.float64)
    expected = ndi.gaussian_filter(image.numpy(), 1.5, mode="mirror", truncate=3.0)[::2, ::2]
    got = torch_conv.gaussian_downsample(image.to(device), None, 1.5, truncate=3.0).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)
