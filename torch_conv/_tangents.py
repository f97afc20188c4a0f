"""Forward-mode derivatives: there are none yet, so what carries a tangent is torch's, or refused.

The operators would drop tangents without a word: torch asks a custom operator for a backward, and for nothing else.
The functions ask here before they call an operator, and its autograd kernel (autograd/_node.py) asks again: for
direct calls and for scripts. Refused with them is what only may carry a tangent: a tensor wrapped by a transform
inside another one (a constant under vmap in jvp), and whatever a function gets while torch.compile traces it in
forward mode.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from torch_conv.split import SplitTensor

REFUSAL = "forward-mode derivatives are not implemented yet; call it on tensors without tangents (detach() drops them)"


def in_forward_mode() -> bool:
    """Whether tensors may carry tangents now: under forward_ad.dual_level(), torch.func.jvp, jacfwd and their like."""
    return forward_ad._current_level >= 0


def has_tangent(given: Any, wrapped: bool = True) -> bool:
    """Whether a tensor of an argument, or of a list or dictionary of arguments, carries a tangent; in forward mode.

    A tensor that a transform wraps, or that torch.compile traces, may have a tangent that is not to be seen from the
    outside: with `wrapped` it is taken for one that has. The operators' kernels see beneath: they leave it out.
    """
    if isinstance(given, Tensor):
        if given.layout is not torch.strided or given.is_quantized or given.is_nested:
            return False  # it is refused for that, whatever it carries; torch cannot tell of all of them
        if wrapped and (torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(given)):
            return True
        return forward_ad.unpack_dual(given).tangent is not None
    if isinstance(given, SplitTensor):
        given = given.shards
    elif isinstance(given, dict):
        given = given.values()
    elif not isinstance(given, (list, tuple)):
        return False
    return any(has_tangent(part, wrapped) for part in given)
