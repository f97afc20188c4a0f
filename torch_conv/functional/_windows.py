"""Windows of the named filters: float64 taps on the CPU, made once for each set of numbers.

They travel with the launch, so a call neither synchronises nor waits for a copy. Everything here compiles in TorchScript.
"""
# ruff: noqa: UP007, UP045

import functools
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
    if torch.compiler.is_compiling() or is_in_torch_dispatch_mode():
        return make(*numbers)
    return _make_once(make, *numbers)


@functools.lru_cache(maxsize=512)
def _make_once(make: Callable[..., Any], *numbers: Any) -> Any:
    with torch.inference_mode(False):  # a remembered inference tensor would be refused elsewhere
        return make(*numbers)


def _tensor(taps: list[float]) -> Tensor:
    return torch.tensor(taps, dtype=torch.float64, device="cpu")


def pair(name: str, argument: str, value: Numbers) -> tuple[float, float]:
    """A standard deviation per axis (y, x), each greater than 0."""
    if not torch.jit.is_scripting():
        _check_numbers(name, argument, value)
    y, x = _both(value)
    if not (y > 0 and x > 0):
        raise ValueError(f"{name}: {argument} must be greater than 0, got {value}")
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


def sizes(name: str, kernel_size: BroadcastingList2[int]) -> tuple[int, int]:
    """An odd window size per axis (y, x)."""
    if not torch.jit.is_scripting():
        if isinstance(kernel_size, int):
            kernel_size = (kernel_size, kernel_size)
        for size in kernel_size:
            if not isinstance(size, int):
                raise TypeError(f"{name}: kernel_size must be of type int, got {type(size).__name__}")
    if len(kernel_size) != 2:
        raise ValueError(f"{name}: kernel_size must be one number or two (y, x), got {len(kernel_size)}")
    ky, kx = kernel_size[0], kernel_size[1]
    if ky < 1 or kx < 1 or ky % 2 == 0 or kx % 2 == 0:
        raise ValueError(f"{name}: kernel_size must be odd and at least 1, got {kernel_size}")
    return ky, kx


def size_of(sigma: float, truncate: float) -> int:
    """The window that reaches `truncate` standard deviations, as scipy's."""
    return 2 * int(truncate * sigma + 0.5) + 1


def gaussian_pair(
    name: str,
    kernel_size: Optional[BroadcastingList2[int]],
    sigma: Union[Tensor, float, tuple[float, float]],
    truncate: float,
) -> tuple[Tensor, Tensor]:
    """The taps along y and along x of a Gaussian: (k,), or (B, k) where sigma is a tensor (B, 2)."""
    if isinstance(sigma, Tensor):
        if kernel_size is None:
            raise ValueError(f"{name}: kernel_size must be given where sigma is a tensor")
        ky, kx = sizes(name, kernel_size)
        if sigma.dim() != 2 or sigma.size(1) != 2:
            raise ValueError(f"{name}: sigma must have shape (B, 2), got {sigma.shape}")
        if not torch.jit.is_scripting():
            _check_host_sigma(name, sigma)
        return gaussian_rows(ky, sigma[:, :1]), gaussian_rows(kx, sigma[:, 1:])
    sy, sx = pair(name, "sigma", sigma)
    if kernel_size is None:
        ky, kx = size_of(sy, truncate), size_of(sx, truncate)
    else:
        ky, kx = sizes(name, kernel_size)
    return gaussian(ky, sy), gaussian(kx, sx)


def _check_host_sigma(name: str, sigma: Tensor) -> None:
    # A look at a GPU's values would wait for it, and a tracer has none.
    if sigma.is_cpu and not torch.compiler.is_compiling() and not is_in_torch_dispatch_mode():
        if not bool((sigma > 0).all()):
            raise ValueError(f"{name}: sigma must be greater than 0, got {sigma.tolist()}")


def gaussian_rows(size: int, sigma: Tensor) -> Tensor:
    """`gaussian` for every sigma of a column (B, 1), on its device."""
    x = torch.arange(size, dtype=torch.float64, device=sigma.device) - 0.5 * (size - 1)
    taps = torch.exp(-0.5 * (x / sigma.to(torch.float64)).square())
    return taps / taps.sum(-1, keepdim=True)


def gaussian(size: int, sigma: float) -> Tensor:
    """A sampled Gaussian of `size` taps with sum 1."""
    if torch.jit.is_scripting():
        return _gaussian(size, sigma)
    return _remembered(_gaussian, size, sigma)


def _gaussian(size: int, sigma: float) -> Tensor:
    return _tensor(gaussian_taps(size, sigma))


def difference_pairs(low: tuple[float, float], high: tuple[float, float], truncate: float) -> list[Tensor]:
    """The taps (low y, low x, high y, high x) of two Gaussians, the lower with zeros up to the size of the higher."""
    if torch.jit.is_scripting():
        return _difference_pairs(low, high, truncate)
    return _remembered(_difference_pairs, low, high, truncate)


def _difference_pairs(low: tuple[float, float], high: tuple[float, float], truncate: float) -> list[Tensor]:
    ky, kx = size_of(high[0], truncate), size_of(high[1], truncate)
    return [
        _centred(gaussian_taps(size_of(low[0], truncate), low[0]), ky),
        _centred(gaussian_taps(size_of(low[1], truncate), low[1]), kx),
        _tensor(gaussian_taps(ky, high[0])),
        _tensor(gaussian_taps(kx, high[1])),
    ]


def _centred(taps: list[float], size: int) -> Tensor:
    wider = [0.0] * ((size - len(taps)) // 2)
    return _tensor(wider + taps + wider)


def curvature_pairs(sigma: tuple[float, float], truncate: float) -> list[Tensor]:
    """Gaussians along y and x and their second derivatives along y and x."""
    if torch.jit.is_scripting():
        return _curvature_pairs(sigma, truncate)
    return _remembered(_curvature_pairs, sigma, truncate)


def _curvature_pairs(sigma: tuple[float, float], truncate: float) -> list[Tensor]:
    smooth = [_gaussian(size_of(s, truncate), s) for s in [sigma[0], sigma[1]]]
    return smooth + [_second_derivative(smooth[0], sigma[0]), _second_derivative(smooth[1], sigma[1])]


def _second_derivative(gaussian: Tensor, sigma: float) -> Tensor:
    # of exp(-x^2 / (2 s^2)): x^2 / s^4 - 1 / s^2 times it
    x = torch.arange(gaussian.numel(), dtype=torch.float64, device="cpu") - gaussian.numel() // 2
    return gaussian * ((x / sigma).square() - 1.0) / (sigma * sigma)


def delta_like(taps: Tensor) -> Tensor:
    """Taps (k,) that are 0 but for a 1 in the middle, on the device of `taps`."""
    k = taps.size(-1)
    delta = torch.zeros(k, dtype=torch.float64, device=taps.device)
    delta[k // 2] = 1.0
    return delta


def gradient_windows(mode: str, order: int, normalized: bool) -> Tensor:
    """The derivative windows (x, y), or (xx, xy, yy) for order 2, as one tensor (2|3, k, k)."""
    if torch.jit.is_scripting():
        return _gradient_windows(mode, order, normalized)
    return _remembered(_gradient_windows, mode, order, normalized)


def _gradient_windows(mode: str, order: int, normalized: bool) -> Tensor:
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
    return windows / scale if normalized else windows


def laplacian(name: str, ky: int, kx: int, variant: str) -> Tensor:
    """The raw taps (ky, kx) of a Laplacian."""
    if torch.jit.is_scripting():
        return laplacian_window(name, "kernel_size", ky, kx, variant)
    return _remembered(laplacian_window, name, "kernel_size", ky, kx, variant)
