"""Public functions: keyword-only arguments, errors with the function's name, no autograd where none is wanted."""
# ruff: noqa: UP045

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable
from operator import index
from types import FunctionType
from typing import Any, Concatenate, Optional, ParamSpec, Protocol, TypeVar, cast

import torch
from torch import _C, Tensor
from torch.fx._symbolic_trace import is_fx_symbolic_tracing
from torch.utils._pytree import tree_leaves

from torch_conv.dispatch.failures import is_machine_failure
from torch_conv.dispatch.numbers import refuse_fraction, refuse_gradients, takes_integers, takes_tensor
from torch_conv.dispatch.tangents import REFUSAL, has_tangent, in_forward_mode
from torch_conv.functional._channels_last import look, looks_of
from torch_conv.functional._exporting import leaves_out_dtypes, without_dtype
from torch_conv.functional._refusals import bare_name, refusal_of, wrong_type
from torch_conv.functional._scripting import compiled_by_torchscript
from torch_conv.functional._tv_tensors import is_picture, of_picture
from torch_conv.functional._types import shown
from torch_conv.sharding.calls import of_ready_shards
from torch_conv.split import SplitTensor

Image = TypeVar("Image", Tensor, SplitTensor, Tensor | SplitTensor)
Rest = ParamSpec("Rest")
Function = TypeVar("Function", bound=Callable[..., Any])


class Public(Protocol[Rest]):
    """A function of an image that takes a SplitTensor for it as well, and returns what it is given."""

    def __call__(self, input: Image, *args: Rest.args, **kwargs: Rest.kwargs) -> Image: ...


_FAILURES = (RuntimeError, TypeError, ValueError, AttributeError, IndexError, MemoryError)


def public(
    eager_operator: str = "",
    axes: int = 0,
    eager: Callable[..., Any] | None = None,
    short: Callable[..., Any] | None = None,
    exact_integers: bool = False,
) -> Callable[[Callable[Concatenate[Tensor, Rest], Tensor]], Public[Rest]]:
    """Turns a scriptable function into a public one.

    Errors of operators become ValueError or TypeError with the name of the public function. A number that is given as a
    tensor which requires a gradient is refused, because the operators would drop the gradient.

    Args:
        eager_operator: the operator that has the names and defaults of the function, if one has. It is called in place
            of the function (5.4 us instead of 8.2), except in scripts and under torch.compile. A SplitTensor goes to
            its form of shards.
        axes: the values of an argument per axis, if it has such arguments. Under torch.compile an operator does not
            repeat a symbol for all axes, so the call gets lists.
        eager: called in place of the function, except in scripts and under torch.compile. It handles gradients and
            tangents itself. All other functions refuse tangents here and skip the autograd keys where no argument
            requires a gradient, which saves 2 us a call (see autograd/_register.py).
        short: called before the function, except in scripts and under torch.compile; the function runs where it
            returns None.
        exact_integers: whether sums over integers are exact for any window (`_exporting.py`).
    """

    def decorate(fn: Callable[Concatenate[Tensor, Rest], Tensor]) -> Public[Rest]:
        function = _PublicFunction(fn)
        compiled = _under_compile(function, axes, exact_integers)
        if eager is not None:
            call = _around_eager(function, eager, compiled)
        else:
            run = _straight_to(eager_operator) if eager_operator else _by_either(short, fn) if short else fn
            of_shards = of_ready_shards(eager_operator) if eager_operator else None
            call = _around_operator(function, run, of_shards, compiled)
        wrapper: Any = functools.wraps(fn)(call)
        # torch.compile counts how often it has compiled a code object: every function has one of its own.
        wrapper.__code__ = wrapper.__code__.replace(co_name=fn.__name__)
        wrapper.__signature__ = function.signature
        wrapper.__annotations__ = {name: shown(annotation) for name, annotation in fn.__annotations__.items()}
        wrapper.__prepare_scriptable__ = lambda: compiled_by_torchscript(fn)
        return cast(Public[Rest], wrapper)

    return decorate


def _by_position(fn: FunctionType) -> FunctionType:
    """`fn` without keyword-only arguments, whose defaults torch.compile takes for inputs: it would trace twice."""
    code, defaults = fn.__code__, (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values())
    code = code.replace(co_argcount=code.co_argcount + code.co_kwonlyargcount, co_kwonlyargcount=0)
    return FunctionType(code, fn.__globals__, fn.__name__, defaults, fn.__closure__)


class _PublicFunction:
    """A function's arguments: which are keyword-only, which take numbers, and which take integers."""

    def __init__(self, fn: Any) -> None:
        self.fn, self.name = fn, fn.__name__
        signature = inspect.signature(fn)
        parameters = [p.replace(annotation=shown(p.annotation)) for p in signature.parameters.values()]
        self.signature = signature.replace(parameters=parameters)
        self.names = [p.name for p in parameters]
        self.first = next((i for i, p in enumerate(parameters) if p.kind is p.KEYWORD_ONLY), len(parameters))
        self.numbers = {p.name: not takes_tensor(p.annotation) for p in parameters}
        self.leading = list(self.numbers.values()).index(True)  # tensors, which come first
        self.integers = {p.name: i for i, p in enumerate(parameters) if takes_integers(p.annotation)}

    def too_many(self) -> TypeError:
        return TypeError(f"{self.name}: {self.names[self.first]} and what follows it must be given by keyword")

    def after_failure(
        self, call: Callable[..., Any], error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A second call, with Python's numbers in place of numpy's; without such numbers, raises the refusal."""
        try:
            plain = None if is_machine_failure(error) else _plain((args, kwargs))
            if plain is not None:
                return call(*plain[0], **plain[1])
            raise self.refusal(error, args, kwargs) from None
        finally:
            del error  # the refusal may be this error, which would tie this frame, and so the tensors, into a cycle

    def refusal(self, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception:
        if len(args) > self.first:
            return self.too_many()
        wrong = None if is_machine_failure(error) else wrong_type(self.signature, self.name, args, kwargs)
        if wrong is None and getattr(error, "of_torch", False):  # of a call that was handed to it
            return error
        return wrong or refusal_of(self.name, error)


def _under_compile(function: _PublicFunction, axes: int, exact_integers: bool) -> Callable[..., Any]:
    """The call that torch.compile and torch.export trace."""
    fn, name, numbers = _by_position(function.fn), function.name, function.numbers

    def traced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        refuse_gradients(name, numbers, args, kwargs)
        if axes:
            args, kwargs = _for_every_axis(list(numbers), axes, args, kwargs)
        if leaves_out_dtypes(kwargs):
            return without_dtype(fn, exact_integers, *args, **kwargs)
        return fn(*args, **kwargs)

    return traced


def _around_operator(
    function: _PublicFunction,
    run: Callable[..., Any],
    of_shards: Callable[..., SplitTensor | None] | None,
    traced: Callable[..., Any],
) -> Callable[..., Any]:
    """A call of `run`, an operator or a function of operators, with the checks that operators do not make."""
    name, first, leading, numbers, integers = (
        function.name,
        function.first,
        function.leading,
        function.numbers,
        function.integers,
    )
    first_integer = min(integers.values(), default=len(function.names))
    looks = looks_of(name, function.signature)
    of_images = function.names[0] == "input"  # the results of sequences are plain tensors

    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > first:
            raise function.too_many()
        forward_mode = in_forward_mode()
        if forward_mode and has_tangent((args, kwargs)):
            raise RuntimeError(f"{name}: {REFUSAL}")
        if torch.compiler.is_compiling():
            return traced(args, kwargs)
        if is_fx_symbolic_tracing() and (tracer := _tracer_of(args, kwargs)) is not None:
            return tracer.create_proxy("call_function", call, args, kwargs)
        kind: type = type(args[0] if args else kwargs.get("input"))
        if kind is not Tensor and of_images and is_picture(kind):
            return of_picture(call, args, kwargs)
        if kwargs:
            for argument, value in kwargs.items():
                if type(value) is not int and argument in integers:
                    refuse_fraction(name, argument, value)
        if len(args) > first_integer:
            for argument, i in integers.items():
                if i < len(args) and type(args[i]) is not int:
                    refuse_fraction(name, argument, args[i])
        if looks[0] > 0:
            look(name, looks, args, kwargs)
        try:
            if kind is SplitTensor and args and of_shards is not None:
                whole = of_shards(*args, **kwargs)
                if whole is not None:
                    return whole
            if forward_mode or (_C.is_grad_enabled() and _C._any_requires_grad(*args, **kwargs)):
                if _C._any_requires_grad(*args[leading:], **kwargs):
                    refuse_gradients(name, numbers, args, kwargs)
                return run(*args, **kwargs)
            return below_autograd(run, *args, **kwargs)
        except _FAILURES as error:
            return function.after_failure(call, error, args, kwargs)

    return call


def _around_eager(
    function: _PublicFunction, eager: Callable[..., Any], traced: Callable[..., Any]
) -> Callable[..., Any]:
    """A call of `eager`, which makes all checks itself."""
    first = function.first

    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            if len(args) > first:
                raise function.too_many()
            return traced(args, kwargs)
        if is_fx_symbolic_tracing() and (tracer := _tracer_of(args, kwargs)) is not None:
            if len(args) > first:
                raise function.too_many()
            return tracer.create_proxy("call_function", call, args, kwargs)
        try:
            return eager(*args, **kwargs)
        except _FAILURES as error:
            return function.after_failure(call, error, args, kwargs)

    return call


def _tracer_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The tracer of torch.fx to which an argument belongs, or None: the call becomes one node of its graph."""
    leaves = tree_leaves((args, kwargs))
    return next((leaf.tracer for leaf in leaves if isinstance(leaf, torch.fx.Proxy)), None)


def below_autograd(run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call `run`, whose arguments need no gradient, below autograd.

    Inference mode has no autograd keys to skip, and the guard takes 2 us.
    A transform of torch.func hides whether a gradient is wanted: vmap's tensors never say that they require one.
    """
    if _C.is_inference_mode_enabled() or _C._are_functorch_transforms_active():
        return run(*args, **kwargs)
    with _C._AutoDispatchBelowAutograd():
        return run(*args, **kwargs)


def of_sequences(fn: Function) -> Function:
    """The same for a function of sequences: all its arguments may be given by position, as their package has them."""
    return cast(Function, public()(fn))


_PER_AXIS = ("kernel_size", "anchor", "stride", "dilation")


def _for_every_axis(
    names: list[str], axes: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with a list where one number stands for all axes."""

    def listed(name: str, value: Any) -> Any:
        return [value] * axes if name in _PER_AXIS and isinstance(value, (int, torch.SymInt)) else value

    return (
        tuple(listed(name, value) for name, value in zip(names, args, strict=False)),
        {name: listed(name, value) for name, value in kwargs.items()},
    )


def _straight_to(operator: str) -> Callable[..., Any]:
    functional = getattr(torch.ops.torch_conv, operator).default
    into_out = getattr(torch.ops.torch_conv, operator + "_out").default

    def call(*args: Any, **kwargs: Any) -> Any:
        if "out" not in kwargs:
            return functional(*args, **kwargs)
        if kwargs["out"] is None:
            del kwargs["out"]
            return functional(*args, **kwargs)
        check_out_dtype(operator, kwargs["out"], kwargs.pop("output_dtype", None))
        into_out(*args, **kwargs)
        return kwargs["out"]

    return call


def _by_either(short: Callable[..., Any], fn: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        result = short(*args, **kwargs)
        return fn(*args, **kwargs) if result is None else result

    return call


def check_out_dtype(name: str, out: Tensor, output_dtype: Optional[torch.dtype]) -> None:
    """Refuses two dtypes for one result."""
    if output_dtype is not None and out.dtype != output_dtype:
        if torch.jit.is_scripting():  # where a dtype is a number
            raise RuntimeError(name + ": out must have the output_dtype")
        raise RuntimeError(
            f"{name}: out must have the output_dtype {_bare_name(output_dtype)}, got {_bare_name(out.dtype)}"
        )


def shape_text(shape: list[int]) -> str:
    """A shape as a message shows it; TorchScript can compile it."""
    return "(" + ", ".join([str(n) for n in shape]) + ")"


@torch.jit.unused
def _bare_name(of: Any) -> str:
    return bare_name(of)


def _plain(given: Any) -> Any:
    """`given` with Python's numbers in place of numpy's and all others; None if nothing changes.

    Operators and TorchScript take Python's numbers only. Calls that succeed do not come here.
    """
    if isinstance(given, numbers.Real) and type(given) not in (int, float, bool):
        return index(given) if isinstance(given, numbers.Integral) else float(given)
    if isinstance(given, dict):
        changed = {key: _plain(value) for key, value in given.items()}
        if all(value is None for value in changed.values()):
            return None
        return {key: given[key] if value is None else value for key, value in changed.items()}
    if type(given) in (tuple, list):
        parts = [_plain(part) for part in given]
        if all(part is None for part in parts):
            return None
        return type(given)(old if new is None else new for old, new in zip(given, parts, strict=True))
    return None
