"""Autograd kernels of the operators, which redispatch below autograd, or add a node to autograd's graph.

A node calls `_C._FunctionBase.apply` without its wrapper `torch.autograd.Function.apply`. The wrapper handles nested
transforms of torch.func, but torch calls an autograd kernel at one level only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import torch
from torch import _C, Tensor
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import Function, forward_ad
from torch.autograd.function import _SingleLevelFunction

from torch_conv.dispatch.operators import Arguments, Signature
from torch_conv.dispatch.tangents import REFUSAL, has_tangent

# formula(given, output, grad, wanted): the `wanted` gradients, by the arguments' names.
Formula = Callable[..., Arguments]
# kernel(keyset, *args, **options), without arguments that equal their defaults.
AutogradKernel = Callable[..., Any]
# function(keyset below autograd, args, options)
NodeFunction = Callable[[Any, tuple[Any, ...], Arguments], Any]
_BELOW = _C._after_autograd_keyset


class Node(Signature):
    """An operator's tensors, and its call below autograd. The name may be an overload's, conv2d.padding."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name, _, overload = name.partition(".")
        # Does the work of `OpOverload.redispatch` without a Python frame.
        self.redispatch = _C._dispatch_find_schema_or_throw(f"torch_conv::{self.name}", overload).redispatch_boxed
        self.tensors = [a.name for a in self.arguments if "Tensor" in str(a.type)]
        self.lists = [a.name for a in self.arguments if "List[Tensor]" in str(a.type)]
        self.public = self.name.removesuffix("_out").removesuffix("_states").removesuffix("_split")


def autograd_kernel(operator: Node, with_gradient: NodeFunction, writes: bool = False) -> AutogradKernel:
    """The kernel for the operator's autograd key. `writes`: the operator writes into an argument.

    It refuses tangents of forward-mode AD, which direct calls and scripts would drop silently.
    """
    below = operator.redispatch

    def call(keyset: Any, *args: Any, **options: Any) -> Any:
        if forward_ad._current_level >= 0 and has_tangent((args, options), wrapped=False):
            if not writes:  # the operator checks its arguments first
                with torch.no_grad():
                    below(keyset & _BELOW, *args, **options)
            name = f"conv{args[3]}d" if operator.name == "_conv_ours" else operator.public
            raise RuntimeError(f"{name}: {REFUSAL}")
        if _C.is_grad_enabled() and _C._any_requires_grad(*args, **options):
            return with_gradient(keyset & _BELOW, args, options)
        return below(keyset & _BELOW, *args, **options)

    return call


class ImageMetadata(NamedTuple):
    """Replaces an image whose values backward does not need."""

    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def dim(self) -> int:
        return len(self.shape)

    def stride(self) -> tuple[int, ...]:
        return self.strides


def tensor_of(image: Tensor | ImageMetadata) -> Tensor:
    """The image, or an uninitialised tensor like it."""
    if not isinstance(image, ImageMetadata):
        return image
    return torch.empty_strided(image.shape, image.strides, dtype=image.dtype, device=image.device)


def in_transform() -> bool:
    """Whether a transform of torch.func is active, or the older vmap of `is_grads_batched`."""
    return _C._are_functorch_transforms_active() or _C._dispatch_tls_is_dispatch_key_included("VmapMode")


def runs_eagerly(grad: Tensor) -> bool:
    """Whether a formula runs without second derivatives, transforms and traces."""
    is_observed = torch.is_grad_enabled() or type(grad) is not Tensor or _C._len_torch_dispatch_stack()
    return not (is_observed or in_transform())


class _ListItem(NamedTuple):
    """Names a tensor of an argument that is a list."""

    list: str
    position: int


def differentiable_node(operator: Node, formula: Formula, linear: bool, keeps_output: bool = False) -> NodeFunction:
    """The operator as a node of autograd's graph.

    Args:
        operator: the operator. The first argument of a `linear` one is its image.
        formula: its gradients.
        linear: linear in image and bias without an activation: only other gradients need the image's values.
        keeps_output: whether the formula needs the result.
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
                given["input"] = ImageMetadata(image.shape, image.stride(), image.dtype, image.device)
        if keeps_output:
            saved["output"] = result
        if several_results:
            ctx.set_materialize_grads(False)
        ctx.given, ctx.names, ctx.saved = given, names, list(saved)
        ctx.save_for_backward(*saved.values())

    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        names, given = ctx.names, ctx.given.copy()
        given.update(zip(ctx.saved, ctx.saved_tensors, strict=True))
        needs = ctx.needs_input_grad[_BEFORE:]
        wanted = {name for name, needed in zip(names, needs, strict=True) if needed}
        if lists:
            wanted = {name.list if isinstance(name, _ListItem) else name for name in wanted}
            items = [name for name in names if isinstance(name, _ListItem)]
            given |= {name: [given[item] for item in items if item.list == name] for name in lists}
        output, grad = given.pop("output", None), grads if several_results else grads[0]
        if _C._is_any_autocast_enabled():  # by the code around backward; the call itself casts its arguments
            with torch.autocast(given[operator.names[0]].device.type, enabled=False):
                gradients = formula(given, output, grad, wanted)
        else:
            gradients = formula(given, output, grad, wanted)
        if lists:
            gradients |= {_ListItem(name, i): t for name in lists for i, t in enumerate(gradients.get(name, ()))}
        found = (gradients.get(name) if needed else None for name, needed in zip(names, needs, strict=True))
        return (*_NO_GRADIENTS, *found)

    node = _node(operator, compute, save, backward)

    def call(keyset: Any, args: tuple[Any, ...], options: Arguments) -> Any:
        given: dict[Any, Any] = operator.bind(args, options)
        names: list[Any] = operator.tensors
        if lists:
            names = [name for name in names if name not in lists]
            for name in lists:
                items = {_ListItem(name, i): t for i, t in enumerate(given.pop(name))}
                given |= items
                names += items
        return node(given, names, keyset, args, options, *[given[name] for name in names])

    return call


_NO_GRADIENTS = (None,) * 5  # for the inputs of `forward` in front of the tensors
_BEFORE = len(_NO_GRADIENTS)


def refusing_node(operator: Node) -> NodeFunction:
    """The operator as a node whose backward raises."""

    def compute(keyset: Any, args: Any, options: Any, *_: Any) -> Any:
        result = _compute(operator, keyset, args, options)
        return tuple(result) if isinstance(result, list) else result

    def backward(ctx: Any, *grads: Tensor | None) -> NoReturn:
        raise RuntimeError(
            f"{operator.name}: backward is not implemented yet; call it under torch.no_grad() or on detached tensors"
        )

    node = _node(operator, compute, lambda *_: None, backward)

    def call(keyset: Any, args: tuple[Any, ...], options: Arguments) -> Any:
        tensors = [t for part in args for t in (part if isinstance(part, (list, tuple)) else [part])]
        result = node(keyset, args, options, *tensors)
        return list(result) if isinstance(result, tuple) else result

    return call


def _node(
    operator: Node, compute: Callable[..., Any], save: Callable[..., None], backward: Callable[..., Any]
) -> Callable[..., Any]:
    """A function of autograd's graph; `save(ctx, inputs, result)` saves tensors for backward.

    Transforms of torch.func need `forward` and `save` as two methods, which takes 2 us more than one.
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
    apply_with_two_methods = function(_SingleLevelFunction, forward=compute, setup_context=save)

    def at_one_level(*inputs: Any) -> Any:
        if not _C._are_functorch_transforms_active():
            return apply(*inputs)
        with enable_single_level_autograd_function():
            return apply_with_two_methods(*inputs)

    return at_one_level


def _compute(operator: Node, keyset: Any, args: tuple[Any, ...], options: Arguments) -> Any:
    """Runs a node's operator. Torch disables gradients in `forward`; outer transforms need them enabled."""
    if not _C._are_functorch_transforms_active():
        return operator.redispatch(keyset, *args, **options)
    with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
        return operator.redispatch(keyset, *args, **options)
