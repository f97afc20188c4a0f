"""What a call says when another rank is gone or the group has ended: an ExchangeError, soon."""

from __future__ import annotations

import datetime
import os

import processes
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import torch_conv.distributed as sharded

TIMEOUT = 1800  # seconds that a group waits: ten times the limit of a test, so a rank that is gone is noticed before


def said(call) -> str:
    try:
        call()
    except sharded.ExchangeError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def worker(rank: int, file: str, answers: mp.Queue) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    timeout = datetime.timedelta(seconds=TIMEOUT)
    dist.init_process_group("gloo", f"file://{file}", world_size=2, rank=rank, timeout=timeout)
    mesh = init_device_mesh("cpu", (2,))
    image = distribute_tensor(torch.ones(2, 8, 8), mesh, [Shard(1)])
    kernel = torch.ones(3, 3)
    sharded.filter2d(image, kernel)
    if rank == 1:
        os._exit(0)
    with sharded.verify(True):
        answers.put(("compared", said(lambda: sharded.filter2d(image, kernel))))
    answers.put(("exchanged", said(lambda: sharded.filter2d(image, kernel))))
    answers.put(("halo", said(lambda: sharded.halo_exchange(image.to_local(), mesh, 1, 1, 1))))
    dist.destroy_process_group()
    answers.put(("destroyed", said(lambda: sharded.filter2d(image, kernel))))
    answers.close()
    answers.join_thread()
    os._exit(0)


def test_a_rank_that_is_gone_is_noticed(tmp_path):
    context = processes.context()
    answers = context.Queue()
    ranks = [context.Process(target=worker, args=(rank, f"{tmp_path}/meet", answers), daemon=True) for rank in (0, 1)]
    for process in ranks:
        process.start()
    told = dict(answers.get(timeout=150) for _ in range(4))
    for process in ranks:
        process.join(timeout=30)
    assert told["compared"].startswith("filter2d: the exchange between ranks failed: ")
    assert told["exchanged"].startswith("filter2d: an earlier call failed on this rank, and the others do not wait: ")
    assert told["halo"].startswith("halo_exchange: the exchange between ranks failed: ")
    assert told["destroyed"] == "filter2d: torch.distributed has no process group"
