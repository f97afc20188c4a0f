"""Cases of test_distributed.py: cached calls, overlapped exchanges, symmetric memory, failed calls."""

import datetime

import torch
import torch.distributed as dist
from sharded_group import BORDERS, case, check, part_of, refused, spread
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

import torch_conv
import torch_conv.distributed as sharded
from torch_conv.distributed import _exchange, _operators, _progress, _symmetric_memory
from torch_conv.distributed._progress import progress_of


@case
def calls_like_earlier_ones_compute_anew(g):
    """A cached call has its own image, kernel and result."""
    k, weight = torch.rand(3, 3), torch.rand(2, 1, 3, 3).to(g.device)
    way = {"algorithm": "direct"}
    for seed in range(3):
        x = g.image(1, 2, 16, 12, seed=seed)
        for dim in (0, 2, 3):
            check(g, g.mesh(), [Shard(dim)], "filter2d", x, k, "circular")
            check(g, g.mesh(), [Shard(dim)], "filter2d", x.to(memory_format=torch.channels_last), k, "circular")
            check(g, g.mesh(), [Shard(dim)], "filter2d", x, k.to(g.device), "circular")
            check(g, g.mesh(), [Shard(dim)], "gaussian_blur2d", x, 5, torch.tensor([[1.0, 1.5]]))
            check(g, g.mesh(), [Shard(dim)], "box_blur", x, 3, exact=False)
            check(g, g.mesh(), [Shard(dim)], "conv2d", x, weight, None, 1, 1, 1, 2, **way)
            check(g, g.mesh(), [Shard(dim)], "unsharp_mask", x, 5, 1.0)
    image = spread(x, g.mesh(), Shard(2))
    first, second = (sharded.filter2d(image, k, "circular").to_local() for _ in range(2))
    g.expect(torch.equal(first, second) and (first.numel() == 0 or first.data_ptr() != second.data_ptr()))
    window = k.clone()
    for add in (0, 1, 0):  # the same tensor with other values, and back
        check(g, g.mesh(), [Shard(2)], "filter2d", x, window + add)
        window += 1
        check(g, g.mesh(), [Shard(2)], "filter2d", x, window)
        window -= 1


@case
def rows_travel_while_the_interior_is_filtered(g):
    taken = []
    whole, overlapped = dict(_operators._LARGE), _operators._overlapped
    _operators._LARGE.update(cpu=0, cuda=0)
    group = g.mesh().get_group()
    before = {group: _symmetric_memory.buffers.get(group)}
    _symmetric_memory.buffers[group] = None  # which on one host would bring rows in no time
    _operators._overlapped = lambda *args: taken.append(1) or overlapped(*args)

    def both(x, dim, name, *args, expected=True, **kw):
        taken.clear()
        for _ in range(2):
            check(g, g.mesh(), [Shard(dim)], name, x, *args, **kw)
        g.expect((len(taken) > 0) == expected, name, dim, args, kw, len(taken))

    try:
        x = g.image(2, 2, 24 * g.world, 21 * g.world)
        for border in BORDERS:
            for dim in (2, 3):
                both(x, dim, "filter2d", torch.rand(3, 3), border, value=0.5)
                both(x, dim, "filter2d", torch.rand(4, 5), border, anchor=(0, 4))
                both(x, dim, "filter2d", torch.rand(5, 3), border, anchor=(4, 0))
                both(x, dim, "filter2d", torch.rand(2, 2, 3, 3), border, dilation=2)
                both(x, dim, "gaussian_blur2d", 5, 1.0, border)
            both(x, 2, "gaussian_sobel", 3, 1.0, border)
            both(x.to(memory_format=torch.channels_last), 2, "filter2d", torch.rand(3, 3), border)
        both(x.half(), 2, "filter2d", torch.rand(3, 3), algorithm="direct")
        both(x.half(), 2, "filter2d", torch.rand(3, 3), expected=False)
        both(x.to(torch.uint8), 2, "sobel", algorithm="direct")
        both(x, 2, "thin_edges", 3, 1.0, expected=False)
        both(x, 2, "structure_tensor", 3, 0.5)
        both(x, 2, "filter2d", torch.rand(3, 3), stride=2, expected=False)
        both(x, 2, "filter2d", torch.rand(3, 3), padding="valid", expected=False)
        both(g.image(1, 2, 12 * g.world, 7, 8), 2, "gaussian_blur3d", 3, 1.0)
        both(g.image(1, 1, 12 * g.world, 7, 8), 2, "filter3d", torch.rand(3, 3, 3), "circular")
        # The last rank has fewer rows than its neighbour's halo, or none; only ranks with an interior overlap.
        for n in (13 * g.world - 11, 12 * g.world + 1):
            for border in BORDERS:
                check(g, g.mesh(), [Shard(2)], "filter2d", g.image(1, 2, n, 6), torch.rand(3, 2), border)
    finally:
        _operators._overlapped = overlapped
        _operators._LARGE.update(whole)
        del _symmetric_memory.buffers[group]
        _symmetric_memory.buffers.update({group: buffer for group, buffer in before.items() if buffer})


@case
def empty_shards_of_any_shape(g):
    """Torch gives a rank without rows a tensor of one dimension."""
    for n in range(2, 2 * g.world + 1):
        x, kernel = g.image(n, 2), torch.ones(2, 2)
        local = part_of(x, g.mesh(), [Shard(0)])
        local = local.clone() if local.numel() else torch.empty(0, device=g.device)
        image = DTensor.from_local(local, g.mesh(), [Shard(0)], run_check=False, shape=x.shape, stride=x.stride())
        expected = part_of(torch_conv.filter2d(x, kernel, padding="valid"), g.mesh(), [Shard(0)])
        for _ in range(3):
            result = sharded.filter2d(image, kernel, padding="valid").to_local()
            g.expect(result.shape == expected.shape and torch.equal(result, expected), n, result.shape)


@case
def rows_come_by_symmetric_memory(g):
    """GPUs of one host exchange through both slots, on several streams, any dtype; NCCL carries larger rows."""
    if g.device == "cpu":
        return
    g.expect(_symmetric_memory.buffer_of(g.mesh().get_group(), g.here) is not None)
    slots, begin = [], _symmetric_memory.SymmetricBuffer.begin
    _symmetric_memory.SymmetricBuffer.begin = lambda buffer: slots.append(begin(buffer)) or slots[-1]
    side = torch.cuda.Stream()
    try:
        for seed in range(6):
            x = g.image(1, 2, 64 * g.world, 512, seed=seed)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side if seed % 3 == 1 else torch.cuda.current_stream()):
                check(g, g.mesh(), [Shard(2)], "filter2d", x, torch.rand(3, 3), BORDERS[seed])
                check(g, g.mesh(), [Shard(3)], "filter2d", x, torch.rand(3, 3), BORDERS[seed])
        g.expect(len(slots) == 12 and set(slots) == {0, 1}, slots)
        x = x.to(memory_format=torch.channels_last)
        for inference in (True, False, True):  # the cached call serves either mode
            with torch.inference_mode(inference):
                check(g, g.mesh(), [Shard(2)], "filter2d", x, torch.ones(5, 5), "circular")
        # Many calls without a wait: each reads its own rows.
        windows = [torch.rand(3, 3) for _ in range(20)]
        images = [g.image(1, 1, 16 * g.world, 4096, seed=i) for i in range(20)]
        spreads = [spread(x, g.mesh(), Shard(2)) for x in images]
        if g.rank == 0:
            torch.cuda._sleep(50_000_000)  # this rank's GPU comes late
        results = [sharded.filter2d(x, k, "circular") for x, k in zip(spreads, windows, strict=True)]
        for x, k, result in zip(images, windows, results, strict=True):
            expected = part_of(torch_conv.filter2d(x, k, "circular"), g.mesh(), [Shard(2)])
            g.expect(torch.equal(result.to_local(), expected))
        for dtype in (torch.uint16, torch.uint8, torch.float64):
            check(g, g.mesh(), [Shard(2)], "filter2d", g.image(1, 1, 8 * g.world, 16, dtype=dtype), torch.ones(3, 3))
        slots.clear()
        wide = g.image(1, 1, 8 * g.world, (_symmetric_memory._SLOT_BYTES >> 3) + 64)  # two rows and more than a slot
        check(g, g.mesh(), [Shard(2)], "filter2d", wide, torch.rand(3, 3), "circular")
        g.expect(not slots, "too large")
    finally:
        _symmetric_memory.SymmetricBuffer.begin = begin


@case
def ranks_that_all_failed_resume(g):
    """After refused calls, and after calls that ran out of memory before their exchange."""
    x, k = g.image(1, 2, 8 * g.world, 16), torch.rand(3, 3)
    image, progress = spread(x, g.mesh(), Shard(2)), progress_of(g.mesh().get_group())
    exchanged_by = _exchange.Exchange._puts_for

    def run_out(*args):
        raise torch.OutOfMemoryError("no memory")

    for border in BORDERS[:4]:
        check(g, g.mesh(), [Shard(2)], "filter2d", x, k)
        refused(
            g, lambda: sharded.filter2d(image, k if g.rank else None, "nowhere"), (TypeError, ValueError), "filter2d"
        )
        g.expect(progress.failed)
        for _ in range(3):
            check(g, g.mesh(), [Shard(2)], "filter2d", x, k)
        g.expect(not progress.failed)
        _exchange.Exchange._puts_for = run_out
        try:
            refused(g, lambda: sharded.filter2d(image, k[1:], border), torch.OutOfMemoryError, "no memory")  # noqa: B023
        finally:
            _exchange.Exchange._puts_for = exchanged_by
        check(g, g.mesh(), [Shard(2)], "filter2d", x, k)
        with sharded.verify(True):  # all have an error
            kind = ValueError if g.rank == 0 else sharded.RankError
            refused(g, lambda: sharded.filter2d(image, k, "reflect" if g.rank else "nowhere"), kind, "filter2d")
        g.expect(not progress.failed)


@case
def ranks_whose_exchanges_differ_do_not_resume(g):
    x, k = g.image(1, 2, 8 * g.world, 16), torch.rand(3, 3)
    image, progress = spread(x, g.mesh(), Shard(2)), progress_of(g.mesh().get_group())
    refused(g, lambda: sharded.filter2d(image, k, "nowhere"), ValueError, "filter2d")
    progress.stages += 2 * (g.rank == 0)
    differ = "filter2d: an earlier call failed, and the ranks' calls differ since"
    for _ in range(2):
        refused(g, lambda: sharded.filter2d(image, k), sharded.ExchangeError, differ)
    progress.stages -= 2 * (g.rank == 0)
    check(g, g.mesh(), [Shard(2)], "filter2d", x, k)


@case
def ranks_that_failed_in_different_calls_do_not_resume(g):
    """Rank 0 is refused in a call without an exchange, the others in the next call; the exchanges are equally many."""
    x, k = g.image(4, 2, 8 * g.world, 16), torch.rand(3, 3)
    rows, batch = spread(x, g.mesh(), Shard(2)), spread(x, g.mesh(), Shard(0))
    progress = progress_of(g.mesh().get_group())
    differ = "filter2d: an earlier call failed, and the ranks' calls differ since"
    mistakes = [lambda: sharded.filter2d(batch, None), lambda: sharded.filter2d(x, k)]  # the latter names no mesh
    others = [(other, other.calls, other.failed) for other in _progress._progress.values() if other is not progress]
    for mistake in mistakes:
        if g.rank == 0:
            refused(g, mistake, TypeError, "filter2d")
        else:
            check(g, g.mesh(), [Shard(0)], "filter2d", x, k)
            refused(g, lambda: sharded.filter2d(rows, k, "nowhere"), ValueError, "filter2d")
        refused(g, lambda: sharded.filter2d(rows, k), sharded.ExchangeError, differ)
        progress.calls += g.rank == 0
        check(g, g.mesh(), [Shard(2)], "filter2d", x, k)
    for other, calls, failed in others:
        other.calls, other.failed = calls, failed


@case
def a_rank_that_failed_alone_resumes_with_the_ranks_that_compare(g):
    """After one rank's failure, compared calls resume."""
    x, k = g.image(1, 2, 8 * g.world, 16), torch.rand(3, 3)
    image, progress = spread(x, g.mesh(), Shard(2)), progress_of(g.mesh().get_group())
    for compared in range(2):
        check(g, g.mesh(), [Shard(2)], "filter2d", x, k)
        progress.failed = g.rank == 0
        if compared:
            local, wanted = image.to_local(), x.cpu()
            part = sharded.halo_exchange(local, g.mesh(), 2, 1, 0, "circular").cpu()
            first = local.shape[2] * g.rank
            g.expect(part[:, :, :1].equal(wanted[:, :, first - 1 : first or None]), "rows of the shard before")
        else:
            with sharded.verify(True):
                check(g, g.mesh(), [Shard(2)], "filter2d", x, k)
        g.expect(not progress.failed)


@case
def ranks_that_failed_apart_do_not_resume(g):
    """One rank refuses a call and makes another; the other ranks do not take its rows for those of the refused call."""
    if g.device != "cpu":
        return  # a wait that ends with an error of CUDA ends the process
    group = dist.new_group(timeout=datetime.timedelta(seconds=2))
    mesh = DeviceMesh.from_group(group, g.device)
    x, k = g.image(1, 2, 2 * g.world, 16), torch.rand(2 * g.world - 1, 3)  # each rank reads all ranks' rows
    image = spread(x, mesh, Shard(2))
    check(g, mesh, [Shard(2)], "filter2d", x, k, "circular")
    if g.rank == 0:
        refused(g, lambda: sharded.filter2d(image, k, "nowhere"), ValueError, "filter2d")
        failed = "filter2d: an earlier call failed on this rank, and the others do not wait: "
        refused(g, lambda: sharded.filter2d(image, 2 * k, "circular"), sharded.ExchangeError, failed)
    else:
        failed = "filter2d: the exchange between ranks failed: "
        refused(g, lambda: sharded.filter2d(image, k, "circular"), sharded.ExchangeError, failed)
    dist.barrier()
