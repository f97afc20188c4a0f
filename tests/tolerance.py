"""The largest difference of a result from the exact one: one table per dtype, one per algorithm.

With `exact` the float64 result and `scale` the same sum over |taps| * |pixels|, a result passes if

    |got - exact| <= steps(algorithm) * unit(accumulation dtype) * scale  +  rounding(output dtype).

The first term is the textbook bound of a chain of that many roundings, so it cannot fail by bad luck.
"""

import math
from typing import NamedTuple

import torch


class Rounding(NamedTuple):
    """Largest error of the last rounding: `relative` to the result, but at least `absolute`."""

    relative: float
    absolute: float


ROUNDING = {
    torch.float64: Rounding(2.0**-53, 2.0**-1075),
    torch.float32: Rounding(2.0**-24, 2.0**-150),
    torch.float16: Rounding(2.0**-11, 2.0**-25),
    torch.bfloat16: Rounding(2.0**-8, 2.0**-134),
    torch.uint8: Rounding(0.0, 0.5),
    torch.int16: Rounding(0.0, 0.5),
    torch.uint16: Rounding(0.0, 0.5),
}

# The unit roundoff of the accumulation, by image dtype. The oracle itself rounds in float64: hence twice.
UNIT = {dtype: 2.0**-24 for dtype in ROUNDING} | {torch.float64: 2 * 2.0**-53}

# Roundings on the longest path, by algorithm, for a window of `size` taps along each axis over `channels` input
# channels. The constants cover the conversion and normalisation of taps and the bias.
STEPS = {
    "direct": lambda size, channels: math.prod(size) * channels + 4,
    # Products of matrices: sums of zeros too, in an order of the hardware's, whose additions may cut instead of round.
    "tensor_core": lambda size, channels: 4 * math.prod(size) * channels + 64,
    "separable": lambda size, channels: sum(size) + 8,
    # Both passes so, of taps and sums in two parts of 16 bits, whose smallest products are left out: of float16's parts
    # a few units, of bfloat16's up to 2**-15.
    "banded": lambda size, channels: 4 * sum(size) + 64,
    "banded bfloat16": lambda size, channels: 4 * sum(size) + 64 + 2**9,
    "box": lambda size, channels: sum(size) + 8,
    # Two passes with a nonlinear step between or after them (gradients and their magnitudes).
    "composed": lambda size, channels: 2 * sum(size) + 32,
}

INTEGER_RANGE = {torch.uint8: (0, 255), torch.int16: (-32768, 32767), torch.uint16: (0, 65535)}


def allowed(exact, scale, *, out_dtype, in_dtype, algorithm, window, channels=1):
    """The bound of the module's docstring, element by element, in float64."""
    sums = STEPS[algorithm](window, channels) * UNIT[in_dtype] * scale
    last = ROUNDING[out_dtype]
    return sums + torch.clamp((exact.abs() + sums) * last.relative, min=last.absolute)


def assert_within(got, exact, scale, *, in_dtype, algorithm, window, channels=1):
    """Compares `got` (any dtype, any device) with the float64 tensors `exact` and `scale`."""
    got_dtype, got = got.dtype, got.detach().cpu().double()
    assert got.shape == exact.shape, f"shape {tuple(got.shape)}, expected {tuple(exact.shape)}"
    if got_dtype in INTEGER_RANGE:
        exact = exact.clamp(*INTEGER_RANGE[got_dtype])
    bound = allowed(
        exact, scale, out_dtype=got_dtype, in_dtype=in_dtype, algorithm=algorithm, window=window, channels=channels
    )
    error = (got - exact).abs()
    wrong = ~(error <= bound)
    if wrong.any():
        at = tuple(int(i) for i in wrong.nonzero()[0])
        raise AssertionError(
            f"{int(wrong.sum())} of {wrong.numel()} elements are off, the first at {at}: got {got[at].item()!r}, "
            f"exact {exact[at].item()!r}, error {error[at].item():.3e} > {bound[at].item():.3e}"
        )


def assert_same_bits(got, expected):
    """Equal to the last bit but for the sign of a zero, NaN equal to NaN; devices and layouts may differ."""
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    got, expected = got.detach().cpu(), expected.detach().cpu()
    same = (got == expected) | ((got != got) & (expected != expected))
    if not same.all():
        at = tuple(int(i) for i in (~same).nonzero()[0])
        raise AssertionError(
            f"{int((~same).sum())} of {same.numel()} elements differ, the first at {at}: "
            f"{got[at].item()!r} and {expected[at].item()!r}"
        )
