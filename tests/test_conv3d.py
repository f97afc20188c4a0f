"""conv3d: a drop-in for torch.nn.functional.conv3d."""

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
@given(case=conv_cases(axes=3))
def test_any_call_agrees_with_conv3d(device, case):
    *call, layout = case
    check_conv(*call, device=device, layout=layout)


@given(case=conv_cases(axes=3))
def test_any_call_agrees_with_the_oracle(device, case):
    image, weight, bias, stride, padding, dilation, groups, layout = case
    check(
        "conv3d",
        image,
        weight,
        bias=bias,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        device=device,
        window=weight.shape[-3:],
        channels=weight.shape[1],
        layout=layout,
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("multiplier", [1, 2])
def test_depthwise(device, dtype, size, multiplier):
    volume = make_image((2, 4, 7, 9, 20), dtype)
    weight, bias = make_window((4 * multiplier, 1, size, size, size), dtype), make_window((4 * multiplier,), dtype)
    check_conv(volume, weight, bias, padding=size // 2, groups=4, device=device)
    check_conv(volume, weight, None, 2, size // 2, 1, 4, device=device, layout="channels_last")


@pytest.mark.parametrize("window", [(1, 3, 3), (3, 1, 1), (3, 5, 5), (1, 1, 7), (4, 2, 3)])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_flat_and_long_windows(device, window, layout):
    volume, weight = make_image((2, 3, 8, 9, 21)), make_window((3, 1, *window))
    check_conv(
        volume, weight, make_window((3,)), padding=tuple(k // 2 for k in window), groups=3, device=device, layout=layout
    )


@pytest.mark.parametrize("padding_mode", PADDING_MODES)
@pytest.mark.parametrize("padding", ["same", 2, (1, 0, 3)])
def test_padding_modes(device, padding_mode, padding):
    volume, weight = make_image((2, 3, 6, 7, 11)), make_window((3, 1, 3, 5, 3))
    check_conv(volume, weight, padding=padding, groups=3, padding_mode=padding_mode, device=device)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("dilation", [1, 2])
def test_same_with_even_windows_pads_more_after(device, size, dilation):
    volume, weight = make_image((1, 2, 8, 9, 10)), make_window((2, 1, size, size, size))
    check_conv(volume, weight, None, 1, "same", dilation, 2, device=device)


@pytest.mark.parametrize("shape", [(1, 4), (8, 1), (3, 4), (8, 3)])
def test_few_channel_banks(device, shape):
    """(C_out, C_in) of a single-channel bank, a sum over channels, and a small mix."""
    volume, weight = make_image((2, shape[1], 6, 9, 13)), make_window((*shape, 3, 3, 5))
    check_conv(volume, weight, make_window((shape[0],)), padding="same", device=device)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("padding_mode", ["zeros", "circular"])
def test_dense_many_channels_is_torch_s(device, dtype, padding_mode):
    """A matrix product, handed to torch: the same bits as F.conv3d."""
    volume, weight = make_image((1, 24, 4, 6, 7), dtype, device=device), make_window((16, 24, 3, 3, 3), dtype)
    weight, bias = weight.to(device), make_window((16,), dtype, device=device)
    got = torch_conv.conv3d(volume, weight, bias, 2, 1, padding_mode=padding_mode)
    padded = volume if padding_mode == "zeros" else F.pad(volume, (1,) * 6, padding_mode)
    assert_same_bits(got, F.conv3d(padded, weight, bias, 2, 1 if padding_mode == "zeros" else 0))
    assert "torch" in str(torch_conv.explain(torch_conv.conv3d, volume, weight, bias, 2, 1))
    assert_same_bits(torch.ops.torch_conv.conv3d(volume, weight, bias, 2, 1, padding_mode=padding_mode), got)


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64])
def test_other_dtypes_are_torch_s(dtype):
    volume = make_image((1, 2, 4, 5, 6), torch.int16).div(1000, rounding_mode="floor").to(dtype)
    weight = torch.arange(54).reshape(2, 1, 3, 3, 3).to(dtype)
    assert torch.equal(torch_conv.conv3d(volume, weight, groups=2), F.conv3d(volume, weight, groups=2))


def test_no_samples(device):
    volume, weight = torch.zeros(0, 3, 5, 8, 9, device=device), torch.ones(3, 1, 3, 3, 3, device=device)
    assert torch_conv.conv3d(volume, weight, padding=2, groups=3).shape == (0, 3, 7, 10, 11)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (((2, 3, 5, 8, 8), (3, 1, 3, 3, 3)), {"groups": 2}),
        (((2, 3, 5, 8, 8), (4, 2, 3, 3, 3)), {}),
        (((5, 8, 8), (1, 1, 3, 3, 3)), {}),
        (((2, 3, 5, 8, 8), (3, 3, 3, 3)), {}),
        (((2, 3, 5, 8, 8), (3, 3, 3, 3, 3)), {"stride": 0}),
        (((2, 3, 5, 8, 8), (3, 3, 3, 3, 3)), {"dilation": 0}),
        (((2, 3, 5, 8, 8), (3, 3, 3, 3, 3)), {"padding": -1}),
        (((2, 3, 5, 8, 8), (3, 3, 3, 3, 3)), {"padding": "same", "stride": 2}),
        (((2, 3, 5, 8, 8), (3, 3, 3, 3, 3)), {"padding": "full"}),
        (((2, 3, 5, 8, 8), (3, 3, 7, 3, 3)), {}),
        (((2, 3, 5, 8, 8), (3, 3, 3, 3, 3)), {"groups": 0}),
        (((2, 3, 5, 8, 8), (3, 3, 3, 3, 3)), {"bias": torch.zeros(2)}),
        (((2, 3, 5, 8, 8), (3, 3, 3, 3, 3)), {"stride": (1, 2)}),
    ],
)
def test_illegal_for_torch_is_illegal_here(device, args, kwargs):
    volume, weight = (torch.ones(shape, device=device) for shape in args)
    kwargs = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()}
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        F.conv3d(volume, weight, **kwargs)
    with pytest.raises((ValueError, TypeError)):
        torch_conv.conv3d(volume, weight, **kwargs)


@pytest.mark.parametrize("kwargs", [{}, {"padding": 1}, {"padding": "same"}, {"stride": 2}, {"dilation": (1, 2, 1)}])
def test_function_and_operator_are_one(device, kwargs):
    volume, weight = make_image((2, 3, 6, 9, 11), device=device), make_window((3, 1, 3, 3, 5), device=device)
    expected = torch_conv.conv3d(volume, weight, groups=3, **kwargs)
    assert_same_bits(torch.ops.torch_conv.conv3d(volume, weight, groups=3, **kwargs), expected)


def test_lists_of_one_serve_every_axis(device):
    """As in F.conv3d."""
    volume, weight = make_image((2, 3, 6, 9, 11), device=device), make_window((3, 1, 3, 3, 5), device=device)
    got = torch_conv.conv3d(volume, weight, None, [2], [1], [2], 3, padding_mode="circular")
    assert_same_bits(got, torch_conv.conv3d(volume, weight, None, 2, 1, 2, 3, padding_mode="circular"))


@pytest.mark.parametrize("multiplier", [1, 2])
def test_result_keeps_channels_last(device, multiplier):
    volume = make_image((2, 4, 5, 9, 10), device=device).contiguous(memory_format=torch.channels_last_3d)
    got = torch_conv.conv3d(volume, make_window((4 * multiplier, 1, 3, 3, 3), device=device), padding=1, groups=4)
    assert got.is_contiguous(memory_format=torch.channels_last_3d)


def test_a_weight_one_plane_deep_is_conv2d_on_every_plane(device):
    volume, weight = make_image((2, 3, 5, 9, 11), device=device), make_window((3, 1, 3, 5), device=device)
    got = torch_conv.conv3d(volume, weight[:, :, None], padding=(0, 1, 2), groups=3)
    planes = [
        torch_conv.conv2d(plane, weight, padding=(1, 2), groups=3, algorithm="direct") for plane in volume.unbind(2)
    ]
    assert_same_bits(got, torch.stack(planes, 2))


@pytest.mark.parametrize("argument", ["stride", "padding", "dilation"])
@pytest.mark.parametrize("value", [1.0, True, None, [1.0, 1, 1]])
def test_numbers_of_a_wrong_type(argument, value):
    if argument == "padding" and value is None:
        pytest.skip("F.conv3d has another sentence for it")
    x, w = torch.zeros(1, 2, 4, 4, 4), torch.zeros(2, 1, 3, 3, 3)
    got = type(value[0] if isinstance(value, list) else value).__name__
    with pytest.raises(TypeError, match=rf"^conv3d: {argument} must be of type int, got {got}$"):
        torch_conv.conv3d(x, w, groups=2, **{argument: value})
