"""Causal depthwise convolutions of sequences, whole (`causal_conv1d`) and step by step (`causal_conv1d_update`)."""
# ruff: noqa: UP006, UP007, UP035, UP045

from typing import Any, Literal, Optional, Tuple, TypeVar, Union, overload

import torch
from torch import Tensor

from torch_conv.functional._calls import of_sequences
from torch_conv.functional._types import SequenceActivation
from torch_conv.split import SplitTensor

Sequences = TypeVar("Sequences", Tensor, SplitTensor)

_conv = torch.ops.torch_conv.causal_conv1d
_conv_states = torch.ops.torch_conv.causal_conv1d_states
_conv_states_out = torch.ops.torch_conv.causal_conv1d_states_out
_update = torch.ops.torch_conv.causal_conv1d_update


@overload
def causal_conv1d(
    x: Sequences,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    seq_idx: Optional[Tensor] = None,
    initial_states: Optional[Tensor] = None,
    return_final_states: Literal[False] = False,
    final_states_out: Optional[Tensor] = None,
    activation: Optional[SequenceActivation] = None,
) -> Sequences: ...
@overload
def causal_conv1d(
    x: Sequences,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    seq_idx: Optional[Tensor] = None,
    initial_states: Optional[Tensor] = None,
    *,
    return_final_states: Literal[True],
    final_states_out: Optional[Tensor] = None,
    activation: Optional[SequenceActivation] = None,
) -> Tuple[Sequences, Sequences]: ...
@overload
def causal_conv1d(
    x: Sequences,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    seq_idx: Optional[Tensor] = None,
    initial_states: Optional[Tensor] = None,
    return_final_states: bool = False,
    final_states_out: Optional[Tensor] = None,
    activation: Optional[SequenceActivation] = None,
) -> Union[Sequences, Tuple[Sequences, Sequences]]: ...
# TorchScript knows no SplitTensor.
@of_sequences  # type: ignore[misc]
def causal_conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    seq_idx: Optional[Tensor] = None,
    initial_states: Optional[Tensor] = None,
    return_final_states: bool = False,
    final_states_out: Optional[Tensor] = None,
    activation: Optional[SequenceActivation] = None,
) -> Union[Tensor, Tuple[Tensor, Tensor]]:
    """Convolves every channel of a sequence with its own kernel over the present and the past.

    Arguments and results are those of `causal_conv1d_fn` in the package causal-conv1d, for any width and layout, and on
    the CPU too. Widths 2, 3 and 4 run at the speed of memory on CUDA, for contiguous sequences and for channels
    innermost. Sums are in float32 (float64 for float64), one chain from the oldest tap on, and are rounded once. 'silu'
    of float16 and bfloat16 on CUDA is within one rounding of the exact value.

    Args:
        x: sequences (B, D, L) of float32, float16, bfloat16 or float64. Channels innermost (a transposed (B, L, D)) or
            not; other strides are served too.
        weight: a kernel per channel (D, k), k at least 1, with its last tap on the present; float32, float16 or
            bfloat16 (float64 where x is float64).
        bias: one number a channel (D,) of the weight's dtype, or None.
        seq_idx: int32 (B, L), the number of each element's sequence, where several sequences are packed into one row.
            A tap counts only if its element has the output's number. Where the number is below 0 the output is 0.
        initial_states: the elements before the start (B, D, k - 1), of x's dtype; None: zeros. Not with `seq_idx`.
        return_final_states: whether to return the last k - 1 inputs too. Not with `seq_idx`.
        final_states_out: tensor (B, D, k - 1) of x's dtype that receives the last inputs, or None for a new one. It is
            written only with `return_final_states`.
        activation: None, 'silu' or 'swish' (the same), applied in the same launch.

    Returns:
        Tensor (B, D, L) of x's dtype with its channels innermost where x has them there; with `return_final_states` a
        tuple of it and the last k - 1 inputs (B, D, k - 1), which are the `initial_states` of the next part.

    Raises:
        ValueError: for shapes and values that do not fit together.
        TypeError: for other dtypes and types.

    Equivalent to:
        `F.conv1d(x, weight[:, None], bias, padding=k - 1, groups=D)[..., :L]`, then `F.silu`

    Example:
        >>> x, weight = torch.tensor([[[1.0, 2, 3, 4]]]), torch.tensor([[10.0, 1]])
        >>> causal_conv1d(x, weight)
        tensor([[[ 1., 12., 23., 34.]]])
        >>> causal_conv1d(x, weight, initial_states=torch.tensor([[[5.0]]]), return_final_states=True)
        (tensor([[[51., 12., 23., 34.]]]), tensor([[[4.]]]))
    """
    if not torch.jit.is_scripting():  # noqa: SIM102 (TorchScript skips what is under this condition alone)
        if isinstance(x, SplitTensor):
            return _of_shards(
                x, weight, bias, seq_idx, initial_states, return_final_states, final_states_out, activation
            )
    if not return_final_states:
        return _conv(x, weight, bias, seq_idx, initial_states, activation)
    if final_states_out is None:
        return _conv_states(x, weight, bias, seq_idx, initial_states, activation)
    out = _conv_states_out(x, weight, bias, seq_idx, initial_states, activation, final_states_out=final_states_out)
    return out, final_states_out


@of_sequences
def causal_conv1d_update(
    x: Tensor,
    conv_state: Tensor,
    weight: Tensor,
    bias: Optional[Tensor] = None,
    activation: Optional[SequenceActivation] = None,
    cache_seqlens: Optional[Tensor] = None,
    conv_state_indices: Optional[Tensor] = None,
) -> Tensor:
    """Continues causal convolutions by one step or several, and moves the new elements into their state.

    Arguments and results are those of `causal_conv1d_update` in the package causal-conv1d, for any width and layout,
    and on the CPU too. Two samples must not share a row of `conv_state`. The function has no gradient.

    Args:
        x: the new elements (B, D), or (B, D, L) for several steps, of float32, float16, bfloat16 or float64.
        conv_state: the last elements of every channel (N, D, S) of x's dtype, S at least k - 1, the newest last. It is
            **written in place**: it moves on by L elements (by one where x is (B, D)). N is B, or any number with
            `conv_state_indices`.
        weight: a kernel per channel (D, k), as in `causal_conv1d`.
        bias: one number a channel (D,) of the weight's dtype, or None.
        activation: None, 'silu' or 'swish' (the same).
        cache_seqlens: int32 (B,), the number of elements that each sample has had before this call; the call does not
            change it. `conv_state` is then a ring: new elements go to index `cache_seqlens % S` and the following ones.
        conv_state_indices: int32 (B,), each sample's row of `conv_state`; None: sample b has row b. A number outside
            0 .. N - 1 is padding: it has no state, and its output is 0.

    Returns:
        Tensor of x's shape and dtype with its channels innermost where x has them there.

    Raises:
        ValueError: for shapes and values that do not fit together.
        TypeError: for other dtypes and types.

    Equivalent to:
        with x (B, D, L), no ring and no indices
        `causal_conv1d(x, weight, bias, initial_states=conv_state[..., S - k + 1:], activation=activation)`, then
        `conv_state.copy_(torch.cat([conv_state, x], -1)[..., L:])`

    Example:
        >>> state, weight = torch.tensor([[[3.0, 4]]]), torch.tensor([[100.0, 10, 1]])
        >>> causal_conv1d_update(torch.tensor([[5.0]]), state, weight), state
        (tensor([[345.]]), tensor([[[4., 5.]]]))
    """
    if not torch.jit.is_scripting():  # noqa: SIM102
        if isinstance(x, SplitTensor) or isinstance(conv_state, SplitTensor):
            raise TypeError("causal_conv1d_update: a SplitTensor is not taken; give it its .shards one by one")
    out = _update(x, conv_state, weight, bias, activation, cache_seqlens, conv_state_indices)
    if not torch.jit.is_scripting():
        _increment_version(conv_state)
    return out


torch.fx.node.has_side_effect(causal_conv1d_update)  # else torch.fx drops a step without a user


def _increment_version(written: Tensor) -> None:
    """Counts the write, which autograd does not see below its keys: a backward that saved the tensor then refuses."""
    if not torch.compiler.is_compiling() and not written.is_inference():
        torch.autograd.graph.increment_version(written)


def _of_shards(
    x: SplitTensor,
    weight: Tensor,
    bias: Optional[Tensor],
    seq_idx: Optional[Tensor],
    initial_states: Optional[Tensor],
    return_final_states: bool,
    final_states_out: Optional[Tensor],
    activation: Optional[SequenceActivation],
) -> Any:
    """The convolution of each shard, which holds some samples or some channels."""
    if x.dim() != 3:
        raise ValueError(f"causal_conv1d: x must have 3 dimensions, got {x.dim()}")
    dim = x.spec.dim + 3
    if dim == 2:
        raise ValueError("causal_conv1d: x must be split along batch or channels, got shards along the length")
    if final_states_out is not None and return_final_states:
        raise ValueError("causal_conv1d: final_states_out is not taken with a SplitTensor")
    wanted = {"weight": (weight, 0, x.shape[1]), "bias": (bias, 0, x.shape[1])}
    wanted |= {"seq_idx": (seq_idx, 0, x.shape[0]), "initial_states": (initial_states, dim, x.shape[dim])}
    for name, (given, at, size) in wanted.items():
        if given is not None and (given.dim() <= at or given.shape[at] != size):
            raise ValueError(f"causal_conv1d: {name} must have {size} at dimension {at}, got {tuple(given.shape)}")
    results, begin = [], 0
    for shard in x.shards:
        size = shard.shape[dim]

        def part(t: Optional[Tensor], at: Optional[int], begin: int = begin, like: Tensor = shard) -> Any:
            if t is None or at is None:
                return None if t is None else t.to(like.device)
            return t.narrow(at, begin, like.shape[dim]).to(like.device)

        channels = 0 if dim == 1 else None
        made = causal_conv1d(
            shard,
            part(weight, channels),
            part(bias, channels),
            part(seq_idx, 0 if dim == 0 else None),
            part(initial_states, dim),
            return_final_states,
            None,
            activation,
        )
        results.append(made if isinstance(made, tuple) else (made,))
        begin += size
    wholes = tuple(SplitTensor.from_shards(list(shards), dim) for shards in zip(*results, strict=True))
    return wholes if return_final_states else wholes[0]
