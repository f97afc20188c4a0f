"""Derivatives of the operators: `torch.library.register_autograd`, formulas in plain torch and our own operators."""

from torch_conv.autograd._register import register

__all__ = ["register"]
