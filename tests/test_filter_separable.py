"""filter2d_separable and filter3d_separable: windows along each axis, equal to their outer product."""

import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import check, exact, magnitude
from strategies import BORDERS, DTYPES, make_image, make_window, separable_cases
from tolerance import assert_same_bits, assert_within
from witness import outer

import torch_conv

AXES = [2, 3]


def separable(image, *taps, **options):
    """filter2d_separable or filter3d_separable; windows in the order x, y, z."""
    return getattr(torch_conv, f"filter{len(taps)}d_separable")(image, *taps, **options)


@pytest.mark.parametrize("axes", AXES)
@given(data=st.data())
def test_any_call_agrees_with_the_oracle(device, axes, data):
    case = data.draw(separable_cases(axes=axes))
    window = tuple(k.shape[-1] for k in reversed(case.kernels))
    options = {"algorithm": "separable", "window": window, "layout": case.layout, **case.options}
    check(f"filter{axes}d_separable", case.image, *case.kernels, device=device, **options)


FLAT = [(1, 1), (1, 7), (7, 1), (3, 3), (4, 6), (15, 15), (9, 31)]
DEEP = [(1, 1, 1), (1, 1, 7), (1, 7, 1), (7, 1, 1), (3, 3, 3), (4, 2, 6), (5, 9, 3)]


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("window", [*FLAT, *DEEP])
def test_equals_the_outer_product_on_the_extended_image(device, border, padding, window):
    """Also for a border value other than 0, and where several axes are outside at once."""
    axes = len(window)
    image = make_image({2: (2, 33, 50), 3: (2, 8, 11, 20)}[axes])
    taps = [make_window((k,), seed=i) for i, k in enumerate(window)]
    call = (f"filter{axes}d", image, torch.from_numpy(outer(*taps)))
    options = {"border_type": border, "padding": padding, "value": 3.0}
    got = separable(image.to(device), *(t.to(device) for t in reversed(taps)), **options)
    form = {"in_dtype": torch.float32, "algorithm": "separable", "window": window}
    assert_within(got, exact(*call, **options), magnitude(*call, **options), **form)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "size"),
    [*(((2, 2, 37, 70), k) for k in (3, 5, 15, 31, 63)), *(((2, 7, 9, 21), k) for k in (3, 5, 7, 9, 15))],
)
@pytest.mark.parametrize("border", ["reflect", "constant"])
def test_sizes_and_dtypes(device, dtype, shape, size, border):
    axes = 2 if shape[-1] == 70 else 3
    kernel = make_window((size,)).abs() / size
    taps = (kernel, kernel.flip(0), kernel)[:axes]
    form = {"algorithm": "separable", "window": (size,) * axes}
    check(f"filter{axes}d_separable", make_image(shape, dtype), *taps, border, device=device, **form)


@pytest.mark.parametrize(("shape", "factors"), [((6, 6), (0.5, 2)), ((5, 6, 6), (0.5, 0.5, 4))])
def test_one_rounding_at_the_end(device, shape, factors):
    """Rounding a pass to uint8 would lose the halves."""
    image, half = torch.ones(shape, dtype=torch.uint8, device=device), torch.full((2,), 0.5, device=device)
    assert separable(image, *(half * factor for factor in factors)).eq(1).all()


@pytest.mark.parametrize(("axes", "axis"), [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_each_window_lies_along_its_axis(device, axes, axis):
    image = torch.zeros((7,) * axes, device=device)
    image[(3,) * axes] = 1
    taps = [torch.tensor([2.0], device=device)] * axes
    taps[axis] = torch.tensor([1.0, 2.0, 3.0], device=device)
    got = separable(image, *reversed(taps), border_type="constant")
    expected = [2.0 ** (axes - 1) * tap for tap in (0, 0, 3, 2, 1, 0, 0)]
    assert got.movedim(axis, -1)[(3,) * (axes - 1)].tolist() == expected
    assert got.count_nonzero() == 3


@pytest.mark.parametrize("form", [(3,), (1, 2), (3, 2)])
@pytest.mark.parametrize("axes", AXES)
def test_windows_per_sample_and_channel(device, axes, form):
    """Also where the windows have different forms."""
    image = make_image((3, 2, *(6, 9, 12)[-axes:]))
    x, y, *z = (make_window((*form, 5)), make_window((3, 7), seed=8), make_window((3,), seed=9))[:axes]
    got = separable(*(t.to(device) for t in (image, x, y, *z))).cpu()
    full = (x[:, None] if len(form) == 1 else x).expand(3, 2, 5)
    for b in range(3):
        for c in range(2):
            assert_same_bits(got[b, c], separable(image[b, c], full[b, c].clone(), y[b], *z))


@pytest.mark.parametrize("axes", AXES)
def test_function_and_operator_are_one(device, axes):
    image, k = make_image((2, 3, *(6, 12, 15)[-axes:]), device=device), make_window((5,), device=device)
    operator = getattr(torch.ops.torch_conv, f"filter{axes}d_separable")
    assert_same_bits(operator(image, *[k] * axes), separable(image, *[k] * axes))


@pytest.mark.parametrize(
    ("axes", "shape"), [(2, (0, 3, 4, 5)), (2, (4, 0)), (3, (0, 3, 4, 5, 6)), (3, (4, 0, 5)), (3, (0, 4, 5))]
)
def test_no_elements_in_no_elements_out(device, axes, shape):
    assert separable(torch.zeros(shape, device=device), *[torch.ones(3, device=device)] * axes).shape == shape


@pytest.mark.parametrize(("border", "mode"), [("reflect", "mirror"), ("replicate", "nearest"), ("circular", "wrap")])
@pytest.mark.parametrize("shape", [(25, 31), (9, 13, 17)])
def test_witness_scipy(device, shape, border, mode):
    image = make_image(shape, torch.float64)
    taps = [make_window((k,), torch.float64, seed=k) for k in (7, 4, 5)[-len(shape) :]]
    expected = image.numpy()
    for axis in reversed(range(len(shape))):
        expected = ndi.correlate1d(expected, taps[axis].numpy(), axis, mode=mode)
    moved = (t.to(device) for t in reversed(taps))
    got = separable(image.to(device), *moved, border_type=border, anchor=-1).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("normalized", [False, True])
def test_witness_kornia(normalized):
    kornia = pytest.importorskip("kornia")
    image = make_image((2, 3, 19, 23), torch.float64)
    call = (image, make_window((1, 5), torch.float64), make_window((1, 3), torch.float64), "reflect", normalized)
    expected = kornia.filters.filter2d_separable(*call)
    torch.testing.assert_close(torch_conv.filter2d_separable(*call), expected, rtol=1e-12, atol=1e-12)


def test_a_far_border_value_costs_no_memory(device):
    """A window whose footprint has a billion planes outside the volume, with one value."""
    volume, taps = make_image((4, 5, 16)), [make_window((3,), seed=i) for i in range(3)]
    options = {"border_type": "constant", "value": 1.5, "dilation": (1_000_000_000, 1, 1)}
    got = separable(volume.to(device), *(t.to(device) for t in reversed(taps)), **options)
    expected = torch_conv.filter3d(volume, torch.from_numpy(outer(*taps)).to(volume.dtype), **options)
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tap", [float("nan"), float("inf")])
def test_zero_output_is_zero_whatever_the_taps(device, tap):
    volume, ones = make_image((2, 6, 7, 16)).to(device), torch.ones(3, device=device)
    z = torch.tensor([1.0, tap, 1.0], device=device)
    got = torch_conv.filter3d_separable(volume, ones, ones, z, "zero_output")
    expected = torch.zeros_like(volume, dtype=torch.bool)
    expected[:, 1:-1, 1:-1, 1:-1] = True
    assert torch.equal(~got.isfinite(), expected)
    assert (got[~expected] == 0).all()


H200 = "9.0 132 232448 4.8e12"
LARGE = (make_window((191,), seed=1) / 20, make_window((211,), seed=2) / 20)  # along x, then y


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.uint8, torch.int16, torch.uint16])
@pytest.mark.parametrize("layout", ["planar", "hwc"])
def test_large_windows_have_the_bits_of_the_cpu(cuda, dtype, layout):
    """Windows for which other dtypes go by float32's kernels."""
    image = make_image((6, 3, 720, 704), dtype)
    if dtype.is_floating_point:
        image[0, 0, 300, 300], image[1, 1, 5, 700] = float("nan"), float("inf")
    image = image.to(memory_format=torch.channels_last) if layout == "hwc" else image
    samples = tuple(torch.stack([k * (1 + i) for i in range(6)]) for k in LARGE)
    for windows, options in (
        (LARGE, {"border_type": "reflect"}),
        (LARGE, {"border_type": "constant", "value": 0.5, "output_dtype": torch.float32}),
        (LARGE, {"border_type": "zero_output"}),
        (LARGE, {"padding": "valid"}),
        (samples, {"border_type": "circular"}),
    ):
        got = torch_conv.filter2d_separable(image.to(cuda), *(k.to(cuda) for k in windows), **options)
        assert got.is_contiguous(memory_format=torch.channels_last if layout == "hwc" else torch.contiguous_format)
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
    assert launches(torch.float16, windows=(LARGE[0][:3], LARGE[1])) == ["separable/line_buffer"]  # thin
    assert launches(torch.float32) == [ring]
    assert launches(torch.float64) == ["separable/two_pass"]
