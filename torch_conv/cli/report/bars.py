"""Bars: the kernels of the 3-D study, fused against unfused, efficiency of several devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch_conv.bench.documents import SCALING, TIMED, Document, is_positive
from torch_conv.bench.rows import PARTS, WAYS, gain
from torch_conv.cli.report import curves, textbook
from torch_conv.cli.report.drawing import Figure, filling, legend

# The number at the end of its bar, with a background, because a line may pass there.
BESIDE: dict[str, Any] = {
    "xytext": (4, 0),
    "textcoords": "offset points",
    "va": "center",
    "fontsize": 8,
    "bbox": {"facecolor": "1", "edgecolor": "none", "pad": 0.5},
}
Bars = dict[str, dict[str, float]]  # {group: {name: value}}


def kernels(documents: Sequence[Document]) -> Iterator[Figure]:
    """Figures of the ladder's tables and of the 3-D study's rows."""
    yield from textbook.kernels(documents)
    for document in documents:
        for table in document.tables:
            if table["name"] == "volume":
                medians = {
                    str(row.get("row")): {"median": row["median_ms"]}
                    for row in table["rows"]
                    if is_positive(row.get("median_ms")) and not (document.on_gpu and "CPU" in str(row.get("row")))
                }
                yield from flat(medians, f"{table['title']}, {document.title}.", "median ms")


def fused(documents: Sequence[Document]) -> Iterator[Figure]:
    for document in documents:
        gains: Bars = {}
        for row in document.rows if document.form == TIMED and document.benchmark == "fused" else []:
            if (gained := gain(row)) is not None:
                gains.setdefault(pipeline(row["name"]), {"gain": gained})
        caption = (
            f"Fused against unfused: the time of the same by filters of ours, one after the other, over that of the "
            f"fused call; the first size of each pipeline, {document.title}."
        )
        yield from flat(gains, caption, "times as fast", line=1)


def pipeline(name: str) -> str:
    """A row's name without the usual dtype and size, "f32 4096x4096"."""
    return name if " to " in name else name.partition(" f32 ")[0]


def efficiency(documents: Sequence[Document]) -> Iterator[Figure]:
    for document in documents:
        yield from curves.scaling([document])
        caption = f"Efficiency of several devices, {document.title}: one's time over N times that of N."
        parts: dict[str, Bars] = {}
        for row in document.rows if document.form == SCALING else []:
            if row["efficiency"]:
                shares = {WAYS.get(name, name): 100 * share for name, share in row["efficiency"].items()}
                if row["part"] == "weak":
                    shares = {f"{name} devices": share for name, share in shares.items()}
                parts.setdefault(row["part"], {})[row["name"]] = shares
        for part, groups in parts.items():
            yield from flat(groups, f"{caption} Here: {PARTS.get(part, part)}.", "% efficiency", line=100)
        for table in document.tables:
            rows = [row for row in table["rows"] if is_positive(row.get("efficiency"))]
            groups = {f"{row.get('filter')} {row.get('size')}²": {"efficiency": row["efficiency"]} for row in rows}
            yield from flat(groups, caption, "% efficiency", line=100)


def flat(groups: Bars, caption: str, unit: str, line: float | None = None) -> Iterator[Figure]:
    """Horizontal bars with the number at each."""
    names = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    if not names:
        return
    count = sum(map(len, groups.values()))

    def paint(canvas: Any) -> None:
        axes = canvas.subplots()
        place, ticks = 0.0, []
        labelled: set[str] = set()
        for group, bars in groups.items():
            ticks.append((place + (len(bars) - 1) / 2, group))
            for name, value in bars.items():
                label = None if name in labelled else name
                labelled.add(name)
                axes.barh(place, value, 0.85, label=label, **filling(name, names.index(name)))
                axes.annotate(f"{value:.3g}", (value, place), **BESIDE)
                place += 1
            place += 0.6
        axes.set_yticks([at for at, _ in ticks], [group for _, group in ticks])
        axes.invert_yaxis()
        axes.margins(x=0.1, y=0.01)
        if line is not None:
            axes.axvline(line, color="0", linewidth=1, linestyle="--")
        axes.set_xlabel(unit)
        if len(names) > 1:
            legend(canvas, min(4, len(names)))

    height = 0.19 * count + 0.11 * len(groups) + 0.9
    yield Figure(7.5, min(height, 60), caption, paint)
