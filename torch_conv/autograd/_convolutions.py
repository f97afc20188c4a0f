"""Gradients of convolutions: in the input a convolution with the flipped weight, on our kernels where the stride is 1;
in the weight, and with other strides, torch's."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor

from torch_conv.autograd._extension import extend, fold
from torch_conv.autograd._steps import vjp
from torch_conv.functional._convolve import ACTIVATIONS, pads_of
from torch_conv.reference._extend import border_name, per_axis

Given = dict[str, Any]


def conv_gradients(axes: int, given: Given, output: Tensor, grad: Tensor, wanted: set[str]) -> Given:
    """Of conv1d, conv2d, conv3d."""
    input, weight = given["input"], given["weight"]
    stride, dilation, groups = per_axis(given["stride"], axes), per_axis(given["dilation"], axes), given["groups"]
    k = weight.shape[2:]
    activate = ACTIVATIONS[given["activation"]]
    if activate is not None:
        sums = _operator(axes)(
            input, weight, given["bias"], stride, given["padding"], dilation, groups,
            padding_mode=given["padding_mode"], algorithm=given["algorithm"],
        )  # fmt: skip
        (grad,) = vjp(activate, [sums], grad)
    batched = input.dim() == axes + 2
    if not batched:
        input, grad = input[None], grad[None]
    words = given["padding"]
    pads = pads_of(weight, words if isinstance(words, str) else per_axis(words, axes), dilation)[::-1]
    after, before = pads[0::2], pads[1::2]
    border = border_name(given["padding_mode"])
    image, padding = input, before
    if border != "constant" or before != after:
        image, padding = extend(input, border, 0.0, before, after), [0] * axes
    gradients: Given = {}
    if "bias" in wanted:
        gradients["bias"] = grad.sum([0, *range(2, axes + 2)])
    back = [d * (n - 1) - p for d, n, p in zip(dilation, k, padding, strict=True)]
    ours = all(s == 1 for s in stride) and min(back) >= 0
    of_torch = [name for name in ("input", "weight") if name in wanted and not (ours and name == "input")]
    if ours and "input" in wanted:
        gradients["input"] = _operator(axes)(grad, _turned(weight, groups, axes), None, 1, back, dilation, groups)
    if of_torch:
        with _InAFixedOrder():
            found = torch.ops.aten.convolution_backward(
                grad, image, weight, None, stride, padding, dilation, False, [0] * axes, groups,
                ["input" in of_torch, "weight" in of_torch, False],
            )  # fmt: skip
        gradients |= {name: found[name == "weight"] for name in of_torch}
    if "input" in gradients:
        if image is not input:
            gradients["input"] = fold(gradients["input"], border, list(input.shape[2:]), before)
        if not batched:
            gradients["input"] = gradients["input"][0]
    return gradients


def numbers_gradients(given: Given, output: Tensor, grad: Tensor, wanted: set[str]) -> Given:
    """Of _conv_ours, whose options are one number for all axes."""
    axes = given["axes"]
    lists = {name: [given[name]] * axes for name in ("stride", "padding", "dilation")}
    return conv_gradients(axes, {**given, **lists, "padding_mode": "zeros", "algorithm": "ours"}, output, grad, wanted)


class _InAFixedOrder:
    """cuDNN's sums over pixels may take another order each time; where they may not, it takes other kernels.

    The choice is the process's: the first thread that comes makes it, the last one takes it back.
    """

    _lock = threading.Lock()
    _threads = 0
    _before = False

    def __enter__(self) -> None:
        with self._lock:
            if type(self)._threads == 0:
                type(self)._before = torch._C._get_cudnn_deterministic()
                torch._C._set_cudnn_deterministic(True)
            type(self)._threads += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            type(self)._threads -= 1
            if type(self)._threads == 0:
                torch._C._set_cudnn_deterministic(self._before)


def _operator(axes: int) -> Any:
    return getattr(torch.ops.torch_conv, f"conv{axes}d")


def _turned(weight: Tensor, groups: int, axes: int) -> Tensor:
    """The weight of the adjoint: taps flipped, each group's inputs and outputs exchanged."""
    flipped = weight.flip(list(range(2, axes + 2)))
    outputs, inputs = weight.shape[0] // groups, weight.shape[1]
    if outputs == 1 and inputs == 1:
        return flipped
    turned = flipped.reshape(groups, outputs, inputs, *weight.shape[2:]).transpose(1, 2)
    return turned.reshape(groups * inputs, outputs, *weight.shape[2:])
