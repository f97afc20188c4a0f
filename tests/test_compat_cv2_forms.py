"""compat.cv2 takes its arguments in every form in which OpenCV takes them, by position and by name."""

import inspect

import pytest
import torch
from opencv_cases import FUNCTIONS, image
from refusals import refuses

np = pytest.importorskip("numpy")
cv2 = pytest.importorskip("cv2")

from torch_conv.compat import cv2 as ours  # noqa: E402

# Forms of each argument; the first is the usual one. OpenCV refuses some of them, and so must we.
WHOLE = [np.int64(1), np.uint8(1), None, True, 1.0, "1"]
NUMBER = [1, np.float32(0.5), np.float64(2), np.int32(1), None, True, "1", (1,)]
PAIR = [(1, 1), [1, 1], np.array([1, 1]), (np.int64(1), 1), None, 1, (1,), (1, 1, 1), (1.0, 1), (True, 1), ()]
TYPES = [getattr(cv2, f"CV_{depth}C{n}") for depth in ("8U", "32F") for n in (1, 3)]
ROW = np.array([1.0, 2.0, 5.0]) / 8
# Before OpenCV 5 an array of one dimension is a column, and truth values are no kernel.
KERNELS_OF_5 = [ROW, np.eye(3, dtype=bool)] if int(cv2.__version__.split(".")[0]) >= 5 else []
FORMS = {
    "src": [image((14, 15), "uint8"), [1, 2], "x"],
    "ddepth": [-1, cv2.CV_32F, -2, 1, *WHOLE[2:]],  # with CV_16F, OpenCV's Laplacian writes beyond its image
    "dst": [None, 0, 3, 2.5, True, np.float64(1), (), (1, 2), "3", [1, 2], {}],
    "ksize": [(3, 5), [5, 3], np.array([3, 5]), (np.int64(3), 5), 3, (3,), (3, 3, 3), (3.0, 3), (True, 3), ()],
    "kernel": [ROW[:, None], *KERNELS_OF_5, ROW[None], tuple(ROW), ROW[:, None, None], [1.0], ((1.0,),), "x"],
    "kernelX": [ROW, ROW[:, None], tuple(ROW), np.array(2.0), [1.0], "x"],
    "kernelY": [ROW, ROW[None], tuple(ROW), [1.0], "x"],
    "sigmaX": [1.5, 0, *NUMBER],
    "sigmaY": [0.7, 0, *NUMBER],
    "dx": [1, *WHOLE],
    "dy": [0, np.int64(0), None, False, 0.0],
    "anchor": [(-1, -1), *PAIR],
    "normalize": [True, False, 0, 1, 2, None, 0.5, "x"],
    "scale": [1.0, *NUMBER],
    "delta": [0.0, *NUMBER],
    "borderType": [4, cv2.BORDER_REPLICATE, 16 | 4, np.int8(2), None, True, 4.0, -1, 32],
    "hint": [0, np.int64(1), None],
}
SIZES = [3, 5, np.int64(5), None, 3.0, True]  # of Sobel and Laplacian, where it is a number


def forms_of(name, argument):
    if argument == "ddepth" and name in ("filter2D", "sepFilter2D", "boxFilter"):
        return FORMS[argument] + TYPES  # OpenCV's derivatives refuse these, or write beyond their images
    return SIZES if argument == "ksize" and name in ("Sobel", "Laplacian") else FORMS[argument]


def outcome(module, name, args):
    try:
        return getattr(module, name)(*args)
    except (cv2.error, TypeError, ValueError) as error:
        if module is ours:
            assert str(error).startswith((f"{name}: ", f"{name}() missing "))
        return None


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_form_at_every_position(name):
    arguments = [a for a in inspect.signature(getattr(ours, name)).parameters if a != "hint"]
    usual = [forms_of(name, argument)[0] for argument in arguments]
    for i, argument in enumerate(arguments):
        for form in forms_of(name, argument):
            for rest in (usual[i + 1 :], []):  # the arguments after it, or their defaults
                args = [*usual[:i], form, *rest]
                expected, got = (outcome(module, name, args) for module in (cv2, ours))
                call = f"{name}({argument}={form!r}), {len(args)} arguments"
                assert (got is None) == (expected is None), call
                if expected is not None:
                    assert (got.dtype, got.shape) == (expected.dtype, expected.shape), call
                    error = np.abs(got.astype(float) - expected.astype(float)).max()
                    assert error <= (1 if got.dtype.kind == "u" else 1e-3), call


def test_types_of_opencv_4():
    # There CV_8UC3 is 16 and CV_32FC3 is 21.
    x = image((9, 9), "uint8")
    assert ours.Sobel(x, cv2.CV_16SC3, 1, 0).dtype == np.int16
    assert ours.blur(x, (3, 3)).dtype == ours.boxFilter(x, 16, (3, 3)).dtype == np.uint8
    assert ours.boxFilter(x, 21, (3, 3)).dtype == np.float32
    with pytest.raises(ValueError, match="^boxFilter: ddepth for an image of uint8 must be "):
        ours.boxFilter(x, 8, (3, 3))  # CV_8UC2 there, CV_16BF here


def test_numbers_are_no_windows():
    # OpenCV makes four taps of one number, the last three of them 0.
    for call in (lambda: ours.filter2D(image((9, 9), "uint8"), -1, 2.0), lambda: ours.blur(5, (3, 3))):
        with pytest.raises(TypeError, match="must be a numpy array or a torch tensor, got (float|int)$"):
            call()


@pytest.mark.parametrize("argument", ["scale", "delta"])
@pytest.mark.parametrize("name", ["Sobel", "Scharr", "Laplacian"])
def test_numbers_that_want_a_gradient_are_refused(name, argument):
    args = (torch.ones(4, 5), -1) if name == "Laplacian" else (torch.ones(4, 5), -1, 1, 0)
    wants = torch.tensor(1.0, requires_grad=True)
    with refuses(ValueError, f"{name}: {argument} must not require a gradient, because a number gets none"):
        getattr(ours, name)(*args, **{argument: wants})
    with torch.no_grad():
        getattr(ours, name)(*args, **{argument: wants})
