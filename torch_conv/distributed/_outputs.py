"""This rank's outputs of an operator.

large shard     post | operator on the own rows ........... | wait | X_split of thin shards: the strips, copied into it
small shard     post | wait | X_split([above, own, below], wanted=[1])
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_conv.dispatch.operators import Arguments
from torch_conv.distributed._exchange import PendingExchange, memory_format, together
from torch_conv.distributed._plan import Halo, RankPlan

# Shards of more bytes are filtered during the exchange, and the strips afterwards by launches of their own. With NCCL
# the interior must keep the GPU busy for longer than the host needs to launch all. On four NVIDIA H100, for 3x3:
#
#     a shard   interior   overlapped   exchange first
#     64 MiB    50 us      759 us       540 us
#     1 GiB     790 us     the GPU never waits for the host
_LARGE = {"cpu": 1 << 20, "cuda": 512 << 20}
_FIXED_ORDER = ("direct", "separable")  # algorithms with the same bits for parts of any size


def outputs_of(
    op: Callable[..., Tensor], split: Callable[..., list[Tensor]] | None, local: Tensor, rest: Arguments, plan: RankPlan
) -> Tensor | None:
    """This rank's part of the result, or None if it has no elements."""
    halo = plan.halos[0] if split and plan.halos else None
    filled = plan.halos if halo is None else plan.halos[1:]  # axes whose halos are concatenated first
    if filled:
        local = _with_halo_rows(local, filled)
    extra = [(other.dim, other.piece.skip, other.piece.count) for other in filled]
    if halo is None:
        return outputs_in(op(local, **rest), extra) if plan.has_outputs and local.numel() else None
    assert split is not None
    pending = halo.exchange.post(local, halo.dim % local.dim(), reuses=True)
    if not filled and halo.strips and not pending.queued and _should_overlap(local, rest, plan):
        return _overlapped(op, split, local, rest, halo, pending)
    extra.append((halo.dim, halo.piece.cut_skip, halo.piece.count))
    parts = [part for part in pending.wait() if part is not None]
    if not plan.has_outputs or not parts[0].numel():  # all parts have rows, so all are empty or none
        return None
    result = together(split(halo.cut(parts), **rest, dim=halo.dim, wanted=halo.wanted), halo.dim)
    return outputs_in(result, extra)


def _with_halo_rows(local: Tensor, halos: list[Halo]) -> Tensor:
    """Concatenates the tensor with its halos, the last axis first."""
    for halo in reversed(halos):
        pending = halo.exchange.post(local, halo.dim % local.dim(), reuses=True)
        parts = [part for part in pending.wait() if part is not None]
        local = together(parts, halo.dim) if parts else local.narrow(halo.dim, 0, 0)
    return local


def outputs_in(result: Tensor, ranges: list[tuple[int, int, int]]) -> Tensor:
    """The outputs in some ranges, each (dimension, first output, number of outputs)."""
    cut = False
    for dim, first, count in ranges:
        if result.shape[dim] != count:
            result, cut = result.narrow(dim, first, count), True
    return _dense(result) if cut else result


@functools.cache
def _least_taps() -> int:
    """The taps of a 2d kernel from which on 'auto' may choose the algorithm by the size of the image."""
    return int(torch.ops.torch_conv._filter2d_least_taps())


def _should_overlap(local: Tensor, rest: Arguments, plan: RankPlan) -> bool:
    """Whether a shard is large, and its outputs have the same bits if parts of it are filtered."""
    if local.numel() * local.element_size() <= _LARGE.get(local.device.type, 0):
        return False
    if rest.get("algorithm") in _FIXED_ORDER:
        return True
    kernel: Any = rest.get("kernel")
    is_large_kernel = plan.axes == 2 and isinstance(kernel, Tensor) and kernel.numel() >= _least_taps()
    return local.dtype in (torch.float32, torch.float64) and not is_large_kernel and plan.weight is None


def _overlapped(
    op: Callable[..., Tensor],
    split: Callable[..., list[Tensor]],
    local: Tensor,
    rest: Arguments,
    halo: Halo,
    pending: PendingExchange,
) -> Tensor:
    """Filters this rank's rows as an image, then overwrites its first and last outputs by the strips."""
    strips, dim = halo.strips, halo.dim
    assert strips is not None
    try:
        result = op(local, **rest)
    finally:  # other ranks send their rows in any case
        parts = pending.wait()
    if not strips.wanted:
        return result
    shards = strips.shards(local, dim, parts)
    for first, strip in zip(strips.firsts, split(shards, **rest, dim=dim, wanted=strips.wanted), strict=True):
        result.narrow(dim, first, strip.shape[dim]).copy_(strip)
    return result


def _dense(t: Tensor) -> Tensor:
    if t.is_contiguous(memory_format=memory_format(t)):
        return t
    if t.dim() in (4, 5) and t.stride(1) == 1 and t.shape[1] > 1:
        return t.contiguous(memory_format=torch.channels_last if t.dim() == 4 else torch.channels_last_3d)
    return t.contiguous()
