"""Rows to ranks of the same host, written by their GPUs into torch's symmetric memory.

    buffer of a rank   slot 0: run | run | ...      slot 1: run | run | ...      a flag of each rank: its last call
    call               copy own rows into others' buffers, set flags, wait for flags: one kernel | read its buffer

All of it is queued on the current stream; once buffers are set up the host waits for nothing. A rank sets its flags for
a call after its GPU has read the rows of the call before. So two slots are enough: the rows that a call overwrites were
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

from torch_conv.distributed._errors import alive, call_distributed
from torch_conv.distributed._progress import Progress, Topic, gathered, progress_of

_SLOT_BYTES = 4 << 20  # of a rank; larger messages are bound by the link, whoever carries them
_MOST_RANKS = 32  # of a group (csrc/runtime/handshake.h)
_ALIGNMENT = 256  # of a run: what kernels know of tensors from torch's allocator, and more than any of them asks
_DELIVERED = 2  # index in the addresses: the last call whose rows were written there


def address_table(flags: list[int], own_flags: Tensor, first: list[int], there: list[Tensor], dim: int) -> Tensor:
    """The addresses of rows from `first` on, of this rank's flags and of the others', as in sharding/deliver.cpp."""
    runs = [(row, to.shape[dim], to.data_ptr()) for row, to in zip(first, there, strict=True)]
    words = [len(flags), own_flags.data_ptr(), 0, *flags, *chain.from_iterable(runs)]
    return torch.tensor(words, dtype=torch.int64, device="cpu")  # whatever torch's default device is


class SymmetricBuffer:
    """The memory that a group's ranks write to each other."""

    def __init__(self, memory: Tensor, group: dist.ProcessGroup) -> None:
        self._memory = memory  # lives as long as this object
        self._own_flags = memory[2 * _SLOT_BYTES :].view(torch.int64)
        self._own_flags.zero_()
        self._shared = symmetric.rendezvous(memory, group)
        word = 2 * _SLOT_BYTES // 8 + group.rank()
        self._flags = [self._shared.get_buffer(rank, [1], torch.int64, word).data_ptr() for rank in range(group.size())]
        self._timeout_ms = min(int(1000 * timeout_of(group)), 1 << 40)  # 35 years: a longer one is for ever
        self.calls = 0  # that this rank has made
        self.progress: Progress = progress_of(group)
        self._stream = torch.cuda.current_stream(memory.device)
        self._address, self._index = self._stream.cuda_stream, self._stream.device_index
        # Every rank's flags are zeros before another sets one; a way of sharing without barriers is noticed.
        self._shared.barrier(0, self._timeout_ms)

    @staticmethod
    def bytes_of(ranks: int) -> int:
        """The memory that a rank gives: two slots, a flag of each rank and a word for the kernel."""
        return 2 * _SLOT_BYTES + 8 * (ranks + 1)

    def begin(self) -> int:
        """The slot of the next call on the current stream."""
        if not self.is_on_same_stream:
            stream = torch.cuda.current_stream(self._index)
            stream.wait_stream(self._stream)  # which may not have read the slot before the last yet
            self._stream, self._address = stream, stream.cuda_stream
        return self.next_call & 1

    @property
    def is_on_same_stream(self) -> bool:
        """As the last call. The current stream itself takes 6 us to ask for, its address 0.3."""
        same: bool = torch._C._cuda_getCurrentRawStream(self._index) == self._address
        return same

    def addresses(self, first: list[int], there: list[Tensor], dim: int) -> Tensor:
        """Rows from `first` on to these places, as `deliver` takes it."""
        return address_table(self._flags, self._own_flags, first, there, dim)

    def deliver(self, local: Tensor, dim: int, addresses: Tensor) -> None:
        """Brings rows to their places, and goes on when the GPUs of all ranks have come to this call; one that never
        does is an error of CUDA."""
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
        """The next call: `deliver` of one of the tensors `given`, then the launch graph of that number on all of them.
        Nothing where the graph does not fit: then the call has not begun.
        """
        call = self.next_call
        try:
            made: list[Tensor] = torch.ops.torch_conv._deliver_and_repeat.default(
                given, own, graph, dim, addresses, call, self._timeout_ms
            )
        except BaseException:  # out of memory, or interrupted
            self._count_if_delivered(call, addresses)
            raise
        if made:
            self._count(call)
        return made

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
        """Memory of a rank of the group, as a dense tensor."""
        first = (slot * _SLOT_BYTES + offset) // dtype.itemsize
        at: Tensor = self._shared.get_buffer(rank, shape, dtype, first)
        return at


class Puts:
    """An exchange of tensors of one shape through symmetric memory, by slot: the rows that go and those that come."""

    def __init__(
        self,
        buffer: SymmetricBuffer,
        dim: int,
        first: list[int],
        there: tuple[list[Tensor], ...],
        parts: tuple[list[Tensor], ...],
    ) -> None:
        """Rows of this rank from `first` on go `there`, to places of other ranks, whose rows come as `parts`."""
        self._buffer = weakref.ref(buffer)  # which ends with its group
        self.dim, self.parts = dim, parts
        self.address_tables = [buffer.addresses(first, places, dim) for places in there]

    @property
    def buffer(self) -> SymmetricBuffer:
        return alive(self._buffer)

    def post(self, local: Tensor) -> list[Tensor]:
        """The other ranks' rows for this one, there for the current stream's next work."""
        buffer = self.buffer
        slot = buffer.begin()
        buffer.deliver(local, self.dim, self.address_tables[slot])
        return self.parts[slot]


def signed(t: Tensor) -> Tensor:
    """The same bits in a dtype that torch puts together: it does no unsigned 16-bit integers."""
    return t.view(torch.int16) if t.dtype == torch.uint16 else t


def offsets(sizes: list[int]) -> list[int] | None:
    """Where runs of so many bytes begin in a slot, None if they are too many."""
    places, end = [], 0
    for size in sizes:
        places.append(end)
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return places if end <= _SLOT_BYTES else None


buffers: weakref.WeakKeyDictionary[dist.ProcessGroup, SymmetricBuffer | None] = weakref.WeakKeyDictionary()
# How often this process has begun to share memory. Ranks with other numbers would wait for each other for ever
# (pytorch/pytorch issue 196082), as after a call on a part of the mesh that is not all of theirs.
_set_ups = 0


def buffer_of(group: dist.ProcessGroup, device: torch.device) -> SymmetricBuffer | None:
    """The group's between GPUs, set up when its ranks first come here; None where it cannot be.

    Nor is there one for a CUDA graph: its replays would use one slot again and again.
    """
    if device.type != "cuda" or _is_capturing(device):
        return None
    try:
        return buffers[group]
    except KeyError:
        with torch.inference_mode(False):  # else its memory could be used in that mode alone
            buffer = buffers[group] = _set_up(group, device)
        return buffer


def _is_capturing(device: torch.device) -> bool:
    if torch.cuda.current_device() == device.index:
        return torch.cuda.is_current_stream_capturing()
    with torch.cuda.device(device):
        return torch.cuda.is_current_stream_capturing()


def _set_up(group: dist.ProcessGroup, device: torch.device) -> SymmetricBuffer | None:
    """All ranks of the group take the same steps, and leave them together. Where they share memory, they also open its
    NCCL, which a capture could not."""
    global _set_ups
    if not 1 < group.size() <= _MOST_RANKS:
        return None
    memory, buffer = None, None
    with suppress(RuntimeError):  # out of memory
        memory = symmetric.empty(SymmetricBuffer.bytes_of(group.size()), dtype=torch.uint8, device=device)
    wanted = os.environ.get("TORCH_CONV_NO_PEER") != "1" and symmetric.get_backend(device) == "CUDA"
    gpu = int(str(torch.cuda.get_device_properties(device).uuid).replace("-", "")[:15], 16)
    ranks = gathered(Topic.DEVICES, [[wanted and memory is not None, gpu, _host(), _set_ups]], group, device)
    alike = len({tuple(rest) for _, _, *rest in ranks}) == 1
    if alike and all(share for share, *_ in ranks) and len({gpu for _, gpu, *_ in ranks}) == len(ranks):
        assert memory is not None
        _set_ups += 1
        with suppress(AttributeError, RuntimeError, TypeError):  # GPUs that do not reach each other; another torch
            buffer = SymmetricBuffer(memory, group)
    if not all(made for made, *_ in gathered(Topic.SHARED, [[buffer is not None]], group, device)):
        return None
    one = torch.zeros(group.size(), device=device)
    call_distributed(dist.all_to_all_single, torch.empty_like(one), one, group=group)
    return buffer


def _host() -> int:
    """The same for processes that see each other."""
    spaces = [os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("pid", "mnt", "net")]
    about = f"{Path('/proc/sys/kernel/random/boot_id').read_text()} {spaces}"
    return int.from_bytes(hashlib.blake2b(about.encode(), digest_size=7).digest(), "little")


def timeout_of(group: dist.ProcessGroup) -> float:
    """Seconds that its ranks wait for each other."""
    for device in ("cpu", "cuda"):
        try:
            seconds: float = group._get_backend(torch.device(device)).options._timeout.total_seconds()
        except (AttributeError, RuntimeError):
            continue
        return seconds
    return 1800.0  # torch's own
