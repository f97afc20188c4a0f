"""`extend` pads an image by its border policy. `fold`, its adjoint, adds the gradients of pads to their source pixels.

Both consist of slices, so they are differentiable, and their sums have a fixed order. In eager mode torch's padding
operators replace the slices where they can, because they take less host time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_conv.autograd._node import runs_eagerly
from torch_conv.sharding.geometry import runs_of


class _Run(NamedTuple):
    """Positions [at, at + size) of the extended axis. Position `at + i` reads the pixel `first + i * step`."""

    at: int
    size: int
    first: int
    step: int

    @property
    def source(self) -> tuple[int, int]:
        """The lowest pixel that the run reads, and the number of pixels."""
        return self.first - (self.size - 1 if self.step < 0 else 0), self.size if self.step else 1


def _runs(border: str, n: int, before: int, after: int) -> list[_Run]:
    """The runs before and after an axis of n pixels, in order.

    C++ (sharding/geometry.h) maps borders of known sizes only. These formulas also serve sizes that torch.compile holds
    as symbols, and `fold` sums the pixels of one run at once.
    """
    if border not in ("replicate", "circular", "reflect", "symmetric"):
        raise ValueError(f"extend: no runs for border {border!r}")
    if border == "replicate" or n == 1:
        runs = [_Run(-before, before, 0, 0), _Run(n, after, n - 1, 0)]
    elif border == "circular" and before <= n and after <= n:
        runs = [_Run(-before, before, n - before, 1), _Run(n, after, 0, 1)]
    elif border == "reflect" and before < n and after < n:
        runs = [_Run(-before, before, before, -1), _Run(n, after, n - 2, -1)]
    elif border == "symmetric" and before <= n and after <= n:
        runs = [_Run(-before, before, before - 1, -1), _Run(n, after, n - 1, -1)]
    else:
        runs = _far_runs(border, int(n), int(before), int(after))
    return [run for run in runs if run.size > 0]


def _far_runs(border: str, n: int, before: int, after: int) -> list[_Run]:
    """The runs of pads that are larger than the image."""
    found: list[_Run] = []
    for at, end in ((-before, 0), (n, n + after)):
        for run in runs_of(at, end, [0, n], border):
            if run.step == 0:  # one run a pixel, so that `fold` adds pixel by pixel
                found += [_Run(at + i, 1, run.first, 1) for i in range(run.count)]
            else:
                found.append(_Run(at, run.count, run.first + (run.count - 1) * (run.step < 0), run.step))
            at += run.count
    return found


def _read(image: Tensor, dim: int, run: _Run) -> Tensor:
    pixels = image.narrow(dim, *run.source)
    if run.step == 0:
        shape = list(image.shape)
        shape[dim] = run.size
        return pixels.expand(shape)
    return pixels.flip(dim) if run.step < 0 else pixels


_FOLDS = {
    "reflect": torch.ops.aten.reflection_pad2d_backward.default,
    "replicate": torch.ops.aten.replication_pad2d_backward.default,
}


def _torch_can_pad(border: str, sizes: Sequence[int], before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether torch's padding operators give the same extension."""
    if border not in _FOLDS or len(sizes) != 2 or min(*before, *after) < 0:
        return False
    return all(n > 0 and (border == "replicate" or max(b, a) < n) for n, b, a in zip(sizes, before, after, strict=True))


def extend(image: Tensor, border: str, value: float, before: Sequence[int], after: Sequence[int]) -> Tensor:
    """Pads the last axes by `before` and `after` pixels; a negative `after` crops."""
    axes = len(before)
    if border == "constant":
        return F.pad(
            image, [n for pair in zip(reversed(before), reversed(after), strict=True) for n in pair], "constant", value
        )
    if image.dim() in (3, 4) and _torch_can_pad(border, image.shape[-axes:], before, after) and runs_eagerly(image):
        return F.pad(image, [before[1], after[1], before[0], after[0]], border)
    for dim, b, a in zip(range(-axes, 0), before, after, strict=True):
        n = image.shape[dim]
        runs = _runs(border, n, b, a if a > 0 else 0)
        middle = image if a >= 0 else image.narrow(dim, 0, n + a)
        if runs:
            left = [_read(image, dim, run) for run in runs if run.at < 0]
            image = torch.cat([*left, middle, *(_read(image, dim, run) for run in runs if run.at >= 0)], dim)
        else:
            image = middle
    return image


def fold(extended: Tensor, border: str, sizes: Sequence[int], before: Sequence[int]) -> Tensor:
    """The adjoint of the linear part of `extend`: an image of `sizes`."""
    axes = len(sizes)
    # Host time of torch's operator and of the slices: 10 and 47 us for 2x3x8x8, 49 and 55 us for 2x3x64x64. On CUDA
    # the order of the operator's sums is not fixed.
    if extended.is_cpu and extended.dim() in (3, 4) and extended.numel() < 1 << 14 and runs_eagerly(extended):
        after = [extended.shape[dim - axes] - b - n for dim, n, b in zip(range(axes), sizes, before, strict=True)]
        if _torch_can_pad(border, sizes, before, after):
            image = extended.narrow(-2, before[0], sizes[0]).narrow(-1, before[1], sizes[1])
            return _FOLDS[border](extended, image, [before[1], after[1], before[0], after[0]])
    for dim, n, b in reversed(list(zip(range(-axes, 0), sizes, before, strict=True))):
        length = extended.shape[dim]
        a = length - b - n
        image = extended.narrow(dim, b, n + a if a < 0 else n)
        if a < 0:
            image = F.pad(image, [0, 0] * (-dim - 1) + [0, -a])
        runs = [] if border == "constant" else _runs(border, n, b, a if a > 0 else 0)
        if runs:
            image = image.clone()
        for run in runs:
            pad = extended.narrow(dim, b + run.at, run.size)
            pad = pad.sum(dim, keepdim=True) if run.step == 0 else pad.flip(dim) if run.step < 0 else pad
            image.narrow(dim, *run.source).add_(pad)
        extended = image
    return extended
