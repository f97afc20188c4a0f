"""Flop formulas for torch.utils.flop_counter: two operations for each tap of each output.

Convolutions count as F.convNd does. A separable kernel has the taps of its one-dimensional kernels. A box counts as a
separable kernel, and a derivative as its stencil. Pointwise operations count nothing, as in torch.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from math import prod
from types import ModuleType
from typing import Any

import torch

from torch_conv.dispatch.operators import OPERATORS, Arguments, Operator, Signature, split_name

Shape = Sequence[int]
Formula = Callable[..., int]
_COUNTER = "torch.utils.flop_counter"


class _Registration:
    """Registers the formulas once torch's counter is imported, which takes 0.2 s where triton is installed."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        """Finds torch's module for `sys.meta_path`, and registers the formulas after its import."""
        if name != _COUNTER:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                with contextlib.suppress(ValueError):  # another thread was first
                    sys.meta_path.remove(self)
                run(module)
                _add(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def register() -> None:
    """Registers the formulas. The package calls this function once."""
    counter = sys.modules.get(_COUNTER)
    if counter is not None:
        _add(counter)
    else:
        sys.meta_path.insert(0, _Registration())


def _add(counter: ModuleType) -> None:
    for name, formula in formulas().items():
        counter.register_flop_formula(getattr(torch.ops.torch_conv, name))(formula)
    counter.register_flop_formula(torch.ops.torch_conv._weight_gradient_or_torch)(_weights_like(counter))


def formulas() -> dict[str, Formula]:
    """A formula for each operator that computes. It takes shapes in place of tensors."""
    found = {}
    for name, operator in OPERATORS.items():
        if operator.kind == "gradient" or "." in name:  # one formula serves all overloads
            continue
        found[name] = _formula(operator, name, lambda _, shape: [shape])
        if operator.has_out:
            found[f"{name}_out"] = _formula(operator, f"{name}_out", lambda given, _: [given["out"]])
        if operator.has_split:
            found[split_name(name)] = _formula(operator, split_name(name), lambda _, shapes: shapes)
    return found


def _count(operator: Operator, given: Arguments, results: Shape) -> int:
    if operator.kind == "sequence":
        return 2 * prod(given["x"]) * given["weight"][-1]
    if operator.kind == "convolution":
        return 2 * prod(results) * prod(given["weight"][1:])
    taps = operator.taps(given)
    for name, axes in operator.kernels.items():
        shapes = [given[name]] if isinstance(given[name], torch.Size) else given[name]
        taps += sum(prod(shape[-axes:]) for shape in shapes)
    return 2 * prod(results) * taps


def _formula(operator: Operator, name: str, results_of: Callable[[Arguments, Any], Sequence[Shape]]) -> Formula:
    """The formula of an operator's form of this name; `results_of(arguments, out_shape)` are its results' shapes."""
    signature = Signature(name)

    def count(*args: Any, out_shape: Any, out_val: Any = None, **options: Any) -> int:
        given = signature.bind(args, options)
        return sum(_count(operator, given, results) for results in results_of(given, out_shape))

    return count


def _weights_like(counter: ModuleType) -> Formula:
    """Torch's count of the same gradient, which ignores groups, so that models keep their counts."""

    def weights(input: Shape, grad: Shape, kernel_size: Shape, *_: Any, **__: Any) -> int:
        weight, none = [grad[1], 1, *kernel_size], None
        mask, results = [False, True, True], [none, weight, [grad[1]]]
        given = (grad, input, weight, none, none, none, none, False, none, none, mask)
        return int(counter.conv_backward_flop.__wrapped__(*given, out_shape=results))

    return weights
