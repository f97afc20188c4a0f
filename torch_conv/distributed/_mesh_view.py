"""A device mesh as this rank sees it, with a cache of plans, specs and exchanges for it."""

from __future__ import annotations

import ctypes
import hashlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from torch_conv.distributed._progress import ExchangeError, alive, fail_everywhere, progress_of

_TENSORS = (Tensor, torch.nn.Parameter)
_HASHED_BYTES = 1 << 16  # larger kernels are not compared by value; a digest of this size takes 50 us
_PLAIN_BYTES = 4096  # up to this size the values take 1 us, a digest 5 us
_MOST_MESHES, _CACHE_SIZE = 16, 512


class MeshView:
    """A mesh as this rank sees it. DeviceMesh computes most of this at each access (1 to 40 us)."""

    def __init__(self, mesh: DeviceMesh, at: Sequence[int]) -> None:
        self.mesh, self.at = mesh, tuple(at)
        self.shape = tuple(mesh.shape)
        self.rank, self.world = dist.get_rank(), dist.group.WORLD
        grid = mesh.mesh
        self.ranks: list[int] = grid.flatten().tolist()  # in the order of the mesh
        groups = mesh.get_all_groups()
        # Weak references: a destroyed group must not live on in this cache.
        self._groups = [weakref.ref(group) for group in groups]
        self.progress = [progress_of(group) for group in groups]
        # For each mesh dimension: the ranks of its shards, as the dimension's group numbers them.
        self.peers: list[list[int]] = []
        for mesh_dim, group in enumerate(groups):
            ranks = grid.movedim(mesh_dim, -1)[(*at[:mesh_dim], *at[mesh_dim + 1 :])].tolist()
            self.peers.append([dist.get_group_rank(group, rank) for rank in ranks])
        spanning = [group for group in groups if group.size() > 1]
        if len(spanning) > 1 and grid.numel() == dist.get_world_size() and dist.group.WORLD is not None:
            spanning = [dist.group.WORLD]
        self._handshake = [weakref.ref(group) for group in spanning]
        self.cache: dict[Any, Any] = {}

    def has_groups_of(self, mesh: DeviceMesh) -> bool:
        return all(group() is other for group, other in zip(self._groups, mesh.get_all_groups(), strict=True))

    def group(self, mesh_dim: int) -> dist.ProcessGroup:
        return alive(self._groups[mesh_dim])

    @property
    def handshake_groups(self) -> list[dist.ProcessGroup]:
        """The groups whose successive gathers reach all ranks of the mesh."""
        return [alive(group) for group in self._handshake]

    def store(self, key: Any, value: Any) -> None:
        if len(self.cache) >= _CACHE_SIZE:
            self.cache.clear()
        self.cache[key] = value

    def cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """Returns the cached value of this key, which `make` computes at the first call."""
        value = self.cache.get(key)
        if value is None:
            value = make()
            self.store(key, value)
        return value


# Keyed by id(mesh), because equal meshes may have different groups. An entry keeps its mesh alive, so its id
# stays unique.
_views: dict[int, tuple[DeviceMesh, MeshView]] = {}


def mesh_view_of(name: str, mesh: DeviceMesh) -> MeshView:
    known = _views.get(id(mesh))
    if known is not None and known[1].world is dist.group.WORLD:
        return known[1]
    if not isinstance(mesh, DeviceMesh):
        fail_everywhere()
        raise TypeError(f"{name}: mesh must be of type DeviceMesh, got {type(mesh).__name__}")
    if not dist.is_initialized():
        raise ExchangeError(f"{name}: torch.distributed has no process group")
    at = mesh.get_coordinate()
    if at is None:
        raise ValueError(f"{name}: this rank, {dist.get_rank()}, must be one of the mesh's")
    # Equal meshes share a view: mesh["rows"] returns a new one each time. The search takes as long as a call.
    equal = (view for _, view in _views.values() if view.mesh == mesh and view.has_groups_of(mesh))
    view = next(equal, None) or MeshView(mesh, at)
    # Drops entries that share a view first, because the view and its cache remain.
    while len(_views) >= _MOST_MESHES:
        sharing = (key for key, (known_mesh, known_view) in _views.items() if known_view.mesh is not known_mesh)
        del _views[next(sharing, next(iter(_views)))]
    _views[id(mesh)] = mesh, view
    return view


class NoKey(Exception):  # noqa: N818
    """A value has no key."""


def key_of(value: Any) -> Any:
    """A hashable key, equal for equal arguments. Kernels on the CPU count by value, tensors on GPUs by shape and dtype.

    Raises NoKey for a value of another type, or for a tensor that is too large to compare.
    """
    kind = type(value)
    if kind is str or value is None:
        return value
    if kind in _TENSORS and value.layout is torch.strided:
        return value.shape, value.dtype, value.device if value.is_cuda else value_bytes(value)
    if kind in (int, bool, torch.dtype):
        return kind, value  # 1 differs from True
    if kind is float:
        return kind, repr(value)  # 0.0 differs from -0.0
    if kind in (list, tuple):
        return tuple(map(key_of, value))
    raise NoKey


def value_bytes(tensor: Tensor) -> bytes:
    """The values of a tensor on the CPU, or a digest of them."""
    size = tensor.nbytes
    if not tensor.is_cpu or size > _HASHED_BYTES:
        raise NoKey
    dense = tensor.resolve_conj().resolve_neg().contiguous()  # named, so that a copy lives until it is read
    values = ctypes.string_at(dense.data_ptr(), size) if size else b""
    return values if size <= _PLAIN_BYTES else hashlib.blake2b(values, digest_size=16).digest()
