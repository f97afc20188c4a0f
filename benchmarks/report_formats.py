"""The tables of 2-D filters in many formats: a family of rows of filter2d.py, and large_windows.py."""

from __future__ import annotations

from typing import Any

from report_scaling import wrong

Row = dict[str, Any]

SHARES = "Share of the copy's speed, or of the FMA peak where that is more; × the best"
# The first word of a row's name: what is said above its table.
FAMILIES = {
    "formats": f"### Dtypes and memory formats\n\n{SHARES}:",
    "widths": f"### Rows that start at any address\n\n{SHARES}:",
    "windows": f"### Other windows, strides and dilations\n\n{SHARES}:",
    "small": (
        "### Images that L2 holds\n\nTime and host's time of a call; in brackets the best rival's, and F.conv2d's:"
    ),
}


def family(row: Row) -> str | None:
    name = row["name"].split()[0]
    return name if name in FAMILIES else None


def family_tables(rows: list[Row]) -> list[str]:
    """Of each family a table: a line for every format, a column for every window."""
    parts = []
    for name, what in FAMILIES.items():
        cell = small_cell if name == "small" else share_cell
        cells = {format_and_window(r): cell(r) for r in rows if family(r) == name}
        if cells:
            formats, windows = (list(dict.fromkeys(key[i] for key in cells)) for i in range(2))
            lines = [["image", *windows], ["---", *["--:"] * len(windows)]]
            lines += [[each, *(cells.get((each, w), "") for w in windows)] for each in formats]
            parts.append(what + "\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines))
    return parts


def format_and_window(row: Row) -> tuple[str, str]:
    """Of "formats 5x5 u8 4096x4096 NHWC stride 2" what stands in the table's first column, and above the cell."""
    words = row["name"].split()
    options = next((i for i, word in enumerate(words) if word in ("stride", "dilation")), len(words))
    return " ".join(words[2:options]), " ".join([words[1], *words[options:]])


def share_cell(row: Row) -> str:
    memory = row["timings"]["torch_conv"]["extra_bytes"]
    parts = [
        share(row),
        f"{times(row)} ×" if row["speedup"] is not None else "",
        f"{memory / 2**20:.1f} MiB" if memory else "",  # where there is none, nothing is said
    ]
    return (", ".join(filter(None, parts)) + wrong(row)).lstrip()


def share(row: Row) -> str:
    """Of the copy's speed or of the FMA peak, whichever is more; nothing where there is neither."""
    copy, fma = row["copy_fraction"], row["fma_fraction"]
    if fma is not None and fma > (copy or 0.0):
        return f"{100 * fma:.0f} % FMA"
    return "" if copy is None else f"{100 * copy:.0f} %"


def small_cell(row: Row) -> str:
    ours, timings = row["timings"]["torch_conv"], row["timings"]
    rival = f" ({micro(timings[row['best_rival']]['median_us'])})" if row["best_rival"] else ""
    host = ""
    if ours["host_us"] is not None:
        convs = [t["host_us"] for n, t in timings.items() if n.startswith("F.conv") and t["host_us"] is not None]
        host = f", host {micro(ours['host_us'])}" + (f" ({micro(min(convs))})" if convs else "")
    return f"{micro(ours['median_us'])}{rival}{host}" + wrong(row)


def times(row: Row) -> str:
    """How many times longer the best rival takes."""
    return "" if row["speedup"] is None else f"{row['speedup']:.{1 if row['speedup'] > 0.95 else 2}f}"


def micro(us: float) -> str:
    return f"{us:.1f} us"


# ---- large windows ---------------------------------------------------------------------------------------------------

SHOWN = (
    *("torch_conv", "torch_conv direct", "torch_conv low_rank", "torch_conv separable", "torch_conv fft"),
    *("F.conv2d", "F.avg_pool2d", "torch.fft"),
)


def windows_table(rows: list[Row]) -> str:
    """A line for every window: times by algorithm, the best of the others, extra memory and errors."""
    names = [name for name in SHOWN if any(name in r["timings"] for r in rows)]
    measured = [n for n in ("torch_conv", "torch_conv fft", "torch.fft") if n in names]
    headings = ["window", *names, "best other", "× the best"]
    on_gpu = rows[0]["device"] == "cuda"
    headings += [f"memory, {n}" for n in measured] * on_gpu + [f"error, {n}" for n in measured]
    lines = [headings, ["---", *["--:"] * (len(headings) - 1)]]
    for row in rows:
        timings = row["timings"]
        others = {n: t["median_us"] for n, t in timings.items() if n not in (*SHOWN, "copy_", "add")}
        other = min(others, key=others.__getitem__, default=None)
        lines.append(
            [
                " ".join(row["name"].split()[:3]),
                *(milli(timings.get(n)) for n in names),
                f"{milli(timings[other])} ({other})" if other else "",
                times(row) + wrong(row),
                *(mebibytes(timings.get(n)) for n in measured if on_gpu),
                *(f"{timings[n]['max_error']:.0e}" if n in timings else "" for n in measured),
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def milli(timing: dict[str, Any] | None) -> str:
    if timing is None:
        return ""
    ms = timing["median_us"] / 1e3
    return f"{ms:.0f} ms" if ms >= 100 else f"{ms:.3g} ms"


def mebibytes(timing: dict[str, Any] | None) -> str:
    return "" if timing is None or timing["extra_bytes"] is None else f"{timing['extra_bytes'] / 2**20:.0f} MiB"
