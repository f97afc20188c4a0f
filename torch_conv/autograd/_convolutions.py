"""Gradients of convolutions.

For a stride of 1 the input's gradient is a convolution with the flipped weight, by our kernels. `_weights.py` computes
the gradients of depthwise layers in weight and bias. Torch computes all other gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_conv.autograd._by_torch import convolution_backward
from torch_conv.autograd._extension import extend, fold
from torch_conv.autograd._node import ImageMetadata, in_transform, runs_eagerly, tensor_of
from torch_conv.autograd._vjp import vjp
from torch_conv.autograd._weights import depthwise_weight_gradients
from torch_conv.dispatch.borders import border_name
from torch_conv.dispatch.numbers import per_axis
from torch_conv.dispatch.operators import Arguments
from torch_conv.dispatch.symbols import surely
from torch_conv.functional._convolve import ACTIVATIONS, ours_of_numbers, pads_of
from torch_conv.functional._eager import eager


def conv_gradients(axes: int, given: Arguments, output: Tensor, grad: Tensor, wanted: set[str]) -> Arguments:
    """The gradients of conv1d, conv2d, conv3d."""
    input, weight, groups = given["input"], given["weight"], given["groups"]
    stride, dilation = per_axis(given["stride"], axes), per_axis(given["dilation"], axes)
    activate = ACTIVATIONS[given["activation"]]
    if activate is not None:
        sums = _operator(axes)(
            input, weight, given["bias"], stride, given["padding"], dilation, groups,
            padding_mode=given["padding_mode"], algorithm=given["algorithm"],
        )  # fmt: skip
        (grad,) = vjp(activate, [sums], grad)
    is_batched = input.dim() == axes + 2
    if not is_batched:
        grad = grad[None]
    padding = given["padding"]
    pads = pads_of(weight, padding if isinstance(padding, str) else per_axis(padding, axes), dilation)[::-1]
    after, before = pads[0::2], pads[1::2]
    border = border_name(given["padding_mode"])
    padding, is_extended = before, border != "constant" or before != after
    if is_extended:
        padding = [0] * axes
    gradients: Arguments = {}
    adjoint_pads = [d * (n - 1) - p for d, n, p in zip(dilation, weight.shape[2:], padding, strict=True)]
    ours = max(stride) == 1 and min(adjoint_pads) >= 0
    by_torch = [name for name in ("input", "weight") if name in wanted and not (ours and name == "input")]
    if ours and "input" in wanted:
        outputs, adjoint = _in_layout_of(input, grad, axes), _adjoint_weight(weight, groups, axes)
        if runs_eagerly(grad):  # host time 4 us, by the operator 10 us (3x3 of 8x8 on the CPU)
            gradients["input"] = eager(axes, outputs, adjoint, None, 1, tuple(adjoint_pads), tuple(dilation), groups)
        elif _is_one_symbol(adjoint_pads, dilation):
            gradients["input"] = ours_of_numbers(outputs, adjoint, None, axes, 1, adjoint_pads[0], dilation[0], groups)
        else:
            gradients["input"] = _operator(axes)(outputs, adjoint, None, 1, adjoint_pads, dilation, groups)
    if by_torch:
        image = tensor_of(input)
        if not is_batched:
            image = image[None]
        if is_extended:
            image = extend(image, border, 0.0, before, after)
        if "weight" in by_torch and weight.shape[1] == 1 and groups == image.shape[1]:
            weight_gradient, bias_gradient = depthwise_weight_gradients(
                image, grad, weight.shape[2:], stride, padding, dilation
            )
            if weight_gradient is not None:
                gradients["weight"] = weight_gradient
                by_torch.remove("weight")
            if bias_gradient is not None:
                gradients["bias"] = bias_gradient
    if by_torch:
        gradients |= convolution_backward(grad, image, weight, stride, padding, dilation, groups, by_torch)
    if "bias" in wanted and "bias" not in gradients:
        gradients["bias"] = grad.sum([0, *range(2, axes + 2)])
    if "input" in gradients:
        if is_extended:
            gradients["input"] = fold(gradients["input"], border, list(input.shape[-axes:]), before)
        if not is_batched:
            gradients["input"] = gradients["input"][0]
    return gradients


def numbers_gradients(_: int, given: Arguments, output: Tensor, grad: Tensor, wanted: set[str]) -> Arguments:
    """The gradients of `_conv_ours`, whose options hold one number for all axes."""
    axes = given["axes"]
    lists = {name: [given[name]] * axes for name in ("stride", "padding", "dilation")}
    return conv_gradients(axes, {**given, **lists, "padding_mode": "zeros", "algorithm": "ours"}, output, grad, wanted)


def _is_one_symbol(*lists: Sequence[int]) -> bool:
    """Whether each list holds one symbol for all axes. A list argument of a public operator would fix the symbol."""
    if not any(isinstance(numbers[0], torch.SymInt) for numbers in lists):
        return False
    return all(surely(number == numbers[0]) for numbers in lists for number in numbers[1:])


def _operator(axes: int) -> Any:
    return getattr(torch.ops.torch_conv, f"conv{axes}d")


def _in_layout_of(image: Tensor | ImageMetadata, grad: Tensor, axes: int) -> Tensor:
    """`grad` in the image's memory format, as torch's gradients have it."""
    strides, grad_strides = image.stride(), grad.stride()
    if axes == 1 or (type(grad) is Tensor and strides == grad_strides) or in_transform():
        return grad
    inner, grad_inner = (surely(s[-axes - 1] == 1) and not surely(s[-1] == 1) for s in (strides, grad_strides))
    if inner == grad_inner:
        return grad
    last = torch.channels_last if axes == 2 else torch.channels_last_3d
    return grad.contiguous(memory_format=last if inner else torch.contiguous_format)


def _adjoint_weight(weight: Tensor, groups: int, axes: int) -> Tensor:
    """The adjoint's weight: flipped taps, with input and output channels of each group exchanged."""
    flipped = weight.flip(list(range(2, axes + 2)))
    outputs, inputs = weight.shape[0] // groups, weight.shape[1]
    if outputs == 1 and inputs == 1:
        return flipped
    exchanged = flipped.reshape(groups, outputs, inputs, *weight.shape[2:]).transpose(1, 2)
    return exchanged.reshape(groups * inputs, outputs, *weight.shape[2:])
