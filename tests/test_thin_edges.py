"""thin_edges: the ridges of the gradient's magnitude."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import BORDERS, DTYPES, LAYOUTS, lay_out, make_image, seeds, sides
from tolerance import assert_same_bits

import torch_conv

SLOPE = 0.41421356237309503  # of 22.5 degrees


def neighbours(gx, gy):
    """(dy, dx) of the neighbour before a pixel along its gradient; the one after is opposite."""
    slope = type(gx)(SLOPE)
    if abs(gy) <= slope * abs(gx):
        return 0, -1
    if abs(gx) <= slope * abs(gy):
        return -1, 0
    return (-1, 1) if (gx < 0) != (gy < 0) else (-1, -1)


def plain_loop(m, gx, gy):
    """Pixel by pixel, in the dtype that they come in."""
    h, w = m.shape
    around, thin = np.pad(m, 1), np.zeros_like(m)
    for y in range(h):
        for x in range(w):
            dy, dx = neighbours(gx[y, x], gy[y, x])
            before, after = around[1 + y + dy, 1 + x + dx], around[1 + y - dy, 1 + x - dx]
            if m[y, x] > before and m[y, x] >= after:
                thin[y, x] = m[y, x]
    return thin


def ambiguous(m, gx, gy):
    """Pixels where a last bit decides: a neighbour as large, a gradient between two directions."""
    h, w = m.shape[-2:]
    around = torch.nn.functional.pad(m, (1, 1, 1, 1))
    close = torch.zeros_like(m, dtype=torch.bool)
    for dy, dx in np.ndindex(3, 3):
        if (dy, dx) != (1, 1):
            close |= (around[..., dy : dy + h, dx : dx + w] - m).abs() <= 1e-9 * m.amax()
    for a, b in ((gx, gy), (gy, gx)):
        close |= (SLOPE * a.abs() - b.abs()).abs() <= 1e-9 * m.amax()
    return close | (gx.abs() <= 1e-9 * m.amax()) | (gy.abs() <= 1e-9 * m.amax())


def steps(image, size, sigma, border, **options):
    """Magnitude and gradient of the blurred image, unrounded."""
    options["output_dtype"] = torch.float64 if image.dtype == torch.float64 else torch.float32
    blurred = torch_conv.gaussian_blur2d(image, size, sigma, border, **options)
    gx, gy = torch_conv.spatial_gradient(blurred, normalized=False, border_type=border, **options).unbind(-3)
    return torch_conv.gaussian_sobel(image, size, sigma, border, **options), gx, gy


@given(
    size=st.sampled_from([1, 3, 5, (3, 7)]),
    dtype=st.sampled_from(DTYPES),
    shape=st.tuples(st.integers(1, 2), sides(), sides(40)),
    border=st.sampled_from(BORDERS),
    layout=st.sampled_from(LAYOUTS),
    algorithm=st.sampled_from(["auto", "separable"]),
    seed=seeds(),
)
def test_any_call_agrees_with_a_plain_loop(device, size, dtype, shape, border, layout, algorithm, seed):
    """To the last bit, from the library's own magnitudes."""
    image = make_image(shape, dtype, seed).to(device)
    options = {"value": 1.5, "output_dtype": torch.float64 if dtype == torch.float64 else torch.float32}
    got = torch_conv.thin_edges(lay_out(image, layout), size, 1.3, border, algorithm=algorithm, **options)
    parts = [part.cpu().numpy() for part in steps(image, size, 1.3, border, value=1.5)]
    for n in range(shape[0]):
        assert_same_bits(got[n], torch.from_numpy(plain_loop(*(part[n] for part in parts))))


@given(
    size=st.sampled_from([3, 5]),
    shape=st.tuples(st.integers(1, 2), sides(), sides(40)),
    border=st.sampled_from(BORDERS),
    padding=st.sampled_from(["same", "valid"]),
    seed=seeds(),
)
def test_agrees_with_the_reference(device, size, shape, border, padding, seed):
    image = make_image(shape, torch.float64, seed)
    if min(shape[1:]) < size + 4:
        padding = "same"
    expected = torch_conv.reference.thin_edges(image, size, 1.3, border, padding=padding)
    got = torch_conv.thin_edges(image.to(device), size, 1.3, border, padding=padding).cpu()
    unclear = ambiguous(*(part.cpu() for part in steps(image.to(device), size, 1.3, border, padding=padding)))
    if padding == "valid":
        unclear = unclear[..., 1:-1, 1:-1]
    torch.testing.assert_close(got[~unclear], expected[~unclear], rtol=1e-11, atol=1e-11)


def test_witness_opencv(device):
    """Canny with thresholds of 0, on integers, whose gradients are exact; diagonal ties differ."""
    cv2 = pytest.importorskip("cv2")
    noise = make_image((40, 53), torch.uint8)
    image = torch_conv.gaussian_blur2d(noise, 5, 1.5)
    dx, dy = (cv2.Sobel(image.numpy(), cv2.CV_16S, *axis) for axis in ((1, 0), (0, 1)))
    expected = cv2.Canny(dx, dy, 0, 0, L2gradient=True) > 0
    got = torch_conv.thin_edges(image.to(device), 1, 1.0, output_dtype=torch.float32).cpu().numpy() > 0
    squares = np.pad(dx.astype(int) ** 2 + dy.astype(int) ** 2, 1)
    ties = np.zeros_like(got)
    for y, x in np.ndindex(*got.shape):
        step_y, step_x = neighbours(np.float64(dx[y, x]), np.float64(dy[y, x]))
        ties[y, x] = step_x and step_y and squares[1 + y, 1 + x] == squares[1 + y - step_y, 1 + x - step_x]
    assert ties.sum() < 20
    assert 200 < got.sum() < 1000
    np.testing.assert_array_equal(got[~ties], expected[~ties])


def test_kept_pixels_have_the_magnitude(device):
    image = make_image((2, 3, 30, 41), device=device)
    thin, magnitude = torch_conv.thin_edges(image, 5, 1.2), torch_conv.gaussian_sobel(image, 5, 1.2)
    kept = thin > 0
    assert_same_bits(thin[kept], magnitude[kept])
    assert 0.05 < kept.float().mean() < 0.5


@pytest.mark.parametrize("dx", [-1, 0, 1])
@pytest.mark.parametrize("dy", [-1, 0, 1])
def test_a_step_is_one_pixel_thin(device, dx, dy):
    """Along the eight directions; of two equal pixels the first in raster order stays."""
    if dx == dy == 0:
        return
    y, x = torch.meshgrid(torch.arange(-12, 12), torch.arange(-12, 12), indexing="ij")
    image = (dx * x + dy * y > 0).float().to(device)
    thin = torch_conv.thin_edges(image, 5, 1.0, "replicate").cpu()[3:-3, 3:-3] > 0
    if dx == 0:
        assert thin.sum(0).eq(1).all()
    else:
        assert thin.sum(1).le(1 if dy == 0 else 2).all()
        assert thin.any(1).sum() >= 17


def test_nan_does_not_spread(device):
    """The magnitude of a window that holds a NaN is NaN, and so are its outputs; pixels further away are finite."""
    image = make_image((30, 41), device=device)
    clean = torch_conv.thin_edges(image, 3, 1.0)
    image[14, 20] = float("nan")
    got = torch_conv.thin_edges(image, 3, 1.0)
    hit = torch.zeros(30, 41, dtype=torch.bool)
    hit[12:17, 18:23] = True
    assert torch.equal(got.isnan().cpu(), hit)
    hit[11:18, 17:24] = True
    assert_same_bits(got.cpu()[~hit], clean.cpu()[~hit])
