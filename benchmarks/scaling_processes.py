"""One process for each GPU, under torch.distributed: DTensor's own convolution and torch_conv.distributed."""

from __future__ import annotations

import os
import queue
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import partial
from statistics import quantiles
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from scaling_filters import filter_named
from scaling_rows import Row, Task, Timing, image
from torch import Tensor

from torch_conv.bench.common import first_line
from torch_conv.bench.rivals import cudnn
from torch_conv.bench.timing import rounds_of_queue, synchronize

BORDER = "constant"  # the only one that DTensor's convolution knows
LIMIT_S = 30  # of one collective


def processes(tasks: Sequence[Task], limit_s: float) -> list[Row]:
    """The tasks' rows, all from the same group of processes; those that never came say so."""
    context = mp.get_context("spawn")
    done = context.Queue()
    rows: dict[str, Row] = {}
    n = len(tasks[0].devices)
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            context.Process(target=_rank, args=(r, n, f"{folder}/store", list(tasks), done), daemon=True)
            for r in range(n)
        ]
        for rank in ranks:
            rank.start()
        deadline = time.monotonic() + limit_s
        why = f"no answer in {limit_s:.0f} s"
        while len(rows) < len(tasks) and time.monotonic() < deadline:
            running = [rank.is_alive() for rank in ranks]
            try:
                row = done.get(timeout=0.2)
                rows[row.name] = row
            except queue.Empty:
                if not all(running):
                    why = f"the processes ended with exit statuses {[rank.exitcode for rank in ranks]}"
                    break
        for rank in ranks:
            rank.join(10 if len(rows) == len(tasks) else 0.1)
            if rank.is_alive():
                rank.kill()
                rank.join()
    absent = [t for t in tasks if t.name not in rows]
    return [*rows.values(), *(Row(t.part, t.name, list(t.shape), n, left_out={"all": why}) for t in absent)]


def _rank(rank: int, n: int, store: str, tasks: list[Task], done: Any) -> None:
    cuda = tasks[0].devices[0] != "cpu"
    # All ranks are on this machine, whose name need not have an address.
    for library in ("GLOO", "NCCL"):
        os.environ.setdefault(f"{library}_SOCKET_IFNAME", "lo")
    if cuda:
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(1)
    try:
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if cuda else "gloo",
            init_method=f"file://{store}",
            rank=rank,
            world_size=n,
            timeout=timedelta(seconds=LIMIT_S),
        )
        for task in tasks:
            row = Row(task.part, task.name, list(task.shape), n)
            try:
                with torch.no_grad():
                    _measure(task, row, rank, torch.device("cuda", rank) if cuda else torch.device("cpu"))
            except Exception as error:
                row.left_out["the others"] = f"{type(error).__name__}: {first_line(error)}"
                traceback.print_exc()
            if rank == 0:
                done.put(row)
            if cuda:
                torch.cuda.empty_cache()
        dist.barrier()
    except Exception:
        traceback.print_exc()
    done.close()
    done.join_thread()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a group with a failed collective may wait for it for ever


def _measure(task: Task, row: Row, rank: int, device: torch.device) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard

    n = dist.get_world_size()
    mesh = init_device_mesh(device.type, (n,))
    whole = image(task.shape, device)
    filtering = filter_named(task.filter, BORDER, task.dim, device)
    taps = filtering.window
    assert taps is not None
    expected = filtering.whole(whole)

    def part(x: Tensor, dim: int) -> Tensor:
        return x.chunk(n, dim)[rank]

    def sharded(dim: int) -> DTensor:
        local = part(whole, dim).contiguous()
        return DTensor.from_local(local, mesh, [Shard(dim)], run_check=False, shape=whole.shape, stride=whole.stride())

    rows, columns = sharded(2), sharded(3)
    weight = DTensor.from_local(taps[None, None].to(device), mesh, [Replicate()], run_check=False)
    candidates: dict[str, tuple[Callable[[], Any], Callable[[], AbstractContextManager[Any]], int, float]] = {}

    def conv() -> Any:
        return F.conv2d(columns, weight, padding=taps.shape[-1] // 2)

    candidates["DTensor F.conv2d"] = (conv, cudnn(tf32=False), 3, 5e-6)
    if device.type == "cuda":
        candidates["DTensor F.conv2d TF32"] = (conv, cudnn(tf32=True), 3, 5e-3)
    candidates["one"] = (lambda: filtering.whole(whole) if rank == 0 else None, nullcontext, -1, 0.0)
    try:
        import torch_conv.distributed as ours

        for name, on in (("distributed", True), ("distributed, not verified", False)):
            function: Callable[..., Any] = ours.filter2d
            candidates[name] = (partial(function, rows, taps, BORDER), partial(ours.verify, on), 2, 0.0)
    except Exception as error:
        row.left_out["distributed"] = f"{type(error).__name__}: {first_line(error)}"
    samples: dict[str, list[float]] = {}
    repeats: dict[str, int] = {}
    for name, (call, context, dim, tolerance) in candidates.items():
        failure = None
        try:
            with context():
                result = call()
                if dim >= 0:
                    off = (result.to_local() - part(expected, dim)).abs().max().item()
                    row.max_error[name] = off
                    row.expect(f"{name}: rank {rank} is off by {off:.2g}", off <= tolerance)
                del result
        except Exception as error:
            failure = f"{type(error).__name__}: {first_line(error)}"
        failures = _everyone(failure)
        if any(failures):
            row.left_out[name] = next(f for f in failures if f)
            continue
        with context():
            _sample(call, 3, device)
            repeats[name] = rounds_of_queue(partial(_queue, call, device), seconds=task.seconds, few=3)
        samples[name] = []
    row.wrong = [sentence for sentences in _everyone(row.wrong) for sentence in sentences]
    row.correct = not row.wrong
    for _ in range(task.rounds):
        for name in samples:
            call, context = candidates[name][:2]
            with context():
                samples[name].append(_sample(call, repeats[name], device))
    for name, seconds_each in samples.items():
        low, middle, high = quantiles(seconds_each, n=4, method="inclusive")
        row.timings[name] = Timing(1e6 * middle, 1e6 * (high - low), task.rounds)
    one = row.timings.get("one")
    if one is not None:
        others = {name: t for name, t in row.timings.items() if name != "one"}
        row.efficiency = {name: one.median_us / (n * t.median_us) for name, t in others.items()}


def _everyone(value: Any) -> list[Any]:
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, value, group=_host_group())
    return gathered


_group: list[dist.ProcessGroup] = []


def _host_group() -> dist.ProcessGroup:
    """A group over host memory, for what is not measured."""
    if not _group:
        _group.append(dist.new_group(backend="gloo", timeout=timedelta(seconds=LIMIT_S)))
    return _group[0]


def _sample(call: Callable[[], Any], repeats: int, device: torch.device) -> float:
    """Seconds per call of a queue of calls."""
    return _queue(call, device, repeats) / repeats


def _queue(call: Callable[[], Any], device: torch.device, repeats: int) -> float:
    """Seconds of a queue of calls, until the last rank is done: the same number on all ranks."""
    synchronize([device])
    dist.barrier(group=_host_group())
    start = time.perf_counter()
    result = None
    for _ in range(repeats):
        result = call()
    synchronize([device])
    del result
    taken = torch.tensor(time.perf_counter() - start)
    dist.all_reduce(taken, dist.ReduceOp.MAX, group=_host_group())
    return taken.item()
