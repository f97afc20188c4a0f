"""The benchmarks as programs: what a run leaves of an older one's results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "benchmarks" / "filter2d.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="there are no benchmarks here")
NAMES = ["filter2d 3x3 f32 2048x2048", "filter2d 5x5 f32 2048x2048"]


def measured(file: Path, rows: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--device", "cpu", "--rounds", "5", "--rows", rows, "--json", str(file)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_rows_that_are_not_measured_stay(tmp_path):
    file = tmp_path / "results.json"
    assert measured(file, NAMES[1]).returncode == 0
    older = json.loads(file.read_text())
    older["rows"][0]["commit"] = "abc"
    older["rows"].append({**older["rows"][0], "name": "a row that is no more"})
    older["rows"].append({**older["rows"][0], "device": "cuda"})
    file.write_text(json.dumps(older))
    assert measured(file, NAMES[0]).returncode == 0
    rows = json.loads(file.read_text())["rows"]
    assert [row["name"] for row in rows] == [*NAMES, NAMES[1]]
    assert rows[1:] == [older["rows"][0], older["rows"][2]]
    assert rows[0]["commit"] != "abc"


def test_results_of_another_machine_are_not_mixed(tmp_path):
    file = tmp_path / "results.json"
    text = json.dumps({"benchmark": "filter2d", "metadata": {"gpu": "another", "threads": 1}, "rows": []})
    file.write_text(text)
    done = measured(file, NAMES[0])
    assert done.returncode == 2
    refusal = f"{file} holds results of another benchmark or machine; delete it first, or name another file"
    assert done.stderr.splitlines()[-1] == f"filter2d.py: error: {refusal}"
    assert file.read_text() == text
