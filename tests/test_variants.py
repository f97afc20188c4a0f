"""Every kernel of a kernel family gives the same result, whichever of them the kernel family would choose.

TORCH_CONV_VARIANT pins one by name, TORCH_CONV_NO_TMA forbids bulk tensor copies.
"""

import pytest
import torch
from oracle import exact, magnitude
from refusals import refuses
from strategies import BORDERS, lay_out, make_image, make_window
from tolerance import assert_same_bits, assert_within
from variants import (
    DTYPES,
    SHAPES,
    VARIANTS,
    agree,
    call_box,
    call_box3d,
    call_direct,
    call_direct3d,
    call_separable,
    calls_of_every_family,
)

import torch_conv


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [3, 5, 7])
def test_direct(cuda, pinned, dtype, size):
    served = {}
    for shape in SHAPES:
        for border in BORDERS:
            image = make_image(shape, dtype)
            got = agree(pinned, "direct", call_direct(size), image.to(cuda), served, border_type=border, value=0.75)
            assert_same_bits(got, call_direct(size)(image, border_type=border, value=0.75))
    expected = {"tile", "tile_tma", "window", "general"}
    if (dtype.itemsize == 4 and size <= 5) or (dtype.itemsize == 2 and size == 3):
        expected.add("reg")
    if torch.cuda.get_device_capability() < (9, 0):
        expected.discard("tile_tma")
    assert set(served) >= expected


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "size",
    [(2, 2), (4, 6), (7, 3), (8, 8), (9, 9), (1, 15), (12, 5), (15, 15), (5, 1), (16, 16), (13, 31), (31, 31)],
    ids=str,
)
def test_direct_windows_of_any_shape(cuda, pinned, dtype, size):
    kernel = make_window(size) / 3
    served = {}
    for shape in SHAPES:
        for border in ("reflect", "constant", "circular", "zero_output"):
            for anchor in (None, 0, -1):
                image, options = make_image(shape, dtype), {"border_type": border, "value": 0.75, "anchor": anchor}

                def call(x, **options):
                    return torch_conv.filter2d(x, kernel, algorithm="direct", **options)

                got = agree(pinned, "direct", call, image.to(cuda), served, **options)
                assert_same_bits(got, call(image, **options))
    expected = {"tile", "window", "general"} | ({"column"} if size[1] == 1 else set())
    if torch.cuda.get_device_capability() >= (9, 0):
        expected.add("tile_tma")
    assert set(served) >= expected


def has_rings():
    """Hopper and Blackwell in the data center have bulk copies, and shared memory for two rings."""
    return torch.cuda.get_device_capability()[0] in (9, 10)


def rings(dtype):
    """The variants whose row results are a ring. Other elements than float32 come by bulk copies only."""
    if not has_rings() or dtype == torch.float64:
        return set()
    return {"ring", "ring_unaligned"} if dtype == torch.float32 else {"typed_ring"}


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [3, 5, 7, 15, 31])
def test_separable(cuda, pinned, dtype, size):
    served = {}
    for shape in SHAPES:
        for border in BORDERS:
            image = make_image(shape, dtype)
            got = agree(
                pinned, "separable", call_separable(size), image.to(cuda), served, border_type=border, value=3.0
            )
            assert_same_bits(got, call_separable(size)(image, border_type=border, value=3.0))
    expected = {"strip", "line_buffer", "two_pass"} | ({"tile"} if size <= 15 else set())
    if torch.cuda.get_device_capability() >= (9, 0) and size <= 15:
        expected.add("tile_tma")
    assert set(served) >= expected | rings(dtype)


def call_taps(taps_x, taps_y):
    return lambda x, **kw: torch_conv.filter2d_separable(x, taps_x, taps_y, algorithm="separable", **kw)


@pytest.mark.cuda
@pytest.mark.parametrize(
    "size", [(1, 9), (9, 21), (16, 18), (47, 15), (15, 63), (63, 31), (80, 100), (9, 150), (200, 20)], ids=str
)
def test_separable_windows_of_any_shape(cuda, pinned, size):
    """Kernels that are made for one window; taps on the host and on the GPU."""
    taps_y, taps_x = make_window((size[0],)) / size[0], make_window((size[1],), seed=8) / size[1]
    served = {}
    for shape in [(2, 2, 40, 64), (1, 1, 5, 128), (1, 2, 150, 520), (1, 1, 900, 132)]:
        for border in ("reflect", "constant", "circular", "zero_output"):
            for anchor in (None, 0, -1):
                image, options = make_image(shape), {"border_type": border, "value": 0.75, "anchor": anchor}
                for where in ("cpu", cuda):
                    call = call_taps(taps_x.to(where), taps_y.to(where))
                    got = agree(pinned, "separable", call, image.to(cuda), served, **options)
                assert_same_bits(got, torch_conv.filter2d_separable(image, taps_x, taps_y, **options))
    assert "ring_unaligned" in served or not has_rings()
    assert "ring" in served or not has_rings() or max(size) > 100


@pytest.mark.cuda
@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(3, 3), (5, 5), (7, 7), (15, 15), (9, 15), (34, 31), (1, 8)], ids=str)
def test_separable_hwc_images(cuda, pinned, channels, dtype, size):
    """Interleaved channels; taps on the host and on the GPU; the widths of rows that start anywhere."""
    taps_y, taps_x = make_window((size[0],)) / size[0], make_window((size[1],), seed=8) / size[1]
    served = {}
    for shape in [(2, channels, 70, 64), (1, channels, 150, 260), (1, channels, 9, 16), (1, channels, 33, 37)]:
        image = make_image(shape, dtype).contiguous(memory_format=torch.channels_last)
        for border in BORDERS:
            for where, anchor in (("cpu", None), (cuda, -1)):
                options = {"border_type": border, "value": 3.0, "anchor": anchor}
                call = call_taps(taps_x.to(where), taps_y.to(where))
                got = agree(pinned, "separable", call, image.to(cuda), served, **options)
                assert_same_bits(got, call_taps(taps_x, taps_y)(image, **options))
    assert "line_buffer" in served
    assert set(served) >= rings(dtype)
    assert {"tile", "tile_tma"} <= set(served) or size[0] != size[1] or not has_rings()


LAYOUTS = {
    "odd rows": lambda image: image(2, 3, 70, 141),
    "narrow planes": lambda image: image(3, 5, 40, 28),  # the last tile of planes is not full
    "narrow planes, samples inside": lambda image: image(3, 3, 40, 28).transpose(0, 1),
    "every other column": lambda image: lay_out(image(1, 2, 33, 45), "every_other"),
    "HWC": lambda image: lay_out(image(2, 3, 37, 45), "channels_last"),
    "HWC of 5": lambda image: lay_out(image(1, 5, 37, 45), "channels_last"),
    "HWC of 11": lambda image: lay_out(image(1, 11, 37, 45), "channels_last"),
    "HWC, sliced": lambda image: lay_out(image(1, 5, 37, 45), "channels_last")[:, 1:4],
}
STEPS = [{}, {"stride": 2}, {"stride": (1, 3)}, {"dilation": 2}, {"stride": 2, "dilation": 2}]


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64, torch.int16, torch.uint16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_separable_layouts_strides_and_dilations(cuda, pinned, layout, dtype):
    image, served = LAYOUTS[layout](lambda *shape: make_image(shape, dtype, device=cuda)), {}
    taps_y, taps_x = make_window((5,)) / 5, make_window((8,), seed=8) / 8
    call = call_taps(taps_x, taps_y)
    for options in STEPS:
        for border in ("reflect", "constant", "skip", "zero_output"):
            options = options | {"border_type": border, "value": 3.0, "normalized": border == "skip"}
            got = agree(pinned, "separable", call, image, served, **options)
            assert_same_bits(got, call(image.cpu(), **options))
    assert {"line_buffer", "two_pass"} <= set(served)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64, torch.int16, torch.uint16])
@pytest.mark.parametrize("size", [3, 15, 40, 200])
def test_box(cuda, pinned, dtype, size):
    served = {}
    for shape in [*SHAPES, (20, 3, 20, 61)]:  # narrow planes, rows that start anywhere
        for border in ("reflect", "constant", "circular", "skip"):
            image = make_image(shape, dtype, device=cuda)
            agree(pinned, "box", call_box(size), image, served, border_type=border, value=3.0)
    floats = {"groups"} if dtype == torch.float64 else {"strips", "groups"}
    integers = {"bytes", "streaming", "plain"} if dtype == torch.uint8 else {"streaming", "plain"}
    assert set(served) == (floats if dtype.is_floating_point else integers)


@pytest.mark.cuda
@pytest.mark.parametrize("algorithm", VARIANTS)
def test_unaligned_widths(cuda, pinned, algorithm):
    call, served = calls_of_every_family()[algorithm], {}
    for width in [*range(1, 71), 333, 1918]:
        image = make_image((2, 1, 11, width) if "3d" not in algorithm else (2, 1, 4, 7, width), device=cuda)
        agree(pinned, algorithm, call, image, served)
    sometimes = {"tile_tma", "ring", "streaming_tma", "planes", "channels", "column"}
    sometimes |= {"mma", "mma_general", "tile_groups", "tile_own"}  # tensor cores, and interleaved channels
    if "box" in algorithm:
        sometimes |= {"bytes", "streaming", "plain", "depth"}  # of integers
        sometimes.add("depth_ring")  # of windows of more than 16 planes
    if algorithm == "fused":
        sometimes.add("streaming")  # of sums of large windows alone
    if algorithm == "separable":
        sometimes.add("typed_ring")  # of other elements than float32
        sometimes |= set() if has_rings() else {"ring_unaligned"}
    if algorithm in ("separable3d", "fused3d") and torch.cuda.get_device_capability() < (9, 0):
        sometimes.add("streaming")
    assert set(served) >= set(VARIANTS[algorithm]) - sometimes


@pytest.mark.cuda
@pytest.mark.parametrize("algorithm", ["direct", "separable", "box"])
@pytest.mark.parametrize("layout", ["channels_last", "transposed", "every_other", "offset", "padded_rows"])
def test_layouts(cuda, pinned, algorithm, layout):
    calls = {"direct": call_direct(3), "separable": call_separable(5), "box": call_box(9)}
    image, served = make_image((2, 4, 33, 64), device=cuda), {}
    got = agree(pinned, algorithm, calls[algorithm], lay_out(image, layout), served)
    torch.testing.assert_close(got, calls[algorithm](image).reshape(got.shape), rtol=1e-5, atol=1e-5)
    assert served


@pytest.mark.cuda
@pytest.mark.parametrize("size", [3, 5, 7])
@pytest.mark.parametrize("form", [(3,), (1, 4), (3, 4)])
@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_one_window_per_plane(cuda, pinned, size, form, where):
    image, kernel, served = make_image((3, 4, 20, 64)), make_window((*form, size, size), device=where), {}
    got = agree(pinned, "direct", lambda x, **kw: torch_conv.filter2d(x, kernel, **kw), image.to(cuda), served)
    assert_same_bits(got, torch_conv.filter2d(image, kernel.cpu()))
    assert set(served) >= {"tile", "general"}


@pytest.mark.cuda
def test_separable_windows_per_plane(cuda, pinned):
    image, served = make_image((3, 4, 20, 64)), {}
    x, y = make_window((3, 4, 7)), make_window((3, 1, 7))
    got = agree(
        pinned, "separable", lambda i, **kw: torch_conv.filter2d_separable(i, x, y, **kw), image.to(cuda), served
    )
    assert_same_bits(got, torch_conv.filter2d_separable(image, x, y))
    assert served


@pytest.mark.cuda
@pytest.mark.parametrize("anchor", [(0, 0), (-1, -1), (4, 0), (2, 3)])
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_anchors_and_valid(cuda, pinned, anchor, padding):
    for dtype in DTYPES:
        image, served = make_image((2, 1, 40, 72), dtype), {}
        options = {"anchor": anchor, "padding": padding}
        for algorithm, call in (("direct", call_direct(5)), ("separable", call_separable(5))):
            got = agree(pinned, algorithm, call, image.to(cuda), served, **options)
            assert_same_bits(got, call(image, **options))
        assert {"general", "line_buffer"} <= set(served)


@pytest.mark.cuda
@pytest.mark.parametrize("many", [(70000, 1, 3, 8), (2, 40000, 4, 4)])
def test_many_planes(cuda, pinned, many):
    image = make_image(many, device=cuda)
    calls = {"direct": call_direct(3), "separable": call_separable(3), "box": call_box(3)}
    for algorithm, call in calls.items():
        served = {}
        got = agree(pinned, algorithm, call, image, served, algorithm != "box")
        assert served
        for n in (0, 1, many[0] - 1):
            torch.testing.assert_close(got[n], call(image[n]), rtol=1e-5, atol=1e-5)


@pytest.mark.cuda
@pytest.mark.parametrize("algorithm", VARIANTS)
def test_without_bulk_copies(cuda, monkeypatch, algorithm):
    """The plain path of GPUs before Hopper, on any GPU."""
    call = calls_of_every_family()[algorithm]
    images = [make_image((2, 4, 40, 128), dtype, device=cuda) for dtype in DTYPES]  # or two volumes of four planes
    with_copies = [call(image) for image in images]
    monkeypatch.setenv("TORCH_CONV_NO_TMA", "1")
    for image, expected in zip(images, with_copies, strict=True):
        assert_same_bits(call(image), expected)
    bulk = "streaming_tma" if algorithm == "direct3d" else "tile_tma"
    monkeypatch.setenv("TORCH_CONV_VARIANT", bulk)
    with pytest.raises(ValueError, match=f"variant '{bulk}' cannot serve this call"):
        call(images[0])


@pytest.mark.cuda
@pytest.mark.parametrize("size", [3, 5, 7])
def test_value_that_the_image_cannot_hold(cuda, pinned, size):
    """Border values are numbers of the sum, not of the image: 0.3 around bytes, 1e30 around half precision."""
    for dtype, value in ((torch.uint8, 0.3), (torch.uint8, -5.0), (torch.float16, 1e6), (torch.bfloat16, 1 / 3)):
        image, served = make_image((1, 1, 20, 64), dtype), {}
        options = {"border_type": "constant", "value": value, "output_dtype": torch.float32}
        for algorithm, call in (("direct", call_direct(size)), ("separable", call_separable(size))):
            got = agree(pinned, algorithm, call, image.to(cuda), served, **options)
            assert_same_bits(got, call(image, **options))
            plain = {"border_type": "constant", "value": value}
            assert_same_bits(agree(pinned, algorithm, call, image.to(cuda), served, **plain), call(image, **plain))


def test_an_impossible_pin_is_refused(device, monkeypatch):
    monkeypatch.setenv("TORCH_CONV_VARIANT", "no_such_kernel")
    image = make_image((9, 11), device=device)
    for name, call in {
        "filter2d": call_direct(3),
        "filter2d_separable": call_separable(3),
        "box_blur": call_box(3),
        "filter3d": lambda x: call_direct3d(3, 3, 3)(x.expand(2, 9, 11)),
        "box_blur3d": lambda x: call_box3d(3, 3, 3)(x.expand(2, 9, 11)),
    }.items():
        with refuses(ValueError, f"{name}: variant 'no_such_kernel' cannot serve this call"):
            call(image)
    monkeypatch.delenv("TORCH_CONV_VARIANT")
    assert call_direct(3)(image).shape == image.shape


@pytest.mark.parametrize(
    ("algorithm", "call"), [("direct", call_direct(3)), ("separable", call_separable(5)), ("box", call_box(9))]
)
def test_the_name_that_explain_prints_can_be_pinned(device, monkeypatch, algorithm, call):
    image = make_image((2, 40, 64))
    plan = str(torch_conv.explain(call, image.to(device)))
    variant = plan.split(f"{algorithm}/")[1].split()[0]
    expected = call(image.to(device))
    monkeypatch.setenv("TORCH_CONV_VARIANT", variant)
    assert_same_bits(call(image.to(device)), expected)
    name = {"direct": "filter2d", "separable": "filter2d_separable", "box": "box_blur"}[algorithm]
    args = {
        "direct": (make_window((3, 3)) / 3,),
        "separable": (make_window((5,)) / 5, make_window((5,), seed=8)),
        "box": ((9, 12),),
    }[algorithm]
    assert_within(
        expected,
        exact(name, image, *args),
        magnitude(name, image, *args),
        in_dtype=image.dtype,
        algorithm=algorithm,
        window=(9, 12),
    )
