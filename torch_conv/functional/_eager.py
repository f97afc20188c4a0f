"""Convolutions that want no gradient: straight to torch or to an operator, and what was seen before without asking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import _C, Tensor

from torch_conv import _handover
from torch_conv._explain import recording
from torch_conv._tangents import in_forward_mode
from torch_conv.functional._calls import below_autograd
from torch_conv.functional._convolve import BY_TORCH, Options, by_operator, convolve, few_of, operator_of, why_torch

_of_numbers = torch.ops.torch_conv._conv.default._op  # without the frame of Python that `default` puts around it


def eager(
    axes: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
    algorithm: str = "auto",
    activation: str | None = None,
) -> Tensor:
    """Straight to torch or to the operator where no gradient is wanted; what it has seen before, without asking."""
    if in_forward_mode() or (_C.is_grad_enabled() and _C._any_requires_grad(input, weight, bias)):
        options = Options(axes, stride, padding, dilation, groups, padding_mode, algorithm, activation)
        return convolve(input, weight, bias, options)
    if type(input) is not Tensor or _C._is_any_autocast_enabled():
        options = Options(axes, stride, padding, dilation, groups, padding_mode, algorithm, activation)
        return below_autograd(convolve, input, weight, bias, options)
    if _C._is_tracing():  # the script asks when it runs: its sizes may be others
        options = Options(axes, stride, padding, dilation, groups, padding_mode, algorithm, activation)
        return below_autograd(by_operator, input, weight, bias, options)
    given = axes, stride, padding, dilation, groups, padding_mode, algorithm, activation
    key: Any = given
    if not (
        (type(stride) is int or _ints(stride))
        and (type(padding) is int or _ints(padding))
        and (type(dilation) is int or _ints(dilation))
        and type(groups) is int
    ):  # 1.0 equals 1, and is refused
        key = *given, _kind(stride), _kind(padding), _kind(dilation), type(groups)
    try:
        ways = _ways.get(key) or _find(key, Options(*given))
        few = None if _C._len_torch_dispatch_stack() else ways.few  # a mode that looks on is to see the public operator
        if few is not None and not ways.mixed:
            try:
                result = _of_numbers(input, weight, bias, *few)
                if result is not None:
                    return result
                ways.mixed = True
            except RuntimeError:
                pass  # torch may take what it refuses
        way = ways.of(input, weight, bias)
    except (TypeError, AttributeError):  # lists, which have no hash, or no tensors
        return below_autograd(by_operator, input, weight, bias, Options(*given))
    if way is _NUMBERS and few is not None:
        return _of_numbers(input, weight, bias, *few)
    if way is _TORCH and not recording():
        try:
            return BY_TORCH[axes](input, weight, bias, stride, padding, dilation, groups)
        except (RuntimeError, TypeError, ValueError):
            pass  # the operator refuses in our sentence what is wrong with the call
    return below_autograd(ways.operator, input, weight, bias, **ways.given)


def _ints(numbers: Any) -> bool:
    if type(numbers) is not tuple:
        return False
    for number in numbers:  # noqa: SIM110 (three times as fast as all())
        if type(number) is not int:
            return False
    return True


def _kind(numbers: Any) -> Any:
    return tuple(map(type, numbers)) if type(numbers) is tuple else type(numbers)


_NUMBERS, _TORCH, _OPERATOR = "numbers", "torch", "operator"


class _Ways:
    """Where calls with the same options go, and what it is given there.

    To the operator of numbers if it can take them, until one of them is torch's; from then on each call where the first
    of its shapes went. By way of the public operator torch takes 8 us more than alone (14x14 maps, one NVIDIA H200).
    """

    __slots__ = ("few", "given", "mixed", "operator", "options", "seen")

    def __init__(self, options: Options) -> None:
        self.options = options
        self.operator, self.given = operator_of(options)  # refuses numbers that are none, whoever serves the call
        self.few = few_of(options)
        self.mixed = self.few is None
        self.seen: dict[Any, str] = {}

    def of(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> str:
        key = input.shape, input.stride(), input.dtype, input.device, weight.shape
        way = self.seen.get(key)
        if way is None:
            if len(self.seen) >= _MOST_SEEN:
                self.seen.clear()
            way = self.seen[key] = self._ask(input, weight, bias)
        return way

    def _ask(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> str:
        if self.options.padding_mode != "zeros" or weight.is_meta or input.is_meta:
            return _OPERATOR
        why = why_torch(input, weight, bias, self.options)
        if why == _handover.OURS and self.few is not None:
            return _NUMBERS
        return _OPERATOR if why in (None, _handover.OURS) or self.options.activation is not None else _TORCH


_ways: dict[Any, _Ways] = {}
_MOST_SEEN = 4096


def _find(key: Any, options: Options) -> _Ways:
    if len(_ways) >= _MOST_SEEN:
        _ways.clear()
    ways = _ways[key] = _Ways(options)
    return ways
