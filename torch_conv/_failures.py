"""Tells failures of the machine from refusals of arguments."""

from __future__ import annotations

import re

import torch

OUR_SENTENCE = re.compile(r"[a-z]\w*: ")  # begins with the operator's name
OUR_FAILURE = "torch_conv: "
# How torch's own sentences begin or go on where memory, a device or one of their libraries failed.
_MACHINE = re.compile(r"CUDA|cuDNN|CUBLAS|CUFFT|MKL|oneDNN|std::bad_alloc|(?:out of|not enough|can't allocate) memory")


def of_the_machine(error: Exception) -> bool:
    """Whether an exception speaks of memory or of a device: another call with the same arguments may succeed."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    text = str(error)
    if text.startswith(OUR_FAILURE):
        return True
    if not isinstance(error, RuntimeError) or isinstance(error, NotImplementedError) or OUR_SENTENCE.match(text):
        return False
    return _MACHINE.search(text) is not None
