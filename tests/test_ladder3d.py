"""The textbook kernels for volumes: every rung, block and window, refusals, and the 3-D study's program."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F
from tolerance import assert_same_bits

import torch_conv
from torch_conv.cli import build_parser, main

WHOLE = ("naive", "constant", "tiled", "l2_halo")  # rungs that take any window
RUNGS = (*WHOLE, "separable")
WINDOWS = ((1, 1, 1), (3, 3, 3), (3, 1, 5), (1, 7, 1), (5, 3, 9), (9, 9, 9), (15, 15, 15))
SHAPES = ((1, 1, 1), (5, 9, 17), (8, 16, 8), (2, 3, 4, 10, 11))


def ladder(volume, kernel, variant="naive", block=(8, 8, 8)):
    return torch.ops.torch_conv.ladder3d(volume, kernel, variant, block)


def noise(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(42))


def factors(extents):
    """Three windows of random taps, each of sum 1, along z, y and x; none is symmetric."""
    taps = [0.5 + torch.rand(k, generator=torch.Generator().manual_seed(i)) for i, k in enumerate(extents)]
    return [t / t.sum() for t in taps]


def product(z, y, x):
    return (z.double()[:, None, None] * y.double()[:, None] * x.double()).float()


def filtered(volume, kernel):
    """The float64 result of F.conv3d, zero padding, any leading dimensions."""
    volumes = volume.double().reshape(-1, 1, *volume.shape[-3:])
    padding = [k // 2 for k in kernel.shape]
    return F.conv3d(volumes, kernel.double()[None, None], padding=padding).reshape(volume.shape)


def assert_close(got, expected, tolerance=1e-5):
    assert got.shape == expected.shape
    assert got.dtype == torch.float32
    error = (got.cpu().double() - expected).abs().max().item()
    assert error <= tolerance


# ---- every rung ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("variant", RUNGS)
def test_windows_and_shapes(variant, shape, window, device):
    volume, kernel = noise(*shape), product(*factors(window))
    assert_close(ladder(volume.to(device), kernel, variant), filtered(volume, kernel))


@pytest.mark.parametrize("variant", WHOLE)
def test_a_window_that_is_no_product(variant, device):
    volume = noise(6, 11, 13)
    kernel = torch.randn(3, 5, 7, generator=torch.Generator().manual_seed(1)) / 10
    assert_close(ladder(volume.to(device), kernel, variant), filtered(volume, kernel))


@pytest.mark.parametrize(
    "kernel",
    [torch.zeros(3, 3, 3), -product(*factors((3, 5, 3))), product(torch.tensor([0.0, 2.0, -1.0]), *factors((3, 3)))],
    ids=["zeros", "negative", "signed"],
)
def test_factors_of_any_sign(kernel, device):
    volume = noise(4, 7, 9)
    assert_close(ladder(volume.to(device), kernel, "separable"), filtered(volume, kernel))


@pytest.mark.parametrize("variant", RUNGS)
def test_gold_sums_in_float64(variant):
    volume = torch.tensor([2.0**30, 1.0, -(2.0**30)])
    assert ladder(volume[:, None, None], torch.ones(3, 1, 1), variant)[1].item() == 1.0
    assert ladder(volume[None, None], torch.ones(3, 3, 3), variant)[0, 0, 1].item() == 1.0


def test_input_is_read_through_its_strides_and_kept(device):
    volume = noise(9, 17, 3, 5).to(device).permute(2, 0, 3, 1)
    before, kernel = volume.clone(), product(*factors((3, 3, 5)))
    for variant in RUNGS:
        turned = kernel.permute(2, 0, 1)
        assert_close(ladder(volume, turned, variant), filtered(before.cpu(), turned))
    assert_same_bits(volume, before)


@pytest.mark.parametrize("shape", [(0, 8, 8, 8), (2, 0, 8, 8), (8, 0, 8), (8, 8, 0)], ids=str)
def test_no_elements(shape, device):
    assert ladder(torch.empty(shape, device=device), torch.ones(3, 3, 3)).shape == shape


def test_defaults(device):
    volume, kernel = noise(9, 20, 20).to(device), product(*factors((3, 3, 3)))
    ladder3d = torch.ops.torch_conv.ladder3d
    assert_same_bits(ladder3d(volume, kernel), ladder(volume, kernel, "naive", (8, 8, 8)))
    assert_same_bits(ladder3d(volume, kernel, "tiled", 4), ladder(volume, kernel, "tiled", (4, 4, 4)))


# ---- CUDA ------------------------------------------------------------------------------------------------------------

BLOCKS = ((8, 8, 8), (1, 1, 1), (16, 4, 2), (32, 8, 4), (7, 3, 5), (1024, 1, 1), (1, 1024, 1), (2, 8, 64), (32, 32, 1))


@pytest.mark.cuda
@pytest.mark.parametrize("block", BLOCKS, ids=str)
@pytest.mark.parametrize("window", [(3, 3, 3), (3, 7, 5)], ids=str)
def test_blocks_have_the_same_bits(window, block, cuda):
    volume, kernel = noise(2, 21, 40, 37).to(cuda), product(*factors(window))
    naive, passes = ladder(volume, kernel), ladder(volume, kernel, "separable")
    assert_close(naive, filtered(volume.cpu(), kernel))
    assert_close(passes, filtered(volume.cpu(), kernel))
    for variant, expected in (*((rung, naive) for rung in WHOLE), ("separable", passes)):
        assert_same_bits(ladder(volume, kernel, variant, block), expected)


@pytest.mark.cuda
@pytest.mark.parametrize("variant", RUNGS)
def test_largest_window(variant, cuda):
    volume, kernel = noise(12, 24, 20), product(*factors((19, 19, 19)))  # tile and halo: 70304 bytes
    assert_close(ladder(volume.to(cuda), kernel, variant), filtered(volume, kernel))


@pytest.mark.cuda
@pytest.mark.parametrize("window", [(3, 3, 3), (5, 3, 7)], ids=str)
def test_same_bits_as_the_library(window, cuda):
    volume, kernel = noise(9, 33, 65), product(*factors(window))
    for variant in WHOLE:
        got = ladder(volume.to(cuda), kernel, variant)
        for place in ("cpu", cuda):
            assert_same_bits(got, torch_conv.filter3d(volume.to(place), kernel, "constant", algorithm="direct"))


@pytest.mark.cuda
def test_passes_have_the_bits_of_the_library(cuda):
    # The rung takes the window apart again: exactly, because the largest taps are powers of two.
    x, y, z = torch.tensor([0.3, 0.5, 0.2]), torch.tensor([0.1, 0.25, 1.0, 0.4, 0.7]), torch.tensor([0.15, 0.5, 0.35])
    volume = noise(7, 20, 45).to(cuda)
    expected = torch_conv.filter3d_separable(volume, x, y, z, "constant")
    assert_same_bits(ladder(volume, product(z, y, x), "separable"), expected)


@pytest.mark.cuda
@pytest.mark.parametrize("variant", RUNGS)
@pytest.mark.parametrize(("shape", "block"), [((65_540, 1, 2, 3), (8, 8, 8)), ((21_850, 5, 2, 3), (4, 4, 2))], ids=str)
def test_more_volumes_than_a_grid_has(shape, block, variant, cuda):
    volume, kernel = noise(*shape).to(cuda), product(*factors((3, 3, 3)))
    result = ladder(volume, kernel, variant, block)
    assert_close(result[-6:], filtered(volume[-6:].cpu(), kernel))
    assert_same_bits(result[-6:], ladder(volume[-6:], kernel, variant, block))
    assert_same_bits(result[:6], ladder(volume[:6], kernel, variant, block))


@pytest.mark.cuda
@pytest.mark.parametrize("variant", RUNGS)
def test_streams_do_not_share_a_window(variant, cuda):
    volume = noise(8, 128, 128).to(cuda)
    windows = [product(*factors((3, 3, 3))), product(*factors((5, 5, 5)))]
    expected = [ladder(volume, kernel, variant) for kernel in windows]
    streams = [torch.cuda.Stream() for _ in windows]
    torch.cuda.synchronize()
    results = []
    for _ in range(20):
        for stream, kernel in zip(streams, windows, strict=True):
            with torch.cuda.stream(stream):
                results.append(ladder(volume, kernel, variant))
    torch.cuda.synchronize()
    for i, result in enumerate(results):
        assert_same_bits(result, expected[i % 2])


@pytest.mark.cuda
@pytest.mark.parametrize("variant", RUNGS)
def test_captured_window_outlives_its_tensor(variant, cuda):
    volume, kernel = noise(8, 20, 20).to(cuda), product(*factors((3, 3, 3)))
    expected = ladder(volume, kernel, variant)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = ladder(volume, kernel, variant)
    kernel.zero_()
    graph.replay()
    assert_same_bits(result, expected)


@pytest.mark.cuda
@pytest.mark.parametrize("variant", ["tiled", "separable"])
def test_tile_beyond_shared_memory_is_refused(variant, cuda):
    volume, kernel = noise(2, 3, 50).to(cuda), product(*factors((1, 1, 7999)))
    with pytest.raises(RuntimeError) as refusal:
        ladder(volume, kernel, variant)
    sentence = str(refusal.value).splitlines()[0]
    assert sentence.startswith("ladder3d: block and kernel must keep tile and halo within ")
    assert sentence.endswith(" bytes of shared memory, got 2049536")
    for other in ("naive", "constant", "l2_halo"):  # they keep no halo
        assert_close(ladder(volume, kernel, other), filtered(volume.cpu(), kernel))
    assert_close(ladder(volume, kernel, variant, (32, 1, 1)), filtered(volume.cpu(), kernel))


@pytest.mark.cuda
@pytest.mark.parametrize(("shape", "what"), [((65_536, 1, 1), "block[2] planes"), ((1, 65_536, 1), "block[1] rows")])
def test_too_long_axes_are_refused(shape, what, cuda):
    volume, kernel = torch.zeros(shape, device=cuda), torch.ones(3, 3, 3)
    with pytest.raises(RuntimeError) as refusal:
        ladder(volume, kernel, "naive", (32, 1, 1))
    expected = f"ladder3d: input must have at most 65535 * {what} on CUDA, got 65536"
    assert str(refusal.value).splitlines()[0] == expected
    assert ladder(volume, kernel, "naive", (8, 2, 2)).shape == shape


# ---- refusals --------------------------------------------------------------------------------------------------------

VOLUME, KERNEL = torch.zeros(4, 8, 8), torch.ones(3, 3, 3)
CROSS = torch.zeros(3, 3, 3)
CROSS[1, 1, :] = CROSS[1, :, 1] = CROSS[:, 1, 1] = 1


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (
            (VOLUME, KERNEL, "fast"),
            "ladder3d: variant must be 'naive', 'constant', 'tiled', 'l2_halo' or 'separable', got 'fast'",
        ),
        ((VOLUME[0], KERNEL), "ladder3d: input must have at least 3 dimensions, got 2"),
        ((VOLUME.double(), KERNEL), "ladder3d: input must have dtype float32, got float64"),
        ((VOLUME, KERNEL.half()), "ladder3d: kernel must have dtype float32, got float16"),
        ((VOLUME, KERNEL[0]), "ladder3d: kernel must have 3 dimensions of odd size, got shape (3, 3)"),
        ((VOLUME, torch.ones(3, 4, 3)), "ladder3d: kernel must have 3 dimensions of odd size, got shape (3, 4, 3)"),
        ((VOLUME, torch.ones(0, 3, 3)), "ladder3d: kernel must have 3 dimensions of odd size, got shape (0, 3, 3)"),
        (
            (VOLUME, torch.ones(21, 21, 21)),
            "ladder3d: kernel must have at most 8000 taps to fit into constant memory (filter3d has no such limit), "
            "got 9261",
        ),
        (
            (VOLUME, CROSS, "separable"),
            "ladder3d: variant 'separable' takes a kernel that is the outer product of three windows, got one whose "
            "tap (1, 0, 1) is not their product",
        ),
        (
            (VOLUME, torch.full((1, 1, 3), float("nan")), "separable"),
            "ladder3d: variant 'separable' takes a kernel that is the outer product of three windows, got one whose "
            "tap (0, 0, 0) is not their product",
        ),
        ((VOLUME, KERNEL, "naive", (8, 8)), "ladder3d: block must have 3 values, got 2"),
        ((VOLUME, KERNEL, "naive", (8, 0, 8)), "ladder3d: block must be at least 1, got 0"),
        ((VOLUME, KERNEL, "naive", (16, 16, 8)), "ladder3d: block must have at most 1024 threads, got 16x16x8"),
        (
            (VOLUME, KERNEL, "naive", (2**31 - 1,) * 3),
            "ladder3d: block must have at most 1024 threads, got 2147483647x2147483647x2147483647",
        ),
        ((VOLUME, KERNEL, "naive", (2, 2, 65)), "ladder3d: block must have at most 64 threads along z, got 65"),
    ],
    ids=lambda value: value[10:40] if isinstance(value, str) else "",
)
def test_refusals(args, sentence, device):
    volume, *rest = args
    with pytest.raises(RuntimeError) as refusal:
        torch.ops.torch_conv.ladder3d(volume.to(device), *rest)
    assert str(refusal.value).splitlines()[0] == sentence
    assert ladder(VOLUME.to(device), KERNEL).sum() == 0  # the next good call works


@pytest.mark.cuda
def test_kernel_on_the_gpu_is_refused(cuda):
    with pytest.raises(RuntimeError, match="ladder3d: kernel must be on cpu, got cuda:0"):
        ladder(VOLUME.to(cuda), KERNEL.to(cuda))


# ---- the 3-D study's program -----------------------------------------------------------------------------------------

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
    parsed = vars(build_parser().parse_args(["bench", "volume"]))
    assert {name: parsed[name] for name in options} == options


def test_volume_help_names_every_option(capsys):
    with pytest.raises(SystemExit) as leaving:
        main(["bench", "volume", "--help"])
    assert leaving.value.code == 0
    printed = capsys.readouterr().out
    for name in ("width", "height", "depth", "iterations", "warmup-iterations", "json", "device"):
        assert f"--{name}" in printed
    for axis in "xyz":
        assert f"--kernel-radius-{axis}" in printed
        assert f"--block-dim-{axis}" in printed


def test_volume(device, tmp_path, capsys):
    written = tmp_path / "volume.json"
    assert main(["bench", "volume", *SMALL.split(), "--device", device, "--json", str(written)]) == 0
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
    with pytest.raises(SystemExit) as leaving:
        main(["bench", "volume", *SMALL.split(), "--device", "cpu"])
    assert leaving.value.code == 1
    captured = capsys.readouterr()
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
    assert main(["bench", "volume", *options.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"torch-conv bench: {sentence}\n"


@pytest.mark.cuda
def test_volume_refuses_a_tile_beyond_shared_memory(cuda, capsys):
    options = "--width 50 --height 4 --depth 2 --kernel-radius-x 3999 --kernel-radius-y 0 --kernel-radius-z 0"
    assert main(["bench", "volume", "--device", cuda, *options.split()]) == 2
    error = capsys.readouterr().err.lstrip("\n")  # where the progress bar stood
    assert error.startswith("torch-conv bench: ladder3d: block and kernel must keep tile and halo within ")
    assert error.count("\n") == 1
