"""Boxes over floats add up in one order (box/order.h): the same bits on every device, in every layout, batch and
cut and by any number of threads; errors that a window's own pixels bound; NaN and Inf in their windows only."""

import math

import box_order
import pytest
import torch
from oracle import exact
from splits import PLACES, devices_at
from strategies import BORDERS, FLOATS, LAYOUTS, VOLUME_LAYOUTS, lay_out, make_image
from tolerance import assert_same_bits

import torch_conv
from torch_conv import split

box2d, box3d = torch.ops.torch_conv.box2d, torch.ops.torch_conv.box3d
SIZES = [(1, 1), (1, 6), (7, 1), (2, 2), (3, 3), (4, 7), (8, 8), (9, 9), (10, 3)]
SIZES += [(16, 31), (17, 16), (24, 25), (25, 24)]
HUGE = [(33, 40), (41, 64), (200, 200)]  # some larger than the images, and all than windows of one chain


@pytest.mark.parametrize("size", SIZES + HUGE)
@pytest.mark.parametrize("dtype", FLOATS)
def test_bits_are_those_of_the_order(device, dtype, size):
    for shape in ((2, 43, 61), (9, 5), (1, 70), (70, 1)):
        image = make_image(shape, dtype)
        for border in BORDERS:
            for normalized in (True, False):
                got = box2d(image.to(device), list(size), border, normalized, value=1.7, algorithm="box")
                assert_same_bits(got, box_order.box2d(image, size, border, normalized, value=1.7))


@pytest.mark.parametrize("border", BORDERS)
def test_bits_of_images_of_several_tiles(device, border):
    """Images wider and taller than a tile."""
    for shape, size in (((40, 14000), (17, 33)), ((700, 70), (12, 4)), ((300, 40), (100, 5)), ((1500, 33), (3, 2))):
        image = make_image(shape)
        got = box2d(image.to(device), list(size), border, value=-0.3, algorithm="box")
        assert_same_bits(got, box_order.box2d(image, size, border, value=-0.3))


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("anchor", [(0, 0), (11, 0), (0, 17), (6, 9)])
def test_bits_with_an_anchor(device, padding, anchor):
    image = make_image((40, 61))
    for border in BORDERS:
        got = box2d(image.to(device), [12, 18], border, True, padding, value=1.7, anchor=list(anchor))
        assert_same_bits(got, box_order.box2d(image, (12, 18), border, True, padding, value=1.7, anchor=list(anchor)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [(3, 3), (5, 4), (13, 13), (15, 15), (30, 21)])
def test_layouts_and_batches_give_the_same_bits(device, dtype, size):
    """By 'auto', which for some of these sizes takes direct sums."""
    image = make_image((2, 3, 50, 70), dtype, device=device)
    expected = torch.stack([torch.stack([box2d(plane, list(size)) for plane in sample]) for sample in image])
    for layout in LAYOUTS:
        assert_same_bits(box2d(lay_out(image, layout), list(size)), expected)
    hwc = image[0].permute(1, 2, 0).contiguous().permute(2, 0, 1)
    assert_same_bits(box2d(hwc, list(size)), expected[0])
    assert_same_bits(box2d(image.cpu(), list(size)), expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [(15, 15), (20, 70), (31, 8)])
@pytest.mark.parametrize("width", [44, 45, 700])
def test_interleaved_channels_and_planes_have_the_same_bits(device, dtype, size, width):
    """Many narrow planes and HWC images of several tiles have the bits of each plane alone."""
    planes = make_image((19, 37, width), dtype, device=device)
    alone = torch.stack([box2d(plane, list(size), algorithm="box") for plane in planes])
    assert_same_bits(box2d(planes, list(size), algorithm="box"), alone)
    for channels in (2, 3, 4, 19):
        hwc = planes[:channels].permute(1, 2, 0).contiguous().permute(2, 0, 1)
        assert_same_bits(box2d(hwc, list(size), algorithm="box"), alone[:channels])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [1, 3, 13])
def test_small_squares_are_direct_sums_everywhere(device, dtype, size):
    """The choice of 'auto' depends on the window and the dtypes alone, and so do the bits."""
    image = make_image((2, 3, 30, 41), dtype)
    a = torch.float64 if dtype == torch.float64 else torch.float32
    ones = torch.ones(size, dtype=a)
    last = ones * (1 / size**2)
    for layout in LAYOUTS:
        given = lay_out(image.to(device), layout)
        expected = torch_conv.filter2d_separable(given, ones, last, algorithm="separable")
        assert "separable/" in str(torch_conv.explain(torch_conv.box_blur, given, size))
        assert_same_bits(box2d(given, [size, size]), expected)
        assert_same_bits(box2d(given, [size, size], algorithm="separable"), expected)


def assert_threads_agree(call):
    torch.set_num_threads(1)
    alone = call()
    for count in (2, 3, 7):
        torch.set_num_threads(count)
        assert_same_bits(call(), alone)


@pytest.mark.parametrize("size", [(3, 3), (14, 9), (40, 33)])
def test_threads_give_the_same_bits(size, threads):
    image = make_image((2, 3, 301, 130))
    assert_threads_agree(lambda: box2d(image, list(size)))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("size", [(3, 3), (6, 5), (9, 9), (21, 30), (90, 4)])
@pytest.mark.parametrize("border", BORDERS)
def test_shards_give_the_same_bits(place, border, size):
    """Also where a shard is thinner than the window, or begins in the middle of a group of rows."""
    devices = devices_at(place)
    image = make_image((2, 3, 70, 45))
    whole = torch_conv.box_blur(image, size, border, value=1.7)
    for sizes in ([24, 23, 23], [1, 0, 66, 3], [5, 5, 5, 55], [35, 1, 2, 32], [8, 16, 46]):
        shards = split(image, devices(len(sizes)), -2, sizes)
        assert_same_bits(torch_conv.box_blur(shards, size, border, value=1.7).gather("cpu"), whole)
    for dim, sizes in ((-1, [20, 3, 22]), (1, [2, 0, 1]), (0, [1, 1])):
        shards = split(image, devices(len(sizes)), dim, sizes)
        assert_same_bits(torch_conv.box_blur(shards, size, border, value=1.7).gather("cpu"), whole)


def images():
    noise = make_image((250, 240), torch.float64)
    ramp = torch.linspace(0, 1, 240, dtype=torch.float64) + torch.linspace(0, 3, 250, dtype=torch.float64)[:, None]
    highlight = noise.clone()
    highlight[120, 100] = 1e6
    return {"noise": noise, "ramp": ramp + 1e6, "highlight": highlight}


def window_means(image, size):
    """Sums of pixels that are multiples of 2**-18 are exact, with any numbers elsewhere."""
    sums = (image.double() * 2**18).to(torch.int64)
    for dim, k in enumerate(size):
        sums = torch.cat([torch.zeros_like(sums.narrow(dim, 0, 1)), sums.cumsum(dim)], dim)
        n = sums.shape[dim] - k
        sums = sums.narrow(dim, k, n) - sums.narrow(dim, 0, n)
    return sums.double() / (2**18 * math.prod(size))


@pytest.mark.parametrize("algorithm", ["auto", "box"])
@pytest.mark.parametrize("size", [(3, 3), (4, 9), (15, 15), (31, 31), (200, 200)])
def test_error_is_at_most_8_ulp_of_the_mean_inside_the_window(device, size, algorithm):
    """Not of the image's: a highlight elsewhere does nothing."""
    for name, image in images().items():
        check_error(box2d, image, size, device, algorithm, name)


def check_error(function, image, size, device, algorithm, name):
    image = ((image * 2**18).round() / 2**18).float()
    mean, magnitude = window_means(image, size), window_means(image.abs(), size)
    got = function(image.to(device), list(size), "constant", padding="valid", algorithm=algorithm).cpu()
    assert ((got.double() - mean).abs() <= 8 * ulp(magnitude)).all(), name


def ulp(x):
    """The spacing of float32 numbers at float64 numbers."""
    return 2.0 ** (torch.frexp(x).exponent - 24).double()


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [(3, 3), (4, 5), (12, 9), (30, 1), (1, 30)])
def test_nonfinite_pixels_change_nothing_outside_their_windows(device, border, dtype, size):
    plain = make_image((60, 50), dtype)
    image = plain.clone()
    image[20, 7], image[21, 30], image[55, 44] = torch.inf, -torch.inf, torch.nan
    expected = exact("filter2d", image, torch.ones(size, dtype=torch.float64), border, True)
    got = box2d(image.to(device), list(size), border).cpu()
    touched = ~expected.isfinite()
    assert_same_bits(got[touched].double(), expected[touched])
    assert_same_bits(got[~touched], box2d(plain.to(device), list(size), border).cpu()[~touched])


def test_a_crop_by_whole_groups_keeps_its_bits(device):
    """Others may differ in the last places, as the docstring says."""
    image = make_image((120, 90))
    whole = box2d(image.to(device), [21, 14])
    crop = box2d(image[16:, 5:].to(device), [21, 14])
    assert_same_bits(crop[10:-10, 10:-10], whole[26:-10, 15:-10])


# ---- volumes ---------------------------------------------------------------------------------------------------------

VOLUME_SIZES = [(1, 1, 1), (3, 1, 2), (2, 4, 6), (8, 3, 3), (9, 9, 9)]
VOLUME_SIZES += [(12, 10, 3), (17, 2, 5), (25, 1, 24), (40, 3, 200)]


@pytest.mark.parametrize("size", VOLUME_SIZES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_bits_of_volumes_are_those_of_the_order(device, dtype, size):
    for shape in ((20, 9, 14), (2, 5, 6, 7), (3, 1, 1), (1, 20, 90)):
        volume = make_image(shape, dtype)
        for border in BORDERS:
            for normalized in (True, False):
                got = box3d(volume.to(device), list(size), border, normalized, value=1.7, algorithm="box")
                assert_same_bits(got, box_order.box3d(volume, size, border, normalized, value=1.7))


def test_bits_of_volumes_of_several_pieces(device):
    """Volumes deeper and wider than a tile."""
    for shape, size in (((150, 3, 10), (12, 1, 3)), ((11, 70, 90), (3, 2, 12)), ((2, 2, 9, 40, 120), (10, 3, 1))):
        volume = make_image(shape)
        for border in ("symmetric", "constant", "skip"):
            got = box3d(volume.to(device), list(size), border, value=-0.3, algorithm="box")
            assert_same_bits(got, box_order.box3d(volume, size, border, value=-0.3))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [(3, 3, 3), (3, 4, 5), (7, 7, 7), (10, 2, 9)])
def test_layouts_and_batches_of_volumes_give_the_same_bits(device, dtype, size):
    volume = make_image((2, 3, 12, 11, 17), dtype, device=device)
    expected = torch.stack([torch.stack([box3d(channel, list(size)) for channel in sample]) for sample in volume])
    for layout in VOLUME_LAYOUTS:
        assert_same_bits(box3d(lay_out(volume, layout), list(size)), expected)
    assert_same_bits(box3d(volume.cpu(), list(size)), expected)


@pytest.mark.parametrize("size", [(3, 3, 3), (14, 9, 4)])
def test_threads_give_volumes_the_same_bits(size, threads):
    volume = make_image((3, 90, 30, 41))
    assert_threads_agree(lambda: box3d(volume, list(size)))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("size", [(3, 3, 3), (6, 5, 2), (10, 9, 3), (40, 12, 1)])
def test_shards_of_volumes_give_the_same_bits(place, size):
    devices = devices_at(place)
    volume = make_image((2, 2, 30, 26, 12))
    for border in BORDERS:
        whole = torch_conv.box_blur3d(volume, size, border, value=1.7)
        for dim, cuts in ((-3, ([10, 11, 9], [1, 0, 26, 3])), (-2, ([13, 13], [5, 5, 1, 15])), (-1, ([5, 7],))):
            for sizes in cuts:
                shards = split(volume, devices(len(sizes)), dim, sizes)
                assert_same_bits(torch_conv.box_blur3d(shards, size, border, value=1.7).gather("cpu"), whole)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("size", [(3, 3, 3), (9, 2, 4), (2, 10, 5)])
def test_nonfinite_voxels_change_nothing_outside_their_windows(device, border, size):
    plain = make_image((23, 15, 17))
    volume = plain.clone()
    volume[11, 7, 4], volume[12, 7, 9], volume[20, 12, 14] = torch.inf, -torch.inf, torch.nan
    expected = exact("filter3d", volume, torch.ones(size, dtype=torch.float64), border, True)
    got = box3d(volume.to(device), list(size), border).cpu()
    touched = ~expected.isfinite()
    assert_same_bits(got[touched].double(), expected[touched])
    assert_same_bits(got[~touched], box3d(plain.to(device), list(size), border).cpu()[~touched])


@pytest.mark.parametrize("algorithm", ["auto", "box"])
@pytest.mark.parametrize("size", [(3, 3, 3), (2, 4, 9), (13, 13, 13), (31, 15, 15), (50, 40, 30)])
def test_error_is_at_most_8_ulp_of_the_mean_of_a_window(device, size, algorithm):
    for name, volume in volumes().items():
        check_error(box3d, volume, size, device, algorithm, name)


def volumes():
    noise = make_image((60, 50, 40), torch.float64)
    z, y, x = (torch.linspace(0, 3, n, dtype=torch.float64) for n in noise.shape)
    ramp = z[:, None, None] + y[:, None] + x + 1e6
    highlight = noise.clone()
    highlight[30, 20, 15] = 1e6
    return {"noise": noise, "ramp": ramp, "highlight": highlight}
