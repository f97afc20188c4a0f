"""Asks the router of convolutions, csrc/dispatch/conv/router.cpp, whether an operator or torch serves a call."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple

import torch
from torch import _C, Tensor

from torch_conv.dispatch.numbers import is_whole, kind_of
from torch_conv.dispatch.symbols import fixed, is_known
from torch_conv.dispatch.tangents import has_tangent, in_forward_mode
from torch_conv.functional._tensors import is_partly_meta, why_not_ours

OURS, TORCH, TORCH_IN_FORMAT, OPERATOR = range(4)  # in the order of `ConvRoute`; the operator decides or refuses
_NO_GRADIENT, _WANTED, _REPLAYED, _OF_TRANSFORM = range(4)  # in the order of `ConvRequest::Gradient`
_UNKNOWN = -(1 << 62)  # kUnknown
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_MOST_INPUTS, _MOST_OUTPUTS = torch.ops.torch_conv._conv_limits()
# Below all modes and transforms, which must not see the question.
_ask = _C._dispatch_find_schema_or_throw("torch_conv::_conv_route", "").redispatch_boxed
_KEYS = _C.DispatchKeySet(_C.DispatchKey.CPU)


class Options(NamedTuple):
    """The arguments of a convolution besides its tensors."""

    axes: int
    stride: int | Sequence[int] = 1
    padding: str | int | Sequence[int] = 0
    dilation: int | Sequence[int] = 1
    groups: int = 1
    padding_mode: str = "zeros"
    algorithm: str = "auto"
    activation: str | None = None

    def for_every_axis(self) -> Options:
        """With lists of numbers."""
        name, axes = f"conv{self.axes}d", self.axes
        return self._replace(
            stride=expanded(name, "stride", self.stride, axes),
            dilation=expanded(name, "dilation", self.dilation, axes),
            padding=self.padding if isinstance(self.padding, str) else expanded(name, "padding", self.padding, axes),
        )


def expanded(name: str, argument: str, value: Any, axes: int) -> list[int]:
    """A number, or a list of one, for every axis."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    for number in values:
        if type(number) is int:
            continue
        if not is_whole(number):
            raise TypeError(f"{name}: {argument} must be of type int, got {kind_of(number)}")
    return values * axes if len(values) == 1 else values


def decide(*given: Any) -> tuple[int, int, str]:
    """A route, the row of the table of handovers or -1, and the reason why torch computes the call."""
    route, row, *why = _ask(_KEYS, *given)
    return route, row, bytes(why).decode()


# torch.compiler.assume_constant_result sets this mark, too, but imports torch._dynamo, which takes seconds.
decide._dynamo_marked_constant = True  # type: ignore[attr-defined]


def served_here(input: Tensor, weight: Tensor, groups: int) -> bool:
    """Whether our kernels take the convolution, for sizes that are symbols. The router decides the same for numbers."""
    if input.dtype not in _FLOATS:
        return False
    c_out, c_in = weight.shape[:2]
    if c_in < 1 or c_out < max(groups, 1):
        return False
    return c_in == 1 or (c_in <= _MOST_INPUTS and c_out <= _MOST_OUTPUTS * groups)


def route_of(input: Tensor, weight: Tensor, bias: Tensor | None, options: Options) -> tuple[int, str]:
    """The route of a call, and the reason why torch computes it.

    Where torch.compile keeps sizes as symbols, the operator decides when it runs, so that other sizes need no new
    compilation. Under torch.export and torch.jit.trace only `served_here` decides, because a decision by sizes or
    gradients would not hold for other calls.
    """
    axes, _, padding, dilation, groups, padding_mode, algorithm, _ = options
    for d in dilation if isinstance(dilation, (list, tuple)) else (dilation,):
        if type(d) is int and d < 1:
            return OPERATOR, ""  # it refuses; torch's depthwise convolution of images on CUDA would take 0
    if algorithm == "torch":
        return TORCH, "algorithm 'torch'"
    if algorithm != "auto":
        return OPERATOR, ""
    foreign = why_not_ours(input, weight, bias)
    if foreign:
        return TORCH, foreign
    if weight.dim() != axes + 2 or not is_whole(groups) or groups < 1:  # of 0 groups vmap's rule in torch divides by 0
        return OPERATOR, ""
    if is_partly_meta(input, weight, bias):  # torch would return a tensor without values
        return OPERATOR, ""
    compiling = torch.compiler.is_compiling()
    c_out, c_in, *taps = weight.shape
    if not (_is_number(c_out) and _is_number(c_in) and _is_number(groups)) and not served_here(input, weight, groups):
        return TORCH, "a matrix product" if input.dtype in _FLOATS else f"no kernel takes {input.dtype}"
    if isinstance(padding, str) and padding not in ("same", "valid"):
        return OPERATOR, ""
    lists: Any = options.for_every_axis()
    zeros = [0] * axes
    pads = _known(zeros if padding == "valid" else lists.padding) if padding != "same" else None
    size = _known(input.shape)
    if _UNKNOWN in size:
        size = [_UNKNOWN] * len(size)
    # The ranks of a sharded image must decide alike, so the strides of their shards do not count.
    strides = _known(input.stride()) if isinstance(input, Tensor) else [0] * len(size)
    kernel = [*_known([c_out]), *[fixed(n) if compiling else index(n) for n in (c_in, *taps)]]
    gradient = _NO_GRADIENT
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (input, weight, bias)):
        gradient = _WANTED
        if compiling:
            gradient = _REPLAYED
        elif any(t is not None and _C._functorch.is_functorch_wrapped_tensor(t) for t in (input, weight, bias)):
            gradient = _OF_TRANSFORM
        elif input.is_cuda and _is_capturing():
            gradient = _REPLAYED
    tangent = in_forward_mode() and has_tangent((input, weight, bias))
    given = (
        input.device.type, input.dtype, size, strides, kernel, _known(lists.stride), pads, _known(lists.dilation),
        _known([groups])[0], padding_mode, gradient, tangent, exports() or is_traced(),
    )  # fmt: skip
    route, _, why = decide(*given)
    return route, why


def _is_number(n: Any) -> bool:
    """Whether `n` is no symbol."""
    return is_known(n) if torch.compiler.is_compiling() else not isinstance(n, torch.SymInt)


def _known(numbers: Sequence[Any]) -> list[int]:
    if torch.compiler.is_compiling():
        return [fixed(n) if is_known(n) else _UNKNOWN for n in numbers]
    return [n if type(n) is int else index(n) if _is_number(n) else _UNKNOWN for n in numbers]


def _is_capturing() -> bool:
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()  # fake tensors need no driver


def exports() -> bool:
    """Whether torch.export traces the call."""
    return getattr(torch.compiler, "_is_exporting_flag", False)  # Dynamo takes is_exporting() for true, always


def is_traced() -> bool:
    """Whether torch.jit.trace records the call. The operator then decides when the script runs."""
    return not torch.compiler.is_compiling() and _C._is_tracing()
