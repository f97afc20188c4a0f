"""Calls that are only asked about: instead of an operator X its form _X_explain, _X_prepare or _X_reach runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode


class Asking(TorchDispatchMode):
    """While it is entered, `answer` receives what the form of every called operator of torch_conv says.

    The call itself returns an uninitialised result, where results are looked at. Other operators of torch run.
    """

    def __init__(self, form: str, answer: Callable[[Any], None]) -> None:
        super().__init__()
        self._form, self._answer = form, answer

    def __torch_dispatch__(
        self, func: OpOverload, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.torch_conv._conv_ours.default:
            axes, args, kwargs = with_lists(*args, **(kwargs or {}))
            func = getattr(torch.ops.torch_conv, f"conv{axes}d").default
        library, name = func._schema.name.split("::")
        asked = getattr(torch.ops.torch_conv, f"_{name.removesuffix('_out')}{self._form}", None)
        if library != "torch_conv" or asked is None:
            return func(*args, **(kwargs or {}))
        form = getattr(asked, func._overloadname)
        given = dict(zip((a.name for a in func._schema.arguments), args, strict=False)) | (kwargs or {})
        self._answer(form(**given))
        if "out" in given:
            return None
        if self._form == "_reach":
            return given["input"]  # nobody looks at it
        from torch_conv.fake import result_of  # it needs the functions, and they need this file

        return result_of(name, func._overloadname, args, kwargs or {})


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
