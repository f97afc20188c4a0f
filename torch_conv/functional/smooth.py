"""Gaussians and what is made of them: blur, sharpening, band pass, curvature."""
# ruff: noqa: UP007, UP045

from typing import Optional, Union

import torch
from torch import Tensor

from torch_conv.functional import _windows
from torch_conv.functional._calls import public
from torch_conv.functional._composites import one_window, rounded, sum_dtype, sum_of_products
from torch_conv.functional._types import BroadcastingList2
from torch_conv.functional.filters import filter2d, filter2d_separable
