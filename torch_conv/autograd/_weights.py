"""Gradients of depthwise convolutions in windows and biases."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

import torch
from torch import _C, Tensor

from torch_conv.autograd._node import alone
from torch_conv.functional._calls import below_autograd
from torch_conv.functional._convolve import ours_of_numbers

_BY_US = torch.ops.torch_conv._weight_gradient.default
_BY_ANYONE = torch.ops.torch_conv._weight_gradient_by_anyone.default


def windows_of_planes(
    image: Tensor,
    grad: Tensor,
    k: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[Tensor]:
    """The gradients of a depthwise convolution in its windows, (outputs, 1, *k), and where they come along its biases.

    None of them where torch's are faster, or somebody looks on.
    """
    signal_or_image = len(k) <= 2
    if alone(grad):
        if grad.is_cpu:
            found = _windows_on_the_cpu(image, grad, k, stride, padding, dilation) if len(k) == 2 else None
            return [] if found is None else [found]
        if grad.is_cuda and signal_or_image and max(dilation) == 1:
            return below_autograd(_BY_US, image, grad, list(k), list(stride), list(padding))
    elif _is_traced() and grad.is_cuda and signal_or_image and max(dilation) == 1:
        return list(_BY_ANYONE(image, grad, list(k), list(stride), list(padding)))
    return []


def _is_traced() -> bool:
    """Whether somebody looks on, but takes no derivative of what is done here: torch.compile, a mode."""
    return not torch.is_grad_enabled() and not _C._are_functorch_transforms_active()


def by_anyone(
    image: Tensor, grad: Tensor, k: list[int], stride: list[int], padding: list[int]
) -> tuple[Tensor, Tensor]:
    """The operator that compiled code calls: both gradients, by torch where our kernels do not make them."""
    found = _BY_US(image, grad, k, stride, padding)
    if not found:
        weight, axes = grad.new_empty((grad.shape[1], 1, *k)), len(k)
        with InAFixedOrder():
            found = torch.ops.aten.convolution_backward(
                grad, image, weight, [grad.shape[1]], stride, padding, [1] * axes, False, [0] * axes, image.shape[1],
                [False, True, True],
            )[1:]  # fmt: skip
    return found[0], found[1]


def _windows_on_the_cpu(
    image: Tensor,
    grad: Tensor,
    k: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor | None:
    """It is a convolution of the image itself: what is wanted of a plane's outputs is the window there, and stride and
    dilation change places. Torch's time over ours in float32, one
    thread of a shared 2-core AMD EPYC: 7x7 of 1x96x56x56 12.2, 8x96x14x14 7.5, 1x4x8x8 2.2; 5x5 of 8x96x28x28 7.1; 4x4
    and 5x3 of 1x96x28x28 7.5 and 4.2; 3x3 of 1x4x8x8 3.3, 1x96x14x14 1.2, 1x96x28x28 0.7, and in float64 3.7; with
    channels innermost 0.1 to 3.
    """
    if grad.dtype not in (torch.float32, torch.float64):
        return None
    (n, c), (step, pad, spread), outputs = image.shape[:2], (stride[0], padding[0], dilation[0]), grad.shape[2:]
    one_of_each = stride[1] == step and padding[1] == pad and dilation[1] == spread
    short = 0 < math.prod(outputs) <= 4096  # one chain of sums each
    if not one_of_each or not short or image.numel() == 0 or not image.is_contiguous():
        return None
    if max(k) <= 3 and grad.shape[1] == c and grad.dtype == torch.float32 and grad.numel() * math.prod(k) > 1 << 17:
        return None
    planes, windows = image.reshape(1, n * c, *image.shape[2:]), grad.reshape(-1, 1, *outputs)
    found = below_autograd(ours_of_numbers, planes, windows, None, 2, spread, pad, step, n * c)
    each = found[..., : k[0], : k[1]].reshape(n, -1, 1, *k)
    return each[0] if n == 1 else each.sum(0)


class InAFixedOrder:
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
