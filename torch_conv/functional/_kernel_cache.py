"""A cache of kernels that are computed from numbers. Keys are the numbers and their types; its bytes are bounded."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import _C, Tensor
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

Function = TypeVar("Function", bound=Callable[..., Any])

MOST_BYTES = 16 << 20  # all kernels together
_LARGEST = MOST_BYTES // 8  # the filter with a larger kernel takes far longer than its computation
_OVERHEAD = 1024  # bytes of a kernel's key and objects, roughly
# Types whose equal values make equal kernels. The value of a tensor may change, so it is no key.
_PLAIN = frozenset((int, float, bool, str, type(None), torch.dtype, object))
_END = object()  # before and after the numbers of a list or tuple


def cached(make: Callable[..., Any], *numbers: Any) -> Any:
    """`make(*numbers)`, from the cache unless tensors are traced, faked or wrapped: a trace records the call."""
    if not is_plain():
        return make(*numbers)
    # The key holds each number of a list with its type: 3.0 equals 3, and is refused as a size.
    flat: list[Any] = [make]
    for number in numbers:
        if type(number) is tuple or type(number) is list:
            flat.append(_END)
            flat += number
            number = _END
        flat.append(number)
    try:
        return _make_once(*flat)
    except _NotKeptError as made:
        return made.args[0]
    except TypeError:  # a number without a hash, or one that is refused
        pass
    return make(*numbers)


def with_cache(make: Function) -> Function:
    """`make` with the cache; TorchScript compiles `make` itself."""

    @functools.wraps(make)
    def call(*numbers: Any) -> Any:
        return cached(make, *numbers)

    call.__prepare_scriptable__ = lambda: make  # type: ignore[attr-defined]
    return cast(Function, call)


def is_plain() -> bool:
    """Whether nothing traces, fakes or wraps tensors."""
    return not (
        torch.compiler.is_compiling()
        or _C._is_tracing()
        or is_in_torch_dispatch_mode()
        or _C._are_functorch_transforms_active()
    )


class _NotKeptError(Exception):
    """Carries a kernel past the cache, which keeps no call that raises."""


@functools.lru_cache(maxsize=None, typed=True)
def _make_once(make: Callable[..., Any], *flat: Any) -> Any:
    # The cache must hold no inference tensor, and none on the default device of one call.
    with torch.inference_mode(False), torch.device("cpu"):
        made = make(*_nested(flat))
    size = _bytes_of(made)
    # numpy's scalars do not change either. Its arrays have no hash, so lru_cache refuses them.
    if size > _LARGEST or not all(type(n) in _PLAIN or type(n).__module__ == "numpy" for n in flat):
        raise _NotKeptError(made)
    if not _count.fits(size):
        _make_once.cache_clear()
    return made


def _nested(flat: tuple[Any, ...]) -> list[Any]:
    numbers: list[Any] = []
    inner: list[Any] | None = None
    for number in flat:
        if number is _END:
            if inner is not None:
                numbers.append(tuple(inner))
            inner = [] if inner is None else None
        else:
            (numbers if inner is None else inner).append(number)
    return numbers


class _Count:
    """The bytes of the cached kernels. Threads take no lock, because the bound may be exceeded by one kernel."""

    def __init__(self) -> None:
        self._bytes = 0

    def fits(self, size: int) -> bool:
        """Counts a kernel. False: the cache must drop all others, and the count restarts with this one."""
        total = self._bytes + size
        self._bytes = total if total <= MOST_BYTES else size
        return total <= MOST_BYTES


_count = _Count()


def _bytes_of(made: Any) -> int:
    tensors = [made] if isinstance(made, Tensor) else made
    return sum(t.untyped_storage().nbytes() + _OVERHEAD for t in tensors)
