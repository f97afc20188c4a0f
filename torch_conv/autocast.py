"""torch.autocast of the convolutions' operators: direct calls and scripts take its dtype too, as F.convNd does.

The functions cast what they are given before they choose who serves a call (functional/_convolve.py); here nothing is
left to cast then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_OPERATORS = [f"conv{axes}d{form}" for axes in (1, 2, 3) for form in ("", ".padding")]
_KEYS = {"cpu": torch._C.DispatchKey.AutocastCPU, "cuda": torch._C.DispatchKey.AutocastCUDA}
_LIBRARY = torch.library.Library("torch_conv", "IMPL")


def register() -> None:
    """Called once, by the package."""
    for name in _OPERATORS:
        packet, _, overload = name.partition(".")
        operator = getattr(getattr(torch.ops.torch_conv, packet), overload or "default")
        for device, key in _KEYS.items():
            _LIBRARY.impl(name, _cast(operator, device, key), key.name)


def cast(t: Tensor, device: str) -> Tensor:
    """`t` as F.convNd takes it where autocast is on for `device`."""
    castable = t.device.type == device and t.is_floating_point() and t.dtype != torch.float64
    return t.to(torch.get_autocast_dtype(device)) if castable else t


def _cast(operator: Callable[..., Tensor], device: str, key: Any) -> Callable[..., Tensor]:
    below = torch._C.DispatchKeySet(key)

    def call(input: Tensor, weight: Tensor, bias: Tensor | None = None, *args: Any, **options: Any) -> Tensor:
        with torch._C._ExcludeDispatchKeyGuard(below):
            bias = None if bias is None else cast(bias, device)
            return operator(cast(input, device), cast(weight, device), bias, *args, **options)

    return call
