"""Questions about calls that do not run, answered by _X_query in place of an operator X (csrc/api/query.h)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode


class QueryMode(TorchDispatchMode):
    """A dispatch mode that passes to `receive` the answer of each called operator of torch_conv.

    An answer is a list of numbers, which `answer_text` decodes. The calls return uninitialised results. Other operators
    of torch run.
    """

    result_of: ClassVar[Callable[[str, Sequence[Any], dict[str, Any]], Any]]  # set by fakes/registration.py

    def __init__(self, question: str, receive: Callable[[list[int]], None]) -> None:
        super().__init__()
        self._question, self._receive = question, receive

    def __torch_dispatch__(
        self, func: OpOverload, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.torch_conv._conv_ours.default:
            axes, args, kwargs = conv_arguments(*args, **(kwargs or {}))
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
            return given["input"]  # the caller ignores the result
        overload = "" if func._overloadname == "default" else f".{func._overloadname}"
        return QueryMode.result_of(name + overload, args, kwargs or {})


def answer_text(answer: list[int]) -> str:
    """Decodes a text, whose bytes are the numbers of the answer."""
    return bytes(answer).decode()


def conv_arguments(
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
    """The axes, and the arguments of conv1d, conv2d or conv3d for a call of `_conv_ours`."""
    torch._check(1 <= axes <= 3, lambda: f"_conv: axes must be 1, 2 or 3, got {axes}")
    args = (input, weight, bias, [stride] * axes, [padding] * axes, [dilation] * axes, groups)
    return axes, args, {"algorithm": "ours", "activation": activation}
