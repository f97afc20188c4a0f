"""Derivatives of the operators: not there yet, so a backward and a tangent are refused, by the operator's name.

Without a formula of its own an operator would silently give no gradient. `register_autograd` costs a direct operator
call 6 us of host time (a shared 2-core AMD EPYC, 3x3 on 8x8: 5.4 -> 11.3 us), also where nothing requires a gradient;
the functions of torch_conv.functional skip the autograd keys then (7.2 us in all), see functional/_calls.py. `_conv`
has no formula: functional/_eager.py alone calls it, where no gradient is wanted. A direct call learns in 0.2 us that no
tangent is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import _C, Tensor
from torch.autograd import forward_ad

from torch_conv._tangents import REFUSAL, has_tangent
from torch_conv.fake_split import split_name

_DIFFERENTIABLE = [
    "filter2d",
    "filter2d_separable",
    "box2d",
    "filter3d",
    "filter3d_separable",
    "box3d",
    "gradient2d",
    "sobel2d",
    "gaussian_sobel2d",
    "separable_sum2d",
    "unsharp_mask2d",
    "structure_tensor2d",
    "thin_edges2d",
    "gaussian_gradient3d",
    *(f"conv{axes}d{overload}" for axes in (1, 2, 3) for overload in ("", ".padding")),
]
_INTO_OUT = [f"{name}_out" for name in _DIFFERENTIABLE if not name.startswith("conv")]
_WITHOUT_SHARDS = ["ladder2d", "ladder3d", "causal_conv1d", "causal_conv1d_states"]
_IN_PLACE = {"causal_conv1d_states_out": "final_states_out", "causal_conv1d_update": "conv_state"}


def register() -> None:
    """Called once, by the package."""
    for name in [*_DIFFERENTIABLE, *map(split_name, _DIFFERENTIABLE), *_WITHOUT_SHARDS]:
        torch.library.register_autograd(
            f"torch_conv::{name}", _refuse(name.split(".")[0].removesuffix("_states")), lib=_LIBRARY
        )
    torch.library.register_autograd("torch_conv::_conv_ours", _refuse_of_axes, setup_context=_keep_axes, lib=_LIBRARY)
    for name in _INTO_OUT:
        _LIBRARY.impl(name, _without_gradients(name), "Autograd", with_keyset=True)
    for name, written in _IN_PLACE.items():
        _LIBRARY.impl(name, _without_gradients(name, written), "Autograd", with_keyset=True)


class _WithoutTangents(torch.library.Library):
    """Puts before every kernel, torch's own of `register_autograd` too, what refuses the tangents of forward-mode AD.

    They would be lost without a word: by direct calls, and where a script holds the operator.
    """

    def impl(self, op_name: str, fn: Any, *args: Any, **kwargs: Any) -> None:
        operator = str(op_name).split("::")[-1].split(".")[0]
        public = operator.removesuffix("_out").removesuffix("_states").removesuffix("_split")
        writes = operator in _INTO_OUT or operator in _IN_PLACE

        def kernel(keyset: Any, *inputs: Any, **options: Any) -> Any:
            if forward_ad._current_level >= 0 and has_tangent((inputs, options), wrapped=False):
                if not writes:  # what is wrong with the call comes first
                    with torch.no_grad():
                        fn(keyset, *inputs, **options)
                name = f"conv{inputs[3]}d" if public == "_conv_ours" else public
                raise RuntimeError(f"{name}: {REFUSAL}")
            return fn(keyset, *inputs, **options)

        super().impl(op_name, kernel, *args, **kwargs)


_LIBRARY = _WithoutTangents("torch_conv", "IMPL")


def _refuse(name: str) -> Callable[..., NoReturn]:
    def backward(ctx: Any, *grads: Tensor | None) -> NoReturn:
        raise RuntimeError(
            f"{name}: backward is not implemented yet; call it under torch.no_grad() or on detached tensors"
        )

    return backward


def _keep_axes(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.axes = inputs[3]


def _refuse_of_axes(ctx: Any, *grads: Tensor | None) -> NoReturn:
    _refuse(f"conv{ctx.axes}d")(ctx, *grads)


def _without_gradients(name: str, written: str = "out") -> Callable[..., Any]:
    """Refuses what torch refuses of any `out=`: a result that would need a gradient."""
    instead = "under torch.no_grad() or without out" if written == "out" else "under torch.no_grad()"
    op = getattr(torch.ops.torch_conv, name).default
    place = [argument.name for argument in op._schema.arguments].index(written)

    def call(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if _C.is_grad_enabled() and _C._any_requires_grad(*args, **kwargs):
            raise RuntimeError(
                f"{name.removesuffix('_out').removesuffix('_states')}: {written} does not support gradients, "
                f"but an argument requires one; call it {instead}"
            )
        with _C._AutoDispatchBelowAutograd():
            result = op.redispatch(keyset & _C._after_autograd_keyset, *args, **kwargs)
        target = kwargs.get(written) if written in kwargs else args[place] if place < len(args) else None
        if target is not None and not target.is_inference():
            torch.autograd.graph.increment_version(target)
        return result

    return call
