"""The tests of split tensors share this: devices, cuts, every function as a call, comparisons with the whole image."""

import ctypes
import threading
from contextlib import contextmanager
from itertools import cycle, islice, pairwise

import pytest
import torch
from hypothesis import strategies as st
from strategies import make_image, make_window
from tolerance import assert_same_bits

import torch_conv
from torch_conv import SplitTensor, split

PLACES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.cuda),
    pytest.param("gpus", marks=[pytest.mark.cuda, pytest.mark.multi_gpu]),
]

GPU_PLACES = ["cuda", pytest.param("gpus", marks=pytest.mark.multi_gpu)]  # of tests that are `cuda` already

# The words of explanations for a shard whose kernels read others.
IN_PLACE = "its interior and its boundary strips, which read other shards in place"

A100, H100 = "8.0 108 166912 1.55e12", "9.0 132 232448 3.35e12"  # for TORCH_CONV_EXPLAIN_FOR

SLEEP = 120_000_000  # cycles: more than 60 ms, so that a busy host is done before


def devices_at(place):
    """f(n): n devices of that kind; the test is skipped where there are none."""
    if place != "cpu" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    if place == "gpus" and torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    there = {"cpu": ["cpu"], "cuda": ["cuda:0"]}.get(place) or [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    return lambda n: list(islice(cycle(there), n))


def fixture_at(places):
    """A fixture `devices` of these places."""
    return pytest.fixture(scope="module", params=places)(lambda request: devices_at(request.param))


@contextmanager
def held_back(*streams):
    """Work queued on the streams begins when the block has ended.

    A host that waits for it inside would do so for ever: after a minute it begins all the same, which is an error.
    """
    wait = ctypes.CDLL("libcuda.so.1").cuStreamWaitValue32_v2
    go = torch.zeros(1, dtype=torch.int32).pin_memory()
    after_a_minute = threading.Timer(60, go.fill_, [1])
    after_a_minute.start()
    try:
        for stream in streams:
            with torch.cuda.device(stream.device):
                handle, address = ctypes.c_void_p(stream.cuda_stream), ctypes.c_uint64(go.data_ptr())
                status = wait(handle, address, ctypes.c_uint32(1), ctypes.c_uint(0))  # until it is 1 or more
                assert status == 0, status
        yield
        assert go.item() == 0, "the host waited for what is held back"
    finally:
        after_a_minute.cancel()
        go.fill_(1)
        for stream in streams:
            stream.synchronize()


def cuts(n):
    """Sizes of shards of n rows: as by default, uneven with one row and none, and most of them empty."""
    third = n // 3
    return [
        [n // 3 + (i < n % 3) for i in range(3)],
        [1, 0, max(n - 1 - third, 0), third] if n > 1 else [0, n, 0, 0],
        [0, 0, n, 0],
    ]


def assert_same(got, expected, *, bits=True):
    assert isinstance(got, SplitTensor)
    assert got.shape == expected.shape and got.dtype == expected.dtype
    assert [shard.device for shard in got.shards] == list(got.spec.devices)
    whole = got.gather("cpu")
    if bits:
        assert_same_bits(whole, expected)
    else:
        torch.testing.assert_close(whole, expected.cpu(), rtol=1e-5, atol=1e-5)


def check(function, image, devices, dim, sizes=None, *, bits=True, **options):
    """`function` of the image in shards (in three of them by default) against that of the whole image."""
    to = devices(3 if sizes is None else len(sizes))
    expected = function(image.to(to[0]), **options)
    got = function(split(image, to, dim, sizes), **options)
    assert list(map(str, got.spec.devices)) == to
    assert_same(got, expected, bits=bits)
    return got


def amid_other_memory(whole, sizes, dim, to, step=0):
    """Shards along `dim`, each a part of a tensor of its own with other strides and other numbers around it.

    The columns of shard i begin `step` * i elements behind the start of a row.
    """
    shards = []
    for i, (part, device) in enumerate(zip(whole.split(sizes, dim), to, strict=True)):
        n, c, rows, *others, w = part.shape
        around = float("nan") if part.is_floating_point() else 77
        shape = (n, c + i, rows + 2 * i, *others, w + 3 * step * i)
        memory = torch.full(shape, around, dtype=part.dtype, device=device)
        shards.append(memory[:, i:, i : i + rows, ..., step * i : step * i + w].copy_(part))
    return SplitTensor.from_shards(shards, dim)


def check_just_written(function, shape, sizes, dim, devices):
    """A call reads numbers put into the shards before it, and is done before they are written again."""
    parts = split(make_image(shape), devices(len(sizes)), dim, sizes)
    for seed in range(4):
        whole = make_image(shape, seed=seed)
        expected = function(whole.to("cuda:0"))
        made = [part.to(shard.device) for part, shard in zip(whole.split(sizes, dim), parts.shards, strict=True)]
        for shard, part in zip(parts.shards, made, strict=True):
            with torch.cuda.device(shard.device):
                torch.cuda._sleep(SLEEP // 20)
            shard.copy_(part)
        got = function(parts)
        for shard in parts.shards:
            shard.fill_(float("nan"))
        assert_same(got, expected)


def with_random_splits(case):
    """The case, and pieces of 0 to 5 sizes that a dimension is cut into."""
    return st.tuples(case, st.integers(0, 4), st.lists(st.floats(0, 1), min_size=0, max_size=4))


def sizes_of(n, places):
    marks = [0, *sorted(round(p * n) for p in places), n]
    return [b - a for a, b in pairwise(marks)]


def check_random(function, image, devices, which, places, **options):
    dim = which % image.dim()
    check(function, image, devices, dim, sizes_of(image.size(dim), places), **options)


def per_sample(batch, axes):
    return torch.linspace(0.6, 1.4, batch * axes).reshape(batch, axes)


# f(image, **options) by name; an image is (2, 3, H, W), a volume (2, 2, D, H, W).
K3, K45 = make_window((3, 3)), make_window((4, 5), seed=8)
IMAGES = {
    "filter2d": lambda x, **kw: torch_conv.filter2d(x, K45, **kw),
    "filter2d per sample": lambda x, **kw: torch_conv.filter2d(x, make_window((x.size(0), 3, 5)), **kw),
    "filter2d per channel": lambda x, **kw: torch_conv.filter2d(x, make_window((1, x.size(1), 5, 3)), **kw),
    "filter2d per plane": lambda x, **kw: torch_conv.filter2d(x, make_window((*x.shape[:2], 2, 3)), **kw),
    "filter2d_separable": lambda x, **kw: torch_conv.filter2d_separable(x, K3[0], make_window((6,)), **kw),
    "filter2d_separable per plane": lambda x, **kw: torch_conv.filter2d_separable(
        x, make_window((*x.shape[:2], 5)), make_window((x.size(0), 3)), **kw
    ),
    "filter1d": lambda x, **kw: torch_conv.filter1d(x, K45[0], dim=-2, **kw),
    "filter1d along W": lambda x, **kw: torch_conv.filter1d(x, make_window((x.size(0), 1, 4)), dim=-1, **kw),
    "filter1d along C": lambda x, **kw: torch_conv.filter1d(x, K3[0], dim=1, **kw),
    "filter1d along B": lambda x, **kw: torch_conv.filter1d(x, K3[0], dim=0, **kw),
    "gaussian_blur2d": lambda x, **kw: torch_conv.gaussian_blur2d(x, (5, 7), 1.2, **kw),
    "gaussian_blur2d per sample": lambda x, **kw: torch_conv.gaussian_blur2d(x, 5, per_sample(x.size(0), 2), **kw),
    "gaussian_blur2d wide": lambda x, **kw: torch_conv.gaussian_blur2d(x, None, 4.0, **kw),
    "gaussian_blur2d direct": lambda x, **kw: torch_conv.gaussian_blur2d(x, 3, 1.2, separable=False, **kw),
    "gaussian_downsample": lambda x, **kw: torch_conv.gaussian_downsample(x, 5, 1.0, 2, **kw),
    "gaussian_downsample by 3": lambda x, **kw: torch_conv.gaussian_downsample(x, 7, 1.0, 3, **kw),
    "gaussian_laplace": lambda x, **kw: torch_conv.gaussian_laplace(x, 0.8, **kw),
    "gaussian_laplace wide": lambda x, **kw: torch_conv.gaussian_laplace(x, 1.5, **kw),
    "difference_of_gaussians": lambda x, **kw: torch_conv.difference_of_gaussians(x, 0.7, **kw),
    "gaussian_sobel": lambda x, **kw: torch_conv.gaussian_sobel(x, 5, 1.1, **kw),
    "gaussian_sobel per sample": lambda x, **kw: torch_conv.gaussian_sobel(x, 3, per_sample(x.size(0), 2), **kw),
    "laplacian": lambda x, **kw: torch_conv.laplacian(x, 5, **kw),
    "laplacian 4": lambda x, **kw: torch_conv.laplacian(x, 3, variant="4", normalized=False, **kw),
    "laplacian 8": lambda x, **kw: torch_conv.laplacian(x, 3, variant="8", normalized=False, **kw),
    "laplacian opencv3": lambda x, **kw: torch_conv.laplacian(x, 3, variant="opencv3", **kw),
    "sobel": lambda x, **kw: torch_conv.sobel(x, **kw),
    "sobel direct": lambda x, **kw: torch_conv.sobel(x, algorithm="direct", **kw),
    "spatial_gradient": lambda x, **kw: torch_conv.spatial_gradient(x, **kw),
    "spatial_gradient order 2": lambda x, **kw: torch_conv.spatial_gradient(x, "diff", 2, **kw),
    "spatial_gradient direct": lambda x, **kw: torch_conv.spatial_gradient(x, "scharr", algorithm="direct", **kw),
    "structure_tensor": lambda x, **kw: torch_conv.structure_tensor(x, 3, 1.0, **kw),
    "thin_edges": lambda x, **kw: torch_conv.thin_edges(x, 3, 1.0, **kw),
    "unsharp_mask": lambda x, **kw: torch_conv.unsharp_mask(x, 5, 1.0, **kw),
    "unsharp_mask wide": lambda x, **kw: torch_conv.unsharp_mask(x, 9, 1.5, amount=0.7, **kw),
    "box_blur": lambda x, **kw: torch_conv.box_blur(x, (4, 3), **kw),
}
VOLUMES = {
    "filter3d": lambda x, **kw: torch_conv.filter3d(x, make_window((3, 4, 3)), **kw),
    "filter3d per sample": lambda x, **kw: torch_conv.filter3d(x, make_window((x.size(0), 2, 3, 3)), **kw),
    "filter3d per plane": lambda x, **kw: torch_conv.filter3d(x, make_window((*x.shape[:2], 3, 2, 3)), **kw),
    "filter3d_separable": lambda x, **kw: torch_conv.filter3d_separable(x, K3[0], K45[0], K3[1], **kw),
    "gaussian_blur3d": lambda x, **kw: torch_conv.gaussian_blur3d(x, (3, 5, 3), 1.0, **kw),
    "gaussian_blur3d per sample": lambda x, **kw: torch_conv.gaussian_blur3d(x, 3, per_sample(x.size(0), 3), **kw),
    "gaussian_gradient_magnitude3d": lambda x, **kw: torch_conv.gaussian_gradient_magnitude3d(x, 3, 0.8, **kw),
    "spatial_gradient3d": lambda x, **kw: torch_conv.spatial_gradient3d(x, **kw),
    "spatial_gradient3d sobel": lambda x, **kw: torch_conv.spatial_gradient3d(x, "sobel", **kw),
    "spatial_gradient3d order 2": lambda x, **kw: torch_conv.spatial_gradient3d(x, order=2, **kw),
    "box_blur3d": lambda x, **kw: torch_conv.box_blur3d(x, (2, 3, 4), **kw),
    "filter2d of planes": lambda x, **kw: torch_conv.filter2d(x, K3, **kw),
    "filter1d along D": lambda x, **kw: torch_conv.filter1d(x, K45[0], dim=2, **kw),
    "spatial_gradient of planes": lambda x, **kw: torch_conv.spatial_gradient(x, algorithm="direct", **kw),
}
