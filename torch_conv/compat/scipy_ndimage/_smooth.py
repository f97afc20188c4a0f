"""Gaussians and boxes, along one axis and along several."""

from __future__ import annotations

from torch import Tensor

from torch_conv.compat._types import Array, ArrayLike, Floats, Ints, Mode, Modes, Output, of_arrays
from torch_conv.compat.scipy_ndimage._arrays import border_value, copied, image_of, target_of
from torch_conv.compat.scipy_ndimage._passes import (
    BoxPass,
    Line,
    axes_of,
    box_passes,
    gaussian_passes,
    gaussian_taps,
    line_passes,
    per_axis,
)


@of_arrays
def gaussian_filter1d(
    input: ArrayLike | Tensor,
    sigma: float,
    axis: int = -1,
    order: int = 0,
    output: Output = None,
    mode: Mode = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | None = None,
) -> Tensor | Array:
    """Smooths an image along one axis with a sampled Gaussian, or correlates it with a derivative of one.

    Args:
        input: array or tensor of at least one axis, of a dtype that `correlate` takes.
        sigma: standard deviation in pixels.
        axis: the axis to filter along.
        order: order of the derivative, 0 the Gaussian itself.
        output: as in `correlate`.
        mode: as in `correlate`.
        cval: pixel value outside for 'constant'.
        truncate: radius of the kernel in standard deviations.
        radius: radius of the kernel in pixels; `truncate` then has no effect.

    Returns:
        Array or tensor of the input's shape, or `output` if it receives the result.

    Raises:
        RuntimeError, TypeError: as `correlate1d`.
        ValueError: for a radius or an order below zero, or an axis that the input does not have.

    Equivalent to:
        `scipy.ndimage.gaussian_filter1d`, by `filter1d` on float64

    Example:
        >>> gaussian_filter1d(torch.tensor([1.0, 2, 3, 4, 5]), 1)
        tensor([1.4270, 2.0678, 3.0000, 3.9322, 4.5730])
    """
    image = image_of("gaussian_filter1d", input)
    target = target_of("gaussian_filter1d", output, image)
    taps = gaussian_taps(sigma, order, truncate, radius)
    value = border_value("gaussian_filter1d", cval)
    return target.take(line_passes(image, [Line(taps, axis, mode)], target.kind, value).values)


@of_arrays
def gaussian_filter(
    input: ArrayLike | Tensor,
    sigma: Floats,
    order: Ints = 0,
    output: Output = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    *,
    radius: Ints | None = None,
    axes: Ints | None = None,
) -> Tensor | Array:
    """Smooths an image with a sampled Gaussian along all its axes, or along some, one pass after the other.

    Args:
        input: as in `correlate`.
        sigma: standard deviation in pixels, one number or one per filtered axis; an axis with 0 is not filtered.
        order: order of the derivative, one number or one per filtered axis; 0 the Gaussian itself.
        output: as in `correlate`; every pass stores this dtype.
        mode: as in `correlate`, one or one per filtered axis.
        cval: pixel value outside for 'constant'.
        truncate: radius of the kernel in standard deviations.
        radius: radius of the kernel in pixels, one number or one per filtered axis.
        axes: the axes to filter along, by default all; the k-th sigma, order, mode and radius belong to the k-th.

    Returns:
        Array or tensor of the input's shape, or `output` if it receives the result.

    Raises:
        RuntimeError: as `correlate`, and for arguments of another length than `axes`.
        ValueError: for a radius or an order below zero, or axes that the input does not have.
        TypeError: for complex numbers.

    Equivalent to:
        `scipy.ndimage.gaussian_filter`, by `filter1d` on float64

    Example:
        >>> gaussian_filter(torch.tensor([[0, 0, 0], [0, 200, 0], [0, 0, 0]], dtype=torch.uint8), 0.5)
        tensor([[  2,  16,   2],
                [ 16, 123,  16],
                [  2,  16,   2]], dtype=torch.uint8)
    """
    image = image_of("gaussian_filter", input)
    target = target_of("gaussian_filter", output, image)
    value = border_value("gaussian_filter", cval)
    result = gaussian_passes(image, sigma, order, target.kind, mode, value, truncate, radius=radius, axes=axes)
    return target.take(result.values)


@of_arrays
def uniform_filter1d(
    input: ArrayLike | Tensor,
    size: int,
    axis: int = -1,
    output: Output = None,
    mode: Mode = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Tensor | Array:
    """The mean along one axis over a box around each pixel, at a cost that hardly depends on its size.

    NaN and Inf reach only the boxes that hold them. scipy's running sum carries them to the end of the line.

    Args:
        input: array or tensor of at least one axis, of a dtype that `correlate` takes.
        size: number of pixels in the box, at least 1.
        axis: the axis to filter along.
        output: as in `correlate`.
        mode: as in `correlate`.
        cval: pixel value outside for 'constant'.
        origin: shifts the box: its pixel size // 2 + origin lies on the output pixel.

    Returns:
        Array or tensor of the input's shape, or `output` if it receives the result.

    Raises:
        RuntimeError: for a size below 1, or a mode or a dtype that `correlate` does not take.
        ValueError: for an axis that the input does not have, or an origin outside the box.
        TypeError: for complex numbers.

    Equivalent to:
        `scipy.ndimage.uniform_filter1d`, by `box_blur` on float64

    Example:
        >>> uniform_filter1d(torch.tensor([2, 8, 0, 4, 1, 9, 9, 0]), size=3)
        tensor([4, 3, 4, 1, 4, 6, 6, 3])
    """
    image = image_of("uniform_filter1d", input)
    target = target_of("uniform_filter1d", output, image)
    value = border_value("uniform_filter1d", cval)
    return target.take(box_passes(image, [BoxPass(size, axis, mode, origin)], target.kind, value).values)


@of_arrays
def uniform_filter(
    input: ArrayLike | Tensor,
    size: Ints = 3,
    output: Output = None,
    mode: Modes = "reflect",
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    axes: Ints | None = None,
) -> Tensor | Array:
    """The mean over a box around each pixel, one pass per axis, at a cost that hardly depends on the box.

    NaN and Inf reach only the boxes that hold them. scipy's running sum carries them to the end of the line.

    Args:
        input: as in `correlate`.
        size: number of pixels along each filtered axis, one number or one per axis; an axis with 1 is not filtered.
        output: as in `correlate`; every pass stores this dtype.
        mode: as in `correlate`, one or one per filtered axis.
        cval: pixel value outside for 'constant'.
        origin: shifts the box, one number or one per filtered axis.
        axes: the axes to filter along, by default all; the k-th size, origin and mode belong to the k-th.

    Returns:
        Array or tensor of the input's shape, or `output` if it receives the result.

    Raises:
        RuntimeError: as `correlate`, and for arguments of another length than `axes`.
        ValueError: for an origin outside the box, or axes that the input does not have.
        TypeError: for complex numbers.

    Equivalent to:
        `scipy.ndimage.uniform_filter`, by `box_blur` on float64

    Example:
        >>> uniform_filter(torch.tensor([[9.0, 0, 0], [0, 0, 0], [0, 0, 9]]), mode="constant")
        tensor([[1., 1., 0.],
                [1., 2., 1.],
                [0., 1., 1.]])
    """
    image = image_of("uniform_filter", input)
    target = target_of("uniform_filter", output, image)
    value = border_value("uniform_filter", cval)
    dims = axes_of(axes, image.values.dim())
    settings = [per_axis(each, len(dims)) for each in (size, origin, mode)]
    passes = [each for each in zip(dims, *settings, strict=True) if each[1] > 1]
    if not passes:
        return target.take(copied(image, target.kind))
    boxes = [BoxPass(int(size), axis, mode, origin) for axis, size, origin, mode in passes]
    return target.take(box_passes(image, boxes, target.kind, value).values)
