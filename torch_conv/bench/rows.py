"""Rows of results: names, families, times, and the comparison with the best rival."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, log

from torch_conv.bench.documents import OURS, PAIRED, TIMED, Document, Row
from torch_conv.bench.formatting import duration
from torch_conv.bench.load import MedianAndRange

# Titles of the parts of scaling.py.
PARTS = {
    "strong": "one image on one GPU and on all",
    "graph": "one image, from a CUDA graph that spans the GPUs",
    "weak": "an image for each GPU",
    "rivals": "the halo exchanged by hand",
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
# The filter of scaling.py that DTensor's convolution can compute, too.
FILTER = "filter2d 3x3 constant"
# Torch's convolutions on all GPUs, by part of scaling.py: with exchanged halos, and of DTensors.
CONVS = {"rivals": ["cat, F.conv2d", "cat, F.conv2d TF32"], "processes": ["DTensor F.conv2d", "DTensor F.conv2d TF32"]}
# First words of rows of filter2d.py that name no function.
ANY_WINDOW = ("formats", "widths", "windows", "small")


@dataclass(frozen=True)
class Contest:
    """Ours against the best rival in one workload."""

    family: str
    workload: str
    ours_us: float
    rival: str
    rival_us: float
    document: Document

    @property
    def speedup(self) -> float:
        return self.rival_us / self.ours_us


def contests(documents: Sequence[Document]) -> Iterator[Contest]:
    """Every row with a rival. Rows of the hand-over have none, because the faster side serves the call."""
    for document in documents:
        for row in document.rows if document.form in (TIMED, PAIRED) else []:
            if rival := row.get("best_rival"):
                ours, theirs = us(row, OURS), us(row, rival)
                yield Contest(family(document, row), row["name"], ours, rival, theirs, document)


def us(row: Row, name: str) -> float:
    return row["timings"][name]["median_us"]


def time_us(row: Row, name: str) -> MedianAndRange:
    timing = row["timings"][name]
    return timing["median_us"], timing.get("iqr_us") or 0.0


def time(row: Row, name: str) -> str:
    return duration(us(row, name)) if name in row["timings"] else ""


def fastest(row: Row, names: Iterable[str]) -> str | None:
    return min(names, key=lambda name: us(row, name), default=None)


def own_chain(row: Row) -> str | None:
    """The fastest other algorithm of this library; for a fused pipeline, its filters one by one."""
    return fastest(row, (name for name in row["timings"] if name.startswith(f"{OURS} ")))


def gain(row: Row) -> float | None:
    """The time of the own chain over the time of the call."""
    chain = own_chain(row)
    return us(row, chain) / us(row, OURS) if chain else None


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, ratios)) / len(ratios))


def family(document: Document, row: Row) -> str:
    """The group of a row: the function that it calls."""
    if document.form != TIMED:
        return f"{document.benchmark} {row.get('part', '')}".strip()
    first = (row["name"].split() or [""])[0]
    if first in ANY_WINDOW:
        return "filter2d"
    if document.benchmark.startswith("depthwise"):
        return f"depthwise {first}"
    return f"filter2d {first}" if document.benchmark == "large_windows" else first
