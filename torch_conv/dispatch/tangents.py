"""Forward-mode derivatives, which the operators do not implement: calls with tangents go to torch or are refused.

Torch would drop the tangents of custom operators silently. The functions check for tangents before they call an
operator. The autograd kernels (autograd/_node.py) check again, for direct calls and scripts. The functions also refuse
tensors whose tangents are hidden: those that nested transforms wrap, and those that torch.compile traces in forward
mode.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

REFUSAL = "forward-mode derivatives are not implemented yet; call it on tensors without tangents (detach() drops them)"


def in_forward_mode() -> bool:
    """Whether forward mode is active: forward_ad.dual_level(), torch.func.jvp, jacfwd and others."""
    return forward_ad._current_level >= 0


def has_tangent(given: Any, wrapped: bool = True) -> bool:
    """Whether an argument, or a list or dictionary of arguments, has a tensor with a tangent. Call it in forward mode.

    The tangent of a tensor that a transform wraps, or that torch.compile traces, may be hidden. `wrapped` counts such
    tensors as tensors with a tangent. The autograd kernels get unwrapped tensors.
    """
    if isinstance(given, Tensor):
        if given.layout is not torch.strided or given.is_quantized or given.is_nested:
            return False  # refused elsewhere; torch cannot unpack all of them
        if wrapped and (torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(given)):
            return True
        return forward_ad.unpack_dual(given).tangent is not None
    if isinstance(given, dict):
        given = given.values()
    elif hasattr(type(given), "shards"):  # a SplitTensor
        given = given.shards
    elif not isinstance(given, (list, tuple)):
        return False
    return any(has_tangent(part, wrapped) for part in given)
