"""Gradients of the filters, in the image and in the windows.

A filter correlates the extended image with a product of windows: one window, or one along each axis.

    image -> extended -> correlated with window 1 -> ... -> correlated with window m

The gradients are the adjoints of these steps in reverse order. Flips, normalisation and the borders 'skip' and
'zero_output' are steps before and after the chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_conv._arguments import border_name, per_axis
from torch_conv._symbols import surely
from torch_conv.autograd._correlation import (
    Steps,
    correlate,
    flipped,
    image_adjoint,
    same_adjoint,
    spread,
    window_adjoint,
)
from torch_conv.autograd._extension import extend, fold
from torch_conv.autograd._node import tensor_of
from torch_conv.functional._composites import sum_dtype

Given = dict[str, Any]


class Window(NamedTuple):
    """A factor of the product: an argument's taps as a window of all axes, and the options of its correlation."""

    argument: str
    taps: Tensor
    steps: Steps
    algorithm: str = "auto"

    def with_taps(self, taps: Tensor) -> Window:
        """Replaces the taps. Torch 2.11's compiled autograd turns `_replace` into a tuple without fields."""
        return Window(self.argument, taps, self.steps, self.algorithm)


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


def filter_gradients(axes: int, given: Given, output: Tensor, grad: Tensor, wanted: set[str]) -> Given:
    """The gradients of filter2d, filter3d."""
    stride, dilation = per_axis(given["stride"], axes), per_axis(given["dilation"], axes)
    algorithm = "direct" if given["algorithm"] == "direct" else "auto"  # the caller wants the bits of 'direct'
    window = Window("kernel", given["kernel"], Steps(stride, dilation), algorithm)
    return _gradients(axes, given, [window], grad, wanted)


def separable_gradients(axes: int, given: Given, output: Tensor, grad: Tensor, wanted: set[str]) -> Given:
    """The gradients of filter2d_separable, filter3d_separable."""
    stride, dilation = per_axis(given["stride"], axes), per_axis(given["dilation"], axes)
    windows = []
    for name, axis in zip(("kernel_x", "kernel_y", "kernel_z"), reversed(range(axes)), strict=False):
        steps = Steps([stride[a] if a == axis else 1 for a in range(axes)], dilation)
        windows.append(Window(name, _along(given[name], axis, axes), steps))
    gradients = _gradients(axes, given, windows, grad, wanted)
    return {name: value if name == "input" else value.reshape(given[name].shape) for name, value in gradients.items()}


def box_gradients(axes: int, given: Given, output: Tensor, grad: Tensor, wanted: set[str]) -> Given:
    """The gradients of box2d, box3d. The adjoint of a box is a box."""
    image, unit = given["input"], Steps([1] * axes, [1] * axes)
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
    if border == "skip" and normalized:  # divided by the number of taps inside, the same for every plane
        ones = torch.ones(tuple(margins.sizes), dtype=grad.dtype, device=image.device)
        inside = operator(margins.extended(ones), size, "constant", False, padding="valid")
        grad, normalized = grad / inside, False
    total = operator(spread(grad, margins.footprint, size, unit), size, "constant", normalized, padding="valid")
    return {"input": fold(total, margins.border, margins.sizes, margins.before)}


def _gradients(axes: int, given: Given, windows: list[Window], grad: Tensor, wanted: set[str]) -> Given:
    image = given["input"]
    if surely(grad.numel() == 0):
        tensors = {"input": image} | {w.argument: w.taps for w in windows}
        return {name: torch.zeros_like(tensor_of(tensors[name])) for name in wanted}
    border = border_name(given["border_type"])
    flip = given.get("behaviour") == "conv"
    dtype = sum_dtype(image)
    grad = grad.to(dtype)
    # A CUDA graph needs windows on the host to stay there. Wanted ones move: the device adds up their gradients.
    taps = [w.taps.to(image.device if w.argument in wanted else w.taps.device, dtype) for w in windows]
    if flip:
        taps = [flipped(t, axes) for t in taps]
    inside = given["normalized"] and border == "skip"
    divided_taps = given["normalized"] and not inside
    sums = [t.abs().sum(list(range(-axes, 0)), keepdim=True) for t in taps] if divided_taps else taps
    used = [t / s for t, s in zip(taps, sums, strict=True)] if divided_taps else taps
    k = [max(t.shape[a - axes] for t in used) for a in range(axes)]
    steps = Steps(
        *([max(p) for p in zip(*(getattr(w.steps, name) for w in windows), strict=True)] for name in Steps._fields)
    )
    margins = _margins_of(axes, given, k, steps, grad)
    product = [w.with_taps(t) for w, t in zip(windows, used, strict=True)]
    own: Given = {}
    if border == "zero_output":
        grad = grad * _fits(axes, k, steps, margins, image.device)
    if inside:  # divided by the sum of |taps| inside, which a correlation of ones with |taps| gives
        magnitudes = [w.with_taps(w.taps.abs()) for w in product]
        ones = torch.ones_like(tensor_of(image), dtype=dtype)
        divisor = _chain(margins.extended(ones), magnitudes)[-1]
        divided = grad / divisor
        if wanted - {"input"}:
            total = _chain(margins.extended(image.to(dtype)), product)[-1]
            of_sizes = _adjoint(ones, magnitudes, margins, -divided * total / divisor, wanted - {"input"})
            own = {w.argument: of_sizes[w.argument] * w.taps.sign() for w in product if w.argument in wanted}
        grad = divided
    gradients = _adjoint(image, product, margins, grad, wanted)
    for name, more in own.items():
        gradients[name] = gradients[name] + more
    for window, t, s in zip(windows, taps, sums, strict=True):
        of_window = gradients.get(window.argument)
        if of_window is None:
            continue
        if divided_taps:  # of t / s
            lost = (of_window * t).sum(list(range(-axes, 0)), keepdim=True) / (s * s)
            of_window = of_window / s - lost * t.sign()
        if flip:
            of_window = flipped(of_window, axes)
        gradients[window.argument] = of_window.to(window.taps.device, window.taps.dtype)
    return gradients


def _adjoint(image: Tensor, product: list[Window], margins: Margins, grad: Tensor, wanted: set[str]) -> Given:
    """The `wanted` gradients of a chain of correlations, in image and windows."""
    gradients: Given = {}
    axes = len(margins.sizes)
    dense = all(max(window.steps.stride) == 1 for window in product)
    alike = margins.border == "constant" and dense and list(grad.shape[-axes:]) == margins.sizes
    if alike and "input" in wanted and (len(product) == 1 or len(wanted) == 1):  # needs no extended image
        of_image = grad
        for window in reversed(product):
            of_image = same_adjoint(of_image, window.taps, margins.before, window.steps.dilation, window.algorithm)
        gradients["input"] = of_image.to(image.dtype)
        wanted = wanted - {"input"}
        if not wanted:
            return gradients
    sizes = [margins.footprint]
    for window in product:
        k = window.taps.shape[-len(margins.sizes) :]
        sizes.append([(n - (m - 1) * d - 1) // s + 1 for n, m, s, d in zip(sizes[-1], k, *window.steps, strict=True)])
    read: list[Tensor] = []
    if any(window.argument in wanted for window in product):
        read = _chain(margins.extended(image.to(grad.dtype)), product[:-1])
    for i in reversed(range(len(product))):
        window = product[i]
        if window.argument in wanted:
            gradients[window.argument] = window_adjoint(grad, read[i], window.taps.shape, window.steps)
        if i > 0 or "input" in wanted:
            grad = image_adjoint(grad, window.taps, sizes[i], window.steps, window.algorithm)
    if "input" in wanted:
        gradients["input"] = fold(grad, margins.border, margins.sizes, margins.before).to(image.dtype)
    return gradients


def _chain(image: Tensor, product: list[Window]) -> list[Tensor]:
    """The image, then the result of each correlation."""
    images = [image]
    for window in product:
        images.append(correlate(images[-1], window.taps, window.steps, window.algorithm))
    return images


def _margins_of(axes: int, given: Given, k: Sequence[int], steps: Steps, grad: Tensor) -> Margins:
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


def _fits(axes: int, k: Sequence[int], steps: Steps, margins: Margins, device: torch.device) -> Tensor:
    """A mask of the outputs with their whole window inside the image."""
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
    """Reshapes taps (..., k) to a window of all axes with k taps along `axis`."""
    shape = [*taps.shape[:-1], *(taps.shape[-1] if a == axis else 1 for a in range(axes))]
    return taps.reshape(shape)
