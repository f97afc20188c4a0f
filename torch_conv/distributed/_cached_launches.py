"""A call of one exchange through symmetric memory and one operator on its rows: both in one visit to C++.

Rows go out there, and the operator's launch graph is replayed (deliver.cpp). 3x3 over four NVIDIA H100 takes a rank's
host 30 us, and piece by piece 55 to 105.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from torch_conv.distributed._outputs import outputs_in
from torch_conv.distributed._plan import Given, Operator, Plan
from torch_conv.distributed._symmetric_memory import Puts


class CachedLaunches:
    """The next such call: by slot, the tensors that the launch graph takes, with places for the shard and the caller's
    windows."""

    def __init__(
        self,
        puts: Puts,
        graph: int,
        given: list[list[Tensor | None]],
        own: int,
        passed: list[tuple[int, int]],
        outputs: tuple[int, int, int],
    ) -> None:
        self._puts, self._graph = puts, graph
        self._given, self._own, self._passed = given, own, passed  # place among the given, in the call
        self._outputs = [outputs]
        self.serves = True  # as far as is known

    @classmethod
    def of(
        cls, operator: Operator, plan: Plan, local: Tensor, rest: Given, passed: dict[str, int]
    ) -> CachedLaunches | None:
        """After a call with the arguments `rest`, of which some were `passed` as values of the caller's.

        None also where the next call may find one: in a graph that is being captured, or as the environment is.
        """
        if not local.is_cuda or len(plan.halos) != 1 or not plan.has_outputs or plan.cuts_windows:
            return None
        halo = plan.halos[0]
        dim = halo.dim % local.dim()
        exchanged = halo.exchange.by_puts(local, dim) if len(halo.wanted) == 1 else None
        if exchanged is None or not halo.takes_whole(exchanged[1][0]):
            return None
        puts, slots = exchanged
        own = slots[0].index(None)
        shards = [local if part is None else part for part in slots[0]]
        (graph,) = operator.split_query("recorded", shards, **rest, dim=halo.dim, wanted=halo.wanted)
        if graph == 0:
            return None
        positions: list[tuple[int, int]] = []
        windows: list[Tensor | None] = []
        for name in operator.names:
            if name in passed:
                positions.append((len(shards) + len(windows), passed[name]))
                windows.append(None)
            else:
                value: Any = rest.get(name)
                values = value if isinstance(value, (list, tuple)) else [value]
                windows += [window for window in values if isinstance(window, Tensor)]
        given = [[*slot, *windows] for slot in slots]
        return cls(puts, graph, given, own, positions, (halo.dim, halo.piece.cut_skip, halo.piece.count))

    def run(self, local: Tensor, values: Sequence[Any]) -> Tensor | None:
        """This rank's part of the result. None: nothing has happened, and the call is to be made piece by piece."""
        puts = self._puts
        buffer = puts.buffer
        if buffer.progress.failed or not buffer.is_on_same_stream:
            return None
        slot = buffer.next_call & 1
        given: list[Any] = self._given[slot].copy()
        given[self._own] = local
        for place, i in self._passed:
            given[place] = values[i]
        made = buffer.deliver_and_repeat(given, self._own, self._graph, puts.dim, puts.address_tables[slot])
        self.serves = bool(made)
        return outputs_in(made[0], self._outputs) if made else None
