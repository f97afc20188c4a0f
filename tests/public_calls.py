"""A small call of every public function, and which of its arguments are numbers: for tests that hold for all."""

import inspect
from functools import partial
from typing import Any

import torch
from strategies import make_image, make_window

import torch_conv

KINDS = ("float", "int", "bool")
IMAGE, VOLUME, SIGNAL = (1, 2, 12, 11), (1, 1, 7, 8, 9), (1, 2, 24)


def calls() -> dict[str, dict[str, Any]]:
    """The arguments that each function needs, fresh."""
    image, volume, signal = make_image(IMAGE), make_image(VOLUME), make_image(SIGNAL)
    of_image, of_volume = {"input": image, "kernel_size": 3}, {"input": volume, "kernel_size": 3}
    blurred, blurred3d = of_image | {"sigma": 1.0}, of_volume | {"sigma": 1.0}
    taps = {f"kernel_{axis}": make_window((3,)).abs() for axis in "xyz"}
    return {
        "box_blur": of_image,
        "box_blur3d": of_volume,
        "causal_conv1d": {"x": signal, "weight": make_window((2, 3))},
        "causal_conv1d_update": {"x": signal, "conv_state": torch.zeros(1, 2, 3), "weight": make_window((2, 3))},
        "conv1d": {"input": signal, "weight": make_window((2, 1, 3)), "groups": 2},
        "conv2d": {"input": image, "weight": make_window((2, 1, 3, 3)), "groups": 2},
        "conv3d": {"input": volume, "weight": make_window((1, 1, 3, 3, 3))},
        "difference_of_gaussians": {"input": image, "low_sigma": 1.0},
        "filter1d": {"input": image, "kernel": make_window((3,))},
        "filter2d": {"input": image, "kernel": make_window((3, 3))},
        "filter2d_separable": {"input": image, "kernel_x": taps["kernel_x"], "kernel_y": taps["kernel_y"]},
        "filter3d": {"input": volume, "kernel": make_window((3, 3, 3))},
        "filter3d_separable": {"input": volume, **taps},
        "gaussian_blur2d": blurred,
        "gaussian_blur3d": blurred3d,
        "gaussian_downsample": blurred,
        "gaussian_gradient_magnitude3d": blurred3d,
        "gaussian_laplace": {"input": image, "sigma": 1.0},
        "gaussian_sobel": blurred,
        "laplacian": of_image,
        "sobel": {"input": image},
        "spatial_gradient": {"input": image},
        "spatial_gradient3d": {"input": volume},
        "structure_tensor": blurred,
        "thin_edges": blurred,
        "unsharp_mask": blurred,
    }


def number_arguments(name: str) -> list[str]:
    """The arguments of a function that take numbers."""
    parameters = inspect.signature(getattr(torch_conv, name)).parameters.values()
    return [p.name for p in parameters if any(kind in str(p.annotation) for kind in KINDS)]


FILTERS = [name for name, given in calls().items() if "input" in given and not name.startswith("conv")]
# Each filter with all its arguments but for the image.
PARTIALS = {name: partial(getattr(torch_conv, name), **dict(list(calls()[name].items())[1:])) for name in FILTERS}


def filtered(name: str, image: torch.Tensor, **options: Any) -> torch.Tensor:
    """A filter of this image, or of the volumes that it holds."""
    return getattr(torch_conv, name)(**(calls()[name] | {"input": image} | options))
