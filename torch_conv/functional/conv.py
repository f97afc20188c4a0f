"""Convolutions with torch's signatures: kernels of this project for small groups, torch for all other calls."""
# ruff: noqa: UP045

import functools
from typing import Optional

import torch
from torch import Tensor

from torch_conv.functional._calls import public
from torch_conv.functional._convolve import Options, convolve
from torch_conv.functional._eager import eager
from torch_conv.functional._types import (
    Activation,
    BroadcastingList1,
    BroadcastingList2,
    BroadcastingList3,
    ConvAlgorithm,
    PaddingMode,
    _size_1_t,
    _size_2_t,
    _size_3_t,
)

_conv1d = torch.ops.torch_conv.conv1d
_conv2d = torch.ops.torch_conv.conv2d
_conv3d = torch.ops.torch_conv.conv3d


@public(eager=functools.partial(eager, 2))
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    stride: BroadcastingList2[int] = 1,
    padding: _size_2_t = 0,
    dilation: BroadcastingList2[int] = 1,
    groups: int = 1,
    *,
    padding_mode: PaddingMode = "zeros",
    algorithm: ConvAlgorithm = "auto",
    activation: Optional[Activation] = None,
) -> Tensor:
    """A drop-in for `torch.nn.functional.conv2d`, fast where groups are small.

    This project serves depthwise convolutions (one input channel a group, any multiplier), and groups of at most 4
    input and 8 output channels. Torch serves them where it was measured to be faster, by device, memory format, dtype,
    kernel size and image size. Torch serves all other calls, too, with its gradients, TF32 and bits.
    `torch_conv.explain` names the choice for a call and the measured times.

    Args:
        input: image (N, C, H, W) or (C, H, W).
        weight: a kernel per output channel, (C_out, C / groups, kH, kW), of the input's dtype.
        bias: one number per output channel (C_out,), or None.
        stride: step between output pixels (y, x).
        padding: pixels added on each side (y, x), or 'same' or 'valid' (in TorchScript: by the operator
            `torch.ops.torch_conv.conv2d.padding`).
        dilation: step between taps (y, x).
        groups: number of groups the channels fall into.
        padding_mode: 'zeros', 'reflect', 'replicate' or 'circular', as in `torch.nn.Conv2d`.
        algorithm: 'auto'; 'ours', like 'auto' but never torch; 'direct', each sum one chain of multiply-adds with the
            same bits everywhere; 'tensor_core', depthwise in half precision with zeros outside, within one rounding of
            the result's dtype; or 'torch'. An algorithm that cannot serve the call is refused.
        activation: None, 'relu', 'relu6', 'gelu', 'silu' or 'hardswish', applied to the sum with its bias. A depthwise
            convolution applies it in the same launch, before the sum is rounded. For an image that is split along its
            rows or columns it follows the rounding.

    Returns:
        Tensor (N, C_out, H', W') or (C_out, H', W') of the input's dtype.

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
        options = Options(2, stride, padding, dilation, groups, padding_mode, algorithm, activation)
        return convolve(input, weight, bias, options)
    return _conv2d(
        input,
        weight,
        bias,
        stride,
        padding,
        dilation,
        groups,
        padding_mode=padding_mode,
        algorithm=algorithm,
        activation=activation,
    )


@public(eager=functools.partial(eager, 3))
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    stride: BroadcastingList3[int] = 1,
    padding: _size_3_t = 0,
    dilation: BroadcastingList3[int] = 1,
    groups: int = 1,
    *,
    padding_mode: PaddingMode = "zeros",
    algorithm: ConvAlgorithm = "auto",
    activation: Optional[Activation] = None,
) -> Tensor:
    """A drop-in for `torch.nn.functional.conv3d`, fast where groups are small.

    This project serves the groups that `conv2d` names. On CUDA it serves all of them, because torch takes 6 to 40 times
    as long. On the CPU torch serves depthwise convolutions with many channels innermost, with small planes or with
    steps above 1, where oneDNN is faster.

    Args:
        input: volume (N, C, D, H, W) or (C, D, H, W).
        weight: a kernel per output channel, (C_out, C / groups, kD, kH, kW), of the input's dtype.
        bias: one number per output channel (C_out,), or None.
        stride: step between output voxels (z, y, x).
        padding: voxels added on each side (z, y, x), or 'same' or 'valid' (in TorchScript: by the operator
            `torch.ops.torch_conv.conv3d.padding`).
        dilation: step between taps (z, y, x).
        groups: number of groups the channels fall into.
        padding_mode: as in `conv2d`.
        algorithm: as in `conv2d`.
        activation: as in `conv2d`.

    Returns:
        Tensor (N, C_out, D', H', W') or (C_out, D', H', W') of the input's dtype.

    Raises:
        ValueError: for shapes and numbers that `F.conv3d` refuses.
        TypeError: for dtypes and types that `F.conv3d` refuses.

    Equivalent to:
        `F.conv3d(input, weight, bias, stride, padding, dilation, groups)`

    Example:
        >>> x, w = torch.rand(2, 4, 8, 16, 16), torch.rand(4, 1, 3, 3, 3)
        >>> ours, theirs = conv3d(x, w, groups=4, padding=1), F.conv3d(x, w, groups=4, padding=1)
        >>> torch.allclose(ours, theirs, atol=1e-5)
        True
    """
    if not torch.jit.is_scripting():
        options = Options(3, stride, padding, dilation, groups, padding_mode, algorithm, activation)
        return convolve(input, weight, bias, options)
    return _conv3d(
        input,
        weight,
        bias,
        stride,
        padding,
        dilation,
        groups,
        padding_mode=padding_mode,
        algorithm=algorithm,
        activation=activation,
    )


@public(eager=functools.partial(eager, 1))
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    stride: BroadcastingList1[int] = 1,
    padding: _size_1_t = 0,
    dilation: BroadcastingList1[int] = 1,
    groups: int = 1,
    *,
    padding_mode: PaddingMode = "zeros",
    algorithm: ConvAlgorithm = "auto",
    activation: Optional[Activation] = None,
) -> Tensor:
    """A drop-in for `torch.nn.functional.conv1d`, fast where groups are small, as in `conv2d`.

    Args:
        input: signal (N, C, L) or (C, L).
        weight: a kernel per output channel, (C_out, C / groups, k), of the input's dtype.
        bias: one number per output channel (C_out,), or None.
        stride: step between outputs.
        padding: samples added on each side, or 'same' or 'valid' (in TorchScript: by the operator
            `torch.ops.torch_conv.conv1d.padding`).
        dilation: step between taps.
        groups: number of groups the channels fall into.
        padding_mode: as in `conv2d`.
        algorithm: as in `conv2d`.
        activation: as in `conv2d`.

    Returns:
        Tensor (N, C_out, L') or (C_out, L') of the input's dtype.

    Raises:
        ValueError: for shapes and numbers that `F.conv1d` refuses.
        TypeError: for dtypes and types that `F.conv1d` refuses.

    Equivalent to:
        `F.conv1d(input, weight, bias, stride, padding, dilation, groups)`

    Example:
        >>> conv1d(torch.tensor([[[1.0, 2, 3]]]), torch.tensor([[[1.0, 1]]]))
        tensor([[[3., 5.]]])
    """
    if not torch.jit.is_scripting():
        options = Options(1, stride, padding, dilation, groups, padding_mode, algorithm, activation)
        return convolve(input, weight, bias, options)
    return _conv1d(
        input,
        weight,
        bias,
        stride,
        padding,
        dilation,
        groups,
        padding_mode=padding_mode,
        algorithm=algorithm,
        activation=activation,
    )
