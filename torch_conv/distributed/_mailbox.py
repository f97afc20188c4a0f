"""Rows to ranks of the same host, by their GPUs themselves: through torch's symmetric memory.

    mailbox of a rank     turn 0: run | run | ...      turn 1: run | run | ...
    call                  copy own rows into others' mailboxes | barrier | what reads one's own mailbox

All of it is queued on the current stream; the host waits for nothing. A rank is at the barrier of a call once its GPU
has read what came with the call before. So two turns are enough: what is written now was read two calls ago.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from torch_conv.distributed._meeting import Round, is_one_host, timeout_of
from torch_conv.distributed._place import Place

try:
    from torch.distributed import _symmetric_memory as symmetric
except ImportError:  # torch without it
    symmetric = None  # type: ignore[assignment]

_TURN_BYTES = 4 << 20  # of a rank; larger messages are bound by the link, whoever carries them
_ALIGNMENT = 256  # of a run: what kernels know of tensors from torch's allocator, and more than any of them asks


class Mailbox:
    """What the ranks of a group have for each other."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device) -> None:
        memory = symmetric.empty(2 * _TURN_BYTES, dtype=torch.uint8, device=device)
        self._shared = symmetric.rendezvous(memory, group)
        self._memory = memory  # lives as long as this object
        self._timeout_ms = int(1000 * timeout_of(group))
        self._turn = 0
        self._stream = torch.cuda.current_stream(device)
        self._address, self._index = self._stream.cuda_stream, self._stream.device_index

    def begin(self) -> int:
        """The turn of the next call on the current stream."""
        # The stream itself takes 6 us to ask for, its address 0.3.
        address = torch._C._cuda_getCurrentRawStream(self._index)
        if address != self._address:
            stream = torch.cuda.current_stream(self._index)
            stream.wait_stream(self._stream)  # which may not have read the turn before the last yet
            self._stream, self._address = stream, address
        self._turn ^= 1
        return self._turn

    def barrier(self) -> None:
        """Goes on when the GPUs of all ranks have come to it; one that never does is an error of CUDA."""
        self._shared.barrier(0, self._timeout_ms)

    def at(self, rank: int, turn: int, offset: int, shape: list[int], dtype: torch.dtype) -> Tensor:
        """Memory of a rank of the group, as a dense tensor."""
        first = (turn * _TURN_BYTES + offset) // dtype.itemsize
        at: Tensor = self._shared.get_buffer(rank, shape, dtype, first)
        return at


class Letters:
    """The messages of one exchange of tensors of one shape, in either turn."""

    def __init__(self, box: Mailbox) -> None:
        self._box = box
        self.rows: list[tuple[int, int]] = []  # what goes out: the first row and how many
        self.out: tuple[list[Tensor], ...] = ([], [])  # by turn: where to
        self.parts: tuple[list[Tensor], ...] = ([], [])  # by turn: this rank's mail

    def post(self, local: Tensor, dim: int) -> list[Tensor]:
        """What others have for this rank: there for whatever the current stream does next."""
        turn = self._box.begin()
        if self.rows:
            bits = local.view(torch.int16) if local.dtype == torch.uint16 else local  # which torch copies in groups
            torch._foreach_copy_(self.out[turn], [bits.narrow(dim, first, rows) for first, rows in self.rows])
        self._box.barrier()
        return self.parts[turn]


def offsets(sizes: list[int]) -> list[int] | None:
    """Where runs of so many bytes begin in a turn, None if they are too many."""
    places, end = [], 0
    for size in sizes:
        places.append(end)
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return places if end <= _TURN_BYTES else None


_mailboxes: weakref.WeakKeyDictionary[dist.ProcessGroup, Mailbox | None] = weakref.WeakKeyDictionary()


def mailbox_of(place: Place, mesh_dim: int, device: torch.device) -> Mailbox | None:
    """That of a mesh dimension's group, set up when all ranks of the mesh first come here; None where it cannot be.

    Nor is there one for a CUDA graph: its replays would use one turn again and again.
    """
    if torch.cuda.is_current_stream_capturing():
        return None
    group = place.group(mesh_dim)
    try:
        return _mailboxes[group]
    except KeyError:
        box = _mailboxes[group] = _set_up(place, group, device)
        return box


def _set_up(place: Place, group: dist.ProcessGroup, device: torch.device) -> Mailbox | None:
    """Every rank takes the same steps, whatever it finds."""
    if not place.is_shared or not is_one_host(place, device):
        return None
    gpu = int(str(torch.cuda.get_device_properties(device).uuid).replace("-", "")[:15], 16)
    rows = Round(place, [int(symmetric is not None), gpu, 0], device).rows()
    gpus = {row[2] for row in rows}
    if len(gpus) < len(rows) or not all(row[1] for row in rows):
        return None
    box: Any = None
    with suppress(AttributeError, RuntimeError, TypeError):  # GPUs that do not reach each other; another torch
        box = Mailbox(group, device)
    made = Round(place, [int(box is not None), 0, 0], device).rows()
    return box if all(row[1] for row in made) else None
