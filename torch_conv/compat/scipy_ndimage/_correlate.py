"""correlate, convolve and their forms along one axis."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any

import numpy as np
from torch import Tensor

from torch_conv.compat._types import Array, ArrayLike, Ints, Mode, Modes, Output, of_arrays
from torch_conv.compat.scipy_ndimage import _sums
from torch_conv.compat.scipy_ndimage._arrays import border_value, image_of, target_of, weights_of
from torch_conv.compat.scipy_ndimage._passes import Line, axes_of, line_passes, origin_fits, per_axis, window_pass
from torch_conv.compat.scipy_ndimage._sums import Weights, border_of


@of_arrays
def correlate(
    input: ArrayLike | Tensor,
    weights: ArrayLike | Tensor,
    output: Output = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    axes: Ints | None = None,
) -> Tensor | Array:
    """Correlates an image with a kernel along all its axes, or along some.

    Args:
        input: array or tensor of any number of axes, of bool, an integer of 8 to 64 bits, float32 or float64.
        weights: the kernel, with one axis per filtered axis, of any real dtype; used in float64 on the CPU. A tap
            within 2.2e-16 of zero is left out, so NaN at its pixel does not count.
        output: dtype of the result (numpy's, Python's, torch's or a name), or an array or tensor of the input's shape
            that receives it; by default the input's dtype.
        mode: 'reflect' or 'grid-mirror', `dcba|abcd|dcba`; 'mirror', `dcb|abcd|cba`; 'nearest'; 'wrap' or 'grid-wrap';
            'constant' or 'grid-constant'.
        cval: pixel value outside for 'constant'.
        origin: shifts the kernel: tap k // 2 + origin lies on the pixel; one number or one per filtered axis.
        axes: the axes to filter along, by default all. As in scipy the kernel's axes lie along them in rising order.

    Returns:
        Array or tensor of the input's shape, or `output` if it receives the result.

    Raises:
        RuntimeError: for a mode or a dtype that is not described above, or shapes that do not fit.
        ValueError: for a tap on the pixel that the kernel does not have, or axes that the input does not have.
        TypeError: for complex numbers.

    Equivalent to:
        `scipy.ndimage.correlate`, by `filter2d` and `filter3d` on float64

    Example:
        >>> correlate(torch.tensor([[1, 2, 3], [4, 5, 6]]), [[0, 1, 0], [1, 0, 1], [0, 1, 0]], mode="constant")
        tensor([[ 6,  9,  8],
                [ 6, 12,  8]])
    """
    return _correlate("correlate", input, weights, output, mode, cval, origin, axes, flip=False)


@of_arrays
def convolve(
    input: ArrayLike | Tensor,
    weights: ArrayLike | Tensor,
    output: Output = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    axes: Ints | None = None,
) -> Tensor | Array:
    """Convolves an image with a kernel along all its axes, or along some.

    Args:
        input: as in `correlate`.
        weights: the kernel, as in `correlate`; it is flipped, and tap (k - 1) // 2 - origin of the flipped kernel lies
            on the pixel.
        output: as in `correlate`.
        mode: as in `correlate`.
        cval: pixel value outside for 'constant'.
        origin: shifts the kernel, one number or one per filtered axis.
        axes: the axes to filter along, as in `correlate`.

    Returns:
        Array or tensor of the input's shape, or `output` if it receives the result.

    Raises:
        RuntimeError, ValueError, TypeError: as `correlate`.

    Equivalent to:
        `scipy.ndimage.convolve`, by `filter2d` and `filter3d` on float64

    Example:
        >>> convolve(torch.tensor([0, 0, 1, 0, 0]), [1, 2, 3], mode="constant")
        tensor([0, 1, 2, 3, 0])
    """
    return _correlate("convolve", input, weights, output, mode, cval, origin, axes, flip=True)


@of_arrays
def correlate1d(
    input: ArrayLike | Tensor,
    weights: ArrayLike | Tensor,
    axis: int = -1,
    output: Output = None,
    mode: Mode = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Tensor | Array:
    """Correlates an image with a kernel along one axis.

    Args:
        input: array or tensor of at least one axis, of a dtype that `correlate` takes.
        weights: the kernel (k,), of any real dtype. A kernel that differs from an even or odd one by no more than
            2.2e-16 a tap is taken for it; taps of zero count.
        axis: the axis to filter along.
        output: as in `correlate`.
        mode: as in `correlate`.
        cval: pixel value outside for 'constant'.
        origin: shifts the kernel: tap k // 2 + origin lies on the pixel.

    Returns:
        Array or tensor of the input's shape, or `output` if it receives the result.

    Raises:
        RuntimeError: for a mode or a dtype that `correlate` does not take, or no kernel of one axis.
        ValueError: for an axis that the input does not have, or a tap that the kernel does not have.
        TypeError: for complex numbers.

    Equivalent to:
        `scipy.ndimage.correlate1d`, by `filter1d` on float64

    Example:
        >>> correlate1d(torch.tensor([2, 8, 0, 4, 1, 9, 9, 0]), weights=[1, 3])
        tensor([ 8, 26,  8, 12,  7, 28, 36,  9])
    """
    return _correlate1d("correlate1d", input, weights_of("correlate1d", weights), axis, output, mode, cval, origin)


@of_arrays
def convolve1d(
    input: ArrayLike | Tensor,
    weights: ArrayLike | Tensor,
    axis: int = -1,
    output: Output = None,
    mode: Mode = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Tensor | Array:
    """Convolves an image with a kernel along one axis.

    Args:
        input: as in `correlate1d`.
        weights: the kernel (k,), as in `correlate1d`; it is flipped, and tap (k - 1) // 2 - origin of the flipped
            kernel lies on the pixel.
        axis: the axis to filter along.
        output: as in `correlate`.
        mode: as in `correlate`.
        cval: pixel value outside for 'constant'.
        origin: shifts the kernel.

    Returns:
        Array or tensor of the input's shape, or `output` if it receives the result.

    Raises:
        RuntimeError, ValueError, TypeError: as `correlate1d`.

    Equivalent to:
        `scipy.ndimage.convolve1d`, by `filter1d` on float64

    Example:
        >>> convolve1d(torch.tensor([2, 8, 0, 4, 1, 9, 9, 0]), weights=[1, 3])
        tensor([14, 24,  4, 13, 12, 36, 27,  0])
    """
    taps = weights_of("convolve1d", weights)[::-1]
    origin = -origin - (len(taps) + 1) % 2
    return _correlate1d("convolve1d", input, taps, axis, output, mode, cval, origin)


def _correlate1d(
    name: str, input: Any, taps: Weights, axis: Any, output: Any, mode: Any, cval: Any, origin: Any
) -> Any:
    image = image_of(name, input)
    target = target_of(name, output, image)
    line = Line(taps, axis, mode, origin)
    return target.take(line_passes(image, [line], target.kind, border_value(name, cval)).values)


def _correlate(
    name: str, input: Any, weights: Any, output: Any, mode: Any, cval: Any, origin: Any, axes: Any, flip: bool
) -> Any:
    image = image_of(name, input, in_full=False)
    dims = image.values.dim()
    filtered = axes_of(axes, dims)
    taps = weights_of(name, weights)
    origins = per_axis(origin, len(filtered))
    if len(filtered) < dims:
        if taps.ndim != len(filtered):
            raise RuntimeError(f"weights.ndim ({taps.ndim}) must match len(axes) ({len(filtered)})")
        taps = np.expand_dims(taps, tuple(axis for axis in range(dims) if axis not in filtered))
        given = dict(zip(filtered, origins, strict=True))
        origins = [given.get(axis, 0) for axis in range(dims)]
    extents = [k for k in taps.shape if k > 0]
    if len(extents) != dims:
        raise RuntimeError(f"weights.ndim ({len(extents)}) must match len(axes) ({len(filtered)})")
    if flip:
        taps = np.flip(taps)
        origins = [-o - (k + 1) % 2 for o, k in zip(origins, extents, strict=True)]
    if not all(origin_fits(o, k) for o, k in zip(origins, extents, strict=True)):
        raise ValueError(
            "Invalid origin; origin must satisfy -(weights.shape[k] // 2) <= origin[k] <= (weights.shape[k]-1) // 2"
        )
    target = target_of(name, output, image, in_full=False)
    if not isinstance(mode, str) and isinstance(mode, Iterable):
        raise RuntimeError("A sequence of modes is not supported")
    window = _sums.window_of_images(taps, [index(o) for o in origins])
    border = border_of(mode, border_value(name, cval))
    return target.take(window_pass(image, window, border, target.kind).values)
