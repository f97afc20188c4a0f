"""What mailboxes hold, without GPUs: every rank's letters, written into memory on the CPU."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
import torch
from sharded_mail import Box

from torch_conv.distributed import _mailbox
from torch_conv.distributed._exchange import Exchange
from torch_conv.distributed._layout import chunk_bounds, runs_of


class Place:
    """Of one rank; the ranks of its group are numbered the other way round."""

    def __init__(self, at: int, world: int) -> None:
        self.at, self._peers = (at,), list(range(world))[::-1]

    def peers(self, mesh_dim: int) -> list[int]:
        return self._peers


@pytest.mark.parametrize("border", ["constant", "replicate", "reflect", "circular"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint16, torch.uint8])
def test_every_rank_finds_the_rows_that_it_wants(border, dtype):
    pick = random.Random(7)
    for _ in range(20):
        n, world, dim = pick.randint(4, 30), pick.randint(1, 5), pick.choice([1, 2])
        bounds = chunk_bounds(n, world)
        halo = [pick.randint(0, 3), pick.randint(0, 3)]
        wants = [runs_of(low - halo[0], high + halo[1], bounds, border) for low, high in pairwise(bounds)]
        shape = [2, 5, 7]
        shape[dim] = n
        memory = [torch.zeros(2 * _mailbox._TURN_BYTES, dtype=torch.uint8) for _ in range(world)]
        for _ in range(2):
            whole = (torch.rand(shape) * 255).to(dtype)
            found = []
            for rank in range(world):
                exchange = Exchange(wants, Place(rank, world), 0)
                own = whole.narrow(dim, bounds[rank], bounds[rank + 1] - bounds[rank])
                row = list(shape)
                row[dim] = 1
                box = Box(memory)
                letters = exchange.address(box, row, dim, dtype)
                assert (letters is None) == (world == 1 or halo == [0, 0])  # nobody wants anything
                found.append((exchange, letters.post(own, dim) if letters else []))
            for rank, (exchange, parts) in enumerate(found):
                mail = iter(parts)
                for run in exchange.runs:
                    if run.owner in (rank, -1):
                        continue
                    rows = run.count if run.step else 1
                    expected = whole.narrow(dim, bounds[run.owner] + run.first, rows)
                    assert next(mail).equal(expected)
                assert next(mail, None) is None


def test_runs_begin_at_boundaries_and_fit_a_turn():
    assert _mailbox.offsets([]) == []
    assert _mailbox.offsets([1, 256, 257, 4]) == [0, 256, 512, 1024]
    assert _mailbox.offsets([_mailbox._TURN_BYTES]) == [0]
    assert _mailbox.offsets([_mailbox._TURN_BYTES, 1]) is None
