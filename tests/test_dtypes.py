"""Element types: sums in float32 or float64, taps that keep their digits, one rounding rule for integers."""

import math

import pytest
import torch
from oracle import check
from public_calls import FILTERS, filtered
from refusals import refuses
from strategies import DTYPES, FLOATS, INTEGERS, make_image, make_window
from tolerance import INTEGER_RANGE, assert_same_bits

import torch_conv

REFUSED = [
    torch.bool,
    torch.int8,
    torch.int32,
    torch.int64,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]
TAKEN = "float32, float16, bfloat16, float64, uint8, int16 or uint16"


def one_tap(weight, device):
    return torch.tensor([[weight]], device=device)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_ties_go_to_the_even_neighbour(device, dtype):
    image = torch.tensor([[1, 3, 5, 7, 9, 11, 251, 253]], dtype=torch.int32).to(dtype).to(device)
    expected = [round(v * 0.5) for v in (1, 3, 5, 7, 9, 11, 251, 253)]  # Python rounds half to even, too
    got = torch_conv.filter2d(image, one_tap(0.5, device))
    assert got.dtype == dtype
    assert got[0].int().tolist() == expected == [0, 2, 2, 4, 4, 6, 126, 126]


def test_negative_ties_go_to_the_even_neighbour(device):
    image = torch.tensor([[-1, -3, -5, -7]], dtype=torch.int16, device=device)
    assert torch_conv.filter2d(image, one_tap(0.5, device))[0].tolist() == [0, -2, -2, -4]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("algorithm", ["filter2d", "separable", "box", "filter3d", "separable3d", "box3d"])
def test_integers_are_clamped(device, dtype, algorithm):
    low, high = INTEGER_RANGE[dtype]
    image = torch.tensor([[low, 1, high]], dtype=torch.int32).to(dtype).to(device)

    def apply(weight):
        one = torch.tensor([1.0], device=device)
        return {
            "box": lambda: torch_conv.box_blur(image, (1, 3), "replicate", normalized=False),
            "filter2d": lambda: torch_conv.filter2d(image, one_tap(weight, device)),
            "separable": lambda: torch_conv.filter2d_separable(image, one * weight, one),
            "box3d": lambda: torch_conv.box_blur3d(image[None], (1, 1, 3), normalized=False)[0],
            "filter3d": lambda: torch_conv.filter3d(image[None], one_tap(weight, device)[None])[0],
            "separable3d": lambda: torch_conv.filter3d_separable(image[None], one, one, one * weight)[0],
        }[algorithm]()

    if algorithm.startswith("box"):
        sums = [2 * low + 1, low + 1 + high, 1 + 2 * high]
    else:
        sums = [low * 3, 3, high * 3]
        assert apply(-3.0)[0].int().tolist() == [min(max(-s, low), high) for s in sums]
    assert apply(3.0)[0].int().tolist() == [min(max(s, low), high) for s in sums]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("times", [1, 60])
def test_nan_and_infinities_written_to_integers(device, dtype, times):
    image = torch.tensor([[float("nan"), float("inf"), float("-inf"), 1e30, 7.5, -1e30]], device=device)
    got = torch_conv.filter2d(image.repeat(1, times), one_tap(1.0, device), output_dtype=dtype)
    low, high = INTEGER_RANGE[dtype]
    assert got[0].int().tolist() == [0, high, low, high, 8, low] * times


@pytest.mark.parametrize("width", [3, 300])
def test_nan_and_infinite_sums_of_bytes(device, width):
    """0 times infinity is a NaN, which becomes 0."""
    image = torch.arange(width, dtype=torch.uint8, device=device).expand(4, width).contiguous()
    for tap, sums in ((float("inf"), 255), (float("nan"), 0), (1e30, 255), (-1e30, 0)):
        one = torch.ones(1, device=device)
        got = torch_conv.filter2d_separable(image, one, one * tap, algorithm="separable")
        assert torch.equal(got, torch.where(image == 0, 0, sums).to(torch.uint8))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("output", DTYPES)
def test_every_output_dtype(device, dtype, output):
    """Also where the window does not matter: each pair of dtypes, each operator."""
    image, taps = make_image((2, 9, 20), dtype), make_window((3,)).abs()
    options = {"device": device, "output_dtype": output, "window": (3, 3)}
    if output == torch.float16:
        taps = taps / 1024  # stays finite
    check("filter2d", image, taps[:, None] * taps, **options)
    check("filter2d_separable", image, taps, taps, algorithm="separable", **options)
    volume, deep = make_image((3, 5, 12), dtype), options | {"window": (3, 3, 3)}
    check("filter3d", volume, taps[:, None, None] * taps[:, None] * taps, **deep)
    check("filter3d_separable", volume, taps, taps, taps, algorithm="separable", **deep)
    if output != torch.float16:
        check("box_blur", image, 3, algorithm="box", **options)
        check("box_blur3d", volume, 3, algorithm="box", **deep)


def test_signed_gradient_of_bytes(device):
    image = torch.tensor([[200, 10, 90]], dtype=torch.uint8, device=device)
    kernel = torch.tensor([[-1.0, 0.0, 1.0]], device=device)
    assert torch_conv.filter2d(image, kernel, "replicate")[0].tolist() == [0, 0, 80]
    wide = torch_conv.filter2d(image, kernel, "replicate", output_dtype=torch.int16)
    assert wide[0].tolist() == [-190, -110, 80]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.bfloat16, torch.int16])
def test_taps_keep_their_digits(device, dtype):
    """1 + 2^-20 is no float16, and not lost: the sum of +-64 times it shows."""
    image = torch.full((1, 2), 64, device=device).to(dtype)
    kernel = torch.tensor([[1 + 2.0**-20, -1.0]], device=device)
    got = torch_conv.filter2d(image, kernel, "replicate", output_dtype=torch.float32)
    assert got[0, 0].item() == 64 * 2.0**-20


def test_float64_sums_in_float64(device):
    image = torch.full((1, 2), 1.0, dtype=torch.float64, device=device)
    kernel = torch.tensor([[1 + 2.0**-40, -1.0]], dtype=torch.float64, device=device)
    assert torch_conv.filter2d(image, kernel, "replicate")[0, 0].item() == 2.0**-40


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_sums_in_float32(device, dtype):
    """4096 + 1 + 1 ... is lost in half precision, in every partial sum."""
    image = torch.ones(1, 600, dtype=dtype, device=device)
    image[0, 0] = 4096
    taps = torch.ones(1, 513, device=device)
    exact = torch_conv.filter2d(image, taps, "constant", output_dtype=torch.float32, anchor=(0, 0))
    assert exact[0, 0].item() == 4096 + 512


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16])
def test_integer_windows_are_converted(device, dtype):
    image, kernel = make_image((2, 9, 20), device=device), torch.tensor([[1, 2, 1], [2, 4, 2], [1, 2, 1]]).to(dtype)
    expected = torch_conv.filter2d(image, kernel.float().to(device))
    assert_same_bits(torch_conv.filter2d(image, kernel.to(device)), expected)
    normalized = torch_conv.filter2d(image, kernel.to(device), normalized=True)
    assert_same_bits(normalized, torch_conv.filter2d(image, kernel.float().to(device), normalized=True))


@pytest.mark.parametrize("dtype", FLOATS)
def test_windows_of_every_float(device, dtype):
    image, kernel = make_image((2, 9, 20), device=device), make_window((3, 3), dtype, device=device)
    assert_same_bits(torch_conv.filter2d(image, kernel), torch_conv.filter2d(image, kernel.float()))


@pytest.mark.parametrize("dtype", REFUSED)
def test_refused_images(device, dtype):
    for name in FILTERS:
        with refuses(TypeError, f"{name}: input must have dtype {TAKEN}, got {str(dtype).removeprefix('torch.')}"):
            filtered(name, torch.zeros(1, 4, 5, device=device).to(dtype))


@pytest.mark.parametrize("dtype", REFUSED)
def test_refused_outputs(device, dtype):
    image, kernel = torch.zeros(4, 5, device=device), torch.ones(3, 3, device=device)
    name = str(dtype).removeprefix("torch.")
    with refuses(TypeError, f"filter2d: output_dtype must have dtype {TAKEN}, got {name}"):
        torch_conv.filter2d(image, kernel, output_dtype=dtype)
    with refuses(TypeError, f"filter3d: output_dtype must have dtype {TAKEN}, got {name}"):
        torch_conv.filter3d(image[None], kernel[None], output_dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.bool, torch.complex64, torch.float8_e5m2])
def test_refused_windows(device, dtype):
    image, kernel = torch.zeros(4, 5, device=device), torch.ones(3, 3, device=device).to(dtype)
    with pytest.raises(TypeError, match="^filter2d: kernel must have dtype "):
        torch_conv.filter2d(image, kernel)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_overflow_is_infinity(device, dtype):
    image = torch.full((1, 1), torch.finfo(dtype).max, device=device, dtype=dtype)
    assert math.isinf(torch_conv.filter2d(image, one_tap(4.0, device)).item())
