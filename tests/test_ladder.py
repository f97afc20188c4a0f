"""The textbook kernels: the studies' own tests, every block and window, the fallback, refusals, and their tables."""

from __future__ import annotations

import json
import math

import pytest
import torch
import torch.nn.functional as F
from tolerance import assert_same_bits

import torch_conv
from torch_conv import _timing, kernels
from torch_conv.bench.ladder import borders as ladder_borders
from torch_conv.bench.ladder import study as ladder_bench
from torch_conv.bench.ladder import tables as ladder_tables
from torch_conv.cli import main

RUNGS = ("naive", "constant", "tiled", "l2_halo")
BLOCKS = ((8, 8), (16, 16), (32, 8), (32, 16))
WINDOWS = (
    ("gaussian", 3),
    ("gaussian", 5),
    ("gaussian", 7),
    ("sobel_x", 3),
    ("sobel_y", 3),
    ("laplacian", 3),
    ("sharpen", 3),
)


def ladder(image, kernel, variant="naive", block=(16, 16)):
    return torch.ops.torch_conv.ladder2d(image, kernel, variant, block)


def noise(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(42))


def checkerboard():
    squares = torch.arange(64) // 8
    return ((squares[:, None] + squares) % 2).float()


IMAGES = {"checkerboard": checkerboard(), "noise": noise(64, 64)}


def filtered(image, kernel):
    """The float64 result of F.conv2d, zero padding, any leading dimensions."""
    planes = image.double().reshape(-1, 1, *image.shape[-2:])
    return F.conv2d(planes, kernel.double()[None, None], padding=kernel.shape[0] // 2).reshape(image.shape)


def edges(image, kernel):
    """|Gx| + |Gy| after a first window, each step zero padded."""
    blurred = filtered(image, kernel)
    return filtered(blurred, kernels.sobel_x()).abs() + filtered(blurred, kernels.sobel_y()).abs()


def assert_close(got, expected, tolerance):
    assert got.shape == expected.shape
    assert got.dtype == torch.float32
    error = (got.cpu().double() - expected).abs().max().item()
    assert error <= tolerance


# ---- the 2-D study ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", RUNGS)
@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: f"{w[0]}{w[1]}")
@pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES)
def test_study(image, window, variant, device):
    kernel = kernels.named(*window)
    assert_close(ladder(image.to(device), kernel, variant), filtered(image, kernel), 1e-5)


@pytest.mark.parametrize("window", ["gaussian", "box", "identity"])
@pytest.mark.parametrize(
    "image", [*IMAGES.values(), noise(1, 1), noise(33, 17), noise(2, 3, 5, 40)], ids=lambda x: str(tuple(x.shape))
)
def test_fused(image, window, device):
    kernel = kernels.named(window)
    assert_close(ladder(image.to(device), kernel, "fused"), edges(image, kernel), 1e-4)


@pytest.mark.parametrize("k", [1, 3, 5, 7, 9, 27])
@pytest.mark.parametrize("shape", [(1, 1), (33, 17), (16, 64), (2, 3, 20, 31)], ids=str)
@pytest.mark.parametrize("variant", RUNGS)
def test_window_sizes_and_shapes(variant, shape, k, device):
    image, kernel = noise(*shape), kernels.gaussian2d(k, 3.0)
    assert_close(ladder(image.to(device), kernel, variant), filtered(image, kernel), 1e-5)


def test_gold_sums_in_float64():
    image = torch.tensor([[2.0**30, 1.0, -(2.0**30)]])
    assert ladder(image, torch.ones(3, 3))[0, 1].item() == 1.0


def test_input_is_read_through_its_strides_and_kept(device):
    image = noise(17, 3, 33).to(device).permute(1, 2, 0)
    before = image.clone()
    kernel = kernels.named("sharpen")
    assert_close(ladder(image, kernel.T), filtered(before.cpu(), kernel.T), 1e-5)
    assert_same_bits(image, before)


@pytest.mark.parametrize("shape", [(0, 8, 8), (2, 0, 8), (8, 0)], ids=str)
def test_no_elements(shape, device):
    assert ladder(torch.empty(shape, device=device), kernels.box(3)).shape == shape


def test_defaults(device):
    image, kernel = noise(20, 20).to(device), kernels.gaussian2d(3)
    assert_same_bits(torch.ops.torch_conv.ladder2d(image, kernel), ladder(image, kernel, "naive", (16, 16)))
    assert_same_bits(torch.ops.torch_conv.ladder2d(image, kernel, "tiled", 8), ladder(image, kernel, "tiled", (8, 8)))


# ---- the stencil study -----------------------------------------------------------------------------------------------


def test_stencil_interior(device):
    image, kernel = noise(256, 256), kernels.box(3)
    blurred = torch_conv.filter2d(image.to(device), kernel, border_type="zero_output").cpu()
    assert_close(blurred[1:-1, 1:-1], ladder(image, kernel).double()[1:-1, 1:-1], 1e-3)
    rim = blurred.clone()
    rim[1:-1, 1:-1] = 0
    assert not rim.any()


# ---- CUDA: one fma chain, however the block fetches its pixels -------------------------------------------------------


@pytest.mark.cuda
@pytest.mark.parametrize("block", [*BLOCKS, (1, 1), (7, 3), (1024, 1), (1, 1024), (24, 5)], ids=str)
@pytest.mark.parametrize("k", [3, 5, 7, 9])
def test_blocks_and_windows_have_the_same_bits(k, block, cuda):
    image, kernel = noise(2, 70, 83).to(cuda), torch.randn(k, k, generator=torch.Generator().manual_seed(k)) / k
    naive = ladder(image, kernel)
    assert_close(naive, filtered(image.cpu(), kernel), 1e-5)
    for variant in RUNGS:
        assert_same_bits(ladder(image, kernel, variant, block), naive)
    if k == 3:
        assert_same_bits(ladder(image, kernel, "fused", block), ladder(image, kernel, "fused"))


@pytest.mark.cuda
@pytest.mark.parametrize("k", [3, 5, 7])
def test_same_bits_as_the_library(k, cuda):
    image, kernel = noise(65, 130), kernels.gaussian2d(k)
    naive = ladder(image.to(cuda), kernel)
    for place in ("cpu", cuda):
        direct = torch_conv.filter2d(image.to(place), kernel, border_type="constant", algorithm="direct")
        assert_same_bits(naive, direct)


@pytest.mark.cuda
def test_fused_has_the_bits_of_one_by_one(cuda):
    image, blur = noise(61, 47).to(cuda), kernels.gaussian2d(3)
    image[30, 20] = math.inf
    image[5, 5] = math.nan
    blurred = ladder(image, blur, "tiled")
    gx, gy = (ladder(blurred, sobel, "tiled") for sobel in (kernels.sobel_x(), kernels.sobel_y()))
    assert_same_bits(ladder(image, blur, "fused"), gx.abs() + gy.abs())


@pytest.mark.cuda
@pytest.mark.parametrize("variant", [*RUNGS, "fused"])
def test_more_planes_than_a_grid_has(variant, cuda):
    image, kernel = noise(65_540, 2, 3).to(cuda), kernels.gaussian2d(3)
    expected = ladder(image[-6:], kernel, variant)
    assert_same_bits(ladder(image, kernel, variant)[-6:], expected)


@pytest.mark.cuda
@pytest.mark.parametrize("variant", [*RUNGS, "fused"])
def test_streams_do_not_share_a_window(variant, cuda):
    image = noise(512, 512).to(cuda)
    windows = [kernels.gaussian2d(3), kernels.sharpen()]
    expected = [ladder(image, kernel, variant) for kernel in windows]
    streams = [torch.cuda.Stream() for _ in windows]
    torch.cuda.synchronize()
    results = []
    for _ in range(20):
        for stream, kernel in zip(streams, windows, strict=True):
            with torch.cuda.stream(stream):
                results.append(ladder(image, kernel, variant))
    torch.cuda.synchronize()
    for i, result in enumerate(results):
        assert_same_bits(result, expected[i % 2])


@pytest.mark.cuda
@pytest.mark.parametrize("variant", [*RUNGS, "fused"])
def test_captured_window_outlives_its_tensor(variant, cuda):
    image, kernel = noise(40, 40).to(cuda), kernels.gaussian2d(3)
    expected = ladder(image, kernel, variant)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = ladder(image, kernel, variant)
    kernel.zero_()
    graph.replay()
    assert_same_bits(result, expected)


@pytest.mark.cuda
def test_too_many_rows_are_refused(cuda):
    with pytest.raises(
        RuntimeError, match="ladder2d: input must have at most 65535 \\* block\\[1\\] rows on CUDA, got"
    ):
        ladder(torch.zeros(65_536, 1, device=cuda), kernels.box(3), "naive", (32, 1))
    assert ladder(torch.zeros(65_536, 1, device=cuda), kernels.box(3), "naive", (32, 2)).shape == (65_536, 1)


# ---- refusals --------------------------------------------------------------------------------------------------------

IMAGE, KERNEL = torch.zeros(8, 8), torch.ones(3, 3)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (
            (IMAGE, KERNEL, "fast", (16, 16)),
            "ladder2d: variant must be 'naive', 'constant', 'tiled', 'l2_halo' or 'fused', got 'fast'",
        ),
        ((torch.zeros(8), KERNEL), "ladder2d: input must have at least 2 dimensions, got 1"),
        ((IMAGE.double(), KERNEL), "ladder2d: input must have dtype float32, got float64"),
        ((IMAGE, KERNEL.double()), "ladder2d: kernel must have dtype float32, got float64"),
        ((IMAGE, torch.ones(3, 5)), "ladder2d: kernel must be square and odd, got shape (3, 5)"),
        ((IMAGE, torch.ones(4, 4)), "ladder2d: kernel must be square and odd, got shape (4, 4)"),
        ((IMAGE, torch.ones(1, 3, 3)), "ladder2d: kernel must be square and odd, got shape (1, 3, 3)"),
        ((IMAGE, torch.ones(5, 5), "fused"), "ladder2d: variant 'fused' takes a 3x3 kernel, got 5x5"),
        (
            (IMAGE, torch.ones(29, 29)),
            "ladder2d: kernel must have at most 800 taps to fit into constant memory, got 841",
        ),
        ((IMAGE, KERNEL, "naive", (0, 16)), "ladder2d: block must be at least 1, got 0"),
        ((IMAGE, KERNEL, "naive", (64, 32)), "ladder2d: block must have at most 1024 threads, got 64x32"),
    ],
    ids=lambda value: value[10:40] if isinstance(value, str) else "",
)
def test_refusals(args, sentence, device):
    image, *rest = args
    with pytest.raises(RuntimeError) as refusal:
        torch.ops.torch_conv.ladder2d(image.to(device), *rest)
    assert str(refusal.value).splitlines()[0] == sentence
    assert ladder(IMAGE.to(device), KERNEL).sum() == 0  # the next good call works


# ---- the command and its clock ---------------------------------------------------------------------------------------


def test_tables_on_the_cpu(monkeypatch, tmp_path, capsys):
    kept = {"stencil": [(256, False)], "correctness": [("box", 3)], "size": [64], "fused": [64], "window": [(64, 3)]}

    def few(cuda, sweep, studies=ladder_tables.studies):
        return [
            ladder_bench.Study(s.name, s.title, s.columns, kept[s.name], s.measure, s.note)
            for s in studies(cuda, sweep)
            if s.name in kept
        ]

    monkeypatch.setattr(ladder_tables, "studies", few)
    written = tmp_path / "ladder.json"
    command = [
        "bench",
        "ladder",
        "--device",
        "cpu",
        "--quick",
        "--json",
        str(written),
        "--figures",
        str(tmp_path / "f"),
    ]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "CPU columns only" in printed
    assert "V1 naive" not in printed
    document = json.loads(written.read_text())
    assert document["metadata"]["torch"] == torch.__version__
    assert [table["name"] for table in document["tables"]] == ["stencil", "correctness", "size", "window", "fused"]
    for table in document["tables"]:
        assert all(key in row for row in table["rows"] for key in table["columns"])
    assert {p.name for p in (tmp_path / "f").iterdir()} == {f"ladder_{n}.png" for n in ("size", "window", "fused")}


@pytest.mark.thorough
def test_signals_and_borders_on_the_cpu(tmp_path):
    written = tmp_path / "ladder.json"
    command = ["bench", "ladder", "--device", "cpu", "--quick", "--table", "signal,borders", "--image-size", "40,104"]
    assert main([*command, "--json", str(written)]) == 0
    signal, borders = (table["rows"] for table in json.loads(written.read_text())["tables"])
    assert [(row["numbers"], row["k"]) for row in signal] == [(n, k) for n in (1600, 10816) for k in (5, 31)]
    assert [row["policy"] for row in borders] == ["skip", "clamp", "wrap", "mirror", "zero"]
    assert all(row["error"] <= 1 and row["conv2d_ms"] > 0 for row in borders)


@pytest.mark.thorough
@pytest.mark.parametrize("policy", ladder_borders.POLICIES)
def test_gold_of_the_borders(policy):
    image = (255 * noise(1, 2, 103, 120)).to(torch.uint8)
    border = ladder_borders.POLICIES[policy][0]
    expected = torch_conv.reference.box_blur(image.double(), 200, border, anchor=-1)
    assert (ladder_borders.means(image, policy) - expected).abs().max() <= 0.5 + 1e-9


def test_borders_that_an_image_is_too_small_for_are_left_out():
    cases = ladder_borders.borders(ladder_bench.Sweep(sizes=(100,)), cuda=False).cases
    assert [policy for _, policy in cases] == ["skip", "clamp", "zero"]


def test_tables_on_the_gpu_name_their_rungs():
    columns = {
        study.name: {c.key for c in study.columns} for study in ladder_tables.studies(True, ladder_bench.Sweep())
    }
    assert {f"{rung}_ms" for rung in RUNGS} < columns["size"] & columns["window"] & columns["block"] & columns["signal"]
    assert {"direct_over_cpu", "production_over_cpu", "conv2d_ms"} < columns["borders"]
    assert {"fused_ms", "unfused_ms", "production_ms", "conv2d_ms"} < columns["fused"]


def test_sweeps(tmp_path):
    """Sizes, windows and blocks of one's own; a table that is not asked for is not there."""
    written = tmp_path / "ladder.json"
    command = ["bench", "ladder", "--device", "cpu", "--table", "size,window,block", "--image-size", "32,48"]
    options = ["--kernel-size", "1,9", "--iterations", "3", "--json", str(written), "--figures", str(tmp_path / "f")]
    assert main([*command, *options]) == 0
    assert {path.name for path in (tmp_path / "f").iterdir()} == {"ladder_size.png", "ladder_window.png"}
    document = json.loads(written.read_text())
    found = {table["name"]: table["rows"] for table in document["tables"]}
    assert [row["size"] for row in found["size"]] == [32, 48]
    assert [(row["size"], row["k"]) for row in found["window"]] == [(48, 1), (48, 9)]
    assert [(row["size"], row["block"]) for row in found["block"]] == [(48, "16x16")]  # a CPU has none
    assert document["metadata"]["rounds"] == 3 and len(found) == 3
    assert ladder_bench.Sweep(sizes=(2048,), quick=True).of(256, 4096) == [2048]
    assert ladder_bench.Sweep(quick=True).of(256, 1024, 2048) == [256, 1024]
    on_a_gpu = ladder_tables.studies(True, ladder_bench.Sweep((64,), (3,), ((4, 8), (64, 16))))
    assert [study.cases for study in on_a_gpu if study.name == "block"] == [[(64, (4, 8)), (64, (64, 16))]]


BAD_OPTIONS = {
    "--device tpu": "tpu",
    "--json /no/such/folder/x.json": "/no/such/folder",
    "--table size,speed": "must be of stencil, correctness, size, window, block, fused, signal, borders, got speed",
    "--image-size 64,4": "must be 8 to 16384, got 4",
    "--kernel-size 3,4": "must be odd, 1 to 27, got 4",
    "--kernel-size 29": "must be odd, 1 to 27, got 29",
    "--block 16": "must be WIDTHxHEIGHT with at most 1024 threads, got 16",
    "--block 16x16,64x32": "must be WIDTHxHEIGHT with at most 1024 threads, got 64x32",
    "--iterations 2": "--iterations must be at least 3, got 2",
}


@pytest.mark.parametrize("options", BAD_OPTIONS)
def test_bad_options(options, capsys):
    try:
        status = main(["bench", "ladder", *options.split()])
    except SystemExit as ended:  # what argparse refuses
        status = ended.code
    printed = capsys.readouterr().err
    assert status == 2 and len(printed.splitlines()) == 1 and BAD_OPTIONS[options] in printed


def test_timed_calls_take_turns():
    made = []
    times = _timing.time_call([lambda: made.append("a"), lambda: made.append("b")], "cpu", repeats=4, warmup=1)
    assert len(times) == 4
    assert min(times) > 0
    assert made[::2] == ["a"] * (len(made) // 2)
    assert made[1::2] == ["b"] * (len(made) // 2)


def test_the_cpu_is_warm_before_the_first_sample(monkeypatch):
    _timing.warm_cpu.cache_clear()
    monkeypatch.setattr(_timing, "WARMING_SECONDS", 0.05)
    added, add = [], torch.add
    monkeypatch.setattr(torch, "add", lambda *args, **kwargs: added.append(len(made)) or add(*args, **kwargs))
    made = []
    _timing.time_call(lambda: made.append("a"), "cpu", repeats=2)
    assert added and not any(added)  # all before the first call
    count = len(added)
    _timing.time_call(lambda: made.append("b"), "cpu", repeats=2)
    assert len(added) == count


@pytest.mark.cuda
def test_timing_without_capture(cuda):
    image = noise(32, 32).to(cuda)
    captured = _timing.time_call(lambda: image + 1, cuda, repeats=3)
    looped = _timing.time_call(lambda: (image + 1).sum().item(), cuda, repeats=3)  # synchronises: cannot be captured
    assert 0 < max(captured) < min(looped)
