"""What makes a function public: keyword-only arguments, errors by name, no autograd where none is wanted."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar, get_args

import torch
from torch import _C, Tensor

Function = TypeVar("Function", bound=Callable[..., Any])

_OUR_SENTENCE = re.compile(r"[a-z]\w*: ")
_SCHEMA_SENTENCE = re.compile(
    r"Expected a value of type '(?P<want>[^']*)' for argument '(?P<argument>\w+)' "
    r"but instead found type '(?P<got>[^']*)'"
)
_SPEAKS_OF_TYPES = re.compile(r"dtype|\btypes?\b")
# Failures of the machine, not of the arguments.
_MACHINE = re.compile(r"CUDA|cuDNN|out of memory|can't allocate memory")


def public(keyword_only: str, operator: str = "") -> Callable[[Function], Function]:
    """Turns a scriptable function into a public one.

    The function is written without `*`, because TorchScript knows no keyword-only argument with a default; calls from
    Python must give `keyword_only` and what follows it by keyword, and see that in the signature. The operators'
    RuntimeError becomes ValueError or TypeError and names the function that was called. Where no gradient is wanted
    the autograd keys are skipped, which is safe and saves 4 us a call (see autograd.py).

    A function that does no more than call `operator`, under the operator's own names and defaults, is not run by
    Python at all: the arguments that were given go straight to the operator (5.4 us a call instead of 8.2).
    """

    def decorate(fn: Function) -> Function:
        signature = inspect.signature(fn)
        parameters = list(signature.parameters.values())
        first = next(i for i, p in enumerate(parameters) if p.name == keyword_only)
        parameters[first:] = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters[first:]]

        run: Callable[..., Any] = _straight_to(operator) if operator else fn

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            if len(args) > first:
                raise TypeError(f"{fn.__name__}: {keyword_only} and what follows it must be given by keyword")
            if torch.compiler.is_compiling():
                return fn(*args, **kwargs)
            try:
                if _C.is_grad_enabled() and _C._any_requires_grad(*args, **kwargs):
                    return run(*args, **kwargs)
                with _C._AutoDispatchBelowAutograd():
                    return run(*args, **kwargs)
            except (RuntimeError, TypeError, AttributeError) as error:
                # No local name for what is raised: it would tie this frame, and so the tensors, into a cycle.
                raise (_wrong_type(signature, fn.__name__, args, kwargs) or _refusal(fn.__name__, error)) from None

        call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        call.__prepare_scriptable__ = lambda: fn  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate


def _straight_to(operator: str) -> Callable[..., Any]:
    functional = getattr(torch.ops.torch_conv, operator).default
    into_out = getattr(torch.ops.torch_conv, operator + "_out").default

    def call(*args: Any, **kwargs: Any) -> Any:
        if "out" not in kwargs:
            return functional(*args, **kwargs)
        if kwargs["out"] is None:
            del kwargs["out"]
            return functional(*args, **kwargs)
        kwargs.pop("output_dtype", None)  # `out` has a dtype
        into_out(*args, **kwargs)
        return kwargs["out"]

    return call


def _wrong_type(
    signature: inspect.Signature, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> TypeError | None:
    """After a failure: the first argument that is not what its annotation says (lists are the operator's business)."""
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        return TypeError(f"{name}: {error}")
    for argument, value in given.items():
        annotation = signature.parameters[argument].annotation
        taken = get_args(annotation) or (annotation,)
        plain = [t for t in taken if t in (Tensor, str, bool, int, float, torch.dtype)]
        if len(plain) == 1 and set(taken) <= {*plain, type(None)}:
            fits = isinstance(value, (*taken, int) if float in plain else tuple(taken))
            if not fits:
                want, got = plain[0].__name__, type(value).__name__
                return TypeError(f"{name}: {argument} must be of type {want}, got {got}")
    return None


def _refusal(name: str, error: Exception) -> Exception:
    """The ValueError or TypeError that says what `error` says about the call of `name`; `error` if it is no refusal."""
    if type(error) not in (RuntimeError, NotImplementedError):
        return error
    text = str(error)
    schema = _SCHEMA_SENTENCE.search(text)
    if schema:
        return TypeError(f"{name}: {schema['argument']} must be of type {schema['want']}, got {schema['got']}")
    ours = _OUR_SENTENCE.match(text)
    if not ours and _MACHINE.search(text):
        return error
    sentence = text[ours.end() :] if ours else text.split("\n", 1)[0]
    kind = TypeError if _SPEAKS_OF_TYPES.search(sentence) or type(error) is NotImplementedError else ValueError
    return kind(f"{name}: {sentence}")
