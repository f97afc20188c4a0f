"""Rows to ranks of the same host, by their GPUs themselves: through torch's symmetric memory.

    mailbox of a rank     turn 0: run | run | ...      turn 1: run | run | ...      which call each rank has come to
    call                  copy own rows into others' mailboxes, tell, wait: one kernel | what reads one's own mailbox

All of it is queued on the current stream; once mailboxes are set up the host waits for nothing. A rank comes to a call
once its GPU has read what came with the call before. So two turns are enough: what is written now was read two calls
ago.
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

from torch_conv.distributed._errors import ExchangeError, exchanged
from torch_conv.distributed._meeting import timeout_of

_TURN_BYTES = 4 << 20  # of a rank; larger messages are bound by the link, whoever carries them
_MOST_RANKS = 32  # of a group (csrc/runtime/meeting.h)
_ALIGNMENT = 256  # of a run: what kernels know of tensors from torch's allocator, and more than any of them asks


_DELIVERED = 2  # the word of a route that says which call's rows went there last


def route_of(told: list[int], arrived: Tensor, first: list[int], there: list[Tensor], dim: int) -> Tensor:
    """Where rows from `first` on go, what is told where, and where others tell it, as in sharding/deliver.cpp."""
    runs = [(row, to.shape[dim], to.data_ptr()) for row, to in zip(first, there, strict=True)]
    words = [len(told), arrived.data_ptr(), 0, *told, *chain.from_iterable(runs)]
    return torch.tensor(words, dtype=torch.int64, device="cpu")  # whatever torch's default device is


class Mailbox:
    """What the ranks of a group have for each other."""

    def __init__(self, memory: Tensor, group: dist.ProcessGroup) -> None:
        self._memory = memory  # lives as long as this object
        self._arrived = memory[2 * _TURN_BYTES :].view(torch.int64)
        self._arrived.zero_()
        self._shared = symmetric.rendezvous(memory, group)
        word = 2 * _TURN_BYTES // 8 + group.rank()
        self._told = [self._shared.get_buffer(rank, [1], torch.int64, word).data_ptr() for rank in range(group.size())]
        self._timeout_ms = int(1000 * timeout_of(group))
        self._calls = 0
        self._stream = torch.cuda.current_stream(memory.device)
        self._address, self._index = self._stream.cuda_stream, self._stream.device_index
        self._missed = False
        # Every rank's words are zeros before another tells it anything; a way of sharing without barriers is noticed.
        self._shared.barrier(0, self._timeout_ms)

    @staticmethod
    def bytes_of(ranks: int) -> int:
        """The memory that a rank gives: two turns, and a word for each rank and the kernel."""
        return 2 * _TURN_BYTES + 8 * (ranks + 1)

    def check(self) -> None:
        if self._missed:
            raise ExchangeError("an earlier call failed on this rank before its rows were exchanged")

    def begin(self) -> int:
        """The turn of the next call on the current stream."""
        self.check()
        if not self.is_on_same_stream:
            stream = torch.cuda.current_stream(self._index)
            stream.wait_stream(self._stream)  # which may not have read the turn before the last yet
            self._stream, self._address = stream, stream.cuda_stream
        self._calls += 1
        return self._calls & 1

    @property
    def is_on_same_stream(self) -> bool:
        """As the last call. The current stream itself takes 6 us to ask for, its address 0.3."""
        same: bool = torch._C._cuda_getCurrentRawStream(self._index) == self._address
        return same

    def route(self, first: list[int], there: list[Tensor], dim: int) -> Tensor:
        """Rows from `first` on to these places, as `deliver` takes it."""
        return route_of(self._told, self._arrived, first, there, dim)

    def deliver(self, local: Tensor, dim: int, route: Tensor) -> None:
        """Brings rows to their places, and goes on when the GPUs of all ranks have come to this call; one that never
        does is an error of CUDA."""
        torch.ops.torch_conv._deliver.default(local, dim, route, self._calls, self._timeout_ms)

    def deliver_and_repeat(
        self, given: list[Tensor], own: int, steps: int, said: Tensor | None, rank: int, dim: int, route: Tensor
    ) -> list[Tensor]:
        """The next call: `deliver` of one of the tensors that are `given`, and what the steps of that number make of
        them all. Nothing, where those do not serve or what the ranks have `said` is not alike: then it has not begun.
        """
        made: list[Tensor] = torch.ops.torch_conv._deliver_and_repeat.default(
            given, own, steps, said, rank, dim, route, self._calls + 1, self._timeout_ms
        )
        if made:
            self._calls += 1
        return made

    def settle(self, call: int, route: Tensor) -> None:
        """After an exception on the way through a call that the others make: were its rows delivered?"""
        if route[_DELIVERED].item() == call:
            self._calls = call
        else:
            self.miss()

    @property
    def next_call(self) -> int:
        return self._calls + 1

    def miss(self) -> None:
        """This rank leaves out a call that the others make: from now on their turns are not its own."""
        self._missed = True

    def at(self, rank: int, turn: int, offset: int, shape: list[int], dtype: torch.dtype) -> Tensor:
        """Memory of a rank of the group, as a dense tensor."""
        first = (turn * _TURN_BYTES + offset) // dtype.itemsize
        at: Tensor = self._shared.get_buffer(rank, shape, dtype, first)
        return at


class Letters:
    """The messages of one exchange of tensors of one shape. By turn: what goes out, and this rank's mail."""

    def __init__(
        self, box: Mailbox, dim: int, first: list[int], there: tuple[list[Tensor], ...], parts: tuple[list[Tensor], ...]
    ) -> None:
        """Rows of this rank from `first` on go `there`, to places of other ranks, whose rows come as `parts`."""
        self._box = weakref.ref(box)  # which ends with its group
        self.dim, self.parts = dim, parts
        self.routes = [box.route(first, places, dim) for places in there]

    @property
    def box(self) -> Mailbox:
        box = self._box()
        assert box is not None
        return box

    def post(self, local: Tensor) -> list[Tensor]:
        """What others have for this rank: there for whatever the current stream does next."""
        box = self.box
        try:
            turn = box.begin()
            box.deliver(local, self.dim, self.routes[turn])
        except BaseException:  # out of memory, or interrupted
            box.miss()
            raise
        return self.parts[turn]


def signed(t: Tensor) -> Tensor:
    """The same bits in a dtype that torch puts together: it does no unsigned 16-bit integers."""
    return t.view(torch.int16) if t.dtype == torch.uint16 else t


def offsets(sizes: list[int]) -> list[int] | None:
    """Where runs of so many bytes begin in a turn, None if they are too many."""
    places, end = [], 0
    for size in sizes:
        places.append(end)
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return places if end <= _TURN_BYTES else None


mailboxes: weakref.WeakKeyDictionary[dist.ProcessGroup, Mailbox | None] = weakref.WeakKeyDictionary()
# How often this process has begun to share memory. Ranks with other numbers would wait for each other for ever
# (pytorch/pytorch issue 196082), as after a call on a part of the mesh that is not all of theirs.
_set_ups = 0


def miss(group: dist.ProcessGroup) -> None:
    """This rank does not come to an exchange that the group's others wait for."""
    box = mailboxes.get(group)
    if box is not None:
        box.miss()


def mailbox_of(group: dist.ProcessGroup, device: torch.device) -> Mailbox | None:
    """The group's between GPUs, set up when its ranks first come here; None where it cannot be.

    Nor is there one for a CUDA graph: its replays would use one turn again and again.
    """
    if device.type != "cuda" or _is_capturing(device):
        return None
    try:
        return mailboxes[group]
    except KeyError:
        with torch.inference_mode(False):  # else its memory could be used in that mode alone
            box = mailboxes[group] = _set_up(group, device)
        return box


def _is_capturing(device: torch.device) -> bool:
    if torch.cuda.current_device() == device.index:
        return torch.cuda.is_current_stream_capturing()
    with torch.cuda.device(device):
        return torch.cuda.is_current_stream_capturing()


def _set_up(group: dist.ProcessGroup, device: torch.device) -> Mailbox | None:
    """All ranks of the group take the same steps, and leave them together. They also open its NCCL, which a capture
    could not."""
    global _set_ups
    if not 1 < group.size() <= _MOST_RANKS:
        return None
    memory, box = None, None
    with suppress(RuntimeError):  # out of memory
        memory = symmetric.empty(Mailbox.bytes_of(group.size()), dtype=torch.uint8, device=device)
    wanted = os.environ.get("TORCH_CONV_NO_PEER") != "1" and symmetric.get_backend(device) == "CUDA"
    gpu = int(str(torch.cuda.get_device_properties(device).uuid).replace("-", "")[:15], 16)
    ranks = _told(group, device, [wanted and memory is not None, gpu, _host(), _set_ups])
    alike = len({tuple(rest) for _, _, *rest in ranks}) == 1
    if alike and all(share for share, *_ in ranks) and len({gpu for _, gpu, *_ in ranks}) == len(ranks):
        assert memory is not None
        _set_ups += 1
        with suppress(AttributeError, RuntimeError, TypeError):  # GPUs that do not reach each other; another torch
            box = Mailbox(memory, group)
    if not all(made for (made,) in _told(group, device, [box is not None])):
        return None
    one = torch.zeros(group.size(), device=device)
    exchanged(dist.all_to_all_single, torch.empty_like(one), one, group=group)
    return box


def _told(group: dist.ProcessGroup, device: torch.device, row: list[int]) -> list[list[int]]:
    """Every rank's row."""
    mine = torch.tensor([row], dtype=torch.int64, device=device)
    rows = mine.new_empty(group.size(), len(row))
    exchanged(dist.all_gather_into_tensor, rows, mine, group=group)
    told: list[list[int]] = rows.tolist()
    return told


def _host() -> int:
    """The same for processes that see each other."""
    spaces = [os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("pid", "mnt", "net")]
    about = f"{Path('/proc/sys/kernel/random/boot_id').read_text()} {spaces}"
    return int.from_bytes(hashlib.blake2b(about.encode(), digest_size=7).digest(), "little")
