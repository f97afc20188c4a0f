"""The float64 check: two crops of the image, computed tap by tap from the same buffer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from torch_conv.reference._extend import source_of

SIDE = {1: 4096, 2: 64, 3: 32}  # of a crop, by the number of spatial dimensions

Crop = tuple[tuple[slice, ...], Tensor]  # its place in the image, and its float64 values


def crops(
    x: Tensor,
    spatial: int,
    halo: int,
    border: str,
    reference: Callable[[Tensor], Tensor],
    out: torch.dtype,
    step: int = 1,
    chained: bool = False,
) -> list[Crop]:
    """Two crops of the last image of `x`: its first corner, with the border, and its middle, at every `step`.

    `reference` gets the crop with its halo, extended by the border beyond the image, and returns the crop. A `chained`
    reference gets a piece of the image, applies the border itself, and returns the whole piece; results near its inner
    edges are dropped. Results may have a dimension before the image's.
    """
    image = last_image(x, spatial)
    found = []
    for middle in (False, True):
        starts = [max(n - SIDE[spatial], 0) // 2 // step * step if middle else 0 for n in image.shape]
        stops = [min(start + SIDE[spatial], n) for start, n in zip(starts, image.shape, strict=True)]
        if chained:
            lows = [(start - halo) // step * step for start in starts]
            highs = [stop + halo for stop in stops]
            if border != "circular":  # a circular piece reads the far side
                lows = [max(low, 0) for low in lows]
                highs = [min(high, n) for high, n in zip(highs, image.shape, strict=True)]
            values = reference(extended(image, lows, highs, 0, border))
            for axis, (low, start, stop) in enumerate(zip(lows, starts, stops, strict=True), -spatial):
                values = values.narrow(axis, (start - low) // step, len(range(start, stop, step)))
        else:
            values = reference(extended(image, starts, stops, halo, border))
            kept = (slice(None),) * (values.dim() - spatial) + (slice(None, None, step),) * spatial
            values = values[kept]
        if not out.is_floating_point:
            limits = torch.iinfo(out)
            values = values.round().clamp(limits.min, limits.max)
        where = [slice(start // step, -(-stop // step)) for start, stop in zip(starts, stops, strict=True)]
        found.append(((slice(None),) * (values.dim() - spatial) + tuple(where), values))
    return found


def max_error(result: Tensor, expected: Sequence[Crop], ties: int = 0) -> float:
    """The largest difference on the crops of the result's last image, without the `ties` largest ones."""
    image = last_image(result, len(expected[0][0]))
    found = [(as_signed(image)[where].cpu().view(image.dtype).double() - e).abs().flatten() for where, e in expected]
    return float(torch.cat(found).topk(1 + ties).values[-1])


def last_image(x: Tensor, spatial: int) -> Tensor:
    return x[(-1,) * (x.dim() - spatial)]


def extended(image: Tensor, starts: Sequence[int], stops: Sequence[int], halo: int, border: str) -> Tensor:
    """The crop [starts, stops) with `halo` more pixels on every side, beyond the image as the border says; float64."""
    piece, outside = as_signed(image), []
    for axis, (start, stop, n) in enumerate(zip(starts, stops, image.shape, strict=True)):
        index = torch.arange(start - halo, stop + halo)
        outside.append(torch.nonzero((index < 0) | (index >= n))[:, 0])
        piece = piece.index_select(axis, source_of(index, n, border).to(image.device))
    piece = piece.cpu().view(image.dtype).double()
    if border == "constant":
        for axis, index in enumerate(outside):
            piece.index_fill_(axis, index, 0.0)
    return piece


def correlate(piece: Tensor, window: Tensor) -> Tensor:
    """Sums tap by tap, for pixels whose kernel lies fully inside."""
    sizes = [n - k + 1 for n, k in zip(piece.shape, window.shape, strict=True)]
    total = torch.zeros(sizes, dtype=torch.float64)
    for tap in itertools.product(*map(range, window.shape)):
        total.add_(piece[tuple(slice(i, i + n) for i, n in zip(tap, sizes, strict=True))], alpha=float(window[tap]))
    return total


def correlate_axes(piece: Tensor, taps: Tensor) -> Tensor:
    """`correlate` with the same taps along every axis in turn."""
    for axis in range(piece.dim()):
        piece = correlate(piece, taps.view([-1 if a == axis else 1 for a in range(piece.dim())]))
    return piece


def as_signed(x: Tensor) -> Tensor:
    """The same bits as int16, because torch neither adds nor indexes uint16."""
    return x.view(torch.int16) if x.dtype == torch.uint16 else x
