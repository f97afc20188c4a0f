"""Loads the compiled module, which registers the operators of `torch.ops.torch_conv`."""

from __future__ import annotations

from pathlib import Path

import torch

_CORE = Path(__file__).resolve().parents[1] / "_C.abi3.so"


def library_path() -> str:
    """The shared library that holds the operators, for programs without Python.

    A program loads it by `dlopen`, or by `torch_conv.h` of examples/cpp. The library registers `torch_conv::filter2d`
    and the other operators with torch's dispatcher. It finds its kernels in the folder `kernels` of its own folder.

    Returns:
        The absolute path.

    Example:
        >>> torch_conv.library_path().rpartition("/")[2]
        '_C.abi3.so'
        >>> torch.ops.load_library(torch_conv.library_path())
    """
    return str(_CORE)


def load() -> None:
    """Registers the operators."""
    if not _CORE.exists():
        raise ImportError(
            f"torch_conv is not built in {_CORE.parent.parent}: run `make build` there, or, "
            "where `pip install` has put a built one, import it from another folder"
        )
    torch.ops.load_library(library_path())
