"""Refusals of the convolutions: one literal sentence each."""

from __future__ import annotations

import pytest
import torch
from refusals import check_operator, check_type, check_value, flatten, ones
from strategies import make_image, make_window

import torch_conv

# (positional arguments, keyword arguments, the sentence without the function's name); images and windows are moved
# to the tested device.
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
        "algorithm must be 'auto', 'ours', 'direct', 'tensor_core' or 'torch', got 'fft'",
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
CASES = {"conv2d": CONV2D, "conv3d": CONV3D}
OPERATORS: dict[str, str] = {}
GOOD_CALLS = {
    "conv2d": lambda x: torch_conv.conv2d(x[None], make_window((1, 1, 3, 3), device=x.device)),
    "conv3d": lambda x: torch_conv.conv3d(x[None, None], make_window((1, 1, 1, 3, 3), device=x.device)),
}


@pytest.mark.parametrize(("name", "args", "kwargs", "sentence"), flatten(CASES))
def test_bad_values(device, name, args, kwargs, sentence):
    good = make_image((4, 5), device=device)
    check_value(device, name, args, kwargs, sentence, lambda: GOOD_CALLS[name](good))


@pytest.mark.parametrize(("name", "args", "kwargs", "sentence"), flatten(CASES))
def test_operators_say_the_same(device, name, args, kwargs, sentence):
    check_operator(device, OPERATORS.get(name, name), args, kwargs, sentence)


TYPES = [
    (
        "conv3d",
        (ones(1, 3, 4, 8, 8), ones(3, 1, 3, 3, 3, dtype=torch.float64)),
        {"groups": 3},
        "weight must have the input's dtype float32, got float64",
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
    check_type(device, name, args, kwargs, sentence)


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
        with pytest.raises(TypeError) as caught:
            torch_conv.conv2d(image, weight, groups=groups, **bad)
        assert str(caught.value) == f"conv2d: {sentence}"
