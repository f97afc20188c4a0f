"""Arguments as OpenCV's Python functions read them: None stands for the default, and a truth value is no number."""

from __future__ import annotations

import sys
from operator import index
from typing import Any

import torch
from torch import Tensor

from torch_conv.dispatch.numbers import refuse_gradient


def whole(name: str, argument: str, value: Any, default: int = 0) -> int:
    if type(value) is int:
        return value
    if value is None:
        return default
    try:
        if isinstance(value, bool):
            raise TypeError
        return index(value)
    except TypeError:
        raise TypeError(f"{name}: {argument} must be an integer, got {type(value).__name__}") from None


def number(name: str, argument: str, value: Any, default: float = 0.0) -> float:
    if type(value) is float:
        return value
    if value is None:
        return default
    refuse_gradient(name, argument, value)
    try:
        if isinstance(value, (bool, str)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):  # ValueError: a tensor of several numbers
        raise TypeError(f"{name}: {argument} must be a number, got {type(value).__name__}") from None


def truth(name: str, argument: str, value: Any) -> bool:
    """True by default, as `normalize` is."""
    return value if isinstance(value, bool) else whole(name, argument, value, 1) != 0


def pair(name: str, argument: str, value: Any, default: tuple[int, int]) -> tuple[int, int]:
    """(width, height) or (x, y)."""
    if value is None:
        return default
    try:
        x, y = value
        if isinstance(x, bool) or isinstance(y, bool):
            raise TypeError
        return index(x), index(y)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: {argument} must be two integers, x first, got {value!r}") from None


def is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")  # an array exists only where numpy is imported
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_odd(array: Any) -> bool:
    """Whether torch cannot share this array's memory."""
    if not array.dtype.isnative:
        return True
    size = array.itemsize
    for stride in array.strides:  # noqa: SIM110 (half a microsecond less than any())
        if stride < 0 or stride % size:
            return True
    return False


def is_scalar(value: Any) -> bool:
    """Whether OpenCV reads `value` as an image without memory: a number, or a tuple of numbers."""
    return isinstance(value, (int, float)) or (
        isinstance(value, tuple) and all(isinstance(n, (int, float)) for n in value)
    )


def tensor(name: str, argument: str, value: Any) -> Tensor:
    """`value` as a tensor that shares its memory where torch can."""
    if isinstance(value, Tensor):
        return value
    if not is_array(value):
        raise TypeError(f"{name}: {argument} must be a numpy array or a torch tensor, got {type(value).__name__}")
    if value.flags.writeable:  # torch warns of memory that must not be written
        try:
            return torch.from_numpy(value)
        except (TypeError, ValueError):
            pass  # another byte order, strides that torch does not have, or a dtype
    try:
        return torch.from_numpy(value.astype(value.dtype.newbyteorder("="), order="C"))
    except TypeError:
        raise TypeError(f"{name}: {argument} must have a dtype that torch knows, got {value.dtype}") from None


def kernel(name: str, argument: str, value: Any) -> Tensor:
    """Taps of any real dtype, (kH, kW) or (k,); a tuple of numbers is a column, as in OpenCV."""
    if isinstance(value, tuple) and len(value) > 0 and is_scalar(value):
        return torch.tensor(value, dtype=torch.float64, device="cpu").unsqueeze(1)
    taps = tensor(name, argument, value)
    if taps.is_complex():
        raise TypeError(f"{name}: {argument} must be real numbers, got {str(taps.dtype)[6:]}")
    if taps.dtype == torch.bool:
        taps = taps.to(torch.uint8)
    return taps[:, :, 0] if taps.dim() == 3 and taps.size(2) == 1 else taps
