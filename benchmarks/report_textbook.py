"""The page of the textbook studies: their tables and figures, from the results of `torch-conv bench` and scaling.py."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report_ages import when_measured
from report_scaling import CONVS, FILTER, on_gpus

FIGURE = Path(__file__).resolve().parent.parent / "docs" / "textbook.png"
PICTURE = "Time over the size of an image, per window, per block, and fused beside one by one"
DASH = "-"  # where nothing was measured

Document = dict[str, Any]
Row = dict[str, Any]
Column = tuple[str, str, str]  # what of a row, its heading, its format

MS, PERCENT, TIMES, ERROR = ".4f", ".1f", ".2f", ".1e"
RUNGS: tuple[Column, ...] = (
    ("naive_ms", "V1 naive", MS),
    ("constant_ms", "constant", MS),
    ("tiled_ms", "V2 tiled", MS),
    ("l2_halo_ms", "L2 halo", MS),
)
PRODUCTION: tuple[Column, ...] = (("production_ms", "torch_conv", MS), ("copy_percent", "of copy, %", PERCENT))
CONV2D: Column = ("conv2d_ms", "F.conv2d", MS)
WORST: Column = ("error", "max error", ERROR)
CPU: Column = ("cpu_ms", "CPU loop", ".2f")
TILED_OVER_NAIVE: Column = ("tiled_over_naive", "V2 over V1", TIMES)


@dataclass(frozen=True)
class Table:
    name: str  # in the results
    heading: str
    what: str
    columns: tuple[Column, ...]
    rows: tuple[dict[str, Any], ...] = ()  # that stand there before they are measured, too


STENCIL = Table(
    "stencil",
    "## 3x3 box blur, interior only",
    "Pixels whose window does not fit are 0; 40 B/pixel counts every read of the window, 8 B/pixel one read and one "
    "write. One image stays in the L2 cache; several together are four times as large as it. The last column is "
    "what the study has published, measured on an Intel Arc A770. Times in ms.",
    (
        ("size", "side", "d"),
        ("images", "images", "d"),
        *PRODUCTION,
        ("mpixels", "Mpixel/s", ".0f"),
        ("gbs_no_cache", "GB/s at 40 B", ".0f"),
        ("gbs", "GB/s at 8 B", ".0f"),
        ("gflops", "GFLOP/s", ".0f"),
        CONV2D,
        WORST,
        ("arc_ms", "Arc A770", ".2f"),
    ),
)
STUDY = (
    Table(
        "correctness",
        "### (a) Correctness",
        "The largest error against the CPU loop, which sums in float64, over a checkerboard and noise of 64x64. "
        "Allowed are 1e-5, and 1e-4 for V3, which puts the window before Sobel and so takes 3x3 only.",
        (
            ("window", "window", "s"),
            ("naive", "V1 naive", ERROR),
            ("constant", "constant", ERROR),
            ("tiled", "V2 tiled", ERROR),
            ("l2_halo", "L2 halo", ERROR),
            ("fused", "V3 fused", ERROR),
            ("production", "torch_conv", ERROR),
            ("conv2d", "F.conv2d", ERROR),
        ),
    ),
    Table(
        "size",
        "### (b) Size of the image",
        "Gaussian 3x3, block 16x16; times in ms.",
        (
            ("size", "side", "d"),
            CPU,
            *RUNGS,
            ("naive_over_cpu", "V1 over CPU", ".0f"),
            ("tiled_over_cpu", "V2 over CPU", ".0f"),
            TILED_OVER_NAIVE,
            *PRODUCTION,
            CONV2D,
            WORST,
        ),
    ),
    Table(
        "window",
        "### (c) Size of the window",
        "Gaussian of K x K over 1024x1024, block 16x16; times in ms.",
        (("k", "K", "d"), CPU, *RUNGS, TILED_OVER_NAIVE, *PRODUCTION, CONV2D, WORST),
    ),
    Table(
        "block",
        "### (d) Block",
        "Gaussian 5x5 over 1024x1024; times in ms.",
        (("block", "block", "s"), CPU, *RUNGS, TILED_OVER_NAIVE, *PRODUCTION, CONV2D, WORST),
    ),
    Table(
        "fused",
        "### (e) Fused and one by one",
        "Gaussian 3x3 and Sobel, |Gx| + |Gy|. V3 computes again what it needs; V2 one by one takes three launches and "
        "three element-wise ones, F.conv2d two, then absolute values and a sum. Times in ms.",
        (
            ("size", "side", "d"),
            CPU,
            ("fused_ms", "V3 fused", MS),
            ("unfused_ms", "V2 one by one", MS),
            ("fused_over_unfused", "V3 over V2", TIMES),
            *PRODUCTION,
            CONV2D,
            WORST,
        ),
    ),
)
SIGNAL = Table(
    "signal",
    "## One axis",
    "Gaussian of K taps over one row of numbers, 0 in the ghost cells, block 256; times in ms.",
    (
        ("numbers", "numbers", "d"),
        ("k", "K", "d"),
        CPU,
        ("naive_ms", "naive", MS),
        ("constant_ms", "constant", MS),
        ("tiled_ms", "tiled", MS),
        ("l2_halo_ms", "L2 halo", MS),
        ("naive_over_cpu", "naive over CPU", ".0f"),
        ("tiled_over_naive", "tiled over naive", TIMES),
        *PRODUCTION,
        ("conv1d_ms", "F.conv1d", MS),
        WORST,
    ),
    tuple({"numbers": numbers, "k": k} for numbers in (1024**2, 4096**2) for k in (5, 31)),
)
BORDERS = Table(
    "borders",
    "## 8-bit images",
    "A box of 200x200 centred at tap 100, over 3x512x512 uint8. Every tap: `filter2d` with one multiply-add a tap, on "
    "the CPU with all threads. torch_conv: `box_blur`. F.conv2d: in float32, behind F.pad, rounded to bytes again. "
    "Errors in grey levels; times in ms.",
    (
        ("policy", "border", "s"),
        ("cpu_direct_ms", "every tap, CPU", ".2f"),
        ("direct_ms", "every tap, GPU", MS),
        ("direct_over_cpu", "GPU over CPU", ".0f"),
        ("cpu_ms", "torch_conv, CPU", ".3f"),
        ("production_ms", "torch_conv, GPU", MS),
        ("production_over_cpu", "GPU over CPU", ".0f"),
        ("copy_percent", "of copy, %", PERCENT),
        CONV2D,
        ("error", "max error", ".0f"),
    ),
    tuple({"policy": policy} for policy in ("skip", "clamp", "wrap", "mirror", "zero")),
)
# The study's own figures, in ms: 128x128x8, a window that it calls 7x7x7, an RTX 500 Ada and a Core Ultra 7.
PUBLISHED = {"gold CPU": 5616.0, "naive": 2.677, "constant + shared tile": 1.049, "separable, 3 x 1-D": 0.568}
VOLUME_RUNGS = ("gold CPU", "naive", "constant", "constant + shared tile", "L2 halo", "separable, 3 x 1-D")
VOLUME = Table(
    "volume",
    "## Volumes",
    "128x128x8 voxels, a window of 15x15x15 (radius 7), block 8x8x8. The last column is what the study has published, "
    "for 128x128x8 and a window that it calls 7x7x7, on an RTX 500 Ada and a Core Ultra 7. Times in ms.",
    (
        ("row", "kernel", "s"),
        ("average_ms", "average", MS),
        ("median_ms", "median", MS),
        ("minimum_ms", "minimum", MS),
        WORST,
        ("published_ms", "published", "g"),
    ),
    tuple({"row": row} for row in VOLUME_RUNGS),
)


def textbook(documents: list[Document]) -> str:
    """The page's generated part, in Markdown."""
    ladder, volume = measured(documents, "ladder"), measured(documents, "volume")
    parts = [*section(STENCIL, ladder), "## The 2-D study", source(ladder)]
    for table in STUDY:
        heading, what, _, lines = section(table, ladder)
        parts += [heading, what, lines]
    parts += ["### (f) Several GPUs", *several(documents)]
    if FIGURE.exists():
        parts.append(f"![{PICTURE}]({FIGURE.name})")
    parts += [*section(SIGNAL, ladder), *section(BORDERS, ladder), *section(VOLUME, volume)]
    return "\n\n".join(parts)


def measured(documents: Iterable[Document], benchmark: str) -> Document | None:
    """The first results of this benchmark on a GPU."""
    return next((d for d in documents if d["benchmark"] == benchmark and d["metadata"]["gpu"]), None)


def section(table: Table, document: Document | None) -> list[str]:
    """Heading, what is measured, where it was, and the table; a dash for what was not."""
    found = rows_of(document, table.name)
    key = [name for name, _, _ in table.columns][: max(map(len, table.rows), default=1)]
    expected = [row for row in table.rows if not any(same(row, other, key) for other in found)]
    rows = ordered([*found, *expected], table, key)
    if table is VOLUME:
        rows = [row | {"published_ms": PUBLISHED.get(row["row"])} for row in rows]
    lines = [[heading for _, heading, _ in table.columns]]
    lines += [[cell(row.get(name), form) for name, _, form in table.columns] for row in rows]
    return [table.heading, table.what, source(document if found else None), markdown(lines)]


def same(row: Row, other: Row, key: list[str]) -> bool:
    return all(row.get(name) == other.get(name) for name in key)


def ordered(rows: list[Row], table: Table, key: list[str]) -> list[Row]:
    """In the order in which they are expected; those that nobody expects come last, as they were measured."""
    places = [next((i for i, e in enumerate(table.rows) if same(row, e, key)), len(table.rows)) for row in rows]
    return [row for _, row in sorted(zip(places, rows, strict=True), key=lambda pair: pair[0])]


def rows_of(document: Document | None, name: str) -> list[Row]:
    return [row for table in (document or {"tables": []})["tables"] if table["name"] == name for row in table["rows"]]


def source(document: Document | None) -> str:
    return f"{where(document)}." if document else "Not measured yet."


def where(document: Document) -> str:
    meta = document["metadata"]
    return f"{meta['gpu']}, torch {meta['torch']}; {when_measured(document)}"


def cell(value: Any, form: str) -> str:
    return DASH if value is None else "0" if value == 0 else format(value, form)


def markdown(lines: list[list[str]]) -> str:
    rule = ["---", *["--:"] * (len(lines[0]) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], rule, *lines[1:]])


# ---- several GPUs, from the rows of scaling.py -----------------------------------------------------------------------


def several(documents: Iterable[Document]) -> list[str]:
    """One image on one GPU and on N, and F.conv2d on shards, whose halos are exchanged by hand, and on DTensors."""
    what = (
        "3x3 over one float32 image, zeros outside, cut into shards of rows; by the clock, calls from the host. "
        "F.conv2d on shards whose halos are exchanged by hand, and on DTensors. Times in ms."
    )
    lines = [
        ["GPUs", "side", "torch_conv, 1", "torch_conv, N", "speed-up", "efficiency, %", "F.conv2d by hand", "DTensor"]
    ]
    sources = []
    for gpus, document in on_gpus(documents):
        meta = document["metadata"]
        shown = {**document, "rows": [row for row in document["rows"] if row["name"].startswith(FILTER)]}
        found = list(strong(shown))
        sources += [f"{gpus} × {where(shown)}"] if found else []
        for side, one, split in found:
            conv = [shared(shown, part, side) for part in CONVS]
            numbers = [one / 1e3, split / 1e3, one / split, 100 * one / split / gpus]
            cells = [cell(n, form) for n, form in zip(numbers, (MS, MS, ".2f", PERCENT), strict=True)]
            others = [cell(us and us / 1e3, MS) for us in conv]
            lines.append([f"{gpus} × {meta['gpu']}", str(side), *cells, *others])
    return [f"{what}\n\n{'. '.join(sources) or 'Not measured yet'}.", markdown(lines)]


def strong(document: Document) -> Iterator[tuple[int, float, float]]:
    """Of each image its side, and the time on one GPU and on all, in us. The document has rows of one filter."""
    rows = [r for r in document["rows"] if r["part"] == "strong" and r["timings"]]
    for row in sorted(rows, key=lambda row: row["shape"][-1]):
        timings = row["timings"]
        yield row["shape"][-1], timings["one"]["median_us"], timings["operator"]["median_us"]


def shared(document: Document, part: str, side: int) -> float | None:
    """F.conv2d's time in this part of scaling.py, without TF32; of the same rows."""
    name = CONVS[part][0]
    rows = [r for r in document["rows"] if (r["part"], r["shape"][-1]) == (part, side)]
    return next((r["timings"][name]["median_us"] for r in rows if name in r["timings"]), None)


# ---- the figures -----------------------------------------------------------------------------------------------------

# What a line or a bar is: (label, colour, marker, hatch), the same in all panels.
LOOKS = {
    "cpu_ms": ("CPU loop", "0.75", "P", ""),
    "naive_ms": ("V1 naive", "C0", "v", ""),
    "constant_ms": ("constant", "C9", "^", "///"),
    "tiled_ms": ("V2 tiled", "C2", "s", "..."),
    "l2_halo_ms": ("L2 halo", "C8", "D", "xxx"),
    "fused_ms": ("V3 fused", "C4", "s", "---"),
    "unfused_ms": ("V2 one by one", "C6", "s", "|||"),
    "production_ms": ("torch_conv", "black", "o", ""),
    "conv2d_ms": ("F.conv2d", "C3", "X", "\\\\\\"),
}


def draw_textbook(documents: list[Document], path: Path = FIGURE) -> None:
    """The 2-D study's four figures: lines over the image's size, and bars per window, per block, and fused or not."""
    from matplotlib.figure import Figure

    document = measured(documents, "ladder")
    if document is None:
        print("report: no results/ladder-*.json was measured on a GPU", file=sys.stderr)
        return
    canvas = Figure(figsize=(11, 8.5), layout="constrained")
    sizes, windows, blocks, fused = canvas.subplots(2, 2).flat
    draw_lines(sizes, rows_of(document, "size"))
    draw_bars(windows, rows_of(document, "window"), "k")
    draw_bars(blocks, rows_of(document, "block"), "block")
    draw_bars(fused, rows_of(document, "fused"), "size")
    sizes.set(title="(b) Gaussian 3x3, block 16x16", xlabel="side of the image, pixels")
    windows.set(title="(c) Gaussian K x K, 1024x1024, block 16x16", xlabel="K")
    blocks.set(title="(d) Gaussian 5x5, 1024x1024", xlabel="block")
    fused.set(title="(e) Gaussian 3x3 and Sobel, fused and one by one", xlabel="side of the image, pixels")
    handles = {label: h for a in canvas.axes for h, label in zip(*a.get_legend_handles_labels(), strict=True)}
    # The CPU loop is a line of the first panel alone, which names its lines itself.
    order = [label for key, (label, *_) in LOOKS.items() if label in handles and key != "cpu_ms"]
    canvas.suptitle(f"The textbook kernels in float32, {document['metadata']['gpu']}", fontsize=12)
    canvas.legend([handles[label] for label in order], order, loc="outside lower center", ncols=5, fontsize=9)
    canvas.savefig(path, dpi=110)


def draw_lines(axes: Any, rows: list[Row]) -> None:
    for key, (label, color, marker, _) in LOOKS.items():
        points = [(row["size"], row[key]) for row in rows if key in row]
        if points:
            axes.plot(*zip(*points, strict=True), marker=marker, color=color, label=label, linewidth=1.4)
    axes.set(xscale="log", yscale="log", ylabel="ms")
    axes.set_xticks([row["size"] for row in rows], [str(row["size"]) for row in rows])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    # Markers, which bars have not; it stands between the CPU's line and the others.
    axes.legend(loc=(0.02, 0.24), ncols=2, fontsize=8)


def draw_bars(axes: Any, rows: list[Row], group: str) -> None:
    # The CPU loop is hundreds of times slower: it would leave the other bars invisible.
    keys = [key for key in LOOKS if key != "cpu_ms" and any(key in row for row in rows)]
    width = 0.84 / max(1, len(keys))
    for i, key in enumerate(keys):
        label, color, _, hatch = LOOKS[key]
        bars = [(n + (i - (len(keys) - 1) / 2) * width, row[key]) for n, row in enumerate(rows) if key in row]
        axes.bar(*zip(*bars, strict=True), width, color=color, hatch=hatch, edgecolor="white", label=label)
    axes.set_xticks(range(len(rows)), [str(row[group]) for row in rows])
    axes.set_ylabel("ms")
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
