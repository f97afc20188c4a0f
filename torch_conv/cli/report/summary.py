"""The summary: machines and dates, counts of rows ahead and behind, and every loss."""

from __future__ import annotations

from collections.abc import Sequence

from torch_conv.bench.documents import HANDOVER, SCALING, TABLES, Document
from torch_conv.bench.formatting import counted, duration
from torch_conv.bench.rows import Contest, contests, mean
from torch_conv.cli.report import markup


def summary(documents: Sequence[Document]) -> str:
    found = list(contests(documents))
    return score(documents, found) + wrong(documents) + measured(documents) + families(found) + losses(found)


def measured(documents: Sequence[Document]) -> str:
    headings = ["file", "machine", "torch", "CUDA", "date", "commits", "rows", "ahead", "behind", "no rival"]
    return "<h3>What was measured</h3>\n" + markup.table(headings, map(line, documents), left=2)


def line(document: Document) -> list[object]:
    meta = document.meta
    found = list(contests([document]))
    behind = sum(contest.speedup < 1 for contest in found)
    counted = document.form not in (HANDOVER, SCALING, TABLES)
    return [
        document.path.name,
        document.machine,
        meta.get("torch"),
        meta.get("cuda"),
        document.date,
        ", ".join(document.commits),
        sum(len(table["rows"]) for table in document.tables) if document.form == TABLES else len(document.rows),
        len(found) - behind if counted else None,
        markup.Cell(behind, loss=behind > 0) if counted else None,
        len(document.rows) - len(found) if counted else None,
    ]


def score(documents: Sequence[Document], found: Sequence[Contest]) -> str:
    rows = sum(len(d.rows) + sum(len(table["rows"]) for table in d.tables) for d in documents)
    behind = sum(contest.speedup < 1 for contest in found)
    files = counted(len({d.path for d in documents}), "file")
    said = f"{files} with {counted(rows, 'row')}. "
    if found:
        workloads = counted(len(found), "workload")
        said += (
            f"Of {workloads} with a rival, torch_conv is ahead in {len(found) - behind} and behind in {behind}; "
            f"the geometric mean is {mean([contest.speedup for contest in found]):.2f} times the best rival's speed. "
        )
    if any(d.form == HANDOVER for d in documents):
        said += "Rows of the hand-over are not counted: they say which of two kernels a convolution shall take."
    return markup.paragraph(markup.text(said))


def wrong(documents: Sequence[Document]) -> str:
    rows = [(d, row) for d in documents for row in d.rows if row.get("correct") is False]
    if not rows:
        return markup.paragraph("No row is marked as a wrong result.") if documents else ""
    names = "; ".join(f"{row.get('name', 'a row')} ({document.path.name})" for document, row in rows)
    return markup.paragraph(f"<strong>Wrong results:</strong> {markup.text(names)}")


def families(found: Sequence[Contest]) -> str:
    groups: dict[tuple[str, str], list[Contest]] = {}
    for contest in found:
        groups.setdefault((contest.document.machine, contest.family), []).append(contest)
    if not groups:
        return ""
    lines = []
    for (machine, family), each in sorted(groups.items()):
        worst, best = (pick(each, key=lambda contest: contest.speedup) for pick in (min, max))
        behind = sum(contest.speedup < 1 for contest in each)
        lines.append(
            [
                family,
                machine,
                len(each),
                markup.Cell(behind, loss=behind > 0),
                markup.times(mean([contest.speedup for contest in each])),
                markup.times(worst.speedup),
                markup.times(best.speedup),
            ]
        )
    headings = ["family", "machine", "workloads", "behind", "× geometric mean", "× worst", "× best"]
    note = "×: the time of the fastest rival over ours. Above 1 ours is faster; ▼ marks what is behind."
    return "<h3>Families</h3>\n" + markup.table(headings, lines, left=2) + markup.paragraph(note, note=True)


def losses(found: Sequence[Contest]) -> str:
    behind = sorted((contest for contest in found if contest.speedup < 1), key=lambda contest: contest.speedup)
    if not behind:
        return "<h3>Losses</h3>\n" + markup.paragraph("No rival is faster in any workload of these files.")
    lines = [
        [
            markup.times(contest.speedup),
            markup.Cell(contest.workload, left=True),
            duration(contest.ours_us),
            duration(contest.rival_us),
            markup.Cell(contest.rival, left=True),
            markup.Cell(contest.document.machine, left=True),
        ]
        for contest in behind
    ]
    workload, rival, machine = (markup.Cell(name, left=True) for name in ("workload", "best rival", "machine"))
    headings: list[object] = ["×", workload, "torch_conv", "its rival", rival, machine]
    return "<h3>Losses, the worst first</h3>\n" + markup.table(headings, lines, left=0)
