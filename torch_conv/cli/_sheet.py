"""The demo's contact sheet: every photo and a crop, the original first, then each filter."""

from __future__ import annotations

import io
from pathlib import Path

from torch import Tensor

from torch_conv.bench.files import write_file

# (top, left, side) of the enlarged piece, in fractions of the photo's height.
CROPS = {"astronaut": (0.02, 0.28, 0.33), "retina": (0.35, 0.03, 0.25)}


def contact_sheet(path: Path, photos: dict[str, list[tuple[str, Tensor, Tensor]]]) -> None:
    """Draws `photos`, {name: [(filter, before, after)]}: two rows a photo, the whole of it and an enlarged crop."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    columns = 1 + max(len(results) for results in photos.values())
    figure = Figure(figsize=(2.4 * columns, 2.32 * 2 * len(photos) + 0.4), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2 * len(photos), columns, squeeze=False)
    for row, (name, results) in enumerate(photos.items()):
        original = results[0][1]
        height, width = original.shape[-2:]
        top, left, side = (round(f * height) for f in CROPS[name])
        pictures = [("before", original), *((title, after) for title, _, after in results)]
        for column, (title, picture) in enumerate(pictures):
            whole, crop = axes[2 * row, column], axes[2 * row + 1, column]
            pixels = picture.permute(1, 2, 0).numpy()
            whole.imshow(pixels)
            whole.add_patch(Rectangle((left, top), side, side, fill=False, edgecolor="white", linewidth=1.2))
            crop.imshow(pixels[top : top + side, left : left + side], interpolation="nearest")
            if row == 0:
                whole.set_title(title, fontsize=13, fontweight="bold" if column == 0 else None)
            for axis in (whole, crop):
                axis.set_xticks([])
                axis.set_yticks([])
        axes[2 * row, 0].set_ylabel(f"{name}, {width} × {height}", fontsize=11)
        axes[2 * row + 1, 0].set_ylabel(f"crop, {side} × {side}", fontsize=11)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="jpg", dpi=110, pil_kwargs={"quality": 90})
    write_file(path, drawn.getvalue())
