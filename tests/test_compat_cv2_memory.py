"""compat.cv2 filters large images band by band where it needs copies in floats, with the same results."""

import subprocess
import sys
import textwrap

import pytest
from opencv_cases import image, window

np = pytest.importorskip("numpy")

from torch_conv.compat import cv2 as ours  # noqa: E402
from torch_conv.compat.cv2 import _call  # noqa: E402

ROW = window(5)
BORDERS = (ours.BORDER_CONSTANT, ours.BORDER_REPLICATE, ours.BORDER_REFLECT, ours.BORDER_REFLECT_101)
CALLS = {
    "filter2D": lambda a, **o: ours.filter2D(a, ours.CV_64F, window(9, 10), anchor=(0, 3), delta=0.5, **o),
    "sepFilter2D": lambda a, **o: ours.sepFilter2D(a, -1, ROW, ROW[:4], anchor=(4, 0), delta=100, **o),
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
