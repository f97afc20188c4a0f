"""Causal depthwise convolutions of sequences, step by step."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_conv.reference._extend import rounded

__all__ = ["causal_conv1d", "causal_conv1d_update"]


def causal_conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    seq_idx: Tensor | None = None,
    initial_states: Tensor | None = None,
    return_final_states: bool = False,
    final_states_out: Tensor | None = None,
    activation: str | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """The result of `torch_conv.causal_conv1d`."""
    batch, channels, length = x.shape
    k = weight.shape[1]
    before = x.new_zeros(batch, channels, k - 1) if initial_states is None else initial_states
    inputs = torch.cat([before, x], dim=2)
    wide, taps = inputs.double(), weight.double().unsqueeze(-1)
    total = torch.zeros(x.shape, dtype=torch.float64, device=x.device)
    for j in range(k):
        seen = wide[..., j : j + length]
        if seq_idx is not None:  # samples before the start belong to no sequence
            sequences = F.pad(seq_idx, (k - 1, 0), value=-1)[:, j : j + length]
            seen = torch.where((sequences == seq_idx)[:, None], seen, 0.0)
        total.addcmul_(taps[:, j], seen)
    out = _finished(total, bias, activation, x.dtype)
    if seq_idx is not None:
        out = torch.where((seq_idx < 0)[:, None], torch.zeros_like(out), out)
    if not return_final_states:
        return out
    final_states = inputs[..., length:].clone()
    if final_states_out is None:
        return out, final_states
    return out, final_states_out.copy_(final_states)


def causal_conv1d_update(
    x: Tensor,
    conv_state: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    cache_seqlens: Tensor | None = None,
    conv_state_indices: Tensor | None = None,
) -> Tensor:
    """The result of `torch_conv.causal_conv1d_update` and its new `conv_state`."""
    out = torch.zeros_like(x)
    k, size = weight.shape[1], conv_state.shape[2]
    for b in range(len(x)):
        row = b if conv_state_indices is None else int(conv_state_indices[b])
        if row < 0:
            continue
        state, steps = conv_state[row], x[b].reshape(len(weight), -1)
        start = size if cache_seqlens is None else int(cache_seqlens[b])
        last = [state[:, (start - k + 1 + j) % size] for j in range(k - 1)]
        inputs = torch.stack([*last, *steps.unbind(1)], dim=1)
        total = sum(
            (weight[:, j, None].double() * inputs[:, j : j + steps.shape[1]].double() for j in range(k)),
            torch.zeros(steps.shape, dtype=torch.float64, device=x.device),
        )
        out[b] = _finished(total[None], bias, activation, x.dtype)[0].reshape(x[b].shape)
        if cache_seqlens is None:
            state.copy_(torch.cat([state, steps], dim=1)[:, steps.shape[1] :])
        else:
            for t in range(steps.shape[1] if size else 0):
                state[:, (start + t) % size] = steps[:, t]
    return out


def _finished(total: Tensor, bias: Tensor | None, activation: str | None, dtype: torch.dtype) -> Tensor:
    """Sums (B, D, L) in float64 with bias and activation, rounded once."""
    if bias is not None:
        total = total + bias[:, None].double()
    return rounded(total if activation is None else F.silu(total), dtype)
