"""`torch-conv bench FAMILY`: the list of families, the files of a run, and the comparison with an older run."""

import json
from copy import deepcopy

import pytest
from command_line import refused, run

from torch_conv.bench import documents, running
from torch_conv.bench.common import Result, Timing
from torch_conv.bench.compare import ratios_of
from torch_conv.bench.copies import without_latency, worth_a_copy
from torch_conv.bench.families import NAMES, family_named
from torch_conv.bench.lines import line

FAMILY = "depthwise3d"
QUICK = ["bench", FAMILY, "--device", "cpu", "--quick"]
ROWS = [f"conv3d 3x3x3 f32 1x16x8x28x28 {layout}" for layout in ("NCDHW", "NDHWC")]


def test_the_families_are_listed(capsys):
    assert run("bench") == 0
    *lines, empty, last = capsys.readouterr().out.splitlines()
    assert (empty, last[:36]) == ("", "Measure one: torch-conv bench NAME, ")
    assert [line.split()[0] for line in lines] == [*NAMES, "anywhere", "ladder", "volume", "scaling"]
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_every_family(name, capsys):
    """Each under a name of its own, on either device, whether or not there is a GPU."""
    family = family_named(name)
    assert family.name == name
    for device in ("cuda", "cpu"):
        if device == "cuda" and name not in ("models", "training"):  # windows lie on their device
            continue
        names = [row.name for row in family.rows(device)]
        absent = (name, device) == ("training", "cpu")
        assert len(set(names)) == len(names)
        assert bool(names) != absent
        assert len(family.quick(device)) in ([0] if absent else range(1, 9))
    if name != "training":
        assert run("bench", name, "--device", "cpu", "--list") == 0
        assert {line[:4] for line in capsys.readouterr().out.splitlines()} == {"cpu "}


def test_rows_are_chosen_by_what_they_are(capsys):
    assert run("bench", "models", "--device", "cpu", "--models", "replk", "--batches", "1", "--list") == 0
    assert capsys.readouterr().out == "cpu   replk batch 1 NCHW eager\ncpu   replk batch 1 NHWC eager\n"
    assert run("bench", "models", "--device", "cpu", "--ways", "compile", "--rows", "replk*64*NHWC", "--list") == 0
    assert capsys.readouterr().out == "cpu   replk batch 64 NHWC compile\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["filter2d", "--device", "cpu", "--rounds", "4"], "--rounds must be at least 5, got 4"),
        (["training", "--device", "cpu"], "training has no rows for cpu: it needs a GPU"),
        (
            ["models", "--device", "cpu", "--models", "nothing"],
            "no row is called for by these options; torch-conv bench models --list prints the names",
        ),
    ],
)
def test_refusals(arguments, sentence, capsys):
    assert refused(capsys, "bench", *arguments) == f"torch-conv bench {arguments[0]}: {sentence}"


@pytest.fixture(autouse=True)
def ordinary_memory(monkeypatch):
    """This process goes on to test other things."""
    monkeypatch.setattr(running, "keep_freed_memory", lambda: None)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The results of a quick run, with the little noise of a quiet machine."""
    file = tmp_path_factory.mktemp("bench") / "new.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "keep_freed_memory", lambda: None)
        assert run(*QUICK, "--json", file) == 0
    document = json.loads(file.read_text())
    for row in document["rows"]:
        row["timings"]["torch_conv"]["iqr_us"] = 0.001 * row["timings"]["torch_conv"]["median_us"]
    return document


@pytest.fixture
def again(written, monkeypatch):
    """The times of the first run, independent of the machine's load."""
    rows = {row["name"]: {k: v for k, v in row.items() if k != "commit"} for row in deepcopy(written["rows"])}
    for row in rows.values():
        row["timings"] = {name: Timing(**timing) for name, timing in row["timings"].items()}
    monkeypatch.setattr(running, "measure", lambda row, *_: Result(**rows[row.name]))


def test_a_quick_run_writes_what_the_report_reads(written, tmp_path):
    assert written["benchmark"] == FAMILY
    assert written["metadata"]["rounds"] == 5
    assert [(row["name"], row["correct"]) for row in written["rows"]] == [(name, True) for name in ROWS]
    (tmp_path / "new.json").write_text(json.dumps(written))
    (document,) = documents.read(tmp_path / "new.json")
    assert (document.form, len(document.rows)) == (documents.TIMED, 2)


def compared(document, path, capsys, *more):
    """The exit status, and the lines after the rows."""
    path.write_text(json.dumps(document))
    capsys.readouterr()
    status = run(*QUICK, "--compare", path, *more)
    return status, capsys.readouterr().out.partition("\n\n")[2].splitlines()


def test_compared_with_itself(written, again, tmp_path, capsys):
    file = tmp_path / "old.json"
    status, lines = compared(written, file, capsys)
    assert status == 0
    assert all(name in line and " 1.00 x  noise 3.0 %" in line for name, line in zip(ROWS, lines, strict=False))
    count = sum(len(row["timings"]) - 2 for row in written["rows"])  # one copy for two, and ours
    assert lines[2:] == [f"none of 2 rows slower than in {file}, beyond noise", agreed(count, count, file)]


def agreed(some, count, file):
    return f"{some} of {count} ratios to ours, of the copy, rivals and our other ways, within 5 % of those in {file}"


@pytest.mark.parametrize("factor", [1.04, 0.94, 1.06])
def test_ratios_that_agree(factor, written, again, tmp_path, capsys):
    """Ratios of rivals and of the copy. A row that one run lacks is named and has no ratio."""
    older, file = deepcopy(written), tmp_path / "old.json"
    first, second = older["rows"]
    rival = next(name for name in first["timings"] if name.startswith("F.conv3d"))
    first["timings"][rival]["median_us"] *= factor
    second["copy_fraction"] *= factor
    second["timings"]["another"] = dict(second["timings"][rival])
    status, lines = compared(older, file, capsys)
    count, apart = sum(len(row["timings"]) - 2 for row in written["rows"]), factor != 1.04
    assert status == 0  # none of ours is slower
    assert len(lines) == 4 + 2 * apart
    assert lines[-1] == agreed(count - 2 * apart, count, file)
    if apart:
        timings, copy = written["rows"][0]["timings"], written["rows"][1]["copy_fraction"]
        new = timings[rival]["median_us"] / timings["torch_conv"]["median_us"]
        assert lines[3] == f"cpu   {ROWS[0]:46} {factor * new:10.3f} -> {new:10.3f} x ours: {rival}"
        assert lines[4] == f"cpu   {ROWS[1]:46} {factor * copy:10.3f} -> {copy:10.3f} x ours: copy"


def test_ratios_of_rows():
    timings = {"copy_": 1.0, "add": 2.0, "torch_conv": 4.0, "torch_conv direct": 8.0, "kornia": 6.0}
    row = {"timings": {name: {"median_us": time} for name, time in timings.items()}, "copy_fraction": 0.25}
    assert ratios_of(row) == {"copy": 0.25, "torch_conv direct": 2.0, "kornia": 1.5}
    assert ratios_of(row | {"copy_fraction": None}) == {"torch_conv direct": 2.0, "kornia": 1.5}
    assert ratios_of({"torch_us": 3.0, "ours_us": 2.0}) == {"torch": 1.5}


def test_copies_that_are_launches(written):
    assert [worth_a_copy("cuda", moved) for moved in (4 << 20, (4 << 20) + 1)] == [False, True]
    assert worth_a_copy("cpu", 1024)
    row = written["rows"][0]
    assert without_latency(row) is row and row["copy_fraction"] > 0
    small = without_latency({**row, "device": "cuda"})
    assert small == {**row, "device": "cuda", "copy_fraction": None}
    timings = {name: Timing(**timing) for name, timing in row["timings"].items()}
    said = [
        line(Result(**{k: v for k, v in each.items() if k != "commit"} | {"timings": timings})) for each in (row, small)
    ]
    assert ["% of copy" in each for each in said] == [True, False]


@pytest.mark.parametrize(
    ("factor", "noise", "status"), [(0.5, 0.001, 1), (0.98, 0.001, 0), (0.9, 0.06, 0), (0.9, 0.05, 1)]
)
def test_slower_rows_are_reported(factor, noise, status, written, again, tmp_path, capsys):
    """Beyond 3 %, and twice the relative interquartile range: 11 % is more than 10, and less than 12."""
    older, file = deepcopy(written), tmp_path / "old.json"
    ours = older["rows"][1]["timings"]["torch_conv"]
    ours["median_us"] *= factor
    ours["iqr_us"] = noise * ours["median_us"]
    got, lines = compared(older, file, capsys)
    assert got == status
    assert [line.endswith("SLOWER") for line in lines[:3]] == [False, bool(status), False]
    assert lines[2] == f"{status or 'none'} of 2 rows slower than in {file}, beyond noise"


def test_faster_rows_and_rows_of_one_run_are_reported(written, again, tmp_path, capsys):
    older, file = deepcopy(written), tmp_path / "old.json"
    older["rows"][0]["timings"]["torch_conv"]["median_us"] *= 2
    older["rows"][1]["name"] = "a row that is no more"
    status, lines = compared(older, file, capsys)
    assert status == 0
    assert lines[0].endswith("faster")
    assert lines[1:3] == [f"cpu   {ROWS[1]}: not in {file}", f"cpu   a row that is no more: only in {file}"]
    _, lines = compared(written, file, capsys, "--rows", "NCDHW")
    assert len(lines) == 3  # of the other row nobody asked


def test_results_of_another_gpu_are_not_compared(written, again, tmp_path, capsys):
    older, file = deepcopy(written), tmp_path / "old.json"
    older["metadata"]["gpu"] = "another GPU"
    older["rows"].append({**older["rows"][0], "device": "cuda"})
    status, lines = compared(older, file, capsys)
    assert status == 0
    assert lines[2] == f"{file}: the rows of another GPU are not compared"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda old: old.update(benchmark="blur"), "holds results of blur, not of depthwise3d"),
        (lambda old: old.pop("rows"), "holds no results of torch-conv: there are neither 'rows' nor 'tables'"),
        (
            lambda old: [row.update(name="another") for row in old["rows"]],
            "of {cpu}, has no row in common with this run",
        ),
    ],
)
def test_results_that_cannot_be_compared(change, sentence, written, tmp_path, capsys):
    older, file = deepcopy(written), tmp_path / "old.json"
    change(older)
    file.write_text(json.dumps(older))
    sentence = sentence.format(cpu=written["metadata"]["cpu"])
    said = refused(capsys, *QUICK, "--compare", file)
    assert said in (f"torch-conv bench {FAMILY}: {file} {sentence}", f"torch-conv bench {FAMILY}: {file}, {sentence}")


def test_a_file_that_is_not_there(tmp_path, capsys):
    said = refused(capsys, *QUICK, "--compare", tmp_path / "old.json")
    assert said == f"torch-conv bench {FAMILY}: {tmp_path / 'old.json'} cannot be read: no such file or directory"
