"""Gradients of the fused pipelines: the chain once more, filter by filter, in the dtype of sums; nothing is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from torch_conv.autograd._node import tensor_of
from torch_conv.autograd._steps import vjp
from torch_conv.functional._composites import root, sum_dtype, sum_of_squares
from torch_conv.functional._derivative_kernels import gradient_kernels, gradient_kernels3d

Given = dict[str, Any]
_ops = torch.ops.torch_conv


def _by_steps(steps: Callable[[Given], Tensor]) -> Callable[[int, Given, Tensor, Tensor, set[str]], Given]:
    def gradients(_: int, given: Given, output: Tensor, grad: Tensor, wanted: set[str]) -> Given:
        given = given | {"input": tensor_of(given["input"])}
        dtype = sum_dtype(given["input"])
        tensors, structure = tree_flatten({name: given[name] for name in sorted(wanted)})

        def run(*taken: Tensor) -> Tensor:
            used = given | tree_unflatten(taken, structure)
            return steps(used | {"input": used["input"].to(dtype)})

        return tree_unflatten(vjp(run, tensors, grad.to(dtype)), structure)

    return gradients


def _around(given: Given) -> dict[str, Any]:
    return {"border_type": given["border_type"], "padding": given["padding"], "value": given["value"]}


def _blurred(given: Given, image: Tensor | None = None) -> Tensor:
    image = given["input"] if image is None else image
    return _ops.filter2d_separable(image, given["kernel_x"], given["kernel_y"], **_around(given))


def _derivatives(given: Given, image: Tensor, mode: str, order: int, normalized: bool) -> list[Tensor]:
    windows = gradient_kernels(mode, order, normalized, image.dtype)
    return [_ops.filter2d(image, window, **_around(given)) for window in windows]


def _length(parts: list[Tensor]) -> Tensor:
    """The root of the sum of squares; where that is 0 its gradient is taken for 0."""
    return root(sum_of_squares(parts))


@_by_steps
def gradient2d(given: Given) -> Tensor:
    parts = _derivatives(given, given["input"], given["mode"], given["order"], given["normalized"])
    return torch.stack(parts, -3)


@_by_steps
def sobel2d(given: Given) -> Tensor:
    x, y = _derivatives(given, given["input"], "sobel", 1, given["normalized"])
    return root(sum_of_squares([x, y]) + given["eps"])


@_by_steps
def gaussian_sobel2d(given: Given) -> Tensor:
    x, y = _derivatives(given, _blurred(given), "sobel", 1, False)
    return x.abs() + y.abs() if given["magnitude"] == "l1" else _length([x, y])


@_by_steps
def separable_sum2d(given: Given) -> Tensor:
    parts = [
        _ops.filter2d_separable(given["input"], x, y, **_around(given))
        for x, y in zip(given["kernels_x"], given["kernels_y"], strict=True)
    ]
    return torch.stack(parts).sum(0)


@_by_steps
def unsharp_mask2d(given: Given) -> Tensor:
    image, blurred = given["input"], _blurred(given)
    if given["padding"] == "valid":
        for dim, name in ((-2, "kernel_y"), (-1, "kernel_x")):
            image = image.narrow(dim, (given[name].shape[-1] - 1) // 2, blurred.shape[dim])
    sharp = image + given["amount"] * (image - blurred)
    if given["border_type"] != "zero_output":
        return sharp
    ones = [torch.ones_like(given[name]) for name in ("input", "kernel_x", "kernel_y")]
    return torch.where(_ops.filter2d_separable(*ones, **_around(given)) > 0, sharp, 0.0)  # where the window fits


@_by_steps
def structure_tensor2d(given: Given) -> Tensor:
    x, y = _derivatives(given, given["input"], given["mode"], 1, True)
    return torch.stack([_blurred(given, product) for product in (x * x, x * y, y * y)], -3)


def _thin_edges2d(given: Given) -> Tensor:
    x, y = _derivatives(given, _blurred(given), "sobel", 1, False)
    length = _length([x, y])
    if given["padding"] == "valid":
        length = length[..., 1:-1, 1:-1]
    return torch.where(given["kept"], length, 0.0)


@_by_steps
def gaussian_gradient3d(given: Given) -> Tensor:
    blurred = _ops.filter3d_separable(
        given["input"], given["kernel_x"], given["kernel_y"], given["kernel_z"], **_around(given)
    )
    windows = gradient_kernels3d(given["mode"], 1, blurred.dtype)
    return _length([_ops.filter3d(blurred, window, **_around(given)) for window in windows])


def thin_edges2d(_: int, given: Given, output: Tensor, grad: Tensor, wanted: set[str]) -> Given:
    """Of the edges that the output kept; which those are has no gradient."""
    return _by_steps(_thin_edges2d)(2, {**given, "kept": output != 0}, output, grad, wanted)
