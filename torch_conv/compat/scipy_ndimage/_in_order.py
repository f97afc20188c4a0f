"""scipy's sums on the CPU: one operator sums in scipy's order and stores each pass by a cast of C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_conv.compat.scipy_ndimage._arrays import Kind
from torch_conv.compat.scipy_ndimage._sums import Border, Weights, Window
from torch_conv.dispatch.borders import BORDERS
from torch_conv.dispatch.explain import note, recording
from torch_conv.functional._refusals import refusal_of


def passes(values: Tensor, lines: Sequence[tuple[Window, Border]], kind: Kind) -> Tensor:
    """The image correlated along one axis after the other."""
    return _run(
        "_stepwise_passes",
        values,
        kind,
        [window.weights.size for window, _ in lines],
        [_doubles(window.weights.reshape(-1)) for window, _ in lines],
        [window.twins for window, _ in lines],
        [window.axis for window, _ in lines],
        [max(window.anchor) for window, _ in lines],
        [BORDERS.index(border.name) for _, border in lines],
        lines[0][1].value,
    )


def means(values: Tensor, boxes: Sequence[tuple[int, int, int, Border]], kind: Kind) -> Tensor:
    """The image's means over boxes of a size, an axis and an origin."""
    sizes, axes, origins, borders = zip(*boxes, strict=True)
    anchors = [size // 2 + origin for size, origin in zip(sizes, origins, strict=True)]
    names = [BORDERS.index(border.name) for border in borders]
    # Neighbouring outputs share sums. The operator decides how many additions that saves.
    return _run("_stepwise_means", values, kind, [None] * len(boxes), sizes, axes, anchors, names, borders[0].value)


def window(values: Tensor, window: Window, border: Border, kind: Kind) -> Tensor:
    """The image correlated with a kernel along all axes."""
    name = BORDERS.index(border.name)
    terms = [int(np.count_nonzero(window.weights))]  # taps of 0 are left out
    return _run("_stepwise_window", values, kind, terms, _doubles(window.weights), window.anchor, name, border.value)


def _run(operator: str, values: Tensor, kind: Kind, terms: Sequence[int | None], *args: Any) -> Tensor:
    """Calls an operator, or notes its line for `explain`. `terms` are the multiplications of an output in each pass."""
    if recording():
        result = torch.empty(values.shape, dtype=kind.stored, device="cpu")
        moved = values.nbytes + result.nbytes  # one read of the input, one write of the output
        known = [n for n in terms if n is not None]
        flops = f", flops {2 * sum(known) * values.numel()}" if len(known) == len(terms) else ""
        note(
            f"{operator.removeprefix('_')}: stepwise/tiles (sums of float64 in scipy's order); "
            f"launches {len(terms)}; bytes {moved}{flops}"
        )
        return result
    try:
        result = getattr(torch.ops.torch_conv, operator)(values.contiguous(), *args, kind.stored)
    except RuntimeError as error:
        raise refusal_of("scipy_ndimage", error) from None
    return result


def _doubles(weights: Weights) -> Tensor:
    return torch.from_numpy(weights.copy())  # from_numpy takes no reversed array
