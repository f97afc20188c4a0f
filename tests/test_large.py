"""Offsets beyond 32 bits, and windows larger than the image: the cost depends on pixels inside the image."""

import math
import re
from functools import partial

import box_order
import pytest
import torch
from memory_use import peak_growth
from oracle import check
from strategies import BORDERS, lay_out, make_image, make_window
from tolerance import assert_same_bits

import torch_conv

CALLS = {
    "filter2d": lambda x: torch_conv.filter2d(x, make_window((3, 3)).abs() / 3, "circular"),
    "filter2d 9x4": lambda x: torch_conv.filter2d(x, make_window((9, 4)).abs() / 20, "circular"),
    "filter2d_separable": lambda x: torch_conv.filter2d_separable(
        x, make_window((7,)).abs() / 4, make_window((7,)).abs() / 4, "circular"
    ),
    "filter2d_separable 31": lambda x: torch_conv.filter2d_separable(
        x, make_window((31,)).abs() / 16, make_window((3,)).abs() / 2, "circular"
    ),
    "box_blur": lambda x: torch_conv.box_blur(x, (9, 12), "circular"),
    "gaussian_sobel": lambda x: torch_conv.gaussian_sobel(x, 5, 1.0, "circular"),
    "unsharp_mask": lambda x: torch_conv.unsharp_mask(x, 9, 2.0, "circular"),
}


VOLUMES = {
    "filter3d": lambda x: torch_conv.filter3d(x, make_window((3, 3, 3)).abs() / 9, "circular"),
    "filter3d 2x5x4": lambda x: torch_conv.filter3d(x, make_window((2, 5, 4)).abs() / 20, "circular"),
    "filter3d 3x1x1": lambda x: torch_conv.filter3d(x, make_window((3, 1, 1)).abs() / 2, "circular"),
    "filter3d_separable": lambda x: torch_conv.filter3d_separable(x, *make_window((3, 7)).abs() / 4, "circular"),
    "box_blur3d": lambda x: torch_conv.box_blur3d(x, (4, 5, 6), "circular"),
}


def fill(image):
    """A pattern without a period near any power of two, written in place, piece by piece."""
    for start in range(0, image.shape[0], 4096):
        rows = image[start : start + 4096]
        y = torch.arange(start, start + rows.shape[0], device=image.device, dtype=torch.int32)[:, None]
        x = torch.arange(image.shape[1], device=image.device, dtype=torch.int32)
        rows.copy_((y * 37 + x * 101 + (y ^ x) % 53).remainder(251))


def check_crops(name, image):
    """Crops at the corners and around element 2^31; circular borders tie the corners together."""
    got = CALLS[name](image)
    assert got.shape == image.shape
    h, w = image.shape
    middle = 2**31 // w
    margin = 16
    for top in (0, middle - 20, h - 40):
        for left in (0, w // 2, w - 50):
            rows = torch.arange(top - margin, top + 40 + margin, device=image.device) % h
            columns = torch.arange(left - margin, left + 50 + margin, device=image.device) % w
            crop = image[rows][:, columns]
            expected = CALLS[name](crop)[margin:-margin, margin:-margin]
            assert_same_bits(got[top : top + 40, left : left + 50], expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_more_than_two_to_the_31_pixels(device, name):
    image = torch.empty(65536, 40000, dtype=torch.uint8, device=device)
    fill(image)
    check_crops(name, image)


@pytest.mark.slow
@pytest.mark.cuda
@pytest.mark.parametrize("name", ["filter2d", "filter2d_separable"])
def test_more_than_two_to_the_31_pixels_of_float32(cuda, name):
    image = torch.empty(65600, 33000, device=cuda)
    fill(image)
    check_crops(name, image)


@pytest.mark.slow
def test_planes_beyond_two_to_the_31(device):
    """Many planes of ordinary size: the offset grows with the plane."""
    image = torch.zeros(2200, 1000, 1000, dtype=torch.uint8, device=device)
    image[-1] = torch.arange(1000, device=device, dtype=torch.int32).remainder(251).to(torch.uint8)
    for call in CALLS.values():
        got = call(image)
        assert_same_bits(got[-1], call(image[-1].clone()))
        assert got[:-1].amax() == 0


def check_volume_crops(call, device):
    """Crops at the corners and around voxel 2^31; circular borders tie the corners together."""
    d, h, w = 1400, 1300, 1250
    volume = torch.empty(d, h, w, dtype=torch.uint8, device=device)
    fill(volume.view(d * h, w))
    got = call(volume)
    assert got.shape == volume.shape
    margin, middle = 8, 2**31 // (h * w)
    for z in (0, middle - 5, d - 10):
        for y in (0, h - 20):
            for x in (0, w // 2, w - 30):
                near = [
                    torch.arange(first - margin, first + size + margin, device=volume.device) % n
                    for first, size, n in ((z, 10, d), (y, 20, h), (x, 30, w))
                ]
                crop = volume[near[0]][:, near[1]][:, :, near[2]]
                inside = (slice(margin, -margin),) * 3
                expected = call(crop)[inside]
                assert_same_bits(got[z : z + 10, y : y + 20, x : x + 30], expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", VOLUMES)
def test_more_than_two_to_the_31_voxels(device, name):
    check_volume_crops(VOLUMES[name], device)


@pytest.mark.slow
@pytest.mark.cuda
def test_more_than_two_to_the_31_voxels_through_a_chain(cuda):
    """Its steps take 45 GB: too much for many CPUs, and for a GPU that several test processes share."""
    if torch.cuda.mem_get_info(cuda)[0] < 50e9:
        pytest.skip("needs 50 GB of free GPU memory")
    check_volume_crops(lambda x: torch_conv.gaussian_gradient_magnitude3d(x, 3, 1.0, "circular"), cuda)


@pytest.mark.slow
def test_volumes_beyond_two_to_the_31(device):
    """Many volumes of ordinary size: the offset grows with the sample."""
    volume = torch.zeros(275, 1, 20, 400, 1000, dtype=torch.uint8, device=device)
    volume[-1] = torch.arange(1000, device=device, dtype=torch.int32).remainder(251).to(torch.uint8)
    for call in VOLUMES.values():
        got = call(volume)
        assert_same_bits(got[-1], call(volume[-1].clone()))
        assert got[:-1].amax() == 0


def test_strides_beyond_two_to_the_31(device):
    """Two rows far apart in one large storage. The operating system provides only the touched pages."""
    if device == "cpu":
        storage = torch.empty(2**31 + 4096, dtype=torch.uint8)
    else:
        storage = torch.empty(2**31 + 4096, dtype=torch.uint8, device=device)
    image = storage.as_strided((2, 40), (2**31, 1))
    image.copy_((torch.arange(80, device=device) * 3).remainder(251).reshape(2, 40))
    for call in CALLS.values():
        assert_same_bits(call(image), call(image.clone()))
    for sizes, strides in (((2, 4, 10), (2**31, 10, 1)), ((4, 2, 10), (10, 2**31, 1))):  # planes, then rows far apart
        volume = storage.as_strided(sizes, strides)
        volume.copy_((torch.arange(80, device=device) * 3).remainder(251).reshape(sizes))
        for call in VOLUMES.values():
            assert_same_bits(call(volume), call(volume.clone()))


SHAPES = [(7, 9), (2, 40, 33), (20, 7, 7), (2, 17, 6, 14), (70, 5, 30), (1, 50), (50, 1), (1, 1)]
OPTIONS = [
    {},
    {"stride": (2, 2)},
    {"dilation": (3, 2)},
    {"stride": (3, 2), "dilation": (3, 3)},
    {"anchor": (0, -1), "normalized": True},
]


def flops(function, *args, **options):
    lines = torch_conv.explain(function, *args, **options).lines
    return sum(int(n) for line in lines for n in re.findall(r"flops (\d+)", line))


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("shape", [(7, 9), (1, 400), (400, 1), (64, 64), (3, 20, 10), (40, 7, 7)], ids=str)
@pytest.mark.parametrize("size", [3, 31, 101, 2001])
@pytest.mark.parametrize("dilation", [1, 7])
def test_a_separable_filter_sums_no_more_than_two_along_one_dimension(border, shape, size, dilation):
    image, taps = torch.zeros(shape), torch.ones(size)
    options = {"border_type": border, "dilation": (dilation, dilation), "algorithm": "separable"}
    alone = [
        flops(torch_conv.filter1d, image, taps, border, dim=dim, dilation=dilation, algorithm="direct")
        for dim in (-1, -2)
    ]
    assert flops(torch_conv.filter2d_separable, image, taps, taps, **options) <= 1.5 * sum(alone)


@pytest.mark.parametrize(("size", "sigma"), [(2001, 300.0), (80001, 10000.0)])
def test_windows_far_larger_than_the_image_end(size, sigma):
    """The multiply-adds: one a tap for every pixel along each axis."""
    image = make_image((64, 64))
    assert flops(torch_conv.gaussian_blur2d, image, size, sigma) == 2 * 2 * size * 64 * 64
    blurred = torch_conv.gaussian_blur2d(image, size, sigma, "circular")
    torch.testing.assert_close(blurred, image.mean().expand_as(image), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("size", [(3, 3), (5, 31), (31, 5), (40, 101), (1, 64), (64, 1)], ids=str)
def test_all_loops_of_the_cpu_give_the_same_bits(pinned, border, shape, size):
    taps_y, taps_x = make_window((size[0],), seed=1), make_window((size[1],), seed=2)
    for i, options in enumerate(OPTIONS):
        image = make_image(shape, (torch.float32, torch.uint8, torch.float64, torch.float16)[i % 4])
        options = {"border_type": border, "value": 3.0, "algorithm": "separable", **options}
        call = partial(torch_conv.filter2d_separable, kernel_x=taps_x, kernel_y=taps_y, **options)
        expected = pinned("rows", partial(call, image))
        assert_same_bits(call(image), expected)
        for variant in ("image", "blocks"):
            got = pinned(variant, partial(call, image))
            if got is not None:
                assert_same_bits(got, expected)
        if image.dim() == 4:
            assert_same_bits(call(lay_out(image, "channels_last")), expected)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("shape", [(20, 7, 7), (2, 17, 6, 14), (33, 1, 1), (16, 30, 31)], ids=str)
@pytest.mark.parametrize("size", [(1, 40), (40, 1), (3, 5), (8, 31)], ids=str)
def test_small_planes_have_the_bits_of_large_ones(pinned, border, shape, size):
    kernel = make_window(size)
    for i, options in enumerate(OPTIONS):
        image = make_image(shape, (torch.float32, torch.uint8, torch.float64, torch.float16)[i % 4])
        options = {"border_type": border, "value": 3.0, "algorithm": "direct", **options}
        got = torch_conv.filter2d(image, kernel, **options)
        assert "direct/blocks" in str(torch_conv.explain(torch_conv.filter2d, image, kernel, **options))
        assert_same_bits(got, pinned("rows", partial(torch_conv.filter2d, image, kernel, **options)))


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("shape", [(6, 9), (18, 5, 4), (2, 1, 7)], ids=str)
def test_windows_larger_than_the_image_agree_with_the_oracle(border, shape):
    for size, dilation in (((90, 47), 1), ((4, 61), 5)):
        taps_y, taps_x = make_window((size[0],), seed=3), make_window((size[1],), seed=4)
        check(
            "filter2d_separable",
            make_image(shape),
            taps_x,
            taps_y,
            border,
            device="cpu",
            algorithm="separable",
            window=size,
            value=2.0,
            dilation=(dilation, dilation),
        )


@pytest.mark.parametrize("border", ["reflect", "constant", "skip", "circular"])
def test_scratch_does_not_grow_with_what_lies_outside(border):
    """Peak memory of windows that span a million rows, in calls that hold 16 KiB of pixels."""
    image, taps = make_image((64, 64)), make_window((31,))
    wide = {"border_type": border, "dilation": (100_000, 100_000), "algorithm": "separable"}
    torch_conv.filter2d_separable(image, taps, taps, border)
    for call in (
        partial(torch_conv.filter2d_separable, image, taps, taps, **wide),
        partial(torch_conv.filter1d, image, taps, border, dim=-2, dilation=100_000),
        partial(torch_conv.unsharp_mask, image, 20001, 3000.0, border_type=border),
    ):
        assert peak_growth(call) < 64 << 20


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("shape", [(9, 40), (3, 5, 1), (4, 2), (2, 3, 8, 33)], ids=str)
@pytest.mark.parametrize("kw", [2, 64, 127, 200, 1000, 4096, 4099])
def test_boxes_wider_than_the_image(border, shape, kw):
    for dtype in (torch.float32, torch.float64, torch.float16):
        image = make_image(shape, dtype)
        expected = box_order.box2d(image, (3, kw), border)
        assert_same_bits(torch_conv.box_blur(image, (3, kw), border), expected)
        if image.dim() == 4:
            assert_same_bits(torch_conv.box_blur(lay_out(image, "channels_last"), (3, kw), border), expected)


@pytest.mark.parametrize("border", ["constant", "replicate", "skip"])
@pytest.mark.parametrize("kw", [256, 401, 1000, 4095])
def test_boxes_wider_than_the_image_from_every_anchor(border, kw):
    """The image's position in the window decides which sums read it; one NaN or infinity must not spread."""
    image = make_image((2, 4, 37))
    image[1, 2, 5], image[1, 3, 36] = math.nan, math.inf
    for at in (0, 1, 36, 37, 100, kw // 2 + 1, kw - 38, kw - 1):
        options = {"normalized": border == "skip", "value": -2.5, "anchor": (1, at)}
        expected = box_order.box2d(image, (3, kw), border, **options)
        assert_same_bits(torch.ops.torch_conv.box2d(image, [3, kw], border, algorithm="box", **options), expected)


@pytest.mark.parametrize("border", BORDERS)
def test_a_boxs_additions_do_not_grow_with_its_width(border):
    image = torch.zeros(64, 4096)
    near, far = (flops(torch_conv.box_blur, image, (1, kw), border) for kw in (101, 50001))
    assert far < 6 * near  # periods of up to two rows, and 16 doublings for 7
