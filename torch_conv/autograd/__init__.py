"""Gradients of the operators: nodes of autograd's graph, and formulas that call operators of torch and torch_conv."""

from torch_conv.autograd._register import register

__all__ = ["register"]
