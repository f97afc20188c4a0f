"""Files of results: read, checked, and split by device."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any, TypeGuard

from torch_conv.bench.copies import without_latency
from torch_conv.bench.files import reason
from torch_conv.bench.usage import UsageError

Row = dict[str, Any]

OURS = "torch_conv"  # among a row's timings
LARGEST = 1e18  # bound of all numbers; no time, size or count comes near it
TIMED, PAIRED, SCALING, HANDOVER, TABLES = "timed", "paired", "scaling", "handover", "tables"
# The keys of each form. A row has the first form whose keys it holds.
FORMS: dict[str, dict[str, type | tuple[type, ...]]] = {
    TIMED: {"name": str, "device": str, "shape": list, "dtype": str, "copy_fraction": float, "timings": dict},
    SCALING: {"part": str, "name": str, "efficiency": dict, "timings": dict},
    HANDOVER: {"case": list, "ours_us": float, "torch_us": float},
    PAIRED: {"name": str, "ours_us": float, "torch_us": float, "speedup": float, "layout": str, "way": str},
}
# Optional texts of rows of any form.
TEXTS = ("name", "part", "model", "dtype")


@dataclass
class Document:
    """One file of results: rows of one form, or tables."""

    path: Path
    benchmark: str
    meta: dict[str, Any]
    form: str
    rows: list[Row] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)

    @property
    def devices(self) -> int:
        """The number of shards of each image."""
        shards = self.meta.get("shards")
        return len(shards) if isinstance(shards, list) and shards else 1

    @property
    def machine(self) -> str:
        gpu = self.meta.get("gpu")
        many = f"{self.devices} × " if gpu and self.devices > 1 else ""
        return many + str(gpu or self.meta.get("cpu") or "an unknown machine")

    @property
    def on_gpu(self) -> bool:
        return bool(self.meta.get("gpu"))

    @property
    def title(self) -> str:
        return f"{self.path.stem}, {self.machine}"

    @property
    def commits(self) -> list[str]:
        """The commits at which its rows were measured, in the rows' order."""
        own = str(self.meta.get("commit") or "unknown")
        return list(dict.fromkeys(str(row.get("commit") or own) for row in self.rows)) or [own]

    @property
    def date(self) -> str:
        return str(self.meta.get("date") or "")[:10]


class ForeignError(Exception):
    """The reason why a file holds no results."""


def files_of(given: Sequence[Path]) -> list[Path]:
    """The files, and the *.json files of folders, each once. In a folder results of CPUs come last."""
    found: dict[Path, Path] = {}
    for path in given:
        inside = [path]
        try:
            if path.is_dir():
                inside = [p for p in path.iterdir() if p.suffix.lower() == ".json" and p.is_file()]
                inside.sort(key=lambda p: (p.stem.endswith("cpu"), p))
                if not inside:
                    raise UsageError(f"{path} holds no *.json file")
            for file in inside:
                found.setdefault(file.resolve(), file)
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {reason(error)}") from error
    return list(found.values())


def read(path: Path) -> list[Document]:
    """A file's rows. Rows of the CPU beside a GPU form a document of their own."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {reason(error)}") from error
    try:
        parsed = json.loads(content, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON file, or a damaged one") from error
    try:
        return by_device(checked(path, plain(parsed)))
    except ForeignError as error:
        raise UsageError(f"{path} holds no results of torch-conv: {error}") from error


def by_device(document: Document) -> list[Document]:
    on_cpu = [row for row in document.rows if document.on_gpu and row.get("device") == "cpu"]
    if not on_cpu:
        return [document]
    on_gpu = [row for row in document.rows if row.get("device") != "cpu"]
    cpu = replace(document, meta=document.meta | {"gpu": None, "cuda": None}, rows=on_cpu)
    return [*([replace(document, rows=on_gpu)] if on_gpu else []), cpu]


def no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def plain(value: Any) -> Any:
    """The value without characters that no page can hold: surrogates and control characters."""
    if isinstance(value, str):
        whole = value.encode("utf-8", "replace").decode()
        return whole if whole.isprintable() else "".join(c if c.isprintable() or c == "\n" else " " for c in whole)
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {plain(key): plain(each) for key, each in value.items()}
    return value


def checked(path: Path, parsed: Any) -> Document:
    if not isinstance(parsed, dict) or not isinstance(parsed.get("benchmark"), str):
        raise ForeignError("'benchmark' is missing")
    if not isinstance(parsed.get("metadata"), dict):
        raise ForeignError("'metadata' is missing")
    found = Document(path, parsed["benchmark"], parsed["metadata"], TABLES)
    if "tables" in parsed:
        found.tables = list_of_objects(parsed["tables"], "tables")
        for i, table in enumerate(found.tables):
            check_table(table, f"tables[{i}]")
        return found
    if "rows" not in parsed:
        raise ForeignError("there are neither 'rows' nor 'tables'")
    found.rows = list_of_objects(parsed["rows"], "rows")
    if found.rows:
        found.form = next((form for form, keys in FORMS.items() if keys.keys() <= found.rows[0].keys()), "")
    for i, row in enumerate(found.rows):
        check_row(row, found.form, f"rows[{i}]")
    if found.form == TIMED:
        found.rows = list(map(without_latency, found.rows))
    if found.form == PAIRED:
        found.rows = list(map(with_timings, found.rows))
    return found


def with_timings(row: Row) -> Row:
    """A pair as a row whose only rival is torch; other rows unchanged."""
    if "ours_us" not in row:
        return row
    ours = {"median_us": row["ours_us"], "iqr_us": row.get("ours_iqr_us")}
    timings = {OURS: ours, "torch": {"median_us": row["torch_us"]}}
    return {**row, "copy_fraction": None, "best_rival": "torch", "timings": timings}


def list_of_objects(value: Any, name: str) -> list[Row]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ForeignError(f"'{name}' is no list of objects")
    return value


def check_table(table: Row, place: str) -> None:
    if not isinstance(table.get("name"), str) or not isinstance(table.get("title"), str):
        raise ForeignError(f"{place} has no name or title")
    columns = table.get("columns")
    if not isinstance(columns, dict) or not all(isinstance(heading, str) for heading in columns.values()):
        raise ForeignError(f"{place} has no columns")
    for i, row in enumerate(list_of_objects(table.get("rows"), f"{place}.rows")):
        for key in columns:
            value = row.get(key)
            if value is not None and not isinstance(value, (str, bool)) and not is_number(value):
                raise ForeignError(f"{place}.rows[{i}]: '{key}' is neither a number nor a text")


def check_row(row: Row, form: str, place: str) -> None:
    if not form:
        raise ForeignError(f"{place} has none of the forms that benchmarks write")
    for key, kind in FORMS[form].items():
        value = row.get(key)
        fits = is_positive(value) if kind is float else isinstance(value, kind)
        no_share = key == "copy_fraction" and key in row and value is None  # a copy is launch latency
        if not fits and not no_share:
            raise ForeignError(f"{place}: '{key}' is missing or not what it should be")
    for key in TEXTS:
        if row.get(key) is not None and not isinstance(row[key], str):
            raise ForeignError(f"{place}: '{key}' is no text")
    for name, timing in row.get("timings", {}).items():
        time = timing.get("median_us") if isinstance(timing, dict) else None
        if not is_positive(time):
            raise ForeignError(f"{place}: '{name}' has no time")
    for key in ("speedup", "fma_fraction", "bytes", "flops", "tuned_us"):
        value = row.get(key)
        if value is not None and not (is_number(value) and value >= 0):
            raise ForeignError(f"{place}: '{key}' is no number")
    if form == TIMED:
        if "torch_conv" not in row["timings"]:
            raise ForeignError(f"{place}: no time of torch_conv")
        if not row["shape"] or not all(isinstance(n, int) and is_number(n) and n > 0 for n in row["shape"]):
            raise ForeignError(f"{place}: 'shape' is no list of sizes")
        names = [None, *row["timings"]]  # `in` a list takes any value
        if row.get("best_rival") not in names:
            raise ForeignError(f"{place}: the best rival has no time")
    if form == SCALING and not all(is_number(share) for share in row["efficiency"].values()):
        raise ForeignError(f"{place}: 'efficiency' holds no numbers")


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < LARGEST and isfinite(value)


def is_positive(value: Any) -> TypeGuard[float]:
    return is_number(value) and value > 0
