"""Checks of numbers that are given as tensors.

A tensor that requires a gradient is refused, because a number gets none. A floating-point tensor is refused for an
integer, because torch would drop its fraction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, get_args

import torch
from torch import Tensor

Number = TypeVar("Number", int, float)


def per_axis(value: Number | Sequence[Number], axes: int) -> list[Number]:
    """Repeats a number, or the only number of a list, for every axis."""
    return [value] * axes if isinstance(value, (int, float)) else list(value) * (axes // len(value))


def gradient_refusal(name: str, argument: str, value: Any) -> ValueError | None:
    """The refusal of a tensor that requires a gradient; None for any other value."""
    if isinstance(value, Tensor) and value.requires_grad and torch.is_grad_enabled():
        return ValueError(f"{name}: {argument} must not require a gradient, because a number gets none")
    return None


def refuse_gradient(name: str, argument: str, value: Any) -> None:
    refusal = gradient_refusal(name, argument, value)
    if refusal is not None:
        raise refusal


def refuse_gradients(name: str, numbers: dict[str, bool], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuses numbers that require a gradient. `numbers` maps all arguments in order to whether they take numbers."""
    for argument, value in (*zip(numbers, args, strict=False), *kwargs.items()):
        if isinstance(value, Tensor) and numbers.get(argument):
            refuse_gradient(name, argument, value)


def is_whole(value: Any) -> bool:
    """Whether `value` is an integer or an integer tensor, and no bool."""
    if isinstance(value, Tensor):
        return not (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool)
    return not isinstance(value, bool) and (isinstance(value, (int, torch.SymInt)) or hasattr(value, "__index__"))


def kind_of(value: Any) -> str:
    """The type of `value` for a refusal."""
    return f"a tensor of {str(value.dtype)[6:]}" if isinstance(value, Tensor) else type(value).__name__


def refuse_fraction(name: str, argument: str, value: Any) -> None:
    """Refuses a floating-point tensor, or a list with one, for an argument that takes integers."""
    for number in value if isinstance(value, (tuple, list)) else (value,):
        if type(number) is not int and isinstance(number, Tensor) and not is_whole(number):
            raise TypeError(f"{name}: {argument} must be of type int, got {kind_of(number)}")


def takes_tensor(annotation: Any) -> bool:
    """Whether a type annotation allows a tensor."""
    return annotation is Tensor or any(map(takes_tensor, get_args(annotation)))


def takes_integers(annotation: Any) -> bool:
    """Whether a type annotation allows an integer, or integers in a list."""
    return annotation is int or any(map(takes_integers, get_args(annotation)))
