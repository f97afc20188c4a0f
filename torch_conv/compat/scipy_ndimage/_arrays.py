"""Inputs and outputs: arrays and tensors, scipy's dtypes, `output`, and the casts of C."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torch_conv.dispatch.tangents import in_forward_mode

# scipy keeps whatever byte a pass stores in an array of bool and reads it back as a number, so bool is stored as uint8.
_STORED = {
    "bool": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
    "uint16": torch.uint16,
    "uint32": torch.uint32,
    "uint64": torch.uint64,
    "float32": torch.float32,
    "float64": torch.float64,
}


class Kind(NamedTuple):
    """A dtype of scipy's: its name, and the dtype of torch that holds its values between passes."""

    name: str
    stored: torch.dtype

    @property
    def whole(self) -> bool:
        return not self.stored.is_floating_point


class Image(NamedTuple):
    """An input: its values as they are stored, its dtype, and whether the result shall be a tensor."""

    values: Tensor
    kind: Kind
    is_tensor: bool


class Target(NamedTuple):
    """The destination of a result: the dtype that every pass stores, and the array or tensor that receives it."""

    kind: Kind
    receiver: Any
    is_tensor: bool

    def take(self, values: Tensor) -> Any:
        """The stored values in the form that the caller asked for."""
        if self.kind.name == "bool":
            values = values != 0
        if isinstance(self.receiver, Tensor):
            return self.receiver.copy_(values)
        if self.receiver is not None:
            self.receiver[...] = values.detach().cpu().numpy()
            return self.receiver
        return values if self.is_tensor else values.detach().cpu().numpy()


def image_of(name: str, input: Any, in_full: bool = True) -> Image:
    """The input of the function `name`; `in_full` is `kind_of`'s."""
    if isinstance(input, Tensor):
        kind = kind_of(name, "input", input.dtype, in_full)
        return Image(input.view(torch.uint8) if input.dtype == torch.bool else input, kind, True)
    array = np.asarray(input)
    kind = kind_of(name, "input", array.dtype, in_full)
    if kind.name == "bool":
        array = array.view(np.uint8)
    # torch takes no negative strides and no foreign byte order, and warns of arrays that cannot be written to.
    array = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
    if min(array.strides, default=0) < 0:  # a flipped axis of length 1, which numpy calls contiguous
        array = array.copy()
    return Image(torch.from_numpy(array if array.flags.writeable else array.copy()), kind, False)


def target_of(name: str, output: Any, image: Image, in_full: bool = True) -> Target:
    """scipy's `output`: None, a dtype of numpy, Python or torch, its name, or an array or tensor."""
    if output is None:
        return Target(image.kind, None, image.is_tensor)
    if isinstance(output, torch.dtype):
        return Target(kind_of(name, "output", output, in_full), None, image.is_tensor)
    if isinstance(output, (type, np.dtype, str)):
        dtype = np.dtype(output)
        if isinstance(output, str) and not issubclass(dtype.type, np.number):
            raise RuntimeError("output must have numeric dtype")
        kind = kind_of(name, "output", dtype, in_full)
        foreign = not dtype.isnative and not image.is_tensor  # a byte order that the result shall have
        return Target(kind, np.zeros(image.values.shape, dtype) if foreign else None, image.is_tensor)
    receiver = output if isinstance(output, Tensor) else np.asarray(output)
    if tuple(receiver.shape) != tuple(image.values.shape):
        raise RuntimeError("output shape not correct")
    kind = kind_of(name, "output", receiver.dtype, in_full)
    if isinstance(receiver, np.ndarray) and not receiver.flags.writeable:
        raise ValueError("output array is read-only.")
    return Target(kind, receiver, image.is_tensor)


def kind_of(name: str, argument: str, dtype: np.dtype[Any] | torch.dtype, in_full: bool = True) -> Kind:
    """The dtype if scipy filters it; else scipy's sentence, which names the dtype only if `in_full`."""
    if isinstance(dtype, torch.dtype):
        key, is_complex = str(dtype).removeprefix("torch."), dtype.is_complex
    else:
        words = {"b": "bool", "i": "int", "u": "uint", "f": "float"}
        key, is_complex = words.get(dtype.kind, dtype.name), dtype.kind == "c"
        key += str(8 * dtype.itemsize) if dtype.kind in "iuf" else ""
    if is_complex:
        raise TypeError(f"{name}: complex {argument} is not served")
    if key not in _STORED:
        shown = repr(dtype) if isinstance(dtype, np.dtype) or key == "bfloat16" else f"dtype('{key}')"
        raise RuntimeError(f"array type {shown} not supported" if in_full else "array type not supported")
    return Kind(key, _STORED[key])


def weights_of(name: str, weights: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The weights as an array of float64 on the CPU, because scipy reads them before it sums."""
    if isinstance(weights, Tensor):
        if weights.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(f"{name}: weights that require a gradient are not served")
        # numpy has no bfloat16
        weights = weights.detach().cpu() if weights.is_complex() else weights.detach().cpu().double()
        weights = weights.numpy()
    weights = np.asarray(weights)
    if weights.dtype.kind == "c":
        raise TypeError(f"{name}: complex weights are not served")
    return np.asarray(weights, dtype=np.float64)


def border_value(name: str, cval: Any) -> float:
    if isinstance(cval, complex) or np.iscomplexobj(cval) or (isinstance(cval, Tensor) and cval.is_complex()):
        raise TypeError(f"{name}: complex cval is not served")
    return math.ldexp(cval, 0)  # unlike float(), it takes no text


def c_cast(sums: Tensor, kind: Kind, by_magnitude: bool = False) -> Tensor:
    """Sums of float64 as C converts them: towards zero, then the lowest bits.

    C does not define the conversion of a number beyond the processor's integer. Here as on x86-64 that integer is int32
    for 8 and 16 bits and int32, and int64 for the rest. A number beyond it becomes its lowest value. `by_magnitude`
    converts negative numbers without their sign, which matters for uint64 only.
    """
    if not kind.whole:
        return sums.to(kind.stored)
    if kind.name == "uint64" and by_magnitude:
        magnitudes = _bits(c_cast(sums.abs(), kind))
        return torch.where(sums > -1, magnitudes, -magnitudes).to(torch.uint64)
    if kind.name == "uint64":
        upper = sums >= 2.0**63
        bits = _held(torch.where(upper, sums - 2.0**63, sums), 63)
        return torch.where(upper, bits ^ torch.iinfo(torch.int64).min, bits).to(torch.uint64)
    return _held(sums, 63 if kind.name in ("uint32", "int64") else 31).to(kind.stored)


def _held(sums: Tensor, bits: int) -> Tensor:
    lowest = -(2.0**bits)
    return torch.where((sums > lowest - 1) & (sums < -lowest), sums, lowest).to(torch.int64)


def in_memory(values: Tensor) -> bool:
    """Whether numpy and CPU-only operators may take a tensor: it has values, and no gradient or trace records them."""
    return (
        not torch.compiler.is_compiling()
        # A trace does not record numpy's steps.
        and not torch._C._is_tracing()
        and torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY) is None
        and values.device.type == "cpu"
        and type(values) is Tensor
        and not (values.requires_grad and torch.is_grad_enabled())
        and not torch._C._are_functorch_transforms_active()
        and not in_forward_mode()
    )


def copied(image: Image, kind: Kind) -> Tensor:
    """The image as an assignment stores it, where nothing is filtered."""
    if kind == image.kind:
        return image.values.clone()
    if kind.name == "bool":
        return ((_bits(image.values) if image.kind.whole else image.values) != 0).to(torch.uint8)
    if in_memory(image.values):
        with np.errstate(all="ignore"):
            return torch.from_numpy(np.asarray(image.values.resolve_neg().numpy().astype(kind.name)))
    if image.kind.whole and kind.whole:
        return _bits(image.values).to(kind.stored)
    return c_cast(image.values.to(torch.float64), kind)


def plus(a: Tensor, b: Tensor, kind: Kind) -> Tensor:
    """numpy's sum of two results of one dtype, the first of which may be used up; for bool it is `or`."""
    if in_memory(a) and in_memory(b):
        add = np.bitwise_or if kind.name == "bool" else np.add
        with np.errstate(all="ignore"):
            add(a.numpy(), b.numpy(), out=a.numpy())
        return a
    if not kind.whole:
        return a + b
    return ((a != 0) | (b != 0)).to(a.dtype) if kind.name == "bool" else (_bits(a) + _bits(b)).to(a.dtype)


def squared(a: Tensor, kind: Kind) -> Tensor:
    """numpy's product of a result with itself, which may be used up; for bool it is `and`."""
    if kind.name == "bool":
        return a
    if in_memory(a):
        with np.errstate(all="ignore"):
            np.multiply(a.numpy(), a.numpy(), out=a.numpy())
        return a
    return (_bits(a) * _bits(a)).to(a.dtype) if kind.whole else a * a


def root(a: Tensor, kind: Kind) -> Tensor:
    """numpy's root of a result, which may be used up; that of a negative integer is NaN before it is cast back."""
    if kind.name == "bool":
        return a
    if in_memory(a):
        with np.errstate(all="ignore"):
            np.sqrt(a.numpy(), out=a.numpy(), casting="unsafe")
        return a
    return c_cast(a.to(torch.float64).sqrt(), kind) if kind.whole else a.sqrt()


def _bits(a: Tensor) -> Tensor:
    return a.view(torch.int64) if a.dtype == torch.uint64 else a.to(torch.int64)
