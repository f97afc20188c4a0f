"""sobel, gaussian_sobel, structure_tensor and gaussian_gradient_magnitude3d against their steps and other libraries."""

import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from oracle import magnitude
from strategies import BORDERS, EXTENDING, make_image
from tolerance import assert_same_bits

import torch_conv

MODES = ["sobel", "diff", "scharr", "prewitt"]
SOBEL_X = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]], dtype=torch.float64)
SLOPE, ONE, SMOOTH = ([-0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [0.25, 0.5, 0.25])


def test_sobel_is_the_magnitude_of_the_gradient(device):
    image = make_image((2, 3, 20, 31), torch.float64, device=device)
    gx, gy = torch_conv.spatial_gradient(image).unbind(2)
    torch.testing.assert_close(torch_conv.sobel(image, eps=0.5), (gx * gx + gy * gy + 0.5).sqrt(), rtol=1e-12, atol=0)


def test_direct_sobel_is_the_windows_of_filter2d(device):
    image = make_image((2, 3, 20, 31), torch.float16, device=device)
    gx, gy = torch_conv.spatial_gradient(image, algorithm="direct", output_dtype=torch.float32).unbind(2)
    expected = (gx * gx + gy * gy + 1e-6).sqrt()
    assert_same_bits(torch_conv.sobel(image, algorithm="direct", output_dtype=torch.float32), expected)
    out = torch.empty_like(image)
    assert torch_conv.sobel(image, algorithm="direct", out=out) is out
    assert_same_bits(out, expected.to(torch.float16))
    with pytest.raises(ValueError, match=r"^sobel: out must not overlap input$"):
        torch_conv.sobel(image, algorithm="direct", out=image)


def test_sobel_of_a_flat_image_is_the_root_of_eps(device):
    got = torch_conv.sobel(torch.full((1, 1, 6, 7), 3.0, device=device), eps=1e-4)
    torch.testing.assert_close(got, torch.full_like(got, 1e-2))


@pytest.mark.parametrize("border", EXTENDING)
@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_gaussian_sobel_equals_its_steps(device, border, kind):
    """Blur, then the raw Sobel windows with the same border."""
    image = make_image((2, 3, 20, 31), torch.float64, device=device)
    blurred = torch_conv.gaussian_blur2d(image, 5, 1.2, border)
    gx, gy = (torch_conv.filter2d(blurred, k.to(device), border) for k in (SOBEL_X, SOBEL_X.T))
    expected = gx.abs() + gy.abs() if kind == "l1" else (gx * gx + gy * gy).sqrt()
    got = torch_conv.gaussian_sobel(image, 5, 1.2, border, magnitude=kind)
    torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("kind", ["checkerboard", "noise"])
def test_fused_pass_of_the_textbook(device, kind):
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


@pytest.mark.parametrize(
    ("ours", "theirs"), [("symmetric", "reflect"), ("replicate", "nearest"), ("reflect", "mirror")]
)
def test_witness_scikit_image_of_structure_tensor(device, ours, theirs):
    """It takes raw Sobel windows, which sum to 8, and the order of the axes (y, x)."""
    feature = pytest.importorskip("skimage.feature")
    image = make_image((35, 42), torch.float64)
    expected = feature.structure_tensor(image.numpy(), 1.4, mode=theirs, order="rc")
    got = torch_conv.structure_tensor(image.to(device), None, 1.4, ours).cpu().numpy()
    np.testing.assert_allclose(64 * got, np.stack(expected[::-1]), rtol=1e-11, atol=1e-11)


def test_witness_scipy_of_structure_tensor(device):
    image = make_image((2, 20, 31), torch.float64)
    got = torch_conv.structure_tensor(image.to(device), None, (1.0, 2.0), "symmetric", mode="prewitt").cpu()
    for n in range(2):
        y, x = (ndi.prewitt(image[n].numpy(), axis, mode="reflect") / 6 for axis in (0, 1))
        for i, product in enumerate((x * x, x * y, y * y)):
            expected = ndi.gaussian_filter(product, (1.0, 2.0), mode="reflect")
            np.testing.assert_allclose(got[n, i].numpy(), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("border", BORDERS)
def test_structure_tensor_equals_its_steps(device, mode, border):
    image = make_image((2, 3, 20, 31), torch.float64, device=device)
    gx, gy = torch_conv.spatial_gradient(image, mode, border_type=border).unbind(-3)
    products = torch.stack([gx * gx, gx * gy, gy * gy], -3)
    got = torch_conv.structure_tensor(image, 5, 1.2, border, mode=mode)
    assert_same_bits(got, torch_conv.gaussian_blur2d(products, 5, 1.2, border))


@pytest.mark.parametrize("mode", MODES)
def test_a_ramp_has_one_direction(device, mode):
    y, x = torch.meshgrid(torch.arange(15.0), torch.arange(17.0), indexing="ij")
    got = torch_conv.structure_tensor((3 * x - 2 * y).to(device), 5, 1.0, mode=mode)[:, 4:-4, 4:-4].cpu()
    for values, expected in zip(got, (9.0, -6.0, 4.0), strict=True):
        torch.testing.assert_close(values, torch.full_like(values, expected))


@pytest.mark.parametrize("mode", ["diff", "sobel"])
@pytest.mark.parametrize("border", BORDERS)
def test_gradient_magnitude_equals_its_steps(device, mode, border):
    volume = make_image((2, 7, 12, 21), torch.float64, device=device)
    options = {"border_type": border, "value": 1.5}
    blurred = torch_conv.gaussian_blur3d(volume, 3, 1.2, algorithm="separable", **options)
    slope, smooth = torch.tensor(SLOPE), torch.tensor(ONE if mode == "diff" else SMOOTH)
    squares = 0
    for axis in range(3):
        rows = [slope if a == axis else smooth for a in range(3)]
        squares = squares + torch_conv.filter3d_separable(blurred, *rows, **options).square()
    got = torch_conv.gaussian_gradient_magnitude3d(volume, 3, 1.2, mode=mode, **options)
    torch.testing.assert_close(got, squares.sqrt(), rtol=1e-12, atol=1e-13)


def test_witness_scipy_of_gradient_magnitude(device):
    volume = make_image((9, 14, 17), torch.float64)
    blurred = ndi.gaussian_filter(volume.numpy(), (0.8, 1.0, 1.2), mode="nearest")
    inside = (slice(1, -1),) * 3
    expected = np.sqrt(sum(g**2 for g in np.gradient(blurred)))[inside]
    got = torch_conv.gaussian_gradient_magnitude3d(volume.to(device), None, (0.8, 1.0, 1.2)).cpu().numpy()[inside]
    np.testing.assert_allclose(got, expected, rtol=1e-11)
    sobel = [ndi.sobel(blurred, axis, mode="nearest") / 32 for axis in range(3)]
    got = torch_conv.gaussian_gradient_magnitude3d(volume.to(device), None, (0.8, 1.0, 1.2), mode="sobel").cpu()
    np.testing.assert_allclose(got.numpy(), np.sqrt(sum(g**2 for g in sobel)), rtol=1e-11)


@pytest.mark.parametrize("mode", ["diff", "sobel"])
def test_a_ramp_has_its_slope(device, mode):
    z, y, x = torch.meshgrid(torch.arange(9.0), torch.arange(10.0), torch.arange(11.0), indexing="ij")
    got = torch_conv.gaussian_gradient_magnitude3d((2 * x - 3 * y + 6 * z).to(device), 3, 1.0, mode=mode).cpu()
    torch.testing.assert_close(got[3:-3, 3:-3, 3:-3], torch.full((3, 4, 5), 7.0))


@pytest.mark.parametrize("shape", [(4, 9, 9), (0, 4, 9, 9), (2, 4, 0, 9)])
def test_no_launch_for_volumes_on_the_cpu(shape):
    with pytest.raises(ValueError) as caught:
        torch_conv.gaussian_gradient_magnitude3d(torch.zeros(shape), 3, 1.0, algorithm="fused")
    sentence = "algorithm 'fused' cannot serve this call: volumes are fused on CUDA only"
    assert str(caught.value) == f"gaussian_gradient_magnitude3d: {sentence}"
