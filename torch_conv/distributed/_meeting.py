"""How the ranks of a mesh tell each other three numbers: in memory that they share on one host, else by all_gather.

    memory   round 2k      rank 0: round, digest, word, their check | rank 1: ... | ...
             round 2k + 1  the same

A rank writes its own row and waits until it has read all others'. So nobody is more than one round ahead, and two
rounds in turn are enough. A row counts when its check fits, in whichever order its words become visible.
"""

from __future__ import annotations

import mmap
import os
import secrets
import struct
import time
import weakref

import torch
import torch.distributed as dist
from torch import Tensor

from torch_conv.distributed._errors import ExchangeError, exchanged, waited_for
from torch_conv.distributed._place import Place

Row = list[int]  # whether the rank's call is fine, the digest of its arguments, a number below 2^62
_WORDS = 8  # of a row: a line of the cache, half of it used
_SAID = struct.Struct("4q")  # round, digest, word, their check
_SPINS, _YIELDS = 50, 2000  # some 10 us and 1 ms; after that the host sleeps between two looks
_NAP_S = 50e-6


class Memory:
    """Rows of all ranks of a group, which are processes of one host."""

    def __init__(self, memory: mmap.mmap, group: dist.ProcessGroup, pids: list[int]) -> None:
        self._memory, self._words = memory, memoryview(memory).cast("q")
        self._rank = group.rank()
        # By the round's parity, for who compares them in C++.
        self._said_by_all = torch.frombuffer(memory, dtype=torch.int64, count=2 * group.size() * _WORDS).chunk(2)
        # By the round's parity: this rank's row in words, all rows in bytes.
        first = [turn * group.size() for turn in (0, 1)]
        self._mine = [(row + group.rank()) * _WORDS for row in first]
        self._all = [[(row + rank) * _WORDS * 8 for rank in range(group.size())] for row in first]
        self._pids = pids  # none where ranks do not see each other's
        self._timeout = timeout_of(group)
        self._round = 0
        self._said = (0, 0, 0, 0)  # in this round, by this rank
        self._open = False  # a round that this rank has not read yet

    def post(self, row: Row) -> None:
        if self._open:
            self._read()
        fine, digest, number = row
        self._round += 1
        self._open = True
        at, turn, word = self._mine[self._round & 1], self._round, 2 * number + fine
        self._said = turn, digest, word, turn ^ digest ^ word
        self._words[at + 1], self._words[at + 2], self._words[at + 3] = digest, word, self._said[3]
        self._words[at] = turn

    def rows(self) -> list[Row]:
        """This round's, in the order of the group; waits for them."""
        return [[word & 1, digest, word >> 1] for _, digest, word, _ in self._read()]

    def are_alike(self) -> bool:
        """Whether all rows of this round are this rank's; waits for them."""
        rows = self._read()
        return rows.count(self._said) == len(rows)

    def said(self) -> tuple[Tensor, int]:
        """What all ranks say in this round, as far as they have, and this rank's place in it (sharding/deliver.cpp)."""
        return self._said_by_all[self._round & 1], self._rank

    def close(self) -> None:
        """This round was read there."""
        self._open = False

    def _read(self) -> list[tuple[int, ...]]:
        rows, looks = [], 0
        for rank, at in enumerate(self._all[self._round & 1]):
            while (row := _SAID.unpack_from(self._memory, at)) != self._said:
                turn, digest, word, check = row
                if turn == self._round and check == turn ^ digest ^ word:
                    break
                looks += 1
                self._pause(looks, rank)
            rows.append(row)
        self._open = False
        return rows

    def _pause(self, looks: int, rank: int) -> None:
        if looks < _SPINS:
            return
        if looks < _SPINS + _YIELDS:
            os.sched_yield()
            return
        time.sleep(_NAP_S)
        naps = looks - _SPINS - _YIELDS
        if naps == 0:
            self._since = time.monotonic()
        elif naps % 1000 == 0:
            if self._pids and not _lives(self._pids[rank]):
                raise ExchangeError(f"rank {rank} of the group is gone")
            if time.monotonic() - self._since > self._timeout:
                raise ExchangeError(f"rank {rank} of the group did not answer in {self._timeout:.0f} s")


_memories: weakref.WeakKeyDictionary[dist.ProcessGroup, Memory | None] = weakref.WeakKeyDictionary()


class Round:
    """One exchange of rows between all ranks of a mesh: it begins, and `rows` waits for it."""

    def __init__(self, place: Place, row: Row, device: torch.device) -> None:
        self._place = place
        self.memory = _memory_of(place, device) if place.is_shared else None
        if self.memory is not None:
            self.memory.post(row)
        else:
            self._rows, self._work = _begin(place, row, device)

    def are_alike(self) -> bool:
        """True only where all ranks share memory and their rows are alike, for which it waits; else `rows` has them."""
        return self.memory is not None and self.memory.are_alike()

    def rows(self) -> list[Row]:
        """[rank, *row] in the order of the mesh."""
        if self.memory is not None:
            ranks = self._place.meeting_ranks
            return _in_order(self._place, [[rank, *row] for rank, row in zip(ranks, self.memory.rows(), strict=True)])
        return _end(self._place, self._rows, self._work)


def _begin(place: Place, row: Row, device: torch.device) -> tuple[Tensor, dist.Work | None]:
    if place.meets_on_cpu:
        device = torch.device("cpu")  # without a wait for the GPU's queue
    rows = torch.tensor([[place.rank, *row]], dtype=torch.int64, device=device)
    return _gather(rows, place.meeting[0]) if place.is_shared else (rows, None)


def _end(place: Place, rows: Tensor, work: dist.Work | None) -> list[Row]:
    if work is not None:
        waited_for(work)
    for group in place.meeting[1:]:
        rows, work = _gather(rows, group)
        waited_for(work)
    return _in_order(place, rows.tolist())


def _in_order(place: Place, rows: list[Row]) -> list[Row]:
    if [row[0] for row in rows] == place.ranks:
        return rows
    by_rank = {row[0]: row for row in rows}
    return [by_rank[rank] for rank in place.ranks]


def _gather(rows: Tensor, group: dist.ProcessGroup) -> tuple[Tensor, dist.Work]:
    gathered = rows.new_empty(group.size() * rows.shape[0], rows.shape[1])
    return gathered, exchanged(dist.all_gather_into_tensor, gathered, rows, group=group, async_op=True)


def _memory_of(place: Place, device: torch.device) -> Memory | None:
    """That of the group that brings the mesh together, set up when all its ranks first meet; None where they cannot."""
    group = place.one_meeting
    if group is None:
        return None
    try:
        return _memories[group]
    except KeyError:
        memory = _memories[group] = _share(place, group, device)
        return memory


def _share(place: Place, group: dist.ProcessGroup, device: torch.device) -> Memory | None:
    """Memory without a name, which ends with its processes. The first rank makes it, the others open its descriptor."""
    rows = 2 * group.size() * _WORDS * 8
    token, file = secrets.randbits(62) | 1, -1
    try:
        if group.rank() == 0:
            file = _file(rows, token)
        told = _end(place, *_begin(place, [1, token if file >= 0 else 0, max(file, 0) << 32 | os.getpid()], device))
        pids = {rank: number & 0xFFFFFFFF for rank, _, _, number in told}
        made = [(pids[rank], number >> 32, token) for rank, _, token, number in told if token]
        memory = _opened(rows, *made[0]) if len(made) == 1 else None
        in_order = [pids[rank] for rank in place.meeting_ranks]
        opened = _end(place, *_begin(place, [memory is not None, all(map(_lives, in_order)), 0], device))
    finally:
        if file >= 0:
            os.close(file)
    if memory is None or not all(row[1] for row in opened):
        return None
    return Memory(memory, group, in_order if all(row[2] for row in opened) else [])


def _file(rows: int, token: int) -> int:
    """A file in memory that holds the rows and then the token; -1 where there is none."""
    try:
        file = os.memfd_create("torch_conv")
    except (AttributeError, OSError):
        return -1
    try:
        os.posix_fallocate(file, 0, rows)
        os.pwrite(file, token.to_bytes(8, "little"), rows)
    except OSError:
        os.close(file)
        return -1
    return file


def _opened(rows: int, pid: int, file: int, token: int) -> mmap.mmap | None:
    """That file; None on another host or in another container, where the number is another process's or nobody's."""
    path = f"/proc/{pid}/fd/{file}"
    try:
        if not os.readlink(path).startswith("/memfd:torch_conv"):  # nobody else's file is opened
            return None
        with open(path, "r+b") as opened:
            memory = mmap.mmap(opened.fileno(), rows + 8)
    except (OSError, ValueError):
        return None
    return memory if int.from_bytes(memory[rows:], "little") == token else None


def _lives(pid: int) -> bool:
    """Whether the process runs. One that ended and whose parent has not asked for its status yet does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):  # it ended meanwhile, or there is no /proc: the next check decides
        return True
    return state not in (b"Z", b"X")


def timeout_of(group: dist.ProcessGroup) -> float:
    """Seconds that its ranks wait for each other."""
    for device in ("cpu", "cuda"):
        try:
            seconds: float = group._get_backend(torch.device(device)).options._timeout.total_seconds()
        except (AttributeError, RuntimeError):
            continue
        return seconds
    return 1800.0  # torch's own
