"""FFT: tiles, the choice of 'auto' and the words of explain for filter2d; errors, NaN and bits of filter1d."""

import math
import re
from functools import partial
from pathlib import Path

import fft_cases
import pytest
import torch
from fft_cases import H200, assert_like_direct, assert_same_by_threads, largest_of
from oracle import exact
from refusals import refuses
from strategies import BORDERS, make_image, make_window
from tolerance import assert_same_bits

import torch_conv
from torch_conv import filter1d, filter2d

headline, numbers = partial(fft_cases.headline, filter2d), partial(fft_cases.numbers, filter2d)


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
    with refuses(ValueError, "filter3d: algorithm must be 'auto' or 'direct', got 'fft'"):
        torch_conv.filter3d(torch.zeros(4, 5, 6), torch.ones(3, 3, 3), algorithm="fft")


def test_explain_says_what_it_takes(device):
    image, window = torch.zeros(2, 3, 500, 500, device=device), torch.ones(63, 63)
    lines = torch_conv.explain(filter2d, image, window, algorithm="fft").lines
    assert lines[0].startswith("filter2d: fft/overlap_save (expected ")
    for words in (" us, direct ", "tile ", "tiles ", "batches ", "launches ", "scratch ", "bytes 12000000, flops "):
        assert words in lines[0]
    assert lines[1].startswith("filter2d: fft/read") and lines[2].startswith("filter2d: fft/write")


def test_kernels_are_built_ahead():
    """Without a compiler a filter by FFT needs all of them, and has no other kernel to fall back to."""
    csrc = Path(__file__).parent.parent / "csrc"
    family = csrc / "kernels" / "overlap_save"
    if not csrc.exists():
        pytest.skip("an installed package has no sources")
    of_plan = re.findall(
        r'kernel_of\(\s*"(kernels/overlap_save/\S+)", "(\S+)",\s*\{(.*?)\}\)', (family / "plan.h").read_text()
    )
    assert len(of_plan) == len(list(family.glob("kernel_*.cuh"))) == 4
    lines = [line.split() for line in (csrc / "ahead.txt").read_text().splitlines()]
    for file, name, arguments in of_plan:
        dtypes = "<{float,half_t,bhalf_t,double,uint8_t,int16_t,uint16_t}>" if arguments else ""
        assert [file, name + dtypes] in lines, name


def test_parts_have_the_launches_of_the_whole(monkeypatch):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H200)
    lines = torch_conv.explain(filter2d, torch.empty(1, 1, 900, 900), torch.ones(63, 63), algorithm="fft").lines
    whole, *parts = (int(re.search(r"launches (\d+)", line)[1]) for line in lines)
    transforms_and_products, zeros, windows = 3, 1, 2
    assert "batches 1;" in lines[0]
    assert whole == sum(parts) + transforms_and_products + zeros + windows


headline1d, numbers1d = partial(fft_cases.headline, filter1d), partial(fft_cases.numbers, filter1d)
bound = partial(fft_cases.bound, filter1d)


def check(signal, kernel, device, **options):
    got = filter1d(signal.to(device), kernel, algorithm="fft", **options).cpu()
    expected = exact("filter1d", signal, kernel, **options)
    assert got.shape == expected.shape
    allowed = bound(signal.to(device), kernel, largest_of(signal, **options), **options)
    assert ((got.double() - expected).abs() <= allowed + expected.abs() * torch.finfo(got.dtype).eps).all()
    return got


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("dim", [-1, -2])
@pytest.mark.parametrize(
    "options",
    [{}, {"value": -2.5}, {"anchor": 0}, {"stride": 3, "behaviour": "conv"}, {"dilation": 2, "stride": 2}],
    ids=str,
)
def test_every_option(device, border, padding, dim, options):
    signal = make_image((2, 3, 520, 5)).movedim(-2, dim)
    check(signal, make_window((240,)), device, border_type=border, padding=padding, dim=dim, **options)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("k", [300, 5000])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_windows_larger_than_the_signal(device, border, k, dim):
    check(make_image((7, 1, 40)), make_window((k,)), device, border_type=border, dim=dim)


@pytest.mark.parametrize("windows", [(2,), (1, 3), (2, 3)])
@pytest.mark.parametrize("dim", [-1, -2])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.uint8])
def test_a_window_for_each_sample_and_channel(device, windows, dim, dtype):
    signal = make_image((2, 3, 300, 290), dtype)
    kernel = make_window((*windows, 250)) / 20
    got = filter1d(signal.to(device), kernel, dim=dim, algorithm="fft", output_dtype=torch.float64).cpu()
    for n in range(2):
        for c in range(3):
            own = kernel.expand(2, *kernel.shape[1:])[n]
            own = own.expand(3, 250)[c] if own.dim() == 2 else own
            expected = exact("filter1d", signal[n, c], own, dim=dim, output_dtype=torch.float64)
            torch.testing.assert_close(got[n, c], expected, rtol=1e-4, atol=1e-4 * signal.double().abs().max().item())


@pytest.mark.parametrize("border", ["constant", "circular", "skip", "zero_output"])
@pytest.mark.parametrize("dim", [-1, -2])
@pytest.mark.parametrize("anchor", [None, 239])
def test_normalized(device, border, dim, anchor):
    signal, kernel = make_image((3, 400, 420)), make_window((240,)).abs() + 0.1
    call = {"border_type": border, "normalized": True, "dim": dim, "anchor": anchor}
    got = filter1d(signal.to(device), kernel, algorithm="fft", **call).cpu()
    torch.testing.assert_close(got, filter1d(signal, kernel, algorithm="direct", **call), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("border", ["constant", "reflect", "circular", "skip", "zero_output"])
@pytest.mark.parametrize("dim", [-1, -2])
def test_nan_and_infinity_stay_in_their_windows(device, dtype, border, dim):
    signal, kernel = make_image((2, 3, 700, 690), dtype), make_window((251,))
    kernel[6] = 0  # 0 * inf is NaN
    signal[0, 1, 20, 30], signal[1, 0, 699, 0], signal[1, 1, 0, 689] = math.nan, math.inf, -math.inf
    call = {"border_type": border, "dim": dim}
    direct, got = (filter1d(signal.to(device), kernel, algorithm=way, **call) for way in ("direct", "fft"))
    assert_like_direct(got, direct)


@pytest.mark.parametrize("dim", [-1, -2])
@pytest.mark.parametrize("k", [230, 1000, 6000])
@pytest.mark.parametrize("far", [3e3, 1e20])
def test_far_values_stay_in_their_neighbourhood(dim, k, far):
    """The documented bound holds with 512 times the largest pixel around the window.

    On the CPU, whose tiles are single rows. On CUDA the neighbourhood has two dimensions: test_filter2d_fft.py.
    """
    torch.manual_seed(5)
    signal, kernel = torch.rand(4, 70000) + 15, torch.rand(k) - 0.3
    signal[0, 500], signal[1, 40000:41000], signal[2, -2:] = far, far, -far
    radius = k // 2 + max(30, k // 2)
    around = torch.nn.functional.pad(signal.abs()[None], (radius, radius))
    around = torch.nn.functional.max_pool1d(around, 2 * radius + 1, 1)[0].double()
    given = signal if dim == -1 else signal.t().contiguous()
    got, expected = (filter1d(given, kernel, dim=dim, algorithm=way) for way in ("fft", "direct"))
    if dim == -2:
        got, expected = got.t(), expected.t()
    allowed = bound(given, kernel, 512 * around, dim=dim) + 2 * k * torch.finfo(torch.float32).eps * around
    assert ((got.double() - expected.double()).abs() <= allowed).all()


@pytest.mark.parametrize("dim", [-1, -2])
def test_nothing_negative_of_nothing_negative(device, dim):
    torch.manual_seed(2)
    signal = torch.rand(3, 900, 910).pow(8) * (torch.rand(3, 900, 910) > 0.999)
    got = filter1d(signal.to(device), torch.rand(300), dim=dim, algorithm="fft")
    assert (got >= 0).all() and got.any()


@pytest.mark.parametrize("dim", [-1, -2])
def test_valid_reads_nothing_outside(device, dim):
    signal, kernel = make_image((400, 410)).to(device), make_window((250,))
    call = {"padding": "valid", "dim": dim, "algorithm": "fft"}
    first = filter1d(signal, kernel, **call)
    for border in BORDERS:
        for value in (0.0, 1e6, math.inf, math.nan):
            assert_same_bits(filter1d(signal, kernel, border, value=value, **call), first)


@pytest.mark.parametrize("dim", [-1, -2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_same_bits_for_every_image_of_a_batch_and_any_threads(device, dim, dtype):
    signal, kernel = make_image((3, 901, 910), dtype).to(device), make_window((300,))
    batch = signal[[0, 1, 2, 0, 0, 1, 2], None]
    whole = filter1d(batch, kernel, dim=dim, algorithm="fft")
    for twin, of in ((3, 0), (4, 0), (5, 1), (6, 2)):
        assert_same_bits(whole[twin], whole[of])
    assert_same_by_threads(lambda: filter1d(batch, kernel, dim=dim, algorithm="fft"), whole, (1, 2, 3))


@pytest.mark.parametrize("shape", [(8, 65536), (1024, 1024), (1 << 20,)])
@pytest.mark.parametrize("gpu", ["", H200])
def test_when_auto_takes_filter1d(monkeypatch, shape, gpu):
    """On the CPU from some hundred taps on; never on CUDA, where no FFT along one dimension was measured."""
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", gpu)
    signal = torch.zeros(1).expand(shape)
    for dim in (-1, -2) if len(shape) > 1 and shape[-2] > 1000 else (-1,):
        takes = {k: "fft/" in headline1d(signal, make_window((k,)), dim=dim) for k in (31, 225, 2001, 10001, 100001)}
        assert takes == {k: not gpu and k > 225 for k in takes}


def test_work_grows_with_the_logarithm_of_the_window():
    """10001 taps take hardly more additions than 1001 do."""

    def flops(k):
        return float(re.search(r"flops (\d+)", headline1d(torch.zeros(1).expand(8, 65536), make_window((k,)))).group(1))

    assert flops(10001) < 2 * flops(1001)


def test_tiles_are_single_rows():
    for dim in (-1, -2):
        plan = numbers1d(torch.zeros(1).expand(3, 2000, 2000), make_window((500,)), dim=dim)
        assert plan["tile_h"] == 1 and plan["tiles"] == 2000 * -(-2000 // (plan["tile_w"] - 499))


def test_refuses_windows_that_span_too_much():
    with pytest.raises(ValueError, match=r"the window spans 1x2000001 pixels, more than 1048576 along an axis"):
        filter1d(torch.zeros(50), torch.ones(3), dilation=1_000_000, algorithm="fft")
