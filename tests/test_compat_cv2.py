"""compat.cv2 against OpenCV: every function over its arguments, dtypes and depths.

Floats may differ by the rounding of sums. Integers may differ by one where a sum is near the middle of two of them;
the share of such pixels is bounded. A comment gives the reason of each wider bound.
"""

import doctest
import inspect
import itertools

import pytest
import torch
from opencv_cases import DTYPES, FUNCTIONS, image, window

np = pytest.importorskip("numpy")
cv2 = pytest.importorskip("cv2")

from torch_conv.compat import cv2 as ours  # noqa: E402

DEPTHS = {
    -1: None,
    cv2.CV_8U: "uint8",
    cv2.CV_16U: "uint16",
    cv2.CV_16S: "int16",
    cv2.CV_32F: "float32",
    cv2.CV_64F: "float64",
}
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


def agree(name, x, *args, taps=1.0, share=0.005, in_float32=False, **kwargs):
    """One call of both. `taps` is the sum of |taps|; `in_float32`, that OpenCV sums so whatever it returns.

    OpenCV may refuse calls that compat.cv2 serves (see the tests of refusals); False then.
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
    """Whether OpenCV accepts this combination; compat.cv2 must agree, and its refusal names the accepted values."""
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


PLACES = [  # border, whether the anchor is at the last row and at the last column, delta
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
        # Many sums of small windows are halfway; OpenCV rounds them up. 16 bits are more than float32 holds of sums.
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


DERIVATIVES = [("Sobel", (1, 0)), ("Sobel", (0, 1)), ("Sobel", (1, 1)), ("Sobel", (2, 0)), ("Laplacian", ())]


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_derivatives_and_means_of_a_constant(dtype):
    for value in np.random.default_rng(0).random(20) * 9:
        x = np.full((40, 41), 28 * value if dtype == "uint8" else value).astype(dtype)
        for depth in (-1, ours.CV_64F) if dtype != "float32" else (-1,):
            for order in ((1, 0), (0, 1)):
                assert not ours.Scharr(x, depth, *order).any()
            for (name, order), size in itertools.product(DERIVATIVES, (1, 3, 5, 7, 9, 31)):
                if order == (2, 0) and size == 1:
                    continue
                left = np.abs(getattr(ours, name)(x, depth, *order, ksize=size)).max()
                taps, unit = 2.0 ** (2 * size - 2) * (2 - len(order) // 2), 2.0 ** (-53 if dtype == "float64" else -24)
                exact = size <= (9 if dtype == "uint8" else 3)
                if dtype != "uint8" or depth == ours.CV_64F or exact:
                    assert left <= (0 if exact else size * unit * taps * x[0, 0]), (name, order, size, depth)
        if dtype != "uint8":
            for size in (3, 4, 15, 31):
                assert np.abs(ours.blur(x, (size, size)) - x).max() <= 8 * np.spacing(x[0, 0])


def test_examples():
    modules = [ours, *sorted({inspect.getmodule(getattr(ours, name)) for name in FUNCTIONS}, key=str)]
    names = {name: getattr(ours, name) for name in ours.__all__} | {"torch": torch}
    results = [doctest.testmod(m, extraglobs=names, optionflags=doctest.NORMALIZE_WHITESPACE) for m in modules]
    assert (sum(r.failed for r in results), sum(r.attempted for r in results)) == (0, 11)
