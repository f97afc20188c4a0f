"""filter2d_separable by products of banded matrices: within one rounding of the exact result, for every border, window
and place in memory."""

from __future__ import annotations

import pytest
import torch
from oracle import check, exact, magnitude
from strategies import EXTENDING, make_image, make_window
from tolerance import ROUNDING, assert_same_bits, assert_within

import torch_conv

HALVES = [torch.float16, torch.bfloat16]
DTYPES = [*HALVES, torch.uint8]
H200 = "9.0 132 232448 4.8e12"
SHAPES = [(133, 640), (70, 1040), (8, 16), (33, 272), (50, 517)]
SQUARES = [(k, k) for k in (2, 3, 5, 8, 9, 15, 16, 17, 24, 31, 33, 47, 63)]
OTHERS = [(3, 15), (15, 3), (9, 31), (31, 9), (1, 20), (20, 1), (5, 63), (63, 5), (18, 29)]
BORDERS = [*EXTENDING, "zero_output"]


def bound_of(dtype):
    """Of tests/tolerance.py; uint8 is made of parts of float16."""
    return "banded bfloat16" if dtype == torch.bfloat16 else "banded"


def windows_of(size, **options):
    """Along x, along y."""
    return make_window((size[1],), seed=3, **options), make_window((size[0],), seed=4, **options)


def products(image, *args, **options):
    return torch_conv.filter2d_separable(image, *args, algorithm="tensor_core", **options)


def chains(image, *args, **options):
    return torch_conv.filter2d_separable(image, *args, algorithm="separable", **options)


def check_products(image, windows, device, **options):
    """Against the float64 reference, under the bound of tests/tolerance.py."""
    size = (windows[1].shape[-1], windows[0].shape[-1])
    kinds = {"way": "tensor_core", "algorithm": bound_of(image.dtype), "window": size}
    return check("filter2d_separable", image, *windows, device=device, **kinds, **options)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [*SQUARES, *OTHERS])
def test_windows(cuda, dtype, size):
    """Boundaries of warps, tiles, chunks and segments lie in these images, and widths of any kind."""
    for i, (h, w) in enumerate(SHAPES):
        image, windows = make_image((1, 2, h, w), dtype), windows_of(size)
        check_products(image, windows, cuda, border_type=BORDERS[(size[0] + i) % len(BORDERS)])
        if size[0] <= h and size[1] <= w:
            check_products(image, windows, cuda, border_type="constant", padding="valid")


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("size", [(15, 15), (31, 9), (10, 21)])
def test_borders_and_anchors(cuda, dtype, border, size):
    for width in (144, 263):
        image = make_image((2, 1, 40, width), dtype)
        for anchor in (None, (0, 0), (-1, -1), (0, size[1] - 1), (size[0] - 1, 1)):
            check_products(image, windows_of(size), cuda, border_type=border, anchor=anchor, value=3.0)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lead", [(1, 3), (2, 1), (2, 3), (2,)])
def test_windows_of_samples_and_channels(cuda, dtype, lead):
    image = make_image((2, 3, 40, 80), dtype)
    windows = make_window((*lead, 15), seed=3), make_window((*lead, 11), seed=4)
    check_products(image, windows, cuda, normalized=True)
    on_gpu = [window.to(cuda) for window in windows]  # taps in device memory
    assert_same_bits(products(image.to(cuda), *on_gpu), products(image.to(cuda), *windows))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("factors", [(2.0**-30, 1.0), (1.0, 1e-4), (3e4, 1e-3), (1e-3, 3e4), (1e20, 1e-20)])
def test_taps_of_any_magnitude(cuda, dtype, factors):
    """Two parts of float16 hold taps far below and above its range."""
    image = make_image((1, 1, 40, 136), dtype) * (1e3 if factors[0] < 1e-6 else 1)
    x, y = windows_of((15, 15))
    check_products(image, (x * factors[0], y * factors[1]), cuda)
    falling = torch.logspace(-7, 0, 15)
    check_products(image, (x * falling, y * falling.flip(0)), cuda)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sigma", [1.5, 4.0])
def test_an_impulse_gives_the_windows(cuda, dtype, sigma):
    """The smallest of a Gaussian's taps are as good as the largest: within one unit in the last place."""
    image = torch.zeros(1, 1, 70, 136, dtype=dtype)
    image[0, 0, 35, 70] = 255 if dtype == torch.uint8 else 1000
    window = torch_conv.kernels.gaussian1d(31, sigma)
    want = exact("filter2d_separable", image, window, window)
    last = ROUNDING[dtype]
    unit = 2 * torch.clamp(want.abs() * last.relative, min=last.absolute)
    assert ((products(image.to(cuda), window, window).cpu().double() - want).abs() <= unit).all()


@pytest.mark.cuda
@pytest.mark.parametrize("k", [5, 15, 31])
def test_bytes_are_the_nearest(cuda, k):
    """But where the exact sum lies within 1e-4 of the middle between two."""
    image = make_image((1, 1, 300, 400), torch.uint8)
    window = torch_conv.kernels.gaussian1d(k, 0.15 * k + 0.35, dtype=torch.float64).float()
    got = products(image.to(cuda), window, window).cpu().double()
    assert (got - exact("filter2d_separable", image, window, window)).abs().max() <= 0.5001


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("width", [640, 641])
def test_what_is_not_finite_stays_in_its_windows(cuda, dtype, value, width):
    clean = make_image((2, 1, 133, width), dtype)
    image = clean.clone()
    for n, y, x in [(0, 0, 0), (0, 64, 127), (0, 65, 128), (1, 132, width - 1), (1, 31, 63), (1, 32, 300)]:
        image[n, 0, y, x] = value
    for size in ((15, 15), (9, 31), (20, 5)):
        windows = windows_of(size)
        windows[0][1] = 0  # 0 * NaN is NaN
        for border in ("reflect", "constant", "zero_output"):
            want = chains(image, *windows, border)
            got = products(image.to(cuda), *windows, border).cpu()
            finite = want.isfinite()
            assert torch.equal(got.isfinite(), finite)
            assert torch.equal(got.isnan(), want.isnan())
            sums = (f("filter2d_separable", clean, *windows, border) for f in (exact, magnitude))
            args = (t[finite] for t in (got, *sums))
            assert_within(*args, in_dtype=dtype, algorithm=bound_of(dtype), window=size)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_taps_that_are_not_finite(cuda, dtype, value):
    image, (x, y) = make_image((1, 1, 40, 144), dtype), windows_of((15, 15))
    for given in ((x.index_fill(0, torch.tensor(3), value), y), (x, y.index_fill(0, torch.tensor(8), value))):
        assert_same_bits(products(image.to(cuda), *given), chains(image, *given))


@pytest.mark.cuda
def test_results_beyond_float16_are_infinite(cuda):
    image = torch.full((1, 1, 40, 136), 60000.0, dtype=torch.float16)
    image[..., 60:] = -60000.0
    window = torch.ones(9)
    assert_same_bits(products(image.to(cuda), window, window), chains(image, window, window))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [640, 641])
def test_same_bits_for_every_position_in_the_batch(cuda, dtype, width):
    """Planes of odd sizes start at other addresses, too."""
    image = make_image((1, 1, 133, width), dtype, device=cuda)
    for size in ((15, 15), (31, 31), (9, 20)):
        windows = windows_of(size)
        alone = products(image, *windows)
        for _ in range(3):
            assert_same_bits(products(image.repeat(3, 2, 1, 1), *windows), alone.repeat(3, 2, 1, 1))
        assert_same_bits(torch_conv.filter2d_separable(image, *windows), alone)  # what 'auto' takes


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("size", [(15, 15), (31, 31), (9, 20)])
def test_what_lies_between_rows_is_not_seen(cuda, dtype, border, size):
    """Images among NaN have the bits that they have alone, wherever they start and results go."""
    windows = windows_of(size)
    beside = 77 if dtype == torch.uint8 else float("nan")
    for h, w in ((61, 517), (45, 272)):
        image = make_image((2, 2, h, w), dtype, device=cuda)
        alone = products(image, *windows, border)
        for gap, start in ((0, 1), (1, 3), (3, 0), (16, 2), (16, 0)):
            memory = torch.full((start + 4 * h * (w + gap),), beside, dtype=dtype, device=cuda)
            among = memory[start:].view(2, 2, h, w + gap)[..., :w]
            among.copy_(image)
            assert_same_bits(products(among, *windows, border), alone)
            out = torch.full((2, 2, h, w + gap), 7, dtype=dtype, device=cuda)
            products(among, *windows, border, out=out[..., :w])
            assert_same_bits(out[..., :w], alone)
            assert (out[..., w:] == 7).all()


def photo_of(image, gap=0, start=0, beside=0):
    """The same image with its interleaved channels, rows `gap` values apart, behind `start` values."""
    n, c, h, w = image.shape
    memory = torch.full((start + n * h * (w * c + gap),), beside, dtype=image.dtype, device=image.device)
    rows = memory[start:].view(n, h, w * c + gap)[..., : w * c]
    photo = rows.unflatten(-1, (w, c)).permute(0, 3, 1, 2)
    photo.copy_(image)
    return photo


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("size", [(15, 15), (31, 31), (9, 20)])
def test_crops_and_photos_have_the_bits_of_aligned_planes(cuda, dtype, border, size):
    """Rows that start anywhere, rows with gaps, odd widths, and 2 to 4 interleaved channels, among NaN."""
    windows, options = windows_of(size), {"border_type": border, "value": 3.0}
    beside = 77 if dtype == torch.uint8 else float("nan")
    for h, w in ((61, 517), (45, 272)):
        image = make_image((2, 4, h, w), dtype, device=cuda)
        aligned = torch.empty(2, 4, h, -w % 16 + w, dtype=dtype, device=cuda)[..., :w]
        aligned.copy_(image)
        want = products(aligned, *windows, **options)
        whole = torch.full((2, 4, h, w + 19), beside, dtype=dtype, device=cuda)
        crop = whole[..., 5 : 5 + w]
        crop.copy_(image)
        for planes in (image, crop):
            assert_same_bits(products(planes, *windows, **options), want)
        for channels in (2, 3, 4):
            for gap, start in ((0, 0), (5, 3), (16, 0)):
                photo = photo_of(image[:, :channels], gap, start, beside)
                assert_same_bits(products(photo, *windows, **options), want[:, :channels])
                out = photo_of(torch.zeros_like(image[:, :channels]), gap, start, 7)
                products(photo, *windows, **options, out=out)
                assert_same_bits(out, want[:, :channels])
                memory = out.as_strided((2, h, w * channels + gap), (h * (w * channels + gap), w * channels + gap, 1))
                assert (memory[..., w * channels :] == 7).all()


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(3, 15), (33, 33), (63, 63), (5, 24)])
def test_photos_of_any_window(cuda, dtype, size):
    for w in (272, 131):
        image, windows = make_image((1, 3, 70, w), dtype, device=cuda), windows_of(size)
        for anchor in (None, (0, size[1] - 1)):
            want = products(image, *windows, anchor=anchor)
            assert_same_bits(products(photo_of(image), *windows, anchor=anchor), want)
        valid = products(image, *windows, padding="valid")
        assert_same_bits(products(photo_of(image), *windows, padding="valid"), valid)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("width", [272, 261])
def test_what_is_not_finite_stays_in_its_channel(cuda, dtype, width):
    image = make_image((1, 3, 70, width), dtype)
    image[0, 1, 33, 200], image[0, 2, 0, width - 1], image[0, 0, 69, 0] = float("nan"), float("inf"), float("-inf")
    for size in ((15, 15), (31, 9)):
        windows = windows_of(size)
        for border in ("reflect", "zero_output"):
            want, got = chains(image, *windows, border), products(photo_of(image.to(cuda)), *windows, border).cpu()
            assert torch.equal(got.isfinite(), want.isfinite())
            assert torch.equal(got.isnan(), want.isnan())
            assert_same_bits(got, products(image.to(cuda), *windows, border).cpu())


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [256, 261])
def test_shards_of_photos(cuda, dtype, width):
    image, windows = make_image((1, 3, 133, width), dtype), windows_of((15, 15))
    parts = torch_conv.split(photo_of(image.to(cuda)), [cuda] * 3, dim=-2)
    got = torch_conv.filter2d_separable(parts, *windows).gather()
    sums = (f("filter2d_separable", image, *windows) for f in (exact, magnitude))
    assert_within(got, *sums, in_dtype=dtype, algorithm=bound_of(dtype), window=(15, 15))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", ["auto", "tensor_core"])
@pytest.mark.parametrize("width", [640, 641])
@pytest.mark.parametrize("dim", [-2, -1])
def test_on_shards(cuda, dtype, way, width, dim):
    image, windows = make_image((1, 2, 133, width), dtype), windows_of((15, 15))
    parts = torch_conv.split(image.to(cuda), [cuda] * 3, dim=dim)
    got = torch_conv.filter2d_separable(parts, *windows, algorithm=way).gather()
    sums = (f("filter2d_separable", image, *windows) for f in (exact, magnitude))
    assert_within(got, *sums, in_dtype=dtype, algorithm=bound_of(dtype), window=(15, 15))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(5, 5), (15, 15), (9, 33)])
def test_separable_keeps_its_bits(cuda, dtype, size):
    image, windows = make_image((1, 2, 70, 272), dtype), windows_of(size)
    got = chains(image.to(cuda), *windows)
    assert_same_bits(got, chains(image, *windows))
    assert_same_bits(got, torch_conv.filter2d_separable(image, *windows))  # the CPU knows no other way


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
def test_gradients(cuda, dtype):
    """They are filters in float32."""
    image = make_image((1, 1, 40, 64), dtype, device=cuda).requires_grad_()
    windows = windows_of((15, 15))
    products(image, *windows).float().sum().backward()
    other = image.detach().clone().requires_grad_()
    chains(other, *windows).float().sum().backward()
    assert_same_bits(image.grad, other.grad)


def line_of(monkeypatch, image, size, gpu=H200, **options):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", gpu)
    return torch_conv.explain(torch_conv.filter2d_separable, image, *windows_of(size), **options).lines[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_auto_takes(monkeypatch, dtype):
    whole = torch.empty(1, 1, 512, 1024, dtype=dtype)
    planes = [whole, torch.empty(1, 1, 512, 1023, dtype=dtype), whole[..., 1:], whole[..., 3:1001]]
    photos = [torch.empty(1, 512, w, c, dtype=dtype).permute(0, 3, 1, 2) for w in (1024, 1023) for c in (2, 3, 4)]
    for image in (*planes, *photos, photos[1][..., 3:1001]):
        for size in ((9, 9), (15, 15), (31, 31), (63, 63), (5, 9), (9, 2), (15, 5)):
            line = line_of(monkeypatch, image, size)
            assert line.startswith("filter2d_separable: tensor_core/mma ("), line
            line = line_of(monkeypatch, image, size, algorithm="separable")
            assert line.startswith("filter2d_separable: separable/"), line
            assert "not mma: one chain of multiply-adds is asked for" in line
    few, row = (
        "few taps: chains are mostly as fast, with the same bits in every layout",
        "a window of one row or one column",
    )
    for size, why in (((7, 7), few), ((1, 31), row), ((31, 1), row), ((64, 5), "a window beyond 63x63")):
        line = line_of(monkeypatch, whole, size)
        assert line.startswith("filter2d_separable: separable/") and f"not mma: {why}" in line, line
    line = line_of(monkeypatch, whole, (15, 15), "8.0 108 166912 2.0e12")
    assert line.startswith("filter2d_separable: separable/") and "not mma: no bulk copies" in line, line
    line = line_of(monkeypatch, whole.float(), (15, 15))
    assert "not mma: no float16, bfloat16 or uint8" in line, line


def test_gaussian_blur_takes_it(monkeypatch):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H200)
    image = torch.empty(1, 1, 512, 1024, dtype=torch.float16)
    for options, way in (({}, "tensor_core/mma"), ({"algorithm": "separable"}, "separable/tile_tma")):
        line = torch_conv.explain(torch_conv.gaussian_blur2d, image, 15, 2.6, **options).lines[0]
        assert f": {way} (" in line, line


@pytest.mark.parametrize(
    ("given", "size", "options", "why"),
    [
        ({"dtype": torch.float32}, 15, {}, "no float16, bfloat16 or uint8"),
        ({"dtype": torch.int16}, 15, {}, "no float16, bfloat16 or uint8"),
        ({}, 64, {}, "a window beyond 63x63"),
        ({}, 15, {"stride": 2}, "stride or dilation"),
        ({}, 15, {"dilation": 2}, "stride or dilation"),
        ({"channels": 5}, 15, {}, "pixels of a row are not contiguous"),
        ({}, 15, {"border_type": "skip"}, "border 'skip'"),
        ({}, 15, {"output_dtype": torch.float32}, "another output dtype"),
        ({"gpu": "8.0 108 166912 2.0e12"}, 15, {}, "no bulk copies"),
    ],
)
def test_what_tensor_cores_refuse(monkeypatch, given, size, options, why):
    shape, dtype = (1, 128, 1024, given.get("channels", 1)), given.get("dtype", torch.float16)
    image = torch.empty(shape, dtype=dtype).permute(0, 3, 1, 2)
    with pytest.raises(ValueError) as caught:
        line_of(monkeypatch, image, (size, size), given.get("gpu", H200), algorithm="tensor_core", **options)
    assert str(caught.value) == f"filter2d_separable: algorithm 'tensor_core' cannot serve this call: {why}"


def test_the_cpu_has_no_tensor_cores():
    with pytest.raises(ValueError) as caught:
        products(torch.zeros(8, 8, dtype=torch.float16), torch.ones(9), torch.ones(9))
    assert str(caught.value) == (
        "filter2d_separable: algorithm 'tensor_core' cannot serve this call: the CPU makes chains of multiply-adds"
    )


def test_volumes_have_no_such_algorithm():
    with pytest.raises(ValueError) as caught:
        torch_conv.filter3d_separable(torch.zeros(8, 8, 8), *[torch.ones(3)] * 3, algorithm="tensor_core")
    assert str(caught.value) == "filter3d_separable: algorithm must be 'auto' or 'separable', got 'tensor_core'"


def test_a_pinned_chain_is_no_product(monkeypatch):
    monkeypatch.setenv("TORCH_CONV_VARIANT", "tile_tma")
    image = torch.empty(1, 1, 64, 1024, dtype=torch.float16)
    with pytest.raises(ValueError) as caught:
        line_of(monkeypatch, image, (15, 15), algorithm="tensor_core")
    assert str(caught.value) == "filter2d_separable: variant 'tile_tma' cannot serve this call"
