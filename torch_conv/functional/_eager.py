"""Convolutions outside torch.compile: straight to torch or to an operator, with cached decisions of the router."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import _C, Tensor

from torch_conv.dispatch.autocast import autocast_dtype, cast_all
from torch_conv.dispatch.explain import recording
from torch_conv.dispatch.failures import is_machine_failure
from torch_conv.dispatch.numbers import refuse_fraction, refuse_gradient
from torch_conv.dispatch.tangents import in_forward_mode
from torch_conv.functional._calls import below_autograd
from torch_conv.functional._convolve import (
    BY_TORCH,
    FAILURES,
    convolve,
    numbers_of,
    of_torch,
    operator_of,
    ours_of_numbers,
    packed,
)
from torch_conv.functional._router import OURS, TORCH, TORCH_IN_FORMAT, Options, route_of
from torch_conv.functional._tensors import PLAIN, in_format_of, is_half_on_the_cpu, why_not_ours

# Returns None where torch is faster. It has no autograd kernel, whose Python code would cost more than it saves, so it
# is called only where no gradient is wanted. `_op` skips the Python frame of the overload.
_of_numbers_if_ahead = torch.ops.torch_conv._conv.default._op


def eager(
    axes: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    *,
    padding_mode: str = "zeros",
    algorithm: str = "auto",
    activation: str | None = None,
) -> Tensor:
    """The call by torch or by an operator; the router is asked once for each kind of call."""
    if type(stride) is list:  # lists have no hash
        stride = tuple(stride)
    if type(padding) is list:
        padding = tuple(padding)
    if type(dilation) is list:
        dilation = tuple(dilation)
    given = axes, stride, padding, dilation, groups, padding_mode, algorithm, activation
    transformed = _C._are_functorch_transforms_active()  # their tensors hide whether they require a gradient
    trained = _C.is_grad_enabled() and (transformed or _C._any_requires_grad(input, weight, bias))
    plain = type(input) is Tensor and type(weight) in PLAIN and (bias is None or type(bias) in PLAIN)
    each_time, autocast = not plain or _C._is_tracing(), None
    if _C._is_any_autocast_enabled() and not each_time:
        autocast = autocast_dtype(input)
        each_time = transformed or autocast is None
    if trained and not each_time:  # a replay of a CUDA graph takes no host time
        each_time = transformed or (input.is_cuda and torch.cuda.is_current_stream_capturing())
    if in_forward_mode() or (each_time and (trained or why_not_ours(input, weight, bias))):
        return convolve(input, weight, bias, Options(*given))  # torch's autograd handles the subclass
    if each_time:
        return below_autograd(convolve, input, weight, bias, Options(*given))
    if not (
        (type(stride) is int or _ints(stride))
        and (type(padding) is int or type(padding) is str or _ints(padding))
        and (type(dilation) is int or _ints(dilation))
        and type(groups) is int
    ):  # 1.0 equals 1, and is refused; a tensor's value may change
        _refuse_fractions(axes, stride=stride, padding=padding, dilation=dilation, groups=groups)
        return convolve(input, weight, bias, Options(*given))
    known = _prepared.get(given) or _prepare(given)
    word = known.word
    # A mode or a transform must see the public operator.
    if _C._len_torch_dispatch_stack() or _C._len_torch_function_stack() or transformed:
        word = None
    if word is not None and not (known.torch_took_one or trained or autocast):
        try:
            result = _of_numbers_if_ahead(input, weight, bias, word)
        except RuntimeError as error:
            if is_machine_failure(error):
                raise
            # Torch may take what our operator refuses.
            return below_autograd(convolve, input, weight, bias, Options(*given))
        if result is not None:
            return result
        known.torch_took_one = True
    strided = torch.strided
    if (
        input.layout is not strided
        or weight.layout is not strided
        or weight.is_meta
        or (bias is not None and (bias.layout is not strided or bias.is_meta))
    ):
        route: int | None = _BY_CHOICE
    else:
        key = known, trained, autocast, input.shape, input.stride(), input.dtype, input.device, weight.shape
        route = _routes.get(key)
        if route is None:
            route = _find(key, input, weight, bias)
    if route is OURS and word is not None and not (trained and activation is not None):
        if autocast:
            input, weight, bias = cast_all(input.device.type, input, weight, bias)
        if trained:
            return ours_of_numbers(input, weight, bias, *known.numbers)
        return below_autograd(ours_of_numbers, input, weight, bias, *known.numbers)
    if (route is TORCH or route is TORCH_IN_FORMAT) and not recording():
        try:
            result = BY_TORCH[axes](input, weight, bias, stride, padding, dilation, groups)
        except FAILURES as error:
            raise of_torch(error, input, weight, bias, known.options) from None
        if route is TORCH or (result.is_contiguous() and input.is_contiguous()):
            return result
        return in_format_of(input, result, axes)
    if trained:  # an activation's gradient needs the sums, so they are computed separately
        return convolve(input, weight, bias, Options(*given))
    if autocast or route is _BY_CHOICE:
        return below_autograd(convolve, input, weight, bias, Options(*given))
    return below_autograd(known.operator, input, weight, bias, **known.given)


def _ints(numbers: Any) -> bool:
    if type(numbers) is not tuple:
        return False
    for number in numbers:  # noqa: SIM110 (three times as fast as all())
        if type(number) is not int:
            return False
    return True


def _refuse_fractions(axes: int, **options: Any) -> None:
    """Refuses numbers that are given as tensors and require a gradient or may be fractions."""
    for argument, given in options.items():
        for number in given if isinstance(given, (tuple, list)) else (given,):
            if isinstance(number, Tensor):
                refuse_gradient(f"conv{axes}d", argument, number)
                refuse_fraction(f"conv{axes}d", argument, number)


class _Prepared:
    """A call's options as the operators take them.

    Calls use `_of_numbers_if_ahead` if it can take the options. After the first call that torch serves, each call
    follows its route. Through the public operator torch takes 8 us more than alone (14x14 maps, one NVIDIA H200).
    """

    __slots__ = ("given", "numbers", "operator", "options", "torch_took_one", "word")

    def __init__(self, options: Options) -> None:
        self.options = options
        self.operator, self.given = operator_of(options)
        self.numbers = (numbers_of(options) if options.algorithm == "auto" else None) or ()
        self.word = packed(self.numbers) if self.numbers else None
        self.torch_took_one = self.word is None


_BY_CHOICE = -1  # `convolve` asks the router each time
_prepared: dict[Any, _Prepared] = {}  # by options
# The router's decisions by the facts that they depend on. Asking takes longer than a small convolution.
_routes: dict[Any, int] = {}
_MOST = 4096  # entries of each cache; a program has fewer layers


def _prepare(given: Any) -> _Prepared:
    if len(_prepared) >= _MOST:
        _prepared.clear()
        _routes.clear()
    known = _prepared[given] = _Prepared(Options(*given))
    return known


def _find(key: Any, input: Tensor, weight: Tensor, bias: Tensor | None) -> int:
    known, _, autocast, *_ = key
    if len(_routes) >= _MOST:
        _routes.clear()
    if autocast:
        input, weight, bias = cast_all(input.device.type, input, weight, bias)
    options = known.options
    route = _BY_CHOICE if input.is_meta else route_of(input, weight, bias, options)[0]
    more = options.padding_mode != "zeros" or options.activation is not None or is_half_on_the_cpu(input)
    if more and route in (TORCH, TORCH_IN_FORMAT):
        route = _BY_CHOICE
    _routes[key] = route
    return route
