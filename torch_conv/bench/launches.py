"""The kernels that a call launches, and the bytes that it moves."""

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


COUNTED = ("launches", "bytes")  # words in a line of a plan


def planned(call: Callable[[Any], Any], x: Any) -> tuple[int, int]:
    """(launches, bytes moved) by the plans of a call that only calls this library."""
    lines = torch_conv.explain(call, x).lines
    launches, moved = (sum(int(n) for line in lines for n in re.findall(rf"{w} (\d+)", line)) for w in COUNTED)
    return launches, moved


def count(x: Tensor, candidates: Sequence[tuple[Candidate, Timing]]) -> None:
    """Writes into every timing the number of kernels and copies that torch's profiler sees in one call.

    It must run after all timed calls, because a profiler slows later calls of its process.
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
        except Exception as error:  # the count is left out
            print(f"      launches of {c.name} not counted: {error}", flush=True)
