"""What the named filters are made of until they have kernels of their own: sums in float32, one rounding at the end."""
# ruff: noqa: UP007, UP045

from typing import Optional

import torch
from torch import Tensor

_filter2d = torch.ops.torch_conv.filter2d
_filter2d_out = torch.ops.torch_conv.filter2d_out
_filter2d_separable = torch.ops.torch_conv.filter2d_separable
_filter2d_separable_out = torch.ops.torch_conv.filter2d_separable_out

# Up to this many taps one window is one launch where a sum of separable passes is many.
_ONE_WINDOW_TAPS = 81
