"""Nobody waits for a rank that has refused its call: before anything is exchanged, the ranks compare their calls.

It is one small all_gather a mesh dimension: whether the call is fine, a digest of its arguments, one more number.
"""

from __future__ import annotations

import functools
import hashlib
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

_HASHED_BYTES = 1 << 16  # windows on the CPU up to here are compared by value: some 50 us at most


class RankError(RuntimeError):
    """Another rank refused its part of a call, or called something else."""


class verify:  # noqa: N801
    """Whether the ranks compare their calls before they exchange: `verify(False)`, or `with verify(False):`.

    It is on from the start, and costs a call one small all_gather per mesh dimension and 80 us of host time beside it
    (two gloo processes on two busy cores: 0.4 to 1.3 ms in all). A loop that is known to be right may leave it out,
    on all ranks alike: then a call that one rank refuses leaves the others waiting until their group's timeout.
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

    def __init__(self, name: str, mesh: DeviceMesh) -> None:
        if not isinstance(mesh, DeviceMesh):
            raise TypeError(f"{name}: mesh must be of type DeviceMesh, got {type(mesh).__name__}")
        if mesh.get_coordinate() is None:
            raise ValueError(f"{name}: this rank, {dist.get_rank()}, must be one of the mesh's")
        self.name, self.mesh = name, mesh
        self.done = False
        self._digest = 0

    def describe(self, *arguments: Any) -> None:
        if not verify.on:
            return
        text = repr((self.name, tuple(self.mesh.shape), [_described(a) for a in arguments]))
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        self._digest = int.from_bytes(digest, "little", signed=True)

    def refuse(self) -> None:
        if verify.on and not self.done:
            self.done = True
            self._gather(torch.device(self.mesh.device_type), [0, 0, 0])

    def agree(self, device: torch.device, number: int | None = None) -> list[int]:
        """Every rank's `number`, in the order of the mesh; gathered even where nothing is verified."""
        if self.done or not (verify.on or number is not None):
            return []
        self.done = True
        rows = self._gather(device, [1, self._digest, number or 0])
        if verify.on:
            refused = [rank for rank, row in rows if not row[0]]
            if refused:
                ranks = f"rank {refused[0]}" if len(refused) == 1 else f"ranks {', '.join(map(str, refused))}"
                raise RankError(f"{self.name}: {ranks} refused the call")
            (one, first), *rest = rows
            for other, row in rest:
                if row[1] != first[1]:
                    raise RankError(f"{self.name}: arguments differ between ranks {one} and {other}")
        return [row[2] for _, row in rows]

    def _gather(self, device: torch.device, row: list[int]) -> list[tuple[int, list[int]]]:
        """(rank, its row) of all ranks in the order of the mesh, gathered one mesh dimension after the other."""
        if device.type != "cpu" and all(_has_cpu(group) for group in self.mesh.get_all_groups()):
            device = torch.device("cpu")  # without a wait for the GPU's queue
        rows = torch.tensor([[dist.get_rank(), *row]], dtype=torch.int64, device=device)
        for group in self.mesh.get_all_groups():
            if group.size() > 1:
                gathered = rows.new_empty(group.size() * rows.shape[0], rows.shape[1])
                dist.all_gather_into_tensor(gathered, rows, group=group)
                rows = gathered
        by_rank = {rank: row for rank, *row in rows.tolist()}
        return [(rank, by_rank[rank]) for rank in rank_grid(self.mesh).flatten().tolist()]


@functools.lru_cache(maxsize=16)
def rank_grid(mesh: DeviceMesh) -> Tensor:
    """The ranks of a mesh in its shape, which DeviceMesh makes anew every time (some 40 us)."""
    return mesh.mesh


def _has_cpu(group: dist.ProcessGroup) -> bool:
    """Whether the group moves CPU tensors too, as under "cpu:gloo,cuda:nccl"."""
    try:
        return group._get_backend(torch.device("cpu")) is not None
    except RuntimeError:
        return False


def _described(argument: Any) -> Any:
    """What two ranks must agree on."""
    if isinstance(argument, DTensor):
        return tuple(argument.shape), argument.dtype, argument.placements, argument.device.type
    if isinstance(argument, Tensor):
        about = tuple(argument.shape), argument.dtype, argument.device.type
        if argument.device.type == "cpu" and argument.numel() * argument.element_size() <= _HASHED_BYTES:
            values = argument.detach().contiguous().view(-1).view(torch.uint8)
            return *about, hashlib.blake2b(values.numpy().tobytes(), digest_size=8).digest()
        return about
    if isinstance(argument, (list, tuple)):
        return [_described(part) for part in argument]
    return argument
