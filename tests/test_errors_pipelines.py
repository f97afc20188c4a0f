"""Refusals of the chains of filters: one literal sentence each, from the functions and from their operators."""

import numpy as np
import pytest
import torch
from refusals import BORDERS, DTYPES, TAP_DTYPES, check_operator, check_type, check_value, flatten, ones, refuses
from strategies import make_image

import torch_conv

# (positional arguments, keyword arguments, the sentence without the function's name)
IMAGE, ROW, WAYS = ones(4, 5), ones(3), "'auto', 'fused' or 'separable'"
SHARED = [
    ({"border_type": "clamp"}, f"border_type must be {BORDERS}, got 'clamp'"),
    ({"padding": "full"}, "padding must be 'same' or 'valid', got 'full'"),
    ({"algorithm": "fft"}, f"algorithm must be {WAYS}, got 'fft'"),
]
KERNELS = [
    ((ones(5), ROW, ROW), {}, "input must have at least 2 dimensions, got 1"),
    ((IMAGE, ones(4), ROW), {}, "kernel_x must have an odd number of taps, got 4"),
    ((IMAGE, ROW, ones(2)), {}, "kernel_y must have an odd number of taps, got 2"),
    ((IMAGE, ones(0), ROW), {}, "kernel_x must have at least one tap, got shape (0,)"),
    ((IMAGE, ROW, ones(1, 1, 1, 3)), {}, "kernel_y must have 1, 2 or 3 dimensions, got 4"),
    ((ones(2, 1, 4, 5), ROW, ones(3, 3)), {}, "kernel_y's first dimension must be 1 or the batch size 2, got 3"),
    (
        (ones(2, 3, 4, 5), ones(2, 2, 3), ROW),
        {},
        "kernel_x's second dimension must be 1 or the 3 channels of the input, got 2",
    ),
    ((IMAGE, ROW.bool(), ROW), {}, f"kernel_x must have dtype {TAP_DTYPES}, got bool"),
    ((IMAGE.int(), ROW, ROW), {}, f"input must have dtype {DTYPES}, got int32"),
    *(((IMAGE, ROW, ROW), options, sentence) for options, sentence in SHARED),
]
MODES = "mode must be 'sobel', 'diff', 'scharr' or 'prewitt', got 'laplace'"


def too_large(window, size="an image of 4x5"):
    return [({"padding": "valid"}, f"a window of {window} does not fit into {size} with padding='valid'")]


OPERATORS = {
    "gradient2d": [
        ((ones(5),), {}, "input must have at least 2 dimensions, got 1"),
        ((IMAGE, "laplace"), {}, MODES),
        ((IMAGE, "sobel", 0), {}, "order must be 1 or 2 for mode 'sobel', got 0"),
        ((IMAGE, "scharr", 2), {}, "order must be 1 for mode 'scharr', got 2"),
        ((IMAGE.bool(),), {}, f"input must have dtype {DTYPES}, got bool"),
        *(((IMAGE,), options, sentence) for options, sentence in SHARED),
        *(((IMAGE, "sobel", 2), options, sentence) for options, sentence in too_large("5x5")),
    ],
    "sobel2d": [
        ((ones(5),), {}, "input must have at least 2 dimensions, got 1"),
        ((IMAGE,), {"output_dtype": torch.int64}, f"output_dtype must have dtype {DTYPES}, got int64"),
        *(((IMAGE,), options, sentence) for options, sentence in SHARED),
        *(((ones(2, 5),), options, sentence) for options, sentence in too_large("3x3", "an image of 2x5")),
    ],
    "gaussian_sobel2d": [
        *KERNELS,
        ((IMAGE, ROW, ROW), {"magnitude": "linf"}, "magnitude must be 'l1' or 'l2', got 'linf'"),
        *(((IMAGE, ROW, ROW), options, sentence) for options, sentence in too_large("5x5")),
    ],
    "separable_sum2d": [
        ((IMAGE, [], []), {}, "kernels_x and kernels_y must be equally many, 1 to 3, got 0 and 0"),
        ((IMAGE, [ROW], [ROW, ROW]), {}, "kernels_x and kernels_y must be equally many, 1 to 3, got 1 and 2"),
        ((IMAGE, [ROW] * 4, [ROW] * 4), {}, "kernels_x and kernels_y must be equally many, 1 to 3, got 4 and 4"),
        ((IMAGE, [ROW, ones(5)], [ROW, ROW]), {}, "kernels_x must have the same number of taps each, got 3 and 5"),
        ((IMAGE, [ROW, ROW], [ones(1), ROW]), {}, "kernels_y must have the same number of taps each, got 1 and 3"),
        ((IMAGE, [ones(4)], [ROW]), {}, "kernels_x must have an odd number of taps, got 4"),
        *(((IMAGE, [ROW], [ROW]), options, sentence) for options, sentence in SHARED),
        *(((IMAGE, [ones(7)], [ROW]), options, sentence) for options, sentence in too_large("3x7")),
    ],
    "unsharp_mask2d": [
        *KERNELS,
        *(((IMAGE, ROW, ones(5)), options, sentence) for options, sentence in too_large("5x3")),
    ],
    "structure_tensor2d": [
        *KERNELS,
        ((IMAGE, ROW, ROW), {"mode": "laplace"}, MODES),
        *(((IMAGE, ROW, ROW), options, sentence) for options, sentence in too_large("5x5")),
    ],
    "thin_edges2d": [*KERNELS, *(((IMAGE, ROW, ones(1)), options, sentence) for options, sentence in too_large("5x7"))],
    "gaussian_gradient3d": [
        ((IMAGE, ROW, ROW, ROW), {}, "input must have at least 3 dimensions, got 2"),
        ((IMAGE[None], ROW, ROW, ones(2)), {}, "kernel_z must have an odd number of taps, got 2"),
        ((IMAGE[None], ROW, ROW, ROW), {"mode": "scharr"}, "mode must be 'diff' or 'sobel', got 'scharr'"),
        *(((IMAGE[None], ROW, ROW, ROW), options, sentence) for options, sentence in SHARED),
        *(
            ((IMAGE[None], ROW, ROW, ROW), options, sentence)
            for options, sentence in too_large("5x5x5", "a volume of 1x4x5")
        ),
    ],
}


@pytest.mark.parametrize(("name", "args", "kwargs", "sentence"), flatten(OPERATORS))
def test_operators(device, name, args, kwargs, sentence):
    check_operator(device, name, args, kwargs, sentence)


SIZE, SIGMA = "kernel_size must be odd and at least 1, got", "sigma must be finite and greater than 0, got"
NAN = float("nan")
VOLUME, TENSOR = ones(1, 1, 4, 9, 9), "kernel_size must be given where sigma is a tensor"
PER_AXIS = "must be one number or three (z, y, x), got 2"
MODES3D = "mode must be 'diff' or 'sobel', got"
MORE_WAYS = ({"algorithm": "fft"}, "algorithm must be 'auto', 'direct', 'fused' or 'separable', got 'fft'")
FUNCTIONS = {
    "spatial_gradient": [
        ((IMAGE, "laplace"), {}, MODES),
        ((IMAGE, "laplace"), {"algorithm": "direct"}, MODES),
        ((IMAGE, "prewitt", 2), {}, "order must be 1 for mode 'prewitt', got 2"),
        ((IMAGE, "prewitt", 2), {"algorithm": "direct"}, "order must be 1 for mode 'prewitt', got 2"),
        ((ones(5),), {}, "input must have at least 2 dimensions, got 1"),
        ((ones(5),), {"algorithm": "direct"}, "input must have at least 2 dimensions, got 1"),
        *(((IMAGE, "sobel", order), {}, f"order must be 1 or 2 for mode 'sobel', got {order}") for order in (0, 3)),
        *(((IMAGE, "sobel", 2), options, sentence) for options, sentence in too_large("5x5")),
    ],
    "spatial_gradient3d": [
        ((VOLUME, "laplace"), {}, f"{MODES3D} 'laplace'"),
        ((VOLUME, "diff", 3), {}, "order must be 1 or 2 for mode 'diff', got 3"),
        ((VOLUME, "sobel", 2), {}, "order must be 1 for mode 'sobel', got 2"),
        ((ones(8, 9),), {}, "input must have at least 3 dimensions, got 2"),
        ((ones(5, 8, 9),), {"out": ones(6, 5, 8, 9)}, "out must have shape (3, 5, 8, 9), got (6, 5, 8, 9)"),
    ],
    "sobel": [
        *(((IMAGE,), options, sentence) for options, sentence in (*SHARED[:2], MORE_WAYS)),
        *(((ones(2, 5),), options, sentence) for options, sentence in too_large("3x3", "an image of 2x5")),
        ((ones(5),), {"algorithm": "direct"}, "input must have at least 2 dimensions, got 1"),
        ((ones(2, 5),), {"algorithm": "direct", "padding": "valid"}, too_large("3x3", "an image of 2x5")[0][1]),
    ],
    "gaussian_sobel": [
        ((IMAGE, 3, 1.0), {"magnitude": "linf"}, "magnitude must be 'l1' or 'l2', got 'linf'"),
        *(((IMAGE, 3, 1.0), options, sentence) for options, sentence in SHARED + too_large("5x5")),
    ],
    "unsharp_mask": [
        ((IMAGE, 4, 1.0), {}, f"{SIZE} (4, 4)"),
        *(((IMAGE, 3, sigma), {}, f"{SIGMA} {sigma}") for sigma in (0.0, -2.0)),
        *(((IMAGE, 9, 1.0), options, sentence) for options, sentence in too_large("9x9")),
    ],
    "difference_of_gaussians": [
        *(((IMAGE, sigma), {}, f"low_{SIGMA} {sigma}") for sigma in (0.0, -1.0)),
        ((IMAGE, 2.0, 1.0), {}, "high_sigma must be at least low_sigma (2.0, 2.0), got (1.0, 1.0)"),
        *(((IMAGE, 1.0), options, sentence) for options, sentence in too_large("13x13")),
    ],
    "gaussian_laplace": [
        *(((IMAGE, sigma), {}, f"{SIGMA} {sigma}") for sigma in (0.0, -1.0)),
        *(((IMAGE, 1.0), options, sentence) for options, sentence in too_large("9x9")),
    ],
    "laplacian": [
        ((IMAGE, 1), {}, "kernel_size must be odd and at least 3 along one axis, got (1, 1)"),
        *(((IMAGE, size), {}, f"{SIZE} {(size, size)}") for size in (2, 4, 0, -3)),
        ((IMAGE, (3, 2)), {}, f"{SIZE} (3, 2)"),
        ((IMAGE, 3), {"variant": "6"}, "variant must be 'box', '4', '8' or 'opencv3', got '6'"),
        ((IMAGE, 5), {"variant": "4"}, "kernel_size must be 3 for variant '4', got (5, 5)"),
    ],
    "gaussian_blur2d": [
        *(((IMAGE, size, 1.0), {}, f"{SIZE} {(size, size)}") for size in (4, 0, -3)),
        ((IMAGE, (3, 4), 1.0), {}, f"{SIZE} (3, 4)"),
        *(((IMAGE, 3, sigma), {}, f"{SIGMA} {sigma}") for sigma in (0.0, -1.0, (1.0, 0.0), NAN)),
        ((IMAGE, None, 1e11), {}, "sigma 100000000000.0 and truncate 4.0 make a kernel of more than 2^24 taps"),
        ((ones(1, 1, 8, 9), None, ones(1, 2)), {}, TENSOR),
    ],
    "gaussian_blur3d": [
        *(((VOLUME, size, 1.0), {}, f"{SIZE} {(size,) * 3}") for size in (4, 0)),
        ((VOLUME, (3, 3, 4), 1.0), {}, f"{SIZE} (3, 3, 4)"),
        ((VOLUME, (3, 3), 1.0), {}, f"kernel_size {PER_AXIS}"),
        ((VOLUME, 3, (1.0, 1.0)), {}, f"sigma {PER_AXIS}"),
        *(((VOLUME, 3, sigma), {}, f"{SIGMA} {sigma}") for sigma in (0.0, (1.0, -1.0, 1.0), NAN)),
        ((VOLUME, None, ones(1, 3)), {}, TENSOR),
        ((VOLUME, 3, ones(1, 2)), {}, "sigma must have shape (B, 3), got (1, 2)"),
    ],
    "gaussian_downsample": [
        ((IMAGE, 3, 1.0, 0), {}, "factor must be at least 1, got 0"),
        ((IMAGE, 4, 1.0), {}, f"{SIZE} (4, 4)"),
        ((IMAGE, None, 0.0), {}, f"{SIGMA} 0.0"),
        *(((image, 5, 1.0), *too_large("5x5")[0]) for image in (IMAGE, ones(0, 3, 4, 5))),
        (
            (IMAGE, 3, 1.0, 3),
            {"algorithm": "fused"},
            "algorithm 'fused' serves odd windows in their middle, with stride 2, dilation 1 and padding='same'",
        ),
    ],
    "structure_tensor": [
        ((IMAGE, 3, 1.0), {"mode": "laplace"}, MODES),
        ((IMAGE, 4, 1.0), {}, f"{SIZE} (4, 4)"),
        ((IMAGE, 3, 0.0), {}, f"{SIGMA} 0.0"),
        *(((IMAGE, 3, 1.0), options, sentence) for options, sentence in SHARED + too_large("5x5")),
    ],
    "thin_edges": [
        ((IMAGE, 4, 1.0), {}, f"{SIZE} (4, 4)"),
        ((IMAGE, 3, -1.0), {}, f"{SIGMA} -1.0"),
        *(((IMAGE, 3, 1.0), options, sentence) for options, sentence in SHARED + too_large("7x7")),
    ],
    "gaussian_gradient_magnitude3d": [
        ((VOLUME, 3, 1.0), {"mode": "scharr"}, f"{MODES3D} 'scharr'"),
        ((VOLUME, 4, 1.0), {}, f"{SIZE} (4, 4, 4)"),
        ((VOLUME, 3, 0.0), {}, f"{SIGMA} 0.0"),
        *(((VOLUME, 3, 1.0), options, sentence) for options, sentence in too_large("5x5x5", "a volume of 4x9x9")),
        ((VOLUME, 3, 1.0), {"algorithm": "direct"}, f"algorithm must be {WAYS}, got 'direct'"),
    ],
}
ARGUMENTS = {
    "difference_of_gaussians": (1.0,),
    "gaussian_laplace": (1.0,),
    **{name: () for name in ("sobel", "spatial_gradient", "spatial_gradient3d")},
    "laplacian": (3,),
}


@pytest.mark.parametrize(("name", "args", "kwargs", "sentence"), flatten(FUNCTIONS))
def test_functions(device, name, args, kwargs, sentence):
    image = make_image((3, 9, 11), device=device)
    good = ARGUMENTS.get(name, (3, 1.0))
    kwargs = {key: v.to(device) if isinstance(v, torch.Tensor) else v for key, v in kwargs.items()}
    check_value(device, name, args, kwargs, sentence, lambda: getattr(torch_conv, name)(image, *good))


def test_values_of_a_sigma_tensor():
    """On the CPU only: a check of values on a GPU would synchronise with it."""
    with refuses(ValueError, f"gaussian_blur3d: {SIGMA} [[1.0, 0.0, 1.0]]"):
        torch_conv.gaussian_blur3d(VOLUME, 3, torch.tensor([[1.0, 0.0, 1.0]]))


@pytest.mark.parametrize(
    "name",
    [
        "gaussian_blur2d",
        "gaussian_downsample",
        "gaussian_sobel",
        "structure_tensor",
        "thin_edges",
        "unsharp_mask",
        "gaussian_blur3d",
        "gaussian_gradient_magnitude3d",
    ],
)
def test_a_sigma_for_every_sample_or_one_for_all(device, name):
    axes = 3 if name.endswith("3d") else 2
    function, space = getattr(torch_conv, name), (9, 8, 7)[:axes]
    for lead, rows, sentence in (
        ((2, 3), 3, "sigma's first dimension must be 1 or the batch size 2, got 3"),
        ((2,), 2, "sigma's first dimension must be 1 or the batch size 1, got 2"),
        ((2, 1, 3), 2, f"sigma must be one shared row where the input has more than {axes + 2} dimensions, got 2"),
    ):
        image = torch.zeros(*lead, *space, device=device)
        with refuses(ValueError, f"{name}: {sentence}"):
            function(image, 3, torch.ones(rows, axes))
        function(image, 3, torch.ones(1, axes))


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "sentence"),
    [
        ("sobel", (IMAGE.int(),), {}, f"input must have dtype {DTYPES}, got int32"),
        ("sobel", (IMAGE,), {"eps": "1"}, "eps must be of type float, got str"),
        ("spatial_gradient", (IMAGE, 1), {}, "mode must be of type str, got int"),
        ("gaussian_sobel", (IMAGE.bool(), 3, 1.0), {}, f"input must have dtype {DTYPES}, got bool"),
        ("gaussian_sobel", (IMAGE, 3.5, 1.0), {}, "kernel_size must be an int or a tuple of ints, got float"),
        (
            "gaussian_blur2d",
            (IMAGE, 1.5),
            {},
            "kernel_size must be an int or a tuple of ints, got float; did you mean sigma=1.5?",
        ),
        ("unsharp_mask", (IMAGE, 9, 1.0), {"amount": None}, "amount must be of type float, got NoneType"),
        (
            "thin_edges",
            (IMAGE, 3, 1.0),
            {"output_dtype": torch.int8},
            f"output_dtype must have dtype {DTYPES}, got int8",
        ),
        ("structure_tensor", (IMAGE, 3, "wide"), {}, "sigma must be of type float, got str"),
        (
            "structure_tensor",
            ("photo.png", 3, 1.0),
            {},
            "input must be a torch.Tensor, got str; torchvision.io.decode_image(input) reads a picture",
        ),
        (
            "gaussian_downsample",
            (IMAGE.to(torch.complex64), 3, 1.0),
            {},
            f"input must have dtype {DTYPES}, got complex64",
        ),
        ("gaussian_gradient_magnitude3d", (IMAGE[None], "3", 1.0), {}, "kernel_size must be of type int, got str"),
        ("gaussian_downsample", (IMAGE, 3, 1.0, 1.5), {}, "factor must be of type int, got float"),
        ("gaussian_blur3d", (VOLUME, "3", 1.0), {}, "kernel_size must be of type int, got str"),
        ("gaussian_blur3d", (VOLUME, 3.0, 1.0), {}, "kernel_size must be an int or a tuple of ints, got float"),
        *(
            ("gaussian_blur3d", (VOLUME, 3, sigma), {}, "sigma must be of type float, got str")
            for sigma in ("1", (1.0, "1", 1.0))
        ),
        (
            "gaussian_blur2d",
            (IMAGE, 3, np.array([1.0, 2.0])),
            {},
            "sigma must be a number, a tuple of numbers or a tensor, got numpy.ndarray",
        ),
        (
            "gaussian_laplace",
            (IMAGE, np.array([1.0, 2.0])),
            {},
            "sigma must be a number or a tuple of numbers, got numpy.ndarray",
        ),
        (
            "gaussian_blur2d",
            (IMAGE, np.array([3, 3]), 1.0),
            {},
            "kernel_size must be an int or a tuple of ints, got numpy.ndarray",
        ),
    ],
)
def test_types(device, name, args, kwargs, sentence):
    check_type(device, name, args, kwargs, sentence)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("sobel", (IMAGE, True, 1e-6, "reflect")),
        ("spatial_gradient", (IMAGE, "sobel", 1, True, "reflect")),
        ("gaussian_sobel", (IMAGE, 3, 1.0, "reflect", "l1")),
        ("gaussian_downsample", (IMAGE, 3, 1.0, 2, "reflect", 3.0)),
        ("structure_tensor", (IMAGE, 3, 1.0, "reflect", "diff")),
        ("thin_edges", (IMAGE, 3, 1.0, "reflect", "same")),
        ("gaussian_gradient_magnitude3d", (IMAGE[None], 3, 1.0, "reflect", "sobel")),
    ],
)
def test_own_arguments_are_keyword_only(name, args):
    getattr(torch_conv, name)(*args[:-1])
    with pytest.raises(TypeError, match=f"^{name}: .* must be given by keyword$"):
        getattr(torch_conv, name)(*args)
