"""Devices by name, and image files as uint8 tensors, with refusals in one sentence."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from torch_conv.cli import UsageError

SUFFIXES = (".png", ".jpg", ".jpeg")


def needed(module: str, package: str) -> Any:
    """Imports what only the command line needs."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"{package} is not installed: pip install 'torch-conv[cli]'") from error


def device_named(name: str | None) -> torch.device:
    """The device of that name; without a name the GPU, where there is one."""
    usable = torch.cuda.is_available() and torch.version.cuda is not None
    if name is None:
        return torch.device("cuda" if usable else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"device must be cpu, cuda or cuda:N, got {name}") from error
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f"device must be cpu, cuda or cuda:N, got {name}")
    if device.type == "cuda" and not usable:
        raise UsageError(f"device {name} cannot be used: torch sees no CUDA device here")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(f"device {name} does not exist: there are {torch.cuda.device_count()}")
    return device


def read_image(path: Path) -> Tensor:
    """A uint8 tensor (C, H, W) with one or three channels; transparency is dropped."""
    io = _io()
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    try:
        image = io.read_image(str(path), io.ImageReadMode.UNCHANGED)
    except RuntimeError as error:
        raise UsageError(f"{path} is not an image that can be read (PNG, JPEG, GIF or WebP)") from error
    if image.dtype != torch.uint8 or image.dim() != 3:
        kind = str(image.dtype).removeprefix("torch.")
        raise UsageError(f"{path} must be a still image of 8 bits a channel, got {kind} of {image.dim()} dimensions")
    return image[:-1] if image.shape[0] in (2, 4) else image


def check_output(path: Path) -> None:
    """Refuses, before any work, an output that could not be written."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"the output must end in {', '.join(SUFFIXES)}, got {path}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}")


def write_image(path: Path, image: Tensor) -> None:
    """Writes a uint8 tensor (C, H, W) in the format its name asks for."""
    encode = _io().write_png if path.suffix.lower() == ".png" else _io().write_jpeg
    try:
        encode(image.cpu().contiguous(), str(path))
    except RuntimeError as error:
        raise UsageError(f"{path} cannot be written") from error


def _io() -> ModuleType:
    return needed("torchvision.io", "torchvision")
