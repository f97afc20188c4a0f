"""What makes a function public: keyword-only arguments, errors by name, no autograd where none is wanted."""
# ruff: noqa: UP045

from __future__ import annotations

import functools
import inspect
import numbers
import re
from collections.abc import Callable
from operator import index
from typing import Any, Concatenate, Optional, ParamSpec, Protocol, TypeVar, cast, get_args, overload

import torch
from torch import _C, Tensor
from torch.fx._symbolic_trace import is_fx_symbolic_tracing
from torch.utils._pytree import tree_leaves

from torch_conv._failures import OUR_FAILURE, OUR_SENTENCE, is_machine_failure
from torch_conv._numbers import gradient_refusal, refuse_fraction, refuse_gradients, takes_tensor
from torch_conv._tangents import REFUSAL, has_tangent, in_forward_mode
from torch_conv.dispatch.batching import UNSUPPORTED
from torch_conv.functional._channels_last import look, looks_of
from torch_conv.functional._exporting import leaves_out_dtypes, without_dtype
from torch_conv.sharding.calls import of_ready_shards
from torch_conv.split import SplitTensor

Rest = ParamSpec("Rest")
Function = TypeVar("Function", bound=Callable[..., Any])


class Public(Protocol[Rest]):
    """A function of an image that takes a SplitTensor for it as well, and returns what it is given."""

    @overload
    def __call__(self, input: Tensor, *args: Rest.args, **kwargs: Rest.kwargs) -> Tensor: ...
    @overload
    def __call__(self, input: SplitTensor, *args: Rest.args, **kwargs: Rest.kwargs) -> SplitTensor: ...


_SCHEMA_SENTENCE = re.compile(
    r"Expected a value of type '(?P<want>[^']*)' for argument '(?P<argument>\w+)' "
    r"but instead found type '(?P<got>[^']*)'"
)
_SCHEMA_VALUE = re.compile(r"^Value: (.{,60})$", re.MULTILINE)
_LISTS = {"List[int]": "an int or a tuple of ints", "Optional[List[int]]": "an int, a tuple of ints or None"}
_SPEAKS_OF_TYPES = re.compile(r"dtype|\btypes?\b")
_FAILURES = (RuntimeError, TypeError, ValueError, AttributeError, IndexError, MemoryError)
_UNKNOWN_DTYPE = re.compile(r"Not yet supported ScalarType (\w+)")


def public(
    keyword_only: str,
    operator: str = "",
    axes: int = 0,
    eager: Callable[..., Any] | None = None,
    short: Callable[..., Any] | None = None,
    exact_integers: bool = False,
) -> Callable[[Callable[Concatenate[Tensor, Rest], Tensor]], Public[Rest]]:
    """Turns a scriptable function into a public one.

    The function is written without `*`, because TorchScript knows no keyword-only argument with a default; calls from
    Python must give `keyword_only` and what follows it by keyword, and see that in the signature. The operators'
    RuntimeError becomes ValueError or TypeError and names the function that was called. Where no gradient is wanted
    the autograd keys are skipped, which is safe and saves 2 us a call (see autograd/_register.py).

    A function that does no more than call `operator`, under the operator's own names and defaults, is not run by
    Python at all: the arguments that were given go straight to the operator (5.4 us a call instead of 8.2), or the
    shards of a SplitTensor to its form of shards.

    `eager` runs instead of the function wherever torch.compile does not trace it and no script holds it. It knows what
    to do with gradients and with tangents (`_tangents.py`); the others skip the first and are refused the second here.

    `short` is asked first wherever torch.compile does not trace the function and no script holds it; where it gives
    None the function runs.

    A number that is given as a tensor which requires a gradient is refused, because the operators take it without.

    `axes` is how many values an argument per axis has: one number stands for all of them, which torch knows of an
    operator's argument only while the number is no symbol of torch.compile.

    `exact_integers` says that sums over integers are exact for any window (`_exporting.py`).
    """

    def decorate(fn: Callable[Concatenate[Tensor, Rest], Tensor]) -> Public[Rest]:
        signature = inspect.signature(fn)
        parameters = list(signature.parameters.values())
        first = next((i for i, p in enumerate(parameters) if p.name == keyword_only), len(parameters))
        parameters[first:] = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters[first:]]

        run: Callable[..., Any] = _straight_to(operator) if operator else _by_either(short, fn) if short else fn
        of_shards = of_ready_shards(operator) if operator else None
        looks = looks_of(fn.__name__, signature)

        numbers = {p.name: not takes_tensor(p.annotation) for p in parameters}
        leading = list(numbers.values()).index(True)  # tensors, which come first
        # At run time the annotation of a list of integers is None.
        integers = {p.name: i for i, p in enumerate(parameters) if p.annotation in (int, None, type(None))}
        first_integer = min(integers.values(), default=len(parameters))

        def traced(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            refuse_gradients(fn.__name__, numbers, args, kwargs)
            if axes:
                args, kwargs = _for_every_axis(list(numbers), axes, args, kwargs)
            if leaves_out_dtypes(kwargs):
                return without_dtype(fn, exact_integers, *args, **kwargs)
            return fn(*args, **kwargs)

        def too_many() -> TypeError:
            return TypeError(f"{fn.__name__}: {keyword_only} and what follows it must be given by keyword")

        def by_operator(*args: Any, **kwargs: Any) -> Any:
            if len(args) > first:
                raise too_many()
            forward_mode = in_forward_mode()
            if forward_mode and has_tangent((args, kwargs)):
                raise RuntimeError(f"{fn.__name__}: {REFUSAL}")
            if torch.compiler.is_compiling():
                return traced(args, kwargs)
            if is_fx_symbolic_tracing() and (tracer := _tracer_of(args, kwargs)) is not None:
                return tracer.create_proxy("call_function", call, args, kwargs)
            if kwargs:
                for argument, value in kwargs.items():
                    if type(value) is not int and argument in integers:
                        refuse_fraction(fn.__name__, argument, value)
            if len(args) > first_integer:
                for argument, i in integers.items():
                    if i < len(args) and type(args[i]) is not int:
                        refuse_fraction(fn.__name__, argument, args[i])
            if looks[0] > 0:
                look(fn.__name__, looks, args, kwargs)
            try:
                if of_shards is not None and args and type(args[0]) is SplitTensor:
                    whole = of_shards(*args, **kwargs)
                    if whole is not None:
                        return whole
                if forward_mode or (_C.is_grad_enabled() and _C._any_requires_grad(*args, **kwargs)):
                    if _C._any_requires_grad(*args[leading:], **kwargs):
                        refuse_gradients(fn.__name__, numbers, args, kwargs)
                    return run(*args, **kwargs)
                return below_autograd(run, *args, **kwargs)
            except _FAILURES as error:
                plain = None if is_machine_failure(error) else _plain((args, kwargs))
                if plain is not None:
                    return call(*plain[0], **plain[1])
                # No local name for what is raised: it would tie this frame, and so the tensors, into a cycle.
                raise refusal(error, args, kwargs) from None

        def at_once(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                if len(args) > first:
                    raise too_many()
                return traced(args, kwargs)
            if is_fx_symbolic_tracing() and (tracer := _tracer_of(args, kwargs)) is not None:
                if len(args) > first:
                    raise too_many()
                return tracer.create_proxy("call_function", call, args, kwargs)
            try:
                return eager(*args, **kwargs)  # type: ignore[misc]
            except _FAILURES as error:
                plain = None if is_machine_failure(error) else _plain((args, kwargs))
                if plain is not None:
                    return call(*plain[0], **plain[1])
                raise refusal(error, args, kwargs) from None

        def refusal(error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exception:
            if len(args) > first:
                return too_many()
            wrong = None if is_machine_failure(error) else _wrong_type(signature, fn.__name__, args, kwargs)
            if wrong is None and getattr(error, "of_torch", False):  # of a call that was handed to it
                return error
            return wrong or refusal_of(fn.__name__, error)

        call: Any = functools.wraps(fn)(at_once if eager is not None else by_operator)
        # torch.compile counts how often it has compiled a code object: every function has one of its own.
        call.__code__ = call.__code__.replace(co_name=fn.__name__)

        call.__signature__ = signature.replace(parameters=parameters)
        call.__prepare_scriptable__ = lambda: fn
        return cast(Public[Rest], call)

    return decorate


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
    return cast(Function, public(keyword_only="")(fn))


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
        check_out_dtype(kwargs["out"], kwargs.pop("output_dtype", None))
        into_out(*args, **kwargs)
        return kwargs["out"]

    return call


def _by_either(short: Callable[..., Any], fn: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        result = short(*args, **kwargs)
        return fn(*args, **kwargs) if result is None else result

    return call


def check_out_dtype(out: Tensor, output_dtype: Optional[torch.dtype]) -> None:
    """Refuses two dtypes for one result; public() puts the right name."""
    if output_dtype is not None and out.dtype != output_dtype:
        if torch.jit.is_scripting():  # where a dtype is a number
            raise RuntimeError("filter2d: out must have the output_dtype")
        raise RuntimeError(f"filter2d: out must have the output_dtype {_name(output_dtype)}, got {_name(out.dtype)}")


def shape_text(shape: list[int]) -> str:
    """A shape as a message shows it; TorchScript can compile it."""
    return "(" + ", ".join([str(n) for n in shape]) + ")"


@torch.jit.unused
def _name(of: Any) -> str:
    return str(of).removeprefix("torch.")


def _plain(given: Any) -> Any:
    """`given` with numpy's numbers, and whatever else is a number, as Python's; None if there is none to change.

    Operators and TorchScript take no others. Asked after a failure, it costs nothing where all is well.
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


def _wrong_type(
    signature: inspect.Signature, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Exception | None:
    """After a failure: the first argument that is not what its annotation says (lists are the operator's business)."""
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        return TypeError(f"{name}: {error}")
    if given.get("out") is not None and any(isinstance(value, SplitTensor) for value in given.values()):
        return ValueError(f"{name}: out is not taken with a SplitTensor")
    for argument, value in given.items():
        if isinstance(value, Tensor) and (value.layout is not torch.strided or value.is_quantized or value.is_nested):
            got = "nested" if value.is_nested else _name(value.dtype if value.is_quantized else value.layout)
            return TypeError(f"{name}: {argument} must be a dense tensor, got {got}")
        if argument in ("input", "x") and hasattr(type(value), "__torch_function__"):
            continue  # it stands for a tensor, as a SplitTensor does
        annotation = signature.parameters[argument].annotation
        taken = get_args(annotation) or (annotation,)
        lost = None if takes_tensor(annotation) else gradient_refusal(name, argument, value)
        if lost is not None:
            return lost
        plain = [t for t in taken if t in (Tensor, str, bool, int, float, torch.dtype)]
        if len(plain) == 1 and set(taken) <= {*plain, type(None)}:
            fits = isinstance(value, (*taken, int) if float in plain else tuple(taken))
            if not fits:
                want, got = plain[0].__name__, type(value).__name__
                return TypeError(f"{name}: {argument} must be of type {want}, got {got}")
    return None


def refusal_of(name: str, error: Exception) -> Exception:
    """The ValueError or TypeError that says what `error` says about the call of `name`; `error` if it is no refusal."""
    # A kernel on the CPU got no scratch memory; torch 2.15 raises a RuntimeError for it.
    if isinstance(error, MemoryError) or str(error) == "std::bad_alloc":
        return torch.OutOfMemoryError(f"{name}: there is not enough memory")
    if type(error) not in (RuntimeError, NotImplementedError):
        return error
    text = str(error)
    if text.endswith(REFUSAL) or UNSUPPORTED in text:
        return RuntimeError(f"{name}: {text.rpartition(': ')[2]}")
    if text.startswith(OUR_FAILURE):
        failure = torch.OutOfMemoryError if "out of memory" in text else RuntimeError
        return failure(f"{name}: {text.removeprefix(OUR_FAILURE)}")
    if is_machine_failure(error):
        return error
    schema = _SCHEMA_SENTENCE.search(text)
    if schema:
        want, got = _LISTS.get(schema["want"], f"of type {schema['want']}"), schema["got"]
        given = _SCHEMA_VALUE.search(text) if got in ("tuple", "list") else None
        return TypeError(f"{name}: {schema['argument']} must be {want}, got {given[1] if given else got}")
    dtype = _UNKNOWN_DTYPE.search(text)
    if dtype:
        return TypeError(f"{name}: output_dtype must be one that kernels write, got {dtype[1].lower()}")
    ours = OUR_SENTENCE.match(text)
    sentence = text[ours.end() :] if ours else text.split("\n", 1)[0]
    of_types = _SPEAKS_OF_TYPES.search(sentence) and not sentence.startswith("algorithm '")  # a word that does not fit
    kind = TypeError if of_types or type(error) is NotImplementedError else ValueError
    return kind(f"{name}: {sentence}")
