"""filter2d with a window of the image's dtype for each of many interleaved channels, and zeros outside: a depthwise
convolution, on tensor cores within one rounding of the exact result."""

import pytest
import torch
from oracle import exact, magnitude
from refusals import refuses
from strategies import lay_out, make_image, make_window
from tensor_core import H200, HALVES, check_products, products
from tolerance import assert_same_bits, assert_within

import torch_conv

A100 = "8.0 108 166912 2.0e12"
SIZES = [(3, 3), (5, 5), (4, 6), (2, 9), (7, 7), (9, 8)]
MMA = "depthwise/channels_mma"


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", [(2, 40, 33, 61), (3, 64, 9, 20), (9, 8, 70, 6)])
def test_windows(cuda, pinned, dtype, size, shape):
    image, window = make_image(shape, dtype), make_window((1, shape[1], *size)).to(dtype)
    options = {"border_type": "constant", "layout": "channels_last"}
    for anchor in (None, (0, 0), (-1, -1), (size[0] - 1, 1)):
        got = check_products(image, window, cuda, anchor=anchor, **options)
        assert got.is_contiguous(memory_format=torch.channels_last)
    if shape[3] >= size[1]:
        check_products(image, window, cuda, padding="valid", **options)
    given = lay_out(image.to(cuda), "channels_last")
    want = products(given, window.to(cuda), "constant")
    assert_same_bits(products(given, window, "constant"), want)  # taps that travel with the call
    assert_same_bits(pinned("channels_mma", lambda: torch_conv.filter2d(given, window.to(cuda), "constant")), want)
    direct = torch_conv.filter2d(given, window.to(cuda), "constant", algorithm="direct")
    assert_same_bits(direct, torch_conv.filter2d(image, window, "constant", algorithm="direct"))
    by_products = size[0] * size[1] > (9 if shape[1] % 16 == 0 else 25)  # the choice of 'auto'
    assert_same_bits(torch_conv.filter2d(given, window.to(cuda), "constant"), want if by_products else direct)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    ("channels", "size"),
    [(c, size) for c in (8, 12, 24, 26, 40) for size in [(3, 3), (2, 3), (4, 5), (5, 5)]]
    + [(16, (3, 3)), (16, (2, 3))],
)
def test_few_taps(cuda, dtype, channels, size):
    """Chains of multiply-adds by the kernel family for depthwise convolutions, of small and of large images."""
    for n, h, w in ((1, 20, 33), (2, 200, 333), (1, 640, 1100)):
        image = lay_out(make_image((n, channels, h, w), dtype).to(cuda), "channels_last")
        window = make_window((1, channels, *size)).to(dtype)
        for taps in (window, window.to(cuda)):
            got = torch_conv.filter2d(image, taps, "constant")
            assert_same_bits(got, torch_conv.filter2d(image, taps, "constant", algorithm="direct"))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_nonfinite_pixels_reach_their_windows_only(cuda, dtype, value):
    """Neighbouring channels and pixels share products."""
    clean = lay_out(make_image((2, 16, 40, 61), dtype), "channels_last")
    for size in SIZES:
        for where in ("image", "window"):
            image, window = clean.clone(), make_window((1, 16, *size)).to(dtype)
            window[:, :, 1, 1] = 0  # 0 * NaN is NaN
            if where == "image":
                for n, c, y, x in [(0, 0, 0, 0), (0, 3, 6, 6), (0, 4, 7, 7), (1, 15, 39, 60), (1, 9, 20, 55)]:
                    image[n, c, y, x] = value
            else:
                window[0, 5, 0, 1] = value
            direct = torch_conv.filter2d(image, window, "constant", algorithm="direct")
            got = products(image.to(cuda), window.to(cuda), "constant").cpu()
            finite = direct.isfinite()
            assert torch.equal(got.isfinite(), finite) and torch.equal(got.isnan(), direct.isnan())
            sizes = exact("filter2d", image, window, "constant"), magnitude("filter2d", image, window, "constant")
            args = (t[finite] for t in (got, *sizes))
            assert_within(*args, in_dtype=dtype, algorithm="tensor_core", window=size)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
def test_later_calls(cuda, dtype):
    """Replayed, in a CUDA graph, into an `out` of any address, of crops, and in every place of a batch."""
    image = lay_out(make_image((3, 32, 40, 61), dtype).to(cuda), "channels_last")
    windows = [make_window((1, 32, 5, 5), seed=s).to(dtype) for s in (1, 2, 3)]
    want = [products(image, window.to(cuda), "constant") for window in windows]
    moving, graph = windows[0].to(cuda), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = torch_conv.filter2d(image, moving, "constant")
    for window, expected in zip(windows, want, strict=True):
        assert_same_bits(torch_conv.filter2d(image, window, "constant"), expected)
        moving.copy_(window)
        graph.replay()
        assert_same_bits(got, expected)
        for n in range(3):
            assert_same_bits(torch_conv.filter2d(image[n : n + 1], moving, "constant"), expected[n : n + 1])
        out = torch.empty_like(image)
        assert_same_bits(torch_conv.filter2d(image, moving, "constant", out=out), expected)
        wide = lay_out(torch.empty(3, 33, 40, 61, dtype=dtype, device=cuda), "channels_last")
        torch_conv.filter2d(image, moving, "constant", out=wide[:, 1:])  # pixels that start anywhere: multiply-adds
        assert_same_bits(wide[:, 1:], torch_conv.filter2d(image, window, "constant", algorithm="direct"))
        crop = image[:, :, 3:30, 5:50]
        bounds = (f("filter2d", crop.cpu(), window, "constant") for f in (exact, magnitude))
        got_crop = torch_conv.filter2d(crop, moving, "constant")
        assert_within(got_crop, *bounds, in_dtype=dtype, algorithm="tensor_core", window=(5, 5))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("way", ["auto", "tensor_core"])
@pytest.mark.parametrize("dim", [-1, -2, 0])
def test_on_shards(cuda, dtype, way, dim):
    """Tensor cores compute every shard; a single sample has the bits that it has in a batch."""
    image, window = make_image((3, 32, 63, 60), dtype), make_window((1, 32, 5, 5)).to(dtype)
    whole = lay_out(image.to(cuda), "channels_last")
    parts = torch_conv.split(whole, [cuda] * 3, dim=dim)
    bounds = exact("filter2d", image, window, "constant"), magnitude("filter2d", image, window, "constant")
    for given in (window, window.to(cuda)):
        lines = torch_conv.explain(torch_conv.filter2d, parts, given, "constant", algorithm=way).lines
        plans = [line for line in lines if not line.startswith("filter2d: shard ")]
        assert len(plans) >= 3 and all(line.startswith(f"filter2d: {MMA} (") for line in plans), plans
        got = torch_conv.filter2d(parts, given, "constant", algorithm=way).gather()
        if dim == 0:
            assert_same_bits(got, products(whole, given, "constant"))
        else:
            assert_within(got, *bounds, in_dtype=dtype, algorithm="tensor_core", window=(5, 5))


@pytest.mark.cuda
@pytest.mark.parametrize(
    ("channels", "sizes", "k"),
    [(40, [32, 8], 3), (40, [32, 8], 5), (24, [16, 8], 5), (48, [24, 24], 3), (48, [24, 24], 5)],
)
def test_on_shards_of_channels(cuda, channels, sizes, k):
    """A shard's outputs are summed as the whole's, which has more channels."""
    window = make_window((1, channels, k, k)).half()
    whole = lay_out(make_image((2, channels, 64, 75), torch.float16).to(cuda), "channels_last")
    parts = torch_conv.SplitTensor.from_shards(list(whole.split(sizes, 1)), dim=1)
    if (channels, k) == (48, 5):
        lines = torch_conv.explain(torch_conv.filter2d, parts, window, "constant").lines
        assert [line.split(" (")[0] for line in lines] == [f"filter2d: {MMA}"] * 2
        return
    expected = torch_conv.filter2d(whole, window.to(cuda), "constant", algorithm="direct")
    for given in (window, window.to(cuda)):
        assert_same_bits(torch_conv.filter2d(parts, given, "constant").gather(), expected)


def empty(channels=64, *, first=0, size=(100, 120)):
    """Channels from `first` on of more of them."""
    return lay_out(torch.empty(2, first + channels, *size, dtype=torch.float16), "channels_last")[:, first:]


def own(*size, channels=64, samples=1, dtype=torch.float16):
    return torch.ones((samples, channels, *size), dtype=dtype)


def line_of(image, window, border="constant", **options):
    return torch_conv.explain(torch_conv.filter2d, image, window, border, **options).lines[0]


def plan_of(*args, **options):
    return line_of(*args, **options).split()[1]


@pytest.fixture
def hopper(monkeypatch):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H200)


def test_algorithm_of_auto(hopper, monkeypatch):
    image = empty()
    for window in (own(5, 5), own(2, 6), own(9, 9)):
        for options in ({}, {"padding": "valid"}, {"algorithm": "tensor_core"}, {"out": empty()}):
            assert plan_of(image, window, **options) == MMA
        assert plan_of(image, window, algorithm="direct") != MMA
    assert plan_of(image, own(3, 3)) == "depthwise/channels_tma"
    assert plan_of(empty(24), own(3, 3, channels=24)) == "depthwise/channels_tma"
    assert plan_of(empty(24, size=(800, 1000)), own(3, 3, channels=24)) == "depthwise/channels"
    assert plan_of(empty(24), own(5, 5, channels=24)) == "depthwise/channels_tma"
    assert plan_of(empty(12), own(5, 5, channels=12)) == "depthwise/channels"
    assert plan_of(empty(8), own(5, 5, channels=8)).startswith("direct/")
    assert plan_of(image, own(3, 3), algorithm="direct") == "direct/tile_groups"
    assert plan_of(image, own(3, 3), algorithm="tensor_core") == MMA
    assert plan_of(image, own(5, 5), padding="valid", anchor=(0, 0)) == MMA
    for window in (own(5, 5, dtype=torch.float32), own(5, 5, samples=2), torch.ones(5, 5), own(6, 10)):
        assert plan_of(image, window).startswith("direct/")
    for options in ({"value": 1.0}, {"border": "reflect"}, {"stride": 2}, {"output_dtype": torch.float32}):
        assert plan_of(image, own(5, 5), **options).startswith("direct/")
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", A100)
    assert plan_of(image, own(5, 5)).startswith("direct/")


UNALIGNED = "channels do not lie innermost, or pixels not on 16 bytes"


@pytest.mark.parametrize(
    ("image", "window", "options", "why"),
    [
        (empty(60), own(6, 6, channels=60), {}, UNALIGNED),
        (empty()[:, :60], own(6, 6, channels=60), {}, UNALIGNED),  # of the result, whose pixels are 120 bytes
        (empty(first=1), own(5, 5), {}, UNALIGNED),
        (empty(), own(5, 5), {"out": empty(first=1)}, UNALIGNED),
        (empty(), own(5, 5), {"out": empty().contiguous()}, UNALIGNED),
        (empty(), own(5, 5), {"stride": 2}, "stride or dilation"),
        (empty(), own(5, 5), {"dilation": 2}, "stride or dilation"),
        (empty(), own(6, 10), {}, "windows above 9x9"),
        (empty(), own(5, 5), {"gpu": A100}, "no bulk copies"),
        (empty(), own(5, 5), {"gpu": "10.0 148 232448 8.0e12"}, "another GPU than Hopper"),
    ],
)
def test_says_why_not(hopper, monkeypatch, image, window, options, why):
    """Plans of 'auto' do, and the refusals of 'tensor_core' and of the pinned kernel."""
    options = dict(options)
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", options.pop("gpu", H200))
    line = line_of(image, window, **options)
    assert line.startswith("filter2d: direct/") and line.count(f"; not {MMA}: {why}; floor") == 1, line
    with refuses(ValueError, f"filter2d: algorithm 'tensor_core' cannot serve this call: {why}"):
        line_of(image, window, algorithm="tensor_core", **options)
    monkeypatch.setenv("TORCH_CONV_VARIANT", "channels_mma")
    with refuses(ValueError, f"filter2d: variant 'channels_mma' cannot serve this call: {why}"):
        line_of(image, window, **options)


def test_says_why_not_for_few_taps(hopper):
    few = f"; not {MMA}: few taps or channels: multiply-adds are as fast; floor"
    for image, window in ((empty(), own(1, 9)), (empty(), own(9, 1)), (empty(8), own(5, 5, channels=8))):
        assert few in line_of(image, window)
    for window, options in ((own(5, 5), {"border": "reflect"}), (torch.ones(5, 5), {}), (own(5, 5).float(), {})):
        assert MMA not in line_of(empty(), window, **options)  # no depthwise convolution of half precision


def test_plan_depends_on_the_dtype_of_the_result(hopper):
    """9x9 windows of rank 1 that no tensor core serves are separable filters."""
    image, wide = empty(), {"output_dtype": torch.float32}
    assert plan_of(image, own(9, 9)) == plan_of(image, own(9, 9), output_dtype=torch.float16) == MMA
    for options in (wide, {"out": torch.empty(2, 64, 100, 120)}, {"out": empty(first=1)}):
        assert plan_of(image, own(9, 9), **options) == "low_rank/passes"
    with pytest.raises(ValueError, match=r"^filter2d: algorithm 'tensor_core' cannot serve this call: another output"):
        plan_of(image, own(9, 9), algorithm="tensor_core", **wide)


def test_pinned(hopper, monkeypatch):
    image = empty()
    monkeypatch.setenv("TORCH_CONV_VARIANT", "channels_mma")
    for window in (own(3, 3), own(5, 5), own(1, 9)):
        assert plan_of(image, window) == plan_of(image, window, algorithm="tensor_core") == MMA
    for window, options in (
        (own(5, 5), {"algorithm": "direct"}),
        (own(5, 5), {"border": "reflect"}),
        (own(5, 5), {"output_dtype": torch.float32}),
        (own(5, 5).float(), {}),
        (torch.ones(5, 5), {}),
    ):
        with pytest.raises(ValueError, match=r"^filter2d: variant 'channels_mma' cannot serve this call$"):
            plan_of(image, window, **options)
    for name in ("channels", "general", "tile_groups"):  # those of `direct`, whoever else has one of that name
        monkeypatch.setenv("TORCH_CONV_VARIANT", name)
        assert plan_of(image, own(5, 5)) == f"direct/{name}"
        with pytest.raises(ValueError, match=rf"^filter2d: variant '{name}' cannot serve this call"):
            plan_of(image, own(5, 5), algorithm="tensor_core")


@pytest.mark.parametrize("shape", [(0, 64, 9, 10), (2, 64, 0, 10), (2, 64, 9, 0)])
def test_nothing_to_compute(hopper, shape):
    image = lay_out(torch.empty(shape, dtype=torch.float16), "channels_last")
    for way in ("auto", "tensor_core"):
        assert not torch_conv.explain(torch_conv.filter2d, image, own(5, 5), "constant", algorithm=way).lines
