"""Numbers that torch.compile and torch.export hold as symbols: sizes and options that may change between calls.

Python's `if` on a symbol fixes its value. Torch compiles again for other values, and fails where the data decides.
"""

from __future__ import annotations

from typing import Any

import torch


def is_known(number: Any) -> bool:
    """Whether a number is one to torch.compile and torch.export, not a symbol; Dynamo traces it."""
    return not torch.compiler.is_compiling() or torch.fx.experimental.symbolic_shapes.has_static_value(number)


def surely(condition: Any) -> bool:
    """Whether a comparison of sizes holds; False where only the data says it."""
    if type(condition) is bool and not torch.compiler.is_compiling():
        return condition
    return torch.fx.experimental.symbolic_shapes.guard_or_false(condition)


def holds(condition: Any) -> bool:
    """Whether a condition on numbers holds; where only the data says it, the program checks it when it runs."""
    if type(condition) is bool and not torch.compiler.is_compiling():
        return condition
    if torch.fx.experimental.symbolic_shapes.guard_or_false(condition):
        return True  # The program is compiled for it: a check left in it would fix the number (torch 2.15).
    if not torch.fx.experimental.symbolic_shapes.guard_or_true(condition):
        return False
    torch._check(condition)
    return True


def fixed(number: int) -> int:
    """A number without symbols: what is compiled serves the calls with this one."""
    return int(torch.fx.experimental.symbolic_shapes.guard_scalar(number)) if torch.compiler.is_compiling() else number
