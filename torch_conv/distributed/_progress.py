"""How far a rank's exchanges with a group have come, so that no rank takes one call's rows for another's.

A rank whose call failed may have left out an exchange that the others wait in. Before its next exchange with the group
it gathers the counts of all ranks. Where all ranks failed alike, the counts are equal and the ranks go on. Where they
failed apart, the other ranks do not come: both sides get an `ExchangeError` at the group's timeout.
"""

from __future__ import annotations

import weakref

import torch
import torch.distributed as dist

from torch_conv.distributed._errors import ExchangeError, exchanged

_WORDS = 4  # of a row
_RESUMES = -1  # the first word of a row of counts; other rows begin with 0 or more


class Progress:
    """This rank's exchanges with a group by messages."""

    def __init__(self) -> None:
        self.steps = 0  # one where an exchange begins, one where it ends: odd within one
        self.failed = False  # a call of this rank, since the counts were compared

    def resume(self, group: dist.ProcessGroup, device: torch.device, kernels: int) -> None:
        """Compares the counts after a failed call; `kernels` counts the exchanges through symmetric memory."""
        mine = [_RESUMES, self.steps, kernels]
        try:
            rows = gathered([mine], group, device)
        except ExchangeError as error:
            raise ExchangeError(f"an earlier call failed on this rank, and the others do not wait: {error}") from error
        if self.steps % 2 or any(row[:3] != mine for row in rows):
            raise ExchangeError("an earlier call failed, and the ranks' exchanges differ since")
        self.failed = False


_progress: weakref.WeakKeyDictionary[dist.ProcessGroup, Progress] = weakref.WeakKeyDictionary()


def progress_of(group: dist.ProcessGroup) -> Progress:
    return _progress.setdefault(group, Progress())


def gathered(rows: list[list[int]], group: dist.ProcessGroup, device: torch.device) -> list[list[int]]:
    """The rows of all ranks, of at most four numbers each, zeros behind them; as many rows of every rank.

    By gloo where the group has it, as under "cpu:gloo,cuda:nccl": NCCL would wait for the GPU's queue.
    """
    device = torch.device("cpu") if _has_cpu(group) else device
    padded = [row + [0] * (_WORDS - len(row)) for row in rows]  # rows of different meaning never differ in size
    mine = torch.tensor(padded, dtype=torch.int64, device=device)
    everyone = mine.new_empty(group.size() * len(rows), _WORDS)
    exchanged(dist.all_gather_into_tensor, everyone, mine, group=group)
    found: list[list[int]] = everyone.tolist()
    return found


def _has_cpu(group: dist.ProcessGroup) -> bool:
    try:
        return group._get_backend(torch.device("cpu")) is not None
    except RuntimeError:
        return False
