"""The tables of several GPUs, from the rows of scaling.py."""

from __future__ import annotations

from math import prod

from report_tables import markdown, wrong

from torch_conv.bench.documents import Document, Row
from torch_conv.bench.formatting import duration, percent, ratio
from torch_conv.bench.rows import CONVS, PARTS, time, us

Parts = dict[str, list[Row]]  # the rows by the part of scaling.py
Table = tuple[list[str], list[list[str]]]  # headings, and lines


def scaling_tables(document: Document) -> list[str]:
    """A heading and a table for each part that has rows."""
    parts: Parts = {}
    for row in document.rows:
        if row["timings"]:
            parts.setdefault(row["part"], []).append(row)
    n = document.devices
    made = {
        "strong": strong(parts, n),
        "weak": weak(parts),
        "rivals": by_hand(parts),
        "processes": processes(parts),
        "host": host(parts),
        "gather": gather(parts),
    }
    titles = PARTS | {"host": f"{PARTS['host']}, Gaussian 3x3"}
    return [
        f"### {titles[part][0].upper()}{titles[part][1:]}\n\n{markdown(headings, lines)}"
        for part, (headings, lines) in made.items()
        if lines
    ]


def strong(parts: Parts, n: int) -> Table:
    headings = ["workload", "1 GPU", f"{n} GPUs", "efficiency", "by function", "in a graph", "no peers"]
    graphs = {row["name"]: row["efficiency"].get("operator") for row in parts.get("graph", [])}
    lines = []
    for row in sorted(parts.get("strong", []), key=lambda row: (len(row["shape"]), prod(row["shape"]))):
        shares, hosts = row["efficiency"].get, row["host_us"].get
        efficiency = shares("operator"), shares("function"), graphs.get(row["name"]), shares("staged")
        times = [time(row, "one"), time(row, "operator"), *map(percent, efficiency)]
        lines.append([name_of(row), *times, duration(hosts("one")), duration(hosts("operator"))])
    return [*headings, "host, 1 GPU", f"host, {n} GPUs"], lines


def weak(parts: Parts) -> Table:
    rows = parts.get("weak", [])
    counts = sorted({n for row in rows for n in row["timings"]}, key=int)
    headings = ["workload, for each GPU", *(f"{n} GPU{'s' * (n != '1')}" for n in counts), "efficiency"]
    lines = []
    for row in rows:
        shares = row["efficiency"]
        last = shares[max(shares, key=int)] if shares else None
        lines.append([name_of(row), *(time(row, n) for n in counts), percent(last)])
    return headings, lines


def by_hand(parts: Parts) -> Table:
    names = ["operator", *CONVS["rivals"], "cat, torch_conv", "cat, torch_conv cropped"]
    lines = []
    for row in parts.get("rivals", []):
        convs = [us(row, name) for name in CONVS["rivals"] if name in row["timings"]]
        gain = min(convs) / us(row, "operator") if convs and "operator" in row["timings"] else None
        lines.append([name_of(row), *(time(row, name) for name in names), ratio(gain)])
    return ["workload", "torch_conv", *names[1:], "× F.conv2d"], lines


def processes(parts: Parts) -> Table:
    names = [*CONVS["processes"], "distributed", "distributed, not verified"]
    lines = []
    for row in parts.get("processes", []):
        shares = {name: f" ({percent(row['efficiency'][name])})" for name in names if name in row["efficiency"]}
        lines.append([name_of(row), time(row, "one"), *(time(row, name) + shares.get(name, "") for name in names)])
    return ["workload", "1 GPU", "DTensor's F.conv2d", "with TF32", "torch_conv.distributed", "not verified"], lines


def host(parts: Parts) -> Table:
    headings = ["image", "GPUs", "shards a GPU", "time", "Mpixel/s", "GB/s each way", "speed-up"]
    link: dict[str, float] = next((row["facts"].get("gbs", {}) for row in parts.get("link", [])), {})
    lines = []
    for row in parts.get("host", []):
        image, rates = row["name"].removeprefix("gaussian 3x3 ") + wrong(row), row["facts"]["gbs"]
        ways = [name for name in row["timings"] if " x " in name]  # "2 x 4": two GPUs with four shards each
        for n in sorted({int(name.split()[0]) for name in ways}):
            best, alone = (
                min((name for name in ways if name.split()[0] == str(count)), key=lambda name: us(row, name))
                for count in (n, 1)
            )
            both = link.get(f"both {n}") if row["facts"]["pinned"] else None
            of_link = f"{percent(rates[best] / both)} of {both:.1f}" if both else ""
            gain = f"{us(row, alone) / us(row, best):.2f}"
            lines.append([image, str(n), best.split()[2], *speeds(row, best), gain, of_link])
        if "in turn" in row["timings"]:
            lines.append([image, "1", "copy, filter, copy", *speeds(row, "in turn"), "", ""])
    return [*headings, "of the link both ways"], lines


def speeds(row: Row, way: str) -> tuple[str, str, str]:
    return time(row, way), f"{row['facts']['mpixels'][way]:.0f}", f"{row['facts']['gbs'][way]:.1f}"


def gather(parts: Parts) -> Table:
    ways = {
        "split": "split",
        "copy out": "plain copies",
        "gather": "gather",
        "copy back": "plain copies",
        "copy back at once": "all at once",
    }
    rows = [row for row in parts.get("gather", []) if row["facts"]["bytes"]]
    shown = [way for way in ways if any(way in row["timings"] for row in rows)]
    lines = []
    for row in rows:
        rates = row["facts"]["gbs"]
        cells = [f"{rates[way]:.0f} GB/s" if way in rates else "" for way in shown]
        lines.append([name_of(row), f"{row['facts']['bytes'] / 1e6:.0f} MB", *cells])
    return ["image", "bytes between GPUs", *(ways[way] for way in shown)], lines


def name_of(row: Row) -> str:
    return row["name"] + wrong(row)
