"""Gradients of the fused pipelines, which recompute the pipeline filter by filter in the dtype of sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from torch_conv.autograd._node import Formula, tensor_of
from torch_conv.autograd._vjp import vjp
from torch_conv.dispatch.operators import Arguments
from torch_conv.functional._composites import root, sum_dtype, sum_of_squares
from torch_conv.functional._derivative_kernels import gradient_kernels, gradient_kernels3d

_ops = torch.ops.torch_conv


def _recomputed(pipeline: Callable[[Arguments], Tensor]) -> Formula:
    def gradients(_: int, given: Arguments, output: Tensor, grad: Tensor, wanted: set[str]) -> Arguments:
        given = given | {"input": tensor_of(given["input"])}
        dtype = sum_dtype(given["input"])
        tensors, structure = tree_flatten({name: given[name] for name in sorted(wanted)})

        def run(*leaves: Tensor) -> Tensor:
            used = given | tree_unflatten(leaves, structure)
            return pipeline(used | {"input": used["input"].to(dtype)})

        return tree_unflatten(vjp(run, tensors, grad.to(dtype)), structure)

    return gradients


def _border_options(given: Arguments) -> dict[str, Any]:
    return {"border_type": given["border_type"], "padding": given["padding"], "value": given["value"]}


def _blurred(given: Arguments, image: Tensor | None = None) -> Tensor:
    image = given["input"] if image is None else image
    return _ops.filter2d_separable(image, given["kernel_x"], given["kernel_y"], **_border_options(given))


def _derivatives(given: Arguments, image: Tensor, mode: str, order: int, normalized: bool) -> list[Tensor]:
    kernels = gradient_kernels(mode, order, normalized, image.dtype)
    return [_ops.filter2d(image, kernel, **_border_options(given)) for kernel in kernels]


def _length(parts: list[Tensor]) -> Tensor:
    """The root of the sum of squares, with the gradient 0 where the root is 0."""
    return root(sum_of_squares(parts))


@_recomputed
def gradient2d(given: Arguments) -> Tensor:
    parts = _derivatives(given, given["input"], given["mode"], given["order"], given["normalized"])
    return torch.stack(parts, -3)


@_recomputed
def sobel2d(given: Arguments) -> Tensor:
    x, y = _derivatives(given, given["input"], "sobel", 1, given["normalized"])
    return root(sum_of_squares([x, y]) + given["eps"])


@_recomputed
def gaussian_sobel2d(given: Arguments) -> Tensor:
    x, y = _derivatives(given, _blurred(given), "sobel", 1, False)
    return x.abs() + y.abs() if given["magnitude"] == "l1" else _length([x, y])


@_recomputed
def separable_sum2d(given: Arguments) -> Tensor:
    parts = [
        _ops.filter2d_separable(given["input"], x, y, **_border_options(given))
        for x, y in zip(given["kernels_x"], given["kernels_y"], strict=True)
    ]
    return torch.stack(parts).sum(0)


@_recomputed
def unsharp_mask2d(given: Arguments) -> Tensor:
    image, blurred = given["input"], _blurred(given)
    if given["padding"] == "valid":
        for dim, name in ((-2, "kernel_y"), (-1, "kernel_x")):
            image = image.narrow(dim, (given[name].shape[-1] - 1) // 2, blurred.shape[dim])
    sharp = image + given["amount"] * (image - blurred)
    if given["border_type"] != "zero_output":
        return sharp
    # The filter of ones is positive where the footprint is inside the image.
    ones = [torch.ones_like(given[name]) for name in ("input", "kernel_x", "kernel_y")]
    return torch.where(_ops.filter2d_separable(*ones, **_border_options(given)) > 0, sharp, 0.0)


@_recomputed
def structure_tensor2d(given: Arguments) -> Tensor:
    x, y = _derivatives(given, given["input"], given["mode"], 1, True)
    return torch.stack([_blurred(given, product) for product in (x * x, x * y, y * y)], -3)


def _thin_edges2d(given: Arguments) -> Tensor:
    x, y = _derivatives(given, _blurred(given), "sobel", 1, False)
    length = _length([x, y])
    if given["padding"] == "valid":
        length = length[..., 1:-1, 1:-1]
    return torch.where(given["kept"], length, 0.0)


@_recomputed
def gaussian_gradient3d(given: Arguments) -> Tensor:
    blurred = _ops.filter3d_separable(
        given["input"], given["kernel_x"], given["kernel_y"], given["kernel_z"], **_border_options(given)
    )
    kernels = gradient_kernels3d(given["mode"], 1, blurred.dtype)
    return _length([_ops.filter3d(blurred, kernel, **_border_options(given)) for kernel in kernels])


def thin_edges2d(_: int, given: Arguments, output: Tensor, grad: Tensor, wanted: set[str]) -> Arguments:
    """The gradients of the edges in the output. The selection of edges has no gradient."""
    return _recomputed(_thin_edges2d)(2, {**given, "kept": output != 0}, output, grad, wanted)
