"""The ranks' optional comparison of their calls before any exchange, by one all_gather."""

from __future__ import annotations

import hashlib
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from torch_conv.distributed._mesh_view import MeshView, NoKey, value_bytes
from torch_conv.distributed._progress import ExchangeError, RankError, Topic, gathered


class verify:  # noqa: N801
    """Makes the ranks compare their calls before they exchange: `verify(True)`, or `with verify(True):`.

    Switch it on, on all ranks alike, to find a rank that makes a different call. All ranks of the mesh then get an
    error if their calls differ, or if a rank refuses its arguments. The ranks compare the function, all arguments, and
    the mesh, shape, dtype and placements of the image. They compare kernels by value if these are on the CPU and have
    at most 64 KiB, else by shape and dtype. `halo_exchange` always compares.

    A compared call waits for an all_gather, 1 to 2 ms for two processes with gloo. Without the comparison, a call that
    one rank refuses ends with an `ExchangeError` on all ranks, at their group's timeout. GPUs of one host report the
    timeout as a CUDA error, after which the process cannot use the GPU. A rank that makes no call, dies, or runs out of
    memory before its exchange keeps the others waiting in either case.

    Args:
        mode: whether the ranks compare from now on. A `with` block restores the mode before it.

    Example:
        >>> with torch_conv.distributed.verify(True):
        ...     pass  # the calls to compare
    """

    # filter2d of 8x8 without an exchange, by gloo on two busy cores, us a call:
    #
    #     processes   off          on
    #     2           31 to 99     1,030 to 2,200
    #     4           175 to 295   5,600 to 6,350
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
    """Counts a call and compares it between ranks: `describe`, then `agree`; `fail` after an error."""

    def __init__(self, name: str, view: MeshView, wanted: bool) -> None:
        self.name, self.view = name, view
        for progress in view.progress:
            progress.calls += 1
        self.is_open = wanted  # whether the ranks have yet to compare this call
        self._digest = 0
        self._error: RankError | None = None

    def describe(self, arguments: dict[str, Any], shared: Any) -> None:
        """Digests the arguments, and `shared`, which must also be equal on all ranks."""
        if self.is_open:
            described = [(name, _described(arguments[name])) for name in sorted(arguments)]
            text = repr((self.name, self.view.shape, shared, described))
            digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
            self._digest = int.from_bytes(digest, "little", signed=True)

    def agree(self, device: torch.device, number: int = 0) -> list[int]:
        """Compares the digests. Returns each rank's `number` in the mesh's order, or [] without a comparison."""
        if self._error:  # a function may catch the error and try other dtypes
            raise self._error
        if not self.is_open:
            return []
        rows = self._gather([1 + any(progress.failed for progress in self.view.progress), self._digest, number], device)
        if any(ok == 2 for _, ok, *_ in rows):  # an earlier call failed: all ranks compare their counts
            self._mark_failed()
        refused = [rank for rank, ok, *_ in rows if not ok]
        differing = next((row[0] for row in rows if row[2] != rows[0][2]), None)
        if refused:
            ranks = f"rank {refused[0]}" if len(refused) == 1 else f"ranks {', '.join(map(str, refused))}"
            self._error = RankError(f"{self.name}: {ranks} refused the call")
        elif differing is not None:
            self._error = RankError(f"{self.name}: arguments differ between ranks {rows[0][0]} and {differing}")
        if self._error:
            raise self._error
        return [row[3] for row in rows]

    def fail(self, error: BaseException) -> None:
        """Ends this rank's call with an error, which other ranks get if they compare the call.

        If they do not compare it, this rank compares its counts before the next exchange (`Progress.resume`).
        """
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
        """Gathers [rank, *row] of each rank of the mesh, in the mesh's order."""
        self.is_open = False
        rows = [[self.view.rank, *row]]
        for group in self.view.handshake_groups:
            rows = gathered(Topic.CALL, rows, group, device)
        by_rank = {row[0]: row for row in rows}
        if not by_rank.keys() >= set(self.view.ranks):
            raise ExchangeError("the ranks are in different calls")
        return [by_rank[rank] for rank in self.view.ranks]


def _described(argument: Any) -> Any:
    """A description of an argument, which must be equal on all ranks."""
    if isinstance(argument, DTensor):
        return tuple(argument.shape), argument.dtype, argument.placements, argument.device.type
    if isinstance(argument, Tensor):
        metadata = tuple(argument.shape), argument.dtype, argument.device.type
        try:
            return *metadata, value_bytes(argument)
        except NoKey:
            return metadata
    if isinstance(argument, (list, tuple)):
        return [_described(part) for part in argument]
    return argument
