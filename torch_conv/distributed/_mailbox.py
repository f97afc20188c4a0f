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

    def begin(self) -> int:
        """The turn of the next call on the current stream."""
        stream = torch.cuda.current_stream(self._stream.device)
        if stream != self._stream:
            stream.wait_stream(self._stream)  # which may not have read the turn before the last yet
            self._stream = stream
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
        self.out: tuple[list[tuple[Tensor, int, int]], ...] = ([], [])  # where to, the first row and how many
        self.parts: tuple[list[Tensor], ...] = ([], [])  # this rank's mail

    def post(self, local: Tensor, dim: int) -> list[Tensor]:
        """What others have for this rank: there for whatever the current stream does next."""
        turn = self._box.begin()
        out = self.out[turn]
        if out:
            rows = [_plain(local.narrow(dim, first, rows)) for _, first, rows in out]
            torch._foreach_copy_([_plain(to) for to, _, _ in out], rows)  # one launch
        self._box.barrier()
        return self.parts[turn]


def _plain(t: Tensor) -> Tensor:
    """torch copies no unsigned 16-bit integers in groups."""
    return t.view(torch.int16) if t.dtype == torch.uint16 else t


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
    if group not in _mailboxes:
        _mailboxes[group] = _set_up(place, group, device)
    return _mailboxes[group]


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
