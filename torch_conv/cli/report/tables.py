"""The table of each file, by the form of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch_conv.bench.documents import HANDOVER, OURS, PAIRED, SCALING, TABLES, TIMED, Document, Row
from torch_conv.bench.formatting import cell_text, percent
from torch_conv.bench.rows import PARTS, WAYS, mean, time, us
from torch_conv.cli.report import markup


def tables(document: Document) -> str:
    if document.form == TABLES:
        return "".join(map(named_table, document.tables))
    if not document.rows:
        return markup.paragraph("The file holds no rows.")
    return {TIMED: timed, PAIRED: timed, SCALING: scaling, HANDOVER: handover}[document.form](document.rows)


def timed(rows: Sequence[Row]) -> str:
    """Times of ours and of the best rival; shares where a row has one."""
    copy = any(row["copy_fraction"] is not None for row in rows)
    fma = any(row.get("fma_fraction") for row in rows)
    share, rival = (markup.Cell(name, left=True) for name in ("of copy", "best rival"))
    headings = ["workload", OURS, *[share] * copy, *["of FMA"] * fma, rival, "its time", "×"]
    return markup.table(headings, (timed_line(row, copy, fma) for row in rows))


def timed_line(row: Row, copy: bool, fma: bool) -> list[Any]:
    rival, share = row.get("best_rival"), row["copy_fraction"]
    name = row["name"] + " (in L2)" * bool(row.get("resident")) + " WRONG RESULT" * (row.get("correct") is False)
    return [
        name,
        time(row, OURS),
        *[markup.Cell(None if share is None else markup.bar(share), left=True)] * copy,
        *[percent(row.get("fma_fraction"))] * fma,
        markup.Cell(rival, left=True),
        time(row, rival) if rival else None,
        markup.times(us(row, rival) / us(row, OURS) if rival else None),
    ]


def scaling(rows: Sequence[Row]) -> str:
    """A table for each part: every time, and the efficiency."""
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(row["part"], []).append(row)
    made = []
    for part, own in parts.items():
        names = list(dict.fromkeys(name for row in own for name in row["timings"]))
        shares = list(dict.fromkeys(name for row in own for name in row["efficiency"]))
        headings = [
            "workload",
            *(WAYS.get(name, name) for name in names),
            *(f"efficiency, {WAYS.get(name, name)}" for name in shares),
        ]
        lines = [
            [
                row["name"],
                *(time(row, name) for name in names),
                *(percent(row["efficiency"].get(name)) for name in shares),
            ]
            for row in own
        ]
        title = PARTS.get(part, part)
        made.append(f"<h4>{markup.text(title[:1].upper() + title[1:])}</h4>\n{markup.table(headings, lines)}")
    return "".join(made)


def handover(rows: Sequence[Row]) -> str:
    """Cases grouped by kind, layout and dtype, because there are thousands."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        torchs = min(row["torch_us"], row.get("tuned_us") or row["torch_us"])
        groups.setdefault(tuple(map(str, row["case"][:3])), []).append(torchs / row["ours_us"])
    lines = [
        [
            " ".join(key),
            len(ratios),
            sum(ratio < 1 for ratio in ratios),
            markup.times(mean(ratios)),
            markup.times(min(ratios)),
            markup.times(max(ratios)),
        ]
        for key, ratios in sorted(groups.items())
    ]
    headings = ["convolutions", "cases", "torch is faster", "× geometric mean", "× worst", "× best"]
    note = "×: torch's time over that of our kernels. Where torch is faster by a margin, the call is handed to torch."
    return markup.table(headings, lines) + markup.paragraph(note, note=True)


def named_table(table: dict[str, Any]) -> str:
    columns = table["columns"]
    lines = [[shown(key, row.get(key)) for key in columns] for row in table["rows"]]
    note = markup.paragraph(markup.text(table["note"]), note=True) if isinstance(table.get("note"), str) else ""
    return f"<h4>{markup.text(table['title'])}</h4>\n{markup.table(list(columns.values()), lines)}{note}"


def shown(key: str, value: Any) -> Any:
    if key == "copy_percent" and isinstance(value, float):
        return markup.Cell(markup.bar(max(value, 0) / 100), left=True)
    return cell_text(value)
