"""Argument checks of `split` and SplitTensor."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_conv.dispatch.numbers import is_whole, kind_of
from torch_conv.dispatch.remedies import no_tensor


def check_tensor(name: str, argument: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise no_tensor(name, argument, value)
    if value.is_nested or value.layout is not torch.strided or value.is_quantized:
        got = "nested" if value.is_nested else value.dtype if value.is_quantized else value.layout
        raise TypeError(f"{name}: {argument} must be dense, got {str(got).removeprefix('torch.')}")
    if not (value.is_cpu or value.is_cuda):
        raise ValueError(f"{name}: {argument} must be on the CPU or on CUDA devices, got {value.device}")


def checked_dim(name: str, whose: str, dim: Any, dims: int) -> int:
    """`dim` counted from the end."""
    if not is_whole(dim):
        raise TypeError(f"{name}: dim must be of type int, got {kind_of(dim)}")
    if not -dims <= dim < dims:
        raise ValueError(f"{name}: dim must name one of the {whose} {dims} dimensions, got {dim}")
    return int(dim) if dim < 0 else int(dim) - dims


def checked_device(name: str, argument: str, given: Any) -> torch.device:
    try:
        device = torch.device(given)
    except (RuntimeError, TypeError):
        device = torch.device("meta")
    if device.type == "cpu":
        return torch.device("cpu")
    if device.type != "cuda":
        raise ValueError(f"{name}: {argument} must be CPU or CUDA, got {given}")
    available = torch.cuda.device_count()
    if available and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    if device.index is None or device.index >= available:
        raise ValueError(f"{name}: {argument} must be among the {available} CUDA devices of this machine, got {given}")
    return device


def default_devices() -> list[torch.device]:
    if torch.cuda.is_available():
        return [torch.device("cuda", i) for i in range(torch.cuda.device_count())]
    return [torch.device("cpu")]


def checked_devices(name: str, argument: str, devices: Any) -> list[torch.device]:
    if isinstance(devices, (str, torch.device, int)) or not isinstance(devices, Iterable):
        raise TypeError(f"{name}: {argument} must be a list of devices, got {devices!r}")
    checked = [checked_device(name, argument, given) for given in devices]
    if not checked:
        raise ValueError(f"{name}: {argument} must have at least one device, got none")
    check_kinds(name, argument, checked)
    return checked


def check_kinds(name: str, argument: str, devices: Sequence[torch.device]) -> None:
    for device in devices:
        if device.type != devices[0].type:
            raise ValueError(
                f"{name}: {argument} must be all on the CPU or all on CUDA devices, got {devices[0]} and {device}"
            )


def checked_sizes(sizes: Any, dim: int, n: int, parts: int) -> list[int]:
    if not isinstance(sizes, (list, tuple)):
        raise TypeError(f"split: sizes must be a list of int, got {type(sizes).__name__}")
    for size in sizes:
        if not is_whole(size):
            raise TypeError(f"split: sizes must be of type int, got {kind_of(size)}")
        if size < 0:
            raise ValueError(f"split: sizes must be at least 0, got {size}")
    if len(sizes) != parts:
        raise ValueError(f"split: sizes must have one number for each of {parts} devices, got {len(sizes)}")
    if sum(sizes) != n:
        raise ValueError(f"split: sizes must add up to {n} along dim {dim}, got {sum(sizes)}")
    return [operator.index(size) for size in sizes]


def dtype_name(t: Any) -> str:
    return str(t.dtype).removeprefix("torch.")


def without(shape: Sequence[int], dim: int) -> list[int]:
    return [n for d, n in enumerate(shape) if d != len(shape) + dim]
