"""What torch asks for a derivative of an operator: a formula for backward, a refusal of tangents and of `out`.

`register_autograd` costs a direct operator call 6 us of host time (a shared 2-core AMD EPYC, 3x3 on 8x8: 5.4 -> 11.3
us), also where nothing requires a gradient; the functions of torch_conv.functional skip the autograd keys then (7.2 us
in all), see functional/_calls.py. `_conv` has no formula: functional/_eager.py alone calls it, where no gradient is
wanted. A direct call learns in 0.2 us that no tangent is given.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, NoReturn

import torch
from torch import _C, Tensor
from torch.autograd import forward_ad

from torch_conv._tangents import REFUSAL, has_tangent
from torch_conv.autograd._convolutions import conv_gradients, numbers_gradients
from torch_conv.autograd._filters import box_gradients, filter_gradients, separable_gradients
from torch_conv.autograd._pipelines import GRADIENTS
from torch_conv.autograd._sequences import causal_gradients
from torch_conv.fake_split import split_name

# formula(given, output, grad, wanted): the gradients of what is wanted, by the arguments' names.
_Formula = Callable[..., dict[str, Any]]
_FORMULAS: dict[str, _Formula] = {
    "filter2d": partial(filter_gradients, 2),
    "filter2d_separable": partial(separable_gradients, 2),
    "box2d": partial(box_gradients, 2),
    "filter3d": partial(filter_gradients, 3),
    "filter3d_separable": partial(separable_gradients, 3),
    "box3d": partial(box_gradients, 3),
    **GRADIENTS,
    **{f"conv{axes}d{form}": partial(conv_gradients, axes) for axes in (1, 2, 3) for form in ("", ".padding")},
    "causal_conv1d": causal_gradients,
    "causal_conv1d_states": causal_gradients,
    "_conv_ours": numbers_gradients,
}
# Those that are not linear in the image, or keep what they made of it: the others need its values for windows alone.
_OF_VALUES = {"sobel2d", "gaussian_sobel2d", "structure_tensor2d", "thin_edges2d", "gaussian_gradient3d"}
_OF_OUTPUT = {"thin_edges2d"}
_WITH_OUT = [name for name in _FORMULAS if name.endswith(("2d", "3d", "_separable")) and not name.startswith("conv")]
_INTO_OUT = [f"{name}_out" for name in _WITH_OUT]
_REFUSED = [*map(split_name, [*_WITH_OUT, *(n for n in _FORMULAS if n.startswith("conv"))]), "ladder2d", "ladder3d"]
_IN_PLACE = {"causal_conv1d_states_out": "final_states_out", "causal_conv1d_update": "conv_state"}


def register() -> None:
    """Called once, by the package."""
    for name, formula in _FORMULAS.items():
        setup, backward = _differentiated(name, formula)
        torch.library.register_autograd(f"torch_conv::{name}", backward, setup_context=setup, lib=_LIBRARY)
    for name in _REFUSED:
        torch.library.register_autograd(f"torch_conv::{name}", _refuse(name.split(".")[0]), lib=_LIBRARY)
    for name in _INTO_OUT:
        _LIBRARY.impl(name, _without_gradients(name), "Autograd", with_keyset=True)
    for name, written in _IN_PLACE.items():
        _LIBRARY.impl(name, _without_gradients(name, written), "Autograd", with_keyset=True)


class _Saved(NamedTuple):
    """Stands for a tensor that backward is given by torch."""

    place: int


class _Shape(NamedTuple):
    """Stands for an image whose values backward does not need."""

    sizes: torch.Size
    dtype: torch.dtype
    device: torch.device


def _differentiated(name: str, formula: _Formula) -> tuple[Callable[..., None], Callable[..., Any]]:
    """setup_context and backward of an operator."""
    packet, _, overload = name.partition(".")
    schema = getattr(getattr(torch.ops.torch_conv, packet), overload or "default")._schema
    names = [argument.name for argument in schema.arguments if not argument.kwarg_only]

    def setup(
        ctx: Any, inputs: tuple[Any, ...], output: Any, keyword_only_inputs: dict[str, Any] | None = None
    ) -> None:
        given = dict(zip(names, inputs, strict=True)) | (keyword_only_inputs or {})
        others = [v for key, v in given.items() if key != "input"]
        of_values = packet in _OF_VALUES or given.get("activation") is not None or _C._any_requires_grad(*others)
        saved: list[Tensor] = []

        def kept(value: Any) -> Any:
            if isinstance(value, Tensor):
                saved.append(value)
                return _Saved(len(saved) - 1)
            plain = isinstance(value, _Shape) or not isinstance(value, (list, tuple))
            return value if plain else [kept(v) for v in value]

        if "input" in given and not of_values:
            image = given["input"]
            given["input"] = _Shape(image.shape, image.dtype, image.device)
        ctx.given = {key: kept(value) for key, value in given.items()}
        ctx.output = kept(output) if packet in _OF_OUTPUT else None
        ctx.save_for_backward(*saved)

    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors

        def found(value: Any) -> Any:
            if isinstance(value, _Saved):
                return tensors[value.place]
            if isinstance(value, _Shape):
                return torch.zeros((), dtype=value.dtype, device=value.device).expand(value.sizes)
            return [found(v) for v in value] if isinstance(value, list) else value

        given = {key: found(value) for key, value in ctx.given.items()}
        asked = ctx.needs_input_grad  # of the arguments up to the last that is no default
        wanted = {key for key, needed in zip(names, asked, strict=False) if _any(needed)}
        grad: Any = grads if packet.startswith("causal") else grads[0]
        if _C._is_any_autocast_enabled():  # of the code around backward, not of the call
            with torch.autocast(tensors[0].device.type, enabled=False):
                gradients = formula(given, found(ctx.output), grad, wanted)
        else:
            gradients = formula(given, found(ctx.output), grad, wanted)
        return tuple(
            gradients.get(key, [None] * len(given[key]) if isinstance(needed, (list, tuple)) else None)
            for key, needed in zip(names, asked, strict=False)
        )

    return setup, backward


def _any(needed: Any) -> bool:
    return any(map(_any, needed)) if isinstance(needed, (list, tuple)) else bool(needed)


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
