"""The ranks' comparison of their calls before anything is exchanged, by one all_gather; made where it is asked for."""

from __future__ import annotations

import hashlib
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from torch_conv.distributed._errors import ExchangeError, RankError
from torch_conv.distributed._mesh_view import MeshView, Unknown, value_bytes
from torch_conv.distributed._progress import Topic, gathered


class verify:  # noqa: N801
    """Whether the ranks compare their calls before they exchange: `verify(True)`, or `with verify(True):`.

    It is off from the start: switch it on, on all ranks alike, to find the rank that calls something else. Then every
    rank of the mesh gets an error where the ranks call functions of this module in different ways, or some of them
    refuse their arguments, and no rank begins to exchange. Compared are the function, the mesh's shape, the image's
    shape, dtype, placements and kind of device, and all other arguments; windows by value where they are on the CPU and
    have at most 64 KiB, else by shape and dtype. `halo_exchange` always compares.

    Each call then waits for one small all_gather: 1 to 2 ms between two processes of gloo on one machine, 6 between
    four that share two cores. (A mesh of several dimensions that is not the whole world takes one for each dimension.)
    A group of NCCL without gloo ("cpu:gloo,cuda:nccl" has both) waits for the GPU's queue as well.

    Where calls are not compared, a call that one rank refuses leaves the others waiting until their group's timeout,
    which is an `ExchangeError`, and the rank that went on gets one as well: before the next exchange after a failed
    call the ranks compare how many calls and exchanges they have made. If all of them failed, they go on. (GPUs of one
    host that wait for rows report the timeout as an error of CUDA, after which the process can use the GPU no more.) A
    rank that makes no call at all, that dies, or that runs out of memory leaves the others waiting either way.

    Args:
        mode: whether they compare, from now on. Leaving a `with` block restores what held before it.

    Example:
        >>> with torch_conv.distributed.verify(True):
        ...     pass  # the calls to compare
    """

    # Off: filter2d of 8x8 without an exchange, by gloo on two cores that were not idle, took 31 to 99 us a call between
    # two processes, compared 1,030 to 2,200; between four 175 to 295, compared 5,600 to 6,350.
    on = False

    def __init__(self, mode: bool) -> None:
        self._before = verify.on
        verify.on = bool(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        verify.on = self._before


class Check:
    """One call: its count, and its comparison: `describe` and `agree` where it is right, `fail` where it is not."""

    def __init__(self, name: str, view: MeshView, wanted: bool) -> None:
        self.name, self.view = name, view
        for progress in view.progress:
            progress.calls += 1
        self.is_open = wanted  # the comparison is still to come
        self._digest = 0

    def describe(self, arguments: dict[str, Any], shared: Any) -> None:
        """The arguments to compare, and whatever else the ranks have in common."""
        if self.is_open:
            described = [(name, _described(arguments[name])) for name in sorted(arguments)]
            text = repr((self.name, self.view.shape, shared, described))
            digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
            self._digest = int.from_bytes(digest, "little", signed=True)

    def agree(self, device: torch.device, number: int = 0) -> list[int]:
        """Every rank's `number`, in the order of the mesh; none where nothing is compared."""
        if not self.is_open:
            return []
        rows = self._gather([1 + any(progress.failed for progress in self.view.progress), self._digest, number], device)
        if any(ok == 2 for _, ok, *_ in rows):  # all ranks compare their counts before they exchange
            self._mark_failed()
        refused = [rank for rank, ok, *_ in rows if not ok]
        if refused:
            ranks = f"rank {refused[0]}" if len(refused) == 1 else f"ranks {', '.join(map(str, refused))}"
            raise RankError(f"{self.name}: {ranks} refused the call")
        for row in rows:
            if row[2] != rows[0][2]:
                raise RankError(f"{self.name}: arguments differ between ranks {rows[0][0]} and {row[0]}")
        return [row[3] for row in rows]

    def fail(self, error: BaseException) -> None:
        """This rank's call ends with an error. Ranks that compare it all get one; else this rank has to `resume`."""
        is_on_all = isinstance(error, RankError)
        try:
            if self.is_open and isinstance(error, Exception) and not isinstance(error, ExchangeError):
                self._gather([0, 0, 0], torch.device(self.view.mesh.device_type))
                is_on_all = True
        finally:
            if not is_on_all:
                self._mark_failed()

    def _mark_failed(self) -> None:
        for progress in self.view.progress:
            progress.failed = True

    def _gather(self, row: list[int], device: torch.device) -> list[list[int]]:
        """[rank, *row] of every rank of the mesh, in its order."""
        self.is_open = False
        rows = [[self.view.rank, *row]]
        for group in self.view.handshake_groups:
            rows = gathered(Topic.CALL, rows, group, device)
        by_rank = {row[0]: row for row in rows}
        if not by_rank.keys() >= set(self.view.ranks):
            raise ExchangeError("the ranks are in different calls")
        return [by_rank[rank] for rank in self.view.ranks]


def _described(argument: Any) -> Any:
    """What two ranks must agree on."""
    if isinstance(argument, DTensor):
        return tuple(argument.shape), argument.dtype, argument.placements, argument.device.type
    if isinstance(argument, Tensor):
        about = tuple(argument.shape), argument.dtype, argument.device.type
        try:
            return *about, value_bytes(argument)
        except Unknown:
            return about
    if isinstance(argument, (list, tuple)):
        return [_described(part) for part in argument]
    return argument
