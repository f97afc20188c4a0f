"""The functions of the package causal-conv1d: `from torch_conv.compat.causal_conv1d import causal_conv1d_fn`.

Arguments and results are the package's. Cases that it refuses work here: widths other than 2 to 4,
states of sequences whose channels are not innermost, channels that are no multiple of 8, float64, the CPU. The update
has no gradient.

    >>> import torch
    >>> from torch_conv.compat.causal_conv1d import causal_conv1d_fn
    >>> causal_conv1d_fn(torch.ones(1, 1, 4), torch.ones(1, 3))
    tensor([[[1., 2., 3., 3.]]])
"""

from torch_conv.compat._missing import missing
from torch_conv.functional.causal import causal_conv1d as causal_conv1d_fn
from torch_conv.functional.causal import causal_conv1d_update

__all__ = ["causal_conv1d_fn", "causal_conv1d_update"]

__getattr__ = missing("compat.causal_conv1d", "causal_conv1d")


def __dir__() -> list[str]:
    return __all__
