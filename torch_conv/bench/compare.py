"""A run compared with an older one: rows that are slower beyond noise, and the agreement of the ratios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_conv.bench.copies import COPIES
from torch_conv.bench.documents import OURS, PAIRED, TIMED, read, with_timings
from torch_conv.bench.results import Key, key_of
from torch_conv.bench.rows import time_us
from torch_conv.bench.usage import UsageError

LEAST_NOISE = 0.03
SLOWER = "SLOWER"
IQRS = 2  # noise in relative interquartile ranges
AGREE = 0.05  # relative; two runs of one commit agree within it


@dataclass(frozen=True)
class Change:
    """A row that both runs hold; times are this library's, in microseconds."""

    device: str
    name: str
    old_us: float
    new_us: float
    noise: float  # relative

    @property
    def ratio(self) -> float:
        return self.new_us / self.old_us

    @property
    def verdict(self) -> str:
        if self.ratio > 1 + self.noise:
            return SLOWER
        return "faster" if self.ratio < 1 / (1 + self.noise) else ""


@dataclass(frozen=True)
class Ratio:
    """The time of a rival, another algorithm or the copy, over ours, for one row in both runs."""

    device: str
    name: str
    other: str
    old: float
    new: float

    @property
    def agrees(self) -> bool:
        return max(self.new / self.old, self.old / self.new) <= 1 + AGREE


@dataclass(frozen=True)
class Older:
    """An older run: its rows of CPUs and of this GPU, and the machines of its other rows."""

    path: Path
    rows: dict[Key, dict[str, Any]]
    others: list[str]


def older_run(path: Path, benchmark: str, gpu: str | None, keys: Iterable[Key]) -> Older:
    """The older run in a file; UsageError if the file cannot be read or has none of the rows `keys`."""
    documents = read(path)
    for document in documents:
        if document.benchmark != benchmark:
            raise UsageError(f"{path} holds results of {document.benchmark}, not of {benchmark}")
        if document.rows and document.form not in (TIMED, PAIRED):
            raise UsageError(f"{path} holds no times that could be compared")
    same = [document for document in documents if not document.on_gpu or document.meta["gpu"] == gpu]
    rows = {key_of(row): row for document in same for row in document.rows}
    if not rows.keys() & set(keys):
        machines = " and ".join(document.machine for document in documents)
        raise UsageError(f"{path}, of {machines}, has no row in common with this run")
    return Older(path, rows, [document.machine for document in documents if document not in same])


def changes(older: Older, rows: Iterable[dict[str, Any]]) -> list[Change]:
    """The changes of the rows that both runs have, in the order of this run."""
    found = []
    for row in rows:
        key = row["device"], row["name"]
        if key in older.rows:
            (old_us, old_noise), (new_us, new_noise) = timed(older.rows[key]), timed(row)
            found.append(Change(*key, old_us, new_us, max(LEAST_NOISE, IQRS * old_noise, IQRS * new_noise)))
    return found


def timed(row: dict[str, Any]) -> tuple[float, float]:
    """The median of this library's time, and its relative interquartile range."""
    middle, spread = time_us(with_timings(row), OURS)
    return middle, spread / middle


def ratios(older: Older, rows: Iterable[dict[str, Any]]) -> list[Ratio]:
    """The ratios that both runs have, in the order of this run."""
    found = []
    for row in rows:
        key = row["device"], row["name"]
        old = ratios_of(older.rows[key]) if key in older.rows else {}
        found += [Ratio(*key, other, old[other], new) for other, new in ratios_of(row).items() if other in old]
    return found


def ratios_of(row: dict[str, Any]) -> dict[str, float]:
    """The times of all others over ours; the faster copy counts, where the row has a share of it."""
    row = with_timings(row)
    times = {name: timing["median_us"] for name, timing in row["timings"].items()}
    found = {name: time / times[OURS] for name, time in times.items() if name not in (OURS, *COPIES)}
    copy = row["copy_fraction"]
    return found if copy is None else {"copy": copy, **found}


def lines(
    older: Older, found: Sequence[Change], beside: Sequence[Ratio], new: Iterable[Key], old: Iterable[Key]
) -> list[str]:
    """A line per row, rows that only this run (`new`) or only the older one (`old`) has, and the counts.

    The last lines list the ratios in `beside` on which the runs disagree, and the number on which they agree.
    """
    said = [
        f"{c.device:4}  {c.name:46} {c.old_us:10.1f} -> {c.new_us:10.1f} us  {c.ratio:5.2f} x"
        f"  noise {100 * c.noise:.1f} %  {c.verdict}".rstrip()
        for c in found
    ]
    said += [f"{device:4}  {name}: not in {older.path}" for device, name in new]
    said += [f"{device:4}  {name}: only in {older.path}" for device, name in old]
    said += [f"{older.path}: the rows of {machine} are not compared" for machine in older.others]
    slower = sum(c.verdict == SLOWER for c in found)
    said.append(f"{slower or 'none'} of {len(found)} rows slower than in {older.path}, beyond noise")
    apart = [ratio for ratio in beside if not ratio.agrees]
    said += [f"{r.device:4}  {r.name:46} {r.old:10.3f} -> {r.new:10.3f} x ours: {r.other}" for r in apart]
    agreed = f"{len(beside) - len(apart)} of {len(beside)} ratios to ours, of the copy, rivals and our other ways"
    return [*said, f"{agreed}, within {100 * AGREE:.0f} % of those in {older.path}"]
