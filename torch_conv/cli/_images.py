"""Devices by name, and tensors as image files, with refusals in one sentence."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from torch_conv.bench.files import check_file, write_file
from torch_conv.bench.usage import UsageError, needed

DEEP_SUFFIXES = (".png", ".tif", ".tiff")
SUFFIXES = (*DEEP_SUFFIXES, ".jpg", ".jpeg")
JPEG_QUALITY = 95


@contextlib.contextmanager
def silent_libraries() -> Iterator[None]:
    """Hides messages of Pillow, OpenCV and libtiff, because a refusal is one sentence of ours."""
    with warnings.catch_warnings(), contextlib.ExitStack() as undo:
        warnings.simplefilter("ignore")
        with contextlib.suppress(OSError):  # without standard error
            sys.stderr.flush()
            screen = os.dup(2)
            undo.callback(os.close, screen)
            undo.callback(os.dup2, screen, 2)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.close(nowhere)
        yield


def device_named(name: str | None) -> torch.device:
    """The device of that name; by default the GPU, if there is one."""
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


def check_output(path: Path, force: bool) -> None:
    """Refuses, before any work, a picture that could not be written, or that exists and is not to be replaced."""
    if os.path.isdir(path):  # unlike Path.is_dir, never an error
        raise UsageError(f"{path} is a folder")
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"the output must end in {', '.join(SUFFIXES)}, got {path}")
    check_file(path, force)


def check_depth(path: Path, dtype: torch.dtype) -> None:
    """Refuses a format of 8 bits for 16 bits a channel."""
    if dtype == torch.uint16 and path.suffix.lower() not in DEEP_SUFFIXES:
        raise UsageError(f"{path} cannot hold 16 bits a channel: the output must end in {', '.join(DEEP_SUFFIXES)}")


def write_image(path: Path, image: Tensor, force: bool = True) -> None:
    """Writes a uint8 or uint16 tensor (C, H, W) of one or three channels in the format its name asks for.

    Without `force` a file that has appeared since `check_output` stays as it is.
    """
    cv2 = needed("cv2", "OpenCV")
    check_depth(path, image.dtype)
    pixels = image.cpu().permute(1, 2, 0).numpy()[..., ::-1]  # OpenCV's order is blue, green, red
    options = [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY] if path.suffix.lower() in (".jpg", ".jpeg") else []
    try:
        with silent_libraries():
            done, content = cv2.imencode(path.suffix.lower(), pixels.copy(), options)
    except cv2.error:
        done = False
    if not done:
        h, w = image.shape[-2:]
        raise UsageError(f"{path} cannot be written: {w} x {h} pixels do not fit into such a file")
    write_file(path, content.tobytes(), force)
