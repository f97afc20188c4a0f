"""The filters of scaling.py by the names that its rows begin with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import torch_conv
from torch_conv import kernels

ON_GPU = "window on GPU"  # the last words of a name: the window lies there, as parameters do


@dataclass(frozen=True)
class Filter:
    """One filter three ways: its operator, that of shards, its function on anything."""

    whole: Callable[[Tensor], Tensor]
    shards: Callable[[Sequence[Tensor]], list[Tensor]]
    function: Callable[[Any], Any]
    window: Tensor | None = None  # of a direct filter

    @property
    def rows(self) -> int:
        """Of a neighbour that an image needs above and below its own."""
        return 0 if self.window is None else self.window.shape[-1] // 2


def window(*size: int) -> Tensor:
    """Random taps, whose magnitudes sum to 1."""
    taps = torch.rand(size, generator=torch.Generator().manual_seed(1)) - 0.3
    return taps / taps.abs().sum()


def filter_named(name: str, border: Any, dim: int, device: torch.device) -> Filter:
    """A kind, where it has one its size (of a direct filter "KxK"), and what is particular: "gaussian 31 float16".

    `device` is the first one of those that are measured.
    """
    kind, *particular = name.split()
    k = int(particular[0].partition("x")[0]) if particular else 0
    function: Callable[..., Any]
    if kind in ("filter2d", "filter3d"):
        taps = window(*[k] * int(kind[-2]))
        taps = taps.to(device) if name.endswith(ON_GPU) else taps
        function = getattr(torch_conv, kind)
        return _filter(kind, (taps, border), dim, lambda x: function(x, taps, border), taps)
    if kind == "sobel":
        return _filter("sobel2d", (), dim, lambda x: torch_conv.sobel(x, border_type=border), border_type=border)
    if kind == "box":
        return _filter("box2d", ([k, k], border), dim, lambda x: torch_conv.box_blur(x, k, border))
    operator, axes, function = GAUSSIANS[kind]
    row, sigma = kernels.gaussian1d(k), kernels.default_sigma(k)
    return _filter(operator, (*[row] * axes, border), dim, lambda x: function(x, k, sigma, border))


# The operator, how many windows of one axis it takes, and the function, which takes the size and sigma.
GAUSSIANS: dict[str, tuple[str, int, Callable[..., Any]]] = {
    "gaussian": ("filter2d_separable", 2, torch_conv.gaussian_blur2d),
    "gaussian3d": ("filter3d_separable", 3, torch_conv.gaussian_blur3d),
    "gaussian_sobel": ("gaussian_sobel2d", 2, torch_conv.gaussian_sobel),
}


def _filter(
    operator: str,
    args: Sequence[Any],
    dim: int,
    function: Callable[[Any], Any],
    window: Tensor | None = None,
    **kwargs: Any,
) -> Filter:
    whole = getattr(torch.ops.torch_conv, operator).default
    shards = getattr(torch.ops.torch_conv, operator + "_split").default
    return Filter(
        lambda x: whole(x, *args, **kwargs), lambda xs: shards(xs, *args, dim=dim, **kwargs), function, window
    )
