"""Cases of the tests of torch_conv.nn: modules, the functions that they call, and shapes of images."""

import torch
from strategies import make_window

import torch_conv
from torch_conv import nn as tnn

IMAGE, VOLUME = (2, 3, 12, 15), (2, 3, 6, 9, 11)
SIGMAS = torch.tensor([[1.0, 1.5], [0.5, 2.0]])

# A module, the call of its function, and the shape of its input.
MODULES = {
    "Filter2d": (
        lambda: tnn.Filter2d(make_window((3, 4)), "circular", True, anchor=[0, -1], stride=2, dilation=(1, 2)),
        lambda x: torch_conv.filter2d(
            x, make_window((3, 4)), "circular", True, anchor=(0, -1), stride=2, dilation=(1, 2)
        ),
        IMAGE,
    ),
    "Filter2d, of samples and channels": (
        lambda: tnn.Filter2d(make_window((2, 3, 3, 5)), "constant", padding="valid", behaviour="conv", value=2.0),
        lambda x: torch_conv.filter2d(x, make_window((2, 3, 3, 5)), "constant", False, "valid", "conv", value=2.0),
        IMAGE,
    ),
    "Filter3d": (
        lambda: tnn.Filter3d(make_window((2, 3, 4)), "constant", True, "conv", anchor=1, value=2.0, stride=(1, 2, 1)),
        lambda x: torch_conv.filter3d(
            x, make_window((2, 3, 4)), "constant", True, "conv", anchor=1, value=2.0, stride=(1, 2, 1)
        ),
        VOLUME,
    ),
    "GaussianBlur2d": (
        lambda: tnn.GaussianBlur2d([3, 5], (1.0, 1.5), "circular", output_dtype=torch.float64),
        lambda x: torch_conv.gaussian_blur2d(x, (3, 5), (1.0, 1.5), "circular", output_dtype=torch.float64),
        IMAGE,
    ),
    "GaussianBlur2d, of samples": (
        lambda: tnn.GaussianBlur2d(5, SIGMAS, separable=False),
        lambda x: torch_conv.gaussian_blur2d(x, 5, SIGMAS, separable=False),
        IMAGE,
    ),
    "GaussianBlur2d, truncated": (
        lambda: tnn.GaussianBlur2d(None, 1, truncate=2.0, padding="valid"),
        lambda x: torch_conv.gaussian_blur2d(x, None, 1.0, truncate=2.0, padding="valid"),
        IMAGE,
    ),
    "GaussianBlur3d": (
        lambda: tnn.GaussianBlur3d((1, 3, 5), [1, 1.5, 2], "reflect", algorithm="separable"),
        lambda x: torch_conv.gaussian_blur3d(x, (1, 3, 5), (1.0, 1.5, 2.0), "reflect", algorithm="separable"),
        VOLUME,
    ),
    "BoxBlur": (
        lambda: tnn.BoxBlur((3, 4), "replicate", normalized=False, anchor=(0, 0)),
        lambda x: torch_conv.box_blur(x, (3, 4), "replicate", normalized=False, anchor=(0, 0)),
        IMAGE,
    ),
    "Sobel": (
        lambda: tnn.Sobel(False, 1e-3, border_type="constant", value=1.0),
        lambda x: torch_conv.sobel(x, False, 1e-3, border_type="constant", value=1.0),
        IMAGE,
    ),
    "SpatialGradient": (
        lambda: tnn.SpatialGradient("diff", 2, False, padding="valid"),
        lambda x: torch_conv.spatial_gradient(x, "diff", 2, False, padding="valid"),
        IMAGE,
    ),
    "Laplacian": (
        lambda: tnn.Laplacian(3, "symmetric", False, variant="8"),
        lambda x: torch_conv.laplacian(x, 3, "symmetric", False, variant="8"),
        IMAGE,
    ),
    "UnsharpMask": (
        lambda: tnn.UnsharpMask((9, 7), (2.0, 1.5), "replicate", amount=0.5),
        lambda x: torch_conv.unsharp_mask(x, (9, 7), (2.0, 1.5), "replicate", amount=0.5),
        IMAGE,
    ),
}
