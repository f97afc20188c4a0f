"""Lines over the size of an image, a volume or a window, and the efficiency of several GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from torch_conv.bench.copies import COPIES
from torch_conv.bench.documents import OURS, SCALING, TIMED, Document, Row
from torch_conv.bench.rows import CONVS, FILTER, own_chain, us
from torch_conv.cli.report.drawing import CHOSEN, Figure, in_order, legend, logarithmic, styles

Lines = dict[str, list[tuple[float, float]]]  # by name: (x, y)
COLUMNS = 4
WINDOW = re.compile(r"\b(\d+)x\1(?:x\1)?\b")  # of a row's name
ELEMENTS, WINDOWS = "elements", "side of the window, taps"
EFFICIENCY = "efficiency, %"
SERIES = {"dense": "windows without structure", "rank2": "windows of rank 2"}
LABELS = {OURS: CHOSEN}
LABELS_OF_LARGE_WINDOWS = {
    "torch.fft": "torch.fft by hand, window ready",
    "torch.fft, the window's too": "torch.fft by hand",
    "cupyx": "cupyx correlate",
}


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
            yield small_panels(panels, caption, ELEMENTS)


def contenders(rows: Sequence[Row]) -> Lines:
    """torch_conv, its own chain of filters, the best rival and the copy, where they were measured."""
    lines: Lines = {}
    for row in sorted(rows, key=lambda row: prod(row["shape"])):
        found = {OURS: us(row, OURS)}
        for label, name in (("own chain", own_chain(row)), ("best rival", row.get("best_rival"))):
            if name:
                found[label] = us(row, name)
        add(lines, prod(row["shape"]), row, found)
    return lines


def windows(documents: Sequence[Document]) -> Iterator[Figure]:
    for document in documents:
        panels = over_windows([document], list(series(document)), machine=False)
        if panels:
            caption = f"Time over the window's size, {document.title}. {CHOSEN} is the choice of the library."
            yield small_panels(panels, caption, WINDOWS, columns=3)


def over_windows(documents: Sequence[Document], names: Sequence[str], machine: bool) -> dict[str, Lines]:
    """The series of these names, of each document, that were measured over one image, by title."""
    panels = {}
    for document in documents:
        found = series(document)
        for name in names:
            rows = sorted(found.get(name, []), key=lambda row: side(row) or 0)
            if len({tuple(row["shape"]) for row in rows}) == 1 and len({side(row) for row in rows} - {None}) > 2:
                first, *more = name.split(", ")
                size = "x".join(map(str, rows[0]["shape"][-2:]))
                title = ", ".join([SERIES.get(first, first), *more, size]) + f"\n{document.machine}" * machine
                panels[title] = every(rows, document.benchmark)
    return panels


def every(rows: Sequence[Row], benchmark: str) -> Lines:
    labels = LABELS | (LABELS_OF_LARGE_WINDOWS if benchmark == "large_windows" else {})
    lines: Lines = {}
    for row in rows:
        across = side(row)
        if across is not None:
            found = {labels.get(name, name): us(row, name) for name in row["timings"] if name not in COPIES}
            add(lines, across, row, found)
    return lines


def add(lines: Lines, across: float, row: Row, times: Mapping[str, float]) -> None:
    """A point in ms for each of these times, and for the copy where the row has its share."""
    copy = {} if row["copy_fraction"] is None else {"copy": row["copy_fraction"] * us(row, OURS)}
    for name, time in {**times, **copy}.items():
        lines.setdefault(name, []).append((across, time / 1e3))


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


# Lines of the efficiency: the part of scaling.py, and its candidates, of which the fastest counts.
SHARES = {
    OURS: ("strong", ["operator"]),
    "torch_conv in a CUDA graph": ("graph", ["operator"]),
    "torch_conv.distributed": ("processes", ["distributed"]),
    "pad, exchange, cat, torch_conv": ("rivals", ["cat, torch_conv", "cat, torch_conv cropped"]),
    "pad, exchange, cat, F.conv2d": ("rivals", CONVS["rivals"]),
    "DTensor F.conv2d": ("processes", CONVS["processes"]),
}


def scaling(documents: Sequence[Document]) -> Iterator[Figure]:
    """A panel for each number of GPUs: torch_conv's time on one of them over N times that of each way on N."""
    panels = {}
    for document in sorted(documents, key=lambda document: document.devices):
        if document.form == SCALING and document.on_gpu:
            found = {name: shares(document, part, ways) for name, (part, ways) in SHARES.items()}
            panels[document.machine] = {name: points for name, points in found.items() if points}
    if any(panels.values()):
        title = f"float32 {FILTER.removesuffix(' constant')}, zeros outside"
        caption = f"Efficiency over size, {' and '.join(panels)}: {title}."
        yield small_panels(panels, caption, "side of the image, pixels", len(panels), EFFICIENCY, title)


def shares(document: Document, part: str, ways: Sequence[str]) -> list[tuple[float, float]]:
    """The efficiency of the fastest of these ways, in percent, by the image's side."""
    found = []
    for row in document.rows:
        times = [us(row, way) for way in ways if way in row["timings"]]
        size = re.fullmatch(rf"{FILTER} (\d+)²", row["name"])
        if size and row["part"] == part and "one" in row["timings"] and times:
            found.append((float(size[1]), 100 * us(row, "one") / (document.devices * min(times))))
    return sorted(found)


def small_panels(
    panels: Mapping[str, Lines], caption: str, across: str, columns: int = COLUMNS, up: str = "ms", title: str = ""
) -> Figure:
    """A panel for each set of lines, log-log but for shares, with one legend."""
    columns = min(columns, len(panels))
    lines = -(-len(panels) // columns)
    names = in_order(name for panel in panels.values() for name in panel)
    looks = styles(names)
    wide = {1: 6.5, 2: 10.0, 3: 11.0}.get(columns, 2.8 * columns)
    of_legend = 2 if columns == 1 else 4

    def paint(canvas: Any) -> None:
        grid = canvas.subplots(lines, columns, squeeze=False, sharey="none" if across == ELEMENTS else "row")
        for axes, (title, panel) in zip(grid.flat, panels.items(), strict=False):
            for name in [name for name in names if name in panel]:
                axes.plot(*zip(*panel[name], strict=True), label=name, **looks[name])
            axes.set_title(title)
            places = {x for points in panel.values() for x, _ in points}
            logarithmic(axes, [] if across == ELEMENTS else apart(sorted(places)), up != EFFICIENCY)
            if up == EFFICIENCY:
                axes.set(ylim=(0, 108))
                axes.axhline(100, color="gray", linewidth=1, label="torch_conv on 1 GPU")
            axes.tick_params(labelleft=True)
            axes.grid(alpha=0.3)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        for axes in grid[:, 0]:
            axes.set_ylabel(up)
        for i in range(len(panels) - columns, len(panels)):
            grid.flat[max(i, 0)].set_xlabel(across)
        legend(canvas, of_legend, order=names)

    return Figure(
        wide, (2.3 if columns > 3 else 3.6) * lines + 0.2 * -(-len(names) // of_legend) + 0.3, caption, paint, title
    )


def apart(places: Sequence[float]) -> list[float]:
    """Positions on a logarithmic axis whose labels do not touch."""
    kept: list[float] = []
    for place in places:
        if not kept or place >= 1.6 * kept[-1]:
            kept.append(place)
    return kept
