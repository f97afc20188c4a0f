"""torch.autocast for direct calls and scripts of the convolutions' operators, as for F.convNd.

The functions cast their arguments before they call an operator (functional/_convolve.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_conv.dispatch.operators import OPERATORS, overload_of

_KEYS = {"cpu": torch._C.DispatchKey.AutocastCPU, "cuda": torch._C.DispatchKey.AutocastCUDA}
_LIBRARY = torch.library.Library("torch_conv", "IMPL")


def register() -> None:
    """Registers the casts. The package calls this function once."""
    for name, operator in OPERATORS.items():
        if operator.kind == "convolution" and operator.has_split:  # `_conv_ours` is called after the casts
            for device, key in _KEYS.items():
                _LIBRARY.impl(name, _with_casts(overload_of(name), device, key), key.name)


def autocast_dtype(image: Tensor) -> torch.dtype | None:
    """The dtype of F.convNd if autocast is enabled for the image's device and casts its dtype, else None."""
    device = image.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) and _castable(image, device) else None


def cast_all(device: str, input: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Casts a convolution's tensors as F.convNd does if autocast is enabled for `device`."""
    return _cast(input, device), _cast(weight, device), None if bias is None else _cast(bias, device)


def _cast(t: Tensor, device: str) -> Tensor:
    return t.to(torch.get_autocast_dtype(device)) if _castable(t, device) else t


def _castable(t: Tensor, device: str) -> bool:
    return t.device.type == device and t.is_floating_point() and t.dtype != torch.float64


def _with_casts(operator: Callable[..., Tensor], device: str, key: Any) -> Callable[..., Tensor]:
    below = torch._C.DispatchKeySet(key)

    def call(input: Tensor, weight: Tensor, bias: Tensor | None = None, *args: Any, **options: Any) -> Tensor:
        with torch._C._ExcludeDispatchKeyGuard(below):
            return operator(*cast_all(device, input, weight, bias), *args, **options)

    return call
