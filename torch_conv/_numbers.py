"""Numbers that are given as tensors: what requires a gradient would not get it, and is refused by name.

Torch makes an integer of any tensor of one number that an operator is given for one, and drops its fraction.
"""

from __future__ import annotations

from typing import Any, get_args

import torch
from torch import Tensor


def gradient_refusal(name: str, argument: str, value: Any) -> ValueError | None:
    """Of a tensor that stands for a number; without gradients there is none to lose."""
    if isinstance(value, Tensor) and value.requires_grad and torch.is_grad_enabled():
        return ValueError(f"{name}: {argument} must not require a gradient, because a number gets none")
    return None


def refuse_gradient(name: str, argument: str, value: Any) -> None:
    refusal = gradient_refusal(name, argument, value)
    if refusal is not None:
        raise refusal


def refuse_gradients(name: str, numbers: dict[str, bool], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The same of a call's arguments; `numbers` says in their order which of them are no tensors."""
    for argument, value in (*zip(numbers, args, strict=False), *kwargs.items()):
        if isinstance(value, Tensor) and numbers.get(argument):
            refuse_gradient(name, argument, value)


def is_whole(value: Any) -> bool:
    """Whether `value` stands for an integer; a truth value and a tensor of fractions do not."""
    if isinstance(value, Tensor):
        return not (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool)
    return not isinstance(value, bool) and (isinstance(value, (int, torch.SymInt)) or hasattr(value, "__index__"))


def kind_of(value: Any) -> str:
    """As a sentence says what `value` is."""
    return f"a tensor of {str(value.dtype)[6:]}" if isinstance(value, Tensor) else type(value).__name__


def refuse_fraction(name: str, argument: str, value: Any) -> None:
    """Refuses a tensor of fractions, alone or in a list, for an argument of integers."""
    for number in value if isinstance(value, (tuple, list)) else (value,):
        if type(number) is not int and isinstance(number, Tensor) and not is_whole(number):
            raise TypeError(f"{name}: {argument} must be of type int, got {kind_of(number)}")


def is_tensor_s(annotation: Any) -> bool:
    """Whether an argument of this annotation may be a tensor in its own right."""
    return annotation is Tensor or any(map(is_tensor_s, get_args(annotation)))
