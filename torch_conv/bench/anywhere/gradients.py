"""Gradients of drawn calls in their image: what is timed, and the values that they are checked against.

The incoming gradient is given. The forward pass is prepared, not timed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_conv.bench.anywhere.call import Call
from torch_conv.bench.anywhere.checking import SIDE, Piece, axes_of, expected, narrowed, parts_of
from torch_conv.bench.anywhere.work import footprint, output_step, spatial
from torch_conv.bench.common import Candidate


def gradient_of(candidate: Candidate) -> Candidate:
    """The candidate's gradient in the image. A CUDA graph cannot capture it: its forward pass ran outside."""

    def prepare(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        image = x.detach().requires_grad_()
        result = candidate.result(candidate.call(candidate.prepare(image)))
        return image, result, incoming(result)

    def run(prepared: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        image, result, gradient = prepared
        (found,) = torch.autograd.grad(result, image, gradient, retain_graph=True)
        return found

    return replace(candidate, call=run, prepare=prepare, result=lambda y: y, graph=False)


def incoming(result: Tensor) -> Tensor:
    """A gradient for the result: noise that only its shape decides."""
    generator = torch.Generator(result.device).manual_seed(1)
    return torch.rand(result.shape, generator=generator, device=result.device).to(result.dtype) - 0.5


def gradient_pieces(call: Call, x: Tensor, given: dict[str, Any]) -> list[Piece]:
    """The expected gradient at the first corner, the middle and the last corner of the last image."""
    with torch.no_grad():
        result = call.bound(x.device)(x)
    gradient = incoming(result)
    return [piece_at(call, x, given, gradient, part) for part in parts_of(call, given)]


def piece_at(call: Call, x: Tensor, given: dict[str, Any], gradient: Tensor, part: float) -> Piece:
    """The reference's gradient on a piece with two footprints around: one for the results, one for their own pixels."""
    wraps = given.get("border_type") == "circular" or given.get("padding_mode") == "circular"
    taken = narrowed(call, x, given)
    piece, flowing = taken.image, gradient[taken.where]
    where = [slice(None)] * x.dim()
    inner = list(where)
    for dim, n, s, f in zip(axes_of(call), spatial(call), output_step(call), footprint(call), strict=True):
        side, halo = SIDE[len(axes_of(call))], 2 * -(-f // s) * s
        start = int(max(0, n - side) * part)
        low, high = max(0, start - halo) // s * s, min(n, start + side + halo)
        if wraps and s == 1 and n > side + 2 * halo:
            low, high = start - halo, start + side + halo
        elif wraps:  # the far side flows in, too
            low, high = 0, n
        piece = piece.index_select(dim, torch.arange(low, high, device=x.device).remainder(n))
        following = torch.arange(low // s, low // s + flowing.shape[dim], device=x.device)
        flowing = flowing.index_select(dim, following.remainder(flowing.shape[dim]))
        inner[dim] = slice(start - low, start - low + side)
        where[dim] = slice(start, start + side)
    leaf = piece.cpu().double().requires_grad_()
    result = expected(call, leaf, taken.given)
    for dim in axes_of(call):
        flowing = flowing.narrow(dim, 0, result.shape[dim])
    (found,) = torch.autograd.grad(result, leaf, flowing.cpu().double())
    return Piece(lead_of(call, x, piece, where), found[tuple(inner)], scale_of(found), 0)


def lead_of(call: Call, x: Tensor, piece: Tensor, where: list[slice]) -> tuple[slice, ...]:
    """The piece's place in the image: the last ones of what was narrowed to fewer."""
    dims = {dim % x.dim() for dim in axes_of(call)}
    return tuple(where[d] if d in dims else slice(-piece.shape[d], None) for d in range(x.dim()))


def scale_of(found: Tensor) -> float:
    return max(1.0, float(found.abs().nan_to_num(posinf=0.0).max()))
