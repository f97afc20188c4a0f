"""structure_tensor: smoothed products of derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import check
from strategies import BORDERS, FLOATS, LAYOUTS, make_image, seeds, sides
from tolerance import assert_same_bits

import torch_conv

MODES = ["sobel", "diff", "scharr", "prewitt"]


@given(
    size=st.sampled_from([1, 3, 5, (3, 7)]),
    mode=st.sampled_from(MODES),
    dtype=st.sampled_from(FLOATS),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3), sides(), sides(40)),
    border=st.sampled_from(BORDERS),
    layout=st.sampled_from(LAYOUTS),
    algorithm=st.sampled_from(["auto", "separable"]),
    seed=seeds(),
)
def test_any_call_agrees_with_the_oracle(device, size, mode, dtype, shape, border, layout, algorithm, seed):
    image = make_image(shape, dtype, seed)
    ky, kx = (size, size) if isinstance(size, int) else size
    b, c, h, w = shape
    # normalised derivatives are not larger than the image, and the Gaussian's taps sum to 1
    scale = torch.full((b, c, 3, h, w), image.double().abs().max().item() ** 2, dtype=torch.float64)
    options = {"device": device, "layout": layout, "window": (ky + 2, kx + 2), "algorithm": "composed", "scale": scale}
    got = check("structure_tensor", image, size, 1.3, border, mode=mode, way=algorithm, **options)
    assert got.shape == (b, c, 3, h, w)
    assert got.is_contiguous()


@pytest.mark.parametrize(
    ("ours", "theirs"), [("symmetric", "reflect"), ("replicate", "nearest"), ("reflect", "mirror")]
)
def test_witness_scikit_image(device, ours, theirs):
    """It takes raw Sobel windows, which sum to 8, and the order of the axes (y, x)."""
    feature = pytest.importorskip("skimage.feature")
    image = make_image((35, 42), torch.float64)
    expected = feature.structure_tensor(image.numpy(), 1.4, mode=theirs, order="rc")
    got = torch_conv.structure_tensor(image.to(device), None, 1.4, ours).cpu().numpy()
    np.testing.assert_allclose(64 * got, np.stack(expected[::-1]), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("divisor", [6])
def test_witness_scipy(device, divisor):
    image = make_image((2, 20, 31), torch.float64)
    got = torch_conv.structure_tensor(image.to(device), None, (1.0, 2.0), "symmetric", mode="prewitt").cpu()
    for n in range(2):
        y, x = (ndi.prewitt(image[n].numpy(), axis, mode="reflect") / divisor for axis in (0, 1))
        for i, product in enumerate((x * x, x * y, y * y)):
            expected = ndi.gaussian_filter(product, (1.0, 2.0), mode="reflect")
            np.testing.assert_allclose(got[n, i].numpy(), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("border", BORDERS)
def test_equals_the_steps(device, mode, border):
    image = make_image((2, 3, 20, 31), torch.float64, device=device)
    gx, gy = torch_conv.spatial_gradient(image, mode, border_type=border).unbind(-3)
    products = torch.stack([gx * gx, gx * gy, gy * gy], -3)
    got = torch_conv.structure_tensor(image, 5, 1.2, border, mode=mode)
    assert_same_bits(got, torch_conv.gaussian_blur2d(products, 5, 1.2, border))


@pytest.mark.parametrize("mode", MODES)
def test_a_ramp_has_one_direction(device, mode):
    y, x = torch.meshgrid(torch.arange(15.0), torch.arange(17.0), indexing="ij")
    got = torch_conv.structure_tensor((3 * x - 2 * y).to(device), 5, 1.0, mode=mode)[:, 4:-4, 4:-4].cpu()
    for values, expected in zip(got, (9.0, -6.0, 4.0), strict=True):
        torch.testing.assert_close(values, torch.full_like(values, expected))


def test_a_sigma_for_every_sample(device):
    image, sigma = make_image((2, 3, 20, 31), device=device), torch.tensor([[1.0, 2.0], [0.7, 0.7]])
    got = torch_conv.structure_tensor(image, 5, sigma.to(device))
    for n, pair in enumerate(((1.0, 2.0), (0.7, 0.7))):
        torch.testing.assert_close(got[n], torch_conv.structure_tensor(image[n], 5, pair), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("args", "options", "sentence"),
    [
        ((3, 1.0), {"mode": "laplace"}, "mode must be 'sobel', 'diff', 'scharr' or 'prewitt', got 'laplace'"),
        ((4, 1.0), {}, "kernel_size must be odd and at least 1, got (4, 4)"),
        ((3, 0.0), {}, "sigma must be finite and greater than 0, got 0.0"),
        ((3, 1.0), {"padding": "valid"}, "a window of 5x5 does not fit into an image of 4x9 with padding='valid'"),
        ((3, 1.0), {"padding": "full"}, "padding must be 'same' or 'valid', got 'full'"),
    ],
)
def test_errors(device, args, options, sentence):
    with pytest.raises(ValueError) as caught:
        torch_conv.structure_tensor(torch.zeros(4, 9, device=device), *args, **options)
    assert str(caught.value) == f"structure_tensor: {sentence}"
