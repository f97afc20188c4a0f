"""Gradients of depthwise convolutions in weights and biases."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from torch_conv.autograd._by_torch import convolution_backward
from torch_conv.autograd._node import in_transform, runs_eagerly
from torch_conv.functional._calls import below_autograd
from torch_conv.functional._convolve import ours_of_numbers

Ints = Sequence[int]
_OURS = torch.ops.torch_conv._weight_gradient.default
_OURS_OR_TORCH = torch.ops.torch_conv._weight_gradient_or_torch.default


def depthwise_weight_gradients(
    image: Tensor, grad: Tensor, k: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of a depthwise convolution in its weight, (outputs, 1, *k), and in its bias.

    A gradient is None if the caller must compute it: torch is faster, or a second derivative is wanted.
    """
    if grad.is_cpu:
        ours_on_cpu = runs_eagerly(grad) and len(k) == 2 and grad.dtype in (torch.float32, torch.float64)
        return _weight_gradient_on_cpu(image, grad, k, stride, padding, dilation) if ours_on_cpu else None, None
    if not grad.is_cuda or len(k) > 2 or max(dilation) > 1:
        return None, None
    given = image, grad, list(k), list(stride), list(padding)
    if runs_eagerly(grad):
        found = below_autograd(_OURS, *given)
        return (found[0], found[1]) if found else (None, None)
    if torch.is_grad_enabled() or in_transform():
        return None, None
    return _OURS_OR_TORCH(*given)  # under torch.compile or a dispatch mode


def weight_gradient_or_torch(
    image: Tensor, grad: Tensor, k: list[int], stride: list[int], padding: list[int]
) -> tuple[Tensor, Tensor]:
    """The operator that compiled code calls. Torch computes both gradients where our kernels do not."""
    found = _OURS(image, grad, k, stride, padding)
    if found:
        return found[0], found[1]
    weight = grad.new_empty((grad.shape[1], 1, *k))
    by_torch = convolution_backward(
        grad, image, weight, stride, padding, [1] * len(k), image.shape[1], ("weight", "bias")
    )
    return by_torch["weight"], by_torch["bias"]


def _weight_gradient_on_cpu(
    image: Tensor, grad: Tensor, k: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> Tensor | None:
    """Filters each plane of the image by its plane of `grad`, with stride and dilation exchanged, or returns None.

    None means that torch is faster. Torch's time divided by ours, float32, one thread of a shared 2-core AMD EPYC:

        7x7   1x96x56x56 12.2, 8x96x14x14 7.5, 1x4x8x8 2.2
        5x5   8x96x28x28 7.1
        4x4   1x96x28x28 7.5; 5x3: 4.2
        3x3   1x4x8x8 3.3, 1x96x14x14 1.2, 1x96x28x28 0.7 (float64 3.7)
        channels innermost: 0.1 to 3
    """
    (n, c), (step, pad, spread), outputs = image.shape[:2], (stride[0], padding[0], dilation[0]), grad.shape[2:]
    is_isotropic = stride[1] == step and padding[1] == pad and dilation[1] == spread
    is_short = 0 < math.prod(outputs) <= 4096  # one chain of sums for each tap
    if not is_isotropic or not is_short or image.numel() == 0 or not image.is_contiguous():
        return None
    if max(k) <= 3 and grad.shape[1] == c and grad.dtype == torch.float32 and grad.numel() * math.prod(k) > 1 << 17:
        return None
    planes, kernels = image.reshape(1, n * c, *image.shape[2:]), grad.reshape(-1, 1, *outputs)
    found = below_autograd(ours_of_numbers, planes, kernels, None, 2, spread, pad, step, n * c)
    each = found[..., : k[0], : k[1]].reshape(n, -1, 1, *k)
    return each[0] if n == 1 else each.sum(0)
