"""docs/promises.md names every function that may take an algorithm whose bits depend on a pixel's position."""

import inspect
import re
from pathlib import Path

import pytest
import torch
from strategies import make_window

import torch_conv

PAGE = Path(__file__).parent.parent / "docs" / "promises.md"
H100 = "9.0 132 232448 3.35e12"  # for TORCH_CONV_EXPLAIN_FOR

SIZES = (3, 5, 7, 9, 15, 31, 33)
SIGMAS = (0.3, 0.4, 0.5, 0.7, 1.0, 3.0, 9.0)


def window(x, *size):
    return make_window(size).to(x.dtype)


def depthwise(x, k, axes):
    return (x, window(x, x.shape[1], 1, *[k] * axes)), {"groups": x.shape[1], "padding": k // 2, "algorithm": "ours"}


def smooth(x, k):
    return (x, k, k / 4), {}


# The calls of each function: an image, and a size or a sigma.
CALLS = {
    "filter1d": lambda x: [((x, window(x, k)), {"dim": d}) for k in (*SIZES, 2001) for d in (-1, -2, 1)],
    "filter2d": lambda x: [((x, window(x, k, k)), {}) for k in SIZES],
    "filter2d_separable": lambda x: [((x, window(x, k), window(x, k)), {}) for k in SIZES],
    "filter3d": lambda x: [((x.unsqueeze(1), window(x, k, k, k)), {}) for k in (3, 5, 9)],
    "filter3d_separable": lambda x: [((x.unsqueeze(1), *[window(x, k)] * 3), {}) for k in (3, 5, 9)],
    "gaussian_blur2d": lambda x: [(smooth(x, k)[0], {"separable": s}) for k in SIZES for s in (True, False)],
    "gaussian_blur3d": lambda x: [smooth(x.unsqueeze(1), k) for k in (3, 5, 9)],
    "gaussian_downsample": lambda x: [((x, k, k / 4, f), {}) for k in SIZES for f in (1, 2, 3)],
    "box_blur": lambda x: [((x, k), {}) for k in SIZES],
    "box_blur3d": lambda x: [((x.unsqueeze(1), k), {}) for k in (3, 5, 9)],
    "spatial_gradient": lambda x: [((x, "sobel", o), {}) for o in (1, 2)] + [((x, "scharr"), {})],
    "spatial_gradient3d": lambda x: [((x.unsqueeze(1), "diff", o), {}) for o in (1, 2)],
    "sobel": lambda x: [((x,), {})],
    "laplacian": lambda x: [((x, k), {}) for k in SIZES],
    "unsharp_mask": lambda x: [smooth(x, k) for k in SIZES],
    "difference_of_gaussians": lambda x: [((x, s), {}) for s in SIGMAS],
    "gaussian_laplace": lambda x: [((x, s), {}) for s in SIGMAS],
    "structure_tensor": lambda x: [smooth(x, k) for k in SIZES],
    "thin_edges": lambda x: [smooth(x, k) for k in SIZES],
    "gaussian_sobel": lambda x: [smooth(x, k) for k in SIZES],
    "gaussian_gradient_magnitude3d": lambda x: [smooth(x.unsqueeze(1), k) for k in (3, 5, 9)],
    "conv1d": lambda x: [depthwise(x[:, :, 0], k, 1) for k in SIZES],
    "conv2d": lambda x: [depthwise(x, k, 2) for k in SIZES],
    "conv3d": lambda x: [depthwise(x.unsqueeze(2), k, 3) for k in (3, 5)],
}


def test_every_function_is_asked():
    chooses = {
        name
        for name in torch_conv.functional.__all__
        if "algorithm" in inspect.signature(getattr(torch_conv, name)).parameters
    }
    assert chooses == CALLS.keys()


@pytest.mark.parametrize("gpu", ["", H100], ids=["cpu", "h100"])
@pytest.mark.parametrize("name", CALLS)
def test_calls_that_take_tensor_cores_or_an_fft(monkeypatch, name, gpu):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", gpu)
    section = PAGE.read_text(encoding="utf-8").split("## The same bits")[1].split("## ")[0]
    takes = set()
    for dtype in (torch.float32, torch.float16, torch.uint8):
        if dtype == torch.uint8 and name.startswith("conv"):
            continue
        for shape in ((1, 3, 512, 512), (1, 32, 256, 256)):
            image = torch.zeros(1, dtype=dtype).expand(shape).contiguous()
            for args, options in CALLS[name](image):
                plan = str(torch_conv.explain(getattr(torch_conv, name), *args, **options))
                takes |= set(re.findall(r"^\w+: (tensor_core/|fft/|low_rank|depthwise/\w+_mma)", plan, re.MULTILINE))
    assert not takes or f"`{name}`" in section, takes
    if name in (("filter2d", "filter2d_separable", "conv2d") if gpu else ("filter1d", "filter2d")):
        assert takes
