"""How far a rank's calls and exchanges with a group have come, so that no rank takes one call's rows for another's.

A rank whose call failed may have left out an exchange that the others wait in. Before its next exchange with the group
it gathers the counts of all ranks. Where all ranks failed alike, the counts are equal and the ranks go on. Where they
failed apart, the counts differ or the other ranks do not come: both sides get an `ExchangeError`, at the latest at the
group's timeout.
"""

from __future__ import annotations

import weakref
from enum import IntEnum

import torch
import torch.distributed as dist

from torch_conv.distributed._errors import ExchangeError, call_distributed

_NUMBERS = 4  # of a row


class Topic(IntEnum):
    """What ranks gather numbers for. Ranks that gather for different topics are in different calls."""

    COUNTS = 1
    CALL = 2
    DEVICES = 3
    SHARED = 4


class Progress:
    """This rank's calls on meshes that hold a group, and its exchanges with the group by messages."""

    def __init__(self) -> None:
        self.calls = 0  # that have begun, also those that failed or exchanged nothing
        self.steps = 0  # one where an exchange begins, one where it ends: odd within one
        self.exchanged = 0  # the call in which an exchange last ended
        self.failed = False  # a call of this rank, since the counts were compared

    def resume(self, group: dist.ProcessGroup, device: torch.device, kernels: int) -> None:
        """Compares the counts after a failed call; `kernels` counts the exchanges through symmetric memory."""
        mine = [self.calls, self.steps, kernels]
        try:
            rows = gathered(Topic.COUNTS, [mine], group, device)
        except ExchangeError as error:
            raise ExchangeError(f"an earlier call failed on this rank, and the others do not wait: {error}") from error
        if self.steps % 2 or any(row[:3] != mine for row in rows):
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
    """The rows of all ranks, of at most four numbers each, zeros behind them; as many rows of every rank.

    By gloo where the group has it, as under "cpu:gloo,cuda:nccl": NCCL would wait for the GPU's queue.
    """
    device = torch.device("cpu") if _has_cpu(group) else device
    padded = [[topic, *row, *[0] * (_NUMBERS - len(row))] for row in rows]  # of one size, whatever the topic
    mine = torch.tensor(padded, dtype=torch.int64, device=device)
    everyone = mine.new_empty(group.size() * len(rows), 1 + _NUMBERS)
    call_distributed(dist.all_gather_into_tensor, everyone, mine, group=group)
    found: list[list[int]] = everyone.tolist()
    if any(other != topic for other, *_ in found):
        raise ExchangeError("the ranks are in different calls")
    return [row for _, *row in found]


def _has_cpu(group: dist.ProcessGroup) -> bool:
    try:
        return group._get_backend(torch.device("cpu")) is not None
    except RuntimeError:
        return False
