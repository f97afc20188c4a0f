"""Results as JSON: the machine, the rows of this run, and the rows kept of an older run."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

import torch_conv
from torch_conv.bench import files, machine
from torch_conv.bench.common import Result
from torch_conv.bench.usage import UsageError

PACKAGE = Path(torch_conv.__file__).resolve().parent.parent  # the import path of a fresh interpreter


def import_time(rounds: int) -> dict[str, float]:
    seconds = statistics.median(import_seconds("torch_conv", after="torch", rounds=rounds))
    print(f"import torch_conv after torch: {1e3 * seconds:.0f} ms", flush=True)
    return {"import_seconds": seconds}


def import_seconds(package: str, after: str, rounds: int) -> list[float]:
    """Time of `import package` in fresh interpreters that have already imported `after`."""
    code = f"import time, {after}; t = time.perf_counter(); import {package}; print(time.perf_counter() - t)"
    run = [sys.executable, "-c", code]
    return [
        float(subprocess.run(run, cwd=PACKAGE, check=True, capture_output=True, text=True).stdout)
        for _ in range(rounds)
    ]


def processor() -> str:
    for text in Path("/proc/cpuinfo").read_text().splitlines():
        if text.startswith("model name"):
            return text.split(":", 1)[1].strip()
    return platform.machine()


def metadata(rounds: int) -> dict[str, Any]:
    """The machine and versions that a file of results names."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    facts = {**machine.metadata(device, rounds), "cpu": processor()}
    del facts["dtype"]  # rows have their own dtypes
    if device.type == "cuda":
        facts["l2_bytes"] = torch.cuda.get_device_properties(device).L2_cache_size
    return facts


Results = list[Result | dict[str, Any]]  # of rows, and of pairs
Key = tuple[str, str]  # the device's kind and the row's name
Kept = dict[Key, dict[str, Any] | None]


def key_of(row: dict[str, Any]) -> Key:
    return row["device"], row["name"]


def kept_rows(path: Path | None, benchmark: str, meta: dict[str, Any], keys: Sequence[Key]) -> Kept:
    """The rows of an older file that exist today, in today's order, and rows of devices that are not measured.

    A row holds ratios within one run, so a file may hold rows of several runs on one kind of GPU.

    Raises: UsageError, if the file is of another benchmark or machine.
    """
    kept: Kept = dict.fromkeys(keys)
    if path is None or not path.exists() or files.is_device(path):
        return kept
    try:
        older = json.loads(path.read_text())
        facts = older["metadata"]
        same = older["benchmark"] == benchmark and all(facts[k] == meta[k] for k in ("gpu", "threads"))
        rows = [(key_of(row), row) for row in older["rows"]] if same else []
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(f"{path} holds no results that these could join; name another file") from error
    if not same:
        raise UsageError(f"{path} holds results of another benchmark or machine; delete it first, or name another file")
    measured = {device for device, _ in keys}
    for at, row in rows:
        if at in kept or at[0] not in measured:
            kept[at] = {"commit": facts["commit"], **row}
    return kept


def as_row(result: Result | dict[str, Any]) -> dict[str, Any]:
    return asdict(result) if isinstance(result, Result) else result


def document(
    benchmark: str, meta: dict[str, Any], results: Results, extra: dict[str, Any], kept: Kept
) -> dict[str, Any]:
    """The content of a file of results: the measured rows and the kept ones."""
    measured = {key_of(row): {"commit": meta["commit"], **row} for row in map(as_row, results)}
    return {
        "benchmark": benchmark,
        "metadata": meta,
        **extra,
        "rows": [row for row in {**kept, **measured}.values() if row is not None],
    }
