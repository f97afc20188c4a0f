"""`Sharded`: this rank's part of a DTensor, and the dimensions that are cut over ranks.

The functions of torch_conv.functional treat it as a tensor: they read its shape, view it in another shape and pass it
to operators, which torch forwards to `_operators.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate, Shard

from torch_conv.distributed._mesh_view import MeshView
from torch_conv.sharding.geometry import chunk_bounds


@dataclass(frozen=True)
class Axis:
    """A dimension of the DTensor, or of an operator's result, which may be cut at `bounds` over a mesh dimension."""

    size: int
    mesh_dim: int = -1  # -1: all ranks hold all of it
    bounds: tuple[int, ...] = ()
    mine: int = 0  # this rank holds [bounds[mine], bounds[mine + 1])

    def __hash__(self) -> int:  # takes a third of the time of a hash of all fields
        return hash((self.size, self.mesh_dim))

    @property
    def held(self) -> tuple[int, int]:
        return (self.bounds[self.mine], self.bounds[self.mine + 1]) if self.bounds else (0, self.size)

    @property
    def local_size(self) -> int:
        low, high = self.held
        return high - low

    @property
    def is_cut(self) -> bool:
        """Whether several ranks hold parts of it."""
        return len(self.bounds) > 2

    def of_size(self, size: int) -> Axis:
        """An axis of another size, cut over the same ranks as torch.chunk cuts."""
        if self.mesh_dim < 0:
            return Axis(size)
        return Axis(size, self.mesh_dim, tuple(chunk_bounds(size, len(self.bounds) - 1)), self.mine)


# A dimension of a view: the axes that it merges, or none for a new dimension of size 1.
Dim = tuple[Axis, ...]


class Sharded:
    """This rank's part of an image. It acts as a tensor of the whole image's shape."""

    def __init__(self, local: Tensor, dims: Sequence[Dim], call: Any) -> None:
        self.local, self.dims, self.call = local, tuple(dims), call
        self._shape: torch.Size | None = None

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = [*args, *(kwargs or {}).values()]
        call = next(x.call for x in given if isinstance(x, Sharded))
        return call.run(func, args, kwargs or {})

    @property
    def shape(self) -> torch.Size:
        if self._shape is None:
            self._shape = torch.Size([math.prod([axis.size for axis in dim]) for dim in self.dims])
        return self._shape

    @property
    def local_shape(self) -> list[int]:
        return [math.prod(axis.local_size for axis in dim) for dim in self.dims]

    @property
    def dtype(self) -> torch.dtype:
        return self.local.dtype

    @property
    def device(self) -> torch.device:
        return self.local.device

    @property
    def ndim(self) -> int:
        return len(self.dims)

    def dim(self) -> int:
        return len(self.dims)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        return self.shape.numel()

    def is_floating_point(self) -> bool:
        return self.local.is_floating_point()

    def cut(self, dim: int) -> Axis | None:
        """The cut axis of a dimension, if any; views never merge two of them."""
        return next((axis for axis in self.dims[dim] if axis.is_cut), None)

    def indices(self, dim: int) -> Tensor | None:
        """The indices of a dimension that this rank holds; None for all."""
        if self.cut(dim) is None:
            return None
        at = torch.arange(self.shape[dim]).view([axis.size for axis in self.dims[dim]])
        for i, axis in enumerate(self.dims[dim]):
            at = at.narrow(i, axis.held[0], axis.local_size)
        return at.flatten()

    # Views

    def _view(self, local: Tensor, dims: Sequence[Dim]) -> Sharded:
        return Sharded(local, dims, self.call)

    def unsqueeze(self, dim: int) -> Sharded:
        dim %= self.dim() + 1
        return self._view(self.local.unsqueeze(dim), [*self.dims[:dim], (), *self.dims[dim:]])

    def squeeze(self, dim: int) -> Sharded:
        dim %= self.dim()
        if self.shape[dim] != 1:
            return self
        if self.cut(dim):  # the other ranks, which hold nothing of it, would need its pixels
            raise ValueError(f"{self.call.name}: a dimension of size 1 must not be sharded here")
        return self._view(self.local.squeeze(dim), [*self.dims[:dim], *self.dims[dim + 1 :]])

    def flatten(self, start: int = 0, end: int = -1) -> Sharded:
        start, end = start % self.dim(), end % self.dim()
        merged = tuple(axis for dim in self.dims[start : end + 1] for axis in dim)
        dims = [*self.dims[:start], merged, *self.dims[end + 1 :]]
        return self._view(self.local.flatten(start, end), dims)

    def expand(self, sizes: Sequence[int]) -> Sharded:
        dims, local = [], []
        for size, dim, local_size in zip(sizes, self.dims, self.local_shape, strict=True):
            dims.append(dim if size == -1 else (Axis(size),))
            local.append(local_size if size == -1 else size)
        return self._view(self.local.expand(local), dims)

    def reshape(self, sizes: Sequence[int]) -> Sharded:
        """Tensor.reshape. New dimensions take whole axes, or parts of axes that are not cut."""
        remaining = [axis for dim in self.dims for axis in dim]
        dims: list[Dim] = []
        for size in sizes:
            taken = [remaining.pop(0)] if size == 1 and remaining and remaining[0].size == 1 else []
            product = 1
            while product != size:
                if not remaining:
                    raise ValueError(f"{self.call.name}: shape {tuple(self.shape)} must fit {tuple(sizes)}")
                axis, missing = remaining.pop(0), size // max(1, product)
                if axis.mesh_dim < 0 and axis.size > missing > 0 and axis.size % missing == 0:
                    remaining.insert(0, Axis(axis.size // missing))
                    axis = Axis(missing)
                taken.append(axis)
                product *= axis.size
            dims.append(tuple(taken))
        dims[-1] += tuple(remaining)
        shaped = Sharded(self.local, dims, self.call)
        return self._view(self.local.reshape(shaped.local_shape), dims)

    # Arithmetic of functions that call several operators

    def _with(self, function: Callable[..., Tensor], other: Any) -> Sharded:
        return self._view(function(self.local, other.local if isinstance(other, Sharded) else other), self.dims)

    def to(self, dtype: torch.dtype) -> Sharded:
        return self._view(self.local.to(dtype), self.dims)

    def sqrt(self) -> Sharded:
        return self._view(self.local.sqrt(), self.dims)

    def __mul__(self, other: Any) -> Sharded:
        return self._with(torch.mul, other)

    def __add__(self, other: Any) -> Sharded:
        return self._with(torch.add, other)

    # From a DTensor and back

    @classmethod
    def of(cls, whole: DTensor, local: Tensor, call: Any) -> Sharded:
        shape, placements = whole.shape, whole.placements
        dims, expected = call.view.cached(
            (Sharded, shape, placements), lambda: _dims_of(call.name, call.view, shape, placements)
        )
        if local.shape != expected:
            if local.numel() == 0 and 0 in expected:
                local = local.new_empty(expected)
            else:
                raise ValueError(
                    f"{call.name}: this rank must hold {tuple(expected)} of the input, as torch.chunk divides it, "
                    f"got {tuple(local.shape)}"
                )
        return cls(local, dims, call)

    def to_dtensor(self, source: DTensor) -> DTensor:
        """A DTensor in the memory format of `source`, if both have as many dimensions."""
        view: MeshView = self.call.view
        key = (DTensor, self.dims, source.shape, source.stride(), self.local.dtype)
        spec = view.cache.get(key)
        if spec is not None and not self.local.requires_grad:
            return dtensor_of(self.local, spec)
        placements: list[Any] = [Replicate()] * len(view.shape)
        for dim, axes in enumerate(self.dims):
            for axis in axes:
                if axis.mesh_dim >= 0:
                    placements[axis.mesh_dim] = Shard(dim)
        shape = self.shape
        strides = _strides(shape, _is_channels_last(source) and len(shape) == source.dim())
        result = DTensor.from_local(self.local, view.mesh, placements, run_check=False, shape=shape, stride=strides)
        spec = spec_of(result)
        if spec is not None:
            view.store(key, spec)
        return result


def _dims_of(
    name: str, view: MeshView, shape: torch.Size, placements: Sequence[Any]
) -> tuple[tuple[Dim, ...], torch.Size]:
    """The dimensions of a DTensor, and the shape of this rank's part."""
    axes = [Axis(n) for n in shape]
    for mesh_dim, placement in enumerate(placements):
        if isinstance(placement, Replicate):
            continue
        if type(placement) is not Shard:
            raise ValueError(f"{name}: input must be sharded or replicated, got {placement}")
        dim = placement.dim % len(shape)
        if axes[dim].mesh_dim >= 0:
            raise ValueError(f"{name}: input must not be sharded twice along dimension {dim}")
        n, parts = shape[dim], view.shape[mesh_dim]
        axes[dim] = Axis(n, mesh_dim, tuple(chunk_bounds(n, parts)), view.at[mesh_dim])
    return tuple((axis,) for axis in axes), torch.Size([axis.local_size for axis in axes])


def dtensor_of(local: Tensor, spec: Any) -> DTensor:
    """A DTensor, without DTensor.__init__, which only serves torch.compile."""
    result: DTensor = DTensor.__new__(DTensor, local, spec, requires_grad=False)
    return result


def parts_of(image: DTensor) -> tuple[Tensor, Any] | None:
    """This rank's tensor and the spec; None in other torch versions. to_local() would wrap for autograd (5 us)."""
    try:
        return image._local_tensor, image._spec
    except AttributeError:
        return None


def spec_of(tensor: DTensor) -> Any:
    """The spec, with which DTensor's constructor takes 1 us and from_local 22 us; None in other torch versions."""
    try:
        spec = tensor._spec
        return spec if dtensor_of(tensor.to_local().detach(), spec).shape == tensor.shape else None
    except (AttributeError, TypeError):
        return None


def _is_channels_last(whole: DTensor) -> bool:
    strides = whole.stride()
    return whole.dim() in (4, 5) and strides == _strides(whole.shape, True) != _strides(whole.shape, False)


def _strides(shape: Sequence[int], channels_last: bool) -> tuple[int, ...]:
    """The strides of a dense tensor of this shape."""
    order = [0, *range(2, len(shape)), 1] if channels_last else list(range(len(shape)))
    strides, step = [1] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)
