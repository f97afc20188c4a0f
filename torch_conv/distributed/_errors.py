"""Errors between ranks."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


class RankError(RuntimeError):
    """Another rank refused its part of a call, or made a different call."""


class ExchangeError(RuntimeError):
    """torch.distributed could not carry a message, because a rank is gone or does not answer."""


def alive(reference: weakref.ref[T]) -> T:
    """Resolves a reference to a process group, or to an object that lives as long as one."""
    referent = reference()
    if referent is None:
        raise ExchangeError("a process group of the mesh has been destroyed")
    return referent


def call_distributed(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls a function of torch.distributed and turns its failures into ExchangeErrors.

    A group with a lost connection may fail when a collective starts, before any wait.
    """
    try:
        return call(*args, **kwargs)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError) as error:
        reason = re.sub(r"^\[[^]]*\] *", "", str(error).splitlines()[0])  # without the line of torch's sources
        raise ExchangeError(f"the exchange between ranks failed: {reason}") from error
