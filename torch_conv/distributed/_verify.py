"""Nobody waits for a rank that has refused its call: before anything is exchanged, the ranks compare their calls.

It is one small all_gather (one a mesh dimension where a mesh of several is not the whole world): whether the call is
fine, a digest of its arguments, one more number. A rank that has made the same call before, with the same arguments on
the same layout, knows at once that it is fine: the all_gather then runs while the call is prepared.

    first time   bind, check ............ | all_gather, wait | exchange
    later        bind | all_gather ... prepare ... wait |      exchange
"""

from __future__ import annotations

import hashlib
import re
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from torch_conv.distributed._place import Place, Unknown, key_of, value_bytes


class RankError(RuntimeError):
    """Another rank refused its part of a call, or called something else."""


class ExchangeError(RuntimeError):
    """torch.distributed could not carry a message: a rank is gone, or does not answer."""


def waited_for(work: dist.Work) -> None:
    """Waits, in the way of the backend; what goes wrong there is no refusal of an argument."""
    try:
        work.wait()
    except RuntimeError as error:
        said = re.sub(r"^\[[^]]*\] *", "", str(error).splitlines()[0])  # without the place in torch's sources
        raise ExchangeError(f"the exchange between ranks failed: {said}") from error


class verify:  # noqa: N801
    """Whether the ranks compare their calls before they exchange: `verify(False)`, or `with verify(False):`.

    It is on from the start. What it promises: where the ranks call functions of this module in different ways, or some
    of them refuse their arguments, every rank of the mesh gets an error, and no rank begins to exchange. Compared are
    the function, the mesh's shape, the image's shape, dtype, placements and kind of device, and all other arguments;
    windows by value where they are on the CPU and have at most 64 KiB, else by shape and dtype.

    What it does not promise: a rank that makes no call at all (or one without any DTensor), that dies, or that runs out
    of memory leaves the others waiting until their group's timeout, which is an `ExchangeError`.

    It costs a call one small all_gather, which runs while the call is prepared if this rank has made the same call
    before (two gloo processes on two busy cores: 0.2 to 0.6 ms in all). A loop that is known to be right may leave it
    out, on all ranks alike: then a call that one rank refuses leaves the others waiting.
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


class Check:
    """One call's comparison: `refuse` where this rank's call is wrong, else `agree`, at most one of them once."""

    def __init__(self, name: str, place: Place) -> None:
        self.name, self.place = name, place
        self.done = False
        self._digest = 0
        self._key: Any = None  # of a call that will be known to be fine, if it is
        self._posted: tuple[Tensor, dist.Work | None] | None = None

    def describe(
        self, arguments: dict[str, Any], shared: Any = (), own: Any = (), device: torch.device | None = None
    ) -> None:
        """What to compare: the arguments and what is `shared`, which is hashable as is what is this rank's `own`.

        With a device: this rank's checks depend on nothing else, so that a call that was fine before is fine again, and
        the comparison begins.
        """
        if not verify.on or not self.place.is_shared:
            return
        try:
            key = (self.name, shared, own, *((name, key_of(value)) for name, value in arguments.items()))
        except Unknown:
            self._digest = self._digest_of(arguments, shared)
            return
        known = self.place.found.get(key)
        if known is None:
            known = (self._digest_of(arguments, shared), False)
            self.place.remember(key, known)
        self._digest, fine = known
        # Of what lies on a GPU only the values of sigma are checked; autocast changes what is checked.
        if device is None or torch._C._is_any_autocast_enabled() or _is_on_gpu(arguments.get("sigma")):
            return
        if fine:
            self._post(device, [1, self._digest, 0])
        else:
            self._key = key

    def _digest_of(self, arguments: dict[str, Any], shared: Any) -> int:
        described = [(name, _described(arguments[name])) for name in sorted(arguments)]
        text = repr((self.name, self.place.shape, shared, described))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)

    def refuse(self) -> None:
        if verify.on and not self.done and self.place.is_shared:
            self._post(torch.device(self.place.mesh.device_type), [0, 0, 0])
            self._gathered()

    def agree(self, device: torch.device, number: int | None = None) -> list[int]:
        """Every rank's `number`, in the order of the mesh; gathered even where nothing is verified."""
        if self._posted is None:
            if self.done or not ((verify.on and self.place.is_shared) or number is not None):
                return []
            self._post(device, [1, self._digest, number or 0])
        rows = self._gathered()
        if verify.on:
            refused = [rank for rank, ok, *_ in rows if not ok]
            if refused:
                ranks = f"rank {refused[0]}" if len(refused) == 1 else f"ranks {', '.join(map(str, refused))}"
                raise RankError(f"{self.name}: {ranks} refused the call")
            for row in rows:
                if row[2] != rows[0][2]:
                    raise RankError(f"{self.name}: arguments differ between ranks {rows[0][0]} and {row[0]}")
            if self._key is not None:
                self.place.remember(self._key, (self._digest, True))
        return [row[3] for row in rows]

    def _post(self, device: torch.device, row: list[int]) -> None:
        """Hands the row to all ranks of the mesh, and waits for none of them."""
        self.done = True
        if self.place.meets_on_cpu:
            device = torch.device("cpu")  # without a wait for the GPU's queue
        rows = torch.tensor([[self.place.rank, *row]], dtype=torch.int64, device=device)
        self._posted = _gather(rows, self.place.meeting[0]) if self.place.is_shared else (rows, None)

    def _gathered(self) -> list[list[int]]:
        """[rank, *row] of all ranks in the order of the mesh."""
        assert self._posted is not None
        (rows, work), self._posted = self._posted, None
        if work is not None:
            waited_for(work)
        for group in self.place.meeting[1:]:
            rows, work = _gather(rows, group)
            waited_for(work)
        gathered: list[list[int]] = rows.tolist()
        if [row[0] for row in gathered] == self.place.ranks:
            return gathered
        by_rank = {row[0]: row for row in gathered}
        return [by_rank[rank] for rank in self.place.ranks]


def _gather(rows: Tensor, group: dist.ProcessGroup) -> tuple[Tensor, dist.Work]:
    gathered = rows.new_empty(group.size() * rows.shape[0], rows.shape[1])
    return gathered, dist.all_gather_into_tensor(gathered, rows, group=group, async_op=True)


def _is_on_gpu(value: Any) -> bool:
    return isinstance(value, Tensor) and value.device.type != "cpu"


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
