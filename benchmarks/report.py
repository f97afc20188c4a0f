"""Writes the measured tables into README.md, between its two markers, from benchmarks/results/*.json.

python benchmarks/report.py            # rewrite
python benchmarks/report.py --check    # only say whether README.md is up to date (exit status 1 if not)
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- measured: begin, written by benchmarks/report.py -->", "<!-- measured: end -->"

HEADINGS = ["workload", "torch_conv", "of copy", "F.conv2d", "with TF32", "best other", "× the best", "extra memory"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; status 1 if README.md is out of date")
    args = parser.parse_args()
    text = README.read_text()
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        print("report: README.md must hold the two markers of the measured tables", file=sys.stderr)
        return 1
    updated = f"{head}{BEGIN}\n\n{tables()}\n\n{END}{tail}"
    if args.check and updated != text:
        print("report: README.md is out of date: run python benchmarks/report.py", file=sys.stderr)
        return 1
    if updated != text:
        README.write_text(updated)
    return 0


def tables() -> str:
    """All results in Markdown, one table per file and device."""
    parts = []
    for path in sorted(RESULTS.glob("*.json")):
        document = json.loads(path.read_text())
        if document["benchmark"] != "filter2d":
            continue
        meta = document["metadata"]
        for device in ("cuda", "cpu"):
            rows = [r for r in document["rows"] if r["device"] == device]
            if rows:
                parts.append(caption(meta, device) + "\n\n" + table(rows))
    return "\n\n".join(parts) or "No measurement is in `benchmarks/results` yet."


def caption(meta: dict[str, Any], device: str) -> str:
    machine, libraries = f"{meta['cpu']}, {meta['threads']} threads", f"torch {meta['torch']}"
    if device == "cuda":
        machine, libraries = f"{meta['gpu']}, driver {meta['driver']}", f"{libraries}, cuDNN {meta['cudnn']}"
    return f"**{machine}** ({libraries}; {meta['date'][:10]}, commit {meta['commit'] or 'unknown'}):"


def table(rows: list[dict[str, Any]]) -> str:
    lines = [HEADINGS, ["---", *["--:"] * (len(HEADINGS) - 1)], *map(cells, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cells(row: dict[str, Any]) -> list[str]:
    timings = row["timings"]
    ours = timings["torch_conv"]
    conv = [t["median_us"] for n, t in timings.items() if n.startswith("F.conv2d") and not n.endswith("TF32")]
    tf32 = [t["median_us"] for n, t in timings.items() if n.endswith("TF32")]
    shown = ("torch_conv", row["copy"], "copy_", "add")
    others = {n: t["median_us"] for n, t in timings.items() if n not in shown and not n.startswith("F.conv2d")}
    other = min(others, key=others.__getitem__, default=None)
    return [
        row["name"] + (" (in L2)" if row["resident"] else ""),
        time(ours["median_us"]),
        f"{100 * row['copy_fraction']:.0f} %",
        time(min(conv)) if conv else "",
        time(min(tf32)) if tf32 else "",
        f"{time(others[other])} ({other})" if other else "",
        f"{row['speedup']:.1f}" + ("" if row["correct"] else " **wrong result**"),
        "" if ours["extra_bytes"] is None else f"{ours['extra_bytes'] / 2**20:.0f} MiB" if ours["extra_bytes"] else "0",
    ]


def time(us: float) -> str:
    return f"{us / 1e3:.2f} ms" if us >= 1e3 else f"{us:.1f} us"


if __name__ == "__main__":
    sys.exit(main())
