"""This rank's outputs of an operator: from its own rows while others travel, or all at once when they are there.

large shard     post | operator on the own rows ........... | wait | X_split of thin shards: the seams, copied into it
small shard     post | wait | X_split([above, own, below], wanted=[1])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_conv.distributed._exchange import Arriving, memory_format, together
from torch_conv.distributed._plan import Given, Halo, Plan

# Shards of more bytes are filtered while rows travel. The seams then take calls of their own: on CUDA, where messages
# between GPUs of one host take 10 to 20 us, that pays only once the interior keeps the GPU busy for longer than the
# host needs for all (the seams add 31 us to 127 us, 3x3, without a transport, EPYC). The number for CUDA is an estimate
# that no GPU has confirmed. On the CPU the seams are parts of their own either way.
_LARGE = {"cpu": 1 << 20, "cuda": 64 << 20}
_ONE_ORDER = ("direct", "separable")  # algorithms: the same bits in a part of any size
_LEAST_CHOICE = 81  # taps of a window over floats from which 'auto' may choose by size (csrc/ops/filter.cpp)


def outputs_of(
    op: Callable[..., Tensor], split: Callable[..., list[Tensor]] | None, local: Tensor, rest: Given, plan: Plan
) -> Tensor | None:
    """This rank's part of the result, or None where that has no elements."""
    extra: list[tuple[int, int, int]] = []
    parts: list[Tensor] = []
    for i, halo in reversed(list(enumerate(plan.halos))):
        dim, piece = halo.dim, halo.piece
        arriving = halo.exchange.post(local, dim % local.dim(), lend=True)
        if i == 0 and split and not extra and halo.seams and not arriving.queued and _worth_it(local, rest, plan):
            return _overlapped(op, split, local, rest, halo, arriving)
        parts = [part for part in arriving.wait() if part is not None]
        if i == 0 and split and parts:
            parts, wanted = halo.cut(parts), halo.wanted
            extra.append((dim, piece.cut_skip, piece.count))
        else:
            local = together(parts, dim) if parts else local.narrow(dim, 0, 0)
            parts = []
            extra.append((dim, piece.skip, piece.count))
    if not all(count for _, _, count in extra) or not any(part.numel() for part in parts or [local]):
        return None
    if not parts:
        result = op(local, **rest)
    else:
        assert split is not None
        result = together(split(parts, **rest, dim=dim, wanted=wanted), dim)
    cut = False
    for dim, first, count in extra:
        if result.shape[dim] != count:
            result, cut = result.narrow(dim, first, count), True
    return _dense(result) if cut else result


def _worth_it(local: Tensor, rest: Given, plan: Plan) -> bool:
    """Whether a shard is large, and its outputs have the same bits when they are made part by part."""
    if local.numel() * local.element_size() <= _LARGE.get(local.device.type, 0):
        return False
    if rest.get("algorithm") in _ONE_ORDER:
        return True
    window: Any = rest.get("kernel")
    large = plan.axes == 2 and isinstance(window, Tensor) and window.numel() >= _LEAST_CHOICE
    chooses = large or plan.weight is not None
    return local.dtype in (torch.float32, torch.float64) and not chooses


def _overlapped(
    op: Callable[..., Tensor],
    split: Callable[..., list[Tensor]],
    local: Tensor,
    rest: Given,
    halo: Halo,
    arriving: Arriving,
) -> Tensor:
    """The operator on this rank's own rows as an image of their own, and over its first and last outputs the seams'."""
    seams, dim = halo.seams, halo.dim
    assert seams is not None
    result = op(local, **rest)
    parts = arriving.wait()
    if not seams.wanted:
        return result
    shards = seams.shards(local, dim, parts)
    for first, made in zip(seams.firsts, split(shards, **rest, dim=dim, wanted=seams.wanted), strict=True):
        result.narrow(dim, first, made.shape[dim]).copy_(made)
    return result


def _dense(t: Tensor) -> Tensor:
    if t.is_contiguous(memory_format=memory_format(t)):
        return t
    if t.dim() in (4, 5) and t.stride(1) == 1 and t.shape[1] > 1:
        return t.contiguous(memory_format=torch.channels_last if t.dim() == 4 else torch.channels_last_3d)
    return t.contiguous()
