"""Exchanges between GPUs of one host, which write rows into each other's part of torch's symmetric memory.

    buffer of a rank   slot 0: run | run | ...      slot 1: run | run | ...      a flag for each rank: its last call
    call               one kernel: copy own rows into other buffers, set flags, wait for flags | read the own buffer

The current stream runs all of it; the host waits for the setup of the buffers only. A rank sets its flags for a call
after its GPU has read the rows of the call before. Two slots are therefore enough: each call overwrites rows that were
read two calls ago.
"""

from __future__ import annotations

import hashlib
import os
import weakref
from contextlib import suppress
from itertools import chain
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _symmetric_memory as symmetric

from torch_conv.distributed._progress import Progress, Topic, alive, call_distributed, gathered, progress_of

_SLOT_BYTES = 4 << 20  # for each rank; the link bounds larger exchanges, by any transport
_MOST_RANKS = 32  # in a group (csrc/runtime/params.h)
_ALIGNMENT = 256  # of a run, in bytes; torch's allocator aligns tensors by 512, and no kernel needs more than 256
_DELIVERED = 2  # index in the address table: the last call that has written its rows


def address_table(flags: list[int], own_flags: Tensor, first: list[int], targets: list[Tensor], dim: int) -> Tensor:
    """The argument `addresses` of `_deliver` (csrc/sharding/deliver.cpp).

    Run i begins at row first[i] of the shard and goes to targets[i]. `flags` are the addresses of this rank's flags on
    all ranks.
    """
    runs = [(row, target.shape[dim], target.data_ptr()) for row, target in zip(first, targets, strict=True)]
    numbers = [len(flags), own_flags.data_ptr(), 0, *flags, *chain.from_iterable(runs)]
    return torch.tensor(numbers, dtype=torch.int64, device="cpu")


class SymmetricBuffer:
    """The memory that a group's ranks write into each other's."""

    def __init__(self, memory: Tensor, group: dist.ProcessGroup) -> None:
        self._memory = memory  # kept alive
        self._own_flags = memory[2 * _SLOT_BYTES :].view(torch.int64)
        self._own_flags.zero_()
        self._shared = symmetric.rendezvous(memory, group)
        flag = 2 * _SLOT_BYTES // 8 + group.rank()
        self._flags = [self._shared.get_buffer(rank, [1], torch.int64, flag).data_ptr() for rank in range(group.size())]
        self._timeout_ms = min(int(1000 * timeout_of(group)), 1 << 40)  # at most 35 years
        self.calls = 0  # exchanges that this rank has delivered
        self.progress: Progress = progress_of(group)
        self._stream = torch.cuda.current_stream(memory.device)
        self._address, self._index = self._stream.cuda_stream, self._stream.device_index
        # All flags are zero before a rank sets one. A backend without barriers raises here.
        self._shared.barrier(0, self._timeout_ms)

    @staticmethod
    def bytes_of(ranks: int) -> int:
        """The memory of one rank: two slots, a flag for each rank and a counter of the kernel's blocks."""
        return 2 * _SLOT_BYTES + 8 * (ranks + 1)

    def begin(self) -> int:
        """Orders the current stream behind the last call's. Returns the slot of the next call."""
        if not self.is_on_same_stream:
            stream = torch.cuda.current_stream(self._index)
            stream.wait_stream(self._stream)  # that stream may still read the slot of the call before the last
            self._stream, self._address = stream, stream.cuda_stream
        return self.next_call & 1

    @property
    def is_on_same_stream(self) -> bool:
        """Whether the current stream is the last call's, by its address (0.3 us; torch.cuda.current_stream 6 us)."""
        same: bool = torch._C._cuda_getCurrentRawStream(self._index) == self._address
        return same

    def addresses(self, first: list[int], targets: list[Tensor], dim: int) -> Tensor:
        """The addresses for `deliver`, as in `address_table`."""
        return address_table(self._flags, self._own_flags, first, targets, dim)

    def deliver(self, local: Tensor, dim: int, addresses: Tensor) -> None:
        """Queues a kernel that writes rows to their targets and waits for the GPUs of all ranks.

        The kernel ends with a CUDA error at the timeout.
        """
        call = self.next_call
        try:
            torch.ops.torch_conv._deliver.default(local, dim, addresses, call, self._timeout_ms)
        except BaseException:  # interrupted
            self._count_if_delivered(call, addresses)
            raise
        self._count(call)

    def deliver_and_repeat(
        self, given: list[Tensor], own: int, graph: int, dim: int, addresses: Tensor
    ) -> list[Tensor]:
        """Queues `deliver` of given[own], then the launch graph of this number on all of `given`.

        Returns an empty list if the graph does not fit. Then nothing is queued and nothing is counted.
        """
        call = self.next_call
        try:
            results: list[Tensor] = torch.ops.torch_conv._deliver_and_repeat.default(
                given, own, graph, dim, addresses, call, self._timeout_ms
            )
        except BaseException:  # out of memory, or interrupted
            self._count_if_delivered(call, addresses)
            raise
        if results:
            self._count(call)
        return results

    def _count_if_delivered(self, call: int, addresses: Tensor) -> None:
        """Counts a call that an exception has ended, if its rows were delivered before."""
        if addresses[_DELIVERED].item() == call:
            self._count(call)

    def _count(self, call: int) -> None:
        self.calls = call
        self.progress.exchanged = self.progress.calls

    @property
    def next_call(self) -> int:
        return self.calls + 1

    def at(self, rank: int, slot: int, offset: int, shape: list[int], dtype: torch.dtype) -> Tensor:
        """A rank's memory at `offset` bytes of a slot, as a dense tensor."""
        first = (slot * _SLOT_BYTES + offset) // dtype.itemsize
        memory: Tensor = self._shared.get_buffer(rank, shape, dtype, first)
        return memory


class Puts:
    """An exchange of tensors of one shape through symmetric memory: for each slot the targets and the received rows."""

    def __init__(
        self,
        buffer: SymmetricBuffer,
        dim: int,
        first: list[int],
        sent: tuple[list[Tensor], ...],
        received: tuple[list[Tensor], ...],
    ) -> None:
        """Rows from first[i] on go to sent[slot][i], in other ranks' memory. Other ranks write into `received`."""
        self._buffer = weakref.ref(buffer)  # ends with its group
        self.dim, self.received = dim, received
        self.address_tables = [buffer.addresses(first, targets, dim) for targets in sent]

    @property
    def buffer(self) -> SymmetricBuffer:
        return alive(self._buffer)

    def post(self, local: Tensor) -> list[Tensor]:
        """Exchanges rows. Returns the received ones, which the current stream's next work may read."""
        buffer = self.buffer
        slot = buffer.begin()
        buffer.deliver(local, self.dim, self.address_tables[slot])
        return self.received[slot]


def signed(t: Tensor) -> Tensor:
    """Views uint16 as int16, because torch.cat does not take uint16."""
    return t.view(torch.int16) if t.dtype == torch.uint16 else t


def offsets(sizes: list[int]) -> list[int] | None:
    """The offset of each run in a slot, in bytes; None if the runs exceed a slot."""
    begins, end = [], 0
    for size in sizes:
        begins.append(end)
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return begins if end <= _SLOT_BYTES else None


buffers: weakref.WeakKeyDictionary[dist.ProcessGroup, SymmetricBuffer | None] = weakref.WeakKeyDictionary()
# The number of rendezvous of this process. A rendezvous of ranks with different numbers never ends (pytorch/pytorch
# issue 196082). The numbers differ after a rendezvous of only some of the ranks.
_set_ups = 0


def buffer_of(group: dist.ProcessGroup, device: torch.device) -> SymmetricBuffer | None:
    """The group's buffer, set up at the first call of its ranks; None if the GPUs cannot share memory.

    A capture gets None too, because the replays of a CUDA graph would use one slot each time.
    """
    if device.type != "cuda" or _is_capturing(device):
        return None
    try:
        return buffers[group]
    except KeyError:
        with torch.inference_mode(False):  # the tensors then serve calls in either mode
            buffer = buffers[group] = _set_up(group, device)
        return buffer


def _is_capturing(device: torch.device) -> bool:
    if torch.cuda.current_device() == device.index:
        return torch.cuda.is_current_stream_capturing()
    with torch.cuda.device(device):
        return torch.cuda.is_current_stream_capturing()


def _set_up(group: dist.ProcessGroup, device: torch.device) -> SymmetricBuffer | None:
    """Sets the buffer up on all ranks of the group, or on none.

    The ranks that share memory also open the group's NCCL communicator, which a capture could not.
    """
    global _set_ups
    if not 1 < group.size() <= _MOST_RANKS:
        return None
    memory, buffer = None, None
    with suppress(RuntimeError):  # out of memory
        memory = symmetric.empty(SymmetricBuffer.bytes_of(group.size()), dtype=torch.uint8, device=device)
    wanted = os.environ.get("TORCH_CONV_NO_PEER") != "1" and symmetric.get_backend(device) == "CUDA"
    gpu = int(str(torch.cuda.get_device_properties(device).uuid).replace("-", "")[:15], 16)
    ranks = gathered(Topic.DEVICES, [[wanted and memory is not None, gpu, _host(), _set_ups]], group, device)
    on_one_host = len({tuple(rest) for _, _, *rest in ranks}) == 1
    if on_one_host and all(share for share, *_ in ranks) and len({gpu for _, gpu, *_ in ranks}) == len(ranks):
        assert memory is not None
        _set_ups += 1
        with suppress(AttributeError, RuntimeError, TypeError):  # no peer access, or another version of torch
            buffer = SymmetricBuffer(memory, group)
    if not all(is_set_up for is_set_up, *_ in gathered(Topic.SHARED, [[buffer is not None]], group, device)):
        return None
    one = torch.zeros(group.size(), device=device)
    call_distributed(dist.all_to_all_single, torch.empty_like(one), one, group=group)
    return buffer


def _host() -> int:
    """A number that is equal for processes of one host and of the same namespaces."""
    spaces = [os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("pid", "mnt", "net")]
    host = f"{Path('/proc/sys/kernel/random/boot_id').read_text()} {spaces}"
    return int.from_bytes(hashlib.blake2b(host.encode(), digest_size=7).digest(), "little")


def timeout_of(group: dist.ProcessGroup) -> float:
    """The group's timeout in seconds."""
    for device in ("cpu", "cuda"):
        try:
            seconds: float = group._get_backend(torch.device(device)).options._timeout.total_seconds()
        except (AttributeError, RuntimeError):
            continue
        return seconds
    return 1800.0  # torch's default
