"""How far a call of an operator reaches: asked of the operator itself, on an image that nothing reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from torch_conv.dispatch.query import Asking

BORDERS = ("constant", "replicate", "reflect", "symmetric", "circular", "skip", "zero_output")  # csrc/core/border.h


class AxisReach(NamedTuple):
    """Output o of `out` reads rows [o * stride - pad, ... + length) and belongs to row o * stride + middle.

    Its bits depend on o modulo `group`.

    `AxisReach` of csrc/tensors/call.h.
    """

    pad: int
    length: int
    stride: int
    middle: int
    out: int
    group: int = 1

    def first_output(self, row: int, n: int) -> int:
        """The first output that belongs to this row of n or one behind it; the ends take what lies beyond them."""
        if row <= 0:
            return 0
        return self.out if row >= n else min(max(-((self.middle - row) // self.stride), 0), self.out)


def axes_of(operator: str) -> int:
    """Over how many of the last dimensions an operator reaches, by its name."""
    return int(re.findall("([123])d", operator)[-1])


def reach_of(call: Callable[[Tensor], Any], like: Tensor, shape: Sequence[int]) -> tuple[list[AxisReach], str]:
    """How far `call`, one call of an operator on an image like `like` of this shape, reaches along d, h and w.

    The second is the border's name. The operator checks its arguments, and refuses them; nothing runs.
    """
    answers: list[list[int]] = []
    with Asking("footprint", answers.append):
        call(like.new_empty(1).expand(shape))
    (numbers,) = answers
    return [AxisReach(*numbers[i : i + 6]) for i in (0, 6, 12)], BORDERS[numbers[18]]
