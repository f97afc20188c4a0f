"""Operators called with a SplitTensor: X on the whole becomes X_split on its shards."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import torch
from torch import _C, Tensor
from torch._ops import OpOverload, OpOverloadPacket

from torch_conv._explain import recording
from torch_conv.sharding import geometry
from torch_conv.sharding.geometry import axes_of, footprints_of

if TYPE_CHECKING:
    from torch_conv.split import SplitTensor

# What `_C._AutoDispatchBelowAutograd` leaves out of dispatch.
_outside = _C._dispatch_tls_local_exclude_set()
with _C._AutoDispatchBelowAutograd():
    _AUTOGRAD = _C._dispatch_tls_local_exclude_set() - _outside


def torch_function(kind: type[SplitTensor], func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What torch hands over when it meets a SplitTensor among the arguments of `func`."""
    name, names, of_shards = _shard_form(func)
    if of_shards is None:
        raise RuntimeError(name) if names else TypeError(name)
    if args:
        whole, rest = args[0], args[1:]
    else:
        whole, rest = kwargs[names[0]], ()
        kwargs = {key: value for key, value in kwargs.items() if key != names[0]}
    if type(whole) is not kind or _contains(kind, rest) or _contains(kind, kwargs.values()):
        given = [*zip(names[1:], rest, strict=False), *kwargs.items()]
        wrong = next(key for key, value in given if _contains(kind, [value]))
        raise RuntimeError(f"{name}: {wrong} must be of type Tensor, got SplitTensor")
    for key in _OF_SHARDS_ALONE:
        if key in kwargs and key not in names:
            raise RuntimeError(f"{name}: got an unexpected keyword argument '{key}'")
    with gradients_of(whole):
        return _run(func, of_shards, whole, rest, kwargs)


_OF_SHARDS_ALONE = ("dim", "wanted")  # arguments of X_split that X has not


def _contains(kind: type[SplitTensor], values: Iterable[Any]) -> bool:
    for value in values:
        of = type(value)
        if of is kind or ((of is list or of is tuple) and kind in map(type, value)):
            return True
    return False


def of_ready_shards(operator: str) -> Callable[..., SplitTensor | None]:
    """The short way of a call of `operator`, whose result has as many dimensions as its image.

    It is for shards that are ready, and where no gradient is wanted; it returns None for all else. It adds 3 us to the
    operator's own call, where the way by `torch_function` adds 13.
    """
    of_shards = getattr(torch.ops.torch_conv, operator + "_split").default

    def call(whole: SplitTensor, *rest: Any, **kwargs: Any) -> SplitTensor | None:
        if whole._ready is not None or not _UNSUPPORTED_OPTIONS.isdisjoint(kwargs):
            return None
        if _C.is_grad_enabled() and _C._any_requires_grad(*whole._shards, *rest, **kwargs):
            return None
        dim = kwargs["dim"] = whole._dim
        if torch.is_inference_mode_enabled():  # there the guard saves nothing and takes 2 us
            return whole._of(of_shards(whole._shards, *rest, **kwargs), dim)
        with _C._AutoDispatchBelowAutograd():
            return whole._of(of_shards(whole._shards, *rest, **kwargs), dim)

    return call


_UNSUPPORTED_OPTIONS = frozenset(("out", *_OF_SHARDS_ALONE))


@functools.cache
def _shard_form(func: Any) -> tuple[str, tuple[str, ...], Callable[..., list[Tensor]] | None]:
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
    if isinstance(func, OpOverload):
        return name, names, getattr(of_shards, func._overloadname)
    return name, names, of_shards.default if of_shards.overloads() == ["default"] else of_shards


def _refusal(name: str) -> str:
    return f"{name}: a SplitTensor is not taken; give it .gather() or, one by one, .shards"


_NO_GUARD = nullcontext()


def gradients_of(*wholes: SplitTensor) -> Any:
    """Lets autograd see what requires a gradient.

    The functions skip the autograd keys where no tensor among the arguments does, and they do not look at shards.
    """
    if not (_C.is_grad_enabled() and any(whole.requires_grad for whole in wholes)):
        return _NO_GUARD
    return _C._ForceDispatchKeyGuard(
        _C._dispatch_tls_local_include_set(), _C._dispatch_tls_local_exclude_set() - _AUTOGRAD
    )


def _run(
    func: Any, of_shards: Callable[..., list[Tensor]], whole: SplitTensor, args: Sequence[Any], kwargs: dict[str, Any]
) -> SplitTensor:
    dim, dims = whole._dim, whole.dim()
    if whole._ready is None or recording() or not whole._ready.arriving():
        shards = of_shards(whole.shards, *args, dim=dim, **kwargs)
        return whole._of(shards, _dim_after(dim, dims, shards[0].dim()))
    read = shards_read(func, whole, args, kwargs)
    devices, arrivals = whole.spec.devices, Arrivals(whole._shards, whole._ready)
    made: dict[int, tuple[Tensor, torch.cuda.Event]] = {}
    for group in groups_of(whole._turns, devices, read, arrivals.over):
        # Who reads another device's rows waits, in the operator, for what that device's current stream waits for here,
        # and that stream for him.
        for j in dict.fromkeys(j for i in group for j in read[i]):
            arrivals.wait(j)
        shards = of_shards(whole._shards, *args, dim=dim, wanted=group, **kwargs)
        done = {device: arrivals.stream(device).record_event() for device in {devices[i] for i in group}}
        made.update((i, (shard, done[devices[i]])) for i, shard in zip(group, shards, strict=True))
    shards = [made[i][0] for i in range(len(devices))]
    ready = Ready.of([made[i][1] for i in range(len(devices))])
    return whole._of(shards, _dim_after(dim, dims, shards[0].dim()), ready, made)


class Ready:
    """Events behind the arrival of each shard, or the kernel that makes it; None: on its current stream.

    Views of the shards share them, and what is known of them: that all are over is remembered, because a capture could
    neither ask nor wait.
    """

    def __init__(self, events: Sequence[torch.cuda.Event | None]) -> None:
        self.events = tuple(events)
        self._arrived = False

    @classmethod
    def of(cls, events: Sequence[torch.cuda.Event | None]) -> Ready | None:
        """None where there is nothing to wait for."""
        return None if events.count(None) == len(events) else cls(events)

    def arriving(self) -> bool:
        """Whether a shard is still on its way, so that work on the others can begin before."""
        self._arrived = self._arrived or all(event is None or event.query() for event in reversed(self.events))
        return not self._arrived


class Arrivals:
    """Who waits for the shards of a SplitTensor during one call: no stream waits twice for an event."""

    def __init__(self, shards: Sequence[Tensor], ready: Ready) -> None:
        self._shards, self._ready = shards, ready.events
        self._streams: dict[torch.device, torch.cuda.Stream] = {}
        self._over = set() if ready.arriving() else set(self._ready)  # events that have been
        self._awaited: set[tuple[torch.device, torch.cuda.Event]] = set()
        self._kept: set[int] = set()

    def stream(self, device: torch.device) -> torch.cuda.Stream:
        """The device's current stream."""
        if device not in self._streams:
            self._streams[device] = torch.cuda.current_stream(device)
        return self._streams[device]

    def over(self, i: int) -> bool:
        """Whether shard i has arrived; later calls know it from earlier ones."""
        event = self._ready[i]
        if event is None or event in self._over:
            return True
        if event.query():
            self._over.add(event)
            return True
        return False

    def wait(self, i: int) -> None:
        """Makes the current stream of shard i's device wait for it, and keeps the shard alive there.

        Its memory belongs to the stream that it was made on, which may be another one.
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
    turns: Sequence[int],
    devices: Sequence[torch.device],
    read: Sequence[Sequence[int]],
    arrived: Callable[[int], bool],
) -> Iterator[list[int]]:
    """The shards of a result in groups, each of which one call of the operator makes behind what it reads.

    One shard of each device at a time, since all links are busy, and with them those whose rows have arrived by then:
    a host that is slower than the links makes fewer calls. At last those that read other devices' rows, because those
    devices' streams wait for one another.
    """
    queues: dict[torch.device, list[int]] = {}
    across = []
    for i in turns:
        if all(devices[j] == devices[i] for j in read[i]):
            queues.setdefault(devices[i], []).append(i)
        else:
            across.append(i)
    rounds = deque([i for i in of if i is not None] for of in zip_longest(*queues.values()))
    if across:
        rounds.append(across)
    while rounds:
        group = rounds.popleft()
        while rounds and all(arrived(j) for i in rounds[0] for j in read[i]):
            group += rounds.popleft()
        yield group


def _dim_after(dim: int, dims: int, dims_after: int) -> int:
    """Dimensions that an operator adds stand before the two of its images; those before them keep their place."""
    return dim if dims == dims_after or dim >= -2 else dim - (dims_after - dims)


def shards_read(func: Any, whole: SplitTensor, args: Sequence[Any], kwargs: dict[str, Any]) -> list[list[int]]:
    """For every shard of the result of `func` the shards of `whole` whose rows it is made of."""
    sizes, dim = whole.spec.sizes, whole.spec.dim
    if -dim > axes_of(str(func)):
        return [[i] for i in range(len(sizes))]
    along = footprints_of(lambda image: func(image, *args, **kwargs), whole._shards[0].detach(), whole.shape)
    return geometry.shards_read(sizes, along[dim])
