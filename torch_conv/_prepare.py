"""Kernels before their first call: `torch_conv.prepare`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch_conv._explain import plans_of


def prepare(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Compiles and loads the kernels that a call would need; no kernel of this library runs.

    A kernel that was not built ahead is compiled at its first call, which takes some tenths of a second, and kept in
    the cache on disk; the next process loads it from there. On the CPU nothing is to be made ready.

    Args:
        fn: a function of torch_conv, or any function that calls some. What it computes besides runs on
            uninitialised results, so it must not depend on them.
        args: its arguments; their dtype, shape, strides and device decide which kernels serve the call.
        kwargs: its keyword arguments.

    Returns:
        Nothing. The call may follow at once, also while a CUDA graph is captured.

    Raises:
        ValueError, TypeError: what the call itself would raise.
        RuntimeError: a kernel cannot be compiled or loaded; the sentence names it.

    Example:
        >>> torch_conv.prepare(torch_conv.filter2d, torch.rand(1, 3, 64, 64), torch.ones(3, 3))
    """
    plans_of("prepare", fn, args, kwargs)
