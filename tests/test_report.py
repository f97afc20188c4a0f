"""`torch-conv report`: the page's contents, a page without other files, and refusals."""

import html
import json
import os
import re
from pathlib import Path

import pytest
from command_line import refused, run

pytest.importorskip("matplotlib")
pytest.importorskip("rich")

ROOT = Path(__file__).resolve().parent.parent
META = {
    "commit": "abc1234",
    "date": "2026-11-26T02:52:12+00:00",
    "torch": "2.11.0",
    "gpu": "NVIDIA Test 1",
    "cuda": "13.0",
    "cpu": "A CPU",
    "threads": 2,
    "rounds": 5,
}


def timed(name, ours, *, shape=(1, 1, 64, 64), dtype="float32", copy=0.5, series="", **rivals):
    timings = {"copy_": ours * copy, "add": ours, "torch_conv": ours, **rivals}
    best = min((n for n in rivals if not n.startswith("torch_conv ")), key=rivals.get, default=None)
    return {
        "name": name,
        "device": "cuda",
        "shape": list(shape),
        "dtype": dtype,
        "bytes": 1 << 25,
        "flops": 9 << 23,
        "resident": False,
        "copy": "copy_",
        "copy_fraction": copy,
        "fma_fraction": 0.25,
        "best_rival": best,
        "speedup": rivals[best] / ours if best else None,
        "correct": True,
        "series": series,
        "left_out": {},
        "timings": {n: {"median_us": t, "iqr_us": 0.1} for n, t in timings.items()},
    }


def document(benchmark, rows, **meta):
    return {"benchmark": benchmark, "metadata": META | meta, "rows": rows}


def ladder():
    times = {"cpu_ms": 9.0, "naive_ms": 0.4, "tiled_ms": 0.3, "production_ms": 0.1, "conv2d_ms": 0.2}
    columns = {key: key for key in times}
    tables = [("size", "size", (256, 512)), ("window", "k", (3, 5)), ("block", "block", ("8x8", "16x16"))]
    made = [
        {"name": name, "title": f"study {name}", "note": "n", "columns": {key: key, **columns}, "rows": rows}
        for name, key, values in tables
        for rows in [[{key: value, **times} for value in values]]
    ]
    row = {"size": 512, "fused_ms": 0.2, "unfused_ms": 0.4, "production_ms": 0.1, "copy_percent": 62.5}
    heads = {key: key for key in row}
    made.append({"name": "fused", "title": "study fused", "note": "n", "columns": heads, "rows": [row]})
    return {"benchmark": "ladder", "metadata": META, "tables": made}


def volume():
    rows = [{"row": "naive", "median_ms": 0.25}, {"row": "torch_conv.filter3d, direct", "median_ms": 0.0625}]
    columns = {"row": "", "median_ms": "median ms", "error": "max error"}
    table = {"name": "volume", "title": "3-D study", "note": "n", "columns": columns, "rows": rows}
    return {"benchmark": "volume", "metadata": META, "tables": [table]}


def scaling():
    row = {
        "part": "strong",
        "name": "filter2d 3x3 constant 8192²",
        "shape": [1, 1, 8192, 8192],
        "devices": 2,
        "correct": True,
    }
    timings = {"one": {"median_us": 200.0}, "operator": {"median_us": 125.0}}
    return document(
        "scaling", [row | {"timings": timings, "efficiency": {"operator": 0.8}}], shards=["cuda:0", "cuda:1"]
    )


def examples():
    sizes = [
        timed("filter3d 3x3x3 f32", n, shape=(1, 1, n, n, n), series="filter3d 3x3x3", kornia=3.0 * n)
        for n in (16, 32, 64)
    ]
    windows = [timed(f"gaussian {k}x{k} f32", 10.0 + k, series="gaussian float32", cupyx=30.0) for k in (3, 5, 7)]
    lost = [timed("formats 3x3 u8", 20.0, dtype="uint8", copy=0.37, OpenCV=15.0), timed("box 3x3 f32", 5.0)]
    fused = [timed("sobel f32 64x64", 10.0, **{"torch_conv separable": 25.0, "kornia": 40.0})]
    case = ["depthwise", "NCHW", "f16", [1, 2, 8, 8], 2, 2, 3, 1, 1, 0, "zeros"]
    handover = {"case": case, "ours_us": 10.0, "torch_us": 5.0, "tuned_us": None}
    model = {"name": "replk batch 64 NHWC eager", "layout": "NHWC", "way": "eager", "torch_us": 90.0, "ours_us": 60.0}
    step = {"name": "layers 8x96x56x56 k=7 float16", "part": "layers", "way": "graph", "layout": "NCHW"}
    step |= {"torch_us": 30.0, "ours_us": 40.0, "speedup": 0.75, "dtype": "float16", "correct": True}
    return {
        "filter3d-t1": document("filter3d", sizes),
        "blur-t1": document("blur", windows),
        "filter2d-t1": document("filter2d", lost),
        "fused-t1": document("fused", fused),
        "handover-t1": document("handover", [handover]),
        "models-t1": document("models", [model | {"speedup": 1.5, "correct": True}]),
        "training-t1": document("training", [step]),
        "ladder-t1": ladder(),
        "volume-t1": volume(),
        "scaling-t1": scaling(),
    }


def written(folder, documents):
    for name, content in documents.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def made(*results):
    out = results[0].parent / "out.html"
    assert run("report", *results, "-o", out, "--force") == 0
    return out.read_text()


def cells(page):
    """Lines of all tables, as texts."""
    lines = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    each = (re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", line, re.DOTALL) for line in lines)
    return [[html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in line] for line in each]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "results"
    folder.mkdir()
    return made(written(folder, examples()))


def test_the_summary_counts(whole):
    text = html.unescape(whole)
    assert "10 files with 22 rows. Of 10 workloads with a rival, torch_conv is ahead in 8 and behind in 2" in text
    lines = cells(whole)
    assert ["filter2d-t1.json", "NVIDIA Test 1", "2.11.0", "13.0", "2026-11-26", "abc1234", "2", "0", "1", "1"] in lines
    assert ["scaling-t1.json", "2 × NVIDIA Test 1", "2.11.0", "13.0", "2026-11-26", "abc1234", "1", "", "", ""] in lines
    # The geometric mean of 30/13, 30/15 and 30/17, the worst and the best.
    assert ["gaussian", "NVIDIA Test 1", "3", "0", "2.01", "1.76", "2.31"] in lines


def test_losses_stand_worst_first(whole):
    lines = cells(whole)
    at = lines.index(["×", "workload", "torch_conv", "its rival", "best rival", "machine"])
    assert lines[at + 1 : at + 3] == [
        ["▼ 0.75", "formats 3x3 u8", "20.0 us", "15.0 us", "OpenCV", "NVIDIA Test 1"],
        ["▼ 0.75", "layers 8x96x56x56 k=7 float16", "40.0 us", "30.0 us", "torch", "NVIDIA Test 1"],
    ]


def test_a_table_for_each_form(whole):
    lines = cells(whole)
    assert ["formats 3x3 u8", "20.0 us", "37 %", "25 %", "OpenCV", "15.0 us", "▼ 0.75"] in lines
    assert ["box 3x3 f32", "5.0 us", "50 %", "25 %", "", "", ""] in lines
    assert ["replk batch 64 NHWC eager", "60.0 us", "torch", "90.0 us", "1.50"] in lines
    assert ["depthwise NCHW f16", "1", "1", "▼ 0.50", "▼ 0.50", "▼ 0.50"] in lines
    assert ["512", "0.2", "0.4", "0.1", "62 %"] in lines
    assert ["naive", "0.25", ""] in lines
    assert ["filter2d 3x3 constant 8192²", "200.0 us", "125.0 us", "80 %"] in lines


def test_every_figure_is_drawn(whole):
    captions = [html.unescape(c) for c in re.findall(r"<figcaption>(.*?)</figcaption>", whole, re.DOTALL)]
    beginnings = [
        "Time over size, filter3d-t1",
        "Time over the window's size, blur-t1",
        "Textbook kernels in float32, ladder-t1",
        "3-D study, volume-t1",
        "Fused against unfused: the time",
        "Roofline, NVIDIA Test 1",
        "Efficiency over size, 2 × NVIDIA Test 1",
        "Efficiency of several devices, scaling-t1",
        "Median share of the copy's speed, NVIDIA Test 1",
    ]
    for beginning in beginnings:
        assert any(caption.startswith(beginning) for caption in captions), beginning
    assert "Figures without data" not in whole
    assert ">37 % (1)</text>" in whole  # the heat map's cell: filter2d, uint8
    assert ">2.5</text>" in whole  # the speedup of fusion: 25 us over 10
    assert ">80</text>" in whole  # efficiency


def test_the_cpu_beside_a_gpu_is_a_machine_of_its_own(tmp_path):
    rows = [timed("box 3x3 f32", 5.0, kornia=10.0), timed("box 3x3 f32", 8.0, kornia=4.0) | {"device": "cpu"}]
    page = made(written(tmp_path, {"both": document("filter2d", rows)}) / "both.json")
    assert "1 file with 2 rows. " in page
    assert [line for line in cells(page) if line[:1] == ["box"]] == [
        ["box", "A CPU", "1", "1", "▼ 0.50", "▼ 0.50", "▼ 0.50"],
        ["box", "NVIDIA Test 1", "1", "0", "2.00", "2.00", "2.00"],
    ]
    for machine in ("NVIDIA Test 1", "A CPU"):
        assert f"<figcaption>Median share of the copy&#x27;s speed, {machine}," in page


def test_copies_that_are_launches_are_left_out(tmp_path):
    """Shares of bandwidth, also from older files, which hold their own; a CPU has no launches."""
    rows = [timed(f"box {n}x{n} f32", 5.0, series="box float32", kornia=9.0) | {"bytes": n << 20} for n in (3, 4, 5)]
    rows.append(timed("box 7x7 f32", 5.0) | {"copy_fraction": None})
    rows.append(timed("box 9x9 f32", 5.0) | {"bytes": 1024, "device": "cpu"})
    page = made(written(tmp_path, {"small": document("filter2d", rows)}) / "small.json")
    shares = {line[0]: line[2] for line in cells(page) if line[0].startswith("box ") and len(line) == 7}
    assert shares == {
        "box 3x3 f32": "",
        "box 4x4 f32": "",
        "box 5x5 f32": "50 %",
        "box 7x7 f32": "",
        "box 9x9 f32": "50 %",
    }
    assert "Roofline, NVIDIA Test 1" in page and page.count(">50 % (1)</text>") == 2  # heat maps of both machines
    page = made(written(tmp_path, {"none": document("filter2d", rows[:2])}) / "none.json")
    assert "Time over the window" in page and "Roofline, NVIDIA" not in page and "Median share" not in page


def test_absent_figures_are_named(tmp_path):
    page = made(written(tmp_path, {"models": examples()["models-t1"]}) / "models.json")
    text = html.unescape(page)
    assert "<figure>" not in page
    assert "<li>Several GPUs: `torch-conv bench scaling` or benchmarks/scaling.py</li>" in text
    assert text.count("<li>") == 3 + 7  # of the contents, and of the figures


def test_the_page_needs_nothing_else(whole):
    assert not re.search(r"https?:|//[a-z]|src=|<script|<link|@import|url\((?!#)|<image|<iframe", whole, re.IGNORECASE)
    targets = re.findall(r'href="([^"]*)"', whole)
    ids = re.findall(r' id="([^"]*)"', whole)
    assert targets and all(target[:1] == "#" and target[1:] in ids for target in targets)
    assert len(ids) == len(set(ids))


EVIL = "<script>alert('$x$ & \"y\"')</script>"


def test_text_of_files_is_escaped(tmp_path):
    rows = [timed(f"{EVIL} {k}x{k}", 10.0, series=EVIL, **{EVIL: 5.0}) for k in (3, 5, 7)]
    table = {"name": "volume", "title": EVIL, "note": EVIL, "columns": {"row": EVIL, "median_ms": EVIL}}
    table["rows"] = [{"row": f"{EVIL} \ud800 \x07 語", "median_ms": 1.5}]
    meta = {key: EVIL for key in ("commit", "date", "torch", "gpu", "cuda", "cpu")}
    rows[0]["dtype"] = EVIL
    one = {"benchmark": EVIL, "metadata": META | meta, "rows": rows}
    two = {"benchmark": "volume", "metadata": META | meta, "tables": [table]}
    page = made(written(tmp_path, {"<b>&": one, "two": two}) / "<b>&.json", tmp_path / "two.json")
    assert "<script" not in page and "<b>" not in page
    assert html.escape(EVIL) in page
    assert "語" in page


def test_a_file_given_twice_counts_once(tmp_path):
    folder = written(tmp_path, {"models": examples()["models-t1"]})
    assert "1 file with 1 row. " in made(folder / "models.json", folder)


@pytest.mark.parametrize("torn", ["", "{", "[1, 2", "\xff\xfe", '{"benchmark": NaN}', "[" * 100_000])
def test_damaged_files_are_refused(tmp_path, capsys, torn):
    path = tmp_path / "torn.json"
    path.write_bytes(torn.encode("latin-1"))
    said = refused(capsys, "report", path, "-o", tmp_path / "out.html")
    assert said == f"torch-conv report: {path} is no JSON file, or a damaged one"
    assert not (tmp_path / "out.html").exists()


def without(key, **changed):
    row = timed("box 3x3 f32", 5.0, kornia=6.0) | changed
    row.pop(key, None)
    return document("filter2d", [row])


def second_without(key):
    """The first row tells the form, so that only a later one can lack a key of it."""
    return document("filter2d", without("")["rows"] + without(key)["rows"])


PAIRED = {
    "name": "a model",
    "ours_us": 1.0,
    "torch_us": 2.0,
    "speedup": 2.0,
    "layout": "contiguous",
    "way": "inference",
}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([1], "'benchmark' is missing"),
        ({"name": "a package"}, "'benchmark' is missing"),
        ({"benchmark": "blur", "rows": []}, "'metadata' is missing"),
        ({"benchmark": "blur", "metadata": {}}, "there are neither 'rows' nor 'tables'"),
        ({"benchmark": "blur", "metadata": {}, "rows": 3}, "'rows' is no list of objects"),
        (document("blur", [{"x": 1}]), "rows[0] has none of the forms that benchmarks write"),
        (without("", copy_fraction="fast"), "rows[0]: 'copy_fraction' is missing or not what it should be"),
        (without("", copy_fraction=10**400), "rows[0]: 'copy_fraction' is missing or not what it should be"),
        (second_without("copy_fraction"), "rows[1]: 'copy_fraction' is missing or not what it should be"),
        (without("", timings={"torch_conv": 3}), "rows[0]: 'torch_conv' has no time"),
        (without("", timings={"copy_": {"median_us": 3}}), "rows[0]: no time of torch_conv"),
        (without("", best_rival="nobody"), "rows[0]: the best rival has no time"),
        (without("", best_rival={"a": 1}), "rows[0]: the best rival has no time"),
        (without("", shape=[0, 3]), "rows[0]: 'shape' is no list of sizes"),
        (without("", flops="many"), "rows[0]: 'flops' is no number"),
        (document("models", [PAIRED | {"name": {"a": 1}}]), "rows[0]: 'name' is missing or not what it should be"),
        (document("models", [PAIRED | {"dtype": [3]}]), "rows[0]: 'dtype' is no text"),
        ({"benchmark": "ladder", "metadata": {}, "tables": [{}]}, "tables[0] has no name or title"),
    ],
)
def test_foreign_files_are_refused(tmp_path, capsys, content, reason):
    path = written(tmp_path, {"foreign": content}) / "foreign.json"
    said = refused(capsys, "report", path, "-o", tmp_path / "out.html")
    assert said == f"torch-conv report: {path} holds no results of torch-conv: {reason}"
    assert not (tmp_path / "out.html").exists()


def test_paths_are_refused(tmp_path, capsys):
    out = tmp_path / "out.html"
    results = written(tmp_path, {"models": examples()["models-t1"]}) / "models.json"
    (tmp_path / "empty").mkdir()

    def said(*arguments):
        return refused(capsys, "report", *arguments).removeprefix("torch-conv report: ")

    assert said(tmp_path / "no.json") == f"{tmp_path}/no.json cannot be read: no such file or directory"
    assert said(tmp_path / "empty", "-o", out) == f"{tmp_path}/empty holds no *.json file"
    assert said(results, "-o", tmp_path / "no" / "out.html") == f"there is no folder {tmp_path}/no"
    assert said(results, "-o", tmp_path) == f"{tmp_path} is a folder"
    assert said(results, "-o", results, "--force") == f"{results} is one of the results"
    out.write_text("precious")
    assert said(results, "-o", out) == f"{out} exists already; --force replaces it"
    assert out.read_text() == "precious"
    assert said() == "RESULTS must be given (see torch-conv report --help)"
    assert sorted(os.listdir(tmp_path)) == ["empty", "models.json", "out.html"]


def test_it_says_what_it_made(tmp_path, capsys):
    out = tmp_path / "out.html"
    folder = written(tmp_path, {"models": examples()["models-t1"]})
    assert run("report", folder, "-o", out) == 0
    captured = capsys.readouterr()
    assert re.fullmatch(re.escape(f"{out}: 1 file of results, ") + r"\d KiB\n", captured.out)
    assert captured.err == ""  # progress is for terminals


def test_the_page_of_the_documents_is_up_to_date():
    """The report holds every file with its present date and commits."""
    page, results = ROOT / "docs" / "report.html", ROOT / "benchmarks" / "results"
    if not page.exists() or not results.is_dir():
        pytest.skip("not in a checkout")
    lines = [line for line in cells(page.read_text()) if line[0].endswith(".json")]
    found = {(line[0], line[4], line[5]) for line in lines}
    for path in sorted(results.glob("*.json")):
        parsed = json.loads(path.read_text())
        own = parsed["metadata"]["commit"]
        commits = dict.fromkeys([own, *(row.get("commit") or own for row in parsed.get("rows", []))])
        said = f"{path.name}: run python -m torch_conv report benchmarks/results -o docs/report.html --force"
        assert any(
            name == path.name and date == parsed["metadata"]["date"][:10] and set(shown.split(", ")) <= set(commits)
            for name, date, shown in found
        ), said
