"""Operators called with a SplitTensor: X on the whole becomes X_split on its shards."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import _C, Tensor
from torch._ops import OpOverload, OpOverloadPacket

from torch_conv._explain import recording

if TYPE_CHECKING:
    from torch_conv.split import SplitTensor

# What `_C._AutoDispatchBelowAutograd` leaves out of dispatch.
_outside = _C._dispatch_tls_local_exclude_set()
with _C._AutoDispatchBelowAutograd():
    _AUTOGRAD = _C._dispatch_tls_local_exclude_set() - _outside


def torch_function(kind: type[SplitTensor], func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What torch hands over when it meets a SplitTensor among the arguments of `func`."""
    name, names, of_shards = _known(func)
    if of_shards is None:
        raise RuntimeError(name) if names else TypeError(name)
    if args:
        whole, rest = args[0], args[1:]
    else:
        whole, rest = kwargs[names[0]], ()
        kwargs = {key: value for key, value in kwargs.items() if key != names[0]}
    if type(whole) is not kind or any(_has_one(kind, value) for value in (*rest, *kwargs.values())):
        given = [*zip(names[1:], rest, strict=False), *kwargs.items()]
        wrong = next(key for key, value in given if _has_one(kind, value))
        raise RuntimeError(f"{name}: {wrong} must be of type Tensor, got SplitTensor")
    with gradients_of(whole):
        return _run(func, of_shards, whole, rest, kwargs)


def _has_one(kind: type[SplitTensor], value: Any) -> bool:
    return type(value) is kind or (isinstance(value, (list, tuple)) and any(type(v) is kind for v in value))


@functools.cache
def _known(func: Any) -> tuple[str, tuple[str, ...], Callable[..., list[Tensor]] | None]:
    """An operator's name, the names of its arguments, and its form of shards; or a sentence, and None."""
    if not isinstance(func, (OpOverload, OpOverloadPacket)):
        return _refusal(torch.overrides.resolve_name(func) or getattr(func, "__name__", str(func))), (), None
    packet = func if isinstance(func, OpOverloadPacket) else func.overloadpacket
    overload = func if isinstance(func, OpOverload) else getattr(packet, packet.overloads()[0])
    library, name = packet._qualified_op_name.split("::")
    names = tuple(argument.name for argument in overload._schema.arguments)
    if library == "torch_conv" and name.endswith("_out"):
        return f"{name.removesuffix('_out')}: out is not taken with a SplitTensor", names, None
    if library != "torch_conv" or not hasattr(torch.ops.torch_conv, name + "_split"):
        return _refusal(f"torch.ops.{library}.{name}"), (), None
    of_shards = getattr(torch.ops.torch_conv, name + "_split")
    return name, names, getattr(of_shards, func._overloadname) if isinstance(func, OpOverload) else of_shards


def _refusal(name: str) -> str:
    return f"{name}: a SplitTensor is not taken; give it .gather() or, one by one, .shards"


def gradients_of(*wholes: SplitTensor) -> Any:
    """Lets autograd see what requires a gradient.

    The functions skip the autograd keys where no tensor among the arguments does, and they do not look at shards.
    """
    if not (_C.is_grad_enabled() and any(whole.requires_grad for whole in wholes)):
        return nullcontext()
    return _C._ForceDispatchKeyGuard(
        _C._dispatch_tls_local_include_set(), _C._dispatch_tls_local_exclude_set() - _AUTOGRAD
    )


def _run(
    func: Any, of_shards: Callable[..., list[Tensor]], whole: SplitTensor, args: Sequence[Any], kwargs: dict[str, Any]
) -> SplitTensor:
    dim, dims = whole.spec.dim, whole.dim()
    if not whole._arriving() or recording():
        shards = of_shards(whole.shards, *args, dim=dim, **kwargs)
        return whole._like(shards, _dim_after(dim, dims, shards[0].dim()))
    # Shard by shard, each behind the arrival of what it reads; together at last those that read other devices' rows,
    # because those devices' streams wait for one another.
    read = shards_read(func, whole, args, kwargs)
    devices = whole.spec.devices
    across = [i for i in whole._turns if any(devices[j] != devices[i] for j in read[i])]
    groups = [[i] for i in whole._turns if i not in across] + ([across] if across else [])
    results: dict[int, tuple[Tensor, torch.cuda.Event]] = {}
    for group in groups:
        for i in group:
            for j in read[i]:
                whole._wait_for(j, devices[i], devices[j])  # a neighbour's rows may be copied by its own device
        made = of_shards(whole._shards, *args, dim=dim, wanted=group, **kwargs)
        for i, shard in zip(group, made, strict=True):
            results[i] = shard, torch.cuda.current_stream(devices[i]).record_event()
    shards = [results[i][0] for i in range(len(devices))]
    ready = [results[i][1] for i in range(len(devices))]
    return whole._like(shards, _dim_after(dim, dims, shards[0].dim()), ready, [i for group in groups for i in group])


def _dim_after(dim: int, dims: int, dims_after: int) -> int:
    """Dimensions that an operator adds stand before the two of its images; those before them keep their place."""
    return dim if dims == dims_after or dim >= -2 else dim - (dims_after - dims)


_AXES = re.compile("([123])d")
_SKIPPING = (0, 5, 6)  # constant, skip, zero_output: nothing is read outside
_REPLICATE, _CIRCULAR = 1, 4


def shards_read(func: Any, whole: SplitTensor, args: Sequence[Any], kwargs: dict[str, Any]) -> list[list[int]]:
    """For every shard of the result of `func` the shards of `whole` whose rows it is made of."""
    sizes, dim = whole.spec.sizes, whole.spec.dim
    axes = _AXES.search(str(func))
    assert axes is not None
    if -dim > int(axes.group(1)):
        return [[i] for i in range(len(sizes))]
    torch.ops.torch_conv._reach_begin()
    try:
        func(whole._shards[0].detach().new_empty(1).expand(whole.shape), *args, **kwargs)
    finally:
        reach = torch.ops.torch_conv._reach_end()
    pad, length, stride, middle, out = reach[5 * (3 + dim) : 5 * (4 + dim)]
    border, n = reach[15], sum(sizes)
    begins = [sum(sizes[:i]) for i in range(len(sizes))]

    def first_at(row: int) -> int:
        """The first output that lies on this row or behind it; the image's ends take what lies beyond them."""
        if row in (0, n):
            return 0 if row == 0 else out
        return min(max(-((middle - row) // stride), 0), out)

    read = []
    for begin, size in zip(begins, sizes, strict=True):
        o, end = first_at(begin), first_at(begin + size)
        spans = [] if size == 0 or o >= end else _rows(o * stride - pad, (end - 1) * stride - pad + length, n, border)
        read.append([j for j, b in enumerate(begins) if any(b < z and a < b + sizes[j] for a, z in spans)])
    return read


def _rows(a: int, z: int, n: int, border: int) -> list[tuple[int, int]]:
    """The rows of an image of n that stand for its rows a to z, which may lie outside."""
    spans = [(max(a, 0), min(z, n))]
    before, after = max(-a, 0), max(z - n, 0)
    if border in _SKIPPING:
        return spans
    if border == _CIRCULAR:
        before, after = after, before
    elif border == _REPLICATE:
        before, after = min(before, 1), min(after, 1)
    else:  # reflected: not the first row, so one more
        before, after = before + (before > 0), after + (after > 0)
    return [*spans, (0, min(before, n)), (max(n - after, 0), n)]
