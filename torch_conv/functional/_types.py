"""Annotations that both TorchScript and a type checker read: one number, or one per axis."""

# ruff: noqa: UP007
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar, Union

if TYPE_CHECKING:
    T = TypeVar("T")
    BroadcastingList1 = Union[T, Sequence[T]]
    BroadcastingList2 = Union[T, Sequence[T]]
    BroadcastingList3 = Union[T, Sequence[T]]
else:
    # TorchScript knows these by their names alone: a number given for such a list is repeated.
    from torch._jit_internal import BroadcastingList1, BroadcastingList2, BroadcastingList3

__all__ = ["BroadcastingList1", "BroadcastingList2", "BroadcastingList3"]
