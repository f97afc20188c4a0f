"""The figures in docs/, drawn by the code that draws those of `torch-conv report`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

from torch_conv.bench.documents import OURS, Document, Row
from torch_conv.bench.rows import us
from torch_conv.cli.report import curves, textbook
from torch_conv.cli.report.drawing import Figure, logarithmic


def volumes(documents: Sequence[Document]) -> Iterator[Figure]:
    """Time per voxel and share of the copy's speed over the volume's size: no step where the volume leaves L2."""
    for document in documents:
        if document.benchmark == "filter3d" and document.on_gpu:
            title = f"float32 volumes of n³ voxels, {document.machine}"
            yield Figure(10, 4, "", partial(paint_volumes, document=document), title)


def paint_volumes(canvas: Any, document: Document) -> None:
    from matplotlib.ticker import LogLocator

    time_axes, copy_axes = canvas.subplots(1, 2, sharex=True)
    copies: dict[int, float] = {}
    for i, (title, rows) in enumerate(curves.series(document).items()):
        (ours, theirs), color = (("o-", "s:"), ("^-", "D:"))[i % 2], f"C{i}"
        name = title.removesuffix(", float32").removeprefix("filter3d ")
        rows = sorted(rows, key=side)
        copies |= {side(row): per_voxel(row, row["copy"]) for row in rows}
        for way, style in ((OURS, ours), ("F.conv3d", theirs)):
            points = [(side(row), per_voxel(row, way)) for row in rows if way in row["timings"]]
            time_axes.plot(*zip(*points, strict=True), style, color=color, label=f"{way} {name}")
        points = [(side(row), 100 * row["copy_fraction"]) for row in rows if row["copy_fraction"] is not None]
        copy_axes.plot(*zip(*points, strict=True), ours, color=color, label=f"{OURS} {name}")
    sides = sorted(copies)
    time_axes.plot(sides, [copies[n] for n in sides], "--", color="gray", label="copy")
    time_axes.set(title="time per voxel", ylabel="ps")
    copy_axes.set(title="of the copy's speed", ylabel="%", ylim=(0, 105))
    for axes in (time_axes, copy_axes):
        logarithmic(axes, sides, up=axes is time_axes)
        axes.axvline((document.meta["l2_bytes"] / 8) ** (1 / 3), color="gray", linewidth=0.8, alpha=0.6)
        axes.set(xlabel="side of the cube, voxels; the line: input and output fill L2")
        axes.grid(alpha=0.3)
        axes.legend()
    time_axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))


def side(row: Row) -> int:
    return row["shape"][-1]


def per_voxel(row: Row, name: str) -> float:
    return us(row, name) * 1e6 / prod(row["shape"])


def over_windows(
    documents: Sequence[Document], benchmark: str, names: Sequence[str], gpu: bool = False
) -> Iterator[Figure]:
    """Time over the window's side: for each machine a panel for each of these series."""
    shown = [document for document in documents if document.benchmark == benchmark and (document.on_gpu or not gpu)]
    if panels := curves.over_windows(shown, names, machine=True):
        yield curves.small_panels(panels, "", curves.WINDOWS, columns=2)


BLURS = [f"{kind} {dtype}" for dtype in ("float32", "float16", "uint8") for kind in ("gaussian", "box")]
# What draws the files in docs/.
FIGURES: dict[str, Callable[[Sequence[Document]], Iterator[Figure]]] = {
    "sizes3d": volumes,
    "large_windows": partial(over_windows, benchmark="large_windows", names=["dense, float32", "rank2, float32"]),
    "blur": partial(over_windows, benchmark="blur", names=BLURS),
    "gaussian": partial(over_windows, benchmark="blur", names=["gaussian float32", "gaussian uint8"], gpu=True),
    "scaling": curves.scaling,
    "textbook": textbook.kernels,
}
