"""Derivatives of the operators: nodes of autograd's graph, and their formulas in torch's and our own operators."""

from torch_conv.autograd._register import register

__all__ = ["register"]
