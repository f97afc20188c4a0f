"""torch.vmap of the operators: one call for all examples, where torch would make one for each and warn of it.

What `torch.vmap` maps over becomes samples of a batch. Windows that are mapped too become a window per sample of a
filter, and groups of a convolution. What has no such form (the weights of a sequence, and what the operator refuses) is
called for each example.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

_Operator = Callable[..., Any]
_Rule = Callable[..., tuple[Any, Any]]  # rule(info, in_dims, *args, **options): the result, and where it is mapped

# The axes of images, and of windows.
_FILTERS = {
    "filter2d": (2, 2),
    "filter2d_separable": (2, 1),
    "box2d": (2, 0),
    "filter3d": (3, 3),
    "filter3d_separable": (3, 1),
    "box3d": (3, 0),
    "gradient2d": (2, 0),
    "sobel2d": (2, 0),
    "gaussian_sobel2d": (2, 1),
    "separable_sum2d": (2, 1),
    "unsharp_mask2d": (2, 1),
    "structure_tensor2d": (2, 1),
    "thin_edges2d": (2, 1),
    "gaussian_gradient3d": (3, 1),
}
_LIBRARY = torch.library.Library("torch_conv", "IMPL")


def register() -> None:
    """Called once, by the package."""
    of = torch.ops.torch_conv
    rules: dict[str, _Rule] = {}
    for name, (axes, window_axes) in _FILTERS.items():
        rules[name] = _filter(getattr(of, name).default, axes, window_axes)
    for name in ("conv1d", "conv2d", "conv3d"):
        rules[name] = _convolution(getattr(of, name).default, groups=3)
        rules[f"{name}.padding"] = _convolution(getattr(of, name).padding, groups=3)
    rules["_conv_ours"] = _convolution(of._conv_ours.default, groups=4)
    for name in ("causal_conv1d", "causal_conv1d_states"):
        rules[name] = _sequences(getattr(of, name).default)
    for name, rule in rules.items():
        torch.library.register_vmap(f"torch_conv::{name}", rule, lib=_LIBRARY)


def _first(t: Tensor, dim: int | None, n: int) -> Tensor:
    """`t` with the mapped dimension before all others, n of it; what is not mapped is repeated."""
    return t.expand(n, *t.shape) if dim is None else t.movedim(dim, 0)


def _each(operator: _Operator, n: int, in_dims: Any, args: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """A call for each example."""

    def example(i: int) -> Any:
        return tree_map(lambda value, dim: value if dim is None else value.select(dim, i), args, dims)

    dims = (*in_dims, *[None] * (len(args) - len(in_dims)))
    results = [operator(*example(i), **options) for i in range(n)]
    stacked = tree_map(lambda *parts: torch.stack(parts), *results)
    return stacked, tree_map(lambda _: 0, stacked)


def _filter(operator: _Operator, axes: int, window_axes: int) -> _Rule:
    def rule(info: Any, in_dims: Any, input: Tensor, *args: Any, **options: Any) -> tuple[Any, Any]:
        n = info.batch_size
        images = _first(input, in_dims[0], n)
        if images.dim() <= axes:
            return _each(operator, n, in_dims, (input, *args), options)
        lead, size = images.shape[1:-axes], images.shape[-axes:]
        b, c = lead if len(lead) == 2 else (1, *lead, 1)[:2]
        given, spec = tree_flatten(args)
        dims = tree_leaves(in_dims[1:])
        windows = [(value, dim) for value, dim in zip(given, dims, strict=True) if isinstance(value, Tensor)]
        if all(dim is None and window.dim() == window_axes for window, dim in windows):
            return operator(images, *args, **options), 0
        samples = [_of_samples(window, dim, window_axes, n, b) for window, dim in windows]
        if len(lead) > 2 or any(window is None for window in samples):
            return _each(operator, n, in_dims, (input, *args), options)
        rows = iter(samples)
        given = [next(rows) if isinstance(value, Tensor) else value for value in given]
        result = operator(images.reshape(n * b, c, *size), *tree_unflatten(given, spec), **options)
        return result.reshape(n, *lead, *result.shape[2:]), 0

    return rule


def _of_samples(window: Tensor, dim: int | None, axes: int, n: int, b: int) -> Tensor | None:
    """A filter's window for the n * b samples of all examples; None if it is no window of one with b samples."""
    leading = window.dim() - axes - (dim is not None)  # of one example's: none, (1|b), or (1|b, channels)
    if dim is None and (leading == 0 or window.size(0) == 1):
        return window
    rows = _first(window, dim, n)
    if leading == 0:
        rows = rows.unsqueeze(1)
    if leading not in (0, 1, 2) or rows.size(1) not in (1, b):
        return None
    return rows.expand(n, b, *rows.shape[2:]).flatten(0, 1)


def _convolution(operator: _Operator, groups: int) -> _Rule:
    """`groups` is the place of that argument after the bias."""

    def rule(
        info: Any, in_dims: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None, *args: Any, **options: Any
    ) -> tuple[Any, Any]:
        n = info.batch_size
        images, weights = _first(input, in_dims[0], n), _first(weight, in_dims[1], n)
        of_bias = in_dims[2] if len(in_dims) > 2 else None
        axes = weights.dim() - 3
        given, groups_of_one = [*args], args[groups] if len(args) > groups else 1
        batched = images.dim() == axes + 3
        fits = axes > 0 and images.dim() in (axes + 2, axes + 3)
        fits = fits and images.size(-axes - 1) == weights.size(2) * groups_of_one
        if not fits or (bias is not None and bias.dim() - (of_bias is not None) != 1):
            return _each(operator, n, in_dims, (input, weight, bias, *args), options)
        if in_dims[1] is None and of_bias is None:
            result = operator(images.flatten(0, 1) if batched else images, weight, bias, *args, **options)
            return (result.unflatten(0, images.shape[:2]) if batched else result), 0
        if len(args) > groups:
            given[groups] = n * groups_of_one
        else:
            options["groups"] = n
        side_by_side = images.movedim(0, -axes - 2).flatten(-axes - 2, -axes - 1)
        biases = None if bias is None else _first(bias, of_bias, n).flatten()
        result = operator(side_by_side, weights.flatten(0, 1), biases, *given, **options)
        return result.unflatten(-axes - 1, (n, weights.size(1))), int(batched)

    return rule


def _sequences(operator: _Operator) -> _Rule:
    def rule(
        info: Any, in_dims: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None, *args: Any
    ) -> tuple[Any, Any]:
        n = info.batch_size
        sequences = _first(x, in_dims[0], n)
        if sequences.dim() != 4 or any(dim is not None for dim in in_dims[1:3]):
            return _each(operator, n, in_dims, (x, weight, bias, *args), {})
        of_samples = [
            _first(value, dim, n).flatten(0, 1) if isinstance(value, Tensor) else value
            for value, dim in zip(args, in_dims[3:], strict=True)
        ]
        result = operator(sequences.flatten(0, 1), weight, bias, *of_samples)
        result = tree_map(lambda t: t.unflatten(0, sequences.shape[:2]), result)
        return result, tree_map(lambda _: 0, result)

    return rule
