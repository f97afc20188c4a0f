"""Distinguishes failures of memory or devices from refusals of arguments."""

from __future__ import annotations

import re

import torch

OUR_SENTENCE = re.compile(r"[a-z]\w*: ")  # begins with the operator's name
OUR_FAILURE = "torch_conv: "
# Torch's messages about failures of memory, devices and libraries. A library's name alone does not match, because
# refusals name CUDABoolType or MKLDNN tensors. oneDNN refuses unsupported arguments by a missing primitive descriptor.
_MACHINE = re.compile(
    r"CUDA (?:driver )?error\b|CUDA unknown error|CUDA driver (?:initialization|version)|CUDA-capable device"
    r"|No CUDA GPUs are available|Found no NVIDIA driver"
    r"|cuDNN (?:Frontend )?error\b|[Uu]nable to find (?:a valid cuDNN algorithm|an engine)"
    r"|CUDNN_STATUS_|CUBLAS_STATUS_|cuFFT error\b|CUFFT_[A-Z]|MKL FFT error\b"
    r"|could not (?:create|execute) a primitive(?! descriptor)"
    r"|could not create (?:a stream|an engine|a memory)\b(?! descriptor)"
    r"|std::bad_alloc|posix_memalign failed|(?:out of|not enough|can't allocate) memory"
)


def is_machine_failure(error: Exception) -> bool:
    """Whether memory or a device failed, so that another call with the same arguments may succeed."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    text = str(error)
    if text.startswith(OUR_FAILURE):
        return True
    if not isinstance(error, RuntimeError) or isinstance(error, NotImplementedError) or OUR_SENTENCE.match(text):
        return False
    return _MACHINE.search(text) is not None
