"""Named filters against other libraries and the filters that they are: bands, Gaussians, derivatives."""

import cv2
import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from strategies import BORDERS, DTYPES, make_image
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


KINDS = [("sobel", 1), ("sobel", 2), ("diff", 1), ("diff", 2), ("scharr", 1), ("prewitt", 1)]

# The windows as rows of taps, x and y; the row pass has the divisor of normalisation.
SLOPE, BEND, WIDE, BINOMIAL = [-1, 0, 1], [1, -2, 1], [-1, -2, 0, 2, 1], [1, 4, 6, 4, 1]
ROWS = {
    ("sobel", 1): ([(SLOPE, [1, 2, 1]), ([1, 2, 1], SLOPE)], [8, 8]),
    ("diff", 1): ([(SLOPE, [0, 1, 0]), ([0, 1, 0], SLOPE)], [2, 2]),
    ("scharr", 1): ([(SLOPE, [3, 10, 3]), ([3, 10, 3], SLOPE)], [32, 32]),
    ("prewitt", 1): ([(SLOPE, [1, 1, 1]), ([1, 1, 1], SLOPE)], [6, 6]),
    ("sobel", 2): ([([1, 0, -2, 0, 1], BINOMIAL), (WIDE, WIDE), (BINOMIAL, [1, 0, -2, 0, 1])], [64, 64, 64]),
    ("diff", 2): ([(BEND, [0, 1, 0]), (SLOPE, SLOPE), ([0, 1, 0], BEND)], [1, 4, 1]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_is_separable_filters_to_the_last_bit(device, kind, normalized, dtype):
    image = make_image((2, 20, 31), dtype, device=device)
    for border in BORDERS:
        options = {"border_type": border, "value": 1.5, "output_dtype": torch.float32}
        got = torch_conv.spatial_gradient(image, *kind, normalized, **options)
        for i, (rows, divisor) in enumerate(zip(*ROWS[kind], strict=True)):
            x, y = (torch.tensor(row, dtype=torch.float64) for row in rows)
            expected = torch_conv.filter2d_separable(image, x / divisor if normalized else x, y, **options)
            assert_same_bits(got[:, i], expected)


@pytest.mark.parametrize("kind", KINDS)
def test_direct_is_the_windows_of_filter2d(device, kind):
    image = make_image((2, 3, 20, 31), device=device)
    got = torch_conv.spatial_gradient(image, *kind, algorithm="direct")
    for i, (rows, divisor) in enumerate(zip(*ROWS[kind], strict=True)):
        x, y = (torch.tensor(row, dtype=torch.float64) for row in rows)
        assert_same_bits(got[:, :, i], torch_conv.filter2d(image, torch.outer(y, x) / divisor, "replicate"))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != ("diff", 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_sum_on_the_way_overflows(device, kind, dtype):
    """The |taps| of a normalised window sum to 1 or less, so an image as large as numbers get has a gradient."""
    largest = torch.finfo(dtype).max
    image = (make_image((20, 31), torch.float64).sign() * largest).to(dtype).to(device)
    assert torch_conv.spatial_gradient(image, *kind).isfinite().all()


@pytest.mark.parametrize("mode", ["sobel", "diff", "scharr", "prewitt"])
def test_a_ramp_has_its_slope(device, mode):
    """Normalised, every first-order mode returns slope * (sum of positive taps * their distance) / normaliser."""
    y, x = torch.meshgrid(torch.arange(9.0), torch.arange(11.0), indexing="ij")
    got = torch_conv.spatial_gradient((3 * x - 2 * y)[None, None].to(device), mode).cpu()
    # the windows weigh both neighbours by 1/2 in all; replicated borders see half a step
    torch.testing.assert_close(got[0, 0, 0, 2:-2, 2:-2], torch.full((5, 7), 3.0))
    torch.testing.assert_close(got[0, 0, 1, 2:-2, 2:-2], torch.full((5, 7), -2.0))


@pytest.mark.parametrize(("mode", "divisor", "witness"), [("sobel", 8, ndi.sobel), ("prewitt", 6, ndi.prewitt)])
def test_witness_scipy(device, mode, divisor, witness):
    image = make_image((1, 1, 15, 18), torch.float64)
    got = torch_conv.spatial_gradient(image.to(device), mode).cpu()[0, 0]
    raw = torch_conv.spatial_gradient(image.to(device), mode, normalized=False).cpu()[0, 0]
    for channel, axis in ((0, 1), (1, 0)):
        expected = torch.from_numpy(witness(image[0, 0].numpy(), axis, mode="nearest"))
        torch.testing.assert_close(got[channel], expected / divisor, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(raw[channel], expected, rtol=1e-12, atol=1e-12)


def cubic():
    """A polynomial whose derivatives are known, in units of voxels."""
    z, y, x = torch.meshgrid(*(torch.arange(float(n), dtype=torch.float64) for n in (7, 8, 9)), indexing="ij")
    return 2 * x * x + 3 * y * y - z * z + 5 * x * y - 4 * y * z + 7 * x * z + x - 6 * y + 8 * z, z, y, x


@pytest.mark.parametrize("mode", ["diff", "sobel"])
def test_a_quadratic_has_its_slopes(device, mode):
    """Central differences of a quadratic are exact away from the border, smoothed or not up to its curvature."""
    volume, z, y, x = cubic()
    got = torch_conv.spatial_gradient3d(volume.to(device), mode).cpu()
    inside = (slice(1, -1),) * 3
    for derivative, expected in zip(
        got, (4 * x + 5 * y + 7 * z + 1, 6 * y + 5 * x - 4 * z - 6, -2 * z - 4 * y + 7 * x + 8), strict=True
    ):
        torch.testing.assert_close(derivative[inside], expected[inside])


def test_a_quadratic_has_its_curvatures(device):
    got = torch_conv.spatial_gradient3d(cubic()[0].to(device), "diff", 2).cpu()
    for derivative, expected in zip(got, (4.0, 6.0, -2.0, 5.0, -4.0, 7.0), strict=True):
        inside = derivative[1:-1, 1:-1, 1:-1]
        torch.testing.assert_close(inside, torch.full_like(inside, expected))


def test_witness_scipy_of_volumes(device):
    volume = make_image((1, 1, 7, 8, 9), torch.float64)
    got = torch_conv.spatial_gradient3d(volume.to(device), "sobel").cpu()[0, 0]
    for derivative, axis in zip(got, (2, 1, 0), strict=True):
        expected = torch.from_numpy(ndi.sobel(volume[0, 0].numpy(), axis, mode="nearest"))
        torch.testing.assert_close(derivative, expected / 32, rtol=1e-12, atol=1e-12)


def test_into_a_strided_out(device):
    volume = make_image((2, 3, 5, 8, 9), device=device)
    expected = torch_conv.spatial_gradient3d(volume, padding="valid")
    out = torch.zeros(2, 3, 3, 6, 7, 3, device=device).movedim(-1, 2)
    assert torch_conv.spatial_gradient3d(volume, padding="valid", out=out) is out
    assert_same_bits(out.contiguous(), expected)
