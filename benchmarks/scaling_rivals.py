"""The halo exchanged by hand, as one writes it without this library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import lru_cache, partial
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from scaling_filters import Filter, filter_named
from scaling_rows import Rounds, Row, Task, buffers_of, checks, devices_of, image
from torch import Tensor

import torch_conv

LARGE = 1 << 29  # pixels: trying one of cuDNN's plans takes up to seconds
MANY_PLANS, FEW_PLANS = 10, 3  # 10 is torch's own limit


def rivals(task: Task) -> Row:
    """The same image in shards, filtered as one does it by hand, beside the operator."""
    devices = devices_of(task)
    row = Row(task.part, task.name, list(task.shape), len(devices))
    filtering = filter_named(task.filter, task.border, task.dim, devices[0])
    whole = image(task.shape, devices[0])
    shards = [list(torch_conv.split(whole, devices, task.dim).shards)]
    shards += [[s.clone() for s in shards[0]] for _ in range(buffers_of(task, len(devices)) - 1)]
    same, close = checks(row, task, filtering.whole(whole))
    rounds = Rounds(row, task, devices)
    rounds.add("one", [partial(filtering.whole, whole)])
    rounds.add("operator", [partial(filtering.shards, s) for s in shards], check=partial(same, "operator"))
    plans = MANY_PLANS if prod(task.shape) < LARGE else FEW_PLANS
    for name, (call, context) in by_hand(filtering, task.border, devices[0].type == "cuda", plans).items():
        check = partial(same if "torch_conv" in name else close, name)
        rounds.add(name, [partial(call, s) for s in shards], context, check)
    rounds.play()
    rounds.efficiency("operator", "one", "operator", len(devices))
    return row


def with_halos(shards: Sequence[Tensor], rows: int, border: str) -> list[Tensor]:
    """Shards with the rows of their neighbours around them, as it is written by hand: copies, then torch.cat."""

    def beyond(own: Tensor, end: slice) -> Tensor:
        outside = own[..., end, :]
        return outside.flip(-2) if border == "reflect" else torch.zeros_like(outside)

    padded = []
    for i, own in enumerate(shards):
        above = beyond(own, slice(1, rows + 1)) if i == 0 else shards[i - 1][..., -rows:, :]
        last = i == len(shards) - 1
        below = beyond(own, slice(-rows - 1, -1)) if last else shards[i + 1][..., :rows, :]
        parts = [above.to(own.device, non_blocking=True), own, below.to(own.device, non_blocking=True)]
        padded.append(torch.cat(parts, -2))
    return padded


def by_hand(
    filtering: Filter, border: str, cuda: bool, plans: int
) -> dict[str, tuple[Callable[[Any], list[Tensor]], Any]]:
    """Pad, exchange, concatenate around F.conv2d and around our own filter; name: (call, context).

    cuDNN tries the first so many of its `plans`.
    """
    taps, r = filtering.window, filtering.rows
    assert taps is not None
    ours = torch.ops.torch_conv.filter2d.default
    sides = {"constant": "constant", "reflect": "reflect"}[border]

    @lru_cache(maxsize=16)
    def weight(device: torch.device) -> Tensor:
        return taps[None, None].to(device)

    def by_conv(shards: Sequence[Tensor]) -> list[Tensor]:
        whole = with_halos(shards, r, border)
        if border == "constant":  # the convolution's own padding of columns, which costs nothing
            return [F.conv2d(x, weight(x.device), padding=(0, r)) for x in whole]
        return [F.conv2d(F.pad(x, (r, r, 0, 0), sides), weight(x.device)) for x in whole]

    def by_ours(shards: Sequence[Tensor]) -> list[Tensor]:
        whole = with_halos(shards, r, border)
        return [ours(F.pad(x, (r, r, 0, 0), sides), taps, border, False, "valid") for x in whole]

    def cropped(shards: Sequence[Tensor]) -> list[Tensor]:  # its own border for the columns, rows cut off again
        return [ours(x, taps, border)[..., r : x.shape[-2] - r, :] for x in with_halos(shards, r, border)]

    found: dict[str, tuple[Callable[[Any], list[Tensor]], Any]] = {
        "cat, F.conv2d": (by_conv, partial(trying, plans, False)),
        "cat, torch_conv": (by_ours, nullcontext),
        "cat, torch_conv cropped": (cropped, nullcontext),
    }
    if cuda:
        found["cat, F.conv2d TF32"] = (by_conv, partial(trying, plans, True))
    return found


def trying(plans: int, tf32: bool) -> Any:
    return torch.backends.cudnn.flags(
        enabled=True, benchmark=True, benchmark_limit=plans, deterministic=False, allow_tf32=tf32
    )
