"""Windows made of Gaussians: float64 taps on the CPU, made once for each set of numbers.

They travel with the launch, so a call neither synchronises nor waits for a copy. TorchScript compiles all of it.
"""
# ruff: noqa: UP007, UP045

import math
from typing import Any, Optional, Union

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from torch_conv._symbols import fixed, holds, is_known
from torch_conv.functional._calls import shape_text
from torch_conv.functional._composites import sum_dtype
from torch_conv.functional._memory import remembered
from torch_conv.functional._types import BroadcastingList2, BroadcastingList3
from torch_conv.kernels import gaussian_of_symbols, gaussian_taps

Numbers = Union[float, tuple[float, float]]  # one, or one per axis (y, x)
Numbers3 = Union[float, tuple[float, float, float]]  # (z, y, x)


# A sum of outer products, all of one size, comes as "parts": [window], or the taps of each product along every axis,
# [y, x, y, x, ...] for images and [z, y, x] for volumes. One size makes the sum of the passes equal the one window for
# every border, 'skip' and 'zero_output' included.


def _parts(rows: list[Tensor], algorithm: str, dtype: torch.dtype) -> list[Tensor]:
    """'direct' is one window and 'separable' are passes; 'auto' takes one launch while that has few taps."""
    if algorithm not in ["auto", "separable", "direct"]:  # public() puts the right name
        raise RuntimeError(f"filter2d: algorithm must be 'auto', 'separable' or 'direct', got '{algorithm}'")
    taps = 1
    for row in rows:
        taps *= row.size(-1)
    if algorithm == "direct" or (algorithm == "auto" and taps <= 27):
        return [outer(rows).to(dtype)]
    return [row.to(dtype) for row in rows]


def _is_one_window(ky: int, kx: int, algorithm: str) -> bool:
    """Whether a sum of products over images is taken as the one window (ky, kx) that it makes.

    Up to 7x7 that one runs at 90 % of a copy or more (float32, one NVIDIA H200); a sum of passes costs less beyond.
    """
    if algorithm not in ["auto", "direct", "fused", "separable"]:  # public() puts the right name
        raise RuntimeError(f"filter2d: algorithm must be 'auto', 'direct', 'fused' or 'separable', got '{algorithm}'")
    return algorithm == "direct" or (algorithm == "auto" and ky * kx <= 49)


def outer(rows: list[Tensor]) -> Tensor:
    """The outer product of the last dimensions; what stands before them is shared."""
    window = rows[0]
    for axis in range(1, len(rows)):
        row = rows[axis]
        for _ in range(axis):
            row = row.unsqueeze(-2)
        window = window.unsqueeze(-1) * row
    return window


def gaussian_parts(
    name: str,
    kernel_size: Optional[BroadcastingList2[int]],
    sigma: Optional[Union[Tensor, float, tuple[float, float]]],
    truncate: float,
    algorithm: str,
    input: Tensor,
) -> list[Tensor]:
    """A Gaussian for an image; batched taps where sigma is a tensor (B, 2)."""
    if sigma is None:
        raise ValueError(f"{name}: sigma must be given")
    dtype = sum_dtype(input)
    if isinstance(sigma, Tensor):
        _check_rows(name, sigma, input, 2)
    if not torch.jit.is_scripting() and not isinstance(sigma, Tensor):
        return remembered(_gaussian_parts, name, kernel_size, sigma, truncate, algorithm, dtype)
    return _gaussian_parts(name, kernel_size, sigma, truncate, algorithm, dtype)


def _gaussian_parts(
    name: str,
    kernel_size: Optional[BroadcastingList2[int]],
    sigma: Union[Tensor, float, tuple[float, float]],
    truncate: float,
    algorithm: str,
    dtype: torch.dtype,
) -> list[Tensor]:
    return _parts(_gaussian_pair(name, kernel_size, sigma, truncate), algorithm, dtype)


def gaussian_parts3d(
    name: str,
    kernel_size: Optional[BroadcastingList3[int]],
    sigma: Optional[Union[Tensor, float, tuple[float, float, float]]],
    truncate: float,
    algorithm: str,
    input: Tensor,
) -> list[Tensor]:
    """A Gaussian for a volume; batched taps where sigma is a tensor (B, 3)."""
    if sigma is None:
        raise ValueError(f"{name}: sigma must be given")
    dtype = sum_dtype(input)
    if isinstance(sigma, Tensor):
        _check_rows(name, sigma, input, 3)
    if not torch.jit.is_scripting() and not isinstance(sigma, Tensor):
        return remembered(_gaussian_parts3d, name, kernel_size, sigma, truncate, algorithm, dtype)
    return _gaussian_parts3d(name, kernel_size, sigma, truncate, algorithm, dtype)


def _gaussian_parts3d(
    name: str,
    kernel_size: Optional[BroadcastingList3[int]],
    sigma: Union[Tensor, float, tuple[float, float, float]],
    truncate: float,
    algorithm: str,
    dtype: torch.dtype,
) -> list[Tensor]:
    sizes: Optional[list[int]] = None
    if kernel_size is not None:
        sizes = odd_sizes(name, kernel_size, 3)
    if isinstance(sigma, Tensor):
        return _parts(_gaussians_per_sample(name, sizes, sigma, 3), algorithm, dtype)
    return _parts(_gaussians(name, sizes, _positive_triple(name, "sigma", sigma), truncate), algorithm, dtype)


def unsharp_parts(
    kernel_size: Optional[BroadcastingList2[int]],
    sigma: Optional[Union[Tensor, float, tuple[float, float]]],
    amount: float,
    algorithm: str,
    input: Tensor,
) -> list[Tensor]:
    """One window, 1 + amount times the pixel minus amount times a Gaussian; or the Gaussian, [y, x]."""
    if sigma is None:
        raise ValueError("unsharp_mask: sigma must be given")
    dtype = sum_dtype(input)
    if isinstance(sigma, Tensor):
        _check_rows("unsharp_mask", sigma, input, 2)
    if not torch.jit.is_scripting() and not isinstance(sigma, Tensor):
        return remembered(_unsharp_parts, kernel_size, sigma, amount, algorithm, dtype)
    return _unsharp_parts(kernel_size, sigma, amount, algorithm, dtype)


def _unsharp_parts(
    kernel_size: Optional[BroadcastingList2[int]],
    sigma: Union[Tensor, float, tuple[float, float]],
    amount: float,
    algorithm: str,
    dtype: torch.dtype,
) -> list[Tensor]:
    y, x = _gaussian_pair("unsharp_mask", kernel_size, sigma, 4.0)
    delta_y, delta_x = _delta_like(y), _delta_like(x)
    # Each term is a tensor times the number: torch.compile keeps no sum of numbers a symbol.
    pixel, blurred = [delta_y + amount * delta_y, delta_x], [amount * y, x]
    if _is_one_window(y.size(-1), x.size(-1), algorithm):
        return [(outer(pixel) - outer(blurred)).to(dtype)]
    return [y.to(dtype), x.to(dtype)]


def difference_parts(
    low_sigma: Numbers, high_sigma: Optional[Numbers], truncate: float, algorithm: str, dtype: torch.dtype
) -> list[Tensor]:
    """A Gaussian, with zeros up to the size of a wider one, minus that."""
    if not torch.jit.is_scripting():
        return remembered(_difference_parts, low_sigma, high_sigma, truncate, algorithm, dtype)
    return _difference_parts(low_sigma, high_sigma, truncate, algorithm, dtype)


def _difference_parts(
    low_sigma: Numbers, high_sigma: Optional[Numbers], truncate: float, algorithm: str, dtype: torch.dtype
) -> list[Tensor]:
    name = "difference_of_gaussians"
    low = _positive_pair(name, "low_sigma", low_sigma)
    high = [1.6 * low[0], 1.6 * low[1]]
    if high_sigma is not None:
        high = _positive_pair(name, "high_sigma", high_sigma)
    if high[0] < low[0] or high[1] < low[1]:
        raise ValueError(f"{name}: high_sigma must be at least low_sigma {(low[0], low[1])}, got {(high[0], high[1])}")
    wide_y, wide_x = _reaching(name, high[0], truncate), _reaching(name, high[1], truncate)
    narrow_y, narrow_x = _reaching(name, low[0], truncate), _reaching(name, low[1], truncate)
    narrow = [_centred(narrow_y, wide_y.size(0)), _centred(narrow_x, wide_x.size(0))]
    return _sum_parts(narrow, [-wide_y, wide_x], algorithm, dtype)


def curvature_parts(sigma: Numbers, truncate: float, algorithm: str, dtype: torch.dtype) -> list[Tensor]:
    """The second derivatives of a Gaussian along y and along x."""
    if not torch.jit.is_scripting():
        return remembered(_curvature_parts, sigma, truncate, algorithm, dtype)
    return _curvature_parts(sigma, truncate, algorithm, dtype)


def _curvature_parts(sigma: Numbers, truncate: float, algorithm: str, dtype: torch.dtype) -> list[Tensor]:
    sy, sx = _positive_pair("gaussian_laplace", "sigma", sigma)
    y, x = _reaching("gaussian_laplace", sy, truncate), _reaching("gaussian_laplace", sx, truncate)
    return _sum_parts([_second_derivative(y, sy), x], [y, _second_derivative(x, sx)], algorithm, dtype)


def _sum_parts(one: list[Tensor], other: list[Tensor], algorithm: str, dtype: torch.dtype) -> list[Tensor]:
    if _is_one_window(one[0].size(-1), one[1].size(-1), algorithm):
        return [(outer(one) + outer(other)).to(dtype)]
    return [row.to(dtype) for row in one + other]


# The numbers behind them, in float64.


def _gaussian_pair(
    name: str,
    kernel_size: Optional[BroadcastingList2[int]],
    sigma: Union[Tensor, float, tuple[float, float]],
    truncate: float,
) -> list[Tensor]:
    """The taps along y and along x of a Gaussian: (k,), or (B, k) where sigma is a tensor (B, 2)."""
    sizes: Optional[list[int]] = None
    if kernel_size is not None:
        sizes = odd_sizes(name, kernel_size, 2)
    if isinstance(sigma, Tensor):
        return _gaussians_per_sample(name, sizes, sigma, 2)
    return _gaussians(name, sizes, _positive_pair(name, "sigma", sigma), truncate)


def _gaussians(name: str, sizes: Optional[list[int]], sigmas: list[float], truncate: float) -> list[Tensor]:
    """A Gaussian's taps (k,) along each axis."""
    rows: list[Tensor] = []
    for axis in range(len(sigmas)):
        size = _size_of(name, sigmas[axis], truncate) if sizes is None else sizes[axis]
        rows.append(_gaussian(size, sigmas[axis]))
    return rows


def _gaussians_per_sample(name: str, sizes: Optional[list[int]], sigma: Tensor, axes: int) -> list[Tensor]:
    """The taps (B, k) along each axis of a Gaussian per row of `sigma`, which is (B, axes)."""
    if sizes is None:
        raise ValueError(f"{name}: kernel_size must be given where sigma is a tensor")
    if not torch.jit.is_scripting():
        _check_host_sigma(name, sigma)
    return [_gaussian_rows(sizes[axis], sigma[:, axis : axis + 1]) for axis in range(axes)]


def _check_rows(name: str, sigma: Tensor, input: Tensor, axes: int) -> None:
    """A row for all samples or one for each, of as many numbers as axes."""
    if sigma.dim() != 2 or sigma.size(1) != axes:
        raise ValueError(f"{name}: sigma must have shape (B, {axes}), got {shape_text(list(sigma.shape))}")
    rows, most = sigma.size(0), axes + 2
    if rows != 1 and input.dim() > most:
        raise ValueError(
            f"{name}: sigma must be one shared row where the input has more than {most} dimensions, got {rows}"
        )
    batch = input.size(0) if input.dim() == most else 1
    if rows != 1 and rows != batch:
        raise ValueError(f"{name}: sigma's first dimension must be 1 or the batch size {batch}, got {rows}")


def _check_host_sigma(name: str, sigma: Tensor) -> None:
    # A look at a GPU's values would wait for it; a tracer has none.
    if not sigma.is_cpu or torch.compiler.is_compiling() or is_in_torch_dispatch_mode():
        return
    examples = _examples(sigma)
    if not _are_widths(examples):
        wrong = next(rows for rows in examples if not _are_widths(rows))
        raise ValueError(f"{name}: sigma must be finite and greater than 0, got {wrong.tolist()}")


def _are_widths(sigma: Tensor) -> bool:
    return bool(((sigma > 0) & sigma.isfinite()).all())


def _examples(rows: Tensor) -> Tensor:
    """The rows (B, axes) of every example that torch.vmap maps over, one after another."""
    of = torch._C._functorch
    while of.is_functorch_wrapped_tensor(rows):
        dim = of.maybe_get_bdim(rows)
        rows = of.get_unwrapped(rows)
        rows = rows if dim < 0 else rows.movedim(dim, 0)
    return rows[None].flatten(0, -3)


def _gaussian_rows(size: int, sigma: Tensor) -> Tensor:
    """`_gaussian` for every sigma of a column (B, 1), on its device."""
    x = torch.arange(size, dtype=torch.float64, device=sigma.device) - 0.5 * (size - 1)
    taps = torch.exp(-0.5 * (x / sigma.to(torch.float64)).square())
    return taps / taps.sum(-1, keepdim=True)


def _gaussian(size: int, sigma: float) -> Tensor:
    if not torch.jit.is_scripting():  # noqa: SIM102 (TorchScript skips what is under this condition alone)
        if not (is_known(size) and is_known(sigma)):
            return gaussian_of_symbols(size, sigma)
    return exact_tensor(gaussian_taps(size, sigma))


def _reaching(name: str, sigma: float, truncate: float) -> Tensor:
    return _gaussian(_size_of(name, sigma, truncate), sigma)


def _centred(taps: Tensor, size: int) -> Tensor:
    wider = torch.zeros((size - taps.size(0)) // 2, dtype=torch.float64, device="cpu")
    return torch.cat([wider, taps, wider])


def _second_derivative(gaussian: Tensor, sigma: float) -> Tensor:
    # of exp(-x^2 / (2 s^2)): x^2 / s^4 - 1 / s^2 times it
    x = torch.arange(gaussian.numel(), dtype=torch.float64, device="cpu") - gaussian.numel() // 2
    return gaussian * ((x / sigma).square() - 1.0) / (sigma * sigma)


def _delta_like(taps: Tensor) -> Tensor:
    """Taps (k,) that are 0 but for a 1 in the middle, on the device of `taps`."""
    k = taps.size(-1)
    delta = torch.zeros(k, dtype=torch.float64, device=taps.device)
    delta[k // 2] = 1.0
    return delta


def exact_tensor(taps: list[float]) -> Tensor:
    if torch.jit.is_scripting():  # where torch.tensor() rounds the numbers of a list to float32
        exact = torch.zeros(len(taps), dtype=torch.float64, device="cpu")
        for i in range(len(taps)):
            exact[i].fill_(taps[i])
        return exact
    return torch.tensor(taps, dtype=torch.float64, device="cpu")


# TorchScript reads a pair and a triple as different types, so each is made a list by itself.


def _positive_pair(name: str, argument: str, value: Numbers) -> list[float]:
    """A standard deviation per axis (y, x), each greater than 0."""
    if not torch.jit.is_scripting():
        _check_numbers(name, argument, value, 2)
    if isinstance(value, (int, float)):
        return _positive(name, argument, [float(value)] * 2, f"{value}")
    return _positive(name, argument, [value[0], value[1]], f"{value}")


def _positive_triple(name: str, argument: str, value: Numbers3) -> list[float]:
    """A standard deviation per axis (z, y, x), each greater than 0."""
    if not torch.jit.is_scripting():
        _check_numbers(name, argument, value, 3)
    if isinstance(value, (int, float)):
        return _positive(name, argument, [float(value)] * 3, f"{value}")
    return _positive(name, argument, [value[0], value[1], value[2]], f"{value}")


def _positive(name: str, argument: str, numbers: list[float], given: str) -> list[float]:
    for number in numbers:
        if not torch.jit.is_scripting():
            good = holds(number > 0) and holds(number < math.inf)
        else:
            good = number > 0 and number < math.inf
        if not good:
            raise ValueError(f"{name}: {argument} must be finite and greater than 0, got {given}")
    return numbers


def _check_numbers(name: str, argument: str, value: Any, axes: int) -> None:
    values = [value] if not isinstance(value, (list, tuple)) else value
    for number in values:
        if not isinstance(number, (int, float, torch.SymInt, torch.SymFloat)):
            raise TypeError(f"{name}: {argument} must be of type float, got {type(number).__name__}")
    if isinstance(value, (list, tuple)) and len(value) != axes:
        raise ValueError(f"{name}: {argument} must be {_one_or(axes)}, got {len(value)}")


def _one_or(axes: int) -> str:
    return "one number or two (y, x)" if axes == 2 else "one number or three (z, y, x)"


def odd_sizes(name: str, kernel_size: BroadcastingList2[int], axes: int) -> list[int]:
    """An odd window size per axis, (y, x) or (z, y, x); TorchScript has made a list of a number already."""
    if not torch.jit.is_scripting():
        kernel_size = _whole_numbers(name, kernel_size, axes)
    sizes: list[int] = list(kernel_size)  # type: ignore[arg-type]
    if len(sizes) != axes:
        raise ValueError(f"{name}: kernel_size must be {_one_or(axes)}, got {len(sizes)}")
    for size in sizes:
        if size < 1 or size % 2 == 0:
            raise ValueError(f"{name}: kernel_size must be odd and at least 1, got {shape_text(sizes)}")
    return sizes


def _whole_numbers(name: str, kernel_size: Any, axes: int) -> list[int]:
    given = list(kernel_size) if isinstance(kernel_size, (list, tuple)) else [kernel_size] * axes
    for size in given:
        if not isinstance(size, (int, torch.SymInt)):
            raise TypeError(f"{name}: kernel_size must be of type int, got {type(size).__name__}")
    return given


def _size_of(name: str, sigma: float, truncate: float) -> int:
    """The window that reaches `truncate` standard deviations, as scipy's."""
    if not (truncate > 0 and truncate < math.inf):
        raise ValueError(f"{name}: truncate must be finite and greater than 0, got {truncate}")
    if truncate * sigma > 1e9:
        raise ValueError(f"{name}: sigma {sigma} and truncate {truncate} make a window of more than 2^31 taps")
    radius = int(truncate * sigma + 0.5)
    return 2 * (radius if torch.jit.is_scripting() else fixed(radius)) + 1
