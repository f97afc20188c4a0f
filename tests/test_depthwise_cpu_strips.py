"""Strips and pairs of taps on the CPU: the bits of one plain chain, whatever the numbers."""

from functools import partial

import pytest
import torch
from depthwise_cpu_cases import PAIRS, VARIANTS, case, chain, conv, instructions, served
from strategies import lay_out, make_image, make_window
from tolerance import assert_same_bits

import torch_conv

WINDOWS = {  # and steps, which have a loop of their own
    "strips": [(3, 1), (3, 2), (5, 1)],
    "plane_pairs": [(3, 1), (3, 2), (5, 1), (5, 2), (7, 1)],
    "channel_pairs": [(3, 1), (5, 1), (7, 1)],
    "block_pairs": [(3, 1), (5, 1), (7, 1)],
}


def agree(got, expected):
    """Both tensors have equal bits, and NaN at equal positions."""
    assert torch.equal(got.isnan(), expected.isnan())
    assert_same_bits(got.nan_to_num(3.0), expected.nan_to_num(3.0))


@pytest.mark.parametrize("variant", ["strips", *PAIRS])
@pytest.mark.parametrize("k", [3, 5, 7])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [(1, 1), (2, 3), (5, 31), (9, 32), (6, 33), (13, 64), (58, 70), (3, 530)])
def test_strips_and_pairs(size, stride, k, variant, pinned):
    """Maps below the window, rows that end within a register, tiles that end within four rows, rows of two tasks."""
    dtype = torch.float32 if variant == "strips" else torch.bfloat16
    image, weight, bias = case(dtype, 35, *size, k, k, n=1)
    for layout in ("offset", "padded_rows", VARIANTS[variant]):
        for pad in ((k // 2, k // 2), (0, k + 1)):
            if any(side + 2 * p < k for side, p in zip(size, pad, strict=True)):
                continue
            given, options = lay_out(image, layout), {"stride": (stride, stride), "padding": pad}
            got = pinned(variant, lambda given=given, options=options: conv(given, weight, bias, **options))
            innermost = given.stride(1) == 1 and variant == "channel_pairs"
            if not instructions(variant) or (k, stride) not in WINDOWS[variant]:
                assert got is None
            elif innermost or (variant != "channel_pairs" and given.stride(3) == 1):
                assert torch.equal(got, chain(image, weight, bias, **options))


def with_exponents(shape, least, most, zeros=0.2):
    """Numbers of both signs whose exponents are spread over least ... most, and some zeros."""
    numbers = make_image(shape)
    sizes = torch.exp2(torch.randint(least, most + 1, shape, generator=torch.Generator().manual_seed(5)).float())
    mantissa = 1 + (numbers * 977 % 1).abs()
    kept = (numbers * 311 % 1).abs() >= zeros
    return (numbers.sign() * mantissa * sizes * kept).bfloat16()


@pytest.mark.parametrize("variant", PAIRS)
@pytest.mark.parametrize("k", [3, 5])
@pytest.mark.parametrize("zeros", [0.2, 0.9])
@pytest.mark.parametrize(
    ("pixels", "taps"),
    [
        ((-20, 3), (-9, 0)),
        ((-56, 3), (-56, 0)),  # the least product's last place is the least normal number
        ((-57, -56), (-56, -56)),
        ((-63, -62), (-58, -57)),  # sums below it are differences
        ((-60, -30), (-67, -60)),
        ((-126, -110), (-15, 2)),
        ((-133, -127), (20, 90)),
        ((90, 127), (20, 30)),  # infinite sums
        ((60, 62), (64, 67)),
        ((-126, 127), (-126, 126)),
    ],
)
def test_pairs_of_any_size(pixels, taps, zeros, k, variant, pinned):
    """Sums end below the least normal number or above the largest one.

    The instruction of pairs takes subnormal numbers for zeros, so tasks leave it near there.
    """
    image, weight = with_exponents((2, 40, 9, 34), *pixels), with_exponents((40, 1, k, k), *taps, zeros)
    options = {"padding": (k // 2, k // 2)}
    image[1, :, 2:] = 0  # windows that see no more than the bias
    for bias in (None, with_exponents((40,), -133, -110), with_exponents((40,), -3, 3)):
        expected = chain(image, weight, bias, **options)
        given = lay_out(image, VARIANTS[variant])
        got = served(pinned, variant, lambda given=given, bias=bias: conv(given, weight, bias, **options))
        agree(got, expected)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize(
    ("width", "k", "stride", "pad", "at"),
    [(530, 5, 1, 2, 267), (530, 3, 1, 1, 266), (34, 3, 2, 0, 33), (36, 5, 2, 0, 35)],
)
def test_pixels_that_no_window_of_a_task_sees(width, k, stride, pad, at, value):
    """The other half of a task's last pair: the next task's first pixel, and one behind the last window."""
    image, weight, bias = case(torch.bfloat16, 3, 9, width, k, k)
    image[..., at] = value
    got = conv(image, weight, bias, padding=(pad, pad), stride=(stride, stride))
    expected = chain(image, weight, bias, padding=(pad, pad), stride=(stride, stride))
    agree(got, expected)


@pytest.mark.parametrize("variant", PAIRS)
@pytest.mark.parametrize("k", [3, 5])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_pairs_beside_what_is_not_finite(value, k, variant, pinned):
    """A pair's other pixel has a tap of zero where a window begins or ends within the pair."""
    for where in ("pixels", "taps", "bias"):
        image, weight, bias = case(torch.bfloat16, 40, 9, 34, k, k)
        {"pixels": image[1, 3, 4], "taps": weight[3, 0, 2], "bias": bias}[where][2] = value
        expected = chain(image, weight, bias, padding=(k // 2, k // 2))
        given = lay_out(image, VARIANTS[variant])
        run = partial(conv, given, weight, bias, padding=(k // 2, k // 2))
        got = served(pinned, variant, run)
        agree(got, expected)


@pytest.mark.parametrize("variant", PAIRS)
@pytest.mark.parametrize("window", [(3, 3), (5, 5), (7, 7), (5, 3), (2, 5), (1, 7)])
@pytest.mark.parametrize(
    "options",
    [
        {"padding": (0, 0)},
        {"padding": (9, 11)},
        {"padding": (60, 2)},  # tasks whose windows see no row of the image
        {"padding": (2, 1), "dilation": (2, 1)},
        {"padding": (7, 0), "dilation": (5, 1)},
    ],
    ids=str,
)
def test_pairs_wherever_windows_lie(options, window, variant, pinned):
    """Rows apart, windows that are not square, outputs that see nothing but zeros."""
    image, weight, bias = case(torch.bfloat16, 40, 20, 34, *window, n=1)
    given = lay_out(image, VARIANTS[variant])
    got = pinned(variant, lambda: conv(given, weight, bias, **options))
    serves = variant != "plane_pairs" or (window[0] == window[1] and "dilation" not in options)
    assert (got is not None) == (serves and instructions(variant))
    if got is not None:
        assert_same_bits(got, chain(image, weight, bias, **options))


@pytest.mark.parametrize("variant", ["plane_pairs", "block_pairs"])
@pytest.mark.parametrize("k", [3, 5])
def test_pairs_of_expanded_images_and_of_several_outputs(k, variant, pinned):
    """One channel for all, one sample for all, a window that is a view; two outputs of each channel."""
    weight = make_window((k, k, 1, 40), torch.bfloat16).permute(3, 2, 1, 0)
    bias = make_window((80,), torch.bfloat16)[::2]
    channel = make_image((2, 1, 11, 17), torch.bfloat16).expand(2, 40, 11, 17)
    sample = make_image((1, 40, 11, 17), torch.bfloat16).expand(3, 40, 11, 17)
    twenty = make_image((2, 20, 11, 17), torch.bfloat16)
    both = ["plane_pairs", "block_pairs"]
    for image, variants in ((channel, both), (sample, both), (twenty, ["plane_pairs"])):
        run = partial(conv, image, weight, bias, padding=(k // 2, k // 2))
        got = pinned(variant, run)
        assert (got is not None) == (variant in variants and instructions(variant))
        if got is not None:
            assert_same_bits(got, chain(image, weight, bias, padding=(k // 2, k // 2)))


def variant_of(image, weight, **options):
    run = torch_conv.conv1d if weight.dim() == 3 else torch_conv.conv2d
    line = torch_conv.explain(run, image, weight, groups=image.shape[1], algorithm="direct", **options).lines[0]
    return line.split(" (")[0].split("/")[1]


@pytest.mark.skipif(not instructions("block_pairs"), reason="no AVX512-BF16")
@pytest.mark.parametrize(
    "k, width, channels, layout, expected",
    [
        (3, 56, 64, "contiguous", "plane_pairs"),
        (3, 14, 64, "contiguous", "block_pairs"),
        (3, 14, 16, "contiguous", "blocks"),  # half of a register of pairs
        (3, 14, 4, "contiguous", "plane_pairs"),
        (5, 20, 64, "contiguous", "block_pairs"),
        (5, 20, 16, "contiguous", "plane_pairs"),
        (5, 18, 16, "contiguous", "blocks"),
        (7, 24, 64, "contiguous", "block_pairs"),
        (7, 24, 16, "contiguous", "plane_pairs"),
        (9, 24, 64, "contiguous", "planes"),
        (3, 56, 64, "channels_last", "channels"),
        (3, 240, 96, "channels_last", "channel_pairs"),  # a large map: in halves of words
        (3, 240, 64, "channels_last", "channels"),
        (5, 56, 64, "channels_last", "channel_pairs"),
        (5, 56, 16, "channels_last", "channels"),
    ],
)
def test_plans_of_maps(k, width, channels, layout, expected):
    image = lay_out(torch.ones(1, channels, 9, width, dtype=torch.bfloat16), layout)
    weight = torch.ones(channels, 1, k, k, dtype=torch.bfloat16)
    assert variant_of(image, weight, padding=k // 2) == expected


@pytest.mark.skipif(not instructions("block_pairs"), reason="no AVX512-BF16")
def test_plans_of_rows_and_of_signals():
    """Turning costs as much as a tap or two: signals and wide rows of few taps are not transposed."""
    weight = torch.ones(64, 1, 3, 3, dtype=torch.bfloat16)
    for width, expected in ((40, "block_pairs"), (100, "planes")):  # rows apart are no strips
        image = torch.ones(1, 64, 9, width, dtype=torch.bfloat16)
        assert variant_of(image, weight, padding=(2, 1), dilation=(2, 1)) == expected
    signal = torch.ones(1, 64, 50, dtype=torch.bfloat16)
    inner = torch.ones(1, 50, 64, dtype=torch.bfloat16).transpose(1, 2)
    for k, expected in ((3, "channels"), (4, "channels"), (5, "channel_pairs")):
        weight = torch.ones(64, 1, k, dtype=torch.bfloat16)
        assert variant_of(signal, weight) == "planes"
        assert variant_of(inner, weight) == expected
