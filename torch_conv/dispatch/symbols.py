"""Sizes and options that torch.compile and torch.export hold as symbols.

Python's `if` on a symbol fixes its value. Torch compiles again for another value, and fails for one that depends on
data.
"""

from __future__ import annotations

from typing import Any

import torch


def is_known(number: Any) -> bool:
    """Whether a number is not a symbol; Dynamo can trace it."""
    return not torch.compiler.is_compiling() or torch.fx.experimental.symbolic_shapes.has_static_value(number)


def surely(condition: Any) -> bool:
    """Whether a comparison of sizes holds; False if it depends on data."""
    if type(condition) is bool and not torch.compiler.is_compiling():
        return condition
    return torch.fx.experimental.symbolic_shapes.guard_or_false(condition)


def holds(condition: Any) -> bool:
    """Whether a condition on numbers holds. If it depends on data, the compiled program checks it."""
    if type(condition) is bool and not torch.compiler.is_compiling():
        return condition
    if torch.fx.experimental.symbolic_shapes.guard_or_false(condition):
        return True  # known at compile time; a check in the program would fix the number (torch 2.15)
    if not torch.fx.experimental.symbolic_shapes.guard_or_true(condition):
        return False
    torch._check(condition)
    return True


def fixed(number: int) -> int:
    """The number of a symbol, for which the program is then compiled."""
    return int(torch.fx.experimental.symbolic_shapes.guard_scalar(number)) if torch.compiler.is_compiling() else number
