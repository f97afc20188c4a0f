"""Tables of results in Markdown: filters, windows, fused pipelines, models and training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from torch_conv.bench.copies import COPIES
from torch_conv.bench.documents import OURS, Document, Row
from torch_conv.bench.formatting import duration, percent, ratio
from torch_conv.bench.rows import fastest, gain, own_chain, time, us

# The convolution that a benchmark's rows are compared with, where it is not F.conv2d.
CONVS = {"filter3d": "F.conv3d", "depthwise1d": "F.conv1d", "depthwise3d": "F.conv3d", "fused": "F.conv"}
Cells = dict[tuple[tuple[str, ...], str], str]  # by what stands on the left of a line, and above a column
MAIN = [1, 1, 4096, 4096]  # the size of a series of fused pipelines that the long table shows


def markdown(headings: Sequence[str], lines: Iterable[Sequence[str]], left: Iterable[int] = (0,)) -> str:
    """A table whose columns are numbers but for those on the left."""
    rule = ["---" if i in left else "--:" for i in range(len(headings))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [headings, rule, *lines])


def crossed(corner: Sequence[str], cells: Cells) -> str:
    """A table of cells by line and column, each in the order in which it comes first."""
    lines, columns = dict.fromkeys(line for line, _ in cells), dict.fromkeys(column for _, column in cells)
    body = [[*line, *(cells.get((line, column), "") for column in columns)] for line in lines]
    return markdown([*corner, *columns], body, range(len(corner)))


def tables(document: Document) -> str:
    """The rows of a document."""
    if document.benchmark == "models":
        return models(document.rows)
    if document.benchmark == "training":
        return training(document.rows)
    if document.benchmark == "fused":
        return fused(document.rows)
    if document.benchmark in ("large_windows", "blur"):
        return windows(document)
    alone = [row for row in document.rows if row["name"].split()[0] not in FAMILIES]
    text = [workloads(alone, CONVS.get(document.benchmark, "F.conv2d"))] if alone else []
    return "\n\n".join(text + families(document.rows))


def wrong(row: Row) -> str:
    return "" if row["correct"] else " **wrong result**"


def mebibytes(count: int | None) -> str:
    return "" if count is None else f"{count / 2**20:.0f} MiB"


def memory(row: Row) -> str:
    extra = row["timings"][OURS]["extra_bytes"]
    return "0" if extra == 0 else mebibytes(extra)


def fastest_of_each(row: Row, conv: str) -> tuple[str | None, str | None, str | None]:
    """The fastest of torch's convolutions, of these with TF32, and of the rivals that are none."""
    convs = [name for name in row["timings"] if name.startswith(conv)]
    others = [name for name in row["timings"] if not name.startswith((OURS, *COPIES, conv))]
    with_tf32 = [name for name in convs if name.endswith("TF32")]
    return (
        fastest(row, (name for name in convs if name not in with_tf32)),
        fastest(row, with_tf32),
        fastest(row, others),
    )


# ---- filters, of images and volumes ----------------------------------------------------------------------------------


def workloads(rows: Sequence[Row], conv: str) -> str:
    """A line for every row but those that are only a point of a figure."""
    rows = [row for row in rows if not row.get("series") or row["best_rival"] is not None]
    fma = any(row.get("fma_fraction") for row in rows)
    headings = ["workload", OURS, "of copy", *["of FMA"] * fma, conv, "with TF32", "best other", "× the best"]
    return markdown([*headings, "extra memory"], (workload(row, conv, fma) for row in rows))


def workload(row: Row, conv: str, fma: bool) -> list[str]:
    plain, tf32, other = fastest_of_each(row, conv)
    return [
        row["name"] + " (in L2)" * row["resident"],
        time(row, OURS),
        percent(row["copy_fraction"]),
        *[percent(row.get("fma_fraction"))] * fma,
        time(row, plain) if plain else "",
        time(row, tf32) if tf32 else "",
        f"{time(row, other)} ({other})" if other else "",
        ratio(row["speedup"]) + wrong(row),
        memory(row),
    ]


SHARES = "Share of the copy's speed, or of the FMA peak where that is more; × the best"
# The first word of a row's name: what stands above the table of such rows.
FAMILIES = {
    "formats": f"### Dtypes and memory formats\n\n{SHARES}:",
    "widths": f"### Rows that start at any address\n\n{SHARES}:",
    "windows": f"### Other windows, strides and dilations\n\n{SHARES}:",
    "small": (
        "### Images that L2 holds\n\nTime and host's time of a call; in brackets the best rival's, and F.conv2d's:"
    ),
}


def families(rows: Sequence[Row]) -> list[str]:
    """Of each family a table: a line for every format, a column for every window."""
    parts = []
    for name, what in FAMILIES.items():
        cell = small_cell if name == "small" else share_cell
        cells = {format_and_window(row): cell(row) for row in rows if row["name"].split()[0] == name}
        if cells:
            parts.append(f"{what}\n\n{crossed(['image'], cells)}")
    return parts


def format_and_window(row: Row) -> tuple[tuple[str, ...], str]:
    """Of "formats 5x5 u8 4096x4096 NHWC stride 2" the text of the table's first column, and that above the cell."""
    words = row["name"].split()
    options = next((i for i, word in enumerate(words) if word in ("stride", "dilation")), len(words))
    return (" ".join(words[2:options]),), " ".join([words[1], *words[options:]])


def share_cell(row: Row) -> str:
    extra = row["timings"][OURS]["extra_bytes"]
    parts = [
        share(row),
        f"{ratio(row['speedup'])} ×" if row["speedup"] is not None else "",
        f"{extra / 2**20:.1f} MiB" if extra else "",  # of none nothing is said
    ]
    return (", ".join(filter(None, parts)) + wrong(row)).lstrip()


def share(row: Row) -> str:
    """Of the copy's speed or of the FMA peak, whichever is more; nothing where there is neither."""
    copy, fma = row["copy_fraction"], row["fma_fraction"]
    return f"{percent(fma)} FMA" if fma is not None and fma > (copy or 0.0) else percent(copy)


def small_cell(row: Row) -> str:
    rival = f" ({time(row, row['best_rival'])})" if row["best_rival"] else ""
    hosts = {name: timing["host_us"] for name, timing in row["timings"].items() if timing["host_us"] is not None}
    convs = [us for name, us in hosts.items() if name.startswith("F.conv")]
    host = f", host {duration(hosts[OURS])}" + (f" ({duration(min(convs))})" if convs else "") if OURS in hosts else ""
    return f"{time(row, OURS)}{rival}{host}{wrong(row)}"


# ---- windows up to 255x255 -------------------------------------------------------------------------------------------

SHOWN = (
    *(OURS, "torch_conv direct", "torch_conv low_rank", "torch_conv separable", "torch_conv fft"),
    *("F.conv2d", "F.avg_pool2d", "torch.fft"),
)


def windows(document: Document) -> str:
    """A line for every window: times by algorithm, the best of the others, extra memory and errors."""
    names = [name for name in SHOWN if any(name in row["timings"] for row in document.rows)]
    measured = [name for name in (OURS, "torch_conv fft", "torch.fft") if name in names]
    of_memory = measured if document.on_gpu else []
    headings = ["window", *names, "best other", "× the best", *(f"memory, {name}" for name in of_memory)]
    lines = []
    for row in document.rows:
        timings = row["timings"]
        other = fastest(row, (name for name in timings if name not in (*SHOWN, *COPIES)))
        lines.append(
            [
                " ".join(row["name"].split()[:3]),
                *(milliseconds(row, name) for name in names),
                f"{milliseconds(row, other)} ({other})" if other else "",
                ratio(row["speedup"]) + wrong(row),
                *(mebibytes(timings[name]["extra_bytes"]) if name in timings else "" for name in of_memory),
                *(f"{timings[name]['max_error']:.0e}" if name in timings else "" for name in measured),
            ]
        )
    return markdown([*headings, *(f"error, {name}" for name in measured)], lines)


def milliseconds(row: Row, name: str) -> str:
    if name not in row["timings"]:
        return ""
    ms = us(row, name) / 1e3
    return f"{ms:.0f} ms" if ms >= 100 else f"{ms:.3g} ms"


# ---- fused pipelines -------------------------------------------------------------------------------------------------


def fused(rows: Sequence[Row]) -> str:
    """Every pipeline with its rivals at one size, and its share of the byte floor at all."""
    headings = ["pipeline", OURS, "of the byte floor", "bytes", "one by one", "bytes", "F.conv", "with TF32"]
    headings += ["best other", "× one by one", "× the best", "extra memory"]
    text = markdown(headings, (pipeline(row) for row in rows if not row["series"] or row["shape"] == MAIN))
    points = sorted((row for row in rows if row["series"]), key=lambda row: prod(row["shape"]))
    cells: Cells = {((row["series"],), size(row)): share_and_gain(row) for row in points}
    return "\n\n".join([text, crossed(["of the byte floor, × one by one"], cells)] if cells else [text])


def pipeline(row: Row) -> list[str]:
    apart = own_chain(row)
    conv, tf32, other = fastest_of_each(row, "F.conv")
    return [
        row["name"],
        with_launches(row, OURS),
        percent(row["copy_fraction"]) + wrong(row),
        megabytes(row, OURS),
        with_launches(row, apart),
        megabytes(row, apart),
        with_launches(row, conv),
        with_launches(row, tf32),
        f"{with_launches(row, other)} {other}" if other else "",
        ratio(gain(row)),
        ratio(row["speedup"]),
        memory(row),
    ]


def share_and_gain(row: Row) -> str:
    return ", ".join(filter(None, [percent(row["copy_fraction"]) or "–", ratio(gain(row))]))


def size(row: Row) -> str:
    shape = row["shape"]
    square = shape[:2] == [1, 1] and shape[-1] == shape[-2]
    return (f"{shape[-1]}²" if square else "x".join(map(str, shape))) + " (in L2)" * row["resident"]


def with_launches(row: Row, name: str | None) -> str:
    launches = row["timings"][name]["launches"] if name else None
    return (time(row, name) if name else "") + (f" ({launches})" if launches else "")


def megabytes(row: Row, name: str | None) -> str:
    moved = row["timings"][name]["moved"] if name else None
    return "" if moved is None else f"{moved / 1e6:.0f} MB"


# ---- models and training ---------------------------------------------------------------------------------------------


def models(rows: Sequence[Row]) -> str:
    """Torch's time over ours, by batch and layout, for every way of running a model."""
    cells: Cells = {((row["model"], row["way"]), f"batch {row['batch']} {row['layout']}"): pair(row) for row in rows}
    return crossed(["model", "run"], cells)


def training(rows: Sequence[Row]) -> str:
    """Layers by the device's time alone; whole models, eager and from a CUDA graph."""
    parts = {"weights": "gradients of weight and bias", "layers": "step"}
    cells: Cells = {}
    for row in sorted(rows, key=lambda row: "model" in row):
        if "model" in row:
            line = f"{row['model']}, batch {row['batch']}", f"{row['part']}, {row['way']}"
        elif row["way"] == "graph":
            stride = f", stride {row['stride']}" * (row["stride"] > 1)
            line = f"{'x'.join(map(str, row['shape']))}, k={row['window']}{stride}", parts[row["part"]]
        else:
            continue
        cells[line, f"{row['dtype']} {row['layout']}"] = pair(row)
    return crossed(["depthwise layer, or model", "what"], cells)


def pair(row: dict[str, Any]) -> str:
    return f"{time(row, 'torch')}, {time(row, OURS)}, {ratio(row['speedup'], 2)} ×{wrong(row)}"
