"""The rows of results: their names, families and times, and whether we or the best rival are ahead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, log

from torch_conv.bench.documents import OURS, PAIRED, TIMED, Document, Row
from torch_conv.bench.numbers import duration

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
# The filter of scaling.py whose border DTensor's convolution has, too.
FILTER = "filter2d 3x3 constant"
# Torch's convolution on all GPUs, by the part of scaling.py: halos exchanged by hand, and of DTensors.
CONVS = {"rivals": ["cat, F.conv2d", "cat, F.conv2d TF32"], "processes": ["DTensor F.conv2d", "DTensor F.conv2d TF32"]}
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
    document: Document

    @property
    def speedup(self) -> float:
        return self.rival_us / self.ours_us


def contests(documents: Sequence[Document]) -> Iterator[Contest]:
    """Every row with a rival. The hand-over's rows have none: the faster of the two kernels runs."""
    for document in documents:
        for row in document.rows if document.form in (TIMED, PAIRED) else []:
            if rival := row.get("best_rival"):
                ours, theirs = us(row, OURS), us(row, rival)
                yield Contest(family(document, row), row["name"], ours, rival, theirs, document)


def us(row: Row, name: str) -> float:
    return row["timings"][name]["median_us"]


def time(row: Row, name: str) -> str:
    return duration(us(row, name)) if name in row["timings"] else ""


def fastest(row: Row, names: Iterable[str]) -> str | None:
    return min(names, key=lambda name: us(row, name), default=None)


def own_chain(row: Row) -> str | None:
    """The fastest of this library's other ways: of a fused pipeline, filters one after the other."""
    return fastest(row, (name for name in row["timings"] if name.startswith(f"{OURS} ")))


def gain(row: Row) -> float | None:
    """The own chain's time over that of the call."""
    chain = own_chain(row)
    return us(row, chain) / us(row, OURS) if chain else None


def mean(ratios: Sequence[float]) -> float:
    """The geometric one."""
    return exp(sum(map(log, ratios)) / len(ratios))


def family(document: Document, row: Row) -> str:
    """The group that a row is counted in: the function that it calls."""
    if document.form != TIMED:
        return f"{document.benchmark} {row.get('part', '')}".strip()
    first = (row["name"].split() or [""])[0]
    if first in ANY_WINDOW:
        return "filter2d"
    if document.benchmark.startswith("depthwise"):
        return f"depthwise {first}"
    return f"filter2d {first}" if document.benchmark == "large_windows" else first
