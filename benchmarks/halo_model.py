"""Times of torch_conv.distributed beside the model of docs/multi_node.md, with processes of one host.

    python benchmarks/halo_model.py --ranks 2                   # gloo, each process with one thread
    python benchmarks/halo_model.py --ranks 4 --device cuda     # NCCL

First the exchange alone, both neighbours' rows of growing length: time = latency + bytes / bandwidth, fitted. Then
filter2d 3x3 and a Gaussian of 31 taps: interior, exchange and boundary strips alone, the model, and whole calls. Some
calls filter the interior while rows travel, others wait first, with and without comparison. A time is the median of
interleaved rounds, each until the slowest rank is done.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

import torch_conv
import torch_conv.distributed as sharded
from torch_conv import kernels
from torch_conv.distributed import _operators
from torch_conv.distributed._exchange import Exchange
from torch_conv.distributed._mesh_view import mesh_view_of
from torch_conv.sharding.geometry import chunk_bounds, runs_of

ROUNDS, SECONDS = 15, 0.05
MESSAGES = (1 << 10, 1 << 14, 1 << 17, 1 << 19, 1 << 21)  # floats of a row
SIDES, WINDOWS = (2048, 8192), (3, 31)
BORDER = "circular"  # every rank has two neighbours
NEVER, ALWAYS = {"cpu": 1 << 60, "cuda": 1 << 60}, {"cpu": 0, "cuda": 0}

Calls = dict[str, Callable[[], Any]]


def medians(calls: Calls, device: str) -> dict[str, float]:
    """Seconds of the calls, the slowest rank's."""
    repeats: dict[str, int] = dict.fromkeys(calls, 1)
    samples: dict[str, list[float]] = {name: [] for name in calls}
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    for i in range(-2, ROUNDS):
        for name, call in calls.items():
            wait()
            dist.all_reduce(torch.zeros(1))  # on the host: a barrier may go by NCCL
            start = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            wait()
            taken = torch.tensor((time.perf_counter() - start) / repeats[name])
            dist.all_reduce(taken, dist.ReduceOp.MAX)
            if i < 0:
                repeats[name] = max(1, int(SECONDS / taken.item()))
            else:
                samples[name].append(taken.item())
    return {name: statistics.median(of) for name, of in samples.items()}


def exchange_of(rows: int, halo: int, mesh: Any) -> Exchange:
    """Rows of both neighbours, round in a circle."""
    n = dist.get_world_size()
    bounds = chunk_bounds(rows * n, n)

    def wanted(first: int) -> list[Any]:
        behind = first + rows
        return [*runs_of(first - halo, first, bounds, BORDER), *runs_of(behind, behind + halo, bounds, BORDER)]

    return Exchange([wanted(first) for first in bounds[:-1]], mesh_view_of("halo_model", mesh), 0)


def rank_main(rank: int, ranks: int, device: str, store: str) -> None:
    torch.set_num_threads(1)
    for library in ("GLOO", "NCCL"):
        os.environ.setdefault(f"{library}_SOCKET_IFNAME", "lo")
    os.environ["TORCH_CONV_NO_PEER"] = "1"  # messages as between hosts: ranks of one would write rows to each other
    if device == "cuda":
        torch.cuda.set_device(rank)
    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=ranks)
    mesh = init_device_mesh(device, (ranks,))
    say = print if rank == 0 else lambda *_: None
    one = exchange_of(4, 1, mesh)
    rows = {4 * floats: torch.rand(1, 1, 4, floats).to(device) for floats in MESSAGES}
    times = medians({str(size): lambda x=x: one.post(x, 2).wait() for size, x in rows.items()}, device)  # type: ignore[misc]
    for size in rows:
        say(f"{size:>8} bytes to and from each neighbour  {1e6 * times[str(size)]:8.0f} us")
    latency = min(times.values())
    bandwidth = sum(size * size for size in rows) / sum(size * (times[str(size)] - latency) for size in rows)
    say(f"latency {1e6 * latency:.0f} us, bandwidth {1e-9 * bandwidth:.2f} GB/s")
    for side in SIDES:
        for window in WINDOWS:
            alone, calls = call_of(side, window, rank, mesh, device)
            travel = latency + 4 * side * (window // 2) / bandwidth
            calls = {"model": max(alone["interior"], travel) + alone["boundaries"], **calls}
            say(f"{side}\u00b2, {window} taps; alone: {line(alone)} (by the fit {1e6 * travel:.0f}); {line(calls)}")
    dist.all_reduce(torch.zeros(1))
    sys.stdout.flush()
    os._exit(0)


def call_of(side: int, window: int, rank: int, mesh: Any, device: str) -> tuple[dict[str, float], dict[str, float]]:
    rows, halo = side // dist.get_world_size(), window // 2
    local = torch.rand(1, 1, rows, side, generator=torch.Generator().manual_seed(rank)).to(device)
    taps = kernels.gaussian1d(window)
    function: Callable[..., Any] = sharded.filter2d if window == 3 else sharded.gaussian_blur2d
    plain: Callable[..., Any] = torch_conv.filter2d if window == 3 else torch_conv.gaussian_blur2d
    args = (torch.outer(taps, taps), BORDER) if window == 3 else (window, kernels.default_sigma(window), BORDER)
    image = DTensor.from_local(local, mesh, [Shard(2)], run_check=False)
    thin = torch.rand(1, 1, 6 * halo, side).to(device)
    exchange = exchange_of(rows, halo, mesh)

    def call(large: dict[str, int], verified: bool) -> Any:
        _operators._LARGE.update(large)
        with sharded.verify(verified):
            return function(image, *args)

    times = medians(
        {
            "interior": lambda: plain(local, *args),
            "exchange": lambda: exchange.post(local, 2).wait(),
            "boundaries": lambda: plain(thin, *args),
            "overlapped": lambda: call(ALWAYS, False),
            "at once": lambda: call(NEVER, False),
            "overlapped, verified": lambda: call(ALWAYS, True),
            "at once, verified": lambda: call(NEVER, True),
        },
        device,
    )
    names = list(times)
    return {name: times[name] for name in names[:3]}, {name: times[name] for name in names[3:]}


def line(times: dict[str, float]) -> str:
    return ", ".join(f"{name} {1e6 * seconds:.0f}" for name, seconds in times.items()) + " us"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="how many processes (default: %(default)s)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="default: %(default)s")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_main, (given.ranks, given.device, f"{folder}/store"), nprocs=given.ranks)
