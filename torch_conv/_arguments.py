"""Conversions of arguments for operators, gradients and the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Number = TypeVar("Number", int, float)

_BORDER_ALIASES = {
    "zeros": "constant",
    "edge": "replicate",
    "nearest": "replicate",
    "mirror": "reflect",
    "reflect_101": "reflect",
    "reflect101": "reflect",
    "reflect_1001": "symmetric",
    "grid-mirror": "symmetric",
    "wrap": "circular",
    "grid-wrap": "circular",
}


def border_name(name: str) -> str:
    """Resolves an alias of a border policy, as csrc/tensors/checks.cpp does."""
    return _BORDER_ALIASES.get(name, name)


def per_axis(value: Number | Sequence[Number], axes: int) -> list[Number]:
    """Repeats a number, or the only number of a list, for every axis."""
    return [value] * axes if isinstance(value, (int, float)) else list(value) * (axes // len(value))
