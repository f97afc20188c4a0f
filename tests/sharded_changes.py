"""Cases of test_distributed.py: calls that resemble a cached one, with other values, types or memory; a CUDA graph."""

import time

import torch
from sharded_group import R, case, check, part_of, refused, spread
from torch.autograd import forward_ad
from torch.distributed.tensor import DTensor, Shard

import torch_conv
import torch_conv.distributed as sharded
from torch_conv.distributed import _call, _symmetric_memory

ROWS = [Shard(2)]
WRITES = {  # changes that torch counts as a version of the tensor, and others
    "in place": lambda window, value: window[0].fill_(value),
    "through data": lambda window, value: window.data[0].fill_(value),
    "by numpy": lambda window, value: window.numpy()[0].fill(value),
}


def is_right(g, name, image, whole, *args, **kw):
    """Compares the function on an existing DTensor with the function on the whole image."""
    expected = part_of(getattr(torch_conv, name)(whole, *args, **kw), g.mesh(), image.placements)
    result = getattr(sharded, name)(image, *args, **kw).to_local()
    g.expect(result.dtype == expected.dtype and torch.equal(result, expected), name, args, kw)


@case
def repeated_calls_take_the_short_way(g):
    x, k = g.image(1, 2, 8 * g.world, 9), torch.rand(3, 3)
    image, spread_window = spread(x, g.mesh(), *ROWS), spread(k.to(g.device), g.mesh(), R)
    long_ways, describe = [], _call.ShardedCall.describe
    _call.ShardedCall.describe = lambda *args: long_ways.append(1) or describe(*args)
    try:
        for call, expected in (
            (lambda: sharded.filter2d(image, k), (k,)),
            (lambda: sharded.filter2d(image, k.clone(), "reflect", out=None), (k,)),
            (lambda: sharded.filter2d(input=image, kernel=k, border_type="circular"), (k, "circular")),
            (lambda: sharded.filter2d(spread(x, g.mesh(), *ROWS), k), (k,)),
            (lambda: sharded.filter2d(image, k.to(g.device)), (k,)),
            (lambda: sharded.filter2d(image, spread_window), (k,)),
        ):
            for verified in (False, True, False):
                with sharded.verify(verified):
                    for repeat in range(3):
                        long_ways.clear()
                        whole = torch_conv.filter2d(x, *expected)
                        g.expect(torch.equal(call().to_local(), part_of(whole, g.mesh(), ROWS)))
                        g.expect(not long_ways or not repeat or verified, "repeat", repeat)
        chained = image
        for _ in range(4):  # the result of a call is the next one's image
            chained, x = sharded.filter2d(chained, k), torch_conv.filter2d(x, k)
        g.expect(torch.equal(chained.to_local(), part_of(x, g.mesh(), ROWS)))
    finally:
        _call.ShardedCall.describe = describe


@case
def repeated_calls_are_one_visit(g):
    """On GPUs of one host, cached launches exchange and compute in one call of C++, if the graph fits."""
    if g.device == "cpu":
        return
    visits, visit = [], _symmetric_memory.SymmetricBuffer.deliver_and_repeat
    _symmetric_memory.SymmetricBuffer.deliver_and_repeat = lambda *args: visits.append(visit(*args)) or visits[-1]
    k, windows = torch.rand(3, 3), {"window": torch.rand(5, 5).to(g.device), "sigma": torch.tensor([[1.0, 1.5]])}
    calls = {
        "filter2d": lambda x: (x, k, "circular"),
        "filter2d_separable": lambda x: (x, k[0], k[1], "constant"),
        "gaussian_blur2d": lambda x: (x, 5, windows["sigma"]),
        "sobel": lambda x: (x,),
        "gaussian_sobel": lambda x: (x, 5, 1.0),
        "gaussian_downsample": lambda x: (x, 5, 1.0),
        "conv2d": lambda x: (x, windows["window"].expand(2, 1, 5, 5), None, 1, 2, 1, 2),
    }
    side = torch.cuda.Stream()

    def is_one_visit(name, image, x, expected=True):
        args = calls[name](x)[1:]
        whole = part_of(getattr(torch_conv, name)(x, *args), g.mesh(), ROWS)
        visits.clear()
        result = getattr(sharded, name)(image, *args).to_local()
        g.expect(torch.equal(result, whole), name)
        g.expect([bool(made) for made in visits] == [True] * expected, name, visits)

    try:
        x = g.image(1, 2, 8 * g.world, 96)
        images = [spread(x, g.mesh(), *ROWS) for _ in range(2)]
        for name in calls:
            for inference in (False, True, False):
                with torch.inference_mode(inference):
                    for image in images * 2:
                        is_right(g, name, image, x, *calls[name](x)[1:])
                    is_one_visit(name, images[1], x)
        for seed in range(4):  # other values, and other memory
            x = g.image(1, 2, 8 * g.world, 96, seed=seed)
            k.uniform_()
            for _ in range(2):
                is_right(g, "filter2d", spread(x, g.mesh(), *ROWS), x, k, "circular")
            is_one_visit("filter2d", spread(x, g.mesh(), *ROWS), x)
        image = spread(x, g.mesh(), *ROWS)
        for _ in range(2):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):  # a call piece by piece orders the streams
                is_one_visit("filter2d", image, x, False)
                is_one_visit("filter2d", image, x)
            torch.cuda.current_stream().wait_stream(side)
            is_one_visit("filter2d", image, x, False)
        is_one_visit("filter2d", image, x)
        # One rank makes a different call, or is refused: all ranks get an error, and the next call is cached.
        differ = f"filter2d: arguments differ between ranks 0 and {g.world - 1}"
        border = "circular" if g.rank < g.world - 1 else "reflect"
        for _ in range(3):
            with sharded.verify(True):
                refused(g, lambda: sharded.filter2d(image, k, border), sharded.RankError, differ)
            is_one_visit("filter2d", image, x)
            kind, text = (TypeError, "kernel") if g.rank == 0 else (sharded.RankError, "rank 0 refused the call")
            with sharded.verify(True):
                refused(g, lambda: sharded.filter2d(image, k if g.rank else None, "circular"), kind, text)
            is_one_visit("filter2d", image, x)
            refused(g, lambda: sharded.filter2d(image, None, "circular"), TypeError, "kernel")
            is_one_visit("filter2d", image, x, False)  # the ranks resume
            is_one_visit("filter2d", image, x)
        # Memory of another alignment, and a late rank
        odd = x.new_empty(image.to_local().numel() + 1)[1:].view(image.to_local().shape).copy_(image.to_local())
        for other in (odd, image.to_local(), odd, odd):
            again = DTensor.from_local(other, g.mesh(), ROWS, run_check=False, shape=x.shape, stride=x.stride())
            is_right(g, "filter2d", again, x, k, "circular")
        for late in range(g.world):
            time.sleep(0.05 * (g.rank == late))
            is_right(g, "filter2d", image, x, k, "circular")
    finally:
        _symmetric_memory.SymmetricBuffer.deliver_and_repeat = visit


@case
def windows_that_changed_are_noticed(g):
    x = g.image(1, 2, 8 * g.world, 9)
    image = spread(x, g.mesh(), *ROWS)
    for size in (3, 15, 41):  # compared by value, the last by a digest
        for write in WRITES.values():
            k = torch.rand(size, size)
            for value in (1.0, 2.0, 1.0):
                for _ in range(2):
                    is_right(g, "filter2d", image, x, k)
                write(k, value)
            is_right(g, "filter2d", image, x, torch.rand(size, size))
            # Only one rank's kernel changes: all ranks get an error.
            write(k, 3.0 + (g.rank == g.world - 1))
            differ = f"filter2d: arguments differ between ranks 0 and {g.world - 1}"
            with sharded.verify(True):
                refused(g, lambda: sharded.filter2d(image, k), sharded.RankError, differ)  # noqa: B023
            write(k, 1.0)
            is_right(g, "filter2d", image, x, k)
    sigma = torch.tensor([[1.0, 1.5]])  # of which the function makes the windows
    for value in (1.0, 2.0):
        for _ in range(3):
            is_right(g, "gaussian_blur2d", image, x, 5, sigma)
        WRITES["by numpy"](sigma, value)
    is_right(g, "gaussian_blur2d", image, x, 5, sigma)


@case
def arguments_that_look_alike_are_told_apart(g):
    x, k = g.image(1, 2, 8 * g.world, 9) - 2, torch.rand(3, 3)
    image = spread(x, g.mesh(), *ROWS)
    for _ in range(3):
        is_right(g, "filter2d", image, x, torch.zeros(3, 3), "constant", value=0.0)
        is_right(g, "filter2d", image, x, torch.zeros(3, 3), "constant", value=-0.0)
        is_right(g, "filter2d", image, x, k, "constant", value=1)
        is_right(g, "filter2d", image, x, k, "constant", value=1.5)
        is_right(g, "filter2d", image, x, k, normalized=True)
        is_right(g, "filter2d", image, x, k, "reflect", True)
        is_right(g, "filter2d", image, x, k, "reflect", False)
        is_right(g, "filter2d", image, x, k, stride=2)
        is_right(g, "filter2d", image, x, k, dilation=2)
        is_right(g, "filter2d", image, x, k.t())
        is_right(g, "filter2d", image, x, k.expand(1, 3, 3))
        is_right(g, "filter2d", image, x, k.double())
        is_right(g, "filter2d", image, x, k.to(torch.complex64).mul(1j).conj().imag)  # its bits are k's, negated
        sharded.filter2d(image, k, "circular") if g.rank else sharded.filter2d(image, border_type="circular", kernel=k)
    refused(g, lambda: sharded.filter2d(image, k, "circular", kernel=k), TypeError, "multiple values")
    refused(g, lambda: sharded.filter2d(kernel=k), TypeError, "filter2d: missing a required argument: 'input'")
    refused(g, lambda: sharded.filter2d(image, k, "circular", input=image), TypeError, "multiple values")
    wrong = g.rank == g.world - 1
    differ = f"filter2d: arguments differ between ranks 0 and {g.world - 1}"
    negated = torch._neg_view(k) if wrong else k  # the same bytes
    weight = torch.rand(2, 2, 3, 3, dtype=torch.complex64)
    conjugated = weight.conj() if wrong else weight  # the same bytes
    wave = spread(x.to(torch.complex64), g.mesh(), *ROWS)
    with sharded.verify(True):
        refused(g, lambda: sharded.filter2d(image, k, "reflect", wrong), sharded.RankError, differ)
        refused(g, lambda: sharded.filter2d(image, negated), sharded.RankError, differ)
        if g.device == "cpu":
            differ = differ.replace("filter2d", "conv2d")
            refused(g, lambda: sharded.conv2d(wave, conjugated), sharded.RankError, differ)


@case
def images_of_one_spec_are_told_apart(g):
    k = torch.rand(3, 3)
    x = g.image(1, 2, 8 * g.world, 9)
    image = spread(x, g.mesh(), *ROWS)
    for seed in range(3):
        x = g.image(1, 2, 8 * g.world, 9, seed=seed)
        image.to_local().copy_(part_of(x, g.mesh(), ROWS))
        is_right(g, "filter2d", image, x, k)
        check(g, g.mesh(), ROWS, "filter2d", x, k)
        local = part_of(x, g.mesh(), ROWS).to(memory_format=torch.channels_last)  # laid out as the spec does not say
        other = DTensor.from_local(local, g.mesh(), ROWS, run_check=False, shape=x.shape, stride=x.stride())
        is_right(g, "filter2d", other, x, k)
    # The same spec, with fewer rows on one rank
    local = part_of(x, g.mesh(), ROWS)[:, :, (g.rank == 1) :]
    lopsided = DTensor.from_local(local, g.mesh(), ROWS, run_check=False, shape=x.shape, stride=x.stride())
    refusal = (ValueError, "this rank must hold") if g.rank == 1 else (sharded.RankError, "rank 1 refused the call")
    with sharded.verify(True):
        refused(g, lambda: sharded.filter2d(lopsided, k), *refusal)
    is_right(g, "filter2d", image, x, k)
    # Another dtype than the spec's on one rank, of the same size
    half = spread(x.half(), g.mesh(), *ROWS)
    for _ in range(2):
        is_right(g, "filter2d", half, x.half(), k)
    local = half.to_local().bfloat16() if g.rank == g.world - 1 else half.to_local()
    differ = f"filter2d: arguments differ between ranks 0 and {g.world - 1}"
    other = DTensor(local, half._spec, requires_grad=False)
    with sharded.verify(True):
        refused(g, lambda: sharded.filter2d(other, k), sharded.RankError, differ)
    is_right(g, "filter2d", half, x.half(), k)


@case
def modes_are_noticed(g):
    x, k = g.image(1, 2, 8 * g.world, 9), torch.rand(3, 3)
    weight = torch.rand(2, 1, 3, 3).to(g.device)
    image = spread(x, g.mesh(), *ROWS)
    byte = spread(g.image(1, 2, 8 * g.world, 9, dtype=torch.uint8), g.mesh(), *ROWS)
    for _ in range(3):
        for dtype in (torch.float32, torch.float64):
            torch.set_default_dtype(dtype)
            try:
                is_right(g, "filter2d", image, x, k)
                is_right(g, "gaussian_blur2d", image, x, 5, 1.0)
                is_right(g, "gaussian_blur2d", byte, byte.full_tensor(), 5, 1.0)
            finally:
                torch.set_default_dtype(torch.float32)
        for enabled in (False, True):
            with torch.autocast(g.device, torch.bfloat16, enabled=enabled):
                is_right(g, "conv2d", image, x, weight, None, 1, 1, 1, 2, algorithm="direct")
        with torch.inference_mode():
            is_right(g, "filter2d", image, x, k)
        with torch.device(g.device):  # torch's default, where this call's exchange is new
            is_right(g, "filter2d", image, x, torch.ones(5, 5, device="cpu"), "circular")
        with forward_ad.dual_level():
            is_right(g, "filter2d", image, x, k)
            dual = forward_ad.make_dual(k, torch.ones_like(k))
            refused(g, lambda: sharded.filter2d(image, dual), RuntimeError, "")  # noqa: B023


@case
def gradients_are_refused_after_calls_without(g):
    x, k = g.image(1, 2, 8 * g.world, 9), torch.rand(3, 3)
    image = spread(x, g.mesh(), *ROWS)
    for wanted in (False, True, False):
        for source in (image, k):
            source.requires_grad_(wanted)
            for _ in range(3):
                g.expect(sharded.filter2d(image, k).requires_grad == wanted)
                with torch.no_grad():
                    g.expect(not sharded.filter2d(image, k).requires_grad)
                    is_right(g, "filter2d", image, x, k)
            source.requires_grad_(False)


@case
def graphs_carry_rows_by_nccl(g):
    """A capture follows exchanges through symmetric memory, and such exchanges run between its replays."""
    if g.device == "cpu":
        return
    kernel, rows = torch.rand(3, 3, generator=torch.Generator().manual_seed(1)), [Shard(2)]
    image = spread(g.image(1, 2, 8 * g.world, 64), g.mesh(), *rows)

    def is_right(result, x):
        expected = part_of(torch_conv.filter2d(x, kernel, "circular"), g.mesh(), rows)
        g.expect(torch.equal(result.to_local(), expected))

    for _ in range(3):
        sharded.filter2d(image, kernel, "circular")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = sharded.filter2d(image, kernel, "circular")
    for seed in range(1, 4):
        x = g.image(1, 2, 8 * g.world, 64, seed=seed)
        image.to_local().copy_(part_of(x, g.mesh(), rows))
        graph.replay()
        is_right(result, x)
        is_right(sharded.filter2d(image, kernel, "circular"), x)
