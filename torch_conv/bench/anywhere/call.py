"""A drawn call as plain data, and the tensors that it is made with."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

import torch_conv
from torch_conv import kernels
from torch_conv.bench.common import CROPPED, INTEGERS, SHORT

PLANAR, INNER, CROP, INNER_CROP = "planar", "channels innermost", "crop", "crop, channels innermost"
DTYPE_NAMES = {**SHORT, torch.float64: "f64"}
# The spatial axes of a function's input; filter1d works along one dimension of any tensor.
AXES = {"conv1d": 1, "causal_conv1d": 1, "causal_conv1d_update": 1}
INPUTS = {"causal_conv1d": "x", "causal_conv1d_update": "x"}  # the first argument, where it is not `input`


@dataclass(frozen=True)
class Taps:
    """A tensor argument: what its numbers are, and its shape."""

    kind: str  # of KINDS
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """One call of a public function. It holds no tensor, so a seed gives it on any machine."""

    function: str
    dtype: torch.dtype
    number: int  # within its cell of function and dtype
    source: str  # what the image is: a photo, a CT volume
    shape: tuple[int, ...]
    layout: str = PLANAR
    options: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Taps] = field(default_factory=dict)
    on_host: bool = False  # the tensor arguments stay on the CPU
    backward: bool = False

    @property
    def axes(self) -> int:
        """The number of spatial axes of the input."""
        known = 3 if self.function.endswith("3d") or "3d_" in self.function else 2
        return AXES.get(self.function, known)

    @property
    def short(self) -> str:
        return DTYPE_NAMES[self.dtype]

    @property
    def name(self) -> str:
        """The function, the image and every option, in one line."""
        words = [self.function, self.short, "x".join(map(str, self.shape))]
        words += [] if self.layout == PLANAR else [f"({self.layout})"]
        for key, taps in self.tensors.items():
            words.append(f"{key} {taps.kind} {'x'.join(map(str, taps.shape))}")
        words += [f"{key} {shown(value)}" for key, value in self.options.items()]
        words += ["kernel on the host"] * self.on_host + ["gradient"] * self.backward
        return f"{' '.join(words)}, {self.source} #{self.number}"

    def arguments(self, device: torch.device | str) -> dict[str, Any]:
        """The arguments beside the image, fresh, the same for the same call."""
        generator = torch.Generator().manual_seed(self.number + len(self.name))
        where = "cpu" if self.on_host else device
        return self.options | {
            key: KINDS[taps.kind](taps.shape, self.dtype, generator).to(where) for key, taps in self.tensors.items()
        }

    def image(self, device: torch.device | str, number: int = 0) -> Tensor:
        """An image of noise in the call's layout; other numbers give other noise."""
        generator = torch.Generator(device).manual_seed(number)

        def noise(shape: Sequence[int]) -> Tensor:
            if self.dtype.is_floating_point:
                return torch.rand(shape, generator=generator, device=device).to(self.dtype)
            low, high = INTEGERS[self.dtype]
            values = torch.randint(low, high, shape, generator=generator, dtype=torch.int32, device=device)
            return values.to(self.dtype)

        return self._laid_out(noise)

    def blank(self, device: torch.device | str) -> Tensor:
        """An image without values, for plans."""
        return self._laid_out(lambda shape: torch.empty(shape, dtype=self.dtype, device=device))

    def _laid_out(self, make: Callable[[Sequence[int]], Tensor]) -> Tensor:
        top, left = CROPPED if "crop" in self.layout else (0, 0)
        shape = [*self.shape[:-2], self.shape[-2] + top, self.shape[-1] + left]
        c = len(shape) - self.axes - 1
        inner = [*shape[:c], *shape[c + 1 :], shape[c]]
        x = make(inner).movedim(-1, c) if INNER in self.layout else make(shape)
        return x[..., top:, left:]

    def bound(self, device: torch.device | str) -> Callable[[Tensor], Any]:
        """The public function with all arguments but the image."""
        given = self.arguments(device)
        function, image = getattr(torch_conv, self.function), INPUTS.get(self.function, "input")
        if image == "x":
            return lambda x: function(x, **given)
        return partial(function, **given)


def shown(value: Any) -> str:
    """An option as text: 0.7 for 0.7000000001, 3x5 for (3, 5), f32 for torch.float32."""
    if isinstance(value, torch.dtype):
        return DTYPE_NAMES[value]
    if isinstance(value, (tuple, list)):
        return "x".join(map(shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# ---- tensor arguments ------------------------------------------------------------------------------------------------

Make = Callable[[Sequence[int], torch.dtype, torch.Generator], Tensor]


def of_unit_sum(taps: Tensor, axes: int) -> Tensor:
    """The taps over the sum of their magnitudes, so that results keep the image's range."""
    return taps / taps.abs().sum(tuple(range(-axes, 0)), keepdim=True)


def window(make: Callable[[Sequence[int], torch.Generator], Tensor], axes: int) -> Make:
    """Taps of a filter in float32, or of float64 images in float64."""

    def made(shape: Sequence[int], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
        taps = make(shape[-axes:], generator)
        if len(shape) > axes:  # each sample or channel has its own, a little different
            taps = taps * (1 + 0.1 * torch.rand(*shape[:-axes], *[1] * axes, generator=generator))
        return of_unit_sum(taps, axes).to(dtype if dtype == torch.float64 else torch.float32)

    return made


def dense(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def smooth(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Positive taps without structure."""
    return dense(shape, generator).abs() + 0.1


def coordinates(shape: Sequence[int]) -> tuple[Tensor, ...]:
    """The middles of the taps along each axis, within a window from -1 to 1."""
    rows = [(2 * torch.arange(k, dtype=torch.float64) + 1) / k - 1 for k in shape]
    return torch.meshgrid(*rows, indexing="ij")


def disk(shape: Sequence[int], _: torch.Generator) -> Tensor:
    """An ellipse, the blur of a lens out of focus."""
    y, x = coordinates(shape)
    return (y.square() + x.square() <= 1).double()


def line(shape: Sequence[int], _: torch.Generator) -> Tensor:
    """A diagonal, the blur of a moving camera."""
    taps = torch.zeros(*shape, dtype=torch.float64)
    part = torch.linspace(0, 1, max(shape), dtype=torch.float64)
    taps[tuple((part * (k - 1)).round().long() for k in shape)] = 1
    return taps


def gabor(shape: Sequence[int], _: torch.Generator) -> Tensor:
    """A wave under a Gaussian, which answers to stripes of one direction: a sum of two separable kernels."""
    y, x = coordinates(shape)
    return torch.exp(-2 * (y.square() + x.square())) * torch.cos(4 * x + 2 * y)


def star(shape: Sequence[int], _: torch.Generator) -> Tensor:
    """The neighbours along the axes alone, as in the Laplacian of a volume."""
    away = torch.stack([p.abs() > 1e-9 for p in coordinates(shape)]).sum(0)
    return (away <= 1).double()


def gaussian(shape: Sequence[int], _: torch.Generator) -> Tensor:
    return kernels.gaussian1d(shape[0] | 1, kernels.default_sigma(shape[0]), dtype=torch.float64)[: shape[0]]


def layer(shape: Sequence[int], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Weights of a network's layer, in the image's dtype."""
    weight = torch.randn(*shape, generator=generator)
    return (weight / weight.abs().flatten(1).sum(1).view(-1, *[1] * (len(shape) - 1))).to(dtype)


def vector(shape: Sequence[int], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    return (0.1 * torch.randn(*shape, generator=generator)).to(dtype)


def states(shape: Sequence[int], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    return torch.rand(*shape, generator=generator).to(dtype)


KINDS: dict[str, Make] = {
    **{made.__name__: window(made, 2) for made in (dense, smooth, disk, line, gabor)},
    **{f"{made.__name__} volume": window(made, 3) for made in (dense, smooth, star)},
    **{f"{made.__name__} row": window(made, 1) for made in (dense, smooth, gaussian)},
    "weights": layer,
    "bias": vector,
    "state": states,
}


def log_uniform(rng: random.Random, low: float, high: float) -> float:
    """A number whose logarithm is uniform, with three digits."""
    value = math.exp(rng.uniform(math.log(low), math.log(high)))
    return float(f"{value:.3g}")
