"""Three orthogonal slices of a volume and of what filters made of it, on one dark sheet, to scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from files import save
from torch import Tensor
from volume_data import Volume

LONGEST_INCHES = 2.8  # the longest edge of any volume
GAP, LABEL, TITLE = 0.06, 0.34, 0.62  # inches: between panels, at the left, at the top
INK, PAPER = "#d8d8d8", "black"
MARGIN_MM = 8.0  # around what is not background


@dataclass(frozen=True)
class Panel:
    title: str
    data: Tensor  # (Z, Y, X)
    own_scale: bool = False  # a gradient is not measured in the volume's units


def draw(
    path: Path, volume: Volume, panels: Sequence[Panel], where: Sequence[float], window: tuple[float, float]
) -> None:
    """Writes the sheet: the slices at the fractions `where` of z, y and x, every filter beside the volume itself.

    `window` is the range of values from black to white of all panels without a scale of their own.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    box = foreground(volume, window[0] + 0.05 * (window[1] - window[0]))
    extent = [(b.stop - b.start) * mm for b, mm in zip(box, volume.voxel, strict=True)]  # z, y, x in mm
    inch = LONGEST_INCHES / max(extent)  # of one mm
    cuts = slices(volume, where)
    column = max(extent[across] for _, (_, across), _ in cuts) * inch
    rows = [extent[down] * inch for _, (down, _), _ in cuts]
    width = LABEL + len(panels) * (column + GAP)
    height = TITLE + sum(rows) + len(rows) * GAP
    figure = Figure(figsize=(width, height), facecolor=PAPER)
    FigureCanvasAgg(figure)
    figure.text(LABEL / width, 1 - 0.2 / height, heading(volume), color=INK, fontsize=9, va="center")
    top = height - TITLE
    for (label, (down, across), index), row in zip(cuts, rows, strict=True):
        bottom = top - row
        middle = (0.5 * LABEL / width, (bottom + row / 2) / height)
        figure.text(*middle, label, color=INK, fontsize=9, rotation=90, ha="center", va="center")
        place = tuple(i if isinstance(i, int) else b for i, b in zip(index, box, strict=True))
        for n, panel in enumerate(panels):
            left = LABEL + n * (column + GAP)
            axes = figure.add_axes((left / width, bottom / height, column / width, row / height))
            low, high = (0.0, robust_maximum(panel.data)) if panel.own_scale else window
            # To scale: millimetres on both axes, the slice in the middle of its panel.
            x, y = extent[across] / 2, extent[down] / 2
            axes.imshow(
                panel.data[place].float().cpu().numpy(),
                cmap="magma" if panel.own_scale else "gray",
                vmin=low,
                vmax=high,
                origin="lower",
                extent=(-x, x, -y, y),
                interpolation="bilinear",
            )
            axes.set(xlim=(-column / inch / 2, column / inch / 2), ylim=(-y, y), aspect="equal")
            axes.axis("off")
            if top == height - TITLE:
                axes.set_title(panel.title, color="white", fontsize=11, pad=5)
        top = bottom - GAP
    save(figure, path, dpi=150, facecolor=PAPER)


def slices(volume: Volume, where: Sequence[float]) -> list[tuple[str, tuple[int, int], tuple[int | slice, ...]]]:
    """(label, (vertical, horizontal) axis, index) of the axial, coronal and sagittal slice at fractions of z, y, x."""
    out = []
    for axis, (name, letter) in enumerate((("axial", "z"), ("coronal", "y"), ("sagittal", "x"))):
        i = min(round(where[axis] * volume.data.shape[axis]), volume.data.shape[axis] - 1)
        mm = volume.origin[axis] + i * volume.voxel[axis]
        index: list[int | slice] = [slice(None)] * 3
        index[axis] = i
        down, across = (a for a in range(3) if a != axis)
        out.append((f"{name}, {letter} = {mm:.0f} mm", (down, across), tuple(index)))
    return out


def foreground(volume: Volume, threshold: float) -> list[slice]:
    """Where the volume is brighter than the background, with a margin: the part that is drawn."""
    bright = volume.data > threshold
    out = []
    for axis, (n, mm) in enumerate(zip(volume.data.shape, volume.voxel, strict=True)):
        inside = bright.amax([a for a in range(3) if a != axis]).nonzero()
        first, last = (int(inside[0]), int(inside[-1])) if len(inside) else (0, n - 1)
        margin = round(MARGIN_MM / mm)
        out.append(slice(max(first - margin, 0), min(last + margin + 1, n)))
    return out


def heading(volume: Volume) -> str:
    size = " × ".join(str(n) for n in reversed(volume.data.shape))
    mm = " × ".join(f"{m:.3g}" for m in reversed(volume.voxel))
    return f"{volume.name}: {size} voxels of {mm} mm, {str(volume.data.dtype).removeprefix('torch.')}"


def robust_maximum(x: Tensor) -> float:
    """The value that one voxel in 500 exceeds, from a sample of the volume."""
    sample = x.reshape(-1)[:: max(1, x.numel() // 1_000_000)].float().cpu()
    return float(torch.quantile(sample, 0.998)) or 1.0
