"""torch's gradients of a convolution, with the same bits each time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import torch
from torch import Tensor

from torch_conv.functional._tensors import is_half_on_the_cpu


class _Choice:
    """A choice that cuDNN has once for the process: the first thread that comes makes it, the last takes it back."""

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


# Sums over pixels may take another order each time; where they may not, cuDNN takes other kernels.
_IN_A_FIXED_ORDER = _Choice(torch._C._get_cudnn_deterministic, torch._C._set_cudnn_deterministic, True)
# A search of the fastest kernel, which clocks them: while a stream captures it fails, and the steps before the capture,
# which may have gone another way, need not have made it. What an older search found is still taken.
_WITHOUT_A_SEARCH = _Choice(torch._C._get_cudnn_benchmark, torch._C._set_cudnn_benchmark, False)


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
    if is_half_on_the_cpu(grad):
        given = grad.float(), image.float(), weight.float()
        found = convolution_backward(*given, stride, padding, dilation, groups, wanted)
        return {name: one.half() for name, one in found.items()}
    names, axes = ("input", "weight", "bias"), len(stride)
    with ExitStack() as choices:
        if grad.is_cuda:
            choices.enter_context(_IN_A_FIXED_ORDER)
            if torch.cuda.is_current_stream_capturing():
                choices.enter_context(_WITHOUT_A_SEARCH)
        found = torch.ops.aten.convolution_backward(
            grad, image, weight, [weight.shape[0]], list(stride), list(padding), list(dilation), False, [0] * axes,
            groups, [name in wanted for name in names],
        )  # fmt: skip
    return {name: one for name, one in zip(names, found, strict=True) if name in wanted}
