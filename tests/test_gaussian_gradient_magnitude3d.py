"""gaussian_gradient_magnitude3d: how steep a smoothed volume is."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import check
from strategies import BORDERS, FLOATS, VOLUME_LAYOUTS, make_image, seeds, shapes

import torch_conv

SLOPE, ONE, SMOOTH = ([-0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [0.25, 0.5, 0.25])


@given(
    size=st.sampled_from([1, 3, 5, (1, 3, 5)]),
    mode=st.sampled_from(["diff", "sobel"]),
    dtype=st.sampled_from(FLOATS),
    shape=shapes(3),
    border=st.sampled_from(BORDERS),
    value=st.sampled_from([0.0, 1.5, -2.0]),
    layout=st.sampled_from(VOLUME_LAYOUTS),
    algorithm=st.sampled_from(["auto", "separable"]),
    seed=seeds(),
)
def test_any_call_agrees_with_the_oracle(device, size, mode, dtype, shape, border, value, layout, algorithm, seed):
    volume = make_image((2, *shape), dtype, seed)
    window = [k + 2 for k in ((size,) * 3 if isinstance(size, int) else size)]
    # three derivatives, none larger than the volume
    largest = 3**0.5 * max(volume.double().abs().max().item(), abs(value))
    fits = all(n >= k for n, k in zip(shape, window, strict=True))
    for padding in ("same", "valid") if fits else ("same",):
        lost = [k - 1 if padding == "valid" else 0 for k in window]
        made = [n - less for n, less in zip(shape, lost, strict=True)]
        scale = torch.full((2, *made), largest, dtype=torch.float64)
        options = {"device": device, "layout": layout, "algorithm": "composed", "scale": scale, "way": algorithm}
        options |= {"mode": mode, "padding": padding, "value": value}
        check("gaussian_gradient_magnitude3d", volume, size, 1.1, border, window=window, **options)


@pytest.mark.parametrize("mode", ["diff", "sobel"])
@pytest.mark.parametrize("border", BORDERS)
def test_equals_the_steps(device, mode, border):
    volume = make_image((2, 7, 12, 21), torch.float64, device=device)
    options = {"border_type": border, "value": 1.5}
    blurred = torch_conv.gaussian_blur3d(volume, 3, 1.2, algorithm="separable", **options)
    slope, smooth = torch.tensor(SLOPE), torch.tensor(ONE if mode == "diff" else SMOOTH)
    squares = 0
    for axis in range(3):
        rows = [slope if a == axis else smooth for a in range(3)]
        squares = squares + torch_conv.filter3d_separable(blurred, *rows, **options).square()
    got = torch_conv.gaussian_gradient_magnitude3d(volume, 3, 1.2, mode=mode, **options)
    torch.testing.assert_close(got, squares.sqrt(), rtol=1e-12, atol=1e-13)


def test_witness_scipy(device):
    volume = make_image((9, 14, 17), torch.float64)
    blurred = ndi.gaussian_filter(volume.numpy(), (0.8, 1.0, 1.2), mode="nearest")
    inside = (slice(1, -1),) * 3
    expected = np.sqrt(sum(g**2 for g in np.gradient(blurred)))[inside]
    got = torch_conv.gaussian_gradient_magnitude3d(volume.to(device), None, (0.8, 1.0, 1.2)).cpu().numpy()[inside]
    np.testing.assert_allclose(got, expected, rtol=1e-11)
    sobel = [ndi.sobel(blurred, axis, mode="nearest") / 32 for axis in range(3)]
    got = torch_conv.gaussian_gradient_magnitude3d(volume.to(device), None, (0.8, 1.0, 1.2), mode="sobel").cpu()
    np.testing.assert_allclose(got.numpy(), np.sqrt(sum(g**2 for g in sobel)), rtol=1e-11)


@pytest.mark.parametrize("mode", ["diff", "sobel"])
def test_a_ramp_has_its_slope(device, mode):
    z, y, x = torch.meshgrid(torch.arange(9.0), torch.arange(10.0), torch.arange(11.0), indexing="ij")
    got = torch_conv.gaussian_gradient_magnitude3d((2 * x - 3 * y + 6 * z).to(device), 3, 1.0, mode=mode).cpu()
    torch.testing.assert_close(got[3:-3, 3:-3, 3:-3], torch.full((3, 4, 5), 7.0))


def test_a_sigma_for_every_sample(device):
    volume, sigma = make_image((2, 3, 5, 9, 12), device=device), torch.tensor([[1.0, 2.0, 0.5], [0.7, 0.7, 0.7]])
    got = torch_conv.gaussian_gradient_magnitude3d(volume, 3, sigma.to(device))
    for n in range(2):
        expected = torch_conv.gaussian_gradient_magnitude3d(volume[n], 3, tuple(sigma[n].tolist()))
        torch.testing.assert_close(got[n], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("args", "options", "sentence"),
    [
        ((3, 1.0), {"mode": "scharr"}, "mode must be 'diff' or 'sobel', got 'scharr'"),
        ((4, 1.0), {}, "kernel_size must be odd and at least 1, got (4, 4, 4)"),
        ((3, 0.0), {}, "sigma must be finite and greater than 0, got 0.0"),
        ((3, 1.0), {"padding": "valid"}, "a window of 5x5x5 does not fit into a volume of 4x9x9 with padding='valid'"),
        ((3, 1.0), {"algorithm": "direct"}, "algorithm must be 'auto', 'fused' or 'separable', got 'direct'"),
    ],
)
def test_errors(device, args, options, sentence):
    with pytest.raises(ValueError) as caught:
        torch_conv.gaussian_gradient_magnitude3d(torch.zeros(4, 9, 9, device=device), *args, **options)
    assert str(caught.value) == f"gaussian_gradient_magnitude3d: {sentence}"


@pytest.mark.parametrize("shape", [(4, 9, 9), (0, 4, 9, 9), (2, 4, 0, 9)])
def test_no_launch_for_volumes_on_the_cpu(shape):
    with pytest.raises(ValueError) as caught:
        torch_conv.gaussian_gradient_magnitude3d(torch.zeros(shape), 3, 1.0, algorithm="fused")
    sentence = "algorithm 'fused' cannot serve this call: volumes are fused on CUDA only"
    assert str(caught.value) == f"gaussian_gradient_magnitude3d: {sentence}"
