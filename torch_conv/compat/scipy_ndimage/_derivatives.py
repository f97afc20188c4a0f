"""Derivatives by three taps, and derivatives of Gaussians."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from torch_conv.compat._types import Array, ArrayLike, Floats, Ints, Modes, Output, of_arrays
from torch_conv.compat.scipy_ndimage._arrays import (
    Image,
    Kind,
    border_value,
    copied,
    image_of,
    plus,
    root,
    squared,
    target_of,
)
from torch_conv.compat.scipy_ndimage._passes import Line, axes_of, axis_of, gaussian_passes, line_passes, per_axis


@of_arrays
def sobel(
    input: ArrayLike | Tensor, axis: int = -1, output: Output = None, mode: Modes = "reflect", cval: float = 0.0
) -> Tensor | Array:
    """The derivative along an axis by the taps -1, 0, 1, smoothed along the others by 1, 2, 1.

    Args:
        input: array or tensor of at least one axis, of a dtype that `correlate` takes.
        axis: the axis to derive along.
        output: as in `correlate`; every pass stores this dtype, so choose a signed one.
        mode: as in `correlate`, one or one per axis.
        cval: pixel value outside for 'constant'.

    Returns:
        Array or tensor of the input's shape, or `output` if it receives the result.

    Raises:
        RuntimeError, TypeError: as `correlate`.
        ValueError: for an axis that the input does not have.

    Equivalent to:
        `scipy.ndimage.sobel`, by `filter1d` on float64

    Example:
        >>> sobel(torch.tensor([[0, 10, 30], [0, 10, 30]], dtype=torch.uint8), output=torch.int16)
        tensor([[ 40, 120,  80],
                [ 40, 120,  80]], dtype=torch.int16)
    """
    return _three_taps("sobel", [1.0, 2.0, 1.0], input, axis, output, mode, cval)


@of_arrays
def prewitt(
    input: ArrayLike | Tensor, axis: int = -1, output: Output = None, mode: Modes = "reflect", cval: float = 0.0
) -> Tensor | Array:
    """The derivative along an axis by the taps -1, 0, 1, added up along the others by 1, 1, 1.

    Args:
        input: array or tensor of at least one axis, of a dtype that `correlate` takes.
        axis: the axis to derive along.
        output: as in `correlate`; every pass stores this dtype, so choose a signed one.
        mode: as in `correlate`, one or one per axis.
        cval: pixel value outside for 'constant'.

    Returns:
        Array or tensor of the input's shape, or `output` if it receives the result.

    Raises:
        RuntimeError, TypeError: as `correlate`.
        ValueError: for an axis that the input does not have.

    Equivalent to:
        `scipy.ndimage.prewitt`, by `filter1d` on float64

    Example:
        >>> prewitt(torch.tensor([[0, 10, 30], [0, 10, 30]], dtype=torch.uint8), output=torch.int16)
        tensor([[30, 90, 60],
                [30, 90, 60]], dtype=torch.int16)
    """
    return _three_taps("prewitt", [1.0, 1.0, 1.0], input, axis, output, mode, cval)


@of_arrays
def laplace(
    input: ArrayLike | Tensor,
    output: Output = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    *,
    axes: Ints | None = None,
) -> Tensor | Array:
    """The sum of the second derivatives along all axes, or along some, by the taps 1, -2, 1.

    Args:
        input: as in `correlate`.
        output: as in `correlate`; every derivative is stored in this dtype before they are added, so ask for a signed
            one.
        mode: as in `correlate`, one or one per axis of `axes`.
        cval: pixel value outside for 'constant'.
        axes: the axes to derive along, by default all.

    Returns:
        Array or tensor of the input's shape, or `output` if it receives the result.

    Raises:
        RuntimeError: as `correlate`, and for modes of another number than `axes`.
        ValueError: for axes that the input does not have.
        TypeError: for complex numbers.

    Equivalent to:
        `scipy.ndimage.laplace`, by `filter1d` on float64

    Example:
        >>> laplace(torch.tensor([[0.0, 0, 0], [0, 1, 0], [0, 0, 0]]))
        tensor([[ 0.,  1.,  0.],
                [ 1., -4.,  1.],
                [ 0.,  1.,  0.]])
    """
    image = image_of("laplace", input)
    target = target_of("laplace", output, image)
    value = border_value("laplace", cval)
    taps = np.array([1.0, -2.0, 1.0])

    def derivative(axis: Any, mode: Any) -> Image:
        return line_passes(image, [Line(taps, axis, mode)], target.kind, value)

    return target.take(_total(image, target.kind, derivative, axes, mode))


@of_arrays
def gaussian_laplace(
    input: ArrayLike | Tensor,
    sigma: Floats,
    output: Output = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    *,
    axes: Ints | None = None,
    **kwargs: Any,
) -> Tensor | Array:
    """The sum of the second derivatives of a smoothed image along all axes, or along some.

    Args:
        input: as in `correlate`.
        sigma: standard deviation in pixels, one number or one per axis of `axes`; there is no smoothing along others.
        output: as in `correlate`; every pass and every derivative is stored in this dtype, so choose a signed one.
        mode: as in `correlate`, one or one per axis of `axes`; all passes of a derivative take its mode.
        cval: pixel value outside for 'constant'.
        axes: the axes to derive and to smooth along, by default all.
        kwargs: `truncate` and `radius` as in `gaussian_filter`.

    Returns:
        Array or tensor of the input's shape, or `output` if it receives the result.

    Raises:
        RuntimeError, ValueError, TypeError: as `gaussian_filter`.

    Equivalent to:
        `scipy.ndimage.gaussian_laplace`, by `filter1d` on float64

    Example:
        >>> gaussian_laplace(torch.tensor([0.0, 0, 0, 8, 8, 8]), 1)
        tensor([ 0.3158,  1.5955,  1.5955, -1.5961, -1.5961, -0.3163])
    """
    image = image_of("gaussian_laplace", input)
    target = target_of("gaussian_laplace", output, image)
    value, truncation = border_value("gaussian_laplace", cval), _truncation(kwargs)
    dims = axes_of(axes, image.values.dim())
    sigmas = per_axis(sigma, len(dims))
    if len(dims) < image.values.dim():
        of_all: list[Any] = [0] * image.values.dim()
        for axis, each in zip(dims, sigmas, strict=True):
            of_all[axis] = each
        sigmas = of_all

    def derivative(axis: Any, mode: Any) -> Image:
        return gaussian_passes(image, sigmas, _orders(2, axis, image), target.kind, mode, value, **truncation)

    return target.take(_total(image, target.kind, derivative, axes, mode))


@of_arrays
def gaussian_gradient_magnitude(
    input: ArrayLike | Tensor,
    sigma: Floats,
    output: Output = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    *,
    axes: Ints | None = None,
    **kwargs: Any,
) -> Tensor | Array:
    """The length of a smoothed image's gradient, of all its components or of those along some axes.

    Args:
        input: as in `correlate`.
        sigma: standard deviation in pixels, one number or one per axis of the image: all are smoothed.
        output: as in `correlate`; every pass, every derivative and its square are stored in this dtype, so choose one
            that holds them.
        mode: as in `correlate`, one or one per axis of `axes`; all passes of a derivative take its mode.
        cval: pixel value outside for 'constant'.
        axes: the axes to derive along, by default all.
        kwargs: `truncate` and `radius` as in `gaussian_filter`.

    Returns:
        Array or tensor of the input's shape, or `output` if it receives the result.

    Raises:
        RuntimeError, ValueError, TypeError: as `gaussian_filter`.

    Equivalent to:
        `scipy.ndimage.gaussian_gradient_magnitude`, by `filter1d` on float64

    Example:
        >>> gaussian_gradient_magnitude(torch.tensor([0.0, 0, 0, 9, 9, 9]), 1)
        tensor([0.1197, 1.0963, 3.2741, 3.2741, 1.0963, 0.1197])
    """
    image = image_of("gaussian_gradient_magnitude", input)
    target = target_of("gaussian_gradient_magnitude", output, image)
    value, truncation = border_value("gaussian_gradient_magnitude", cval), _truncation(kwargs)

    def derivative_squared(axis: Any, mode: Any) -> Image:
        result = gaussian_passes(image, sigma, _orders(1, axis, image), target.kind, mode, value, **truncation)
        return result._replace(values=squared(result.values, target.kind))

    return target.take(_total(image, target.kind, derivative_squared, axes, mode, then=root))


def _three_taps(name: str, across: list[float], input: Any, axis: Any, output: Any, mode: Any, cval: Any) -> Any:
    image = image_of(name, input)
    axis = axis_of(axis, image.values.dim())
    target = target_of(name, output, image)
    modes = per_axis(mode, image.values.dim())
    value = border_value(name, cval)
    others = [other for other in range(image.values.dim()) if other != axis]
    lines = [Line(np.array([-1.0, 0.0, 1.0]), axis, modes[axis])]
    lines += [Line(np.array(across), other, modes[other]) for other in others]
    return target.take(line_passes(image, lines, target.kind, value).values)


def _total(
    image: Image,
    kind: Kind,
    derivative: Callable[[Any, Any], Image],
    axes: Any,
    mode: Any,
    then: Callable[[Tensor, Kind], Tensor] | None = None,
) -> Tensor:
    """The sum of the derivatives along `axes` in their dtype, passed to `then`; without axes a copy of the image."""
    dims = axes_of(axes, image.values.dim())
    if not dims:
        return copied(image, kind)
    first, *others = zip(dims, per_axis(mode, len(dims)), strict=True)
    total = derivative(*first).values
    for axis, each in others:  # one part at a time: memory holds two of them at most
        total = plus(total, derivative(axis, each).values, kind)
    return then(total, kind) if then else total


def _orders(order: int, axis: int, image: Image) -> list[int]:
    """The orders of a derivative along every axis: `order` along one axis, 0 along the others."""
    orders = [0] * image.values.dim()
    orders[axis] = order
    return orders


def _truncation(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords that scipy passes to `gaussian_filter`, which refuses all others."""
    for given in kwargs:
        if given not in ("truncate", "radius"):
            raise TypeError(f"gaussian_filter() got an unexpected keyword argument '{given}'")
    return kwargs
