"""The tables of docs/textbook.md, from the results of `torch-conv bench ladder` and `torch-conv bench volume`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from report_ages import measured
from report_tables import markdown

from torch_conv.bench.documents import Document
from torch_conv.bench.ladder.columns import COLUMNS, Column

# The 3-D study's own figures, in ms: 128x128x8, a window that it calls 7x7x7, an RTX 500 Ada and a Core Ultra 7.
PUBLISHED = {"gold CPU": 5616.0, "naive": 2.677, "constant + shared tile": 1.049, "separable, 3 x 1-D": 0.568}


def textbook(documents: Sequence[Document]) -> str:
    """Each table with its title as the run wrote it."""
    parts = []
    for document in documents:
        if document.benchmark in ("ladder", "volume") and document.on_gpu:
            for each in document.tables:
                title, _, what = each["title"].partition(", ")
                where = f"{document.machine}, torch {document.meta['torch']}; {measured(document)}"
                parts += [f"## {title}", f"{what[:1].upper()}{what[1:]}; {where}.", table(each["name"], each["rows"])]
    return "\n\n".join(parts)


def table(name: str, rows: Sequence[dict[str, Any]]) -> str:
    columns = [column for column in COLUMNS[name] if column.shown(cuda=True) and column.key != "iterations"]
    if name == "volume":
        columns.append(Column("published_ms", "published", "g"))
        rows = [row | {"published_ms": PUBLISHED.get(row["row"])} for row in rows]
    lines = [[cell(row.get(column.key), column.style) for column in columns] for row in rows]
    return markdown([column.heading for column in columns], lines)


def cell(value: Any, style: str) -> str:
    """A dash where nothing was measured."""
    return "-" if value is None else "0" if value == 0 else format(value, style)
