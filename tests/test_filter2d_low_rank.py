"""Windows of rank 1 to 4 as separable passes: found by their values, as exact as the dtype, never stale."""

import re
from functools import partial

import pytest
import torch
from oracle import exact
from refusals import refuses
from strategies import BORDERS, DTYPES, make_image, make_window
from tolerance import INTEGER_RANGE, ROUNDING, UNIT, assert_same_bits

import torch_conv
from torch_conv import filter2d, kernels

H200 = "9.0 132 232448 4.8e12"


def of_rank(rank, *shape, dtype=torch.float64):
    """Terms of about the same size."""
    *lead, kh, kw = shape
    y, x = make_window((*lead, kh, rank), torch.float64), make_window((*lead, rank, kw), torch.float64, seed=8)
    return (y @ x).to(dtype)


def plan(image, window, **options):
    return str(torch_conv.explain(filter2d, image, window, **options))


def check(image, window, *, device="cpu", terms=8.0, **options):
    """`terms`: magnitudes of all terms over the window's, and the bound of the remainder."""
    got = filter2d(image.to(device), window, **options, algorithm="low_rank").cpu()
    expected = exact(
        "filter2d", image, window.to(got.dtype if got.dtype == torch.float64 else torch.float32), **options
    )
    if got.dtype in INTEGER_RANGE:
        expected = expected.clamp(*INTEGER_RANGE[got.dtype])
    largest = max(image.double().abs().max().item(), abs(options.get("value", 0.0)))
    scale = window.double().abs().sum(dim=(-2, -1)).max().item()
    if options.get("normalized"):
        scale = 1.0
    steps = sum(window.shape[-2:]) + 8
    allowed = terms * steps * UNIT[image.dtype] * scale * largest
    last = ROUNDING[got.dtype]
    allowed = allowed + torch.clamp((expected.abs() + allowed) * last.relative, min=last.absolute)
    assert ((got.double() - expected).abs() <= allowed).all()
    return got


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"value": -2.5, "padding": "valid"},
        {"anchor": (0, -1), "behaviour": "conv"},
        {"stride": (2, 3), "dilation": (1, 2)},
    ],
    ids=str,
)
def test_every_option(device, rank, border, options):
    window = of_rank(rank, 9, 12)
    check(make_image((2, 37, 51)), window, device=device, border_type=border, **options)
    if border != "skip" or rank == 1:
        check(make_image((2, 37, 51)), window, device=device, border_type=border, normalized=True, **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("windows", [(), (2,), (1, 3), (2, 3)])
def test_every_dtype_and_set_of_windows(device, dtype, windows):
    image = make_image((2, 3, 40, 33), dtype)
    for layout in (torch.contiguous_format, torch.channels_last):
        given = image.contiguous(memory_format=layout)
        got = check(given, of_rank(2, *windows, 11, 12) / 50, device=device, border_type="symmetric")
        assert got.is_contiguous(memory_format=layout)
    if windows:  # windows of several ranks
        mixed = of_rank(3, *windows, 11, 12) / 50
        mixed.view(-1, 11, 12)[0] = of_rank(1, 11, 12) / 50
        check(image, mixed, device=device)


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_finds_the_rank(rank, dtype):
    """Taps that were rounded to the dtype are of full rank only by their roundings."""
    image = make_image((1, 64, 64), dtype)
    assert f"is of rank {rank})" in plan(image, of_rank(rank, 31, 31, dtype=dtype), algorithm="low_rank")
    for more in (of_rank(5, 31, 31, dtype=dtype), make_window((31, 31), dtype)):
        with pytest.raises(ValueError) as caught:
            filter2d(image, more, algorithm="low_rank")
        assert str(caught.value) == (
            "filter2d: algorithm 'low_rank' cannot serve this call: the window is not of rank 1 to 4"
        )


def test_a_remainder_above_rounding_is_none():
    window = of_rank(2, 31, 31, dtype=torch.float32)
    window += 1e-5 * make_window((31, 31), seed=3)
    assert "low_rank" not in plan(make_image((1, 256, 256)), window)


def test_impulses_return_the_taps(device):
    """Also of a window whose taps differ a millionfold."""
    image = torch.zeros(61, 61, device=device)
    image[30, 30] = 1
    window = kernels.gaussian2d((31, 31), (3.0, 4.0))
    got = filter2d(image, window, behaviour="conv", padding="valid", algorithm="low_rank").cpu()
    torch.testing.assert_close(got, window, rtol=1e-5, atol=2**-21 * window.max().item())


def test_windows_people_have():
    image = torch.zeros(1, 1, 512, 512)
    gauss = kernels.gaussian2d((31, 31), (4.0, 4.0))
    difference = gauss - kernels.gaussian2d((31, 31), (6.4, 6.4))
    for window, rank in ((gauss, 1), (difference, 2), (torch.ones(31, 31), 1)):
        assert f"is of rank {rank})" in plan(image, window)


@pytest.mark.parametrize("gpu", ["", H200])
def test_when_auto_takes_it(monkeypatch, gpu):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", gpu)
    image = torch.zeros(1).expand(1, 1, 2048, 2048)
    assert "low_rank/" in plan(image, of_rank(1, 15, 15))
    assert "low_rank/" in plan(image, of_rank(2, 31, 31))
    assert "low_rank/" in plan(image, of_rank(2, 63, 63))  # not by FFT
    assert "fft/" in plan(image, of_rank(2, 901, 901))
    assert "low_rank/" not in plan(image, of_rank(1, 7, 7))
    assert "low_rank/" not in plan(image, of_rank(1, 7, 11))  # 77 taps
    assert "low_rank/" not in plan(image, of_rank(1, 1, 201))
    assert "low_rank/" not in plan(torch.zeros(1, 32, 32), of_rank(1, 31, 31))
    assert "low_rank/" not in plan(image, of_rank(2, 31, 31), border_type="skip", normalized=True)
    assert "low_rank/" in plan(image, of_rank(1, 31, 31), border_type="skip", normalized=True)
    assert "low_rank/" not in plan(image, of_rank(1, 31, 31), algorithm="direct")
    monkeypatch.setenv("TORCH_CONV_VARIANT", "general" if gpu else "")
    assert ("low_rank/" in plan(image, of_rank(1, 31, 31))) == (not gpu)


def test_repeated_calls_see_other_taps(device):
    """A launch graph that was recorded for one window is not another's of its shape."""
    image = make_image((1, 100, 120)).to(device)
    full, one, other, two = (
        make_window((15, 15)),
        of_rank(1, 15, 15, dtype=torch.float32),
        of_rank(1, 15, 15, dtype=torch.float32).flip(0).contiguous(),
        of_rank(2, 15, 15, dtype=torch.float32),
    )
    fresh = [exact("filter2d", image.cpu(), window) for window in (full, one, other, two)]
    for algorithm in ("auto", "direct"):
        for _ in range(3):
            for window, expected in zip((full, one, other, two), fresh, strict=True):
                for _ in range(2):
                    got = filter2d(image, window, algorithm=algorithm).cpu().double()
                    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    taps = one.clone()  # the same memory with other values
    first = filter2d(image, taps)
    taps.copy_(other)
    assert_same_bits(filter2d(image, taps), filter2d(image, other))
    taps.copy_(full)
    assert_same_bits(filter2d(image, taps), filter2d(image, full, algorithm="direct"))
    taps.copy_(one)
    assert_same_bits(filter2d(image, taps), first)


def test_repeats_its_steps():
    image, window = make_image((1, 100, 120)), of_rank(2, 15, 15, dtype=torch.float32)
    expected = filter2d(image, window)
    before = torch.ops.torch_conv._repeated_calls()
    for _ in range(3):
        assert_same_bits(filter2d(image, window), expected)
    assert torch.ops.torch_conv._repeated_calls() == before + 3


def test_repeats_its_steps_with_another_window():
    image, windows = make_image((1, 90, 130)), [of_rank(r, 15, 15, dtype=torch.float32) for r in (1, 2, 6)]
    memory = torch.empty(3, 256)  # of one alignment, which is part of a call's signature
    windows = [m[:225].view(15, 15).copy_(w) for m, w in zip(memory, windows, strict=True)]
    expected = [filter2d(image, window, algorithm="auto") for window in windows]
    before = torch.ops.torch_conv._repeated_calls()
    for _ in range(3):
        for window, result in zip(windows, expected, strict=True):
            assert_same_bits(filter2d(image, window), result)
    assert torch.ops.torch_conv._repeated_calls() == before + 9


def test_a_call_that_cannot_be_repeated_leaves_others_their_steps():
    image, memory = make_image((1, 700, 700)), torch.empty(2, 2048)
    product, dense = (m[:1089].view(33, 33) for m in memory)
    product.copy_(of_rank(1, 33, 33, dtype=torch.float32))
    dense.copy_(make_window((33, 33)))
    expected = filter2d(image, product)
    assert "fft/" in str(torch_conv.explain(filter2d, image, dense))
    filter2d(image, dense)
    before = torch.ops.torch_conv._repeated_calls()
    assert_same_bits(filter2d(image, product), expected)
    assert torch.ops.torch_conv._repeated_calls() == before + 1


def test_same_bits_wherever_a_pixel_lies(device):
    image, window = make_image((2, 3, 150, 160)).to(device), of_rank(3, 15, 16, dtype=torch.float32)
    got = filter2d(image, window, padding="valid", algorithm="low_rank")
    part = filter2d(image[1:, :, 20:90, 33:120], window, padding="valid", algorithm="low_rank")
    assert_same_bits(part, got[1:, :, 20 : 20 + part.shape[-2], 33 : 33 + part.shape[-1]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.float64])
@pytest.mark.parametrize("width", [64, 62, 61])
def test_same_bits_wherever_results_go(device, width, dtype):
    """Sums are added up by vectors of pixels where all rows start on one, else one by one."""
    image, window = make_image((2, 3, 40, width), dtype).to(device), of_rank(3, 9, 10) / 50
    expected = filter2d(image, window, algorithm="low_rank")
    inner = filter2d(image.contiguous(memory_format=torch.channels_last), window, algorithm="low_rank")
    assert_same_bits(inner, expected)
    for start in (0, 4, 5):
        wide = torch.zeros((2, 3, 48, width + 16), dtype=dtype, device=device)
        out = wide[:, :, 3:43, start : start + width]
        filter2d(image, window, algorithm="low_rank", out=out)
        assert_same_bits(out, expected)
        out.zero_()
        assert not wide.any()


@pytest.mark.parametrize("dim", [-1, -2, 0, 1])
@pytest.mark.parametrize("shape", [(15, 16), (15, 15), (2, 3, 15, 16)])
def test_shards(device, dim, shape):
    image, window = make_image((2, 3, 90, 80)).to(device), of_rank(2, *shape, dtype=torch.float32)
    parts = torch_conv.split(image, [device] * (3 if dim != 0 else 2), dim=dim)
    for border in ("circular", "skip", "reflect"):
        got = filter2d(parts, window, border, algorithm="low_rank")
        assert_same_bits(got.gather(), filter2d(image, window, border, algorithm="low_rank"))


def test_parts_follow_their_whole(device):
    """Shards of one shape, of an image that is large enough to look at the window and of one that is not."""
    window = of_rank(1, 15, 16, dtype=torch.float32)
    large, small = make_image((1, 90, 80)).to(device), make_image((1, 50, 80)).to(device)
    for _ in range(3):
        parts = torch_conv.split(large, [device] * 3, dim=-2)
        assert_same_bits(filter2d(parts, window).gather(), filter2d(large, window, algorithm="low_rank"))
        parts = torch_conv.split(small, [device] * 2, dim=-2, sizes=[30, 20])
        assert_same_bits(filter2d(parts, window).gather(), filter2d(small, window, algorithm="direct"))


def test_nan_stays_in_its_windows(device):
    image, window = make_image((1, 80, 90)), of_rank(2, 15, 16, dtype=torch.float32)
    image[0, 30, 40], image[0, 0, 89] = float("nan"), float("inf")
    got = filter2d(image.to(device), window, algorithm="low_rank")
    direct = filter2d(image.to(device), window, algorithm="direct")
    assert torch.equal(got.isfinite(), direct.isfinite())


@pytest.mark.parametrize(
    ("window", "options", "why"),
    [
        (torch.ones(1, 9), {}, "the window has one row or one column"),
        (torch.full((9, 9), float("inf")), {}, "the window is not of rank 1 to 4"),
        (
            of_rank(2, 9, 9),
            {"border_type": "skip", "normalized": True},
            "border_type 'skip' with normalized needs a window of rank 1",
        ),
    ],
)
def test_refusals(window, options, why):
    with refuses(ValueError, f"filter2d: algorithm 'low_rank' cannot serve this call: {why}"):
        filter2d(torch.zeros(40, 50), window, algorithm="low_rank", **options)


@pytest.mark.cuda
def test_windows_on_the_gpu_are_not_looked_at(cuda):
    image, window = torch.zeros(1, 512, 512, device=cuda), torch.ones(31, 31, device=cuda)
    assert "low_rank" not in plan(image, window)
    with pytest.raises(ValueError) as caught:
        filter2d(image, window, algorithm="low_rank")
    assert str(caught.value) == (
        "filter2d: algorithm 'low_rank' cannot serve this call: the window lies on the GPU, where its values are not "
        "looked at; see torch_conv.kernels.prepare"
    )


@pytest.mark.parametrize(
    ("gpu", "rank", "shape", "options", "families"),
    [
        ("", 2, (15, 15), {}, ["fused"]),
        ("", 3, (31, 15), {"padding": "valid"}, ["fused"]),
        ("", 2, (15, 16), {}, ["separable", "separable", "combine"]),
        ("", 2, (15, 15), {"stride": 2}, ["separable", "separable", "combine"]),
        ("", 2, (15, 15), {"anchor": (0, 0)}, ["separable", "separable", "combine"]),
        ("", 4, (15, 15), {}, ["separable"] * 4 + ["combine"] * 2),
        (H200, 2, (15, 15), {}, ["fused"]),
        (H200, 2, (31, 31), {}, ["separable", "separable", "combine"]),
        (H200, 3, (15, 15), {}, ["separable"] * 3 + ["combine"]),
    ],
)
def test_explain_says_what_it_takes(monkeypatch, gpu, rank, shape, options, families):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", gpu)
    lines = plan(torch.zeros(1, 3, 200, 200), of_rank(rank, *shape), algorithm="low_rank", **options).splitlines()
    assert lines[0].startswith(f"filter2d: low_rank/passes (the window is of rank {rank})")
    assert [re.match(r"filter2d: (\w+)/", line)[1] for line in lines] == ["low_rank", *families]


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.float64])
def test_same_bits_in_one_launch_and_in_several(device, rank, border, dtype):
    """With a stride terms are made one by one."""
    image, window = make_image((2, 3, 60, 64), dtype).to(device), of_rank(rank, 15, 15) / 100
    call = partial(filter2d, kernel=window, border_type=border, algorithm="low_rank", output_dtype=torch.float32)
    one, several = call(image), call(image, stride=(1, 2))
    assert_same_bits(one[..., ::2].contiguous(), several)
    assert_same_bits(call(image, padding="valid"), call(image, border_type="zero_output")[..., 7:-7, 7:-7].contiguous())


@pytest.mark.parametrize(
    ("shape", "variant"), [((4096, 4096), "vectors"), ((3, 90, 101), "pixels"), ((4, 90, 101), "vectors")]
)
def test_sums_by_the_vector(monkeypatch, shape, variant):
    """Dense images of any width are one row."""
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H200)
    *_, last = plan(torch.zeros(1).expand(1, *shape), of_rank(2, 9, 10), algorithm="low_rank").splitlines()
    assert last.startswith(f"filter2d: combine/{variant} (")


def test_out_gradients_compiled_scripted_and_mapped(device):
    image, window = make_image((2, 3, 90, 80)).to(device), of_rank(2, 15, 16, dtype=torch.float32)
    expected = filter2d(image, window, "circular", algorithm="low_rank")
    out = torch.empty_like(expected)
    assert_same_bits(filter2d(image, window, "circular", algorithm="low_rank", out=out), expected)

    def call(image: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
        return filter2d(image, window, "circular", algorithm="low_rank")

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert_same_bits(compiled(image, window), expected)
    assert_same_bits(torch.vmap(call, (0, None))(image, window), expected)
    wide, taps = image.double().requires_grad_(), of_rank(2, 15, 16).requires_grad_()
    of = [
        torch.autograd.grad(filter2d(wide, taps, algorithm=way).square().sum(), (wide, taps))
        for way in ("low_rank", "direct")
    ]
    for got, wanted in zip(*of, strict=True):
        torch.testing.assert_close(got, wanted)
