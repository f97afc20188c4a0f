"""One call of a function on a DTensor, and the caches that may serve it.

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

import torch
from torch import _C, Tensor
from torch.distributed.tensor import DTensor

from torch_conv.dispatch.operators import Arguments
from torch_conv.dispatch.tangents import in_forward_mode
from torch_conv.distributed._mesh_view import NoKey, key_of
from torch_conv.distributed._operators import OperatorCalls, compute, outputs_in, outputs_of
from torch_conv.distributed._plan import OperatorForms, RankPlan
from torch_conv.distributed._progress import ExchangeError
from torch_conv.distributed._sharded import Sharded, dtensor_of, parts_of, spec_of
from torch_conv.distributed._symmetric_memory import Puts
from torch_conv.functional._calls import below_autograd


class ShardedCall(OperatorCalls):
    """One call of a function, and the cached call that may serve it."""

    # Class attributes, because a constructor's call of another one takes 0.1 us.
    _key: Any = None  # equal for calls whose checks give equal results
    _cached_call: CachedCall | None = None  # of an earlier call with this key
    _only_plan: RankPlan | None = None  # of a cached call, which has one operator
    _values: tuple[Any, ...] = ()  # the arguments but for the image

    def run_cached(self, image: DTensor, args: tuple[Any, ...], kwargs: Arguments) -> DTensor | None:
        """The result of a cached call, or None if there is none. Calls that the ranks compare are not cached ones."""
        self._values = values = (*args, *kwargs.values())
        parts = parts_of(image)
        if parts is None:
            return None
        local, spec = parts
        self._key = key = _call_key(self.name, local, spec, kwargs, values)
        if key is None:
            return None
        self._cached_call = cached = self.view.cache.get(key)
        if cached is None or cached.spec is None or self.check.is_open:
            return None
        if _C.is_grad_enabled() and _C._any_requires_grad(image, *values):
            return None
        self._only_plan = cached.plan
        return dtensor_of(cached.run(local, values), cached.spec)

    def describe(self, image: DTensor, local: Tensor, arguments: Arguments) -> None:
        """Describes the call for the comparison between ranks."""
        self.check.describe(arguments, (image.shape, image.dtype, image.placements, local.device.type))
        if is_on_gpu(arguments.get("sigma")):  # the function checks values that the key does not hold
            self._key = self._cached_call = None

    def run_cached_plan(self, whole: Sharded) -> Sharded | None:
        """The result by the cached call's operator and plan, or None if no call is cached."""
        cached = self._cached_call
        if cached is None:
            return None
        self._only_plan = cached.plan
        arguments = cached.arguments(self._values) | {"input": whole}
        return below_autograd(compute, self, cached.forms.op, cached.forms.split, arguments, cached.plan)

    def cache_call(self, whole: Sharded, result: Any) -> None:
        """Caches the call if it consists of one operator on the image."""
        operators, self.operators = self.operators, []  # the results refer to this object
        if self._key is None or len(operators) != 1:
            return
        ((forms, plan, arguments, operator_result),) = operators
        rest = dict(arguments)
        if rest.pop("input") is whole and operator_result is result:
            self._cached_call = CachedCall.of(forms, plan, rest, self._values)
            if self._cached_call:
                self.view.store(self._key, self._cached_call)

    def cache_spec(self, local: Tensor, result: DTensor) -> None:
        """Caches the result's spec, if this rank has a part of image and result."""
        cached = self._cached_call
        if cached is None or cached.spec is not None or cached.plan.cuts_channels:
            return
        if local.numel() > 0 and result.to_local().numel() > 0:
            cached.spec = spec_of(result)

    def fail(self, error: BaseException) -> None:
        """Ends this rank's call with an error.

        Other ranks do not wait for this rank once its comparison and its last exchange have succeeded.
        """
        plan = self._only_plan
        is_over = plan is not None and not plan.cuts_channels and all(halo.exchange.is_over for halo in plan.halos)
        if not is_over or self.check.is_open or isinstance(error, ExchangeError):
            self.check.fail(error)


def _call_key(name: str, local: Tensor, spec: Any, kwargs: Arguments, values: Sequence[Any]) -> Any:
    """The key of a call, or None.

    The key holds the bytes of kernels on the CPU (1 us). A version counter of torch would miss writes by numpy or
    through `data`.
    """
    if _C._is_any_autocast_enabled():  # autocast changes the checked dtypes
        return None
    if in_forward_mode() or _C._are_functorch_transforms_active():
        return None
    shard = (local.shape, local.stride(), local.dtype, local.device, torch.get_default_dtype())
    try:
        # The spec holds mesh, placements, shape and strides. Images that share one spec compare in 0.1 us, images with
        # equal specs in 2 us.
        return (name, spec, shard, tuple(kwargs), *map(key_of, values))
    except NoKey:
        return None


class CachedCall:
    """The operator of a call, its plan, and its arguments but for the image.

    `fixed` holds the arguments that all these calls share. `passed` maps each other argument to its position in the
    call's values.
    """

    def __init__(self, forms: OperatorForms, plan: RankPlan, fixed: Arguments, passed: dict[str, int]) -> None:
        self.forms, self.plan = forms, plan
        self.spec: Any = None  # the result's DTensorSpec, if this rank has a part of the result
        self._launches: CachedLaunches | None = None
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

    def run(self, local: Tensor, values: Sequence[Any]) -> Tensor:
        """This rank's part of the result, for a call with a spec. Caches the launches for the next calls."""
        rest = self.plan.apply_cuts(self.arguments(values))
        launches = self._launches
        result = below_autograd(launches.run, local, values) if launches is not None else None
        if result is None:
            result = below_autograd(outputs_of, self.forms.op, self.forms.split, local, rest, self.plan)
            assert result is not None  # because the call has a spec
            if launches is None or not launches.serves:
                self._launches = CachedLaunches.of(self.forms, self.plan, local, rest, self._passed)
        return result


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
