"""torch.vmap rules of the operators, which make one call for all examples. Torch's default makes one for each.

Mapped images become samples of a batch. Mapped kernels become a kernel per sample of a filter, or groups of a
convolution. Mapped weights of a sequence, and calls that the operator refuses, are called for each example. A refusal
then names the sizes of one example. Channels that are innermost in an example stay innermost.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from torch_conv.dispatch.failures import is_machine_failure
from torch_conv.dispatch.formats import channels_inner
from torch_conv.dispatch.operators import OPERATORS, Operator, Signature, overload_of, split_name

# at_once(n, in_dims, *args, **options): the result of n examples and its mapped dimension, or None for separate calls.
_AtOnce = Callable[..., tuple[Any, Any] | None]

UNSUPPORTED = "does not support torch.vmap"
_LIBRARY = torch.library.Library("torch_conv", "IMPL")


def register() -> None:
    """Registers the rules. The package calls this function once."""
    for operator in OPERATORS.values():
        rule = _RULES.get(operator.kind)
        if rule is not None and not operator.writes:
            _register(operator.name, rule(operator))
    for name, sentence in refusals().items():
        _LIBRARY.impl(name, partial(_refuse, sentence), "FuncTorchBatched")


def refusals() -> dict[str, str]:
    """The refusals of operators that write into an argument or take shards."""
    found = {}
    for name, operator in OPERATORS.items():
        if operator.has_out:
            found[f"{name}_out"] = f"{name}: out {UNSUPPORTED}; call it without out"
        if operator.has_split:
            found[split_name(name)] = f"{operator.public}: a SplitTensor {UNSUPPORTED}; call it for each example"
        if operator.writes:
            instead = "for each example" if operator.writes == "conv_state" else f"without {operator.writes}"
            found[name] = f"{operator.public}: {operator.writes} {UNSUPPORTED}; call it {instead}"
    return found


def _register(name: str, at_once: _AtOnce) -> None:
    operator = overload_of(name)

    def rule(info: Any, in_dims: Any, *args: Any, **options: Any) -> tuple[Any, Any]:
        n = info.batch_size
        try:
            found = at_once(n, in_dims, *args, **options) if n > 0 else None
        except RuntimeError as error:
            if is_machine_failure(error):
                raise
            found = None  # the refusal may be about the batch of all examples, so each example is called separately
        return _each(operator, n, in_dims, args, options) if found is None else found

    torch.library.register_vmap(f"torch_conv::{name}", rule, lib=_LIBRARY)


def _refuse(sentence: str, *_: Any, **__: Any) -> NoReturn:
    raise RuntimeError(sentence)


def _first(t: Tensor, dim: int | None, n: int) -> Tensor:
    """`t` with the mapped dimension first, or expanded n times."""
    return t.expand(n, *t.shape) if dim is None else t.movedim(dim, 0)


def _each(operator: Callable[..., Any], n: int, in_dims: Any, args: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """A call for each example."""
    if n == 0:  # an example of zeros gives refusals and the result's shape

        def with_zeros(t: Any, dim: int | None) -> Any:
            return t if dim is None else F.pad(t.movedim(dim, -1), (0, 1)).movedim(-1, dim)

        found, dims = _each(operator, 1, in_dims, tree_map(with_zeros, args, in_dims), options)
        return tree_map(lambda t: t[:0], found), dims

    def example(i: int) -> Any:
        return tree_map(lambda value, dim: value if dim is None else value.select(dim, i), args, in_dims)

    results = [operator(*example(i), **options) for i in range(n)]
    stacked = tree_map(_stacked, *results)
    return stacked, tree_map(lambda _: 0, stacked)


def _stacked(*results: Tensor) -> Tensor:
    """torch.stack that keeps the memory format."""
    order = sorted(range(results[0].dim()), key=results[0].stride, reverse=True)
    stacked = torch.stack([result.permute(order) for result in results])
    return stacked.permute(0, *(order.index(dim) + 1 for dim in range(len(order))))


def _samples(images: Tensor, axes: int, inner: bool) -> Tensor:
    """(n, b, c, ...) as (n * b, c, ...), with the channels innermost if `inner`."""
    if not inner:
        return images.flatten(0, 1)
    return images.movedim(-axes - 1, -1).flatten(0, 1).movedim(-1, 1)


def _filter(row: Operator) -> _AtOnce:
    operator, axes, kernel_axes = overload_of(row.name), row.axes, max(row.kernels.values(), default=0)

    def at_once(n: int, in_dims: Any, input: Tensor, *args: Any, **options: Any) -> tuple[Any, Any] | None:
        images = _first(input, in_dims[0], n)
        if images.dim() <= axes:
            return None
        lead, size = images.shape[1:-axes], images.shape[-axes:]
        b, c = lead if len(lead) == 2 else (1, *lead, 1)[:2]
        given, spec = tree_flatten(args)
        dims = tree_leaves(in_dims[1:])
        kernels = [(value, dim) for value, dim in zip(given, dims, strict=True) if isinstance(value, Tensor)]
        if all(dim is None and kernel.dim() == kernel_axes for kernel, dim in kernels):
            return operator(images, *args, **options), 0
        samples = [_kernel_per_sample(kernel, dim, kernel_axes, n, b) for kernel, dim in kernels]
        if len(lead) > 2 or any(kernel is None for kernel in samples):
            return None
        rows = iter(samples)
        given = [next(rows) if isinstance(value, Tensor) else value for value in given]
        images = images.reshape(n, b, c, *size)
        batch = _samples(images, axes, channels_inner(images[0], axes))
        result = operator(batch, *tree_unflatten(given, spec), **options)
        return result.reshape(n, *lead, *result.shape[2:]), 0

    return at_once


def _kernel_per_sample(kernel: Tensor, dim: int | None, axes: int, n: int, b: int) -> Tensor | None:
    """A filter's kernel for the n * b samples of all examples; None if its shape does not fit b samples."""
    leading = kernel.dim() - axes - (dim is not None)  # of one example: none, (1|b), or (1|b, channels)
    if dim is None and (leading == 0 or kernel.size(0) == 1):
        return kernel
    rows = _first(kernel, dim, n)
    if leading == 0:
        rows = rows.unsqueeze(1)
    if leading not in (0, 1, 2) or rows.size(1) not in (1, b):
        return None
    return rows.expand(n, b, *rows.shape[2:]).flatten(0, 1)


def _convolution(row: Operator) -> _AtOnce:
    operator = overload_of(row.name)
    groups = Signature(row.name).names.index("groups") - 3  # the position of `groups` after the bias

    def at_once(
        n: int, in_dims: Any, input: Tensor, weight: Tensor, bias: Tensor | None = None, *args: Any, **options: Any
    ) -> tuple[Any, Any] | None:
        images, weights = _first(input, in_dims[0], n), _first(weight, in_dims[1], n)
        bias_dim = in_dims[2] if len(in_dims) > 2 else None
        axes = weights.dim() - 3
        batched = images.dim() == axes + 3
        if axes < 1 or images.dim() not in (axes + 2, axes + 3):
            return None
        if bias is not None and bias.dim() - (bias_dim is not None) != 1:
            return None
        inner = channels_inner(images[0], axes)
        if in_dims[1] is None and bias_dim is None:
            result = operator(_samples(images, axes, inner) if batched else images, weight, bias, *args, **options)
            return (result.unflatten(0, images.shape[:2]) if batched else result), 0
        given = [*args]
        if len(args) > groups:
            given[groups] = n * args[groups]
        else:
            options["groups"] = n
        c = -axes - 1
        if inner:
            merged = images.movedim((0, c), (-2, -1)).flatten(-2).movedim(-1, c)
        else:
            merged = images.movedim(0, c - 1).flatten(c - 1, c)
        biases = None if bias is None else _first(bias, bias_dim, n).flatten()
        result = operator(merged, weights.flatten(0, 1), biases, *given, **options)
        parts = result.unflatten(c, (n, weights.size(1)))
        if not channels_inner(result, axes):
            return parts, int(batched)
        return parts.movedim((c - 1, c), (0, -1)).contiguous().movedim(-1, c), 0

    return at_once


def _sequences(row: Operator) -> _AtOnce:
    operator = overload_of(row.name)

    def at_once(
        n: int, in_dims: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None, *args: Any
    ) -> tuple[Any, Any] | None:
        sequences = _first(x, in_dims[0], n)
        if sequences.dim() != 4 or any(dim is not None for dim in in_dims[1:3]):
            return None
        flat_args = [
            _first(value, dim, n).flatten(0, 1) if isinstance(value, Tensor) else value
            for value, dim in zip(args, in_dims[3:], strict=True)
        ]
        result = operator(_samples(sequences, 1, sequences.stride(2) == 1), weight, bias, *flat_args)
        result = tree_map(lambda t: t.unflatten(0, sequences.shape[:2]), result)
        return result, tree_map(lambda _: 0, result)

    return at_once


_RULES = {"filter": _filter, "chain": _filter, "convolution": _convolution, "sequence": _sequences}
