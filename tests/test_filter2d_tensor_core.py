"""filter2d by products of matrices: within one rounding of the exact result, wherever tensor cores serve."""

from __future__ import annotations

import pytest
import torch
from oracle import exact, magnitude
from strategies import EXTENDING, make_image, make_window
from tensor_core import H200, HALVES, check_products, products
from tolerance import assert_same_bits, assert_within

import torch_conv

SHAPES = [(133, 640), (70, 1040), (8, 8), (33, 128), (50, 517)]
SQUARES = [(k, k) for k in range(2, 16)]
OTHERS = [(3, 15), (15, 3), (4, 6), (1, 7), (7, 1), (9, 2), (5, 14), (14, 5), (6, 13)]
LARGE = [(16, 16), (17, 20), (21, 29), (24, 24), (31, 31), (5, 31), (31, 3), (31, 15), (18, 30)]
BORDERS = [*EXTENDING, "zero_output"]


def round_up(size, multiple):
    return -(-size // multiple) * multiple


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("size", [*SQUARES, *OTHERS, *LARGE])
def test_windows(cuda, dtype, size):
    for i, (h, w) in enumerate(SHAPES):
        image, window = make_image((1, 2, h, w), dtype), make_window(size)
        check_products(image, window, cuda, border_type=BORDERS[(size[0] + i) % len(BORDERS)])
        if size[0] <= h and size[1] <= w:
            check_products(image, window, cuda, border_type="constant", padding="valid")


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("size", [(5, 5), (7, 7), (4, 9)])
def test_borders_and_anchors(cuda, dtype, border, size):
    window = make_window(size)
    for width in (136, 263):
        image = make_image((2, 1, 40, width), dtype)
        for anchor in (None, (0, 0), (-1, -1), (0, size[1] - 1), (size[0] - 1, 1)):
            check_products(image, window, cuda, border_type=border, anchor=anchor, value=3.0)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("lead", [(1, 3), (2, 1), (2, 3), (2,)])
def test_windows_of_samples_and_channels(cuda, dtype, lead):
    image = make_image((2, 3, 40, 72), dtype)
    for size in ((5, 5), (7, 7)):
        check_products(image, make_window((*lead, *size)), cuda)
        window = make_window((*lead, *size), device=cuda)  # taps in device memory
        assert_same_bits(products(image.to(cuda), window), products(image.to(cuda), window.cpu()))
        check_products(image, window.cpu(), cuda, behaviour="conv", normalized=True)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("factor", [2.0**-30, 1e-4, 3e4])
def test_taps_of_any_magnitude(cuda, dtype, factor):
    """Two parts of float16 hold taps far below and above its range."""
    image = make_image((1, 1, 40, 136), dtype) * (1e3 if factor < 1e-6 else 1e-6)
    check_products(image, make_window((5, 5)) * factor, cuda)
    wide = make_window((5, 5)) * torch.logspace(-6, 0, 25).reshape(5, 5)
    check_products(image, wide, cuda)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("size", [(3, 3), (5, 5), (6, 5), (7, 7), (9, 9), (15, 15), (31, 31)])
@pytest.mark.parametrize("width", [264, 263])
def test_windows_of_the_images_dtype(cuda, dtype, size, width):
    """Taken as they are, on the host and on the GPU; the bits are those of the same taps in float32."""
    image = make_image((2, 3, 40, width), dtype).to(cuda)
    for lead in [(), (2, 3)]:
        window = make_window((*lead, *size)).to(dtype)
        want = products(image, window.float())
        assert_same_bits(products(image, window), want)
        assert_same_bits(products(image, window.to(cuda)), want)
        for options in ({"behaviour": "conv"}, {"normalized": True}):
            assert_same_bits(products(image, window, **options), products(image, window.float(), **options))
        automatic = torch_conv.filter2d(image, window.to(cuda), algorithm="auto")
        # Not those of window.float(): 3x3 narrow taps go to tensor cores on rows that start anywhere, wide ones do not.
        assert_same_bits(automatic, torch_conv.filter2d(image, window, algorithm="auto"))
        direct = torch_conv.filter2d(image, window.to(cuda), algorithm="direct")
        assert_same_bits(direct, torch_conv.filter2d(image, window.float(), algorithm="direct"))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("size", [(5, 5), (15, 15)])
def test_narrow_windows_of_later_calls(cuda, pinned, dtype, size):
    """Replayed with other taps, in a CUDA graph, and by kernels that read float32."""
    image = make_image((1, 1, 40, 264), dtype).to(cuda)
    windows = [make_window(size, seed=s).to(dtype) for s in (1, 2, 3)]
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
    assert_same_bits(tile, torch_conv.filter2d(image, windows[0].float(), algorithm="direct"))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
def test_windows_that_cancel(cuda, dtype):
    """A derivative of a bright plane: taps rounded to half precision would leave a thousandth of it."""
    image = (1000 + make_image((1, 1, 64, 256), torch.float64)).to(dtype)
    taps = make_window((7, 7))
    check_products(image, taps - taps.mean(), cuda)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("width", [640, 641])
def test_what_is_not_finite_stays_in_its_windows(cuda, dtype, value, width):
    clean = make_image((2, 1, 133, width), dtype)
    image = clean.clone()
    for n, y, x in [(0, 0, 0), (0, 64, 127), (0, 65, 128), (1, 132, width - 1), (1, 31, 63), (1, 32, 300)]:
        image[n, 0, y, x] = value
    for size in ((5, 5), (7, 7), (4, 11), (19, 19)):
        window = make_window(size)
        window[1, 1] = 0  # 0 * NaN is NaN
        for border in ("reflect", "constant"):
            direct = torch_conv.filter2d(image, window, border, algorithm="direct")
            got = products(image.to(cuda), window, border).cpu()
            finite = direct.isfinite()
            assert torch.equal(got.isfinite(), finite)
            assert torch.equal(got.isnan(), direct.isnan())
            bounds = exact("filter2d", clean, window, border), magnitude("filter2d", clean, window, border)
            args = (t[finite] for t in (got, *bounds))
            assert_within(*args, in_dtype=dtype, algorithm="tensor_core", window=size)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_taps_that_are_not_finite(cuda, dtype, value):
    image, window = make_image((1, 1, 40, 136), dtype), make_window((5, 5))
    window[2, 3] = value
    assert_same_bits(products(image.to(cuda), window), torch_conv.filter2d(image, window, algorithm="direct"))


@pytest.mark.cuda
def test_results_beyond_float16_are_infinite(cuda):
    image = torch.full((1, 1, 40, 136), 60000.0, dtype=torch.float16)
    image[..., 60:] = -60000.0
    window = torch.ones(5, 5)
    assert_same_bits(products(image.to(cuda), window), torch_conv.filter2d(image, window, algorithm="direct"))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("width", [640, 641])
def test_same_bits_for_every_position_in_the_batch(cuda, dtype, width):
    """Planes of odd sizes start at other addresses, too."""
    image = make_image((1, 1, 133, width), dtype, device=cuda)
    for size in ((5, 5), (7, 7), (15, 15)):
        alone = products(image, make_window(size))
        for _ in range(3):
            assert_same_bits(products(image.repeat(3, 2, 1, 1), make_window(size)), alone.repeat(3, 2, 1, 1))
        assert_same_bits(torch_conv.filter2d(image, make_window(size)), alone)  # what 'auto' takes


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("pitch", [400, 401, 402])
@pytest.mark.parametrize("start", [8, 0, 1, 2, 5])
def test_rows_of_other_pitches(cuda, dtype, pitch, start):
    """Crops are read as they lie, wherever they start, and results of any pitch are written; the bits are the same."""
    wide = make_image((1, 1, 50, pitch), dtype, device=cuda)
    for width in (136, 137, 264):
        crop = wide[..., 3:43, start : start + width]
        for size in ((5, 5), (7, 7), (4, 4), (9, 9)):
            window = make_window(size)
            aligned = torch.zeros((1, 1, 40, round_up(width, 8)), dtype=dtype, device=cuda)[..., :width]
            aligned.copy_(crop)
            expected = products(aligned, window)
            assert_same_bits(products(crop, window), expected)
            for behind in (0, 1, 8):
                out = torch.full((1, 1, 40, width + behind), 7.0, dtype=dtype, device=cuda)
                torch_conv.filter2d(crop, window, algorithm="tensor_core", out=out[..., :width])
                assert_same_bits(out[..., :width], expected)
                assert (out[..., width:] == 7).all()


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("size", [(5, 5), (4, 7), (6, 5), (7, 7), (9, 9), (12, 13), (31, 31)])
def test_what_lies_between_rows_is_not_seen(cuda, dtype, border, size):
    """Images among NaN have the bits that they have alone: no zero of a matrix meets what is not the image's."""
    for h, w in ((61, 517), (40, 1001), (45, 264)):
        image = make_image((2, 2, h, w), dtype, device=cuda)
        for window in (make_window(size), make_window(size).to(dtype)):
            alone = products(image, window, border)
            for gap, start in ((0, 1), (1, 3), (2, 5), (3, 0), (8, 2), (8, 0)):
                memory = torch.full((start + 4 * h * (w + gap),), float("nan"), dtype=dtype, device=cuda)
                among = memory[start:].view(2, 2, h, w + gap)[..., :w]
                among.copy_(image)
                assert_same_bits(products(among, window, border), alone)
                out = torch.full((2, 2, h, w + gap), 7.0, dtype=dtype, device=cuda)
                products(among, window, border, out=out[..., :w])
                assert_same_bits(out[..., :w], alone)
                assert (out[..., w:] == 7).all()


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("way", ["auto", "tensor_core"])
@pytest.mark.parametrize("width", [640, 641])
def test_on_shards(cuda, dtype, way, width):
    image, window = make_image((1, 2, 133, width), dtype), make_window((7, 7))
    parts = torch_conv.split(image.to(cuda), [cuda] * 3)
    got = torch_conv.filter2d(parts, window, algorithm=way).gather()
    bounds = exact("filter2d", image, window), magnitude("filter2d", image, window)
    assert_within(got, *bounds, in_dtype=dtype, algorithm="tensor_core", window=(7, 7))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("size", [(5, 5), (7, 7), (9, 9), (15, 15), (31, 31)])
def test_direct_keeps_its_bits(cuda, dtype, size):
    image, window = make_image((1, 2, 70, 264), dtype), make_window(size)
    got = torch_conv.filter2d(image.to(cuda), window, algorithm="direct")
    assert_same_bits(got, torch_conv.filter2d(image, window, algorithm="direct"))
    if size[0] <= 15:  # beyond, 'auto' takes FFT on the CPU
        assert_same_bits(torch_conv.filter2d(image, window), torch_conv.filter2d(image, window, algorithm="direct"))


def plan_of(monkeypatch, image, size, gpu=H200, **options):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", gpu)
    return torch_conv.explain(torch_conv.filter2d, image, make_window(size), **options).lines[0]


@pytest.mark.parametrize("dtype", HALVES)
def test_what_auto_takes(monkeypatch, dtype):
    image = torch.empty(1, 1, 512, 1024, dtype=dtype)
    for size in ((4, 5), (5, 5), (2, 9), (7, 7), (15, 15), (31, 31)):
        line = plan_of(monkeypatch, image, size)
        assert line.startswith("filter2d: tensor_core/mma ("), line
        assert plan_of(monkeypatch, image, size, algorithm="tensor_core").startswith("filter2d: tensor_core/mma (")
        line = plan_of(monkeypatch, image, size, algorithm="direct")
        assert line.startswith("filter2d: direct/tile_tma ("), line
        assert "not mma: one chain of multiply-adds is asked for" in line
    odd = torch.empty(1, 1, 512, 1023, dtype=dtype)
    for given in (odd, image[..., 1:], image[..., 3:1001]):  # rows that start anywhere
        for size in ((4, 4), (5, 5), (3, 9), (7, 7), (31, 31)):
            assert plan_of(monkeypatch, given, size).startswith("filter2d: tensor_core/mma ("), size
            assert plan_of(monkeypatch, given, size, algorithm="direct").startswith("filter2d: direct/tile (")
        line = plan_of(monkeypatch, given, (3, 5))
        assert line.startswith("filter2d: direct/tile ("), line
        assert "not mma: multiply-adds are as fast for so few taps" in line
        for size, way in (((3, 3), "tensor_core/mma ("), ((2, 4), "direct/tile (")):
            narrow = torch.ones(size, dtype=dtype)
            assert torch_conv.explain(torch_conv.filter2d, given, narrow).lines[0].startswith(f"filter2d: {way}")
    few, row = "multiply-adds are as fast for so few taps", "a window of one row or one column"
    for size, why in (((4, 4), few), ((1, 17), row), ((32, 32), "a window beyond 31x31")):
        line = plan_of(monkeypatch, image, size)
        assert line.startswith("filter2d: direct/") and f"not mma: {why}" in line, line
    line = plan_of(monkeypatch, image, (5, 5), "8.0 108 166912 2.0e12")
    assert line.startswith("filter2d: direct/") and "not mma: no bulk copies" in line, line
    assert plan_of(monkeypatch, image.float(), (5, 5)).startswith("filter2d: direct/tile_tma (")


@pytest.mark.parametrize(
    ("given", "size", "options", "why"),
    [
        ({"dtype": torch.float32}, 5, {}, "no float16 or bfloat16"),
        ({}, 32, {}, "a window beyond 31x31"),
        ({}, 5, {"stride": 2}, "stride or dilation"),
        ({}, 5, {"dilation": 2}, "stride or dilation"),
        ({}, 5, {"border_type": "skip"}, "border 'skip'"),
        ({}, 5, {"output_dtype": torch.float32}, "another output dtype"),
        ({"w": 1023, "gpu": "8.0 108 166912 2.0e12"}, 5, {}, "no bulk copies"),
        ({"gpu": "8.0 108 166912 2.0e12"}, 5, {}, "no bulk copies"),
    ],
)
def test_what_tensor_cores_refuse(monkeypatch, given, size, options, why):
    image = torch.empty(1, 1, 64, given.get("w", 1024), dtype=given.get("dtype", torch.float16))
    with pytest.raises(ValueError) as caught:
        plan_of(monkeypatch, image, (size, size), given.get("gpu", H200), algorithm="tensor_core", **options)
    assert str(caught.value) == f"filter2d: algorithm 'tensor_core' cannot serve this call: {why}"


def test_the_cpu_has_no_tensor_cores():
    with pytest.raises(ValueError) as caught:
        products(torch.zeros(8, 8, dtype=torch.float16), torch.ones(5, 5))
    assert str(caught.value) == (
        "filter2d: algorithm 'tensor_core' cannot serve this call: the CPU makes chains of multiply-adds"
    )


def test_a_pinned_chain_is_no_product(monkeypatch):
    monkeypatch.setenv("TORCH_CONV_VARIANT", "tile_tma")
    image = torch.empty(1, 1, 64, 1024, dtype=torch.float16)
    with pytest.raises(ValueError) as caught:
        plan_of(monkeypatch, image, (5, 5), algorithm="tensor_core")
    assert str(caught.value) == "filter2d: variant 'tile_tma' cannot serve this call"
