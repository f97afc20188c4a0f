"""Annotations that TorchScript, a type checker and `inspect` read: numbers per axis, and words.

TorchScript knows `BroadcastingListN[int]` and `_size_N_t` by these names and repeats a single number for every axis.
It knows tuples of numbers, but no sequences, and no words but `str`.
"""

# ruff: noqa: UP007
import functools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin

from torch_conv import typing

T = TypeVar("T")
BroadcastingList1 = Union[T, Sequence[T]]
BroadcastingList2 = Union[T, Sequence[T]]
BroadcastingList3 = Union[T, Sequence[T]]

if TYPE_CHECKING:
    from torch_conv.typing import *  # noqa: F403

    _size_1_t = Union[int, Sequence[int], Padding]  # noqa: F405
    _size_2_t = Union[int, Sequence[int], Padding]  # noqa: F405
    _size_3_t = Union[int, Sequence[int], Padding]  # noqa: F405
    Numbers = Union[float, Sequence[float]]
    Numbers3 = Union[float, Sequence[float]]
else:
    globals().update(dict.fromkeys(typing.__all__, str))
    _size_1_t = _size_2_t = _size_3_t = Union[int, Sequence[int], str]
    Numbers = Union[float, tuple[float, float]]  # one, or one per axis (y, x)
    Numbers3 = Union[float, tuple[float, float, float]]  # (z, y, x)

_SEQUENCES = {tuple[float, float]: Sequence[float], tuple[float, float, float]: Sequence[float]}


def shown(annotation: Any) -> Any:
    """The type for `inspect`: `A | B`, and sequences where TorchScript takes tuples only."""
    if get_origin(annotation) is not Union:
        return annotation
    return functools.reduce(operator.or_, (_SEQUENCES.get(t, t) for t in get_args(annotation)))
