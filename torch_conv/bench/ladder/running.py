"""Studies measured case by case, printed as tables and written as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch

from torch_conv.bench.ladder.study import Bench, Row, Study
from torch_conv.bench.load import disturbance
from torch_conv.bench.progress import progress_bar
from torch_conv.bench.usage import needed


def measure(benchmark: str, bench: Bench, wanted: Sequence[Study]) -> dict[str, list[Row]]:
    """Every case of every study, with a progress bar; {study: rows}."""
    rows: dict[str, list[Row]] = {study.name: [] for study in wanted}
    # The fastest torch convolution with sums in float32, as ours.
    exact = torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=False, allow_tf32=False)
    with exact, torch.inference_mode(), progress_bar() as bar:
        task = bar.add_task(benchmark, total=sum(len(study.cases) for study in wanted))
        for study in wanted:
            bar.update(task, description=study.name)
            for case in study.cases:
                rows[study.name].append(study.measure(bench, case))
                bar.advance(task)
    return rows


def show(meta: dict[str, Any], bench: Bench, wanted: Sequence[Study], rows: dict[str, list[Row]], absent: str) -> None:
    """Prints the machine, the tables and their notes; `absent` is the sentence for runs without a GPU."""
    console, terminal = (needed(f"rich.{name}", "rich") for name in ("console", "table"))
    # A pipe has no width of its own.
    out = console.Console(width=None if sys.stdout.isatty() else 160)
    out.print(f"{meta['gpu'] or meta['cpu']}, torch {meta['torch']}, {meta['threads']} CPU threads", highlight=False)
    if not bench.cuda:
        out.print(absent, highlight=False)
    for study in wanted:
        out.print(f"\n[bold]{study.title}[/bold]", highlight=False)
        out.print(printable(terminal.Table, study, rows[study.name], bench.cuda))
        out.print(study.note, highlight=False, markup=False)
    timed = [row for study in wanted for row in rows[study.name] if "iqr_ms" in row]
    times = ((row[f"{name}_ms"], spread) for row in timed for name, spread in row["iqr_ms"].items())
    if busy := disturbance(bench.watch.others(), times):
        out.print(f"\n{busy}", highlight=False)


def exit_if_wrong(bench: Bench, prog: str) -> None:
    if bench.wrong:
        print(f"{prog}: wrong results:", *bench.wrong, sep="\n  ", file=sys.stderr)
        raise SystemExit(1)


def printable(table: Any, study: Study, rows: list[Row], cuda: bool) -> Any:
    """A rich table; a dash stands where a case has no such figure."""
    result = table()
    columns = [column for column in study.columns if column.shown(cuda)]
    for column in columns:
        result.add_column(column.heading, justify="left" if column.style == "s" else "right")
    for row in rows:
        result.add_row(*(format(row[c.key], c.style) if c.key in row else "-" for c in columns))
    return result


def document(
    benchmark: str, meta: dict[str, Any], wanted: Sequence[Study], rows: dict[str, list[Row]], cuda: bool
) -> dict[str, Any]:
    tables = [
        {
            "name": study.name,
            "title": study.title,
            "note": study.note,
            "columns": {column.key: column.heading for column in study.columns if column.shown(cuda)},
            "rows": rows[study.name],
        }
        for study in wanted
    ]
    return {"benchmark": benchmark, "metadata": meta, "tables": tables}
