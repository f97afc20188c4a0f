"""Gradients of causal convolutions: depthwise convolutions of the initial states followed by the sequence."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_conv.autograd._vjp import vjp
from torch_conv.dispatch.operators import Arguments
from torch_conv.dispatch.symbols import surely
from torch_conv.functional._composites import sum_dtype

_TENSORS = ("x", "weight", "bias", "initial_states")


def causal_gradients(
    _: int, given: Arguments, output: Any, grads: tuple[Tensor | None, ...], wanted: set[str]
) -> Arguments:
    """The gradients of causal_conv1d, and of causal_conv1d_states, where `grads` has a second item for the states."""
    names = [name for name in _TENSORS if name in wanted]
    x, k = given["x"], given["weight"].shape[1]
    if surely(x.numel() == 0):  # the final states equal the initial ones
        gradients = {name: torch.zeros_like(given[name]) for name in names}
        if "initial_states" in gradients and len(grads) > 1 and grads[1] is not None:
            gradients["initial_states"] = grads[1]
        return gradients
    result_grads = {name: grad for name, grad in zip(("out", "states"), grads, strict=False) if grad is not None}
    if not result_grads:
        return {}

    def run(*tensors: Tensor) -> Tensor:
        used = {**given, **dict(zip(names, tensors, strict=True))}
        before = used["initial_states"]
        inputs = torch.cat([x.new_zeros(*x.shape[:2], k - 1) if before is None else before, used["x"]], 2)
        results = [_convolved(used, inputs) if name == "out" else inputs[..., x.shape[2] :] for name in result_grads]
        return torch.cat([result.reshape(-1).to(sum_dtype(x)) for result in results])

    grad = torch.cat([grad.reshape(-1).to(sum_dtype(x)) for grad in result_grads.values()])
    return dict(zip(names, vjp(run, [given[name] for name in names], grad), strict=True))


def _convolved(given: Arguments, inputs: Tensor) -> Tensor:
    """Outputs before the last rounding, in the dtype of sums."""
    weight, bias, seq_idx, dtype = given["weight"], given["bias"], given["seq_idx"], sum_dtype(inputs)
    channels, k = weight.shape
    inputs, bias = inputs.to(dtype), None if bias is None else bias.to(dtype)
    if seq_idx is None:
        sums = torch.ops.torch_conv.conv1d(inputs, weight.to(dtype)[:, None], bias, groups=channels)
    else:  # a tap counts if its input and its output belong to one sequence
        length = seq_idx.shape[1]
        sums = torch.zeros((), dtype=dtype, device=inputs.device)
        for j in range(k):
            is_same_sequence = F.pad(seq_idx, (k - 1, 0), value=-1)[:, j : j + length] == seq_idx
            sums = sums + weight.to(dtype)[:, j, None] * inputs[..., j : j + length] * is_same_sequence[:, None]
        sums = sums if bias is None else sums + bias[:, None]
    result = sums if given["activation"] is None else F.silu(sums)
    return result if seq_idx is None else torch.where((seq_idx < 0)[:, None], 0.0, result)
