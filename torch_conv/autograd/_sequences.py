"""Gradients of causal convolutions: each is a depthwise convolution of a sequence and what stands before its start."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_conv._symbols import surely
from torch_conv.autograd._steps import vjp
from torch_conv.functional._composites import sum_dtype

Given = dict[str, Any]
_TENSORS = ("x", "weight", "bias", "initial_states")


def causal_gradients(_: int, given: Given, output: Any, grads: tuple[Tensor | None, ...], wanted: set[str]) -> Given:
    """Of causal_conv1d, and with the gradient of the last inputs too of causal_conv1d_states."""
    names = [name for name in _TENSORS if name in wanted]
    x, k = given["x"], given["weight"].shape[1]
    if surely(x.numel() == 0):  # the states stay the same
        gradients = {name: torch.zeros_like(given[name]) for name in names}
        if "initial_states" in gradients and len(grads) > 1 and grads[1] is not None:
            gradients["initial_states"] = grads[1]
        return gradients
    results, grads_of_results = [], []
    if grads[0] is not None:
        results.append("out")
        grads_of_results.append(grads[0])
    if len(grads) > 1 and grads[1] is not None:
        results.append("states")
        grads_of_results.append(grads[1])
    if not results:
        return {}

    def run(*taken: Tensor) -> Tensor:
        used = {**given, **dict(zip(names, taken, strict=True))}
        before = used["initial_states"]
        inputs = torch.cat([x.new_zeros(*x.shape[:2], k - 1) if before is None else before, used["x"]], 2)
        made = {"out": _convolved(used, inputs)} if "out" in results else {}
        if "states" in results:
            made["states"] = inputs[..., x.shape[2] :]
        return torch.cat([made[name].reshape(-1).to(sum_dtype(x)) for name in results])

    grad = torch.cat([g.reshape(-1).to(sum_dtype(x)) for g in grads_of_results])
    return dict(zip(names, vjp(run, [given[name] for name in names], grad), strict=True))


def _convolved(given: Given, inputs: Tensor) -> Tensor:
    """Outputs before the last rounding, in the dtype of sums."""
    weight, bias, seq_idx, dtype = given["weight"], given["bias"], given["seq_idx"], sum_dtype(inputs)
    channels, k = weight.shape
    inputs, bias = inputs.to(dtype), None if bias is None else bias.to(dtype)
    if seq_idx is None:
        sums = torch.ops.torch_conv.conv1d(inputs, weight.to(dtype)[:, None], bias, groups=channels)
    else:  # a tap counts only on its output's own sequence
        length = seq_idx.shape[1]
        sums = torch.zeros((), dtype=dtype, device=inputs.device)
        for j in range(k):
            own = F.pad(seq_idx, (k - 1, 0), value=-1)[:, j : j + length] == seq_idx
            sums = sums + weight.to(dtype)[:, j, None] * inputs[..., j : j + length] * own[:, None]
        sums = sums if bias is None else sums + bias[:, None]
    result = sums if given["activation"] is None else F.silu(sums)
    return result if seq_idx is None else torch.where((seq_idx < 0)[:, None], 0.0, result)
