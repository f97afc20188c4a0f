"""gaussian_downsample: a blur of which not every pixel is computed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import check, magnitude
from strategies import BORDERS, DTYPES, LAYOUTS, make_image, seeds, sides
from tolerance import assert_same_bits

import torch_conv


@given(
    size=st.sampled_from([1, 3, 5, (3, 7), 15]),
    factor=st.sampled_from([1, 2, 2, 2, 3, 5]),
    dtype=st.sampled_from(DTYPES),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), sides(), sides(40)),
    border=st.sampled_from(BORDERS),
    layout=st.sampled_from(LAYOUTS),
    seed=seeds(),
)
def test_any_call_agrees_with_the_oracle(device, size, factor, dtype, shape, border, layout, seed):
    image = make_image(shape, dtype, seed)
    check(
        "gaussian_downsample",
        image,
        size,
        1.3,
        factor,
        border,
        device=device,
        window=(size, size) if isinstance(size, int) else size,
        algorithm="separable",
        layout=layout,
        scale=magnitude("gaussian_downsample", image, size, 1.3, factor, border),
    )


@pytest.mark.parametrize("algorithm", ["auto", "separable", "fused"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_is_a_part_of_the_blur(device, algorithm, dtype):
    if device != "cpu" and algorithm == "fused":
        algorithm = "auto"  # the kernel family leaves some of these to others
    for shape in ((1, 1), (2, 3, 9, 8), (1, 130, 257), (64, 256)):
        image = make_image(shape, dtype, device=device)
        for border in BORDERS:
            for size in (3, 5, (5, 3)):
                options = {"border_type": border, "value": 2.0}
                expected = torch_conv.gaussian_blur2d(image, size, 1.2, **options)[..., ::2, ::2]
                got = torch_conv.gaussian_downsample(image, size, 1.2, algorithm=algorithm, **options)
                assert_same_bits(got, expected)


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("factor", [1, 2, 3, 7])
def test_factors(device, padding, factor):
    image = make_image((2, 3, 20, 31), device=device)
    expected = torch_conv.gaussian_blur2d(image, 5, 1.2, padding=padding)[..., ::factor, ::factor]
    assert_same_bits(torch_conv.gaussian_downsample(image, 5, 1.2, factor, padding=padding), expected)


def test_witness_scipy(device):
    image = make_image((35, 42), torch.float64)
    expected = ndi.gaussian_filter(image.numpy(), 1.5, mode="mirror", truncate=3.0)[::2, ::2]
    got = torch_conv.gaussian_downsample(image.to(device), None, 1.5, truncate=3.0).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_a_sigma_for_every_sample(device):
    image, sigma = make_image((2, 3, 20, 31), device=device), torch.tensor([[1.0, 2.0], [0.7, 0.7]], device=device)
    expected = torch_conv.gaussian_blur2d(image, 5, sigma)[..., ::2, ::2]
    assert_same_bits(torch_conv.gaussian_downsample(image, 5, sigma), expected)


@pytest.mark.parametrize(
    ("args", "options", "sentence"),
    [
        ((3, 1.0, 0), {}, "factor must be at least 1, got 0"),
        ((4, 1.0), {}, "kernel_size must be odd and at least 1, got (4, 4)"),
        ((None, 0.0), {}, "sigma must be finite and greater than 0, got 0.0"),
        ((5, 1.0), {"padding": "valid"}, "a window of 5x5 does not fit into an image of 4x9 with padding='valid'"),
        (
            (3, 1.0, 3),
            {"algorithm": "fused"},
            "algorithm 'fused' serves odd windows in their middle, with stride 2, dilation 1 and padding='same'",
        ),
    ],
)
def test_errors(device, args, options, sentence):
    for lead in ((), (0, 3)):
        with pytest.raises(ValueError) as caught:
            torch_conv.gaussian_downsample(torch.zeros(*lead, 4, 9, device=device), *args, **options)
        assert str(caught.value) == f"gaussian_downsample: {sentence}"


def test_a_factor_is_a_whole_number(device):
    with pytest.raises(TypeError) as caught:
        torch_conv.gaussian_downsample(torch.zeros(4, 9, device=device), 3, 1.0, 1.5)
    assert str(caught.value) == "gaussian_downsample: factor must be of type int, got float"
