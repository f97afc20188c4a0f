"""Filters on tensor cores: within one rounding of the exact result, for every border, window and position."""

import pytest
import torch
from oracle import exact, magnitude
from refusals import refuses
from strategies import make_image
from tensor_core import A100, BORDERS, DIRECT, HALVES, SEPARABLE
from tolerance import ROUNDING, assert_same_bits, assert_within

import torch_conv

KINDS = [DIRECT, SEPARABLE]
names = {"ids": lambda value: getattr(value, "name", None)}


def cases(direct, separable, dtypes=None):
    """(kind, dtype, size) for all sizes of each kind, in its dtypes or in those of `dtypes` that it has."""
    return pytest.mark.parametrize(
        ("kind", "dtype", "size"),
        [
            (kind, dtype, size)
            for kind, sizes in ((DIRECT, direct), (SEPARABLE, separable))
            for dtype in dtypes or kind.dtypes
            for size in sizes
        ],
        **names,
    )


def of_each_dtype(dtypes=None):
    every = [(kind, dtype) for kind in KINDS for dtype in dtypes or kind.dtypes]
    return pytest.mark.parametrize(("kind", "dtype"), every, **names)


def sums_of(kind, image, *args, **options):
    """The exact result and its magnitude."""
    return [f(kind.name, image, *args, **options) for f in (exact, magnitude)]


def outside_of(dtype):
    """A number outside images, which no result may show."""
    return 77 if dtype == torch.uint8 else float("nan")


SHAPES = {DIRECT: [(133, 640), (70, 1040), (8, 8), (33, 128), (50, 517)]}
SHAPES[SEPARABLE] = [(133, 640), (70, 1040), (8, 16), (33, 272), (50, 517)]
SQUARES = [(k, k) for k in range(2, 16)]
OTHERS = [(3, 15), (15, 3), (4, 6), (1, 7), (7, 1), (9, 2), (5, 14), (14, 5), (6, 13)]
LARGE = [(16, 16), (17, 20), (21, 29), (24, 24), (31, 31), (5, 31), (31, 3), (31, 15), (18, 30)]
OF_ROWS = [(k, k) for k in (2, 3, 5, 8, 9, 15, 16, 17, 24, 31, 33, 47, 63)]
OF_ROWS += [(3, 15), (15, 3), (9, 31), (31, 9), (1, 20), (20, 1), (5, 63), (63, 5), (18, 29)]


@pytest.mark.cuda
@cases([*SQUARES, *OTHERS, *LARGE], OF_ROWS)
def test_windows(cuda, kind, dtype, size):
    """These images have boundaries of warps, tiles, chunks and segments, and widths of any kind."""
    for i, (h, w) in enumerate(SHAPES[kind]):
        image, windows = make_image((1, 2, h, w), dtype), kind.windows(size)
        kind.check(image, windows, cuda, border_type=BORDERS[(size[0] + i) % len(BORDERS)])
        if size[0] <= h and size[1] <= w:
            kind.check(image, windows, cuda, border_type="constant", padding="valid")


@pytest.mark.cuda
@pytest.mark.parametrize("border", BORDERS)
@cases([(5, 5), (7, 7), (4, 9)], [(15, 15), (31, 9), (10, 21)])
def test_borders_and_anchors(cuda, kind, dtype, border, size):
    for width in (136 if kind is DIRECT else 144, 263):
        image = make_image((2, 1, 40, width), dtype)
        for anchor in (None, (0, 0), (-1, -1), (0, size[1] - 1), (size[0] - 1, 1)):
            kind.check(image, kind.windows(size), cuda, border_type=border, anchor=anchor, value=3.0)


@pytest.mark.cuda
@pytest.mark.parametrize("lead", [(1, 3), (2, 1), (2, 3), (2,)])
@cases([(5, 5), (7, 7)], [(11, 15)])
def test_windows_of_samples_and_channels(cuda, kind, dtype, lead, size):
    image, windows = make_image((2, 3, 40, 72 if kind is DIRECT else 80), dtype), kind.windows(size, lead)
    kind.check(image, windows, cuda)
    on_gpu = [window.to(cuda) for window in windows]  # taps in device memory
    assert_same_bits(kind.products(image.to(cuda), *on_gpu), kind.products(image.to(cuda), *windows))
    kind.check(image, windows, cuda, normalized=True, **({"behaviour": "conv"} if kind is DIRECT else {}))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("factor", [2.0**-30, 1e-4, 3e4])
def test_taps_of_any_magnitude(cuda, dtype, factor):
    """Two parts of float16 hold taps far below and above its range."""
    image = make_image((1, 1, 40, 136), dtype) * (1e3 if factor < 1e-6 else 1e-6)
    (window,) = DIRECT.windows((5, 5))
    DIRECT.check(image, (window * factor,), cuda)
    DIRECT.check(image, (window * torch.logspace(-6, 0, 25).reshape(5, 5),), cuda)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("factors", [(2.0**-30, 1.0), (1.0, 1e-4), (3e4, 1e-3), (1e-3, 3e4), (1e20, 1e-20)])
def test_rows_of_taps_of_any_magnitude(cuda, dtype, factors):
    image = make_image((1, 1, 40, 136), dtype) * (1e3 if factors[0] < 1e-6 else 1)
    x, y = SEPARABLE.windows((15, 15))
    SEPARABLE.check(image, (x * factors[0], y * factors[1]), cuda)
    falling = torch.logspace(-7, 0, 15)
    SEPARABLE.check(image, (x * falling, y * falling.flip(0)), cuda)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", SEPARABLE.dtypes)
@pytest.mark.parametrize("sigma", [1.5, 4.0])
def test_an_impulse_gives_the_windows(cuda, dtype, sigma):
    """The smallest of a Gaussian's taps are as good as the largest: within one unit in the last place."""
    image = torch.zeros(1, 1, 70, 136, dtype=dtype)
    image[0, 0, 35, 70] = 255 if dtype == torch.uint8 else 1000
    window = torch_conv.kernels.gaussian1d(31, sigma)
    want = exact("filter2d_separable", image, window, window)
    last = ROUNDING[dtype]
    unit = 2 * torch.clamp(want.abs() * last.relative, min=last.absolute)
    assert ((SEPARABLE.products(image.to(cuda), window, window).cpu().double() - want).abs() <= unit).all()


@pytest.mark.cuda
@pytest.mark.parametrize("k", [5, 15, 31])
def test_bytes_are_the_nearest(cuda, k):
    """Equal, except where the exact sum is within 1e-4 of the middle between two."""
    image = make_image((1, 1, 300, 400), torch.uint8)
    window = torch_conv.kernels.gaussian1d(k, 0.15 * k + 0.35, dtype=torch.float64).float()
    got = SEPARABLE.products(image.to(cuda), window, window).cpu().double()
    assert (got - exact("filter2d_separable", image, window, window)).abs().max() <= 0.5001


@pytest.mark.cuda
@pytest.mark.parametrize("width", [264, 263])
@cases([(3, 3), (5, 5), (6, 5), (7, 7), (9, 9), (15, 15), (31, 31)], [])
def test_windows_of_the_images_dtype(cuda, kind, dtype, size, width):
    """Taken as they are, on the host and on the GPU; the bits are those of the same taps in float32."""
    image = make_image((2, 3, 40, width), dtype).to(cuda)
    for lead in [(), (2, 3)]:
        (window,) = (w.to(dtype) for w in kind.windows(size, lead))
        want = kind.products(image, window.float())
        assert_same_bits(kind.products(image, window), want)
        assert_same_bits(kind.products(image, window.to(cuda)), want)
        for options in ({"behaviour": "conv"}, {"normalized": True}):
            expected = kind.products(image, window.float(), **options)
            assert_same_bits(kind.products(image, window, **options), expected)
        # Not those of window.float(): 3x3 narrow taps go to tensor cores on rows that start anywhere, wide ones do not.
        automatic = torch_conv.filter2d(image, window.to(cuda), algorithm="auto")
        assert_same_bits(automatic, torch_conv.filter2d(image, window, algorithm="auto"))
        assert_same_bits(kind.chains(image, window.to(cuda)), kind.chains(image, window.float()))


@pytest.mark.cuda
@cases([(5, 5), (15, 15)], [])
def test_narrow_windows_of_later_calls(cuda, pinned, kind, dtype, size):
    """Replayed with other taps, in a CUDA graph, and by kernels that read float32."""
    image = make_image((1, 1, 40, 264), dtype).to(cuda)
    (window,) = kind.windows(size)
    windows = [(window * scale).to(dtype) for scale in (1, -0.7, 0.3)]
    for window in windows:
        for given in (window, window.to(cuda)):
            assert_same_bits(torch_conv.filter2d(image, given), torch_conv.filter2d(image, window.float()))
    moving, graph = windows[0].to(cuda), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = torch_conv.filter2d(image, moving)
    for window in windows:
        moving.copy_(window)
        graph.replay()
        assert_same_bits(got, torch_conv.filter2d(image, window.float()))
    tile = pinned("tile", lambda: torch_conv.filter2d(image, windows[0].to(cuda)))
    assert_same_bits(tile, kind.chains(image, windows[0].float()))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
def test_windows_that_cancel(cuda, dtype):
    """A derivative of a bright plane: taps rounded to half precision would leave a thousandth of it."""
    image = (1000 + make_image((1, 1, 64, 256), torch.float64)).to(dtype)
    (taps,) = DIRECT.windows((7, 7))
    DIRECT.check(image, (taps - taps.mean(),), cuda)


@pytest.mark.cuda
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("width", [640, 641])
@cases([(5, 5), (7, 7), (4, 11), (19, 19)], [(15, 15), (9, 31), (20, 5)], HALVES)
def test_nonfinite_pixels_reach_their_windows_only(cuda, kind, dtype, size, value, width):
    clean = make_image((2, 1, 133, width), dtype)
    image, windows = clean.clone(), kind.windows(size)
    for n, y, x in [(0, 0, 0), (0, 64, 127), (0, 65, 128), (1, 132, width - 1), (1, 31, 63), (1, 32, 300)]:
        image[n, 0, y, x] = value
    windows[0][(1, 1) if kind is DIRECT else 1] = 0  # 0 * NaN is NaN
    for border in ("reflect", "constant", *(() if kind is DIRECT else ("zero_output",))):
        want = kind.chains(image, *windows, border)
        got = kind.products(image.to(cuda), *windows, border).cpu()
        finite = want.isfinite()
        assert torch.equal(got.isfinite(), finite)
        assert torch.equal(got.isnan(), want.isnan())
        args = (t[finite] for t in (got, *sums_of(kind, clean, *windows, border)))
        assert_within(*args, in_dtype=dtype, algorithm=kind.bound(dtype), window=size)


@pytest.mark.cuda
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@of_each_dtype()
def test_taps_that_are_not_finite(cuda, kind, dtype, value):
    if kind is DIRECT:
        image, (window,) = make_image((1, 1, 40, 136), dtype), kind.windows((5, 5))
        calls = [(window.index_put((torch.tensor(2), torch.tensor(3)), torch.tensor(value)),)]
    else:
        image, (x, y) = make_image((1, 1, 40, 144), dtype), kind.windows((15, 15))
        calls = [(x.index_fill(0, torch.tensor(3), value), y), (x, y.index_fill(0, torch.tensor(8), value))]
    for windows in calls:
        assert_same_bits(kind.products(image.to(cuda), *windows), kind.chains(image, *windows))


@pytest.mark.cuda
@pytest.mark.parametrize(("kind", "windows"), [(DIRECT, [(5, 5)]), (SEPARABLE, [9, 9])], **names)
def test_results_beyond_float16_are_infinite(cuda, kind, windows):
    image = torch.full((1, 1, 40, 136), 60000.0, dtype=torch.float16)
    image[..., 60:] = -60000.0
    ones = [torch.ones(window) for window in windows]
    assert_same_bits(kind.products(image.to(cuda), *ones), kind.chains(image, *ones))


@pytest.mark.cuda
@pytest.mark.parametrize("width", [640, 641])
@cases([(5, 5), (7, 7), (15, 15)], [(15, 15), (31, 31), (9, 20)])
def test_same_bits_for_every_position_in_the_batch(cuda, kind, dtype, size, width):
    """Planes of odd sizes start at other addresses, too."""
    image, windows = make_image((1, 1, 133, width), dtype, device=cuda), kind.windows(size)
    alone = kind.products(image, *windows)
    for _ in range(3):
        assert_same_bits(kind.products(image.repeat(3, 2, 1, 1), *windows), alone.repeat(3, 2, 1, 1))
    assert_same_bits(getattr(torch_conv, kind.name)(image, *windows), alone)  # the choice of 'auto'


@pytest.mark.cuda
@pytest.mark.parametrize("pitch", [400, 401, 402])
@pytest.mark.parametrize("start", [8, 0, 1, 2, 5])
@cases([(5, 5), (7, 7), (4, 4), (9, 9)], [])
def test_rows_of_other_pitches(cuda, kind, dtype, size, pitch, start):
    """Kernels read crops in place, from any start, and write results of any pitch; the bits are the same."""
    wide, windows = make_image((1, 1, 50, pitch), dtype, device=cuda), kind.windows(size)
    for width in (136, 137, 264):
        crop = wide[..., 3:43, start : start + width]
        aligned = torch.zeros((1, 1, 40, -width % 8 + width), dtype=dtype, device=cuda)[..., :width]
        aligned.copy_(crop)
        expected = kind.products(aligned, *windows)
        assert_same_bits(kind.products(crop, *windows), expected)
        for behind in (0, 1, 8):
            out = torch.full((1, 1, 40, width + behind), 7.0, dtype=dtype, device=cuda)
            kind.products(crop, *windows, out=out[..., :width])
            assert_same_bits(out[..., :width], expected)
            assert (out[..., width:] == 7).all()


AMONG = {  # sizes of images, and (values between rows, values before the first)
    DIRECT: (((61, 517), (40, 1001), (45, 264)), ((0, 1), (1, 3), (2, 5), (3, 0), (8, 2), (8, 0))),
    SEPARABLE: (((61, 517), (45, 272)), ((0, 1), (1, 3), (3, 0), (16, 2), (16, 0))),
}


@pytest.mark.cuda
@pytest.mark.parametrize("border", BORDERS)
@cases([(5, 5), (4, 7), (6, 5), (7, 7), (9, 9), (12, 13), (31, 31)], [(15, 15), (31, 31), (9, 20)])
def test_numbers_between_rows_are_not_seen(cuda, kind, dtype, border, size):
    """Images among NaN have the bits that they have alone: no zero of a matrix multiplies an outer number."""
    sizes, gaps = AMONG[kind]
    windows = kind.windows(size)
    narrow = [tuple(w.to(dtype) for w in windows)] if kind is DIRECT else []
    for h, w in sizes:
        image = make_image((2, 2, h, w), dtype, device=cuda)
        for given in (windows, *narrow):
            alone = kind.products(image, *given, border)
            for gap, start in gaps:
                memory = torch.full((start + 4 * h * (w + gap),), outside_of(dtype), dtype=dtype, device=cuda)
                among = memory[start:].view(2, 2, h, w + gap)[..., :w]
                among.copy_(image)
                assert_same_bits(kind.products(among, *given, border), alone)
                out = torch.full((2, 2, h, w + gap), 7, dtype=dtype, device=cuda)
                kind.products(among, *given, border, out=out[..., :w])
                assert_same_bits(out[..., :w], alone)
                assert (out[..., w:] == 7).all()


@pytest.mark.cuda
@pytest.mark.parametrize("way", ["auto", "tensor_core"])
@pytest.mark.parametrize("width", [640, 641])
@cases([(7, 7)], [(15, 15)])
def test_on_shards(cuda, kind, dtype, size, way, width):
    image, windows = make_image((1, 2, 133, width), dtype), kind.windows(size)
    form = {"in_dtype": dtype, "algorithm": kind.bound(dtype), "window": size}
    for dim in (-2,) if kind is DIRECT else (-2, -1):
        parts = torch_conv.split(image.to(cuda), [cuda] * 3, dim=dim)
        got = getattr(torch_conv, kind.name)(parts, *windows, algorithm=way).gather()
        assert_within(got, *sums_of(kind, image, *windows), **form)


@pytest.mark.cuda
@cases([(5, 5), (7, 7), (9, 9), (15, 15), (31, 31)], [(5, 5), (15, 15), (9, 33)])
def test_chains_keep_their_bits(cuda, kind, dtype, size):
    image, windows = make_image((1, 2, 70, 264 if kind is DIRECT else 272), dtype), kind.windows(size)
    got = kind.chains(image.to(cuda), *windows)
    assert_same_bits(got, kind.chains(image, *windows))
    if kind is SEPARABLE or size[0] <= 15:  # beyond, 'auto' takes FFT on the CPU
        assert_same_bits(got, getattr(torch_conv, kind.name)(image, *windows))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
def test_gradients(cuda, dtype):
    """The gradients are filters in float32."""
    image = make_image((1, 1, 40, 64), dtype, device=cuda).requires_grad_()
    windows = SEPARABLE.windows((15, 15))
    SEPARABLE.products(image, *windows).float().sum().backward()
    other = image.detach().clone().requires_grad_()
    SEPARABLE.chains(other, *windows).float().sum().backward()
    assert_same_bits(image.grad, other.grad)


# ---- interleaved channels of separable filters; test_filter2d_formats.py has those of filter2d --------------------


def hwc(image, gap=0, start=0, beside=0):
    """A copy of the image with interleaved channels, `gap` values between rows and `start` values before them."""
    n, c, h, w = image.shape
    memory = torch.full((start + n * h * (w * c + gap),), beside, dtype=image.dtype, device=image.device)
    rows = memory[start:].view(n, h, w * c + gap)[..., : w * c]
    interleaved = rows.unflatten(-1, (w, c)).permute(0, 3, 1, 2)
    interleaved.copy_(image)
    return interleaved


@pytest.mark.cuda
@pytest.mark.parametrize("border", BORDERS)
@cases([], [(15, 15), (31, 31), (9, 20)])
def test_crops_and_interleaved_channels_have_the_bits_of_aligned_planes(cuda, kind, dtype, border, size):
    """Rows that start anywhere, rows with gaps, odd widths, and 2 to 4 interleaved channels, among NaN."""
    windows, options, beside = kind.windows(size), {"border_type": border, "value": 3.0}, outside_of(dtype)
    for h, w in ((61, 517), (45, 272)):
        image = make_image((2, 4, h, w), dtype, device=cuda)
        aligned = torch.empty(2, 4, h, -w % 16 + w, dtype=dtype, device=cuda)[..., :w]
        aligned.copy_(image)
        want = kind.products(aligned, *windows, **options)
        whole = torch.full((2, 4, h, w + 19), beside, dtype=dtype, device=cuda)
        crop = whole[..., 5 : 5 + w]
        crop.copy_(image)
        for planes in (image, crop):
            assert_same_bits(kind.products(planes, *windows, **options), want)
        for channels in (2, 3, 4):
            for gap, start in ((0, 0), (5, 3), (16, 0)):
                given = hwc(image[:, :channels], gap, start, beside)
                assert_same_bits(kind.products(given, *windows, **options), want[:, :channels])
                out = hwc(torch.zeros_like(image[:, :channels]), gap, start, 7)
                kind.products(given, *windows, **options, out=out)
                assert_same_bits(out, want[:, :channels])
                row = w * channels + gap
                assert (out.as_strided((2, h, row), (h * row, row, 1))[..., w * channels :] == 7).all()


@pytest.mark.cuda
@cases([], [(3, 15), (33, 33), (63, 63), (5, 24)])
def test_interleaved_channels_of_any_window(cuda, kind, dtype, size):
    for w in (272, 131):
        image, windows = make_image((1, 3, 70, w), dtype, device=cuda), kind.windows(size)
        for options in ({}, {"anchor": (0, size[1] - 1)}, {"padding": "valid"}):
            want = kind.products(image, *windows, **options)
            assert_same_bits(kind.products(hwc(image), *windows, **options), want)


@pytest.mark.cuda
@pytest.mark.parametrize("width", [272, 261])
@cases([], [(15, 15), (31, 9)], HALVES)
def test_nonfinite_pixels_stay_in_their_channel(cuda, kind, dtype, size, width):
    image, windows = make_image((1, 3, 70, width), dtype), kind.windows(size)
    image[0, 1, 33, 200], image[0, 2, 0, width - 1], image[0, 0, 69, 0] = float("nan"), float("inf"), float("-inf")
    for border in ("reflect", "zero_output"):
        want, got = kind.chains(image, *windows, border), kind.products(hwc(image.to(cuda)), *windows, border).cpu()
        assert torch.equal(got.isfinite(), want.isfinite())
        assert torch.equal(got.isnan(), want.isnan())
        assert_same_bits(got, kind.products(image.to(cuda), *windows, border).cpu())


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", SEPARABLE.dtypes)
@pytest.mark.parametrize("width", [256, 261])
def test_shards_of_interleaved_channels(cuda, dtype, width):
    image, windows = make_image((1, 3, 133, width), dtype), SEPARABLE.windows((15, 15))
    parts = torch_conv.split(hwc(image.to(cuda)), [cuda] * 3, dim=-2)
    got = torch_conv.filter2d_separable(parts, *windows).gather()
    form = {"in_dtype": dtype, "algorithm": SEPARABLE.bound(dtype), "window": (15, 15)}
    assert_within(got, *sums_of(SEPARABLE, image, *windows), **form)


# ---- plans and refusals ----------------------------------------------------------------------------------------------

CHAIN = "not mma: one chain of multiply-adds is asked for"
ONE_ROW = "a window of one row or one column"


@pytest.mark.parametrize("dtype", HALVES)
def test_auto_of_filter2d(monkeypatch, dtype):
    def line(image, size, *args, **options):
        return DIRECT.line(monkeypatch, image, size, *args, **options)

    image = torch.empty(1, 1, 512, 1024, dtype=dtype)
    for size in ((4, 5), (5, 5), (2, 9), (7, 7), (15, 15), (31, 31)):
        for algorithm in ("auto", "tensor_core"):
            assert line(image, size, algorithm=algorithm).startswith("filter2d: tensor_core/mma ("), size
        direct = line(image, size, algorithm="direct")
        assert direct.startswith("filter2d: direct/tile_tma (") and CHAIN in direct, direct
    odd, few = torch.empty(1, 1, 512, 1023, dtype=dtype), "multiply-adds are as fast for so few taps"
    for given in (odd, image[..., 1:], image[..., 3:1001]):  # rows that start anywhere
        for size in ((4, 4), (5, 5), (3, 9), (7, 7), (31, 31)):
            assert line(given, size).startswith("filter2d: tensor_core/mma ("), size
            assert line(given, size, algorithm="direct").startswith("filter2d: direct/tile (")
        found = line(given, (3, 5))
        assert found.startswith("filter2d: direct/tile (") and f"not mma: {few}" in found, found
        for size, way in (((3, 3), "tensor_core/mma ("), ((2, 4), "direct/tile (")):
            narrow = torch.ones(size, dtype=dtype)
            assert torch_conv.explain(torch_conv.filter2d, given, narrow).lines[0].startswith(f"filter2d: {way}")
    for size, why in (((4, 4), few), ((1, 17), ONE_ROW), ((32, 32), "a window beyond 31x31")):
        found = line(image, size)
        assert found.startswith("filter2d: direct/") and f"not mma: {why}" in found, found
    found = line(image, (5, 5), A100)
    assert found.startswith("filter2d: direct/") and "not mma: no bulk copies" in found, found
    assert line(image.float(), (5, 5)).startswith("filter2d: direct/tile_tma (")


@pytest.mark.parametrize("dtype", SEPARABLE.dtypes)
def test_auto_of_filter2d_separable(monkeypatch, dtype):
    def line(image, size, *args, **options):
        return SEPARABLE.line(monkeypatch, image, size, *args, **options)

    whole = torch.empty(1, 1, 512, 1024, dtype=dtype)
    planes = [whole, torch.empty(1, 1, 512, 1023, dtype=dtype), whole[..., 1:], whole[..., 3:1001]]
    interleaved = [torch.empty(1, 512, w, c, dtype=dtype).permute(0, 3, 1, 2) for w in (1024, 1023) for c in (2, 3, 4)]
    for image in (*planes, *interleaved, interleaved[1][..., 3:1001]):
        for size in ((9, 9), (15, 15), (31, 31), (63, 63), (5, 9), (9, 2), (15, 5)):
            assert line(image, size).startswith("filter2d_separable: tensor_core/mma ("), size
            found = line(image, size, algorithm="separable")
            assert found.startswith("filter2d_separable: separable/") and CHAIN in found, found
    few = "few taps: chains are mostly as fast, with the same bits in every layout"
    for size, why in (((7, 7), few), ((1, 31), ONE_ROW), ((31, 1), ONE_ROW), ((64, 5), "a window beyond 63x63")):
        found = line(whole, size)
        assert found.startswith("filter2d_separable: separable/") and f"not mma: {why}" in found, found
    found = line(whole, (15, 15), A100)
    assert found.startswith("filter2d_separable: separable/") and "not mma: no bulk copies" in found, found
    assert "not mma: no float16, bfloat16 or uint8" in line(whole.float(), (15, 15))


def test_auto_of_gaussian_blur(monkeypatch):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", "9.0 132 232448 4.8e12")
    image = torch.empty(1, 1, 512, 1024, dtype=torch.float16)
    for options, way in (({}, "tensor_core/mma"), ({"algorithm": "separable"}, "separable/tile_tma")):
        line = torch_conv.explain(torch_conv.gaussian_blur2d, image, 15, 2.6, **options).lines[0]
        assert f": {way} (" in line, line


REFUSED = [
    *(
        (kind, {}, size, {step: 2}, "stride or dilation")
        for kind, size in ((DIRECT, 5), (SEPARABLE, 15))
        for step in ("stride", "dilation")
    ),
    *((kind, {}, 5, {"border_type": "skip"}, "border 'skip'") for kind in KINDS),
    *((kind, {}, 15, {"output_dtype": torch.float32}, "another output dtype") for kind in KINDS),
    *((kind, {"gpu": A100, "w": w}, 15, {}, "no bulk copies") for kind in KINDS for w in (1024, 1023)),
    (DIRECT, {"dtype": torch.float32}, 5, {}, "no float16 or bfloat16"),
    (DIRECT, {}, 32, {}, "a window beyond 31x31"),
    *((SEPARABLE, {"dtype": d}, 15, {}, "no float16, bfloat16 or uint8") for d in (torch.float32, torch.int16)),
    (SEPARABLE, {}, 64, {}, "a window beyond 63x63"),
    (SEPARABLE, {"channels": 5}, 15, {}, "pixels of a row are not contiguous"),
]


@pytest.mark.parametrize(("kind", "given", "size", "options", "why"), REFUSED, **names)
def test_refusals_of_tensor_cores(monkeypatch, kind, given, size, options, why):
    shape, gpu = (
        (1, 128, given.get("w", 1024), given.get("channels", 1)),
        {"gpu": given["gpu"]} if "gpu" in given else {},
    )
    image = torch.empty(shape, dtype=given.get("dtype", torch.float16)).permute(0, 3, 1, 2)
    with refuses(ValueError, f"{kind.name}: algorithm 'tensor_core' cannot serve this call: {why}"):
        kind.line(monkeypatch, image, (size, size), algorithm="tensor_core", **gpu, **options)


@pytest.mark.parametrize("kind", KINDS, **names)
def test_the_cpu_has_no_tensor_cores(kind):
    with pytest.raises(ValueError) as caught:
        kind.products(torch.zeros(8, 8, dtype=torch.float16), *kind.windows((9, 9)))
    why = "the CPU makes chains of multiply-adds"
    assert str(caught.value) == f"{kind.name}: algorithm 'tensor_core' cannot serve this call: {why}"


def test_volumes_have_no_such_algorithm():
    with refuses(ValueError, "filter3d_separable: algorithm must be 'auto' or 'separable', got 'tensor_core'"):
        torch_conv.filter3d_separable(torch.zeros(8, 8, 8), *[torch.ones(3)] * 3, algorithm="tensor_core")


@pytest.mark.parametrize("kind", KINDS, **names)
def test_a_pinned_chain_is_no_product(monkeypatch, kind):
    monkeypatch.setenv("TORCH_CONV_VARIANT", "tile_tma")
    image = torch.empty(1, 1, 64, 1024, dtype=torch.float16)
    with refuses(ValueError, f"{kind.name}: variant 'tile_tma' cannot serve this call: no tensor cores"):
        kind.line(monkeypatch, image, (15, 15), algorithm="tensor_core")
