"""Fake implementations of the convolutions and of their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_conv.dispatch.formats import in_order_of
from torch_conv.dispatch.query import conv_arguments
from torch_conv.fakes.shapes import refuse_meta
from torch_conv.functional._convolve import check_numbers, pads_of
from torch_conv.functional._router import served_here

Ints = Sequence[int]


def fake_convolution(axes: int) -> Callable[..., Tensor]:
    op, by_torch = f"conv{axes}d", (F.conv1d, F.conv2d, F.conv3d)[axes - 1]

    def fake(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Ints = (1,) * axes,
        padding: Ints | str = (0,) * axes,
        dilation: Ints = (1,) * axes,
        groups: int = 1,
        *,
        padding_mode: str = "zeros",
        algorithm: str = "auto",
        activation: str | None = None,
    ) -> Tensor:
        refuse_meta(op, input, weight=weight, bias=bias)
        check_numbers(op, axes, input, weight, stride, padding, dilation)
        pads = pads_of(weight, padding, dilation)
        channels, bank = input.shape[-axes - 1], weight.shape[0]
        if algorithm != "torch" and served_here(input, weight, groups):
            needed = weight.shape[1] * groups
            torch._check(
                channels == needed, lambda: f"{op}: input must have {needed} channels for this weight, got {channels}"
            )
            torch._check(bank % groups == 0, lambda: f"{op}: {bank} output channels are no multiple of groups {groups}")
            if bias is not None:
                torch._check(
                    bias.dim() == 1 and bias.shape[0] == bank,
                    lambda: f"{op}: bias must have shape ({bank},), got {tuple(bias.shape)}",
                )
            return _convolved(op, axes, input, weight, stride, pads, dilation)
        if padding_mode != "zeros":
            input, padding = F.pad(input, pads, padding_mode), (0,) * axes
        return by_torch(input, weight, bias, stride, padding, dilation, groups)

    return fake


def fake_of_numbers(*args: Any, **kwargs: Any) -> Tensor:
    """The fake of `_conv_ours`."""
    axes, args, kwargs = conv_arguments(*args, **kwargs)
    return fake_convolution(axes)(*args, **kwargs)


def fake_weight_gradient(input: Tensor, grad: Tensor, kernel_size: Ints, *_: object) -> tuple[Tensor, Tensor]:
    channels = grad.shape[1]
    return input.new_empty((channels, 1, *kernel_size)), input.new_empty(channels)


def _convolved(name: str, axes: int, input: Tensor, weight: Tensor, stride: Ints, pads: Ints, dilation: Ints) -> Tensor:
    """`pads` as F.pad takes them: the last axis first, before and after."""
    result = []
    for a in range(axes):
        before, after = pads[2 * (axes - 1 - a) :][:2]
        n = input.shape[a - axes] + before + after
        footprint = dilation[a] * (weight.shape[a + 2] - 1) + 1
        torch._check(n >= footprint, lambda: f"{name}: a window does not fit into the padded input")
        result.append((n - footprint) // stride[a] + 1)
    return in_order_of(input, axes, [*input.shape[: -axes - 1], weight.shape[0], *result], input.dtype)
