"""Operators on sharded images: each rank fetches the rows that its outputs read, and computes these outputs.

    rank 1 of 3        rows before | its own rows | rows behind       fetched from the ranks that hold them
                       [ s0 ]        [ s1, a view ] [ s2 ]
    X_split([s0, s1, s2], ..., dim=dim, wanted=[1])                   without padding or concatenation

If two spatial axes are cut, the later one is concatenated first, with its halo. The exchange along the other axis then
carries the corners too, and surplus outputs are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket

from torch_conv.dispatch.operators import Arguments
from torch_conv.distributed._exchange import assembled, fetch
from torch_conv.distributed._mesh_view import MeshView, NoKey, key_of
from torch_conv.distributed._outputs import outputs_of
from torch_conv.distributed._plan import OperatorForms, RankPlan, axis_of, footprints_by_dim, forms_of, plan_of
from torch_conv.distributed._sharded import Axis, Sharded
from torch_conv.sharding.geometry import Run, runs_of

if TYPE_CHECKING:
    from torch_conv.distributed._call import ShardedCall

_BY_TORCH = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}


def run_operator(call: ShardedCall, func: Any, args: tuple[Any, ...], kwargs: Arguments) -> Sharded:
    """Runs an operator of torch_conv, a convolution of torch, or F.pad."""
    if isinstance(func, (OpOverload, OpOverloadPacket)):
        forms = forms_of(func)
        return _library_operator(call, forms, _by_name(forms.names, args, kwargs))
    if func in _BY_TORCH:
        names = ["input", "weight", "bias", "stride", "padding", "dilation", "groups"]
        return _torch_conv(call, _BY_TORCH[func], func, _by_name(names, args, kwargs))
    if func is F.pad:
        return _pad(call, **_by_name(["input", "pad", "mode", "value"], args, kwargs))
    raise TypeError(f"{call.name}: {getattr(func, '__name__', func)} does not take a DTensor here")


def _library_operator(call: ShardedCall, forms: OperatorForms, arguments: Arguments) -> Sharded:
    image = arguments["input"]
    if not isinstance(image, Sharded):
        raise TypeError(f"{call.name}: input must be of type DTensor, got {type(image).__name__}")

    def new_plan() -> RankPlan:
        footprints = footprints_by_dim(forms.op, arguments, image, forms.axes)
        return plan_of(call.name, call.view, image, forms.axes, footprints, arguments.get("weight"))

    try:
        keys = [(name, key_of(value)) for name, value in arguments.items() if name != "input"]
    except NoKey:
        plan = new_plan()
    else:
        plan = call.view.cached((forms.op, image.dims, image.dtype, image.device, *keys), new_plan)
    result = compute(call, forms.op, forms.split, arguments, plan)
    call.operators.append((forms, plan, arguments, result))
    return result


def _torch_conv(call: ShardedCall, axes: int, conv: Callable[..., Tensor], arguments: Arguments) -> Sharded:
    """A convolution by torch, on concatenated rows."""
    image = arguments["input"]
    _on_meta(conv, arguments, image)  # torch checks the arguments first
    footprints = footprints_by_dim(getattr(torch.ops.torch_conv, f"conv{axes}d"), arguments, image, axes)
    plan = plan_of(call.name, call.view, image, axes, footprints, arguments["weight"])
    return compute(call, conv, None, arguments, plan)


def compute(
    call: ShardedCall,
    op: Callable[..., Tensor],
    split: Callable[..., list[Tensor]] | None,
    arguments: Arguments,
    plan: RankPlan,
) -> Sharded:
    """The operator on this rank's part."""
    rest = dict(arguments)
    image = rest.pop("input")
    rest = plan.cut_kernels(image, rest) if plan.weight is None else _cut_groups(call.name, image, rest, plan.axes)
    call.check.agree(image.device)

    result = outputs_of(op, split, image.local, rest, plan)
    if result is not None:
        sharded = Sharded(result, plan.result_dims(image, result.shape), call)
    else:
        whole = _on_meta(op, arguments, image)
        sharded = Sharded(image.local, plan.result_dims(image, whole.shape), call)
        sharded.local = torch.empty(sharded.local_shape, dtype=whole.dtype, device=image.device)
    return sharded if plan.weight is None else _by_chunks(sharded)


def _by_chunks(image: Sharded) -> Sharded:
    """Moves output channels of a convolution between ranks, so that each rank holds its chunk (torch.chunk)."""
    dims, local = list(image.dims), image.local
    for i, dim in enumerate(dims):
        for axis in dim:
            chunked = axis.of_size(axis.size)
            if axis.is_cut and chunked.bounds != axis.bounds:
                local, dims[i] = _fetched(image.call.view, local, i, axis, chunked), (chunked,)
    return Sharded(local, dims, image.call)


def _pad(
    call: ShardedCall, input: Sharded, pad: list[int], mode: str = "constant", value: float | None = None
) -> Sharded:
    """F.pad. Along a cut dimension, other ranks send the rows outside the shard."""
    image = input
    shape = list(F.pad(torch.empty(image.shape, device="meta"), pad, mode, value).shape)
    call.check.agree(image.device)
    dims, local, rest = list(image.dims), image.local, list(pad)
    for i in range(len(pad) // 2):
        dim, before = image.dim() - 1 - i, pad[2 * i]
        axis = image.cut(dim)
        if axis is None:
            dims[dim] = (axis_of(image.dims[dim]).of_size(shape[dim]),)
            continue
        padded, rest[2 * i : 2 * i + 2] = axis.of_size(shape[dim]), [0, 0]
        local, dims[dim] = _fetched(call.view, local, dim, axis, padded, before, mode, value or 0.0), (padded,)
    if any(rest) and local.numel():
        local = F.pad(local, rest, mode, value)
    padded_image = Sharded(local, dims, call)
    return Sharded(local.reshape(padded_image.local_shape), dims, call)


def _fetched(
    view: MeshView,
    local: Tensor,
    dim: int,
    axis: Axis,
    target: Axis,
    before: int = 0,
    border: str = "constant",
    value: float = 0.0,
) -> Tensor:
    """This rank's rows of `target`, an axis that begins `before` rows before `axis` and is cut in its own way."""

    def wants() -> list[list[Run]]:
        return [runs_of(low - before, high - before, axis.bounds, border) for low, high in pairwise(target.bounds)]

    runs, parts = fetch(local, dim, view, axis.mesh_dim, (axis.bounds, target.bounds, before, border), wants)
    return assembled(local, dim, runs, parts, value)


def _by_name(names: list[str], args: tuple[Any, ...], kwargs: Arguments) -> Arguments:
    return dict(zip(names, args, strict=False)) | kwargs


def _on_meta(op: Callable[..., Tensor], arguments: Arguments, image: Sharded) -> Tensor:
    """The result for the whole image, on the meta device."""

    def meta(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [meta(part) for part in value]
        return value.to("meta") if isinstance(value, Tensor) else value

    whole = torch.empty(image.shape, dtype=image.dtype, device="meta")
    return op(**{**{name: meta(value) for name, value in arguments.items()}, "input": whole})


def _cut_groups(name: str, image: Sharded, rest: Arguments, axes: int) -> Arguments:
    """A convolution's weight, bias and groups for this rank's channels."""
    dim = image.dim() - axes - 1
    axis = image.cut(dim)
    if axis is None:
        return rest
    weight, groups = rest["weight"], rest.get("groups", 1)
    width = weight.size(1)  # channels in a group
    if any(bound % width for bound in axis.bounds):
        raise ValueError(
            f"{name}: input must not be sharded within its groups of {width} channels, got a shard of {axis.local_size}"
        )
    low, high = (bound // width for bound in axis.held)
    outputs = weight.size(0) // groups
    changed = {**rest, "weight": weight.narrow(0, low * outputs, (high - low) * outputs), "groups": high - low}
    if rest.get("bias") is not None:
        changed["bias"] = rest["bias"].narrow(0, low * outputs, (high - low) * outputs)
    return changed
