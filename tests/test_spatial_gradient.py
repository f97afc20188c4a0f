"""spatial_gradient and spatial_gradient3d: derivative windows with replicated borders."""

import pytest
import scipy.ndimage as ndi
import torch
from strategies import BORDERS, DTYPES, make_image
from tolerance import assert_same_bits

import torch_conv

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
