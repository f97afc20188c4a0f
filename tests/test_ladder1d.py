"""The textbook kernels for signals: the chapter's example, every rung, window and block, refusals."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tolerance import assert_same_bits

import torch_conv

RUNGS = ("naive", "constant", "tiled", "l2_halo")
SHAPES = ((1,), (7,), (1000,), (3, 33), (2, 3, 257))


def ladder(signal, kernel, variant="naive", block=(256,)):
    return torch.ops.torch_conv.ladder1d(signal, kernel, variant, block)


def noise(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(42))


def window(k):
    """Random taps of sum 1, not symmetric."""
    taps = 0.5 + torch.rand(k, generator=torch.Generator().manual_seed(k))
    return taps / taps.sum()


def filtered(signal, kernel):
    """The float64 result of F.conv1d, zero padding, any leading dimensions."""
    rows = signal.double().reshape(-1, 1, signal.shape[-1])
    return F.conv1d(rows, kernel.double()[None, None], padding=kernel.shape[0] // 2).reshape(signal.shape)


def assert_close(got, expected, tolerance=1e-5):
    assert got.shape == expected.shape
    assert got.dtype == torch.float32
    error = (got.cpu().double() - expected).abs().max().item()
    assert error <= tolerance


# ---- every rung ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", RUNGS)
def test_the_chapters_example(variant, device):
    """Ghost cells hold 0."""
    signal, kernel = torch.tensor([8.0, 2, 5, 4, 1, 7, 3]), torch.tensor([1.0, 3, 5, 3, 1])
    result = ladder(signal.to(device), kernel, variant, (4,))
    assert result.tolist()[1:4] == [53, 52, 47]
    assert_close(result, filtered(signal, kernel), 0)
    assert_same_bits(result, torch_conv.filter1d(signal.to(device), kernel, "constant"))


@pytest.mark.parametrize("k", [1, 3, 5, 31, 799])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("variant", RUNGS)
def test_windows_and_shapes(variant, shape, k, device):
    signal, kernel = noise(*shape), window(k)
    assert_close(ladder(signal.to(device), kernel, variant), filtered(signal, kernel))


@pytest.mark.parametrize("variant", RUNGS)
def test_gold_sums_in_float64(variant):
    assert ladder(torch.tensor([2.0**30, 1.0, -(2.0**30)]), torch.ones(3), variant)[1].item() == 1.0


def test_input_is_read_through_its_strides_and_kept(device):
    signal = noise(17, 3, 33).to(device).permute(1, 2, 0)
    before, kernel = signal.clone(), window(10)[::2]
    for variant in RUNGS:
        assert_close(ladder(signal, kernel, variant), filtered(before.cpu(), kernel))
    assert_same_bits(signal, before)


@pytest.mark.parametrize("shape", [(0,), (0, 8), (2, 0, 8), (8, 0)], ids=str)
def test_no_elements(shape, device):
    assert ladder(torch.empty(shape, device=device), torch.ones(3)).shape == shape


def test_defaults(device):
    signal, kernel = noise(2, 600).to(device), window(5)
    ladder1d = torch.ops.torch_conv.ladder1d
    assert_same_bits(ladder1d(signal, kernel), ladder(signal, kernel, "naive", (256,)))
    assert_same_bits(ladder1d(signal, kernel, "tiled", 64), ladder(signal, kernel, "tiled", (64,)))


# ---- CUDA: one fma chain, however the block fetches its numbers ------------------------------------------------------


@pytest.mark.cuda
@pytest.mark.parametrize("block", [1, 7, 32, 256, 1000, 1024])
@pytest.mark.parametrize("k", [1, 5, 63, 799])
def test_blocks_and_windows_have_the_same_bits(k, block, cuda):
    signal, kernel = noise(2, 2050).to(cuda), window(k)
    naive = ladder(signal, kernel)
    assert_close(naive, filtered(signal.cpu(), kernel))
    for variant in RUNGS:
        assert_same_bits(ladder(signal, kernel, variant, (block,)), naive)
    for place in ("cpu", cuda):
        assert_same_bits(naive, torch_conv.filter1d(signal.to(place), kernel, "constant", algorithm="direct"))


@pytest.mark.cuda
@pytest.mark.parametrize("variant", RUNGS)
def test_more_rows_than_a_grid_has(variant, cuda):
    signal, kernel = noise(65_540, 3).to(cuda), window(3)
    result = ladder(signal, kernel, variant)
    assert_same_bits(result[-6:], ladder(signal[-6:], kernel, variant))
    assert_same_bits(result[:6], ladder(signal[:6], kernel, variant))


@pytest.mark.cuda
@pytest.mark.parametrize("variant", RUNGS)
def test_captured_window_outlives_its_tensor(variant, cuda):
    signal, kernel = noise(4000).to(cuda), window(5)
    expected = ladder(signal, kernel, variant)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = ladder(signal, kernel, variant)
    kernel.zero_()
    graph.replay()
    assert_same_bits(result, expected)


# ---- refusals --------------------------------------------------------------------------------------------------------

SIGNAL, KERNEL = torch.zeros(8), torch.ones(3)


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (
            (SIGNAL, KERNEL, "fused"),
            "ladder1d: variant must be 'naive', 'constant', 'tiled' or 'l2_halo', got 'fused'",
        ),
        ((torch.tensor(1.0), KERNEL), "ladder1d: input must have at least 1 dimension, got 0"),
        ((SIGNAL.double(), KERNEL), "ladder1d: input must have dtype float32, got float64"),
        ((SIGNAL, KERNEL.half()), "ladder1d: kernel must have dtype float32, got float16"),
        ((SIGNAL, torch.ones(4)), "ladder1d: kernel must have 1 dimension of odd size, got shape (4,)"),
        ((SIGNAL, torch.ones(1, 3)), "ladder1d: kernel must have 1 dimension of odd size, got shape (1, 3)"),
        (
            (SIGNAL, torch.ones(801)),
            "ladder1d: kernel must have at most 800 taps to fit into constant memory (filter1d has no such limit), "
            "got 801",
        ),
        ((SIGNAL, KERNEL, "naive", (8, 8)), "ladder1d: block must have 1 values, got 2"),
        ((SIGNAL, KERNEL, "naive", (0,)), "ladder1d: block must be at least 1, got 0"),
        ((SIGNAL, KERNEL, "naive", (1025,)), "ladder1d: block must have at most 1024 threads, got 1025"),
    ],
    ids=lambda value: value[10:40] if isinstance(value, str) else "",
)
def test_refusals(args, sentence, device):
    signal, *rest = args
    with pytest.raises(RuntimeError) as refusal:
        torch.ops.torch_conv.ladder1d(signal.to(device), *rest)
    assert str(refusal.value).splitlines()[0] == sentence
    assert ladder(SIGNAL.to(device), KERNEL).sum() == 0  # the next good call works


@pytest.mark.cuda
def test_kernel_on_the_gpu_is_refused(cuda):
    with pytest.raises(RuntimeError, match="ladder1d: kernel must be on cpu, got cuda:0"):
        ladder(SIGNAL.to(cuda), KERNEL.to(cuda))
