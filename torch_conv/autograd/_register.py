"""What torch asks for a derivative of an operator: a formula for backward, a refusal of tangents and of `out`.

An autograd kernel in Python costs a direct operator call 4 us of host time (a shared 2-core AMD EPYC, 3x3 on 8x8: 5.4
-> 9.6 us; by `torch.library.register_autograd` 12), also where nothing requires a gradient; the functions of
torch_conv.functional skip the autograd keys then (8.1 us in all), see functional/_calls.py. Where one is required, the
forward takes 20 us more (by `register_autograd` 80). `_conv` has none: functional/_eager.py alone calls it, where no
gradient is wanted.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

import torch

from torch_conv.autograd._convolutions import conv_gradients, numbers_gradients
from torch_conv.autograd._filters import box_gradients, filter_gradients, separable_gradients
from torch_conv.autograd._node import Formula, Kernel, Operator, differentiated, kernel, refused
from torch_conv.autograd._pipelines import GRADIENTS
from torch_conv.autograd._sequences import causal_gradients
from torch_conv.autograd._weights import by_anyone
from torch_conv.fake_split import split_name

_FORMULAS: dict[str, Formula] = {
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
# Those that keep what they make of the image, or are not linear in it.
_OF_VALUES = {"sobel2d", "gaussian_sobel2d", "structure_tensor2d", "thin_edges2d", "gaussian_gradient3d"}
_OF_VALUES |= {"causal_conv1d", "causal_conv1d_states"}
_OF_OUTPUT = {"thin_edges2d"}
_WITH_OUT = [name for name in _FORMULAS if name.endswith(("2d", "3d", "_separable")) and not name.startswith("conv")]
_INTO_OUT = [f"{name}_out" for name in _WITH_OUT]
_REFUSED = [*map(split_name, [*_WITH_OUT, *(n for n in _FORMULAS if n.startswith("conv"))])]
_REFUSED += ["ladder1d", "ladder2d", "ladder3d", "_weight_gradient", "_weight_gradient_by_anyone"]
_IN_PLACE = {"causal_conv1d_states_out": "final_states_out", "causal_conv1d_update": "conv_state"}

_LIBRARY = torch.library.Library("torch_conv", "IMPL")


def register() -> None:
    """Called once, by the package."""
    for name, formula in _FORMULAS.items():
        operator = Operator(name)
        route = differentiated(operator, formula, linear=name not in _OF_VALUES, of_output=name in _OF_OUTPUT)
        _register(name, kernel(operator, route))
    for name in _REFUSED:
        operator = Operator(name)
        _register(name, kernel(operator, refused(operator)))
    for name, written in {**dict.fromkeys(_INTO_OUT, "out"), **_IN_PLACE}.items():
        _register(name, _writing(Operator(name), written))
    _LIBRARY.impl("_weight_gradient_by_anyone", by_anyone, "CompositeExplicitAutograd")


def _register(name: str, function: Kernel) -> None:
    _LIBRARY.impl(name, function, "Autograd", with_keyset=True)


def _writing(operator: Operator, written: str) -> Kernel:
    """Refuses what torch refuses of any `out=`: a result that would need a gradient."""
    instead = "under torch.no_grad() or without out" if written == "out" else "under torch.no_grad()"
    place = operator.names.index(written)

    def refuse(*_: Any) -> NoReturn:
        raise RuntimeError(
            f"{operator.public}: {written} does not support gradients, but an argument requires one; call it {instead}"
        )

    unwatched = kernel(operator, refuse, writes=True)

    def call(keyset: Any, *args: Any, **options: Any) -> Any:
        result = unwatched(keyset, *args, **options)
        target = options.get(written) if written in options else args[place] if place < len(args) else None
        if target is not None and not target.is_inference():
            torch.autograd.graph.increment_version(target)
        return result

    return call
