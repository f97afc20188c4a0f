"""scipy's passes on stored values, and its checks of axes, origins and arguments per axis with their sentences."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.exceptions import AxisError
from torch import Tensor

from torch_conv.compat.scipy_ndimage import _in_order, _sums
from torch_conv.compat.scipy_ndimage._arrays import Image, Kind, c_cast, copied, in_memory
from torch_conv.compat.scipy_ndimage._sums import Border, Weights, Window, border_of


class Line(NamedTuple):
    """One pass: taps along an axis."""

    taps: Weights
    axis: Any
    mode: Any
    origin: Any = 0


class BoxPass(NamedTuple):
    """One pass: the mean of `size` pixels along an axis."""

    size: Any
    axis: Any
    mode: Any
    origin: Any = 0


def line_passes(image: Image, lines: Sequence[Line], kind: Kind, cval: float) -> Image:
    """The image correlated along one axis after the other; every pass is stored as `kind`."""
    passes = []
    for taps, axis, mode, origin in lines:
        if taps.ndim != 1 or len(taps) < 1:
            raise RuntimeError("no filter weights given")
        axis = axis_of(axis, image.values.dim())
        if not origin_fits(origin, len(taps)):
            raise ValueError(
                "Invalid origin; origin must satisfy -(len(weights) // 2) <= origin <= (len(weights)-1) // 2"
            )
        window = _sums.window_of_lines(taps, axis, image.values.dim(), index(origin))
        passes.append((window, border_of(mode, cval)))
    if in_memory(image.values):
        return image._replace(values=_in_order.passes(image.values, passes, kind), kind=kind)
    for window, border in passes:
        sums = _sums.weighted_sums(image.values, window, border, kind.whole)
        image = Image(c_cast(sums, kind), kind, image.is_tensor)
    return image


def box_passes(image: Image, boxes: Sequence[BoxPass], kind: Kind, cval: float) -> Image:
    """The image's means along one axis after the other; every pass is stored as `kind`."""
    passes = []
    for size, axis, mode, origin in boxes:
        axis = axis_of(axis, image.values.dim())
        if size < 1:
            raise RuntimeError("incorrect filter size")
        if not 0 <= size // 2 + origin < size:
            raise ValueError("invalid origin")
        passes.append((index(size), axis, index(origin), border_of(mode, cval)))
    if in_memory(image.values):
        return image._replace(values=_in_order.means(image.values, passes, kind), kind=kind)
    for size, axis, origin, border in passes:
        means = _sums.box_means(image.values, size, axis, origin, border)
        image = Image(c_cast(means, kind), kind, image.is_tensor)
    return image


def window_pass(image: Image, window: Window, border: Border, kind: Kind) -> Image:
    """The image correlated with a kernel along all axes."""
    if in_memory(image.values):
        return image._replace(values=_in_order.window(image.values, window, border, kind), kind=kind)
    sums = _sums.weighted_sums(image.values, window, border, kind.whole)
    return Image(c_cast(sums, kind, by_magnitude=True), kind, image.is_tensor)


def gaussian_passes(
    image: Image,
    sigma: Any,
    order: Any,
    kind: Kind,
    mode: Any,
    cval: float,
    truncate: Any = 4.0,
    *,
    radius: Any = None,
    axes: Any = None,
) -> Image:
    """One pass along every axis whose sigma is above zero; a copy if there is none."""
    dims = axes_of(axes, image.values.dim())
    settings = [per_axis(value, len(dims)) for value in (sigma, order, mode, radius)]
    passes = [each for each in zip(dims, *settings, strict=True) if each[1] > 1e-15]
    if not passes:
        return Image(copied(image, kind), kind, image.is_tensor)
    lines = [
        Line(gaussian_taps(sigma, order, truncate, radius), axis, mode) for axis, sigma, order, mode, radius in passes
    ]
    return line_passes(image, lines, kind, cval)


def gaussian_taps(sigma: Any, order: Any, truncate: Any, radius: Any) -> Weights:
    """A sampled Gaussian, or its derivative of an order, as a kernel to correlate with.

    numpy computes it, since torch's exponential differs in the last place, which shows in integers.
    """
    sigma = plain(sigma)
    if radius is None:
        radius = int(truncate * float(sigma) + 0.5)
    if not isinstance(radius, numbers.Integral) or radius < 0:
        raise ValueError("Radius must be a nonnegative integer.")
    if order < 0:
        raise ValueError("order must be non-negative")
    variance = sigma * sigma
    x = np.arange(-index(radius), index(radius) + 1)
    bell = np.exp(-0.5 / variance * x**2)
    bell = bell / bell.sum()
    if order == 0:
        return np.asarray(bell[::-1])
    # The derivative of q(x) * bell(x) is (q'(x) - x / variance * q(x)) * bell(x): a matrix on q's coefficients.
    derive = np.diag(np.arange(1.0, order + 1), 1) + np.diag(np.ones(order) / -variance, -1)
    q = np.eye(order + 1)[0]
    for _ in range(order):
        q = derive.dot(q)
    return np.asarray(((x[:, None] ** np.arange(order + 1)).dot(q) * bell)[::-1])


def plain(value: Any) -> Any:
    """A tensor of settings as Python's numbers."""
    if not isinstance(value, Tensor):
        return value
    if value.requires_grad and torch.is_grad_enabled():
        raise RuntimeError("scipy_ndimage: settings that require a gradient are not served")
    return value.tolist()


def per_axis(value: Any, count: int) -> list[Any]:
    """One setting per axis: the values given, or one value for all."""
    value = plain(value)
    if isinstance(value, str) or not np.iterable(value):
        return [value] * count
    if len(values := list(value)) != count:
        raise RuntimeError("sequence argument must have length equal to input rank")
    return values


def axis_of(axis: Any, dims: int) -> int:
    if axis < -dims or axis >= dims:
        raise AxisError(f"axis {axis} is out of bounds for array of dimension {dims}")
    return index(axis) % dims


def axes_of(axes: Any, dims: int) -> tuple[int, ...]:
    """The axes that `axes` names, or all for None. One number is not checked here."""
    if axes is None:
        return tuple(range(dims))
    axes = plain(axes)
    if np.isscalar(axes):
        return (index(axes),)  # type: ignore[arg-type]
    if not isinstance(axes, Iterable):
        raise ValueError("axes must be an integer, iterable of integers, or None")
    given = tuple(index(axis) for axis in axes)
    for axis in given:
        if axis < -dims or axis > dims - 1:
            raise ValueError(f"specified axis: {axis} is out of range")
    given = tuple(axis % dims for axis in given)
    if len(set(given)) != len(given):
        raise ValueError("axes must be unique")
    return given


def origin_fits(origin: Any, k: int) -> bool:
    return bool(-(k // 2) <= origin <= (k - 1) // 2)
