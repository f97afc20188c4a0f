"""Depthwise convolutions on the CPU: every layout, dtype, window and activation gives the bits of one plain chain."""

import pytest
import torch
import torch.nn.functional as F
from depthwise_cpu_cases import CURVES, EXACT_ACTIVATIONS, VARIANTS, case, chain, conv, ops, served
from strategies import FLOATS, lay_out, make_image, make_window
from tolerance import assert_same_bits

from torch_conv.dispatch.query import answer_text


def check(image, weight, bias=None, layout="contiguous", **options):
    given = lay_out(image, layout)
    got = conv(given, weight, bias, **options)
    assert_same_bits(got, chain(image, weight, bias, **options))
    assert_same_bits(given, image)
    return got


LAYOUTS = ["contiguous", "channels_last", "transposed", "every_other", "offset", "padded_rows"]
HALVES = [torch.float16, torch.bfloat16]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 7, 9])
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_windows(dtype, k, layout):
    check(*case(dtype, 19, 15, 33, k, k), layout=layout, padding=(k // 2, k // 2))


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("k", [3, 5, 7])
@pytest.mark.parametrize("side", [1, 2, 3, 4, 6, 7, 8, 14, 16, 23, 28, 56, 65])
def test_sizes(side, k, layout):
    """Maps smaller than the window, maps of whole tiles, and maps of whole tiles and some columns and rows."""
    check(*case(torch.float32, 9, side, max(1, side - 1), k, k, n=1), layout=layout, padding=(k // 2, k // 2))
    check(*case(torch.bfloat16, 9, max(1, side - 1), side, k, k, n=1), layout=layout, padding=(k // 2, k // 2))


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("channels", [2, 3, 7, 8, 15, 16, 17, 32, 40, 65, 72])
def test_channels(channels, layout):
    check(*case(torch.float32, channels, 9, 14, 3, 3), layout=layout, padding=(1, 1))
    check(*case(torch.float16, channels, 9, 14, 3, 3), layout=layout, padding=(1, 1))


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("stride", [(2, 2), (1, 2), (2, 1), (3, 3), (5, 4)])
@pytest.mark.parametrize("window", [(1, 1), (3, 3), (5, 5), (7, 7), (4, 2), (1, 3)])
def test_strides(window, stride, layout):
    padding = (window[0] // 2, window[1] // 2)
    check(*case(torch.float32, 17, 29, 57, *window), layout=layout, stride=stride, padding=padding)
    for half in (torch.bfloat16, torch.float16):
        check(*case(half, 17, 14, 14, *window), layout=layout, stride=stride, padding=padding)
        check(*case(half, 3, 9, 71, *window), layout=layout, stride=stride, padding=padding)  # several registers


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2)])
@pytest.mark.parametrize("dilation", [(2, 2), (1, 3), (3, 1), (7, 9)])
def test_dilations(dilation, stride, layout):
    check(*case(torch.float32, 9, 21, 26, 3, 3), layout=layout, dilation=dilation, stride=stride, padding=dilation)


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("padding", [(0, 0), (1, 0), (2, 1), (3, 4), (9, 11)])
@pytest.mark.parametrize("window", [(3, 3), (5, 5), (4, 6)])
def test_paddings(window, padding, layout):
    """Also those beyond the window: outputs that see nothing but zeros."""
    check(*case(torch.float32, 9, 8, 12, *window), layout=layout, padding=padding)


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("multiplier", [2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_multipliers(dtype, multiplier, layout):
    check(*case(dtype, 11, 13, 18, 3, 3, multiplier), layout=layout, padding=(1, 1))


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("side", [1, 5, 7, 14, 28, 57])
@pytest.mark.parametrize("k", [3, 5, 7])
def test_planes(k, side, dtype, monkeypatch):
    """Calls for which other variants come first."""
    monkeypatch.setenv("TORCH_CONV_VARIANT", "planes")
    check(*case(dtype, 9, side, side + 1, k, k, n=1), padding=(k // 2, k // 2))
    check(*case(dtype, 9, side, side + 1, k, k, n=1), padding=(k // 2, k // 2), stride=(2, 2))


@pytest.mark.parametrize("side", [600, 1500])
def test_wide_rows(side):
    check(*case(torch.float32, 2, 3, side, 3, 3, n=1), padding=(1, 1))
    check(*case(torch.float32, 9, 3, side, 3, 3, n=1), layout="channels_last", padding=(1, 1))


def test_expanded_images_and_windows_that_are_views():
    image = make_image((2, 1, 11, 17)).expand(2, 12, 11, 17)
    weight = make_window((3, 3, 1, 12)).permute(3, 2, 1, 0)
    bias = make_window((24,))[::2]
    assert_same_bits(conv(image, weight, bias, padding=(1, 1)), chain(image, weight, bias, padding=(1, 1)))
    one = make_image((1, 12, 11, 17)).expand(3, 12, 11, 17)
    assert_same_bits(conv(one, weight, bias, padding=(1, 1)), chain(one, weight, bias, padding=(1, 1)))


@pytest.mark.parametrize("memory", ["NCL", "NLC"])
@pytest.mark.parametrize("k", [1, 3, 4, 31])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_signals(dtype, k, memory):
    signal, weight, bias = make_image((2, 24, 211), dtype), make_window((24, 1, k), dtype), make_window((24,), dtype)
    given = signal.transpose(1, 2).contiguous().transpose(1, 2) if memory == "NLC" else signal
    got = ops.conv1d(given, weight, bias, [1], [k - 1], [1], 24, algorithm="direct", activation="relu")
    assert got.stride() == (got.transpose(1, 2).contiguous().transpose(1, 2) if memory == "NLC" else got).stride()
    expected = chain(signal[:, :, None], weight[:, :, None], bias, padding=(0, k - 1), activation="relu")
    assert_same_bits(got, expected[:, :, 0])


@pytest.mark.parametrize("variant", ["planes", "channels"])
@pytest.mark.parametrize("stride", [1, 2])
def test_float64(variant, stride, monkeypatch):
    """The witness is the kernel family for any window."""
    image, weight, bias = case(torch.float64, 11, 14, 19, 3, 3)
    image = lay_out(image, "channels_last")
    options = {"stride": (stride, stride), "padding": (1, 1)}
    monkeypatch.setenv("TORCH_CONV_VARIANT", "rows")
    expected = conv(image, weight, bias, **options)
    monkeypatch.setenv("TORCH_CONV_VARIANT", variant)
    assert_same_bits(conv(image, weight, bias, **options), expected)
    got = conv(image, weight, bias, activation="silu", **options)
    torch.testing.assert_close(got, F.silu(expected), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("activation", [*EXACT_ACTIVATIONS, *CURVES])
@pytest.mark.parametrize("dtype", FLOATS)
def test_pinned_variants_agree(dtype, activation, variant, pinned):
    """`planes` serves any layout. No test of bits but this one knows the curves."""
    image, weight, bias = case(dtype, 21, 9, 37, 5, 5)
    image = lay_out(image, VARIANTS[variant])

    def call():
        return conv(image, weight, bias, padding=(2, 2), activation=activation)

    assert_same_bits(served(pinned, variant, call, dtype), pinned("planes", call))


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("activation", [a for a in EXACT_ACTIVATIONS if a])
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_exact_activations(dtype, activation, layout):
    image, weight, bias = case(dtype, 17, 9, 15, 3, 3)
    check(image * 3, weight, bias, layout=layout, padding=(1, 1), activation=activation)


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("activation", CURVES)
def test_curves(activation, layout):
    """The whole of float32's range, against float64."""
    steps = torch.cat([torch.logspace(-30, 30, 301), torch.linspace(0, 20, 700), torch.linspace(80, 110, 63)])
    image = torch.cat([steps, -steps]).reshape(1, 8, 1, -1)
    got = conv(lay_out(image, layout), torch.ones(8, 1, 1, 1), activation=activation)
    exact = CURVES[activation](image.double())
    # gelu takes 1 + erf(x / sqrt 2) in float32: a few units of 1 on the negative side, times x
    absolute = image.abs().clamp(max=6).double() * 2.0**-22 if activation == "gelu" else 0
    # silu's 1 + exp(-x) is infinite from -88.8 on, where the result is 2.6e-37
    assert ((got - exact).abs() <= exact.abs() * 2.0**-21 + absolute + 2.0**-121).all()
    special = torch.tensor([torch.nan, torch.inf, 0.0, -0.0] * 2).reshape(1, 8, 1, 1)
    got = conv(lay_out(special, layout), torch.ones(8, 1, 1, 1), activation=activation).flatten()
    assert got[0].isnan()
    assert got[1] == torch.inf
    assert got[2] == 0
    assert got[3] == 0


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("k", [3, 7])
def test_pixels_that_are_not_finite_stay_in_their_windows(k, dtype, value, layout):
    image, weight, bias = case(dtype, 18, 14, 17, k, k)
    for at in [(0, 0, 0, 0), (0, 5, 13, 16), (1, 17, 7, 9)]:
        image[at] = value
    got = check(image, weight, bias, layout=layout, padding=(k // 2, k // 2))
    assert (~got.isfinite()).sum() <= 3 * k * k


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("at", [(0, 0), (2, 1)])
@pytest.mark.parametrize("stride", [1, 2])
def test_taps_that_are_not_finite_make_nan_of_zeros_outside(stride, at, value, layout):
    image, weight, bias = case(torch.float32, 18, 14, 17, 3, 3)
    weight[(4, 0, *at)] = value
    got = check(image, weight, bias, layout=layout, padding=(2, 1), stride=(stride, stride))
    assert got[:, 4].isnan().any()
    assert got[:, [*range(4), *range(5, 18)]].isfinite().all()


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_subnormal_numbers(layout):
    image, weight, _ = case(torch.bfloat16, 16, 7, 9, 3, 3)
    check((image.float() * 1e-39).bfloat16(), weight, layout=layout, padding=(1, 1))


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("k", [3, 5])
def test_batch_and_threads_do_not_change_bits(k, layout, threads):
    image, weight, bias = case(torch.float32, 40, 28, 28, k, k, n=5)
    image = lay_out(image, layout)
    expected = conv(image, weight, bias, padding=(k // 2, k // 2))
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        assert_same_bits(conv(image, weight, bias, padding=(k // 2, k // 2)), expected)
    for n in range(5):
        assert_same_bits(conv(image[n : n + 1], weight, bias, padding=(k // 2, k // 2)), expected[n : n + 1])


def explained(image, **options):
    weight = torch.ones(image.shape[1], 1, 3, 3, dtype=image.dtype)
    answer = ops._conv2d_query("explain", image, weight, groups=image.shape[1], padding=[1, 1], **options)
    return answer_text(answer)


def test_plans():
    image = make_image((1, 24, 9, 9))
    assert "depthwise/blocks" in explained(image, algorithm="direct")
    assert "depthwise/planes" in explained(image.double(), algorithm="direct")
    assert "depthwise/channels" in explained(lay_out(image, "channels_last"), algorithm="direct")
    # a few channels leave registers empty; elsewhere a row of them is one row
    assert "direct/rows" in explained(lay_out(image[:, :3], "channels_last"), algorithm="direct")
    assert "depthwise/planes" in explained(
        lay_out(image[:, :3], "channels_last"), algorithm="direct", activation="relu"
    )
    with pytest.raises(RuntimeError, match="no tensor cores"):
        explained(image, algorithm="tensor_core")


def test_windows_that_reach_far_are_served_elsewhere():
    image, weight, bias = case(torch.float32, 2, 5, 6, 3, 3, n=1)
    options = {"padding": (3000, 3000), "dilation": (3000, 3000), "stride": (3000, 3000)}
    check(image, weight, bias, **options)
