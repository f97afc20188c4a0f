"""The autograd kernels of our operators: straight below autograd where no gradient is wanted, else a node of the graph.

The node goes to autograd by `_C._FunctionBase.apply`, which `torch.autograd.Function.apply` wraps: torch calls a kernel
at one level of torch.func's transforms, those of its own operators too, and there is nothing else to look after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import torch
from torch import _C, Tensor
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import Function, forward_ad
from torch.autograd.function import _SingleLevelFunction

from torch_conv._tangents import REFUSAL, has_tangent
from torch_conv.dispatch.operators import Signature

# formula(given, output, grad, wanted): the gradients of what is wanted, by the arguments' names.
Formula = Callable[..., dict[str, Any]]
# What dispatch calls with its keys, then the arguments without those that equal their defaults.
Kernel = Callable[..., Any]
# The same of the keys below autograd.
Route = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
_BELOW = _C._after_autograd_keyset


class Node(Signature):
    """An operator as autograd sees it."""

    def __init__(self, name: str) -> None:
        """`name` may be an overload's, conv2d.padding."""
        super().__init__(name)
        self.name, _, overload = name.partition(".")
        # `OpOverload.redispatch` without its frame of Python.
        self.redispatch = _C._dispatch_find_schema_or_throw(f"torch_conv::{self.name}", overload).redispatch_boxed
        self.tensors = [a.name for a in self.arguments if "Tensor" in str(a.type)]
        self.lists = [a.name for a in self.arguments if "List[Tensor]" in str(a.type)]
        self.public = self.name.removesuffix("_out").removesuffix("_states").removesuffix("_split")


def kernel(operator: Node, with_gradient: Route, writes: bool = False) -> Kernel:
    """What dispatch finds under the operator's autograd key. `writes`: it writes into an argument.

    Tangents of forward-mode AD are refused, or they would be lost without a word: by direct calls, and where a script
    holds the operator.
    """
    below = operator.redispatch

    def call(keyset: Any, *args: Any, **options: Any) -> Any:
        if forward_ad._current_level >= 0 and has_tangent((args, options), wrapped=False):
            if not writes:  # what is wrong with the call comes first
                with torch.no_grad():
                    below(keyset & _BELOW, *args, **options)
            name = f"conv{args[3]}d" if operator.name == "_conv_ours" else operator.public
            raise RuntimeError(f"{name}: {REFUSAL}")
        if _C.is_grad_enabled() and _C._any_requires_grad(*args, **options):
            return with_gradient(keyset & _BELOW, args, options)
        return below(keyset & _BELOW, *args, **options)

    return call


class Shape(NamedTuple):
    """Stands for an image whose values backward does not need."""

    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def dim(self) -> int:
        return len(self.shape)

    def stride(self) -> tuple[int, ...]:
        return self.strides


def tensor_of(image: Tensor | Shape) -> Tensor:
    """The image; with any values if backward does not need them."""
    if not isinstance(image, Shape):
        return image
    return torch.empty_strided(image.shape, image.strides, dtype=image.dtype, device=image.device)


def in_transform() -> bool:
    """Whether torch.func is at work, or the older vmap of `is_grads_batched`, whose tensors do not show it."""
    return _C._are_functorch_transforms_active() or _C._dispatch_tls_is_dispatch_key_included("VmapMode")


def runs_eagerly(grad: Tensor) -> bool:
    """Whether nobody looks on while a formula runs: no second derivative, transform or trace."""
    looked_on = torch.is_grad_enabled() or type(grad) is not Tensor or _C._len_torch_dispatch_stack()
    return not (looked_on or in_transform())


class _Part(NamedTuple):
    """Names a tensor of an argument that is a list."""

    list: str
    place: int


def differentiated(operator: Node, formula: Formula, linear: bool, of_output: bool = False) -> Route:
    """The operator as a node of the graph.

    Args:
        operator: the operator; if it is `linear`, its first argument is its image.
        formula: its gradients.
        linear: in image and bias, if without an activation: the image's values are needed for other gradients alone.
        of_output: whether the formula needs the result.
    """
    lists, several_results = operator.lists, operator.public == "causal_conv1d"

    def compute(given: dict[Any, Any], names: list[Any], keyset: Any, args: Any, options: Any, *_: Any) -> Any:
        return _compute(operator, keyset, args, options)

    def save(ctx: Any, inputs: tuple[Any, ...], result: Any) -> None:
        given, names = inputs[:2]
        saved = {name: given.pop(name) for name in names}
        if linear and given.get("activation") is None:
            saved.pop("bias", None)
            if True not in ctx.needs_input_grad[_BEFORE + 1 :]:
                image = saved.pop("input")
                given["input"] = Shape(image.shape, image.stride(), image.dtype, image.device)
        if of_output:
            saved["output"] = result
        if several_results:
            ctx.set_materialize_grads(False)
        ctx.given, ctx.names, ctx.saved = given, names, list(saved)
        ctx.save_for_backward(*saved.values())

    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        names, given = ctx.names, ctx.given.copy()
        given.update(zip(ctx.saved, ctx.saved_tensors, strict=True))
        asked = ctx.needs_input_grad[_BEFORE:]
        wanted = {name for name, needed in zip(names, asked, strict=True) if needed}
        if lists:
            wanted = {name.list if isinstance(name, _Part) else name for name in wanted}
            given |= {
                name: [given[part] for part in names if isinstance(part, _Part) and part.list == name] for name in lists
            }
        output, grad = given.pop("output", None), grads if several_results else grads[0]
        if _C._is_any_autocast_enabled():  # of the code around backward, not of the call
            with torch.autocast(given[operator.names[0]].device.type, enabled=False):
                found = formula(given, output, grad, wanted)
        else:
            found = formula(given, output, grad, wanted)
        if lists:
            found |= {_Part(name, i): t for name in lists for i, t in enumerate(found.get(name, ()))}
        return (
            *_NO_GRADIENTS,
            *(found.get(name) if needed else None for name, needed in zip(names, asked, strict=True)),
        )

    node = _node(operator, compute, save, backward)

    def route(keyset: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        given: dict[Any, Any] = operator.given(args, options)
        names: list[Any] = operator.tensors
        if lists:
            names = [name for name in names if name not in lists]
            for name in lists:
                parts = {_Part(name, i): t for i, t in enumerate(given.pop(name))}
                given |= parts
                names += parts
        return node(given, names, keyset, args, options, *[given[name] for name in names])

    return route


_NO_GRADIENTS = (None,) * 5  # of what `forward` takes before the tensors
_BEFORE = len(_NO_GRADIENTS)


def refused(operator: Node) -> Route:
    """The operator as a node that backward does not pass."""

    def compute(keyset: Any, args: Any, options: Any, *_: Any) -> Any:
        result = _compute(operator, keyset, args, options)
        return tuple(result) if isinstance(result, list) else result

    def backward(ctx: Any, *grads: Tensor | None) -> NoReturn:
        raise RuntimeError(
            f"{operator.name}: backward is not implemented yet; call it under torch.no_grad() or on detached tensors"
        )

    def save(*_: Any) -> None:
        pass

    node = _node(operator, compute, save, backward)

    def route(keyset: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        tensors = [t for part in args for t in (part if isinstance(part, (list, tuple)) else [part])]
        result = node(keyset, args, options, *tensors)
        return list(result) if isinstance(result, tuple) else result

    return route


def _node(
    operator: Node, compute: Callable[..., Any], save: Callable[..., None], backward: Callable[..., Any]
) -> Callable[..., Any]:
    """A function of torch's graph; `save(ctx, inputs, result)` keeps what backward needs.

    torch.func asks for forward and save apart (2.15 refuses what has them in one), which costs all others 2 us more.
    """

    def forward(ctx: Any, *inputs: Any) -> Any:
        result = compute(*inputs)
        save(ctx, inputs, result)
        return result

    def function(base: Any, **methods: Callable[..., Any]) -> Callable[..., Any]:
        methods["backward"] = backward
        kind = type(operator.name, (base,), {name: staticmethod(method) for name, method in methods.items()})
        return super(Function, kind).apply if base is Function else kind.apply  # type: ignore

    apply = function(Function, forward=forward)
    apply_apart = function(_SingleLevelFunction, forward=compute, setup_context=save)

    def at_one_level(*inputs: Any) -> Any:
        if not _C._are_functorch_transforms_active():
            return apply(*inputs)
        with enable_single_level_autograd_function():
            return apply_apart(*inputs)

    return at_one_level


def _compute(operator: Node, keyset: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What a node's `forward` does, for which torch turns gradients off: at this level, not at those around it."""
    if not _C._are_functorch_transforms_active():
        return operator.redispatch(keyset, *args, **options)
    with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
        return operator.redispatch(keyset, *args, **options)
