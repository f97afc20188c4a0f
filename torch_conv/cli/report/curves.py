"""Time over the size of the image or volume, and over the size of the window."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from torch_conv.bench.copies import COPIES
from torch_conv.cli.ladder import LABELS
from torch_conv.cli.report.drawing import OURS, Figure, drawn, legend, plain_ticks, styles
from torch_conv.cli.report.results import TIMED, Document, Row, is_number
from torch_conv.cli.report.rows import us

Line = dict[str, list[tuple[float, float]]]  # of each name: (across, ms)
COLUMNS = 4
WINDOW = re.compile(r"\b(\d+)x\1(?:x\1)?\b")  # of a row's name


def sizes(documents: Sequence[Document]) -> Iterator[Figure]:
    for document in documents:
        panels = {}
        for title, rows in series(document).items():
            if len({prod(row["shape"]) for row in rows}) > 2:
                panels[title] = contenders(rows)
        if panels:
            caption = (
                f"Time over size, {document.title}. The best rival and the own chain (the same by filters of ours, "
                "one after the other) are those of each point."
            )
            yield small_panels(panels, caption, "elements")
        for table in document.tables:
            if table["name"] == "size":
                yield from ladder(document, table["rows"])


def contenders(rows: Sequence[Row]) -> Line:
    """torch_conv, its own chain of filters, the best rival and the copy, where they were measured."""
    lines: Line = {}
    for row in sorted(rows, key=lambda row: prod(row["shape"])):
        found = {OURS: us(row, OURS)}
        chains = [us(row, name) for name in row["timings"] if name.startswith(f"{OURS} ")]
        if chains:
            found["own chain"] = min(chains)
        if row.get("best_rival"):
            found["best rival"] = us(row, row["best_rival"])
        if row["copy_fraction"] is not None:
            found["copy"] = row["copy_fraction"] * us(row, OURS)
        for name, time in found.items():
            lines.setdefault(name, []).append((prod(row["shape"]), time / 1e3))
    return lines


def windows(documents: Sequence[Document]) -> Iterator[Figure]:
    for document in documents:
        panels = {}
        for title, rows in series(document).items():
            sides = {side(row) for row in rows}
            if len({tuple(row["shape"]) for row in rows}) == 1 and len(sides - {None}) > 2:
                size = "x".join(map(str, rows[0]["shape"][-2:]))
                panels[f"{title}, {size}"] = every(rows)
        if panels:
            caption = f"Time over the window's size, {document.title}. {OURS} alone is the choice of the library."
            yield small_panels(panels, caption, "side of the window", columns=3)


def every(rows: Sequence[Row]) -> Line:
    lines: Line = {}
    for row in sorted(rows, key=lambda row: side(row) or 0):
        across = side(row)
        if across is None:
            continue
        times = {name: us(row, name) for name in row["timings"] if name not in COPIES}
        if row["copy_fraction"] is not None:
            times["copy"] = row["copy_fraction"] * times[OURS]
        for name, time in times.items():
            lines.setdefault(name, []).append((across, time / 1e3))
    return lines


def series(document: Document) -> dict[str, list[Row]]:
    """Rows that belong to one line, by its name, dtype and device."""
    found: dict[str, list[Row]] = {}
    for row in document.rows if document.form == TIMED else []:
        if row.get("series"):
            dtype = "" if row["dtype"] in str(row["series"]) else f", {row['dtype']}"
            found.setdefault(f"{row['series']}{dtype}", []).append(row)
    return found


def side(row: Row) -> int | None:
    match = WINDOW.search(row["name"])
    return int(match[1]) if match else None


def ladder(document: Document, rows: Sequence[Row]) -> Iterator[Figure]:
    """The textbook kernels over the image's side."""
    lines: Line = {}
    for row in rows:
        for key, label in LABELS.items():
            size, time = row.get("size"), row.get(key)
            if is_number(size) and is_number(time) and size > 0 and time > 0:
                lines.setdefault(label, []).append((size**2, time))
    caption = f"Time over size, Gaussian 3x3, block 16x16, {document.title}."
    if lines:
        yield small_panels({"Gaussian 3x3, float32": lines}, caption, "pixels", columns=1)


def small_panels(panels: dict[str, Line], caption: str, across: str, columns: int = COLUMNS) -> Figure:
    """A panel for each set of lines, log-log, with one legend."""
    columns = min(columns, len(panels))
    lines = -(-len(panels) // columns)
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    looks = styles(names)

    def paint(canvas: Any) -> None:
        grid = canvas.subplots(lines, columns, squeeze=False)
        for axes, (title, panel) in zip(grid.flat, panels.items(), strict=False):
            for name, points in panel.items():
                axes.plot(*zip(*points, strict=True), label=name, **looks[name])
            axes.set_title(title)
            axes.set(xscale="log", yscale="log")
            plain_ticks(axes.xaxis)
            plain_ticks(axes.yaxis)
            mark(axes, sorted({x for points in panel.values() for x, _ in points}))
            axes.grid(alpha=0.3)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        for axes in grid[:, 0]:
            axes.set_ylabel("ms")
        for i in range(len(panels) - columns, len(panels)):
            grid.flat[max(i, 0)].set_xlabel(across)
        legend(canvas, min(4, max(columns, 2)), [OURS])

    wide = {1: 6.5, 2: 8.0, 3: 11.0}.get(columns, 2.8 * columns)
    rows_of_legend = -(-len(names) // min(4, max(columns, 2)))
    return drawn(wide, (2.3 if columns > 3 else 3.3) * lines + 0.25 * rows_of_legend + 0.3, caption, paint)


def mark(axes: Any, places: Sequence[float]) -> None:
    """Ticks at what was measured where that leaves room; sizes of images keep powers of ten."""
    if places[-1] > 5000:
        axes.minorticks_off()
        return
    kept: list[float] = []
    for place in places:
        if not kept or place >= 1.6 * kept[-1]:
            kept.append(place)
    axes.set_xticks(kept, [f"{place:g}" for place in kept])
    axes.minorticks_off()
