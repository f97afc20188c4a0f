"""`pytest --fast`, which `make test` runs: a choice of tests that takes minutes; `make test-all` runs all.

Left out are

* combinations of parameters: of a parametrized test, enough cases stay that each value of each parameter is tested
  once on the CPU and once on CUDA;
* tests marked `thorough`: recorded plans, groups of ranks on the CPU, imports in other environments, kernels for GPUs
  that are compiled for the host, and the like.

Of 30 planted faults (`tests/mutants.py`, CPU) `make test` found 28 and `make test-all` 29. One that only the latter
found is a wrong output size of the fake of a strided filter.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable

import pytest
import torch

Values = frozenset[tuple[str, Hashable]]


def key_of(value: object) -> Hashable:
    """Equal for equal numbers, texts and sequences of such. Other values (tensors, functions) equal only themselves."""
    if isinstance(value, (list, tuple)):
        return tuple(map(key_of, value))
    return repr(value) if isinstance(value, (str, int, float, type(None), torch.dtype)) else id(value)


def values_of(item: pytest.Item) -> Values:
    call = getattr(item, "callspec", None)
    return frozenset((name, key_of(value)) for name, value in call.params.items()) if call else frozenset()


def cover(cases: list[Values]) -> set[int]:
    """Indices of cases that hold every value; those with most new values first, so that few cases are needed."""
    chosen: set[int] = set()
    seen: Counter[tuple[str, Hashable]] = Counter()
    for wanted in range(max(map(len, cases)), 0, -1):
        for i, values in enumerate(cases):
            if i not in chosen and sum(not seen[value] for value in values) >= wanted:
                chosen.add(i)
                seen.update(values)
    return chosen or {0}


def fast(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests that `--fast` runs and those that it leaves out, both in their order."""
    groups: dict[tuple[str, bool], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("thorough"):
            on_cuda = item.get_closest_marker("cuda") is not None
            groups[item.nodeid.split("[")[0], on_cuda].append(item)
    kept = {group[i] for group in groups.values() for i in cover([values_of(item) for item in group])}
    return [item for item in items if item in kept], [item for item in items if item not in kept]
