"""Errors between ranks, and counts of a rank's calls and exchanges, by which ranks notice that their calls differ.

A rank whose call failed may have left out an exchange that other ranks wait in. Before its next exchange with a group,
this rank gathers the counts of all ranks of the group. Equal counts mean that all ranks failed alike, and the ranks go
on. Otherwise the counts differ, or the other ranks do not gather. Both sides then get an `ExchangeError`, at the latest
at the group's timeout.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from enum import IntEnum
from typing import ParamSpec, TypeVar

import torch
import torch.distributed as dist

P = ParamSpec("P")
T = TypeVar("T")
_NUMBERS = 4  # in a gathered row


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


class Topic(IntEnum):
    """The purpose of a gather. Ranks that gather for different purposes are in different calls."""

    COUNTS = 1
    CALL = 2
    DEVICES = 3
    SHARED = 4


class Progress:
    """This rank's counts with a group: calls on meshes that hold the group, and exchanges with it by messages."""

    def __init__(self) -> None:
        self.calls = 0  # calls that have begun, also those that failed or exchanged nothing
        self.stages = 0  # begins and ends of exchanges: odd within an exchange
        self.exchanged = 0  # the call in which an exchange ended last, also one through symmetric memory
        self.failed = False  # whether a call of this rank has failed since the last comparison

    def resume(self, group: dist.ProcessGroup, device: torch.device, deliveries: int) -> None:
        """Compares the counts after a failed call; `deliveries` counts exchanges through symmetric memory."""
        own = [self.calls, self.stages, deliveries]
        try:
            rows = gathered(Topic.COUNTS, [own], group, device)
        except ExchangeError as error:
            raise ExchangeError(f"an earlier call failed on this rank, and the others do not wait: {error}") from error
        if self.stages % 2 or any(row[:3] != own for row in rows):
            raise ExchangeError("an earlier call failed, and the ranks' calls differ since")
        self.failed = False


_progress: weakref.WeakKeyDictionary[dist.ProcessGroup, Progress] = weakref.WeakKeyDictionary()


def progress_of(group: dist.ProcessGroup) -> Progress:
    return _progress.setdefault(group, Progress())


def fail_everywhere() -> None:
    """Counts a call that failed before it named a mesh."""
    for progress in list(_progress.values()):
        progress.calls += 1
        progress.failed = True


def gathered(topic: Topic, rows: list[list[int]], group: dist.ProcessGroup, device: torch.device) -> list[list[int]]:
    """Gathers rows of at most four numbers, as many from each rank, padded with zeros.

    gloo carries them where the group has it ("cpu:gloo,cuda:nccl"), because NCCL would wait for the GPU's queue.
    """
    device = torch.device("cpu") if _has_cpu(group) else device
    padded = [[topic, *row, *[0] * (_NUMBERS - len(row))] for row in rows]  # one size for all topics
    own = torch.tensor(padded, dtype=torch.int64, device=device)
    everyone = own.new_empty(group.size() * len(rows), 1 + _NUMBERS)
    call_distributed(dist.all_gather_into_tensor, everyone, own, group=group)
    received: list[list[int]] = everyone.tolist()
    if any(other != topic for other, *_ in received):
        raise ExchangeError("the ranks are in different calls")
    return [row for _, *row in received]


def _has_cpu(group: dist.ProcessGroup) -> bool:
    try:
        return group._get_backend(torch.device("cpu")) is not None
    except RuntimeError:
        return False
