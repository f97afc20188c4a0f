"""Repeated calls take recorded launches: the bits of a call that is checked and planned anew."""

import threading

import pytest
import torch
from tolerance import assert_same_bits

import torch_conv
from torch_conv import functional as F

OPS = torch.ops.torch_conv


def aligned(t):
    """A copy that begins where all of them do: the alignment of memory is part of a call's signature."""
    memory = torch.empty(t.numel() * t.element_size() + 128, dtype=torch.uint8, device=t.device)
    begin = -memory.data_ptr() % 128
    return memory[begin : begin + t.numel() * t.element_size()].view(t.dtype).view(t.shape).copy_(t)


def image(seed, device, dtype=torch.float32, shape=(2, 3, 20, 32)):
    made = torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return aligned((made * 200).to(dtype).to(device))


def taps(seed, *size, dtype=torch.float32):
    return aligned(
        torch.rand(size, generator=torch.Generator().manual_seed(seed + 1000), dtype=torch.float64).to(dtype)
    )


def weights(seed, x, *size):
    return aligned(taps(seed, *size).to(x))


# name: a call of an image and a seed for other arguments
CALLS = {
    "filter2d": lambda x, s: OPS.filter2d(x, taps(s, 3, 5)),
    "filter2d, window on the device": lambda x, s: OPS.filter2d(x, aligned(taps(s, 3, 3).to(x.device))),
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
    "conv1d": lambda x, s: OPS.conv1d(x[0], weights(s, x, 20, 1, 3), None, padding=[1], groups=20, algorithm="direct"),
    "conv2d with bias": lambda x, s: OPS.conv2d(
        x, weights(s, x, 6, 1, 3, 3), weights(s, x, 6), groups=3, algorithm="direct"
    ),
    "conv2d by torch": lambda x, s: OPS.conv2d(x, weights(s, x, 4, 3, 3, 3), weights(s, x, 4), algorithm="torch"),
    "conv2d by torch, extended": lambda x, s: OPS.conv2d(
        x, weights(s, x, 4, 3, 3, 3), None, padding=[1, 1], padding_mode="reflect", algorithm="torch"
    ),
    "conv3d": lambda x, s: OPS.conv3d(x, weights(s, x, 2, 1, 3, 3, 3), None, groups=2, algorithm="direct"),
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
    repeated = OPS._repeated_calls()
    for seed in range(3):  # recorded, unless an earlier test did; replayed; replayed
        made = call(image(seed, device, dtype, shape), seed)
        monkeypatch.setenv("TORCH_CONV_NO_GRAPH", "1")
        expected = call(image(seed, device, dtype, shape), seed)
        monkeypatch.delenv("TORCH_CONV_NO_GRAPH")
        assert made.stride() == expected.stride()
        assert_same_bits(made, expected)
    assert OPS._repeated_calls() - repeated >= 2


SPLIT_CALLS = {
    "filter2d": lambda shards, s: OPS.filter2d_split(shards, taps(s, 3, 5), dim=-2),
    "window on a device": lambda shards, s: OPS.filter2d_split(
        shards, aligned(taps(s, 3, 5).to(shards[0].device)), dim=-2
    ),
    "separable": lambda shards, s: OPS.filter2d_separable_split(shards, taps(s, 3), taps(s, 5), "circular", dim=-2),
    "along channels": lambda shards, s: OPS.filter2d_split(shards, taps(s, 3, 5), dim=-3),
    "chain": lambda shards, s: OPS.gaussian_sobel2d_split(shards, taps(s, 3), taps(s, 3), dim=-2),
    "chain that goes round": lambda shards, s: OPS.sobel2d_split(shards, border_type="circular", dim=-2),
    "box": lambda shards, s: OPS.box2d_split(shards, [5, 5], dim=-2),
    "box, along columns": lambda shards, s: OPS.box2d_split([x.mT for x in shards], [5, 5], dim=-1),
    "volume": lambda shards, s: OPS.filter3d_separable_split(shards, taps(s, 3), taps(s, 3), taps(s, 3), dim=-2),
    "box of a volume": lambda shards, s: OPS.box3d_split(shards, [3, 3, 3], dim=-2),
    "convolution": lambda shards, s: OPS.conv2d_split(
        shards, weights(s, shards[0], 3, 1, 3, 3), None, padding=[1, 1], groups=3, algorithm="direct", dim=-2
    ),
}


@pytest.mark.parametrize("views", [False, True], ids=["tensors", "views of one tensor"])
@pytest.mark.parametrize("side_streams", ["", "0", "1"])
@pytest.mark.parametrize("name", SPLIT_CALLS)
def test_shards(name, views, side_streams, device, monkeypatch):
    """A replay repeats the whole call, with its copies from shard to shard."""
    monkeypatch.setenv("TORCH_CONV_SIDE_STREAMS", side_streams)
    devices = [torch.device(device, i) for i in range(torch.cuda.device_count())] if device == "cuda" else ["cpu"]
    for seed in range(3):
        parts = image(seed, device).split(1 if name == "along channels" else 10, -3 if name == "along channels" else -2)
        if not views:
            parts = [aligned(part.to(devices[i % len(devices)])) for i, part in enumerate(parts)]
        repeated = OPS._repeated_calls()
        made = SPLIT_CALLS[name](list(parts), seed)
        if seed > 0:  # the first one is recorded, unless an earlier test did
            assert OPS._repeated_calls() == repeated + 1
        monkeypatch.setenv("TORCH_CONV_NO_GRAPH", "1")
        expected = SPLIT_CALLS[name](list(parts), seed)
        monkeypatch.delenv("TORCH_CONV_NO_GRAPH")
        for one, other in zip(made, expected, strict=True):
            assert_same_bits(one, other)


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
        monkeypatch.setenv("TORCH_CONV_NO_GRAPH", "1")
        assert_same_bits(made, OPS.filter2d(x, taps(seed, 3, 3)))
        monkeypatch.delenv("TORCH_CONV_NO_GRAPH")


def test_windows_that_were_one_tensor(device):
    """A call with one tensor for both windows says nothing about a call with two."""
    x, a, b = image(0, device), taps(1, 7), taps(2, 7)
    for kx, ky in ((a, a), (a, b), (b, b), (b, a)):
        made = OPS.filter2d_separable(x, kx, ky)
        assert_same_bits(made, OPS.filter2d_separable(x.clone(), kx.clone(), ky.clone()))


def test_windows_that_share_memory_but_not_their_dtype(device):
    x, k = image(0, device, shape=(20, 32)), aligned(torch.tensor([1.0, 2, 3, 2, 1]))
    for _ in range(3):
        made = OPS.filter2d_separable(x, k, k.view(torch.int32))
        assert_same_bits(made, OPS.filter2d_separable(x, k, k.clone().view(torch.int32)))


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
        for overlapping in (x, memory.flatten()[320:960].view(1, 20, 32)):
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
    for width in range(1, 1200):
        x = aligned(torch.full((1, width), float(width)))
        assert torch.allclose(OPS.filter2d(x, w, "replicate"), x * w.sum())
    repeated = OPS._repeated_calls()
    for width in range(1100, 1200):  # the last ones are known
        OPS.filter2d(aligned(torch.zeros(1, width)), w, "replicate")
    assert OPS._repeated_calls() - repeated == 100
    repeated = OPS._repeated_calls()
    OPS.filter2d(aligned(torch.zeros(1, 7)), w, "replicate")
    assert OPS._repeated_calls() == repeated


def test_signatures_that_come_back():
    """Calls also repeat after so many others that the cache has moved their graph to its older half."""
    w = taps(0, 3, 3)
    for width in range(1, 1500):
        for known in (width, max(1, width - 300)):
            x = aligned(torch.full((1, known), float(known)))
            assert torch.allclose(OPS.filter2d(x, w, "symmetric"), x * w.sum())


def test_graphs_of_shards_have_a_number(device, monkeypatch):
    """By which a process calls them again behind rows that come from others (csrc/sharding/deliver.cpp)."""
    shards, window = [image(i, device, shape=(1, 1, 8, 32)) for i in range(3)], taps(11, 3, 3)

    def number(dim=2, border="reflect"):
        return OPS._filter2d_split_query("recorded", shards, window, border, dim=dim, wanted=[1])[0]

    assert number() == 0  # no such call was made
    OPS.filter2d_split(shards, window, "reflect", dim=2, wanted=[1])
    first = number()
    assert first > 0 and number() == first
    assert number(dim=3) == 0 and number(border="circular") == 0
    OPS.filter2d_split(shards, window, "circular", dim=2, wanted=[1])
    assert number(border="circular") not in (0, first)
    for name in ("TORCH_CONV_NO_GRAPH", "TORCH_CONV_NO_STEPS"):  # the old name
        monkeypatch.setenv(name, "1")
        assert number() == 0
        monkeypatch.undo()
    monkeypatch.setenv("TORCH_CONV_NO_PEER", "1")  # it asks for other launches
    assert number() == 0


@pytest.mark.cuda
def test_scratch_is_freed_between_steps(cuda, own_kernels):
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
