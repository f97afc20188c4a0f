"""This rank's outputs of an operator: from its own rows while others travel, or all at once when they are there.

large shard     post | operator on the own rows ........... | wait | X_split of thin shards: the strips, copied into it
small shard     post | wait | X_split([above, own, below], wanted=[1])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_conv.distributed._exchange import PendingExchange, memory_format, together
from torch_conv.distributed._plan import Given, Halo, Plan

# Shards of more bytes are filtered while rows travel. The strips then take calls of their own. With NCCL that pays only
# once the interior keeps the GPU busy for longer than the host needs for all: of 64 MiB on each of four NVIDIA H100
# (3x3, 50 us) it takes 759 us, with the rows first 540; of 1 GiB (790 us) nobody waits for the host; what lies between
# was not measured. Rows that come by symmetric memory are there at once. On the CPU the boundary strips are
# separate parts either way.
_LARGE = {"cpu": 1 << 20, "cuda": 512 << 20}
_FIXED_ORDER = ("direct", "separable")  # algorithms: the same bits in a part of any size
# Taps of a window over floats from which 'auto' may choose by size: kLeastTaps of csrc/dispatch/filter/filter.cpp.
_AUTO_CHOICE_TAPS = 81


def outputs_of(
    op: Callable[..., Tensor], split: Callable[..., list[Tensor]] | None, local: Tensor, rest: Given, plan: Plan
) -> Tensor | None:
    """This rank's part of the result, or None where that has no elements."""
    halo = plan.halos[0] if split and plan.halos else None
    filled = plan.halos if halo is None else plan.halos[1:]  # these axes get their rows first
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
    if not plan.has_outputs or not parts[0].numel():  # each has a row, and all else in common
        return None
    result = together(split(halo.cut(parts), **rest, dim=halo.dim, wanted=halo.wanted), halo.dim)
    return outputs_in(result, extra)


def _with_halo_rows(local: Tensor, halos: list[Halo]) -> Tensor:
    """The tensor with the rows of these axes put together, the last first."""
    for halo in reversed(halos):
        pending = halo.exchange.post(local, halo.dim % local.dim(), reuses=True)
        parts = [part for part in pending.wait() if part is not None]
        local = together(parts, halo.dim) if parts else local.narrow(halo.dim, 0, 0)
    return local


def outputs_in(result: Tensor, ranges: list[tuple[int, int, int]]) -> Tensor:
    """Those that are wanted: along a dimension, from the first, how many."""
    cut = False
    for dim, first, count in ranges:
        if result.shape[dim] != count:
            result, cut = result.narrow(dim, first, count), True
    return _dense(result) if cut else result


def _should_overlap(local: Tensor, rest: Given, plan: Plan) -> bool:
    """Whether a shard is large, and its outputs have the same bits when they are made part by part."""
    if local.numel() * local.element_size() <= _LARGE.get(local.device.type, 0):
        return False
    if rest.get("algorithm") in _FIXED_ORDER:
        return True
    window: Any = rest.get("kernel")
    large = plan.axes == 2 and isinstance(window, Tensor) and window.numel() >= _AUTO_CHOICE_TAPS
    chooses = large or plan.weight is not None
    return local.dtype in (torch.float32, torch.float64) and not chooses


def _overlapped(
    op: Callable[..., Tensor],
    split: Callable[..., list[Tensor]],
    local: Tensor,
    rest: Given,
    halo: Halo,
    pending: PendingExchange,
) -> Tensor:
    """The operator on this rank's own rows as an image of their own; the strips replace its first and last outputs."""
    strips, dim = halo.strips, halo.dim
    assert strips is not None
    try:
        result = op(local, **rest)
    finally:  # the other ranks' rows come in any case
        parts = pending.wait()
    if not strips.wanted:
        return result
    shards = strips.shards(local, dim, parts)
    for first, made in zip(strips.firsts, split(shards, **rest, dim=dim, wanted=strips.wanted), strict=True):
        result.narrow(dim, first, made.shape[dim]).copy_(made)
    return result


def _dense(t: Tensor) -> Tensor:
    if t.is_contiguous(memory_format=memory_format(t)):
        return t
    if t.dim() in (4, 5) and t.stride(1) == 1 and t.shape[1] > 1:
        return t.contiguous(memory_format=torch.channels_last if t.dim() == 4 else torch.channels_last_3d)
    return t.contiguous()
