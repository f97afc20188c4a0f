"""filter2d_separable: two 1-D windows, equal to their outer product on the extended image."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from hypothesis import given
from oracle import check, exact, magnitude
from strategies import BORDERS, DTYPES, make_image, make_window, separable_cases
from tolerance import assert_same_bits, assert_within

import torch_conv


@given(case=separable_cases())
def test_any_call_agrees_with_the_oracle(device, case):
    kernel_x, kernel_y = case.kernels
    window = (kernel_y.shape[-1], kernel_x.shape[-1])
    check(
        "filter2d_separable",
        case.image,
        kernel_x,
        kernel_y,
        device=device,
        algorithm="separable",
        window=window,
        layout=case.layout,
        **case.options,
    )


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("window", [(1, 1), (1, 7), (7, 1), (3, 3), (4, 6), (15, 15), (9, 31)])
def test_equals_the_outer_product_on_the_extended_image(device, border, padding, window):
    """Also for a border value other than 0, and where rows and columns are outside at once."""
    image = make_image((2, 33, 50))
    kernel_x, kernel_y = make_window((window[1],), seed=1), make_window((window[0],), seed=2)
    outer = kernel_y.double()[:, None] * kernel_x.double()
    got = torch_conv.filter2d_separable(
        image.to(device), kernel_x.to(device), kernel_y.to(device), border, padding=padding, value=3.0
    )
    options = {"border_type": border, "padding": padding, "value": 3.0}
    assert_within(
        got,
        exact("filter2d", image, outer, **options),
        magnitude("filter2d", image, outer, **options),
        in_dtype=torch.float32,
        algorithm="separable",
        window=window,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [3, 5, 15, 31, 63])
def test_sizes_and_dtypes(device, dtype, size):
    kernel = make_window((size,)).abs() / size
    for border in ("reflect", "constant"):
        check(
            "filter2d_separable",
            make_image((2, 2, 37, 70), dtype),
            kernel,
            kernel.flip(0),
            border,
            device=device,
            algorithm="separable",
            window=(size, size),
        )


def test_one_rounding_at_the_end(device):
    """Rounding the row pass to uint8 would lose the halves: 1 * 0.5 * 0.5 summed over 2 x 2 taps is 1."""
    image = torch.ones(6, 6, dtype=torch.uint8, device=device)
    half = torch.full((2,), 0.5, device=device)
    assert torch_conv.filter2d_separable(image, half * 0.5, half * 2).eq(1).all()


def test_kernel_x_lies_along_the_rows(device):
    image = torch.zeros(5, 7, device=device)
    image[2, 3] = 1
    got = torch_conv.filter2d_separable(
        image, torch.tensor([1.0, 2.0, 3.0], device=device), torch.tensor([10.0], device=device), "constant"
    )
    assert got[2].tolist() == [0, 0, 30, 20, 10, 0, 0]
    assert got.count_nonzero() == 3


def test_per_sample_windows(device):
    """Rows of (B, kW) and (B, kH), as kornia takes them."""
    image, kernel_x, kernel_y = make_image((3, 2, 20, 21)), make_window((3, 5)), make_window((3, 7), seed=8)
    got = torch_conv.filter2d_separable(image.to(device), kernel_x.to(device), kernel_y.to(device))
    for b in range(3):
        one = torch_conv.filter2d_separable(image[b].to(device), kernel_x[b].to(device), kernel_y[b].to(device))
        assert_same_bits(got[b], one)


def test_function_and_operator_are_one(device):
    image, kernel = make_image((2, 3, 20, 31), device=device), make_window((5,), device=device)
    assert_same_bits(
        torch.ops.torch_conv.filter2d_separable(image, kernel, kernel),
        torch_conv.filter2d_separable(image, kernel, kernel),
    )


def test_no_elements_in_no_elements_out(device):
    image, kernel = torch.zeros(0, 3, 4, 5, device=device), torch.ones(3, device=device)
    assert torch_conv.filter2d_separable(image, kernel, kernel).shape == image.shape


def test_witness_scipy(device):
    image, x, y = (
        make_image((25, 31), torch.float64),
        make_window((7,), torch.float64),
        make_window((4,), torch.float64),
    )
    expected = ndi.correlate1d(ndi.correlate1d(image.numpy(), x.numpy(), 1, mode="mirror"), y.numpy(), 0, mode="mirror")
    got = torch_conv.filter2d_separable(image.to(device), x.to(device), y.to(device), anchor=-1).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("normalized", [False, True])
def test_witness_kornia(normalized):
    kornia = pytest.importorskip("kornia")
    image, x, y = (
        make_image((2, 3, 19, 23), torch.float64),
        make_window((1, 5), torch.float64),
        make_window((1, 3), torch.float64),
    )
    expected = kornia.filters.filter2d_separable(image, x, y, "reflect", normalized)
    torch.testing.assert_close(
        torch_conv.filter2d_separable(image, x, y, "reflect", normalized), expected, rtol=1e-12, atol=1e-12
    )


H200 = "9.0 132 232448 4.8e12"
LARGE = (make_window((191,), seed=1) / 20, make_window((211,), seed=2) / 20)  # along x, then y


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.uint8, torch.int16, torch.uint16])
@pytest.mark.parametrize("layout", ["planar", "photo"])
def test_large_windows_have_the_bits_of_the_cpu(cuda, dtype, layout):
    """Windows for which other dtypes go by float32's kernels."""
    image = make_image((6, 3, 720, 704), dtype)
    if dtype.is_floating_point:
        image[0, 0, 300, 300], image[1, 1, 5, 700] = float("nan"), float("inf")
    image = image.to(memory_format=torch.channels_last) if layout == "photo" else image
    samples = tuple(torch.stack([k * (1 + i) for i in range(6)]) for k in LARGE)
    for windows, options in (
        (LARGE, {"border_type": "reflect"}),
        (LARGE, {"border_type": "constant", "value": 0.5, "output_dtype": torch.float32}),
        (LARGE, {"border_type": "zero_output"}),
        (LARGE, {"padding": "valid"}),
        (samples, {"border_type": "circular"}),
    ):
        got = torch_conv.filter2d_separable(image.to(cuda), *(k.to(cuda) for k in windows), **options)
        assert got.is_contiguous(memory_format=torch.channels_last if layout == "photo" else torch.contiguous_format)
        expected = torch_conv.filter2d_separable(image, *windows, algorithm="separable", **options)
        assert_same_bits(got, expected)
    out = torch.zeros(6, 3, 720, 1000, dtype=dtype, device=cuda)[..., 100:804]
    torch_conv.filter2d_separable(image.to(cuda), *(k.to(cuda) for k in LARGE), out=out)
    assert_same_bits(out, torch_conv.filter2d_separable(image, *LARGE, algorithm="separable"))


def test_large_windows_of_other_dtypes_go_by_float32(monkeypatch):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", H200)

    def launches(dtype, shape=(6, 3, 720, 704), windows=LARGE, **options):
        lines = torch_conv.explain(
            torch_conv.filter2d_separable, torch.empty(shape, dtype=dtype), *windows, **options
        ).lines
        return [line.split(" (")[0].split(": ")[1] for line in lines]

    tap, ring = "direct/tile_tma", "separable/ring_unaligned"
    for dtype in (torch.float16, torch.bfloat16, torch.uint8, torch.int16):
        assert launches(dtype) == [tap, ring, tap]
        assert launches(dtype, output_dtype=torch.float32) == [tap, ring]
        assert launches(dtype, (1, 1, 1024, 1024)) == ["separable/two_pass"]  # as of float32
    assert launches(torch.float32, output_dtype=torch.float16) == [ring, tap]
    assert launches(torch.float16, windows=(LARGE[0][:3], LARGE[1])) == ["separable/two_pass"]  # thin
    assert launches(torch.float32) == [ring]
    assert launches(torch.float64) == ["separable/two_pass"]
