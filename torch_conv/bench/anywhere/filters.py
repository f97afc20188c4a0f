"""The windows and options of drawn filters, one function each; sizes are those that the field uses."""

from __future__ import annotations

import random
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from torch_conv import typing as words
from torch_conv.bench.anywhere import sources
from torch_conv.bench.anywhere.call import Taps, log_uniform
from torch_conv.bench.anywhere.sources import Source


@dataclass
class Arguments:
    """What a function is called with beside the image."""

    options: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Taps] = field(default_factory=dict)
    on_host: bool = False


@dataclass(frozen=True)
class Filter:
    """How calls of a function are drawn."""

    draw: Callable[[random.Random, Source, torch.dtype], Arguments]
    source: Callable[[random.Random, torch.dtype], Source] = sources.image


# Window sides with the times out of 100 that people take them.
SIDES = {3: 30, 5: 20, 7: 12, 9: 8, 11: 6, 13: 3, 15: 6, 21: 4, 31: 4, 41: 1, 63: 1, 2: 2, 4: 2, 8: 1}
BOXES = {3: 20, 5: 18, 7: 10, 9: 10, 11: 5, 15: 10, 2: 4, 8: 3, 16: 3, 31: 7, 51: 4, 101: 4, 200: 2}
ROWS = {3: 20, 5: 20, 7: 12, 9: 10, 15: 10, 21: 6, 31: 8, 63: 4, 101: 4, 4: 3, 255: 3}
CUBES = {3: 50, 5: 25, 7: 12, 9: 3, 2: 4, 4: 3}
UNSIGNED = (torch.uint8, torch.uint16)
HOST_TAPS = 49  # windows of at most so many taps are often written down, and stay on the host


def pick(rng: random.Random, weights: dict[int, int]) -> int:
    return rng.choices(list(weights), list(weights.values()))[0]


def sizes(rng: random.Random, weights: dict[int, int], axes: int) -> tuple[int, ...]:
    """Mostly as many taps along each axis."""
    if rng.random() < 0.8:
        return (pick(rng, weights),) * axes
    return tuple(rng.choice((1, pick(rng, weights))) if rng.random() < 0.3 else pick(rng, weights) for _ in range(axes))


def odd(rng: random.Random, most: int) -> int:
    return rng.choice([k for k in (3, 5, 7, 9, 11, 15, 21, 31) if k <= most])


def one_or_all(numbers: Sequence[Any]) -> Any:
    """A number where all axes have the same."""
    return numbers[0] if len({*numbers}) == 1 else tuple(numbers)


def changed_dtype(rng: random.Random, dtype: torch.dtype, signed: bool = False) -> dict[str, Any]:
    """Another dtype of the result: of bytes float32 now and then, of unsigned images mostly a signed one."""
    if signed and dtype in UNSIGNED and rng.random() < 0.8:
        return {"output_dtype": rng.choice((torch.float32, torch.int16))}
    if not dtype.is_floating_point and rng.random() < 0.15:
        return {"output_dtype": torch.float32}
    return {}


def steps(rng: random.Random, axes: int) -> dict[str, Any]:
    """Strides and dilations, now and then."""
    found: dict[str, Any] = {}
    if rng.random() < 0.1:
        found["stride"] = 2 if rng.random() < 0.7 else tuple(rng.choice((1, 2, 3)) for _ in range(axes))
    if rng.random() < 0.1:
        found["dilation"] = rng.choice((2, 2, 3, 4))
    return found


def shared_or_own(rng: random.Random, source: Source, window: tuple[int, ...]) -> tuple[int, ...]:
    """One window for all; of four dimensions and more also one a channel or one a sample."""
    if len(source.shape) != len(window) + 2 or rng.random() < 0.8:
        return window
    batch, channels = source.shape[:2]
    return rng.choice(((1, channels, *window), (batch, *window)))


# ---- any window ------------------------------------------------------------------------------------------------------


def filter2d(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    window = sizes(rng, SIDES, 2)
    kind = rng.choice(("dense", "dense", "smooth", "disk", "line", "gabor"))
    taps = Taps(kind, shared_or_own(rng, source, window))
    found = Arguments(changed_dtype(rng, dtype) | steps(rng, 2), {"kernel": taps})
    if rng.random() < 0.1:
        found.options["behaviour"] = "conv"
    if rng.random() < 0.1 and kind in ("smooth", "disk", "line"):
        found.options["normalized"] = True
    if not window[0] % 2 and rng.random() < 0.5:
        found.options["anchor"] = -1
    found.on_host = window[0] * window[1] <= HOST_TAPS and rng.random() < 0.5
    return found


def filter3d(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    window = rng.choice(((1, 3, 3), (3, 1, 1), (3, 5, 5), (3, 7, 7))) if rng.random() < 0.2 else sizes(rng, CUBES, 3)
    kind = rng.choice(("dense volume", "smooth volume"))
    if window == (3, 3, 3) and rng.random() < 0.3:
        kind = "star volume"
    found = Arguments(changed_dtype(rng, dtype), {"kernel": Taps(kind, shared_or_own(rng, source, window))})
    found.options |= steps(rng, 3)
    found.on_host = window == (3, 3, 3) and rng.random() < 0.5
    return found


def filter1d(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    kind = rng.choice(("dense row", "smooth row", "gaussian row"))
    found = Arguments(changed_dtype(rng, dtype), {"kernel": Taps(kind, (pick(rng, ROWS),))})
    if len(source.shape) > 1 and rng.random() < 0.4:
        found.options["dim"] = rng.choice([-2, 0] if len(source.shape) > 2 else [-2])
    if rng.random() < 0.08:
        found.options["stride"] = rng.choice((2, 4))
    if rng.random() < 0.08:
        found.options["dilation"] = 2
    found.on_host = rng.random() < 0.3
    return found


def separable(axes: int) -> Callable[[random.Random, Source, torch.dtype], Arguments]:
    def draw(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
        window = sizes(rng, SIDES if axes == 2 else CUBES | {11: 3, 15: 2}, axes)
        kind = rng.choice(("dense row", "smooth row", "gaussian row"))
        taps = {f"kernel_{axis}": Taps(kind, (k,)) for axis, k in zip("xyz", reversed(window), strict=False)}
        return Arguments(changed_dtype(rng, dtype) | steps(rng, axes), taps, rng.random() < 0.4)

    return draw


# ---- boxes and Gaussians ---------------------------------------------------------------------------------------------


def box_blur(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    options = {"kernel_size": one_or_all(sizes(rng, BOXES, 2))} | changed_dtype(rng, dtype)
    return Arguments(options | ({"normalized": False} if rng.random() < 0.1 and dtype.is_floating_point else {}))


def box_blur3d(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    window = (rng.choice((1, 3)), 5, 5) if rng.random() < 0.2 else (pick(rng, CUBES | {15: 5, 31: 3}),) * 3
    return Arguments({"kernel_size": one_or_all(window)} | changed_dtype(rng, dtype))


def gaussian_of_size(rng: random.Random, most: int) -> dict[str, Any]:
    """A Gaussian by its size and sigma, as in image pipelines."""
    size = odd(rng, most)
    return {"kernel_size": size, "sigma": round(0.3 * ((size - 1) * 0.5 - 1) + 0.8, 2)}


def gaussian_blur2d(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    if rng.random() < 0.4:
        options = gaussian_of_size(rng, 31)
    elif rng.random() < 0.15:
        options = {"sigma": (log_uniform(rng, 0.5, 4), log_uniform(rng, 0.5, 4))}
    else:
        options = {"sigma": log_uniform(rng, 0.5, 12)}
    return Arguments(options | changed_dtype(rng, dtype))


def gaussian_blur3d(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    options: dict[str, Any]
    if rng.random() < 0.3:
        size = odd(rng, 15)
        options = {"kernel_size": size, "sigma": round(size / 6, 2)}
    else:
        options = {"sigma": sources.sigma_of(rng, source.spacing)}
    return Arguments(options | changed_dtype(rng, dtype))


def gaussian_downsample(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    factor = rng.choice((2, 2, 2, 3, 4))
    blur = {"kernel_size": 5, "sigma": 1.0} if rng.random() < 0.5 else {"sigma": round(factor / 2, 2)}
    return Arguments(blur | {"factor": factor} | changed_dtype(rng, dtype))


def unsharp_mask(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    return Arguments(gaussian_of_size(rng, 21) | {"amount": round(rng.uniform(0.3, 2), 1)} | changed_dtype(rng, dtype))


def difference_of_gaussians(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    return Arguments({"low_sigma": log_uniform(rng, 0.5, 4)} | changed_dtype(rng, dtype, signed=True))


def gaussian_laplace(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    return Arguments({"sigma": log_uniform(rng, 0.6, 6)} | changed_dtype(rng, dtype, signed=True))


# ---- derivatives -----------------------------------------------------------------------------------------------------


def chosen(rng: random.Random, allowed: Any) -> str:
    """One of the words of a type in torch_conv.typing, the first one mostly."""
    names = typing.get_args(allowed)
    return names[0] if rng.random() < 0.5 else rng.choice(names)


def spatial_gradient(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    mode = chosen(rng, words.GradientMode)
    order = 2 if mode in ("sobel", "diff") and rng.random() < 0.3 else 1
    return Arguments({"mode": mode, "order": order} | changed_dtype(rng, dtype, signed=True))


def spatial_gradient3d(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    mode = chosen(rng, words.GradientMode3d)
    order = 2 if mode == "diff" and rng.random() < 0.3 else 1
    return Arguments({"mode": mode, "order": order} | changed_dtype(rng, dtype, signed=True))


def sobel(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    return Arguments(changed_dtype(rng, dtype) | ({"normalized": False} if rng.random() < 0.3 else {}))


def gaussian_sobel(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    options = gaussian_of_size(rng, 11) | {"magnitude": chosen(rng, words.Magnitude)}
    return Arguments(options | changed_dtype(rng, dtype))


def laplacian(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    variant = chosen(rng, words.LaplacianVariant)
    size = odd(rng, 9) if variant == "box" else 3
    return Arguments({"kernel_size": size, "variant": variant} | changed_dtype(rng, dtype, signed=True))


def structure_tensor(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    options = gaussian_of_size(rng, 15) | {"mode": chosen(rng, words.GradientMode)}
    return Arguments(options | changed_dtype(rng, dtype, signed=True))


def thin_edges(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    return Arguments(gaussian_of_size(rng, 11) | changed_dtype(rng, dtype))


def gaussian_gradient_magnitude3d(rng: random.Random, source: Source, dtype: torch.dtype) -> Arguments:
    options = {"sigma": sources.sigma_of(rng, source.spacing), "mode": chosen(rng, words.GradientMode3d)}
    return Arguments(options | changed_dtype(rng, dtype))


FILTERS = {
    **{
        draw.__name__: Filter(draw)
        for draw in (filter2d, box_blur, gaussian_blur2d, gaussian_downsample, unsharp_mask, difference_of_gaussians)
    },
    **{
        draw.__name__: Filter(draw)
        for draw in (gaussian_laplace, spatial_gradient, sobel, gaussian_sobel, laplacian, structure_tensor, thin_edges)
    },
    **{
        draw.__name__: Filter(draw, sources.volume)
        for draw in (filter3d, box_blur3d, gaussian_blur3d, spatial_gradient3d, gaussian_gradient_magnitude3d)
    },
    "filter2d_separable": Filter(separable(2)),
    "filter3d_separable": Filter(separable(3), sources.volume),
    "filter1d": Filter(filter1d, sources.tensor),
}
