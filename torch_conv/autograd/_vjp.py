"""Vector-Jacobian products of functions whose operators have gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import _C, Tensor
from torch._functorch.utils import unwrap_dead_wrappers


def vjp(function: Callable[..., Tensor], inputs: Sequence[Tensor], grad: Tensor) -> Sequence[Tensor]:
    """The gradients of `function(*inputs)` in its inputs, which are differentiable if gradients are enabled."""
    if _C._are_functorch_transforms_active():  # autograd's graph does not hold the tensors of transforms
        return torch.func.vjp(function, *inputs)[1](grad)
    inputs = unwrap_dead_wrappers(tuple(inputs))  # the result of torch.func.vjp may run after the transform
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # Independent views, because inputs may depend on each other, or be the same tensor twice.
        views = [t.view_as(t) if create_graph and t.requires_grad else t.detach().requires_grad_() for t in inputs]
        result = function(*views)
        return torch.autograd.grad(result, views, grad, create_graph=create_graph, materialize_grads=True)
