"""Smooths a volume that is sharded over processes, one GPU each, and finds its edges.

    torchrun --nproc-per-node=2 examples/torchrun_volume.py
    torchrun --nproc-per-node=4 examples/torchrun_volume.py --size 1536 --sigma 3
    torchrun --nproc-per-node=2 examples/torchrun_volume.py --device cpu --size 96

Each process makes its slab of the volume, so that no process ever holds all of it. The volume repeats a brain scan in
all directions, or a CT phantom where nilearn is not installed. Prints the time of every step, and whether voxels on
both sides of the first shard boundary have the bits that one device gives them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))  # a checkout, after an installed package

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from volume_data import phantom, template

import torch_conv
import torch_conv.distributed

PHANTOM = 160  # voxels along each axis of the phantom that is repeated
ROWS, WIDTH = 4, 48  # of the voxels that are checked: rows on each side of the shard boundary, columns
Step = Callable[..., Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=positive, default=512, metavar="N", help="voxels along each axis (%(default)s)")
    parser.add_argument("--sigma", type=float, default=2.0, help="of the Gaussian, in voxels (%(default)s)")
    parser.add_argument("--repeats", type=positive, default=5, metavar="N", help="timed runs (%(default)s)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    if "RANK" not in os.environ:
        stop("this is started by torchrun: torchrun --nproc-per-node=2 examples/torchrun_volume.py")
    mesh = joined(args.device)
    try:
        right = run(mesh, args.size, args.sigma, args.repeats)
    except (ValueError, RuntimeError) as error:
        stop(f"rank {dist.get_rank()}: {error}")
    dist.destroy_process_group()
    if not right:
        stop("the voxels at the boundary differ from one device's")


def joined(device: str) -> DeviceMesh:
    """All processes, in the order of their slabs."""
    if device == "cuda":
        local = int(os.environ["LOCAL_RANK"])
        if local >= torch.cuda.device_count():
            stop(f"process {local + 1} of this machine has no GPU: it has {torch.cuda.device_count()}")
        torch.cuda.set_device(local)
    # Under NCCL, gloo compares the calls without a wait for the GPU.
    dist.init_process_group("gloo" if device == "cpu" else "cpu:gloo,cuda:nccl")
    return init_device_mesh(device, (dist.get_world_size(),))


def run(mesh: DeviceMesh, n: int, sigma: float, repeats: int) -> bool:
    first = dist.get_rank() == 0
    scan = template() or phantom(PHANTOM, torch.device("cpu"))
    slab = -(-n // mesh.size())  # rows of every process but perhaps the last ones
    low, high = (min(i * slab, n) for i in (dist.get_rank(), dist.get_rank() + 1))
    local = block(scan.data, (low, high), (0, n), (0, n)).to(mesh.device_type)
    shape = torch.Size((1, 1, n, n, n))
    volume = DTensor.from_local(local, mesh, [Shard(2)], shape=shape, stride=(n**3, n**3, n * n, n, 1))
    if first:
        print(f"{scan.name}, {n} x {n} x {n} float32, {mesh.size()} ranks on {mesh.device_type}", flush=True)

    right = True
    for name in ("gaussian_blur3d", "gaussian_gradient_magnitude3d"):
        whole, spread = getattr(torch_conv, name), getattr(torch_conv.distributed, name)
        result, seconds = timed(spread, volume, sigma, repeats)
        # The last rows of the first slab, and those that come behind them on the next ones.
        rows = result.to_local()
        rows = rows[:, :, max(0, slab - ROWS) :] if first else rows[:, :, :ROWS]
        boundary = torch_conv.distributed.halo_exchange(rows, mesh, 2, 0, ROWS)
        if first:
            same = has_one_devices_bits(boundary, whole, scan.data, slab, n, sigma)
            right &= same
            bits = "bits as on one device" if same else "BITS DIFFER FROM ONE DEVICE"
            rate = n**3 / seconds / 1e9
            print(f"{name:30} {1e3 * seconds:9.2f} ms {rate:8.2f} G voxels/s   {bits}", flush=True)
    return right


def block(scan: Tensor, *ranges: tuple[int, int]) -> Tensor:
    """Part of the scan repeated in all directions, every other one mirrored: (1, 1, D, H, W)."""
    part = scan
    for axis, (low, high) in enumerate(ranges):
        size = scan.shape[axis]
        at = torch.arange(low, high).remainder(2 * size)
        part = part.index_select(axis, torch.where(at < size, at, 2 * size - 1 - at))
    return part[None, None].float()


def timed(step: Step, volume: DTensor, sigma: float, repeats: int) -> tuple[DTensor, float]:
    """The result and the median of the runs' seconds, from the start of all processes to the end of the last one."""
    times = []
    for _ in range(repeats + 1):
        meet()
        start = time.perf_counter()
        result = step(volume, None, sigma)
        meet()
        times.append(time.perf_counter() - start)
    return result, sorted(times[1:])[(repeats - 1) // 2]


def meet() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    dist.all_reduce(torch.zeros(1))


def has_one_devices_bits(boundary: Tensor, step: Step, scan: Tensor, slab: int, n: int, sigma: float) -> bool:
    """Whether the last rows of the first slab, and those behind them, are what `step` gives for this part alone."""
    reach = int(4 * sigma + 0.5) + 1  # of the window and of the derivative after it
    middle = max(0, (n - WIDTH) // 2)
    rows = (max(0, slab - ROWS), min(slab + ROWS, n))
    wanted = [rows, (middle, min(middle + WIDTH, n)), (middle, min(middle + WIDTH, n))]
    ranges = [(max(0, low - reach), min(high + reach, n)) for low, high in wanted]
    expected = step(block(scan, *ranges).to(boundary.device), None, sigma)
    for axis, ((low, high), (begin, _)) in enumerate(zip(wanted, ranges, strict=True)):
        expected = expected.narrow(axis + 2, low - begin, high - low)
        boundary = boundary.narrow(axis + 2, low if axis else 0, high - low)
    return torch.equal(boundary, expected)


def positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text}")
    return int(text)


def stop(sentence: str) -> None:
    sys.stderr.write(f"torchrun_volume: {sentence}\n")
    sys.stderr.flush()
    os._exit(2)  # the other processes may be waiting for this one: torchrun ends them


if __name__ == "__main__":
    main()
