"""Convolutions with torch's signatures: few-channel banks run here, dense ones are handed to torch."""
# ruff: noqa: UP007, UP045

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_conv import _explain
from torch_conv.functional._calls import public
from torch_conv.functional._types import BroadcastingList1, BroadcastingList2

_conv1d = torch.ops.torch_conv.conv1d
_conv2d = torch.ops.torch_conv.conv2d

_DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.uint8, torch.int16, torch.uint16]


def _served_here(input: Tensor, weight: Tensor, groups: int, dims: int) -> bool:
    """Whether this project's kernels take the call; `served_here` in csrc/ops/conv.cpp is its twin.

    One input channel a group (depthwise, with a multiplier or not), or a bank of at most 4 input and 8 output channels.
    """
    if weight.dim() != dims or input.dtype not in _DTYPES:
        return False
    c_in = weight.size(1)
    return c_in == 1 or (c_in <= 4 and weight.size(0) <= 8 * groups)


@public(keyword_only="padding_mode")
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    stride: BroadcastingList2[int] = 1,
    padding: BroadcastingList2[int] = 0,
    dilation: BroadcastingList2[int] = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
    algorithm: str = "auto",
) -> Tensor:
    """A drop-in for `torch.nn.functional.conv2d`, fast where groups are small.

    Depthwise convolutions (one input channel a group, any multiplier) and banks of at most 4 input and 8 output
    channels a group run on this project's kernels; everything else is a matrix product and is handed to torch, as
    `torch_conv.explain` says call by call.

    Args:
        input: image (N, C, H, W) or (C, H, W).
        weight: windows (C_out, C / groups, kH, kW) of the input's dtype.
        bias: one number per output channel (C_out,), or None.
        stride: step between output pixels (y, x).
        padding: pixels added on each side (y, x), or 'same' or 'valid' (in TorchScript: by the operator
            `torch.ops.torch_conv.conv2d.padding`).
        dilation: step between taps (y, x).
        groups: number of groups the channels fall into.
        padding_mode: 'zeros', 'reflect', 'replicate' or 'circular', as in `torch.nn.Conv2d`.
        algorithm: 'auto' or 'direct', which refuses what would be handed to torch.

    Returns:
        Tensor (N, C_out, H', W') or (C_out, H', W') of the input's dtype. Unlike torch's, integer sums are
        clamped to the range of the dtype instead of wrapping around.

    Raises:
        ValueError: for shapes and numbers that `F.conv2d` refuses.
        TypeError: for dtypes and types that `F.conv2d` refuses.

    Equivalent to:
        `F.conv2d(input, weight, bias, stride, padding, dilation, groups)`

    Example:
        >>> x, w = torch.rand(2, 8, 16, 16), torch.rand(8, 1, 3, 3)
        >>> ours, theirs = conv2d(x, w, groups=8, padding=1), F.conv2d(x, w, groups=8, padding=1)
        >>> torch.allclose(ours, theirs, atol=1e-6)
        True
    """
    if not torch.jit.is_scripting():
        if isinstance(padding, str):
            if algorithm == "auto" and not _served_here(input, weight, groups, 4) and not _explain.active:
                return _dense(2, input, weight, bias, stride, padding, dilation, groups, padding_mode)
            return torch.ops.torch_conv.conv2d.padding(
                input, weight, bias, stride, padding, dilation, groups, padding_mode=padding_mode, algorithm=algorithm
            )
        if algorithm == "auto" and not _served_here(input, weight, groups, 4) and not _explain.active:
            return _dense(2, input, weight, bias, stride, padding, dilation, groups, padding_mode)
    return _conv2d(
        input, weight, bias, stride, padding, dilation, groups, padding_mode=padding_mode, algorithm=algorithm
    )
