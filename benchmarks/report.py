"""Writes the measured tables into docs/ and README.md, between their markers, from benchmarks/results/.

python benchmarks/report.py            # rewrite
python benchmarks/report.py --check    # only say whether the pages are up to date (exit status 1 if not)
python benchmarks/report.py --figure   # draw the figures as well, into docs/ (matplotlib)
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
from math import prod
from pathlib import Path
from typing import Any

from report_ages import RESULTS, older_than_kernels, when_measured
from report_figures import (
    BLURS,
    SCALING,
    SIZES,
    WINDOWS,
    draw_blurs,
    draw_gaussians,
    draw_scaling,
    draw_sizes,
    draw_windows,
)
from report_formats import family, family_tables, windows_table
from report_headline import headline, share
from report_scaling import scaling_tables, wrong
from report_textbook import draw_textbook, textbook

ROOT = Path(__file__).resolve().parent.parent
# By its path, as the package cannot be imported where nothing is built.
without_latency = runpy.run_path(str(ROOT / "torch_conv" / "bench" / "copies.py"))["without_latency"]
PAGES = ROOT / "docs" / "benchmarks"
BEGIN, END = "<!-- {}: begin, written by benchmarks/report.py -->", "<!-- {}: end -->"

# The figure that stands after a benchmark's tables, and what is said of it.
FIGURES = {
    "large_windows": (WINDOWS, "Time over the size of the window, by algorithm"),
    "blur": (BLURS, "Time of Gaussians and boxes over the size of the window, by dtype"),
    "volume": (SIZES, "Time per voxel and share of the copy's speed over the size of a volume"),
    "scaling": (SCALING, "Efficiency of several GPUs over the side of an image, beside halos by hand and DTensor"),
}

# benchmark: (what its captions begin with, the convolution it is compared with)
BENCHMARKS = {
    "filter2d": ("", "F.conv2d"),
    "large_windows": ("Windows from 3x3 to 255x255, ", "F.conv2d"),
    "blur": ("Gaussians and boxes from 3x3 to 255x255, ", "F.conv2d"),
    "filter3d": ("Volumes, ", "F.conv3d"),
    "depthwise": ("Depthwise 2-D convolutions, ", "F.conv2d"),
    "depthwise1d": ("Depthwise 1-D convolutions, ", "F.conv1d"),
    "depthwise3d": ("Depthwise 3-D convolutions, ", "F.conv3d"),
    "fused": ("Fused pipelines, ", "F.conv"),
}
# Those of `torch-conv bench`, which hold tables of their own: (what captions begin with, which tables are shown).
STUDIES = {
    "volume": ("Textbook kernels beside the library's, ", ["volume"]),
    "ladder": ("Textbook kernels beside the library's, ", ["fused"]),
}
# Which page shows what, between markers of the page's name.
PLACES = {
    "filters2d": ["filter2d"],
    "large_windows": ["large_windows"],
    "blur": ["blur"],
    "volumes": ["filter3d", "volume"],
    "depthwise": ["depthwise", "depthwise1d", "depthwise3d"],
    "models": ["models", "training"],
    "fused": ["fused", "ladder"],
    "several_gpus": ["scaling"],
}
MAIN = [1, 1, 4096, 4096]  # the size of a series of fused pipelines that the long table shows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; status 1 if a page is out of date")
    parser.add_argument("--figure", action="store_true", help="draw the figures in docs/ first")
    args = parser.parse_args()
    if args.figure:
        for draw in (draw_sizes, draw_windows, draw_blurs, draw_gaussians, draw_scaling, draw_textbook):
            draw(documents())
    stale = []
    written = {PAGES / f"{place}.md": (place, tables(benchmarks)) for place, benchmarks in PLACES.items()}
    written[ROOT / "README.md"] = ("headline", headline(documents()))
    written[ROOT / "docs" / "textbook.md"] = ("textbook", textbook(documents()))
    for path, (place, content) in written.items():
        text = path.read_text()
        updated = replaced(text, place, content)
        if updated is None:
            print(f"report: {path.relative_to(ROOT)} must hold the two markers of '{place}'", file=sys.stderr)
            return 1
        if updated != text:
            stale.append(str(path.relative_to(ROOT)))
            if not args.check:
                path.write_text(updated)
    if args.check:
        for line in older_than_kernels():
            print(f"report: {line}", file=sys.stderr)
        for name in stale:
            print(f"report: {name} is out of date: run python benchmarks/report.py", file=sys.stderr)
    return 1 if args.check and stale else 0


def replaced(text: str, place: str, content: str) -> str | None:
    """The text with the content between this place's markers; None where they are missing."""
    begin, end = BEGIN.format(place), END.format(place)
    head, found, rest = text.partition(begin)
    _, stop, tail = rest.partition(end)
    return f"{head}{begin}\n\n{content}\n\n{end}{tail}" if found and stop else None


def tables(benchmarks: list[str]) -> str:
    """The results of these benchmarks in Markdown, each benchmark's figure after its tables."""
    parts = []
    for benchmark in benchmarks:
        found = [part for d in documents() if d["benchmark"] == benchmark for part in document_tables(d)]
        figure, text = FIGURES.get(benchmark, (None, ""))
        if found and figure and figure.exists():
            found.append(f"![{text}]({os.path.relpath(figure, PAGES)})")
        parts += found
    return "\n\n".join(parts) or "No measurement is in `benchmarks/results` yet."


def document_tables(document: dict[str, Any]) -> list[str]:
    """One table per file and device; of some benchmarks several, or one for all."""
    benchmark = document["benchmark"]
    if benchmark == "scaling":
        return scaling_tables(document)
    if benchmark == "models":
        return [models_table(document)]
    if benchmark == "training":
        return [training_tables(document)]
    if benchmark in STUDIES:
        shown = [t for t in document["tables"] if t["name"] in STUDIES[benchmark][1]]
        return [part for t in shown for part in (study_caption(document, t), study(t))]
    parts = []
    for device in ("cuda", "cpu"):
        rows = [r for r in document["rows"] if r["device"] == device]
        if rows:
            parts += [caption(document, device), *row_tables(benchmark, rows)]
    return parts


def row_tables(benchmark: str, rows: list[dict[str, Any]]) -> list[str]:
    if benchmark == "fused":
        return [fused_tables(rows)]
    if benchmark in ("large_windows", "blur"):
        return [windows_table(rows)]
    alone = [r for r in rows if family(r) is None]
    text = [table(alone, BENCHMARKS[benchmark][1])] if alone else []
    return ["\n\n".join(text + family_tables(rows))]


def documents() -> list[dict[str, Any]]:
    """All results, those of GPUs first."""
    paths = sorted(RESULTS.glob("*.json"), key=lambda path: (path.stem.endswith("cpu"), path))
    found = [json.loads(path.read_text()) for path in paths]
    return [d | {"rows": list(map(without_latency, d["rows"]))} if "rows" in d else d for d in found]


def study_caption(document: dict[str, Any], table: dict[str, Any]) -> str:
    meta = document["metadata"]
    what = STUDIES[document["benchmark"]][0]
    title = f"{what}{meta['gpu'] or meta['cpu']}"
    return f"## {title}\n\n{table['title']}; {when_measured(document)}."


def study(table: dict[str, Any]) -> str:
    lines = [list(table["columns"].values()), ["---", *["--:"] * (len(table["columns"]) - 1)]]
    for row in table["rows"]:
        values = [row.get(key) for key in table["columns"]]
        lines.append(["" if v is None else f"{v:.4g}" if isinstance(v, float) else str(v) for v in values])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def models_table(document: dict[str, Any]) -> str:
    """Whole models: torch's time over ours, by batch and layout, for every way of running them."""
    meta, rows = document["metadata"], document["rows"]
    cases = list(dict.fromkeys((r["batch"], r["layout"]) for r in rows))
    lines = [
        ["model", "run", *(f"batch {batch} {layout}" for batch, layout in cases)],
        ["---"] * 2 + ["--:"] * len(cases),
    ]
    for model, way in dict.fromkeys((r["model"], r["way"]) for r in rows):
        found = {(r["batch"], r["layout"]): r for r in rows if (r["model"], r["way"]) == (model, way)}
        lines.append([model, way, *(model_cell(found.get(case)) for case in cases)])
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    where = f"{meta['gpu']}, driver {meta['driver']}" if meta["gpu"] else meta["cpu"]
    return (
        f"## Models, {where}\n\nTorch's time, ours with the depthwise layers swapped, and their ratio; "
        f"torch {meta['torch']}; {when_measured(document)}.\n\n{text}"
    )


def training_tables(document: dict[str, Any]) -> str:
    """Layers by the device's time alone; whole models, eager and from a CUDA graph."""
    meta, rows = document["metadata"], document["rows"]
    formats = list(dict.fromkeys((r["dtype"], r["layout"]) for r in rows))
    lines = [["depthwise layer, or model", "what", *map(" ".join, formats)], ["---"] * 2 + ["--:"] * len(formats)]
    parts = {"weights": "gradients of weight and bias", "layers": "step"}
    wanted: dict[tuple[str, str], dict[tuple[str, str], Any]] = {}
    for r in rows:
        if "model" in r:
            name, what = f"{r['model']}, batch {r['batch']}", f"{r['part']}, {r['way']}"
        elif r["way"] == "graph":
            name, what = "x".join(map(str, r["shape"])) + f", k={r['window']}", parts[r["part"]]
            name += f", stride {r['stride']}" * (r["stride"] > 1)
        else:
            continue
        wanted.setdefault((name, what), {})[r["dtype"], r["layout"]] = r
    for (name, what), found in sorted(wanted.items(), key=lambda item: "batch" in item[0][0]):
        lines.append([name, what, *(model_cell(found.get(each)) for each in formats)])
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return (
        f"## Training, {meta['gpu']}, driver {meta['driver']}\n\nTorch's time, ours, and their ratio; a layer's step "
        f"is its forward and the gradients of image, weight and bias, from a CUDA graph; NHWC of a signal: its "
        f"channels innermost; torch {meta['torch']}; {when_measured(document)}.\n\n{text}"
    )


def model_cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return f"{time(row['torch_us'])}, {time(row['ours_us'])}, {row['speedup']:.2f} ×" + " **wrong**" * (
        not row["correct"]
    )


def listed(row: dict[str, Any]) -> bool:
    """False for what is only a point of the figure."""
    return not row.get("series") or row["best_rival"] is not None


def caption(document: dict[str, Any], device: str) -> str:
    meta = document["metadata"]
    machine, libraries = f"{meta['cpu']}, {meta['threads']} threads", f"torch {meta['torch']}"
    if device == "cuda":
        machine, libraries = f"{meta['gpu']}, driver {meta['driver']}", f"{libraries}, cuDNN {meta['cudnn']}"
    what = BENCHMARKS[document["benchmark"]][0]
    return f"## {what}{machine}\n\n{libraries}; {when_measured(document)}."


def table(rows: list[dict[str, Any]], conv: str) -> str:
    headings = ["workload", "torch_conv", "of copy", conv, "with TF32", "best other", "× the best", "extra memory"]
    rows = [r for r in rows if listed(r)]
    fma = any(r.get("fma_fraction") for r in rows)
    if fma:
        headings.insert(3, "of FMA")
    lines = [headings, ["---", *["--:"] * (len(headings) - 1)], *(cells(r, conv, fma) for r in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fused_tables(rows: list[dict[str, Any]]) -> str:
    """Every pipeline with its rivals at one size, and its share of the byte floor at all."""
    headings = ["pipeline", "torch_conv", "of the byte floor", "bytes", "one by one", "bytes", "F.conv", "with TF32"]
    headings += ["best other", "× one by one", "× the best", "extra memory"]
    lines = [headings, ["---", *["--:"] * (len(headings) - 1)]]
    lines += [fused_cells(r) for r in rows if not r["series"] or r["shape"] == MAIN]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    sizes = {tuple(r["shape"]): size(r["shape"]) + " (in L2)" * r["resident"] for r in rows if r["series"]}
    if not sizes:
        return text
    shapes = sorted(sizes, key=prod)
    names = list(dict.fromkeys(r["series"] for r in rows if r["series"]))
    shares = {(r["series"], tuple(r["shape"])): r for r in rows if r["series"]}
    lines = [["of the byte floor, × one by one", *(sizes[s] for s in shapes)], ["---", *["--:"] * len(shapes)]]
    lines += [[name, *(fused_share(shares.get((name, s))) for s in shapes)] for name in names]
    return text + "\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fused_cells(row: dict[str, Any]) -> list[str]:
    timings = row["timings"]
    ours, apart = timings["torch_conv"], best(timings, "torch_conv ")
    convs = {n: t for n, t in timings.items() if n.startswith("F.conv")}
    others = {n: t for n, t in timings.items() if n not in convs and not n.startswith(("torch_conv", "copy_", "add"))}
    other = min(others, key=lambda name: others[name]["median_us"], default=None)
    return [
        row["name"],
        timed(ours),
        share(row) + wrong(row),
        megabytes(ours["moved"]),
        timed(apart),
        megabytes(apart["moved"] if apart else None),
        timed(best({n: t for n, t in convs.items() if not n.endswith("TF32")})),
        timed(best({n: t for n, t in convs.items() if n.endswith("TF32")})),
        f"{timed(others[other])} {other}" if other else "",
        f"{apart['median_us'] / ours['median_us']:.1f}" if apart else "",
        f"{row['speedup']:.1f}" if row["speedup"] is not None else "",
        memory(ours["extra_bytes"]),
    ]


def fused_share(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    apart = best(row["timings"], "torch_conv ")
    gain = f", {apart['median_us'] / row['timings']['torch_conv']['median_us']:.1f}" if apart else ""
    return (share(row) or "–") + gain


def best(timings: dict[str, Any], begin: str = "") -> dict[str, Any] | None:
    """The fastest of those whose name begins so."""
    return min((t for n, t in timings.items() if n.startswith(begin)), key=lambda t: t["median_us"], default=None)


def timed(timing: dict[str, Any] | None) -> str:
    """A time, and in brackets the launches that it takes."""
    if timing is None:
        return ""
    return time(timing["median_us"]) + (f" ({timing['launches']})" if timing["launches"] else "")


def megabytes(count: int | None) -> str:
    return "" if count is None else f"{count / 1e6:.0f} MB"


def memory(count: int | None) -> str:
    return "" if count is None else f"{count / 2**20:.0f} MiB" if count else "0"


def size(shape: list[int]) -> str:
    return f"{shape[-1]}²" if shape[:2] == [1, 1] and shape[-1] == shape[-2] else "x".join(map(str, shape))


def cells(row: dict[str, Any], conv: str, fma: bool) -> list[str]:
    timings = row["timings"]
    ours = timings["torch_conv"]
    plain = [t["median_us"] for n, t in timings.items() if n.startswith(conv) and not n.endswith("TF32")]
    tf32 = [t["median_us"] for n, t in timings.items() if n.startswith(conv) and n.endswith("TF32")]
    shown = ("torch_conv", "copy_", "add", conv)
    others = {n: t["median_us"] for n, t in timings.items() if not n.startswith(shown)}
    other = min(others, key=others.__getitem__, default=None)
    speedup = f"{row['speedup']:.1f}" if row["speedup"] is not None else ""
    return [
        row["name"] + (" (in L2)" if row["resident"] else ""),
        time(ours["median_us"]),
        share(row),
        *([f"{100 * row['fma_fraction']:.0f} %" if row.get("fma_fraction") else ""] if fma else []),
        time(min(plain)) if plain else "",
        time(min(tf32)) if tf32 else "",
        f"{time(others[other])} ({other})" if other else "",
        speedup + wrong(row),
        memory(ours["extra_bytes"]),
    ]


def time(us: float) -> str:
    return f"{us / 1e3:.2f} ms" if us >= 1e3 else f"{us:.1f} us"


if __name__ == "__main__":
    sys.exit(main())
