"""Torch's gradients of a convolution, with the same bits at each call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import torch
from torch import Tensor

from torch_conv.functional._tensors import is_half_on_the_cpu

Ints = Sequence[int]


class _ProcessFlag:
    """A flag of cuDNN for the whole process: the first thread to enter sets it, the last one to leave restores it."""

    def __init__(self, get: Callable[[], bool], put: Callable[[bool], None], value: bool) -> None:
        self._get, self._put, self._value = get, put, value
        self._lock, self._threads, self._before = threading.Lock(), 0, value

    def __enter__(self) -> None:
        with self._lock:
            if self._threads == 0:
                self._before = self._get()
                self._put(self._value)
            self._threads += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._threads -= 1
            if self._threads == 0:
                self._put(self._before)


# cuDNN's default kernels may add up pixels in another order at each call.
_DETERMINISTIC = _ProcessFlag(torch._C._get_cudnn_deterministic, torch._C._set_cudnn_deterministic, True)
# cuDNN's benchmark mode times kernels, which fails while a stream captures. Results of earlier searches stay in use.
_NO_BENCHMARK = _ProcessFlag(torch._C._get_cudnn_benchmark, torch._C._set_cudnn_benchmark, False)


def convolution_backward(
    grad: Tensor,
    image: Tensor,
    weight: Tensor,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    wanted: Sequence[str],
) -> dict[str, Tensor]:
    """The `wanted` gradients among "input", "weight" and "bias". Only the one for "input" reads values of `weight`."""
    if is_half_on_the_cpu(grad):
        operands = grad.float(), image.float(), weight.float()
        found = convolution_backward(*operands, stride, padding, dilation, groups, wanted)
        return {name: one.half() for name, one in found.items()}
    names, axes = ("input", "weight", "bias"), len(stride)
    with ExitStack() as flags:
        if grad.is_cuda:
            flags.enter_context(_DETERMINISTIC)
            if torch.cuda.is_current_stream_capturing():
                flags.enter_context(_NO_BENCHMARK)
        found = torch.ops.aten.convolution_backward(
            grad, image, weight, [weight.shape[0]], list(stride), list(padding), list(dilation), False, [0] * axes,
            groups, [name in wanted for name in names],
        )  # fmt: skip
    return {name: one for name, one in zip(names, found, strict=True) if name in wanted}
