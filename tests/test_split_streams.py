"""Split images on GPUs: streams, transfers through pinned memory, gathers without a wait, memory that is used again."""

from contextlib import ExitStack

import pytest
import torch
from splits import GPU_PLACES, IMAGES, SLEEP, VOLUMES, cuts, fixture_at, held_back
from strategies import BORDERS, DTYPES, LAYOUTS, lay_out, make_image, make_window
from tolerance import assert_same_bits

import torch_conv
from torch_conv import SplitTensor, split
from torch_conv.sharding import calls, transfer
from torch_conv.sharding.calls import Ready
from torch_conv.sharding.transfer import streams_of

pytestmark = pytest.mark.cuda

devices = fixture_at(GPU_PLACES)


@pytest.fixture(params=["large buffers", "small buffers"])
def buffers(request, monkeypatch):
    """Small ones make every transfer one of many chunks, and pinned rows go one by one."""
    if request.param == "small buffers":
        monkeypatch.setattr(transfer, "_streams", {})
        monkeypatch.setattr(transfer, "_BUFFER_BYTES", 1 << 10)
        monkeypatch.setattr(transfer, "_ROW_BYTES", 1 << 6)


def filtered(image):
    return torch_conv.filter2d(image, make_window((5, 5)))


def slow_uploads(to, cycles=SLEEP):
    """The next shards arrive late. The kernel of `filtered` is loaded before, which takes longer than the upload."""
    torch_conv.prepare(filtered, torch.empty(2, 300, 200, device="cuda"))
    for device in set(map(torch.device, to)):
        with torch.cuda.stream(transfer.streams_of(device).up):
            torch.cuda._sleep(cycles)


@pytest.fixture(params=["nothing", "everything"])
def arrived(request, monkeypatch):
    """The host finds all shards arrived, or none, because the order of host and streams is chance.

    Streams wait for the shards that have not arrived.
    """
    monkeypatch.setattr(calls.Ready, "arriving", lambda self: True)
    monkeypatch.setattr(calls.Arrivals, "over", lambda self, i: request.param == "everything")
    return request.param


on_its_way = pytest.mark.parametrize("arrived", ["nothing"], indirect=True)


@pytest.fixture
def side_streams(devices):
    """Another stream than the default one is current on every device."""
    with ExitStack() as stack:
        for device in set(devices(8)):
            stack.enter_context(torch.cuda.stream(torch.cuda.Stream(device)))
        yield
        torch.cuda.synchronize()


@pytest.mark.parametrize("name", ["filter2d", "gaussian_blur2d wide", "gaussian_sobel", "box_blur", "filter1d along C"])
@pytest.mark.parametrize("dim", [-1, -2, -3])
def test_producers_and_consumers_on_side_streams(devices, side_streams, name, dim):
    """The result holds the writes queued before the call, and none of those queued after it."""
    image = make_image((2, 6, 300, 200), torch.uint8)
    way = {"algorithm": "separable"} if name == "gaussian_blur2d wide" else {}  # every part has these bits
    expected = IMAGES[name](image.cuda(), **way)
    for n in (2, 3, 4):
        parts = split(image.cuda(), devices(n), dim)
        late = SplitTensor.from_shards([torch.zeros_like(shard) for shard in parts.shards], dim)
        for target, shard in zip(late.shards, parts.shards, strict=True):
            with torch.cuda.device(target.device):
                torch.cuda._sleep(SLEEP // 4)
            target.copy_(shard)
        result = IMAGES[name](late, **way)
        for shard in late.shards:
            shard.fill_(77)
        copies = [shard.clone() for shard in result.shards]
        for shard in result.shards:
            shard.fill_(78)
        assert_same_bits(torch.cat([c.cpu() for c in copies], result.spec.dim), expected)


@on_its_way
@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("name", IMAGES)
def test_images_on_their_way(devices, arrived, name, pinned):
    image = make_image((2, 3, 33, 37))
    expected = {border: IMAGES[name](image.cuda(), border_type=border).cpu() for border in BORDERS}
    image = image.pin_memory() if pinned else image
    for border in BORDERS:
        for dim in range(4):
            sizes = cuts(image.size(dim))[1]
            to = devices(len(sizes))
            slow_uploads(to, SLEEP // 40)
            parts = split(image, to, dim, sizes)
            got = IMAGES[name](parts, border_type=border)
            assert list(map(str, got.spec.devices)) == to
            assert_same_bits(got.gather("cpu"), expected[border])


@on_its_way
@pytest.mark.parametrize("name", ["filter3d", "gaussian_gradient_magnitude3d", "spatial_gradient3d"])
def test_volumes_on_their_way(devices, arrived, name):
    volume = make_image((2, 2, 16, 17, 18)).pin_memory()
    for dim in range(5):
        for border in ("replicate", "circular"):
            to = devices(3)
            slow_uploads(to, SLEEP // 40)
            got = VOLUMES[name](split(volume, to, dim), border_type=border)
            assert_same_bits(got.gather("cpu"), VOLUMES[name](volume.cuda(), border_type=border))


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool, torch.complex64])
def test_there_and_back(devices, buffers, dtype, pinned):
    image = make_image((2, 3, 40, 50)).mul(10).to(dtype)
    for layout in LAYOUTS:
        laid_out = lay_out(image, layout)
        laid_out = laid_out.pin_memory() if pinned else laid_out
        for dim in range(4):
            for sizes in cuts(image.size(dim)):
                parts = split(laid_out, devices(len(sizes)), dim, sizes)
                assert torch.equal(parts.gather("cpu"), image)
                assert torch.equal(parts.gather(devices(2)[1]).cpu(), image)


def test_a_pageable_source_is_free_on_return(devices, buffers):
    image = make_image((3, 200, 300))
    source, to = image.clone(), devices(4)
    slow_uploads(to, SLEEP // 10)
    parts = split(source, to)
    source.fill_(77)
    assert_same_bits(torch_conv.filter2d(parts, make_window((5, 5))).gather("cpu"), filtered(image))


def test_a_pinned_source_is_free_after_gather(devices, buffers):
    image = make_image((3, 200, 300))
    source, to = image.pin_memory(), devices(4)
    slow_uploads(to)
    got = torch_conv.filter2d(split(source, to), make_window((5, 5))).gather("cpu")
    assert got.is_pinned()
    source.fill_(77)
    assert_same_bits(got, filtered(image))


def test_work_begins_before_all_has_arrived(devices):
    """Shard 0 is filtered and on its way back while shard 3 has not come."""
    device = devices(1)[0]
    image = make_image((1, 1, 400, 300))
    shards = split(image.to(device), [device] * 4).shards
    for wanted in ([0], [1], [0, 1], [2], [3]):  # kernels are loaded when first needed, and that waits for streams
        torch.ops.torch_conv.filter2d_split(shards, make_window((5, 5)), dim=-2, wanted=wanted)
    torch.cuda.synchronize()
    late = torch.cuda.Stream(device, priority=-1)  # no other's way to the GPU
    with held_back(late):
        ready = [torch.cuda.current_stream(device).record_event()] * 3 + [late.record_event()]
        parts = SplitTensor._of(shards, -2, calls.Ready(ready))
        assert parts._ready.arriving()
        result = torch_conv.filter2d(parts, make_window((5, 5)))
        result._ready.events[0].synchronize()
        result._ready.events[1].synchronize()
        assert not ready[3].query() and not result._ready.events[2].query()
    assert_same_bits(result.gather("cpu"), filtered(image))


def test_order_in_which_shards_are_made(devices, arrived):
    """Shards that need no other device's rows come first; in one call those whose rows are there."""
    image, (one, other) = make_image((1, 1, 400, 300)), devices(2)
    slow_uploads([one, other])
    result = torch_conv.filter2d(split(image, [one] * 3 + [other] * 3), make_window((5, 5)))
    assert tuple(result._turns) == (tuple(range(6)) if one == other else (0, 4, 1, 5, 2, 3))
    # Shards that a call makes on one device are ready behind the same event.
    assert len(set(result._ready.events)) == (6 if arrived == "nothing" else len({one, other}))
    assert_same_bits(result.gather("cpu"), filtered(image))


def test_memory_is_used_again(devices):
    """Shards that are dropped at once, and others in their place, while the streams lag behind."""
    to, kernel = devices(4), make_window((5, 5))
    images = [make_image((2, 200, 300), seed=i).pin_memory() for i in range(12)]
    results = []
    for i, image in enumerate(images):
        if i % 4 == 0:
            slow_uploads(to)
            for device in set(to):
                with torch.cuda.device(device):
                    torch.cuda._sleep(SLEEP)
        results.append(torch_conv.filter2d(torch_conv.filter2d(split(image, to), kernel), kernel))
        for device in set(to):
            torch.full((2, 200, 300), float("nan"), device=device)
    for image, result in zip(images, results, strict=True):
        assert_same_bits(result.gather("cpu"), filtered(filtered(image)))


def test_shards_on_another_stream(devices, arrived):
    """A tensor that arrives or is made on one stream may be used on another."""
    image, to = make_image((2, 300, 200)).pin_memory(), devices(3)
    slow_uploads(to)
    parts = split(image, to)
    results = [torch_conv.filter2d(parts, make_window((5, 5)))]
    assert results[0]._ready is not None
    with ExitStack() as stack:
        for device in set(to):
            stack.enter_context(torch.cuda.stream(torch.cuda.Stream(device)))
        copies = [shard.clone() for shard in results[0].shards]
        results.append(torch_conv.filter2d(parts, make_window((5, 5))))
        whole = results[1].gather(to[-1])
        for shard in results[1].shards:
            shard.fill_(77)
        assert_same_bits(whole, filtered(image))
        assert_same_bits(torch.cat([c.cpu() for c in copies], -2), filtered(image))
        torch.cuda.synchronize()


def test_gradients_from_the_host(devices):
    image = make_image((1, 2, 30, 40)).requires_grad_()
    parts = split(image, devices(3))
    assert parts.requires_grad
    (gradient,) = torch.autograd.grad((parts * 2).gather("cpu").sum(), image)
    assert_same_bits(gradient, torch.full_like(image, 2))
    with pytest.raises(RuntimeError, match="backward is not implemented yet"):
        torch_conv.filter2d(parts, make_window((3, 3))).gather("cpu").sum().backward()


@pytest.mark.parametrize(
    "call",
    [
        filtered,
        lambda x: filtered(x * 2),
        lambda x: filtered(x.unsqueeze(0)),
        lambda x: torch_conv.filter1d(x, make_window((3,))),
    ],
    ids=["filter2d", "arithmetic", "a view", "along rows"],
)
def test_shards_from_the_host_are_filtered_in_a_graph(cuda, call):
    """Once a call has found it there: a capture cannot wait for work outside of it."""
    parts = split(make_image((2, 60, 50)), [cuda] * 2)
    call(parts)
    torch.cuda.synchronize()
    expected = call(parts).gather()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = call(parts).shards
    graph.replay()
    assert_same_bits(torch.cat([shard.cpu() for shard in captured], -2), expected)


def test_shards_from_the_host_are_gathered_in_a_graph(cuda):
    image = make_image((2, 60, 50))
    parts = split(image, [cuda] * 2)
    torch.cuda.synchronize()
    filtered(parts)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        whole = parts.gather(cuda)
    graph.replay()
    assert_same_bits(whole, image)


def test_gather_to_a_gpu_waits_for_nobody(devices):
    to = devices(3)
    image = make_image((2, 300, 200))
    parts = SplitTensor.from_shards([shard.clone() for shard in split(image.to(to[0]), to).shards])
    # Kernels are loaded when first needed, also those that fill and gather, and that waits for streams.
    late = SplitTensor.from_shards([torch.full_like(shard, 77) for shard in parts.shards])
    parts.gather(to[-1])
    torch.cuda.synchronize()
    with held_back(*{torch.cuda.current_stream(device) for device in to}):
        for target, shard in zip(late.shards, parts.shards, strict=True):
            target.copy_(shard)
        whole = late.gather(to[-1])
        done = torch.cuda.current_stream(to[-1]).record_event()
        assert not done.query()
        for shard in late.shards:
            shard.fill_(77)
    assert_same_bits(whole, image)


@pytest.mark.parametrize("dim", [-1, -2, -3])
def test_gather_to_a_gpu_keeps_nothing(devices, dim):
    """Shards may change, and their memory and the result's be used again, while the streams lag behind."""
    to = devices(5)
    images = [make_image((5, 100, 200), seed=i) for i in range(4)]
    wholes = []
    for image in images:
        parts = split(image.to(to[0]), to, dim)
        for target in dict.fromkeys(to):
            for device in set(to):
                with torch.cuda.device(device):
                    torch.cuda._sleep(SLEEP // 4)
            late = SplitTensor.from_shards([shard.clone() for shard in parts.shards], dim)
            wholes.append((late.gather(target), image))
            late.gather(target)
            for shard in late.shards:
                shard.fill_(77)
            del late, shard
            for device in set(to):
                for size in (*(part.shape for part in image.split(parts.spec.sizes, dim)), image.shape):
                    torch.full(size, float("nan"), device=device)
    for whole, image in wholes:
        assert_same_bits(whole, image)


def test_gather_to_a_gpu_all_ways_at_once(devices):
    """A copy from another GPU waits neither for local shards nor for those on a third GPU."""
    to = [torch.device(device) for device in dict.fromkeys(devices(8))]
    if len(to) < 2:
        pytest.skip("one GPU")
    image = make_image((len(to), 300, 200))
    shards = split(image.to(to[0]), to, 0).shards
    SplitTensor.from_shards(shards, 0).gather(to[0])  # kernels are loaded when first needed
    torch.cuda.synchronize(to[0])
    for last in {0, len(to) - 1}:
        late = torch.cuda.Stream(to[last], priority=-1)  # no stream of a transfer: those have another priority
        with held_back(late):
            ready = Ready([late.record_event() if i == last else None for i in range(len(to))])
            whole = SplitTensor._of(shards, -3, ready).gather(to[0])
            for i in set(range(1, len(to))) - {last}:
                streams_of(to[0]).peer_stream("from", to[i]).synchronize()
            assert ready.arriving()
        assert_same_bits(whole, image)
