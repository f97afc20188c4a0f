"""Windows of the named filters: float64 taps on the CPU, made once for each set of numbers.

They travel with the launch, so a call neither synchronises nor waits for a copy. TorchScript compiles all of it.
"""
# ruff: noqa: UP007, UP045

import functools
import math
from collections.abc import Callable
from typing import Any, Optional, Union

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from torch_conv.functional._types import BroadcastingList2
from torch_conv.kernels import gaussian_taps, laplacian_window

Numbers = Union[float, tuple[float, float]]  # one, or one per axis (y, x)


def _remembered(make: Callable[..., Any], *numbers: Any) -> Any:
    """`make(*numbers)`, from memory unless something traces or fakes tensors: those must see them made."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or is_in_torch_dispatch_mode():
        return make(*numbers)
    return _make_once(make, *[tuple(n) if n.__hash__ is None else n for n in numbers])


@functools.lru_cache(maxsize=512, typed=True)
def _make_once(make: Callable[..., Any], *numbers: Any) -> Any:
    with torch.inference_mode(False):  # a remembered inference tensor would be refused elsewhere
        return make(*numbers)


# A sum of outer products (taps_y, taps_x), all of one size, comes as "parts": [window], or [y, x, y, x, ...].


def _parts(terms: list[tuple[Tensor, Tensor]], algorithm: str, dtype: torch.dtype) -> list[Tensor]:
    """'direct' is one window and 'separable' are passes; 'auto' takes one launch up to 9x9, and few taps beyond."""
    if algorithm not in ["auto", "separable", "direct"]:  # public() puts the right name
        raise RuntimeError(f"filter2d: algorithm must be 'auto', 'separable' or 'direct', got '{algorithm}'")
    taps = terms[0][0].size(-1) * terms[0][1].size(-1)
    if algorithm == "direct" or (algorithm == "auto" and taps <= 81):
        window = terms[0][0].unsqueeze(-1) * terms[0][1].unsqueeze(-2)
        for y, x in terms[1:]:
            window = window + y.unsqueeze(-1) * x.unsqueeze(-2)
        return [window.to(dtype)]
    parts: list[Tensor] = []
    for y, x in terms:
        parts += [y.to(dtype), x.to(dtype)]
    return parts


def gaussian_parts(
    name: str,
    kernel_size: Optional[BroadcastingList2[int]],
    sigma: Union[Tensor, float, tuple[float, float]],
    truncate: float,
    algorithm: str,
    dtype: torch.dtype,
) -> list[Tensor]:
    """A Gaussian; batched taps where sigma is a tensor (B, 2)."""
    if not torch.jit.is_scripting() and not isinstance(sigma, Tensor):
        return _remembered(_gaussian_parts, name, kernel_size, sigma, truncate, algorithm, dtype)
    return _gaussian_parts(name, kernel_size, sigma, truncate, algorithm, dtype)


def _gaussian_parts(
    name: str,
    kernel_size: Optional[BroadcastingList2[int]],
    sigma: Union[Tensor, float, tuple[float, float]],
    truncate: float,
    algorithm: str,
    dtype: torch.dtype,
) -> list[Tensor]:
    return _parts([_gaussian_pair(name, kernel_size, sigma, truncate)], algorithm, dtype)


def unsharp_parts(
    kernel_size: Optional[BroadcastingList2[int]],
    sigma: Union[Tensor, float, tuple[float, float]],
    amount: float,
    algorithm: str,
    dtype: torch.dtype,
) -> list[Tensor]:
    """1 + amount times the pixel, minus amount times a Gaussian."""
    if not torch.jit.is_scripting() and not isinstance(sigma, Tensor):
        return _remembered(_unsharp_parts, kernel_size, sigma, amount, algorithm, dtype)
    return _unsharp_parts(kernel_size, sigma, amount, algorithm, dtype)


def _unsharp_parts(
    kernel_size: Optional[BroadcastingList2[int]],
    sigma: Union[Tensor, float, tuple[float, float]],
    amount: float,
    algorithm: str,
    dtype: torch.dtype,
) -> list[Tensor]:
    y, x = _gaussian_pair("unsharp_mask", kernel_size, sigma, 4.0)
    return _parts([((1.0 + amount) * _delta_like(y), _delta_like(x)), (-amount * y, x)], algorithm, dtype)


def difference_parts(
    low_sigma: Numbers, high_sigma: Optional[Numbers], truncate: float, algorithm: str, dtype: torch.dtype
) -> list[Tensor]:
    """A Gaussian, with zeros up to the size of a wider one, minus that."""
    if not torch.jit.is_scripting():
        return _remembered(_difference_parts, low_sigma, high_sigma, truncate, algorithm, dtype)
    return _difference_parts(low_sigma, high_sigma, truncate, algorithm, dtype)


def _difference_parts(
    low_sigma: Numbers, high_sigma: Optional[Numbers], truncate: float, algorithm: str, dtype: torch.dtype
) -> list[Tensor]:
    name = "difference_of_gaussians"
    low = _positive_pair(name, "low_sigma", low_sigma)
    high = (1.6 * low[0], 1.6 * low[1])
    if high_sigma is not None:
        high = _positive_pair(name, "high_sigma", high_sigma)
    if high[0] < low[0] or high[1] < low[1]:
        raise ValueError(f"{name}: high_sigma must be at least low_sigma {low}, got {high}")
    wide_y, wide_x = _reaching(name, high[0], truncate), _reaching(name, high[1], truncate)
    narrow_y, narrow_x = _reaching(name, low[0], truncate), _reaching(name, low[1], truncate)
    narrow = (_centred(narrow_y, wide_y.size(0)), _centred(narrow_x, wide_x.size(0)))
    return _parts([narrow, (-wide_y, wide_x)], algorithm, dtype)


def curvature_parts(sigma: Numbers, truncate: float, algorithm: str, dtype: torch.dtype) -> list[Tensor]:
    """The second derivatives of a Gaussian along y and along x."""
    if not torch.jit.is_scripting():
        return _remembered(_curvature_parts, sigma, truncate, algorithm, dtype)
    return _curvature_parts(sigma, truncate, algorithm, dtype)


def _curvature_parts(sigma: Numbers, truncate: float, algorithm: str, dtype: torch.dtype) -> list[Tensor]:
    sy, sx = _positive_pair("gaussian_laplace", "sigma", sigma)
    y, x = _reaching("gaussian_laplace", sy, truncate), _reaching("gaussian_laplace", sx, truncate)
    return _parts([(_second_derivative(y, sy), x), (y, _second_derivative(x, sx))], algorithm, dtype)


def gradient_windows(mode: str, order: int, normalized: bool, dtype: torch.dtype) -> list[Tensor]:
    """The derivative windows (x, y), or (xx, xy, yy) for order 2."""
    if not torch.jit.is_scripting():
        return _remembered(_gradient_windows, mode, order, normalized, dtype)
    return _gradient_windows(mode, order, normalized, dtype)


def _gradient_windows(mode: str, order: int, normalized: bool, dtype: torch.dtype) -> list[Tensor]:
    difference = [-1.0, 0.0, 1.0]
    if order == 1:
        smooth = [1.0, 2.0, 1.0]
        if mode == "scharr":
            smooth = [3.0, 10.0, 3.0]
        elif mode == "prewitt":
            smooth = [1.0, 1.0, 1.0]
        elif mode == "diff":
            smooth = [0.0, 1.0, 0.0]
        x = torch.outer(_tensor(smooth), _tensor(difference))
        windows = torch.stack([x, x.t()])
        scale = windows.abs().sum([-2, -1], keepdim=True)
    else:
        # kornia's units: the response to x^2 / 2, x * y and y^2 / 2 becomes 1
        second, smooth, scales = [1.0, -2.0, 1.0], [0.0, 1.0, 0.0], [1.0, 4.0, 1.0]
        if mode == "sobel":
            second, smooth, scales = [1.0, 0.0, -2.0, 0.0, 1.0], [1.0, 4.0, 6.0, 4.0, 1.0], [64.0, 64.0, 64.0]
            difference = [-1.0, -2.0, 0.0, 2.0, 1.0]
        xx = torch.outer(_tensor(smooth), _tensor(second))
        xy = torch.outer(_tensor(difference), _tensor(difference))
        windows = torch.stack([xx, xy, xx.t()])
        scale = _tensor(scales).reshape(3, 1, 1)
    windows = windows / scale if normalized else windows
    return list(windows.to(dtype).unbind(0))


def laplacian_taps(ky: int, kx: int, variant: str, dtype: torch.dtype) -> Tensor:
    """The raw taps (ky, kx) of a Laplacian."""
    if not torch.jit.is_scripting():
        return _remembered(_laplacian, ky, kx, variant, dtype)
    return _laplacian(ky, kx, variant, dtype)


def _laplacian(ky: int, kx: int, variant: str, dtype: torch.dtype) -> Tensor:
    return laplacian_window("laplacian", "kernel_size", ky, kx, variant).to(dtype)


# The numbers behind them, in float64.


def _gaussian_pair(
    name: str,
    kernel_size: Optional[BroadcastingList2[int]],
    sigma: Union[Tensor, float, tuple[float, float]],
    truncate: float,
) -> tuple[Tensor, Tensor]:
    """The taps along y and along x of a Gaussian: (k,), or (B, k) where sigma is a tensor (B, 2)."""
    if isinstance(sigma, Tensor):
        if kernel_size is None:
            raise ValueError(f"{name}: kernel_size must be given where sigma is a tensor")
        ky, kx = odd_sizes(name, kernel_size)
        if sigma.dim() != 2 or sigma.size(1) != 2:
            raise ValueError(f"{name}: sigma must have shape (B, 2), got {sigma.shape}")
        if not torch.jit.is_scripting():
            _check_host_sigma(name, sigma)
        return _gaussian_rows(ky, sigma[:, :1]), _gaussian_rows(kx, sigma[:, 1:])
    sy, sx = _positive_pair(name, "sigma", sigma)
    if kernel_size is None:
        ky, kx = _size_of(name, sy, truncate), _size_of(name, sx, truncate)
    else:
        ky, kx = odd_sizes(name, kernel_size)
    return _gaussian(ky, sy), _gaussian(kx, sx)


def _check_host_sigma(name: str, sigma: Tensor) -> None:
    # A look at a GPU's values would wait for it, and a tracer has none.
    known = sigma.is_cpu and not torch.compiler.is_compiling() and not is_in_torch_dispatch_mode()
    if known and not bool(((sigma > 0) & sigma.isfinite()).all()):
        raise ValueError(f"{name}: sigma must be finite and greater than 0, got {sigma.tolist()}")


def _gaussian_rows(size: int, sigma: Tensor) -> Tensor:
    """`_gaussian` for every sigma of a column (B, 1), on its device."""
    x = torch.arange(size, dtype=torch.float64, device=sigma.device) - 0.5 * (size - 1)
    taps = torch.exp(-0.5 * (x / sigma.to(torch.float64)).square())
    return taps / taps.sum(-1, keepdim=True)


def _gaussian(size: int, sigma: float) -> Tensor:
    return _tensor(gaussian_taps(size, sigma))


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


def _tensor(taps: list[float]) -> Tensor:
    if torch.jit.is_scripting():  # where torch.tensor() rounds the numbers of a list to float32
        exact = torch.zeros(len(taps), dtype=torch.float64, device="cpu")
        for i in range(len(taps)):
            exact[i].fill_(taps[i])
        return exact
    return torch.tensor(taps, dtype=torch.float64, device="cpu")


def _positive_pair(name: str, argument: str, value: Numbers) -> tuple[float, float]:
    """A standard deviation per axis (y, x), each greater than 0."""
    if not torch.jit.is_scripting():
        _check_numbers(name, argument, value)
    y, x = _both(value)
    if not (y > 0 and x > 0 and y < math.inf and x < math.inf):
        raise ValueError(f"{name}: {argument} must be finite and greater than 0, got {value}")
    return y, x


def _both(value: Numbers) -> tuple[float, float]:
    if isinstance(value, (int, float)):
        return value, value
    return value[0], value[1]


def _check_numbers(name: str, argument: str, value: Any) -> None:
    values = [value] if not isinstance(value, (list, tuple)) else value
    for number in values:
        if not isinstance(number, (int, float)):
            raise TypeError(f"{name}: {argument} must be of type float, got {type(number).__name__}")
    if isinstance(value, (list, tuple)) and len(value) != 2:
        raise ValueError(f"{name}: {argument} must be one number or two (y, x), got {len(value)}")


def odd_sizes(name: str, kernel_size: BroadcastingList2[int]) -> tuple[int, int]:
    """An odd window size per axis (y, x)."""
    if not torch.jit.is_scripting():
        kernel_size = _whole_numbers(name, kernel_size)
    given: list[int] = list(kernel_size)  # type: ignore[arg-type]
    if len(given) != 2:
        raise ValueError(f"{name}: kernel_size must be one number or two (y, x), got {len(given)}")
    ky, kx = given[0], given[1]
    if ky < 1 or kx < 1 or ky % 2 == 0 or kx % 2 == 0:
        raise ValueError(f"{name}: kernel_size must be odd and at least 1, got {(ky, kx)}")
    return ky, kx


def _whole_numbers(name: str, kernel_size: Any) -> list[int]:
    given = list(kernel_size) if isinstance(kernel_size, (list, tuple)) else [kernel_size] * 2
    for size in given:
        if not isinstance(size, int):
            raise TypeError(f"{name}: kernel_size must be of type int, got {type(size).__name__}")
    return given


def _size_of(name: str, sigma: float, truncate: float) -> int:
    """The window that reaches `truncate` standard deviations, as scipy's."""
    if not (truncate > 0 and truncate < math.inf):
        raise ValueError(f"{name}: truncate must be finite and greater than 0, got {truncate}")
    return 2 * int(truncate * sigma + 0.5) + 1
