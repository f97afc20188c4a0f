"""One image on several devices: `split`, `SplitTensor` and back by `gather`."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import _C, Tensor

from torch_conv.sharding import calls, collect, transfer, views
from torch_conv.sharding.checks import (
    check_kinds,
    check_tensor,
    checked_device,
    checked_devices,
    checked_dim,
    checked_sizes,
    default_devices,
    dtype_name,
    without,
)

Device = str | int | torch.device
_new: Any = object.__new__


@dataclass(frozen=True)
class SplitSpec:
    """How a tensor is cut: the dimension, counted from the end, and the sizes and devices of the parts."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    dim: int
    sizes: tuple[int, ...]
    devices: tuple[torch.device, ...]

    def __repr__(self) -> str:
        parts = ", ".join(f"{n} on {device}" for n, device in zip(self.sizes, self.devices, strict=True))
        return f"{self.shape} {dtype_name(self)} along dim {self.dim}: {parts}"


class SplitTensor:
    """A tensor in contiguous parts along one dimension, on one or several devices.

    `split` and `SplitTensor.from_shards` make one. The functions of torch_conv take it in place of their first tensor
    and return one, as do all operators with a `_split` form. Shard i of the result is on the device of shard i,
    ready on the current stream. Devices with peer access read each other's rows; no rows are exchanged beforehand. The
    bits are those of one device, except with tensor cores and FFT, which each shard uses where its own rows allow.

    It has the attributes of a tensor that those functions read. It has the views `flatten`, `unsqueeze`, `squeeze`,
    `expand`, `reshape` and `movedim`, which must keep each shard whole. It has `to(dtype)`, `detach()`, `sqrt()` and
    `+ - * /` with numbers and equally split tensors. Other functions of torch refuse it. `gather()` returns a tensor,
    `shards` the parts.

    Attributes:
        spec: the `SplitSpec`: shape, dtype, dim, sizes and devices.
    """

    _shards: tuple[Tensor, ...]
    _dim: int
    _ready: calls.Ready | None  # None: all are ready on their current streams
    _order: tuple[int, ...] | None  # in which shards become ready; None for the order of their indices

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("SplitTensor: it is made by split(tensor, devices) or SplitTensor.from_shards(shards, dim)")

    @classmethod
    def _of(
        cls, shards: Iterable[Tensor], dim: int, ready: calls.Ready | None = None, turns: Iterable[int] | None = None
    ) -> SplitTensor:
        """A SplitTensor of shards that are known to fit together."""
        self: SplitTensor = _new(cls)
        self._shards, self._dim, self._ready = tuple(shards), dim, ready
        self._order = None if turns is None else tuple(turns)
        return self

    @classmethod
    def from_shards(cls, shards: Sequence[Tensor], dim: int = -2) -> SplitTensor:
        """A SplitTensor whose parts are these tensors, without a copy.

        Args:
            shards: tensors of one dtype and of one shape but along `dim`, all on the CPU or all on CUDA devices, which
                may repeat. A shard may have no rows. Each is ready on its device's current stream.
            dim: the dimension that the parts divide.

        Returns:
            The SplitTensor.

        Raises:
            ValueError: for shards that do not fit together.
            TypeError: for anything but a list of dense tensors of one dtype.

        Equivalent to:
            `torch.cat(shards, dim)`, without the copy

        Example:
            >>> halves = SplitTensor.from_shards([torch.zeros(1, 4), torch.ones(2, 4)])
            >>> halves.shape, halves.spec.sizes
            (torch.Size([3, 4]), (1, 2))
        """
        if not isinstance(shards, (list, tuple)):
            raise TypeError(f"from_shards: shards must be a list of tensors, got {type(shards).__name__}")
        if not shards:
            raise ValueError("from_shards: shards must have at least one tensor, got none")
        for i, shard in enumerate(shards):
            check_tensor("from_shards", f"shards[{i}]", shard)
        first = shards[0]
        dim = checked_dim("from_shards", "shards'", dim, first.dim())
        for shard in shards[1:]:
            if shard.dtype != first.dtype:
                raise TypeError(
                    f"from_shards: shards must be of one dtype, got {dtype_name(first)} and {dtype_name(shard)}"
                )
            if without(shard.shape, dim) != without(first.shape, dim) or shard.dim() != first.dim():
                raise ValueError(
                    f"from_shards: shards must have one shape but along dim {dim}, "
                    f"got {tuple(first.shape)} and {tuple(shard.shape)}"
                )
        check_kinds("from_shards", "shards", [shard.device for shard in shards])
        return cls._of(shards, dim)

    @property
    def shards(self) -> tuple[Tensor, ...]:
        """The parts in order, each ready on its device's current stream."""
        if self._ready is not None:
            arrivals = calls.Arrivals(self._shards, self._ready)
            for i in range(len(self._shards)):
                arrivals.wait(i)
        return self._shards

    @functools.cached_property
    def spec(self) -> SplitSpec:
        """How the tensor is cut."""
        sizes = tuple(shard.size(self._dim) for shard in self._shards)
        shape = list(self._shards[0].shape)
        shape[self._dim] = sum(sizes)
        devices = tuple(shard.device for shard in self._shards)
        return SplitSpec(tuple(shape), self._shards[0].dtype, self._dim, sizes, devices)

    def gather(self, device: Device | None = None) -> Tensor:
        """The whole tensor on one device.

        For the CPU each shard is copied into a pinned tensor as soon as it is ready, and the call waits for the last
        copy. For a GPU the host does not wait: the tensor is ready on that device's current stream.

        Args:
            device: the CPU or a CUDA device, by default that of the first shard.

        Returns:
            A copy of this shape and dtype, in the memory format of the shards.

        Raises:
            ValueError: for another kind of device.

        Equivalent to:
            `torch.cat([shard.to(device) for shard in self.shards], self.spec.dim)`

        Example:
            >>> x = torch.rand(1, 3, 7, 9)
            >>> torch.equal(split(x, ["cpu", "cpu"]).gather(), x)
            True
        """
        to = self.device if device is None else checked_device("gather", "device", device)
        at = self._shards[0].dim() + self._dim
        gradients = torch.is_grad_enabled() and self.requires_grad
        if not self.is_cuda or gradients:
            return torch.cat([shard.to(to) for shard in self.shards], at)
        queued = {}  # events behind all work on the current streams
        for device in {shard.device for shard in self._shards}:
            queued[device] = torch.cuda.current_stream(device).record_event()
        late = self._ready
        if late is not None and to.type != "cpu" and not late.arriving():
            late = None  # a GPU waits for the current streams anyway; a capture cannot wait for work outside of it
        events = (None,) * len(self._shards) if late is None else late.events
        ready = [event or queued[shard.device] for shard, event in zip(self._shards, events, strict=True)]
        shards = [shard.detach() for shard in self._shards]
        if to.type == "cpu":
            return transfer.download(shards, ready, self._turns, at)
        return collect.collect(shards, ready, to, at)

    # For operators

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return calls.torch_function(cls, func, args, kwargs or {})

    @property
    def _turns(self) -> Sequence[int]:
        return range(len(self._shards)) if self._order is None else self._order

    def _view(self, f: Callable[[Tensor], Tensor], dim: int) -> SplitTensor:
        """Views f(shard) of the shards, split along `dim`."""
        with calls.gradients_of(self):
            return self._of([f(shard) for shard in self._shards], dim, self._ready, self._order)

    # Attributes and methods of a tensor, for functions

    @property
    def shape(self) -> torch.Size:
        return torch.Size(self.spec.shape)

    @property
    def dtype(self) -> torch.dtype:
        return self._shards[0].dtype

    @property
    def device(self) -> torch.device:
        """The device of the first shard."""
        return self._shards[0].device

    @property
    def layout(self) -> torch.layout:
        return self._shards[0].layout

    @property
    def ndim(self) -> int:
        return self.dim()

    @property
    def is_cuda(self) -> bool:
        return self._shards[0].is_cuda

    @property
    def is_cpu(self) -> bool:
        return self._shards[0].is_cpu

    @property
    def requires_grad(self) -> bool:
        return _C._any_requires_grad(*self._shards)

    def dim(self) -> int:
        return self._shards[0].dim()

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        return math.prod(self.shape)

    def element_size(self) -> int:
        return self._shards[0].element_size()

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    flatten = views.flatten
    unsqueeze = views.unsqueeze
    squeeze = views.squeeze
    expand = views.expand
    reshape = views.reshape
    movedim = views.movedim

    def detach(self) -> SplitTensor:
        return self._view(Tensor.detach, self._dim)

    def to(self, dtype: torch.dtype) -> SplitTensor:
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"SplitTensor.to: dtype must be of type dtype, got {type(dtype).__name__}")
        return self if dtype == self.dtype else each_shard(Tensor.to, self, dtype)

    def sqrt(self) -> SplitTensor:
        return each_shard(Tensor.sqrt, self)

    def _with(self, compute: Callable[[Any, Any], Any], other: Any) -> SplitTensor:
        if isinstance(other, SplitTensor):
            if other.shape != self.shape or other.spec.sizes != self.spec.sizes or other.spec.dim != self.spec.dim:
                raise ValueError(f"SplitTensor: both must be split alike, got {self.spec} and {other.spec}")
        elif not isinstance(other, (int, float)):
            raise TypeError(f"SplitTensor: + - * / take numbers and other SplitTensors, got {type(other).__name__}")
        return each_shard(compute, self, other)

    def __add__(self, other: Any) -> SplitTensor:
        return self._with(operator.add, other)

    def __sub__(self, other: Any) -> SplitTensor:
        return self._with(operator.sub, other)

    def __mul__(self, other: Any) -> SplitTensor:
        return self._with(operator.mul, other)

    def __truediv__(self, other: Any) -> SplitTensor:
        return self._with(operator.truediv, other)

    __radd__, __rmul__ = __add__, __mul__

    if not TYPE_CHECKING:  # type checkers would accept any attribute

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_") or not hasattr(Tensor, name):
                raise AttributeError(f"SplitTensor has no attribute '{name}'")
            raise AttributeError(
                f"SplitTensor has no {name} of its own; .gather() gives a tensor and .shards the parts"
            )

    def __repr__(self) -> str:
        return f"SplitTensor({self.spec!r})"


def split(
    tensor: Tensor, devices: Sequence[Device] | None = None, dim: int = -2, sizes: Sequence[int] | None = None
) -> SplitTensor:
    """Cuts a tensor along one dimension into contiguous parts on several devices.

    Parts travel from the host to GPUs on separate streams, and the host does not wait. Work on the result begins with
    the parts that have arrived. `filter2d(split(image, devices), kernel).gather("cpu")` overlaps the upload of one
    part, the filter of another and the download of a third. For this overlap, repeat devices: several parts for each.

    Args:
        tensor: any dense tensor on the CPU or a CUDA device. A pinned tensor must not change before a `gather` or a
            synchronisation; any other may change after the call.
        devices: one for each part, all on the CPU or all CUDA devices; by default all CUDA devices of this machine, or
            else the CPU.
        dim: the dimension to cut: batch, channels or a spatial one.
        sizes: the sizes of the parts along `dim`, each at least 0; by default equal ones, of which the first
            n % len(devices) are one larger.

    Returns:
        A `SplitTensor`. A part on the tensor's device is a view, any other part is a copy.

    Raises:
        ValueError: for a dimension, a device or a size that is not described above.
        TypeError: for a type that is not described above.

    Equivalent to:
        `[part.to(device) for part, device in zip(tensor.split(sizes, dim), devices)]`

    Example:
        >>> image = torch.rand(1, 3, 8, 8)
        >>> rows = split(image, ["cpu", "cpu", "cpu"])
        >>> rows
        SplitTensor((1, 3, 8, 8) float32 along dim -2: 3 on cpu, 3 on cpu, 2 on cpu)
        >>> blurred = torch_conv.gaussian_blur2d(rows, 5, 1.0).gather()
        >>> torch.equal(blurred, torch_conv.gaussian_blur2d(image, 5, 1.0))
        True
    """
    check_tensor("split", "tensor", tensor)
    dim = checked_dim("split", "tensor's", dim, tensor.dim())
    to = default_devices() if devices is None else checked_devices("split", "devices", devices)
    n, parts = tensor.size(dim), len(to)
    if sizes is None:
        each = [n // parts + (i < n % parts) for i in range(parts)]
    else:
        each = checked_sizes(sizes, dim, n, parts)
    gradients = torch.is_grad_enabled() and tensor.requires_grad
    if tensor.is_cpu and to[0].type == "cuda" and not gradients:
        shards, arrived = transfer.upload(tensor.detach(), tensor.dim() + dim, each, to)
        return SplitTensor._of(shards, dim, calls.Ready.of(arrived))
    pieces = tensor.split(each, dim)
    return SplitTensor._of(
        [p.to(d, non_blocking=tensor.is_cuda and d.type == "cuda") for p, d in zip(pieces, to, strict=True)], dim
    )


def each_shard(f: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Any:
    """Calls f for each index of a shard, on the shards of the equally cut SplitTensors among `args`.

    The split dimension of the result, counted from the front, is that of the arguments.
    """
    wholes = [value for value in args if isinstance(value, SplitTensor)]
    first = wholes[0]
    late = [(whole, whole._ready) for whole in wholes if whole._ready is not None]
    arrivals = [calls.Arrivals(whole._shards, ready) for whole, ready in late]
    arriving = any(ready.arriving() for _, ready in late)
    results: dict[int, Tensor] = {}
    ready: dict[int, torch.cuda.Event | None] = {}
    with calls.gradients_of(*wholes):
        for i in first._turns:
            for arrival in arrivals:
                arrival.wait(i)
            results[i] = f(*(v._shards[i] if isinstance(v, SplitTensor) else v for v in args), **kwargs)
            ready[i] = arrivals[0].stream(results[i].device).record_event() if arriving else None
    indices = range(len(results))
    dim = first._dim + first.dim() - results[0].dim()
    return first._of([results[i] for i in indices], dim, calls.Ready.of([ready[i] for i in indices]), first._order)
