"""What rows say: names, families, and who is ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch_conv.cli.report.results import PAIRED, TIMED, Document, Row

# What the parts of scaling.py and its ways are called, as docs/benchmarks/several_gpus.md has them.
PARTS = {
    "strong": "one image on one GPU and on all",
    "graph": "one image, from a CUDA graph that spans the GPUs",
    "weak": "an image for each GPU",
    "rivals": "one image, beside the halo exchanged by hand",
    "processes": "a process for each GPU",
    "host": "from host memory and back",
    "link": "the link to the host",
    "gather": "from one GPU to all and back",
}
WAYS = {
    "one": "on one",
    "operator": "on all",
    "one function": "one, by function",
    "function": "all, by function",
    "staged": "all, no peers",
}

# First words of filter2d.py's rows that are no names of functions.
ANY_WINDOW = ("formats", "widths", "windows", "small")


@dataclass(frozen=True)
class Contest:
    """Ours against the best rival in one workload."""

    family: str
    workload: str
    ours_us: float
    rival: str
    rival_us: float
    speedup: float
    document: Document


def contests(documents: Sequence[Document]) -> Iterator[Contest]:
    """Every row with a rival; what the hand-over measures is no contest, as the faster of the two is what runs."""
    for document in documents:
        for row in document.rows:
            if document.form == PAIRED:
                yield Contest(
                    family(document, row), workload(document, row), row["ours_us"], "torch", row["torch_us"],
                    row["torch_us"] / row["ours_us"], document,
                )  # fmt: skip
            elif document.form == TIMED and row.get("best_rival"):
                ours, rival = us(row, "torch_conv"), us(row, row["best_rival"])
                yield Contest(
                    family(document, row), row["name"], ours, row["best_rival"], rival, rival / ours, document
                )


def us(row: Row, name: str) -> float:
    return row["timings"][name]["median_us"]


def family(document: Document, row: Row) -> str:
    """What a row is counted with: the function that it calls."""
    if document.form != TIMED:
        return f"{document.benchmark} {row.get('part', '')}".strip()
    first = (row["name"].split() or [""])[0]
    if first in ANY_WINDOW:
        return "filter2d"
    if document.benchmark.startswith("depthwise"):
        return f"depthwise {first}"
    return f"filter2d {first}" if document.benchmark == "large_windows" else first


def workload(document: Document, row: Row) -> str:
    """A row's name; of models and of steps of training, what it would be called."""
    if "name" in row:
        return row["name"]
    shape = "x".join(map(str, row["shape"])) if isinstance(row.get("shape"), list) else ""
    window = f"window {row['window']}" if row.get("window") else ""
    stride = f"stride {row['stride']}" if row.get("stride") not in (None, 1) else ""
    batch = f"batch {row['batch']}" if row.get("batch") else ""
    named = row.get("part"), row.get("model"), window, stride, batch, shape, row.get("dtype"), row["layout"], row["way"]
    return " ".join(str(each) for each in named if each)
