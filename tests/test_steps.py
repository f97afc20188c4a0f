"""Calls that are repeated by their steps (csrc/ops/steps.h): the bits of a call that is checked and planned anew."""

from __future__ import annotations

import threading

import pytest
import torch
from tolerance import assert_same_bits

import torch_conv
from torch_conv import functional as F

OPS = torch.ops.torch_conv


def image(seed, device, dtype=torch.float32, shape=(2, 3, 20, 32)):
    made = torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (made * 200).to(dtype).to(device)


def taps(seed, *size, dtype=torch.float32):
    return torch.rand(size, generator=torch.Generator().manual_seed(seed + 1000), dtype=torch.float64).to(dtype)


# name: a call of an image and a seed for what else it takes
CALLS = {
    "filter2d": lambda x, s: OPS.filter2d(x, taps(s, 3, 5)),
    "filter2d, window on the device": lambda x, s: OPS.filter2d(x, taps(s, 3, 3).to(x.device)),
    "filter2d, flipped and normalised": lambda x, s: OPS.filter2d(x, taps(s, 3, 3), "skip", True, behaviour="conv"),
    "filter2d, another dtype": lambda x, s: OPS.filter2d(x, taps(s, 3, 3, dtype=torch.float16)),
    "filter2d, transposed window": lambda x, s: OPS.filter2d(x, taps(s, 5, 3).T),
    "filter2d, many taps": lambda x, s: OPS.filter2d(x, taps(s, 17, 19)),
    "filter2d, a window a channel": lambda x, s: OPS.filter2d(x, taps(s, 1, 3, 3, 3)),
    "filter2d, strides that do not merge": lambda x, s: OPS.filter2d(x[:, None, :, ::2].transpose(0, 2), taps(s, 3, 3)),
    "filter2d, integers": lambda x, s: OPS.filter2d(x, taps(s, 3, 3), output_dtype=torch.uint8),
    "separable": lambda x, s: OPS.filter2d_separable(x, taps(s, 5), taps(s + 1, 3)),
    "separable, one window twice": lambda x, s: (lambda k: OPS.filter2d_separable(x, k, k))(taps(s, 5)),
    "halving": lambda x, s: OPS.filter2d_separable(x, taps(s, 5), taps(s + 1, 5), stride=[2, 2]),
    "volume": lambda x, s: OPS.filter3d(x, taps(s, 3, 3, 3)),
    "volume, separable": lambda x, s: OPS.filter3d_separable(
        x, taps(s, 3), taps(s, 5), taps(s, 3), "constant", value=3.0
    ),
    "volume, zero_output": lambda x, s: OPS.filter3d_separable(x, taps(s, 3), taps(s, 3), taps(s, 3), "zero_output"),
    "box": lambda x, s: OPS.box2d(x, [5, 5]),
    "large box": lambda x, s: OPS.box2d(x, [17, 19]),
    "box of a volume": lambda x, s: OPS.box3d(x, [3, 3, 3]),
    "sobel": lambda x, s: OPS.sobel2d(x),
    "gradient": lambda x, s: OPS.gradient2d(x, "sobel", 2),
    "gaussian_sobel": lambda x, s: OPS.gaussian_sobel2d(x, taps(s, 3), taps(s + 1, 3)),
    "gaussian_sobel, one by one": lambda x, s: OPS.gaussian_sobel2d(
        x, taps(s, 3), taps(s + 1, 3), algorithm="separable"
    ),
    "unsharp_mask": lambda x, s: OPS.unsharp_mask2d(x, taps(s, 3), taps(s, 3), padding="valid", algorithm="separable"),
    "structure_tensor": lambda x, s: OPS.structure_tensor2d(x, taps(s, 3), taps(s, 3)),
    "thin_edges": lambda x, s: OPS.thin_edges2d(x, taps(s, 3), taps(s, 3), padding="valid", algorithm="separable"),
    "sum": lambda x, s: OPS.separable_sum2d(x, [taps(s, 3), taps(s + 1, 3)], [taps(s, 3), taps(s + 2, 3)]),
    "gradient of a volume": lambda x, s: OPS.gaussian_gradient3d(x, taps(s, 3), taps(s, 3), taps(s, 3)),
    "conv1d": lambda x, s: OPS.conv1d(x[0], taps(s, 20, 1, 3).to(x), None, padding=[1], groups=20, algorithm="direct"),
    "conv2d with bias": lambda x, s: OPS.conv2d(
        x, taps(s, 6, 1, 3, 3).to(x), taps(s, 6).to(x), groups=3, algorithm="direct"
    ),
    "conv2d by torch": lambda x, s: OPS.conv2d(x, taps(s, 4, 3, 3, 3).to(x), taps(s, 4).to(x), algorithm="torch"),
    "conv2d by torch, extended": lambda x, s: OPS.conv2d(
        x, taps(s, 4, 3, 3, 3).to(x), None, padding=[1, 1], padding_mode="reflect", algorithm="torch"
    ),
    "conv3d": lambda x, s: OPS.conv3d(x, taps(s, 2, 1, 3, 3, 3).to(x), None, groups=2, algorithm="direct"),
}
UNTOUCHED = {"conv1d", "conv2d with bias", "conv2d by torch", "conv2d by torch, extended", "conv3d"}  # by integers


def shape_of(name):
    return (1, 2, 6, 20, 32) if "volume" in name or name == "conv3d" else (2, 3, 20, 32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64, torch.uint8], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_other_values_of_the_same_signature(name, dtype, device, monkeypatch):
    if name in UNTOUCHED and dtype in (torch.uint8, torch.float16):
        pytest.skip("no convolution, or one that torch does not always make")
    call, shape = CALLS[name], shape_of(name)
    for seed in range(3):  # written down, repeated, repeated
        made = call(image(seed, device, dtype, shape), seed)
        monkeypatch.setenv("TORCH_CONV_NO_STEPS", "1")
        expected = call(image(seed, device, dtype, shape), seed)
        monkeypatch.delenv("TORCH_CONV_NO_STEPS")
        assert made.stride() == expected.stride()
        assert_same_bits(made, expected)


@pytest.mark.parametrize("layout", ["planar", "channels_last", "rows off 16 bytes", "every other row"])
def test_layouts_have_steps_of_their_own(layout, device, monkeypatch):
    lay_out = {
        "planar": lambda x: x,
        "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
        "rows off 16 bytes": lambda x: x.flatten()[1:].as_strided((2, 3, 19, 32), x.stride()),
        "every other row": lambda x: x[:, :, ::2],
    }[layout]
    for seed in range(2):
        x = lay_out(image(seed, device))
        made = OPS.filter2d(x, taps(seed, 3, 3))
        monkeypatch.setenv("TORCH_CONV_NO_STEPS", "1")
        assert_same_bits(made, OPS.filter2d(x, taps(seed, 3, 3)))
        monkeypatch.delenv("TORCH_CONV_NO_STEPS")


def test_windows_that_were_one_tensor(device):
    """A call with one tensor for both windows says nothing about a call with two."""
    x, a, b = image(0, device), taps(1, 7), taps(2, 7)
    for kx, ky in ((a, a), (a, b), (b, b), (b, a)):
        made = OPS.filter2d_separable(x, kx, ky)
        assert_same_bits(made, OPS.filter2d_separable(x.clone(), kx.clone(), ky.clone()))


def test_a_window_that_is_part_of_the_image():
    for seed in range(3):
        x = image(seed, "cpu", shape=(1, 1, 20, 32))
        corner = x[0, 0, :3, :3]
        assert_same_bits(OPS.filter2d(x, corner), OPS.filter2d(x, corner.clone()))


def test_out_is_checked_every_time(device):
    memory = torch.zeros(2, 20, 32, device=device)
    x, w = memory[:1], taps(0, 3, 3)
    for seed in range(3):
        memory.copy_(image(seed, device, shape=(2, 20, 32)))
        F.filter2d(x, w, out=memory[1:])
        assert_same_bits(memory[1:], F.filter2d(x.clone(), w))
        for overlapping in (x, memory.flatten()[300:940].view(1, 20, 32)):
            with pytest.raises(ValueError, match="filter2d: out must not overlap input"):
                F.filter2d(x, w, out=overlapping)
        memory[:1].copy_(image(seed, device, shape=(1, 20, 32)))


def test_out_that_does_not_merge(device):
    w = taps(0, 3, 3)
    for seed in range(3):
        x = image(seed, device)
        out = torch.empty(3, 20, 32, 2, device=device)
        OPS.filter2d_out(x, w, out=out.permute(3, 0, 1, 2))
        assert_same_bits(out.permute(3, 0, 1, 2).contiguous(), OPS.filter2d(x, w))


def test_refused_calls_leave_nothing_behind(device):
    x = image(0, device)
    for _ in range(3):
        with pytest.raises(ValueError, match="filter2d: stride must be at least 1, got 0"):
            F.filter2d(x, taps(0, 3, 3), stride=0)
        assert F.filter2d(x, taps(0, 3, 3)).shape == x.shape


def test_threads_write_the_same_steps_down(device):
    x = image(0, device, shape=(1, 23, 31))
    expected = F.gaussian_blur2d(x.clone(), 9, 1.7)
    results: list[torch.Tensor] = []

    def work():
        for _ in range(20):
            results.append(F.gaussian_blur2d(x, 9, 1.7))
            results.append(F.sobel(x))

    workers = [threading.Thread(target=work) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sobel = F.sobel(x.clone())
    assert len(results) == 320
    for made in results:
        assert torch.equal(made, expected) or torch.equal(made, sobel)


def test_more_signatures_than_are_kept():
    w = taps(0, 3, 3)
    for _ in range(2):
        for width in range(1, 700):
            x = torch.full((1, width), 2.0)
            assert OPS.filter2d(x, w, "replicate").shape == (1, width)


@pytest.mark.cuda
def test_scratch_is_freed_between_steps(cuda):
    x = image(0, cuda, shape=(64, 256, 256))
    call = torch.ops.torch_conv.structure_tensor2d
    peaks = []
    for _ in range(3):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call(x, taps(0, 31), taps(0, 31), algorithm="separable")
        peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[1] == peaks[2] <= peaks[0]


@pytest.mark.cuda
def test_explaining_takes_no_scratch(cuda):
    x = image(0, cuda, shape=(64, 256, 256))
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    for name in ("thin_edges", "box", "filter2d, many taps", "separable"):
        torch_conv.explain(CALLS[name], x, 0)
    torch_conv.explain(CALLS["volume, separable"], x[None, None], 0)
    # One result at a time, which the function that is explained may go on with; no scratch.
    assert torch.cuda.max_memory_allocated() - before < x.nbytes + 65536
