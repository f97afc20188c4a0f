"""The tables of several GPUs, from the rows of scaling.py."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from report_ages import when_measured

Row = dict[str, Any]
Line = list[str]

# What README, textbook and figure show: the one filter whose border DTensor's convolution knows, too.
FILTER = "filter2d 3x3 constant"
# Torch's convolution on all GPUs, by the part of scaling.py: halos exchanged by hand, and of DTensors.
CONVS = {
    "rivals": ["cat, F.conv2d", "cat, F.conv2d TF32"],
    "processes": ["DTensor F.conv2d", "DTensor F.conv2d TF32"],
}


def on_gpus(documents: Iterable[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """The results of several GPUs, and how many these are; fewest first."""
    found = [d for d in documents if d["benchmark"] == "scaling" and d["metadata"]["gpu"]]
    return sorted(((len(d["metadata"]["shards"]), d) for d in found), key=lambda pair: pair[0])


def scaling_tables(document: dict[str, Any]) -> list[str]:
    """A heading and tables in Markdown; those without rows are left out."""
    meta = document["metadata"]
    parts: dict[str, list[Row]] = {}
    for row in document["rows"]:
        if row["timings"]:
            parts.setdefault(row["part"], []).append(row)
    n = len(meta["shards"])
    where = f"{n} × {meta['gpu']}, driver {meta['driver']}" if meta["gpu"] else f"{n} shards on {meta['cpu']}"
    source = f"torch {meta['torch']}; {when_measured(document)}"
    found = [
        ("one image on one GPU and on all", strong(parts, n)),
        ("an image for each GPU", weak(parts)),
        ("the halo exchanged by hand", by_hand(parts)),
        ("a process for each GPU", processes(parts)),
        ("from host memory and back, Gaussian 3x3", host(parts)),
        ("from one GPU to all and back", gather(parts)),
    ]
    shown = [f"### {what[0].upper()}{what[1:]}\n\n{table(lines)}" for what, lines in found if len(lines) > 1]
    return [f"## {where}\n\n{source}.", *shown] if shown else []


def table(lines: list[Line]) -> str:
    rule = ["---", *["--:"] * (len(lines[0]) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], rule, *lines[1:]])


def strong(parts: dict[str, list[Row]], n: int) -> list[Line]:
    graphs = {row["name"]: row for row in parts.get("graph", [])}
    headings = ["workload", "1 GPU", f"{n} GPUs", "efficiency", "by function", "in a graph", "no peers"]
    lines = [[*headings, "host, 1 GPU", f"host, {n} GPUs"]]
    for row in sorted(parts.get("strong", []), key=lambda row: (len(row["shape"]), prod(row["shape"]))):
        graph = graphs.get(row["name"], {}).get("efficiency", {})
        lines.append(
            [
                name_of(row),
                time(row, "one"),
                time(row, "operator"),
                percent(row["efficiency"].get("operator")),
                percent(row["efficiency"].get("function")),
                percent(graph.get("operator")),
                percent(row["efficiency"].get("staged")),
                micro(row["host_us"].get("one")),
                micro(row["host_us"].get("operator")),
            ]
        )
    return lines


def weak(parts: dict[str, list[Row]]) -> list[Line]:
    rows = parts.get("weak", [])
    counts = sorted({n for row in rows for n in row["timings"]}, key=int)
    lines = [["workload, for each GPU", *(f"{n} GPU{'s' * (n != '1')}" for n in counts), "efficiency"]]
    for row in rows:
        shares = row["efficiency"]
        last = shares[max(shares, key=int)] if shares else None
        lines.append([name_of(row), *(time(row, n) for n in counts), percent(last)])
    return lines


def by_hand(parts: dict[str, list[Row]]) -> list[Line]:
    names = [*CONVS["rivals"], "cat, torch_conv", "cat, torch_conv cropped"]
    lines = [["workload", "torch_conv", *names, "× F.conv2d"]]
    for row in parts.get("rivals", []):
        lines.append([name_of(row), time(row, "operator"), *(time(row, n) for n in names)])
        convs = [us(row, n) for n in CONVS["rivals"]]
        best, own = min((t for t in convs if t), default=None), us(row, "operator")
        lines[-1].append(f"{best / own:.1f}" if best and own else "")
    return lines


def processes(parts: dict[str, list[Row]]) -> list[Line]:
    names = [*CONVS["processes"], "distributed", "distributed, not verified"]
    headings = ["DTensor's F.conv2d", "with TF32", "torch_conv.distributed", "not verified"]
    lines = [["workload", "1 GPU", *headings]]
    for row in parts.get("processes", []):
        lines.append([name_of(row), time(row, "one")])
        for name in names:
            share = percent(row["efficiency"].get(name))
            lines[-1].append(time(row, name) + (f" ({share})" if share else ""))
    return lines


def host(parts: dict[str, list[Row]]) -> list[Line]:
    link: dict[str, float] = next((row["facts"].get("gbs", {}) for row in parts.get("link", [])), {})
    headings = [
        "image",
        "GPUs",
        "shards a GPU",
        "time",
        "Mpixel/s",
        "speed-up",
        "GB/s each way",
        "of the link both ways",
    ]
    lines = [headings]
    for row in parts.get("host", []):
        ways = [name for name in row["timings"] if " x " in name]
        rates = row["facts"]["gbs"]
        for n in sorted({int(name.split()[0]) for name in ways}):
            best = min((name for name in ways if name.split()[0] == str(n)), key=lambda name: us(row, name) or 0)
            alone = min(us(row, name) or 0 for name in ways if name.split()[0] == "1")
            both = link.get(f"both {n}")
            lines.append(
                [
                    row["name"].removeprefix("gaussian 3x3 ") + wrong(row),
                    str(n),
                    best.split()[2],
                    time(row, best),
                    f"{row['facts']['mpixels'][best]:.0f}",
                    f"{alone / (us(row, best) or 1):.2f}",
                    f"{rates[best]:.1f}",
                    f"{100 * rates[best] / both:.0f} % of {both:.1f}" if both and row["facts"]["pinned"] else "",
                ]
            )
        if "in turn" in row["timings"]:
            rate = row["facts"]["mpixels"]["in turn"]
            name = row["name"].removeprefix("gaussian 3x3 ")
            turns = [
                name,
                "1",
                "copy, filter, copy",
                time(row, "in turn"),
                f"{rate:.0f}",
                "",
                f"{rates['in turn']:.1f}",
                "",
            ]
            lines.append(turns)
    return lines


def gather(parts: dict[str, list[Row]]) -> list[Line]:
    ways = {
        "split": "split",
        "copy out": "plain copies",
        "gather": "gather",
        "copy back": "plain copies",
        "copy back at once": "all at once",
    }
    rows = [row for row in parts.get("gather", []) if row["facts"]["bytes"]]
    shown = [way for way in ways if any(way in row["timings"] for row in rows)]
    lines = [["image", "bytes between GPUs", *(ways[way] for way in shown)]]
    for row in rows:
        rates = row["facts"]["gbs"]
        cells = [f"{rates[way]:.0f} GB/s" if way in rates else "" for way in shown]
        lines.append([name_of(row), f"{row['facts']['bytes'] / 1e6:.0f} MB", *cells])
    return lines


def name_of(row: Row) -> str:
    return row["name"] + wrong(row)


def wrong(row: Row) -> str:
    return "" if row["correct"] else " **wrong result**"


def us(row: Row, name: str) -> float | None:
    timing = row["timings"].get(name)
    return timing["median_us"] if timing else None


def time(row: Row, name: str) -> str:
    value = us(row, name)
    return "" if value is None else f"{value / 1e3:.2f} ms" if value >= 1e3 else f"{value:.1f} us"


def micro(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} us"


def percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"
