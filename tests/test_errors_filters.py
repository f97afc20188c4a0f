"""Refusals of the filters of images: one literal sentence each."""

from __future__ import annotations

import pytest
import torch
from refusals import BORDERS, DTYPES, TAP_DTYPES, check_operator, check_type, check_value, flatten, ones
from strategies import make_image, make_window

import torch_conv

# (positional arguments, keyword arguments, the sentence without the function's name); images and windows are moved
# to the tested device.
FILTER2D = [
    ((ones(5), ones(3, 3)), {}, "input must have at least 2 dimensions, got 1"),
    ((ones(4, 5), ones(3)), {}, "kernel must have 2, 3 or 4 dimensions, got 1"),
    ((ones(4, 5), ones(1, 1, 1, 3, 3)), {}, "kernel must have 2, 3 or 4 dimensions, got 5"),
    ((ones(4, 5), ones(0, 3)), {}, "kernel must have at least one tap, got shape (0, 3)"),
    ((ones(4, 5), ones(1, 3, 0)), {}, "kernel must have at least one tap, got shape (1, 3, 0)"),
    (
        (ones(2, 3, 4, 5), ones(3, 3, 3)),
        {},
        "kernel's first dimension must be 1 or the batch size 2, got 3; for channels give (1, 3, 3, 3)",
    ),
    ((ones(2, 3, 4, 5), ones(4, 3, 3)), {}, "kernel's first dimension must be 1 or the batch size 2, got 4"),
    (
        (ones(2, 3, 4, 5), ones(2, 2, 3, 3)),
        {},
        "kernel's second dimension must be 1 or the 3 channels of the input, got 2",
    ),
    (
        (ones(1, 2, 3, 4, 5), ones(2, 3, 3)),
        {},
        "kernel must be one shared window where the input has more than 4 dimensions, got shape (2, 3, 3)",
    ),
    ((ones(4, 5), ones(3, 3)), {"border_type": "clamp"}, f"border_type must be {BORDERS}, got 'clamp'"),
    ((ones(4, 5), ones(3, 3)), {"border_type": "Reflect"}, f"border_type must be {BORDERS}, got 'Reflect'"),
    ((ones(4, 5), ones(3, 3)), {"padding": "full"}, "padding must be 'same' or 'valid', got 'full'"),
    ((ones(4, 5), ones(3, 3)), {"behaviour": "convolve"}, "behaviour must be 'corr' or 'conv', got 'convolve'"),
    (
        (ones(4, 5), ones(3, 3)),
        {"algorithm": "best"},
        "algorithm must be 'auto', 'direct', 'tensor_core', 'fft' or 'low_rank', got 'best'",
    ),
    (
        (ones(4, 5), ones(3, 3)),
        {"algorithm": "fft", "dilation": (1, 8192)},
        "algorithm 'fft' cannot serve this call: the window spans 3x16385 pixels, more than 16384 along an axis",
    ),
    (
        (ones(4, 5), ones(3, 3)),
        {"anchor": (0, 3)},
        "anchor must lie in the window (0 to 2, or -1 for the middle), got 3",
    ),
    (
        (ones(4, 5), ones(3, 3)),
        {"anchor": -2},
        "anchor must lie in the window (0 to 2, or -1 for the middle), got -2",
    ),
    ((ones(4, 5), ones(3, 3)), {"stride": 0}, "stride must be at least 1, got 0"),
    ((ones(4, 5), ones(3, 3)), {"stride": (1, -1)}, "stride must be at least 1, got -1"),
    ((ones(4, 5), ones(3, 3)), {"dilation": 0}, "dilation must be at least 1, got 0"),
    (
        (ones(4, 5), ones(3, 6)),
        {"padding": "valid"},
        "a window of 3x6 does not fit into an image of 4x5 with padding='valid'",
    ),
    (
        (ones(4, 5), ones(3, 3)),
        {"padding": "valid", "dilation": 2},
        "a window of 5x5 does not fit into an image of 4x5 with padding='valid'",
    ),
]
FILTER2D_SEPARABLE = [
    ((ones(5), ones(3), ones(3)), {}, "input must have at least 2 dimensions, got 1"),
    ((ones(4, 5), ones(1, 1, 1, 3), ones(3)), {}, "kernel_x must have 1, 2 or 3 dimensions, got 4"),
    ((ones(4, 5), ones(3), ones(1, 1, 1, 3)), {}, "kernel_y must have 1, 2 or 3 dimensions, got 4"),
    ((ones(4, 5), ones(0), ones(3)), {}, "kernel_x must have at least one tap, got shape (0,)"),
    ((ones(2, 1, 4, 5), ones(3, 3), ones(3)), {}, "kernel_x's first dimension must be 1 or the batch size 2, got 3"),
    ((ones(4, 5), ones(3), ones(3)), {"border_type": "none"}, f"border_type must be {BORDERS}, got 'none'"),
    ((ones(4, 5), ones(3), ones(3)), {"padding": "full"}, "padding must be 'same' or 'valid', got 'full'"),
    (
        (ones(4, 5), ones(3), ones(3)),
        {"algorithm": "direct"},
        "algorithm must be 'auto', 'fused', 'separable' or 'tensor_core', got 'direct'",
    ),
    (
        (ones(4, 5), ones(3), ones(5)),
        {"anchor": (5, 0)},
        "anchor must lie in the window (0 to 4, or -1 for the middle), got 5",
    ),
    ((ones(4, 5), ones(3), ones(3)), {"stride": 0}, "stride must be at least 1, got 0"),
    ((ones(4, 5), ones(3), ones(3)), {"dilation": (2, 0)}, "dilation must be at least 1, got 0"),
    (
        (ones(4, 5), ones(3), ones(7)),
        {"padding": "valid"},
        "a window of 7x3 does not fit into an image of 4x5 with padding='valid'",
    ),
]
BOX_BLUR = [
    ((ones(5), (3, 3)), {}, "input must have at least 2 dimensions, got 1"),
    ((ones(4, 5), (0, 3)), {}, "kernel_size must be at least 1, got 0"),
    ((ones(4, 5), (3, -3)), {}, "kernel_size must be at least 1, got -3"),
    ((ones(4, 5), (3, 3)), {"border_type": "none"}, f"border_type must be {BORDERS}, got 'none'"),
    ((ones(4, 5), (3, 3)), {"algorithm": "direct"}, "algorithm must be 'auto', 'box' or 'separable', got 'direct'"),
    (
        (ones(4, 5), (3, 3)),
        {"anchor": (3, 0)},
        "anchor must lie in the window (0 to 2, or -1 for the middle), got 3",
    ),
    (
        (ones(4, 5), (3, 9)),
        {"padding": "valid"},
        "a window of 3x9 does not fit into an image of 4x5 with padding='valid'",
    ),
]
CASES = {"filter2d": FILTER2D, "filter2d_separable": FILTER2D_SEPARABLE, "box_blur": BOX_BLUR}
OPERATORS = {"box_blur": "box2d"}
GOOD_CALLS = {
    "filter2d": lambda x: torch_conv.filter2d(x, make_window((3, 3))),
    "filter2d_separable": lambda x: torch_conv.filter2d_separable(x, make_window((3,)), make_window((3,))),
    "box_blur": lambda x: torch_conv.box_blur(x, 3),
}


@pytest.mark.parametrize(("name", "args", "kwargs", "sentence"), flatten(CASES))
def test_bad_values(device, name, args, kwargs, sentence):
    good = make_image((4, 5), device=device)
    check_value(device, name, args, kwargs, sentence, lambda: GOOD_CALLS[name](good))


@pytest.mark.parametrize(("name", "args", "kwargs", "sentence"), flatten(CASES))
def test_operators_say_the_same(device, name, args, kwargs, sentence):
    check_operator(device, OPERATORS.get(name, name), args, kwargs, sentence)


TYPES = [
    ("filter2d", (ones(4, 5), ones(3, 3, dtype=torch.bool)), {}, f"kernel must have dtype {TAP_DTYPES}, got bool"),
    ("filter2d", (ones(4, 5, dtype=torch.int32), ones(3, 3)), {}, f"input must have dtype {DTYPES}, got int32"),
    (
        "filter2d_separable",
        (ones(4, 5, dtype=torch.bool), ones(3), ones(3)),
        {},
        f"input must have dtype {DTYPES}, got bool",
    ),
    (
        "filter2d_separable",
        (ones(4, 5), ones(3), ones(3, dtype=torch.complex64)),
        {},
        f"kernel_y must have dtype {TAP_DTYPES}, got complex64",
    ),
    ("box_blur", (ones(4, 5), 3.0), {}, "kernel_size must be an int or a tuple of ints, got float"),
    ("box_blur", (ones(4, 5), (3.0, 3)), {}, "kernel_size must be an int or a tuple of ints, got (3.0, 3)"),
    ("filter2d", (ones(4, 5), ones(3, 3)), {"anchor": "a"}, "anchor must be an int, a tuple of ints or None, got str"),
    ("box_blur", (ones(4, 5, dtype=torch.int64), 3), {}, f"input must have dtype {DTYPES}, got int64"),
    (
        "box_blur",
        (ones(4, 5), 3),
        {"output_dtype": torch.int8},
        f"output_dtype must have dtype {DTYPES}, got int8",
    ),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "sentence"), TYPES)
def test_bad_dtypes(device, name, args, kwargs, sentence):
    check_type(device, name, args, kwargs, sentence)


@pytest.mark.parametrize("call", [torch_conv.filter2d, torch_conv.filter2d_separable, torch_conv.box_blur])
def test_what_is_ours_is_keyword_only(call):
    first = (ones(4, 5), 3) if call is torch_conv.box_blur else (ones(4, 5), ones(3), ones(3))
    with pytest.raises(TypeError):
        call(*first, "reflect", True, True, "same", 0.0, 0.0, 0.0)
