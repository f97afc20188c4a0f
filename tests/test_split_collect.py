"""Split images gathered on a GPU: no call waits, no buffer is kept, and copies run on all links at once."""

import pytest
import torch
from splits import GPU_PLACES, SLEEP, devices_at, held_back
from strategies import make_image
from tolerance import assert_same_bits

from torch_conv import SplitTensor, split
from torch_conv.sharding.calls import Ready
from torch_conv.sharding.transfer import streams_of

pytestmark = pytest.mark.cuda


@pytest.fixture(scope="module", params=GPU_PLACES)
def devices(request):
    return devices_at(request.param)


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
