"""Every kernel of a family for volumes, and every fused kernel, gives the same result."""

import pytest
import torch
from refusals import refuses
from strategies import BORDERS, VOLUME_LAYOUTS, lay_out, make_image, make_window
from tolerance import assert_same_bits
from variants import (
    CUBES,
    DTYPES,
    SHAPES,
    VARIANTS,
    VOLUME_SHAPES,
    agree,
    call_box3d,
    call_direct3d,
    call_fused3d,
    call_separable3d,
    calls_of_every_family,
)

import torch_conv


@pytest.mark.cuda
@pytest.mark.parametrize("border", BORDERS)
def test_short_walks(cuda, border):
    """Volumes with blocks for several rounds: chunks of another size than small volumes have, the last one smaller."""
    volumes = make_image((12, 1, 190, 128, 144))
    row, window = make_window((3,)), make_window((3, 3, 3))
    for call in (
        lambda x: torch_conv.filter3d(x, window, border),
        lambda x: torch_conv.filter3d_separable(x, row, row, row, border),
    ):
        # The planes of a walk depend on the GPU; separable 'skip' does not stream at all.
        known = torch.cuda.get_device_properties(cuda).multi_processor_count == 132 and border != "skip"
        assert not known or "x24, " in str(torch_conv.explain(call, volumes.to(cuda)))
        assert_same_bits(call(volumes.to(cuda)).cpu(), call(volumes))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "size", [(3, 3, 3), (5, 5, 5), (7, 7, 7), (4, 2, 6), (1, 3, 3), (3, 1, 1), (1, 1, 5), (9, 9, 9)]
)
def test_direct3d(cuda, pinned, dtype, size):
    served, call = {}, call_direct3d(*size)
    for shape in VOLUME_SHAPES:
        for border in BORDERS:
            volume = make_image(shape, dtype)
            got = agree(pinned, "direct3d", call, volume.to(cuda), served, border_type=border, value=0.75)
            assert_same_bits(got, call(volume, border_type=border, value=0.75))
    expected = {"general", "window"}
    if size[0] == size[1] == size[2] and size[0] in (3, 5, 7):
        expected |= {"streaming"} | ({"streaming_tma"} if torch.cuda.get_device_capability() >= (9, 0) else set())
    assert set(served) >= expected


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float64, torch.int16, torch.uint16])
@pytest.mark.parametrize("size", [(3, 3, 3), (5, 5, 5), (2, 3, 4)])
def test_direct3d_of_other_dtypes(cuda, pinned, dtype, size):
    served, call = {}, call_direct3d(*size)
    for shape in VOLUME_SHAPES[:3]:
        for options in ({}, {"output_dtype": torch.float32}, {"stride": 2}, {"dilation": (2, 1, 2)}):
            volume = make_image(shape, dtype)
            assert_same_bits(
                agree(pinned, "direct3d", call, volume.to(cuda), served, **options), call(volume, **options)
            )
    assert served["general"] == 12


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES[:3])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("window", [(1, 3, 3), (3, 3, 3), (3, 1, 1), (5, 5, 5), (7, 7, 7), (2, 3, 4)])
def test_conv3d(cuda, pinned, dtype, layout, window):
    """Depthwise, with a bias and a multiplier, planar and channels_last_3d."""
    served = {}
    for shape, multiplier in (
        ((2, 8, 9, 12, 20), 1),
        ((1, 64, 5, 9, 16), 1),
        ((1, 6, 6, 9, 13), 2),
        ((2, 33, 4, 7, 9), 1),
    ):
        volume, groups = lay_out(make_image(shape, dtype), layout), shape[1]
        weight = make_window((groups * multiplier, 1, *window), dtype)
        bias = make_window((groups * multiplier,), dtype)
        for options in ({"padding": tuple(k // 2 for k in window)}, {}, {"stride": (1, 2, 2), "padding": 1}):
            if options.get("padding") == 1 and max(window) > 6:
                continue

            def call(x, weight=weight, bias=bias, groups=groups, **kw):
                return torch_conv.conv3d(x, weight.to(x.device), bias.to(x.device), groups=groups, **kw)

            if any(n < k for n, k in zip(shape[2:], window, strict=True)) and not options.get("padding"):
                continue
            got = agree(pinned, "direct3d", call, volume.to(cuda), served, **options)
            assert_same_bits(got, call(volume, **options, algorithm="direct"))
    assert "general" in served
    if window == (3, 3, 3) and layout == "channels_last":
        assert "channels" in served
    if window == (3, 3, 3) and layout == "contiguous" and torch.cuda.get_device_capability() >= (9, 0):
        assert "planes" in served


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64, torch.int16, torch.uint16])
@pytest.mark.parametrize(
    "size", [(3, 3, 3), (5, 5, 5), (7, 7, 7), (9, 9, 9), (15, 15, 15), (3, 5, 7), (4, 2, 6), (1, 7, 7)]
)
def test_separable3d(cuda, pinned, dtype, size):
    served, call = {}, call_separable3d(*size)
    for shape in VOLUME_SHAPES:
        for border in BORDERS:
            volume = make_image(shape, dtype)
            got = agree(pinned, "separable3d", call, volume.to(cuda), served, border_type=border, value=3.0)
            assert_same_bits(got, call(volume, border_type=border, value=3.0))
    if size in CUBES and dtype != torch.float64 and torch.cuda.get_device_capability() >= (9, 0):
        assert set(served) >= ({"streaming", "streaming_unaligned"} if dtype == torch.float32 else {"streaming"})


@pytest.mark.cuda
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("size", CUBES)
def test_separable3d_of_rows_that_start_anywhere(cuda, pinned, size, border):
    """Odd sizes, several tiles and chunks, and crops of larger volumes."""
    served, call = {}, call_separable3d(*size)
    whole = make_image((2, 2, 40, 90, 151))
    crops = [
        whole,
        whole[..., 1:],
        whole[:, :, 3:30, 2:80, 5:70],
        whole[:, 1:, ::2, ::2, 3:135],
        whole[..., :2, :3, 7:8],
    ]
    for volume in crops:
        on_gpu = whole.to(cuda).as_strided(volume.shape, volume.stride(), volume.storage_offset())
        got = agree(pinned, "separable3d", call, on_gpu, served, border_type=border, value=3.0)
        assert_same_bits(got, call(volume, border_type=border, value=3.0))
    if border != "skip" and torch.cuda.get_device_capability() >= (9, 0):
        assert served["streaming_unaligned"] == len(crops)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64, torch.int16, torch.uint16])
@pytest.mark.parametrize("size", [(3, 3, 3), (15, 15, 15), (4, 9, 40), (20, 3, 5)])
def test_box3d(cuda, pinned, dtype, size):
    served, call = {}, call_box3d(*size)
    for shape in VOLUME_SHAPES:
        for border in ("reflect", "constant", "circular", "skip"):
            volume = make_image(shape, dtype, device=cuda)
            agree(pinned, "box3d", call, volume, served, border_type=border, value=3.0)
    planes = {"groups"} if dtype == torch.float64 else {"strips", "groups"}
    depth = {"depth_groups", "depth_ring"} if size[0] > 16 else {"depth_groups"}
    assert set(served) == (planes | depth if dtype.is_floating_point else {"streaming", "plain", "depth"})


@pytest.mark.cuda
@pytest.mark.parametrize("algorithm", ["direct3d", "separable3d", "box3d"])
@pytest.mark.parametrize("layout", [n for n in VOLUME_LAYOUTS if n != "contiguous"])
def test_layouts_of_volumes(cuda, pinned, algorithm, layout):
    call, served = calls_of_every_family()[algorithm], {}
    volume = make_image((2, 4, 6, 20, 64), device=cuda)
    x = lay_out(volume, layout)
    got = agree(pinned, algorithm, call, x, served)
    if algorithm == "box3d":
        torch.testing.assert_close(got, call(volume), rtol=1e-5, atol=1e-5)
    else:
        assert_same_bits(got, call(volume))
    # Both variants of separable3d refuse rows that are not contiguous; three passes filter such volumes.
    assert served or (algorithm == "separable3d" and x.stride(-1) != 1)


@pytest.mark.cuda
@pytest.mark.parametrize("size", [(3, 3, 3), (5, 5, 5), (2, 3, 4), (7, 7, 7)])
@pytest.mark.parametrize("form", [(3,), (1, 4), (3, 4)])
@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_one_window_per_volume(cuda, pinned, size, form, where):
    volume, kernel, served = make_image((3, 4, 5, 9, 64)), make_window((*form, *size), device=where), {}
    got = agree(pinned, "direct3d", lambda x, **kw: torch_conv.filter3d(x, kernel, **kw), volume.to(cuda), served)
    assert_same_bits(got, torch_conv.filter3d(volume, kernel.cpu()))
    assert "general" in served


@pytest.mark.cuda
def test_separable_windows_per_volume(cuda, pinned):
    volume, served = make_image((3, 4, 5, 9, 64)), {}
    x, y, z = make_window((3, 4, 5)), make_window((3, 1, 5)), make_window((5,))
    got = agree(
        pinned, "separable3d", lambda v, **kw: torch_conv.filter3d_separable(v, x, y, z, **kw), volume.to(cuda), served
    )
    assert_same_bits(got, torch_conv.filter3d_separable(volume, x, y, z))


@pytest.mark.cuda
@pytest.mark.parametrize("anchor", [(0, 0, 0), (-1, -1, -1), (4, 0, 4), (2, 3, 1)])
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_anchors_and_valid_of_volumes(cuda, pinned, anchor, padding):
    for dtype in DTYPES:
        volume, served = make_image((2, 1, 7, 12, 72), dtype), {}
        options = {"anchor": anchor, "padding": padding}
        for algorithm in ("direct3d", "separable3d"):
            call = calls_of_every_family()[algorithm]
            got = agree(pinned, algorithm, call, volume.to(cuda), served, **options)
            assert_same_bits(got, call(volume, **options))
        assert "general" in served


@pytest.mark.cuda
@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 9, 40), (2, 1, 2, 3, 40), (1, 1, 40, 1, 40), (1, 1, 40, 5, 1), (2, 1, 3, 3, 3)]
)
@pytest.mark.parametrize("border", BORDERS)
def test_windows_larger_than_the_volume(cuda, pinned, shape, border):
    volume, served = make_image(shape), {}
    for algorithm in ("direct3d", "separable3d"):
        call = calls_of_every_family()[algorithm]
        options = {"border_type": border, "value": 0.5}
        got = agree(pinned, algorithm, call, volume.to(cuda), served, **options)
        assert_same_bits(got, call(volume, **options))
    assert served


OPS = torch.ops.torch_conv
CHAINS = {
    "gradient": lambda x, k, **kw: OPS.gradient2d(x, **kw),
    "second gradient": lambda x, k, **kw: OPS.gradient2d(x, order=2, **kw),
    "sobel": lambda x, k, **kw: OPS.sobel2d(x, **kw),
    "gaussian_sobel": lambda x, k, **kw: OPS.gaussian_sobel2d(x, k, k, **kw),
    "gaussian_sobel l1": lambda x, k, **kw: OPS.gaussian_sobel2d(x, k, k, magnitude="l1", **kw),
    "structure_tensor": lambda x, k, **kw: OPS.structure_tensor2d(x, k, k, **kw),
    "thin_edges": lambda x, k, **kw: OPS.thin_edges2d(x, k, k, **kw),
    "unsharp_mask": lambda x, k, **kw: OPS.unsharp_mask2d(x, k, k, **kw),
    "sum": lambda x, k, **kw: OPS.separable_sum2d(x, [k, k.flip(0)], [k, -k], **kw),
    "downsample": lambda x, k, **kw: OPS.filter2d_separable(x, k, k, stride=[2, 2], **kw),
}


@pytest.fixture
def in_one_launch(pinned):
    """run(variant, f): f(algorithm='fused') with that variant pinned, None where the variant cannot serve the call."""

    def run(variant, f):
        try:
            return pinned(variant, lambda: f(algorithm="fused"))
        except RuntimeError as refusal:
            assert f"variant '{variant}' cannot serve this call" in str(refusal)
            return None

    return run


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("size", [3, 5, 7])
def test_images(cuda, in_one_launch, dtype, name, size):
    served, taps = set(), make_window((size,)).abs() / size
    for shape in SHAPES:
        for border in BORDERS:
            image, options = make_image(shape, dtype), {"border_type": border, "value": 0.75}
            expected = CHAINS[name](image, taps, **options)
            on_gpu = image.to(cuda)
            for variant in VARIANTS["fused"]:
                got = in_one_launch(variant, lambda x=on_gpu, o=options, **kw: CHAINS[name](x, taps, **o, **kw))
                if got is not None:
                    served.add(variant)
                    assert_same_bits(got, expected)
            for algorithm in ("auto", "separable"):
                assert_same_bits(CHAINS[name](on_gpu, taps, algorithm=algorithm, **options), expected)
    if dtype == torch.float32 and size <= 5:
        assert "tile" in served
        assert "tile_tma" in served or torch.cuda.get_device_capability() < (9, 0)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [9, 11, 13, 15])
def test_sums_of_large_windows(cuda, in_one_launch, dtype, size):
    """A streaming kernel repeats columns from its box and from beyond it, and rows from where the border finds them."""
    served, taps = set(), make_window((size,)).abs() / size
    for shape in [*SHAPES, (1, 1, 1, 8), (1, 1, 700, 132), (2, 1, 333, 1)]:
        for border in BORDERS:
            image = make_image(shape, dtype)
            on_gpu = image.to(cuda)
            for value, padding in ((0.0, "same"), (3.0, "same"), (3.0, "valid")):
                if padding == "valid" and min(shape[-2:]) < size:
                    continue
                options = {"border_type": border, "value": value, "padding": padding}
                expected = CHAINS["sum"](image, taps, **options)
                assert_same_bits(CHAINS["sum"](on_gpu, taps, **options), expected)
                for variant in VARIANTS["fused"]:
                    got = in_one_launch(variant, lambda x=on_gpu, o=options, **kw: CHAINS["sum"](x, taps, **o, **kw))
                    if got is not None:
                        served.add(variant)
                        assert_same_bits(got, expected)
    assert "tile" in served
    assert served >= {"streaming", "tile_tma"} or torch.cuda.get_device_capability() < (9, 0)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [3, 5, 7])
@pytest.mark.parametrize("mode", ["diff", "sobel"])
def test_volumes(cuda, pinned, dtype, size, mode):
    call, served = call_fused3d(size), set()
    for shape in VOLUME_SHAPES:
        for border in BORDERS:
            volume, options = make_image(shape, dtype), {"border_type": border, "value": 0.75, "mode": mode}
            expected, on_gpu = call(volume, **options), volume.to(cuda)
            for variant in VARIANTS["fused3d"]:
                got = pinned(variant, lambda v=on_gpu, o=options: call(v, **o))
                if got is not None:
                    served.add(variant)
                    assert_same_bits(got, expected)
            assert_same_bits(call(on_gpu, **options), expected)
    if torch.cuda.get_device_capability() >= (9, 0) and dtype == torch.float32 and size == 3:
        assert "streaming" in served


@pytest.mark.cuda
@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("value", [0.3, -5.0, 1e6])
def test_values_that_the_image_cannot_hold(cuda, name, value):
    taps = make_window((3,)).abs() / 3
    for dtype in DTYPES:
        image = make_image((1, 2, 20, 64), dtype)
        options = {"border_type": "constant", "value": value, "output_dtype": torch.float32}
        assert_same_bits(CHAINS[name](image.to(cuda), taps, **options), CHAINS[name](image, taps, **options))


@pytest.mark.cuda
@pytest.mark.parametrize("name", CHAINS)
def test_many_planes(cuda, name):
    taps = make_window((3,)).abs() / 3
    for shape in ((70000, 1, 3, 8), (2, 40000, 4, 4)):
        image = make_image(shape, device=cuda)
        got = CHAINS[name](image, taps)
        for n in (0, 1, shape[0] - 1):
            assert_same_bits(got[n], CHAINS[name](image[n].cpu(), taps))


@pytest.mark.cuda
@pytest.mark.parametrize("name", CHAINS)
def test_widths(cuda, name):
    taps = make_window((5,)).abs() / 5
    for width in [*range(1, 71), 333, 1918]:
        image = make_image((2, 1, 11, width))
        assert_same_bits(CHAINS[name](image.to(cuda), taps), CHAINS[name](image, taps))


def test_an_impossible_pin_is_refused(device, monkeypatch):
    monkeypatch.setenv("TORCH_CONV_VARIANT", "no_such_kernel")
    image = torch.zeros(9, 11, device=device)
    for call, name in (
        (lambda: torch_conv.sobel(image), "sobel"),
        (lambda: torch_conv.sobel(image, algorithm="fused"), "sobel"),
        (lambda: torch_conv.thin_edges(image, 3, 1.0, algorithm="separable"), "thin_edges"),
    ):
        with refuses(ValueError, f"{name}: variant 'no_such_kernel' cannot serve this call"):
            call()


def test_the_name_that_explain_prints_can_be_pinned(device, monkeypatch):
    image = make_image((2, 40, 64)).to(device)
    expected, plan = torch_conv.sobel(image), str(torch_conv.explain(torch_conv.sobel, image))
    variant = plan.split("fused/")[1].split()[0]
    monkeypatch.setenv("TORCH_CONV_VARIANT", variant)
    assert_same_bits(torch_conv.sobel(image, algorithm="fused"), expected)
