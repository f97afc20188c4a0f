"""Chains of separable kernels step by step: by cuDNN, by shifted slices, or by our own filters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_conv

MOST_DENSE = {2: 5, 3: 3}  # by spatial dimensions: up to so many taps an axis one dense kernel is faster in cuDNN


class Windows:
    """Separable windows of one odd size, each as rows of float64 taps in the order of the axes: (z,) y, x.

    `step`: distance of the computed pixels along every axis.
    """

    def __init__(self, *windows: Sequence[Tensor], step: int = 1) -> None:
        self.windows, self.step = windows, step
        self.spatial, self.size = len(windows[0]), windows[0][0].numel()
        self.taps = [[taps.tolist() for taps in window] for window in windows]
        self.rows = [[taps.float() for taps in window] for window in windows]
        self.count = sum(t != 0 for window in self.taps for taps in window for t in taps)  # taps that are not 0
        self._made: dict[tuple[torch.dtype, torch.device], tuple[Tensor, list[list[Tensor]]]] = {}

    def made_for(self, x: Tensor) -> tuple[Tensor, list[list[Tensor]]]:
        """All kernels as one weight, and each pass as a weight; made once per dtype and device."""
        key = (x.dtype, x.device)
        if key not in self._made:
            whole, passes = [], []
            for window in self.windows:
                axes = [t.view([-1 if a == axis else 1 for a in range(self.spatial)]) for axis, t in enumerate(window)]
                product = axes[0]
                for taps in axes[1:]:
                    product = product * taps
                whole.append(product)
                passes.append([t[None, None].to(x) for t in axes])
            self._made[key] = torch.stack(whole)[:, None].to(x), passes
        return self._made[key]

    def padded(self, x: Tensor, border: str) -> Tensor:
        return F.pad(x, (self.size // 2,) * (2 * self.spatial), mode=border)


# (images (N, 1, ...), kernels, border) -> an image for every kernel.
Engine = Callable[[Tensor, Windows, str], list[Tensor]]


def by_conv(x: Tensor, w: Windows, border: str) -> list[Tensor]:
    """F.conv2d or F.conv3d: all kernels at once, or for large kernels a pass per axis."""
    conv: Callable[..., Tensor] = F.conv2d if w.spatial == 2 else F.conv3d
    whole, passes = w.made_for(x)
    x = w.padded(x, border)
    if w.size <= MOST_DENSE[w.spatial]:
        return list(conv(x, whole, stride=w.step).split(1, dim=1))
    out = []
    for window in passes:
        y = x
        for weight in reversed(window):
            y = conv(y, weight, stride=[1 if n == 1 else w.step for n in weight.shape[2:]])
        out.append(y)
    return out


def by_slices(x: Tensor, w: Windows, border: str) -> list[Tensor]:
    """A pass per axis as a sum of shifted slices, which torch.compile turns into one kernel."""
    x, out = w.padded(x, border), []
    for window in w.taps:
        y = x
        for axis in range(-1, -1 - w.spatial, -1):
            n = y.shape[axis] - w.size + 1
            terms = [t * y.narrow(axis, i, n) for i, t in enumerate(window[axis]) if t != 0]
            y = terms[0]
            for term in terms[1:]:
                y = y + term
            y = y.movedim(axis, 0)[:: w.step].movedim(0, axis)
        out.append(y)
    return out


def by_ours(x: Tensor, w: Windows, border: str) -> list[Tensor]:
    """A filter of this library for every kernel."""
    function: Callable[..., Tensor] = torch_conv.filter2d_separable if w.spatial == 2 else torch_conv.filter3d_separable
    return [function(x, *reversed(window), border, stride=w.step) for window in w.rows]


def magnitude(parts: Sequence[Tensor], eps: float = 0.0) -> Tensor:
    """The root of the sum of squares, in as few steps as torch has for it."""
    if len(parts) == 2 and eps == 0:
        return torch.hypot(parts[0], parts[1])
    total = parts[0].square()
    for part in parts[1:]:
        total = total.addcmul_(part, part)
    return (total.add_(eps) if eps else total).sqrt_()


def rounded_to(dtype: torch.dtype, y: Tensor) -> Tensor:
    if dtype.is_floating_point:
        return y.to(dtype)
    limits = torch.iinfo(dtype)
    return y.round().clamp(limits.min, limits.max).to(dtype)
