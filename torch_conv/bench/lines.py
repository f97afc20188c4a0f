"""A result as a line on the screen."""

from __future__ import annotations

from typing import Any

from torch_conv.bench.common import Result


def line_of(result: Result | dict[str, Any]) -> str:
    return line(result) if isinstance(result, Result) else pair_line(result)


def line(result: Result) -> str:
    ours = result.timings["torch_conv"]
    parts = [f"{result.device:4}  {result.name:46} {ours.median_us:10.1f} us ±{ours.iqr_us:6.1f}"]
    if result.copy_fraction is not None:
        parts.append(f"{100 * result.copy_fraction:5.1f} % of copy")
    if result.fma_fraction is not None:
        parts.append(f"{100 * result.fma_fraction:4.1f} % of FMA")
    if result.best_rival is None:
        parts.append("no rival")
    else:
        rival = result.timings[result.best_rival]
        parts.append(f"{result.speedup:7.2f} x {result.best_rival} ({rival.median_us:.1f} us)")
    parts.append(f"error {ours.max_error:.1e}")
    if any(name.startswith("torch_conv ") for name in result.timings):
        own = min((n for n in result.timings if n.startswith("torch_conv ")), key=lambda n: result.timings[n].median_us)
        parts.append(f"{result.timings[own].median_us / ours.median_us:5.2f} x {own}")
    if ours.extra_bytes is not None:
        parts.append(f"extra {ours.extra_bytes / 2**20:.1f} MiB")
    if ours.host_us is not None:
        parts.append(f"host {ours.host_us:.1f} us")
        convs = [t.host_us for n, t in result.timings.items() if n.startswith("F.conv") and t.host_us is not None]
        if convs and result.resident:
            parts[-1] += f" (F.conv {min(convs):.1f} us)"
    if not result.correct:
        parts.append("WRONG")
    return "  ".join(parts)


def pair_line(row: dict[str, Any]) -> str:
    parts = [
        f"{row['device']:4}  {row['name']:46} {row['ours_us']:10.1f} us ±{row['ours_iqr_us']:6.1f}",
        f"{row['speedup']:7.2f} x torch ({row['torch_us']:.1f} us)",
    ]
    if "error" in row:
        parts.append(f"error {row['error']:.1e} (torch's {row['torch_error']:.1e})")
    if not row["correct"]:
        parts.append("WRONG")
    return "  ".join(parts)
