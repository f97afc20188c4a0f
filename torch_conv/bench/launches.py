"""How many kernels a call launches and how many bytes it moves."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

import torch_conv

if TYPE_CHECKING:
    from torch_conv.bench.common import Candidate, Timing


COUNTED = ("launches", "bytes")  # in a line of a plan


def planned(call: Callable[[Any], Any], x: Any) -> tuple[int, int]:
    """(launches, bytes moved) of a call that is nothing but calls of this library, by their plans."""
    lines = torch_conv.explain(call, x).lines
    launches, moved = (sum(int(n) for line in lines for n in re.findall(rf"{w} (\d+)", line)) for w in COUNTED)
    return launches, moved


def count(x: Tensor, candidates: Sequence[tuple[Candidate, Timing]]) -> None:
    """Writes into every timing how many kernels and copies torch's profiler sees on the GPU in one call.

    To be called when everything has been timed: nothing is timed in a process that a profiler has been in.
    """
    for c, timing in candidates:
        try:
            with c.context():
                call = partial(c.call, c.prepare(x))
                call()
                torch.cuda.synchronize()
                with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as seen:
                    call()
                    torch.cuda.synchronize()
            timing.launches = sum(e.device_type == DeviceType.CUDA for e in seen.events() or [])
        except Exception as error:  # a figure less
            print(f"      launches of {c.name} not counted: {error}", flush=True)
