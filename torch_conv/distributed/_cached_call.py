"""A cached call: the one operator that a call made, with its arguments; the next such call makes it at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from torch_conv.distributed._cached_launches import CachedLaunches
from torch_conv.distributed._mesh_view import Unknown, key_of
from torch_conv.distributed._plan import Given, Operator, Plan


class CachedCall:
    """An operator's arguments but for the image; tensors among them that the caller gave are the next call's own."""

    def __init__(self, operator: Operator, plan: Plan, fixed: Given, passed: dict[str, int]) -> None:
        self.operator, self.plan = operator, plan
        self.spec: Any = None  # of its results, where this rank has a part of them
        self.cached_launches: CachedLaunches | None = None
        self._fixed, self._passed = fixed, passed  # by the operator's name, the place in the call

    @classmethod
    def of(cls, operator: Operator, plan: Plan, rest: Given, values: Sequence[Any]) -> CachedCall | None:
        """None where an argument may change although the call is the same: what is on a GPU is not compared."""
        positions = {id(value): i for i, value in enumerate(values) if isinstance(value, Tensor)}
        passed = {name: positions[id(value)] for name, value in rest.items() if id(value) in positions}
        if any(is_on_gpu(value) for i, value in enumerate(values) if i not in passed.values()):
            return None
        known = {a.name: a.default_value for a in operator.op._schema.arguments if a.has_default_value()}
        fixed = {name: _copied(value) for name, value in rest.items() if name not in passed}
        fixed = {name: value for name, value in fixed.items() if name not in known or not _same(value, known[name])}
        return cls(operator, plan, fixed, passed)

    def arguments(self, values: Sequence[Any]) -> Given:
        return self._fixed | {name: values[i] for name, i in self._passed.items()}

    def cache_launches(self, local: Tensor, rest: Given) -> None:
        """After a call that was made piece by piece, with the arguments `rest`: the next ones may take less."""
        if self.cached_launches is None or not self.cached_launches.serves:
            self.cached_launches = CachedLaunches.of(self.operator, self.plan, local, rest, self._passed)


def _same(a: Any, b: Any) -> bool:
    """What need not be handed over: torch takes 0.5 us for every argument."""
    try:
        return bool(key_of(a) == key_of(b))
    except Unknown:
        return False


def is_on_gpu(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(is_on_gpu, value))
    return isinstance(value, Tensor) and value.device.type != "cpu"


def _copied(value: Any) -> Any:
    """What nobody else writes to."""
    if isinstance(value, (list, tuple)):
        return [_copied(part) for part in value]
    return value.clone() if isinstance(value, Tensor) else value
