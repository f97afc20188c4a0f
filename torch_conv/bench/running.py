"""Rows measured one after the other, printed and saved after each row."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from torch_conv.bench.common import Candidate, Row, Timing, first_line, make_image, measure
from torch_conv.bench.documents import OURS, with_timings
from torch_conv.bench.families import Family
from torch_conv.bench.launches import count
from torch_conv.bench.lines import line
from torch_conv.bench.load import Watch, disturbance
from torch_conv.bench.pairs import Pair
from torch_conv.bench.progress import progress_bar
from torch_conv.bench.results import Results, as_row
from torch_conv.bench.rows import time_us
from torch_conv.bench.sampling import keep_freed_memory
from torch_conv.bench.usage import UsageError

ABSENT = "not installed: "  # printed once, not for each row
COUNTING_S = 20.0  # for counting the rivals' launches after the last row


def measure_all(
    family: Family, chosen: Sequence[Row | Pair], rounds: int, save: Callable[[Results], None]
) -> tuple[Results, bool]:
    """The results, and whether all rows were measured and are correct. `save` gets the results after every row."""
    keep_freed_memory()
    start, watch = time.perf_counter(), Watch()
    deadline = start + family.budget_s
    results: Results = []
    uncounted: list[tuple[Row, list[tuple[Candidate, Timing]]]] = []
    said: set[tuple[str, str]] = set()
    with optional_progress_bar() as bar:
        task = bar.add_task(family.name, total=len(chosen)) if bar else None
        for number, row in enumerate(chosen):
            if bar:
                bar.update(task, description=f"{number} of {len(chosen)} rows", completed=number, refresh=True)
            try:
                if isinstance(row, Row):
                    uncounted.append((row, []))
                    with torch.inference_mode():
                        results.append(measure(row, rounds, deadline, uncounted[-1][1]))
                else:
                    results.append(row.measure(rounds))
            except (RuntimeError, ValueError, TypeError, ImportError) as error:  # the other rows still count
                print(f"{row.device:4}  {row.name:46} FAILED: {first_line(error)}", flush=True)
                continue
            print(line(results[-1]), flush=True)
            for name, why in as_row(results[-1]).get("left_out", {}).items():
                if (name, why) not in said or not why.startswith(ABSENT):
                    print(f"      left out: {name}: {why}", flush=True)
                said.add((name, why))
            if row.device == "cuda":
                torch.cuda.empty_cache()
            save(results)
    for counted, candidates in uncounted:
        if candidates and time.perf_counter() < deadline + COUNTING_S:
            with torch.inference_mode():
                count(make_image(counted), candidates)
            torch.cuda.empty_cache()
    if any(candidates for _, candidates in uncounted):
        save(results)
    print(f"{len(results)} of {len(chosen)} rows in {time.perf_counter() - start:.0f} s")
    others = watch.others() if any(row.device == "cpu" for row in chosen) else 0.0
    if busy := disturbance(others, (time_us(with_timings(as_row(result)), OURS) for result in results)):
        print(busy)
    return results, len(results) == len(chosen) and all(as_row(result)["correct"] for result in results)


def optional_progress_bar() -> Any:
    """The progress bar, or nothing where rich is not installed."""
    try:
        return progress_bar(still=True)
    except UsageError:
        return nullcontext()
