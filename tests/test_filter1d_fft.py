"""filter1d by FFT along one dimension: errors, NaN, equal bits, and the choice of 'auto'."""

import math
import re
from functools import partial

import fft_cases
import pytest
import torch
from fft_cases import H200, assert_like_direct, assert_same_by_threads, largest_of
from oracle import exact
from strategies import BORDERS, make_image, make_window
from tolerance import assert_same_bits

from torch_conv import filter1d

headline, numbers = partial(fft_cases.headline, filter1d), partial(fft_cases.numbers, filter1d)
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

    On the CPU, whose tiles are single rows. On CUDA the neighbourhood has two dimensions: test_filter2d_fft_values.py.
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
def test_when_auto_takes_it(monkeypatch, shape, gpu):
    """On the CPU from some hundred taps on; never on CUDA, where no FFT along one dimension was measured."""
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", gpu)
    signal = torch.zeros(1).expand(shape)
    for dim in (-1, -2) if len(shape) > 1 and shape[-2] > 1000 else (-1,):
        takes = {k: "fft/" in headline(signal, make_window((k,)), dim=dim) for k in (31, 225, 2001, 10001, 100001)}
        assert takes == {k: not gpu and k > 225 for k in takes}


def test_work_grows_with_the_logarithm_of_the_window():
    """10001 taps take hardly more additions than 1001 do."""

    def flops(k):
        return float(re.search(r"flops (\d+)", headline(torch.zeros(1).expand(8, 65536), make_window((k,)))).group(1))

    assert flops(10001) < 2 * flops(1001)


def test_tiles_are_single_rows():
    for dim in (-1, -2):
        plan = numbers(torch.zeros(1).expand(3, 2000, 2000), make_window((500,)), dim=dim)
        assert plan["tile_h"] == 1 and plan["tiles"] == 2000 * -(-2000 // (plan["tile_w"] - 499))


def test_refuses_windows_that_span_too_much():
    with pytest.raises(ValueError, match=r"the window spans 1x2000001 pixels, more than 1048576 along an axis"):
        filter1d(torch.zeros(50), torch.ones(3), dilation=1_000_000, algorithm="fft")
