"""filter2d by FFT: the float64 reference within the bound of its docstring, and when 'auto' takes it."""

from __future__ import annotations

import math
import re

import pytest
import torch
from oracle import exact
from strategies import BORDERS, DTYPES, LAYOUTS, lay_out, make_image, make_window
from tolerance import INTEGER_RANGE, ROUNDING, assert_same_bits

import torch_conv
from torch_conv import filter2d, reference

H200 = "9.0 132 232448 4.8e12"


def headline(image, window, **options):
    return torch_conv.explain(filter2d, image, window, **options).lines[0]


def numbers(image, window, **options):
    line = headline(image, window, **{"algorithm": "fft"} | options)
    names = ("tile_w", "tile_h", "tiles", "images", "batches", "launches", "scratch")
    found = re.search(
        r"tile (\d+)x(\d+), tiles (\d+), images (\d+), batches (\d+); launches (\d+) .*scratch (\d+) B", line
    )
    return dict(zip(names, map(int, found.groups()), strict=True))


def bound(image, window, inside=1.0, **options):
    """What the docstring of filter2d says."""
    tile = numbers(image, window, **options)
    n = tile["tile_w"] * tile["tile_h"]
    largest = max(image.double().abs().max().item(), abs(options.get("value", 0.0)))
    unit = 2.0**-52 if image.dtype == torch.float64 else 2.0**-23
    norm = window.double().flatten(-2).norm(dim=-1).max().item()
    return unit * math.log2(n) * math.sqrt(n) * largest * norm / inside


def check(image, window, *, device="cpu", layout="contiguous", inside=1.0, **options):
    given = lay_out(image.to(device), layout)
    got = filter2d(given, window, **options, algorithm="fft")
    expected = exact("filter2d", image, window, **options)
    dtype = options.get("output_dtype") or image.dtype
    assert got.dtype == dtype and got.shape == expected.shape
    if dtype in INTEGER_RANGE:
        expected = expected.clamp(*INTEGER_RANGE[dtype])
    last = ROUNDING[dtype]
    allowed = bound(given, window, inside, **options)
    allowed = allowed + torch.clamp((expected.abs() + allowed) * last.relative, min=last.absolute)
    assert ((got.cpu().double() - expected).abs() <= allowed).all()
    return got


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"value": -2.5},
        {"anchor": (0, -1)},
        {"stride": (2, 3), "behaviour": "conv"},
        {"dilation": (2, 1), "stride": (1, 2)},
    ],
    ids=str,
)
def test_every_option(device, border, padding, options):
    check(make_image((2, 37, 51)), make_window((9, 14)), device=device, border_type=border, padding=padding, **options)


@pytest.mark.parametrize("border", ["constant", "circular", "skip", "zero_output"])
@pytest.mark.parametrize("anchor", [None, (0, 13)])
def test_normalized(device, border, anchor):
    """With the anchor in a corner an edge's windows hold so little of the image that they are summed directly."""
    window = make_window((9, 14))
    total = window.abs().sum().item()
    check(
        make_image((2, 37, 51)),
        window,
        device=device,
        inside=total / 64 if border == "skip" else total,
        border_type=border,
        normalized=True,
        anchor=anchor,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("windows", [(), (2,), (1, 3), (2, 3)])
def test_every_dtype_layout_and_set_of_windows(device, dtype, layout, windows):
    image = make_image((2, 3, 40, 33), dtype)
    got = check(image, make_window((*windows, 11, 12)) / 20, device=device, layout=layout, border_type="symmetric")
    expected = filter2d(lay_out(image.to(device), layout), make_window((*windows, 11, 12)), algorithm="direct")
    assert got.stride() == expected.stride()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float64])
@pytest.mark.parametrize("output", [torch.float32, torch.int16, torch.float64])
def test_output_dtype_and_out(device, dtype, output):
    image, window = make_image((1, 2, 60, 40), dtype), make_window((33, 33)) / 33
    got = check(image, window, device=device, output_dtype=output)
    out = torch.empty(2, 1, 60, 40, dtype=output, device=device).transpose(0, 1)
    assert filter2d(image.to(device), window, out=out, algorithm="fft") is out
    assert_same_bits(out, got)


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 200), (5, 7)])
@pytest.mark.parametrize("border", BORDERS)
def test_windows_larger_than_the_image(device, shape, border):
    check(make_image(shape), make_window((40, 33)), device=device, border_type=border)


def test_nothing_to_compute(device):
    image = torch.zeros(0, 3, 40, 40, device=device)
    assert filter2d(image, torch.ones(33, 33), algorithm="fft").shape == image.shape


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("make", [torch.rand, torch.randn, torch.ones])
def test_error_bound(device, dtype, make):
    """On several tiles, far from zero too; float64 at some places, summed in higher precision."""
    torch.manual_seed(3)
    image, window = make(1, 500, 1200, dtype=dtype), torch.rand(63, 40, dtype=dtype)
    assert numbers(image, window)["tiles"] > 1
    got = filter2d(image.to(device), window, algorithm="fft").cpu().double()
    for y, x in [(100, 100), (31, 500), (399, 1111), (468, 19), (300, 700)]:
        under = image[0, y - 31 : y + 32, x - 19 : x + 21].double() * window.double()
        if dtype == torch.float64:  # what a product loses is far below the bound
            under = under.flatten().tolist()
            expected = math.fsum(under)
        else:
            expected = under.sum().item()
        assert abs(got[0, y, x].item() - expected) <= bound(image, window)


def largest_around(image, window):
    """The largest |pixel| under every window of 'same' (reflect) and half a window, or 30 pixels, around it."""
    far = [k // 2 + max(30, k // 2) for k in window.shape]
    size = image.abs().double()[None, None]
    for axis, r in enumerate(far):
        sides = (0, 0, r, r) if axis == 0 else (r, r, 0, 0)
        k = (2 * r + 1, 1) if axis == 0 else (1, 2 * r + 1)
        size = torch.nn.functional.max_pool2d(torch.nn.functional.pad(size, sides), k, 1)
    return size[0, 0]


FAR = {
    "one pixel": lambda x, far: x.index_put_((torch.tensor(3), torch.tensor(5)), torch.tensor(far, dtype=x.dtype)),
    "a corner": lambda x, far: x[:60, :60].fill_(far),
    "a negative edge": lambda x, far: x[:, -2:].fill_(-far),
    "half": lambda x, far: x[:, :150].mul_(far),
}


@pytest.mark.parametrize("where", FAR)
@pytest.mark.parametrize("k", [17, 31, 70])
@pytest.mark.parametrize(("dtype", "far"), [(torch.float32, 1e20), (torch.float32, 3e3), (torch.float64, 1e200)])
def test_far_values_stay_in_their_neighbourhood(device, where, k, dtype, far):
    """The bound of the docstring holds with 512 times the largest pixel around the window."""
    torch.manual_seed(5)
    image, window = torch.rand(300, 320, dtype=dtype) + 15, torch.rand(k, k, dtype=dtype) - 0.3
    FAR[where](image, far)
    got = filter2d(image.to(device), window, algorithm="fft").cpu()
    expected = filter2d(image, window, algorithm="direct")
    allowed = bound(image, window) / image.double().abs().max() * 512 * largest_around(image, window)
    allowed += 2 * k * k * torch.finfo(dtype).eps * largest_around(image, window)  # of the direct sums
    assert ((got.double() - expected.double()).abs() <= allowed).all()
    assert_same_bits(got, filter2d(image.to(device), window, algorithm="fft"))


def test_auto_keeps_far_values_in_their_neighbourhood(device):
    """A value that stands for land in a field of temperatures."""
    y, x = torch.meshgrid(torch.arange(-15.0, 16), torch.arange(-15.0, 16), indexing="ij")
    disk = (y.hypot(x) <= 15).float()
    disk /= disk.sum()
    torch.manual_seed(1)
    sea = torch.rand(720, 1440) + 15
    sea[:60, :60] = 1e20
    assert "fft/" in headline(sea, disk)
    got, expected = (
        filter2d(sea.to(device), disk, "replicate").cpu(),
        filter2d(sea, disk, "replicate", algorithm="direct"),
    )
    torch.testing.assert_close(got[90:, 90:], expected[90:, 90:], rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("border", ["constant", "skip", "reflect"])
def test_windows_of_zeros_give_zero(device, dtype, border):
    image, window = torch.zeros(2, 300, 290, dtype=dtype), make_window((33, 40))
    image[0, 130:150, 120:150] = make_image((20, 30), dtype) * 100
    got = filter2d(image.to(device), window, border, algorithm="fft").cpu()
    assert not got[1].any()
    assert (got[0] != 0)[130:150, 120:150].all()
    near = torch.zeros(300, 290, dtype=torch.bool)
    near[130 - 33 - 30 : 150 + 33 + 30, 120 - 40 - 30 : 150 + 40 + 30] = True
    assert not got[0][~near].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(
    "options", [{}, {"stride": (2, 3)}, {"value": 0.5, "border_type": "constant"}, {"padding": "valid"}]
)
@pytest.mark.parametrize("normalized", [False, True])
def test_nothing_negative_of_nothing_negative(device, dtype, options, normalized):
    torch.manual_seed(2)
    image = torch.rand(2, 3, 200, 180).pow(8) * (torch.rand(2, 3, 200, 180) > 0.999)
    image[0, 0, 100:] = -0.0
    image = image.to(dtype).to(device)
    for window in (torch.rand(31, 33), torch.rand(2, 3, 31, 33).pow(4)):
        got = filter2d(image, window, normalized=normalized, algorithm="fft", **options)
        assert (got >= 0).all() and got.any()


def test_one_negative_tap_or_pixel_may_make_negative_results(device):
    image, windows = torch.rand(1, 2, 200, 180).to(device), torch.rand(1, 2, 31, 33)
    windows[0, 1] -= 1
    got = filter2d(image, windows, algorithm="fft")
    assert (got[:, 0] > 0).all() and (got[:, 1] < 0).all()
    image[0, 0, 90, 90] = -1e6
    assert (filter2d(image, windows, algorithm="fft")[0, 0, 80:100, 80:100] < 0).all()


@pytest.mark.parametrize("options", [{}, {"stride": (2, 1)}, {"dilation": (1, 2)}])
@pytest.mark.parametrize("shape", [(200, 200), (64, 300)])
def test_valid_reads_nothing_outside(device, options, shape):
    """Whatever the border is and its value: a tile's last rows and columns may lie there."""
    image, window = make_image(shape).to(device), make_window((33, 20))
    first = filter2d(image, window, padding="valid", algorithm="fft", **options)
    for border in BORDERS:
        for value in (0.0, 1e6, math.inf, math.nan):
            got = filter2d(image, window, border, padding="valid", value=value, algorithm="fft", **options)
            assert_same_bits(got, first)


@pytest.mark.parametrize("border", sorted(set(BORDERS) - {"constant"}))
def test_only_a_constant_border_reads_the_value(device, border):
    image, window = make_image((90, 200)).to(device), make_window((33, 20))
    got = [filter2d(image, window, border, value=value, algorithm="fft") for value in (0.0, 1e30, math.nan)]
    assert_same_bits(got[1], got[0])
    assert_same_bits(got[2], got[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("border", ["constant", "reflect", "circular", "skip", "zero_output"])
@pytest.mark.parametrize("normalized", [False, True])
def test_nan_and_infinity_stay_in_their_windows(device, dtype, border, normalized):
    image, window = make_image((2, 2, 300, 260), dtype), make_window((33, 40))
    window[5, 6] = 0  # 0 * inf is NaN
    image[0, 1, 20, 30], image[1, 0, 299, 0], image[1, 1, 0, 259] = math.nan, math.inf, -math.inf
    call = {"border_type": border, "normalized": normalized}
    given = image.to(device)
    direct, got = filter2d(given, window, **call, algorithm="direct"), filter2d(given, window, **call, algorithm="fft")
    assert direct.isfinite().any() and not direct.isfinite().all()
    assert torch.equal(got.isnan(), direct.isnan())
    assert torch.equal(got.isinf(), direct.isinf())
    assert torch.equal(got[direct.isinf()], direct[direct.isinf()])
    tolerance = 0.05 if dtype == torch.float16 else 1e-3
    torch.testing.assert_close(got, direct, rtol=tolerance, atol=tolerance, equal_nan=True)
    clean = filter2d(given.nan_to_num(0, 0, 0), window, **call, algorithm="fft")
    assert_same_bits(got[0, 0], clean[0, 0])  # no image feels another one's


def test_windows_that_are_not_finite(device):
    image, window = make_image((60, 50)), make_window((33, 33))
    window[3, 4] = math.inf
    got, direct = (filter2d(image.to(device), window, algorithm=way) for way in ("fft", "direct"))
    assert_same_bits(got, direct)


def test_overflow_within_a_tile(device):
    """The sum of a whole tile has no room in float32, those of most windows have."""
    image = torch.full((90, 90), 1e-3)
    image[:2, :2] = 3e38
    assert numbers(image, torch.ones(33, 33))["tiles"] == 1
    got, direct = (filter2d(image.to(device), torch.ones(33, 33), algorithm=way) for way in ("fft", "direct"))
    assert_same_bits(got, direct)


def test_same_bits_for_every_image_of_a_batch_and_run(device):
    image, window = make_image((3, 100, 120)).to(device), make_window((33, 50))
    image[1, :20, :20], image[2, :, :40] = 1e10, 0
    batch = image[[0, 1, 2, 0, 1, 2, 0], None]
    got = filter2d(batch, window, algorithm="fft")
    assert_same_bits(got[0], got[3])
    assert_same_bits(got[0], got[6])
    assert_same_bits(got[:3, 0], filter2d(image, window, algorithm="fft"))
    assert_same_bits(got, filter2d(batch, window, algorithm="fft"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_same_bits_by_any_number_of_threads(dtype):
    """Where one thread's share of a spectrum ends and another's begins must not show."""
    image, window = make_image((5, 700, 690), dtype), make_window((33, 34))
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = filter2d(image, window, algorithm="fft")
        for count in (2, 3, 4, 7):
            torch.set_num_threads(count)
            assert_same_bits(filter2d(image, window, algorithm="fft"), one)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("dim", [-1, -2, 0, 1])
@pytest.mark.parametrize("windows", [(), (2, 3)])
@pytest.mark.parametrize("border", ["circular", "skip", "reflect"])
def test_shards(device, dim, windows, border):
    image, window = make_image((2, 3, 90, 80)).to(device), make_window((*windows, 33, 34))
    parts = torch_conv.split(image, [device] * (3 if dim != 0 else 2), dim=dim)
    call = {"border_type": border, "normalized": True}
    got = filter2d(parts, window, **call, algorithm="fft").gather()
    expected = filter2d(image, window, **call, algorithm="direct")
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    large = torch.zeros(2, 3, 600, 500)
    assert "fft/overlap_save" in headline(large, window)
    plan = torch_conv.explain(filter2d, torch_conv.split(large, ["cpu"] * 3), window)  # each by what the whole takes
    assert not any("direct/" in line for line in plan.lines)


def test_tiles_bound_the_memory():
    window = torch.ones(200, 200)
    for shape in [(1, 1, 20000, 30000), (64, 64, 700, 900), (1, 1, 100, 4_000_000)]:
        image = torch.zeros(1).expand(shape)
        found = numbers(image, window)
        assert found["scratch"] <= (512 << 20) + 4 * found["tile_w"] * found["tile_h"]  # the window's spectrum
        assert found["images"] == shape[0] * shape[1] and found["batches"] >= 1


@pytest.mark.parametrize("k", [33, 47, 64, 100, 255, 513, 2000])
@pytest.mark.parametrize("size", [1, 31, 500, 1920, 4096, 10007])
def test_tiles_have_lengths_that_transform_fast(monkeypatch, k, size):
    for gpu in ("", H200):
        monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", gpu)
        found = numbers(torch.zeros(1).expand(1, 1, size, size), torch.zeros(1).expand(k, k))
        for length in (found["tile_w"], found["tile_h"]):
            while length % 2 == 0 and length > 15:
                length //= 2
            assert length in (8, 9, 10, 12, 14, 15)
            assert found["tile_w"] >= k and found["tile_h"] >= k
        down, across = (-(-size // (found[side] - k + 1)) for side in ("tile_h", "tile_w"))
        assert found["tiles"] == down * across


@pytest.mark.parametrize("gpu", ["", H200])
@pytest.mark.parametrize(
    ("size", "window", "taken"),
    [
        (4096, (200, 200), "both"),
        (4096, (63, 63), "both"),
        (1024, (127, 127), "both"),
        (4096, (31, 31), "both"),
        (4096, (23, 23), "cpu"),
        (1024, (23, 23), "cpu"),
        (1024, (15, 15), ""),
        (64, (23, 23), ""),
        (4096, (1, 2000), "cpu"),
        (4096, (2000, 1), "cpu"),
        (16, (33, 33), ""),
    ],
)
def test_when_auto_takes_it(monkeypatch, gpu, size, window, taken):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", gpu)
    image, window = torch.zeros(1).expand(1, 1, size, size), make_window(window)
    assert ("fft/" in headline(image, window)) == (taken == "both" or (taken == "cpu" and not gpu))
    assert "direct/" in headline(image, window, algorithm="direct")
    if gpu:
        monkeypatch.setenv("TORCH_CONV_VARIANT", "general")
        assert "direct/" in headline(image, window)


def test_products_are_ahead_of_it(monkeypatch):
    """Up to 31x31 in half precision, where tensor cores take the image."""
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H200)
    image = torch.zeros(1, dtype=torch.float16).expand(1, 1, 4096, 4096)
    taken = {31: "tensor_core/", 33: "fft/"}
    for k, words in taken.items():
        assert words in headline(image.contiguous(), make_window((k, k)))
        assert words in headline(image.contiguous()[..., 1:], make_window((k, k)))
    assert "fft/" in headline(image.contiguous()[..., ::2], make_window((31, 31)))


def test_auto_is_one_of_the_two(device):
    image, window = make_image((1, 1, 700, 700)).to(device), make_window((101, 101))
    assert "fft/" in headline(image, window)
    assert_same_bits(filter2d(image, window), filter2d(image, window, algorithm="fft"))


def test_refusals():
    with pytest.raises(ValueError) as caught:
        filter2d(torch.zeros(4, 5), torch.ones(3, 2), dilation=(20000, 1), algorithm="fft")
    assert str(caught.value) == (
        "filter2d: algorithm 'fft' cannot serve this call: the window spans 40001x2 pixels, more than 16384 along an "
        "axis"
    )
    with pytest.raises(ValueError) as caught:
        torch_conv.filter3d(torch.zeros(4, 5, 6), torch.ones(3, 3, 3), algorithm="fft")
    assert str(caught.value) == "filter3d: algorithm must be 'auto' or 'direct', got 'fft'"


def test_explain_says_what_it_takes(device):
    image, window = torch.zeros(2, 3, 500, 500, device=device), torch.ones(63, 63)
    lines = torch_conv.explain(filter2d, image, window, algorithm="fft").lines
    assert lines[0].startswith("filter2d: fft/overlap_save (expected ")
    for words in (" us, direct ", "tile ", "tiles ", "batches ", "launches ", "scratch ", "bytes 12000000, flops "):
        assert words in lines[0]
    assert lines[1].startswith("filter2d: fft/read") and lines[2].startswith("filter2d: fft/write")


def test_gradients(device):
    window = make_window((33, 35), torch.float64).requires_grad_()
    image = make_image((2, 3, 50, 60), torch.float64, device=device).requires_grad_()
    grad = make_image((2, 3, 50, 60), torch.float64, seed=9, device=device)
    of = [
        torch.autograd.grad(filter2d(image, window, algorithm=way), (image, window), grad) for way in ("fft", "direct")
    ]
    for got, expected in zip(*of, strict=True):
        torch.testing.assert_close(got, expected)


def test_compiled_scripted_and_mapped(device):
    image, window = make_image((2, 3, 90, 80)).to(device), make_window((33, 34))
    expected = filter2d(image, window, "circular", algorithm="fft")

    def call(image: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
        return filter2d(image, window, "circular", algorithm="fft")

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert_same_bits(compiled(image, window), expected)
    operator = torch.ops.torch_conv.filter2d
    scripted = torch.jit.trace(lambda x: operator(x, window, "circular", algorithm="fft"), image)
    assert_same_bits(scripted(image), expected)
    torch.testing.assert_close(torch.vmap(call, (0, None))(image, window), expected, rtol=1e-4, atol=1e-4)
    windows = make_window((2, 33, 34))
    mapped = torch.vmap(call)(image, windows.to(device))
    torch.testing.assert_close(mapped, torch.stack([call(*pair) for pair in zip(image, windows, strict=True)]))


def test_reference_agrees_on_a_large_image():
    image, window = make_image((1, 1, 300, 310)), make_window((40, 41))
    expected = reference.filter2d(image.double(), window.double(), "replicate")
    torch.testing.assert_close(
        filter2d(image, window, "replicate", algorithm="fft").double(), expected, rtol=1e-5, atol=1e-4
    )
