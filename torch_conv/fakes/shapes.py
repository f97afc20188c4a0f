"""Shapes, dtypes and strides of results, for all fake implementations."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.torch_version import TorchVersion

from torch_conv.dispatch.formats import DTYPES, in_order_of
from torch_conv.dispatch.symbols import surely

Ints = Sequence[int]


def refuse_meta(op: str, input: Tensor, **others: Tensor | Sequence[Tensor] | None) -> None:
    """Refuses a call with some tensors on meta, whose result would be uninitialised; a kernel may be on the CPU.

    Fake tensors report the device that they stand for, so this check affects real calls only.
    """
    for name, other in [(name, t) for name, o in others.items() for t in ([o] if isinstance(o, Tensor) else o or [])]:
        if (input.device.type == "meta") == (other.device.type == "meta"):
            continue
        is_allowed = name.startswith("kernel") and other.device.type == "cpu"
        torch._check(is_allowed, lambda n=name, o=other: f"{op}: {n} must be on {input.device}, got {o.device}")


def filtered(
    name: str,
    axes: int,
    input: Tensor,
    size: Ints,
    padding: str,
    stride: Ints,
    dilation: Ints,
    output_dtype: torch.dtype | None,
    outputs: int = 0,
) -> Tensor:
    """The result of a filter along the last `axes` dimensions, with a dimension of `outputs` before them if not 0."""
    torch._check(input.dim() >= axes, lambda: f"{name}: input must have at least {axes} dimensions, got {input.dim()}")
    for step in (*stride, *dilation):
        torch._check(step >= 1, lambda: f"{name}: stride and dilation must be at least 1")
    for taps in size:
        torch._check(taps >= 1, lambda: f"{name}: the window must have at least one tap")
    torch._check(padding in ("same", "valid"), lambda: f"{name}: padding must be 'same' or 'valid', got '{padding}'")
    for dtype in (input.dtype, output_dtype or input.dtype):
        torch._check_type(dtype in DTYPES, lambda d=dtype: f"{name}: no kernel takes the dtype {d}")
    if output_dtype is not None:
        _refuse_dtype_in_a_package(name)
    n = input.shape[-axes:]
    if padding == "valid":
        footprint = [d * (k - 1) + 1 for k, d in zip(size, dilation, strict=True)]
        for a in range(axes):
            torch._check(
                n[a] >= footprint[a],
                lambda: (
                    f"{name}: a window of {'x'.join(map(str, footprint))} does not fit into "
                    f"{'an image' if axes == 2 else 'a volume'} of {'x'.join(map(str, n))} with padding='valid'"
                ),
            )
        result = [(n[a] - footprint[a]) // stride[a] + 1 for a in range(axes)]
    else:
        result = [n[a] if surely(stride[a] == 1) else (n[a] + stride[a] - 1) // stride[a] for a in range(axes)]
    if outputs:
        return input.new_empty([*input.shape[:-axes], outputs, *result], dtype=output_dtype or input.dtype)
    return in_order_of(input, axes, [*input.shape[:-axes], *result], output_dtype or input.dtype)


def _refuse_dtype_in_a_package(name: str) -> None:
    """Before torch 2.12 an AOTInductor package hands operators another dtype than the one given."""
    inductor = sys.modules.get("torch._inductor.virtualized")
    wrong = inductor is not None and getattr(inductor.V.graph, "aot_mode", False)
    torch._check(
        not wrong or TorchVersion(torch.__version__) >= TorchVersion("2.12"),
        lambda: (
            f"{name}: output_dtype is read wrongly by AOTInductor of torch {torch.__version__}; "
            f"export torch_conv's function instead of the operator, or convert the result"
        ),
    )
