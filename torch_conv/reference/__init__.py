"""Slow, obviously right versions of every function in plain torch: the oracle of tests and documentation.

Everything is summed in float64, tap by tap, on the extended image that the border describes, and rounded once.
Signatures are those of `torch_conv` without `algorithm` and `out`.

    >>> import torch
    >>> from torch_conv import reference
    >>> reference.filter1d(torch.tensor([8., 2, 5, 4, 1, 7, 3]), torch.tensor([1., 3, 5, 3, 1]), "constant")
    tensor([51., 53., 52., 47., 46., 51., 37.])
"""
# ruff: noqa: F403

from typing import TYPE_CHECKING

from torch_conv.reference import causal, conv, edges, filters, pipelines, smooth
from torch_conv.reference.causal import *
from torch_conv.reference.conv import *
from torch_conv.reference.edges import *
from torch_conv.reference.filters import *
from torch_conv.reference.pipelines import *
from torch_conv.reference.smooth import *

if not TYPE_CHECKING:  # type checkers read no names from other lists
    __all__ = [name for module in (causal, conv, edges, filters, pipelines, smooth) for name in module.__all__]

    def __dir__() -> list[str]:
        return __all__
