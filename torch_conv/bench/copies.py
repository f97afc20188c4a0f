"""Copies, and which rows are worth one. `benchmarks/report.py` imports this file where neither torch nor a build is."""

from __future__ import annotations

from typing import Any

# On one NVIDIA H100 a copy that reads and writes 24 KB in all takes 1.2 us, 1 MiB 1.4 us (within L2), 2 MiB 2.4 us and
# 8 MiB 4.6 us: up to 4 MiB it is launch latency for the most part, and two runs differ by a tenth and more.
LATENCY_BYTES = 4 << 20
COPIES = ("copy_", "add")  # among a row's timings: the faster one is the copy


def worth_a_copy(device: str, moved: int) -> bool:
    """False where the copy's time would tell of launches, not of memory."""
    return device != "cuda" or moved > LATENCY_BYTES


def without_latency(row: dict[str, Any]) -> dict[str, Any]:
    """A row of results, its share of the copy's speed None where that says nothing: older files hold it."""
    if "copy_fraction" in row and not worth_a_copy(row["device"], row.get("bytes") or LATENCY_BYTES + 1):
        return {**row, "copy_fraction": None}
    return row
