"""A result as a line on the screen."""

from __future__ import annotations

from typing import Any

from torch_conv.bench.common import Result
from torch_conv.bench.documents import OURS, with_timings
from torch_conv.bench.load import within_noise
from torch_conv.bench.results import as_row
from torch_conv.bench.rows import gain, own_chain, time_us, us


def line(result: Result | dict[str, Any]) -> str:
    """The line of a row or a pair."""
    row = with_timings(as_row(result))
    ours, rival, host = row["timings"][OURS], row["best_rival"], row["timings"][OURS].get("host_us")
    parts = [f"{row['device']:4}  {row['name']:46} {ours['median_us']:10.1f} us ±{ours['iqr_us']:6.1f}"]
    if row["copy_fraction"] is not None:
        parts.append(f"{100 * row['copy_fraction']:5.1f} % of copy")
    if row.get("fma_fraction") is not None:
        parts.append(f"{100 * row['fma_fraction']:4.1f} % of FMA")
    parts.append(f"{row['speedup']:7.2f} x {rival} ({us(row, rival):.1f} us)" if rival else "no rival")
    if rival and within_noise(time_us(row, OURS), time_us(row, rival)):
        parts[-1] += ", within noise"
    if "max_error" in ours:
        parts.append(f"error {ours['max_error']:.1e}")
    if "error" in row:
        parts.append(f"error {row['error']:.1e} (torch's {row['torch_error']:.1e})")
    if chain := own_chain(row):
        parts.append(f"{gain(row):5.2f} x {chain}")
    if ours.get("extra_bytes") is not None:
        parts.append(f"extra {ours['extra_bytes'] / 2**20:.1f} MiB")
    if host is not None:
        parts.append(f"host {host:.1f} us")
        hosts = [t["host_us"] for n, t in row["timings"].items() if n.startswith("F.conv") and t["host_us"] is not None]
        if hosts and row["resident"]:
            parts[-1] += f" (F.conv {min(hosts):.1f} us)"
    if not row["correct"]:
        parts.append("WRONG")
    return "  ".join(parts)
