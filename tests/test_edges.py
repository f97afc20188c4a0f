"""sobel, gaussian_sobel, structure_tensor, gradient magnitudes and thin_edges: their steps and other libraries."""

import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import magnitude
from strategies import BORDERS, DTYPES, EXTENDING, LAYOUTS, lay_out, make_image, seeds, sides
from tolerance import assert_same_bits

import torch_conv
from torch_conv.dispatch.operators import OPERATORS
from torch_conv.functional._derivative_kernels import gradient_kernels

MODES = ["sobel", "diff", "scharr", "prewitt"]
SOBEL_X = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]], dtype=torch.float64)
SLOPE, ONE, SMOOTH = ([-0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [0.25, 0.5, 0.25])


def test_sobel_is_the_magnitude_of_the_gradient(device):
    image = make_image((2, 3, 20, 31), torch.float64, device=device)
    gx, gy = torch_conv.spatial_gradient(image).unbind(2)
    torch.testing.assert_close(torch_conv.sobel(image, eps=0.5), (gx * gx + gy * gy + 0.5).sqrt(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(("mode", "order"), [*((mode, 1) for mode in MODES), ("sobel", 2), ("diff", 2)])
def test_derivatives_of_c_plus_plus_and_of_python_have_the_same_taps(device, mode, order, normalized):
    kernels = gradient_kernels(mode, order, normalized, torch.float64)
    k = kernels.shape[-1]
    impulse = torch.zeros(2 * k - 1, 2 * k - 1, dtype=torch.float64, device=device)
    impulse[k - 1, k - 1] = 1
    got = torch.ops.torch_conv.gradient2d(impulse, mode, order, normalized, padding="valid")
    torch.testing.assert_close(got.flip(-2, -1).cpu(), kernels, rtol=1e-15, atol=0)
    assert OPERATORS["gradient2d"].footprint({"mode": mode, "order": order}) == [k, k]


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


TANGENT = 0.41421356237309503  # of 22.5 degrees


def neighbours(gx, gy):
    """(dy, dx) of the neighbour before a pixel along its gradient; the one after is opposite."""
    slope = type(gx)(TANGENT)
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
        close |= (TANGENT * a.abs() - b.abs()).abs() <= 1e-9 * m.amax()
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
