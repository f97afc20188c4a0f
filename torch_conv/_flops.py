"""What torch.utils.flop_counter counts of the operators: two operations for every tap of every output.

Convolutions count as F.convNd does. A separable window has the taps of its one-dimensional windows, and a box those of
one; a derivative has those of its window. Steps without a window count nothing, as in torch.
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

Shape = Sequence[int]
Formula = Callable[..., int]
_COUNTER = "torch.utils.flop_counter"


class _Registration:
    """Registers the formulas once torch's counter is imported, which takes 0.2 s where triton is installed."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        """Part of `sys.meta_path`: torch's own module, and then the formulas."""
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
    """Called once, by the package."""
    counter = sys.modules.get(_COUNTER)
    if counter is not None:
        _add(counter)
    else:
        sys.meta_path.insert(0, _Registration())


def _add(counter: ModuleType) -> None:
    for name, formula in formulas().items():
        counter.register_flop_formula(getattr(torch.ops.torch_conv, name))(formula)
    counter.register_flop_formula(torch.ops.torch_conv._weight_gradient_by_anyone)(_weights_like(counter))


def formulas() -> dict[str, Formula]:
    """A formula for each operator, by its name. A formula takes shapes where the operator takes tensors."""
    convolutions: dict[str, Formula] = {f"conv{axes}d": _convolution for axes in (1, 2, 3)}
    filters: dict[str, Formula] = {
        "filter2d": _window(2),
        "filter3d": _window(3),
        "filter2d_separable": _rows,
        "filter3d_separable": _rows,
        "box2d": _box,
        "box3d": _box,
        "gradient2d": _gradient,
        "sobel2d": _with_derivatives(lambda *_, **__: 0, 2 * 9),
        "gaussian_sobel2d": _with_derivatives(_rows, 2 * 9),
        "thin_edges2d": _with_derivatives(_rows, 2 * 9),
        "structure_tensor2d": _with_derivatives(_rows, 2 * 3),  # both derivatives for every three results
        "gaussian_gradient3d": _with_derivatives(_rows, 3 * 3),
        "unsharp_mask2d": _rows,
        "separable_sum2d": _sum_of_rows,
    }
    found = {**convolutions, **filters, "_conv_ours": _convolution}
    found |= {f"{name}_out": _into_out(formula) for name, formula in filters.items()}
    found |= {f"{name}_split": _on_shards(formula) for name, formula in {**convolutions, **filters}.items()}
    found |= {f"ladder{axes}d": _window(axes) for axes in (1, 2, 3)}
    found |= dict.fromkeys(("causal_conv1d", "causal_conv1d_states", "causal_conv1d_states_out"), _sequence)
    return found | {"causal_conv1d_update": _update}


def _convolution(input: Shape, weight: Shape, *_: Any, out_shape: Shape, **__: Any) -> int:
    return 2 * prod(out_shape) * prod(weight[1:])


def _weights_like(counter: ModuleType) -> Formula:
    """torch's count of the same gradient, which leaves groups out: a model counts the same before and after."""

    def weights(input: Shape, grad: Shape, kernel_size: Shape, *_: Any, **__: Any) -> int:
        weight, none = [grad[1], 1, *kernel_size], None
        mask, results = [False, True, True], [none, weight, [grad[1]]]
        given = (grad, input, weight, none, none, none, none, False, none, none, mask)
        return int(counter.conv_backward_flop.__wrapped__(*given, out_shape=results))

    return weights


def _window(axes: int) -> Formula:
    def window(input: Shape, kernel: Shape, *_: Any, out_shape: Shape, **__: Any) -> int:
        return 2 * prod(out_shape) * prod(kernel[-axes:])

    return window


def _rows(input: Shape, *windows: Any, out_shape: Shape, **named: Any) -> int:
    shapes = [*windows, *(value for name, value in named.items() if name.startswith("kernel_"))]
    return 2 * prod(out_shape) * sum(shape[-1] for shape in shapes if isinstance(shape, torch.Size))


def _box(input: Shape, kernel_size: Shape, *_: Any, out_shape: Shape, **__: Any) -> int:
    return 2 * prod(out_shape) * sum(kernel_size)


def _sum_of_rows(
    input: Shape, kernels_x: Sequence[Shape], kernels_y: Sequence[Shape], *_: Any, out_shape: Shape, **__: Any
) -> int:
    return 2 * prod(out_shape) * sum(shape[-1] for shape in (*kernels_x, *kernels_y))


def _gradient(
    input: Shape, mode: str = "sobel", order: int = 1, *_: Any, out_shape: Shape, derivative: str = "", **__: Any
) -> int:
    taps = 3 if (derivative or mode) == "diff" else 9 if order == 1 else 25
    return 2 * prod(out_shape) * taps


def _with_derivatives(smooth: Formula, taps: int) -> Formula:
    """`taps` of all derivatives together, for every result."""

    def count(*args: Any, out_shape: Shape, **given: Any) -> int:
        return smooth(*args, out_shape=out_shape, **given) + 2 * prod(out_shape) * taps

    return count


def _sequence(x: Shape, weight: Shape, *_: Any, **__: Any) -> int:
    return 2 * prod(x) * weight[-1]


def _update(x: Shape, conv_state: Shape, weight: Shape, *_: Any, **__: Any) -> int:
    return 2 * prod(x) * weight[-1]


def _into_out(formula: Formula) -> Formula:
    def count(*args: Any, out: Shape, out_shape: None, **given: Any) -> int:
        return formula(*args, out_shape=out, **given)

    return count


def _on_shards(formula: Formula) -> Formula:
    def count(shards: Sequence[Shape], *args: Any, out_shape: Sequence[Shape], **given: Any) -> int:
        return sum(formula(None, *args, out_shape=one, **given) for one in out_shape)

    return count
