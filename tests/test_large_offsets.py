"""Images whose offsets do not fit into 32 bits, compared on crops far apart."""

import pytest
import torch
from strategies import make_window
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
