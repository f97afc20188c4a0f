"""The launches of a call on shards: copies of rows, windows of other GPUs, and a CUDA graph of them."""

import pytest
import torch
from kernel_files import run_python
from splits import GPU_PLACES, IN_PLACE, SLEEP, fixture_at
from strategies import make_image, make_window
from tolerance import assert_same_bits

import torch_conv
from torch_conv import split

pytestmark = pytest.mark.cuda
OPS = torch.ops.torch_conv

devices = fixture_at(GPU_PLACES)


def separable_sobel(x):
    return torch_conv.gaussian_sobel(x, 3, 1.0, algorithm="separable")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8])
@pytest.mark.parametrize("width", [1, 3, 6, 33, 64, 1001])
def test_rows_of_any_length(devices, dtype, width):
    """Words of 1 to 16 bytes, cut along rows and along columns; copies of rows serve every case."""
    wider = torch.int16 if dtype == torch.uint8 else torch.float64
    image = make_image((2, 3, 45, width), dtype)
    for dim, there in ((-2, image), (-1, image.mT.contiguous())):
        for call, x in ((separable_sobel, there), (lambda x: torch_conv.box_blur(x, (5, 4)), there.to(wider))):
            expected = call(x.to("cuda"))
            parts = split(x, devices(4), dim)
            assert IN_PLACE not in str(torch_conv.explain(call, parts))
            for _ in range(2):  # recorded, and replayed
                assert_same_bits(call(parts).gather("cpu"), expected.cpu())


def test_more_rows_than_one_launch_copies(devices):
    """One row a shard, of which a boundary strip reads more than a launch's parameters hold."""
    image = make_image((2, 40, 64))
    expected = torch_conv.box_blur(image.to("cuda"), (37, 3))
    for _ in range(2):
        assert_same_bits(torch_conv.box_blur(split(image, devices(40)), (37, 3)).gather("cpu"), expected.cpu())


def test_rows_are_copied_without_a_compiler(cuda):
    code = """
import torch, torch_conv
from torch_conv import split
for dtype in (torch.float32, torch.float16, torch.uint8):
    image = (torch.rand(1, 3, 60, 1001) * 200).to(dtype)
    for algorithm in ("auto", "separable"):
        call = lambda x: torch_conv.gaussian_sobel(x, 3, 1.0, algorithm=algorithm)
        print(torch.equal(call(split(image, ["cuda:0"] * 3)).gather("cpu"), call(image.to("cuda")).cpu()))
"""
    assert run_python(code, TORCH_CONV_COMPILE="never").split() == ["True"] * 6


WINDOWS = {
    "as it is": lambda k, device: k.to(device),
    "large": lambda k, device: torch.nn.functional.pad(k, (5, 5, 5, 5)).to(device),  # too large to be read there
    "transposed": lambda k, device: k.mT.contiguous().to(device).mT,
    "half precision": lambda k, device: k.half().to(device),
}


@pytest.mark.parametrize("form", WINDOWS)
@pytest.mark.parametrize("dim", [-2, -3, 0])
@pytest.mark.parametrize("side_streams", ["", "1"])
def test_windows_of_another_gpu(devices, form, dim, side_streams, monkeypatch):
    """Also of one that holds no shard; overwritten and dropped right behind the call."""
    monkeypatch.setenv("TORCH_CONV_SIDE_STREAMS", side_streams)
    image, window = make_image((4, 4, 60, 70)), make_window((5, 5))
    expected = torch_conv.filter2d(image, WINDOWS[form](window, "cpu"))
    to = devices(8)
    for home in (to[0], to[-1]):
        for shards in (to[:4], [to[1]] * 3):
            parts = split(image, shards, dim)
            for _ in range(3):
                kernel = WINDOWS[form](window, home)
                got = torch_conv.filter2d(parts, kernel)
                kernel.fill_(float("nan"))
                del kernel
                torch.full((64, 64), float("nan"), device=home)
                assert_same_bits(got.gather("cpu"), expected)


# Calls whose windows kernels may read on another GPU, or may not: a shape, the windows' shapes, f(image, windows).
WINDOW_CALLS = {
    "a window a sample": ((4, 4, 60, 72), [(4, 1, 3, 3)], lambda x, w: torch_conv.filter2d(x, *w, algorithm="direct")),
    "a window a channel": ((4, 4, 60, 72), [(1, 4, 3, 3)], lambda x, w: torch_conv.filter2d(x, *w, algorithm="direct")),
    "flipped": ((4, 4, 60, 72), [(3, 3)], lambda x, w: torch_conv.filter2d(x, *w, behaviour="conv")),
    "normalized": ((4, 4, 60, 72), [(3, 3)], lambda x, w: torch_conv.filter2d(x, *w, normalized=True)),
    "separable": (
        (4, 4, 60, 72),
        [(5,), (7,)],
        lambda x, w: torch_conv.filter2d_separable(x, *w, algorithm="separable"),
    ),
    "3d": ((4, 4, 20, 30, 40), [(3, 3, 3)], lambda x, w: torch_conv.filter3d(x, *w)),
    "separable 3d": ((4, 4, 20, 30, 40), [(5,)] * 3, lambda x, w: torch_conv.filter3d_separable(x, *w)),
    "one axis": ((4, 4, 60, 72), [(9,)], lambda x, w: torch_conv.filter1d(x, *w, dim=-2, algorithm="direct")),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8])
@pytest.mark.parametrize("no_peer", ["0", "1"])
@pytest.mark.parametrize("name", WINDOW_CALLS)
def test_windows_read_on_another_gpu(devices, name, dtype, no_peer, monkeypatch):
    """Windows arrive late on their GPU and are overwritten after the call, while the other GPUs are late."""
    monkeypatch.setenv("TORCH_CONV_NO_PEER", no_peer)
    shape, sizes, call = WINDOW_CALLS[name]
    image, windows = make_image(shape, dtype), [make_window(size) for size in sizes]
    expected = call(image.to("cuda"), [w.to("cuda") for w in windows]).cpu()
    to = devices(3)
    for dim in (-2, -3, 0):
        parts, held = split(image, to, dim), [torch.full_like(w, float("nan"), device=to[0]) for w in windows]
        for late in (to[0], to[-1], to[0]):  # a first call, and its steps again
            with torch.cuda.device(late):
                torch.cuda._sleep(SLEEP // 30)
            for target, window in zip(held, windows, strict=True):
                target.copy_(window.pin_memory(), non_blocking=True)
            got = call(parts, held)
            for target in held:
                target.fill_(float("nan"))
            assert_same_bits(got.gather("cpu"), expected)


def test_a_transform_of_a_window_of_another_gpu(devices):
    image, window = make_image((1, 1, 200, 260)), make_window((9, 9))
    expected = torch_conv.filter2d(image.to("cuda"), window, algorithm="fft").cpu()
    got = torch_conv.filter2d(split(image, devices(3)), window.to(devices(2)[0]), algorithm="fft")
    torch.testing.assert_close(got.gather("cpu"), expected, rtol=1e-4, atol=1e-4)


CALLS = {
    "filter": lambda x, k: torch_conv.filter2d(x, k),
    "window on the GPU": lambda x, k: torch_conv.filter2d(x, k.to("cuda")),
    "chain": lambda x, k: torch_conv.gaussian_sobel(x, 5, 1.0),
    "box": lambda x, k: torch_conv.box_blur(x, 9),
    "separable": lambda x, k: torch_conv.gaussian_blur2d(x, 9, 2.0),
}


@pytest.mark.parametrize("side_streams", ["", "0", "1"])
@pytest.mark.parametrize("name", CALLS)
def test_graph_of_one_gpu(cuda, name, side_streams, monkeypatch):
    """Between calls that are not captured, whose streams are others."""
    monkeypatch.setenv("TORCH_CONV_SIDE_STREAMS", side_streams)
    images = [make_image((2, 200, 300), seed=seed).to(cuda) for seed in range(3)]
    window = make_window((3, 3))
    kernel = window.to(cuda) if name == "window on the GPU" else window
    held = images[0].clone()
    parts = split(held, [cuda] * 3)

    def call():
        return CALLS[name](parts, kernel).shards

    def check(got, image):
        assert_same_bits(torch.cat(list(got), -2), CALLS[name](image, kernel))

    check(call(), images[0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = call()
    for image in images:
        for part, rows in zip(parts.shards, image.split([p.shape[-2] for p in parts.shards], -2), strict=True):
            part.copy_(rows)
        graph.replay()
        check(captured, image)
        check(call(), image)
