"""The README's table: one row of each family, a loss among them."""

from __future__ import annotations

from typing import Any

# (what a reader calls it, the benchmark, the name of its row)
ROWS = [
    ("Gaussian 15x15, float32, 4096x4096", "blur", "gaussian 15x15 f32 4096x4096"),
    ("Gaussian 15x15, 16 photos (1080, 1920, 3), uint8", "filter2d", "gaussian 15x15 u8 16x3x1080x1920 NHWC"),
    ("any window 5x5, float32, 4096x4096", "filter2d", "filter2d 5x5 f32 4096x4096"),
    ("box 200x200, float32, 8192x8192", "filter2d", "box 200x200 f32 8192x8192"),
    ("Gaussian 7x7x7, float32, 512x512x512", "filter3d", "gaussian 7x7x7 f32 512x512x512"),
    ("Gaussian 3x3, then Sobel's magnitude, float32, 4096x4096", "fused", "gaussian_sobel 3x3 l2 f32 4096x4096"),
    ("depthwise 7x7, float16, 64x384x28x28, channels_last", "depthwise", "conv2d 7x7 f16 64x384x28x28 NHWC"),
    ("any window 3x3, float32, 256x256 (in L2)", "filter2d", "filter2d 3x3 f32 256x256"),
]


def headline(documents: list[dict[str, Any]]) -> str:
    lines = [["workload", "torch_conv", "of copy", "best rival", "its time", "×", "GPU"]]
    lines.append(["---", "--:", "--:", "---", "--:", "--:", "---"])
    for what, benchmark, name in ROWS:
        document, row = found(documents, benchmark, name)
        rival = row["best_rival"]
        lines.append(
            [
                what,
                time(row["timings"]["torch_conv"]["median_us"]),
                share(row),
                rival,
                time(row["timings"][rival]["median_us"]),
                f"{row['speedup']:.{2 if row['speedup'] < 1 else 1}f}" + " **wrong result**" * (not row["correct"]),
                document["metadata"]["gpu"].split()[1],
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


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
