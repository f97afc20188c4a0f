"""Calls that do not run: instead of an operator X its form _X_query answers a question (csrc/api/query.h)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode


class Asking(TorchDispatchMode):
    """While it is entered, `receive` gets the answer of every called operator of torch_conv to the question.

    An answer is a list of numbers; `text_of` makes a text of it. The call itself returns an uninitialised result, where
    results are looked at. Other operators of torch run.
    """

    def __init__(self, question: str, receive: Callable[[list[int]], None]) -> None:
        super().__init__()
        self._question, self._receive = question, receive

    def __torch_dispatch__(
        self, func: OpOverload, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.torch_conv._conv_ours.default:
            axes, args, kwargs = with_lists(*args, **(kwargs or {}))
            func = getattr(torch.ops.torch_conv, f"conv{axes}d").default
        library, name = func._schema.name.split("::")
        asked = getattr(torch.ops.torch_conv, f"_{name.removesuffix('_out')}_query", None)
        if library != "torch_conv" or asked is None:
            return func(*args, **(kwargs or {}))
        query = getattr(asked, func._overloadname)
        given = dict(zip((a.name for a in func._schema.arguments), args, strict=False)) | (kwargs or {})
        self._receive(query(self._question, **given))
        if "out" in given:
            return None
        if self._question == "footprint":
            return given["input"]  # nobody looks at it
        from torch_conv.fakes.registration import result_of  # it needs the functions, and they need this file

        overload = "" if func._overloadname == "default" else f".{func._overloadname}"
        return result_of(name + overload, args, kwargs or {})


def text_of(answer: list[int]) -> str:
    """The text that an answer holds byte by byte."""
    return bytes(answer).decode()


def with_lists(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    axes: int,
    stride: int,
    padding: int,
    dilation: int,
    groups: int,
    activation: str | None = None,
) -> tuple[int, tuple[Any, ...], dict[str, Any]]:
    """The axes, and what conv1d, conv2d or conv3d is given where `_conv_ours` is given numbers."""
    torch._check(1 <= axes <= 3, lambda: f"_conv: axes must be 1, 2 or 3, got {axes}")
    args = (input, weight, bias, [stride] * axes, [padding] * axes, [dilation] * axes, groups)
    return axes, args, {"algorithm": "ours", "activation": activation}
