"""Nobody waits for a rank that has refused its call: before anything is exchanged, the ranks compare their calls.

They tell each other three numbers (`_meeting.py`): whether the call is fine, a digest of its arguments, one more. A
rank that has made the same call before, with the same arguments on the same layout, knows at once that it is fine, and
says so before it prepares the call.

    first time   check ........ | tell, wait | exchange
    later        tell  prepare ...   wait |   exchange
"""

from __future__ import annotations

import hashlib
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from torch_conv.distributed._errors import RankError
from torch_conv.distributed._mailbox import miss
from torch_conv.distributed._meeting import Round, Row
from torch_conv.distributed._place import Place, Unknown, key_of, value_bytes


class verify:  # noqa: N801
    """Whether the ranks compare their calls before they exchange: `verify(False)`, or `with verify(False):`.

    It is on from the start. What it promises: where the ranks call functions of this module in different ways, or some
    of them refuse their arguments, every rank of the mesh gets an error, and no rank begins to exchange. Compared are
    the function, the mesh's shape, the image's shape, dtype, placements and kind of device, and all other arguments;
    windows by value where they are on the CPU and have at most 64 KiB, else by shape and dtype.

    What it does not promise: a rank that makes no call at all (or one without any DTensor), that dies, or that runs out
    of memory leaves the others waiting until their group's timeout, which is an `ExchangeError`. (Where their GPUs
    already wait for its rows on one host, it is an error of CUDA, after which the process can use the GPU no more.)

    Ranks on one host compare in memory that they share, which takes microseconds beyond the time until the last one
    comes: the processes go in step, their GPUs' queues need not. Over several hosts (or a mesh of several dimensions
    that is not the whole world) it is one small all_gather, which runs while the call is prepared if this rank has made
    the same call before. A loop that is known to be right may leave it out, on all ranks alike: then a call that one
    rank refuses leaves the others waiting, GPUs of one host for the last time.

    Args:
        mode: whether they compare, from now on. Leaving a `with` block restores what held before it.

    Example:
        >>> with torch_conv.distributed.verify(False):
        ...     pass  # a loop that is known to be right
    """

    on = True

    def __init__(self, mode: bool) -> None:
        self._before = verify.on
        verify.on = bool(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        verify.on = self._before


class Known:
    """What is known of calls with the same arguments on the same layout."""

    def __init__(self) -> None:
        self.digest: int | None = None  # what the ranks compare
        self.fine = False  # this rank has made such a call
        self.route: Any = None  # what it came down to (`_route.py`)


class Check:
    """One call's comparison: `refuse` where this rank's call is wrong, else `agree`, at most one of them once."""

    def __init__(self, name: str, place: Place) -> None:
        self.name, self.place = name, place
        self.done = False
        self.known: Known | None = None  # where this rank's checks depend on nothing but what is described
        self._digest = 0
        self._posted: Round | None = None

    @property
    def compares(self) -> bool:
        return verify.on and self.place.is_shared

    def describe(self, arguments: dict[str, Any], shared: Any) -> None:
        """What to compare: the arguments and what is `shared`, which is hashable."""
        if not self.compares:
            return
        known = self.known
        if known is None:
            try:
                key = (self.name, shared, *((name, key_of(value)) for name, value in arguments.items()))
                known = self.place.find(key, Known)
            except Unknown:
                known = Known()
        if known.digest is None:
            known.digest = self._digest_of(arguments, shared)
        self._digest = known.digest

    def begin(self, device: torch.device) -> bool:
        """Begins the comparison of a call that is known to be fine; False where it was not described yet."""
        if self.compares:
            assert self.known is not None
            if self.known.digest is None:
                return False
            self._post(device, [1, self.known.digest, 0])
        return True

    def _digest_of(self, arguments: dict[str, Any], shared: Any) -> int:
        described = [(name, _described(arguments[name])) for name in sorted(arguments)]
        text = repr((self.name, self.place.shape, shared, described))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)

    def refuse(self) -> None:
        if self._posted is not None:  # this call was fine until it ran out of memory
            self.abandon()
        elif self.compares and not self.done:
            self._post(torch.device(self.place.mesh.device_type), [0, 0, 0]).rows()

    def agree(self, device: torch.device, number: int | None = None) -> list[int]:
        """Every rank's `number`, in the order of the mesh; gathered even where nothing is verified."""
        posted = self._posted
        if posted is None:
            if self.done or not (self.compares or number is not None):
                return []
            posted = self._post(device, [1, self._digest, number or 0])
        alike = number is None and posted.are_alike()
        rows = [] if alike else posted.rows()
        self._posted = None
        if verify.on:
            refused = [rank for rank, ok, *_ in rows if not ok]
            if refused:
                ranks = f"rank {refused[0]}" if len(refused) == 1 else f"ranks {', '.join(map(str, refused))}"
                raise RankError(f"{self.name}: {ranks} refused the call")
            for row in rows:
                if row[2] != rows[0][2]:
                    raise RankError(f"{self.name}: arguments differ between ranks {rows[0][0]} and {row[0]}")
            if self.known is not None:
                self.known.fine = True
        return [row[3] for row in rows]

    def said(self) -> tuple[Tensor | None, int] | None:
        """What the ranks say of the call that was begun, for who compares it in C++ and then calls `agreed`; None where
        that is not in memory that they share. Of a call that is not compared: no words, no rank."""
        if self._posted is None:
            return None, 0
        return self._posted.memory.said() if self._posted.memory else None

    def leave(self) -> None:
        """This rank's call has failed, and has seen to what the others wait for.

        A round that was not read is read before the next one begins.
        """
        self._posted = None

    def abandon(self) -> None:
        """This rank does not go on, which the others may: it has said that its call is fine."""
        if self._posted is not None:
            for mesh_dim in range(len(self.place.shape)):
                miss(self.place.group(mesh_dim))

    def agreed(self) -> None:
        if self._posted is not None and self._posted.memory:
            self._posted.memory.close()
        self.leave()

    def _post(self, device: torch.device, row: Row) -> Round:
        """Hands the row to all ranks of the mesh, and waits for none of them."""
        self.done = True
        self._posted = Round(self.place, row, device)
        return self._posted


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
