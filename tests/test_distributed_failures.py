"""Calls of a rank whose peer is gone, whose group is destroyed, or that runs out of memory."""

import contextlib
import datetime
import os
from unittest import mock

import processes
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import torch_conv
import torch_conv.distributed as sharded
from torch_conv.distributed import _operators, _plan, _verify
from torch_conv.distributed._mesh_view import mesh_view_of

TIMEOUT = 1800  # seconds that a group waits: ten times the limit of a test, so a rank that is gone is noticed before


def said(call) -> str:
    try:
        return str(call())
    except sharded.ExchangeError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def mesh_of_two(rank: int, file: str, seconds: int) -> DeviceMesh:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    timeout = datetime.timedelta(seconds=seconds)
    dist.init_process_group("gloo", f"file://{file}", world_size=2, rank=rank, timeout=timeout)
    return init_device_mesh("cpu", (2,))


def end(answers: mp.Queue) -> None:
    answers.close()
    answers.join_thread()
    os._exit(0)


def answers_of(worker, tmp_path, timeout: int) -> dict:
    """Four answers of two ranks."""
    answers = processes.context().Queue()
    args = f"{tmp_path}/meet", answers
    ranks = [processes.context().Process(target=worker, args=(rank, *args), daemon=True) for rank in (0, 1)]
    for process in ranks:
        process.start()
    messages = dict(answers.get(timeout=timeout) for _ in range(4))
    for process in ranks:
        process.join(timeout=30)
    return messages


def leave_behind(rank: int, file: str, answers: mp.Queue) -> None:
    mesh = mesh_of_two(rank, file, TIMEOUT)
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
    end(answers)


def test_a_rank_that_is_gone_is_noticed(tmp_path):
    messages = answers_of(leave_behind, tmp_path, 150)
    assert messages["compared"].startswith("filter2d: the exchange between ranks failed: ")
    assert messages["exchanged"].startswith(
        "filter2d: an earlier call failed on this rank, and the others do not wait: "
    )
    assert messages["halo"].startswith("halo_exchange: the exchange between ranks failed: ")
    assert messages["destroyed"] == "filter2d: torch.distributed has no process group"


def run_out_of_memory(rank: int, file: str, answers: mp.Queue) -> None:
    """Rank 1 receives its rows, has no memory for its result, and calls again. Rank 0 has no error."""
    mesh = mesh_of_two(rank, file, 20)
    whole = torch.arange(128.0).view(2, 8, 8)
    image, kernel = distribute_tensor(whole, mesh, [Shard(1)]), torch.ones(3, 3)
    with_gradient = image.detach().requires_grad_()
    expected = torch_conv.filter2d(whole, kernel).chunk(2, 1)[rank]

    for name, source in (("cached", image), ("with a gradient", with_gradient)):

        def is_right(source=source) -> bool:
            return torch.equal(sharded.filter2d(source, kernel).to_local(), expected)

        cached = said(is_right)
        no_memory = mock.patch.object(_operators, "together", side_effect=torch.OutOfMemoryError("no memory"))
        with no_memory if rank == 1 else contextlib.nullcontext():
            failed = said(is_right)
        answers.put((f"{name}, rank {rank}", (cached, failed, said(is_right))))
    end(answers)


def test_a_rank_without_memory_for_its_result_goes_on(tmp_path):
    messages = answers_of(run_out_of_memory, tmp_path, 60)
    for name in ("cached", "with a gradient"):
        assert messages[f"{name}, rank 0"] == ("True", "True", "True")
        assert messages[f"{name}, rank 1"] == ("True", "OutOfMemoryError: no memory", "True")


def fail_before_an_exchange(rank: int, file: str, answers: mp.Queue) -> None:
    """Compared calls from the cache, on an image that is cut along channels, so that its plan has no halo."""
    mesh = mesh_of_two(rank, file, 20)
    whole = torch.arange(128.0).view(2, 8, 8)
    image, kernel = distribute_tensor(whole, mesh, [Shard(0)]), torch.ones(3, 3)
    expected = torch_conv.filter2d(whole, kernel).chunk(2, 0)[rank]

    def is_right() -> bool:
        return torch.equal(sharded.filter2d(image, kernel).to_local(), expected)

    no_memory = mock.patch.object(_plan.RankPlan, "cut_kernels", side_effect=torch.OutOfMemoryError("no memory"))
    no_group = mock.patch.object(_verify, "gathered", side_effect=sharded.ExchangeError("no connection"))
    with sharded.verify(True):
        first = said(is_right)
        with no_memory if rank == 1 else contextlib.nullcontext():
            failed = said(is_right)
        answers.put((f"no memory, rank {rank}", (first, failed, said(is_right))))
        with no_group:
            failed = said(is_right)
    compares_counts = mesh_view_of("filter2d", mesh).progress[0].failed
    answers.put((f"no connection, rank {rank}", (failed, compares_counts)))
    end(answers)


def test_a_compared_call_from_the_cache_fails_on_all_ranks(tmp_path):
    messages = answers_of(fail_before_an_exchange, tmp_path, 60)
    assert messages["no memory, rank 0"] == ("True", "RankError: filter2d: rank 1 refused the call", "True")
    assert messages["no memory, rank 1"] == ("True", "OutOfMemoryError: no memory", "True")
    for rank in (0, 1):
        assert messages[f"no connection, rank {rank}"] == ("filter2d: no connection", True)
