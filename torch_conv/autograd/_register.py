"""Registers the operators' autograd kernels: nodes with formulas, refusals of tangents, and refusals of `out`.

Host time of a 3x3 filter of 8x8, on a shared 2-core AMD EPYC:

    direct operator call without an autograd kernel      5.4 us
    with these autograd kernels                          9.6 us, and 20 us more if a gradient is required
    with torch.library.register_autograd                 12 us, and 80 us more
    function of torch_conv.functional, no gradient       8.1 us: skips the autograd keys (functional/_calls.py)

`_conv` has no autograd kernel, because only functional/_eager.py calls it, and only without gradients.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, NoReturn

import torch

from torch_conv.autograd._node import AutogradKernel, Formula, Node, autograd_kernel, differentiable_node, refusing_node
from torch_conv.autograd._weights import weight_gradient_or_torch
from torch_conv.dispatch.operators import OPERATORS, Operator, split_name

_LIBRARY = torch.library.Library("torch_conv", "IMPL")


def register() -> None:
    """Registers the autograd kernels. The package calls this function once."""
    for name, operator in OPERATORS.items():
        node = Node(name)
        if operator.gradient:
            differentiable = differentiable_node(node, _formula(operator), operator.linear, operator.keeps_output)
            _register(name, autograd_kernel(node, differentiable))
        elif operator.writes:
            _register(name, _writing(node, operator.writes))
        else:
            _register(name, autograd_kernel(node, refusing_node(node)))
        if operator.has_out:
            _register(f"{name}_out", _writing(Node(f"{name}_out"), "out"))
        if operator.has_split:
            node = Node(split_name(name))
            _register(split_name(name), autograd_kernel(node, refusing_node(node)))
    _LIBRARY.impl("_weight_gradient_or_torch", weight_gradient_or_torch, "CompositeExplicitAutograd")


def _formula(operator: Operator) -> Formula:
    module, _, function = operator.gradient.partition(".")
    return partial(getattr(import_module(f"torch_conv.autograd.{module}"), function), operator.axes)


def _register(name: str, function: AutogradKernel) -> None:
    _LIBRARY.impl(name, function, "Autograd", with_keyset=True)


def _writing(node: Node, written: str) -> AutogradKernel:
    """An autograd kernel that raises if an argument requires a gradient, as torch does for `out=`."""
    instead = "under torch.no_grad() or without out" if written == "out" else "under torch.no_grad()"
    position = node.names.index(written)

    def refuse(*_: Any) -> NoReturn:
        raise RuntimeError(
            f"{node.public}: {written} does not support gradients, but an argument requires one; call it {instead}"
        )

    below = autograd_kernel(node, refuse, writes=True)

    def call(keyset: Any, *args: Any, **options: Any) -> Any:
        result = below(keyset, *args, **options)
        target = options.get(written) if written in options else args[position] if position < len(args) else None
        if target is not None and not target.is_inference():
            torch.autograd.graph.increment_version(target)
        return result

    return call
