"""torch_conv.distributed in groups of processes: gloo on the CPU, NCCL where there are GPUs.

One group per number of processes runs all cases, which stand in sharded_agreement.py, sharded_calls.py,
sharded_cases.py and sharded_changes.py: starting it takes seconds.
"""

import datetime
import os
import queue
import random
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import processes
import pytest
import sharded_agreement  # noqa: F401
import sharded_calls  # noqa: F401
import sharded_cases  # noqa: F401
import sharded_changes  # noqa: F401
import sharded_group
import sharded_host_memory
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from conftest import ROOT, needs_built_checkout  # whose sys.path the processes that are started here get

import torch_conv.distributed
from torch_conv.reference._extend import source_of
from torch_conv.sharding.geometry import BORDERS, Footprint, chunk_bounds, piece_for

GROUP_TIMEOUT = 30  # seconds that a rank waits for the others
OTHER_GROUPS = [pytest.param(world, marks=pytest.mark.thorough) for world in (2, 4)]
ANSWER_TIMEOUT = 240  # seconds until the next answer of any rank; the first calls compile kernels

Results = dict[str, list[str]]  # a case's errors, none where it passed


def worker(rank: int, world: int, device: str, file: str, results: mp.Queue) -> None:
    torch.set_num_threads(1)
    for library in ("GLOO", "NCCL"):  # all ranks are on this machine, whose name need not have an address
        os.environ.setdefault(f"{library}_SOCKET_IFNAME", "lo")
    if device == "symmetric":
        device = "cpu"
        sharded_host_memory.deliver(Path(file).parent)
    timeout = datetime.timedelta(seconds=GROUP_TIMEOUT)
    if device == "cuda":
        torch.cuda.set_device(rank)
    backend = "gloo" if device == "cpu" else os.environ.get("TORCH_CONV_TEST_BACKEND", "cpu:gloo,cuda:nccl")
    dist.init_process_group(backend, f"file://{file}", world_size=world, rank=rank, timeout=timeout)
    group = sharded_group.Group(device)
    for name, case in sharded_group.CASES.items():
        torch.manual_seed(0)  # the same windows everywhere
        group.failed.clear()
        try:
            case(group)
        except Exception:
            results.put((name, rank, traceback.format_exc()))
            break  # the other ranks are in the middle of the case: an error or their timeout ends them
        results.put((name, rank, "\n".join(group.failed)))
    results.put(("", rank, ""))
    results.close()
    results.join_thread()
    os._exit(0)  # not even a group that is stuck keeps it


def run_group(world: int, device: str) -> Results:
    context = processes.context(device)
    results: mp.Queue = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        args = (world, device, f"{folder}/meet", results)
        ranks = [context.Process(target=worker, args=(rank, *args), daemon=True) for rank in range(world)]
        for process in ranks:
            process.start()
        errors: Results = {}
        seen: dict[str, set[int]] = {}
        finished, end = 0, time.monotonic() + ANSWER_TIMEOUT
        while finished < world and time.monotonic() < end:
            try:
                name, rank, error = results.get(timeout=1)
            except queue.Empty:
                if not any(process.is_alive() for process in ranks):
                    break
                continue
            end = time.monotonic() + ANSWER_TIMEOUT
            finished += not name
            seen.setdefault(name, set()).add(rank)
            if error:
                errors.setdefault(name, []).append(f"rank {rank} of {world}:\n{error}")
        for process in ranks:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
    for name in sharded_group.CASES:
        missing = sorted(set(range(world)) - seen.get(name, set()))
        errors.setdefault(name, [])
        if missing:
            errors[name].append(f"no answer from ranks {missing}: an earlier case ended the group")
    return errors


@pytest.fixture(scope="module")
def groups():
    """errors(world, device) returns the errors of each case; its first call runs the group."""
    done: dict[tuple[int, str], Results] = {}

    def errors(world: int, device: str) -> Results:
        if (world, device) not in done:
            done[world, device] = run_group(world, device)
        return done[world, device]

    return errors


@pytest.mark.parametrize("name", sharded_group.CASES)
@pytest.mark.parametrize("world", [3, *OTHER_GROUPS])
def test_gloo(groups, world, name):
    errors = groups(world, "cpu")[name]
    assert not errors, "\n".join(errors)


@pytest.mark.parametrize("name", sharded_group.CASES)
@pytest.mark.parametrize("world", [3, OTHER_GROUPS[1]])
def test_symmetric(groups, world, name):
    errors = groups(world, "symmetric")[name]
    assert not errors, "\n".join(errors)


@pytest.mark.cuda
@pytest.mark.multi_gpu
@pytest.mark.parametrize("name", sharded_group.CASES)
@pytest.mark.parametrize("world", [2, 4])
def test_nccl(groups, world, name):
    if torch.cuda.device_count() < world:
        pytest.skip(f"fewer than {world} GPUs")
    errors = groups(world, "cuda")[name]
    assert not errors, "\n".join(errors)


def test_pieces_read_what_the_whole_image_reads():
    """An output of a piece reads the same rows as that output of the whole axis, for all borders."""
    pick = random.Random(3)
    for _ in range(3000):
        n, parts, stride, border = pick.randint(1, 30), pick.randint(1, 6), pick.randint(1, 4), pick.choice(BORDERS[:5])
        window, dilation, padding = pick.randint(1, 12), pick.randint(1, 2), pick.choice(["same", "valid", "number"])
        length = (window - 1) * dilation + 1
        pad, added = pick.randrange(window) * dilation, length - 1  # 'same' adds as many rows as it takes
        middle = 0
        if padding != "same":
            pad = 0 if padding == "valid" else pick.randint(0, length + 4)
            added, middle = 2 * pad, (length - 1) // 2 - pad
        if n + added < length or (pad > n - (border == "reflect") and padding == "number"):
            continue  # refused, by torch or by the operators
        outs = lambda rows: -(-rows // stride) if padding == "same" else (rows + added - length) // stride + 1  # noqa: E731, B023
        group = pick.choice([1, 8])
        footprint = Footprint(pad, length, stride, middle, outs(n), group, BORDERS.index(border))
        rows, wanted = chunk_bounds(n, parts), chunk_bounds(footprint.out, parts)
        for rank in range(parts):
            piece = piece_for(wanted[rank], wanted[rank + 1], n, footprint, (rows[rank], rows[rank + 1]))
            taken = torch.tensor([row for low, high in piece.rows for row in range(low, high)])
            size = taken.numel()
            assert piece.count == wanted[rank + 1] - wanted[rank] and (piece.count == 0) == (size == 0)
            if not size:
                continue
            assert taken.unique().numel() == size and piece.skip + piece.count <= outs(size)
            own = [min(max(o * stride + middle, 0), size - 1) for o in range(outs(size))]
            between = [o for o, row in enumerate(own) if piece.cut[0] <= row < piece.cut[1]]
            outputs = list(range(piece.skip, piece.skip + piece.count))
            assert between[piece.cut_skip : piece.cut_skip + piece.count] == outputs
            first = torch.tensor(outputs)[:, None] * stride - pad + torch.arange(length)
            assert (wanted[rank] - piece.skip) % group == 0
            shift = (wanted[rank] - piece.skip) * stride
            here, there = Border[border](first, size), Border[border](first + shift, n)
            assert torch.equal(torch.where(here < 0, -1, taken[here.clamp(min=0)]), there)


def _repeating(name: str):
    return lambda at, n: source_of(at.flatten(), n, name).view(at.shape)


# The rows that a border policy reads; -1 for its value
Border = {name: _repeating(name) for name in ("replicate", "reflect", "symmetric", "circular")}
Border["constant"] = lambda at, n: torch.where((at >= 0) & (at < n), at, -1)


@needs_built_checkout
def test_functions_have_a_form_for_dtensors():
    without = {"causal_conv1d", "causal_conv1d_update"}
    assert set(torch_conv.functional.__all__) - set(torch_conv.distributed.__all__) == without
    assert all(hasattr(torch_conv.distributed, name) for name in torch_conv.distributed.__all__)


def test_importing_torch_conv_leaves_torch_distributed_alone():
    code = "import sys, torch_conv; sys.exit('torch.distributed.tensor' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@needs_built_checkout
def test_example():
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    program = ["examples/torchrun_volume.py", "--device", "cpu", "--size", "40", "--sigma", "1", "--repeats", "1"]
    done = subprocess.run([*torchrun, *program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    heading, *steps = done.stdout.splitlines()
    assert "40 x 40 x 40 float32, 2 ranks on cpu" in heading
    assert [step.split()[0] for step in steps] == ["gaussian_blur3d", "gaussian_gradient_magnitude3d"]
    assert all(step.endswith("bits as on one device") for step in steps)


@needs_built_checkout
def test_example_says_what_is_wrong():
    run = [sys.executable, "examples/torchrun_volume.py"]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 2
    assert done.stderr.startswith("torchrun_volume: this is started by torchrun")
