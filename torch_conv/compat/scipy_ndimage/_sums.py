"""Kernels in scipy's order, and sums in float64 by the library's filters, for gradients and other devices.

Sums whose rounding decides the result are computed a second time, in scipy's order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_conv import typing
from torch_conv.functional import box_blur, filter1d, filter2d, filter3d

Weights = np.ndarray[Any, np.dtype[np.float64]]

# scipy treats a tap this close to zero as zero, and two opposite taps this close to each other as equal.
_EPSILON = float(np.finfo(np.float64).eps)
_BORDERS: dict[str, typing.Border] = {
    "nearest": "replicate",
    "wrap": "circular",
    "reflect": "symmetric",
    "mirror": "reflect",
    "constant": "constant",
    "grid-mirror": "symmetric",
    "grid-wrap": "circular",
    "grid-constant": "constant",
}
# Gathering every pixel takes 2.7 to 6.3 times as long as reading all of them in order. Measured on one core for
# 1024x1024 uint8, with 17 taps along either axis and with 3x3.
_SPARSE = 4


class Step(NamedTuple):
    """One step of a sum in scipy's order: the weight times a tap, or times the tap plus or minus its twin."""

    weight: float
    tap: tuple[int, ...]
    twin: tuple[int, ...] | None = None


class Window(NamedTuple):
    """A kernel with one axis for each axis of the image, and the tap that lies on the pixel.

    A kernel of a pass has taps along `axis` alone, and `twins` where it is even (1) or odd (-1) about its middle:
    scipy adds or subtracts their pixels first. It leaves out taps of zero in kernels without a given axis.
    """

    weights: Weights
    anchor: tuple[int, ...]
    axis: int | None = None
    twins: int = 0

    @property
    def axes(self) -> list[int]:
        """The axes with more than one tap."""
        return [axis for axis, k in enumerate(self.weights.shape) if k > 1]

    @property
    def skips(self) -> bool:
        return self.axis is None and not self.weights.all()

    @property
    def steps(self) -> list[Step]:
        """The sum in scipy's order."""
        if self.axis is None:
            taps = itertools.product(*map(range, self.weights.shape))
            return [Step(float(self.weights[tap]), tap) for tap in taps if self.weights[tap]]
        along, k = self.weights.reshape(-1), self.weights.size

        def at(i: int) -> tuple[int, ...]:
            return tuple(i if a == self.axis else 0 for a in range(self.weights.ndim))

        if not self.twins:
            return [Step(float(along[i]), at(i)) for i in (k - 1, *range(k - 1))]
        pairs = [Step(float(along[i]), at(i), at(k - 1 - i)) for i in range(k // 2)]
        return [Step(float(along[k // 2]), at(k // 2)), *pairs]


class Border(NamedTuple):
    name: typing.Border
    value: float


def border_of(mode: Any, value: float) -> Border:
    name = _BORDERS.get(mode) if isinstance(mode, str) else None
    if name is None:
        raise RuntimeError("boundary mode not supported")
    return Border(name, value)


def window_of_lines(taps: Weights, axis: int, dims: int, origin: int) -> Window:
    """A kernel along one axis, its twins made equal where they nearly are."""
    k = len(taps)
    left, right = taps[: k // 2], taps[::-1][: k // 2]
    twins = 0
    if k % 2 and (np.abs(left - right) <= _EPSILON).all():
        twins = 1
    elif k % 2 and (np.abs(left + right) <= _EPSILON).all():
        twins = -1
    if twins:
        taps = np.concatenate([left, taps[k // 2 : k // 2 + 1], twins * left[::-1]])
    shape = tuple(k if a == axis else 1 for a in range(dims))
    anchor = tuple(k // 2 + origin if a == axis else 0 for a in range(dims))
    return Window(taps.reshape(shape), anchor, axis, twins)


def window_of_images(weights: Weights, origins: list[int]) -> Window:
    """A kernel along every axis. scipy leaves out taps of nearly zero, even at NaN and Inf."""
    weights = np.where(np.abs(weights) > _EPSILON, weights, 0.0)
    anchor = tuple(k // 2 + origin for k, origin in zip(weights.shape, origins, strict=True))
    return Window(weights, anchor)


def weighted_sums(values: Tensor, window: Window, border: Border, to_integers: bool) -> Tensor:
    """Sums in float64 over the kernel around every pixel.

    The filters' multiply-adds and scipy's multiplications and additions differ in the last place or two. The
    difference changes an integer only if the sum lies that close to one. Such sums, and sums that are NaN for a tap of
    zero that scipy leaves out, are computed again in scipy's order.
    """
    image = values.to(torch.float64)
    if image.numel() == 0:
        return image.clone()
    sums = _filtered(image, window, border)
    again = torch.zeros_like(sums, dtype=torch.bool)
    if to_integers:
        again |= _near_integers(sums, image, window, border, not values.is_floating_point())
    if window.skips and (values.is_floating_point() or not np.isfinite(border.value)):
        again |= ~sums.isfinite()
    return _summed_again(sums, image, window, border, again)


def box_means(values: Tensor, size: int, axis: int, origin: int, border: Border) -> Tensor:
    """The mean of `size` pixels along an axis, in float64: the sum, exact for integers, and one division."""
    image = values.to(torch.float64)
    if image.numel() == 0:
        return image.clone()
    n, behind, anchor = image.shape[axis], image.shape[axis + 1 :].numel(), size // 2 + origin
    if behind == 1:
        lines, window, at = image.reshape(-1, n), (1, size), (0, anchor)
    else:
        lines, window, at = image.reshape(-1, n, behind), (size, 1), (anchor, 0)
    sums = box_blur(lines, window, border.name, normalized=False, anchor=at, value=border.value)
    return sums.reshape(image.shape) / size


_WHOLE: Literal["direct"] = "direct"  # scipy's casts to integers truncate, so sums that are integers must be exact


def _along(image: Tensor, taps: Tensor, border: typing.Border, dim: int, value: float, anchor: int) -> Tensor:
    return filter1d(image, taps, border, dim=dim, value=value, anchor=anchor, algorithm=_WHOLE)


def _filtered(image: Tensor, window: Window, border: Border) -> Tensor:
    axes, dims = window.axes, image.dim()
    if not axes:
        return image * float(window.weights.item())
    if len(axes) > 3:
        return _filtered_slice_by_slice(image, window, border)
    taps = torch.from_numpy(np.ascontiguousarray(window.weights.squeeze(_others(axes, dims))))
    anchor = tuple(window.anchor[axis] for axis in axes)
    if len(axes) == 1:
        k = len(taps)
        if window.twins < 0 and anchor[0] == k // 2:
            return _odd(image, taps[k // 2 :], border, axes[0])
        return _along(image, taps, border.name, axes[0], border.value, anchor[0])
    last = tuple(range(-len(axes), 0))
    moved = image.movedim(axes, last)
    correlate = filter2d if len(axes) == 2 else filter3d
    sums = correlate(moved, taps, border.name, value=border.value, anchor=anchor, algorithm=_WHOLE)
    return sums.movedim(last, axes)


def _odd(image: Tensor, half: Tensor, border: Border, axis: int) -> Tensor:
    """An odd kernel by its half: both sides are summed in the same order, so a constant has derivative 0."""

    def side(image: Tensor, half: Tensor) -> Tensor:
        return _along(image, half, border.name, axis, border.value, 0)

    middle_left_out = torch.cat([torch.zeros_like(half[:1]), half[1:]])
    return side(image, half) - side(image.flip(axis), middle_left_out).flip(axis)


def _others(axes: list[int], dims: int) -> tuple[int, ...]:
    return tuple(axis for axis in range(dims) if axis not in axes)


def _filtered_slice_by_slice(image: Tensor, window: Window, border: Border) -> Tensor:
    """A kernel along more than three axes: for every tap of its first one, the rest of it on the shifted image."""
    first = window.axes[0]
    extended = _extended(image, window, border, [first])
    sums = torch.zeros_like(image)
    for tap in range(window.weights.shape[first]):
        rest = window._replace(weights=window.weights.take([tap], axis=first))
        if rest.weights.any():
            sums = sums + _filtered(extended.narrow(first, tap, image.shape[first]), rest, border)
    return sums


def _extended(image: Tensor, window: Window, border: Border, axes: list[int]) -> Tensor:
    """The image as far along the axes as the kernel reaches: tap t of output i reads pixel i + t.

    Kernels of a single tap filter the pixels' positions, which gives the border's map.
    """
    for axis in axes:
        n, k = image.shape[axis], window.weights.shape[axis]
        taps = torch.tensor(
            [*range(0, k - 1, n), k - 1], device="cpu"
        )  # their inputs, concatenated, are the extended axis
        positions = torch.arange(n, dtype=torch.float64, device="cpu").expand(1, len(taps), n)
        one_tap = torch.nn.functional.one_hot(taps, k)[None]
        reads = _along(positions, one_tap, border.name, -1, -1.0, window.anchor[axis])[0]
        source = torch.cat([reads[:-1].flatten()[: k - 1], reads[-1]]).to(image.device, torch.int64)
        image = image.index_select(axis, source.clamp(min=0))
        if border.name == "constant":
            inside = (source >= 0).view([-1 if a == axis else 1 for a in range(image.dim())])
            image = torch.where(inside, image, border.value)
    return image.contiguous()


def _near_integers(sums: Tensor, image: Tensor, window: Window, border: Border, whole: bool) -> Tensor:
    """Where two orders of rounding may give different integers. `whole`: the image holds integers only."""
    weights, outside = window.weights, border.value if border.name == "constant" else 0.0
    largest = max(*(abs(float(end)) for end in image.detach().aminmax()), abs(outside))
    bound = float(np.abs(weights).sum()) * largest
    fine = 2.0**16  # integers times multiples of 1/fine add up without any rounding while the sums are small enough
    if (
        whole
        and outside == np.trunc(outside)
        and bound * fine < 2.0**53
        and (weights * fine == np.trunc(weights * fine)).all()
    ):
        return torch.zeros_like(sums, dtype=torch.bool)
    if not np.isfinite(bound):
        return torch.ones_like(sums, dtype=torch.bool)
    return (sums - sums.round()).abs_() <= 4 * weights.size * _EPSILON * bound


def _summed_again(sums: Tensor, image: Tensor, window: Window, border: Border, again: Tensor) -> Tensor:
    """The sums with those marked in `again` taken step by step, each product and each addition rounded."""
    chosen = again.reshape(-1).nonzero()[:, 0]
    if not len(chosen):
        return sums
    extended = _extended(image, window, border, window.axes)
    if len(chosen) > image.numel() // _SPARSE:

        def region(tap: tuple[int, ...]) -> Tensor:
            return extended[tuple(slice(t, t + n) for t, n in zip(tap, image.shape, strict=True))]

        return torch.where(again, _stepwise(window, region), sums)

    strides, first, left = extended.stride(), torch.zeros_like(chosen), chosen
    for n, stride in zip(reversed(image.shape), reversed(strides), strict=True):
        first, left = first + left % n * stride, left // n

    def pixels(tap: tuple[int, ...]) -> Tensor:
        return extended.view(-1)[first + sum(t * stride for t, stride in zip(tap, strides, strict=True))]

    return sums.reshape(-1).index_copy(0, chosen, _stepwise(window, pixels)).view(image.shape)


def _stepwise(window: Window, pixels: Callable[[tuple[int, ...]], Tensor]) -> Tensor:
    """The sum in scipy's order over the pixels that every tap reads."""
    total = None
    for step in window.steps:
        pixel = pixels(step.tap)
        if step.twin is not None:
            twin = pixels(step.twin)
            pixel = pixel + twin if window.twins > 0 else pixel - twin
        total = pixel * step.weight if total is None else total.add_(pixel * step.weight)
    return torch.zeros_like(pixels((0,) * window.weights.ndim)) if total is None else total
