"""Volumes in shards along depth: kernels read the planes of the neighbour shards in place, in one launch.

Boundaries of large volumes have launches of their own, which read copies where the windows are deep.
"""

import re
from pathlib import Path

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
    devices_at,
    fixture_at,
)
from strategies import BORDERS, make_image, make_window
from tolerance import assert_same_bits

import torch_conv
from torch_conv import SplitTensor, split


def separable(k):
    taps = [make_window((k,), seed=i) for i in range(3)]
    return lambda x, **kw: torch_conv.filter3d_separable(x, *taps, **kw)


def direct(k, *channels):
    window = make_window((*channels, k, k, k))
    return lambda x, **kw: torch_conv.filter3d(x, window, **kw)


def depthwise(x):
    weight, bias = make_window((2, 1, 5, 5, 5)).to(x.device), make_window((2,)).to(x.device)
    return torch_conv.conv3d(x, weight, bias, 1, 2, groups=2, algorithm="direct")


def launches(function, volume, sizes, dim=-3, **options):
    """For each shard the kernel of its one launch, or 'strips'."""
    plan = torch_conv.explain(function, split(volume, [str(volume.device)] * len(sizes), dim, sizes), **options)
    text = "\n".join(plan.lines)
    if "rows that are copied" in text:
        assert IN_PLACE not in text
        return "strips"
    assert IN_PLACE in text
    kernels = re.findall(r": (\w+/\w+) \(.*through all shards\); .*launches 1;", text)
    assert len(kernels) == len(sizes), text
    (kernel,) = set(kernels)
    return kernel


def reads_neighbours(lines):
    """Whether each launch reads the neighbour shards."""
    return ["through all shards" in line for line in lines if "streaming" in line]


# A call, the kernel of a GPU with bulk copies, that of one without.
PLANS = {
    "separable 3": (separable(3), "separable/streaming", "strips"),
    "separable 7": (separable(7), "separable/streaming", "strips"),
    "separable 15": (separable(15), "separable/streaming", "strips"),
    "Gaussian": (lambda x, **kw: torch_conv.gaussian_blur3d(x, 9, 1.5, **kw), "separable/streaming", "strips"),
    "direct 3": (direct(3), "direct/streaming_tma", "direct/streaming"),
    "direct 5": (direct(5), "direct/streaming_tma", "direct/streaming"),
    "direct 7": (direct(7), "direct/streaming_tma", "direct/streaming"),
    "direct 9": (direct(9), "strips", "strips"),
    "no cube": (lambda x: torch_conv.filter3d(x, make_window((3, 5, 5))), "strips", "strips"),
    "no cube, separable": (lambda x: torch_conv.gaussian_blur3d(x, (3, 5, 5), 1.0), "strips", "strips"),
    "along depth": (lambda x: torch_conv.filter3d(x, make_window((3, 1, 1))), "strips", "strips"),
    "gradient": (torch_conv.spatial_gradient3d, "direct/streaming_tma", "direct/streaming"),
    "gradient's magnitude": (lambda x: torch_conv.gaussian_gradient_magnitude3d(x, 5, 1.0), "strips", "strips"),
    "box 3": (lambda x: torch_conv.box_blur3d(x, 3), "separable/streaming", "strips"),
    "box 15": (lambda x: torch_conv.box_blur3d(x, 15), "strips", "strips"),
}


@pytest.mark.parametrize("name", PLANS)
def test_plans(name, monkeypatch):
    call, with_bulk, without = PLANS[name]
    volume = torch.zeros(1, 2, 60, 40, 64)
    for gpu, kernel in ((H100, with_bulk), (A100, without)):
        monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", gpu)
        assert launches(call, volume, [20, 20, 20]) == kernel


def test_calls_that_copy_strips(monkeypatch):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H100)
    volume = torch.zeros(1, 2, 60, 40, 64)
    for call, there in ((separable(7), "separable/streaming"), (direct(7), "direct/streaming_tma")):
        assert launches(call, volume, [20, 10, 30]) == there
        for border in BORDERS:
            if border != "skip":
                assert launches(call, volume, [20, 10, 30], border_type=border) == there
        assert launches(call, volume, [20, 10, 30], padding="valid") == there
        assert launches(call, volume, [20, 20, 20], border_type="skip") == "strips"
        assert launches(call, volume, [20, 20, 20], stride=2) == "strips"
        assert launches(call, volume.double(), [20, 20, 20]) == "strips"
        assert launches(call, volume, [10, 10, 20], dim=-2) == "strips"
        # Neighbours of fewer planes than the windows' radius; a shard all of whose windows read others.
        assert launches(call, volume, [30, 2, 28]) == "strips"
        kernels = torch_conv.explain(call, split(volume, ["cpu"] * 3, -3, [30, 3, 27])).lines
        assert sum("through all shards" in line for line in kernels) == 2
        assert any("shard 1, its boundary strips, from rows that are copied" in line for line in kernels)
        assert launches(call, volume, [29, 7, 24]) == there
        with monkeypatch.context() as patch:
            patch.setenv("TORCH_CONV_NO_PEER", "1")
            assert "boundary strips, which" not in str(torch_conv.explain(call, split(volume, ["cpu"] * 3, -3)))
    channels_last = torch.zeros(1, 8, 60, 40, 64).contiguous(memory_format=torch.channels_last_3d)
    assert launches(direct(3), channels_last, [20, 20, 20]) == "strips"  # CHANNELS is faster
    small = [torch.zeros(4, 64, 8, 56, 56, dtype=torch.float16) for _ in range(3)]
    assert IN_PLACE not in str(torch_conv.explain(direct(3, 1, 64), SplitTensor.from_shards(small, -3)))  # PLANES is
    odd = torch.zeros(1, 2, 60, 40, 63)
    assert launches(separable(7), odd, [20, 20, 20]) == "separable/streaming_unaligned"
    assert launches(direct(7), odd, [20, 20, 20]) == "direct/streaming"
    assert launches(direct(7), odd.half(), [20, 20, 20]) == "strips"


def test_neighbours_of_another_layout(monkeypatch):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H100)
    whole = torch.zeros(2, 2, 20, 40, 80)
    shards = [whole[..., :64], torch.zeros(2, 2, 20, 40, 64), whole[..., 8:72]]
    parts = SplitTensor.from_shards(shards, -3)
    for call in (separable(7), direct(7)):
        text = str(torch_conv.explain(call, parts))
        assert IN_PLACE not in text
        # Other strides between planes, channels and samples do.
        mixed = [torch.zeros(2, 2, 50, 40, 64)[:, :, 7:27], shards[1], torch.zeros(2, 4, 20, 40, 64)[:, 1:3]]
        assert IN_PLACE in str(torch_conv.explain(call, SplitTensor.from_shards(mixed, -3)))


def test_side_streams_launch_boundaries_apart(monkeypatch):
    """Three launches a shard in the middle: the interior by the kernel of volumes that are alone."""
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H100)
    monkeypatch.setenv("TORCH_CONV_SIDE_STREAMS", "1")
    lines = torch_conv.explain(direct(5), split(torch.zeros(1, 2, 60, 40, 64), ["cpu"] * 3, -3)).lines
    assert reads_neighbours(lines) == [*(False, True), *(False, True, True), *(False, True)]


LARGE = [("direct 3", direct(3), 256), ("separable 5", separable(5), 1024), ("separable 9", separable(9), 1024)]


@pytest.mark.parametrize(("name", "function", "side"), LARGE, ids=[name for name, *_ in LARGE])
def test_large_volumes_have_separate_boundaries(name, function, side, monkeypatch):
    """Where memory binds, boundaries have as many planes as a block streams through; small or thin shards are one."""
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H100)

    def lines_of(planes, *sizes):
        volume = torch.empty(1, 1024 // side, planes, *sizes)
        return torch_conv.explain(function, split(volume, ["cpu"] * 3, -3)).lines

    lines = lines_of(3 * 256, side, 1024)
    assert reads_neighbours(lines) == [*(False, True), *(False, True, True), *(False, True)]
    depths = {re.search(r"tile \d+x\d+x(\d+),", line)[1] for line in lines if "through all shards" in line}
    assert len(depths) == 1 and int(*depths) <= 55
    copied = any("read copies of other GPUs' planes" in line for line in lines)
    assert copied == (name == "separable 9")
    assert reads_neighbours(lines_of(3 * 256, 64, 64)) == [True] * 3
    assert reads_neighbours(lines_of(3 * 64, side, 1024)) == [True] * 3


def test_interiors_without_a_kernel_stay_with_their_boundaries(monkeypatch):
    """An interior by itself may be small enough for two passes, which take scratch memory."""
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H100)
    parts = split(torch.empty(2, 1, 3 * 228, 384, 384), ["cpu"] * 3, -3)
    lines = torch_conv.explain(separable(11), parts).lines
    assert sum("launches 1" in line and "through all shards" in line for line in lines) == 3
    assert not any("rows that are copied" in line for line in lines)
    parts = split(torch.empty(2, 1, 3 * 228, 1024, 384), ["cpu"] * 3, -3)
    assert len(reads_neighbours(torch_conv.explain(separable(11), parts).lines)) == 2 + 3 + 2


@pytest.mark.cuda
@pytest.mark.multi_gpu
def test_boundaries_between_shards_of_one_gpu_are_one_launch():
    first, second = devices_at("gpus")(2)
    parts = split(torch.empty(1, 1, 3 * 150, 512, 1024, device=first), [first, first, second], -3)
    lines = torch_conv.explain(direct(3), parts).lines
    assert reads_neighbours(lines) == [*(True,), *(False, True, True), *(False, True)]


devices = fixture_at(GPU_PLACES)


@pytest.fixture(params=["", "1"], ids=["one launch", "side streams"])
def side_streams(request, monkeypatch):
    monkeypatch.setenv("TORCH_CONV_SIDE_STREAMS", request.param)


CALLS = {
    "separable 3": (separable(3), (2, 2, 12, 20, 36), [4, 3, 5]),
    "separable 7": (separable(7), (1, 2, 30, 41, 68), [9, 7, 14]),
    "separable 7, odd rows": (separable(7), (1, 2, 30, 41, 67), [9, 7, 14]),
    "separable 15": (separable(15), (1, 2, 50, 21, 44), [17, 15, 18]),
    "separable 15, odd rows": (separable(15), (1, 2, 50, 21, 45), [17, 15, 18]),
    "direct 3": (direct(3), (2, 2, 12, 20, 36), [4, 3, 5]),
    "direct 3, wide": (direct(3), (1, 2, 12, 33, 512), [4, 3, 5]),
    "direct 3, odd rows": (direct(3), (2, 2, 12, 20, 37), [4, 3, 5]),
    "direct 5": (direct(5), (1, 2, 20, 50, 140), [7, 5, 8]),
    "direct 5, windows of channels": (direct(5, 1, 2), (2, 2, 20, 50, 140), [7, 5, 8]),
    "direct 7": (direct(7), (1, 2, 30, 29, 152), [9, 7, 14]),
    "gradient": (torch_conv.spatial_gradient3d, (2, 2, 12, 20, 36), [4, 3, 5]),
    "direct 7, odd rows": (direct(7), (1, 2, 30, 29, 151), [9, 7, 14]),
}


@pytest.mark.cuda
@pytest.mark.parametrize("name", CALLS)
def test_bits_of_the_whole(devices, name, side_streams):
    function, shape, sizes = CALLS[name]
    volume = make_image(shape)
    options: list[dict] = [{"border_type": border} for border in BORDERS]
    if name != "gradient":  # it has no others
        options += [{"border_type": "constant", "value": 2.5}]
        options += [{**with_border, "padding": "valid"} for with_border in options]
        options += [{"border_type": border, "anchor": a} for border in ("symmetric", "constant") for a in (0, -1)]
    for chosen in options:
        check(function, volume, devices, -3, sizes, **chosen)
    middle = [shape[-3] // 2, shape[-3] - shape[-3] // 2]
    for cut in (middle, [0, *middle, 0], [1, *middle[:1], middle[1] - 1]):
        for border in ("reflect", "circular", "zero_output"):
            check(function, volume, devices, -3, cut, border_type=border)


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.multi_gpu
@pytest.mark.parametrize("window", ["cpu", "cuda:1"])
@pytest.mark.parametrize("border", ["reflect", "circular", "constant"])
@pytest.mark.parametrize("name", ["direct 3", "separable 5", "separable 9"])
def test_bits_of_large_volumes(name, border, window):
    """Boundaries with launches of their own, their neighbours' planes read there or copied; made, then repeated."""
    to = devices_at("gpus")(2)
    kind, k = name.split()
    function = torch_conv.filter3d if kind == "direct" else torch_conv.filter3d_separable
    sizes = [(int(k),) * 3] if kind == "direct" else [(int(k),)] * 3
    windows = [make_window(size, seed=i) for i, size in enumerate(sizes)]
    volume = torch.rand(1, 1, 448, 1024, 1024, device=to[0])
    parts = split(volume, to, -3)
    expected = function(volume, *windows, border)
    windows = [w.to(window) for w in windows]
    lines = torch_conv.explain(function, parts, *windows, border).lines
    boundaries = [False, True, True] if border == "circular" else [False, True]
    assert reads_neighbours(lines) == boundaries * 2
    for _ in range(3):
        assert function(parts, *windows, border).gather(to[0]).equal(expected)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.uint8], ids=str)
@pytest.mark.parametrize("name", ["separable 7", "separable 15", "direct 3", "direct 3, wide", "direct 5", "direct 7"])
def test_dtypes(devices, name, dtype):
    function, shape, sizes = CALLS[name]
    volume = make_image((*shape[:-1], shape[-1] // 16 * 16), dtype)
    for border in ("reflect", "circular", "constant", "zero_output"):
        check(function, volume, devices, -3, sizes, border_type=border)


@pytest.mark.cuda
def test_convolutions(devices):
    check(depthwise, make_image((2, 2, 20, 30, 64)), devices, -3, [7, 5, 8])


@pytest.mark.cuda
@pytest.mark.parametrize("on_gpu", range(1, 8))
def test_windows_on_gpus(devices, on_gpu):
    """Bit i of `on_gpu`: window i is on a GPU, which need not be the one of the shard."""
    volume, to = make_image((1, 2, 30, 41, 68)), devices(3)
    parts = split(volume, to, -3)
    for home in (to[0], to[-1]):
        taps = [make_window((7,), seed=i).to(home if on_gpu >> i & 1 else "cpu") for i in range(3)]
        expected = torch_conv.filter3d_separable(volume.to(to[0]), *[t.cpu() for t in taps])
        for _ in range(2):
            assert_same(torch_conv.filter3d_separable(parts, *taps), expected)
        for k in (3, 7):
            window = make_window((k, k, k))
            expected = torch_conv.filter3d(volume.to(to[0]), window)
            for _ in range(2):
                assert_same(torch_conv.filter3d(parts, window.to(home)), expected)


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["separable 7", "separable 7, odd rows", "direct 3", "direct 7", "direct 7, odd rows"])
def test_shards_amid_other_memory(devices, name):
    """Also in repeated calls."""
    function, shape, sizes = CALLS[name]
    volume, to = make_image(shape), devices(3)
    expected = function(volume.to(to[0]), border_type="circular")
    parts = amid_other_memory(volume, sizes, -3, to)
    text = str(torch_conv.explain(function, parts, border_type="circular"))
    assert IN_PLACE in text and "copied" not in text
    for _ in range(3):
        assert_same(function(parts, border_type="circular"), expected)


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["separable 7", "separable 15", "direct 3", "direct 7"])
def test_neighbours_that_were_just_written(devices, name, side_streams):
    function, shape, sizes = CALLS[name]
    check_just_written(function, shape, sizes, -3, devices)


@pytest.mark.cuda
@pytest.mark.multi_gpu
@pytest.mark.parametrize("name", ["separable 15", "direct 3"])
def test_in_a_graph_of_several_gpus(name, side_streams, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    from across import capture

    to = [torch.device(d) for d in devices_at("gpus")(3)]
    function, shape, sizes = CALLS[name]
    held, captured = split(make_image(shape).to(to[0]), to, -3, sizes), []

    def call():
        captured[:] = function(held).shards

    call()
    graph, pools = capture([call], to, 2)  # a first call, and its steps again
    for seed in range(3):
        volume = make_image(shape, seed=seed)
        for shard, part in zip(held.shards, volume.split(sizes, -3), strict=True):
            shard.copy_(part)
        for device in set(to):
            torch.cuda.synchronize(device)
        with torch.cuda.device(to[0]):
            graph.replay()
        torch.cuda.synchronize(to[0])
        assert_same_bits(torch.cat([part.cpu() for part in captured], -3), function(volume.to(to[0])).cpu())
    del graph, pools


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["separable 7", "direct 3", "direct 7"])
def test_in_a_graph(cuda, name, side_streams):
    function, shape, sizes = CALLS[name]
    volumes = [make_image(shape, seed=seed).to(cuda) for seed in range(3)]
    held = split(volumes[0].clone(), [cuda] * 3, -3, sizes)
    function(held)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = function(held).shards
    for volume in volumes:
        for shard, part in zip(held.shards, volume.split(sizes, -3), strict=True):
            shard.copy_(part)
        graph.replay()
        assert_same_bits(torch.cat(list(captured), -3), function(volume))
