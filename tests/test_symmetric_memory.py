"""Exchanges through symmetric memory, simulated on the CPU, and the kernel's handshake on a GPU."""

import random
import subprocess
import sys
from itertools import pairwise

import pytest
import torch
from sharded_host_memory import Buffer

from torch_conv.distributed import _symmetric_memory
from torch_conv.distributed._exchange import Exchange
from torch_conv.sharding.geometry import chunk_bounds, runs_of


class MeshView:
    """The view of one rank; its group numbers the ranks in reverse order."""

    def __init__(self, at: int, world: int) -> None:
        self.at, self.peers = (at,), (list(range(world))[::-1],)

    def group(self, mesh_dim: int) -> "MeshView":
        return self  # of no other use here than to count exchanges for it


@pytest.mark.parametrize("border", ["constant", "replicate", "reflect", "circular"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint16, torch.uint8])
def test_every_rank_finds_the_rows_that_it_wants(border, dtype):
    pick = random.Random(7)
    for _ in range(20):
        n, world, dim = pick.randint(4, 30), pick.randint(1, 5), pick.choice([1, 2])
        bounds = chunk_bounds(n, world)
        halo = [pick.randint(0, 3), pick.randint(0, 3)]
        wants = [runs_of(low - halo[0], high + halo[1], bounds, border) for low, high in pairwise(bounds)]
        shape = [2, 5, 7]
        shape[dim] = n
        memory = [torch.zeros(2 * _symmetric_memory._SLOT_BYTES, dtype=torch.uint8) for _ in range(world)]
        for _ in range(2):
            whole = (torch.rand(shape) * 255).to(dtype)
            found = []
            for rank in range(world):
                exchange = Exchange(wants, MeshView(rank, world), 0)
                own = whole.narrow(dim, bounds[rank], bounds[rank + 1] - bounds[rank])
                row = list(shape)
                row[dim] = 1
                buffer = Buffer(memory)
                puts = exchange.address(buffer, row, dim, dtype)
                assert (puts is None) == (world == 1 or halo == [0, 0])  # no rank needs rows
                found.append((exchange, puts.post(own) if puts else []))
            for rank, (exchange, parts) in enumerate(found):
                received = iter(parts)
                for run in exchange.runs:
                    if run.owner in (rank, -1):
                        continue
                    rows = run.count if run.step else 1
                    expected = whole.narrow(dim, bounds[run.owner] + run.first, rows)
                    assert next(received).equal(expected)
                assert next(received, None) is None


def test_runs_begin_at_boundaries_and_fit_a_turn():
    assert _symmetric_memory.offsets([]) == []
    assert _symmetric_memory.offsets([1, 256, 257, 4]) == [0, 256, 512, 1024]
    assert _symmetric_memory.offsets([_symmetric_memory._SLOT_BYTES]) == [0]
    assert _symmetric_memory.offsets([_symmetric_memory._SLOT_BYTES, 1]) is None


DELIVER = torch.ops.torch_conv._deliver


def flags_of(ranks: int) -> torch.Tensor:
    """The flags of all ranks, and the counter of the kernel's blocks."""
    return torch.zeros(ranks + 1, dtype=torch.int64, device="cuda")


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8, torch.uint16])
@pytest.mark.parametrize("width", [64, 65])
@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("lies", ["dense", "channels_last", "a crop", "expanded"])
def test_rows_of_any_memory_are_delivered(cuda, dtype, width, dim, lies):
    local = torch.randint(0, 200, (2, 3, 40, width), device=cuda).to(dtype)
    if lies == "channels_last":
        local = local.contiguous(memory_format=torch.channels_last)
    elif lies == "a crop":
        local = local[:, :, 1:-1, 3:]
    elif lies == "expanded":
        local = local[:, :1].expand(-1, 3, -1, -1)
    pick = random.Random(5)
    first = [pick.randrange(local.shape[dim]) for _ in range(70)]  # more than one launch has
    rows = [pick.randint(1, local.shape[dim] - row) for row in first]
    shapes = [[*local.shape[:dim], count, *local.shape[dim + 1 :]] for count in rows]
    for runs in (70, 2, 0):
        arrived = flags_of(1)
        there = [torch.zeros(shape, dtype=dtype, device=cuda) for shape in shapes[:runs]]
        addresses = _symmetric_memory.address_table([arrived.data_ptr()], arrived, first[:runs], there, dim)
        DELIVER(local, dim, addresses, 3, 60_000)
        assert arrived.tolist() == [3, 0]
        for row, to in zip(first, there, strict=False):
            assert to.cpu().equal(local.narrow(dim, row, to.shape[dim]).cpu())


@pytest.mark.cuda
def test_ranks_wait_for_each_other(cuda):
    """Two ranks on streams of one GPU: the rows of a call are read before the call after the next overwrites them."""
    calls, arrived = 40, [flags_of(2), flags_of(2)]
    flags = [[there.data_ptr() + 8 * me for there in arrived] for me in (0, 1)]
    received = [[torch.zeros(1, 8, 512, device=cuda) for _ in (0, 1)] for _ in (0, 1)]  # by rank, then by slot
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    seen: list[list[torch.Tensor]] = [[], []]
    sent = [[torch.full((1, 8, 512), 100.0 * me + call, device=cuda) for call in range(calls)] for me in (0, 1)]
    torch.cuda.synchronize()
    for call in range(calls):
        for me in (0, 1):
            with torch.cuda.stream(streams[me]):
                if (call + me) % 3 == 0:
                    torch.cuda._sleep(200_000)  # 0.1 ms: the other one is ahead
                addresses = _symmetric_memory.address_table(
                    flags[me], arrived[me], [0], [received[1 - me][call & 1]], 1
                )
                DELIVER(sent[me][call], 1, addresses, call + 1, 60_000)
                seen[me].append(received[me][call & 1].clone())
    torch.cuda.synchronize()
    for me in (0, 1):
        for call, read in enumerate(seen[me]):
            assert read.eq(100.0 * (1 - me) + call).all()
    assert [at.tolist() for at in arrived] == [[calls, calls, 0]] * 2


NEVER = """
import time
import torch, torch_conv
from torch_conv.distributed import _symmetric_memory

local, arrived = torch.zeros(1, 8, 512, device="cuda"), torch.zeros(3, dtype=torch.int64, device="cuda")
addresses = _symmetric_memory.address_table([arrived.data_ptr(), arrived.data_ptr()], arrived, [], [], 1)
torch.cuda.synchronize()
torch.ops.torch_conv._deliver(local, 1, addresses, 1, 300)
start = time.perf_counter()
try:
    torch.cuda.synchronize()
finally:
    print(time.perf_counter() - start)
"""


@pytest.mark.cuda
def test_a_rank_that_never_comes_is_an_error_of_cuda(cuda):
    """Runs in a process of its own, because the process cannot use the GPU afterwards."""
    ran = subprocess.run([sys.executable, "-c", NEVER], capture_output=True, text=True, timeout=120)
    assert ran.returncode != 0
    assert "unspecified launch failure" in ran.stderr, ran.stderr
    assert float(ran.stdout) > 0.1  # of the 300 ms that it waits
