"""Depthwise convolutions of images and rows: every variant, layout and size of batch."""

from functools import partial
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from conftest import ROOT
from depthwise_cases import CHAINS, HALVES, LAYOUTS, MMA, check_every_kernel, conv, exact
from gpus import GPUS
from strategies import FLOATS, lay_out, make_image, make_window
from tolerance import assert_same_bits, assert_within

import torch_conv

ACTIVATIONS = ["relu", "relu6", "gelu", "silu", "hardswish"]
# Few, because a kernel is compiled for most of them.
MAPS = [(3, 32, 14, 14), (1, 24, 56, 56), (17, 16, 7, 7), (2, 5, 19, 37), (2, 8, 47, 24)]
ODD_MAPS = [(1, 1, 1, 1), (2, 3, 1, 9), (5, 7, 2, 3), (1, 13, 13, 1), (1, 2, 70, 300)]


@pytest.mark.parametrize(
    "dtype, window",
    [
        *((dtype, (k, k)) for dtype in FLOATS for k in (3, 7)),
        *((dtype, window) for dtype in (torch.float32, torch.float16) for window in [(5, 5), (9, 9), (1, 5), (3, 8)]),
    ],
    ids=str,
)
def test_maps(device, pinned, dtype, window):
    served = {}
    for shape in MAPS:
        for layout in LAYOUTS[:2]:
            image = lay_out(make_image(shape, dtype, device=device), layout)
            weight = make_window((shape[1], 1, *window), dtype, device=device)
            padding = tuple(k // 2 for k in window)
            check_every_kernel(device, pinned, image, weight, served=served, padding=padding)
    if device == "cuda":
        expected = {"general"} if dtype == torch.float64 else {"general", "tiles", "channels", "channels_tma"}
        if dtype != torch.float64 and window[0] * window[1] <= 49:
            expected.add("planes")
        square = window[0] == window[1] and window[0] in (3, 5, 7)
        if dtype != torch.float64 and square:
            expected.add("warps")
        if dtype in HALVES and square and torch.cuda.get_device_capability() >= (9, 0):
            expected |= {"planes_mma", "channels_mma"}
        assert set(served) >= expected


def check_warps(pinned, image, weight, bias, padding, stride=1):
    """WARPS serves the call with the CPU's bits, and NaN in the same places."""
    options = {"stride": stride, "padding": padding, "groups": image.shape[1], "activation": "relu"}
    run = partial(torch_conv.conv2d, algorithm="direct", **options)
    expected = run(image.cpu(), weight.cpu(), bias.cpu())
    got = pinned("warps", lambda: run(image, weight, bias))
    assert got is not None
    assert torch.equal(got.isnan().cpu(), expected.isnan())
    assert_same_bits(got.nan_to_num(3.0), expected.nan_to_num(3.0))


STRIPS = [(3, 1), (3, 2), (5, 1), (5, 2), (7, 1), (7, 2)]


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("k, stride", STRIPS)
def test_strips_of_lanes(cuda, pinned, dtype, k, stride):
    """Rows of about as many vectors as a warp has lanes, and rows of several strips.

    Some images have fewer rows than a strip. Pixels at the ends of strips are not finite.
    """
    vector = 16 // dtype.itemsize
    for height, vectors in [(1, 2), (2, 8), (7, 31), (4, 32), (5, 33), (3, 34), (10, 60), (4, 61), (2, 126)]:
        width = vector * vectors
        image = make_image((2, 3, height, width), dtype, device=cuda)
        image[1, 1, height // 2, width // 2 - 1] = torch.inf
        image[1, 2, 0, width - 1] = torch.nan
        weight, bias = (make_window(shape, dtype, device=cuda) for shape in [(6, 1, k, k), (6,)])
        check_warps(pinned, image, weight, bias, k // 2, stride)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("k, stride", STRIPS)
def test_strips_that_begin_elsewhere(cuda, pinned, dtype, k, stride):
    """No rows outside, more of them than a window has; rows that are part of longer ones."""
    vector = 16 // dtype.itemsize
    for vectors in (7, 35):
        width = vector * vectors
        wide = make_image((2, 3, 9, width + 3 * vector), dtype, device=cuda)
        weight, bias = (make_window(shape, dtype, device=cuda) for shape in [(3, 1, k, k), (3,)])
        for image in (wide[..., :width].contiguous(), wide[..., :width], wide[:, :, 1:, vector : vector + width]):
            for pad_y in (0, k // 2, k + 3):
                check_warps(pinned, image, weight, bias, (pad_y, k // 2), stride)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("window", [(13, 13), (31, 31), (21, 5), (30, 12)], ids=str)
def test_large_windows(device, pinned, dtype, window):
    served = {}
    padding = tuple(k // 2 for k in window)
    for shape in [(2, 4, 32, 32), (17, 2, 14, 14), (1, 3, 33, 75), (16, 5, 16, 16)]:
        image = make_image(shape, dtype, device=device)
        weight = make_window((shape[1], 1, *window), dtype, device=device)
        bias = make_window((shape[1],), dtype, device=device)
        check_every_kernel(device, pinned, image, weight, bias, served=served, padding=padding, activation="relu")
    if device == "cuda" and dtype in HALVES and window[0] == window[1]:
        assert "large_mma" in served


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", ODD_MAPS, ids=str)
def test_odd_maps(device, pinned, dtype, layout, shape):
    """Smaller than the window, one pixel, one channel, odd sizes, rows that start anywhere."""
    image = lay_out(make_image(shape, dtype, device=device), layout)
    weight = make_window((shape[1], 1, 5, 5), dtype, device=device)
    bias = make_window((shape[1],), dtype, device=device)
    check_every_kernel(device, pinned, image, weight, bias, padding=3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("layout", LAYOUTS[:2])
@pytest.mark.parametrize("steps", [(2, 1), ((1, 2), 1), (1, 2), (2, (3, 1)), (3, 2)], ids=str)
def test_steps(device, pinned, dtype, layout, steps):
    for shape, k, padding in [((2, 24, 28, 28), 3, 1), ((1, 8, 57, 61), 5, 10), ((3, 16, 14, 14), 7, 3)]:
        image = lay_out(make_image(shape, dtype, device=device), layout)
        weight = make_window((shape[1], 1, k, k), dtype, device=device)
        check_every_kernel(
            device, pinned, image, weight, stride=steps[0], dilation=steps[1], padding=padding, activation="relu6"
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("layout", LAYOUTS[:2])
@pytest.mark.parametrize("multiplier", [2, 3])
def test_multiplier(device, pinned, dtype, layout, multiplier):
    image = lay_out(make_image((2, 12, 20, 28), dtype, device=device), layout)
    weight = make_window((12 * multiplier, 1, 3, 3), dtype, device=device)
    bias = make_window((12 * multiplier,), dtype, device=device)
    check_every_kernel(device, pinned, image, weight, bias, padding=1)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("k", [1, 3, 4, 8, 15, 31, 63])
def test_rows(device, pinned, dtype, k):
    served = {}
    for shape, padding in [((3, 8, 64), k // 2), ((2, 5, 202), k - 1), ((1, 16, 1024), k // 2), ((2, 4, 7), k)]:
        for last in (False, True):
            image = make_image(shape, dtype, device=device)
            if last:
                image = image.transpose(1, 2).contiguous().transpose(1, 2)
            weight = make_window((shape[1], 1, k), dtype, device=device)
            check_every_kernel(device, pinned, image, weight, served=served, padding=padding)
    if device == "cuda":
        assert "general" in served
        assert dtype == torch.float64 or "rows" in served
        assert dtype not in HALVES or k < 8 or "rows_mma" in served


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(device, pinned, dtype, activation):
    """The kernel's own: `explain` shows one launch on CUDA."""
    for shape, k in [((2, 16, 28, 28), 5), ((1, 8, 32, 32), 13)]:
        image = 4 * make_image(shape, dtype, device=device)
        weight, bias = (
            make_window((shape[1], 1, k, k), dtype, device=device),
            make_window((shape[1],), dtype).to(device),
        )
        for layout in LAYOUTS[:2]:
            laid = lay_out(image, layout)
            check_every_kernel(device, pinned, laid, weight, bias, padding=k // 2, activation=activation)
            plan = str(torch_conv.explain(conv, laid, weight, bias, padding=k // 2, activation=activation))
            assert "by torch" not in plan and plan.count("launches 1") == 1
    signal = make_image((2, 8, 200), dtype, device=device)
    check_every_kernel(device, pinned, signal, make_window((8, 1, 9), dtype, device=device), activation=activation)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("algorithm", ["auto", "torch"])
def test_activations_of_other_convolutions(device, activation, algorithm):
    """Dense ones, volumes, and other borders: torch's operator behind the kernel."""
    act = getattr(F, activation)
    image, dense = make_image((2, 8, 9, 9), device=device), make_window((4, 8, 3, 3), device=device)
    got = torch_conv.conv2d(image, dense, padding=1, algorithm=algorithm, activation=activation)
    torch.testing.assert_close(got, act(F.conv2d(image, dense, padding=1)))
    volume, cubes = make_image((1, 4, 5, 6, 7), device=device), make_window((4, 1, 3, 3, 3), device=device)
    got = torch_conv.conv3d(volume, cubes, groups=4, algorithm=algorithm, activation=activation)
    torch.testing.assert_close(got, act(F.conv3d(volume, cubes, groups=4)))
    windows = make_window((8, 1, 3, 3), device=device)
    got = torch_conv.conv2d(
        image, windows, groups=8, padding=1, padding_mode="reflect", algorithm=algorithm, activation=activation
    )
    torch.testing.assert_close(got, act(F.conv2d(F.pad(image, [1] * 4, "reflect"), windows, groups=8)))


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("k", [3, 7, 13])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_non_finite_pixels_reach_their_windows_only(device, pinned, dtype, k, value):
    for layout in LAYOUTS[:2]:
        image = make_image((17, 16, 28, 28), dtype, device=device)
        for at in [(0, 0, 0, 0), (3, 5, 14, 13), (16, 15, 27, 27), (8, 1, 9, 20)]:
            image[at] = value
        image = lay_out(image, layout)
        weight = make_window((16, 1, k, k), dtype, device=device)
        weight[1, 0, 0, 0] = 0  # 0 * NaN is NaN
        check_finite_alike(pinned, image, weight)
    strips = make_image((2, 8, 47, 24), dtype, device=device)  # PLANES_MMA's last two share a row
    for at in [(0, 0, 30, 3), (0, 1, 31, 9), (1, 2, 32, 23), (1, 7, 33, 0), (1, 3, 46, 12)]:
        strips[at] = value
    check_finite_alike(pinned, strips, weight[:8])


def check_finite_alike(pinned, image, weight):
    padding = tuple(k // 2 for k in weight.shape[2:])
    not_finite = ~conv(image.cpu(), weight.cpu(), padding=padding).isfinite()
    assert not_finite.any() and not not_finite.all()
    for variant in ["", *CHAINS, *MMA] if image.is_cuda else [""]:
        way = "tensor_core" if variant in MMA else "direct"
        if way == "tensor_core" and image.dtype not in HALVES:
            continue
        call = partial(conv, image, weight, algorithm=way, padding=padding)
        got = pinned(variant, call)
        assert got is None or torch.equal(~got.isfinite().cpu(), not_finite), variant
        if got is not None and variant in MMA:
            assert_same_bits(pinned(f"{variant}_general", call), got)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("k", [3, 31])
def test_non_finite_samples_reach_their_windows_only(device, pinned, dtype, k):
    for shape in [(2, 4, 200), (5, 8, 40)]:
        signal = make_image(shape, dtype, device=device)
        signal[0, 0, 0] = signal[1, 3, 39] = float("nan")
        signal[1, 2, 17] = float("inf")
        weight = make_window((shape[1], 1, k), dtype, device=device)
        check_finite_alike(pinned, signal, weight)
        check_finite_alike(pinned, signal.transpose(1, 2).contiguous().transpose(1, 2), weight)


def test_expanded_images_and_windows_that_are_no_block(device, pinned):
    base = make_image((1, 1, 20, 24), device=device)
    weight = make_window((6, 1, 3, 6), device=device)[..., ::2]
    check_every_kernel(device, pinned, base.expand(2, 6, 20, 24), weight, padding=1)
    last = make_window((6, 1, 3, 3), device=device).contiguous(memory_format=torch.channels_last)
    check_every_kernel(device, pinned, base.expand(2, 6, 20, 24), last, padding=1)


def test_refusals_of_algorithms(device):
    image, weight = make_image((1, 4, 8, 8), device=device), make_window((4, 1, 3, 3), device=device)
    with pytest.raises(ValueError) as caught:
        conv(image, weight, algorithm="tensor_core")
    assert str(caught.value).startswith("conv2d: algorithm 'tensor_core' cannot serve this call: ")
    with pytest.raises(ValueError) as caught:
        torch_conv.conv2d(image, make_window((4, 4, 3, 3), device=device), algorithm="tensor_core")
    assert str(caught.value) == (
        "conv2d: algorithm 'tensor_core' serves depthwise convolutions of images with zeros outside only"
    )
    for algorithm in ("auto", "direct", "torch"):
        with pytest.raises(ValueError) as caught:
            conv(image, weight, algorithm=algorithm, activation="tanh")
        assert str(caught.value) == (
            "conv2d: activation must be None, 'relu', 'relu6', 'gelu', 'silu' or 'hardswish', got 'tanh'"
        )


@pytest.mark.parametrize("activation", [None, "relu", "silu"])
@pytest.mark.parametrize("dim", [-2, 0, 1])
def test_on_shards(device, activation, dim):
    image, weight = make_image((3, 6, 40, 28), device=device), make_window((6, 1, 5, 5), device=device)
    options = {"padding": 2, "groups": 6, "algorithm": "direct", "activation": activation}
    parts = torch_conv.split(image, [device] * 3, dim)
    got = torch_conv.conv2d(parts, weight, **options).gather()
    expected = torch_conv.conv2d(image, weight, **options)
    if activation == "silu":  # by torch behind the kernel: rounded twice
        torch.testing.assert_close(got, expected)
    else:
        assert_same_bits(got, expected)


# (shape, window, outputs of a channel): problems that are more than a block or two for every multiprocessor.
WALKS = [
    ((64, 96, 56, 56), 7, 1),  # 32 channels, four stages; blocks begin inside images
    ((128, 32, 56, 56), 3, 1),  # three stages
    ((64, 768, 14, 14), 7, 1),  # 16 channels, two stages
    ((700, 400, 7, 7), 5, 1),  # images of one block of rows, which leave by two boxes
    ((1000, 96, 7, 7), 7, 1),
]
PLANES = [
    ((19, 64, 16, 16), 13, 1),  # three images in the last group
    ((19, 1000, 16, 16), 13, 1),  # four channels a block
    ((40, 301, 16, 16), 13, 2),
    ((46, 200, 32, 32), 31, 1),
]


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("variant, case", [*(("channels_mma", c) for c in WALKS), *(("large_mma", c) for c in PLANES)])
def test_many_images(cuda, pinned, dtype, variant, case):
    """Blocks that go on with other images, and whole planes of 16 images; one pixel is NaN."""
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("no bulk copies")
    shape, k, multiplier = case
    image = make_image(shape, dtype, device=cuda)
    image[-1, -1, shape[2] // 2, 1] = float("nan")
    weight = make_window((multiplier * shape[1], 1, k, k), dtype, device=cuda)
    bias = make_window((multiplier * shape[1],), dtype, device=cuda)
    laid = lay_out(image, "channels_last" if variant == "channels_mma" else "contiguous")

    def call():
        return conv(laid, weight, bias, "tensor_core", padding=k // 2)

    got = pinned(variant, call)
    assert got is not None
    if variant == "large_mma":
        assert "whole planes" in str(pinned(variant, lambda: torch_conv.explain(call)))
    assert_same_bits(pinned(variant, call), got)
    assert_same_bits(pinned(f"{variant}_general", call), got)
    with torch.backends.cudnn.flags(enabled=False):
        options = {"padding": k // 2, "groups": shape[1]}
        exact = F.conv2d(image.double(), weight.double(), bias.double(), **options).cpu()
        sizes = (t.double().nan_to_num().abs() for t in (image, weight, bias))
        scale = F.conv2d(*sizes, **options).cpu()
    finite = exact.isfinite()
    assert torch.equal(got.isfinite().cpu(), finite)
    assert_within(
        got.cpu()[finite], exact[finite], scale[finite], in_dtype=dtype, algorithm="tensor_core", window=(k, k)
    )


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("variant, k", [("planes_mma", 5), ("channels_mma", 5), ("large_mma", 13)])
def test_general_variants_have_the_bits_of_taps_that_are_not_finite(cuda, pinned, dtype, value, variant, k):
    """A tap and a bias of few channels: some variants then compute their neighbours' outputs as chains too."""
    image = make_image((3, 40, 28, 28), dtype, device=cuda)
    weight, bias = make_window((40, 1, k, k), dtype, device=cuda), make_window((40,), dtype, device=cuda)
    weight[5, 0, k // 2, 0], bias[17] = value, value
    laid = lay_out(image, "channels_last" if variant == "channels_mma" else "contiguous")
    call = partial(conv, laid, weight, bias, "tensor_core", padding=k // 2, activation="silu")
    got = pinned(variant, call)
    if got is None:
        pytest.skip("another GPU than Hopper")
    assert not got[:, 5].isfinite().any() and not got[:, 17].isfinite().all()
    assert_same_bits(pinned(f"{variant}_general", call), got)


# Images of several sizes and windows for each variant.
GENERAL = {
    "planes_mma": [((64, 96, 56, 56), (7, 7)), ((2, 8, 14, 14), (3, 5)), ((9, 8, 19, 37), (5, 4))],
    "large_mma": [((64, 384, 32, 32), (31, 31)), ((1, 3, 33, 75), (12, 20))],
    "channels_mma": [((64, 96, 56, 56), (7, 7)), ((1, 24, 9, 30), (3, 5))],
    "rows_mma": [((64, 768, 1, 1024), (1, 31)), ((3, 4, 1, 332), (1, 9))],
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("variant", MMA)
def test_a_general_variant_has_one_kernel(monkeypatch, dtype, variant):
    """One kernel serves all sizes, windows and activations; it is built ahead."""
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", GPUS["H200"])
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_KERNELS", "1")
    kernels = set()
    for (shape, window), activation in product(GENERAL[variant], [None, "gelu"]):
        image = lay_out(torch.empty(shape, dtype=dtype), "channels_last" if variant == "channels_mma" else "contiguous")
        weight, padding = torch.ones(shape[1], 1, *window, dtype=dtype), tuple(k // 2 for k in window)
        call = partial(conv, image, weight, algorithm="tensor_core", padding=padding, activation=activation)
        monkeypatch.delenv("TORCH_CONV_VARIANT", raising=False)
        assert "_general" not in str(torch_conv.explain(call))
        monkeypatch.setenv("TORCH_CONV_VARIANT", f"{variant}_general")
        (line,) = torch_conv.explain(call).lines
        assert line.startswith(f"conv2d: depthwise/{variant}_general ("), line
        kernels.add(line.split("; kernel ")[1].split(";")[0])
    (kernel,) = kernels
    ahead = (ROOT / "csrc" / "ahead.txt").read_text()
    assert f"{kernel.split('<')[0]}<{{half_t,bhalf_t}}>" in ahead


@pytest.mark.parametrize("algorithm", ["direct", "ours"])
@pytest.mark.parametrize("layout", LAYOUTS[:2])
def test_an_image_is_the_same_wherever_it_stands_in_the_batch(device, algorithm, layout):
    for shape, k in [((17, 16, 14, 14), 7), ((6, 8, 32, 32), 13), ((5, 32, 56, 56), 3)]:
        image = make_image(shape, torch.float16, device=device)
        image[-1] = image[0]
        weight = make_window((shape[1], 1, k, k), torch.float16, device=device)
        got = conv(lay_out(image, layout), weight, algorithm=algorithm, padding=k // 2)
        assert_same_bits(got[-1], got[0])


@pytest.mark.parametrize("shape", [(0, 4, 8, 8), (1, 70000, 3, 3), (70000, 1, 2, 5)], ids=str)
def test_none_and_many_planes(device, pinned, shape):
    image, weight = make_image(shape, device=device), make_window((shape[1], 1, 3, 3), device=device)
    if shape[1] == 1:
        image, weight = image.expand(-1, 2, -1, -1), make_window((2, 1, 3, 3), device=device)
    if shape[0] == 0:
        assert conv(image, weight, padding=1).shape == shape
    else:
        check_every_kernel(device, pinned, image, weight, padding=1)


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS[:2])
def test_more_than_2_to_the_31_elements(cuda, layout):
    shape = (2**15 + 1, 64, 32, 32)
    image = torch.zeros(shape, dtype=torch.float16, device=cuda)
    image = lay_out(image, layout) if layout == "channels_last" else image
    image[-1] = make_image(shape[1:], torch.float16, device=cuda)
    weight = make_window((64, 1, 3, 3), torch.float16, device=cuda)
    got = conv(image, weight, algorithm="ours", padding=1)
    sums, scale = exact(image[-1:], weight, None, padding=1)  # many images may go to products, one to a chain
    assert_within(got[-1:], sums, scale, in_dtype=image.dtype, algorithm="tensor_core", window=(3, 3))
    assert not got[:-1].any()
