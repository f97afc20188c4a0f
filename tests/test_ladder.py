"""The textbook kernels for signals, images and volumes: every rung, window and block, and refusals."""

import functools
import math

import pytest
import torch
import torch.nn.functional as F
from strategies import make_window
from tolerance import assert_same_bits

import torch_conv
from torch_conv import kernels

WHOLE = ("naive", "constant", "tiled", "l2_halo")  # rungs that take any window
RUNGS = {1: WHOLE, 2: WHOLE, 3: (*WHOLE, "separable")}  # rungs that compute one correlation
EACH = [(axes, variant) for axes, variants in RUNGS.items() for variant in variants]
EACH_AND_FUSED = [*EACH, (2, "fused")]
DEFAULT_BLOCK = {1: (256,), 2: (16, 16), 3: (8, 8, 8)}
SHAPES = {
    1: ((1,), (7,), (1000,), (3, 33), (2, 3, 257)),
    2: ((1, 1), (33, 17), (16, 64), (2, 3, 20, 31)),
    3: ((1, 1, 1), (5, 9, 17), (8, 16, 8), (2, 3, 4, 10, 11)),
}
WINDOWS = {
    1: ((1,), (3,), (5,), (31,), (799,)),
    2: ((1, 1), (3, 3), (5, 5), (7, 7), (9, 9), (27, 27)),
    3: ((1, 1, 1), (3, 3, 3), (3, 1, 5), (1, 7, 1), (5, 3, 9), (9, 9, 9), (15, 15, 15)),
}
NAMED = (("gaussian", 3), ("gaussian", 5), ("gaussian", 7), ("sobel_x", 3), ("sobel_y", 3), ("laplacian", 3))


def ladder(image, kernel, variant="naive", block=None):
    axes = kernel.dim()
    return getattr(torch.ops.torch_conv, f"ladder{axes}d")(image, kernel, variant, block or DEFAULT_BLOCK[axes])


def noise(*shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(42))


def checkerboard():
    squares = torch.arange(64) // 8
    return ((squares[:, None] + squares) % 2).float()


IMAGES = {"checkerboard": checkerboard(), "noise": noise(64, 64)}


def factors(extents):
    """Random taps of sum 1 along each axis; none are symmetric."""
    taps = [0.5 + torch.rand(k, generator=torch.Generator().manual_seed(i)) for i, k in enumerate(extents)]
    return [t / t.sum() for t in taps]


def product(*taps):
    return functools.reduce(lambda window, t: window[..., None] * t, [t.double() for t in taps]).float()


def window(extents):
    return product(*factors(extents))


def filtered(image, kernel):
    """The float64 result of F.convNd, zero padding, any leading dimensions."""
    axes = kernel.dim()
    planes = image.double().reshape(-1, 1, *image.shape[-axes:])
    conv = getattr(F, f"conv{axes}d")
    return conv(planes, kernel.double()[None, None], padding=[k // 2 for k in kernel.shape]).reshape(image.shape)


def edges(image, kernel):
    """|Gx| + |Gy| after a first window, each step zero padded."""
    blurred = filtered(image, kernel)
    return filtered(blurred, kernels.sobel_x()).abs() + filtered(blurred, kernels.sobel_y()).abs()


def assert_close(got, expected, tolerance=1e-5):
    assert got.shape == expected.shape
    assert got.dtype == torch.float32
    error = (got.cpu().double() - expected).abs().max().item()
    assert error <= tolerance


# ---- every rung ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", WHOLE)
def test_example_of_the_textbook(variant, device):
    """The cells outside the signal hold 0."""
    signal, kernel = torch.tensor([8.0, 2, 5, 4, 1, 7, 3]), torch.tensor([1.0, 3, 5, 3, 1])
    result = ladder(signal.to(device), kernel, variant, (4,))
    assert result.tolist()[1:4] == [53, 52, 47]
    assert_close(result, filtered(signal, kernel), 0)
    assert_same_bits(result, torch_conv.filter1d(signal.to(device), kernel, "constant"))


@pytest.mark.parametrize("variant", WHOLE)
@pytest.mark.parametrize("name", [*NAMED, ("sharpen", 3)], ids=lambda w: f"{w[0]}{w[1]}")
@pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES)
def test_named_windows(image, name, variant, device):
    kernel = kernels.named(*name)
    assert_close(ladder(image.to(device), kernel, variant), filtered(image, kernel))


@pytest.mark.parametrize("name", ["gaussian", "box", "identity"])
@pytest.mark.parametrize(
    "image", [*IMAGES.values(), noise(1, 1), noise(33, 17), noise(2, 3, 5, 40)], ids=lambda x: str(tuple(x.shape))
)
def test_fused(image, name, device):
    kernel = kernels.named(name)
    assert_close(ladder(image.to(device), kernel, "fused"), edges(image, kernel), 1e-4)


@pytest.mark.parametrize(
    ("rung", "shape", "extents"),
    [(rung, shape, extents) for rung in EACH for shape in SHAPES[rung[0]] for extents in WINDOWS[rung[0]]],
    ids=str,
)
def test_windows_and_shapes(rung, shape, extents, device):
    image, kernel = noise(*shape), window(extents)
    assert_close(ladder(image.to(device), kernel, rung[1]), filtered(image, kernel))


@pytest.mark.parametrize("variant", WHOLE)
@pytest.mark.parametrize("extents", [(7,), (5, 5), (3, 5, 7)], ids=str)
def test_signed_taps(extents, variant, device):
    image, kernel = noise(6, 11, 13), make_window(extents) / 10
    assert_close(ladder(image.to(device), kernel, variant), filtered(image, kernel))


@pytest.mark.parametrize(
    "kernel",
    [torch.zeros(3, 3, 3), -window((3, 5, 3)), product(torch.tensor([0.0, 2.0, -1.0]), *factors((3, 3)))],
    ids=["zeros", "negative", "signed"],
)
def test_factors_of_any_sign(kernel, device):
    volume = noise(4, 7, 9)
    assert_close(ladder(volume.to(device), kernel, "separable"), filtered(volume, kernel))


@pytest.mark.parametrize(("axes", "variant"), EACH)
def test_cpu_sums_in_float64(axes, variant):
    image = torch.tensor([2.0**30, 1.0, -(2.0**30)])
    for axis in range(axes):
        shape, extents = [1] * axes, [1] * axes
        shape[axis] = extents[axis] = 3
        for kernel in (torch.ones([3] * axes), torch.ones(extents)):
            if axes != 2 or kernel.numel() == 9:  # square windows alone
                assert ladder(image.reshape(shape), kernel, variant).flatten()[1].item() == 1.0


def test_input_is_read_through_its_strides_and_kept(device):
    image = noise(9, 17, 3, 5).to(device).permute(2, 0, 3, 1)
    before = image.clone()
    for axes, variant in EACH:
        sizes = (6, 6, 10)[:axes]
        kernel = window(sizes)[(slice(None, None, 2),) * axes].transpose(0, -1)
        assert_close(ladder(image, kernel, variant), filtered(before.cpu(), kernel))
    assert_same_bits(image, before)


EMPTY = [(1, (0,)), (1, (0, 8)), (1, (2, 0, 8)), (1, (8, 0)), (2, (0, 8, 8)), (2, (2, 0, 8)), (2, (8, 0))]
EMPTY += [(3, (0, 8, 8, 8)), (3, (2, 0, 8, 8)), (3, (8, 0, 8)), (3, (8, 8, 0))]


@pytest.mark.parametrize(("axes", "shape"), EMPTY, ids=str)
def test_no_elements(axes, shape, device):
    assert ladder(torch.empty(shape, device=device), torch.ones((3,) * axes)).shape == shape


@pytest.mark.parametrize(("axes", "block"), [(1, 64), (2, 8), (3, 4)])
def test_defaults(axes, block, device):
    image, kernel = noise(9, 20, 300).to(device), window((3,) * axes)
    operator = getattr(torch.ops.torch_conv, f"ladder{axes}d")
    assert_same_bits(operator(image, kernel), ladder(image, kernel, "naive", DEFAULT_BLOCK[axes]))
    assert_same_bits(operator(image, kernel, "tiled", block), ladder(image, kernel, "tiled", (block,) * axes))


def test_interior_of_a_stencil(device):
    image, kernel = noise(256, 256), kernels.box(3)
    blurred = torch_conv.filter2d(image.to(device), kernel, border_type="zero_output").cpu()
    assert_close(blurred[1:-1, 1:-1], ladder(image, kernel).double()[1:-1, 1:-1], 1e-3)
    rim = blurred.clone()
    rim[1:-1, 1:-1] = 0
    assert not rim.any()


# ---- CUDA: one fma chain, however the block fetches its pixels -------------------------------------------------------

CUDA_SHAPES = {1: (2, 2050), 2: (2, 70, 83), 3: (2, 21, 40, 37)}
CUDA_WINDOWS = {
    1: ((1,), (5,), (63,), (799,)),
    2: ((3, 3), (5, 5), (7, 7), (9, 9)),
    3: ((3, 3, 3), (3, 7, 5), (5, 3, 7)),
}
BLOCKS = {
    1: ((1,), (7,), (32,), (256,), (1000,), (1024,)),
    2: ((8, 8), (16, 16), (32, 8), (32, 16), (1, 1), (7, 3), (1024, 1), (1, 1024), (24, 5)),
    3: ((8, 8, 8), (1, 1, 1), (16, 4, 2), (32, 8, 4), (7, 3, 5), (1024, 1, 1), (1, 1024, 1), (2, 8, 64), (32, 32, 1)),
}


@pytest.mark.cuda
@pytest.mark.parametrize(
    ("extents", "block"),
    [(extents, block) for axes in BLOCKS for extents in CUDA_WINDOWS[axes] for block in BLOCKS[axes]],
    ids=str,
)
def test_blocks_have_the_same_bits(extents, block, cuda):
    """Every rung that sums the whole window has the bits of the library's direct filter."""
    axes, k = len(extents), extents[0]
    image = noise(*CUDA_SHAPES[axes]).to(cuda)
    kernel = torch.randn(k, k, generator=torch.Generator().manual_seed(k)) / k if axes == 2 else window(extents)
    naive = ladder(image, kernel)
    assert_close(naive, filtered(image.cpu(), kernel))
    for variant in WHOLE:
        assert_same_bits(ladder(image, kernel, variant, block), naive)
    direct = getattr(torch_conv, f"filter{axes}d")
    for x in (image, image.cpu()):
        assert_same_bits(naive, direct(x, kernel, border_type="constant", algorithm="direct"))
    if extents == (3, 3):
        assert_same_bits(ladder(image, kernel, "fused", block), ladder(image, kernel, "fused"))
    if axes == 3:
        passes = ladder(image, kernel, "separable")
        assert_close(passes, filtered(image.cpu(), kernel))
        assert_same_bits(ladder(image, kernel, "separable", block), passes)


@pytest.mark.cuda
@pytest.mark.parametrize("variant", RUNGS[3])
def test_largest_window(variant, cuda):
    volume, kernel = noise(12, 24, 20), window((19, 19, 19))  # tile and halo: 70304 bytes
    assert_close(ladder(volume.to(cuda), kernel, variant), filtered(volume, kernel))


@pytest.mark.cuda
def test_passes_have_the_bits_of_the_library(cuda):
    # The rung takes the window apart again: exactly, because the largest taps are powers of two.
    x, y, z = torch.tensor([0.3, 0.5, 0.2]), torch.tensor([0.1, 0.25, 1.0, 0.4, 0.7]), torch.tensor([0.15, 0.5, 0.35])
    volume = noise(7, 20, 45).to(cuda)
    expected = torch_conv.filter3d_separable(volume, x, y, z, "constant")
    assert_same_bits(ladder(volume, product(z, y, x), "separable"), expected)


@pytest.mark.cuda
def test_fused_has_the_bits_of_one_by_one(cuda):
    image, blur = noise(61, 47).to(cuda), kernels.gaussian2d(3)
    image[30, 20] = math.inf
    image[5, 5] = math.nan
    blurred = ladder(image, blur, "tiled")
    gx, gy = (ladder(blurred, sobel, "tiled") for sobel in (kernels.sobel_x(), kernels.sobel_y()))
    assert_same_bits(ladder(image, blur, "fused"), gx.abs() + gy.abs())


LARGER_THAN_A_GRID = {
    1: [((65_540, 3), None)],
    2: [((65_540, 2, 3), None)],
    3: [((65_540, 1, 2, 3), (8, 8, 8)), ((21_850, 5, 2, 3), (4, 4, 2))],
}


@pytest.mark.cuda
@pytest.mark.parametrize(
    ("rung", "shape", "block"), [(rung, *case) for rung in EACH_AND_FUSED for case in LARGER_THAN_A_GRID[rung[0]]]
)
def test_more_planes_than_a_grid_has(rung, shape, block, cuda):
    (axes, variant), image = rung, noise(*shape).to(cuda)
    kernel = window((3,) * axes)
    result = ladder(image, kernel, variant, block)
    if variant != "fused":
        assert_close(result[-6:], filtered(image[-6:].cpu(), kernel))
    assert_same_bits(result[-6:], ladder(image[-6:], kernel, variant, block))
    assert_same_bits(result[:6], ladder(image[:6], kernel, variant, block))


@pytest.mark.cuda
@pytest.mark.parametrize(("axes", "variant"), EACH_AND_FUSED)
def test_streams_do_not_share_a_window(axes, variant, cuda):
    image = noise(*{1: (1 << 18,), 2: (512, 512), 3: (8, 128, 128)}[axes]).to(cuda)
    windows = [window((3,) * axes), window((3 if variant == "fused" else 5,) * axes).flip(0)]
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
@pytest.mark.parametrize(("axes", "variant"), EACH_AND_FUSED)
def test_captured_window_outlives_its_tensor(axes, variant, cuda):
    image, kernel = noise(8, 20, 300).to(cuda), window((3,) * axes)
    expected = ladder(image, kernel, variant)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = ladder(image, kernel, variant)
    kernel.zero_()
    graph.replay()
    assert_same_bits(result, expected)


@pytest.mark.cuda
@pytest.mark.parametrize("variant", ["tiled", "separable"])
def test_tile_beyond_shared_memory_is_refused(variant, cuda):
    volume, kernel = noise(2, 3, 50).to(cuda), window((1, 1, 7999))
    with pytest.raises(RuntimeError) as refusal:
        ladder(volume, kernel, variant)
    sentence = str(refusal.value).splitlines()[0]
    assert sentence.startswith("ladder3d: block and kernel must keep tile and halo within ")
    assert sentence.endswith(" bytes of shared memory, got 2049536")
    for other in ("naive", "constant", "l2_halo"):  # they keep no halo
        assert_close(ladder(volume, kernel, other), filtered(volume.cpu(), kernel))
    assert_close(ladder(volume, kernel, variant, (32, 1, 1)), filtered(volume.cpu(), kernel))


@pytest.mark.cuda
@pytest.mark.parametrize(
    ("shape", "limit", "block", "good"),
    [
        ((65_536, 1), "block[1] rows", (32, 1), (32, 2)),
        ((65_536, 1, 1), "block[2] planes", (32, 1, 1), (8, 2, 2)),
        ((1, 65_536, 1), "block[1] rows", (32, 1, 1), (8, 2, 2)),
    ],
)
def test_too_long_axes_are_refused(shape, limit, block, good, cuda):
    image, kernel = torch.zeros(shape, device=cuda), torch.ones((3,) * len(shape))
    with pytest.raises(RuntimeError) as refusal:
        ladder(image, kernel, "naive", block)
    expected = f"ladder{len(shape)}d: input must have at most 65535 * {limit} on CUDA, got 65536"
    assert str(refusal.value).splitlines()[0] == expected
    assert ladder(image, kernel, "naive", good).shape == shape


# ---- refusals --------------------------------------------------------------------------------------------------------

SIGNAL, IMAGE, VOLUME = torch.zeros(8), torch.zeros(8, 8), torch.zeros(4, 8, 8)
K1, K2, K3 = torch.ones(3), torch.ones(3, 3), torch.ones(3, 3, 3)
CROSS = torch.zeros(3, 3, 3)
CROSS[1, 1, :] = CROSS[1, :, 1] = CROSS[:, 1, 1] = 1
NAN = torch.full((1, 1, 3), float("nan"))
NO_PRODUCT = "variant 'separable' takes a kernel that is the outer product of three windows, got one whose tap "
TOO_MANY = "kernel must have at most {} taps to fit into constant memory"
REFUSED = {
    1: [
        ((SIGNAL, K1, "fused"), "variant must be 'naive', 'constant', 'tiled' or 'l2_halo', got 'fused'"),
        ((torch.tensor(1.0), K1), "input must have at least 1 dimension, got 0"),
        ((SIGNAL.double(), K1), "input must have dtype float32, got float64"),
        ((SIGNAL, K1.half()), "kernel must have dtype float32, got float16"),
        ((SIGNAL, torch.ones(4)), "kernel must have 1 dimension of odd size, got shape (4,)"),
        ((SIGNAL, torch.ones(1, 3)), "kernel must have 1 dimension of odd size, got shape (1, 3)"),
        ((SIGNAL, torch.ones(801)), f"{TOO_MANY.format(800)} (filter1d has no such limit), got 801"),
        ((SIGNAL, K1, "naive", (8, 8)), "block must have 1 values, got 2"),
        ((SIGNAL, K1, "naive", (0,)), "block must be at least 1, got 0"),
        ((SIGNAL, K1, "naive", (1025,)), "block must have at most 1024 threads, got 1025"),
    ],
    2: [
        ((IMAGE, K2, "fast"), "variant must be 'naive', 'constant', 'tiled', 'l2_halo' or 'fused', got 'fast'"),
        ((torch.zeros(8), K2), "input must have at least 2 dimensions, got 1"),
        ((IMAGE.double(), K2), "input must have dtype float32, got float64"),
        ((IMAGE, K2.double()), "kernel must have dtype float32, got float64"),
        ((IMAGE, torch.ones(3, 5)), "kernel must be square and odd, got shape (3, 5)"),
        ((IMAGE, torch.ones(4, 4)), "kernel must be square and odd, got shape (4, 4)"),
        ((IMAGE, torch.ones(1, 3, 3)), "kernel must be square and odd, got shape (1, 3, 3)"),
        ((IMAGE, torch.ones(5, 5), "fused"), "variant 'fused' takes a 3x3 kernel, got 5x5"),
        ((IMAGE, torch.ones(29, 29)), f"{TOO_MANY.format(800)}, got 841"),
        ((IMAGE, K2, "naive", (0, 16)), "block must be at least 1, got 0"),
        ((IMAGE, K2, "naive", (64, 32)), "block must have at most 1024 threads, got 64x32"),
    ],
    3: [
        ((VOLUME, K3, "fast"), "variant must be 'naive', 'constant', 'tiled', 'l2_halo' or 'separable', got 'fast'"),
        ((VOLUME[0], K3), "input must have at least 3 dimensions, got 2"),
        ((VOLUME.double(), K3), "input must have dtype float32, got float64"),
        ((VOLUME, K3.half()), "kernel must have dtype float32, got float16"),
        ((VOLUME, K3[0]), "kernel must have 3 dimensions of odd size, got shape (3, 3)"),
        ((VOLUME, torch.ones(3, 4, 3)), "kernel must have 3 dimensions of odd size, got shape (3, 4, 3)"),
        ((VOLUME, torch.ones(0, 3, 3)), "kernel must have 3 dimensions of odd size, got shape (0, 3, 3)"),
        ((VOLUME, torch.ones(21, 21, 21)), f"{TOO_MANY.format(8000)} (filter3d has no such limit), got 9261"),
        ((VOLUME, CROSS, "separable"), f"{NO_PRODUCT}(1, 0, 1) is not their product"),
        ((VOLUME, NAN, "separable"), f"{NO_PRODUCT}(0, 0, 0) is not their product"),
        ((VOLUME, K3, "naive", (8, 8)), "block must have 3 values, got 2"),
        ((VOLUME, K3, "naive", (8, 0, 8)), "block must be at least 1, got 0"),
        ((VOLUME, K3, "naive", (16, 16, 8)), "block must have at most 1024 threads, got 16x16x8"),
        (
            (VOLUME, K3, "naive", (2**31 - 1,) * 3),
            "block must have at most 1024 threads, got 2147483647x2147483647x2147483647",
        ),
        ((VOLUME, K3, "naive", (2, 2, 65)), "block must have at most 64 threads along z, got 65"),
    ],
}


@pytest.mark.parametrize(
    ("axes", "args", "sentence"),
    [(axes, *case) for axes, cases in REFUSED.items() for case in cases],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_refusals(axes, args, sentence, device):
    image, *rest = args
    with pytest.raises(RuntimeError) as refusal:
        getattr(torch.ops.torch_conv, f"ladder{axes}d")(image.to(device), *rest)
    assert str(refusal.value).splitlines()[0] == f"ladder{axes}d: {sentence}"
    assert ladder(VOLUME.to(device), torch.ones((3,) * axes)).sum() == 0  # the next good call works


@pytest.mark.cuda
@pytest.mark.parametrize("kernel", [K1, K2, K3], ids=["1d", "2d", "3d"])
def test_kernel_on_the_gpu_is_refused(kernel, cuda):
    with pytest.raises(RuntimeError, match=rf"ladder{kernel.dim()}d: kernel must be on cpu, got cuda:0"):
        ladder(VOLUME.to(cuda), kernel.to(cuda))
