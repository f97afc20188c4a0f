"""Loads the compiled module, which registers the operators of `torch.ops.torch_conv`."""

from __future__ import annotations

from pathlib import Path

import torch

_CORE = Path(__file__).parent / "_C.abi3.so"


def load() -> None:
    """Registers the operators, for CUDA too where torch has it."""
    if not _CORE.exists():
        raise ImportError("torch_conv is not built: run `make build` in the checkout, or `pip install .`")
    torch.ops.load_library(str(_CORE))
