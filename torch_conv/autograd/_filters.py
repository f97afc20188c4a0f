"""Gradients of the filters, in the image and in the kernels.

A filter correlates the extended image with a kernel, which is one factor, or a product of one factor for each axis.

    image -> extended -> correlated with factor 1 -> ... -> correlated with factor m

The gradients are the adjoints of these operations in reverse order. Flips, normalisation and the borders 'skip' and
'zero_output' come before and after the chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from torch_conv.autograd._correlation import (
    StrideDilation,
    correlate,
    flipped,
    image_adjoint,
    kernel_adjoint,
    same_adjoint,
    spread,
)
from torch_conv.autograd._extension import extend, fold
from torch_conv.autograd._node import tensor_of
from torch_conv.dispatch.borders import border_name
from torch_conv.dispatch.numbers import per_axis
from torch_conv.dispatch.operators import Arguments
from torch_conv.dispatch.symbols import surely
from torch_conv.functional._composites import sum_dtype


class KernelFactor(NamedTuple):
    """A factor of the kernel: an argument's taps with a dimension for each axis, and the options of its correlation."""

    argument: str
    taps: Tensor
    steps: StrideDilation
    algorithm: str = "auto"

    def with_taps(self, taps: Tensor) -> KernelFactor:
        """Replaces the taps. In torch 2.11's compiled autograd, `_replace` returns a plain tuple."""
        return KernelFactor(self.argument, taps, self.steps, self.algorithm)


class Margins(NamedTuple):
    """The border policy of the extended image, and its pixels before and after the image."""

    border: str
    value: float
    sizes: Sequence[int]
    before: Sequence[int]
    after: Sequence[int]

    @property
    def footprint(self) -> list[int]:
        """The sizes of the extended image."""
        return [n + b + a for n, b, a in zip(self.sizes, self.before, self.after, strict=True)]

    def extended(self, image: Tensor) -> Tensor:
        return extend(image, self.border, self.value, self.before, self.after)


def filter_gradients(axes: int, given: Arguments, output: Tensor, grad: Tensor, wanted: set[str]) -> Arguments:
    """The gradients of filter2d, filter3d."""
    stride, dilation = per_axis(given["stride"], axes), per_axis(given["dilation"], axes)
    algorithm = "direct" if given["algorithm"] == "direct" else "auto"  # keeps the bits of 'direct'
    factor = KernelFactor("kernel", given["kernel"], StrideDilation(stride, dilation), algorithm)
    return _gradients(axes, given, [factor], grad, wanted)


def separable_gradients(axes: int, given: Arguments, output: Tensor, grad: Tensor, wanted: set[str]) -> Arguments:
    """The gradients of filter2d_separable, filter3d_separable."""
    stride, dilation = per_axis(given["stride"], axes), per_axis(given["dilation"], axes)
    factors = []
    for name, axis in zip(("kernel_x", "kernel_y", "kernel_z"), reversed(range(axes)), strict=False):
        steps = StrideDilation([stride[a] if a == axis else 1 for a in range(axes)], dilation)
        factors.append(KernelFactor(name, _along(given[name], axis, axes), steps))
    gradients = _gradients(axes, given, factors, grad, wanted)
    return {name: value if name == "input" else value.reshape(given[name].shape) for name, value in gradients.items()}


def box_gradients(axes: int, given: Arguments, output: Tensor, grad: Tensor, wanted: set[str]) -> Arguments:
    """The gradients of box2d, box3d. The adjoint of a box is a box."""
    image, unit = given["input"], StrideDilation([1] * axes, [1] * axes)
    if surely(grad.numel() == 0):
        return {"input": torch.zeros_like(tensor_of(image))}
    size = per_axis(given["kernel_size"], axes)
    border = border_name(given["border_type"])
    margins = _margins_of(axes, given, size, unit, grad)
    grad = grad.to(sum_dtype(image))
    normalized = given["normalized"]
    operator = torch.ops.torch_conv.box2d if axes == 2 else torch.ops.torch_conv.box3d
    if border == "zero_output":
        grad = grad * _fits(axes, size, unit, margins, image.device)
    if border == "skip" and normalized:  # each output is divided by its number of taps inside the image
        ones = torch.ones(tuple(margins.sizes), dtype=grad.dtype, device=image.device)
        inside = operator(margins.extended(ones), size, "constant", False, padding="valid")
        grad, normalized = grad / inside, False
    total = operator(spread(grad, margins.footprint, size, unit), size, "constant", normalized, padding="valid")
    return {"input": fold(total, margins.border, margins.sizes, margins.before)}


def _gradients(axes: int, given: Arguments, factors: list[KernelFactor], grad: Tensor, wanted: set[str]) -> Arguments:
    image = given["input"]
    if surely(grad.numel() == 0):
        tensors = {"input": image} | {f.argument: f.taps for f in factors}
        return {name: torch.zeros_like(tensor_of(tensors[name])) for name in wanted}
    border = border_name(given["border_type"])
    flip = given.get("behaviour") == "conv"
    dtype = sum_dtype(image)
    grad = grad.to(dtype)
    # Kernels on the host stay there for CUDA graphs, unless their gradients are wanted, which the device computes.
    taps = [f.taps.to(image.device if f.argument in wanted else f.taps.device, dtype) for f in factors]
    if flip:
        taps = [flipped(t, axes) for t in taps]
    inside = given["normalized"] and border == "skip"
    divided_taps = given["normalized"] and not inside
    sums = [t.abs().sum(list(range(-axes, 0)), keepdim=True) for t in taps] if divided_taps else taps
    scaled = [t / s for t, s in zip(taps, sums, strict=True)] if divided_taps else taps
    k = [max(t.shape[a - axes] for t in scaled) for a in range(axes)]
    fields = zip(*(f.steps for f in factors), strict=True)  # the strides of all factors, then the dilations
    steps = StrideDilation(*([max(numbers) for numbers in zip(*lists, strict=True)] for lists in fields))
    margins = _margins_of(axes, given, k, steps, grad)
    product = [f.with_taps(t) for f, t in zip(factors, scaled, strict=True)]
    divisor_gradients: Arguments = {}
    if border == "zero_output":
        grad = grad * _fits(axes, k, steps, margins, image.device)
    if inside:  # each output is divided by its sum of |taps| inside, a correlation of ones with |taps|
        magnitudes = [f.with_taps(f.taps.abs()) for f in product]
        ones = torch.ones_like(tensor_of(image), dtype=dtype)
        divisor = _chain(margins.extended(ones), magnitudes)[-1]
        divided = grad / divisor
        if wanted - {"input"}:
            total = _chain(margins.extended(image.to(dtype)), product)[-1]
            magnitude_gradients = _adjoint(ones, magnitudes, margins, -divided * total / divisor, wanted - {"input"})
            divisor_gradients = {
                f.argument: magnitude_gradients[f.argument] * f.taps.sign() for f in product if f.argument in wanted
            }
        grad = divided
    gradients = _adjoint(image, product, margins, grad, wanted)
    for name, more in divisor_gradients.items():
        gradients[name] = gradients[name] + more
    for factor, t, s in zip(factors, taps, sums, strict=True):
        factor_gradient = gradients.get(factor.argument)
        if factor_gradient is None:
            continue
        if divided_taps:  # the derivative of t / s
            sum_gradient = (factor_gradient * t).sum(list(range(-axes, 0)), keepdim=True) / (s * s)
            factor_gradient = factor_gradient / s - sum_gradient * t.sign()
        if flip:
            factor_gradient = flipped(factor_gradient, axes)
        gradients[factor.argument] = factor_gradient.to(factor.taps.device, factor.taps.dtype)
    return gradients


def _adjoint(image: Tensor, product: list[KernelFactor], margins: Margins, grad: Tensor, wanted: set[str]) -> Arguments:
    """The `wanted` gradients of a chain of correlations."""
    gradients: Arguments = {}
    axes = len(margins.sizes)
    dense = all(max(factor.steps.stride) == 1 for factor in product)
    is_same_size = margins.border == "constant" and dense and list(grad.shape[-axes:]) == margins.sizes
    if is_same_size and "input" in wanted and (len(product) == 1 or len(wanted) == 1):  # without an extended image
        image_gradient = grad
        for factor in reversed(product):
            image_gradient = same_adjoint(
                image_gradient, factor.taps, margins.before, factor.steps.dilation, factor.algorithm
            )
        gradients["input"] = image_gradient.to(image.dtype)
        wanted = wanted - {"input"}
        if not wanted:
            return gradients
    sizes = [margins.footprint]
    for factor in product:
        k = factor.taps.shape[-len(margins.sizes) :]
        sizes.append([(n - (m - 1) * d - 1) // s + 1 for n, m, s, d in zip(sizes[-1], k, *factor.steps, strict=True)])
    read: list[Tensor] = []
    if any(factor.argument in wanted for factor in product):
        read = _chain(margins.extended(image.to(grad.dtype)), product[:-1])
    for i in reversed(range(len(product))):
        factor = product[i]
        if factor.argument in wanted:
            gradients[factor.argument] = kernel_adjoint(grad, read[i], factor.taps.shape, factor.steps)
        if i > 0 or "input" in wanted:
            grad = image_adjoint(grad, factor.taps, sizes[i], factor.steps, factor.algorithm)
    if "input" in wanted:
        gradients["input"] = fold(grad, margins.border, margins.sizes, margins.before).to(image.dtype)
    return gradients


def _chain(image: Tensor, product: list[KernelFactor]) -> list[Tensor]:
    """The image, then the result of each correlation."""
    images = [image]
    for factor in product:
        images.append(correlate(images[-1], factor.taps, factor.steps, factor.algorithm))
    return images


def _margins_of(axes: int, given: Arguments, k: Sequence[int], steps: StrideDilation, grad: Tensor) -> Margins:
    image, border = given["input"], border_name(given["border_type"])
    outside = "constant" if border in ("skip", "zero_output") else border
    value = given["value"] if border == "constant" else 0.0
    sizes = list(image.shape[image.dim() - axes :])
    anchor = given["anchor"]
    before = [0] * axes
    if given["padding"] != "valid":
        for axis in range(axes):
            tap = (k[axis] - 1) // 2 if anchor is None else per_axis(anchor, axes)[axis]
            before[axis] = (k[axis] // 2 if tap == -1 else tap) * steps.dilation[axis]
    after = []
    for axis in range(axes):
        outputs = grad.shape[axis - axes]
        footprint = (outputs - 1) * steps.stride[axis] + (k[axis] - 1) * steps.dilation[axis] + 1
        after.append(footprint - before[axis] - sizes[axis])
    return Margins(outside, value, sizes, before, after)


def _fits(axes: int, k: Sequence[int], steps: StrideDilation, margins: Margins, device: torch.device) -> Tensor:
    """A mask of the outputs whose footprints are inside the image."""
    fits = torch.ones((), dtype=torch.bool, device=device)
    for axis in range(axes):
        n, footprint = margins.sizes[axis], (k[axis] - 1) * steps.dilation[axis]
        first = (
            torch.arange(0, margins.footprint[axis] - footprint, steps.stride[axis], device=device)
            - margins.before[axis]
        )
        fits = fits[..., None] & (first >= 0) & (first + footprint < n)
    return fits


def _along(taps: Tensor, axis: int, axes: int) -> Tensor:
    """Reshapes taps (..., k) to k taps along `axis` and one along each other axis."""
    shape = [*taps.shape[:-1], *(taps.shape[-1] if a == axis else 1 for a in range(axes))]
    return taps.reshape(shape)
