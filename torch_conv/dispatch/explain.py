"""`torch_conv.explain` and `torch_conv.prepare`: the plans of a call that does not run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch_conv.dispatch.query import QueryMode, answer_text


@dataclass(frozen=True)
class Explanation:
    """The plans of a call in the order of its kernel calls; `print` shows one a line.

    A line names the operator, the algorithm, its variant and the reason for the choice. It lists tile, grid, launches,
    scratch memory, bytes moved and floating-point operations. On a GPU it adds the least time that moves these bytes.
    """

    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines) if self.lines else "nothing to compute"

    __repr__ = __str__


class _Recording(threading.local):
    """Lines of the explain() or prepare() that runs on this thread, or None."""

    lines: list[str] | None = None


_recording = _Recording()


def recording() -> bool:
    """Whether this thread is inside explain() or prepare(), where nothing is computed."""
    return _recording.lines is not None


def note(line: str) -> None:
    """Adds a line for work outside of operators."""
    assert _recording.lines is not None
    _recording.lines.append(line)


def plans_of(purpose: str, fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    """The plans of a call. The purpose "prepare" also loads their kernels, "explain" does not."""
    if not callable(fn):
        raise TypeError(
            f"{purpose}: fn must be a function, got {type(fn).__name__}; the arguments follow it: "
            f"torch_conv.{purpose}(torch_conv.gaussian_blur2d, x, 5, 1.0)"
        )
    if recording():
        raise RuntimeError(f"{purpose}: must not be called from a function that is being explained or prepared")
    _recording.lines = lines = []
    try:
        with QueryMode(purpose, lambda answer: lines.extend(answer_text(answer).splitlines())):
            fn(*args, **kwargs)
    finally:
        _recording.lines = None
    return lines


def explain(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Explains how a call would be computed, without running kernels of this library.

    Args:
        fn: a function of torch_conv, or any function that calls some. Its other work runs on uninitialised results, so
            it must not depend on their values.
        args: its arguments; their dtype, shape, strides and device decide the plan.
        kwargs: its keyword arguments.

    Returns:
        An `Explanation`, with a line per kernel call.

    Raises:
        ValueError, TypeError: as the call itself.

    Example:
        >>> plan = torch_conv.explain(torch_conv.filter2d, torch.rand(1, 3, 64, 64), torch.ones(3, 3))
        >>> plan.lines[0].split(":")[0]
        'filter2d'
    """
    return Explanation(tuple(plans_of("explain", fn, args, kwargs)))


def prepare(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Compiles and loads the kernels of a call, without running kernels of this library.

    Otherwise a kernel that was not built ahead is compiled in the background when a call first wants it, and calls
    run on slower kernels until then. The cache on disk keeps it for other processes. On the CPU this function has no
    effect.

    Args:
        fn: a function of torch_conv, or any function that calls some. Its other work runs on uninitialised results, so
            it must not depend on their values.
        args: its arguments; their dtype, shape, strides and device decide the kernels.
        kwargs: its keyword arguments.

    Returns:
        Nothing. The call may follow at once, also in the capture of a CUDA graph.

    Raises:
        ValueError, TypeError: as the call itself.
        RuntimeError: a kernel cannot be compiled or loaded.

    Example:
        >>> torch_conv.prepare(torch_conv.filter2d, torch.rand(1, 3, 64, 64), torch.ones(3, 3))
    """
    plans_of("prepare", fn, args, kwargs)
