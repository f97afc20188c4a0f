"""Calls as users write them, for type checkers and for a run (tests/test_typing.py).

Checkers accept all lines but those with `# wrong`. Functions with a name that begins with `wrong` do not run.
"""

from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.distributed.tensor import DTensor
from typing_extensions import assert_type

import torch_conv
from torch_conv import SplitTensor, distributed, kernels, nn, reference, split
from torch_conv.compat import causal_conv1d as packaged
from torch_conv.compat import cv2 as fast
from torch_conv.compat import scipy_ndimage as ndimage
from torch_conv.compat import torchvision as vision
from torch_conv.typing import Border, Padding

Array = np.ndarray[Any, np.dtype[Any]]

x, volume, signal = torch.rand(1, 4, 16, 16), torch.rand(1, 1, 9, 9, 9), torch.rand(2, 4, 32)
taps, out = torch.ones(3), torch.empty(1, 4, 16, 16)
shards = split(x, ["cpu", "cpu"])
array = np.zeros((16, 16), np.uint8)


def filters() -> None:
    assert_type(torch_conv.filter2d(x, kernels.sharpen()), Tensor)
    assert_type(torch_conv.filter2d(input=x, kernel=kernels.box((3, 5)), border_type="reflect_101"), Tensor)
    assert_type(torch_conv.filter2d(x, kernels.emboss(), "constant", value=1, anchor=[0, 1], stride=(2, 1)), Tensor)
    assert_type(torch_conv.filter2d(x, kernels.sobel_x(), padding="valid", behaviour="conv", dilation=[1, 2]), Tensor)
    assert_type(torch_conv.filter2d(x, kernels.sobel_y(), output_dtype=torch.float64, algorithm="direct"), Tensor)
    assert_type(torch_conv.filter2d(x, kernels.identity(), out=out), Tensor)
    assert_type(torch_conv.filter2d_separable(x, taps, taps, "edge", True, algorithm="separable"), Tensor)
    assert_type(torch_conv.filter1d(x, taps, dim=-2, stride=(2,), anchor=-1), Tensor)
    assert_type(torch_conv.filter3d(volume, torch.ones(3, 3, 3), stride=[2, 1, 1], padding="valid"), Tensor)
    assert_type(torch_conv.filter3d_separable(volume, taps, taps, taps, "grid-wrap"), Tensor)
    assert_type(torch_conv.box_blur(x, 9), Tensor)
    assert_type(torch_conv.box_blur(x, [3, 5], "skip", normalized=False, anchor=(0, 0)), Tensor)
    assert_type(torch_conv.box_blur3d(volume, (3, 1, 1), algorithm="box"), Tensor)


def gaussians() -> None:
    assert_type(torch_conv.gaussian_blur2d(x, 5, 1.5), Tensor)
    assert_type(torch_conv.gaussian_blur2d(x, (3, 5), (1, 1.5), "replicate", separable=False), Tensor)
    assert_type(torch_conv.gaussian_blur2d(x, [3, 5], [1.0, 1.5], out=out), Tensor)
    assert_type(torch_conv.gaussian_blur2d(x, 5, torch.ones(1, 2)), Tensor)
    assert_type(torch_conv.gaussian_blur2d(x, sigma=2, truncate=3), Tensor)
    assert_type(torch_conv.gaussian_blur3d(volume, None, [1.0, 1.0, 2.0]), Tensor)
    assert_type(torch_conv.gaussian_downsample(x, 5, 1.0, 2, algorithm="fused"), Tensor)
    assert_type(torch_conv.unsharp_mask(x, [5, 5], 1.0, amount=0.5), Tensor)
    assert_type(torch_conv.difference_of_gaussians(x, 1.0, [2.0, 3.0]), Tensor)
    assert_type(torch_conv.gaussian_laplace(x, (1.0, 2.0), padding="same"), Tensor)


def derivatives() -> None:
    assert_type(torch_conv.spatial_gradient(x, "scharr", algorithm="fused"), Tensor)
    assert_type(torch_conv.sobel(x, eps=0.0, border_type="mirror"), Tensor)
    assert_type(torch_conv.gaussian_sobel(x, 5, 1.0, magnitude="l1"), Tensor)
    assert_type(torch_conv.laplacian(x, 3, variant="opencv3"), Tensor)
    assert_type(torch_conv.structure_tensor(x, 5, 1.0, mode="diff"), Tensor)
    assert_type(torch_conv.thin_edges(x, (5, 5), 1.0), Tensor)
    assert_type(torch_conv.spatial_gradient3d(volume, "sobel"), Tensor)
    assert_type(torch_conv.gaussian_gradient_magnitude3d(volume, 3, 1.0, mode="sobel"), Tensor)


def convolutions() -> None:
    weight = torch.ones(4, 1, 3, 3)
    assert_type(torch_conv.conv2d(x, weight, padding="same", groups=4, activation="silu"), Tensor)
    assert_type(torch_conv.conv2d(x, weight, None, [2, 2], (1, 1), 1, 4, padding_mode="circular"), Tensor)
    assert_type(torch_conv.conv1d(signal, torch.ones(4, 1, 3), padding=[1], groups=4, algorithm="ours"), Tensor)
    assert_type(torch_conv.conv3d(volume, torch.ones(1, 1, 3, 3, 3), padding="valid", stride=(1, 2, 2)), Tensor)
    assert_type(torch_conv.causal_conv1d(signal, torch.ones(4, 3), activation="silu"), Tensor)
    whole, states = torch_conv.causal_conv1d(signal, torch.ones(4, 3), return_final_states=True)
    assert_type(packaged.causal_conv1d_fn(whole, torch.ones(4, 3), initial_states=states), Tensor)
    assert_type(packaged.causal_conv1d_update(signal[..., 0], states, torch.ones(4, 3)), Tensor)


def modules() -> None:
    assert_type(nn.GaussianBlur2d([5, 5], [1.5, 1.5])(x), Tensor)
    assert_type(nn.Filter2d(kernels.sharpen(), "wrap", stride=[2, 2])(shards), SplitTensor)
    assert_type(nn.Laplacian(3, variant="8")(x), Tensor)
    assert_type(nn.Conv2d(4, 8, [3, 3], padding="same", groups=4, activation="gelu", algorithm="ours")(x), Tensor)
    assert_type(nn.Conv1d(4, 4, 3, padding=1, groups=4)(signal), Tensor)
    assert_type(nn.replace_depthwise(torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3, groups=4))), nn.Replaced)


def tools(border: Border = "symmetric", padding: Padding = "same") -> None:
    assert_type(torch_conv.box_blur(shards, (3, 5), border, padding=padding), SplitTensor)
    assert_type(torch_conv.gaussian_blur2d(shards, 5, 1.0).gather("cpu"), Tensor)
    assert_type(split(x, sizes=[4, 12], devices=["cpu", torch.device("cpu")]).shards, tuple[Tensor, ...])
    assert_type(torch_conv.explain(torch_conv.box_blur, x, 200).lines, tuple[str, ...])
    assert_type(kernels.gaussian2d([3, 5], (1.0, 2.0), dtype=torch.float64), Tensor)
    assert_type(kernels.laplacian(variant="box", size=5), Tensor)
    assert_type(reference.gaussian_blur2d(x, 5, 1.0), Tensor)


def facades() -> None:
    assert_type(fast.GaussianBlur(array, (5, 5), 0), Array)
    assert_type(fast.Sobel(x[0, 0], fast.CV_32F, 1, 0, ksize=5), Tensor)
    assert_type(fast.sepFilter2D(array, -1, np.ones(3), (0.5, 0.5), borderType=fast.BORDER_REPLICATE), Array)
    assert_type(ndimage.gaussian_filter(array, [1.0, 2.0], mode=["nearest", "mirror"], output=np.float32), Array)
    assert_type(ndimage.uniform_filter(x, (1, 1, 3, 3), output=torch.float64), Tensor)
    assert_type(ndimage.correlate1d([1, 2, 3], [1, 1], origin=-1), Array)
    assert_type(vision.gaussian_blur(x, [5, 5]), Tensor)
    assert_type(vision.gaussian_blur(Image.new("L", (8, 8)), 3, [1.0]), Image.Image)


def wrong_of_processes(image: DTensor) -> None:  # right, but it needs processes
    assert_type(distributed.gaussian_blur2d(image, 5, 1.5, border_type="wrap"), DTensor)
    assert_type(distributed.conv2d(image, torch.ones(4, 1, 3, 3), padding="same", groups=4), DTensor)
    distributed.filter2d(x, taps)  # wrong: a plain tensor
    distributed.sobel(image, border="reflect")  # wrong: no such argument


def wrong_arguments() -> None:
    torch_conv.gaussian_blur2d("photo.jpg", 5, 1.5)  # wrong: a name for an image
    torch_conv.gaussian_blur2d(array, 5, 1.5)  # wrong: an array
    torch_conv.filter2d(x)  # wrong: no kernel
    torch_conv.filter2d(x, [[0, 1, 0]])  # wrong: a list for a kernel
    torch_conv.gauss(x)  # wrong: no such function
    torch_conv.box_blur(x, 2.5)  # wrong: a fraction of a pixel
    torch_conv.box_blur(x, "3x3")  # wrong: a word for a size
    torch_conv.filter2d(x, taps, "reflect", False, "same", "corr", 1.0)  # wrong: value by position
    torch_conv.conv2d(x, taps, None, 1, 0, 1, 4, "zeros")  # wrong: padding_mode by position
    torch_conv.gaussian_blur2d(x, 5, "1.5")  # wrong: a word for a number
    torch_conv.filter2d(x, taps, stride=(1.0, 2.0))  # wrong: fractions
    torch_conv.filter2d(x, taps, output_dtype="float32")  # wrong: a name for a dtype
    torch_conv.filter2d(shards, taps, out=shards)  # wrong: shards do not take out
    split(x, devices="cpu,cpu").gathers()  # wrong: no such method


def wrong_words(border: str) -> None:
    torch_conv.filter2d(x, taps, "clamp")  # wrong: no such border
    torch_conv.filter2d(x, taps, border)  # wrong: any text
    torch_conv.filter2d(x, taps, border_type=3)  # wrong: a number
    torch_conv.filter2d(x, taps, padding="full")  # wrong: no such padding
    torch_conv.filter2d(x, taps, padding=1)  # wrong: a number, as for convolutions
    torch_conv.conv2d(x, taps, padding="reflect")  # wrong: a border as padding
    torch_conv.conv2d(x, taps, activation="tanh")  # wrong: no such activation
    torch_conv.box_blur(x, 3, algorithm="fft")  # wrong: another function's algorithm
    torch_conv.spatial_gradient(x, "roberts")  # wrong: no such mode
    torch_conv.laplacian(x, 3, variant="6")  # wrong: that of volumes
    torch_conv.gaussian_sobel(x, 3, 1.0, magnitude="L2")  # wrong: upper case
    nn.GaussianBlur2d(3, 1.0, border_type="clamp")  # wrong: no such border


def wrong_results() -> None:
    number: int = torch_conv.sobel(x)  # wrong: a tensor
    whole: Tensor = torch_conv.sobel(shards)  # wrong: shards
    picture: Tensor = fast.blur(array, (3, 3))  # wrong: an array
    state: Tensor = torch_conv.causal_conv1d(x, taps, return_final_states=True)  # wrong: a tuple
    mean: Array = ndimage.uniform_filter(x, 3)  # wrong: a tensor
    print(number, whole, picture, state, mean)
