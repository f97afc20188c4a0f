"""Operators on a SplitTensor: a call of X becomes a call of X_split on the shards."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any

import torch
from torch import _C, Tensor
from torch._ops import OpOverload, OpOverloadPacket

from torch_conv.dispatch.explain import recording
from torch_conv.sharding.geometry import axes_of, footprints_of

if TYPE_CHECKING:
    from torch_conv.split import SplitTensor

# The dispatch keys that `_C._AutoDispatchBelowAutograd` excludes.
_outside = _C._dispatch_tls_local_exclude_set()
with _C._AutoDispatchBelowAutograd():
    _AUTOGRAD = _C._dispatch_tls_local_exclude_set() - _outside


def torch_function(kind: type[SplitTensor], func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Implements SplitTensor.__torch_function__."""
    name, names, split_form = _split_form(func)
    if split_form is None:
        raise RuntimeError(name) if names else TypeError(name)
    if args:
        whole, rest = args[0], args[1:]
    else:
        whole, rest = kwargs[names[0]], ()
        kwargs = {key: value for key, value in kwargs.items() if key != names[0]}
    if type(whole) is not kind or _contains(kind, rest) or _contains(kind, kwargs.values()):
        given = [*zip(names[1:], rest, strict=False), *kwargs.items()]
        wrong = next(key for key, value in given if _contains(kind, [value]))
        raise RuntimeError(f"{name}: {wrong} must be a torch.Tensor, got SplitTensor")
    for key in _ONLY_IN_SPLIT:
        if key in kwargs and key not in names:
            raise RuntimeError(f"{name}: got an unexpected keyword argument '{key}'")
    with gradients_of(whole):
        return _run(func, split_form, whole, rest, kwargs)


_ONLY_IN_SPLIT = ("dim", "wanted")  # arguments of X_split, not of X


def _contains(kind: type[SplitTensor], values: Iterable[Any]) -> bool:
    for value in values:
        own_kind = type(value)
        if own_kind is kind or ((own_kind is list or own_kind is tuple) and kind in map(type, value)):
            return True
    return False


def of_ready_shards(operator: str) -> Callable[..., SplitTensor | None]:
    """A call of `operator` that skips `torch_function`, for results with as many dimensions as the image.

    It returns None if shards are not ready or a gradient is required. It adds 3 us to the operator's call, and
    `torch_function` 13 us.
    """
    split_form = getattr(torch.ops.torch_conv, operator + "_split").default

    def call(whole: SplitTensor, *rest: Any, **kwargs: Any) -> SplitTensor | None:
        if whole._ready is not None or not _UNSUPPORTED_OPTIONS.isdisjoint(kwargs):
            return None
        if _C.is_grad_enabled() and _C._any_requires_grad(*whole._shards, *rest, **kwargs):
            return None
        dim = kwargs["dim"] = whole._dim
        if torch.is_inference_mode_enabled():  # the guard takes 2 us and has no effect there
            return whole._of(split_form(whole._shards, *rest, **kwargs), dim)
        with _C._AutoDispatchBelowAutograd():
            return whole._of(split_form(whole._shards, *rest, **kwargs), dim)

    return call


_UNSUPPORTED_OPTIONS = frozenset(("out", *_ONLY_IN_SPLIT))


@functools.cache
def _split_form(func: Any) -> tuple[str, tuple[str, ...], Callable[..., list[Tensor]] | None]:
    """An operator's name, its arguments' names and its form on shards; or a refusal, names and None."""
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
    split_form = getattr(torch.ops.torch_conv, name + "_split")
    if isinstance(func, OpOverload):
        return name, names, getattr(split_form, func._overloadname)
    return name, names, split_form.default if split_form.overloads() == ["default"] else split_form


def _refusal(name: str) -> str:
    return f"{name}: a SplitTensor is not taken; give it .gather() or, one by one, .shards"


_NO_GUARD = nullcontext()


def gradients_of(*wholes: SplitTensor) -> Any:
    """Enables the autograd keys if a shard requires a gradient. The functions exclude them without a look at shards."""
    if not (_C.is_grad_enabled() and any(whole.requires_grad for whole in wholes)):
        return _NO_GUARD
    return _C._ForceDispatchKeyGuard(
        _C._dispatch_tls_local_include_set(), _C._dispatch_tls_local_exclude_set() - _AUTOGRAD
    )


def _run(
    func: Any, split_form: Callable[..., list[Tensor]], whole: SplitTensor, args: Sequence[Any], kwargs: dict[str, Any]
) -> SplitTensor:
    dim, dims = whole._dim, whole.dim()
    if whole._ready is None or recording() or not whole._ready.arriving():
        shards = split_form(whole.shards, *args, dim=dim, **kwargs)
        return whole._of(shards, _dim_after(dim, dims, shards[0].dim()))
    read = shards_read(func, whole, args, kwargs)
    devices, arrivals = whole.spec.devices, Arrivals(whole._shards, whole._ready)
    results: dict[int, tuple[Tensor, torch.cuda.Event]] = {}
    for group in groups_of(whole._turns, devices, read, arrivals.over):
        # Here the current stream of a read shard's device waits for the shard. In the operator, a stream that reads
        # another device's rows waits for that device's current stream, which then waits for the reading stream.
        for j in dict.fromkeys(j for i in group for j in read[i]):
            arrivals.wait(j)
        shards = split_form(whole._shards, *args, dim=dim, wanted=group, **kwargs)
        done = {device: arrivals.stream(device).record_event() for device in {devices[i] for i in group}}
        results.update((i, (shard, done[devices[i]])) for i, shard in zip(group, shards, strict=True))
    shards = [results[i][0] for i in range(len(devices))]
    ready = Ready.of([results[i][1] for i in range(len(devices))])
    return whole._of(shards, _dim_after(dim, dims, shards[0].dim()), ready, results)


class Ready:
    """For each shard, the event behind its copy or its kernel; None for a shard that is ready on the current stream.

    Views of the shards share this object. It remembers that all events have completed, because a capture can neither
    query events nor wait for them.
    """

    def __init__(self, events: Sequence[torch.cuda.Event | None]) -> None:
        self.events = tuple(events)
        self._arrived = False

    @classmethod
    def of(cls, events: Sequence[torch.cuda.Event | None]) -> Ready | None:
        """None if all shards are ready on their current streams."""
        return None if events.count(None) == len(events) else cls(events)

    def arriving(self) -> bool:
        """Whether a shard has not arrived yet."""
        self._arrived = self._arrived or all(event is None or event.query() for event in reversed(self.events))
        return not self._arrived


class Arrivals:
    """Waits for the shards of a SplitTensor during one call; no stream waits twice for an event."""

    def __init__(self, shards: Sequence[Tensor], ready: Ready) -> None:
        self._shards, self._ready = shards, ready.events
        self._streams: dict[torch.device, torch.cuda.Stream] = {}
        self._over = set() if ready.arriving() else set(self._ready)  # completed events
        self._awaited: set[tuple[torch.device, torch.cuda.Event]] = set()
        self._kept: set[int] = set()

    def stream(self, device: torch.device) -> torch.cuda.Stream:
        """The device's current stream."""
        if device not in self._streams:
            self._streams[device] = torch.cuda.current_stream(device)
        return self._streams[device]

    def over(self, i: int) -> bool:
        """Whether shard i has arrived."""
        event = self._ready[i]
        if event is None or event in self._over:
            return True
        if event.query():
            self._over.add(event)
            return True
        return False

    def wait(self, i: int) -> None:
        """Makes the current stream of shard i's device wait for the shard, and keep its memory.

        The memory belongs to the stream that allocated it, which may be another one.
        """
        event = self._ready[i]
        if event is None or i in self._kept:
            return
        shard = self._shards[i]
        device = shard.device
        stream = self.stream(device)
        if event not in self._over and (device, event) not in self._awaited:
            self._awaited.add((device, event))
            stream.wait_event(event)
        self._kept.add(i)
        shard.record_stream(stream)


def groups_of(
    turns: Sequence[int], devices: Sequence[torch.device], read: Sequence[Sequence[int]], arrived: Callable[[int], bool]
) -> Iterator[list[int]]:
    """Groups the shards of a result; one call of the operator computes each group.

    A group has one shard of each device, because the links of all devices work at once, and further shards whose rows
    have arrived. The last group has the shards that read other devices' rows, because those streams wait for each
    other.
    """
    queues: dict[torch.device, list[int]] = {}
    across_devices = []
    for i in turns:
        if all(devices[j] == devices[i] for j in read[i]):
            queues.setdefault(devices[i], []).append(i)
        else:
            across_devices.append(i)
    rounds = deque([i for i in indices if i is not None] for indices in zip_longest(*queues.values()))
    if across_devices:
        rounds.append(across_devices)
    while rounds:
        group = rounds.popleft()
        while rounds and all(arrived(j) for i in rounds[0] for j in read[i]):
            group += rounds.popleft()
        yield group


def _dim_after(dim: int, dims: int, dims_after: int) -> int:
    """The split dimension of a result. An operator may add dimensions in front of the last two."""
    return dim if dims == dims_after or dim >= -2 else dim - (dims_after - dims)


def shards_read(func: Any, whole: SplitTensor, args: Sequence[Any], kwargs: dict[str, Any]) -> list[list[int]]:
    """For each shard of the result of `func`, the shards of `whole` that it reads."""
    sizes, dim = whole.spec.sizes, whole.spec.dim
    if -dim > axes_of(str(func)):
        return [[i] for i in range(len(sizes))]
    along = footprints_of(lambda image: func(image, *args, **kwargs), whole._shards[0].detach(), whole.shape)
    flags = torch.ops.torch_conv._shards_read(sizes, along[dim])
    rows = pairwise(range(0, len(flags) + 1, len(sizes)))
    return [[j for j, read in enumerate(flags[low:high]) if read] for low, high in rows]
