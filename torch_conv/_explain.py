"""Plans without running them: what `torch_conv.explain` prints."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch_conv.dispatch.query import Asking, text_of


@dataclass(frozen=True)
class Explanation:
    """A plan per kernel call, in order; `print` shows one a line.

    A line names the operator, the algorithm and its variant, why it was chosen, tile, grid and launches, scratch
    memory, bytes moved and floating-point operations, and on a GPU the time below which no kernel can move those bytes.
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
    """Whether this thread is inside explain() or prepare(): nothing is to be computed."""
    return _recording.lines is not None


def note(line: str) -> None:
    """Adds a line for a step that is not an operator's."""
    assert _recording.lines is not None
    _recording.lines.append(line)


def plans_of(purpose: str, fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    """The plans of a call; with the purpose "prepare", not "explain", their kernels are loaded."""
    if not callable(fn):
        raise TypeError(
            f"{purpose}: fn must be a function, got {type(fn).__name__}; the arguments follow it: "
            f"torch_conv.{purpose}(torch_conv.gaussian_blur2d, x, 5, 1.0)"
        )
    if recording():
        raise RuntimeError(f"{purpose}: must not be called from a function that is being explained or prepared")
    _recording.lines = lines = []
    try:
        with Asking(purpose, lambda answer: lines.extend(text_of(answer).splitlines())):
            fn(*args, **kwargs)
    finally:
        _recording.lines = None
    return lines


def explain(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Tells how a call would be computed; no kernel of this library runs.

    Args:
        fn: a function of torch_conv, or any function that calls some. What it computes besides runs on
            uninitialised results, so it must not depend on them.
        args: its arguments; their dtype, shape, strides and device decide the plan.
        kwargs: its keyword arguments.

    Returns:
        An `Explanation` to print. It has a line per kernel call, with algorithm, why, tile, launches, bytes, flops and
        time floor.

    Raises:
        ValueError, TypeError: what the call itself would raise.

    Example:
        >>> plan = torch_conv.explain(torch_conv.filter2d, torch.rand(1, 3, 64, 64), torch.ones(3, 3))
        >>> plan.lines[0].split(":")[0]
        'filter2d'
    """
    return Explanation(tuple(plans_of("explain", fn, args, kwargs)))
