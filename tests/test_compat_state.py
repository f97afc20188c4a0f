"""The façades' results depend on nothing but their arguments; a name that they do not have is said to be elsewhere."""

import importlib

import pytest
import torch
from refusals import refuses

np = pytest.importorskip("numpy")

from torch_conv.compat import cv2 as fast  # noqa: E402
from torch_conv.compat import torchvision  # noqa: E402

WINDOW, ROW = np.array([[0.3, -1.0, 0.2]], np.float32), np.array([0.3, -1.0, 0.2])
# No other test uses these sizes, so that the cache holds none of their windows.
CALLS = {
    "filter2D": lambda a: fast.filter2D(a, -1, WINDOW, delta=1.5),
    "filter2D by a tuple": lambda a: fast.filter2D(a, -1, (0.3, -1.0, 0.2)),
    "sepFilter2D": lambda a: fast.sepFilter2D(a, -1, ROW, ROW),
    "GaussianBlur": lambda a: fast.GaussianBlur(a, (5, 7), 1.0625),
    "GaussianBlur by the sigma": lambda a: fast.GaussianBlur(a, (0, 0), 1.0625),
    "blur": lambda a: fast.blur(a, (4, 3)),
    "boxFilter": lambda a: fast.boxFilter(a, -1, (4, 3), normalize=False),
    "Sobel": lambda a: fast.Sobel(a, -1, 1, 0, scale=0.0625, delta=2),
    "Sobel into floats": lambda a: fast.Sobel(a, fast.CV_64F, 1, 1, ksize=9, scale=1.0625),
    "Scharr": lambda a: fast.Scharr(a, -1, 0, 1, scale=0.0625),
    "Laplacian": lambda a: fast.Laplacian(a, -1, scale=1.0625),
    "Laplacian 5": lambda a: fast.Laplacian(a, -1, ksize=5, scale=0.0625),
    "Laplacian 9": lambda a: fast.Laplacian(a, -1, ksize=9, scale=0.0625),
    "gaussian_blur": lambda a: torchvision.gaussian_blur(torch.from_numpy(a), [5, 7], 1.0625).numpy(),
}


def in_all_states(call):
    """One call's results under other default devices and dtypes, each twice, also after the device has failed."""
    default = torch.get_default_dtype()
    try:
        for device, dtype in (("meta", torch.float64), ("cuda:99", torch.float32), ("cpu", torch.float64)):
            torch.set_default_dtype(dtype)
            with torch.device(device):
                yield call()
                yield call()
    finally:
        torch.set_default_dtype(default)
    yield call()


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
@pytest.mark.parametrize("name", CALLS)
def test_default_device_and_dtype(name, dtype):
    a = np.random.default_rng(0).integers(0, 200, (9, 11)).astype(dtype)
    first, *others = in_all_states(lambda: CALLS[name](a))
    for other in others:
        assert other.dtype == first.dtype
        np.testing.assert_array_equal(other, first)


def test_pil_images_on_another_default_device():
    pil = pytest.importorskip("PIL.Image")
    picture = pil.frombytes("RGB", (8, 6), bytes(range(144)))
    first, *others = in_all_states(lambda: torchvision.gaussian_blur(picture, 5, 1.0625).tobytes())
    assert others == [first] * len(others)


ORIGINALS = {
    "cv2": ("cv2", ["medianBlur", "imread", "CV_8UC3", "INTER_LINEAR"]),
    "torchvision": ("torchvision.transforms.functional", ["resize", "rotate"]),
    "causal_conv1d": ("causal_conv1d", ["causal_conv1d_varlen_states"]),
}


@pytest.mark.parametrize("module", ORIGINALS)
def test_other_names_are_the_originals(module):
    original, names = ORIGINALS[module]
    facade = importlib.import_module(f"torch_conv.compat.{module}")
    for name in names:
        assert not hasattr(facade, name)
        with refuses(AttributeError, f"compat.{module} has no {name}; import the original {original} beside it"):
            getattr(facade, name)
