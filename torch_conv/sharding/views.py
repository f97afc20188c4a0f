"""Views of a SplitTensor, shard by shard. A shard must stay a range along one dimension."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from torch import Tensor

if TYPE_CHECKING:
    from torch_conv.split import SplitTensor


def reshape(self: SplitTensor, *shape: int | Sequence[int]) -> SplitTensor:
    """Does `Tensor.reshape`. Each shard must be a range along one dimension of the new shape."""
    return _reshaped(self, "reshape", _flat(shape))


def flatten(self: SplitTensor, start_dim: int = 0, end_dim: int = -1) -> SplitTensor:
    """Does `Tensor.flatten`. Each shard must be a range of the new dimension."""
    dims, shape = self.dim(), list(self.shape)
    start, end = _at("flatten", start_dim, dims), _at("flatten", end_dim, dims)
    if start > end:
        raise ValueError(f"flatten: start_dim must not lie behind end_dim, got {start_dim} and {end_dim}")
    return _reshaped(self, "flatten", [*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]])


def unsqueeze(self: SplitTensor, dim: int) -> SplitTensor:
    """Does `Tensor.unsqueeze`."""
    dims = self.dim()
    at = _at("unsqueeze", dim, dims + 1)
    behind = at <= dims + self.spec.dim
    return self._view(lambda shard: shard.unsqueeze(at), self.spec.dim if behind else self.spec.dim - 1)


def squeeze(self: SplitTensor, dim: int) -> SplitTensor:
    """Does `Tensor.squeeze` of one dimension that is not the split one."""
    dims = self.dim()
    at = _at("squeeze", dim, dims)
    if self.size(at) != 1:
        return self
    if at == dims + self.spec.dim:
        _refuse("squeeze", self, [n for d, n in enumerate(self.shape) if d != at])
    behind = at < dims + self.spec.dim
    return self._view(lambda shard: shard.squeeze(at), self.spec.dim if behind else self.spec.dim + 1)


def expand(self: SplitTensor, *sizes: int | Sequence[int]) -> SplitTensor:
    """Does `Tensor.expand` of dimensions other than the split one."""
    shape = _flat(sizes)
    at = len(shape) + self.spec.dim
    if at < 0 or shape[at] not in (-1, self.size(self.spec.dim)):
        _refuse("expand", self, shape)
    shape[at] = -1
    return self._view(lambda shard: shard.expand(shape), self.spec.dim)


def movedim(self: SplitTensor, source: int, destination: int) -> SplitTensor:
    """Does `Tensor.movedim` of one dimension."""
    dims = self.dim()
    a, b = _at("movedim", source, dims), _at("movedim", destination, dims)
    order = [d for d in range(dims) if d != a]
    order.insert(b, a)
    return self._view(lambda shard: shard.permute(order), order.index(dims + self.spec.dim) - dims)


def _reshaped(self: SplitTensor, name: str, shape: list[int]) -> SplitTensor:
    sizes, numel = self.spec.sizes, self.numel()
    if shape.count(-1) == 1:
        known = -math.prod(shape)
        shape = [(numel // known if known else 0) if n == -1 else n for n in shape]
    if math.prod(shape) != numel or min(shape, default=0) < 0:
        raise ValueError(f"{name}: shape must have {numel} elements, got {tuple(shape)}")
    at = self.dim() + self.spec.dim
    before, behind = math.prod(self.shape[:at]), math.prod(self.shape[at + 1 :])
    # Looks for a new dimension that begins where the split one begins, and that the shards cut at whole indices.
    for new in reversed(range(len(shape))):
        step = math.prod(shape[new + 1 :])
        if math.prod(shape[:new]) != before:
            continue
        rows = list(sizes)
        if step != behind:
            if step == 0 or any(n * behind % step for n in sizes):
                continue
            rows = [n * behind // step for n in sizes]
        if sum(rows) == shape[new]:
            shapes = [[*shape[:new], n, *shape[new + 1 :]] for n in rows]
            return self._view(_reshape_to(iter(shapes)), new - len(shape))
    _refuse(name, self, shape)


def _reshape_to(shapes: Iterator[list[int]]) -> Callable[[Tensor], Tensor]:
    return lambda shard: shard.reshape(next(shapes))


def _refuse(name: str, self: SplitTensor, shape: Sequence[int]) -> NoReturn:
    raise ValueError(
        f"{name}: the shards along dim {self.spec.dim} of {tuple(self.shape)} would not stay whole in {tuple(shape)}; "
        "reshape .gather() or .shards"
    )


def _at(name: str, dim: int, dims: int) -> int:
    if not -dims <= dim < dims:
        raise ValueError(f"{name}: dim must be in {-dims} to {dims - 1}, got {dim}")
    return dim % dims


def _flat(numbers: Sequence[int | Sequence[int]]) -> list[int]:
    return [n for part in numbers for n in ([part] if isinstance(part, int) else part)]
