"""Fake implementations of the operators on shards, by the fakes on whole images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_conv.dispatch.formats import in_order_of
from torch_conv.dispatch.operators import Operator, Signature, split_name
from torch_conv.fakes.shapes import refuse_meta


def on_shards(operator: Operator, operator_fake: Callable[..., Tensor]) -> Callable[..., list[Tensor]]:
    """The fake of the operator's form on shards; `operator_fake` is the operator's fake."""
    base, axes, arguments = operator.public, operator.axes, Signature(operator.name).names

    def fake(
        shards: Sequence[Tensor], *args: Any, dim: int = -2, wanted: Sequence[int] | None = None, **kwargs: Any
    ) -> list[Tensor]:
        torch._check(len(shards) > 0, lambda: f"{base}: shards must hold at least one tensor")
        refuse_meta(split_name(operator.name), shards[0], shards=shards[1:])
        dims = shards[0].dim()
        torch._check(
            -dims <= dim < dims, lambda: f"{base}: dim must be one of the shards' {dims} dimensions, got {dim}"
        )
        dim = dim % dims
        from_end = shards[0].dim() - dim
        starts = [0]
        for shard in shards:
            starts.append(starts[-1] + shard.shape[dim])
        n = starts[-1]

        def result(n: int, like: Tensor) -> Tensor:
            shape = [n if d == dim else size for d, size in enumerate(like.shape)]
            return operator_fake(in_order_of(like, axes, shape, like.dtype), *args, **kwargs)

        image = result(n, shards[0])
        at = image.dim() - from_end if from_end <= axes else dim
        if from_end <= axes:
            stride = dict(zip(arguments[1:], args, strict=False)).get("stride", kwargs.get("stride", 1))
            step = stride if isinstance(stride, int) else stride[-from_end]
            starts = _output_starts(starts, step, image.shape[at], lambda n: result(n, shards[0]).shape[at])
        elif n > 0:  # each group of channels has the same number of outputs
            starts = [start * image.shape[at] // n for start in starts]
        results = []
        for i in range(len(shards)) if wanted is None else wanted:
            torch._check(
                0 <= i < len(shards), lambda i=i: f"{base}: wanted must name shards 0 to {len(shards) - 1}, got {i}"
            )
            like = result(n, shards[i])
            shape = list(like.shape)
            shape[at] = starts[i + 1] - starts[i]
            part = in_order_of(like, axes, shape, like.dtype)
            results.append(torch.empty_strided(part.shape, part.stride(), dtype=part.dtype, device=shards[i].device))
        return results

    return fake


def _output_starts(starts: list[int], step: int, outputs: int, outputs_of: Callable[[int], int]) -> list[int]:
    """The first output of each shard, then the number of all outputs.

    n rows give (n - length) // step + 1 outputs, where `length` is the footprint without padding. To find `length`, the
    loop adds rows until the number of outputs grows.
    """
    n = starts[-1]
    more = n
    while step > 1 and outputs_of(more) == outputs:
        more += 1
    length = more - step * (outputs_of(more) - 1)
    middle = (length - 1) // 2

    def outputs_before(row: int) -> int:  # symbolic form of csrc/sharding/geometry.h
        if row <= 0:
            return 0
        return outputs if row >= n else min(max(-((middle - row) // step), 0), outputs)

    return [outputs_before(row) for row in starts[:-1]] + [outputs]
