"""Refusals of filters, boxes and convolutions: one literal sentence each, from the functions and from operators."""

import pytest
import torch
from refusals import BORDERS, DTYPES, TAP_DTYPES, check_operator, check_type, check_value, flatten, ones, refuses
from strategies import make_image, make_window

import torch_conv

IMAGE, VOLUME = ones(4, 5), ones(2, 4, 5)
SQUARE, CUBE, ROW, LONG = ones(3, 3), ones(3, 3, 3), ones(3), ones(1, 1, 1, 3)
INSIDE = "anchor must lie in the window (0 to {}, or -1 for the middle), got {}"
VALID = {"padding": "valid"}


def too_large(window, sizes):
    kind = "an image" if sizes.count("x") == 1 else "a volume"
    return f"a window of {window} does not fit into {kind} of {sizes} with padding='valid'"


def too_few_dimensions(windows, axes):
    dimension = "dimensions" if axes > 1 else "dimension"
    return (ones(*[5] * (axes - 1)), *windows), {}, f"input must have at least {axes} {dimension}, got {axes - 1}"


def options_of(args, algorithms, axes):
    """Cases of the options that all filters have."""
    return [
        (args, {"border_type": "clamp"}, f"border_type must be {BORDERS}, got 'clamp'"),
        (args, {"border_type": "Reflect"}, f"border_type must be {BORDERS}, got 'Reflect'"),
        (args, {"padding": "full"}, "padding must be 'same' or 'valid', got 'full'"),
        (args, {"algorithm": "best"}, f"algorithm must be {algorithms}, got 'best'"),
        (args, {"anchor": (0,) * (axes - 1) + (3,)}, INSIDE.format(2, 3)),
        (args, {"anchor": (-2,) + (0,) * (axes - 1)}, INSIDE.format(2, -2)),
    ]


def steps_of(args, axes):
    """Cases of stride and dilation."""
    ahead = (1,) * (axes - 1)
    cases = [(args, {name: 0}, f"{name} must be at least 1, got 0") for name in ("stride", "dilation")]
    return cases + [
        (args, {name: (*ahead, -1)}, f"{name} must be at least 1, got -1") for name in ("stride", "dilation")
    ]


# (positional arguments, keyword arguments, the sentence without the function's name); images and windows are moved
# to the tested device.
FIRST, SECOND = "kernel's first dimension must be 1 or the batch size 2, got", "kernel's second dimension must be"
SHARED = "kernel must be one shared window where the input has more than"
CASES = {
    "filter2d": [
        too_few_dimensions((SQUARE,), 2),
        *options_of((IMAGE, SQUARE), "'auto', 'direct', 'tensor_core', 'fft' or 'low_rank'", 2),
        *steps_of((IMAGE, SQUARE), 2),
        ((IMAGE, ROW), {}, "kernel must have 2, 3 or 4 dimensions, got 1"),
        ((IMAGE, ones(1, 1, 1, 3, 3)), {}, "kernel must have 2, 3 or 4 dimensions, got 5"),
        ((IMAGE, ones(0, 3)), {}, "kernel must have at least one tap, got shape (0, 3)"),
        ((IMAGE, ones(1, 3, 0)), {}, "kernel must have at least one tap, got shape (1, 3, 0)"),
        ((ones(2, 3, 4, 5), CUBE), {}, f"{FIRST} 3; for channels give (1, 3, 3, 3)"),
        ((ones(2, 3, 4, 5), ones(4, 3, 3)), {}, f"{FIRST} 4"),
        ((ones(2, 3, 4, 5), ones(2, 2, 3, 3)), {}, f"{SECOND} 1 or the 3 channels of the input, got 2"),
        ((ones(1, 2, 3, 4, 5), ones(2, 3, 3)), {}, f"{SHARED} 4 dimensions, got shape (2, 3, 3)"),
        ((IMAGE, SQUARE), {"behaviour": "convolve"}, "behaviour must be 'corr' or 'conv', got 'convolve'"),
        (
            (IMAGE, SQUARE),
            {"algorithm": "fft", "dilation": (1, 8192)},
            "algorithm 'fft' cannot serve this call: the window spans 3x16385 pixels, more than 16384 along an axis",
        ),
        ((IMAGE, SQUARE), {"anchor": -2}, INSIDE.format(2, -2)),
        ((IMAGE, ones(3, 6)), VALID, too_large("3x6", "4x5")),
        ((IMAGE, SQUARE), VALID | {"dilation": 2}, too_large("5x5", "4x5")),
    ],
    "filter2d_separable": [
        too_few_dimensions((ROW, ROW), 2),
        *options_of((IMAGE, ROW, ROW), "'auto', 'fused', 'separable' or 'tensor_core'", 2),
        *steps_of((IMAGE, ROW, ROW), 2),
        ((IMAGE, LONG, ROW), {}, "kernel_x must have 1, 2 or 3 dimensions, got 4"),
        ((IMAGE, ROW, LONG), {}, "kernel_y must have 1, 2 or 3 dimensions, got 4"),
        ((IMAGE, ones(0), ROW), {}, "kernel_x must have at least one tap, got shape (0,)"),
        ((ones(2, 1, 4, 5), SQUARE, ROW), {}, FIRST.replace("kernel", "kernel_x") + " 3"),
        ((IMAGE, ROW, ones(5)), {"anchor": (5, 0)}, INSIDE.format(4, 5)),
        ((IMAGE, ROW, ones(7)), VALID, too_large("7x3", "4x5")),
    ],
    "box_blur": [
        too_few_dimensions(((3, 3),), 2),
        *options_of((IMAGE, (3, 3)), "'auto', 'box' or 'separable'", 2),
        ((IMAGE, (0, 3)), {}, "kernel_size must be at least 1, got 0"),
        ((IMAGE, (3, -3)), {}, "kernel_size must be at least 1, got -3"),
        ((IMAGE, (3, 9)), VALID, too_large("3x9", "4x5")),
    ],
    "filter3d": [
        too_few_dimensions((CUBE,), 3),
        *options_of((VOLUME, CUBE), "'auto' or 'direct'", 3),
        *steps_of((VOLUME, CUBE), 3),
        ((VOLUME, SQUARE), {}, "kernel must have 3, 4 or 5 dimensions, got 2"),
        ((VOLUME, ones(1, 1, 1, 3, 3, 3)), {}, "kernel must have 3, 4 or 5 dimensions, got 6"),
        ((VOLUME, ones(0, 3, 3)), {}, "kernel must have at least one tap, got shape (0, 3, 3)"),
        ((VOLUME, ones(1, 3, 0, 3)), {}, "kernel must have at least one tap, got shape (1, 3, 0, 3)"),
        ((ones(2, 3, 2, 4, 5), ones(3, 3, 3, 3)), {}, f"{FIRST} 3; for channels give (1, 3, 3, 3, 3)"),
        ((ones(2, 3, 2, 4, 5), ones(2, 2, 3, 3, 3)), {}, f"{SECOND} 1 or the 3 channels of the input, got 2"),
        ((ones(1, 2, 3, 2, 4, 5), ones(2, 3, 3, 3)), {}, f"{SHARED} 5 dimensions, got shape (2, 3, 3, 3)"),
        ((VOLUME, CUBE), {"behaviour": "convolve"}, "behaviour must be 'corr' or 'conv', got 'convolve'"),
        ((VOLUME, CUBE), {"anchor": (0, 0)}, "anchor must have 3 values, got 2"),
        ((VOLUME, CUBE), {"stride": (1, 1)}, "stride must have 3 values, got 2"),
        ((VOLUME, CUBE), {"dilation": (1, 1, 1, 1)}, "dilation must have 3 values, got 4"),
        ((ones(2, 8, 8), ones(3, 9, 9)), VALID, too_large("3x9x9", "2x8x8")),
        ((VOLUME, ones(2, 3, 2)), VALID | {"dilation": (2, 1, 1)}, too_large("3x3x2", "2x4x5")),
    ],
    "filter3d_separable": [
        too_few_dimensions((ROW, ROW, ROW), 3),
        *options_of((VOLUME, ROW, ROW, ROW), "'auto' or 'separable'", 3),
        *steps_of((VOLUME, ROW, ROW, ROW), 3),
        ((VOLUME, LONG, ROW, ROW), {}, "kernel_x must have 1, 2 or 3 dimensions, got 4"),
        ((VOLUME, ROW, LONG, ROW), {}, "kernel_y must have 1, 2 or 3 dimensions, got 4"),
        ((VOLUME, ROW, ROW, LONG), {}, "kernel_z must have 1, 2 or 3 dimensions, got 4"),
        ((VOLUME, ROW, ROW, ones(0)), {}, "kernel_z must have at least one tap, got shape (0,)"),
        ((ones(2, 1, 2, 4, 5), ROW, ROW, SQUARE), {}, FIRST.replace("kernel", "kernel_z") + " 3"),
        ((VOLUME, ROW, ROW, ones(5)), {"anchor": (5, 0, 0)}, INSIDE.format(4, 5)),
        ((VOLUME, ROW, ones(2), ones(7)), VALID, too_large("7x2x3", "2x4x5")),
    ],
    "box_blur3d": [
        too_few_dimensions(((3, 3, 3),), 3),
        *options_of((VOLUME, (3, 3, 3)), "'auto', 'box' or 'separable'", 3),
        ((VOLUME, (0, 3, 3)), {}, "kernel_size must be at least 1, got 0"),
        ((VOLUME, (3, 3)), {}, "kernel_size must have 3 values, got 2"),
        ((VOLUME, (3, 3, 3)), VALID, too_large("3x3x3", "2x4x5")),
    ],
}
WEIGHT, WEIGHT3D = ones(3, 1, 3, 3), ones(3, 1, 3, 3, 3)
MAPS, MAPS3D = ones(2, 3, 8, 8), ones(2, 3, 4, 8, 8)
ONLY = "algorithm 'direct' serves depthwise and few-channel floating-point convolutions only"
CHANNELS = "input must have 2 channels for a weight of shape {} and groups 1, got 3"
DEPTHWISE = [
    ((MAPS, WEIGHT), {"stride": 0}, "stride must be at least 1, got 0"),
    ((MAPS, WEIGHT), {"dilation": -1}, "dilation must be at least 1, got -1"),
    ((MAPS, WEIGHT), {"padding": -1}, "padding must be at least 0, got -1"),
    ((MAPS, WEIGHT), {"padding": "full"}, "padding must be 'same' or 'valid', got 'full'"),
    ((MAPS, WEIGHT), {"padding": "same", "stride": 2}, "padding='same' needs stride 1, got 2"),
    ((MAPS, ones(3, 1, 9, 3)), {}, "a window of 9x3 does not fit into the padded image of 8x8"),
    ((MAPS, WEIGHT, ones(2)), {}, "bias must have shape (3,), got (2,)"),
    (
        (MAPS, WEIGHT),
        {"padding_mode": "symmetric"},
        "padding_mode must be 'zeros', 'reflect', 'replicate' or 'circular', got 'symmetric'",
    ),
    (
        (MAPS, WEIGHT),
        {"algorithm": "fft"},
        "algorithm must be 'auto', 'ours', 'direct', 'tensor_core' or 'torch', got 'fft'",
    ),
]
DEPTHWISE3D = [
    ((MAPS3D, WEIGHT3D), {"padding": (1, 1)}, "padding must have 3 values, got 2"),
    ((MAPS3D, WEIGHT3D), {"padding": "same", "stride": (1, 2, 1)}, "padding='same' needs stride 1, got 2"),
    (
        (MAPS3D, ones(3, 1, 9, 3, 3)),
        {"padding": (1, 0, 0)},
        "a window of 9x3x3 does not fit into the padded volume of 6x8x8",
    ),
    ((MAPS3D, WEIGHT3D, ones(2)), {}, "bias must have shape (3,), got (2,)"),
]
CASES |= {
    "conv2d": [
        *((args, {"groups": 3} | kwargs, sentence) for args, kwargs, sentence in DEPTHWISE),
        ((MAPS, CUBE), {}, "weight must have 4 dimensions, got 3"),
        ((ones(8, 8), ones(1, 1, 3, 3)), {}, "input must have 3 (unbatched) or 4 dimensions, got 2"),
        ((MAPS, ones(4, 2, 3, 3)), {}, CHANNELS.format((4, 2, 3, 3))),
        (
            (ones(2, 4, 8, 8), ones(3, 2, 3, 3)),
            {"groups": 2},
            "the weight's 3 output channels must be a positive multiple of groups 2",
        ),
        ((MAPS, WEIGHT), {"groups": 0}, "groups must be at least 1, got 0"),
        ((ones(2, 96, 8, 8), ones(96, 96, 3, 3)), {"algorithm": "direct"}, ONLY),
    ],
    "conv3d": [
        *((args, {"groups": 3} | kwargs, sentence) for args, kwargs, sentence in DEPTHWISE3D),
        ((MAPS3D, ones(3, 3, 3, 3)), {}, "weight must have 5 dimensions, got 4"),
        ((ones(4, 8, 8), ones(1, 1, 3, 3, 3)), {}, "input must have 4 (unbatched) or 5 dimensions, got 3"),
        ((MAPS3D, ones(4, 2, 3, 3, 3)), {}, CHANNELS.format((4, 2, 3, 3, 3))),
        ((ones(2, 96, 4, 4, 4), ones(96, 96, 3, 3, 3)), {"algorithm": "direct"}, ONLY),
    ],
}
OPERATORS = {"box_blur": "box2d", "box_blur3d": "box3d"}
GOOD_CALLS = {
    "filter2d": lambda x: torch_conv.filter2d(x, make_window((3, 3))),
    "filter2d_separable": lambda x: torch_conv.filter2d_separable(x, make_window((3,)), make_window((3,))),
    "box_blur": lambda x: torch_conv.box_blur(x, 3),
    "filter3d": lambda x: torch_conv.filter3d(x[None], make_window((3, 3, 3))),
    "filter3d_separable": lambda x: torch_conv.filter3d_separable(x[None], *make_window((3, 3))),
    "box_blur3d": lambda x: torch_conv.box_blur3d(x[None], 3),
    "conv2d": lambda x: torch_conv.conv2d(x[None], make_window((1, 1, 3, 3), device=x.device)),
    "conv3d": lambda x: torch_conv.conv3d(x[None, None], make_window((1, 1, 1, 3, 3), device=x.device)),
}


@pytest.mark.parametrize(("name", "args", "kwargs", "sentence"), flatten(CASES))
def test_bad_values(device, name, args, kwargs, sentence):
    good = make_image((4, 5), device=device)
    check_value(device, name, args, kwargs, sentence, lambda: GOOD_CALLS[name](good))
    check_operator(device, OPERATORS.get(name, name), args, kwargs, sentence)


TAPS, PIXELS, OF_INPUT = (
    "must have dtype " + TAP_DTYPES,
    "must have dtype " + DTYPES,
    "must have the input's dtype float32",
)
INT_OR_TUPLE = "kernel_size must be an int or a tuple of ints, got"
TYPES = {
    "filter2d": [
        ((IMAGE, SQUARE.bool()), {}, f"kernel {TAPS}, got bool"),
        ((IMAGE.int(), SQUARE), {}, f"input {PIXELS}, got int32"),
        ((IMAGE, SQUARE), {"anchor": "a"}, "anchor must be an int, a tuple of ints or None, got str"),
    ],
    "filter2d_separable": [
        ((IMAGE.bool(), ROW, ROW), {}, f"input {PIXELS}, got bool"),
        ((IMAGE, ROW, ROW.cfloat()), {}, f"kernel_y {TAPS}, got complex64"),
    ],
    "box_blur": [
        ((IMAGE, 3.0), {}, f"{INT_OR_TUPLE} float"),
        ((IMAGE, (3.0, 3)), {}, f"{INT_OR_TUPLE} (3.0, 3)"),
        ((IMAGE.long(), 3), {}, f"input {PIXELS}, got int64"),
        ((IMAGE, 3), {"output_dtype": torch.int8}, f"output_dtype {PIXELS}, got int8"),
    ],
    "filter3d": [
        ((VOLUME, CUBE.bool()), {}, f"kernel {TAPS}, got bool"),
        ((VOLUME.int(), CUBE), {}, f"input {PIXELS}, got int32"),
    ],
    "filter3d_separable": [((VOLUME, ROW, ROW, ROW.cfloat()), {}, f"kernel_z {TAPS}, got complex64")],
    "box_blur3d": [((VOLUME.long(), 3), {}, f"input {PIXELS}, got int64")],
    "conv2d": [
        ((MAPS, WEIGHT.double()), {"groups": 3}, f"weight {OF_INPUT}, got float64"),
        ((MAPS, WEIGHT, ROW.double()), {"groups": 3}, f"bias {OF_INPUT}, got float64"),
    ],
    "conv3d": [((MAPS3D, WEIGHT3D.double()), {"groups": 3}, f"weight {OF_INPUT}, got float64")],
}


@pytest.mark.parametrize(("name", "args", "kwargs", "sentence"), flatten(TYPES))
def test_bad_dtypes(device, name, args, kwargs, sentence):
    check_type(device, name, args, kwargs, sentence)


@pytest.mark.parametrize("call", [torch_conv.filter2d, torch_conv.filter2d_separable, torch_conv.box_blur])
def test_own_arguments_are_keyword_only(call):
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
def test_own_arguments_for_volumes_are_keyword_only(call, args):
    call(*args[:-1])
    with pytest.raises(TypeError, match=f"^{call.__name__}: .* must be given by keyword$"):
        call(*args)


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
    with refuses(ValueError, f"conv2d: {sentence}"):
        torch_conv.conv2d(ones(2, 3, 8, 8), weight, padding_mode="reflect", **options, **kwargs)
    if kwargs["padding"] != (1, 1, 1):
        with refuses(ValueError, f"conv3d: {sentence}"):
            torch_conv.conv3d(ones(2, 3, 4, 8, 8), weight[..., None], padding_mode="reflect", **options, **kwargs)


@pytest.mark.parametrize("weight", [ones(3, 1, 3, 3), ones(9, 3, 3, 3)], ids=["ours", "torch's"])
@pytest.mark.parametrize(
    ("good", "bad", "sentence"),
    [
        ({"stride": 2}, {"stride": 2.0}, "stride must be of type int, got float"),
        ({"stride": (2, 2)}, {"stride": (2.0, 2)}, "stride must be of type int, got float"),
        ({"padding": (1, 1)}, {"padding": (True, 1)}, "padding must be of type int, got bool"),
        ({"dilation": (2, 2)}, {"dilation": (2, 2.0)}, "dilation must be of type int, got float"),
    ],
)
def test_numbers_are_told_from_equal_ones(device, weight, good, bad, sentence):
    """Also where the same call with good numbers came before, and is known."""
    image, weight = ones(2, 3, 8, 8).to(device), weight.to(device)
    groups = 3 // weight.shape[1]
    for _ in range(2):
        torch_conv.conv2d(image, weight, groups=groups, **good)
        with refuses(TypeError, f"conv2d: {sentence}"):
            torch_conv.conv2d(image, weight, groups=groups, **bad)
