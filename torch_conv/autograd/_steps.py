"""Gradients of what is written in steps that have gradients themselves: the steps run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import _C, Tensor
from torch._functorch.utils import unwrap_dead_wrappers


def vjp(steps: Callable[..., Tensor], given: Sequence[Tensor], grad: Tensor) -> Sequence[Tensor]:
    """The gradients of `steps(*given)` in what is given; with a graph of their own where one is wanted."""
    if _C._are_functorch_transforms_active():  # whose tensors a graph of autograd's does not go through
        return torch.func.vjp(steps, *given)[1](grad)
    given = unwrap_dead_wrappers(tuple(given))  # what torch.func.vjp returns is called when the transform is over
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views, of which none depends on another one: what is given may, or be the same tensor twice.
        taken = [t.view_as(t) if again and t.requires_grad else t.detach().requires_grad_() for t in given]
        result = steps(*taken)
        return torch.autograd.grad(result, taken, grad, create_graph=again, materialize_grads=True)
