"""Cached calls: the one operator of an earlier call with its arguments, and its recorded launches.

Caches of a call, from the fastest to the slowest:

    method                        holds                                    a call still runs
    CachedLaunches.run            an exchange and a launch graph           one call of C++
    ShardedCall.run_cached        a CachedCall: operator, plan, spec       the exchange and the operator
    ShardedCall.run_cached_plan   the same, for compared calls, gradients  also the comparison, autograd and DTensor
    MeshView.cached               plans, exchanges, dimensions             also the function and its checks
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from torch_conv.dispatch.operators import Arguments
from torch_conv.distributed._mesh_view import NoKey, key_of
from torch_conv.distributed._outputs import outputs_in
from torch_conv.distributed._plan import OperatorForms, RankPlan
from torch_conv.distributed._symmetric_memory import Puts


class CachedCall:
    """The operator of a call, its plan, and its arguments but for the image.

    `fixed` holds the arguments that all these calls share. `passed` maps each other argument to its position in the
    call's values.
    """

    def __init__(self, forms: OperatorForms, plan: RankPlan, fixed: Arguments, passed: dict[str, int]) -> None:
        self.forms, self.plan = forms, plan
        self.spec: Any = None  # the result's DTensorSpec, if this rank has a part of the result
        self.cached_launches: CachedLaunches | None = None
        self._fixed, self._passed = fixed, passed

    @classmethod
    def of(cls, forms: OperatorForms, plan: RankPlan, rest: Arguments, values: Sequence[Any]) -> CachedCall | None:
        """None if an argument depends on a value on a GPU, because keys do not hold such values."""
        positions = {id(value): i for i, value in enumerate(values) if isinstance(value, Tensor)}
        passed = {name: positions[id(value)] for name, value in rest.items() if id(value) in positions}
        if any(is_on_gpu(value) for i, value in enumerate(values) if i not in passed.values()):
            return None
        defaults = {a.name: a.default_value for a in forms.op._schema.arguments if a.has_default_value()}
        fixed = {name: _copied(value) for name, value in rest.items() if name not in passed}
        # torch takes 0.5 us for each argument, so defaults are left out.
        fixed = {k: value for k, value in fixed.items() if k not in defaults or not _are_equal(value, defaults[k])}
        return cls(forms, plan, fixed, passed)

    def arguments(self, values: Sequence[Any]) -> Arguments:
        return self._fixed | {name: values[i] for name, i in self._passed.items()}

    def cache_launches(self, local: Tensor, rest: Arguments) -> None:
        """Caches the launches of a call with the arguments `rest`, for the next calls."""
        if self.cached_launches is None or not self.cached_launches.serves:
            self.cached_launches = CachedLaunches.of(self.forms, self.plan, local, rest, self._passed)


class CachedLaunches:
    """One exchange through symmetric memory and the launch graph of one operator, in one call of C++ (deliver.cpp).

    A 3x3 filter over four NVIDIA H100 takes the host 30 us, and 55 to 105 us with separate calls.
    """

    def __init__(
        self,
        puts: Puts,
        graph: int,
        given: list[list[Tensor | None]],
        own: int,
        passed: list[tuple[int, int]],
        outputs: tuple[int, int, int],
    ) -> None:
        """given[slot] are the graph's tensors, with None for the shard and the caller's tensors."""
        self._puts, self._graph = puts, graph
        self._given, self._own, self._passed = given, own, passed  # (index in `given`, index in the call's values)
        self._outputs = [outputs]
        self.serves = True  # whether the graph fitted the last call

    @classmethod
    def of(
        cls, forms: OperatorForms, plan: RankPlan, local: Tensor, rest: Arguments, passed: dict[str, int]
    ) -> CachedLaunches | None:
        """None if the call needs more than one exchange and one graph, or if C++ has recorded no graph of it."""
        if not local.is_cuda or len(plan.halos) != 1 or not plan.has_outputs or plan.cuts_kernels:
            return None
        halo = plan.halos[0]
        dim = halo.dim % local.dim()
        exchanged = halo.exchange.by_puts(local, dim) if len(halo.wanted) == 1 else None
        if exchanged is None or not halo.takes_whole(exchanged[1][0]):
            return None
        puts, slots = exchanged
        own = slots[0].index(None)
        shards = [local if part is None else part for part in slots[0]]
        (graph,) = forms.split_query("recorded", shards, **rest, dim=halo.dim, wanted=halo.wanted)
        if graph == 0:
            return None
        positions: list[tuple[int, int]] = []
        kernels: list[Tensor | None] = []
        for name in forms.names:
            if name in passed:
                positions.append((len(shards) + len(kernels), passed[name]))
                kernels.append(None)
            else:
                value: Any = rest.get(name)
                values = value if isinstance(value, (list, tuple)) else [value]
                kernels += [kernel for kernel in values if isinstance(kernel, Tensor)]
        given = [[*slot, *kernels] for slot in slots]
        return cls(puts, graph, given, own, positions, (halo.dim, halo.piece.cut_skip, halo.piece.count))

    def run(self, local: Tensor, values: Sequence[Any]) -> Tensor | None:
        """This rank's part of the result. None if the graph does not fit: then nothing has run."""
        puts = self._puts
        buffer = puts.buffer
        if buffer.progress.failed or not buffer.is_on_same_stream:
            return None
        slot = buffer.next_call & 1
        given: list[Any] = self._given[slot].copy()
        given[self._own] = local
        for position, i in self._passed:
            given[position] = values[i]
        results = buffer.deliver_and_repeat(given, self._own, self._graph, puts.dim, puts.address_tables[slot])
        self.serves = bool(results)
        return outputs_in(results[0], self._outputs) if results else None


def _are_equal(a: Any, b: Any) -> bool:
    try:
        return bool(key_of(a) == key_of(b))
    except NoKey:
        return False


def is_on_gpu(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(is_on_gpu, value))
    return isinstance(value, Tensor) and value.device.type != "cpu"


def _copied(value: Any) -> Any:
    """A copy that no caller can change."""
    if isinstance(value, (list, tuple)):
        return [_copied(part) for part in value]
    return value.clone() if isinstance(value, Tensor) else value
