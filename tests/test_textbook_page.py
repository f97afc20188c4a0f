"""docs/textbook.md: its tables and figures from results, and dashes where there are none."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from torch_conv.cli import ladder_bench, ladder_tables, volume

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"

path = [*sys.path]
sys.path.append(str(BENCHMARKS))
page = pytest.importorskip("report_textbook", reason="there are no benchmarks here")
sys.path[:] = path

STUDIES = {study.name: study for study in ladder_tables.studies(True, ladder_bench.Sweep())}
TABLES = {table.name: table for table in (page.STENCIL, *page.STUDY, page.SIGNAL, page.BORDERS)}


def lines_beneath(heading, text):
    table = text.partition(f"{heading}\n")[2].partition("\n##")[0]
    return [line for line in table.splitlines() if line.startswith("| ")][2:]


def test_every_table_of_the_ladder_is_on_the_page():
    assert list(TABLES) == list(STUDIES)
    for name, table in TABLES.items():
        measured = {column.key for column in STUDIES[name].columns}
        assert {key for key, *_ in table.columns} <= measured, name


def test_what_is_expected_is_what_is_measured():
    signals = [(row["numbers"], row["k"]) for row in page.SIGNAL.rows]
    assert signals == [(side**2, k) for side, k in STUDIES["signal"].cases]
    assert [row["policy"] for row in page.BORDERS.rows] == [policy for _, policy in STUDIES["borders"].cases]
    assert all(f'"{name}"' in Path(volume.__file__).read_text() for name in page.VOLUME_RUNGS)


def test_a_dash_where_nothing_was_measured():
    text = page.textbook([])
    assert text.count("Not measured yet.") == 6  # five studies, and several GPUs
    assert lines_beneath("## Volumes", text)[1] == "| naive | - | - | - | - | 2.677 |"
    assert lines_beneath("## 8-bit images", text)[0].startswith("| skip | - | - |")
    assert lines_beneath("### (b) Size of the image", text) == []


def test_measurements_take_the_dashes_places():
    rows = [{"policy": "wrap", "direct_ms": 0.5, "error": 0.0}, {"policy": "another", "cpu_ms": 2.0}]
    meta = {"gpu": "a GPU", "torch": "2", "date": "2026-01-01T00:00", "commit": "abc"}
    ladder = {"benchmark": "ladder", "metadata": meta, "tables": [{"name": "borders", "rows": rows}]}
    text = page.textbook([{**ladder, "metadata": meta | {"gpu": None}}, ladder])
    assert "a GPU, torch 2; 2026-01-01, commit abc." in text
    lines = lines_beneath("## 8-bit images", text)
    assert [line.split()[1] for line in lines] == ["skip", "clamp", "wrap", "mirror", "zero", "another"]
    assert lines[2] == "| wrap | - | 0.5000 | - | - | - | - | - | - | 0 |"


def test_several_gpus():
    meta = {"gpu": "a GPU", "torch": "2", "date": "2026-01-01T00:00", "commit": None, "shards": ["a", "b"]}

    def row(part, timings):
        times = {name: {"median_us": us} for name, us in timings.items()}
        return {"part": part, "name": "filter2d 3x3 constant 4096²", "shape": [1, 1, 4096, 4096], "timings": times}

    rows = [row("strong", {"one": 300.0, "operator": 200.0}), row("rivals", {"cat, F.conv2d": 400.0})]
    document = {"benchmark": "scaling", "metadata": meta, "rows": rows}
    (line,) = lines_beneath("### (f) Several GPUs", page.textbook([document]))
    assert line == "| 2 × a GPU | 4096 | 0.3000 | 0.2000 | 1.50 | 75.0 | 0.4000 | - |"


def test_figures(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    results = json.loads((BENCHMARKS / "results" / "ladder-h100.json").read_text())
    page.draw_textbook([results], tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 20_000
    page.draw_textbook([], tmp_path / "none.png")
    assert capsys.readouterr().err == "report: no results/ladder-*.json was measured on a GPU\n"
    assert not (tmp_path / "none.png").exists()
