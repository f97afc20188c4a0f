"""The functions of torch_conv on images that are sharded over processes: they take and return DTensors.

    # torchrun --nproc-per-node=2 blur.py
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    import torch_conv.distributed

    dist.init_process_group("cpu:gloo,cuda:nccl")
    torch.cuda.set_device(dist.get_node_local_rank())
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    volume = distribute_tensor(torch.rand(1, 1, 256, 256, 256), mesh, [Shard(2)])  # cut along D
    smooth = torch_conv.distributed.gaussian_blur3d(volume, sigma=2.0)
    whole = smooth.full_tensor()  # on every rank, with the bits of torch_conv.gaussian_blur3d
    dist.destroy_process_group()

A DTensor may be cut along batch, channels and spatial dimensions, over a mesh of any number of dimensions. [Shard(2),
Shard(3)] cuts rows and columns. It may be replicated over other mesh dimensions. Each rank receives the rows that its
outputs read, also from distant ranks, and computes its part of the result. The parts are those of torch.chunk. All
borders, kernels, strides and dtypes are supported. The results have the bits of one device, except `box_blur` and
`box_blur3d` of floats.

`out` is not supported, and a convolution that is cut along channels must keep its groups whole. Kernels are plain
tensors, equal on all ranks. GPUs of one host write into each other's memory. Otherwise gloo carries CPU tensors and
NCCL carries CUDA tensors.

All ranks make the same calls in the same order, also calls that fail. If only one rank refuses a call, the group ends
with an `ExchangeError` at its timeout. With `verify(True)` the ranks compare each call first, and all get a `RankError`
without a wait.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, Protocol, cast

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate

from torch_conv import functional
from torch_conv.dispatch.remedies import no_dtensor
from torch_conv.distributed._call import ShardedCall
from torch_conv.distributed._exchange import halo_exchange
from torch_conv.distributed._mesh_view import mesh_view_of
from torch_conv.distributed._progress import ExchangeError, RankError, fail_everywhere
from torch_conv.distributed._sharded import Sharded
from torch_conv.distributed._verify import Check, verify
from torch_conv.functional._calls import Public

Rest = ParamSpec("Rest")


class OfDTensors(Protocol[Rest]):
    def __call__(self, input: DTensor, *args: Rest.args, **kwargs: Rest.kwargs) -> DTensor: ...


def _sharded(function: Public[Rest]) -> OfDTensors[Rest]:
    """A function of torch_conv.functional, for DTensors."""
    tensor_function: Any = function  # also takes a `Sharded`
    name, bind = tensor_function.__name__, _binder(tensor_function)

    @functools.wraps(tensor_function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if not args and "input" in kwargs:
            args = (kwargs.pop("input"),)
        image = args[0] if args else None
        if not isinstance(image, DTensor):
            error = no_dtensor(name, "input", image)
            _fail(name, (*args, *kwargs.values()), error)
            bind(args, kwargs)  # unknown arguments are refused before the image's type
            raise error
        call = ShardedCall(name, mesh_view_of(name, image.device_mesh))
        try:
            result = call.run_cached(image, args[1:], kwargs)
            return result if result is not None else run_uncached(call, image, bind(args, kwargs))
        except BaseException as error:  # also an interruption
            call.fail(error)
            if isinstance(error, ExchangeError):
                raise ExchangeError(f"{name}: {error}") from error.__cause__
            raise

    def run_uncached(call: ShardedCall, image: DTensor, given: dict[str, Any]) -> DTensor:
        del given["input"]
        if given.pop("out", None) is not None:
            raise ValueError(f"{name}: out is not taken with a DTensor")
        plain = {key: _plain(name, key, value) for key, value in given.items() if isinstance(value, DTensor)}
        if plain:
            given |= plain
            cached = call.run_cached(image, (), given)  # keys hold plain tensors only
            if cached is not None:
                return cached
        sources: list[Tensor] = []
        if torch.is_grad_enabled():
            sources = [t for t in (image, *given.values()) if isinstance(t, Tensor) and t.requires_grad]
        with torch.no_grad():
            local = image.to_local()
            call.describe(image, local, given)
            whole = Sharded.of(image, local, call)
            result = call.run_cached_plan(whole)
            if result is None:
                result = tensor_function(whole, **given)
                call.check.agree(whole.device)
                call.cache_call(whole, result)
        if sources:
            result.local = _NoGradient.apply(name, result.local, *sources)
        whole_result = result.to_dtensor(image)
        if not sources:
            call.cache_spec(local, whole_result)
        return whole_result

    return cast(OfDTensors[Rest], run)


def _fail(name: str, arguments: Iterable[Any], error: Exception) -> None:
    """`Check.fail` for the mesh of the first DTensor among the arguments, else for all groups."""
    for image in arguments:
        if isinstance(image, DTensor):
            return Check(name, mesh_view_of(name, image.device_mesh), verify.on).fail(error)
    fail_everywhere()


def _binder(function: Callable[..., Any]) -> Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
    """A function that binds arguments to names, ten times as fast as signature.bind where nothing is refused."""
    name, signature = function.__name__, inspect.signature(function)
    parameters = signature.parameters.values()
    names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    known = {p.name for p in parameters}
    required = {p.name for p in parameters if p.default is p.empty}

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        given = dict(zip(names, args, strict=False)) | kwargs
        if len(given) == len(args) + len(kwargs) and required <= given.keys() <= known:
            return given
        try:
            return dict(signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None

    return bind


def _plain(name: str, argument: str, value: DTensor) -> Tensor:
    """A replicated DTensor as a plain tensor."""
    if not all(isinstance(placement, Replicate) for placement in value.placements):
        raise ValueError(f"{name}: {argument} must be replicated, got {', '.join(map(str, value.placements))}")
    return value.to_local()


class _NoGradient(torch.autograd.Function):
    """A node of autograd's graph whose backward raises, as for operators without a gradient (torch_conv/autograd)."""

    @staticmethod
    def forward(ctx: Any, name: str, result: Tensor, *sources: Tensor) -> Tensor:
        ctx.name = name
        return result.view_as(result)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            f"{ctx.name}: backward is not implemented yet; call it under torch.no_grad() or on detached tensors"
        )


# A line for each function, because editors and type checkers read no names that a loop defines.
box_blur = _sharded(functional.box_blur)
box_blur3d = _sharded(functional.box_blur3d)
conv1d = _sharded(functional.conv1d)
conv2d = _sharded(functional.conv2d)
conv3d = _sharded(functional.conv3d)
difference_of_gaussians = _sharded(functional.difference_of_gaussians)
filter1d = _sharded(functional.filter1d)
filter2d = _sharded(functional.filter2d)
filter2d_separable = _sharded(functional.filter2d_separable)
filter3d = _sharded(functional.filter3d)
filter3d_separable = _sharded(functional.filter3d_separable)
gaussian_blur2d = _sharded(functional.gaussian_blur2d)
gaussian_blur3d = _sharded(functional.gaussian_blur3d)
gaussian_downsample = _sharded(functional.gaussian_downsample)
gaussian_gradient_magnitude3d = _sharded(functional.gaussian_gradient_magnitude3d)
gaussian_laplace = _sharded(functional.gaussian_laplace)
gaussian_sobel = _sharded(functional.gaussian_sobel)
laplacian = _sharded(functional.laplacian)
sobel = _sharded(functional.sobel)
spatial_gradient = _sharded(functional.spatial_gradient)
spatial_gradient3d = _sharded(functional.spatial_gradient3d)
structure_tensor = _sharded(functional.structure_tensor)
thin_edges = _sharded(functional.thin_edges)
unsharp_mask = _sharded(functional.unsharp_mask)

# Functions of sequences take no DTensors.
_FUNCTIONS = [name for name in functional.__all__ if name in globals()]
__all__ = ["ExchangeError", "RankError", "halo_exchange", "verify", *_FUNCTIONS]


def __dir__() -> list[str]:
    return __all__
