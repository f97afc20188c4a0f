"""All drawn calls of a run, one after the other: the first calls on a GPU, then the steady ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from torch_conv.bench.anywhere.call import Call
from torch_conv.bench.anywhere.measure import (
    Options,
    empty_kernel_cache,
    first_call,
    kernels_compiled,
    measure,
    ours,
    wait_for_kernels,
)
from torch_conv.bench.anywhere.report import HEADING, figures, line
from torch_conv.bench.common import first_line
from torch_conv.bench.documents import OURS
from torch_conv.bench.load import Watch, disturbance
from torch_conv.bench.rows import time_us
from torch_conv.bench.running import ABSENT, optional_progress_bar
from torch_conv.bench.sampling import keep_freed_memory

SAVE_S = 5.0  # between writes of the file


@dataclass
class Outcome:
    """What a run found."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # names of calls, and why
    not_reached: int = 0
    first: dict[str, Any] = field(default_factory=dict)  # of the first calls
    absent: set[str] = field(default_factory=set)  # rivals that are not installed
    seconds: float = 0.0
    busy: str = ""

    def document(self) -> dict[str, Any]:
        """What a file of results holds beside the machine's data."""
        wrong = [row for row in self.rows if not row["correct"]]
        rows = self.timed
        found = {"summary": figures(rows), "first_calls": self.first, "rows": rows, "wrong": wrong}
        return found | {"failed": self.failed, "not_reached": self.not_reached}

    @property
    def right(self) -> bool:
        return not self.failed and all(row["correct"] for row in self.rows)

    @property
    def timed(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["correct"]]


def run(
    calls: Sequence[Call],
    options: Options,
    budget_s: float,
    loading: dict[str, float],
    save: Callable[[Outcome], None],
) -> Outcome:
    """Measures all calls, or those that are reached within the budget. `loading` is what the process has paid once."""
    keep_freed_memory()
    start, watch, outcome = time.perf_counter(), Watch(), Outcome(first=dict(loading))
    firsts = first_calls(calls, options, outcome, start + budget_s / 2) if options.device == "cuda" else {}
    saved = start
    print(HEADING, flush=True)
    with optional_progress_bar() as bar:
        task = bar.add_task("anywhere", total=len(calls)) if bar else None
        for number, call in enumerate(calls):
            if time.perf_counter() > start + budget_s:
                outcome.not_reached = len(calls) - number
                break
            if bar:
                bar.update(task, description=f"{number} of {len(calls)} calls", completed=number, refresh=True)
            one(call, options, firsts.get(call.name), outcome)
            if time.perf_counter() > saved + SAVE_S:
                save(outcome)
                saved = time.perf_counter()
    outcome.seconds = time.perf_counter() - start
    others = watch.others() if options.device == "cpu" else 0.0
    outcome.busy = disturbance(others, (time_us(row, OURS) for row in outcome.timed))
    save(outcome)
    return outcome


def one(call: Call, options: Options, first: float | None, outcome: Outcome) -> None:
    """Measures one call and prints its line. A call that fails costs its own row only."""
    try:
        with nullcontext() if call.backward else torch.inference_mode():
            row = measure(call, options, first)
    except Exception as error:  # the other calls still count
        outcome.failed[call.name] = first_line(error)
        print(f"FAILED   {call.name}: {first_line(error)}", flush=True)
        return
    outcome.rows.append(row)
    outcome.absent |= {name for name, why in row.get("left_out", {}).items() if why.startswith(ABSENT)}
    print(line(row), flush=True)
    if options.device == "cuda":
        torch.cuda.empty_cache()


def first_calls(calls: Sequence[Call], options: Options, outcome: Outcome, deadline: float) -> dict[str, float]:
    """Seconds of each call's first run, one after the other, with no compiled kernel on disk.

    Then all kernels are waited for, which says after how long all calls have their steady speed.
    """
    device, firsts = options.device, dict[str, float]()
    before = kernels_compiled()
    with empty_kernel_cache():
        started = time.perf_counter()
        for call in calls:
            if time.perf_counter() > deadline:
                break
            try:
                with nullcontext() if call.backward else torch.inference_mode():
                    firsts[call.name] = first_call(call, device)
            except Exception:  # `measure` meets the error again, and says it
                continue
        outcome.first["all_seconds"] = time.perf_counter() - started
        for call in calls:
            if call.name in firsts:
                wait_for_kernels(ours(call, device), call.blank(device))
        outcome.first["steady_after_seconds"] = time.perf_counter() - started
    outcome.first |= {"calls": len(firsts), "kernels_compiled": kernels_compiled() - before}
    torch.cuda.empty_cache()
    return firsts
