"""Loads the compiled modules and joins them: `_C` holds the operators, `_cuda` lends it the CUDA rooms."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch

_HERE = Path(__file__).parent
_CORE = _HERE / "_C.abi3.so"
_CUDA = _HERE / "_cuda.abi3.so"


def load() -> None:
    """Registers the operators of `torch.ops.torch_conv`, with CUDA where torch and this build have it."""
    if not _CORE.exists():
        raise ImportError("torch_conv is not built: run `make build` in the checkout, or `pip install .`")
    torch.ops.load_library(str(_CORE))
    # A torch without CUDA lacks the symbols that _cuda needs; a build without nvcc lacks _cuda.
    if torch.version.cuda and _CUDA.exists():
        core, cuda = ctypes.CDLL(str(_CORE)), ctypes.CDLL(str(_CUDA))
        cuda.torch_conv_cuda_rooms.argtypes = []
        cuda.torch_conv_cuda_rooms.restype = ctypes.c_void_p
        core.torch_conv_install_cuda.argtypes = [ctypes.c_void_p]
        core.torch_conv_install_cuda.restype = None
        core.torch_conv_install_cuda(cuda.torch_conv_cuda_rooms())
