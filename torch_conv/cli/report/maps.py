"""The roofline of each GPU, and the heat map of the share of the copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from torch_conv.bench.documents import OURS, TIMED, Document, Row
from torch_conv.bench.rows import family, us
from torch_conv.cli.report.drawing import MARKERS, Figure, legend, logarithmic

Placed = tuple[str, Row]  # a row, and the benchmark it is of


def roofline(documents: Sequence[Document]) -> Iterator[Figure]:
    machines: dict[str, list[Placed]] = {}
    for document in documents:
        for row in document.rows if document.form == TIMED else []:
            if row.get("fma_fraction") and row.get("bytes") and row.get("flops"):
                machines.setdefault(document.machine, []).append((document.benchmark, row))
    for machine, rows in machines.items():
        if any(row["copy_fraction"] for _, row in rows):
            yield roof(machine, rows)


def roof(machine: str, rows: Sequence[Placed]) -> Figure:
    """Flops a byte against flops a second, below what the copy and the multiply-adds allow."""
    peak = median(achieved(row) / row["fma_fraction"] for _, row in rows)
    beside = [row for _, row in rows if row["copy_fraction"]]
    large = [row for row in beside if not row.get("resident")] or beside
    bandwidth = median(row["bytes"] / (row["copy_fraction"] * us(row, OURS) * 1e-6) for row in large)
    across = [row["flops"] / row["bytes"] for _, row in rows]
    low, high = min(*across, peak / bandwidth) / 1.5, max(*across, peak / bandwidth) * 1.5

    def paint(canvas: Any) -> None:
        axes = canvas.subplots()
        corner = peak / bandwidth
        axes.plot([low, corner, high], [bandwidth * low / 1e12, peak / 1e12, peak / 1e12], color="0", linewidth=1.4)
        for i, benchmark in enumerate(dict.fromkeys(name for name, _ in rows)):
            for resident in (False, True):
                own = [r for name, r in rows if name == benchmark and bool(r.get("resident")) == resident]
                if own:
                    axes.plot(
                        [r["flops"] / r["bytes"] for r in own],
                        [achieved(r) / 1e12 for r in own],
                        linestyle="",
                        marker=MARKERS[i % len(MARKERS)],
                        markersize=4.5,
                        color=f"C{i % 10}",
                        markerfacecolor="none" if resident else f"C{i % 10}",
                        label=benchmark + ", in L2" * resident,
                    )
        axes.set(xlabel="flops a byte", ylabel="TFLOP/s")
        logarithmic(axes)
        axes.grid(alpha=0.3)
        legend(canvas, 4)

    caption = (
        f"Roofline, {machine}. The roof: {bandwidth / 1e12:.2f} TB/s, the median of the copies, and "
        f"{peak / 1e12:.1f} TFLOP/s of float32 multiply-adds, from the rows' own shares. Flops are two a tap, of "
        "separable windows two a tap of each pass; bytes are one read and one write. What lies a little above "
        "the slope is within the spread of the copies or finds bytes in L2; above the flat roof are tensor cores, and "
        "algorithms of fewer operations than are counted, as FFT."
    )
    return Figure(7.5, 4.8, caption, paint)


def achieved(row: Row) -> float:
    """Flops a second."""
    return row["flops"] / (us(row, OURS) * 1e-6)


def heat(documents: Sequence[Document]) -> Iterator[Figure]:
    machines: dict[str, dict[tuple[str, str], list[float]]] = {}
    for document in documents:
        for row in document.rows if document.form == TIMED else []:
            if not row.get("resident") and row["copy_fraction"] is not None:
                place = family(document, row), row["dtype"]
                machines.setdefault(document.machine, {}).setdefault(place, []).append(row["copy_fraction"])
    for machine, found in machines.items():
        yield heat_map(machine, {place: (median(shares), len(shares)) for place, shares in found.items()})


def heat_map(machine: str, cells: dict[tuple[str, str], tuple[float, int]]) -> Figure:
    families = sorted({family for family, _ in cells})
    dtypes = sorted({dtype for _, dtype in cells})

    def paint(canvas: Any) -> None:
        axes = canvas.subplots()
        shares = [[cells.get((f, dtype), (float("nan"), 0))[0] for dtype in dtypes] for f in families]
        axes.pcolormesh(shares, cmap="gray", vmin=0, vmax=1)
        axes.invert_yaxis()
        for (f, dtype), (share, count) in cells.items():
            axes.text(
                dtypes.index(dtype) + 0.5,
                families.index(f) + 0.5,
                f"{100 * share:.0f} % ({count})",
                ha="center",
                va="center",
                color="0" if share > 0.5 else "1",
            )
        axes.set_xticks([i + 0.5 for i in range(len(dtypes))], dtypes)
        axes.set_yticks([i + 0.5 for i in range(len(families))], families)
        axes.tick_params(length=0)

    caption = (
        f"Median share of the copy's speed, {machine}, in brackets the number of rows. Lighter is faster; white "
        "without a number is not measured. Images that lie in L2 are left out."
    )
    return Figure(2.2 + 1.05 * len(dtypes), 0.6 + 0.32 * len(families), caption, paint)
