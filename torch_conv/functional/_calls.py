"""What makes a function public: keyword-only arguments, errors by name, no autograd where none is wanted."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import _C

Function = TypeVar("Function", bound=Callable[..., Any])

_OUR_SENTENCE = re.compile(r"[a-z]\w*: ")
_SCHEMA_SENTENCE = re.compile(
    r"Expected a value of type '(?P<want>[^']*)' for argument '(?P<argument>\w+)' but instead found type '(?P<got>[^']*)'"
)
_SPEAKS_OF_TYPES = re.compile(r"dtype|\btypes?\b")
# Failures of the machine, not of the arguments.
_MACHINE = re.compile(r"CUDA|cuDNN|out of memory|can't allocate memory")


def public(keyword_only: str) -> Callable[[Function], Function]:
    """Turns a scriptable function into a public one.

    The function is written without `*`, because TorchScript knows no keyword-only argument with a default; calls from
    Python must give `keyword_only` and what follows it by keyword, and see that in the signature. The operators'
    RuntimeError becomes ValueError or TypeError and names the function that was called. Where no gradient is wanted
    the autograd keys are skipped, which is safe and saves 1-4 us a call (see autograd.py).
    """

    def decorate(fn: Function) -> Function:
        signature = inspect.signature(fn)
        parameters = list(signature.parameters.values())
        first = next(i for i, p in enumerate(parameters) if p.name == keyword_only)
        parameters[first:] = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters[first:]]

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            if len(args) > first:
                raise TypeError(f"{fn.__name__}: {keyword_only} and what follows it must be given by keyword")
            if torch.compiler.is_compiling():
                return fn(*args, **kwargs)
            try:
                if _C.is_grad_enabled() and _C._any_requires_grad(*args, **kwargs):
                    return fn(*args, **kwargs)
                with _C._AutoDispatchBelowAutograd():
                    return fn(*args, **kwargs)
            except RuntimeError as error:
                refusal = _refusal(fn.__name__, error)
                if refusal is None:
                    raise
            raise refusal

        call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        call.__prepare_scriptable__ = lambda: fn  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate


def _refusal(name: str, error: RuntimeError) -> Exception | None:
    """The ValueError or TypeError that says what `error` says about the call of `name`; None if it is no refusal."""
    if type(error) not in (RuntimeError, NotImplementedError):
        return None
    text = str(error)
    schema = _SCHEMA_SENTENCE.search(text)
    if schema:
        want, got = schema["want"].removeprefix("Optional[").removesuffix("]"), schema["got"]
        return TypeError(f"{name}: {schema['argument']} must be of type {want}, got {got}")
    ours = _OUR_SENTENCE.match(text)
    if not ours and _MACHINE.search(text):
        return None
    sentence = text[ours.end() :] if ours else text.split("\n", 1)[0]
    kind = TypeError if _SPEAKS_OF_TYPES.search(sentence) or type(error) is NotImplementedError else ValueError
    return kind(f"{name}: {sentence}")
