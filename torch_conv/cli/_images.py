"""Devices by name, and tensors as image files, with refusals in one sentence."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_conv.bench.files import write_file
from torch_conv.bench.usage import UsageError, needed
from torch_conv.cli._tiff import tiff_of

FORMS = {".png": "png", ".tif": "tif", ".tiff": "tif", ".jpg": "jpg", ".jpeg": "jpg"}  # by the end of a file's name
JPEG_QUALITY = 95
STANDARD = Path("-")  # standard input or output: this object, because `./-`, a file, equals it


def path_given(text: str) -> Path:
    """The path of an argument, STANDARD for `-`."""
    return STANDARD if text == "-" else Path(text)


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


def check_form(path: Path, form: str | None) -> None:
    """Refuses a name that says no format, or another than `form`."""
    named = FORMS.get(path.suffix.lower())
    if named is None and form is None:
        raise UsageError(f"the output must end in {', '.join(FORMS)}, got {path}")
    if form is not None and named not in (None, form):
        raise UsageError(f"--format {form} does not agree with the output {path}")


def check_content(name: object, image: Tensor, form: str) -> None:
    """Refuses a format that cannot hold the numbers or the pages of a picture."""
    pages, dtype = image.shape[:-3].numel(), image.dtype
    if form != "tif" and image.ndim > 3:
        raise UsageError(f"{name} cannot hold {pages} pages: only TIFF can")
    if form != "tif" and dtype not in (torch.uint8, torch.uint16):
        raise UsageError(f"{name} cannot hold {str(dtype).removeprefix('torch.')}: only TIFF can")
    if form == "jpg" and dtype != torch.uint8:
        raise UsageError(f"{name} cannot hold 16 bits a channel: only PNG and TIFF can")


def write_image(
    path: Path,
    image: Tensor,
    force: bool = True,
    form: str | None = None,
    resolution: dict[str, Any] | None = None,
) -> None:
    """Writes an image (C, H, W) or pages (..., C, H, W), one or three channels, to a file or, for `-`, standard output.

    Args:
        path: the file; without `form` its name says which format.
        image: uint8; also uint16 for PNG; also int16 and floats and pages for TIFF.
        force: without it, a file that has appeared since `check_file` stays as it is.
        form: "png", "tif" or "jpg".
        resolution: of a TIFF, as tifffile takes it.
    """
    name = "standard output" if path is STANDARD else path
    form = form or FORMS[path.suffix.lower()]
    check_content(name, image, form)
    pixels = image.cpu().movedim(-3, -1).numpy()
    content = tiff_of(pixels, resolution or {}) if form == "tif" else encoded(name, pixels, form)
    if path is STANDARD:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        write_file(path, content, force)


def encoded(name: object, pixels: Any, form: str) -> bytes:
    """A PNG or a JPEG of pixels (H, W, C)."""
    cv2 = needed("cv2", "OpenCV")
    options = [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY] if form == "jpg" else []
    try:
        with silent_libraries():  # OpenCV's order is blue, green, red
            done, content = cv2.imencode(f".{form}", pixels[..., ::-1].copy(), options)
    except cv2.error:
        done = False
    if not done:
        h, w = pixels.shape[:2]
        raise UsageError(f"{name} cannot be written: {w} x {h} pixels do not fit into such a file")
    return content.tobytes()
