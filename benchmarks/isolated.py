"""Tasks in a process of their own: one that crashes or hangs costs its own result and no other."""

from __future__ import annotations

import queue
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.multiprocessing as mp

from torch_conv.bench.common import first_line

START_S = 60.0  # for a process to import torch and load the kernels
BROKEN = 3  # exit status of a process whose GPUs answer nothing any more


def results(
    run: Callable[[Any], Any], tasks: Sequence[Any], limit_s: float, until: Callable[[], bool]
) -> Iterator[tuple[Any, Any, str | None]]:
    """(task, its result or None, why there is none) for every task in turn; ends early when `until()` is true.

    `run` is a function of a module. After a crash, or a task that takes longer than `limit_s`, the rest goes on in a
    fresh process.
    """
    context = mp.get_context("spawn")
    waiting = list(tasks)
    while waiting and not until():
        wanted, done = context.SimpleQueue(), context.Queue()
        worker = context.Process(target=_work, args=(run, wanted, done), daemon=True)
        worker.start()
        try:
            alive, allowed = True, limit_s + START_S
            while alive and waiting and not until():
                task = waiting.pop(0)
                wanted.put(task)
                (result, failure, alive), allowed = _answer(worker, done, allowed), limit_s
                yield task, result, failure
            if alive:
                wanted.put(None)
                worker.join(20)
        finally:
            if worker.is_alive():
                worker.kill()
            worker.join()


def _answer(worker: Any, done: Any, limit_s: float) -> tuple[Any, str | None, bool]:
    """A task's result, why there is none, and whether its process takes another."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        running = worker.is_alive()  # asked first: what it has sent before it ended is still there
        try:
            return done.get(timeout=0.2)
        except queue.Empty:
            if not running:
                return None, f"the process ended with exit status {worker.exitcode}", False
    return None, f"no answer in {limit_s:.0f} s", False


def _work(run: Callable[[Any], Any], wanted: Any, done: Any) -> None:
    while (task := wanted.get()) is not None:
        result, failure = None, None
        try:
            result = run(task)
        except Exception as error:
            failure = f"{type(error).__name__}: {first_line(error)}"
            traceback.print_exc()
        sound = _gpus_answer()
        done.put((result, failure, sound))
        if not sound:
            done.close()
            done.join_thread()
            sys.exit(BROKEN)


def _gpus_answer() -> bool:
    """False after an error that CUDA keeps reporting for the rest of the process."""
    if not torch.cuda.is_available():
        return True
    try:
        for i in range(torch.cuda.device_count()):
            torch.cuda.synchronize(i)
        torch.cuda.empty_cache()
    except Exception:
        return False
    return True
