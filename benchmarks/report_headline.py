"""The README's table: one row of each family, one filter on several GPUs, and a loss."""

from __future__ import annotations

from typing import Any

from report_scaling import CONVS, FILTER, on_gpus, wrong

# (what a reader calls it, the benchmark, the name of its row)
ROWS = [
    ("Gaussian 15x15, float32, 4096x4096", "blur", "gaussian 15x15 f32 4096x4096"),
    ("Gaussian 15x15, 16 photos (1080, 1920, 3), uint8", "filter2d", "gaussian 15x15 u8 16x3x1080x1920 NHWC"),
    ("any window 5x5, float32, 4096x4096", "filter2d", "filter2d 5x5 f32 4096x4096"),
    ("box 200x200, float32, 8192x8192", "filter2d", "box 200x200 f32 8192x8192"),
    ("Gaussian 7x7x7, float32, 512x512x512", "filter3d", "gaussian 7x7x7 f32 512x512x512"),
    ("Gaussian 3x3, then Sobel's magnitude, float32, 4096x4096", "fused", "gaussian_sobel 3x3 l2 f32 4096x4096"),
    ("depthwise 7x7, float16, 64x384x28x28, channels_last", "depthwise", "conv2d 7x7 f16 64x384x28x28 NHWC"),
]
LOSS = ("any window 3x3, float32, 256x256 (in L2)", "filter2d", "filter2d 3x3 f32 256x256")  # stands last
# Of one image on several GPUs; smaller ones are faster on one (docs/several_gpus.md).
SIDES = (8192, 32768)
# By the part of scaling.py: (torch_conv there, what a reader calls torch's convolution there)
WAYS = {
    "rivals": ("operator", "F.conv2d, halos by hand"),
    "processes": ("distributed", "F.conv2d of DTensors"),
}


def headline(documents: list[dict[str, Any]]) -> str:
    lines = [["workload", "torch_conv", "of copy", "best rival", "its time", "×", "GPU"]]
    lines.append(["---", "--:", "--:", "---", "--:", "--:", "---"])
    lines += [line(documents, *row) for row in ROWS]
    for gpus, document in on_gpus(documents)[-1:]:  # the most of them
        lines += [line_of_shards(document, gpus, side) for side in SIDES]
    lines.append(line(documents, *LOSS))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def line(documents: list[dict[str, Any]], what: str, benchmark: str, name: str) -> list[str]:
    document, row = found(documents, benchmark, name)
    rival = row["best_rival"]
    return [
        what,
        time(row["timings"]["torch_conv"]["median_us"]),
        share(row),
        rival,
        time(row["timings"][rival]["median_us"]),
        speedup(row, row["speedup"]),
        document["metadata"]["gpu"].split()[1],
    ]


def line_of_shards(document: dict[str, Any], gpus: int, side: int) -> list[str]:
    """Torch's fastest way on all GPUs, and ours in the same run."""
    rows = [row for row in document["rows"] if row["part"] in WAYS and row["name"] == f"{FILTER} {side}²"]
    rivals = [(row, conv) for row in rows for conv in CONVS[row["part"]] if conv in row["timings"]]
    if not rivals:
        raise SystemExit(f"report: no results of {gpus} GPUs hold a rival of '{FILTER} {side}²'")
    row, conv = min(rivals, key=lambda rival: rival[0]["timings"][rival[1]]["median_us"])
    way, called = WAYS[row["part"]]
    one, ours, theirs = (row["timings"][name]["median_us"] for name in ("one", way, conv))
    return [
        f"any window 3x3, float32, {side}x{side}, on {gpus} GPUs ({time(one)} on one: {100 * one / ours / gpus:.0f} %)",
        time(ours),
        "",
        called + " (TF32)" * conv.endswith("TF32"),
        time(theirs),
        speedup(row, theirs / ours),
        f"{gpus} × {document['metadata']['gpu'].split()[1]}",
    ]


def speedup(row: dict[str, Any], times: float) -> str:
    return f"{times:.{2 if times < 1 else 1}f}" + wrong(row)


def found(documents: list[dict[str, Any]], benchmark: str, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    for document in documents:
        for row in document["rows"] if document["benchmark"] == benchmark else []:
            if (row["device"], row["name"]) == ("cuda", name):
                return document, row
    raise SystemExit(f"report: no results of {benchmark} on a GPU hold the row '{name}'")


def share(row: dict[str, Any]) -> str:
    """Of the copy's speed; nothing where the copy is launch latency."""
    return "" if row["copy_fraction"] is None else f"{100 * row['copy_fraction']:.0f} %"


def time(us: float) -> str:
    return f"{us / 1e3:.2f} ms" if us >= 1e3 else f"{us:.{1 if us < 9.95 else 0}f} us"
