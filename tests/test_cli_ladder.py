"""`torch-conv bench ladder` and `bench volume`: the tables of the textbook kernels, their options and refusals."""

import json

import pytest
import torch
from command_line import refused, run
from strategies import make_image

import torch_conv
from torch_conv.bench.ladder import tables
from torch_conv.bench.ladder.borders import POLICIES, means
from torch_conv.bench.ladder.borders import borders as borders_study
from torch_conv.bench.ladder.study import Study, Sweep
from torch_conv_cli import build_parser

RUNGS = ("naive", "constant", "tiled", "l2_halo")


def test_tables_on_the_cpu(monkeypatch, tmp_path, capsys):
    kept = {"stencil": [(256, False)], "correctness": [("box", 3)], "size": [64], "fused": [64], "window": [(64, 3)]}

    def few(cuda, sweep, studies=tables.studies):
        return [
            Study(s.name, s.title, s.columns, kept[s.name], s.measure, s.note)
            for s in studies(cuda, sweep)
            if s.name in kept
        ]

    monkeypatch.setattr(tables, "studies", few)
    written, figures = tmp_path / "ladder.json", tmp_path / "f"
    assert run("bench", "ladder", "--device", "cpu", "--quick", "--json", written, "--figures", figures) == 0
    printed = capsys.readouterr().out
    assert "CPU columns only" in printed
    assert "V1 naive" not in printed
    document = json.loads(written.read_text())
    assert document["metadata"]["torch"] == torch.__version__
    assert [table["name"] for table in document["tables"]] == ["stencil", "correctness", "size", "window", "fused"]
    for table in document["tables"]:
        assert all(key in row for row in table["rows"] for key in table["columns"])
    assert {p.name for p in figures.iterdir()} == {f"ladder_{n}.png" for n in ("size", "window", "fused")}


@pytest.mark.thorough
def test_signals_and_borders_on_the_cpu(tmp_path):
    written = tmp_path / "ladder.json"
    command = ["bench", "ladder", "--device", "cpu", "--quick", "--table", "signal,borders", "--image-size", "40,104"]
    assert run(*command, "--json", written) == 0
    signal, borders = (table["rows"] for table in json.loads(written.read_text())["tables"])
    assert [(row["numbers"], row["k"]) for row in signal] == [(n, k) for n in (1600, 10816) for k in (5, 31)]
    assert [row["policy"] for row in borders] == ["skip", "clamp", "wrap", "mirror", "zero"]
    assert all(row["error"] <= 1 and row["conv2d_ms"] > 0 for row in borders)


@pytest.mark.thorough
@pytest.mark.parametrize("policy", POLICIES)
def test_gold_of_the_borders(policy):
    image = make_image((1, 2, 103, 120), torch.uint8)
    border = POLICIES[policy][0]
    expected = torch_conv.reference.box_blur(image.double(), 200, border, anchor=-1)
    assert (means(image, policy) - expected).abs().max() <= 0.5 + 1e-9


def test_borders_that_an_image_is_too_small_for_are_left_out():
    cases = borders_study(Sweep(sizes=(100,)), cuda=False).cases
    assert [policy for _, policy in cases] == ["skip", "clamp", "zero"]


def test_tables_on_the_gpu_name_their_rungs():
    columns = {study.name: {c.key for c in study.columns} for study in tables.studies(True, Sweep())}
    assert {f"{rung}_ms" for rung in RUNGS} < columns["size"] & columns["window"] & columns["block"] & columns["signal"]
    assert {"direct_over_cpu", "production_over_cpu", "conv2d_ms"} < columns["borders"]
    assert {"fused_ms", "unfused_ms", "production_ms", "conv2d_ms"} < columns["fused"]


def test_sweeps(tmp_path):
    """Sizes, windows and blocks of one's own; a table that is not asked for is not there."""
    written = tmp_path / "ladder.json"
    command = ["bench", "ladder", "--device", "cpu", "--table", "size,window,block", "--image-size", "32,48"]
    options = ["--kernel-size", "1,9", "--iterations", "3", "--json", written, "--figures", tmp_path / "f"]
    assert run(*command, *options) == 0
    assert {path.name for path in (tmp_path / "f").iterdir()} == {"ladder_size.png", "ladder_window.png"}
    document = json.loads(written.read_text())
    found = {table["name"]: table["rows"] for table in document["tables"]}
    assert [row["size"] for row in found["size"]] == [32, 48]
    assert [(row["size"], row["k"]) for row in found["window"]] == [(48, 1), (48, 9)]
    assert [(row["size"], row["block"]) for row in found["block"]] == [(48, "16x16")]  # a CPU has none
    assert document["metadata"]["rounds"] == 3 and len(found) == 3
    assert Sweep(sizes=(2048,), quick=True).of(256, 4096) == [2048]
    assert Sweep(quick=True).of(256, 1024, 2048) == [256, 1024]
    on_a_gpu = tables.studies(True, Sweep((64,), (3,), ((4, 8), (64, 16))))
    assert [study.cases for study in on_a_gpu if study.name == "block"] == [[(64, (4, 8)), (64, (64, 16))]]


BAD_OPTIONS = {
    "--device tpu": "tpu",
    "--json /no/such/folder/x.json": "/no/such/folder",
    "--table size,speed": "must be of stencil, correctness, size, window, block, fused, signal, borders, got speed",
    "--table windw": "signal, borders, got windw, did you mean 'window'?",
    "--image-size 64,4": "must be 8 to 16384, got 4",
    "--kernel-size 3,4": "must be odd, 1 to 27, got 4",
    "--kernel-size 29": "must be odd, 1 to 27, got 29",
    "--block 16": "must be WIDTHxHEIGHT with at most 1024 threads, got 16",
    "--block 16x16,64x32": "must be WIDTHxHEIGHT with at most 1024 threads, got 64x32",
    "--iterations 2": "--iterations must be at least 3, got 2",
}


@pytest.mark.parametrize("options", BAD_OPTIONS)
def test_bad_options(options, capsys):
    assert BAD_OPTIONS[options] in refused(capsys, "bench", "ladder", *options.split())


SMALL = "--width 20 --height 12 --depth 5 --kernel-radius-x 3 --kernel-radius-y 2 --kernel-radius-z 1 --iterations 4 "
SMALL += "--warmup-iterations 1 --block-dim-x 16 --block-dim-y 4 --block-dim-z 2"
GPU_RUNGS = ["naive", "constant", "constant + shared tile", "L2 halo", "separable, 3 x 1-D"]
OURS_AND_TORCHS = ["torch_conv.filter3d, direct", "torch_conv.filter3d_separable", "F.conv3d"]


def test_volume_defaults():
    options = {
        **{"width": 128, "height": 128, "depth": 8, "iterations": 20, "warmup_iterations": 5},
        **{f"kernel_radius_{axis}": 7 for axis in "xyz"},
        **{f"block_dim_{axis}": 8 for axis in "xyz"},
    }
    parsed = vars(build_parser(["bench"]).parse_args(["bench", "volume"]))
    assert {name: parsed[name] for name in options} == options


def test_volume_help_names_every_option(capsys):
    assert run("bench", "volume", "--help") == 0
    printed = capsys.readouterr().out
    for name in ("width", "height", "depth", "iterations", "warmup-iterations", "json", "device"):
        assert f"--{name}" in printed
    for axis in "xyz":
        assert f"--kernel-radius-{axis}" in printed
        assert f"--block-dim-{axis}" in printed


def test_volume(device, tmp_path, capsys):
    written = tmp_path / "volume.json"
    assert run("bench", "volume", *SMALL.split(), "--device", device, "--json", written) == 0
    printed = capsys.readouterr().out
    assert "volume 20x12x5, window 7x5x3, block 16x4x2" in printed
    assert "CPU 5616 ms" in printed
    assert ("need a GPU" in printed) == (device == "cpu")
    document = json.loads(written.read_text())
    assert document["benchmark"] == "volume"
    assert document["metadata"]["options"]["kernel-radius-x"] == 3
    (table,) = document["tables"]
    gold, *others = table["rows"]
    rungs = GPU_RUNGS if device == "cuda" else []
    assert [row["row"] for row in table["rows"]] == ["gold CPU", *rungs, *OURS_AND_TORCHS]
    assert gold["iterations"] == 3
    for row in others:
        assert row["iterations"] == 4
        assert row["error"] <= 1e-5
    for row in table["rows"]:
        assert row["row"] in printed
        assert 0 < row["minimum_ms"] <= min(row["median_ms"], row["average_ms"])


def test_volume_finds_a_wrong_result(monkeypatch, capsys):
    good = torch_conv.filter3d
    monkeypatch.setattr(torch_conv, "filter3d", lambda *args, **kwargs: good(*args, **kwargs) + 0.5)
    assert run("bench", "volume", *SMALL.split(), "--device", "cpu") == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("torch-conv bench volume: wrong results:\n")
    assert "volume: torch_conv.filter3d, direct is off by 0.5" in captured.err
    assert "torch_conv.filter3d_separable" in captured.out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--width 0", "--width must be at least 1, got 0"),
        ("--height -3", "--height must be at least 1, got -3"),
        ("--depth 0", "--depth must be at least 1, got 0"),
        ("--iterations 0", "--iterations must be at least 1, got 0"),
        ("--warmup-iterations -1", "--warmup-iterations must be at least 0, got -1"),
        ("--kernel-radius-y -1", "--kernel-radius-y must be at least 0, got -1"),
        ("--block-dim-x 0", "--block-dim-x must be at least 1, got 0"),
        (
            "--kernel-radius-x 10 --kernel-radius-y 10 --kernel-radius-z 10",
            "the window must have at most 8000 taps to fit into constant memory (torch_conv.filter3d has no such "
            "limit), got 21x21x21 = 9261",
        ),
        ("--block-dim-x 16 --block-dim-y 16", "the block must have at most 1024 threads, got 16x16x8 = 2048"),
        ("--block-dim-x 2 --block-dim-y 2 --block-dim-z 65", "--block-dim-z must be at most 64, got 65"),
        ("--device tpu", "device must be cpu, cuda or cuda:N, got tpu"),
        ("--json /no/such/folder/x.json", "there is no folder /no/such/folder"),
    ],
)
def test_volume_refusals(options, sentence, capsys):
    assert refused(capsys, "bench", "volume", *options.split()) == f"torch-conv bench volume: {sentence}"


@pytest.mark.cuda
def test_volume_refuses_a_tile_beyond_shared_memory(cuda, capsys):
    options = "--width 50 --height 4 --depth 2 --kernel-radius-x 3999 --kernel-radius-y 0 --kernel-radius-z 0"
    assert run("bench", "volume", "--device", cuda, *options.split()) == 2
    error = capsys.readouterr().err.lstrip("\n")  # where the progress bar stood
    assert error.startswith("torch-conv bench volume: ladder3d: block and kernel must keep tile and halo within ")
    assert error.count("\n") == 1
