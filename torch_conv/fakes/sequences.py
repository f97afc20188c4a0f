"""Fake implementations of the causal convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_conv.dispatch.operators import Operator, Signature
from torch_conv.fakes.shapes import refuse_meta


def fake_sequence(operator: Operator) -> Callable[..., Any]:
    signature, op = Signature(operator.name), operator.public
    dims = (2, 3) if operator.name == "causal_conv1d_update" else (3,)
    with_states = operator.name == "causal_conv1d_states"

    def fake(*args: Any, **options: Any) -> Any:
        given = signature.bind(args, options)
        given.pop("activation")
        x, weight = given.pop("x"), given["weight"]
        refuse_meta(op, x, **given)
        expected = " or ".join(map(str, dims))
        torch._check(x.dim() in dims, lambda: f"{op}: x must have {expected} dimensions, got {x.dim()}")
        torch._check(weight.dim() == 2, lambda: f"{op}: weight must have 2 dimensions, got {weight.dim()}")
        torch._check(
            weight.shape[0] == x.shape[1],
            lambda: f"{op}: weight must have shape ({x.shape[1]}, k) with k at least 1, got {tuple(weight.shape)}",
        )
        result = _fresh(x, x.shape[-1])
        return (result, _fresh(x, weight.shape[1] - 1)) if with_states else result

    return fake


def _fresh(x: Tensor, last: int | torch.SymInt) -> Tensor:
    """An uninitialised (B, D, last) with channels innermost if they are innermost in x (csrc/api/causal.cpp)."""
    if x.dim() == 2:
        return x.new_empty(x.shape)
    n, c = x.shape[:2]
    if x.stride(1) == 1 and x.stride(2) > 1:
        return x.new_empty_strided((n, c, last), (c * last, 1, c))
    return x.new_empty((n, c, last))
