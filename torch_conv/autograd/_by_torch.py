"""torch's gradients of a convolution, with the same bits each time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor


def convolution_backward(
    grad: Tensor,
    image: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    wanted: Sequence[str],
) -> dict[str, Tensor]:
    """What is `wanted` of the gradients in "input", "weight" and "bias"; of `weight` shape and dtype count."""
    names, axes = ("input", "weight", "bias"), len(stride)
    with _InAFixedOrder() if grad.is_cuda else nullcontext():
        found = torch.ops.aten.convolution_backward(
            grad, image, weight, [weight.shape[0]], list(stride), list(padding), list(dilation), False, [0] * axes,
            groups, [name in wanted for name in names],
        )  # fmt: skip
    return {name: one for name, one in zip(names, found, strict=True) if name in wanted}


class _InAFixedOrder:
    """cuDNN's sums over pixels may take another order each time; where they may not, it takes other kernels.

    The choice is the process's: the first thread that comes makes it, the last one takes it back.
    """

    _lock = threading.Lock()
    _threads = 0
    _before = False

    def __enter__(self) -> None:
        with self._lock:
            if type(self)._threads == 0:
                type(self)._before = torch._C._get_cudnn_deterministic()
                torch._C._set_cudnn_deterministic(True)
            type(self)._threads += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            type(self)._threads -= 1
            if type(self)._threads == 0:
                torch._C._set_cudnn_deterministic(self._before)
