"""compat.cv2 against OpenCV: every function over its arguments, dtypes and depths; what goes in, comes out, is refused.

Floats may differ by the rounding of sums, and integers by one where a sum lies near the middle of two of them; how many
do is bounded too. Where a bound is wider, the reason stands beside it.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import itertools
import re
import sys
import warnings

import pytest
import torch
from refusals import flatten
from tolerance import assert_same_bits

np = pytest.importorskip("numpy")
cv2 = pytest.importorskip("cv2")

from torch_conv.compat import cv2 as ours  # noqa: E402

DTYPES = ["uint8", "uint16", "int16", "float32", "float64"]
DEPTHS = {
    -1: None,
    cv2.CV_8U: "uint8",
    cv2.CV_16U: "uint16",
    cv2.CV_16S: "int16",
    cv2.CV_32F: "float32",
    cv2.CV_64F: "float64",
}
FUNCTIONS = ["filter2D", "sepFilter2D", "GaussianBlur", "blur", "boxFilter", "Sobel", "Scharr", "Laplacian"]
SHAPES = [(40, 41), (23, 18, 3), (20, 20, 5), (1, 9), (7, 1, 2), (2, 3)]
BORDERS = [
    cv2.BORDER_CONSTANT,
    cv2.BORDER_REPLICATE,
    cv2.BORDER_REFLECT,
    cv2.BORDER_REFLECT_101,
    cv2.BORDER_REFLECT_101 | cv2.BORDER_ISOLATED,
]
FEW = [(40, 41), (23, 18, 3), (1, 9)]
MANY = 300  # pixels of an image from which the share of those that differ means something
combinations = [(dtype, depth) for dtype in DTYPES for depth in DEPTHS]
dtypes_and_depths = pytest.mark.parametrize(("dtype", "ddepth"), combinations)


def image(shape, dtype, seed=0, least=None):
    """Noise: normal for floats, the whole range for integers."""
    generator = np.random.default_rng([seed, *shape])
    if dtype.startswith("float"):
        return generator.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return generator.integers(limits.min if least is None else least, limits.max + 1, shape).astype(dtype)


def window(*shape, seed=1):
    """Taps whose absolute values add up to 1."""
    taps = np.random.default_rng([seed, *shape]).standard_normal(shape)
    return taps / np.abs(taps).sum()


def agree(name, x, *args, taps=1.0, share=0.005, in_float32=False, **kwargs):
    """One call of both. `taps` is the sum of |taps|; `in_float32`, that OpenCV sums so whatever it returns.

    OpenCV may refuse what is served here (see the tests of refusals); False then.
    """
    try:
        expected = getattr(cv2, name)(x, *args, **kwargs)
    except cv2.error:
        return False
    got = getattr(ours, name)(x, *args, **kwargs)
    call = f"{name}({x.dtype} {x.shape}, {args}, {kwargs})"
    assert isinstance(got, np.ndarray), call
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape), call
    assert got.flags.c_contiguous, call
    scale = taps * np.abs(x.astype(np.float64)).max() + abs(kwargs.get("delta", 0))
    error = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    if got.dtype.kind == "f":
        relative = 1e-12 if got.dtype == np.float64 and not in_float32 else 2e-6
        assert error.max() <= relative * scale, f"{call}: error {error.max() / scale:.2e} of the sum of |taps * pixels|"
        return True
    # A sum beyond 2^24 is not exact in float32: one unit of its last place.
    limit = 1 + int(2.0**-24 * scale)
    assert error.max() <= limit, f"{call}: {error.max():.0f} levels, expected at most {limit}"
    if limit == 1 and error.size >= MANY:
        assert (error > 0).mean() <= share, f"{call}: {(error > 0).mean():.4f} of the pixels differ, at most {share}"
    return True


def takes(name, dtype, depth, *args, **kwargs):
    """Whether OpenCV has this combination, which both then must; a refusal of ours names what is taken."""
    x = image((5, 6), dtype)
    try:
        getattr(cv2, name)(x, depth, *args, **kwargs)
    except cv2.error:
        with pytest.raises(ValueError) as caught:
            getattr(ours, name)(x, depth, *args, **kwargs)
        assert str(caught.value).startswith(f"{name}: ddepth for an image of {dtype} must be -1 or one of CV_")
        return False
    result = getattr(ours, name)(x, depth, *args, **kwargs)
    assert result.dtype == (DEPTHS[depth] or dtype)
    return True


PLACES = [  # border, whether the anchor lies at the last row and at the last column, delta
    (cv2.BORDER_CONSTANT, False, False, 0),
    (cv2.BORDER_REPLICATE, True, False, 0),
    (cv2.BORDER_REFLECT, False, False, 3.3),
    (cv2.BORDER_REFLECT_101, False, True, -2.5),
    (cv2.BORDER_REFLECT_101, False, False, 0),
]


def places(height, width):
    for border, last_row, last_column, delta in PLACES:
        anchor = (width - 1 if last_column else -1, height - 1 if last_row else -1)
        yield {"borderType": border, "anchor": anchor, "delta": delta}


@dtypes_and_depths
def test_filter2d(dtype, ddepth):
    if not takes("filter2D", dtype, ddepth, window(3, 3)):
        return
    kinds = itertools.cycle(["float32", "float64"])
    for shape, size in itertools.product(SHAPES, [(3, 3), (5, 5), (2, 4), (1, 7), (7, 8), (13, 13)]):
        for options in places(*size):
            x, k = image(shape, dtype), window(*size).astype(next(kinds))
            # From 50 taps on, OpenCV multiplies spectra, of integers in float32.
            by_spectra = size[0] * size[1] >= 50 and dtype != "float64"
            assert agree("filter2D", x, ddepth, k, in_float32=by_spectra, **options)


@pytest.mark.parametrize("kind", ["uint8", "int16", "int32", "int64", "float16"])
def test_kernels_of_other_dtypes(kind):
    for dtype in DTYPES:
        x, k = image((40, 41), dtype), np.array([[1, 2, 0], [0, 3, 1]]).astype(kind)
        assert agree("filter2D", x, -1, k, taps=7)
        assert agree("filter2D", x, -1, k[:, :, None], taps=7)
        assert agree("sepFilter2D", x, -1, k[0], k[1], taps=12)


@dtypes_and_depths
def test_sep_filter2d(dtype, ddepth):
    if not takes("sepFilter2D", dtype, ddepth, window(3), window(3)):
        return
    kinds = itertools.cycle(["float32", "float64"])
    for shape, size, symmetric in itertools.product(FEW, [(3, 3), (5, 5), (2, 4), (1, 7), (15, 9)], [False, True]):
        for options in places(*size):
            kx, ky, kind = window(size[1]), window(size[0]), next(kinds)
            if symmetric:  # windows for which OpenCV has code of its own; 1/4 of ones, also one in fixed point
                kx, ky = (kx + kx[::-1]) / 2, np.full(size[0], 0.25)
            x, taps = image(shape, dtype), np.abs(kx).sum() * np.abs(ky).sum()
            assert agree("sepFilter2D", x, ddepth, kx.astype(kind), ky.astype(kind), taps=taps, **options)


def test_sep_filter2d_in_fixed_point():
    # 1/16 of the sums lie halfway; OpenCV rounds them up, half of them are rounded down here
    for shape in SHAPES:
        k = np.array([1, 2, 1], np.float32) / 4
        assert agree("sepFilter2D", image(shape, "uint8"), -1, k[:, None], k[None], share=0.06)


@pytest.mark.parametrize("normalize", [True, False])
@dtypes_and_depths
def test_box_filter(dtype, ddepth, normalize):
    assert takes("boxFilter", dtype, ddepth, (3, 3), normalize=normalize)
    # OpenCV turns negative sums of int16 into the largest unsigned number instead of 0.
    unsigned = dtype == "int16" and DEPTHS[ddepth] in ("uint8", "uint16")
    for shape, size in itertools.product(SHAPES, [(3, 3), (1, 5), (2, 2), (4, 3), (17, 16), (31, 31)]):
        x, taps = image(shape, dtype, least=0 if unsigned else None), 1 if normalize else size[0] * size[1]
        # Means of even sizes lie halfway often, and OpenCV rounds those of 8 bits up, some of them even from below.
        share = 0.45 if normalize and size[0] * size[1] % 2 == 0 else 0.005
        for border, row in itertools.product(BORDERS, [-1, size[1] - 1]):
            options = {"anchor": (0 if row >= 0 else -1, row), "borderType": border}
            served = agree("boxFilter", x, ddepth, size, normalize=normalize, taps=taps, share=share, **options)
            assert served or 1 in shape[:2]  # there OpenCV refuses anchors that lie in the window that was asked for
            if normalize and ddepth == -1:
                assert agree("blur", x, size, share=share, **options) or 1 in shape[:2]


@pytest.mark.parametrize(("dx", "dy"), [(1, 0), (0, 1), (1, 1), (2, 0), (0, 2), (2, 1), (3, 0)])
@dtypes_and_depths
def test_sobel(dtype, ddepth, dx, dy):
    if not takes("Sobel", dtype, ddepth, 1, 0):
        return
    sizes = [-1, 1, 3, 5, 7, 9]
    if "float" in dtype and "float" in (DEPTHS[ddepth] or dtype):
        sizes += [31]  # integers are out of range there, in OpenCV's sums too
    for size in sizes:
        if (size == -1 and dx + dy > 1) or max(dx, dy) >= max(size, 3):
            with pytest.raises(cv2.error):
                cv2.Sobel(image((5, 6), dtype), ddepth, dx, dy, ksize=size)
            with pytest.raises(ValueError, match="^Sobel: dx and dy "):
                ours.Sobel(image((5, 6), dtype), ddepth, dx, dy, ksize=size)
            continue
        taps = {-1: 32, 1: 8}.get(size, 2.0 ** (2 * size - 2))
        for shape, (scale, delta, border) in itertools.product(FEW, SCALES):
            options = {"ksize": size, "scale": scale, "delta": delta, "borderType": border}
            # Sums of 8 bits times 0.3, plus 1.7, lie halfway in one of 10 cases: OpenCV's float32 decides otherwise.
            share = 0.11 if scale == 0.3 else 0.02
            assert agree("Sobel", image(shape, dtype), ddepth, dx, dy, taps=taps * scale, share=share, **options)


SCALES = [  # scale, delta, border
    (1, 0, cv2.BORDER_REFLECT_101),
    (1 / 8, 0, cv2.BORDER_REPLICATE),
    (0.3, 1.7, cv2.BORDER_CONSTANT),
    (2, 0, cv2.BORDER_REFLECT),
]


@dtypes_and_depths
def test_scharr(dtype, ddepth):
    if not takes("Scharr", dtype, ddepth, 1, 0):
        return
    for shape, (dx, dy), (scale, delta, border) in itertools.product(SHAPES, [(1, 0), (0, 1)], SCALES):
        options = {"scale": scale, "delta": delta, "borderType": border}
        share = 0.11 if scale == 0.3 else 0.02
        assert agree("Scharr", image(shape, dtype), ddepth, dx, dy, taps=32 * scale, share=share, **options)


@pytest.mark.parametrize("size", [1, 3, 5, 7, 9, 31])
@dtypes_and_depths
def test_laplacian(dtype, ddepth, size):
    if size == 31 and not ("float" in dtype and "float" in (DEPTHS[ddepth] or dtype)):
        return  # integers are out of range there
    if not takes("Laplacian", dtype, ddepth, ksize=size):
        return
    taps = 16 if size <= 3 else 2 * 2.0 ** (2 * size - 2)
    for shape, (scale, delta, border) in itertools.product(SHAPES, SCALES):
        options = {"ksize": size, "scale": scale, "delta": delta, "borderType": border}
        share = 0.11 if scale == 0.3 else 0.02
        # From 5 on OpenCV sums integers and float32 in float32; OpenCV 4 keeps the scaled taps of 1 and 3 so.
        in_float32 = dtype != "float64" if size >= 5 else scale == 0.3 and cv2.__version__.startswith("4.")
        x = image(shape, dtype)
        assert agree("Laplacian", x, ddepth, taps=taps * scale, share=share, in_float32=in_float32, **options)


GAUSSIANS = [  # size, sigma along x, sigma along y
    *(((size, size), 0, 0) for size in (1, 3, 5, 7, 9, 11, 31)),
    ((5, 3), 1.2, 0.7),
    ((0, 0), 1, 0),
    ((0, 0), 2.5, 0.6),
    ((0, 0), 20, 0),
    ((0, 7), 1.7, 0),
    ((-1, 9), 0.4, 3),
    ((1, 5), 2, 0),
    ((15, 1), 0, 2),
    ((3, 3), 0.01, 0),
    ((3, 9), 0, 0),
    ((61, 61), 4, 0),
    ((31, 31), 9, -1),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("size", "sigma_x", "sigma_y"), GAUSSIANS)
def test_gaussian_blur(dtype, size, sigma_x, sigma_y):
    for shape, border in itertools.product(SHAPES, BORDERS + [cv2.BORDER_WRAP] * dtype.startswith("uint")):
        # Of small windows many sums lie halfway; OpenCV rounds them up. 16 bits are more than float32 holds of sums.
        share = 0.06 if max(size) <= 5 and sigma_x == 0 else 0.02 if dtype == "uint16" else 0.005
        options = {"sigmaY": sigma_y, "borderType": border}
        assert agree("GaussianBlur", image(shape, dtype), size, sigma_x, share=share, **options)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize(("size", "sigma"), [((9, 9), 1.3), ((25, 25), 3), ((0, 0), 7.7), ((0, 0), 40)])
def test_taps_in_fixed_point(dtype, size, sigma):
    # On a single bright pixel, taps show; those of a wide Gaussian are a few units of 1/256.
    x = np.zeros((201, 201), dtype)
    x[100] = np.iinfo(dtype).max
    assert agree("GaussianBlur", x, size, sigma, borderType=cv2.BORDER_CONSTANT, share=1e-4)


def test_gaussian_blur_of_one_row_or_column():
    # there OpenCV leaves a pass out, whatever its size, unless zeros stand outside
    for dtype, (shape, size) in itertools.product(DTYPES, [((1, 30), (3, 4)), ((30, 1), (6, 3)), ((1, 1, 2), (8, 8))]):
        for border in BORDERS[1:]:
            assert agree("GaussianBlur", image(shape, dtype), size, 1.5, borderType=border)
        for module, error in ((ours, ValueError), (cv2, cv2.error)):
            with pytest.raises(error):
                module.GaussianBlur(image(shape, dtype), size, 1.5, borderType=cv2.BORDER_CONSTANT)


def call_of(name, x):
    """The function's results with nothing but what must be given."""
    args = {
        "filter2D": (-1, window(4, 3)),
        "sepFilter2D": (-1, window(3), window(4)),
        "GaussianBlur": ((5, 3), 0),
        "blur": ((4, 3),),
        "boxFilter": (-1, (4, 3)),
        "Sobel": (-1, 1, 0),
        "Scharr": (-1, 0, 1),
        "Laplacian": (-1,),
    }[name]
    return lambda module, given=x, **kwargs: getattr(module, name)(given, *args, **kwargs)


functions = pytest.mark.parametrize("name", FUNCTIONS)


@functions
def test_arguments_are_opencvs(name):
    documented = re.match(rf"{name}\(([^)]*)\)", getattr(cv2, name).__doc__).group(1)
    arguments = re.findall(r"\w+", documented)
    mine = list(inspect.signature(getattr(ours, name)).parameters)
    assert mine[: len(arguments)] == arguments
    assert mine[len(arguments) :] in ([], ["hint"])  # OpenCV has it from 4.11 on


@functions
@pytest.mark.parametrize("dtype", DTYPES)
def test_defaults_are_opencvs(name, dtype):
    call = call_of(name, image((14, 15, 4), dtype))
    error = np.abs(call(ours).astype(np.float64) - call(cv2).astype(np.float64)).max()
    assert error <= 1e-5 if "float" in dtype else error <= 1


def test_constants_are_opencvs():
    names = [name for name in ours.__all__ if name.isupper()]
    assert len(names) == 18
    for name in names:
        if hasattr(cv2, "ALGO_HINT_DEFAULT") or "HINT" not in name:  # OpenCV has them from 4.11 on
            assert getattr(ours, name) == getattr(cv2, name), name
    assert sorted(set(ours.__all__) - set(names)) == sorted(FUNCTIONS)


def close(got, expected):
    error = (got.double() - torch.as_tensor(expected).double().to(got.device)).abs().max()
    return error <= (1 if not got.is_floating_point() else 1e-5 if got.dtype == torch.float32 else 1e-12)


@functions
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(14, 15), (14, 15, 4), (14, 15, 1)])
def test_tensors_give_tensors(device, name, dtype, shape):
    x = image(shape, dtype)
    call = call_of(name, x)
    given = torch.from_numpy(x).to(device)
    before = given.clone()
    got = call(ours, given)
    assert isinstance(got, torch.Tensor)
    assert (got.device, got.dtype, got.shape) == (given.device, given.dtype, shape if shape[-1] != 1 else shape[:2])
    assert got.is_contiguous()
    assert_same_bits(given, before)
    assert close(got, call(ours))


@functions
def test_channels_are_read_through_their_strides(device, name):
    planes = torch.from_numpy(image((4, 14, 15), "float32")).to(device)
    call = call_of(name, planes.permute(1, 2, 0))
    got = call(ours)
    assert got.permute(2, 0, 1).is_contiguous()  # as the image lay
    assert close(got, call(ours, planes.permute(1, 2, 0).contiguous()).cpu())
    wide = torch.from_numpy(image((14, 30, 7), "float32")).to(device)
    part = wide[2:, 3:20:2, 1:5]
    assert close(call(ours, part), call(ours, part.contiguous()).cpu())


@functions
def test_any_array_is_read(name):
    x = image((28, 30, 4), "float32")
    call = call_of(name, x)
    views = [
        x[::-1],
        x[:, ::-2],
        x[3:, 2:9, 1:3],
        x.transpose(1, 0, 2),
        np.moveaxis(x, 2, 0)[..., None][0],
        x.astype(">f4"),
        np.broadcast_to(x[:1], x.shape),
        np.ndarray((5, 4), "float32", x.tobytes(), offset=1, strides=(17, 4)),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for view in views:
            copy = np.array(view, np.float32, order="C")
            expected = call(cv2, copy)
            got = call(ours, view)
            assert got.flags.c_contiguous and got.flags.writeable and got.dtype == np.float32
            np.testing.assert_allclose(got, expected, atol=1e-5)
            np.testing.assert_array_equal(view, copy)


@functions
@pytest.mark.parametrize("kind", ["array", "tensor"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_dst(device, name, kind, dtype):
    if kind == "array" and device != "cpu":
        return
    x = image((14, 15, 4), dtype)
    given = x if kind == "array" else torch.from_numpy(x).to(device)

    def same(a, b):
        return bool((a == b).all())

    def blank(shape, of=dtype):
        return np.zeros(shape, of) if kind == "array" else torch.zeros(shape, dtype=getattr(torch, of), device=device)

    for more in [{}, {"delta": 2.25}] if "delta" in inspect.signature(getattr(ours, name)).parameters else [{}]:
        call = call_of(name, given)
        expected = call(ours, **more)
        for dst in (blank(x.shape), blank((14, 18, 6))[:, 2:17, :4], blank((4, 14, 15)).swapaxes(0, 1).swapaxes(1, 2)):
            assert call(ours, dst=dst, **more) is dst
            assert same(dst, expected)
        for dst in (blank((14, 14, 4)), blank((14, 15)), blank((14, 15, 4), "int16"), blank((14,))):
            other = call(ours, dst=dst, **more)  # as OpenCV, which allocates another
            assert other is not dst and same(other, expected) and not dst.any()
        one = blank((14, 15, 1))
        assert call(ours, given[:, :, 1], dst=one, **more) is one
        assert same(one[:, :, 0], call(ours, given[:, :, 1], **more))
        # In place, and into a part of itself.
        own = given.copy() if kind == "array" else given.clone()
        assert call(ours, own, dst=own, **more) is own
        assert same(own, expected)
        own = given.copy() if kind == "array" else given.clone()
        expected = call(ours, own[:-1], **more)
        assert same(call(ours, own[:-1], dst=own[1:], **more), expected) and same(own[1:], expected)


def test_sums_are_rounded_once():
    # 0.5 from the sum and 0.25 + 0.25 from delta: rounded twice, these would be 2
    x = np.full((5, 5), 2, np.uint8)
    half = np.array([[0.625]])
    assert (ours.filter2D(x, -1, half, delta=0.25) == 2).all()  # 1.5 is rounded to even
    assert (ours.filter2D(x, -1, half, delta=0.2) == 1).all()
    assert (ours.filter2D(x, -1, half, delta=300) == 255).all()
    assert (ours.filter2D(x, -1, half, delta=-300) == 0).all()
    assert (ours.Sobel(x.astype(np.int16), cv2.CV_16S, 1, 0, delta=0.5) == 0).all()


f, k3 = np.zeros((5, 6), np.float32), np.ones((3, 3), np.float32)
TAKEN = "BORDER_CONSTANT, BORDER_REPLICATE, BORDER_REFLECT or BORDER_REFLECT_101"
VALUES = {
    "filter2D": [
        ((f, -1, k3), {"anchor": (3, 0)}, "anchor must lie in the window of 3x3, got (3, 0)"),
        ((f, -1, k3), {"anchor": (0, -2)}, "anchor must lie in the window of 3x3, got (0, -2)"),
        ((f, -1, np.ones((3, 3, 2), np.float32)), {}, "kernel must be (kH, kW), got (3, 3, 2)"),
        ((f, -1, np.ones((0, 3), np.float32)), {}, "kernel must be (kH, kW), got (0, 3)"),
        ((f, -1, k3), {"borderType": 3}, f"borderType must be {TAKEN}, got BORDER_WRAP"),
        ((f, -1, k3), {"borderType": 5}, f"borderType must be {TAKEN}, got 5"),
        ((f, -1, k3), {"borderType": 16 | 3}, f"borderType must be {TAKEN}, got BORDER_WRAP"),
        ((f, 0, k3), {}, "ddepth for an image of float32 must be -1 or one of CV_32F, got CV_8U"),
        ((f, 4, k3), {}, "ddepth for an image of float32 must be -1 or one of CV_32F, got 4"),
        ((f[:0], -1, k3), {}, "src must be (H, W) or (H, W, C) and not empty, got (0, 6)"),
        ((f.reshape(5, 3, 2, 1), -1, k3), {}, "src must be (H, W) or (H, W, C) and not empty, got (5, 3, 2, 1)"),
    ],
    "sepFilter2D": [
        ((f, -1, k3, k3[0]), {}, "kernelX must be one row or one column, got (3, 3)"),
        ((f, -1, k3[0], k3[0, :0]), {}, "kernelY must be one row or one column, got (0,)"),
        ((f, -1, k3[0], k3[0]), {"borderType": 3}, f"borderType must be {TAKEN}, got BORDER_WRAP"),
        (
            (f.astype(np.float64), 5, k3[0], k3[0]),
            {},
            "ddepth for an image of float64 must be -1 or one of CV_8U, CV_16U, CV_16S, CV_64F, got CV_32F",
        ),
    ],
    "GaussianBlur": [
        ((f, (4, 3), 1), {}, "ksize must be odd, or 0 where a sigma is given, got (4, 3)"),
        ((f, (0, 0), 0), {}, "ksize must be odd, or 0 where a sigma is given, got (0, 0)"),
        ((f, (0, 3), 0), {"sigmaY": 1}, "ksize must be odd, or 0 where a sigma is given, got (0, 3)"),
        ((f, (3, 3), 1), {"borderType": 3}, f"borderType must be {TAKEN}, got BORDER_WRAP"),
        ((f.astype(np.int16), (3, 3), 1), {"borderType": 3}, f"borderType must be {TAKEN}, got BORDER_WRAP"),
    ],
    "blur": [
        ((f, (0, 3)), {}, "ksize must be positive, got (0, 3)"),
        ((f.astype(np.uint8), (3, 3)), {"borderType": 3}, f"borderType must be {TAKEN}, got BORDER_WRAP"),
    ],
    "boxFilter": [
        ((f, -1, (3, -1)), {}, "ksize must be positive, got (3, -1)"),
        (
            (f, 4, (3, 3)),
            {},
            "ddepth for an image of float32 must be -1 or one of CV_8U, CV_16U, CV_16S, CV_32F, CV_64F, got 4",
        ),
    ],
    "Sobel": [
        ((f, -1, 0, 0), {}, "dx and dy must not be negative and not both 0, got 0 and 0"),
        ((f, -1, -1, 2), {}, "dx and dy must not be negative and not both 0, got -1 and 2"),
        ((f, -1, 1, 0), {"ksize": 2}, "ksize must be odd and not larger than 31, got 2"),
        ((f, -1, 1, 0), {"ksize": 33}, "ksize must be odd and not larger than 31, got 33"),
        ((f, -1, 3, 0), {"ksize": 3}, "dx and dy must be less than the window's size, got 3 and 0 for ksize 3"),
        ((f, -1, 3, 0), {"ksize": 1}, "dx and dy must be less than the window's size, got 3 and 0 for ksize 1"),
        ((f, -1, 1, 1), {"ksize": -1}, "dx and dy of Scharr's windows must be 1 and 0 or 0 and 1, got 1 and 1"),
    ],
    "Scharr": [
        ((f, -1, 1, 1), {}, "dx and dy of Scharr's windows must be 1 and 0 or 0 and 1, got 1 and 1"),
        ((f, -1, 2, 0), {}, "dx and dy of Scharr's windows must be 1 and 0 or 0 and 1, got 2 and 0"),
    ],
    "Laplacian": [
        ((f, -1), {"ksize": 2}, "ksize must be odd, positive and not larger than 31, got 2"),
        ((f, -1), {"ksize": -1}, "ksize must be odd, positive and not larger than 31, got -1"),
        ((f, -1), {"ksize": 33}, "ksize must be odd, positive and not larger than 31, got 33"),
    ],
}
TYPES = {
    "filter2D": [
        (([[1.0]], -1, k3), {}, "src must be a numpy array or a torch tensor, got list"),
        ((f, -1, [[1.0]]), {}, "kernel must be a numpy array or a torch tensor, got list"),
        ((f.astype(np.float16), -1, k3), {}, "src must be uint8, uint16, int16, float32 or float64, got float16"),
        ((f.astype(np.int8), -1, k3), {}, "src must be uint8, uint16, int16, float32 or float64, got int8"),
        ((f, -1.0, k3), {}, "ddepth must be an integer, got float"),
        ((f, -1, k3), {"anchor": 1}, "anchor must be two integers, x first, got 1"),
        ((f, -1, k3), {"dst": [1.0]}, "dst must be a numpy array, as src is, got list"),
        ((f, -1, k3.astype(complex)), {}, "kernel must be real numbers, got complex128"),
    ],
    "sepFilter2D": [
        ((f, -1, k3[0], np.ones(3)), {}, "kernelX and kernelY must have one dtype, got float32 and float64"),
    ],
    "GaussianBlur": [((f, 3, 1), {}, "ksize must be two integers, x first, got 3")],
    "blur": [
        ((f, 3), {}, "ksize must be two integers, x first, got 3"),
        ((f, (3.0, 3)), {}, "ksize must be two integers, x first, got (3.0, 3)"),
    ],
    "boxFilter": [((f > 0, -1, (3, 3)), {}, "src must be uint8, uint16, int16, float32 or float64, got bool")],
    "Sobel": [((f, -1, 1.0, 0), {}, "dx must be an integer, got float")],
    "Laplacian": [((f, -1), {"ksize": 3.0}, "ksize must be an integer, got float")],
}
# Served or written into elsewhere by OpenCV 5, by the way it happens to compute.
NOT_REFUSED_THERE = ("real numbers", "got int8", "got float16", "got bool")


@pytest.mark.parametrize(("name", "args", "kwargs", "sentence"), flatten(VALUES))
def test_refused_values(name, args, kwargs, sentence):
    with pytest.raises(ValueError) as caught:
        getattr(ours, name)(*args, **kwargs)
    assert str(caught.value) == f"{name}: {sentence}"
    with pytest.raises(cv2.error):
        getattr(cv2, name)(*args, **kwargs)


@pytest.mark.parametrize(("name", "args", "kwargs", "sentence"), flatten(TYPES))
def test_refused_types(name, args, kwargs, sentence):
    with pytest.raises(TypeError) as caught:
        getattr(ours, name)(*args, **kwargs)
    assert str(caught.value) == f"{name}: {sentence}"
    if not sentence.endswith(NOT_REFUSED_THERE):
        with pytest.raises((cv2.error, TypeError)):
            getattr(cv2, name)(*args, **kwargs)


GRADIENT = "dst does not support gradients, but an argument requires one; call it under torch.no_grad() or without dst"
INTO_DST = {
    "filter2D": (-1, torch.ones(3, 3)),
    "sepFilter2D": (-1, torch.ones(3), torch.ones(3)),
    "GaussianBlur": ((3, 3), 1.0),
    "blur": ((3, 3),),
    "boxFilter": (-1, (3, 3)),
    "Sobel": (-1, 1, 0),
    "Scharr": (-1, 0, 1),
    "Laplacian": (-1,),
}


@pytest.mark.parametrize("name", INTO_DST)
def test_gradients_and_dst(name):
    """Refused under the name that was called, and nothing is written; OpenCV's other image is no dst."""
    call, args = getattr(ours, name), INTO_DST[name]
    image, dst = torch.from_numpy(f.copy()).requires_grad_(), torch.zeros(f.shape)
    for given, target in ((image, dst), (image, image), (image.detach(), torch.zeros(f.shape, requires_grad=True))):
        with pytest.raises(ValueError) as caught:
            call(given, *args, dst=target)
        assert str(caught.value) == f"{name}: {GRADIENT}"
    assert not dst.any()
    assert call(image, *args, dst=torch.zeros(2, 2)).requires_grad
    with torch.no_grad():
        assert torch.equal(call(image, *args, dst=dst), call(image, *args))


@pytest.mark.parametrize("name", INTO_DST)
def test_refusals_of_the_functions_have_the_name_that_was_called(name):
    with pytest.raises(TypeError, match=f"^{name}: input must be a dense tensor, got sparse_coo$"):
        getattr(ours, name)(torch.from_numpy(f).to_sparse(), *INTO_DST[name])


def test_refused_tensors_and_targets():
    x = torch.from_numpy(f)
    with pytest.raises(TypeError) as caught:
        ours.blur(x, (3, 3), dst=f)
    assert str(caught.value) == "blur: dst must be a torch tensor, as src is, got ndarray"
    with pytest.raises(TypeError) as caught:
        ours.blur(x.bfloat16(), (3, 3))
    assert str(caught.value) == "blur: src must be uint8, uint16, int16, float32 or float64, got bfloat16"
    read_only = f.copy()
    read_only.flags.writeable = False
    for dst in (read_only, f[::-1]):
        with pytest.raises(ValueError) as caught:
            ours.blur(f, (3, 3), dst=dst)
        expected = "blur: dst must be writable, in native byte order and without negative strides"
        assert str(caught.value) == expected
    with pytest.raises(ValueError) as caught:
        ours.blur(f, (3, 3), anchor=(3, 0))  # OpenCV reads beyond the image
    assert str(caught.value) == "blur: anchor must lie in the window of 3x3, got (3, 0)"
    with pytest.raises(ValueError) as caught:
        ours.GaussianBlur(f, (0, 0), float("inf"))
    assert str(caught.value) == "GaussianBlur: sigmaX and sigmaY must be finite, got inf and 0.0"


def test_opencv_is_not_needed(monkeypatch):
    expected = ours.blur(f, (3, 3))
    monkeypatch.setitem(sys.modules, "cv2", None)
    importlib.reload(ours)
    assert np.array_equal(ours.blur(f, (3, 3)), expected)


def test_examples():
    result = doctest.testmod(ours, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert (result.failed, result.attempted) == (0, 11)


def test_sigmas_that_require_a_gradient_are_refused():
    sigma = torch.tensor(1.0, requires_grad=True)
    with pytest.raises(RuntimeError) as refused:
        ours.GaussianBlur(torch.ones(4, 5), (3, 3), sigma)
    assert str(refused.value) == "GaussianBlur: sigmas that require a gradient are not served"
