"""A call that comes down to one exchange by mail and one operator on what it brings: both in one visit to C++.

There the ranks' words are compared, rows go out, and the operator's steps are made again (deliver.cpp). 3x3 over
four NVIDIA H100 takes a rank's host 30 us, and piece by piece 55 to 105.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from torch_conv.distributed._mailbox import Letters
from torch_conv.distributed._outputs import outputs_in
from torch_conv.distributed._plan import Given, Operator, Plan


class Shortcut:
    """What the next such call hands over: by turn, the tensors that the steps take, where the shard and the caller's
    windows have places of their own."""

    def __init__(
        self,
        letters: Letters,
        steps: int,
        given: list[list[Tensor | None]],
        own: int,
        passed: list[tuple[int, int]],
        outputs: tuple[int, int, int],
    ) -> None:
        self._letters, self._steps = letters, steps
        self._given, self._own, self._passed = given, own, passed  # place among the given, in the call
        self._outputs = [outputs]
        self.serves = True  # as far as is known

    @classmethod
    def of(cls, operator: Operator, plan: Plan, local: Tensor, rest: Given, passed: dict[str, int]) -> Shortcut | None:
        """After a call with the arguments `rest`, of which some were `passed` as values of the caller's.

        None also where the next call may find one: in a graph that is being captured, or as the environment is.
        """
        if not local.is_cuda or len(plan.halos) != 1 or not plan.has_outputs or plan.cuts_windows:
            return None
        halo = plan.halos[0]
        dim = halo.dim % local.dim()
        mail = halo.exchange.by_mail(local, dim) if len(halo.wanted) == 1 else None
        if mail is None or not halo.takes_whole(mail[1][0]):
            return None
        letters, turns = mail
        own = turns[0].index(None)
        shards = [local if part is None else part for part in turns[0]]
        (steps,) = operator.split_query("recorded", shards, **rest, dim=halo.dim, wanted=halo.wanted)
        if steps == 0:
            return None
        places: list[tuple[int, int]] = []
        windows: list[Tensor | None] = []
        for name in operator.names:
            if name in passed:
                places.append((len(shards) + len(windows), passed[name]))
                windows.append(None)
            else:
                value: Any = rest.get(name)
                values = value if isinstance(value, (list, tuple)) else [value]
                windows += [window for window in values if isinstance(window, Tensor)]
        given = [[*turn, *windows] for turn in turns]
        return cls(letters, steps, given, own, places, (halo.dim, halo.piece.cut_skip, halo.piece.count))

    def run(self, local: Tensor, values: Sequence[Any], said: Tensor | None, rank: int) -> Tensor | None:
        """This rank's part of the result. None: nothing has happened, and the call is to be made piece by piece."""
        letters = self._letters
        box = letters.box
        box.check()
        if not box.is_on_same_stream:
            return None
        turn = box.next_call & 1
        given: list[Any] = self._given[turn].copy()
        given[self._own] = local
        for place, i in self._passed:
            given[place] = values[i]
        made = box.deliver_and_repeat(given, self._own, self._steps, said, rank, letters.dim, letters.routes[turn])
        self.serves = bool(made)
        return outputs_in(made[0], self._outputs) if made else None

    @property
    def next_call(self) -> int:
        return self._letters.box.next_call

    def settle(self, call: int) -> None:
        """After an exception in `run`, or just before or behind it, of the call that was next."""
        self._letters.box.settle(call, self._letters.routes[call & 1])
