"""filter2d on tensor cores gives HWC images in half precision the bits of planes."""

import pytest
import torch
from oracle import exact, magnitude
from strategies import EXTENDING, lay_out, make_image, make_window
from tensor_core import H200, HALVES, check_products, products
from tolerance import assert_same_bits, assert_within

import torch_conv

SIZES = [(5, 5), (7, 7), (4, 4), (6, 6), (9, 9), (11, 11), (15, 15), (12, 13), (3, 9), (31, 31), (17, 20), (31, 5)]
BORDERS = [*EXTENDING, "zero_output"]


def make_hwc(shape, dtype, device="cpu", **options):
    """An image (n, c, h, w) with interleaved channels, (n, h, w, c) in memory."""
    return lay_out(make_image(shape, dtype, **options).to(device), "channels_last")


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("size", SIZES)
def test_windows(cuda, dtype, channels, size):
    """Rows on 16 bytes and others, tiles that are full and others: close to the exact result, with bits of planes."""
    for i, (h, w) in enumerate([(40, 264), (25, 132), (70, 131), (8, 8), (33, 517)]):
        image, window = make_image((2, channels, h, w), dtype), make_window(size)
        border = BORDERS[(size[0] + i) % len(BORDERS)]
        got = check_products(image, window, cuda, border_type=border, layout="channels_last")
        assert got.stride() == lay_out(image, "channels_last").stride()
        assert_same_bits(got, products(image.to(cuda), window, border))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_borders_anchors_and_crops(cuda, dtype, border, channels):
    """Windows from odd and even columns on, of images whose rows start anywhere, into results that do."""
    hwc = make_hwc((2, channels, 44, 266), dtype, cuda)
    for size in ((5, 5), (7, 7), (4, 9)):
        window = make_window(size)
        for anchor in (None, (0, 0), (-1, -1), (0, size[1] - 1)):
            options = {"anchor": anchor, "value": 3.0}
            want = products(hwc.contiguous(), window, border, **options)
            assert_same_bits(products(hwc, window, border, **options), want)
        for crop in (hwc[..., 2:], hwc[..., 1:260], hwc[:, :, 3:, 5:133]):
            want = products(crop.contiguous(), window, border)
            wide = make_hwc((2, channels, crop.shape[2], crop.shape[3] + 2), dtype, cuda)
            before = wide.clone()
            assert_same_bits(products(crop, window, border), want)
            products(crop, window, border, out=wide[..., 1:-1])
            assert_same_bits(wide[..., 1:-1], want)
            for edge in (0, -1):
                assert_same_bits(wide[..., edge], before[..., edge])


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nonfinite_pixels_reach_their_windows_only(cuda, dtype, channels, value):
    for width in (264, 261):
        image = make_image((1, channels, 40, width), dtype)
        for c, y, x in [(0, 0, 0), (1, 20, 131), (channels - 1, 39, width - 1), (1, 13, 127)]:
            image[0, c, y, x] = value
        for size in ((5, 5), (7, 7), (15, 15)):
            window = make_window(size)
            for border in ("reflect", "constant", "zero_output"):
                direct = torch_conv.filter2d(image, window, border, algorithm="direct")
                got = products(lay_out(image.to(cuda), "channels_last"), window, border).cpu()
                assert torch.equal(got.isfinite(), direct.isfinite())
                assert torch.equal(got.isnan(), direct.isnan())
                assert_same_bits(got, products(image.to(cuda), window, border))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("border", BORDERS)
def test_shards(cuda, dtype, border):
    """Kernels read the rows of other shards in place; the bits are those of planes in the same shards."""
    image = make_image((2, 3, 100, 136), dtype)
    for size in ((5, 5), (7, 7), (15, 15)):
        window = make_window(size)
        shared = [lay_out(image.to(cuda), layout) for layout in ("channels_last", "contiguous")]
        hwc, planes = (
            products(torch_conv.split(whole, [cuda] * 3, dim=-2), window, border).gather() for whole in shared
        )
        assert_same_bits(hwc, planes)
        bounds = (f("filter2d", image, window, border) for f in (exact, magnitude))
        assert_within(hwc, *bounds, in_dtype=dtype, algorithm="tensor_core", window=size)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_a_window_for_each_channel(cuda, dtype, channels):
    """Kernels of different magnitudes, each with a scale of its own; one a sample too, and in the images' dtype."""
    sizes = torch.tensor([1.0, 2.0**-6, 2.0**5, 2.0**-3])[:channels, None, None]
    for size in SIZES:
        for w in (264, 131):
            image = make_image((2, channels, 40, w), dtype)
            for windows in (make_window((1, channels, *size)) * sizes, make_window((2, channels, *size)) * sizes):
                got = check_products(image, windows, cuda, border_type="symmetric", layout="channels_last")
                assert_same_bits(got, products(image.to(cuda), windows, "symmetric"))
            narrow = windows.to(dtype)
            hwc = lay_out(image.to(cuda), "channels_last")
            for given in (narrow, narrow.to(cuda)):
                want = products(image.to(cuda), given, "zero_output")
                assert_same_bits(products(hwc, given, "zero_output"), want)
            image[1, channels - 1, 20, 77], image[0, 0, 3, 1] = float("nan"), float("inf")
            got = products(lay_out(image.to(cuda), "channels_last"), windows)
            direct = torch_conv.filter2d(image, windows, algorithm="direct")
            assert torch.equal(got.isnan().cpu(), direct.isnan())
            assert torch.equal(got.isfinite().cpu(), direct.isfinite())


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
def test_samples(cuda, dtype):
    """A window for each, taps of the image's dtype, and each place of a batch."""
    hwc, windows = make_hwc((3, 3, 40, 264), dtype, cuda), make_window((3, 7, 7))
    for given in (windows, windows.to(cuda), windows.to(dtype), windows.to(dtype).to(cuda)):
        whole = products(hwc, given)
        assert_same_bits(whole, products(hwc.contiguous(), given))
        for n in range(3):
            assert_same_bits(whole[n : n + 1], products(hwc[n : n + 1], given[n]))


@pytest.mark.parametrize("dtype", HALVES)
def test_algorithm_of_auto(monkeypatch, dtype):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H200)

    def plan(image, size, **options):
        line = torch_conv.explain(torch_conv.filter2d, image, make_window(size), **options).lines[0]
        return line.removeprefix("filter2d: ").partition(" (")[0]

    for channels in (2, 3, 4):
        hwc = make_hwc((1, channels, 64, 128), dtype)
        for image in (hwc, hwc[..., 1:], hwc[..., 3:77]):
            for size in ((5, 5), (7, 7), (31, 31)):
                assert plan(image, size) == "tensor_core/mma"
        assert plan(hwc, (3, 3)) == "direct/tile_tma"
        assert plan(hwc, (7, 7), algorithm="direct") == "direct/tile_tma"
        assert plan(hwc, (4, 4)) == "direct/tile_tma"
        assert plan(hwc, (1, channels, 4, 4)) == plan(hwc, (1, channels, 31, 31)) == "tensor_core/mma"
        assert plan(hwc, (1, channels, 3, 3)) == "direct/tile_own"
    five = make_hwc((1, 5, 64, 128), dtype)
    assert plan(five, (7, 7)) == "direct/tile_tma"


@pytest.mark.parametrize("dtype", HALVES)
def test_large_hwc_images_go_as_planes_do(monkeypatch, dtype):
    """Windows that FFT or separable passes might be faster for, too; shared memory that is not there is not taken."""

    def way(image, window, **options):
        return torch_conv.explain(torch_conv.filter2d, image, window, **options).lines[0]

    hwc = torch.empty(16, 1080, 1920, 3, dtype=dtype).movedim(-1, 1)
    planes = torch.empty(hwc.shape, dtype=dtype)
    gaussian = torch.outer(*2 * [torch.signal.windows.gaussian(15, std=3.0)])
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H200)
    for window in (make_window((31, 31)), make_window((25, 25)), gaussian, gaussian[3:-3, 3:-3], gaussian[2:-2, 2:-2]):
        assert way(hwc, window).partition("(")[0] == way(planes, window).partition("(")[0]
    odd = torch.empty(1, 64, 131, 4, dtype=dtype).movedim(-1, 1)
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", "12.0 170 101376 1.8e12")
    line = way(odd, make_window((31, 31)))
    assert line.startswith("filter2d: direct/") and "not mma: not enough shared memory" in line, line
