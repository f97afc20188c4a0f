"""Refusals: one literal sentence each, nothing modified, nothing leaked, and the next good call works."""

from __future__ import annotations

import resource

import pytest
import torch
from strategies import make_image, make_window
from tolerance import assert_same_bits

import torch_conv
from torch_conv.functional._calls import _refusal

DTYPES = "float32, float16, bfloat16, float64, uint8, int16 or uint16"
BORDERS = "'constant', 'replicate', 'reflect', 'symmetric', 'circular', 'skip' or 'zero_output'"


def ones(*shape, dtype=torch.float32):
    return torch.ones(*shape, dtype=dtype)


# (positional arguments, keyword arguments, the sentence without the function's name); images and windows are moved
# to the tested device.
FILTER2D = [
    ((ones(5), ones(3, 3)), {}, "input must have at least 2 dimensions, got 1"),
    ((ones(4, 5), ones(3)), {}, "kernel must have 2, 3 or 4 dimensions, got 1"),
    ((ones(4, 5), ones(1, 1, 1, 3, 3)), {}, "kernel must have 2, 3 or 4 dimensions, got 5"),
    ((ones(4, 5), ones(0, 3)), {}, "kernel must have at least one tap, got shape (0, 3)"),
    ((ones(4, 5), ones(1, 3, 0)), {}, "kernel must have at least one tap, got shape (1, 3, 0)"),
    ((ones(2, 3, 4, 5), ones(3, 3, 3)), {}, "kernel's first dimension must be 1 or the batch size 2, got 3"),
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
    ((ones(4, 5), ones(3, 3)), {"algorithm": "fft"}, "algorithm must be 'auto' or 'direct', got 'fft'"),
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
    ((ones(4, 5), ones(3), ones(3)), {"algorithm": "direct"}, "algorithm must be 'auto' or 'separable', got 'direct'"),
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
CONV2D = [
    ((ones(2, 3, 8, 8), ones(3, 3, 3)), {}, "weight must have 4 dimensions, got 3"),
    ((ones(8, 8), ones(1, 1, 3, 3)), {}, "input must have 3 (unbatched) or 4 dimensions, got 2"),
    (
        (ones(2, 3, 8, 8), ones(4, 2, 3, 3)),
        {},
        "input must have 2 channels for a weight of shape (4, 2, 3, 3) and groups 1, got 3",
    ),
    (
        (ones(2, 4, 8, 8), ones(3, 2, 3, 3)),
        {"groups": 2},
        "the weight's 3 output channels must be a positive multiple of groups 2",
    ),
    ((ones(2, 3, 8, 8), ones(3, 1, 3, 3)), {"groups": 0}, "groups must be at least 1, got 0"),
    ((ones(2, 3, 8, 8), ones(3, 1, 3, 3)), {"groups": 3, "stride": 0}, "stride must be at least 1, got 0"),
    ((ones(2, 3, 8, 8), ones(3, 1, 3, 3)), {"groups": 3, "dilation": -1}, "dilation must be at least 1, got -1"),
    ((ones(2, 3, 8, 8), ones(3, 1, 3, 3)), {"groups": 3, "padding": -1}, "padding must be at least 0, got -1"),
    (
        (ones(2, 3, 8, 8), ones(3, 1, 3, 3)),
        {"groups": 3, "padding": "full"},
        "padding must be 'same' or 'valid', got 'full'",
    ),
    (
        (ones(2, 3, 8, 8), ones(3, 1, 3, 3)),
        {"groups": 3, "padding": "same", "stride": 2},
        "padding='same' needs stride 1, got 2",
    ),
    (
        (ones(2, 3, 8, 8), ones(3, 1, 9, 3)),
        {"groups": 3},
        "a window of 9x3 does not fit into the padded image of 8x8",
    ),
    (
        (ones(2, 3, 8, 8), ones(3, 1, 3, 3), ones(2)),
        {"groups": 3},
        "bias must have shape (3,), got (2,)",
    ),
    (
        (ones(2, 3, 8, 8), ones(3, 1, 3, 3)),
        {"groups": 3, "padding_mode": "symmetric"},
        "padding_mode must be 'zeros', 'reflect', 'replicate' or 'circular', got 'symmetric'",
    ),
    (
        (ones(2, 96, 8, 8), ones(96, 96, 3, 3)),
        {"algorithm": "direct"},
        "algorithm 'direct' serves depthwise and few-channel floating-point convolutions only",
    ),
    (
        (ones(2, 3, 8, 8), ones(3, 1, 3, 3)),
        {"groups": 3, "algorithm": "fft"},
        "algorithm must be 'auto', 'direct' or 'torch', got 'fft'",
    ),
]
VOLUME, CUBE = ones(2, 4, 5), ones(3, 3, 3)
FILTER3D = [
    ((ones(4, 5), CUBE), {}, "input must have at least 3 dimensions, got 2"),
    ((VOLUME, ones(3, 3)), {}, "kernel must have 3, 4 or 5 dimensions, got 2"),
    ((VOLUME, ones(1, 1, 1, 3, 3, 3)), {}, "kernel must have 3, 4 or 5 dimensions, got 6"),
    ((VOLUME, ones(0, 3, 3)), {}, "kernel must have at least one tap, got shape (0, 3, 3)"),
    ((VOLUME, ones(1, 3, 0, 3)), {}, "kernel must have at least one tap, got shape (1, 3, 0, 3)"),
    ((ones(2, 3, 2, 4, 5), ones(3, 3, 3, 3)), {}, "kernel's first dimension must be 1 or the batch size 2, got 3"),
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
CONV3D = [
    ((ones(2, 3, 4, 8, 8), ones(3, 3, 3, 3)), {}, "weight must have 5 dimensions, got 4"),
    ((ones(4, 8, 8), ones(1, 1, 3, 3, 3)), {}, "input must have 4 (unbatched) or 5 dimensions, got 3"),
    (
        (ones(2, 3, 4, 8, 8), ones(4, 2, 3, 3, 3)),
        {},
        "input must have 2 channels for a weight of shape (4, 2, 3, 3, 3) and groups 1, got 3",
    ),
    (
        (ones(2, 3, 4, 8, 8), ones(3, 1, 3, 3, 3)),
        {"groups": 3, "padding": (1, 1)},
        "padding must have 3 values, got 2",
    ),
    (
        (ones(2, 3, 4, 8, 8), ones(3, 1, 3, 3, 3)),
        {"groups": 3, "padding": "same", "stride": (1, 2, 1)},
        "padding='same' needs stride 1, got 2",
    ),
    (
        (ones(2, 3, 4, 8, 8), ones(3, 1, 9, 3, 3)),
        {"groups": 3, "padding": (1, 0, 0)},
        "a window of 9x3x3 does not fit into the padded volume of 6x8x8",
    ),
    ((ones(2, 3, 4, 8, 8), ones(3, 1, 3, 3, 3), ones(2)), {"groups": 3}, "bias must have shape (3,), got (2,)"),
    (
        (ones(2, 96, 4, 4, 4), ones(96, 96, 3, 3, 3)),
        {"algorithm": "direct"},
        "algorithm 'direct' serves depthwise and few-channel floating-point convolutions only",
    ),
]
CASES = [
    (name, *case)
    for name, cases in (
        ("filter2d", FILTER2D),
        ("filter2d_separable", FILTER2D_SEPARABLE),
        ("box_blur", BOX_BLUR),
        ("conv2d", CONV2D),
        ("filter3d", FILTER3D),
        ("filter3d_separable", FILTER3D_SEPARABLE),
        ("box_blur3d", BOX_BLUR3D),
        ("conv3d", CONV3D),
    )
    for case in cases
]
GOOD_CALLS = {
    "filter2d": lambda x: torch_conv.filter2d(x, make_window((3, 3))),
    "filter2d_separable": lambda x: torch_conv.filter2d_separable(x, make_window((3,)), make_window((3,))),
    "box_blur": lambda x: torch_conv.box_blur(x, 3),
    "conv2d": lambda x: torch_conv.conv2d(x[None], make_window((1, 1, 3, 3), device=x.device)),
    "filter3d": lambda x: torch_conv.filter3d(x[None], make_window((3, 3, 3))),
    "filter3d_separable": lambda x: torch_conv.filter3d_separable(x[None], *make_window((3, 3))),
    "box_blur3d": lambda x: torch_conv.box_blur3d(x[None], 3),
    "conv3d": lambda x: torch_conv.conv3d(x[None, None], make_window((1, 1, 1, 3, 3), device=x.device)),
}


@pytest.mark.parametrize(("name", "args", "kwargs", "sentence"), CASES)
def test_bad_values(device, name, args, kwargs, sentence):
    args = [a.to(device) if isinstance(a, torch.Tensor) else a for a in args]
    before = [a.clone() for a in args if isinstance(a, torch.Tensor)]
    good = make_image((4, 5), device=device)
    expected = GOOD_CALLS[name](good)
    with pytest.raises(ValueError) as caught:
        getattr(torch_conv, name)(*args, **kwargs)
    assert str(caught.value) == f"{name}: {sentence}"
    for tensor, copy in zip([a for a in args if isinstance(a, torch.Tensor)], before, strict=True):
        assert_same_bits(tensor, copy)
    assert_same_bits(GOOD_CALLS[name](good), expected)


@pytest.mark.parametrize(("name", "args", "kwargs", "sentence"), CASES)
def test_operators_say_the_same(device, name, args, kwargs, sentence):
    """A RuntimeError with the same sentence: a C++ check knows no other."""
    operator = {"box_blur": "box2d", "box_blur3d": "box3d"}.get(name, name)
    args = [a.to(device) if isinstance(a, torch.Tensor) else list(a) for a in args]
    kwargs = {k: list(v) if isinstance(v, tuple) else [v] * 2 if k == "anchor" else v for k, v in kwargs.items()}
    with pytest.raises(RuntimeError) as caught:
        getattr(torch.ops.torch_conv, operator)(*args, **kwargs)
    assert str(caught.value) == f"{operator}: {sentence}"


TYPES = [
    ("filter2d", (ones(4, 5), ones(3, 3, dtype=torch.bool)), {}, f"kernel must have dtype {DTYPES}, got bool"),
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
        f"kernel_y must have dtype {DTYPES}, got complex64",
    ),
    ("filter3d", (ones(2, 4, 5), CUBE.bool()), {}, f"kernel must have dtype {DTYPES}, got bool"),
    ("filter3d", (ones(2, 4, 5, dtype=torch.int32), CUBE), {}, f"input must have dtype {DTYPES}, got int32"),
    (
        "filter3d_separable",
        (ones(2, 4, 5), ones(3), ones(3), ones(3, dtype=torch.complex64)),
        {},
        f"kernel_z must have dtype {DTYPES}, got complex64",
    ),
    ("box_blur3d", (ones(2, 4, 5, dtype=torch.int64), 3), {}, f"input must have dtype {DTYPES}, got int64"),
    (
        "conv3d",
        (ones(1, 3, 4, 8, 8), ones(3, 1, 3, 3, 3, dtype=torch.float64)),
        {"groups": 3},
        "weight must have the input's dtype float32, got float64",
    ),
    ("box_blur", (ones(4, 5, dtype=torch.int64), 3), {}, f"input must have dtype {DTYPES}, got int64"),
    (
        "box_blur",
        (ones(4, 5), 3),
        {"output_dtype": torch.int8},
        f"output_dtype must have dtype {DTYPES}, got int8",
    ),
    (
        "conv2d",
        (ones(2, 3, 8, 8), ones(3, 1, 3, 3, dtype=torch.float64)),
        {"groups": 3},
        "weight must have the input's dtype float32, got float64",
    ),
    (
        "conv2d",
        (ones(2, 3, 8, 8), ones(3, 1, 3, 3), ones(3, dtype=torch.float64)),
        {"groups": 3},
        "bias must have the input's dtype float32, got float64",
    ),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "sentence"), TYPES)
def test_bad_dtypes(device, name, args, kwargs, sentence):
    args = [a.to(device) if isinstance(a, torch.Tensor) else a for a in args]
    with pytest.raises(TypeError) as caught:
        getattr(torch_conv, name)(*args, **kwargs)
    assert str(caught.value) == f"{name}: {sentence}"


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "argument"),
    [
        ("filter2d", ("photo.png", ones(3, 3)), {}, "input"),
        ("filter2d", (ones(4, 5), [[1.0]]), {}, "kernel"),
        ("filter2d", (ones(4, 5), None), {}, "kernel"),
        ("filter2d", (ones(4, 5), ones(3, 3), 5), {}, "border_type"),
        ("filter2d", (ones(4, 5), ones(3, 3)), {"value": "1"}, "value"),
        ("filter2d", (ones(4, 5), ones(3, 3)), {"stride": 1.5}, "stride"),
        ("filter2d_separable", (ones(4, 5), 3, ones(3)), {}, "kernel_x"),
        ("box_blur", (ones(4, 5), "3"), {}, "kernel_size"),
        ("filter3d", (ones(2, 4, 5), [[[1.0]]]), {}, "kernel"),
        ("filter3d", (ones(2, 4, 5), CUBE), {"stride": 1.5}, "stride"),
        ("filter3d", (ones(2, 4, 5), CUBE), {"padding": 1}, "padding"),
        ("filter3d_separable", (ones(2, 4, 5), ones(3), ones(3), 3), {}, "kernel_z"),
        ("box_blur3d", (ones(2, 4, 5), "3"), {}, "kernel_size"),
        ("conv3d", (ones(1, 1, 2, 4, 5), None), {}, "weight"),
        ("gaussian_blur3d", ("volume.npy", 3, 1.0), {}, "input"),
        ("spatial_gradient3d", (3,), {}, "input"),
        ("conv2d", (ones(1, 1, 4, 5), None), {}, "weight"),
        ("filter1d", (ones(4, 5), ones(3)), {"dim": "x"}, "dim"),
    ],
)
def test_wrong_types_from_python(name, args, kwargs, argument):
    with pytest.raises(TypeError) as caught:
        getattr(torch_conv, name)(*args, **kwargs)
    message = str(caught.value)
    assert message.startswith(f"{name}: {argument} must be "), message
    assert "\n" not in message


@pytest.mark.parametrize("call", [torch_conv.filter2d, torch_conv.filter2d_separable, torch_conv.box_blur])
def test_what_is_ours_is_keyword_only(call):
    first = (ones(4, 5), 3) if call is torch_conv.box_blur else (ones(4, 5), ones(3), ones(3))
    with pytest.raises(TypeError):
        call(*first, "reflect", True, True, "same", 0.0, 0.0, 0.0)


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


def test_no_path_in_a_message(device):
    with pytest.raises(RuntimeError) as caught:
        torch.ops.torch_conv.filter2d(ones(4, 5).to(device), ones(3).to(device))
    assert "/" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_refused_calls_leak_nothing_on_the_cpu():
    """The refusal comes after the input was copied, since its leading dimensions do not merge: 60 times 35 MB.

    Copies of this size are the operating system's own mappings, so the peak is not blurred by a fragmented heap.
    """
    strange = ones(4, 3, 2, 600, 610).transpose(0, 1)
    with pytest.raises(ValueError, match="stride"):
        torch_conv.filter2d(strange, ones(3, 3), stride=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(60):
        with pytest.raises(ValueError, match="stride"):
            torch_conv.filter2d(strange, ones(3, 3), stride=0)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 * 1024  # kilobytes


@pytest.mark.cuda
def test_refused_calls_leak_nothing_on_the_gpu(cuda):
    strange = ones(4, 3, 2, 40, 37).to(cuda).transpose(0, 1)
    before = torch.cuda.memory_allocated()
    for _ in range(200):
        with pytest.raises(ValueError, match="stride"):
            torch_conv.filter2d(strange, ones(3, 3), stride=0)
        with pytest.raises(ValueError, match="does not fit"):
            torch_conv.filter2d(strange, ones(50, 50), padding="valid")
    assert torch.cuda.memory_allocated() == before


@pytest.mark.cuda
def test_out_of_memory_is_an_error_at_the_call(cuda):
    image, kernel = make_image((64, 1024, 1024), device=cuda), make_window((3, 3), device=cuda)
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    used = torch.cuda.memory_reserved()
    torch.cuda.set_per_process_memory_fraction((used + 2**26) / total)  # the result needs four times as much
    try:
        with pytest.raises(RuntimeError, match="out of memory"):
            torch_conv.filter2d(image, kernel)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert_same_bits(torch_conv.filter2d(image[0], kernel), torch_conv.filter2d(image, kernel)[0])


@pytest.mark.cuda
def test_devices_are_named(cuda):
    with pytest.raises(ValueError) as caught:
        torch_conv.filter2d(ones(4, 5), ones(3, 3).to(cuda))
    assert str(caught.value) == "filter2d: kernel must be on cpu, as the input is, got cuda:0"
    with pytest.raises(ValueError) as caught:
        torch_conv.conv2d(ones(1, 1, 4, 5).to(cuda), ones(1, 1, 3, 3))
    assert str(caught.value) == "conv2d: weight must be on cuda:0, got cpu"


@pytest.mark.cuda
@pytest.mark.multi_gpu
def test_a_window_on_another_gpu_is_refused(cuda):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    with pytest.raises(ValueError) as caught:
        torch_conv.filter2d(ones(4, 5).to("cuda:0"), ones(3, 3).to("cuda:1"))
    assert str(caught.value) == "filter2d: kernel must be on cpu or cuda:0, got cuda:1"


@pytest.mark.parametrize("kernel_device", ["meta", "cpu"])
def test_a_meta_tensor_has_a_shape_alone(kernel_device):
    got = torch_conv.filter2d(torch.empty(2, 4, 5, device="meta"), torch.ones(3, 3, device=kernel_device))
    assert got.device.type == "meta"
    assert got.shape == (2, 4, 5)
    assert torch_conv.gaussian_blur2d(torch.empty(2, 4, 5, device="meta"), 3, 1.0).shape == (2, 4, 5)
    volume = torch.empty(2, 4, 5, device="meta")
    assert torch_conv.filter3d(volume, torch.ones(3, 3, 3, device=kernel_device), stride=2).shape == (1, 2, 3)
    assert torch_conv.gaussian_blur3d(volume, 5, 1.0).shape == (2, 4, 5)
    assert torch_conv.spatial_gradient3d(volume).shape == (3, 2, 4, 5)
    assert torch_conv.conv3d(volume[None], torch.ones(2, 1, 2, 3, 3, device="meta")).shape == (2, 1, 2, 3)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda x, k: torch_conv.filter2d(x, k.to("meta")), "filter2d: kernel must be on cpu, got meta"),
        (lambda x, k: torch_conv.filter2d(x, k, out=x.to("meta")), "filter2d: out must be on cpu, got meta"),
        (
            lambda x, k: torch_conv.filter2d(x.to("meta"), k, out=torch.empty_like(x)),
            "filter2d: out must be on meta, got cpu",
        ),
        (
            lambda x, k: torch_conv.filter2d_separable(x, k[0], k[1].to("meta")),
            "filter2d_separable: kernel_y must be on cpu, got meta",
        ),
        (lambda x, k: torch_conv.box_blur(x, 3, out=x.to("meta")), "box_blur: out must be on cpu, got meta"),
        (lambda x, k: torch_conv.filter3d(x[None], k[None].to("meta")), "filter3d: kernel must be on cpu, got meta"),
        (
            lambda x, k: torch_conv.filter3d_separable(x[None], k[0], k[1], k[2].to("meta")),
            "filter3d_separable: kernel_z must be on cpu, got meta",
        ),
        (
            lambda x, k: torch_conv.filter3d_separable(x[None], *k, out=x[None].to("meta")),
            "filter3d_separable: out must be on cpu, got meta",
        ),
        (lambda x, k: torch_conv.box_blur3d(x[None], 3, out=x.to("meta")), "box_blur3d: out must be on cpu, got meta"),
        (
            lambda x, k: torch_conv.conv3d(x[None, None], k[None, None, None].to("meta")),
            "conv3d: weight must be on cpu, got meta",
        ),
        (lambda x, k: torch_conv.laplacian(x, 3, out=x.to("meta")), "laplacian: out must be on cpu, got meta"),
        (
            lambda x, k: torch_conv.conv2d(x[None], k[None, None].to("meta")),
            "conv2d: weight must be on cpu, got meta",
        ),
        (
            lambda x, k: torch_conv.conv2d(x[None].to("meta"), k[None, None]),
            "conv2d: weight must be on meta, got cpu",
        ),
        (
            lambda x, k: torch_conv.conv2d(x[None], k[None, None], ones(1).to("meta")),
            "conv2d: bias must be on cpu, got meta",
        ),
    ],
)
def test_meta_and_real_tensors_do_not_mix(call, sentence):
    with pytest.raises(ValueError) as caught:
        call(ones(8, 9), ones(3, 3))
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda x, k: torch_conv.filter2d(x.to_sparse(), k), "filter2d: input must be a dense tensor, got sparse_coo"),
        (
            lambda x, k: torch_conv.filter2d(x, k.to_sparse_csr()),
            "filter2d: kernel must be a dense tensor, got sparse_csr",
        ),
        (
            lambda x, k: torch_conv.gaussian_blur2d(torch.quantize_per_tensor(x, 0.1, 0, torch.quint8), 3, 1.0),
            "gaussian_blur2d: input must be a dense tensor, got quint8",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:.*quant")
def test_only_dense_tensors(call, sentence):
    with pytest.raises(TypeError) as caught:
        call(ones(8, 9), ones(3, 3))
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("torch_conv: box launch failed: invalid argument", RuntimeError, "sobel: box launch failed: invalid argument"),
        (
            "torch_conv: allocating failed: out of memory",
            torch.OutOfMemoryError,
            "sobel: allocating failed: out of memory",
        ),
        ("filter2d: stride must be at least 1, got 0", ValueError, "sobel: stride must be at least 1, got 0"),
    ],
)
def test_failures_of_the_machine_are_no_refusals(text, kind, sentence):
    error = _refusal("sobel", RuntimeError(text))
    assert type(error) is kind
    assert str(error) == sentence


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("filter2d", (ones(3, 3),)),
        ("filter1d", (ones(3),)),
        ("filter2d_separable", (ones(3), ones(3))),
        ("box_blur", (3,)),
        ("gaussian_blur2d", (3, 1.0)),
        ("unsharp_mask", (11, 1.0)),
        ("sobel", ()),
        ("filter3d", (CUBE,)),
        ("filter3d_separable", (ROW, ROW, ROW)),
        ("box_blur3d", (3,)),
        ("gaussian_blur3d", (3, 1.0)),
        ("gaussian_blur3d", (5, 1.0)),
        ("spatial_gradient3d", ()),
    ],
)
def test_two_dtypes_for_one_result(name, args):
    shape = (3, 12, 13) if "3d" in name else (12, 13)
    out = ones(*shape)
    with pytest.raises(TypeError) as caught:
        getattr(torch_conv, name)(ones(*shape), *args, output_dtype=torch.float64, out=out)
    assert str(caught.value) == f"{name}: out must have the output_dtype float64, got float32"
    assert_same_bits(out, ones(*shape))


@pytest.mark.parametrize("options", [{}, {"algorithm": "torch", "groups": 3}])
@pytest.mark.parametrize(
    ("kwargs", "sentence"),
    [
        ({"padding": -1}, "padding must be at least 0, got -1"),
        ({"padding": (1, 1, 1)}, "padding must have 2 values, got 3"),
        ({"padding": "full"}, "padding must be 'same' or 'valid', got 'full'"),
        ({"padding": "same", "stride": 2}, "padding='same' needs stride 1, got 2"),
        ({"padding": 1, "stride": 0}, "stride must be at least 1, got 0"),
    ],
)
def test_padding_handed_to_torch(options, kwargs, sentence):
    """With the same checks as on our own path."""
    weight = ones(3, 1, 3, 3) if options else ones(9, 3, 3, 3)
    with pytest.raises(ValueError) as caught:
        torch_conv.conv2d(ones(2, 3, 8, 8), weight, padding_mode="reflect", **options, **kwargs)
    assert str(caught.value) == f"conv2d: {sentence}"
    if kwargs["padding"] != (1, 1, 1):
        with pytest.raises(ValueError) as caught:
            torch_conv.conv3d(ones(2, 3, 4, 8, 8), weight[..., None], padding_mode="reflect", **options, **kwargs)
        assert str(caught.value) == f"conv3d: {sentence}"
