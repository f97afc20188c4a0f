"""Refusals of the filters of volumes: one literal sentence each."""

from __future__ import annotations

import pytest
import torch
from refusals import BORDERS, DTYPES, TAP_DTYPES, check_operator, check_type, check_value, flatten, ones
from strategies import make_image, make_window

import torch_conv

# (positional arguments, keyword arguments, the sentence without the function's name); images and windows are moved
# to the tested device.
VOLUME, CUBE = ones(2, 4, 5), ones(3, 3, 3)
FILTER3D = [
    ((ones(4, 5), CUBE), {}, "input must have at least 3 dimensions, got 2"),
    ((VOLUME, ones(3, 3)), {}, "kernel must have 3, 4 or 5 dimensions, got 2"),
    ((VOLUME, ones(1, 1, 1, 3, 3, 3)), {}, "kernel must have 3, 4 or 5 dimensions, got 6"),
    ((VOLUME, ones(0, 3, 3)), {}, "kernel must have at least one tap, got shape (0, 3, 3)"),
    ((VOLUME, ones(1, 3, 0, 3)), {}, "kernel must have at least one tap, got shape (1, 3, 0, 3)"),
    (
        (ones(2, 3, 2, 4, 5), ones(3, 3, 3, 3)),
        {},
        "kernel's first dimension must be 1 or the batch size 2, got 3; for channels give (1, 3, 3, 3, 3)",
    ),
    (
        (ones(2, 3, 2, 4, 5), ones(2, 2, 3, 3, 3)),
        {},
        "kernel's second dimension must be 1 or the 3 channels of the input, got 2",
    ),
    (
        (ones(1, 2, 3, 2, 4, 5), ones(2, 3, 3, 3)),
        {},
        "kernel must be one shared window where the input has more than 5 dimensions, got shape (2, 3, 3, 3)",
    ),
    ((VOLUME, CUBE), {"border_type": "clamp"}, f"border_type must be {BORDERS}, got 'clamp'"),
    ((VOLUME, CUBE), {"padding": "full"}, "padding must be 'same' or 'valid', got 'full'"),
    ((VOLUME, CUBE), {"behaviour": "convolve"}, "behaviour must be 'corr' or 'conv', got 'convolve'"),
    ((VOLUME, CUBE), {"algorithm": "fft"}, "algorithm must be 'auto' or 'direct', got 'fft'"),
    ((VOLUME, CUBE), {"anchor": (0, 0, 3)}, "anchor must lie in the window (0 to 2, or -1 for the middle), got 3"),
    ((VOLUME, CUBE), {"anchor": (-2, 0, 0)}, "anchor must lie in the window (0 to 2, or -1 for the middle), got -2"),
    ((VOLUME, CUBE), {"anchor": (0, 0)}, "anchor must have 3 values, got 2"),
    ((VOLUME, CUBE), {"stride": 0}, "stride must be at least 1, got 0"),
    ((VOLUME, CUBE), {"stride": (-1, 1, 1)}, "stride must be at least 1, got -1"),
    ((VOLUME, CUBE), {"stride": (1, 1)}, "stride must have 3 values, got 2"),
    ((VOLUME, CUBE), {"dilation": (1, 1, 0)}, "dilation must be at least 1, got 0"),
    ((VOLUME, CUBE), {"dilation": (1, 1, 1, 1)}, "dilation must have 3 values, got 4"),
    (
        (ones(2, 8, 8), ones(3, 9, 9)),
        {"padding": "valid"},
        "a window of 3x9x9 does not fit into a volume of 2x8x8 with padding='valid'",
    ),
    (
        (VOLUME, ones(2, 3, 2)),
        {"padding": "valid", "dilation": (2, 1, 1)},
        "a window of 3x3x2 does not fit into a volume of 2x4x5 with padding='valid'",
    ),
]
ROW = ones(3)
FILTER3D_SEPARABLE = [
    ((ones(4, 5), ROW, ROW, ROW), {}, "input must have at least 3 dimensions, got 2"),
    ((VOLUME, ones(1, 1, 1, 3), ROW, ROW), {}, "kernel_x must have 1, 2 or 3 dimensions, got 4"),
    ((VOLUME, ROW, ones(1, 1, 1, 3), ROW), {}, "kernel_y must have 1, 2 or 3 dimensions, got 4"),
    ((VOLUME, ROW, ROW, ones(1, 1, 1, 3)), {}, "kernel_z must have 1, 2 or 3 dimensions, got 4"),
    ((VOLUME, ROW, ROW, ones(0)), {}, "kernel_z must have at least one tap, got shape (0,)"),
    (
        (ones(2, 1, 2, 4, 5), ROW, ROW, ones(3, 3)),
        {},
        "kernel_z's first dimension must be 1 or the batch size 2, got 3",
    ),
    ((VOLUME, ROW, ROW, ROW), {"border_type": "none"}, f"border_type must be {BORDERS}, got 'none'"),
    ((VOLUME, ROW, ROW, ROW), {"padding": "full"}, "padding must be 'same' or 'valid', got 'full'"),
    ((VOLUME, ROW, ROW, ROW), {"algorithm": "direct"}, "algorithm must be 'auto' or 'separable', got 'direct'"),
    (
        (VOLUME, ROW, ROW, ones(5)),
        {"anchor": (5, 0, 0)},
        "anchor must lie in the window (0 to 4, or -1 for the middle), got 5",
    ),
    ((VOLUME, ROW, ROW, ROW), {"stride": (0, 1, 1)}, "stride must be at least 1, got 0"),
    (
        (VOLUME, ROW, ones(2), ones(7)),
        {"padding": "valid"},
        "a window of 7x2x3 does not fit into a volume of 2x4x5 with padding='valid'",
    ),
]
BOX_BLUR3D = [
    ((ones(4, 5), (3, 3, 3)), {}, "input must have at least 3 dimensions, got 2"),
    ((VOLUME, (0, 3, 3)), {}, "kernel_size must be at least 1, got 0"),
    ((VOLUME, (3, 3)), {}, "kernel_size must have 3 values, got 2"),
    ((VOLUME, (3, 3, 3)), {"border_type": "none"}, f"border_type must be {BORDERS}, got 'none'"),
    ((VOLUME, (3, 3, 3)), {"algorithm": "direct"}, "algorithm must be 'auto', 'box' or 'separable', got 'direct'"),
    ((VOLUME, (3, 3, 3)), {"anchor": (3, 0, 0)}, "anchor must lie in the window (0 to 2, or -1 for the middle), got 3"),
    (
        (VOLUME, (3, 3, 3)),
        {"padding": "valid"},
        "a window of 3x3x3 does not fit into a volume of 2x4x5 with padding='valid'",
    ),
]
CASES = {"filter3d": FILTER3D, "filter3d_separable": FILTER3D_SEPARABLE, "box_blur3d": BOX_BLUR3D}
OPERATORS = {"box_blur3d": "box3d"}
GOOD_CALLS = {
    "filter3d": lambda x: torch_conv.filter3d(x[None], make_window((3, 3, 3))),
    "filter3d_separable": lambda x: torch_conv.filter3d_separable(x[None], *make_window((3, 3))),
    "box_blur3d": lambda x: torch_conv.box_blur3d(x[None], 3),
}


@pytest.mark.parametrize(("name", "args", "kwargs", "sentence"), flatten(CASES))
def test_bad_values(device, name, args, kwargs, sentence):
    good = make_image((4, 5), device=device)
    check_value(device, name, args, kwargs, sentence, lambda: GOOD_CALLS[name](good))


@pytest.mark.parametrize(("name", "args", "kwargs", "sentence"), flatten(CASES))
def test_operators_say_the_same(device, name, args, kwargs, sentence):
    check_operator(device, OPERATORS.get(name, name), args, kwargs, sentence)


TYPES = [
    ("filter3d", (ones(2, 4, 5), CUBE.bool()), {}, f"kernel must have dtype {TAP_DTYPES}, got bool"),
    ("filter3d", (ones(2, 4, 5, dtype=torch.int32), CUBE), {}, f"input must have dtype {DTYPES}, got int32"),
    (
        "filter3d_separable",
        (ones(2, 4, 5), ones(3), ones(3), ones(3, dtype=torch.complex64)),
        {},
        f"kernel_z must have dtype {TAP_DTYPES}, got complex64",
    ),
    ("box_blur3d", (ones(2, 4, 5, dtype=torch.int64), 3), {}, f"input must have dtype {DTYPES}, got int64"),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "sentence"), TYPES)
def test_bad_dtypes(device, name, args, kwargs, sentence):
    check_type(device, name, args, kwargs, sentence)


@pytest.mark.parametrize(
    ("call", "args"),
    [
        (torch_conv.filter3d, (ones(2, 4, 5), CUBE, "reflect", True, "corr", "same")),
        (torch_conv.filter3d_separable, (ones(2, 4, 5), ones(3), ones(3), ones(3), "reflect", True, "same")),
        (torch_conv.box_blur3d, (ones(2, 4, 5), 3, "reflect", True)),
        (torch_conv.gaussian_blur3d, (ones(2, 4, 5), 3, 1.0, "reflect", 4.0)),
        (torch_conv.spatial_gradient3d, (ones(2, 4, 5), "diff", 1, "reflect")),
        (torch_conv.conv3d, (ones(1, 2, 4, 5), ones(1, 1, 1, 1, 1), None, 1, 0, 1, 1, "zeros")),
    ],
)
def test_what_is_ours_about_volumes_is_keyword_only(call, args):
    call(*args[:-1])
    with pytest.raises(TypeError, match=f"^{call.__name__}: .* must be given by keyword$"):
        call(*args)
