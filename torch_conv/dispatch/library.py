"""Loads the compiled module, which registers the operators of `torch.ops.torch_conv`."""

from __future__ import annotations

import atexit
import sysconfig
import warnings
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
        if sysconfig.get_platform() != "linux-x86_64":
            raise ImportError(f"torch_conv: runs on Linux on x86-64 (linux-x86_64), this is {sysconfig.get_platform()}")
        raise ImportError(
            f"torch_conv is not built in {_CORE.parent.parent}: run `make build` there, or, "
            "where `pip install` has put a built one, import it from another folder"
        )
    if torch.version.hip:
        warnings.warn(
            "torch_conv: this torch is built for ROCm, where torch_conv takes tensors on the CPU only",
            RuntimeWarning,
            stacklevel=3,
        )
    torch.ops.load_library(library_path())
    # Before the process ends its libraries: the compiler is one of them.
    atexit.register(torch.ops.torch_conv._finish_compiling, drop=True)
