"""Errors of an operator as the public function's ValueError or TypeError, with the name of that function."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Sequence
from typing import Any, get_args, get_origin

import torch
from torch import Tensor

from torch_conv.dispatch.batching import UNSUPPORTED
from torch_conv.dispatch.failures import OUR_FAILURE, OUR_SENTENCE, is_machine_failure
from torch_conv.dispatch.numbers import gradient_refusal, takes_tensor
from torch_conv.dispatch.remedies import no_tensor
from torch_conv.dispatch.tangents import REFUSAL
from torch_conv.split import SplitTensor

_SCHEMA_SENTENCE = re.compile(
    r"Expected a value of type '(?P<want>[^']*)' for argument '(?P<argument>\w+)' "
    r"but instead found type '(?P<got>[^']*)'"
)
_SCHEMA_VALUE = re.compile(r"^Value: (.{,60})$", re.MULTILINE)
_LISTS = {"List[int]": "an int or a tuple of ints", "Optional[List[int]]": "an int, a tuple of ints or None"}
_SPEAKS_OF_TYPES = re.compile(r"dtype|\btypes?\b")
_UNKNOWN_DTYPE = re.compile(r"Not yet supported ScalarType (\w+)")


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


def wrong_type(
    signature: inspect.Signature, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Exception | None:
    """After a failure: the refusal of the first argument that contradicts its annotation, or None. Skips lists."""
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        return TypeError(f"{name}: {error}")
    if given.get("out") is not None and any(isinstance(value, SplitTensor) for value in given.values()):
        return ValueError(f"{name}: out is not taken with a SplitTensor")
    for argument, value in given.items():
        if isinstance(value, Tensor) and (value.layout is not torch.strided or value.is_quantized or value.is_nested):
            got = "nested" if value.is_nested else bare_name(value.dtype if value.is_quantized else value.layout)
            return TypeError(f"{name}: {argument} must be a dense tensor, got {got}")
        if argument in ("input", "x") and hasattr(type(value), "__torch_function__"):
            continue  # it stands for a tensor, as a SplitTensor does
        annotation = signature.parameters[argument].annotation
        taken = get_args(annotation) or (annotation,)
        lost = None if takes_tensor(annotation) else gradient_refusal(name, argument, value)
        if lost is not None:
            return lost
        per_axis = any(get_origin(t) is Sequence for t in taken)
        if per_axis and isinstance(value, getattr(sys.modules.get("numpy"), "ndarray", ())):
            one, many = ("a number", "a tuple of numbers") if float in taken else ("an int", "a tuple of ints")
            want = f"{one}, {many} or a tensor" if Tensor in taken else f"{one} or {many}"
            return TypeError(f"{name}: {argument} must be {want}, got numpy.ndarray")
        if argument == "kernel_size" and per_axis and isinstance(value, float):
            lacks_sigma = "sigma" in signature.parameters and given.get("sigma") is None
            hint = f"; did you mean sigma={value}?" if lacks_sigma else ""
            return TypeError(f"{name}: kernel_size must be an int or a tuple of ints, got float{hint}")
        plain = [t for t in taken if t in (Tensor, str, bool, int, float, torch.dtype)]
        if len(plain) == 1 and set(taken) <= {*plain, type(None)}:
            fits = isinstance(value, (*taken, int) if float in plain else tuple(taken))
            if not fits:
                if Tensor in plain:
                    return no_tensor(name, argument, value)
                want, got = plain[0].__name__, type(value).__name__
                return TypeError(f"{name}: {argument} must be of type {want}, got {got}")
    return None


def bare_name(of: Any) -> str:
    """The name of a dtype or a layout without `torch.`."""
    return str(of).removeprefix("torch.")
