"""Kernels by name, computed in float64, then cast.

Each function returns a CPU tensor (k,), (kH, kW) or (kD, kH, kW). A filter takes it for images on any device. Sizes and
sigmas have the order y, x or z, y, x; `sobel_x` and its like are named after the axis that they differentiate along.

    >>> import torch, torch_conv
    >>> sharp = torch_conv.filter2d(torch.rand(1, 3, 64, 64), torch_conv.kernels.sharpen())

`prepare` moves a kernel of your own from a GPU to the device on which `filter2d` is fastest with it.
"""

import functools
import math
from collections.abc import Callable, Sequence
from operator import index
from typing import Any, Literal

import torch
from torch import Tensor

from torch_conv.dispatch.numbers import is_whole, kind_of, refuse_gradient
from torch_conv.dispatch.prepare_kernel import prepare
from torch_conv.dispatch.symbols import fixed, holds, is_known
from torch_conv.typing import LaplacianVariant

__all__ = [
    "box",
    "box3d",
    "emboss",
    "gaussian1d",
    "gaussian2d",
    "gaussian3d",
    "identity",
    "identity3d",
    "laplacian",
    "laplacian3d",
    "named",
    "names",
    "prepare",
    "prewitt_x",
    "prewitt_y",
    "scharr_x",
    "scharr_y",
    "sharpen",
    "sobel_x",
    "sobel_y",
]

_MOST_TAPS = 1 << 24  # along an axis: Python computes them one by one, in seconds


def __dir__() -> list[str]:
    return __all__


def default_sigma(size: int) -> float:
    """OpenCV's sigma for a kernel of `size` taps: 0.3 * ((size - 1) / 2 - 1) + 0.8."""
    return 0.3 * ((size - 1) * 0.5 - 1) + 0.8


def gaussian1d(
    size: int | None = None, sigma: float | None = None, *, truncate: float = 4.0, dtype: torch.dtype = torch.float32
) -> Tensor:
    """A sampled Gaussian exp(-x^2 / (2 sigma^2)) around the middle of the kernel, divided by its sum.

    Args:
        size: number of taps, at least 1; an even kernel is centred between its two middle taps. None takes
            2 * int(truncate * sigma + 0.5) + 1, as scipy.
        sigma: standard deviation in pixels, > 0; None takes `0.3 * ((size - 1) / 2 - 1) + 0.8`, as OpenCV.
        truncate: radius of the kernel in standard deviations where `size` is None.
        dtype: dtype of the result.

    Returns:
        Tensor of shape (size,) with sum 1.

    Raises:
        ValueError: if size < 1 or sigma <= 0, or if neither is given.

    Example:
        >>> gaussian1d(3, 1.0)
        tensor([0.2741, 0.4519, 0.2741])
        >>> gaussian1d(sigma=0.5)
        tensor([2.6387e-04, 1.0645e-01, 7.8657e-01, 1.0645e-01, 2.6387e-04])
    """
    (taps,) = _gaussians("gaussian1d", size, sigma, 1, truncate)
    return taps.to(dtype)


def size_of(name: str, sigma: float, truncate: float) -> int:
    """The size of a kernel with `truncate` standard deviations on each side; TorchScript can compile it."""
    if not (truncate > 0 and truncate < math.inf):
        raise ValueError(f"{name}: truncate must be finite and greater than 0, got {truncate}")
    if truncate * sigma >= 1 << 23:
        raise ValueError(f"{name}: sigma {sigma} and truncate {truncate} make a kernel of more than 2^24 taps")
    radius = int(truncate * sigma + 0.5)
    return 2 * (radius if torch.jit.is_scripting() else fixed(radius)) + 1


def gaussian_taps(size: int, sigma: float) -> list[float]:
    """The taps of `gaussian1d`, unchecked; TorchScript can compile it."""
    # Distances count from the nearest tap, whose weight is exp(0), so the sum cannot underflow for a tiny sigma.
    middle = 0.5 * (size - 1)
    nearest = 0.25 if size % 2 == 0 else 0.0
    taps: list[float] = []
    for i in range(size):
        away = i - middle
        # away * away, because torch 2.15 cannot trace the power of a symbol
        taps.append(math.exp(-0.5 * ((away * away - nearest) / sigma) / sigma))
    total = 0.0
    for tap in taps:  # sum() rounds differently in different versions of Python
        total += tap
    return [t / total for t in taps]


def gaussian_of_symbols(size: int, sigma: float) -> Tensor:
    """`gaussian_taps` by operators of torch, which accept symbols of torch.compile.

    The float64 taps may differ in the last bits.
    """
    away = torch.arange(size, dtype=torch.float64, device="cpu") - 0.5 * (size - 1)
    nearest = 0.25 * ((size + 1) % 2)
    taps = torch.exp((away.square() - nearest) / sigma * -0.5 / sigma)
    return taps / taps.sum()


def gaussian2d(
    size: int | Sequence[int] | None = None,
    sigma: float | Sequence[float] | None = None,
    *,
    truncate: float = 4.0,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """The outer product of two Gaussians.

    Args:
        size: (kH, kW) or one number for both; None as in `gaussian1d`.
        sigma: (sigma_y, sigma_x) in pixels or one number for both; None as in `gaussian1d`.
        truncate: as in `gaussian1d`.
        dtype: dtype of the result.

    Returns:
        Tensor of shape (kH, kW) with sum 1.

    Example:
        >>> gaussian2d(3, 1.0)[1]
        tensor([0.1238, 0.2042, 0.1238])
        >>> gaussian2d(sigma=(2.0, 1.0)).shape
        torch.Size([17, 9])
    """
    return _outer(_gaussians("gaussian2d", size, sigma, 2, truncate)).to(dtype)


def gaussian3d(
    size: int | Sequence[int] | None = None,
    sigma: float | Sequence[float] | None = None,
    *,
    truncate: float = 4.0,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """The outer product of three Gaussians, shape (kD, kH, kW); arguments as in `gaussian2d`, in the order z, y, x."""
    return _outer(_gaussians("gaussian3d", size, sigma, 3, truncate)).to(dtype)


def box(size: int | Sequence[int] = 3, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """A mean filter: (kH, kW) taps of 1 / (kH * kW).

    Example:
        >>> box((1, 4))
        tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """
    return _box_nd(_sizes("box", size, 2), dtype)


def box3d(size: int | Sequence[int] = 3, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """A mean filter: (kD, kH, kW) taps of 1 / (kD * kH * kW).

    Example:
        >>> box3d((1, 1, 2))
        tensor([[[0.5000, 0.5000]]])
    """
    return _box_nd(_sizes("box3d", size, 3), dtype)


def identity(size: int | Sequence[int] = 3, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """A single 1 at the tap of the pixel, (k - 1) // 2; all other taps are 0.

    Example:
        >>> identity((1, 3))
        tensor([[0., 1., 0.]])
    """
    return _identity_nd(_sizes("identity", size, 2), dtype)


def identity3d(size: int | Sequence[int] = 3, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """`identity` with three axes, shape (kD, kH, kW).

    Example:
        >>> identity3d((1, 1, 3))
        tensor([[[0., 1., 0.]]])
    """
    return _identity_nd(_sizes("identity3d", size, 3), dtype)


def sobel_x(*, dtype: torch.dtype = torch.float32) -> Tensor:
    """The raw 3x3 Sobel kernel: positive where values grow with the column."""
    return _tensor([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], dtype)


def sobel_y(*, dtype: torch.dtype = torch.float32) -> Tensor:
    """The raw 3x3 Sobel kernel: positive where values grow with the row."""
    return _tensor([[-1, -2, -1], [0, 0, 0], [1, 2, 1]], dtype)


def scharr_x(*, dtype: torch.dtype = torch.float32) -> Tensor:
    """The raw 3x3 Scharr kernel (3, 10, 3): positive where values grow with the column."""
    return _tensor([[-3, 0, 3], [-10, 0, 10], [-3, 0, 3]], dtype)


def scharr_y(*, dtype: torch.dtype = torch.float32) -> Tensor:
    """The raw 3x3 Scharr kernel (3, 10, 3): positive where values grow with the row."""
    return _tensor([[-3, -10, -3], [0, 0, 0], [3, 10, 3]], dtype)


def prewitt_x(*, dtype: torch.dtype = torch.float32) -> Tensor:
    """The raw 3x3 Prewitt kernel (1, 1, 1): positive where values grow with the column."""
    return _tensor([[-1, 0, 1], [-1, 0, 1], [-1, 0, 1]], dtype)


def prewitt_y(*, dtype: torch.dtype = torch.float32) -> Tensor:
    """The raw 3x3 Prewitt kernel (1, 1, 1): positive where values grow with the row."""
    return _tensor([[-1, -1, -1], [0, 0, 0], [1, 1, 1]], dtype)


def laplacian(
    size: int | Sequence[int] = 3, *, variant: LaplacianVariant = "4", dtype: torch.dtype = torch.float32
) -> Tensor:
    """A discrete Laplacian: the sum of the second differences.

    Args:
        size: (kH, kW) or one number; odd, and 3 for every variant but 'box'.
        variant: '4' (the 5-point stencil), '8' (the 9-point stencil), 'opencv3' (`cv2.Laplacian` with ksize=3),
            or 'box' (ones, and 1 - kH * kW in the middle, as kornia's).
        dtype: dtype of the result.

    Returns:
        Tensor of shape (kH, kW) with sum 0.

    Raises:
        ValueError: for an unknown variant or an unsupported size.

    Example:
        >>> laplacian()
        tensor([[ 0.,  1.,  0.],
                [ 1., -4.,  1.],
                [ 0.,  1.,  0.]])
    """
    kh, kw = _sizes("laplacian", size, 2)
    return laplacian_kernel("laplacian", "size", kh, kw, variant).to(dtype)


def laplacian_kernel(name: str, argument: str, kh: int, kw: int, variant: str) -> Tensor:
    """`laplacian` in float64, with the checks of the function `name`; TorchScript can compile it."""
    if variant == "box":
        if kh % 2 == 0 or kw % 2 == 0 or kh * kw == 1:
            raise ValueError(f"{name}: {argument} must be odd and at least 3 along one axis, got {(kh, kw)}")
        kernel = torch.ones(kh, kw, dtype=torch.float64, device="cpu")
        kernel[kh // 2, kw // 2] = 1.0 - kh * kw
        return kernel
    if variant not in ["4", "8", "opencv3"]:
        raise ValueError(f"{name}: variant must be 'box', '4', '8' or 'opencv3', got '{variant}'")
    if kh != 3 or kw != 3:
        raise ValueError(f"{name}: {argument} must be 3 for variant '{variant}', got {(kh, kw)}")
    taps = [[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]]
    if variant == "8":
        taps = [[1.0, 1.0, 1.0], [1.0, -8.0, 1.0], [1.0, 1.0, 1.0]]
    elif variant == "opencv3":
        taps = [[2.0, 0.0, 2.0], [0.0, -8.0, 0.0], [2.0, 0.0, 2.0]]
    return torch.tensor(taps, dtype=torch.float64, device="cpu")


def laplacian3d(*, variant: Literal["6", "26"] = "6", dtype: torch.dtype = torch.float32) -> Tensor:
    """A discrete Laplacian of volumes, 3x3x3.

    Args:
        variant: '6' (the 7-point stencil) or '26' (the 27-point stencil).
        dtype: dtype of the result.

    Returns:
        Tensor of shape (3, 3, 3) with sum 0.

    Raises:
        ValueError: for an unknown variant.

    Example:
        >>> laplacian3d()[1]
        tensor([[ 0.,  1.,  0.],
                [ 1., -6.,  1.],
                [ 0.,  1.,  0.]])
    """
    if variant not in ["6", "26"]:
        raise ValueError(f"laplacian3d: variant must be '6' or '26', got '{variant}'")
    far = 1.0 if variant == "26" else 0.0  # an edge or a corner away
    away = torch.tensor([1, 0, 1], device="cpu")
    distance = away[:, None, None] + away[:, None] + away
    kernel = torch.where(distance == 1, 1.0, torch.where(distance == 0, -float(variant), far))
    return kernel.to(dtype)


def sharpen(*, dtype: torch.dtype = torch.float32) -> Tensor:
    """The identity minus the 5-point Laplacian; its sum is 1."""
    return _tensor([[0, -1, 0], [-1, 5, -1], [0, -1, 0]], dtype)


def emboss(*, dtype: torch.dtype = torch.float32) -> Tensor:
    """Relief lit from the upper left: a diagonal difference added to the image; its sum is 1."""
    return _tensor([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]], dtype)


def named(name: str, size: int = 3, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """A kernel by its name, for command lines and tables.

    Args:
        name: one of `names()`.
        size: number of taps per axis; 3 for the 3x3 stencils.
        dtype: dtype of the result.

    Returns:
        Tensor of shape (size, size).

    Raises:
        ValueError: for an unknown name or an unsupported size.

    Example:
        >>> named("box", 5).shape
        torch.Size([5, 5])
    """
    if name in _SIZED:
        return _SIZED[name](size, dtype=dtype)
    if name not in _FIXED:
        raise ValueError(f"named: name must be one of {', '.join(names())}, got {name!r}")
    if size != 3:
        raise ValueError(f"named: size of {name} must be 3, got {size}")
    return _FIXED[name](dtype=dtype)


def names() -> list[str]:
    """The names that `named` takes, sorted."""
    return sorted([*_SIZED, *_FIXED])


_SIZED: dict[str, Callable[..., Tensor]] = {"box": box, "gaussian": gaussian2d, "identity": identity}
_FIXED: dict[str, Callable[..., Tensor]] = {
    "emboss": emboss,
    "laplacian": laplacian,
    "prewitt_x": prewitt_x,
    "prewitt_y": prewitt_y,
    "scharr_x": scharr_x,
    "scharr_y": scharr_y,
    "sharpen": sharpen,
    "sobel_x": sobel_x,
    "sobel_y": sobel_y,
}


def _tensor(taps: Sequence[float] | Sequence[Sequence[float]], dtype: torch.dtype) -> Tensor:
    return torch.tensor(taps, dtype=torch.float64, device="cpu").to(dtype)


def _gaussians(name: str, size: Any, sigma: Any, axes: int, truncate: float) -> list[Tensor]:
    """The taps of a Gaussian along each axis, in float64."""
    sigmas = _per_axis(name, "sigma", sigma, axes)
    sizes = [None] * axes if size is None else _sizes(name, size, axes)
    return [_gaussian(name, k, s, truncate) for k, s in zip(sizes, sigmas, strict=True)]


def _gaussian(name: str, size: int | None, sigma: Any, truncate: float) -> Tensor:
    refuse_gradient(name, "sigma", sigma)
    if sigma is None:
        if size is None:
            raise ValueError(f"{name}: size or sigma must be given")
        sigma = default_sigma(size)
    if not isinstance(sigma, (int, float)) and not _is_like_a_number(sigma):
        raise TypeError(f"{name}: sigma must be a number, got {kind_of(sigma)}")
    sigma = float(sigma)
    if not (holds(sigma > 0) and holds(sigma < math.inf)):
        raise ValueError(f"{name}: sigma must be finite and greater than 0, got {sigma}")
    if size is None:
        size = size_of(name, sigma, truncate)
    if not (is_known(size) and is_known(sigma)):
        return gaussian_of_symbols(size, sigma)
    return _tensor(gaussian_taps(size, sigma), torch.float64)


def _is_like_a_number(value: Any) -> bool:
    """Whether a value is numpy's number, or an array or a tensor without axes."""
    return hasattr(value, "__float__") and getattr(value, "shape", ()) == ()


def _outer(rows: Sequence[Tensor]) -> Tensor:
    return functools.reduce(lambda kernel, row: kernel.unsqueeze(-1) * row, rows)


def _box_nd(sizes: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return torch.full(sizes, 1.0 / math.prod(sizes), dtype=torch.float64, device="cpu").to(dtype)


def _identity_nd(sizes: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    kernel = torch.zeros(sizes, dtype=dtype, device="cpu")
    kernel[tuple((k - 1) // 2 for k in sizes)] = 1
    return kernel


def _sizes(name: str, size: Any, axes: int) -> tuple[int, ...]:
    return tuple(_size(name, k) for k in _per_axis(name, "size", size, axes))


def _size(name: str, size: Any) -> int:
    if not is_whole(size):
        raise TypeError(f"{name}: size must be of type int, got {kind_of(size)}")
    size = size if isinstance(size, int) else index(size)
    if size < 1:
        raise ValueError(f"{name}: size must be at least 1, got {size}")
    if size > _MOST_TAPS:
        raise ValueError(f"{name}: size must be at most 2^24, got {size}")
    return size


def _per_axis(name: str, argument: str, value: Any, axes: int) -> list[Any]:
    """A number for every axis, or the numbers of a list, an array or a tensor."""
    # Dynamo asks symbols only for their class.
    is_number = isinstance(value, (int, float, str)) or _is_like_a_number(value) or not hasattr(value, "__iter__")
    values = [value] * axes if is_number else list(value)
    if len(values) != axes:
        numbers = "a number" if axes == 1 else f"a number or {axes} numbers"
        raise ValueError(f"{name}: {argument} must be {numbers}, got {len(values)} numbers")
    return values
