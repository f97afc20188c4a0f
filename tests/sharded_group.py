"""The cases of test_distributed.py share this. Every process of a group runs all cases.

Every rank makes the whole image from the same seed. A case compares this rank's part of the result with the same part
of the result of the whole image.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

import torch_conv
import torch_conv.distributed as sharded

BORDERS = ("constant", "replicate", "reflect", "symmetric", "circular", "skip", "zero_output")
R = Replicate()


class Group:
    """The processes of a test, and the meshes over them."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.here = torch.device(device) if device == "cpu" else torch.device(device, torch.cuda.current_device())
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.failed: list[str] = []  # comparisons; the case goes on, since the other ranks do
        self._meshes: dict[tuple[int, ...], DeviceMesh] = {}

    def mesh(self, *shape: int) -> DeviceMesh:
        shape = shape or (self.world,)
        if shape not in self._meshes:
            names = ("rows", "columns", "planes")[: len(shape)]
            self._meshes[shape] = init_device_mesh(self.device, shape, mesh_dim_names=names)
        return self._meshes[shape]

    def grid(self) -> DeviceMesh:
        """Two mesh dimensions: 2 x 2, else all ranks along the second."""
        return self.mesh(2, 2) if self.world == 4 else self.mesh(1, self.world)

    def expect(self, condition: bool, *what: object) -> None:
        if not condition:
            self.failed.append(" ".join(map(str, what)))

    def image(self, *shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
        values = torch.rand(shape, generator=torch.Generator().manual_seed(seed))
        x = values if dtype.is_floating_point else values * 255
        return x.to(dtype).to(self.device)


def part_of(whole: Tensor, mesh: DeviceMesh, placements: Any) -> Tensor:
    """This rank's part by torch.chunk."""
    place = mesh.get_coordinate()
    for mesh_dim, placement in enumerate(placements):
        if isinstance(placement, Shard):
            n, parts = whole.shape[placement.dim], mesh.size(mesh_dim)
            step = -(-n // parts)
            low = min(place[mesh_dim] * step, n)
            whole = whole.narrow(placement.dim, low, min(step, n - low))
    return whole


def spread(whole: Tensor, mesh: DeviceMesh, *placements: Any) -> DTensor:
    local = part_of(whole, mesh, placements)
    layout = torch.preserve_format
    return DTensor.from_local(
        local.clone(memory_format=layout), mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride()
    )


def check(
    g: Group, mesh: DeviceMesh, placements: Any, name: str, whole: Tensor, *args: Any, exact: bool = True, **kw: Any
) -> DTensor:
    """Compares the function on the sharded image with this rank's part of the function on the whole image."""
    what = (name, tuple(whole.shape), placements, args, kw)
    expected = getattr(torch_conv, name)(whole, *args, **kw)
    result = getattr(sharded, name)(spread(whole, mesh, *placements), *args, **kw)
    g.expect(isinstance(result, DTensor), what)
    g.expect(result.shape == expected.shape and result.dtype == expected.dtype, what, result.shape, result.dtype)
    added = expected.dim() - whole.dim()
    spatial = 3 if "3d" in name else 2
    for before, after in zip(placements, result.placements, strict=True):
        moved = isinstance(before, Shard) and added and before.dim % whole.dim() >= whole.dim() - spatial
        g.expect(after == (Shard(before.dim + added) if moved else before), what, after)
    here, local = part_of(expected, mesh, result.placements), result.to_local()
    if exact:
        bits = torch.int16 if expected.dtype == torch.uint16 else expected.dtype
        g.expect(torch.equal(local.view(bits), here.view(bits)), what, local.shape, here.shape)
    else:
        g.expect(local.shape == here.shape and torch.allclose(local, here, rtol=1e-5, atol=1e-5), what)
    return result


def refused(g: Group, call: Callable[[], Any], kind: Any, text: str) -> None:
    try:
        call()
    except kind as error:
        g.expect(text in str(error), str(error), text)
        return
    g.expect(False, f"nothing was raised, expected: {text}")


CASES: dict[str, Callable[[Group], None]] = {}


def case(function: Callable[[Group], None]) -> Callable[[Group], None]:
    CASES[function.__name__] = function
    return function


def verified_case(function: Callable[[Group], None]) -> Callable[[Group], None]:
    """A case in which the ranks compare their calls."""

    @functools.wraps(function)
    def run(g: Group) -> None:
        with sharded.verify(True):
            function(g)

    return case(run)
