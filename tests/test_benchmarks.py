"""The benchmarks: results of an older run that stay; rows of several GPUs; tables and figures in docs/."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from strategies import make_image
from tolerance import assert_same_bits

from torch_conv.bench.documents import SCALING, TABLES, Document, files_of, read
from torch_conv.bench.rows import FILTER
from torch_conv.cli.report import curves

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"

path = [*sys.path]
sys.path.append(str(ROOT / "benchmarks"))
report_ages = pytest.importorskip("report_ages", reason="there are no benchmarks here")
report_figures, report_tables = map(pytest.importorskip, ("report_figures", "report_tables"))
report_headline, report_textbook = map(pytest.importorskip, ("report_headline", "report_textbook"))
scaling, scaling_filters, report_scaling = map(pytest.importorskip, ("scaling", "scaling_filters", "report_scaling"))
sys.path[:] = path  # without the checkout that the benchmarks put before everything

NAMES = ["filter2d 3x3 f32 2048x2048", "filter2d 5x5 f32 2048x2048"]


def measured(file: Path, rows: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch_conv", "bench", "filter2d", "--device", "cpu", "--rounds", "5"]
    return subprocess.run(
        [*command, "--rows", rows, "--json", str(file)], cwd=ROOT, capture_output=True, text=True, check=False
    )


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


@pytest.mark.thorough
def test_results_of_another_machine_are_not_mixed(tmp_path):
    file = tmp_path / "results.json"
    text = json.dumps({"benchmark": "filter2d", "metadata": {"gpu": "another", "threads": 1}, "rows": []})
    file.write_text(text)
    done = measured(file, NAMES[0])
    assert done.returncode == 2
    refusal = f"{file} holds results of another benchmark or machine; delete it first, or name another file"
    assert done.stderr.splitlines()[-1] == f"torch-conv bench filter2d: {refusal}"
    assert file.read_text() == text


# ---- several GPUs ----------------------------------------------------------------------------------------------------

OTHERS = ["sobel", "gaussian_sobel 5", "box 15", "gaussian 31 float16", "filter2d 3x3 window on GPU"]


def tasks(n=2):
    return scaling.tasks(tuple(f"cuda:{i}" for i in range(n)), 5)


def test_rows_of_several_gpus():
    names = {(task.part, task.name) for task in tasks()}
    for part in ("strong", "graph"):
        assert {(part, f"{name} reflect {n}²") for name in OTHERS for n in (4096, 8192, 32768)} <= names
        assert (part, "gaussian3d 9 reflect 1024³") in names
    for part in ("strong", "graph", "rivals", "processes"):
        assert {(part, f"{FILTER} {n}²") for n in (2048, 4096, 8192, 16384, 32768)} <= names
    assert len(names) == len(tasks())


@pytest.mark.parametrize("name", sorted({task.filter for task in tasks() if task.part == "strong"}))
def test_filters_of_several_gpus(name):
    """By the operator, on shards and by the function."""
    task = next(t for t in tasks() if t.filter == name)
    image = make_image((1, 1, *[24] * (len(task.shape) - 2)), task.dtype)
    assert (image.dtype == torch.float16) == ("float16" in name)
    filtering = scaling_filters.filter_named(name, "reflect", task.dim, torch.device("cpu"))
    expected = filtering.whole(image)
    assert_same_bits(torch.cat(filtering.shards(image.chunk(2, task.dim)), task.dim), expected)
    assert_same_bits(filtering.function(image), expected)


def results(n):
    """All rows of a run on n GPUs: rows of several GPUs take 2 us, and rows of one GPU n us."""
    rows = []
    for task in tasks(n):
        timings = {way: {"median_us": 2.0} for way in ("operator", "cat, F.conv2d", "DTensor F.conv2d")}
        timings["one"] = {"median_us": float(n)}
        row = {"part": task.part, "name": task.name, "shape": list(task.shape), "devices": n, "correct": True}
        facts = {"bytes": 0, "gbs": {}, "mpixels": {}}
        rows.append(row | {"timings": timings, "efficiency": {"operator": 0.5}, "host_us": {}, "facts": facts})
    meta = dict.fromkeys(("gpu", "driver", "torch", "date", "commit"), "some")
    return Document(Path("some.json"), "scaling", meta | {"shards": ["cuda"] * n}, SCALING, rows)


def test_tables_of_several_gpus():
    document = results(4)
    document.rows = [row for row in document.rows if row["part"] in ("strong", "graph")]
    lines = "\n".join(report_scaling.scaling_tables(document)).splitlines()
    for row in document.rows:
        assert f"| {row['name']} | 4.0 us | 2.0 us | 50 % |  | 50 % |  |  |  |" in lines


def test_line_of_the_readme_for_several_gpus():
    document = results(4)
    document.meta["gpu"] = "NVIDIA H100"
    rows = {row["part"]: row for row in document.rows if row["name"] == f"{FILTER} 8192²"}
    rows["processes"]["timings"] |= {"distributed": {"median_us": 1.25}, "DTensor F.conv2d TF32": {"median_us": 1.0}}
    what = "any window 3x3, float32, 8192x8192, on 4 GPUs (4.0 us on one: {})"
    line = [what.format("80 %"), "1.2 us", "", "F.conv2d of DTensors (TF32)", "1.0 us", "0.80", "4 × H100"]
    assert report_headline.line_of_shards(document, 8192) == line  # the ratio is that of the rival's own run
    del rows["processes"]["timings"]["DTensor F.conv2d TF32"], rows["processes"]["timings"]["DTensor F.conv2d"]
    rows["rivals"]["correct"] = False
    line = [what.format("50 %"), "2.0 us", "", "F.conv2d, halos by hand", "2.0 us", "1.0 **wrong result**", "4 × H100"]
    assert report_headline.line_of_shards(document, 8192) == line
    del rows["rivals"]["timings"]["cat, F.conv2d"]
    sentence = "report: no results of 4 GPUs hold a rival of 'filter2d 3x3 constant 8192²'"
    with pytest.raises(SystemExit, match=f"^{sentence}$"):
        report_headline.line_of_shards(document, 8192)


@pytest.mark.parametrize(
    ("copy", "fma", "cell"),
    [
        (0.5, None, "50 %, 2.0 ×"),
        (0.5, 0.25, "50 %, 2.0 ×"),
        (0.5, 0.75, "75 % FMA, 2.0 ×"),
        (None, 0.25, "25 % FMA, 2.0 ×"),
        (None, None, "2.0 ×"),
    ],
)
def test_shares_of_formats(copy, fma, cell):
    """Nothing is said of a copy that is launch latency."""
    row = {"copy_fraction": copy, "fma_fraction": fma, "speedup": 2.0, "correct": True}
    row["timings"] = {"torch_conv": {"extra_bytes": 0}}
    assert report_tables.share_cell(row) == cell


def test_results_say_which_kernels_they_measured():
    """Every benchmark has kernel families, and their files are there: else no result would ever be older than they."""
    for path in RESULTS.glob("*-h*.json"):
        for document in read(path):
            for commit, row in report_ages.rows_of(document):
                assert commit and all(map(report_ages.kernel_files, report_ages.families_of(document, row)))
    files = report_ages.kernel_files("direct2d")
    assert {
        "csrc/kernels/direct2d/tile/kernel.cuh",
        "csrc/kernels/direct2d/tile/params.h",
        "csrc/core/cuda/tma.cuh",
    } <= files
    assert "csrc/kernels/box/params.h" not in files


def test_results_are_older_than_kernels(monkeypatch):
    """A kernel that moved, with other comments and today's names, is the same; not so other code, or a new kernel."""
    then = {
        "csrc/box/march.cuh": '// A march.\n#include "box/params.h"\n__global__ void box_march(MarchArgs a) { f(a); }',
        "csrc/box/params.h": "struct MarchArgs { int x; };",
    }
    now = {
        "csrc/kernels/box/streaming/kernel.cuh": '#include "kernels/box/params.h"\n'
        "__global__ void box_streaming(StreamingArgs a) {\n  f(a);\n}",
        "csrc/kernels/box/params.h": "struct StreamingArgs {\n  int x;  // columns\n};",
    }

    def changes(texts):
        monkeypatch.setattr(report_ages, "sources", lambda commit="": then if commit else texts)
        report_ages.kernel_files.cache_clear(), report_ages.changes_since.cache_clear()
        return report_ages.changes_since("abc", ("box",))

    assert changes(now) == 0
    assert changes(now | {"csrc/kernels/box/params.h": "struct StreamingArgs { long x; };"}) == 1
    assert changes(now | {"csrc/kernels/box/new.cuh": "__global__ void box_new() {}"}) == 1
    assert changes({path: text.replace("f(a)", "g(a)").replace("int x", "int y") for path, text in now.items()}) == 2
    assert report_ages.changes_since("abc", ("fused",)) == 0  # another family's kernels
    report_ages.kernel_files.cache_clear(), report_ages.changes_since.cache_clear()


def test_results_of_an_unknown_commit_are_not_older():
    assert report_ages.changes_since("no such commit", ("box",)) == 0
    if (ROOT / ".git").exists():
        assert report_ages.sources("HEAD").keys() >= report_ages.kernel_files("box")


def test_efficiency_of_several_gpus():
    document = results(4)
    sizes = [(float(size), 50.0) for size in (2048, 4096, 8192, 16384, 32768)]
    for part, ways in curves.SHARES.values():
        known = {"operator", "cat, F.conv2d", "DTensor F.conv2d"} & set(ways)
        assert curves.shares(document, part, ways) == (sizes if known else [])


@pytest.mark.parametrize("name", report_figures.FIGURES)
def test_figures_of_the_documents(name):
    pytest.importorskip("matplotlib")
    documents = [document for path in files_of([RESULTS]) for document in read(path)]
    (figure,) = report_figures.FIGURES[name](documents)
    assert len(figure.png()) > 50_000
    assert not list(report_figures.FIGURES[name]([]))


def test_tables_of_the_textbook():
    """A dash marks a missing measurement; a GPU without measurements has no column."""
    rows = [{"policy": "wrap", "direct_ms": 0.5, "error": 0.0}]
    tables = [{"name": "borders", "title": "8-bit images, 3x512x512", "rows": rows}]
    tables.append({"name": "volume", "title": "3-D study", "rows": [{"row": "naive", "average_ms": 2.0}]})
    meta = {"gpu": "a GPU", "torch": "2", "date": "2026-01-01T00:00", "commit": "abc"}
    found = [
        Document(Path("some.json"), "ladder", meta | {"gpu": gpu}, TABLES, tables=tables) for gpu in (None, "a GPU")
    ]
    heading, text, table, _, _, volume = report_textbook.textbook(found).split("\n\n")
    assert (heading, text) == ("## 8-bit images", "3x512x512; a GPU, torch 2; 2026-01-01, commit abc.")
    assert table.splitlines()[0].startswith(
        "| border | every tap, CPU | every tap, GPU | GPU over CPU | torch_conv, CPU |"
    )
    assert table.splitlines()[2:] == ["| wrap | - | 0.5000 | - | - | - | - | - | - | 0 |"]
    assert volume.splitlines()[2:] == ["| naive | 2.0000 | - | - | - | 2.677 |"]


@pytest.mark.slow
def test_scaling_runs(tmp_path):
    only = "strong/sobel*,strong/gaussian3d*,gather"
    command = [sys.executable, "benchmarks/scaling.py", "--device", "cpu", "--only", only]
    file = tmp_path / "scaling.json"
    done = subprocess.run([*command, "--json", str(file)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [row["correct"] for row in json.loads(file.read_text())["rows"]] == [True] * 6
