"""The study of 8-bit images: a box of 200x200 over several channels, by border policy, on a GPU and on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import torch
import torch.nn.functional as F

import torch_conv
from torch_conv.bench.ladder.columns import COLUMNS
from torch_conv.bench.ladder.study import Bench, Row, Study, Sweep, Tensor, copies, copy_percent, error
from torch_conv.bench.timing import time_call

MASK = 200  # pixels a side; tap MASK // 2 lies on the pixel
BEFORE, AFTER = MASK // 2, MASK - 1 - MASK // 2
CHANNELS = 3
# Side of an image: 3x512x512 pixels with 40000 taps each are 31 G multiply-adds, about a second on a CPU.
SIDE, QUICK_SIDE = 512, 256
TOLERANCE = 1  # grey levels, for a mean half-way between two
# The study's policies: (border here, mode of F.pad)
POLICIES: dict[str, tuple[torch_conv.typing.Border, str]] = {
    "skip": ("skip", "constant"),
    "clamp": ("replicate", "replicate"),
    "wrap": ("circular", "circular"),
    "mirror": ("reflect", "reflect"),
    "zero": ("constant", "constant"),
}


def extended(image: Tensor, policy: str) -> Tensor:
    return F.pad(image, (BEFORE, AFTER) * 2, mode=POLICIES[policy][1])


def inside(image: Tensor) -> Tensor:
    """The number of taps of the mask inside the image, for every pixel."""

    def along(n: int) -> Tensor:
        at = torch.arange(n, device=image.device)
        return (at + AFTER).clamp(max=n - 1) - (at - BEFORE).clamp(min=0) + 1

    return along(image.shape[-2])[:, None] * along(image.shape[-1])


def means(image: Tensor, policy: str) -> Tensor:
    """The gold: sums of integers by running sums, divided in float64, rounded half to even."""
    sums = F.pad(extended(image.cpu().double(), policy), (1, 0, 1, 0)).cumsum(-1).cumsum(-2)
    sums = sums[..., MASK:, :] - sums[..., :-MASK, :]
    sums = sums[..., MASK:] - sums[..., :-MASK]
    return (sums / (inside(image.cpu()) if policy == "skip" else MASK**2)).round()


def measure_borders(bench: Bench, case: tuple[int, str]) -> Row:
    side, policy = case
    border = POLICIES[policy][0]
    grey = (255 * bench.image(side)).to(torch.uint8)
    image = torch.cat([grey.roll(channel, -1) for channel in range(CHANNELS)], 1)  # no two channels alike
    host = image.cpu()
    mask = torch.ones(MASK, MASK)
    mask_there = mask.to(image.device)  # 40000 taps are too many to travel with every launch
    weight = torch.full((CHANNELS, 1, MASK, MASK), 1 / MASK**2, device=image.device)
    taps_inside = inside(image) / MASK**2

    def box(x: Tensor) -> Tensor:
        return torch_conv.box_blur(x, MASK, border, anchor=-1)

    def every_tap(x: Tensor, window: Tensor) -> Tensor:
        return torch_conv.filter2d(x, window, border, normalized=True, anchor=-1, algorithm="direct")

    def conv2d() -> Tensor:
        total = F.conv2d(extended(image.float(), policy), weight, groups=CHANNELS)
        if policy == "skip":
            total = total / taps_inside
        return total.round_().clamp_(0, 255).to(torch.uint8)

    gold = means(image, policy)
    first, cpu_direct_ms = bench.gold(partial(every_tap, host, mask))
    ours: dict[str, Callable[[], Tensor]] = {"production": partial(box, image)}
    if bench.cuda:
        ours |= {"direct": partial(every_tap, image, mask_there)}
    errors = {name: error(call(), gold) for name, call in ours.items()} | {"CPU": error(first, gold)}
    worst = bench.check(f"8-bit images, {policy}", errors, TOLERANCE)
    row = bench.time({**copies(image), **ours})
    row |= {"policy": policy, "size": side, "cpu_direct_ms": cpu_direct_ms}
    row |= {"error": worst, "copy_percent": copy_percent(row)}
    repeats = 3 if bench.cuda else 1  # seconds a call on a CPU
    with suppress(RuntimeError):  # torch has no kernel for this size; the table shows a dash
        row["conv2d_ms"] = 1e3 * min(time_call(conv2d, bench.device, repeats=repeats, warmup=int(bench.cuda)))
    if bench.cuda:
        _, row["cpu_ms"] = bench.gold(partial(box, host))
        row["direct_over_cpu"] = cpu_direct_ms / row["direct_ms"]
        row["production_over_cpu"] = row["cpu_ms"] / row["production_ms"]
    return row


def borders(sweep: Sweep, cuda: bool) -> Study:
    side = sweep.sizes[-1] if sweep.sizes else QUICK_SIDE if sweep.quick else SIDE
    # F.pad extends by at most as many pixels as the image has.
    known = [policy for policy in POLICIES if side > BEFORE or policy not in ("wrap", "mirror")]
    return Study(
        "borders",
        f"8-bit images: box of {MASK}x{MASK} centred at {MASK // 2}, {CHANNELS}x{side}x{side} uint8, by border policy, "
        "times in ms",
        COLUMNS["borders"],
        [(side, policy) for policy in known],
        measure_borders,
        "Every tap: filter2d, one multiply-add a tap, on the CPU with all threads. torch_conv: box_blur, which "
        "costs little more at a larger size. F.conv2d: in float32, behind F.pad, rounded to bytes again; the fastest "
        "of three.",
    )
