"""Dtypes and memory formats of results, also of images whose sizes are symbols."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_conv.dispatch.symbols import surely

DTYPES = {torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.uint8, torch.int16, torch.uint16}


def in_order_of(input: Tensor, axes: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """An uninitialised dense tensor, with channels innermost if they are innermost in `input`."""
    c = -axes - 1
    if channels_inner(input, axes):
        return input.new_empty([*shape[:c], *shape[c:][1:], shape[c]], dtype=dtype).movedim(-1, c)
    return input.new_empty(shape, dtype=dtype)


def channels_inner(input: Tensor, axes: int) -> bool:
    """Whether channels are innermost, perhaps with gaps, as in a crop; symbolic form of csrc/tensors/images.cpp."""
    c = -axes - 1
    if input.dim() <= axes or _is_contiguous(input) or surely(input.shape[c] < 2):
        return False
    turned, step = input.movedim(c, -1), 0
    for size, stride in zip(reversed(turned.shape), reversed(turned.stride()), strict=True):
        if surely(size == 0):
            return True
        if surely(size == 1):
            continue
        if not surely(stride >= step if step else stride == 1):
            return False
        step = stride * size
    return True


def _is_contiguous(t: Tensor) -> bool:
    """Tensor.is_contiguous, also for sizes that depend on data; Dynamo can trace it."""
    step, sizes = 1, t.shape
    for size, stride in zip(reversed(sizes), reversed(t.stride()), strict=True):
        if surely(size == 1):
            continue
        if not surely(stride == step):
            return any(surely(n == 0) for n in sizes)
        step = step * size
    return True
