"""The filters of images that are written as float64 on the CPU, with sums in float64 whatever the image's dtype.

Operators of their own read the image as it is. The bits are those of the filter over a float64 copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_conv.functional._refusals import refusal_of
from torch_conv.functional.filters import box_blur, filter2d, filter2d_separable

_filter2d = torch.ops.torch_conv._filter2d_in_float64.default
_filter2d_separable = torch.ops.torch_conv._filter2d_separable_in_float64.default
_box2d = torch.ops.torch_conv._box2d_in_float64.default

_MOST_TAPS = 80  # with more filter2d looks at the window's values, and may take fewer sums


def filtered(
    filter: Callable[..., Tensor],
    image: Tensor,
    args: Sequence[Any],
    out: Tensor,
    border_type: str,
    anchor: Sequence[int] = (-1, -1),
    normalized: bool = True,
) -> bool:
    """Writes the result of `filter` into `out`. False, with nothing written, where no operator serves the call."""
    y, x = anchor
    try:
        if filter is filter2d_separable:
            _filter2d_separable(image, *args, border_type, y, x, out)
        elif filter is box_blur:
            _box2d(image, *args[0], border_type, normalized, y, x, out)
        elif filter is filter2d and args[0].numel() <= _MOST_TAPS:
            _filter2d(image, *args, border_type, y, x, out)
        else:
            return False
    except RuntimeError as error:  # the function's sentence names the function
        raise refusal_of(filter.__name__, error) from None
    return True
