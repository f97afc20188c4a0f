"""Derivatives of the operators: their places in torch's graph, and formulas in plain torch and our own operators."""

from torch_conv.autograd._register import register

__all__ = ["register"]
