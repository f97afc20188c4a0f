"""The textbook kernels of `torch-conv bench ladder`: lines over the image's size, bars by window, block and fusion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch_conv.bench.documents import OURS, Document, Row, is_positive
from torch_conv.cli.report.drawing import Figure, filling, legend, logarithmic, styles

Tables = Mapping[str, Sequence[Row]]
LABELS = {
    "cpu_ms": "CPU loop",
    "naive_ms": "V1 naive",
    "constant_ms": "constant",
    "tiled_ms": "V2 tiled",
    "l2_halo_ms": "L2 halo",
    "fused_ms": "V3 fused",
    "unfused_ms": "V2 one by one",
    "production_ms": OURS,
    "conv2d_ms": "F.conv2d",
}
# For each table: the panel's title, the label of the x axis, and its key in the rows.
PANELS = {
    "size": ("(b) Gaussian 3x3, block 16x16", "side of the image, pixels", "size"),
    "window": ("(c) Gaussian K x K, {0}x{0}, block 16x16", "K", "k"),
    "block": ("(d) Gaussian 5x5, {0}x{0}", "block", "block"),
    "fused": ("(e) Gaussian 3x3 and Sobel, fused and one by one", "side of the image, pixels", "size"),
}


def kernels(documents: Sequence[Document]) -> Iterator[Figure]:
    """One figure of all tables of a document."""
    for document in documents:
        tables = {table["name"]: table["rows"] for table in document.tables}
        caption, title = (f"Textbook kernels in float32, {name}" for name in (document.title, document.machine))
        if names := drawn(tables, document.on_gpu):
            yield figure(tables, names, document.on_gpu, f"{caption}.", title)


def figures(tables: Tables, on_gpu: bool, title: str) -> Iterator[tuple[str, Figure]]:
    """One figure for each table, and the table's name."""
    for name in drawn(tables, on_gpu):
        yield name, figure(tables, [name], on_gpu, "", title)


def drawn(tables: Tables, on_gpu: bool) -> list[str]:
    names = [name for name in PANELS if tables.get(name) and (on_gpu or name != "block")]  # a CPU has no blocks
    return [name for name in names if series(name, tables[name], on_gpu)]


def figure(tables: Tables, names: Sequence[str], on_gpu: bool, caption: str, title: str) -> Figure:
    columns, lines = min(2, len(names)), -(-len(names) // 2)

    def paint(canvas: Any) -> None:
        grid = list(canvas.subplots(lines, columns, squeeze=False).flat)
        for axes, name in zip(grid, names, strict=False):
            panel(axes, name, tables[name], on_gpu)
        for axes in grid[len(names) :]:
            axes.set_axis_off()
        if bars := [axes for axes, name in zip(grid, names, strict=False) if name != "size"]:
            legend(canvas, 5, bars)

    return Figure(5.2 * columns if columns > 1 else 7.5, 4 * lines + 0.5, caption, paint, title)


def series(name: str, rows: Sequence[Row], on_gpu: bool) -> list[str]:
    # The CPU loop is hundreds of times slower than a GPU and would hide the other bars.
    keys = [key for key in LABELS if name == "size" or not (on_gpu and key == "cpu_ms")]
    return [key for key in keys if any(is_positive(row.get(key)) for row in rows)]


def panel(axes: Any, name: str, rows: Sequence[Row], on_gpu: bool) -> None:
    title, across, group = PANELS[name]
    keys = series(name, rows, on_gpu)
    axes.set(title=title.format(rows[0].get("size")), xlabel=across, ylabel="ms")
    if name == "size":
        lines(axes, [row for row in rows if is_positive(row.get(group))], keys)
    else:
        bars(axes, rows, keys, group)


def lines(axes: Any, rows: Sequence[Row], keys: Sequence[str]) -> None:
    looks = styles([LABELS[key] for key in keys])
    for key in keys:
        points = [(row["size"], row[key]) for row in rows if is_positive(row.get(key))]
        if points:
            axes.plot(*zip(*points, strict=True), label=LABELS[key], **looks[LABELS[key]])
    logarithmic(axes, [row["size"] for row in rows])
    axes.grid(alpha=0.3)
    axes.legend(ncols=2, fontsize=8)


def bars(axes: Any, rows: Sequence[Row], keys: Sequence[str], group: str) -> None:
    width = 0.84 / len(keys)
    for i, key in enumerate(keys):
        found = [
            (n + (i - (len(keys) - 1) / 2) * width, row[key]) for n, row in enumerate(rows) if is_positive(row.get(key))
        ]
        axes.bar(*zip(*found, strict=True), width, label=LABELS[key], **filling(LABELS[key], i))
    axes.set_xticks(range(len(rows)), [str(row.get(group)) for row in rows])
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
