"""The float64 check of a drawn call: three pieces of its image, computed by `torch_conv.reference`.

A piece is cut from the image with the footprint around it. Results near the cuts are not compared. Separable functions
are computed axis by axis, since their reference takes every tap of the whole window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_conv import reference
from torch_conv.bench.anywhere.call import INPUTS, Call
from torch_conv.bench.anywhere.work import footprint, gaussian_size, output_step, spatial, window_sizes
from torch_conv.bench.checks import as_signed
from torch_conv.bench.common import TOLERANCE
from torch_conv.dispatch.numbers import per_axis
from torch_conv.kernels import gaussian1d

SIDE = {1: 512, 2: 40, 3: 14}  # of a compared piece, in results, by the number of axes
TIES = {"thin_edges": 6}  # pixels of a piece that are not compared: rounding decides whether they are edges
FLOAT64 = 1e-12  # the tolerance of results in float64
GRADIENTS = 4  # times the tolerance
CHANNELS = 2  # of the results of a convolution


@dataclass(frozen=True)
class Piece:
    """A part of the result, and its values in float64 or rounded to the result's dtype."""

    where: tuple[Any, ...]
    values: Tensor
    scale: float
    ties: int

    def error(self, result: Tensor) -> float:
        """The largest difference from the call's result, in units of `scale`.

        Expected values that are not finite, of the slope of a root at 0, are not compared.
        """
        found = as_signed(result)[self.where].cpu().view(result.dtype).double()
        values = self.values.double()
        if found.shape != values.shape:
            return float("inf")
        known = values.isfinite()
        apart = (found[known] - values[known]).abs().nan_to_num(nan=float("inf"))
        if not len(apart):
            return 0.0
        return float(apart.topk(min(1 + self.ties, len(apart))).values[-1]) / self.scale


def tolerance(dtype: torch.dtype, backward: bool = False) -> float:
    """The largest error of a right result; of gradients, which several filters round, more."""
    return (FLOAT64 if dtype == torch.float64 else TOLERANCE[dtype]) * (GRADIENTS if backward else 1)


def error_of(result: Any, pieces: Sequence[Piece]) -> float:
    return max(piece.error(result) for piece in pieces)


def pieces_of(call: Call, x: Tensor, given: dict[str, Any]) -> list[Piece]:
    """The expected values of three pieces: the first corner, the middle and the last corner of the last image."""
    return [piece_at(call, x, given, part) for part in parts_of(call, given)]


def parts_of(call: Call, given: dict[str, Any]) -> tuple[float, ...]:
    """Where pieces lie along every axis.

    `thin_edges` has zeros around the image's magnitudes, also where the image itself is circular: only the middle.
    """
    inside = call.function == "thin_edges" and given.get("border_type") == "circular"
    return (0.5,) if inside else (0.0, 0.5, 1.0)


def piece_at(call: Call, x: Tensor, given: dict[str, Any], part: float) -> Piece:
    """The piece at this part of every axis."""
    dims, sizes = axes_of(call), spatial(call)
    step, reads = output_step(call), footprint(call)
    wraps = given.get("border_type") == "circular" or given.get("padding_mode") == "circular"
    taken = narrowed(call, x, given)
    piece, options = taken.image, taken.given
    where, inner = list(taken.where), [slice(None)] * (x.dim() + taken.planes)
    for dim, n, s, f in zip(dims, sizes, step, reads, strict=True):
        side = SIDE[len(dims)] * s
        halo = -(-f // s) * s
        start = int(max(0, n - side) * part) // s * s
        low, high = start - halo, start + side + halo
        if not wraps or n <= side + 2 * halo:
            low, high = max(low, 0), min(high, n)
        if wraps and n <= side + 2 * halo:
            low, high = 0, n
        piece = piece.index_select(dim, torch.arange(low, high, device=piece.device).remainder(n))
        # Results of the piece up to its own ends, or as far as no cut is read.
        wrapped = wraps and high - low != n
        since = (start - low) // s if low > 0 or wrapped else 0
        until = (start + side - low) // s if high < n or wrapped else None
        inner[dim] = slice(since, until)
        where[dim] = slice(low // s + since, None if until is None else low // s + until)
    piece = piece.cpu().view(x.dtype)
    values = expected(call, piece, options)[tuple(inner)]
    return Piece(tuple(where), values, scale(piece, values), TIES.get(call.function, 0))


def scale(piece: Tensor, values: Tensor) -> float:
    """The largest number of the image or the result, at least 1; for integers 1, which differ by a unit at a tie."""
    if not values.dtype.is_floating_point:
        return 1.0
    return max([1.0, *(float(each.double().abs().max()) for each in (piece, values) if each.numel())])


def axes_of(call: Call) -> list[int]:
    """The dimensions of the window, counted from the end."""
    if call.function == "filter1d":
        dim = call.options.get("dim", -1)
        return [dim - len(call.shape) if dim >= 0 else dim]
    return list(range(-len(window_sizes(call)), 0))


@dataclass(frozen=True)
class Narrowed:
    """One image of a batch, or the last group of channels, with the arguments that belong to it."""

    image: Tensor
    given: dict[str, Any]
    where: tuple[slice, ...]  # its part of the result
    planes: int  # dimensions that the result has beyond the image's


def narrowed(call: Call, x: Tensor, given: dict[str, Any]) -> Narrowed:
    image = as_signed(x)
    given = {key: value.cpu() if isinstance(value, Tensor) else value for key, value in given.items()}
    planes = 1 if call.function.startswith(("spatial_gradient", "structure_tensor")) else 0
    if "weight" in given:
        return last_channels(call, image, given)
    dims = {dim % x.dim() for dim in axes_of(call)}
    one = tuple(slice(None) if dim in dims else slice(-1, None) for dim in range(x.dim()))
    lead = one[: x.dim() - call.axes] if call.function != "filter1d" else one
    if "kernel" in given and given["kernel"].dim() > call.axes and call.function != "filter1d":
        given["kernel"] = given["kernel"][-1:, -1:] if given["kernel"].dim() > call.axes + 1 else given["kernel"][-1:]
    where = (*lead, *[slice(None)] * planes, *one[len(lead) :])
    return Narrowed(image[one], given, where, planes)


def last_channels(call: Call, image: Tensor, given: dict[str, Any]) -> Narrowed:
    """The last sample, and of the last group of channels the last results."""
    weight, groups = given["weight"], given.get("groups", len(given["weight"]))
    outputs = len(weight) // groups
    kept = outputs if call.backward else min(outputs, CHANNELS)  # all flow back
    inputs = image.shape[1] // groups
    given["weight"] = weight[-kept:]
    if "bias" in given:
        given["bias"] = given["bias"][-kept:]
    if "groups" in given:
        given["groups"] = 1
    if "conv_state" in given:
        given["conv_state"] = given["conv_state"][-1:, -kept:].clone()
    where = (slice(-1, None), slice(-kept, None), *[slice(None)] * (image.dim() - 2))
    return Narrowed(image[-1:, -inputs:], given, where, 0)


# ---- references that take one axis after the other -------------------------------------------------------------------


def expected(call: Call, piece: Tensor, given: dict[str, Any]) -> Tensor:
    """The reference's result for a piece of the image."""
    name, dtype = call.function, given.get("output_dtype") or piece.dtype
    rows = list(rows_of(call, given))
    if not rows:
        result: Tensor = getattr(reference, name)(**{INPUTS.get(name, "input"): piece}, **given)
        return result
    kept: dict[str, Any] = {key: given[key] for key in ("border_type", "padding", "value") if key in given}
    if name == "gaussian_gradient_magnitude3d":
        kept.setdefault("border_type", "replicate")
        blurred = by_axes(piece, rows, kept, call.axes)
        slopes = reference.spatial_gradient3d(blurred, given.get("mode", "diff"), **kept)
        return reference_rounded(slopes.square().sum(-4).sqrt(), dtype)
    each = {"stride", "dilation", "normalized"}
    total = by_axes(piece, rows, kept | {key: given[key] for key in each & given.keys()}, call.axes, name)
    if (factor := given.get("factor", 1)) > 1:
        total = total[..., ::factor, ::factor]
    return reference_rounded(total, dtype)


def reference_rounded(total: Tensor, dtype: torch.dtype) -> Tensor:
    from torch_conv.reference._extend import rounded

    return rounded(total, dtype)


def rows_of(call: Call, given: dict[str, Any]) -> Iterator[Tensor]:
    """The taps along z, y and x in the order of the axes; nothing for functions whose reference is quick enough."""
    name, k = call.function, window_sizes(call)
    if name.startswith("box"):
        yield from (torch.ones(n, dtype=torch.float64) for n in k)
    elif name.endswith("_separable"):
        yield from (given[f"kernel_{axis}"] for axis in "zyx"[-call.axes :])
    elif name in ("gaussian_blur2d", "gaussian_blur3d", "gaussian_downsample", "gaussian_gradient_magnitude3d"):
        sigmas = per_axis(given["sigma"], call.axes)
        sizes = k if given.get("kernel_size") else [gaussian_size(s) for s in sigmas]
        yield from (gaussian1d(n, s, dtype=torch.float64) for n, s in zip(sizes, sigmas, strict=True))


def by_axes(piece: Tensor, rows: Sequence[Tensor], given: dict[str, Any], axes: int, name: str = "") -> Tensor:
    """The rows applied along one axis after the other, in float64."""
    correlate: Callable[..., Tensor] = reference.filter2d if axes == 2 else reference.filter3d
    given = {"border_type": "reflect" if axes == 2 else "replicate", **given}
    normalized = given.pop("normalized", name.startswith("box"))
    value, strides = given.pop("value", 0.0), per_axis(given.pop("stride", 1), axes)
    distances = per_axis(given.pop("dilation", 1), axes)
    total = piece.double()
    for axis, taps in enumerate(rows):
        shape = [len(taps) if a == axis else 1 for a in range(axes)]
        steps = {
            "stride": [strides[a] if a == axis else 1 for a in range(axes)],
            "dilation": [distances[a] if a == axis else 1 for a in range(axes)],
        }
        total = correlate(total, taps.double().view(shape), normalized=normalized, value=value, **steps, **given)
        value *= float(taps.double().sum() / (taps.double().abs().sum() if normalized else 1.0))
    return total
