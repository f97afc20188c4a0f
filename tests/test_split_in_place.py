"""Images in shards along H: kernels of boxes and of fused chains read the rows of the neighbour shards in place."""

import re

import pytest
import torch
from splits import (
    A100,
    GPU_PLACES,
    H100,
    IN_PLACE,
    amid_other_memory,
    assert_same,
    check,
    check_just_written,
    fixture_at,
    per_sample,
)
from strategies import BORDERS, EXTENDING, make_image

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
def test_plans_of_boxes(image, monkeypatch):
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


def test_boxes_that_copy_rows(monkeypatch):
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


def test_boxes_of_neighbours_whose_rows_start_elsewhere(monkeypatch):
    """Rows of float32 on whole vectors in this shard, and not in the one below: the kernel takes any."""
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H100)
    whole = torch.zeros(1, 3, 100, 700)
    shards = [whole[..., 4:644], whole[..., 3:643], torch.zeros(1, 3, 80, 640)]
    found = kernels(box(31), SplitTensor.from_shards(shards, -2))
    assert found and {kernel for kernel, _ in found} == {"box/strips"}


devices = fixture_at(GPU_PLACES)


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
def test_bits_of_whole_boxes(devices, image, size, side_streams):
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
def test_boxes_of_shards_amid_other_memory(devices, width, dtype, side_streams):
    """Also in repeated calls. Shards of bytes start on whole vectors, as the kernel requires."""
    image, to = make_image((2, 2, 104, width), dtype), devices(3)
    expected = box(31)(image.to(to[0]), border_type="circular")
    parts = amid_other_memory(image, [33, 31, 40], -2, to, 8 if dtype == torch.uint8 else 1)
    assert bool(kernels(box(31, border_type="circular"), parts)) == (dtype != torch.uint8 or width == 640)
    for _ in range(3):
        assert_same(box(31)(parts, border_type="circular"), expected)


@pytest.mark.cuda
@pytest.mark.parametrize("k", [3, 31])
def test_boxes_of_neighbours_that_were_just_written(devices, k, side_streams):
    check_just_written(box(k), (1, 3, 104, 640), [33, 31, 40], -2, devices)


# By name: the chain, and the rows that it reads on either side of an output's.
CHAINS = {
    "sobel": (lambda x, **kw: torch_conv.sobel(x, **kw), 1),
    "spatial_gradient": (lambda x, **kw: torch_conv.spatial_gradient(x, **kw), 1),
    "spatial_gradient diff": (lambda x, **kw: torch_conv.spatial_gradient(x, "diff", 2, **kw), 1),
    "spatial_gradient order 2": (lambda x, **kw: torch_conv.spatial_gradient(x, "sobel", 2, **kw), 2),
    "gaussian_sobel": (lambda x, **kw: torch_conv.gaussian_sobel(x, 5, 1.1, **kw), 3),
    "gaussian_sobel l1": (lambda x, **kw: torch_conv.gaussian_sobel(x, 3, 1.1, magnitude="l1", **kw), 2),
    "structure_tensor": (lambda x, **kw: torch_conv.structure_tensor(x, 3, 1.0, **kw), 2),
    "structure_tensor 9": (lambda x, **kw: torch_conv.structure_tensor(x, 9, 1.5, **kw), 5),
    "thin_edges": (lambda x, **kw: torch_conv.thin_edges(x, 3, 1.0, **kw), 3),
    "thin_edges 7": (lambda x, **kw: torch_conv.thin_edges(x, 7, 1.0, **kw), 5),
    "unsharp_mask": (
        lambda x, algorithm="fused", **kw: torch_conv.unsharp_mask(x, 5, 1.0, algorithm=algorithm, **kw),
        2,
    ),
    "gaussian_laplace": (lambda x, **kw: torch_conv.gaussian_laplace(x, 1.0, **kw), 4),
    "difference_of_gaussians": (lambda x, **kw: torch_conv.difference_of_gaussians(x, 1.0, **kw), 6),
}
SUMS = {"9 taps": CHAINS["gaussian_laplace"], "13 taps": CHAINS["difference_of_gaussians"]}
EACH = pytest.mark.parametrize(("chain", "radius"), CHAINS.values(), ids=CHAINS)


def launches(function, parts, **options):
    """The kernels of launches that read other shards in place."""
    found, in_place = [], False
    for line in torch_conv.explain(lambda x: function(x, **options), parts).lines:
        if ": shard " in line:
            in_place = IN_PLACE in line
        elif in_place:
            found.append(line.split(": ")[1].split()[0])
    return found


def copies_rows(function, parts, **options):
    return "rows that are copied" in str(torch_conv.explain(lambda x: function(x, **options), parts))


@EACH
def test_plans(chain, radius, monkeypatch):
    """A launch a shard, its interior and its boundaries."""
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H100)
    image, cut = torch.zeros(1, 3, 300, 640), ["cpu"] * 3
    parts = split(image, cut, -2)
    thins = chain in (CHAINS["thin_edges"][0], CHAINS["thin_edges 7"][0])
    for border in BORDERS:
        served = not (thins and border == "circular")
        assert launches(chain, parts, border_type=border) == ["fused/tile_tma"] * (3 if served else 0)
        two = split(image, ["cpu"] * 2, -2)
        assert launches(chain, two, border_type=border) == ["fused/tile_tma"] * (2 if served else 0)
    for value in (2.5, 0.1):
        assert launches(chain, parts, border_type="constant", value=value) == ["fused/tile_tma"] * 3
        assert launches(chain, split(image.half(), cut, -2), border_type="constant", value=value)
    assert launches(chain, parts, algorithm="fused") == ["fused/tile_tma"] * 3
    assert not copies_rows(chain, parts, algorithm="fused")
    # A shard with a row that reads no other; also one of no rows.
    thin = 2 * radius + 1
    assert launches(chain, split(image, cut, -2, [140, thin, 160 - thin])) == ["fused/tile_tma"] * 3
    assert launches(chain, split(image, cut, -2, [140, 0, 160])) == ["fused/tile_tma"] * 2
    for dtype in (torch.float16, torch.bfloat16, torch.uint8):
        assert launches(chain, split(image.to(dtype), cut, -2)) == ["fused/tile_tma"] * 3
    for width in (637, 3):
        assert launches(chain, split(image[..., :width], cut, -2)) == ["fused/tile_tma"] * 3
        assert launches(chain, split(image[..., :width].contiguous(), cut, -2)) == ["fused/tile"] * 3
    for shape in ((1, 1, 300, 640), (4, 8, 300, 60)):
        assert launches(chain, split(torch.zeros(shape), cut, -2)) == ["fused/tile_tma"] * 3
    one_channel = torch.zeros(2, 1, 300, 640).contiguous(memory_format=torch.channels_last)
    assert launches(chain, split(one_channel, cut, -2)) == ["fused/tile_tma"] * 3
    for width, kernel in ((640, "fused/tile_tma"), (637, "fused/tile")):
        bytes_ = torch.zeros(1, 3, 300, width, dtype=torch.uint8)
        assert launches(chain, split(bytes_, cut, -2), output_dtype=torch.float32) == [kernel] * 3
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", A100)
    assert launches(chain, parts) == ["fused/tile"] * 3


@EACH
def test_calls_that_copy_rows(chain, radius, monkeypatch):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H100)
    image, cut = torch.zeros(1, 3, 300, 640), ["cpu"] * 3
    parts = split(image, cut, -2)
    assert launches(chain, parts, padding="valid") == []
    assert launches(chain, parts, algorithm="separable") == []
    assert launches(chain, split(image, cut, -1)) == []
    if chain is not CHAINS["unsharp_mask"][0]:  # here by algorithm "fused", which refuses these
        assert launches(chain, split(image.short(), cut, -2)) == ["fused/tile_tma"] * 3
        assert launches(chain, split(image.double(), cut, -2)) == []
        hwc = image.contiguous(memory_format=torch.channels_last)
        assert launches(chain, split(hwc, cut, -2)) == []
        one_of_planes = [hwc[:, :, :100], image[:, :, 100:200], hwc[:, :, 200:]]
        assert launches(chain, SplitTensor.from_shards(one_of_planes, -2)) == []
    # A shard all of whose rows read others has only boundary strips, and copies; its neighbours read it in place.
    for rows in (radius, 2 * radius):
        thin = split(image, cut, -2, [140, rows, 160 - rows])
        assert launches(chain, thin) == ["fused/tile_tma"] * 2 and copies_rows(chain, thin)
    if radius > 1:  # fewer rows than the chain's radius
        assert launches(chain, split(image, cut, -2, [140, radius - 1, 161 - radius])) == []
    with monkeypatch.context() as patch:
        patch.setenv("TORCH_CONV_NO_PEER", "1")
        assert launches(chain, parts) == []


def test_windows_per_sample(monkeypatch):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H100)
    parts, sigma = split(torch.zeros(2, 3, 300, 640), ["cpu"] * 3, -2), per_sample(2, 2)
    assert launches(lambda x: torch_conv.gaussian_sobel(x, 5, sigma), parts) == []
    assert launches(lambda x: torch_conv.structure_tensor(x, 5, sigma), parts) == []


def test_neighbours_whose_rows_start_elsewhere(monkeypatch):
    """A shard's own rows decide the loads of its boxes; bulk copies also bring the rows of other shards."""
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H100)
    whole = torch.zeros(1, 3, 100, 700)
    shards = [whole[..., 4:644], whole[..., 3:643], torch.zeros(1, 3, 80, 640)]
    parts = SplitTensor.from_shards(shards, -2)
    for chain, _ in CHAINS.values():
        assert launches(chain, parts) == ["fused/tile_tma", "fused/tile", "fused/tile_tma"]


@pytest.mark.parametrize(("chain", "radius"), SUMS.values(), ids=SUMS)
def test_plans_of_sums(chain, radius, monkeypatch):
    """Large images by strips; also a pinned variant is one launch a shard."""
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H100)
    large = SplitTensor.from_shards([torch.empty(1, 1, 4096, 4096)] * 2, -2)
    assert launches(chain, large) == ["fused/streaming"] * 2
    parts = split(torch.zeros(2, 2, 192, 256), ["cpu"] * 3, -2)
    for variant in ("streaming", "tile_tma", "tile"):
        monkeypatch.setenv("TORCH_CONV_VARIANT", variant)
        for border in EXTENDING:
            assert launches(chain, parts, border_type=border) == [f"fused/{variant}"] * 3


DTYPES = {
    "float32": (torch.float32, {}),
    "float16": (torch.float16, {}),
    "bfloat16": (torch.bfloat16, {}),
    "uint8": (torch.uint8, {}),
    "uint8 to float32": (torch.uint8, {"output_dtype": torch.float32}),
}


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@EACH
def test_bits_of_the_whole(devices, chain, radius, dtype, side_streams):
    """Rows of whole 16 bytes and others; shards of several tiles, and one with as many rows as the chain's radius."""
    dtype, options = DTYPES[dtype]
    sizes = [70, radius, 2 * radius, 37]
    for width in (136, 264, 133, 70):
        x = make_image((2, 2, sum(sizes), width), dtype)
        for border in BORDERS if width in (136, 133) else ("reflect", "circular"):
            check(chain, x, devices, -2, sizes, border_type=border, **options)
        check(chain, x, devices, -2, sizes, border_type="constant", value=2.5, **options)
    x = make_image((1, 2, sum(sizes), 136), dtype)
    check(chain, x, devices, -2, sizes, border_type="constant", value=0.1, **options)
    check(chain, x, devices, -2, sizes, algorithm="fused", **options)
    check(chain, x, devices, -2, sizes, padding="valid", **options)
    # Fewer columns than the chain's footprint.
    check(chain, x[..., : radius + 1].contiguous(), devices, -2, sizes, **options)
    # Shards of fewer rows than the radius, and empty ones.
    check(chain, x, devices, -2, [70, 1, 0, sum(sizes) - 71], **options)


@pytest.mark.cuda
@EACH
def test_layouts(devices, chain, radius, side_streams):
    """Interleaved channels, which unsharp_mask's "fused" refuses, and one channel, whose strides say so."""
    for channels in (1, 3):
        algorithm = {} if channels == 1 else {"algorithm": "auto"}
        for dtype in (torch.float32, torch.uint8):
            x = make_image((2, channels, 97, 136), dtype).contiguous(memory_format=torch.channels_last)
            check(chain, x, devices, -2, [40, 20, 37], **algorithm)


@pytest.mark.cuda
@EACH
def test_two_shards_of_a_circle(devices, chain, radius, side_streams):
    """One shard is the neighbour above and below."""
    for width in (136, 133):
        for sizes in ([41, 30], [radius, 70], [70, radius]):
            x = make_image((2, 2, sum(sizes), width))
            check(chain, x, devices, -2, sizes, border_type="circular")


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8], ids=str)
@pytest.mark.parametrize("step", [1, 16], ids=["rows start anywhere", "rows start on 16 bytes"])
@EACH
def test_shards_amid_other_memory(devices, chain, radius, step, dtype, side_streams):
    """Each shard is a part of a tensor of its own, with other numbers around it and other strides."""
    image, to = make_image((2, 2, 104, 144), dtype), devices(3)
    for border in ("reflect", "circular", "constant", "skip"):
        expected = chain(image.to(to[0]), border_type=border)
        parts = amid_other_memory(image, [33, 31, 40], -2, to, step)
        if border != "circular":
            found = launches(chain, parts, border_type=border)
            assert found[1:] == (["fused/tile"] * 2 if step == 1 else found[:1] * 2)
        for _ in range(3):
            assert_same(chain(parts, border_type=border), expected)


@pytest.mark.cuda
@EACH
def test_neighbours_that_were_just_written(devices, chain, radius, side_streams):
    for width in (264, 133):
        check_just_written(chain, (1, 3, 104, width), [33, 31, 40], -2, devices)


@pytest.mark.cuda
@pytest.mark.parametrize("variant", ["streaming", "tile_tma", "tile"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("chain", "radius"), SUMS.values(), ids=SUMS)
def test_variants_of_sums(devices, chain, radius, dtype, variant, side_streams, monkeypatch):
    """One kernel gives the whole image and shards the same bits."""
    if variant != "tile" and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("no bulk copies")
    monkeypatch.setenv("TORCH_CONV_VARIANT", variant)
    dtype, options = DTYPES[dtype]
    x = make_image((2, 2, 192, 256), dtype)
    assert launches(chain, split(x, devices(3), -2), **options) == [f"fused/{variant}"] * 3
    for border in EXTENDING if variant == "streaming" else BORDERS:
        for sizes in ([64, 64, 64], [64, radius, 128 - radius]):
            check(chain, x, devices, -2, sizes, border_type=border, **options)
    check(chain, x, devices, -2, [96, 96], border_type="circular", **options)
    check(chain, x, devices, -2, [64, 64, 64], border_type="constant", value=2, **options)
