"""compat.cv2 has OpenCV's names, defaults, forms of arguments and results, and refusals."""

import importlib
import inspect
import re
import sys
import warnings

import pytest
import torch
from opencv_cases import DTYPES, FUNCTIONS, image, window
from refusals import flatten, refuses
from tolerance import assert_same_bits

np = pytest.importorskip("numpy")
cv2 = pytest.importorskip("cv2")

from torch_conv.compat import cv2 as ours  # noqa: E402


def call_of(name, x):
    """The function's results with the required arguments only."""
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
    assert got.permute(2, 0, 1).is_contiguous()  # the image's layout
    assert close(got, call(ours, planes.permute(1, 2, 0).contiguous()).cpu())
    wide = torch.from_numpy(image((14, 30, 7), "float32")).to(device)
    part = wide[2:, 3:20:2, 1:5]
    assert close(call(ours, part), call(ours, part.contiguous()).cpu())


@functions
def test_any_array_is_read(name):
    x = image((28, 30, 4), "float32")
    call = call_of(name, x)
    unaligned = np.ndarray((5, 4), "float32", bytearray(100), offset=1, strides=(17, 4))
    unaligned[...] = x[:5, :4, 0]
    views = [
        x[::-1],
        x[:, ::-2],
        x[3:, 2:9, 1:3],
        x.transpose(1, 0, 2),
        np.moveaxis(x, 2, 0)[..., None][0],
        x.astype(">f4"),
        np.broadcast_to(x[:1], x.shape),
        unaligned,
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
        ((f, -1, k3[0], np.ones(3)), {}, "kernelX and kernelY must have one dtype, got float32 and float64")
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
    with refuses(ValueError, f"{name}: {sentence}"):
        getattr(ours, name)(*args, **kwargs)
    with pytest.raises(cv2.error):
        getattr(cv2, name)(*args, **kwargs)


@pytest.mark.parametrize(("name", "args", "kwargs", "sentence"), flatten(TYPES))
def test_refused_types(name, args, kwargs, sentence):
    with refuses(TypeError, f"{name}: {sentence}"):
        getattr(ours, name)(*args, **kwargs)
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
        with refuses(ValueError, f"{name}: {GRADIENT}"):
            call(given, *args, dst=target)
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
    with refuses(TypeError, "blur: dst must be a torch tensor, as src is, got ndarray"):
        ours.blur(x, (3, 3), dst=f)
    with refuses(TypeError, "blur: src must be uint8, uint16, int16, float32 or float64, got bfloat16"):
        ours.blur(x.bfloat16(), (3, 3))
    read_only = f.copy()
    read_only.flags.writeable = False
    for dst in (read_only, f[::-1]):
        with pytest.raises(ValueError) as caught:
            ours.blur(f, (3, 3), dst=dst)
        expected = "blur: dst must be writable, in native byte order and without negative strides"
        assert str(caught.value) == expected
    with refuses(ValueError, "blur: anchor must lie in the window of 3x3, got (3, 0)"):
        ours.blur(f, (3, 3), anchor=(3, 0))  # OpenCV reads beyond the image
    with refuses(ValueError, "GaussianBlur: sigmaX and sigmaY must be finite, got inf and 0.0"):
        ours.GaussianBlur(f, (0, 0), float("inf"))


def test_opencv_is_not_needed(monkeypatch):
    expected = ours.blur(f, (3, 3))
    monkeypatch.setitem(sys.modules, "cv2", None)
    for module in [m for name, m in sys.modules.items() if name.startswith(f"{ours.__name__}.")]:
        importlib.reload(module)
    importlib.reload(ours)
    assert np.array_equal(ours.blur(f, (3, 3)), expected)


@pytest.mark.parametrize("argument", ["sigmaX", "sigmaY"])
def test_sigmas_that_require_a_gradient_are_refused(argument):
    sigmas = {"sigmaX": 1.0, argument: torch.tensor(1.0, requires_grad=True)}
    with pytest.raises(ValueError) as refused:
        ours.GaussianBlur(torch.ones(4, 5), (3, 3), **sigmas)
    expected = f"GaussianBlur: {argument} must not require a gradient, because a number gets none"
    assert str(refused.value) == expected
