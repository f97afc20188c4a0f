"""Every command with its output on a full disk, into a pipe whose reader has left, and without the file it asks for."""

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from command_line import prog, refused, run

from torch_conv.cli import demo
from torch_conv_cli import COMMANDS

np = pytest.importorskip("numpy")
pil = pytest.importorskip("PIL.Image")
pytest.importorskip("cv2")
pytest.importorskip("rich")

HAS_PHOTOS = all(find_spec(name) for name in ("skimage", "matplotlib"))
SMALL = "--iterations=1 --width=8 --height=8 --depth=4 --kernel-radius-x=1 --kernel-radius-y=1 --kernel-radius-z=1"
WORK = [
    pytest.param("demo --device cpu", marks=pytest.mark.skipif(not HAS_PHOTOS, reason="no scikit-image or matplotlib")),
    "filter in.png out.png --filter box --device cpu",
    "bench",
    "bench filter2d --device cpu --list",
    "bench anywhere --device cpu --calls 2 --list",
    f"bench volume --device cpu --json out.json {SMALL}",
    "bench scaling --devices cpu,cpu --sizes 16 --json out.json",
    "bench ladder --device cpu --table size --image-size 16 --iterations 3 --json out.json",
    "report results.json -o out.html",
    "prepare --filter box --device cpu",
    "info",
    "cache",
]
HELP = ["--help", "--version", *(f"{name} --help" for name in COMMANDS), "bench filter2d --help", "bench volume --help"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory, with a picture and a file of results; a demo filters one photograph once."""
    monkeypatch.setattr(demo, "PHOTOS", {"astronaut": "astronaut.png"})
    monkeypatch.setattr(demo, "JOBS", [job for job in demo.JOBS if job.title == "Sharpen"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCH_CONV_CACHE", str(tmp_path / "kernels"))
    pil.fromarray(np.zeros((8, 8), np.uint8)).save("in.png")
    table = {"name": "size", "title": "sizes", "columns": {"size": "side"}, "rows": [{"size": 8}]}
    results = {"benchmark": "ladder", "metadata": {"gpu": None, "torch": "2.11"}, "tables": [table]}
    Path("results.json").write_text(json.dumps(results))
    return tmp_path


def full_disk():
    return os.open("/dev/full", os.O_WRONLY)


def left_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    return writer


FULL = "standard output cannot be written: no space left on device\n"


@pytest.mark.parametrize("words", [*WORK, *HELP])
@pytest.mark.parametrize("broken", [full_disk, left_pipe])
def test_output_that_cannot_be_written(folder, monkeypatch, capsys, words, broken):
    words = words.split()
    name = "torch-conv" if words[-1] in ("--help", "--version") else prog(words)
    status, sentence = (2, f"{name}: {FULL}") if broken is full_disk else (1, "")
    with os.fdopen(broken(), "w") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert run(*words) == status
    assert capsys.readouterr().err == sentence
    whole = {"out.png", "out.json", "out.html", "kernels", "demo_out"}  # or not there
    assert {path.name for path in folder.iterdir()} - whole == {"in.png", "results.json"}


MISSING = [
    "filter missing.png out.png --filter box",
    "report missing.json -o out.html",
    "bench blur --device cpu --quick --compare missing.json",
    "bench volume --device cpu --json missing/out.json",
    "demo --output in.png",
]


@pytest.mark.parametrize("words", MISSING)
def test_files_that_are_missing(folder, capsys, words):
    said = refused(capsys, *words.split())
    assert said.startswith(f"{prog(words.split())}: ") and ("missing" in said or "in.png" in said)
    assert {path.name for path in folder.iterdir()} == {"in.png", "results.json"}
