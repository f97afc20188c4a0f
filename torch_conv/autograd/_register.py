"""What torch asks for a derivative of an operator: a formula for backward, a refusal of tangents and of `out`.

An autograd kernel in Python costs a direct operator call 4 us of host time (a shared 2-core AMD EPYC, 3x3 on 8x8: 5.4
-> 9.6 us; by `torch.library.register_autograd` 12), also where nothing requires a gradient; the functions of
torch_conv.functional skip the autograd keys then (8.1 us in all), see functional/_calls.py. Where one is required, the
forward takes 20 us more (by `register_autograd` 80). `_conv` has none: functional/_eager.py alone calls it, where no
gradient is wanted.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, NoReturn

import torch

from torch_conv.autograd._node import Formula, Kernel, Node, differentiated, kernel, refused
from torch_conv.autograd._weights import weight_gradient_or_torch
from torch_conv.dispatch.operators import OPERATORS, Operator, split_name

_LIBRARY = torch.library.Library("torch_conv", "IMPL")


def register() -> None:
    """Called once, by the package."""
    for name, operator in OPERATORS.items():
        node = Node(name)
        if operator.gradient:
            differentiable = differentiated(node, _formula(operator), operator.linear, operator.keeps_output)
            _register(name, kernel(node, differentiable))
        elif operator.writes:
            _register(name, _writing(node, operator.writes))
        else:
            _register(name, kernel(node, refused(node)))
        if operator.has_out:
            _register(f"{name}_out", _writing(Node(f"{name}_out"), "out"))
        if operator.has_split:
            node = Node(split_name(name))
            _register(split_name(name), kernel(node, refused(node)))
    _LIBRARY.impl("_weight_gradient_or_torch", weight_gradient_or_torch, "CompositeExplicitAutograd")


def _formula(operator: Operator) -> Formula:
    module, _, function = operator.gradient.partition(".")
    return partial(getattr(import_module(f"torch_conv.autograd.{module}"), function), operator.axes)


def _register(name: str, function: Kernel) -> None:
    _LIBRARY.impl(name, function, "Autograd", with_keyset=True)


def _writing(node: Node, written: str) -> Kernel:
    """Refuses what torch refuses of any `out=`: a result that would need a gradient."""
    instead = "under torch.no_grad() or without out" if written == "out" else "under torch.no_grad()"
    place = node.names.index(written)

    def refuse(*_: Any) -> NoReturn:
        raise RuntimeError(
            f"{node.public}: {written} does not support gradients, but an argument requires one; call it {instead}"
        )

    unwatched = kernel(node, refuse, writes=True)

    def call(keyset: Any, *args: Any, **options: Any) -> Any:
        result = unwatched(keyset, *args, **options)
        target = options.get(written) if written in options else args[place] if place < len(args) else None
        if target is not None and not target.is_inference():
            torch.autograd.graph.increment_version(target)
        return result

    return call
