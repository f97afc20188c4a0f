"""What goes wrong between ranks."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch
import torch.distributed as dist

P = ParamSpec("P")
T = TypeVar("T")


class RankError(RuntimeError):
    """Another rank refused its part of a call, or called something else."""


class ExchangeError(RuntimeError):
    """torch.distributed could not carry a message: a rank is gone, or does not answer."""


def alive(of_group: weakref.ref[T]) -> T:
    """A group, or what lives as long as it."""
    found = of_group()
    if found is None:
        raise ExchangeError("a process group of the mesh has been destroyed")
    return found


def call_distributed(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a call of torch.distributed. Its failure is an ExchangeError, not a refusal of an argument.

    A group whose connection is lost fails as soon as a collective starts, not only when its result is waited for.
    """
    try:
        return call(*args, **kwargs)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError) as error:
        said = re.sub(r"^\[[^]]*\] *", "", str(error).splitlines()[0])  # without the place in torch's sources
        raise ExchangeError(f"the exchange between ranks failed: {said}") from error


def wait_for(work: dist.Work) -> None:
    """Waits as the backend requires it."""
    call_distributed(work.wait)
