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
    # TorchScript recognises these names and repeats a single number for every axis.
    from torch._jit_internal import BroadcastingList1, BroadcastingList2, BroadcastingList3

__all__ = ["BroadcastingList1", "BroadcastingList2", "BroadcastingList3"]
