"""The figures in docs/, drawn from benchmarks/results/*.json by `report.py --figure`."""

from __future__ import annotations

import sys
from math import prod
from pathlib import Path
from typing import Any

from report_scaling import CONVS, FILTER, on_gpus

ROOT = Path(__file__).resolve().parent.parent
SIZES = ROOT / "docs" / "sizes3d.png"  # of the rows of filter3d that belong to a series
WINDOWS = ROOT / "docs" / "large_windows.png"
BLURS = ROOT / "docs" / "blur.png"
GAUSSIANS = ROOT / "docs" / "gaussian.png"  # of the README
SCALING = ROOT / "docs" / "scaling.png"

Document = dict[str, Any]

# ---- volumes ---------------------------------------------------------------------------------------------------------


def draw_sizes(documents: list[Document]) -> None:
    """Time per voxel and share of the copy's speed over the volume's size: no step where the volume leaves L2."""
    from matplotlib.figure import Figure

    document = next((d for d in documents if d["benchmark"] == "filter3d" and d["metadata"]["gpu"]), None)
    if document is None:
        sys.exit("report: no results/filter3d-*.json was measured on a GPU")
    rows = [r for r in document["rows"] if r["series"] and r["device"] == "cuda"]
    canvas = Figure(figsize=(10, 4), layout="constrained")
    time_axes, copy_axes = canvas.subplots(1, 2)
    for i, series in enumerate(dict.fromkeys(r["series"] for r in rows)):
        ours, theirs = (("o-", "s:"), ("^-", "D:"))[i % 2]  # told apart without colours, too
        own = sorted((r for r in rows if r["series"] == series), key=lambda r: prod(r["shape"]))
        sides = [r["shape"][-1] for r in own]
        name = series.removeprefix("filter3d ")
        time_axes.plot(
            sides, [per_voxel(r, "torch_conv") for r in own], ours, color=f"C{i}", label=f"torch_conv {name}"
        )
        shares = {r["shape"][-1]: 100 * r["copy_fraction"] for r in own if r["copy_fraction"] is not None}
        copy_axes.plot([*shares], [*shares.values()], ours, color=f"C{i}", label=f"torch_conv {name}")
        conv = [r for r in own if "F.conv3d" in r["timings"]]
        if conv:
            times = [per_voxel(r, "F.conv3d") for r in conv]
            time_axes.plot([r["shape"][-1] for r in conv], times, theirs, color=f"C{i}", label=f"F.conv3d {name}")
    copies = {r["shape"][-1]: per_voxel(r, r["copy"]) for r in rows}
    time_axes.plot(sorted(copies), [copies[side] for side in sorted(copies)], "--", color="gray", label="copy")
    time_axes.set(title="time per voxel", ylabel="ps", yscale="log")
    low, high = time_axes.get_ylim()
    ticks = [n * 10**e for e in range(4) for n in (1, 2, 5) if low <= n * 10**e <= high]
    time_axes.set_yticks(ticks, [str(tick) for tick in ticks])
    copy_axes.set(title="of the copy's speed", ylabel="%", ylim=(0, 105))
    side_of_l2 = (document["metadata"]["l2_bytes"] / 8) ** (1 / 3)
    for axes in (time_axes, copy_axes):
        axes.axvline(side_of_l2, color="gray", linewidth=0.8, alpha=0.6)
        axes.set(xlabel="side of the cube, voxels; the line: input and output fill L2", xscale="log")
        axes.set_xticks(sorted(copies), [str(side) for side in sorted(copies)])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(fontsize=9)
    canvas.suptitle(f"float32 volumes of n³ voxels, {document['metadata']['gpu']}")
    canvas.savefig(SIZES, dpi=110)


def per_voxel(row: dict[str, Any], name: str) -> float:
    return row["timings"][name]["median_us"] * 1e6 / prod(row["shape"])


# ---- time over the side of a window ----------------------------------------------------------------------------------

# Each line of the figures: (colour, how it is drawn). Ours are solid, others' dotted, and no two lines of a figure have
# the same marker, for those who see no colours.
LINES = {
    "torch_conv": ("black", "o-"),
    "torch_conv direct": ("C0", "v-"),
    "torch_conv separable": ("C0", "v-"),
    "torch_conv low_rank": ("C2", "^-"),
    "torch_conv fft": ("C1", "D-"),
    "F.conv2d": ("C3", "s:"),
    "F.conv2d TF32": ("C5", "<:"),
    "F.conv2d by rows and columns": ("C6", ">:"),
    "F.avg_pool2d": ("C6", ">:"),
    "torch.fft": ("C4", "x:"),
    "torch.fft, the window's too": ("C7", "+:"),
    "torchvision": ("C7", "+:"),
    "kornia": ("C1", "D:"),
    "cupyx": ("C8", "P:"),
    "cupyx oaconvolve": ("C9", "X:"),
    "OpenCV": ("navy", "*:"),
}
LABELS = {"torch_conv": "torch_conv (auto)"}
LABELS_OF_WINDOWS = {
    "torch.fft": "torch.fft by hand, window ready",
    "torch.fft, the window's too": "torch.fft by hand",
    "cupyx": "cupyx correlate",
}


def draw_windows(documents: list[Document], path: Path = WINDOWS) -> None:
    """Time over the window's side by algorithm: for each device a panel for windows of each kind."""
    kinds = {"dense": "windows without structure, float32", "rank2": "windows of rank 2, float32"}
    draw_sides(documents, "large_windows", path, [kinds], LABELS | LABELS_OF_WINDOWS)


def draw_blurs(documents: list[Document], path: Path = BLURS) -> None:
    """Time over the window's side: for each device and dtype a panel for each filter."""
    names = {"gaussian": "Gaussian", "box": "box"}
    dtypes = ("float32", "float16", "uint8")
    kinds = [{f"{kind} {dtype}": f"{name}, {dtype}" for kind, name in names.items()} for dtype in dtypes]
    draw_sides(documents, "blur", path, kinds, LABELS)


def draw_gaussians(documents: list[Document], path: Path = GAUSSIANS) -> None:
    """Of the blurs, Gaussians on a GPU alone."""
    on_gpu = [d for d in documents if d["metadata"].get("gpu")]
    kinds = {f"gaussian {dtype}": f"Gaussian, {dtype}" for dtype in ("float32", "uint8")}
    draw_sides(on_gpu, "blur", path, [kinds], LABELS)


def draw_sides(
    documents: list[Document], benchmark: str, path: Path, lines: list[dict[str, str]], labels: dict[str, str]
) -> None:
    """For each device and each of `lines` a line of panels, one for each series that it names: series: title."""
    from matplotlib.figure import Figure

    shown: list[tuple[Document, str, list[str], dict[str, str]]] = []
    for device in ("cuda", "cpu"):
        for document in documents:
            rows = [r for r in document["rows"] if r["device"] == device] if document["benchmark"] == benchmark else []
            found = {r["series"] for r in rows}
            shown += [(document, device, [k for k in kinds if k in found], kinds) for kinds in lines if rows]
    if not shown:
        print(f"report: there is no results/{benchmark}-*.json to draw", file=sys.stderr)
        return
    columns = max(len(line) for line in lines)
    canvas = Figure(figsize=(5.25 * columns, 4.4 * len(shown)), layout="constrained")
    grid = canvas.subplots(len(shown), columns, squeeze=False, sharey="row")
    for each, (document, device, series, titles) in zip(grid, shown, strict=True):
        machine = document["metadata"]["gpu" if device == "cuda" else "cpu"]
        for axes, kind in zip(each, series, strict=False):
            rows = [r for r in document["rows"] if (r["device"], r["series"]) == (device, kind)]
            draw_panel(axes, sorted(rows, key=side), labels)
            size = "x".join(map(str, rows[0]["shape"][-2:]))
            axes.set_title(f"{titles[kind]}, {size}\n{machine}", fontsize=10)
            axes.tick_params(labelleft=True)
        for axes in each[len(series) :]:
            axes.set_axis_off()
        each[0].set_ylabel("ms")
    handles = {label: h for a in canvas.axes for h, label in zip(*a.get_legend_handles_labels(), strict=True)}
    order = sorted(handles, key=[*(labels.get(name, name) for name in LINES), "copy"].index)
    canvas.legend([handles[name] for name in order], order, loc="outside lower center", ncols=4, fontsize=9)
    canvas.savefig(path, dpi=110)


def draw_panel(axes: Any, rows: list[dict[str, Any]], labels: dict[str, str]) -> None:
    from matplotlib.ticker import NullLocator

    for name, (color, style) in LINES.items():
        points = [(side(r), r["timings"][name]["median_us"] / 1e3) for r in rows if name in r["timings"]]
        if points:
            ours = name == "torch_conv"  # wide, for what it takes lies on the line of one of its algorithms
            width, alpha, size = (5, 0.3, 0) if ours else (1.4, 1, 4.5)
            axes.plot(
                *zip(*points, strict=True),
                style,
                color=color,
                label=labels.get(name, name),
                linewidth=width,
                alpha=alpha,
                markersize=size,
            )
    copies = [(side(r), r["timings"][r["copy"]]["median_us"] / 1e3) for r in rows]
    axes.plot(*zip(*copies, strict=True), "--", color="gray", linewidth=1.2, label="copy")
    axes.set(xlabel="side of the window, taps", xscale="log", yscale="log")
    ticks = [side(r) for r in rows if side(r) not in (23, 45, 95, 191)]  # those between would touch
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(alpha=0.3)


def side(row: dict[str, Any]) -> int:
    """Of the window that the row's name speaks of: "dense 31x31 ..."."""
    return int(row["name"].split()[1].split("x")[0])


# ---- efficiency of several GPUs over the side of an image ------------------------------------------------------------

# Each line: (the part of scaling.py, its ways, the fastest of which counts, colour, how it is drawn).
SHARES = {
    "torch_conv": ("strong", ["operator"], "black", "o-"),
    "torch_conv in a CUDA graph": ("graph", ["operator"], "gray", "o--"),
    "torch_conv.distributed": ("processes", ["distributed"], "C0", "v-"),
    "pad, exchange, cat, torch_conv": ("rivals", ["cat, torch_conv", "cat, torch_conv cropped"], "C1", "D:"),
    "pad, exchange, cat, F.conv2d": ("rivals", CONVS["rivals"], "C3", "s:"),
    "DTensor F.conv2d": ("processes", CONVS["processes"], "C4", "x:"),
}


def draw_scaling(documents: list[Document], path: Path = SCALING) -> None:
    """A panel for each number of GPUs: torch_conv's time on one of them over N times that of each way on N."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    shown = on_gpus(documents)
    if not shown:
        print("report: there is no results/scaling*.json of GPUs to draw", file=sys.stderr)
        return
    canvas = Figure(figsize=(1 + 4.7 * len(shown), 4.6), layout="constrained")
    lines = {}
    for axes, (n, document) in zip(canvas.subplots(1, len(shown), squeeze=False, sharey=True)[0], shown, strict=True):
        sides = set()
        for label, (part, ways, color, style) in SHARES.items():
            points = sorted(shares(document, part, ways, n).items())
            sides |= {side for side, _ in points}
            if points:  # what was not measured has no name beneath either
                x, y = [side for side, _ in points], [100 * share for _, share in points]
                (lines[label],) = axes.plot(x, y, style, color=color)
        lines["torch_conv on 1 GPU"] = axes.axhline(100, color="gray", linewidth=1)
        axes.set(xlabel="side of the image, pixels", xscale="log", ylim=(0, 108))
        axes.set_title(f"{n} × {document['metadata']['gpu']}", fontsize=10)
        axes.set_xticks(sorted(sides), [str(side) for side in sorted(sides)])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(alpha=0.3)
    canvas.axes[0].set_ylabel("efficiency, %")
    canvas.suptitle("float32 filter2d 3x3, zeros outside", fontsize=11)
    canvas.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=2, fontsize=9)
    canvas.savefig(path, dpi=110)


def shares(document: Document, part: str, ways: list[str], n: int) -> dict[int, float]:
    """The efficiency of the fastest of these ways by the image's side."""
    found = {}
    for row in document["rows"]:
        times = [row["timings"][way]["median_us"] for way in ways if way in row["timings"]]
        if (row["part"], row["name"]) == (part, f"{FILTER} {row['shape'][-1]}²") and "one" in row["timings"] and times:
            found[row["shape"][-1]] = row["timings"]["one"]["median_us"] / (n * min(times))
    return found
