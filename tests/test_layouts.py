"""Memory layouts: any strides give the same bits, and the result keeps the input's memory format."""

import pytest
import torch
from strategies import DTYPES, LAYOUTS, VOLUME_LAYOUTS, lay_out, make_image, make_window
from tolerance import assert_same_bits

import torch_conv

OPERATORS = {
    "filter2d": lambda x, k: torch_conv.filter2d(x, k, "reflect"),
    "filter2d_separable": lambda x, k: torch_conv.filter2d_separable(x, k[0].contiguous(), k[1].contiguous()),
    "box_blur": lambda x, k: torch_conv.box_blur(x, (3, 9)),
    "conv2d": lambda x, k: torch_conv.conv2d(
        x, k.expand(x.shape[-3], 1, *k.shape).to(x.dtype), groups=x.shape[-3], algorithm="direct"
    ),
    "gaussian_blur2d": lambda x, k: torch_conv.gaussian_blur2d(x, 5, 1.5),
    "filter1d": lambda x, k: torch_conv.filter1d(x, k[0].contiguous(), dim=-2),
    "sobel": lambda x, k: torch_conv.sobel(x),
    "gaussian_sobel": lambda x, k: torch_conv.gaussian_sobel(x, 5, 1.5),
    "unsharp_mask": lambda x, k: torch_conv.unsharp_mask(x, 9, 2.0),
    "thin_edges": lambda x, k: torch_conv.thin_edges(x, 3, 1.5),
    "gaussian_downsample": lambda x, k: torch_conv.gaussian_downsample(x, 5, 1.5),
}


VOLUME_OPERATORS = {
    "filter3d": lambda x, k: torch_conv.filter3d(x, k, "reflect"),
    "filter3d_separable": lambda x, k: torch_conv.filter3d_separable(x, k[0, 0], k[1, 1], k[0, 2]),
    "box_blur3d": lambda x, k: torch_conv.box_blur3d(x, (2, 3, 9)),
    "conv3d": lambda x, k: torch_conv.conv3d(x, k.expand(x.shape[-4], 1, *k.shape).to(x.dtype), groups=x.shape[-4]),
    "gaussian_blur3d": lambda x, k: torch_conv.gaussian_blur3d(x, 5, 1.5),
    "filter1d": lambda x, k: torch_conv.filter1d(x, k[0, 0], dim=-3),
    "gaussian_gradient_magnitude3d": lambda x, k: torch_conv.gaussian_gradient_magnitude3d(x, 3, 1.5),
}


def operators(dtype, of=OPERATORS):
    return {n: f for n, f in of.items() if not n.startswith("conv") or dtype.is_floating_point}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3, 17, 21), (2, 4, 16, 64), (1, 1, 9, 70), (3, 1, 5, 333)])
def test_same_bits_in_every_layout(device, layout, dtype, shape):
    image, kernel = make_image(shape, dtype, device=device), make_window((3, 5), device=device)
    laid = lay_out(image, layout)
    for apply in operators(dtype).values():
        expected = apply(image, kernel)
        assert_same_bits(apply(laid, kernel), expected)


@pytest.mark.parametrize("layout", VOLUME_LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3, 5, 9, 13), (2, 4, 4, 6, 32), (1, 1, 3, 9, 70), (3, 1, 7, 5, 33)])
def test_volumes_have_the_same_bits_in_every_layout(device, layout, dtype, shape):
    volume, kernel = make_image(shape, dtype, device=device), make_window((2, 3, 5), device=device)
    laid = lay_out(volume, layout)
    for apply in operators(dtype, VOLUME_OPERATORS).values():
        expected = apply(volume, kernel)
        assert_same_bits(apply(laid, kernel), expected)


@pytest.mark.parametrize("name", [n for n in VOLUME_OPERATORS if n != "filter1d"])
@pytest.mark.parametrize("channels", [1, 3, 4, 7])
def test_channels_last_3d_in_channels_last_3d_out(device, name, channels):
    volume = make_image((2, channels, 5, 9, 13), device=device).contiguous(memory_format=torch.channels_last_3d)
    got = VOLUME_OPERATORS[name](volume, make_window((2, 3, 5), device=device))
    assert got.is_contiguous(memory_format=torch.channels_last_3d)
    assert got.shape[:2] == volume.shape[:2]


@pytest.mark.parametrize("name", VOLUME_OPERATORS)
@pytest.mark.parametrize("layout", [n for n in VOLUME_LAYOUTS if n != "channels_last"])
def test_every_other_volume_comes_out_contiguous(device, name, layout):
    volume = lay_out(make_image((2, 3, 5, 9, 13), device=device), layout)
    assert VOLUME_OPERATORS[name](volume, make_window((2, 3, 5), device=device)).is_contiguous()


@pytest.mark.parametrize("name", VOLUME_OPERATORS)
def test_expanded_volumes(device, name):
    """Strides of 0: one sample, channel, plane, row or column seen many times."""
    kernel, shape = make_window((2, 3, 5), device=device), (2, 3, 5, 9, 13)
    for axis in range(5):
        volume = make_image([1 if a == axis else n for a, n in enumerate(shape)], device=device).expand(shape)
        expected = VOLUME_OPERATORS[name](volume.contiguous(), kernel)
        got = VOLUME_OPERATORS[name](volume, kernel)
        torch.testing.assert_close(got, expected, rtol=0, atol=0 if "box" not in name else 1e-5)


def test_leading_dimensions_of_volumes_that_do_not_merge(device):
    strange = make_image((4, 3, 2, 5, 6, 7), device=device).transpose(0, 1)
    kernel = make_window((3, 3, 3), device=device)
    assert_same_bits(torch_conv.filter3d(strange, kernel), torch_conv.filter3d(strange.contiguous(), kernel))
    got = torch_conv.box_blur3d(strange, 3)
    torch.testing.assert_close(got, torch_conv.box_blur3d(strange.contiguous(), 3))
    assert got.is_contiguous()


def test_slices_of_volumes(device):
    """Every other plane and row, and channels taken from a wider tensor, are read through their strides."""
    whole, kernel = make_image((2, 6, 10, 18, 13), device=device), make_window((3, 3, 3), device=device)
    for volume in (whole[:, 1::2, ::2], whole[:, :, ::3, ::2, 2:-1], whole[..., ::2]):
        assert_same_bits(torch_conv.filter3d(volume, kernel), torch_conv.filter3d(volume.contiguous(), kernel))


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


def test_height_width_channels(device):
    """A view (C, H, W) of an image (H, W, C) keeps the order in memory."""
    hwc = make_image((17, 21, 3), torch.uint8, device=device)
    got = torch_conv.filter2d(hwc.permute(2, 0, 1), make_window((3, 3), device=device))
    assert got.permute(1, 2, 0).is_contiguous()
    assert_same_bits(got, torch_conv.filter2d(hwc.permute(2, 0, 1).contiguous(), make_window((3, 3), device=device)))


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
    """The window's layout does not change the result either."""
    image, kernel = make_image((2, 3, 17, 21), device=device), make_window((2, 3, 5, 4), device=device)
    expected = torch_conv.filter2d(image, kernel)
    assert_same_bits(torch_conv.filter2d(image, kernel.transpose(-1, -2).contiguous().transpose(-1, -2)), expected)
    wide = torch.zeros(2, 3, 5, 8, device=device)
    wide[..., ::2] = kernel
    assert_same_bits(torch_conv.filter2d(image, wide[..., ::2]), expected)
    volume, cubes = make_image((2, 3, 5, 9, 13), device=device), make_window((2, 3, 3, 2, 4), device=device)
    expected = torch_conv.filter3d(volume, cubes)
    assert_same_bits(torch_conv.filter3d(volume, cubes.transpose(-1, -3).contiguous().transpose(-1, -3)), expected)
    one = make_window((5, 4), device=device)
    assert_same_bits(torch_conv.filter2d(image, one.expand(2, 3, 5, 4)), torch_conv.filter2d(image, one))


@pytest.mark.parametrize("width", [*range(1, 71), 333, 1918])
def test_widths(device, width):
    """Rows that start at any alignment."""
    image, kernel = make_image((2, 1, 6, width), device=device), make_window((3, 5), device=device)
    rows = torch.stack([torch_conv.filter2d(image[n, 0].clone(), kernel) for n in range(2)])[:, None]
    assert_same_bits(torch_conv.filter2d(image, kernel), rows)
    volume, cube = make_image((2, 1, 3, 4, width), device=device), make_window((3, 3, 5), device=device)
    one_by_one = torch.stack([torch_conv.filter3d(volume[n, 0].clone(), cube) for n in range(2)])[:, None]
    assert_same_bits(torch_conv.filter3d(volume, cube), one_by_one)


def test_nothing_in_any_order(device):
    """Strides of tensors without elements do not matter, wherever the 0 is."""
    for empty in (torch.zeros(2, 4, 3, 4, 4), torch.zeros(4, 3, 5, 4, 4)):
        for cut in (empty.transpose(0, 1)[:, :, :0], empty.transpose(0, 2)[..., :0], empty.transpose(0, 1)[:0]):
            got = torch_conv.filter2d(cut.to(device), torch.ones(3, 3))
            assert got.shape == cut.shape
            assert torch_conv.box_blur(cut.to(device), 3).shape == cut.shape
