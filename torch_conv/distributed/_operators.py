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
from typing import Any

import torch
import torch.nn.functional as F
from torch import _C, Tensor
from torch._ops import OpOverload, OpOverloadPacket
from torch.distributed.tensor import DTensor

from torch_conv.dispatch.operators import Arguments
from torch_conv.dispatch.tangents import in_forward_mode
from torch_conv.distributed._cached_call import CachedCall, is_on_gpu
from torch_conv.distributed._errors import ExchangeError, RankError
from torch_conv.distributed._exchange import Exchange, assembled, fetch
from torch_conv.distributed._mesh_view import MeshView, NoKey, key_of
from torch_conv.distributed._outputs import outputs_of
from torch_conv.distributed._plan import Halo, OperatorForms, RankPlan, axis_of, footprints_by_dim, forms_of
from torch_conv.distributed._sharded import Axis, Sharded, dtensor_of, parts_of, spec_of
from torch_conv.distributed._strips import Strips
from torch_conv.distributed._verify import Check, verify
from torch_conv.functional._calls import below_autograd
from torch_conv.sharding.geometry import Footprint, Run, piece_for, runs_of

_BY_TORCH = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}


class ShardedCall:
    """One call of a function on a DTensor, and its operators."""

    def __init__(self, name: str, view: MeshView) -> None:
        self.name, self.view = name, view
        self.check = Check(name, view, verify.on)
        self.error: RankError | None = None
        self._key: Any = None  # equal for calls whose checks give equal results
        self._cached_call: CachedCall | None = None  # of an earlier call with this key
        self._only_plan: RankPlan | None = None  # of a cached call, which has one operator
        self._values: tuple[Any, ...] = ()  # the arguments but for the image
        self._operators: list[tuple[OperatorForms, RankPlan, Arguments, Sharded]] = []  # with their results

    def run_cached(self, image: DTensor, args: tuple[Any, ...], kwargs: Arguments) -> DTensor | None:
        """The result of a cached call, or None if there is none.

        The key of a call holds the bytes of kernels on the CPU (1 us). A version counter of torch
        would miss writes by numpy or through `data`. Calls that the ranks compare are not taken from the cache.
        """
        self._values = values = (*args, *kwargs.values())
        parts = parts_of(image)
        if parts is None or _C._is_any_autocast_enabled():  # autocast changes the checked dtypes
            return None
        if in_forward_mode() or _C._are_functorch_transforms_active():
            return None
        local, spec = parts
        shard = (local.shape, local.stride(), local.dtype, local.device, torch.get_default_dtype())
        try:
            # The spec holds mesh, placements, shape and strides. Images that share one spec compare in 0.1 us, images
            # with equal specs in 2 us.
            key = (self.name, spec, shard, tuple(kwargs), *map(key_of, values))
        except NoKey:
            return None
        self._key = key
        self._cached_call = cached = self.view.cache.get(key)
        if cached is None or cached.spec is None or self.check.is_open:
            return None
        if _C.is_grad_enabled() and _C._any_requires_grad(image, *values):
            return None
        forms, self._only_plan = cached.forms, cached.plan
        rest = cached.plan.apply_cuts(cached.arguments(values))
        launches = cached.cached_launches
        result = below_autograd(launches.run, local, values) if launches is not None else None
        if result is None:
            result = below_autograd(outputs_of, forms.op, forms.split, local, rest, cached.plan)
            assert result is not None  # because the call has a spec
            cached.cache_launches(local, rest)
        return dtensor_of(result, cached.spec)

    def describe(self, image: DTensor, local: Tensor, arguments: Arguments) -> None:
        """Describes the call for the comparison between ranks."""
        self.check.describe(arguments, (image.shape, image.dtype, image.placements, local.device.type))
        if is_on_gpu(arguments.get("sigma")):  # the function checks values that the key does not hold
            self._key = self._cached_call = None

    def agree(self, device: torch.device) -> None:
        """Compares the call between ranks, after all checks and before all exchanges."""
        if self.error:  # a function may catch the error and try other dtypes
            raise self.error
        try:
            self.check.agree(device)
        except RankError as error:
            self.error = error
            raise

    def fail(self, error: BaseException) -> None:
        """Ends this rank's call with an error.

        Other ranks do not wait for this rank once its comparison and its last exchange have succeeded.
        """
        plan = self._only_plan
        is_over = plan is not None and not plan.cuts_channels and all(halo.exchange.is_over for halo in plan.halos)
        if not is_over or self.check.is_open or isinstance(error, ExchangeError):
            self.check.fail(error)

    def cache_spec(self, local: Tensor, result: DTensor) -> None:
        """Caches the result's spec, if this rank has a part of image and result."""
        cached = self._cached_call
        if cached is None or cached.spec is not None or cached.plan.cuts_channels:
            return
        if local.numel() > 0 and result.to_local().numel() > 0:
            cached.spec = spec_of(result)

    def run_cached_plan(self, whole: Sharded) -> Sharded | None:
        """The result by the cached call's operator and plan, or None if no call is cached."""
        cached = self._cached_call
        if cached is None:
            return None
        self._only_plan = cached.plan
        arguments = cached.arguments(self._values) | {"input": whole}
        return below_autograd(self._compute, cached.forms.op, cached.forms.split, arguments, cached.plan)

    def cache_call(self, whole: Sharded, result: Any) -> None:
        """Caches the call if it consists of one operator on the image."""
        operators, self._operators = self._operators, []  # the results refer to this object
        if self._key is None or len(operators) != 1:
            return
        ((forms, plan, arguments, operator_result),) = operators
        rest = dict(arguments)
        if rest.pop("input") is whole and operator_result is result:
            self._cached_call = CachedCall.of(forms, plan, rest, self._values)
            if self._cached_call:
                self.view.store(self._key, self._cached_call)

    def run(self, func: Any, args: tuple[Any, ...], kwargs: Arguments) -> Sharded:
        """Runs an operator of torch_conv, a convolution of torch, or F.pad."""
        if isinstance(func, (OpOverload, OpOverloadPacket)):
            forms = forms_of(func)
            return self._operator(forms, _by_name(forms.names, args, kwargs))
        if func in _BY_TORCH:
            names = ["input", "weight", "bias", "stride", "padding", "dilation", "groups"]
            return self._torch_conv(_BY_TORCH[func], func, _by_name(names, args, kwargs))
        if func is F.pad:
            return self._pad(**_by_name(["input", "pad", "mode", "value"], args, kwargs))
        raise TypeError(f"{self.name}: {getattr(func, '__name__', func)} does not take a DTensor here")

    def _operator(self, forms: OperatorForms, arguments: Arguments) -> Sharded:
        image = arguments["input"]
        if not isinstance(image, Sharded):
            raise TypeError(f"{self.name}: input must be of type DTensor, got {type(image).__name__}")

        def new_plan() -> RankPlan:
            footprints = footprints_by_dim(forms.op, arguments, image, forms.axes)
            return self._plan(image, forms.axes, footprints, arguments.get("weight"))

        try:
            keys = [(name, key_of(value)) for name, value in arguments.items() if name != "input"]
        except NoKey:
            plan = new_plan()
        else:
            plan = self.view.cached((forms.op, image.dims, image.dtype, image.device, *keys), new_plan)
        result = self._compute(forms.op, forms.split, arguments, plan)
        self._operators.append((forms, plan, arguments, result))
        return result

    def _torch_conv(self, axes: int, conv: Callable[..., Tensor], arguments: Arguments) -> Sharded:
        """A convolution by torch, on concatenated rows."""
        image = arguments["input"]
        _on_meta(conv, arguments, image)  # torch checks the arguments first
        footprints = footprints_by_dim(getattr(torch.ops.torch_conv, f"conv{axes}d"), arguments, image, axes)
        return self._compute(conv, None, arguments, self._plan(image, axes, footprints, arguments["weight"]))

    def _plan(self, image: Sharded, axes: int, footprints: dict[int, Footprint], weight: Tensor | None) -> RankPlan:
        """`weight` is given for a convolution, which has output channels of its own."""
        halos = [dim for dim in footprints if image.cut(dim) and not footprints[dim].is_trivial(image.shape[dim])]
        if any(len([axis for axis in image.dims[dim] if axis.size != 1]) > 1 for dim in halos):
            raise ValueError(f"{self.name}: a window must not reach along merged dimensions of a DTensor")
        cuts_channels = weight is not None and image.cut(image.dim() - axes - 1) is not None
        all_halos = [self._halo(image, dim, footprints[dim]) for dim in sorted(halos)]
        return RankPlan(axes, footprints, weight, all_halos, cuts_channels)

    def _halo(self, image: Sharded, dim: int, footprint: Footprint) -> Halo:
        axis = image.cut(dim)
        assert axis is not None
        outs = axis.of_size(footprint.out).bounds
        pieces = [
            piece_for(outs[i], outs[i + 1], axis.size, footprint, axis.bounds[i : i + 2]) for i in range(len(outs) - 1)
        ]
        wants = [[run for low, high in p.rows for run in runs_of(low, high, axis.bounds)] for p in pieces]
        exchange = Exchange(wants, self.view, axis.mesh_dim)
        strips = Strips.of(axis.size, axis.held, footprint, axis.bounds, exchange.runs)
        return Halo(dim, pieces[axis.mine], exchange, strips)

    def _compute(
        self, op: Callable[..., Tensor], split: Callable[..., list[Tensor]] | None, arguments: Arguments, plan: RankPlan
    ) -> Sharded:
        """The operator on this rank's part."""
        rest = dict(arguments)
        image = rest.pop("input")
        rest = plan.cut_kernels(image, rest) if plan.weight is None else _cut_groups(self.name, image, rest, plan.axes)
        self.agree(image.device)

        result = outputs_of(op, split, image.local, rest, plan)
        if result is not None:
            sharded = Sharded(result, plan.result_dims(image, result.shape), self)
        else:
            whole = _on_meta(op, arguments, image)
            sharded = Sharded(image.local, plan.result_dims(image, whole.shape), self)
            sharded.local = torch.empty(sharded.local_shape, dtype=whole.dtype, device=image.device)
        return sharded if plan.weight is None else self._by_chunks(sharded)

    def _by_chunks(self, image: Sharded) -> Sharded:
        """Moves output channels of a convolution between ranks, so that each rank holds its chunk (torch.chunk)."""
        dims, local = list(image.dims), image.local
        for i, dim in enumerate(dims):
            for axis in dim:
                chunked = axis.of_size(axis.size)
                if axis.is_cut and chunked.bounds != axis.bounds:
                    local, dims[i] = self._fetched(local, i, axis, chunked), (chunked,)
        return Sharded(local, dims, self)

    def _pad(self, input: Sharded, pad: list[int], mode: str = "constant", value: float | None = None) -> Sharded:
        """F.pad. Along a cut dimension, other ranks send the rows outside the shard."""
        image = input
        shape = list(F.pad(torch.empty(image.shape, device="meta"), pad, mode, value).shape)
        self.agree(image.device)
        dims, local, rest = list(image.dims), image.local, list(pad)
        for i in range(len(pad) // 2):
            dim, before = image.dim() - 1 - i, pad[2 * i]
            axis = image.cut(dim)
            if axis is None:
                dims[dim] = (axis_of(image.dims[dim]).of_size(shape[dim]),)
                continue
            padded, rest[2 * i : 2 * i + 2] = axis.of_size(shape[dim]), [0, 0]
            local, dims[dim] = self._fetched(local, dim, axis, padded, before, mode, value or 0.0), (padded,)
        if any(rest) and local.numel():
            local = F.pad(local, rest, mode, value)
        padded_image = Sharded(local, dims, self)
        return Sharded(local.reshape(padded_image.local_shape), dims, self)

    def _fetched(
        self,
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

        runs, parts = fetch(local, dim, self.view, axis.mesh_dim, (axis.bounds, target.bounds, before, border), wants)
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
