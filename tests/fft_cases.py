"""Helpers of the tests of filters by FFT: plans, the documented bound, and results that are not finite."""

import math
import re

import torch
from tolerance import assert_same_bits

import torch_conv

H200 = "9.0 132 232448 4.8e12"


def headline(function, image, window, **options):
    return torch_conv.explain(function, image, window, **options).lines[0]


def numbers(function, image, window, **options):
    """The numbers of a plan by FFT."""
    line = headline(function, image, window, **{"algorithm": "fft"} | options)
    names = ("tile_w", "tile_h", "tiles", "images", "batches", "launches", "scratch")
    found = re.search(
        r"tile (\d+)x(\d+), tiles (\d+), images (\d+), batches (\d+); launches (\d+) .*scratch (\d+) B", line
    )
    return dict(zip(names, map(int, found.groups()), strict=True))


def bound(function, image, window, largest, **options):
    """The bound of docs/algorithms.md, for sums whose pixels are at most `largest`."""
    plan = numbers(function, image, window, **options)
    n = plan["tile_w"] * plan["tile_h"]
    unit = 2.0**-52 if image.dtype == torch.float64 else 2.0**-23
    norm = window.double().flatten(-2 if function is torch_conv.filter2d else -1).norm(dim=-1).max().item()
    return unit * math.log2(n) * math.sqrt(n) * largest * norm


def largest_of(image, **options):
    """The pixels and the values outside."""
    return max(image.double().abs().max().item(), abs(options.get("value", 0.0)))


def assert_like_direct(got, direct):
    """NaN and infinity where direct sums have them, and about the same numbers elsewhere."""
    assert direct.isfinite().any() and not direct.isfinite().all()
    assert torch.equal(got.isnan(), direct.isnan())
    assert torch.equal(got.isinf(), direct.isinf())
    assert torch.equal(got[direct.isinf()], direct[direct.isinf()])
    tolerance = 0.05 if got.dtype == torch.float16 else 1e-3
    torch.testing.assert_close(got, direct, rtol=tolerance, atol=tolerance, equal_nan=True)


def assert_same_by_threads(call, expected, counts):
    """The boundaries between the threads' shares must not change bits."""
    threads = torch.get_num_threads()
    try:
        for count in counts:
            torch.set_num_threads(count)
            assert_same_bits(call(), expected)
    finally:
        torch.set_num_threads(threads)
