"""conv2d: a drop-in for torch.nn.functional.conv2d."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from oracle import check, check_conv
from strategies import FLOATS, conv_cases, make_image, make_window
from tolerance import assert_same_bits

import torch_conv

PADDING_MODES = ["zeros", "reflect", "replicate", "circular"]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@given(case=conv_cases())
def test_any_call_agrees_with_conv2d(device, case):
    *call, layout = case
    check_conv(*call, device=device, layout=layout)


@given(case=conv_cases())
def test_any_call_agrees_with_the_oracle(device, case):
    image, weight, bias, stride, padding, dilation, groups, layout = case
    check(
        "conv2d",
        image,
        weight,
        bias=bias,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        device=device,
        window=weight.shape[-2:],
        channels=weight.shape[1],
        layout=layout,
        way="direct",
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 9])
@pytest.mark.parametrize("multiplier", [1, 2])
def test_depthwise(device, dtype, size, multiplier):
    image = make_image((2, 6, 19, 37), dtype)
    weight, bias = make_window((6 * multiplier, 1, size, size), dtype), make_window((6 * multiplier,), dtype)
    check_conv(image, weight, bias, padding=size // 2, groups=6, device=device)
    check_conv(image, weight, None, 2, size // 2, 1, 6, device=device, layout="channels_last")


@pytest.mark.parametrize("padding_mode", PADDING_MODES)
@pytest.mark.parametrize("padding", ["same", 2, (0, 3)])
def test_padding_modes(device, padding_mode, padding):
    image, weight = make_image((2, 3, 12, 15)), make_window((3, 1, 5, 3))
    check_conv(image, weight, padding=padding, groups=3, padding_mode=padding_mode, device=device)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_same_with_even_windows_pads_more_after(device, size, dilation):
    image, weight = make_image((1, 2, 15, 17)), make_window((2, 1, size, size))
    check_conv(image, weight, None, 1, "same", dilation, 2, device=device)


@pytest.mark.parametrize("shape", [(1, 4), (8, 1), (3, 4), (8, 3)])
def test_few_channel_banks(device, shape):
    """(C_out, C_in) of a single-channel bank, a sum over channels, and a small mix."""
    image, weight = make_image((2, shape[1], 21, 33)), make_window((*shape, 3, 5))
    check_conv(image, weight, make_window((shape[0],)), padding="same", device=device)


@pytest.mark.parametrize("dtype", FLOATS)
def test_dense_many_channels_is_torch_s(device, dtype):
    """A matrix product, handed to torch: the same bits as F.conv2d."""
    image = make_image((2, 96, 9, 11), dtype, device=device)
    weight, bias = make_window((80, 96, 3, 3), dtype, device=device), make_window((80,), dtype, device=device)
    got = torch_conv.conv2d(image, weight, bias, 2, 1)
    assert_same_bits(got, F.conv2d(image, weight, bias, 2, 1))
    assert "torch" in str(torch_conv.explain(torch_conv.conv2d, image, weight, bias, 2, 1))


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64, torch.complex128, torch.int32, torch.int8])
def test_other_dtypes_are_torch_s(dtype):
    real = make_image((1, 2, 6, 7), torch.int16).div(1000, rounding_mode="floor")
    image, weight = real.to(dtype), torch.arange(18).reshape(2, 1, 3, 3).to(dtype)
    assert torch.equal(torch_conv.conv2d(image, weight, groups=2), F.conv2d(image, weight, groups=2))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16])
def test_small_integers(dtype):
    """Whoever serves them: sums inside the range are the same."""
    image, weight = make_image((1, 2, 6, 7), torch.uint8).remainder(5).to(dtype), torch.arange(18).reshape(2, 1, 3, 3)
    weight = weight.remainder(6).to(dtype)
    expected = F.conv2d(image.double(), weight.double(), groups=2)
    assert torch.equal(torch_conv.conv2d(image, weight, groups=2).double(), expected)


def test_no_samples(device):
    image, weight = torch.zeros(0, 3, 8, 9, device=device), torch.ones(3, 1, 3, 3, device=device)
    assert torch_conv.conv2d(image, weight, padding=2, groups=3).shape == (0, 3, 10, 11)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (((2, 3, 8, 8), (3, 1, 3, 3)), {"groups": 2}),
        (((2, 3, 8, 8), (4, 2, 3, 3)), {}),
        (((8, 8), (1, 1, 3, 3)), {}),
        (((2, 3, 8, 8), (3, 3, 3)), {}),
        (((2, 3, 8, 8), (3, 3, 3, 3)), {"stride": 0}),
        (((2, 3, 8, 8), (3, 3, 3, 3)), {"dilation": 0}),
        (((2, 3, 8, 8), (3, 3, 3, 3)), {"padding": -1}),
        (((2, 3, 8, 8), (3, 3, 3, 3)), {"padding": "same", "stride": 2}),
        (((2, 3, 8, 8), (3, 3, 3, 3)), {"padding": "full"}),
        (((2, 3, 8, 8), (3, 3, 9, 9)), {}),
        (((2, 3, 8, 8), (3, 3, 3, 3)), {"groups": 0}),
        (((2, 3, 8, 8), (3, 3, 3, 3)), {"bias": torch.zeros(2)}),
        (((2, 3, 8, 8), (3, 3, 3, 3)), {"bias": torch.zeros(3, 1)}),
        (((2, 3, 8, 8), (3, 3, 3, 3)), {"stride": (1, 2, 3)}),
    ],
)
def test_illegal_for_torch_is_illegal_here(device, args, kwargs):
    image, weight = (torch.ones(shape, device=device) for shape in args)
    kwargs = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()}
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        F.conv2d(image, weight, **kwargs)
    with pytest.raises((ValueError, TypeError)):
        torch_conv.conv2d(image, weight, **kwargs)


@pytest.mark.parametrize("kwargs", [{}, {"padding": 1}, {"padding": "same"}, {"stride": 2}, {"dilation": (2, 1)}])
def test_function_and_operator_are_one(device, kwargs):
    image, weight = make_image((2, 3, 20, 31), device=device), make_window((3, 1, 3, 5), device=device)
    expected = torch_conv.conv2d(image, weight, groups=3, **kwargs)
    assert_same_bits(torch.ops.torch_conv.conv2d(image, weight, groups=3, **kwargs), expected)


def test_lists_of_one_serve_both_axes(device):
    """As in F.conv2d."""
    image, weight = make_image((2, 3, 20, 31), device=device), make_window((3, 1, 3, 5), device=device)
    got = torch_conv.conv2d(image, weight, None, [2], [1], [2], 3)
    assert_same_bits(got, torch_conv.conv2d(image, weight, None, 2, 1, 2, 3))


def test_result_keeps_channels_last(device):
    image = make_image((2, 4, 9, 10), device=device).contiguous(memory_format=torch.channels_last)
    weight = make_window((4, 1, 3, 3), device=device)
    got = torch_conv.conv2d(image, weight, padding=1, groups=4, algorithm="direct")
    assert got.is_contiguous(memory_format=torch.channels_last)


def test_what_would_crash_is_refused(device):
    image = torch.zeros(1, 1, 0, 5, device=device)
    with pytest.raises(ValueError, match="^conv2d: input must have at least one pixel an axis, got shape"):
        torch_conv.conv2d(image, torch.ones(1, 1, 3, 3, device=device), padding=2, padding_mode="circular")
    none = torch_conv.conv2d(torch.rand(1, 0, 8, 8, device=device), torch.rand(2, 0, 3, 3, device=device))
    assert none.shape == torch.nn.functional.conv2d(torch.rand(1, 0, 8, 8), torch.rand(2, 0, 3, 3)).shape
    with pytest.raises(ValueError, match="must be a positive multiple of groups 4$"):
        torch_conv.conv2d(
            torch.rand(1, 4, 8, 8, device=device), torch.rand(0, 1, 3, 3, device=device), groups=4, algorithm="direct"
        )
