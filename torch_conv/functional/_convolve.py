"""Convolutions by torch or by an operator, as the router decides."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import _C, Tensor

from torch_conv.dispatch.autocast import cast_all
from torch_conv.dispatch.explain import note, recording
from torch_conv.dispatch.tangents import REFUSAL, has_tangent, in_forward_mode
from torch_conv.functional._router import (
    OPERATOR,
    OURS,
    TORCH,
    TORCH_IN_FORMAT,
    Options,
    expanded,
    exports,
    is_traced,
    route_of,
)
from torch_conv.functional._tensors import PLAIN, in_format_of, is_half_on_the_cpu, why_not_ours
from torch_conv.split import SplitTensor

_CONVS = {1: torch.ops.torch_conv.conv1d, 2: torch.ops.torch_conv.conv2d, 3: torch.ops.torch_conv.conv3d}
_UNIT = {1: (1,), 2: (1, 1), 3: (1, 1, 1)}  # the options' defaults in modules
ours_of_numbers = torch.ops.torch_conv._conv_ours.default
BY_TORCH = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def pads_of(weight: Tensor, padding: str | Sequence[int], dilation: Sequence[int]) -> list[int]:
    """The argument of F.pad for a convolution's `padding`: the last axis first, before and after."""
    pads: list[int] = []
    for axis in reversed(range(weight.dim() - 2)):
        if padding == "same":
            total = dilation[axis] * (weight.size(axis + 2) - 1)
            pads += [total // 2, total - total // 2]
        elif isinstance(padding, str):
            pads += [0, 0]
        else:
            pads += [padding[axis], padding[axis]]
    return pads


def _is_unit(numbers: Any, axes: int) -> bool:
    """Whether a list holds 1 for every axis; 1.0 and True equal 1, and are refused."""
    return numbers == _UNIT[axes] and all(type(number) is int for number in numbers)


def convolve(input: Tensor, weight: Tensor, bias: Tensor | None, options: Options) -> Tensor:
    """The eager and compiled call: the operator, or torch with torch's autograd."""
    compiling = torch.compiler.is_compiling()
    activate = None if options.activation is None or is_traced() else ACTIVATIONS.get(options.activation)
    if activate is not None and isinstance(input, Tensor) and _wants_a_gradient(input, weight, bias):
        # The activation's gradient needs the sums, which one launch would not store.
        return activate(convolve(input, weight, bias, options._replace(activation=None)))
    if _is_exported_to_onnx():
        options = options._replace(algorithm="torch")
        return by_torch(input, weight, bias, options, TORCH, "ONNX has no convolutions but torch's")
    if _C._is_any_autocast_enabled() and torch.is_autocast_enabled(input.device.type):
        input, weight, bias = cast_all(input.device.type, input, weight, bias)
    # Shards go to the operator, which asks the router about the whole image.
    route, why = (OPERATOR, "") if isinstance(input, SplitTensor) else route_of(input, weight, bias, options)
    if route == OURS or (options.algorithm == "ours" and compiling and not exports()):
        plain = compiling and type(input) is Tensor and type(weight) in PLAIN
        numbers = numbers_of(options) if plain else None
        if numbers is not None:  # inductor would write lists into every call, and numbers may be symbols
            return ours_of_numbers(input, weight, bias, *numbers)
        options = options._replace(
            algorithm="ours"
        )  # the operator may see a shard, so it must not ask the router again
    elif route != OPERATOR:
        if compiling or not isinstance(input, Tensor):
            return by_torch(input, weight, bias, options, route, why)
        try:
            return by_torch(input, weight, bias, options, route, why)
        except FAILURES as error:
            raise of_torch(error, input, weight, bias, options) from None
    if compiling:  # the operator does not repeat a symbol for every axis
        options = options.for_every_axis()
    result = _by_operator(input, weight, bias, options)
    if in_forward_mode() and has_tangent((input, weight, bias)):
        raise RuntimeError(f"torch_conv: {REFUSAL}")  # after the operator's own refusals
    return result


# Exceptions of torch in a call that it serves.
FAILURES = (RuntimeError, TypeError, ValueError, IndexError)


def of_torch(error: Exception, input: Tensor, weight: Tensor, bias: Tensor | None, options: Options) -> Exception:
    """The error for a failure of torch: our refusal of a wrong call, else torch's own exception."""
    if not isinstance(error, torch.OutOfMemoryError):
        _check(input, weight, bias, options)
    error.of_torch = True  # type: ignore[attr-defined]  # public() does not translate it
    return error


def _check(input: Tensor, weight: Tensor, bias: Tensor | None, options: Options) -> None:
    """Raises the operator's refusal of a call, and computes nothing."""
    if _C._are_functorch_transforms_active() or why_not_ours(input, weight, bias):
        return  # the operators check no more of such tensors than torch does
    operator, given = operator_of(options)
    if not input.is_meta:  # for meta tensors the operator computes nothing
        query = getattr(torch.ops.torch_conv, f"_conv{options.axes}d_query")
        query = query.padding if isinstance(options.padding, str) else query.default
        query("footprint", input, weight, bias, **given)
    else:
        operator(input, weight, bias, **given)


def _is_exported_to_onnx() -> bool:
    """Whether torch.onnx exports a model, by torch.export or by a trace."""
    if torch.compiler.is_dynamo_compiling() or "torch.onnx" not in sys.modules:
        return False
    return torch.onnx.is_in_onnx_export()


def numbers_of(options: Options) -> tuple[Any, ...] | None:
    """The arguments of `_conv_ours`: zeros outside, and one number for all axes of an option. Else None."""
    found = []
    for value in (options.stride, 0 if options.padding == "valid" else options.padding, options.dilation):
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        if len(values) not in (1, options.axes) or not all(type(v) is int and v == values[0] for v in values):
            return None
        found.append(values[0])
    if type(options.groups) is not int or options.padding_mode != "zeros":
        return None
    return (options.axes, *found, options.groups, options.activation)


_BITS = (2, 10, 12, 12, 24)  # of axes, stride, padding, dilation and groups; the activation stands above


def packed(numbers: tuple[Any, ...]) -> int | None:
    """`numbers_of` in one integer, as `_conv` takes them (inverse: `Numbers::unpacked` of csrc/api/conv_numbers.cpp).

    None where a number is out of range: the public operator then serves or refuses the call.
    """
    *small, activation = numbers
    if activation not in ACTIVATIONS:
        return None
    word = list(ACTIVATIONS).index(activation)
    for number, bits in reversed(list(zip(small, _BITS, strict=True))):
        if not 0 <= number < 1 << bits:
            return None
        word = word << bits | number
    return word


def _by_operator(input: Tensor, weight: Tensor, bias: Tensor | None, options: Options) -> Tensor:
    operator, given = operator_of(options)
    return operator(input, weight, bias, **given)


def operator_of(options: Options) -> tuple[Callable[..., Tensor], dict[str, Any]]:
    """The operator and its arguments. Defaults are left out, because reading a list takes more than 1 us."""
    axes, stride, padding, dilation, groups, padding_mode, algorithm, activation = options
    name = f"conv{axes}d"
    given: dict[str, Any] = {}
    if type(stride) is int:  # one number stands for every axis
        if stride != 1:
            given["stride"] = stride
    elif not _is_unit(stride, axes):
        given["stride"] = expanded(name, "stride", stride, axes)
    if type(dilation) is int:
        if dilation != 1:
            given["dilation"] = dilation
    elif not _is_unit(dilation, axes):
        given["dilation"] = expanded(name, "dilation", dilation, axes)
    if type(groups) is not int or groups != 1:
        given["groups"] = groups
    if padding_mode != "zeros":
        given["padding_mode"] = padding_mode
    if algorithm != "auto":
        given["algorithm"] = algorithm
    if activation is not None:
        given["activation"] = activation
    conv = _CONVS[axes]
    if isinstance(padding, str):
        return conv.padding, {"padding": padding, **given}
    if type(padding) is not int:
        given["padding"] = expanded(name, "padding", padding, axes)
    elif padding != 0:
        given["padding"] = padding
    return conv.default, given


def _wants_a_gradient(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def by_torch(input: Tensor, weight: Tensor, bias: Tensor | None, options: Options, route: int, why: str) -> Tensor:
    """The call by F.convNd, so that exceptions, gradients and compiled code are torch's."""
    axes, stride, padding, dilation, groups, padding_mode, _, activation = options
    name = f"conv{axes}d"
    if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
        raise ValueError(
            f"{name}: padding_mode must be 'zeros', 'reflect', 'replicate' or 'circular', got '{padding_mode}'"
        )
    check_activation(name, activation)
    if not torch.compiler.is_compiling() and recording():
        note(f"{name}: handed to torch: {why}")
        input, weight = input.to("meta"), weight.to("meta")
        bias = None if bias is None else bias.to("meta")
    image = input
    if padding_mode != "zeros":
        words = padding if isinstance(padding, str) else expanded(name, "padding", padding, axes)
        steps = expanded(name, "stride", stride, axes)
        dilations = expanded(name, "dilation", dilation, axes)
        check_numbers(name, axes, input, weight, steps, words, dilations)
        input = F.pad(input, pads_of(weight, words, dilations), padding_mode)
        padding = 0
    activate = ACTIVATIONS[activation]
    # Torch and the operators return the same memory format, because the fakes know only one.
    formatted = route == TORCH_IN_FORMAT and isinstance(image, Tensor)
    in_float32 = formatted and is_half_on_the_cpu(image)
    if in_float32:
        input, weight, bias = input.float(), weight.float(), None if bias is None else bias.float()
    sums = BY_TORCH[axes](input, weight, bias, stride, padding, dilation, groups)
    if in_float32:
        sums = sums.to(image.dtype)
    if formatted:
        sums = in_format_of(image, sums, axes)
    return activate(sums) if activate else sums


# In the order of core/problem.h.
ACTIVATIONS: dict[str | None, Callable[[Tensor], Tensor] | None] = {
    None: None,
    "relu": F.relu,
    "relu6": F.relu6,
    "gelu": F.gelu,
    "silu": F.silu,
    "hardswish": F.hardswish,
}


def check_activation(name: str, activation: str | None) -> None:
    if activation not in ACTIVATIONS:
        raise ValueError(
            f"{name}: activation must be None, 'relu', 'relu6', 'gelu', 'silu' or 'hardswish', got '{activation}'"
        )


def check_numbers(
    name: str,
    axes: int,
    input: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: str | Sequence[int],
    dilation: Sequence[int],
) -> None:
    """The checks of F.convNd on shapes and numbers, with the sentences of csrc/api/conv.cpp."""
    if weight.dim() != axes + 2:
        raise ValueError(f"{name}: weight must have {axes + 2} dimensions, got {weight.dim()}")
    if input.dim() not in (axes + 1, axes + 2):
        raise ValueError(f"{name}: input must have {axes + 1} (unbatched) or {axes + 2} dimensions, got {input.dim()}")
    for argument, values in (("stride", stride), ("padding", padding), ("dilation", dilation)):
        if not isinstance(values, str) and len(values) != axes:
            raise ValueError(f"{name}: {argument} must have {axes} value{'s'[: axes - 1]}, got {len(values)}")
    for argument, positive in (("stride", stride), ("dilation", dilation)):
        if min(positive) < 1:
            raise ValueError(f"{name}: {argument} must be at least 1, got {min(positive)}")
    if not isinstance(padding, str):
        if min(padding) < 0:
            raise ValueError(f"{name}: padding must be at least 0, got {min(padding)}")
    elif padding not in ("same", "valid"):
        raise ValueError(f"{name}: padding must be 'same' or 'valid', got '{padding}'")
    elif padding == "same" and max(stride) > 1:
        raise ValueError(f"{name}: padding='same' needs stride 1, got {max(stride)}")
