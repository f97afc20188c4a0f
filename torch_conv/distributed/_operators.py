"""Operators on sharded images: each rank fetches the rows that its outputs read, and computes these outputs.

    rank 1 of 3        rows before | its own rows | rows behind       fetched from the ranks that hold them
                       [ s0 ]        [ s1, a view ] [ s2 ]
    X_split([s0, s1, s2], ..., dim=dim, wanted=[1])                   without padding or concatenation

    large shard     post | operator on the own rows ........... | wait | X_split of thin shards: strips, copied into it
    small shard     post | wait | X_split([above, own, below], wanted=[1])

If two spatial axes are cut, the later one is concatenated first, with its halo. The exchange along the other axis then
carries the corners too, and surplus outputs are dropped.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket

from torch_conv.dispatch.operators import Arguments
from torch_conv.dispatch.remedies import no_dtensor
from torch_conv.distributed._exchange import PendingExchange, assembled, fetch, memory_format, together
from torch_conv.distributed._mesh_view import MeshView, NoKey, key_of
from torch_conv.distributed._plan import Halo, OperatorForms, RankPlan, axis_of, footprints_by_dim, forms_of, plan_of
from torch_conv.distributed._sharded import Axis, Sharded
from torch_conv.distributed._verify import Check, verify
from torch_conv.sharding.geometry import Run, runs_of

_BY_TORCH = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}

# Shards of more bytes are filtered during the exchange, and the strips afterwards by launches of their own. With NCCL
# the interior must keep the GPU busy for longer than the host needs to launch all. On four NVIDIA H100, for 3x3:
#
#     a shard   interior   overlapped   exchange first
#     64 MiB    50 us      759 us       540 us
#     1 GiB     790 us     the GPU never waits for the host
_LARGE = {"cpu": 1 << 20, "cuda": 512 << 20}
_FIXED_ORDER = ("direct", "separable")  # algorithms with the same bits for parts of any size


class OperatorCalls:
    """The operators of one call of a function, and the comparison of this call between ranks."""

    def __init__(self, name: str, view: MeshView) -> None:
        self.name, self.view = name, view
        self.check = Check(name, view, verify.on)
        self.operators: list[tuple[OperatorForms, RankPlan, Arguments, Sharded]] = []  # with their results

    def run(self, func: Any, args: tuple[Any, ...], kwargs: Arguments) -> Sharded:
        """Runs an operator of torch_conv, a convolution of torch, or F.pad."""
        if isinstance(func, (OpOverload, OpOverloadPacket)):
            forms = forms_of(func)
            return _library_operator(self, forms, _by_name(forms.names, args, kwargs))
        if func in _BY_TORCH:
            names = ["input", "weight", "bias", "stride", "padding", "dilation", "groups"]
            return _torch_conv(self, _BY_TORCH[func], func, _by_name(names, args, kwargs))
        if func is F.pad:
            return _pad(self, **_by_name(["input", "pad", "mode", "value"], args, kwargs))
        raise TypeError(f"{self.name}: {getattr(func, '__name__', func)} does not take a DTensor here")


def _library_operator(call: OperatorCalls, forms: OperatorForms, arguments: Arguments) -> Sharded:
    image = arguments["input"]
    if not isinstance(image, Sharded):
        raise no_dtensor(call.name, "input", image)

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


def _torch_conv(call: OperatorCalls, axes: int, conv: Callable[..., Tensor], arguments: Arguments) -> Sharded:
    """A convolution by torch, on concatenated rows."""
    image = arguments["input"]
    _on_meta(conv, arguments, image)  # torch checks the arguments first
    footprints = footprints_by_dim(getattr(torch.ops.torch_conv, f"conv{axes}d"), arguments, image, axes)
    plan = plan_of(call.name, call.view, image, axes, footprints, arguments["weight"])
    return compute(call, conv, None, arguments, plan)


def compute(
    call: OperatorCalls,
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
    call: OperatorCalls, input: Sharded, pad: list[int], mode: str = "constant", value: float | None = None
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


# This rank's outputs of an operator


def outputs_of(
    op: Callable[..., Tensor], split: Callable[..., list[Tensor]] | None, local: Tensor, rest: Arguments, plan: RankPlan
) -> Tensor | None:
    """This rank's part of the result, or None if it has no elements."""
    halo = plan.halos[0] if split and plan.halos else None
    filled = plan.halos if halo is None else plan.halos[1:]  # axes whose halos are concatenated first
    if filled:
        local = _with_halo_rows(local, filled)
    extra = [(other.dim, other.piece.skip, other.piece.count) for other in filled]
    if halo is None:
        return outputs_in(op(local, **rest), extra) if plan.has_outputs and local.numel() else None
    assert split is not None
    pending = halo.exchange.post(local, halo.dim % local.dim(), reuses=True)
    if not filled and halo.strips and not pending.queued and _should_overlap(local, rest, plan):
        return _overlapped(op, split, local, rest, halo, pending)
    extra.append((halo.dim, halo.piece.cut_skip, halo.piece.count))
    parts = [part for part in pending.wait() if part is not None]
    if not plan.has_outputs or not parts[0].numel():  # all parts have rows, so all are empty or none
        return None
    result = together(split(halo.cut(parts), **rest, dim=halo.dim, wanted=halo.wanted), halo.dim)
    return outputs_in(result, extra)


def _with_halo_rows(local: Tensor, halos: list[Halo]) -> Tensor:
    """Concatenates the tensor with its halos, the last axis first."""
    for halo in reversed(halos):
        pending = halo.exchange.post(local, halo.dim % local.dim(), reuses=True)
        parts = [part for part in pending.wait() if part is not None]
        local = together(parts, halo.dim) if parts else local.narrow(halo.dim, 0, 0)
    return local


def outputs_in(result: Tensor, ranges: list[tuple[int, int, int]]) -> Tensor:
    """The outputs in some ranges, each (dimension, first output, number of outputs)."""
    cut = False
    for dim, first, count in ranges:
        if result.shape[dim] != count:
            result, cut = result.narrow(dim, first, count), True
    return _dense(result) if cut else result


@functools.cache
def _least_taps() -> int:
    """The taps of a 2d kernel from which on 'auto' may choose the algorithm by the size of the image."""
    return int(torch.ops.torch_conv._filter2d_least_taps())


def _should_overlap(local: Tensor, rest: Arguments, plan: RankPlan) -> bool:
    """Whether a shard is large, and its outputs have the same bits if parts of it are filtered."""
    if local.numel() * local.element_size() <= _LARGE.get(local.device.type, 0):
        return False
    if rest.get("algorithm") in _FIXED_ORDER:
        return True
    kernel: Any = rest.get("kernel")
    is_large_kernel = plan.axes == 2 and isinstance(kernel, Tensor) and kernel.numel() >= _least_taps()
    return local.dtype in (torch.float32, torch.float64) and not is_large_kernel and plan.weight is None


def _overlapped(
    op: Callable[..., Tensor],
    split: Callable[..., list[Tensor]],
    local: Tensor,
    rest: Arguments,
    halo: Halo,
    pending: PendingExchange,
) -> Tensor:
    """Filters this rank's rows as an image, then overwrites its first and last outputs by the strips."""
    strips, dim = halo.strips, halo.dim
    assert strips is not None
    try:
        result = op(local, **rest)
    finally:  # other ranks send their rows in any case
        parts = pending.wait()
    if not strips.wanted:
        return result
    shards = strips.shards(local, dim, parts)
    for first, strip in zip(strips.firsts, split(shards, **rest, dim=dim, wanted=strips.wanted), strict=True):
        result.narrow(dim, first, strip.shape[dim]).copy_(strip)
    return result


def _dense(t: Tensor) -> Tensor:
    if t.is_contiguous(memory_format=memory_format(t)):
        return t
    if t.dim() in (4, 5) and t.stride(1) == 1 and t.shape[1] > 1:
        return t.contiguous(memory_format=torch.channels_last if t.dim() == 4 else torch.channels_last_3d)
    return t.contiguous()
