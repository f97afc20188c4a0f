"""A warning, once in a process, about an image (H, W, C) that is filtered along its columns and channels."""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from typing import Any

import torch
from torch import Tensor

import torch_conv

# Only the first calls of each function are checked, so that later calls cost nothing.
LOOKS = 100
_PACKAGE = os.path.dirname(torch_conv.__file__) + os.sep
_FACADES = os.path.join(_PACKAGE, "compat", "")  # modules with a fixed order of dimensions
_TORCH = os.path.dirname(torch.__file__) + os.sep
_warned = False


def looks_of(name: str, signature: inspect.Signature) -> list[int]:
    """The number of calls that remain to be checked: 0 unless the function filters images (..., H, W)."""
    of_images = "input" in signature.parameters and "1d" not in name and "3d" not in name
    return [LOOKS if of_images else 0]


def look(name: str, looks: list[int], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Warns if the input's last dimension may be channels, unless its names or strides exclude that."""
    global _warned
    looks[0] = 0 if _warned else looks[0] - 1
    if _warned:
        return
    input = args[0] if args else kwargs.get("input")
    if type(input) is not Tensor or input.is_nested or input.layout is not torch.strided:
        return
    if input.dim() < 3 or torch.jit.is_tracing() or any(getattr(input, "names", ())):  # newer versions have no names
        return
    *_, height, width, last = input.shape
    is_channels_last = input.dim() == 4 and input.stride(1) == 1  # torch's memory format of (B, C, H, W)
    if not 2 <= last <= 4 or height < 32 or width < 32 or is_channels_last:
        return
    level = _level_of_the_caller()
    if level is None:
        return
    _warned = True
    there, back = {3: ("(2, 0, 1)", "(1, 2, 0)"), 4: ("(0, 3, 1, 2)", "(0, 2, 3, 1)")}.get(input.dim(), ("", ""))
    line = f"{name}(x.permute{there}, ...).permute{back}" if there else f"{name}(x.movedim(-1, -3), ...)"
    warnings.warn(
        f"{name}: an input of shape {tuple(input.shape)} is filtered along its last two dimensions, {width} and {last};"
        f" if the last one is channels, write {line}",
        stacklevel=level,
    )


def _level_of_the_caller() -> int | None:
    """The `stacklevel`, in `look`, of the first frame outside of this package and torch; None for calls of a façade."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_PACKAGE, _TORCH)):
        if frame.f_code.co_filename.startswith(_FACADES):
            return None
        level, frame = level + 1, frame.f_back
    return level
