"""The tensors that operators can take, and the memory format of a convolution's result."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Parameter

from torch_conv.dispatch.formats import channels_inner

PLAIN = (Tensor, Parameter)  # no subclass intercepts their calls
_INHERITED = Tensor.__torch_dispatch__  # a subclass without its own has this one


def why_not_ours(*tensors: Tensor | None) -> str:
    """The reason why the operators cannot take these tensors, or "".

    A subclass that dispatches operators itself (a DTensor, a quantized weight) supports only torch's convolutions.
    """
    for t in tensors:
        if not isinstance(t, Tensor):
            continue
        kind = type(t)
        if kind in PLAIN:
            if t.layout is not torch.strided:
                return f"no kernel takes the layout {str(t.layout).removeprefix('torch.')}"
        elif not (kind.__torch_dispatch__ is _INHERITED or kind.__module__.startswith("torch._subclasses.")):
            return f"torch looks after a tensor of type {kind.__name__}"
    return ""


def is_partly_meta(input: Tensor, *others: Tensor | None) -> bool:
    """Whether some tensors have values and others have none."""
    if torch.compiler.is_compiling():
        return False
    meta = input.device.type == "meta"  # a fake tensor has the device that it represents
    return any(t is not None and (t.device.type == "meta") != meta for t in others)


def is_half_on_the_cpu(input: Tensor) -> bool:
    """Whether torch gets float32: torch 2.11 hangs in some float16 convolutions on processors with AVX512-FP16."""
    return input.dtype == torch.float16 and input.device.type == "cpu"


def in_format_of(input: Tensor, result: Tensor, axes: int) -> Tensor:
    """`result` in the image's memory format, as the operators return it (`in_format_of` in csrc/tensors/images.cpp)."""
    if not channels_inner(input, axes):
        return result.contiguous()
    channels = result.dim() - axes - 1
    return result.movedim(channels, -1).contiguous().movedim(-1, channels)
