"""Plans for GPUs that are not there: the variant of each call, within the GPU's limits."""

import re

import pytest
import torch
from gpus import GPUS

import torch_conv
from torch_conv import functional as F

BULK = ("H200", "B200", "RTX 5090")  # copy boxes in bulk


def image(*shape, dtype=torch.float32):
    """Untouched memory: an explanation reads sizes only."""
    return torch.empty(shape or (1, 1, 4096, 4096), dtype=dtype)


def volume(dtype=torch.float32):
    return image(1, 1, 256, 256, 256, dtype=dtype)


def hwc(channels, dtype=torch.float32):
    return image(2, channels, 512, 512, dtype=dtype).contiguous(memory_format=torch.channels_last)


def brain(*, first=0, dtype=torch.float32):
    """At 1 mm: rows that start anywhere. From column `first` on of a larger one."""
    return image(1, 1, 197, 233, 189 + first, dtype=dtype)[..., first:]


def taps(*size):
    return torch.ones(size)


def by_hand(x, k):
    return F.filter2d_separable(x, taps(k), taps(k))


# name: a call, and the variant that serves it with bulk copies and without
CALLS = {
    "3x3": (lambda: F.filter2d(image(), taps(3, 3)), "direct/reg", "direct/reg"),
    "5x5": (lambda: F.filter2d(image(), taps(5, 5)), "direct/tile_tma", "direct/reg"),
    "7x7": (lambda: F.filter2d(image(), taps(7, 7)), "direct/tile_tma", "direct/tile"),
    "4x6": (lambda: F.filter2d(image(), taps(4, 6)), "direct/tile_tma", "direct/tile"),
    "31x31": (lambda: F.filter2d(image(), taps(31, 31), algorithm="direct"), "direct/tile_tma", "direct/tile"),
    "33x33": (lambda: F.filter2d(image(), taps(33, 33), algorithm="direct"), "direct/window", "direct/window"),
    "9x1": (lambda: F.filter2d(image(), taps(9, 1)), "direct/column", "direct/column"),
    "stride 2": (lambda: F.filter2d(image(), taps(3, 3), stride=2), "direct/tile_tma", "direct/tile"),
    "stride 3": (lambda: F.filter2d(image(), taps(3, 3), stride=3), "direct/general", "direct/general"),
    "stride 2, off 16 bytes": (
        lambda: F.filter2d(image(), taps(3, 3), stride=2, anchor=(1, 0)),
        "direct/tile",
        "direct/tile",
    ),
    "uint8 9x9 stride 2": (
        lambda: F.filter2d(image(dtype=torch.uint8), taps(9, 9), stride=2, algorithm="direct"),
        "direct/general",
        "direct/general",
    ),
    "channels": (lambda: F.filter2d(hwc(256), taps(3, 3)), "direct/tile_groups", "direct/channels"),
    "channels, 5x5": (lambda: F.filter2d(hwc(48), taps(5, 5)), "direct/tile_groups", "direct/tile"),
    "channels, few": (lambda: F.filter2d(hwc(32), taps(3, 3)), "direct/tile_tma", "direct/tile"),
    "three channels of their own": (
        lambda: F.filter2d(hwc(3), torch.rand(1, 3, 7, 7)),
        "direct/tile_own",
        "direct/tile_own",
    ),
    "four channels of their own": (
        lambda: F.filter2d(hwc(4), torch.rand(1, 4, 3, 3)),
        "direct/channels",
        "direct/channels",
    ),
    "four channels of their own, 9x9": (
        lambda: F.filter2d(hwc(4), torch.rand(1, 4, 9, 9), algorithm="direct"),
        "direct/tile_own",
        "direct/tile_own",
    ),
    "four channels of their own, dilation 2": (
        lambda: F.filter2d(hwc(4), torch.rand(1, 4, 3, 3), dilation=2),
        "direct/tile_own",
        "direct/tile_own",
    ),
    "channels of their own": (
        lambda: F.filter2d(hwc(8), torch.rand(1, 8, 3, 3)),
        "direct/tile_groups",
        "direct/channels",
    ),
    "channels of their own, 7x7 bytes": (
        lambda: F.filter2d(hwc(64, torch.uint8), torch.rand(1, 64, 7, 7)),
        "direct/channels",
        "direct/channels",
    ),
    "channels of their own, half precision": (
        lambda: F.filter2d(hwc(64, torch.float16), torch.ones(1, 64, 5, 5, dtype=torch.float16), "constant"),
        "depthwise/channels_mma",
        "direct/channels",
    ),
    "channels 5x1": (lambda: F.filter2d(hwc(16), taps(5, 1)), "direct/column", "direct/column"),
    "odd width": (lambda: F.filter2d(image(1, 1, 100, 1917), taps(5, 5)), "direct/tile", "direct/tile"),
    "float16, odd width": (
        lambda: F.filter2d(image(1, 1, 100, 1917, dtype=torch.float16), taps(5, 5)),
        "tensor_core/mma",
        "direct/tile",
    ),
    "uint8 3x3": (lambda: F.filter2d(image(dtype=torch.uint8), taps(3, 3)), "direct/tile_tma", "direct/tile"),
    "float64 3x3": (lambda: F.filter2d(image(dtype=torch.float64), taps(3, 3)), "direct/window", "direct/window"),
    "separable 7": (lambda: by_hand(image(), 7), "separable/tile_tma", "separable/tile"),
    "separable 15": (lambda: by_hand(image(), 15), "separable/tile_tma", "separable/tile"),
    "separable 15, small": (lambda: by_hand(image(1, 1, 512, 512), 15), "separable/ring", "separable/tile"),
    "separable 31": (lambda: by_hand(image(), 31), "separable/ring", "separable/strip"),
    "separable 3, odd width": (
        lambda: by_hand(image(1, 1, 999, 1917), 3),
        "separable/ring_unaligned",
        "separable/tile",
    ),
    "separable 3, odd widths": (lambda: by_hand(image(16, 3, 1080, 1917), 3), "separable/tile", "separable/tile"),
    "separable 31, odd width": (
        lambda: by_hand(image(1, 1, 999, 1917), 31),
        "separable/ring_unaligned",
        "separable/strip",
    ),
    "separable 127": (lambda: by_hand(image(1, 1, 4096, 4096), 127), "separable/strip", "separable/line_buffer"),
    "separable 255": (lambda: by_hand(image(1, 1, 4096, 4096), 255), "separable/ring_unaligned", "separable/two_pass"),
    "separable 255, small": (lambda: by_hand(image(1, 1, 999, 1024), 255), "separable/two_pass", "separable/two_pass"),
    "separable 31 of HWC, odd width": (
        lambda: by_hand(hwc(3)[..., 1:], 31),
        "separable/ring_unaligned",
        "separable/line_buffer",
    ),
    "separable 5 of float16": (
        lambda: F.filter2d_separable(image(dtype=torch.float16), taps(5), taps(7)),
        "separable/typed_ring",
        "separable/strip",
    ),
    "separable 5 of HWC": (lambda: by_hand(hwc(3), 5), "separable/tile_tma", "separable/tile"),
    "separable 15 of HWC": (lambda: by_hand(hwc(3), 15), "separable/ring", "separable/tile"),
    "separable 5 of HWC of bytes": (
        lambda: by_hand(hwc(3, torch.uint8), 5),
        "separable/tile_tma",
        "separable/tile",
    ),
    "separable 5 of many channels": (
        lambda: by_hand(hwc(8), 5),
        "separable/line_buffer",
        "separable/line_buffer",
    ),
    "separable 15 of HWC of bytes": (lambda: by_hand(hwc(3, torch.uint8), 15), "tensor_core/mma", "separable/tile"),
    "separable 15, five channels": (
        lambda: by_hand(hwc(5, torch.uint8), 15),
        "separable/line_buffer",
        "separable/line_buffer",
    ),
    "separable 63, four channels": (
        lambda: by_hand(hwc(4, torch.float16), 63),
        "tensor_core/mma",
        "separable/line_buffer",
    ),
    "box 200": (lambda: F.box_blur(image(), 200), "box/strips", "box/strips"),
    "box 15 of float16, odd width": (
        lambda: F.box_blur(image(2, 3, 1080, 1917, dtype=torch.float16), 15),
        "box/strips",
        "box/strips",
    ),
    "box 200 of bytes": (lambda: F.box_blur(image(dtype=torch.uint8), 200), "box/bytes", "box/bytes"),
    "box 300 of bytes": (lambda: F.box_blur(image(dtype=torch.uint8), 300), "box/streaming", "box/streaming"),
    "box 15 of HWC of bytes": (lambda: F.box_blur(hwc(3, torch.uint8), 15), "box/bytes", "box/bytes"),
    "sobel": (lambda: F.sobel(image()), "fused/tile_tma", "fused/tile"),
    "sums of 7": (lambda: F.gaussian_laplace(image(), 0.75, algorithm="fused"), "fused/tile_tma", "fused/tile"),
    "sums of 9": (lambda: F.gaussian_laplace(image(), 1.0), "fused/streaming", "fused/tile"),
    "sums of 9, zeros": (lambda: F.gaussian_laplace(image(), 1.0, "zero_output"), "fused/tile_tma", "fused/tile"),
    "edges": (lambda: F.gaussian_sobel(image(), 3, 0.8), "fused/tile_tma", "fused/tile"),
    "edges of uint16": (
        lambda: F.gaussian_sobel(image(dtype=torch.uint16), 3, 0.8, output_dtype=torch.float32),
        "fused/tile_tma",
        "fused/tile",
    ),
    "sums of 9 of int16": (
        lambda: F.gaussian_laplace(image(dtype=torch.int16), 1.0),
        "fused/streaming",
        "fused/tile",
    ),
    "volume 3": (lambda: F.filter3d(volume(), taps(3, 3, 3)), "direct/streaming_tma", "direct/streaming"),
    "volume 15": (lambda: F.filter3d(volume(), taps(15, 15, 15)), "direct/window", "direct/window"),
    "volume, separable 7": (lambda: F.gaussian_blur3d(volume(), 7, 1.2), "separable/streaming", "separable/tile"),
    "brain, separable 5": (
        lambda: F.gaussian_blur3d(brain(), 5, 0.8),
        "separable/streaming_unaligned",
        "separable/tile",
    ),
    "brain, separable 15": (
        lambda: F.gaussian_blur3d(brain(), 15, 3),
        "separable/streaming_unaligned",
        "separable/tile",
    ),
    "crop, separable 7": (
        lambda: F.gaussian_blur3d(brain(first=3), 7, 1),
        "separable/streaming_unaligned",
        "separable/tile",
    ),
    "brain of float16, separable 7": (
        lambda: F.gaussian_blur3d(brain(dtype=torch.float16), 7, 1.2),
        "separable/line_buffer",
        "separable/line_buffer",
    ),
}
ELSEWHERE = {  # the preferred variant needs more shared memory
    ("brain, separable 5", "RTX 5090"): "separable/tile",
    ("brain, separable 15", "RTX 5090"): "separable/tile",
    ("crop, separable 7", "RTX 5090"): "separable/tile",
    ("volume, separable 7", "RTX 5090"): "separable/tile_tma",
    ("separable 15, small", "RTX 5090"): "separable/tile_tma",
    ("separable 31", "RTX 5090"): "separable/strip",
    ("separable 3, odd width", "RTX 5090"): "separable/tile",
    ("separable 31, odd width", "RTX 5090"): "separable/strip",
    ("separable 127", "RTX 5090"): "separable/line_buffer",
    ("separable 255", "RTX 5090"): "separable/two_pass",
    ("separable 63, four channels", "RTX 5090"): "separable/line_buffer",
    ("channels of their own, half precision", "B200"): "direct/tile_groups",  # another GPU than Hopper
    ("channels of their own, half precision", "RTX 5090"): "direct/tile_groups",
    ("box 200", "RTX 4090"): "box/groups",
    ("box 200", "RTX 5090"): "box/groups",
}


@pytest.fixture(params=GPUS)
def gpu(request, monkeypatch):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", GPUS[request.param])
    return request.param


@pytest.mark.parametrize("name", CALLS)
def test_variants(gpu, name):
    call, with_bulk, without = CALLS[name]
    expected = ELSEWHERE.get((name, gpu), with_bulk if gpu in BULK else without)
    line = torch_conv.explain(call).lines[0]
    assert re.match(rf"\w+: {expected} \(", line), line


SINGLE, HALF = torch.float32, torch.float16
# shape, window, dtype, options, and the variant of a depthwise convolution with bulk copies and without
DEPTHWISE = [
    ((64, 96, 56, 56), 3, SINGLE, {}, "depthwise/warps", "depthwise/warps"),
    ((1, 96, 56, 56), 3, SINGLE, {}, "depthwise/warps", "depthwise/warps"),
    ((64, 96, 7, 7), 3, SINGLE, {}, "depthwise/planes", "depthwise/tiles"),  # rows that are no vectors
    ((64, 96, 12, 12), 3, SINGLE, {}, "depthwise/planes", "depthwise/tiles"),  # that leave lanes empty
    ((8, 8, 1024, 1024), 3, SINGLE, {}, "direct/reg", "depthwise/warps"),
    ((1, 2, 1024, 1024), 3, SINGLE, {}, "direct/reg", "depthwise/warps"),
    ((8, 8, 1024, 1024), 3, SINGLE, {"activation": "relu"}, "depthwise/warps", "depthwise/warps"),
    ((8, 8, 1024, 1024), 3, SINGLE, {"stride": 2}, "depthwise/warps", "depthwise/warps"),
    ((64, 144, 56, 56), 5, SINGLE, {"stride": 2}, "depthwise/warps", "depthwise/warps"),
    ((2, 96, 56, 56), 5, SINGLE, {}, "depthwise/warps", "depthwise/warps"),
    ((64, 96, 56, 56), 5, SINGLE, {}, "depthwise/planes", "depthwise/tiles"),
    ((8, 8, 512, 512), 5, SINGLE, {}, "direct/tile_tma", "depthwise/tiles"),
    ((1, 72, 64, 64), 7, SINGLE, {}, "depthwise/warps", "depthwise/warps"),
    ((64, 96, 56, 56), 7, SINGLE, {}, "depthwise/planes", "depthwise/tiles"),
    ((4, 96, 56, 56), 3, HALF, {}, "depthwise/warps", "depthwise/warps"),
    ((64, 96, 56, 56), 3, HALF, {}, "depthwise/planes", "depthwise/tiles"),
    ((64, 96, 112, 112), 3, HALF, {"stride": 2}, "depthwise/planes", "depthwise/warps"),
    ((32, 32, 224, 224), 3, HALF, {"stride": 2}, "depthwise/warps", "depthwise/warps"),
    ((8, 8, 1024, 1024), 3, HALF, {}, "depthwise/tiles", "depthwise/tiles"),
    ((2, 32, 112, 112), 5, HALF, {"stride": 2}, "depthwise/warps", "depthwise/warps"),
    ((2, 32, 112, 112), 5, HALF, {}, "depthwise/planes", "depthwise/tiles"),
    ((1, 96, 56, 56), 7, HALF, {}, "depthwise/planes", "depthwise/tiles"),
    ((64, 96, 56, 56), 5, HALF, {"algorithm": "ours"}, "depthwise/planes_mma", "depthwise/tiles"),
]


@pytest.mark.parametrize("gpu", ["A100", "H200"], indirect=True)
@pytest.mark.parametrize("case", DEPTHWISE, ids=str)
def test_depthwise_variants(gpu, case):
    shape, k, dtype, options, with_bulk, without = case
    given = (image(*shape, dtype=dtype), torch.ones(shape[1], 1, k, k, dtype=dtype))
    tail = {"padding": k // 2, "groups": shape[1], "algorithm": "direct", **options}
    line = torch_conv.explain(torch_conv.conv2d, *given, **tail).lines[0]
    assert line.startswith(f"conv2d: {with_bulk if gpu in BULK else without} ("), line


# Bytes of shared memory, and the deepest of these windows whose planes a block has room for.
DEEP = [16, 17, 18, 24, 33, 34, 47, 63, 73, 101]
ROOM = {"101376": 24, "166912": 47, "232448": 73}


@pytest.mark.parametrize("planes", DEEP)
def test_deep_boxes(gpu, planes, monkeypatch):
    """Planes of deep windows stand in a ring where there is room for it; else groups of outputs read them again."""
    call = (F.box_blur3d, volume(), (planes, 15, 15))
    fits = 16 < planes <= ROOM[GPUS[gpu].split()[2]]
    chosen = "depth_ring" if fits else "depth_groups"
    in_plane, along = torch_conv.explain(*call).lines
    assert "box/strips" in in_plane and f"box/{chosen} (" in along, along
    monkeypatch.setenv("TORCH_CONV_VARIANT", "depth_groups")
    assert "box/depth_groups (" in torch_conv.explain(*call).lines[1]
    monkeypatch.setenv("TORCH_CONV_VARIANT", "depth_ring")
    if fits:
        assert "box/depth_ring (" in torch_conv.explain(*call).lines[1]
    else:
        with pytest.raises(ValueError, match="variant 'depth_ring' cannot serve this call"):
            torch_conv.explain(*call)


@pytest.mark.parametrize(
    ("side", "k", "dtype", "direct", "separable"),
    [
        (512, 3, torch.float32, 26, 26),  # memory binds: short walks, many rounds of blocks
        (512, 9, torch.float32, None, 57),
        (512, 13, torch.float32, None, 512),  # arithmetic binds: whole rounds
        (512, 7, torch.float32, 512, 47),
        (512, 3, torch.float16, 128, 256),
        (256, 3, torch.float32, 32, 32),  # too few blocks for several rounds
    ],
    ids=str,
)
def test_how_far_blocks_walk_through_a_volume(monkeypatch, side, k, dtype, direct, separable):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", GPUS["H200"])
    x = image(1, 1, side, side, side, dtype=dtype)

    def walk(call):
        return int(re.search(r"tile \d+x\d+x(\d+),", str(torch_conv.explain(call)))[1])

    assert direct is None or walk(lambda: F.filter3d(x, taps(k, k, k))) == direct
    assert walk(lambda: F.filter3d_separable(x, taps(k), taps(k), taps(k))) == separable


def test_shared_memory_holds_the_barrier_of_a_bulk_copy(gpu):
    """Shared memory that a kernel declares itself counts as well."""
    for step in range(48, 62):
        x = image(1, 256, 256, dtype=torch.uint8)
        (line,) = torch_conv.explain(F.filter2d, x, taps(3, 3), dilation=(step, 1), algorithm="direct").lines
        kept = 128 if "direct/tile_tma" in line else 0
        assert int(re.search(r"shared memory (\d+) B", line)[1]) + kept <= int(GPUS[gpu].split()[2]), line


@pytest.mark.parametrize(("size", "window"), [((120000, 60), (16384, 8)), ((70000, 20), (10000, 2))])
def test_tiles_have_no_more_rows_than_a_grid(gpu, size, window):
    line = torch_conv.explain(F.filter2d, image(1, *size), taps(*window), algorithm="fft").lines[0]
    assert int(re.search(r"tile \d+x(\d+)", line)[1]) <= 65535, line


def test_a_refused_algorithm_is_a_wrong_value(monkeypatch):
    """Though its reason may speak of dtypes."""
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", GPUS["H200"])
    x = image(1, 64, 64, dtype=torch.float16)
    with pytest.raises(ValueError, match=r"^filter2d: algorithm 'tensor_core' cannot serve this call: another output"):
        torch_conv.explain(F.filter2d, x, taps(5, 5), output_dtype=torch.float32, algorithm="tensor_core")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8, torch.float64], ids=str)
def test_plans_fit_the_gpu(gpu, dtype):
    """Shared memory, threads and blocks of every launch, from tiny images to large ones."""
    shared, multiprocessors = int(GPUS[gpu].split()[2]), int(GPUS[gpu].split()[1])
    lines: list[str] = []
    for shape in [(1, 1), (3, 7, 9), (2, 3, 64, 200), (1, 4096, 4096), (1, 30000, 64)]:
        x = image(*shape, dtype=dtype)
        for k in (1, 2, 3, 5, 8, 15, 31, 64, 129):
            lines += torch_conv.explain(F.filter2d, x, taps(k, k), algorithm="direct").lines
            lines += torch_conv.explain(F.filter2d, x, taps(k, k), algorithm="fft").lines[1:]  # the first is torch's
            lines += torch_conv.explain(F.filter2d_separable, x, taps(k), taps(k)).lines
            lines += torch_conv.explain(F.box_blur, x, k).lines
        lines += torch_conv.explain(F.gaussian_sobel, x, 5, 1.0).lines
    for channels in (2, 3, 4):
        x = image(2, channels, 64, 201, dtype=dtype).contiguous(memory_format=torch.channels_last)
        for k in (3, 15, 43, 63):
            lines += torch_conv.explain(F.filter2d_separable, x, taps(k), taps(k)).lines
            lines += torch_conv.explain(F.box_blur, x, k).lines
    for shape in [(1, 1, 1), (9, 20, 33), (64, 64, 64)]:
        x = image(*shape, dtype=dtype)
        for k in (1, 3, 4, 7, 15):
            lines += torch_conv.explain(F.filter3d, x, taps(k, k, k)).lines
            lines += torch_conv.explain(F.filter3d_separable, x, *[taps(k)] * 3).lines
    launched = [re.search(r"(?:(\d+) blocks)? of (\d+) threads, shared memory (\d+) B", line) for line in lines]
    assert len(lines) > 150 and all(launched), lines[launched.index(None)]
    for found, line in zip(launched, lines, strict=True):
        blocks, threads, bytes_of_block = map(int, found.groups(default="1"))
        assert 1 <= blocks < 2**31 and 1 <= threads <= 1024 and bytes_of_block <= shared, line
    large = [found for found, line in zip(launched, lines, strict=True) if "bytes 134217728," in line]
    assert all(int(found[1]) >= multiprocessors / 2 for found in large)  # large images fill the GPU


@pytest.mark.parametrize("text", ["H200", "9 132 232448 4.8e12", "9.0 132"])
def test_a_gpu_that_cannot_be_read(text, monkeypatch):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", text)
    sentence = f"filter2d: TORCH_CONV_EXPLAIN_FOR must be like '9.0 132 232448 4.8e12', got '{text}'"
    with pytest.raises(ValueError, match=re.escape(sentence)):
        torch_conv.explain(F.filter2d, torch.ones(3, 3), taps(3, 3))
    assert F.filter2d(torch.ones(3, 3), taps(1, 1)).equal(torch.ones(3, 3))  # calls that compute do not read it
