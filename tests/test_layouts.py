"""Memory layouts: any strides give the same bits, and the result keeps the input's memory format."""

from __future__ import annotations

import pytest
import torch
from strategies import DTYPES, LAYOUTS, lay_out, make_image, make_window
from tolerance import assert_same_bits

import torch_conv

OPERATORS = {
    "filter2d": lambda x, k: torch_conv.filter2d(x, k, "reflect"),
    "filter2d_separable": lambda x, k: torch_conv.filter2d_separable(x, k[0].contiguous(), k[1].contiguous()),
    "box_blur": lambda x, k: torch_conv.box_blur(x, (3, 9)),
    "conv2d": lambda x, k: torch_conv.conv2d(x, k.expand(x.shape[-3], 1, *k.shape).to(x.dtype), groups=x.shape[-3]),
    "gaussian_blur2d": lambda x, k: torch_conv.gaussian_blur2d(x, 5, 1.5),
    "filter1d": lambda x, k: torch_conv.filter1d(x, k[0].contiguous(), dim=-2),
}


def operators(dtype):
    return {n: f for n, f in OPERATORS.items() if n != "conv2d" or dtype.is_floating_point}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3, 17, 21), (2, 4, 16, 64), (1, 1, 9, 70), (3, 1, 5, 333)])
def test_same_bits_in_every_layout(device, layout, dtype, shape):
    image, kernel = make_image(shape, dtype, device=device), make_window((3, 5), device=device)
    laid = lay_out(image, layout)
    for name, apply in operators(dtype).items():
        expected = apply(image, kernel)
        if not (name == "box_blur" and dtype.is_floating_point):
            assert_same_bits(apply(laid, kernel), expected)
        else:  # running sums promise a bound instead
            torch.testing.assert_close(apply(laid, kernel), expected)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("channels", [1, 3, 4, 7])
def test_channels_last_in_channels_last_out(device, name, channels):
    image = make_image((2, channels, 17, 21), device=device).contiguous(memory_format=torch.channels_last)
    got = OPERATORS[name](image, make_window((3, 5), device=device))
    assert got.is_contiguous(memory_format=torch.channels_last)
    assert got.shape[:2] == image.shape[:2]


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "every_other", "offset", "padded_rows"])
def test_everything_else_comes_out_contiguous(device, name, layout):
    image = lay_out(make_image((2, 3, 17, 21), device=device), layout)
    assert OPERATORS[name](image, make_window((3, 5), device=device)).is_contiguous()


def test_photograph_as_height_width_channels(device):
    """A (H, W, C) photograph seen as (C, H, W) keeps its order in memory."""
    photo = make_image((17, 21, 3), torch.uint8, device=device)
    got = torch_conv.filter2d(photo.permute(2, 0, 1), make_window((3, 3), device=device))
    assert got.permute(1, 2, 0).is_contiguous()
    assert_same_bits(got, torch_conv.filter2d(photo.permute(2, 0, 1).contiguous(), make_window((3, 3), device=device)))


@pytest.mark.parametrize("name", OPERATORS)
def test_expanded_images(device, name):
    """Strides of 0: one sample, one channel, one row, one column seen many times."""
    kernel = make_window((3, 5), device=device)
    for shape in ((1, 3, 17, 21), (2, 1, 17, 21), (2, 3, 1, 21), (2, 3, 17, 1)):
        image = make_image(shape, device=device).expand(2, 3, 17, 21)
        expected = OPERATORS[name](image.contiguous(), kernel)
        torch.testing.assert_close(
            OPERATORS[name](image, kernel), expected, rtol=0, atol=0 if "box" not in name else 1e-5
        )


def test_leading_dimensions_that_do_not_merge(device):
    image = make_image((4, 3, 2, 9, 11), device=device)
    kernel = make_window((3, 3), device=device)
    strange = image.transpose(0, 1)  # (3, 4, 2, 9, 11)
    assert_same_bits(torch_conv.filter2d(strange, kernel), torch_conv.filter2d(strange.contiguous(), kernel))


def test_strided_and_shared_windows(device):
    """The window's own layout is nobody's business either."""
    image, kernel = make_image((2, 3, 17, 21), device=device), make_window((2, 3, 5, 4), device=device)
    expected = torch_conv.filter2d(image, kernel)
    assert_same_bits(torch_conv.filter2d(image, kernel.transpose(-1, -2).contiguous().transpose(-1, -2)), expected)
    wide = torch.zeros(2, 3, 5, 8, device=device)
    wide[..., ::2] = kernel
    assert_same_bits(torch_conv.filter2d(image, wide[..., ::2]), expected)
    one = make_window((5, 4), device=device)
    assert_same_bits(torch_conv.filter2d(image, one.expand(2, 3, 5, 4)), torch_conv.filter2d(image, one))


@pytest.mark.parametrize("width", [*range(1, 71), 333, 1918])
def test_widths(device, width):
    """Rows that start at any alignment."""
    image, kernel = make_image((2, 1, 6, width), device=device), make_window((3, 5), device=device)
    rows = torch.stack([torch_conv.filter2d(image[n, 0].clone(), kernel) for n in range(2)])[:, None]
    assert_same_bits(torch_conv.filter2d(image, kernel), rows)
