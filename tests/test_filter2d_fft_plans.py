"""filter2d by FFT: tiles, the choice of 'auto', and the words of explain."""

import re
from functools import partial
from pathlib import Path

import fft_cases
import pytest
import torch
from fft_cases import H200
from refusals import refuses
from strategies import make_image, make_window
from tolerance import assert_same_bits

import torch_conv
from torch_conv import filter2d

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
