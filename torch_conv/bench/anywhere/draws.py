"""From a seed to calls: a pure function, the same on every machine with the same limits."""

from __future__ import annotations

import inspect
import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import torch

import torch_conv
from torch_conv.bench.anywhere.call import Call
from torch_conv.bench.anywhere.filters import FILTERS, Arguments
from torch_conv.bench.anywhere.layers import LAYERS
from torch_conv.bench.anywhere.work import bytes_moved, footprint, multiply_adds, spatial, window_sizes
from torch_conv.dispatch.borders import BORDERS
from torch_conv.dispatch.formats import DTYPES

CALLS = 8  # of a cell
FAMILIES = {**FILTERS, **LAYERS}
# In the order of the tables.
ORDERED = sorted(DTYPES, key=lambda dtype: (not dtype.is_floating_point, str(dtype)))
NO_GRADIENT = ("causal_conv1d_update",)
MOST_DRAWS = 50  # of a call, until its window suits its image
LEAST_SIDE = 16  # an image is not shrunk below it


@dataclass(frozen=True)
class Limits:
    """The largest call that a machine is asked for; larger images are shrunk."""

    bytes: float = float("inf")  # read and written
    multiply_adds: float = float("inf")


Cell = tuple[str, torch.dtype]


def cells(backward: bool = False) -> list[Cell]:
    """Function and dtype of all calls that the library takes; with a gradient if `backward`."""
    return [
        (name, dtype)
        for name in torch_conv.functional.__all__
        for dtype in ORDERED
        if dtype.is_floating_point or not (backward or name in LAYERS)
        if not (backward and name in NO_GRADIENT)
    ]


def draw(
    seed: int, limits: Limits | None = None, *, backward: bool = False, families: Collection[str] = (), calls: int = 0
) -> list[Call]:
    """The calls of a seed: `CALLS` of each cell, or the first `calls` of them.

    One call of each cell comes first, then the next of each, so a part of the list has all cells before it repeats
    one. A call depends on the seed, its cell and its number alone.
    """
    wanted = [cell for cell in cells(backward) if not families or cell[0] in families]
    rounds = max(CALLS, -(-calls // max(1, len(wanted))))
    drawn: list[Call] = []
    for number in range(rounds):
        order = random.Random(f"{seed} {number}").sample(wanted, len(wanted))
        for cell in order:
            if calls and len(drawn) == calls:
                return drawn
            drawn.append(one(seed, cell, number, limits or Limits(), backward))
    return drawn


def one(seed: int, cell: Cell, number: int, limits: Limits, backward: bool = False) -> Call:
    function, dtype = cell
    family, rng = FAMILIES[function], random.Random(f"{seed} {function} {dtype} {number}")
    for _ in range(MOST_DRAWS):
        source = family.source(rng, dtype)
        given = family.draw(rng, source, dtype)
        with_border(rng, given, cell, number, backward)
        call = Call(
            function,
            dtype,
            number,
            source.name,
            source.shape,
            source.layout,
            given.options,
            given.tensors,
            given.on_host,
            backward,
        )
        fitting = fitted(call, limits)
        if fitting is not None:
            return fitting
    raise AssertionError(f"no drawn window of {function} suits its image")


def with_border(rng: random.Random, given: Arguments, cell: Cell, number: int, backward: bool) -> None:
    """Every second call has the function's own border. The others of a function go through all borders in turn."""
    function, dtype = cell
    if "border_type" not in inspect.signature(getattr(torch_conv, function)).parameters:
        return
    if number % 2:
        border = BORDERS[(number // 2 + ORDERED.index(dtype) * (CALLS // 2) * (1 + backward)) % len(BORDERS)]
        given.options["border_type"] = border
        if border == "constant" and rng.random() < 0.3:
            given.options["value"] = 0.5 if dtype.is_floating_point else 100.0
        if border == "skip" and any(taps.kind not in ("smooth", "smooth row") for taps in given.tensors.values()):
            given.options.pop("normalized", None)  # the taps inside might sum to 0
    elif rng.random() < 0.15:
        given.options["padding"] = "valid"


def fitted(call: Call, limits: Limits) -> Call | None:
    """The call with an image as small as the limits ask for; None if its window does not suit the image."""
    if not suits(call):
        return None
    while bytes_moved(call) > limits.bytes or multiply_adds(call) > limits.multiply_adds:
        smaller = next((each for each in shrunk(call) if suits(each)), None)
        if smaller is None:  # many channels, or a large window
            return call
        call = smaller
    return call


def suits(call: Call) -> bool:
    """Whether the window is no larger than the image, as people's windows are."""
    sizes = spatial(call)
    return all(k <= n for k, n in zip(footprint(call), sizes, strict=True))


def shrunk(call: Call) -> Iterator[Call]:
    """The call with half of its samples, frames or slices; then of its larger side, which stays odd or even."""
    lead = len(call.shape) - call.axes
    for axis in range(lead if call.function in FILTERS else 1):  # a layer keeps its channels
        if call.shape[axis] > 4 or (call.function in LAYERS and call.shape[axis] > 1):
            yield resized(call, axis, call.shape[axis] // 2)
    order = sorted(range(lead, len(call.shape)), key=lambda axis: -call.shape[axis])
    for axis in order:
        if (half := call.shape[axis] // 2) >= LEAST_SIDE:
            yield resized(call, axis, half | call.shape[axis] % 2)


def resized(call: Call, axis: int, size: int) -> Call:
    shape = (*call.shape[:axis], size, *call.shape[axis + 1 :])
    tensors = dict(call.tensors)
    for key, taps in tensors.items():
        own = {"conv_state": 1, "kernel": len(taps.shape) - len(window_sizes(call))}.get(key, 0)
        if axis < own and taps.shape[axis] > 1:
            tensors[key] = replace(taps, shape=(*taps.shape[:axis], size, *taps.shape[axis + 1 :]))
    return replace(call, shape=shape, tensors=tensors)
