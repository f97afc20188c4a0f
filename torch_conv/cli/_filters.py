"""Filters by name, with the options of `torch-conv filter` and `torch-conv prepare`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor

import torch_conv
from torch_conv import kernels
from torch_conv.bench.usage import UsageError
from torch_conv.dispatch.borders import BORDERS
from torch_conv.typing import Border
from torch_conv_cli import number, whole_number


class Window(NamedTuple):
    """What the options say of a filter; size, sigma and anchor as the functions take them."""

    size: Any
    sigma: Any
    border: Border
    anchor: Any
    amount: float


Filter = Callable[[Tensor, Window], Tensor]
IMAGE_FILTERS: dict[str, Filter] = {
    "box": lambda x, w: torch_conv.box_blur(x, w.size, w.border, anchor=w.anchor),
    "gaussian": lambda x, w: torch_conv.gaussian_blur2d(x, w.size, w.sigma, w.border),
    "identity": lambda x, w: torch_conv.filter2d(x, kernels.identity(w.size), w.border, anchor=w.anchor),
    "sobel": lambda x, w: torch_conv.sobel(x, normalized=False, border_type=w.border),
    "unsharp": lambda x, w: torch_conv.unsharp_mask(x, w.size, w.sigma, w.border, amount=w.amount),
}
VOLUME_FILTERS: dict[str, Filter] = {
    "box": lambda x, w: torch_conv.box_blur3d(x, w.size, w.border, anchor=w.anchor),
    "gaussian": lambda x, w: torch_conv.gaussian_blur3d(x, w.size, w.sigma, w.border),
    "identity": lambda x, w: torch_conv.filter3d(x, kernels.identity3d(w.size), w.border, anchor=w.anchor),
    "laplacian": lambda x, w: torch_conv.filter3d(x, kernels.laplacian3d(), w.border, anchor=w.anchor),
}
NAMES = sorted({*IMAGE_FILTERS, *kernels.names()})
FILTERS = f"Filters: {', '.join(NAMES)}."
SIZED = {"box": 9, "gaussian": 9, "identity": 3, "unsharp": 9}  # by default; every other filter has 3 taps an axis
WITH_SIGMA, WITHOUT_ANCHOR = ("gaussian", "unsharp"), ("gaussian", "sobel", "unsharp")


def add_options(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """The options that filter_of() and device_named() read."""
    parser.add_argument(
        "--filter", metavar="NAME", required=required, choices=NAMES, help="which filter (listed below)"
    )
    parser.add_argument(
        "--size",
        metavar="K",
        type=_an_axis(whole_number),
        help="window size in pixels, or one an axis: Y,X (default: follows from --sigma; else 9, stencils 3)",
    )
    parser.add_argument(
        "--sigma",
        metavar="S",
        type=_an_axis(number),
        help="Gaussian's sigma in pixels, or one an axis: Y,X (default: suits the size)",
    )
    parser.add_argument("--amount", metavar="A", type=float, help="strength of 'unsharp' (default: 1)")
    parser.add_argument("--border", metavar="NAME", choices=BORDERS, default="reflect", help=" | ".join(BORDERS))
    parser.add_argument(
        "--anchor",
        metavar="Y,X",
        type=_an_axis(whole_number),
        help="the tap that lies on the pixel, counted from the window's top left; one number for both, -1 is K // 2 "
        "(default: (K - 1) // 2); for 'box' and the single windows",
    )
    parser.add_argument("--device", metavar="D", help="cpu, cuda or cuda:N (default: the GPU, where there is one)")


def filter_of(args: argparse.Namespace, volume: bool = False) -> Callable[[Tensor], Tensor]:
    """The filter of images (..., H, W) or of volumes (..., D, H, W) that the options name."""
    name = args.filter
    _check_options(args, volume)
    size, sigma = args.size, args.sigma
    if size is None and sigma is None:
        size = SIZED.get(name, 3)
    if sigma is None:
        sigma = tuple(map(kernels.default_sigma, size)) if isinstance(size, tuple) else kernels.default_sigma(size)
    window = Window(size, sigma, args.border, args.anchor, 1.0 if args.amount is None else args.amount)
    function = (VOLUME_FILTERS if volume else IMAGE_FILTERS).get(name)
    if function is not None:
        return lambda image: function(image, window)
    taps = kernels.named(name)
    return lambda image: torch_conv.filter2d(image, taps, args.border, anchor=args.anchor)


def _check_options(args: argparse.Namespace, volume: bool) -> None:
    """Refuses options that the filter does not have, and numbers of other axes."""
    name = args.filter
    if volume and name not in VOLUME_FILTERS:
        raise UsageError(f"--filter of a volume must be {', '.join(VOLUME_FILTERS)}, got {name}")
    for option, having in (("sigma", WITH_SIGMA), ("amount", ("unsharp",))):
        if getattr(args, option) is not None and name not in having:
            raise UsageError(f"--{option} has no meaning for {name}")
    if args.anchor is not None and name in WITHOUT_ANCHOR:
        raise UsageError(f"--anchor has no meaning for {name}")
    axes, all_axes = ("Z,Y,X", "all") if volume else ("Y,X", "both")
    for option in ("size", "sigma", "anchor"):
        numbers = getattr(args, option)
        if isinstance(numbers, tuple) and len(numbers) != (3 if volume else 2):
            raise UsageError(f"--{option} must be {axes} or one number for {all_axes}, got {_typed(numbers)}")
    sizes = args.size if isinstance(args.size, tuple) else (args.size,)
    if args.size is not None and min(sizes) < 1:
        raise UsageError(f"--size must be at least 1, got {min(sizes)}")
    sigmas = args.sigma if isinstance(args.sigma, tuple) else (args.sigma,)
    if args.sigma is not None and not all(0 < sigma < math.inf for sigma in sigmas):
        raise UsageError(f"--sigma must be finite and greater than 0, got {_typed(sigmas)}")
    if args.size is not None and name not in SIZED and set(sizes) != {3}:
        raise UsageError(f"--size of {name} must be 3, got {_typed(sizes)}")


def _typed(numbers: tuple[float, ...]) -> str:
    """As the command's user typed them: 1.5,2."""
    return ",".join(f"{number:.12g}" for number in numbers)


def _an_axis(one: Callable[[str], Any]) -> Callable[[str], Any]:
    """A parser of one number, or of several as a tuple: 5, or 3,5,5."""

    def numbers(text: str) -> Any:
        found = tuple(one(part) for part in text.split(","))
        return found[0] if len(found) == 1 else found

    return numbers
