"""A bad call must raise one literal sentence, change nothing, and leave the next good call as it was."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from tolerance import assert_same_bits

import torch_conv

DTYPES = "float32, float16, bfloat16, float64, uint8, int16 or uint16"
TAP_DTYPES = "float32, float16, bfloat16, float64, uint8, int8, int16, uint16, int32 or int64"
BORDERS = "'constant', 'replicate', 'reflect', 'symmetric', 'circular', 'skip' or 'zero_output'"


def ones(*shape, dtype=torch.float32):
    return torch.ones(*shape, dtype=dtype)


def flatten(cases):
    """{name: [(args, kwargs, sentence), ...]} as parameters of a test."""
    return [(name, *case) for name, of_name in cases.items() for case in of_name]


def moved(args, device):
    """Images and windows on the tested device."""
    return [
        a.to(device) if isinstance(a, torch.Tensor) else moved(a, device) if isinstance(a, list) else a for a in args
    ]


@contextmanager
def refuses(error: type[Exception] | tuple[type[Exception], ...], sentence: str) -> Iterator[None]:
    """The block raises that error with exactly that sentence."""
    with pytest.raises(error) as caught:
        yield
    assert str(caught.value) == sentence


def check_value(device, name, args, kwargs, sentence, good_call):
    """A ValueError of that sentence from the Python function; `good_call` is one of the same function."""
    args = moved(args, device)
    before = [a.clone() for a in args if isinstance(a, torch.Tensor)]
    expected = good_call()
    with refuses(ValueError, f"{name}: {sentence}"):
        getattr(torch_conv, name)(*args, **kwargs)
    for tensor, copy in zip([a for a in args if isinstance(a, torch.Tensor)], before, strict=True):
        assert_same_bits(tensor, copy)
    assert_same_bits(good_call(), expected)


def check_operator(device, operator, args, kwargs, sentence):
    """A RuntimeError with the same sentence from the operator: a C++ check knows no other."""
    args = [list(a) if isinstance(a, tuple) else a for a in moved(args, device)]
    kwargs = {k: list(v) if isinstance(v, tuple) else [v] * 2 if k == "anchor" else v for k, v in kwargs.items()}
    with refuses(RuntimeError, f"{operator}: {sentence}"):
        getattr(torch.ops.torch_conv, operator)(*args, **kwargs)


def check_type(device, name, args, kwargs, sentence):
    with refuses(TypeError, f"{name}: {sentence}"):
        getattr(torch_conv, name)(*moved(args, device), **kwargs)
