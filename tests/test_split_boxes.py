"""Boxes in shards along their first axis: kernels read the rows of the neighbour shards in place."""

import re

import pytest
import torch
from splits import GPU_PLACES, H100, IN_PLACE, amid_other_memory, assert_same, check, check_just_written, devices_at
from strategies import BORDERS, make_image

import torch_conv
from torch_conv import SplitTensor, split


def box(k, **fixed):
    return lambda x, **kw: torch_conv.box_blur(x, k, **fixed, **kw)


def kernels(function, parts):
    """The kernel of each launch, and whether it reads other shards; none where boundaries are made of copied rows."""
    lines = torch_conv.explain(function, parts).lines
    if any("rows that are copied" in line for line in lines):
        assert not any(IN_PLACE in line for line in lines)
        return []
    return [(line.split(": ")[1].split()[0], "shards" in line.split(");")[0]) for line in lines if "launches" in line]


IMAGES = {
    "float32": torch.zeros(1, 3, 300, 640),
    "odd rows": torch.zeros(1, 3, 300, 637),
    "float16": torch.zeros(1, 3, 300, 640).half(),
    "float16, odd rows": torch.zeros(1, 3, 300, 637).half(),
    "hwc": torch.zeros(2, 3, 300, 640).contiguous(memory_format=torch.channels_last),
    "narrow": torch.zeros(4, 8, 300, 60),
    "uint8": torch.zeros(1, 3, 300, 640, dtype=torch.uint8),
    "hwc of bytes": torch.zeros(2, 3, 300, 640, dtype=torch.uint8).contiguous(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES)
def test_plans(image, monkeypatch):
    """A small shard takes one launch. A large shard takes three: the kernel of whole images for its interior, and the
    kernel of shards for the boundary strip at each end. The environment decides the least size of a large shard.
    """
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H100)
    parts = split(image, ["cpu"] * 3, -2)
    kernel = "box/strips" if image.is_floating_point() else "box/bytes"
    interior, boundary = (kernel, False), (kernel, True)
    assert kernels(box(31), parts) == [boundary] * 3
    monkeypatch.setenv("TORCH_CONV_SIDE_STREAMS", "1")
    for border in BORDERS:
        end = [interior, boundary, boundary] if border == "circular" else [interior, boundary]
        assert kernels(box(31, border_type=border), parts) == [*end, interior, boundary, boundary, *end]
    for size in ((4, 6), 15, (70, 9)):
        assert kernels(box(size), parts) == [interior, boundary, interior, boundary, boundary, interior, boundary]
    small = kernels(box(3), parts)
    assert len(small) == 7
    assert all(kernel.startswith("separable/") == image.is_floating_point() for kernel, _ in small)
    with monkeypatch.context() as patch:
        patch.setenv("TORCH_CONV_NO_PEER", "1")
        assert kernels(box(31), parts) == []


def test_calls_that_copy_rows(monkeypatch):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H100)
    image, cut = torch.zeros(1, 3, 300, 640), ["cpu"] * 3
    for other in (image[..., :637].byte(), image.short(), image.double()):
        assert kernels(box(31), split(other, cut, -2)) == []
    assert kernels(box(31), split(image, cut, -1)) == []
    assert kernels(box(31), split(image, cut, -2, [140, 5, 155])) == []
    assert kernels(box(31), split(image[..., ::2], cut, -2)) == []
    hwc = image.contiguous(memory_format=torch.channels_last)
    one_of_planes = [hwc[:, :, :100], image[:, :, 100:200], hwc[:, :, 200:]]
    assert kernels(box(31), SplitTensor.from_shards(one_of_planes, -2)) == []
    volume = torch.zeros(1, 2, 60, 40, 64)
    for size in ((5, 3, 3), 15):
        text = str(torch_conv.explain(lambda x, size=size: torch_conv.box_blur3d(x, size), split(volume, cut, -3)))
        assert IN_PLACE not in text and "rows that are copied" in text


def test_groups_of_the_whole_image(monkeypatch):
    """Every launch knows the position of its rows in the groups of 8 in which floats are added up: boundaries of 7
    rows in one group or in two."""
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H100)
    monkeypatch.setenv("TORCH_CONV_SIDE_STREAMS", "1")
    text = str(torch_conv.explain(box(15), split(torch.zeros(1, 1, 87, 640), ["cpu"] * 3, -2, [21, 26, 40])))
    blocks = [int(n) for n in re.findall(r"through all shards\); tile \d+x8, (\d+) blocks", text)]
    below, above, middle, last = blocks  # they begin at rows 14, 21, 40 and 47
    assert below == above == last == 2 * middle


def test_neighbours_whose_rows_start_elsewhere(monkeypatch):
    """Rows of float32 on whole vectors in this shard, and not in the one below: the kernel takes any."""
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H100)
    whole = torch.zeros(1, 3, 100, 700)
    shards = [whole[..., 4:644], whole[..., 3:643], torch.zeros(1, 3, 80, 640)]
    found = kernels(box(31), SplitTensor.from_shards(shards, -2))
    assert found and {kernel for kernel, _ in found} == {"box/strips"}


@pytest.fixture(scope="module", params=GPU_PLACES)
def devices(request):
    return devices_at(request.param)


@pytest.fixture(params=["0", "1"], ids=["one launch", "side streams"])
def side_streams(request, monkeypatch):
    monkeypatch.setenv("TORCH_CONV_SIDE_STREAMS", request.param)


SIZES = {
    "3x3": (3, [20, 3, 17]),
    "4x6": ((4, 6), [20, 5, 17]),
    "15x15": (15, [17, 15, 20]),
    "31x31": (31, [33, 31, 40]),
    "70x9": ((70, 9), [75, 70, 81]),
}


@pytest.mark.cuda
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("image", IMAGES)
def test_bits_of_the_whole(devices, image, size, side_streams):
    k, sizes = SIZES[size]
    like = IMAGES[image]
    shape = (*like.shape[:2], sum(sizes), like.shape[-1])
    layout = torch.channels_last if image.startswith("hwc") else torch.contiguous_format
    x = make_image(shape, like.dtype).contiguous(memory_format=layout)
    for border in BORDERS:
        check(box(k), x, devices, -2, sizes, border_type=border)
    check(box(k, normalized=False), x, devices, -2, sizes, border_type="circular")
    check(box(k), x, devices, -2, sizes, border_type="constant", value=2.5)
    check(box(k), x, devices, -2, sizes, padding="valid")
    check(box(k), x, devices, -2, sizes, anchor=(0, 1))
    # Shards of fewer rows than the windows' radius, and empty ones.
    check(box(k), x, devices, -2, [sizes[0], 1, 0, sum(sizes[1:]) - 1])


@pytest.mark.cuda
def test_other_dtypes(devices, side_streams):
    for dtype in (torch.bfloat16, torch.float64, torch.uint8, torch.int16):
        for width in (640, 637):
            check(box(31), make_image((2, 3, 104, width), dtype), devices, -2, [33, 31, 40])
    check(box(31), make_image((2, 3, 104, 637), torch.bfloat16), devices, -2, [33, 31, 40], output_dtype=torch.float32)


@pytest.mark.cuda
def test_volumes(devices, side_streams):
    for k in (3, 7):
        for border in ("reflect", "circular", "constant", "zero_output", "skip"):
            call = lambda x, k=k, **kw: torch_conv.box_blur3d(x, k, **kw)  # noqa: E731
            check(call, make_image((1, 2, 30, 41, 68)), devices, -3, [9, 7, 14], border_type=border)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8], ids=str)
@pytest.mark.parametrize("width", [640, 637])
def test_shards_amid_other_memory(devices, width, dtype, side_streams):
    """Also in repeated calls. Shards of bytes start on whole vectors, as the kernel requires."""
    image, to = make_image((2, 2, 104, width), dtype), devices(3)
    expected = box(31)(image.to(to[0]), border_type="circular")
    parts = amid_other_memory(image, [33, 31, 40], -2, to, 8 if dtype == torch.uint8 else 1)
    assert bool(kernels(box(31, border_type="circular"), parts)) == (dtype != torch.uint8 or width == 640)
    for _ in range(3):
        assert_same(box(31)(parts, border_type="circular"), expected)


@pytest.mark.cuda
@pytest.mark.parametrize("k", [3, 31])
def test_neighbours_that_were_just_written(devices, k, side_streams):
    check_just_written(box(k), (1, 3, 104, 640), [33, 31, 40], -2, devices)
