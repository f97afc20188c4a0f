"""filter2d by FFT: the float64 reference within the documented bound, the same bits, shards, gradients."""

import math
from functools import partial

import fft_cases
import pytest
import torch
from fft_cases import assert_same_by_threads, largest_of
from oracle import exact
from strategies import BORDERS, DTYPES, LAYOUTS, lay_out, make_image, make_window
from tolerance import INTEGER_RANGE, ROUNDING, assert_same_bits

import torch_conv
from torch_conv import filter2d, reference

headline, numbers = partial(fft_cases.headline, filter2d), partial(fft_cases.numbers, filter2d)
bound = partial(fft_cases.bound, filter2d)


def check(image, window, *, device="cpu", layout="contiguous", inside=1.0, **options):
    given = lay_out(image.to(device), layout)
    got = filter2d(given, window, **options, algorithm="fft")
    expected = exact("filter2d", image, window, **options)
    dtype = options.get("output_dtype") or image.dtype
    assert got.dtype == dtype and got.shape == expected.shape
    if dtype in INTEGER_RANGE:
        expected = expected.clamp(*INTEGER_RANGE[dtype])
    last = ROUNDING[dtype]
    allowed = bound(given, window, largest_of(image, **options), **options) / inside
    allowed = allowed + torch.clamp((expected.abs() + allowed) * last.relative, min=last.absolute)
    assert ((got.cpu().double() - expected).abs() <= allowed).all()
    return got


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"value": -2.5},
        {"anchor": (0, -1)},
        {"stride": (2, 3), "behaviour": "conv"},
        {"dilation": (2, 1), "stride": (1, 2)},
    ],
    ids=str,
)
def test_every_option(device, border, padding, options):
    check(make_image((2, 37, 51)), make_window((9, 14)), device=device, border_type=border, padding=padding, **options)


@pytest.mark.parametrize("border", ["constant", "circular", "skip", "zero_output"])
@pytest.mark.parametrize("anchor", [None, (0, 13)])
def test_normalized(device, border, anchor):
    """With the anchor in a corner an edge's windows hold so little of the image that they are summed directly."""
    window = make_window((9, 14))
    total = window.abs().sum().item()
    check(
        make_image((2, 37, 51)),
        window,
        device=device,
        inside=total / 64 if border == "skip" else total,
        border_type=border,
        normalized=True,
        anchor=anchor,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("windows", [(), (2,), (1, 3), (2, 3)])
def test_every_dtype_layout_and_set_of_windows(device, dtype, layout, windows):
    image = make_image((2, 3, 40, 33), dtype)
    got = check(image, make_window((*windows, 11, 12)) / 20, device=device, layout=layout, border_type="symmetric")
    expected = filter2d(lay_out(image.to(device), layout), make_window((*windows, 11, 12)), algorithm="direct")
    assert got.stride() == expected.stride()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float64])
@pytest.mark.parametrize("output", [torch.float32, torch.int16, torch.float64])
def test_output_dtype_and_out(device, dtype, output):
    image, window = make_image((1, 2, 60, 40), dtype), make_window((33, 33)) / 33
    got = check(image, window, device=device, output_dtype=output)
    out = torch.empty(2, 1, 60, 40, dtype=output, device=device).transpose(0, 1)
    assert filter2d(image.to(device), window, out=out, algorithm="fft") is out
    assert_same_bits(out, got)


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 200), (5, 7)])
@pytest.mark.parametrize("border", BORDERS)
def test_windows_larger_than_the_image(device, shape, border):
    check(make_image(shape), make_window((40, 33)), device=device, border_type=border)


def test_nothing_to_compute(device):
    image = torch.zeros(0, 3, 40, 40, device=device)
    assert filter2d(image, torch.ones(33, 33), algorithm="fft").shape == image.shape


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("make", [torch.rand, torch.randn, torch.ones])
def test_error_bound(device, dtype, make):
    """On several tiles, far from zero too; float64 at some places, summed in higher precision."""
    torch.manual_seed(3)
    image, window = make(1, 500, 1200, dtype=dtype), torch.rand(63, 40, dtype=dtype)
    assert numbers(image, window)["tiles"] > 1
    got = filter2d(image.to(device), window, algorithm="fft").cpu().double()
    for y, x in [(100, 100), (31, 500), (399, 1111), (468, 19), (300, 700)]:
        under = image[0, y - 31 : y + 32, x - 19 : x + 21].double() * window.double()
        if dtype == torch.float64:  # the error of a product is far below the bound
            under = under.flatten().tolist()
            expected = math.fsum(under)
        else:
            expected = under.sum().item()
        assert abs(got[0, y, x].item() - expected) <= bound(image, window, largest_of(image))


def test_same_bits_for_every_image_of_a_batch_and_run(device):
    image, window = make_image((3, 100, 120)).to(device), make_window((33, 50))
    image[1, :20, :20], image[2, :, :40] = 1e10, 0
    batch = image[[0, 1, 2, 0, 1, 2, 0], None]
    got = filter2d(batch, window, algorithm="fft")
    assert_same_bits(got[0], got[3])
    assert_same_bits(got[0], got[6])
    assert_same_bits(got[:3, 0], filter2d(image, window, algorithm="fft"))
    assert_same_bits(got, filter2d(batch, window, algorithm="fft"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_same_bits_by_any_number_of_threads(dtype):
    image, window = make_image((5, 700, 690), dtype), make_window((33, 34))
    one = filter2d(image, window, algorithm="fft")
    assert_same_by_threads(lambda: filter2d(image, window, algorithm="fft"), one, (1, 2, 3, 4, 7))


@pytest.mark.parametrize("dim", [-1, -2, 0, 1])
@pytest.mark.parametrize("windows", [(), (2, 3)])
@pytest.mark.parametrize("border", ["circular", "skip", "reflect"])
def test_shards(device, dim, windows, border):
    image, window = make_image((2, 3, 90, 80)).to(device), make_window((*windows, 33, 34))
    parts = torch_conv.split(image, [device] * (3 if dim != 0 else 2), dim=dim)
    call = {"border_type": border, "normalized": True}
    got = filter2d(parts, window, **call, algorithm="fft").gather()
    expected = filter2d(image, window, **call, algorithm="direct")
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    large = torch.zeros(2, 3, 600, 500)
    assert "fft/overlap_save" in headline(large, window)
    plan = torch_conv.explain(
        filter2d, torch_conv.split(large, ["cpu"] * 3), window
    )  # each by the algorithm of the whole
    assert not any("direct/" in line for line in plan.lines)


def test_gradients(device):
    window = make_window((33, 35), torch.float64).requires_grad_()
    image = make_image((2, 3, 50, 60), torch.float64, device=device).requires_grad_()
    grad = make_image((2, 3, 50, 60), torch.float64, seed=9, device=device)
    of = [
        torch.autograd.grad(filter2d(image, window, algorithm=way), (image, window), grad) for way in ("fft", "direct")
    ]
    for got, expected in zip(*of, strict=True):
        torch.testing.assert_close(got, expected)


def test_compiled_scripted_and_mapped(device):
    image, window = make_image((2, 3, 90, 80)).to(device), make_window((33, 34))
    expected = filter2d(image, window, "circular", algorithm="fft")

    def call(image: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
        return filter2d(image, window, "circular", algorithm="fft")

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert_same_bits(compiled(image, window), expected)
    operator = torch.ops.torch_conv.filter2d
    scripted = torch.jit.trace(lambda x: operator(x, window, "circular", algorithm="fft"), image)
    assert_same_bits(scripted(image), expected)
    torch.testing.assert_close(torch.vmap(call, (0, None))(image, window), expected, rtol=1e-4, atol=1e-4)
    windows = make_window((2, 33, 34))
    mapped = torch.vmap(call)(image, windows.to(device))
    torch.testing.assert_close(mapped, torch.stack([call(*pair) for pair in zip(image, windows, strict=True)]))


def test_reference_agrees_on_a_large_image():
    image, window = make_image((1, 1, 300, 310)), make_window((40, 41))
    expected = reference.filter2d(image.double(), window.double(), "replicate")
    torch.testing.assert_close(
        filter2d(image, window, "replicate", algorithm="fft").double(), expected, rtol=1e-5, atol=1e-4
    )
