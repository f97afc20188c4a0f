"""Shapes, dtypes and strides of the results without computing them: for torch.compile, torch.export and FakeTensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_conv.functional.conv import pads_of, served_here

Ints = Sequence[int]


def register() -> None:
    """Called once, by the package."""
    fakes: dict[str, Callable[..., Tensor | None]] = {
        "filter2d": _filter2d,
        "filter2d_out": _filter2d_out,
        "filter2d_separable": _filter2d_separable,
        "filter2d_separable_out": _filter2d_separable_out,
        "box2d": _box2d,
        "box2d_out": _box2d_out,
        "conv1d": _conv1d,
        "conv1d.padding": _conv1d,
        "conv2d": _conv2d,
        "conv2d.padding": _conv2d,
        "ladder2d": _ladder2d,
    }
    for name, fake in fakes.items():
        torch.library.register_fake(f"torch_conv::{name}", fake, lib=_LIBRARY)


_LIBRARY = torch.library.Library("torch_conv", "IMPL")


def _filter2d(
    input: Tensor,
    kernel: Tensor,
    border_type: str = "reflect",
    normalized: bool = False,
    padding: str = "same",
    behaviour: str = "corr",
    *,
    value: float = 0.0,
    anchor: Ints | None = None,
    stride: Ints = (1, 1),
    dilation: Ints = (1, 1),
    output_dtype: torch.dtype | None = None,
    algorithm: str = "auto",
) -> Tensor:
    _refuse_meta("filter2d", input, kernel=kernel)
    torch._check(2 <= kernel.dim() <= 4, lambda: f"filter2d: kernel must have 2, 3 or 4 dimensions, got {kernel.dim()}")
    return _filtered("filter2d", input, kernel.shape[-2:], padding, stride, dilation, output_dtype)


def _filter2d_separable(
    input: Tensor,
    kernel_x: Tensor,
    kernel_y: Tensor,
    border_type: str = "reflect",
    normalized: bool = False,
    padding: str = "same",
    *,
    value: float = 0.0,
    anchor: Ints | None = None,
    stride: Ints = (1, 1),
    dilation: Ints = (1, 1),
    output_dtype: torch.dtype | None = None,
    algorithm: str = "auto",
) -> Tensor:
    _refuse_meta("filter2d_separable", input, kernel_x=kernel_x, kernel_y=kernel_y)
    size = (kernel_y.shape[-1], kernel_x.shape[-1])
    return _filtered("filter2d_separable", input, size, padding, stride, dilation, output_dtype)


def _box2d(
    input: Tensor,
    kernel_size: Ints,
    border_type: str = "reflect",
    normalized: bool = True,
    padding: str = "same",
    *,
    value: float = 0.0,
    anchor: Ints | None = None,
    output_dtype: torch.dtype | None = None,
    algorithm: str = "auto",
) -> Tensor:
    return _filtered("box2d", input, kernel_size, padding, (1, 1), (1, 1), output_dtype)


def _conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = (1, 1),
    padding: Ints | str = (0, 0),
    dilation: Ints = (1, 1),
    groups: int = 1,
    *,
    padding_mode: str = "zeros",
    algorithm: str = "auto",
) -> Tensor:
    _refuse_meta("conv2d", input, weight=weight, bias=bias)
    if algorithm == "torch" or not served_here(input, weight, groups):
        if padding_mode != "zeros":
            input, padding = F.pad(input, pads_of(weight, padding, dilation), padding_mode), (0, 0)
        return F.conv2d(input, weight, bias, stride, padding, dilation, groups)
    return _convolved("conv2d", input, weight, stride, pads_of(weight, padding, dilation), dilation)


def _conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = (1,),
    padding: Ints | str = (0,),
    dilation: Ints = (1,),
    groups: int = 1,
    *,
    padding_mode: str = "zeros",
    algorithm: str = "auto",
) -> Tensor:
    _refuse_meta("conv1d", input, weight=weight, bias=bias)
    if algorithm == "torch" or not served_here(input, weight, groups):
        if padding_mode != "zeros":
            input, padding = F.pad(input, pads_of(weight, padding, dilation), padding_mode), (0,)
        return F.conv1d(input, weight, bias, stride, padding, dilation, groups)
    pads = [*pads_of(weight, padding, dilation), 0, 0]
    rows = _convolved("conv1d", input.unsqueeze(-2), weight.unsqueeze(-2), (1, *stride), pads, (1, *dilation))
    return rows.squeeze(-2)


def _ladder2d(input: Tensor, kernel: Tensor, variant: str = "naive", block: Ints = (16, 16)) -> Tensor:
    _refuse_meta("ladder2d", input, kernel=kernel)
    return input.new_empty(input.shape, dtype=torch.float32)


# What writes into a tensor that is there already has nothing to make.


def _filter2d_out(input: Tensor, kernel: Tensor, *args: object, out: Tensor, **kwargs: object) -> None:
    _refuse_meta("filter2d", input, kernel=kernel, out=out)


def _filter2d_separable_out(
    input: Tensor, kernel_x: Tensor, kernel_y: Tensor, *args: object, out: Tensor, **kwargs: object
) -> None:
    _refuse_meta("filter2d_separable", input, kernel_x=kernel_x, kernel_y=kernel_y, out=out)


def _box2d_out(input: Tensor, *args: object, out: Tensor, **kwargs: object) -> None:
    _refuse_meta("box2d", input, out=out)


def _refuse_meta(op: str, input: Tensor, **others: Tensor | None) -> None:
    """A real call comes here too when one of its tensors is on meta; then all must be, or a result would be garbage.

    A window may stay on the CPU, as beside an image on a GPU. Fake tensors show the device that they stand for.
    """
    for name, other in others.items():
        if other is None or (input.device.type == "meta") == (other.device.type == "meta"):
            continue
        window = name.startswith("kernel") and other.device.type == "cpu"
        torch._check(window, lambda n=name, o=other: f"{op}: {n} must be on {input.device}, got {o.device}")


def _filtered(
    name: str, input: Tensor, size: Ints, padding: str, stride: Ints, dilation: Ints, output_dtype: torch.dtype | None
) -> Tensor:
    torch._check(input.dim() >= 2, lambda: f"{name}: input must have at least 2 dimensions, got {input.dim()}")
    torch._check(min(*stride, *dilation) >= 1, lambda: f"{name}: stride and dilation must be at least 1")
    n = input.shape[-2:]
    if padding == "valid":
        reach = [d * (k - 1) + 1 for k, d in zip(size, dilation, strict=True)]
        for a in range(2):
            torch._check(
                n[a] >= reach[a],
                lambda: (
                    f"{name}: a window of {reach[0]}x{reach[1]} does not fit into an image of {n[0]}x{n[1]} "
                    "with padding='valid'"
                ),
            )
        result = [(n[a] - reach[a]) // stride[a] + 1 for a in range(2)]
    else:
        result = [n[a] if stride[a] == 1 else (n[a] + stride[a] - 1) // stride[a] for a in range(2)]
    return _in_order_of(input, [*input.shape[:-2], *result], output_dtype or input.dtype)


def _convolved(name: str, input: Tensor, weight: Tensor, stride: Ints, pads: Ints, dilation: Ints) -> Tensor:
    """`pads` as F.pad takes them: the last axis first, before and after."""
    result = []
    for a in range(2):
        n = input.shape[a - 2] + pads[2 - 2 * a] + pads[3 - 2 * a]
        reach = dilation[a] * (weight.shape[a + 2] - 1) + 1
        torch._check(n >= reach, lambda: f"{name}: a window does not fit into the padded image")
        result.append((n - reach) // stride[a] + 1)
    return _in_order_of(input, [*input.shape[:-3], weight.shape[0], *result], input.dtype)


def _in_order_of(input: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A dense tensor; channels stay innermost where they are (`channels_inner` of csrc/ops/images.cpp)."""
    if input.dim() >= 3 and not input.is_contiguous() and input.movedim(-3, -1).is_contiguous():
        return input.new_empty([*shape[:-3], *shape[-2:], shape[-3]], dtype=dtype).movedim(-1, -3)
    return input.new_empty(shape, dtype=dtype)
