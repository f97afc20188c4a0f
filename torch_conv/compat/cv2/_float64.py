"""The filters of images that are written as float64 on the CPU, with sums in float64 whatever the image's dtype.

Operators of their own read the image as it is. The bits are those of the filter over a float64 copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_conv.functional._calls import refusal_of
from torch_conv.functional.filters import box_blur, filter2d, filter2d_separable

_filter2d = torch.ops.torch_conv._filter2d_in_float64.default
_filter2d_separable = torch.ops.torch_conv._filter2d_separable_in_float64.default
_box2d = torch.ops.torch_conv._box2d_in_float64.default

# With more taps filter2d looks at the window's values, and may take fewer sums.
_MOST_TAPS = 80
_MIDDLE = (-1, -1)
Into = Callable[..., None]


def _filter(image: Tensor, window: Tensor, border_type: str, anchor: Sequence[int], out: Tensor) -> None:
    _filter2d(image, window, border_type, *anchor, out)


def _passes(image: Tensor, x: Tensor, y: Tensor, border_type: str, anchor: Sequence[int], out: Tensor) -> None:
    _filter2d_separable(image, x, y, border_type, *anchor, out)


def _box(
    image: Tensor, size: Sequence[int], border_type: str, anchor: Sequence[int], out: Tensor, normalized: bool
) -> None:
    _box2d(image, *size, border_type, normalized, *anchor, out)


_INTO: dict[Any, Into] = {filter2d: _filter, filter2d_separable: _passes, box_blur: _box}
_NAMES = {_filter: "filter2d", _passes: "filter2d_separable", _box: "box_blur"}


def operator_for(filter: Callable[..., Tensor], args: Sequence[Any]) -> Into | None:
    """The operator that computes what `filter` does with these arguments, or None."""
    if filter is filter2d and args[0].numel() > _MOST_TAPS:
        return None
    return _INTO.get(filter)


def run(
    operator: Into, image: Tensor, *args: Any, out: Tensor, border_type: str, anchor: Any = _MIDDLE, **options: Any
) -> None:
    """Refuses what the function refuses, in its words."""
    try:
        operator(image, *args, border_type, anchor, out, **options)
    except RuntimeError as error:
        raise refusal_of(_NAMES[operator], error) from None
