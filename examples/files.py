"""What the examples read and write: photographs as the command line reads them, pictures whole or not at all."""

from __future__ import annotations

import functools
import importlib
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_conv.cli.programs import UsageError, check_file, read_picture, write_file

PICTURES = (".jpg", ".jpeg", ".png")


def in_one_sentence(main: Callable[[], None]) -> Callable[[], None]:
    """A program that says in one sentence what is wrong with its input, or which package it lacks; then status 2."""

    @functools.wraps(main)
    def program() -> None:
        try:
            main()
            return
        except UsageError as error:
            reason = str(error)
        except ModuleNotFoundError as error:
            reason = f"{error.name} is not installed: pip install 'torch-conv[examples]'"
        print(f"{Path(main.__code__.co_filename).stem}: {reason}", file=sys.stderr)
        sys.exit(2)

    return program


def shipped(name: str) -> Path:
    """A photograph that scikit-image brings along."""
    import skimage

    return Path(skimage.__file__).parent / "data" / name


def read(path: Path) -> Tensor:
    """A photograph of bytes (3, H, W), on white where it is transparent."""
    photo = read_picture(path, "white")
    if photo.dtype != torch.uint8:
        raise UsageError(f"{path} must have 8 bits a channel, got 16")
    return photo.expand(3, -1, -1)


def check_output(output: Path, photo: Path | None) -> None:
    """Refuses, before any work, a picture that could not be written; it may replace another, but not the photograph."""
    if output.suffix.lower() not in PICTURES:
        raise UsageError(f"--output must end in .jpg or .png, got {output}")
    if photo is not None and output.exists() and photo.exists() and output.samefile(photo):
        raise UsageError(f"--output must not be the photograph, got {output}")
    importlib.import_module("matplotlib")  # draws the picture, after all work
    check_file(output, force=True)


def save(figure: Any, path: Path, **options: Any) -> None:
    """Writes a figure of matplotlib."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix[1:].lower(), **options)
    write_file(path, drawn.getvalue())
