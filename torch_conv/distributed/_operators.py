"""An operator on a sharded image: each rank fetches the rows that its own outputs need, and computes those.

    rank 1 of 3        rows before | its own rows | rows behind       fetched from whoever holds them
                       [ s0 ]        [ s1, a view ] [ s2 ]
    X_split([s0, s1, s2], ..., dim=dim, wanted=[1])                   nothing is padded or put together

Where two spatial axes are cut, the later one is put together first (with the neighbour ranks' rows), so that the
exchange along the other one brings the corners along; what was computed too much is left out.
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

from torch_conv._arguments import per_axis
from torch_conv._tangents import in_forward_mode
from torch_conv.distributed._cached_call import CachedCall, is_on_gpu
from torch_conv.distributed._errors import RankError
from torch_conv.distributed._exchange import Exchange, assembled, fetch
from torch_conv.distributed._mesh_view import MeshView, Unknown, key_of
from torch_conv.distributed._outputs import outputs_of
from torch_conv.distributed._plan import Given, Halo, Operator, Plan, axis_of, operator_of, probe
from torch_conv.distributed._sharded import Axis, Sharded, of_spec, parts_of, spec_of
from torch_conv.distributed._strips import Strips
from torch_conv.distributed._verify import Check, verify
from torch_conv.functional._calls import below_autograd
from torch_conv.functional._convolve import pads_of
from torch_conv.sharding.geometry import Footprint, Run, piece_for, runs_of

_BY_TORCH = {torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}


class Call:
    """One call of a function: what its operators share."""

    def __init__(self, name: str, view: MeshView) -> None:
        self.name, self.view = name, view
        self.check = Check(name, view, verify.on)
        self.error: RankError | None = None
        self._key: Any = None  # of calls like it, where its checks depend on nothing but what is described
        self._cached_call: CachedCall | None = None  # of an earlier call like it
        self._only_plan: Plan | None = None  # of a cached call, which has one operator
        self._values: tuple[Any, ...] = ()  # of its arguments but for the image
        self._operators: list[tuple[Operator, Plan, Given, Sharded]] = []  # that were run, and their results

    def run_cached(self, image: DTensor, args: tuple[Any, ...], kwargs: Given) -> DTensor | None:
        """The result of a call like an earlier one, where its DTensor is known but for this rank's part of it.

        Calls are alike if this rank's checks find the same: windows on the CPU are compared by their bytes (1 us), for
        torch's count of versions misses what numpy writes, or what is written through `data`. Calls that the ranks
        compare take the long way.
        """
        self._values = values = (*args, *kwargs.values())
        parts = parts_of(image)
        if parts is None or _C._is_any_autocast_enabled():  # which changes what is checked
            return None  # with nothing known of it, for `run_cached_plan` either
        if in_forward_mode() or _C._are_functorch_transforms_active():
            return None
        local, spec = parts
        own = (local.shape, local.stride(), local.dtype, local.device, torch.get_default_dtype())
        try:
            # The spec is mesh, placements, shape and strides. Images that share one share its hash, and nothing
            # else of it is compared (0.1 us); an equal one that was made anew takes 2 us.
            key = (self.name, spec, own, tuple(kwargs), *map(key_of, values))
        except Unknown:
            return None
        self._key = key
        self._cached_call = cached = self.view.cache.get(key)
        if cached is None or cached.spec is None or self.check.is_open:
            return None
        if _C.is_grad_enabled() and _C._any_requires_grad(image, *values):
            return None
        operator, plan = cached.operator, cached.plan
        self._only_plan = plan
        rest = plan.apply_cuts(cached.arguments(values))
        result = (
            below_autograd(cached.cached_launches.run, local, values) if cached.cached_launches is not None else None
        )
        if result is None:
            result = below_autograd(outputs_of, operator.op, operator.split, local, rest, plan)
            assert result is not None  # or there would be no spec
            cached.cache_launches(local, rest)
        return of_spec(result, cached.spec)

    def describe(self, image: DTensor, local: Tensor, arguments: Given) -> None:
        """What the ranks compare."""
        self.check.describe(arguments, (image.shape, image.dtype, image.placements, local.device.type))
        if is_on_gpu(arguments.get("sigma")):  # of what lies there, only these values are checked
            self._key = self._cached_call = None

    def agree(self, device: torch.device) -> None:
        """Before anything is exchanged; what can be refused has been checked."""
        if self.error:  # a function that tries again with other types
            raise self.error
        try:
            self.check.agree(device)
        except RankError as error:
            self.error = error
            raise

    def fail(self, error: BaseException) -> None:
        """This rank's call ends with an error. The other ranks need nothing more of a call whose exchanges are over."""
        plan = self._only_plan
        if plan is None or plan.cuts_channels or not all(halo.exchange.is_over for halo in plan.halos):
            self.check.fail(error)

    def cache_spec(self, local: Tensor, made: DTensor) -> None:
        """What such calls' results are, for `run_cached`: where this rank has something of image and result."""
        cached = self._cached_call
        if cached is None or cached.spec is not None or cached.plan.cuts_channels:
            return
        if local.numel() > 0 and made.to_local().numel() > 0:
            cached.spec = spec_of(made)

    def run_cached_plan(self, whole: Sharded) -> Sharded | None:
        """The result by the cached call, None where this call has none."""
        cached = self._cached_call
        if cached is None:
            return None
        self._only_plan = cached.plan
        arguments = cached.arguments(self._values) | {"input": whole}
        return below_autograd(self._compute, cached.operator.op, cached.operator.split, arguments, cached.plan)

    def cache_call(self, whole: Sharded, result: Any) -> None:
        """Caches the call if it made one operator, on the image itself."""
        operators, self._operators = self._operators, []  # which hold this call
        if self._key is None or len(operators) != 1:
            return
        ((operator, plan, arguments, made),) = operators
        rest = dict(arguments)
        if rest.pop("input") is whole and made is result:
            self._cached_call = CachedCall.of(operator, plan, rest, self._values)
            if self._cached_call:
                self.view.store(self._key, self._cached_call)

    def run(self, func: Any, args: tuple[Any, ...], kwargs: Given) -> Sharded:
        if isinstance(func, (OpOverload, OpOverloadPacket)):
            operator = operator_of(func)
            return self._operator(operator, _given(operator.names, args, kwargs))
        if func in _BY_TORCH:
            names = ["input", "weight", "bias", "stride", "padding", "dilation", "groups"]
            return self._torch_conv(_BY_TORCH[func], func, _given(names, args, kwargs))
        if func is F.pad:
            return self._pad(**_given(["input", "pad", "mode", "value"], args, kwargs))
        raise TypeError(f"{self.name}: {getattr(func, '__name__', func)} does not take a DTensor here")

    def _operator(self, operator: Operator, given: Given) -> Sharded:
        image = given["input"]
        if not isinstance(image, Sharded):
            raise TypeError(f"{self.name}: input must be of type DTensor, got {type(image).__name__}")
        rest = {key: value for key, value in given.items() if key != "input"}
        weight = rest.get("weight")
        try:
            arguments = [(name, key_of(value)) for name, value in rest.items()]
            key = (operator.op, image.dims, image.dtype, image.device, *arguments)
        except Unknown:
            plan = self._plan(image, operator.axes, probe(operator.op, given, image, operator.axes), weight)
        else:
            plan = self.view.cached(
                key, lambda: self._plan(image, operator.axes, probe(operator.op, given, image, operator.axes), weight)
            )
        result = self._compute(operator.op, operator.split, given, plan)
        self._operators.append((operator, plan, given, result))
        return result

    def _torch_conv(self, axes: int, conv: Callable[..., Tensor], given: Given) -> Sharded:
        """What is handed to torch, with the rows put together."""
        image, weight = given["input"], given["weight"]
        checked = _on_meta(conv, given, image)
        numbers = {"stride": 1, "dilation": 1, "padding": 0} | given
        stride, dilation = (per_axis(numbers[name], axes) for name in ("stride", "dilation"))
        padding = numbers["padding"] if isinstance(numbers["padding"], str) else per_axis(numbers["padding"], axes)
        pads = pads_of(weight, padding, dilation)[::-1]  # after, before; the first axis first
        footprints = {}
        for i in range(axes):
            length = (weight.size(i + 2) - 1) * dilation[i] + 1
            footprints[i - axes] = Footprint(pads[2 * i + 1], length, stride[i], 0, checked[i - axes])
        return self._compute(conv, None, given, self._plan(image, axes, footprints, weight))

    def _plan(self, image: Sharded, axes: int, footprints: dict[int, Footprint], weight: Tensor | None) -> Plan:
        """`weight` where the operator is a convolution, which has channels of its own."""
        halos = [dim for dim in footprints if image.cut(dim) and not footprints[dim].is_trivial(image.shape[dim])]
        if any(len([axis for axis in image.dims[dim] if axis.size != 1]) > 1 for dim in halos):
            raise ValueError(f"{self.name}: a window must not reach along merged dimensions of a DTensor")
        cuts_channels = weight is not None and image.cut(image.dim() - axes - 1) is not None
        all_halos = [self._halo(image, dim, footprints[dim]) for dim in sorted(halos)]
        return Plan(axes, footprints, weight, all_halos, cuts_channels)

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
        self, op: Callable[..., Tensor], split: Callable[..., list[Tensor]] | None, given: Given, plan: Plan
    ) -> Sharded:
        """The operator on this rank's part."""
        rest = dict(given)
        image = rest.pop("input")
        rest = plan.cut_windows(image, rest) if plan.weight is None else _cut_groups(self.name, image, rest, plan.axes)
        self.agree(image.device)

        result = outputs_of(op, split, image.local, rest, plan)
        if result is not None:
            sharded = Sharded(result, plan.result_dims(image, result.shape), self)
        else:
            sharded = Sharded(image.local, plan.result_dims(image, _on_meta(op, given, image)), self)
            dtype = _on_meta(op, given, image, of="dtype")
            sharded.local = torch.empty(sharded.local_shape, dtype=dtype, device=image.device)
        return sharded if plan.weight is None else self._by_chunks(sharded)

    def _by_chunks(self, image: Sharded) -> Sharded:
        """Channels that a convolution made of cut ones, divided over the ranks as torch.chunk divides."""
        dims, local = list(image.dims), image.local
        for i, dim in enumerate(dims):
            for axis in dim:
                wanted = axis.of_size(axis.size)
                if axis.is_cut and wanted.bounds != axis.bounds:
                    runs, parts = fetch(
                        local, i, self.view, axis.mesh_dim, (axis.bounds, wanted.bounds),
                        lambda axis=axis, wanted=wanted: _wants(axis, wanted),  # type: ignore[misc]
                    )  # fmt: skip
                    local = assembled(local, i, runs, parts, 0.0)
                    dims[i] = (wanted,)
        return Sharded(local, dims, self)

    def _pad(self, input: Sharded, pad: list[int], mode: str = "constant", value: float | None = None) -> Sharded:
        """F.pad: along a cut dimension, rows outside the shard come from other ranks."""
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
            runs, parts = fetch(
                local, dim, self.view, axis.mesh_dim, (axis.bounds, padded.bounds, before, mode),
                lambda axis=axis, padded=padded, before=before: _wants(axis, padded, before, mode),  # type: ignore[misc]
            )  # fmt: skip
            local, dims[dim] = assembled(local, dim, runs, parts, value or 0.0), (padded,)
        if any(rest) and local.numel():
            local = F.pad(local, rest, mode, value)
        padded_image = Sharded(local, dims, self)
        return Sharded(local.reshape(padded_image.local_shape), dims, self)


def _wants(axis: Axis, wanted: Axis, before: int = 0, border: str = "constant") -> list[list[Run]]:
    """What every rank wants of an axis to hold another one, which starts `before` rows before it."""
    bounds = list(axis.bounds)
    return [runs_of(low - before, high - before, bounds, border) for low, high in pairwise(wanted.bounds)]


def _given(names: list[str], args: tuple[Any, ...], kwargs: Given) -> Given:
    return dict(zip(names, args, strict=False)) | kwargs


def _on_meta(op: Callable[..., Tensor], given: Given, image: Sharded, of: str = "shape") -> Any:
    """The shape, or the dtype, of the result for the whole image."""

    def meta(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [meta(part) for part in value]
        return value.to("meta") if isinstance(value, Tensor) else value

    whole = torch.empty(image.shape, dtype=image.dtype, device="meta")
    result = op(**{**{key: meta(value) for key, value in given.items()}, "input": whole})
    return list(result.shape) if of == "shape" else result.dtype


def _cut_groups(name: str, image: Sharded, rest: Given, axes: int) -> Given:
    """The groups of a convolution that this rank's channels make."""
    dim = image.dim() - axes - 1
    axis = image.cut(dim)
    if axis is None:
        return rest
    weight, groups = rest["weight"], rest.get("groups", 1)
    width = weight.size(1)  # channels of a group
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
