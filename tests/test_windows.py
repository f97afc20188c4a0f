"""Windows: per sample and per channel, anchors, flips, normalisation, and where they live."""

import pytest
import torch
from oracle import check
from strategies import make_image, make_window
from tolerance import assert_same_bits

import torch_conv

B, C = 3, 4


@pytest.mark.parametrize("form", [(), (1,), (B,), (1, 1), (B, 1), (1, C), (B, C)])
@pytest.mark.parametrize("size", [(3, 3), (5, 2), (9, 9), (33, 31)])
def test_one_window_per_sample_and_channel(device, form, size):
    image, kernel = make_image((B, C, 20, 31), device=device), make_window((*form, *size), device=device)
    got = torch_conv.filter2d(image, kernel)
    full = kernel[:, None] if len(form) == 1 else kernel
    full = full.expand(B, C, *size)
    for b in range(B):
        for c in range(C):
            assert_same_bits(got[b, c], torch_conv.filter2d(image[b, c], full[b, c].clone()))


@pytest.mark.parametrize("form", [(), (1,), (B,), (1, 1), (B, 1), (1, C), (B, C)])
@pytest.mark.parametrize("size", [(3, 3, 3), (2, 5, 1), (5, 5, 5), (1, 3, 3), (9, 8, 11)])
def test_one_window_per_volume(device, form, size):
    volume, kernel = make_image((B, C, 6, 9, 13), device=device), make_window((*form, *size), device=device)
    got = torch_conv.filter3d(volume, kernel)
    full = (kernel[:, None] if len(form) == 1 else kernel).expand(B, C, *size)
    for b in range(B):
        for c in range(C):
            assert_same_bits(got[b, c], torch_conv.filter3d(volume[b, c], full[b, c].clone()))


@pytest.mark.parametrize("form", [(B,), (1, C), (B, C)])
@pytest.mark.parametrize("behaviour", ["corr", "conv"])
@pytest.mark.parametrize("border", ["reflect", "skip"])
def test_each_window_of_volumes_is_normalized_by_itself(device, form, behaviour, border):
    kernel = make_window((*form, 2, 3, 4)).abs() + 0.1
    volume, options = make_image((B, C, 5, 9, 13)), {"device": device, "window": (2, 3, 4)}
    check("filter3d", volume, kernel, border, True, behaviour, **options)


@pytest.mark.parametrize("size", [(1, 1, 1), (4, 1, 1), (1, 4, 2), (2, 2, 2), (3, 5, 4)])
def test_anchors_of_volumes(device, size):
    """None is the lower middle, -1 the upper one, and the anchor's tap is on the voxel."""
    volume, kernel = make_image((7, 8, 9), device=device), make_window(size, device=device)
    lower, upper = tuple((k - 1) // 2 for k in size), tuple(k // 2 for k in size)
    assert_same_bits(torch_conv.filter3d(volume, kernel), torch_conv.filter3d(volume, kernel, anchor=lower))
    at_upper = torch_conv.filter3d(volume, kernel, anchor=upper)
    assert_same_bits(torch_conv.filter3d(volume, kernel, anchor=-1), at_upper)
    assert_same_bits(torch_conv.filter3d(volume, kernel, anchor=(upper[0], -1, upper[2])), at_upper)
    for anchor in ((0, 0, 0), tuple(k - 1 for k in size), upper):
        one = torch.zeros(size, device=device)
        one[anchor] = 1
        assert_same_bits(torch_conv.filter3d(volume, one, anchor=anchor), volume)
        got = torch_conv.filter3d(volume, kernel, behaviour="conv", anchor=anchor)
        assert_same_bits(got, torch_conv.filter3d(volume, kernel.flip((0, 1, 2)), anchor=anchor))


@pytest.mark.parametrize("dilation", [(2, 1, 3), (1, 4, 1), (9, 9, 9)])
@pytest.mark.parametrize("border", ["reflect", "constant", "skip"])
def test_dilation_spreads_the_taps_of_volumes(device, dilation, border):
    kernel, volume = make_window((3, 3, 2)).abs(), make_image((6, 9, 13))
    got = check("filter3d", volume, kernel, border, dilation=dilation, device=device, window=(3, 3, 2))
    dz, dy, dx = dilation
    spread = torch.zeros(2 * dz + 1, 2 * dy + 1, dx + 1)
    spread[::dz, ::dy, ::dx] = kernel
    wide = torch_conv.filter3d(volume.to(device), spread.to(device), border, anchor=(dz, dy, 0))
    assert_same_bits(got, wide)  # zero taps add exact zeros


@pytest.mark.parametrize("size", [(3, 3, 3), (9, 10, 11)])
@pytest.mark.parametrize("form", [(), (B,), (B, C)])
def test_windows_of_a_gpu_volume_may_live_on_the_cpu(device, size, form):
    volume, kernel = make_image((B, C, 6, 9, 13), device=device), make_window((*form, *size))
    expected = torch_conv.filter3d(volume, kernel.to(device))
    got = torch_conv.filter3d(volume, kernel)
    kernel.zero_()  # the call owns its copies
    assert_same_bits(got, expected)


def test_separable_windows_of_volumes_may_live_on_the_cpu(device):
    volume, x, y, z = make_image((2, 6, 9, 13), device=device), *(make_window((k,)) for k in (5, 301, 3))
    got = torch_conv.filter3d_separable(volume, x, y, z)
    assert_same_bits(got, torch_conv.filter3d_separable(volume, x.to(device), y, z.to(device)))
    assert_same_bits(got, torch_conv.filter3d_separable(volume, x.to(device), y.to(device), z.to(device)))


@pytest.mark.parametrize("form", [(B,), (1, C), (B, C)])
@pytest.mark.parametrize("behaviour", ["corr", "conv"])
@pytest.mark.parametrize("border", ["reflect", "skip"])
def test_each_window_is_normalized_by_itself(device, form, behaviour, border):
    kernel = make_window((*form, 3, 4)).abs() + 0.1
    check("filter2d", make_image((B, C, 20, 31)), kernel, border, True, "same", behaviour, device=device, window=(3, 4))


@pytest.mark.parametrize("size", [(1, 1), (1, 4), (2, 2), (3, 5), (6, 3)])
def test_default_anchor_is_the_lower_middle(device, size):
    image, kernel = make_image((9, 11), device=device), make_window(size, device=device)
    middle = tuple((k - 1) // 2 for k in size)
    assert_same_bits(torch_conv.filter2d(image, kernel), torch_conv.filter2d(image, kernel, anchor=middle))


@pytest.mark.parametrize("size", [(1, 1), (1, 4), (2, 2), (3, 5), (6, 3)])
def test_minus_one_is_the_upper_middle(device, size):
    image, kernel = make_image((9, 11), device=device), make_window(size, device=device)
    middle = tuple(k // 2 for k in size)
    expected = torch_conv.filter2d(image, kernel, anchor=middle)
    assert_same_bits(torch_conv.filter2d(image, kernel, anchor=-1), expected)
    assert_same_bits(torch_conv.filter2d(image, kernel, anchor=(-1, middle[1])), expected)


@pytest.mark.parametrize("anchor", [(0, 0), (2, 3), (1, 0), (0, 3)])
def test_the_anchor_lies_on_the_pixel(device, anchor):
    """A window whose only tap is the anchor changes nothing."""
    image, kernel = make_image((9, 11), device=device), torch.zeros(3, 4, device=device)
    kernel[anchor] = 1
    assert_same_bits(torch_conv.filter2d(image, kernel, anchor=anchor), image)


def test_the_anchor_counts_in_the_window_as_it_lies_on_the_image(device):
    """After a flip, that is."""
    image, kernel = make_image((9, 11), device=device), make_window((3, 4), device=device)
    flipped = kernel.flip((0, 1))
    assert_same_bits(
        torch_conv.filter2d(image, kernel, behaviour="conv", anchor=(0, 3)),
        torch_conv.filter2d(image, flipped, anchor=(0, 3)),
    )


def test_conv_is_the_flipped_correlation(device):
    image, kernel = make_image((2, 3, 9, 11), device=device), make_window((2, 3, 4, 3), device=device)
    got = torch_conv.filter2d(image, kernel, behaviour="conv")
    assert_same_bits(got, torch_conv.filter2d(image, kernel.flip((-2, -1))))
    impulse = torch.zeros(5, 5, device=device)
    impulse[2, 2] = 1
    taps = make_window((3, 3), device=device)
    assert_same_bits(torch_conv.filter2d(impulse, taps, "constant", behaviour="conv")[1:4, 1:4], taps)


def test_normalized_divides_by_the_sum_of_magnitudes(device):
    image = torch.ones(1, 5, device=device)
    kernel = torch.tensor([[-1.0, 3.0]], device=device)
    got = torch_conv.filter2d(image, kernel, "replicate", True)
    torch.testing.assert_close(got, torch.full_like(got, 0.5))


@pytest.mark.parametrize("size", [(40, 3), (3, 90), (64, 64)])
def test_larger_than_the_image(device, size):
    for border in ("reflect", "circular", "constant"):
        check("filter2d", make_image((2, 7, 11)), make_window(size), border, device=device, window=size)


@pytest.mark.parametrize("dilation", [(2, 3), (7, 1), (40, 40)])
@pytest.mark.parametrize("border", ["reflect", "constant", "skip"])
def test_dilation_spreads_the_taps(device, dilation, border):
    kernel = make_window((3, 3)).abs()
    got = check("filter2d", make_image((20, 31)), kernel, border, dilation=dilation, device=device, window=(3, 3))
    dy, dx = dilation
    spread = torch.zeros(2 * dy + 1, 2 * dx + 1)
    spread[::dy, ::dx] = kernel
    wide = torch_conv.filter2d(make_image((20, 31), device=device), spread.to(device), border)
    assert_same_bits(got, wide)  # zero taps add exact zeros


@pytest.mark.parametrize("size", [(3, 3), (40, 41)])
@pytest.mark.parametrize("form", [(), (B,), (B, C)])
def test_windows_of_a_gpu_image_may_live_on_the_cpu(device, size, form):
    """Small ones travel with the launch, large ones (beyond a launch's parameters) are uploaded without a wait."""
    image, kernel = make_image((B, C, 20, 31), device=device), make_window((*form, *size))
    expected = torch_conv.filter2d(image, kernel.to(device))
    got = torch_conv.filter2d(image, kernel)
    kernel.zero_()  # the call owns its copies
    assert_same_bits(got, expected)


@pytest.mark.parametrize("behaviour", ["corr", "conv"])
@pytest.mark.parametrize("normalized", [False, True])
def test_cpu_windows_are_prepared_alike(device, behaviour, normalized):
    image, kernel = make_image((2, 20, 31), device=device), make_window((5, 4))
    got = torch_conv.filter2d(image, kernel, "reflect", normalized, "same", behaviour)
    expected = torch_conv.filter2d(image, kernel.to(device), "reflect", normalized, "same", behaviour)
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)


def test_separable_windows_may_live_on_the_cpu(device):
    image, x, y = make_image((2, 20, 31), device=device), make_window((5,)), make_window((901,))
    got = torch_conv.filter2d_separable(image, x, y)
    assert_same_bits(got, torch_conv.filter2d_separable(image, x.to(device), y.to(device)))


def test_windows_are_never_modified(device):
    for kernel in (make_window((2, 3, 4, 3)), make_window((2, 3, 4, 3), device=device)):
        before = kernel.clone()
        torch_conv.filter2d(make_image((2, 3, 9, 11), device=device), kernel, "skip", True, "same", "conv")
        torch_conv.filter2d(make_image((2, 3, 9, 11), device=device), kernel, "reflect", True, "same", "conv")
        assert_same_bits(kernel, before)
        cube = kernel.expand(2, 3, 4, 3).clone()
        torch_conv.filter3d(make_image((2, 1, 9, 8, 7), device=device), cube, "skip", True, "conv")
        assert_same_bits(cube, before)


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_an_empty_leading_dimension_gives_an_empty_result(device, padding):
    image = torch.zeros(2, 0, 3, 8, 8, device=device)
    size = 8 if padding == "same" else 6
    assert torch_conv.filter2d(image, torch.rand(3, 3), padding=padding).shape == (2, 0, 3, size, size)


@pytest.mark.parametrize("name", ["stride", "dilation"])
def test_huge_steps_are_refused(device, name):
    with pytest.raises(ValueError, match=f"^filter2d: {name} must be at most 2147483647, got 4611686018427387904$"):
        torch_conv.filter2d(torch.rand(9, 8, device=device), torch.rand(3, 3), **{name: 2**62})
