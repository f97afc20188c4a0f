"""Correlations without padding and their two adjoints, which make up the gradients of all filters.

An image is (..., *sizes), a kernel (*k), (1|B, *k) or (1|B, 1|C, *k). The adjoint in the image is a correlation with
the flipped kernel, by our operators. The adjoint in the kernel sums over all pixels. It is the weight gradient of a
depthwise convolution. The adjoints are differentiable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_conv.autograd._by_torch import convolution_backward
from torch_conv.autograd._node import runs_eagerly
from torch_conv.autograd._weights import depthwise_weight_gradients
from torch_conv.dispatch.symbols import surely
from torch_conv.functional._calls import below_autograd
from torch_conv.functional._composites import sum_dtype


class StrideDilation(NamedTuple):
    """Stride and dilation of each axis."""

    stride: Sequence[int]
    dilation: Sequence[int]

    @property
    def axes(self) -> int:
        return len(self.stride)


def flipped(kernel: Tensor, axes: int) -> Tensor:
    return kernel.flip(list(range(-axes, 0)))


_FILTERS = {2: torch.ops.torch_conv.filter2d.default, 3: torch.ops.torch_conv.filter3d.default}


def correlate(
    image: Tensor,
    kernel: Tensor,
    steps: StrideDilation,
    algorithm: str = "auto",
    padding: str = "valid",
    anchor: Sequence[int] | None = None,
) -> Tensor:
    """The correlation in the dtype of sums; 'same' padding reads zeros."""
    given: dict[str, Any] = {}  # without defaults, because torch takes host time for each argument
    if algorithm != "auto":
        given["algorithm"] = algorithm
    if max(steps.stride) > 1:
        given["stride"] = steps.stride
    if max(steps.dilation) > 1:
        given["dilation"] = steps.dilation
    if anchor is not None:
        given["anchor"] = anchor
    if image.dtype != sum_dtype(image):
        given["output_dtype"] = sum_dtype(image)
    operator = _FILTERS[steps.axes]
    if runs_eagerly(image):
        return below_autograd(operator, image, kernel, "constant", padding=padding, **given)
    return operator(image, kernel, "constant", padding=padding, **given)


def spread(grad: Tensor, sizes: Sequence[int], k: Sequence[int], steps: StrideDilation) -> Tensor:
    """Places each output at the first pixel of its footprint, in an image of `sizes` with a halo of zeros."""
    pads: list[int] = []
    is_dense = all(s == 1 for s in steps.stride)
    full_shape = list(grad.shape[: grad.dim() - steps.axes])
    index: list[Any] = [...]
    for axis in range(steps.axes):
        halo, s = (k[axis] - 1) * steps.dilation[axis], steps.stride[axis]
        outputs = grad.shape[axis - steps.axes]
        pads = [halo, halo + sizes[axis] - halo - outputs, *pads]
        full_shape.append(sizes[axis] + halo)
        index.append(slice(halo, halo + (outputs - 1) * s + 1 if outputs else halo, s))
    if is_dense:
        return F.pad(grad, pads)
    zeros = grad.new_zeros(full_shape)
    zeros[tuple(index)] = grad
    return zeros


def image_adjoint(
    grad: Tensor, kernel: Tensor, sizes: Sequence[int], steps: StrideDilation, algorithm: str = "auto"
) -> Tensor:
    """The gradient of `correlate` in an image of `sizes`."""
    axes = steps.axes
    k = kernel.shape[kernel.dim() - axes :]
    unit = StrideDilation([1] * axes, steps.dilation)
    return correlate(spread(grad, sizes, k, steps), flipped(kernel, axes), unit, algorithm)


def same_adjoint(
    grad: Tensor, kernel: Tensor, before: Sequence[int], dilation: Sequence[int], algorithm: str = "auto"
) -> Tensor:
    """The gradient of a 'same' correlation with a border of zeros, `before` of them in front of the image."""
    axes = len(before)
    k = kernel.shape[kernel.dim() - axes :]
    anchor = [n - 1 - b // d if n > 1 else 0 for n, b, d in zip(k, before, dilation, strict=True)]
    return correlate(grad, flipped(kernel, axes), StrideDilation([1] * axes, dilation), algorithm, "same", anchor)


def kernel_adjoint(grad: Tensor, image: Tensor, shape: Sequence[int], steps: StrideDilation) -> Tensor:
    """The gradient of `correlate` in a kernel of `shape`, in the dtype of sums.

    Each plane is a group of one depthwise convolution, so the order of sums is fixed.
    """
    axes = steps.axes
    k = list(shape[len(shape) - axes :])
    leading = list(image.shape[: image.dim() - axes])
    planes = math.prod(leading)
    dtype = sum_dtype(image)
    if surely(grad.numel() == 0) or surely(planes == 0):
        return grad.new_zeros(list(shape), dtype=dtype)
    flat = image.to(dtype).reshape(1, planes, *image.shape[image.dim() - axes :])
    outputs = grad.to(dtype).reshape(1, planes, *grad.shape[grad.dim() - axes :])
    each, _ = depthwise_weight_gradients(flat, outputs, k, steps.stride, [0] * axes, steps.dilation)
    if each is None:
        each = _weight_gradient_by_torch(flat, outputs, k, steps)
    leading_dims = len(shape) - axes  # for samples and channels
    if leading_dims == 0:
        return each.sum(0).reshape(k)
    batch, channels = (leading[-2], leading[-1]) if len(leading) > 1 else (1, planes)
    if len(leading) > 2:  # the kernel has one sample
        batch, channels = 1, planes
    each = each.reshape(batch, channels, *k)
    if surely(shape[0] == 1):
        each = each.sum(0, keepdim=True)
    if leading_dims == 1:
        return each.sum(1)
    return each.sum(1, keepdim=True) if surely(shape[1] == 1) else each


def _weight_gradient_by_torch(flat: Tensor, outputs: Tensor, k: Sequence[int], steps: StrideDilation) -> Tensor:
    axes, planes = steps.axes, flat.shape[1]
    for axis in range(axes):  # crops pixels that no output reads
        dim = axis + 2
        footprint = (outputs.shape[dim] - 1) * steps.stride[axis] + (k[axis] - 1) * steps.dilation[axis] + 1
        flat = flat.narrow(dim, 0, footprint)
    is_one_plane = surely(planes == 1)  # torch needs two groups for a depthwise convolution: a group of zeros is added
    groups = 2 if is_one_plane else planes
    if is_one_plane:
        flat, outputs = (torch.cat([t, torch.zeros_like(t)], 1) for t in (flat, outputs))
    kernel = flat.new_zeros(()).expand(groups, 1, *k)
    no_pads = [0] * axes
    found = convolution_backward(outputs, flat, kernel, steps.stride, no_pads, steps.dilation, groups, ("weight",))
    return found["weight"].narrow(0, 0, planes)
