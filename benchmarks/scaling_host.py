"""From host memory through the GPUs and back: the link's own rates, and an image filtered on its way."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import torch
from scaling_rows import Rounds, Row, Task, devices_of, image
from torch import Tensor

import torch_conv
from torch_conv import kernels


def link(task: Task) -> Row:
    """What the host and 1, 2 ... GPUs at a time exchange of pinned memory, one way and both ways; of pageable, one GPU.

    The rates are bytes per second in each way, all GPUs together.
    """
    devices = devices_of(task)
    row = Row("link", task.name, list(task.shape), len(devices))
    n = prod(task.shape)
    row.facts["bytes"] = 4 * n  # a GPU and way
    lanes = []
    for device in devices:
        near = [torch.zeros(n, device=device) for _ in range(2)]
        far = [torch.zeros(n, pin_memory=True) for _ in range(2)]
        lanes.append((near, far, [torch.cuda.Stream(device) for _ in range(2)]))

    def move(count: int, up: bool, down: bool) -> None:
        for near, far, streams in lanes[:count]:
            if up:
                with torch.cuda.stream(streams[0]):
                    near[0].copy_(far[0], non_blocking=True)
            if down:
                with torch.cuda.stream(streams[1]):
                    far[1].copy_(near[1], non_blocking=True)

    rounds = Rounds(row, task, devices)
    for count in range(1, len(devices) + 1):
        rounds.add(f"up {count}", [partial(move, count, True, False)])
        rounds.add(f"down {count}", [partial(move, count, False, True)])
        rounds.add(f"both {count}", [partial(move, count, True, True)])
    pageable = torch.zeros(n)
    rounds.add("pageable up", [lambda: lanes[0][0][0].copy_(pageable)])
    rounds.add("pageable down", [lambda: pageable.copy_(lanes[0][0][0])])
    rounds.play()
    for name, timing in row.timings.items():
        count = int(name.split()[1]) if name.split()[1].isdigit() else 1
        row.facts.setdefault("gbs", {})[name] = count * row.facts["bytes"] / timing.median_us / 1e3
    return row


def host(task: Task) -> Row:
    """A host image scattered, filtered with a Gaussian 3x3 and gathered: the 2-D study's table of several GPUs."""
    devices = devices_of(task)
    cuda = devices[0].type == "cuda"
    row = Row("host", task.name, list(task.shape), len(devices))
    row.facts["pinned"] = task.pinned
    whole = image(task.shape, "cpu")
    if cuda and task.pinned:
        whole = whole.pin_memory()
    taps = kernels.gaussian2d(3)
    expected = torch_conv.filter2d(whole, taps, "constant")

    def check(what: str, result: Tensor) -> None:
        row.expect(f"{what}: other bits than the CPU's", torch.equal(result, expected))

    function: Callable[..., Any] = torch_conv.filter2d  # of a SplitTensor it returns one

    def through(to: list[torch.device]) -> Tensor:
        return function(torch_conv.split(whole, to), taps, "constant").gather("cpu")

    rounds = Rounds(row, task, devices)
    for n in range(1, len(devices) + 1):
        for each in task.per_device:
            to = [d for d in devices[:n] for _ in range(each)]
            name = f"{n} x {each}"
            rounds.add(name, [partial(through, to)], check=partial(check, name))
    rounds.add("in turn", [in_turn(whole, taps, devices[0])], check=partial(check, "in turn"))
    rounds.play()
    pixels = prod(task.shape)
    row.facts["mpixels"] = {name: pixels / t.median_us for name, t in row.timings.items()}
    row.facts["gbs"] = {name: 4 * pixels / t.median_us / 1e3 for name, t in row.timings.items()}
    return row


def in_turn(whole: Tensor, taps: Tensor, device: torch.device) -> Callable[[], Tensor]:
    """The plain way on one device: copy, filter, copy, nothing beside anything else."""
    cuda = device.type == "cuda"
    out = torch.empty(whole.shape, pin_memory=cuda)

    def call() -> Tensor:
        out.copy_(torch_conv.filter2d(whole.to(device, non_blocking=True), taps, "constant"), non_blocking=True)
        if cuda:
            torch.cuda.current_stream(device).synchronize()
        return out

    return call
