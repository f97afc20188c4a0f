"""Cases of the tests of torch_conv.nn: modules, the functions that they call, and shapes of images."""

from functools import partial

import torch
from strategies import make_window

import torch_conv
from torch_conv import nn as tnn

IMAGE, VOLUME = (2, 3, 12, 15), (2, 3, 6, 9, 11)
SIGMAS = torch.tensor([[1.0, 1.5], [0.5, 2.0]])
FUNCTIONS = {
    "Filter2d": "filter2d",
    "Filter3d": "filter3d",
    "GaussianBlur2d": "gaussian_blur2d",
    "GaussianBlur3d": "gaussian_blur3d",
    "BoxBlur": "box_blur",
    "Sobel": "sobel",
    "SpatialGradient": "spatial_gradient",
    "Laplacian": "laplacian",
    "UnsharpMask": "unsharp_mask",
}
# f(...) is a module, or its function's result.
CALLS = {
    "Filter2d": lambda f: f(make_window((3, 4)), "circular", True, anchor=[0, -1], stride=2, dilation=(1, 2)),
    "Filter2d, of samples and channels": lambda f: f(
        make_window((2, 3, 3, 5)), "constant", padding="valid", behaviour="conv", value=2.0
    ),
    "Filter3d": lambda f: f(make_window((2, 3, 4)), "constant", True, "conv", anchor=1, value=2.0, stride=(1, 2, 1)),
    "GaussianBlur2d": lambda f: f([3, 5], (1.0, 1.5), "circular", output_dtype=torch.float64),
    "GaussianBlur2d, of samples": lambda f: f(5, SIGMAS, separable=False),
    "GaussianBlur2d, truncated": lambda f: f(None, 1, truncate=2.0, padding="valid"),
    "GaussianBlur2d, of a sigma": lambda f: f(sigma=1.5),
    "GaussianBlur3d, of sigmas": lambda f: f(sigma=(0.5, 1.0, 1.5)),
    "UnsharpMask, of sigmas": lambda f: f(sigma=(1.0, 1.5)),
    "GaussianBlur3d": lambda f: f((1, 3, 5), [1, 1.5, 2], "reflect", algorithm="separable"),
    "BoxBlur": lambda f: f((3, 4), "replicate", normalized=False, anchor=(0, 0)),
    "Sobel": lambda f: f(False, 1e-3, border_type="constant", value=1.0),
    "SpatialGradient": lambda f: f("diff", 2, False, padding="valid"),
    "Laplacian": lambda f: f(3, "symmetric", False, variant="8"),
    "UnsharpMask": lambda f: f((9, 7), (2.0, 1.5), "replicate", amount=0.5),
}


def case(name):
    """A function that builds the module, the call of its function, and the shape of its input."""
    call, kind = CALLS[name], name.split(",")[0]
    function = getattr(torch_conv, FUNCTIONS[kind])
    return partial(call, getattr(tnn, kind)), lambda x: call(partial(function, x)), VOLUME if "3d" in kind else IMAGE


MODULES = {name: case(name) for name in CALLS}
