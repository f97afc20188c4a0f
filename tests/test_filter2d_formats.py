"""filter2d gives the same bits for crops, HWC images and any width, dilation and output dtype.

Crops of one image with 'valid' windows are pieces of its result: by every layout, alignment and kernel. HWC images in
half precision have the bits of planes on tensor cores too.
"""

import random

import pytest
import torch
from oracle import exact, magnitude
from strategies import EXTENDING, lay_out, make_image, make_window
from tensor_core import H200, HALVES, check_products, products
from tolerance import assert_same_bits, assert_within

import torch_conv

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.uint8, torch.int16, torch.uint16]
# Fixed orders of sums: 'tensor_core' and 'fft' promise bounds.
CHAIN = {"algorithm": "direct"}


def make_hwc(shape, dtype, device):
    """An image (n, c, h, w) with interleaved channels, (n, h, w, c) in memory."""
    return make_image(shape, dtype).permute(0, 2, 3, 1).contiguous().to(device).permute(0, 3, 1, 2)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_crops_of_one_image(device, dtype, channels):
    choose = random.Random(channels)
    planes = make_image((2, channels, 70, 301), dtype).to(device)
    hwc = make_hwc((2, channels, 70, 301), dtype, device)
    for size in [(3, 3), (5, 5), (4, 7), (9, 9)]:
        window = make_window(size) / 4
        whole = torch_conv.filter2d(planes, window, padding="valid", **CHAIN)
        for image in (planes, hwc, planes[..., 1:], hwc[..., 1:]):
            x0 = image.storage_offset() != 0
            for _ in range(3):
                top, left = choose.randrange(20), choose.randrange(40)
                h, w = choose.randrange(size[0], 50), choose.randrange(size[1], 260)
                crop = image[..., top : top + h, left : left + w]
                got = torch_conv.filter2d(crop, window, padding="valid", **CHAIN)
                down, right = h - size[0] + 1, w - size[1] + 1
                assert_same_bits(got, whole[..., top : top + down, left + x0 : left + x0 + right])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("border", ["constant", "replicate", "reflect", "symmetric", "circular", "zero_output"])
def test_hwc_images_are_planes(device, dtype, border):
    for shape in [(1, 3, 9, 5), (2, 4, 33, 128), (1, 3, 40, 517), (2, 8, 20, 64), (1, 64, 17, 20)]:
        hwc = make_hwc(shape, dtype, device)
        for size, options in [((3, 3), {}), ((5, 5), {"dilation": 2}), ((1, 15), {"anchor": (0, 14)}), ((10, 3), {})]:
            given = {"border_type": border, "value": 5.0, **options, **CHAIN}
            window = make_window(size) / 3
            got = torch_conv.filter2d(hwc, window, **given)
            assert got.stride() == hwc.stride()
            assert_same_bits(got, torch_conv.filter2d(hwc.contiguous(), window, **given))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("border", ["constant", "replicate", "reflect", "symmetric", "circular", "zero_output"])
def test_many_channels_side_by_side(device, dtype, border):
    """With a window for all, for every channel, for every sample and channel; parts of the channels, crops."""
    hwc = make_hwc((2, 40, 13, 21), dtype, device)
    given = {"border_type": border, "value": 5.0, **CHAIN}
    for size in [(3, 3), (5, 5), (4, 3), (7, 7)]:
        for image in (hwc, hwc[:, 8:24], hwc[:, 4:16], hwc[:, 5:8], hwc[:, :, 2:, 3:]):
            for lead in [(), (1, image.shape[1]), (2, image.shape[1]), (2, 1)]:
                window = make_window((*lead, *size)) / 3
                got = torch_conv.filter2d(image, window.to(device), **given)
                assert_same_bits(got, torch_conv.filter2d(image.contiguous(), window, **given))


@pytest.mark.parametrize("dtype", DTYPES)
def test_crops_keep_their_memory_format(device, dtype):
    for hwc in (make_hwc((2, 3, 20, 30), dtype, device), make_hwc((2, 3, 20, 30), dtype, device)[:, 1:]):
        crop = hwc[..., 5:, 3:]
        got = torch_conv.filter2d(crop, make_window((3, 3)))
        assert got.stride() == crop.contiguous(memory_format=torch.channels_last).stride()
        assert_same_bits(got, torch_conv.filter2d(crop.contiguous(), make_window((3, 3))))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("output", [torch.float32, torch.float16, torch.uint8, torch.int16, torch.uint16])
def test_other_output_dtypes(device, dtype, output):
    for shape in [(2, 3, 20, 64), (1, 2, 33, 517)]:
        image = make_image(shape, dtype)
        for laid in (image, image.to(memory_format=torch.channels_last)):
            for window in (make_window((3, 3)) * 3, make_window((5, 5)), make_window((7, 7))):
                got = torch_conv.filter2d(laid.to(device), window, output_dtype=output, **CHAIN)
                assert got.dtype == output
                assert_same_bits(got, torch_conv.filter2d(image, window, output_dtype=output, **CHAIN))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("border", ["constant", "replicate", "reflect", "symmetric", "circular", "zero_output"])
def test_strides_are_every_other_output(device, dtype, border):
    for shape in [(2, 3, 9, 5), (1, 2, 41, 264), (1, 1, 33, 517)]:
        image = make_image(shape, dtype).to(device)
        for size, options in [((3, 3), {}), ((5, 5), {"dilation": 2}), ((7, 4), {"anchor": (0, 3)}), ((9, 9), {})]:
            given = {"border_type": border, "value": 5.0, **options, **CHAIN}
            for x in (image, image[..., 1:, 1:]):
                dense = torch_conv.filter2d(x, make_window(size) / 3, **given)
                got = torch_conv.filter2d(x, make_window(size) / 3, stride=2, **given)
                assert_same_bits(got, dense[..., ::2, ::2])


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.uint8])
def test_tiles_serve_strides(cuda, pinned, dtype):
    image, window = make_image((1, 2, 40, 256), dtype), make_window((5, 5)) / 3
    for kernel, padding in [("tile_tma", "same"), ("tile", "same"), ("tile", "valid")]:

        def call(x, padding=padding):
            return torch_conv.filter2d(x, window, padding=padding, stride=2, **CHAIN)

        got = pinned(kernel, lambda call=call: call(image.to(cuda)))
        assert got is not None, (kernel, padding)
        assert_same_bits(got, call(image))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 64, 20, 33), (2, 4, 33, 40), (1, 12, 100, 9), (2, 3, 33, 50), (1, 70, 9, 9)])
def test_words_of_channels_serve_them(cuda, pinned, dtype, shape):
    hwc = make_hwc(shape, dtype, cuda)
    for lead in [(), (1, shape[1])]:
        for size in [(3, 3), (5, 5)]:
            window = make_window((*lead, *size)) / 3

            def call(x, window=window):
                return torch_conv.filter2d(x, window.to(x.device), "reflect", **CHAIN)

            got = pinned("channels", lambda call=call: call(hwc))
            assert got is not None, (lead, size)
            assert_same_bits(got, call(hwc.cpu().contiguous()))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("border", ["constant", "replicate", "reflect", "symmetric", "circular", "zero_output"])
def test_groups_of_channels_are_images(cuda, pinned, dtype, border):
    hwc = make_hwc((2, 256, 41, 13), dtype, cuda)
    for image in (hwc, hwc[:, 128:], hwc[:, :, 3:, 2:], hwc[..., :3]):
        for size, options in [((3, 3), {}), ((2, 4), {"anchor": (0, 3)}), ((5, 5), {"output_dtype": torch.float32})]:
            window = make_window(size) / 3

            def call(x, window=window, options=options):
                return torch_conv.filter2d(x, window, border, value=5.0, **options, **CHAIN)

            got = pinned("tile_groups", lambda call=call, image=image: call(image))
            assert got is not None, (tuple(image.shape), size)
            assert_same_bits(got, call(image.cpu().contiguous()))


@pytest.mark.cuda
@pytest.mark.parametrize("output", [torch.uint8, torch.int16, torch.float16])
def test_groups_of_channels_with_narrow_outputs(cuda, pinned, output):
    hwc = make_hwc((2, 64, 41, 13), torch.float32, cuda)
    for size in [(3, 3), (7, 7), (9, 9)]:

        def call(x, size=size):
            return torch_conv.filter2d(x, make_window(size) / 3, output_dtype=output, **CHAIN)

        expected = call(hwc.cpu().contiguous())
        got = pinned("tile_groups", lambda call=call: call(hwc))
        assert got is not None or size != (3, 3)
        for result in (got, call(hwc)):
            if result is not None:
                assert_same_bits(result, expected)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("border", ["constant", "replicate", "reflect", "symmetric", "circular", "zero_output"])
def test_few_channels_with_windows_of_their_own(cuda, pinned, dtype, border):
    """Whole pixels a lane and one channel after the other, from rows on 16 bytes and from anywhere."""
    for channels in (2, 3, 4):
        hwc = make_hwc((2, channels, 41, 272), dtype, cuda)
        for image in (hwc, hwc[..., 1:], hwc[:, :, 3:, 2:77]):
            other = {"output_dtype": torch.float32 if dtype != torch.float32 else torch.float16}
            cases = [((3, 3), {}), ((3, 3), other), ((5, 4), {"anchor": (0, 3)}), ((7, 7), {"dilation": 2})]
            for size, options in cases:
                window = make_window((2, channels, *size)) / 3

                def call(x, window=window, options=options):
                    return torch_conv.filter2d(x, window.to(x.device), border, value=5.0, **options, **CHAIN)

                got = pinned("tile_own", lambda call=call, image=image: call(image))
                # One channel after the other only to the same dtype: its outputs take the place of its inputs.
                assert got is not None or (options is other and dtype == torch.float32), (channels, size, options)
                if got is not None:
                    assert_same_bits(got, call(image.cpu().contiguous()))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
def test_groups_of_channels_with_windows_of_their_own(cuda, pinned, dtype):
    hwc = make_hwc((2, 256, 41, 13), dtype, cuda)
    for image in (hwc, hwc[:, 128:], hwc[:, 96:128], hwc[:, :, 3:, 2:]):
        for border, size in [("reflect", (3, 3)), ("zero_output", (2, 4)), ("circular", (5, 5)), ("constant", (7, 7))]:
            window = make_window((1, image.shape[1], *size)) / 3

            def call(x, window=window, border=border):
                return torch_conv.filter2d(x, window.to(x.device), border, value=5.0, **CHAIN)

            got = pinned("tile_groups", lambda call=call, image=image: call(image))
            fits = size[0] * size[1] * 4 // dtype.itemsize <= 50  # taps that a lane holds
            assert (got is not None) == fits, (tuple(image.shape), size)
            if fits:
                assert_same_bits(got, call(image.cpu().contiguous()))


@pytest.mark.cuda
def test_long_strips_of_channels(cuda):
    hwc = make_hwc((16, 64, 200, 224), torch.uint8, cuda)
    for window in (make_window((3, 3)) / 3, make_window((1, 64, 3, 3)) / 3):
        got = torch_conv.filter2d(hwc, window, "circular", **CHAIN)
        own = window if window.dim() == 2 else window[:, 8:12]
        assert_same_bits(got[3:5, 8:12], torch_conv.filter2d(hwc[3:5, 8:12].cpu(), own, "circular", **CHAIN))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
def test_tiles_serve_them(cuda, pinned, dtype):
    """Without bulk copies and with them, where those can be; not by the general kernels behind."""
    aligned = make_hwc((1, 3, 40, 256), dtype, cuda)
    for image, kernels in [(aligned, ("tile_tma", "tile")), (aligned[..., 1:], ("tile",))]:
        for options in ({}, {"dilation": 2}, {"output_dtype": torch.float32}):

            def call(x, options=options):
                return torch_conv.filter2d(x, make_window((3, 3)), **options, **CHAIN)

            for kernel in kernels:
                got = pinned(kernel, lambda image=image, call=call: call(image))
                assert got is not None, kernel
                assert_same_bits(got, call(image.cpu().contiguous()))


SIZES = [(5, 5), (7, 7), (4, 4), (6, 6), (9, 9), (11, 11), (15, 15), (12, 13), (3, 9), (31, 31), (17, 20), (31, 5)]
BORDERS = [*EXTENDING, "zero_output"]


def channels_last_image(shape, dtype, device="cpu", **options):
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
    hwc = channels_last_image((2, channels, 44, 266), dtype, cuda)
    for size in ((5, 5), (7, 7), (4, 9)):
        window = make_window(size)
        for anchor in (None, (0, 0), (-1, -1), (0, size[1] - 1)):
            options = {"anchor": anchor, "value": 3.0}
            want = products(hwc.contiguous(), window, border, **options)
            assert_same_bits(products(hwc, window, border, **options), want)
        for crop in (hwc[..., 2:], hwc[..., 1:260], hwc[:, :, 3:, 5:133]):
            want = products(crop.contiguous(), window, border)
            wide = channels_last_image((2, channels, crop.shape[2], crop.shape[3] + 2), dtype, cuda)
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
    hwc, windows = channels_last_image((3, 3, 40, 264), dtype, cuda), make_window((3, 7, 7))
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
        hwc = channels_last_image((1, channels, 64, 128), dtype)
        for image in (hwc, hwc[..., 1:], hwc[..., 3:77]):
            for size in ((5, 5), (7, 7), (31, 31)):
                assert plan(image, size) == "tensor_core/mma"
        assert plan(hwc, (3, 3)) == "direct/tile_tma"
        assert plan(hwc, (7, 7), algorithm="direct") == "direct/tile_tma"
        assert plan(hwc, (4, 4)) == "direct/tile_tma"
        assert plan(hwc, (1, channels, 4, 4)) == plan(hwc, (1, channels, 31, 31)) == "tensor_core/mma"
        assert plan(hwc, (1, channels, 3, 3)) == "direct/tile_own"
    five = channels_last_image((1, 5, 64, 128), dtype)
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
