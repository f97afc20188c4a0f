"""The kernels on tensor cores whose sizes are run-time numbers: the bits of those that are compiled for one window."""

from functools import partial

import pytest
import torch
from strategies import lay_out, make_image
from tensor_core import A100, BORDERS, DIRECT, HALVES, SEPARABLE
from tolerance import assert_same_bits

import torch_conv

SIZES = {
    DIRECT: [(1, 1), (2, 2), (3, 3), (4, 9), (5, 5), (7, 7), (9, 2), (12, 13), (15, 15), (21, 29), (31, 31), (5, 31)],
    SEPARABLE: [(1, 1), (2, 2), (5, 5), (9, 9), (15, 15), (16, 17), (31, 9), (33, 47), (63, 63), (3, 15), (1, 20)],
}
SIXTEEN = [(kind, dtype) for kind in SIZES for dtype in HALVES]
names = {"ids": lambda value: getattr(value, "name", None)}
kinds = pytest.mark.parametrize(("kind", "dtype"), [(kind, dtype) for kind in SIZES for dtype in kind.dtypes], **names)


@pytest.fixture
def compare(pinned):
    """compare(call): the call serves on `mma_general` and on `mma`, with the same bits."""

    def run(call):
        got, want = pinned("mma_general", call), pinned("mma", call)
        assert got is not None and want is not None
        assert got.stride() == want.stride()
        assert_same_bits(got, want)

    return run


@pytest.mark.cuda
@pytest.mark.parametrize(
    ("kind", "dtype", "size"),
    [(kind, dtype, size) for kind, sizes in SIZES.items() for dtype in kind.dtypes for size in sizes],
    **names,
)
def test_windows(cuda, compare, kind, dtype, size):
    """Images with boundaries of tiles, chunks and segments; rows that start on 16 bytes, and rows that do not."""
    for i, (h, w) in enumerate([(133, 640), (70, 1040), (33, 128), (50, 517), (8, 16)]):
        image, windows = make_image((1, 2, h, w), dtype, device=cuda), kind.windows(size)
        border = BORDERS[(size[0] + i) % len(BORDERS)]
        compare(partial(kind.products, image, *windows, border))
        if size[0] <= h and size[1] <= w:
            compare(partial(kind.products, image, *windows, "constant", padding="valid"))


@pytest.mark.cuda
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "offset", "padded_rows"])
@kinds
def test_layouts_borders_and_anchors(cuda, compare, kind, dtype, layout, border):
    size = (7, 6) if kind is DIRECT else (15, 18)
    for channels, width in ((1, 136), (2, 131), (3, 144), (4, 263)):
        image = lay_out(make_image((2, channels, 40, width), dtype, device=cuda), layout)
        for anchor in (None, (0, 0), (-1, -1), (0, size[1] - 1)):
            options = {"border_type": border, "anchor": anchor, "value": 3.0}
            compare(partial(kind.products, image, *kind.windows(size), **options))


@pytest.mark.cuda
@pytest.mark.parametrize("lead", [(1, 3), (2, 1), (2, 3), (2,)])
@kinds
def test_windows_of_samples_and_channels(cuda, compare, kind, dtype, lead):
    image, windows = make_image((2, 3, 40, 144), dtype, device=cuda), kind.windows((9, 9), lead)
    for given in (windows, [window.to(cuda) for window in windows]):
        compare(partial(kind.products, image, *given))
    if kind is DIRECT:
        hwc = lay_out(image, "channels_last")
        for size in ((5, 5), (31, 31)):
            compare(partial(kind.products, hwc, *kind.windows(size, lead)))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("size", [(3, 3), (7, 7), (31, 31)])
def test_windows_of_the_images_dtype(cuda, compare, dtype, size):
    for width in (264, 263):
        image, (window,) = make_image((2, 3, 40, width), dtype, device=cuda), DIRECT.windows(size)
        for given in (window.to(dtype), window.to(dtype).to(cuda)):
            compare(partial(DIRECT.products, image, given))


@pytest.mark.cuda
@pytest.mark.parametrize("factor", [2.0**-30, 1e-4, 1.0, 3e4, float("inf")])
@kinds
def test_taps_of_any_magnitude(cuda, compare, kind, dtype, factor):
    image, windows = make_image((1, 1, 40, 144), dtype, device=cuda), kind.windows((15, 15))
    windows[0].flatten()[3] *= factor
    compare(partial(kind.products, image, *windows))
    compare(partial(kind.products, image, *(window * factor for window in windows)))


@pytest.mark.cuda
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("width", [640, 641])
@pytest.mark.parametrize(("kind", "dtype"), SIXTEEN, **names)
def test_nonfinite_pixels(cuda, compare, kind, dtype, value, width):
    image = make_image((2, 3, 133, width), dtype)
    for n, c, y, x in [(0, 0, 0, 0), (0, 1, 64, 127), (0, 2, 65, 128), (1, 0, 31, 63), (1, 2, 32, 300)]:
        image[n, c, y, x] = value
    for layout in ("contiguous", "channels_last"):
        given = lay_out(image, layout).to(cuda)
        for size in ((5, 5), (7, 7), (15, 15), (19, 20)):
            for border in ("reflect", "constant", "zero_output"):
                compare(partial(kind.products, given, *kind.windows(size), border))


@pytest.mark.cuda
@pytest.mark.parametrize("width", [640, 641])
@kinds
def test_on_shards(cuda, compare, kind, dtype, width):
    image, windows = make_image((1, 3, 133, width), dtype), kind.windows((15, 15))
    for layout in ("contiguous", "channels_last"):
        parts = torch_conv.split(lay_out(image, layout).to(cuda), [cuda] * 3, dim=-2)
        compare(lambda parts=parts: kind.products(parts, *windows).gather())


@kinds
def test_plans(monkeypatch, kind, dtype):
    """The variant is never chosen before `mma`; pinned, it serves what `mma` serves, and refuses in the same words."""
    image, chain = torch.empty(2, 3, 512, 1000, dtype=dtype), torch.empty(2, 3, 64, 64)
    assert f"{kind.name}: tensor_core/mma (" in kind.line(monkeypatch, image, (15, 15), algorithm="tensor_core")
    monkeypatch.setenv("TORCH_CONV_VARIANT", "mma_general")
    for size in SIZES[kind]:
        found = kind.line(monkeypatch, image, size, algorithm="tensor_core")
        assert found.startswith(f"{kind.name}: tensor_core/mma_general ("), found
    size = 31 if kind is DIRECT else 63
    for given, k, gpu in ((image, size + 1, None), (image, 5, A100), (chain, 5, None)):
        options = {"algorithm": "tensor_core"} | ({"gpu": gpu} if gpu else {})
        why = []
        for variant in ("mma", "mma_general"):
            monkeypatch.setenv("TORCH_CONV_VARIANT", variant)
            with pytest.raises(ValueError) as caught:
                kind.line(monkeypatch, given, (k, k), **options)
            why.append(str(caught.value).replace(f"'{variant}'", ""))
        assert why[0] == why[1]
