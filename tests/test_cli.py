"""The command line, end to end in this process: options in, results out, status 2 and one sentence on bad input."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from command_line import refused, run

import torch_conv
from torch_conv.bench.families import NAMES as FAMILIES
from torch_conv_cli import COMMANDS as TOP

io = pytest.importorskip("torchvision.io")
ROOT = Path(torch_conv.__file__).parent.parent


@pytest.fixture
def picture(tmp_path):
    y, x = torch.meshgrid(torch.arange(40), torch.arange(60), indexing="ij")
    image = torch.stack([(x * 4) % 256, (y * 6) % 256, (x * y) % 256]).to(torch.uint8)
    io.write_png(image, str(tmp_path / "in.png"))
    return tmp_path / "in.png", image


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--filter", "gaussian", "--size", "7", "--sigma", "1.5"], lambda x: torch_conv.gaussian_blur2d(x, 7, 1.5)),
        (["--filter", "box", "--size", "11"], lambda x: torch_conv.box_blur(x, 11)),
        (["--filter", "sharpen"], lambda x: torch_conv.filter2d(x, torch_conv.kernels.sharpen())),
        (
            ["--filter", "emboss", "--border", "replicate"],
            lambda x: torch_conv.filter2d(x, torch_conv.kernels.emboss(), "replicate"),
        ),
        (["--filter", "identity", "--size", "5"], lambda x: x),
        (["--filter", "box", "--size", "4", "--anchor", "3,0"], lambda x: torch_conv.box_blur(x, 4, anchor=(3, 0))),
        (["--filter", "box", "--size", "5", "--anchor", "-1"], lambda x: torch_conv.box_blur(x, 5, anchor=-1)),
        (
            ["--filter", "emboss", "--anchor=-1,2", "--border", "constant"],
            lambda x: torch_conv.filter2d(x, torch_conv.kernels.emboss(), "constant", anchor=(-1, 2)),
        ),
        (["--filter", "box", "--size", "5", "--anchor", "-1,0"], lambda x: torch_conv.box_blur(x, 5, anchor=(-1, 0))),
        (["--filter", "box", "--size", "5", "--anchor=-1,0"], lambda x: torch_conv.box_blur(x, 5, anchor=(-1, 0))),
        (["--filter", "box", "--size", "5", "--anchor", "-1,-1"], lambda x: torch_conv.box_blur(x, 5, anchor=-1)),
        (["--filter", "identity", "--anchor", "0,1"], lambda x: torch.cat([x[:, 1:], x[:, -2:-1]], 1)),
    ],
)
def test_filter_writes_the_filtered_picture(picture, arguments, expected):
    path, image = picture
    target = path.with_name("out.png")
    assert run("filter", path, target, "--device", "cpu", *arguments) == 0
    assert torch.equal(io.read_image(str(target)), expected(image))


@pytest.mark.parametrize("name", ["sobel", "unsharp", "laplacian", "prewitt_y"])
def test_other_filters_write_something_else(picture, name):
    path, image = picture
    target = path.with_name("out.png")
    assert run("filter", path, target, "--device", "cpu", "--filter", name) == 0
    written = io.read_image(str(target))
    assert written.shape == image.shape
    assert not torch.equal(written, image)


@pytest.mark.parametrize(
    "arguments",
    [
        ["filter"],
        ["filter", "IN", "OUT"],
        ["filter", "IN", "OUT", "--filter", "nothing"],
        ["filter", "IN", "OUT", "--filter", "box", "--size", "0"],
        ["filter", "IN", "OUT", "--filter", "box", "--size", "many"],
        ["filter", "IN", "OUT", "--filter", "box", "--size", "99999999999999999999"],
        ["filter", "IN", "OUT", "--filter", "gaussian", "--size", "4"],
        ["filter", "IN", "OUT", "--filter", "gaussian", "--sigma", "-1"],
        ["filter", "IN", "OUT", "--filter", "box", "--sigma", "2"],
        ["filter", "IN", "OUT", "--filter", "sobel_x", "--size", "5"],
        ["filter", "IN", "OUT", "--filter", "box", "--border", "clamp"],
        ["filter", "IN", "OUT", "--filter", "box", "--device", "tpu"],
        ["filter", "IN", "OUT", "--filter", "box", "--device", "cuda:99"],
        ["filter", "IN", "OUT", "--filter", "box", "--anchor", "9,0"],
        ["filter", "IN", "OUT", "--filter", "box", "--background", "red"],
        ["filter", "IN", "OUT.bmp", "--filter", "box"],
        ["filter", "IN", "nowhere/OUT", "--filter", "box"],
        ["filter", "missing.png", "OUT", "--filter", "box"],
        ["filter", "TEXT", "OUT", "--filter", "box"],
        ["prepare"],
        ["prepare", "--filter", "nothing"],
        ["prepare", "--filter", "gaussian", "--size", "4"],
        ["prepare", "--filter", "box", "--sigma", "2"],
        ["prepare", "--filter", "box", "--dtype", "int64"],
        ["prepare", "--filter", "box", "--shape", "1080"],
        ["prepare", "--filter", "box", "--shape", "1080x"],
        ["prepare", "--filter", "box", "--shape", "0x8"],
        ["prepare", "--filter", "box", "--shape", "99999999999999999999x8"],
        ["prepare", "--filter", "box", "--shape", "2x1x1x1080x1920"],
        ["prepare", "--filter", "box", "--device", "cuda:99"],
        ["bench", "nothing"],
        ["bench", "filter2d", "--rounds", "4"],
        ["bench", "filter2d", "--device", "cuda:99"],
        ["bench", "filter2d", "--rows", "nothing"],
        ["bench", "filter2d", "--json", "nowhere/FILE"],
        ["bench", "training", "--device", "cpu"],
        ["bench", "models", "--models", "nothing"],
        ["bench", "scaling", "--sizes", "0"],
        ["bench", "scaling", "--sizes", "large"],
        ["bench", "scaling", "--sizes", "99999999999999999999"],
        ["bench", "scaling", "--devices", "0"],
        ["bench", "scaling", "--devices", "cpu,tpu"],
        ["bench", "scaling", "--devices", "cuda:99"],
        ["bench", "scaling", "--json", "nowhere/FILE"],
        ["bench", "volume", "--width", "wide"],
        ["bench", "volume", "--depth", "0"],
        ["bench", "volume", "--kernel-radius-x", "-1"],
        ["nothing"],
    ],
)
def test_bad_input_is_one_sentence_and_status_2(picture, capsys, arguments):
    path, _ = picture
    text = path.with_name("text.png")
    text.write_text("no image")
    places = {"IN": path, "OUT": path.with_name("out.png"), "OUT.bmp": path.with_name("out.bmp"), "TEXT": text}
    places["nowhere/OUT"] = path.parent / "nowhere" / "out.png"
    before = sorted(path.parent.iterdir())
    assert run(*(places.get(a, a) for a in arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("torch-conv")
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err
    assert sorted(path.parent.iterdir()) == before  # nothing was written


INSIDE = "anchor must lie in the window (0 to 8, or -1 for the middle)"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["gaussian", "--anchor", "1,1"], "torch-conv filter: --anchor has no meaning for gaussian"),
        (["box", "--anchor", "9,0"], f"torch-conv filter: box_blur: {INSIDE}, got 9"),
        (
            ["box", "--anchor", "1,1,1"],
            "torch-conv filter: --anchor must be Y,X or one number for both, got 1,1,1",
        ),
        (
            ["box", "--anchor", "left"],
            "torch-conv filter: --anchor must be a whole number, got left (see torch-conv filter --help)",
        ),
    ],
)
def test_anchors_that_are_none(picture, capsys, arguments, sentence):
    path, _ = picture
    said = refused(capsys, "filter", path, path.with_name("out.png"), "--device", "cpu", "--filter", *arguments)
    assert said == sentence


@pytest.mark.parametrize("kind", [ValueError, TypeError])
@pytest.mark.parametrize(
    ("place", "arguments"),
    [
        ("torch_conv.box_blur", ["filter", "IN", "OUT", "--filter", "box", "--device", "cpu"]),
        ("torch_conv.cli.filter.write_image", ["filter", "IN", "OUT", "--filter", "box", "--device", "cpu"]),
        ("torch_conv.prepare", ["prepare", "--filter", "box", "--device", "cpu"]),
        ("torch_conv.cli.info.facts", ["info"]),
    ],
)
def test_a_bug_shows_its_traceback(picture, monkeypatch, place, arguments, kind):
    """Only refusals of the user's arguments, which begin with the function's name, become one sentence."""

    def buggy(*_, **__):
        raise kind("not enough values to unpack")

    monkeypatch.setattr(place, buggy)
    places = {"IN": picture[0], "OUT": picture[0].with_name("out.png")}
    with pytest.raises(kind, match="not enough values"):
        run(*(places.get(a, a) for a in arguments))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["filter", "IN", "OUT", "--filter", "gaussian", "--size", "4"],
            "gaussian_blur2d: kernel_size must be odd and at least 1, got (4, 4)",
        ),
        (["filter", "IN", "OUT", "--filter", "sobel_x", "--size", "5"], "--size of sobel_x must be 3, got 5"),
        (
            ["prepare", "--filter", "gaussian", "--size", "4"],
            "gaussian_blur2d: kernel_size must be odd and at least 1, got (4, 4)",
        ),
        (["prepare", "--filter", "box", "--shape", "99999999x99999999"], "there is not enough memory"),
    ],
)
def test_refusal_of_the_library_is_one_sentence(picture, capsys, arguments, sentence):
    places = {"IN": picture[0], "OUT": picture[0].with_name("out.png")}
    said = refused(capsys, *(places.get(a, a) for a in arguments), "--device", "cpu")
    assert said == f"torch-conv {arguments[0]}: {sentence}"


def test_version(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"torch_conv {torch_conv.__version__}\n"


FIRST_WORDS = {"": 0, "--help": 0, "--version": 0, "fliter": 2, "--verison": 2}
IN_A_FRESH_PROCESS = f"""
import sys
import torch_conv_cli
for word, status in {FIRST_WORDS}.items():
    assert torch_conv_cli.main([word] * bool(word)) == status, word
assert not {{"torch", "torch_conv"}} & set(sys.modules)
"""


def test_the_first_words_take_no_torch():
    command = [sys.executable, "-c", IN_A_FRESH_PROCESS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    help_twice, version = done.stdout[: -len(f"torch_conv {torch_conv.__version__}\n")], done.stdout.splitlines()[-1]
    assert version == f"torch_conv {torch_conv.__version__}"
    assert help_twice[: len(help_twice) // 2] * 2 == help_twice
    assert all(f"\n    {name} " in help_twice for name in TOP)
    assert done.stderr.splitlines() == [
        "torch-conv: unknown command 'fliter', did you mean 'filter'? (see torch-conv --help)",
        "torch-conv: unknown option '--verison', did you mean '--version'? (see torch-conv --help)",
    ]


COMMANDS = [
    [],
    *([name] for name in TOP),
    *(["bench", name] for name in ("anywhere", "ladder", "volume", "scaling", *FAMILIES)),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_everywhere(capsys, command):
    name = " ".join(["torch-conv", *command])
    assert run(*command, "--help") == 0
    assert capsys.readouterr().out.startswith(f"usage: {name} ")
    said = f"{name}: unknown option '--hlep', did you mean '--help'? (see {name} --help)"
    assert refused(capsys, *command, "--hlep") == said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("nothing", ": unknown command 'nothing': must be demo, filter, bench, report, prepare, info or cache"),
        ("bench filter2", " bench: unknown family 'filter2', did you mean 'filter2d'?"),
        ("bench blur --rounds many", " bench blur: --rounds must be a whole number, got many"),
        ("filter IN OUT --fliter box", " filter: unknown option '--fliter', did you mean '--filter'?"),
        ("filter IN OUT --filter Gausian", " filter: unknown filter 'Gausian', did you mean 'gaussian'?"),
        ("filter IN OUT --filter box --border mirrored", " filter: unknown border 'mirrored': must be "),
        ("filter IN OUT --filter box --border reflekt", " filter: unknown border 'reflekt', did you mean 'reflect'?"),
        ("filter IN OUT --filter gaussian --sigma wide", " filter: --sigma must be a number, got wide"),
        ("prepare --filter box --dtype flaot16", " prepare: unknown dtype 'flaot16', did you mean 'float16'?"),
        ("prepare --filter box --size", " prepare: --size: expected one argument"),
        ("info more", " info: unknown argument 'more'"),
        ("cache -x", " cache: unknown option '-x'"),
    ],
)
def test_nearest_names(capsys, words, sentence):
    said = refused(capsys, *words.split())
    name = said.partition(":")[0]
    assert said.startswith(f"torch-conv{sentence}")
    assert said.endswith(f" (see {name} --help)")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("filter2d --rows gausian*f32", "no row is called for by these options, did you mean 'gaussian'?"),
        ("filter2d --quick --rows gausian*f32", "no row of --quick is called for by these options, did you mean "),
        ("filter2d --rows zzz", "no row is called for by these options;"),
        ("models --models replkk", "no row is called for by these options, did you mean 'replk'?"),
        ("models --ways eagr", "no row is called for by these options, did you mean 'eager'?"),
    ],
)
def test_nearest_rows(capsys, options, sentence):
    name = f"torch-conv bench {options.split()[0]}"
    said = refused(capsys, "bench", *options.split(), "--device", "cpu")
    assert said.startswith(f"{name}: {sentence}")
    assert said.endswith(f" {name} --list prints the names")


def test_bench_scaling(tmp_path, capsys):
    pytest.importorskip("rich")
    written = tmp_path / "scaling.json"
    assert run("bench", "scaling", "--sizes", "64", "--devices", "cpu,cpu,cpu", "--json", written) == 0
    out = capsys.readouterr().out
    assert "the shards lie on the CPU" in " ".join(out.split())
    document = json.loads(written.read_text())
    assert document["metadata"]["shards"] == ["cpu"] * 3
    rows = document["tables"][0]["rows"]
    assert [row["filter"] for row in rows] == ["filter2d 3x3", "gaussian_blur2d 31x31"]
    assert all(row["same"] == "yes" and row["split_ms"] > 0 for row in rows)


def test_info(capsys):
    assert run("info") == 0
    out = capsys.readouterr().out
    assert torch_conv.__version__ in out
    assert torch.__version__ in out
    for fact in ["compiler: ", "cache: "] if torch.version.cuda else ["none: this torch has no CUDA"]:
        assert fact in out


@pytest.mark.parametrize(
    "arguments", [["gaussian", "--size", "7", "--dtype", "uint8", "--shape", "3x64x96"], ["sobel_x"], ["emboss"]]
)
def test_prepare(device, capsys, arguments):
    assert run("prepare", "--device", device, "--filter", *arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    if device == "cpu":
        assert lines == ["nothing is to be made ready on the CPU"]
    else:
        assert lines[0].startswith("cache: ")
        assert [line.split(": ")[0] for line in lines[1:]] == ["loaded"] * len(lines[1:])
        assert len(lines) > 1


def test_as_a_module(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "torch_conv", "filter", "missing.png", "out.png", "--filter", "box"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "torch-conv filter: there is no file missing.png\n"
