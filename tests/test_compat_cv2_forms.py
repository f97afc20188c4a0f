"""compat.cv2 takes its arguments in all of OpenCV's forms, and filters large images band by band."""

import inspect
import subprocess
import sys
import textwrap

import pytest
import torch
from opencv_cases import FUNCTIONS, image, window
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


from torch_conv.compat.cv2 import _call  # noqa: E402

TAPS = window(5)
BORDERS = (ours.BORDER_CONSTANT, ours.BORDER_REPLICATE, ours.BORDER_REFLECT, ours.BORDER_REFLECT_101)
CALLS = {
    "filter2D": lambda a, **o: ours.filter2D(a, ours.CV_64F, window(9, 10), anchor=(0, 3), delta=0.5, **o),
    "sepFilter2D": lambda a, **o: ours.sepFilter2D(a, -1, TAPS, TAPS[:4], anchor=(4, 0), delta=100, **o),
    "Sobel": lambda a, **o: ours.Sobel(a, -1, 0, 1, delta=100, **o),
    "Scharr": lambda a, **o: ours.Scharr(a, -1, 1, 0, scale=0.3, delta=100, **o),
    "Laplacian": lambda a, **o: ours.Laplacian(a, -1, delta=100, **o),
    "Laplacian 9": lambda a, **o: ours.Laplacian(a, ours.CV_64F, ksize=9, scale=0.3, **o),
}


@pytest.mark.parametrize("shape", [(97, 41), (83, 18, 3), (80, 3)])
@pytest.mark.parametrize("name", CALLS)
def test_bands_change_nothing(monkeypatch, name, shape):
    for dtype in ("uint8", "int16") if name != "Laplacian 9" else ("uint8",):
        for border in BORDERS:
            x = image(shape, dtype)
            whole = CALLS[name](x, borderType=border)
            bands = []
            in_bands = _call.Call._in_bands

            def counted(self, *args, run=in_bands, bands=bands, **options):
                bands.append(self.name)
                return run(self, *args, **options)

            with monkeypatch.context() as patch:
                patch.setattr(_call, "BAND", 8)
                patch.setattr(_call.Call, "_in_bands", counted)
                got = CALLS[name](x, borderType=border)
                dst = np.zeros(got.shape, got.dtype)
                assert CALLS[name](x, dst=dst, borderType=border) is dst
            assert len(bands) == 2
            scale = max(1.0, np.abs(whole.astype(float)).max())
            assert np.abs(got.astype(float) - whole.astype(float)).max() <= 1e-14 * scale
            np.testing.assert_array_equal(dst, got)


def test_memory():
    """At most the result and three times the image, whatever the sums are made in; into float64 no copy of either."""
    code = """
        import numpy as np, torch
        from torch_conv.compat import cv2
        def peak(): return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) << 10
        def reset(): open("/proc/self/clear_refs", "w").write("5")
        torch.set_num_threads(1)
        row = np.ones(3) / 3
        INTO_FLOAT64 = {
            "filter2D": lambda a: cv2.filter2D(a, cv2.CV_64F, row, delta=1),
            "sepFilter2D": lambda a: cv2.sepFilter2D(a, cv2.CV_64F, row, row),
            "boxFilter": lambda a: cv2.boxFilter(a, cv2.CV_64F, (3, 3)),
            "boxFilter 14": lambda a: cv2.boxFilter(a, cv2.CV_64F, (14, 14)),
            "Sobel": lambda a: cv2.Sobel(a, cv2.CV_64F, 1, 0),
            "Scharr": lambda a: cv2.Scharr(a, cv2.CV_64F, 1, 0, scale=0.3),
            "Laplacian": lambda a: cv2.Laplacian(a, cv2.CV_64F, ksize=5, scale=0.3),
        }
        OTHERS = {
            "filter2D 9x9": lambda a: cv2.filter2D(a, cv2.CV_64F, np.ones((9, 9)) / 81),
            "blur": lambda a: cv2.blur(a, (3, 3)),
            "Sobel": lambda a: cv2.Sobel(a, -1, 1, 0, delta=1),
            "Laplacian": lambda a: cv2.Laplacian(a, cv2.CV_16S, ksize=5, delta=1),
            "GaussianBlur": lambda a: cv2.GaussianBlur(a, (5, 5), 0),
        }
        def check(name, call, x, most):
            call(x[:1024])  # what a first call loads is not the call's
            reset()
            before = peak()
            result = call(x)
            taken = peak() - before - result.nbytes
            assert taken <= most, f"{name} of {x.dtype}: {taken >> 20} MB, at most {most >> 20}"
        for dtype in ("u1", "u2", "i2", "f4"):
            x = np.ones((2048, 2048), dtype)
            for name, call in INTO_FLOAT64.items():
                if dtype != "f4" or name not in ("filter2D", "Laplacian"):
                    check(name, call, x, 8 << 20)  # a copy has 32 MB; large pages are 2
            if dtype == "u1":
                for name, call in OTHERS.items():
                    check(name, call, x, 3 * x.nbytes)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
