"""Sizes and standard deviations of kernels: checked, and one per axis. TorchScript compiles this module."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from torch_conv.dispatch.symbols import holds
from torch_conv.functional._calls import shape_text
from torch_conv.functional._types import BroadcastingList2, Numbers, Numbers3

# TorchScript reads a pair and a triple as different types, so each is made a list by itself.


def positive_pair(name: str, argument: str, value: Numbers) -> list[float]:
    """A standard deviation per axis (y, x), each greater than 0."""
    if not torch.jit.is_scripting():
        _check_numbers(name, argument, value, 2)
    if isinstance(value, (int, float)):
        return _positive(name, argument, [float(value)] * 2, f"{value}")
    return _positive(name, argument, [value[0], value[1]], f"{value}")


def positive_triple(name: str, argument: str, value: Numbers3) -> list[float]:
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
    """An odd kernel size per axis, (y, x) or (z, y, x). TorchScript passes a list, even for one number."""
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


# Standard deviations as a tensor: a row per sample, a column per axis.


def check_rows(name: str, sigma: Tensor, input: Tensor, axes: int) -> None:
    """Refuses a tensor that has neither one row for all samples nor a row per sample."""
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


def check_host_sigma(name: str, sigma: Tensor) -> None:
    # Reading values on a GPU synchronises with it; a tracer has no values.
    if not sigma.is_cpu or torch.compiler.is_compiling() or is_in_torch_dispatch_mode():
        return
    examples = _examples(sigma)
    if not _are_widths(examples):
        wrong = next(rows for rows in examples if not _are_widths(rows))
        raise ValueError(f"{name}: sigma must be finite and greater than 0, got {wrong.tolist()}")


def _are_widths(sigma: Tensor) -> bool:
    return bool(((sigma > 0) & sigma.isfinite()).all())


def _examples(rows: Tensor) -> Tensor:
    """The rows (B, axes) of every example that torch.vmap maps over, along a new first dimension."""
    of = torch._C._functorch
    while of.is_functorch_wrapped_tensor(rows):
        dim = of.maybe_get_bdim(rows)
        rows = of.get_unwrapped(rows)
        rows = rows if dim < 0 else rows.movedim(dim, 0)
    return rows[None].flatten(0, -3)
