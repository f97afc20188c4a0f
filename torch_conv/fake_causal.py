"""Shapes, dtypes and strides of what the causal convolutions return, for torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_conv._fakes import refuse_meta


def _checked(op: str, x: Tensor, weight: Tensor, dims: tuple[int, ...], **others: Tensor | None) -> None:
    refuse_meta(op, x, weight=weight, **others)
    words = " or ".join(map(str, dims))
    torch._check(x.dim() in dims, lambda: f"{op}: x must have {words} dimensions, got {x.dim()}")
    torch._check(weight.dim() == 2, lambda: f"{op}: weight must have 2 dimensions, got {weight.dim()}")
    torch._check(
        weight.shape[0] == x.shape[1],
        lambda: f"{op}: weight must have shape ({x.shape[1]}, k) with k at least 1, got {tuple(weight.shape)}",
    )


def _fresh(x: Tensor, last: int | torch.SymInt) -> Tensor:
    """A fresh (B, D, last) in the order of x: channels innermost where they are in x (csrc/api/causal.cpp)."""
    if x.dim() == 2:
        return x.new_empty(x.shape)
    n, c = x.shape[:2]
    if x.stride(1) == 1 and x.stride(2) > 1:
        return x.new_empty_strided((n, c, last), (c * last, 1, c))
    return x.new_empty((n, c, last))


def _causal_conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    seq_idx: Tensor | None = None,
    initial_states: Tensor | None = None,
    activation: str | None = None,
) -> Tensor:
    _checked("causal_conv1d", x, weight, (3,), bias=bias, seq_idx=seq_idx, initial_states=initial_states)
    return _fresh(x, x.shape[2])


def _states(x: Tensor, weight: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    return _causal_conv1d(x, weight, *args, **kwargs), _fresh(x, weight.shape[1] - 1)


def _states_out(x: Tensor, weight: Tensor, *args: Any, final_states_out: Tensor, **kwargs: Any) -> Tensor:
    refuse_meta("causal_conv1d", x, final_states_out=final_states_out)
    return _causal_conv1d(x, weight, *args, **kwargs)


def _update(
    x: Tensor,
    conv_state: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    cache_seqlens: Tensor | None = None,
    conv_state_indices: Tensor | None = None,
) -> Tensor:
    others = {"bias": bias, "cache_seqlens": cache_seqlens, "conv_state_indices": conv_state_indices}
    _checked("causal_conv1d_update", x, weight, (2, 3), conv_state=conv_state, **others)
    return _fresh(x, x.shape[-1])


FAKES: dict[str, Callable[..., Any]] = {
    "causal_conv1d": _causal_conv1d,
    "causal_conv1d_states": _states,
    "causal_conv1d_states_out": _states_out,
    "causal_conv1d_update": _update,
}
