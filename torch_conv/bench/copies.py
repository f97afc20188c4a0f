"""The copies that rows are compared with. `benchmarks/report.py` imports this file without torch and a build."""

from __future__ import annotations

from typing import Any

# Up to 4 MiB a copy is mostly launch latency, and two runs differ by a tenth and more. On one NVIDIA H100
# 24 KB take 1.2 us, 1 MiB 1.4 us (within L2), 2 MiB 2.4 us, 8 MiB 4.6 us.
LATENCY_BYTES = 4 << 20
COPIES = ("copy_", "add")  # names among a row's timings; the faster one counts


def worth_a_copy(device: str, moved: int) -> bool:
    """Whether the copy's time is bound by memory, not by the launch."""
    return device != "cuda" or moved > LATENCY_BYTES


def without_latency(row: dict[str, Any]) -> dict[str, Any]:
    """A row of results without its share of the copy if launch latency decides. Older files have the share."""
    if "copy_fraction" in row and not worth_a_copy(row["device"], row.get("bytes") or LATENCY_BYTES + 1):
        return {**row, "copy_fraction": None}
    return row
