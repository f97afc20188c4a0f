"""Symmetric memory on the host, for tests without GPUs."""

import mmap
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from torch_conv.distributed import _exchange, _symmetric_memory
from torch_conv.distributed._progress import call_distributed


class Buffer:
    """Replaces `_symmetric_memory.SymmetricBuffer` by memory of the host; memory[rank] is that of a rank."""

    def __init__(self, memory: list[torch.Tensor]) -> None:
        self._memory, self.calls = memory, 0

    def begin(self) -> int:
        return (self.calls + 1) & 1

    def addresses(self, first: list[int], there: list[torch.Tensor], dim: int) -> Any:
        return list(zip(first, there, strict=True))

    def deliver(self, local: torch.Tensor, dim: int, addresses: Any) -> None:
        for row, to in addresses:
            to.copy_(local.narrow(dim, row, to.shape[dim]))
        self._synchronize()
        self.calls += 1

    def _synchronize(self) -> None:
        pass

    def at(self, rank: int, slot: int, offset: int, shape: list[int], dtype: torch.dtype) -> torch.Tensor:
        first = slot * _symmetric_memory._SLOT_BYTES + offset
        return self._memory[rank][first : first + torch.Size(shape).numel() * dtype.itemsize].view(dtype).view(shape)


class GroupBuffer(Buffer):
    """A buffer in mapped files, for processes that synchronise by a barrier of gloo."""

    def __init__(self, group: dist.ProcessGroup, folder: Path) -> None:
        super().__init__([])
        self._group = group
        files = [folder / f"{group.group_name}-{rank}".replace("/", "-") for rank in range(group.size())]
        files[dist.get_rank(group)].write_bytes(bytes(2 * _symmetric_memory._SLOT_BYTES))
        self._synchronize()
        for file in files:
            with file.open("r+b") as opened:
                self._memory.append(torch.frombuffer(mmap.mmap(opened.fileno(), 0), dtype=torch.uint8))

    def _synchronize(self) -> None:
        call_distributed(dist.barrier, self._group)


def deliver(folder: Path) -> None:
    """Makes exchanges on the CPU use this symmetric memory."""

    def buffer_of(group: dist.ProcessGroup, device: torch.device) -> GroupBuffer | None:
        if group not in _symmetric_memory.buffers:
            _symmetric_memory.buffers[group] = GroupBuffer(group, folder) if group.size() > 1 else None
        return _symmetric_memory.buffers[group]

    _exchange.buffer_of = buffer_of
