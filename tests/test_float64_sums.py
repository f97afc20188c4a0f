"""The operators for compat.cv2 that sum in float64 whatever the image's dtype: the bits of a float64 copy, no copy."""

import pytest
import torch
from opencv_cases import DTYPES as NAMES
from strategies import BORDERS, DTYPES, lay_out, make_image, make_window
from tolerance import assert_same_bits

import torch_conv

OPS = torch.ops.torch_conv
LAYOUTS = ["contiguous", "channels_last", "transposed", "every_other", "offset", "padded_rows"]
SHAPES = [(2, 3, 21, 33), (1, 5, 9, 130), (1, 1, 40, 1), (1, 2, 1, 17), (40, 3, 6, 7), (1, 1, 19, 1100)]


def doubles(*shape):
    return make_window(shape, torch.float64)


def agree(run, expected, image):
    for layout in LAYOUTS:
        x = lay_out(image, layout)
        out = torch.full_like(x, float("nan"), dtype=torch.float64)
        run(x, out)
        assert_same_bits(out, expected)
    strided = torch.empty(*image.shape, 2, dtype=torch.float64)[..., 0]
    run(image, strided)
    assert_same_bits(strided, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_bits_of_a_float64_copy(shape, dtype):
    image = make_image(shape, dtype)
    for border in BORDERS:
        for ky, kx in ((3, 3), (1, 5), (6, 4), (7, 1)):
            at = (0, kx - 1)
            window, x, y = doubles(ky, kx), doubles(kx), doubles(ky)
            expected = torch_conv.filter2d(image.double(), window, border, anchor=at)
            agree(lambda i, out, w=window, b=border, a=at: OPS._filter2d_in_float64(i, w, b, *a, out), expected, image)
            expected = torch_conv.filter2d_separable(image.double(), x, y, border, anchor=at)
            agree(
                lambda i, out, x=x, y=y, b=border, a=at: OPS._filter2d_separable_in_float64(i, x, y, b, *a, out),
                expected,
                image,
            )
            # The taps of every other dtype are widened.
            expected = torch_conv.filter2d(image.double(), window.float(), border)
            out = torch.empty_like(expected)
            OPS._filter2d_in_float64(image, window.float(), border, (ky - 1) // 2, (kx - 1) // 2, out)
            assert_same_bits(out, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_boxes(shape, dtype):
    """Over floats those of a float64 copy; sums of integers are exact, and so means are the quotients' nearest."""
    image = make_image(shape, dtype)
    for border in ("constant", "replicate", "reflect", "symmetric", "circular"):
        for ky, kx in ((3, 3), (1, 4), (15, 15), (9, 2), (20, 60)):
            at = (ky - 1, 0)
            total = torch_conv.filter2d(image.double(), torch.ones(ky, kx), border, anchor=at, algorithm="direct")
            for normalized in (True, False):
                expected = torch_conv.box_blur(image.double(), (ky, kx), border, normalized=normalized, anchor=at)
                if not dtype.is_floating_point:
                    expected = total / (ky * kx) if normalized else total
                agree(
                    lambda i, out, k=(ky, kx), b=border, n=normalized, a=at: OPS._box2d_in_float64(
                        i, *k, b, n, *a, out
                    ),
                    expected,
                    image,
                )


def test_threads_change_nothing():
    image = make_image((700, 300), torch.uint16)
    results = []
    for threads in (1, 4):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            out = torch.empty(700, 300, dtype=torch.float64)
            OPS._filter2d_separable_in_float64(image, doubles(5), doubles(5), "reflect", 2, 2, out)
        finally:
            torch.set_num_threads(before)
        results.append(out)
    assert_same_bits(*results)


@pytest.mark.parametrize("border", ["constant", "reflect"])
def test_every_mean_is_the_nearest(border):
    """Quotients by one multiplication and its remainder: 65,536 sums of neighbouring columns for each area."""
    np = pytest.importorskip("numpy")
    values = np.arange(2**16)
    for height in (1, 2, 3, 5, 6, 7, 11, 13, 49, 91, 100, 127, 255):
        image = np.minimum(values[None] + np.arange(height)[:, None] * 7, 65535).astype(np.uint16)
        out = torch.empty(height, 2**16, dtype=torch.float64)
        OPS._box2d_in_float64(torch.from_numpy(image), height, 1, border, True, height // 2, 0, out)
        sums = image.astype(np.int64).sum(0)
        assert np.array_equal(out[height // 2].numpy(), sums / height), height
    for dtype, height, width in ((np.uint8, 17, 19), (np.uint16, 255, 257), (np.uint16, 299, 599)):  # the last: 2^33
        image = np.random.default_rng(height).integers(np.iinfo(dtype).max // 2, np.iinfo(dtype).max, (300, 600), dtype)
        padded = np.zeros((300 + height, 600 + width), np.int64)
        padded[height // 2 + 1 :, width // 2 + 1 :][:300, :600] = image
        total = padded.cumsum(0).cumsum(1)
        sums = total[height:, width:] - total[:-height, width:] - total[height:, :-width] + total[:-height, :-width]
        out = torch.empty(300, 600, dtype=torch.float64)
        given = (height, width, "constant", True, height // 2, width // 2, out)
        OPS._box2d_in_float64(torch.from_numpy(image), *given)
        assert np.array_equal(out.numpy(), sums / (height * width)), (height, width)
    image = np.full((300, 600), 65535, np.uint16)  # sums of more than 32 bits
    out = torch.empty(300, 600, dtype=torch.float64)
    OPS._box2d_in_float64(torch.from_numpy(image), 299, 599, "reflect", False, 149, 299, out)
    assert (out == 299 * 599 * 65535).all()


def test_refusals():
    image, out = make_image((9, 11), torch.uint8), torch.empty(9, 11, dtype=torch.float64)
    for call, sentence in (
        (lambda: OPS._filter2d_in_float64(image, doubles(3), "reflect", 1, 1, out), "filter2d: kernel must have 2, 3"),
        (lambda: OPS._filter2d_in_float64(image, doubles(3, 3), "reflect", 3, 1, out), "filter2d: anchor must lie in"),
        (lambda: OPS._filter2d_in_float64(image, doubles(3, 3), "round", 1, 1, out), "filter2d: border_type must be"),
        (
            lambda: OPS._filter2d_separable_in_float64(image, doubles(3), doubles(3), "reflect", 1, 1, out[:8]),
            "filter2d_separable: out must have shape (9, 11), got (8, 11)",
        ),
        (lambda: OPS._box2d_in_float64(image, 0, 3, "reflect", True, 0, 1, out), "box_blur: kernel_size must be"),
        (lambda: OPS._box2d_in_float64(out, 3, 3, "reflect", True, 1, 1, out), "box_blur: out must not overlap input"),
    ):
        with pytest.raises(RuntimeError) as caught:
            call()
        assert str(caught.value).startswith(sentence), str(caught.value)


np = pytest.importorskip("numpy")

from torch_conv.compat import cv2 as ours  # noqa: E402
from torch_conv.compat.cv2 import _call, _float64  # noqa: E402

W = doubles(3, 4).numpy()
INTO = {
    "filter2D": lambda a: ours.filter2D(a, ours.CV_64F, W, anchor=(0, 2), delta=0.5),
    "sepFilter2D": lambda a: ours.sepFilter2D(a, ours.CV_64F, W[0], W[1, :3], anchor=(3, 0)),
    "boxFilter": lambda a: ours.boxFilter(a, ours.CV_64F, (4, 3), normalize=False),
    "Sobel": lambda a: ours.Sobel(a, ours.CV_64F, 1, 0),
    "Scharr": lambda a: ours.Scharr(a, ours.CV_64F, 0, 1, scale=0.3),
    "Laplacian": lambda a: ours.Laplacian(a, ours.CV_64F, ksize=5, scale=0.3, delta=2),
}


@pytest.mark.parametrize("name", INTO)
@pytest.mark.parametrize("dtype", NAMES)
def test_the_facade_hands_images_over_as_they_are(monkeypatch, name, dtype):
    """Arrays and tensors of any strides, with and without dst; the results are those of a float64 copy."""
    if dtype == "float32" and name in ("filter2D", "Laplacian"):
        return  # as OpenCV
    seen = []
    filtered = _float64.filtered

    def spied(filter, image, *args, **options):
        seen.append(str(image.dtype).removeprefix("torch."))
        return filtered(filter, image, *args, **options)

    monkeypatch.setattr(_float64, "filtered", spied)
    monkeypatch.setattr(_call.Call, "_summable", None)
    for shape in ((17, 23), (12, 15, 3), (9, 8, 1)):
        a = make_image(shape, getattr(torch, dtype)).numpy()
        expected = INTO[name](a.astype(np.float64))
        wide = np.repeat(a, 2, axis=1)[:, ::2]
        for image in (a, wide, a[::-1], np.asfortranarray(a), a.astype(a.dtype.newbyteorder())):
            got = INTO[name](image)
            assert got.dtype == np.float64 and got.flags.c_contiguous and got.flags.owndata
            np.testing.assert_array_equal(got, INTO[name](image.astype(np.float64)))
        for image in (
            torch.from_numpy(a),
            torch.from_numpy(wide),
            torch.from_numpy(a.T.copy()).permute(*range(a.ndim)[::-1]),
        ):
            got = INTO[name](image)
            np.testing.assert_array_equal(got.numpy(), INTO[name](image.numpy()))
        with torch.inference_mode():
            np.testing.assert_array_equal(INTO[name](torch.from_numpy(a)).numpy(), expected)
    assert set(seen) == {dtype, "float64"}


def test_tensors_lie_in_memory_as_the_functions_results_do():
    window = torch.ones(1, 1, dtype=torch.float64)
    for a in (make_image((7, 9), torch.float64), make_image((7, 9, 3), torch.float64)):
        turned = a.permute(*range(a.dim())[::-1]).contiguous().permute(*range(a.dim())[::-1])
        for image in (a, turned, a[1:-1, 2:], a[:, ::2]):
            with_gradient = ours.filter2D(image, ours.CV_64F, window.clone().requires_grad_())
            assert ours.filter2D(image, ours.CV_64F, window).stride() == with_gradient.stride()


def test_watched_calls_take_the_functions():
    """Gradients, and modes that watch tensors, take the functions; the results are equal."""
    from torch.utils.flop_counter import FlopCounterMode

    image = make_image((12, 13), torch.uint8)
    expected = ours.Sobel(image, ours.CV_64F, 1, 0, scale=0.3)
    with FlopCounterMode(display=False) as counter:
        np.testing.assert_array_equal(ours.Sobel(image, ours.CV_64F, 1, 0, scale=0.3), expected)
    assert counter.get_total_flops() > 0
    window = doubles(3, 3).requires_grad_()
    result = ours.filter2D(image, ours.CV_64F, window)
    result.sum().backward()
    assert window.grad is not None
    np.testing.assert_array_equal(result.detach(), ours.filter2D(image, ours.CV_64F, window.detach()))
    plan = torch_conv.explain(ours.Sobel, image, ours.CV_64F, 1, 0)
    assert plan.lines[0].startswith("filter2d_separable: separable/")
