"""The options that all named filters share: dtypes with one rounding at the end, padding, border value, out."""

import numpy as np
import pytest
import torch
from oracle import exact
from refusals import refuses
from strategies import DTYPES, make_image
from tolerance import INTEGER_RANGE, ROUNDING, assert_same_bits

import torch_conv

# name: positional arguments after the image
CALLS = dict.fromkeys(["gaussian_blur2d", "unsharp_mask", "gaussian_downsample"], (5, 1.3))
CALLS |= dict.fromkeys(["gaussian_sobel", "structure_tensor", "thin_edges"], (3, 1.0))
CALLS |= dict.fromkeys(["gaussian_blur3d", "gaussian_gradient_magnitude3d"], (3, 0.8))
CALLS |= dict.fromkeys(["spatial_gradient", "sobel", "spatial_gradient3d"], ())
CALLS |= {"laplacian": (3,), "difference_of_gaussians": (0.8,), "gaussian_laplace": (1.0,)}
MARGIN = 12  # more than any of their radii


def shape_for(name, *shape):
    """An image's shape, with a depth for the filters of volumes."""
    return (*shape[:-2], 7, *shape[-2:]) if name.endswith("3d") else shape


def rounded(exact_result, dtype):
    """Clamped, as an integer result must be; floats as they are."""
    return exact_result.clamp(*INTEGER_RANGE[dtype]) if dtype in INTEGER_RANGE else exact_result


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("output", [None, torch.float32, torch.int16])
def test_one_rounding_at_the_end(device, name, dtype, output):
    """Within one rounding of the output dtype, so nothing was rounded on the way."""
    image = make_image(shape_for(name, 2, 3, 20, 31), dtype)
    got = getattr(torch_conv, name)(image.to(device), *CALLS[name], output_dtype=output).cpu()
    assert got.dtype == (output or dtype)
    expected = rounded(exact(name, image, *CALLS[name]), got.dtype)
    last = ROUNDING[got.dtype]
    sums = 1e-12 if dtype == torch.float64 else 3e-5
    slack = sums * image.double().abs().max() ** (2 if name == "structure_tensor" else 1)
    allowed = slack + torch.clamp(expected.abs() * last.relative * 1.01, min=last.absolute)
    assert ((got.double() - expected).abs() <= allowed).all()
    assert got.double().abs().max() > 0


@pytest.mark.parametrize("name", CALLS)
def test_valid_is_the_inside_of_same(device, name):
    image = make_image(shape_for(name, 1, 2, 40, 45), torch.float64, device=device)
    function = getattr(torch_conv, name)
    same, valid = function(image, *CALLS[name]), function(image, *CALLS[name], padding="valid")
    axes = 3 if name.endswith("3d") else 2
    lost = [a - b for a, b in zip(same.shape[-axes:], valid.shape[-axes:], strict=True)]
    assert len(set(lost)) == 1
    assert 0 < lost[0] < 2 * MARGIN
    inside = slice(lost[0] // 2, -(lost[0] // 2))
    torch.testing.assert_close(valid, same[(..., *[inside] * axes)], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CALLS)
def test_border_value(device, name):
    """Outside stands the value, at every step: the middle of an image embedded in it."""
    image, value = make_image(shape_for(name, 1, 2, 14, 17), torch.float64), 2.5
    got = getattr(torch_conv, name)(image.to(device), *CALLS[name], border_type="constant", value=value).cpu()
    expected = exact(name, image, *CALLS[name], border_type="constant", value=value)
    torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-11)
    without = getattr(torch_conv, name)(image.to(device), *CALLS[name], border_type="constant").cpu()
    assert (got - without).abs().max() > 1e-3


@pytest.mark.parametrize("name", CALLS)
def test_out(device, name):
    image = make_image(shape_for(name, 2, 3, 20, 31), device=device)
    expected = getattr(torch_conv, name)(image, *CALLS[name])
    out = torch.full_like(expected, -7)
    before = image.clone()
    assert getattr(torch_conv, name)(image, *CALLS[name], out=out) is out
    assert_same_bits(out, expected)
    assert_same_bits(image, before)
    if expected.shape == image.shape:
        with refuses(ValueError, f"{name}: out must not overlap input"):
            getattr(torch_conv, name)(image, *CALLS[name], out=image)
        assert_same_bits(image, before)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("border", ["clamp", "Reflect"])
def test_errors_name_the_function_that_was_called(device, name, border):
    with pytest.raises(ValueError) as caught:
        image = torch.zeros(shape_for(name, 1, 1, 8, 9), device=device)
        getattr(torch_conv, name)(image, *CALLS[name], border_type=border)
    assert str(caught.value).startswith(f"{name}: border_type must be 'constant', ")
    assert str(caught.value).endswith(f"got '{border}'")


@pytest.mark.parametrize(
    ("name", "call", "argument", "shown"),
    [
        ("gaussian_blur2d", lambda f, x, bad: f(x, 3, bad), "sigma", "{}"),
        ("gaussian_blur2d", lambda f, x, bad: f(x, None, (bad, 1.0)), "sigma", "({}, 1.0)"),
        ("gaussian_blur2d", lambda f, x, bad: f(x, 3, torch.tensor([[bad, 1.0]])), "sigma", "[[{}, 1.0]]"),
        ("unsharp_mask", lambda f, x, bad: f(x, 3, bad), "sigma", "{}"),
        ("gaussian_laplace", lambda f, x, bad: f(x, bad), "sigma", "{}"),
        ("difference_of_gaussians", lambda f, x, bad: f(x, 1.0, bad), "high_sigma", "{}"),
        ("gaussian_blur2d", lambda f, x, bad: f(x, None, 1.0, truncate=bad), "truncate", "{}"),
        ("gaussian_blur3d", lambda f, x, bad: f(x[None], None, 1.0, truncate=bad), "truncate", "{}"),
        ("difference_of_gaussians", lambda f, x, bad: f(x, 1.0, truncate=bad), "truncate", "{}"),
        ("gaussian_laplace", lambda f, x, bad: f(x, 1.0, truncate=bad), "truncate", "{}"),
    ],
)
@pytest.mark.parametrize("bad", [0.0, -1.0, float("inf"), float("nan")])
def test_gaussians_refuse_what_is_no_width(name, call, argument, shown, bad):
    with refuses(ValueError, f"{name}: {argument} must be finite and greater than 0, got {shown.format(bad)}"):
        call(getattr(torch_conv, name), torch.zeros(8, 9), bad)


@pytest.mark.parametrize(
    ("name", "args", "accepted"),
    [
        ("gaussian_blur2d", (5, 1.3), "'auto', 'separable', 'direct' or 'tensor_core'"),
        ("unsharp_mask", (5, 1.3), "'auto', 'direct', 'fused' or 'separable'"),
        ("difference_of_gaussians", (0.8,), "'auto', 'direct', 'fused' or 'separable'"),
        ("gaussian_laplace", (1.0,), "'auto', 'direct', 'fused' or 'separable'"),
        ("gaussian_sobel", (3, 1.0), "'auto', 'fused' or 'separable'"),
        ("gaussian_downsample", (3, 1.0), "'auto', 'fused', 'separable' or 'tensor_core'"),
        ("structure_tensor", (3, 1.0), "'auto', 'fused' or 'separable'"),
        ("thin_edges", (3, 1.0), "'auto', 'fused' or 'separable'"),
        ("gaussian_gradient_magnitude3d", (3, 1.0), "'auto', 'fused' or 'separable'"),
        ("laplacian", (3,), "'auto', 'direct', 'tensor_core', 'fft' or 'low_rank'"),
        ("sobel", (), "'auto', 'direct', 'fused' or 'separable'"),
        ("spatial_gradient", (), "'auto', 'direct', 'fused' or 'separable'"),
        ("gaussian_blur3d", (5, 1.3), "'auto', 'separable' or 'direct'"),
        ("spatial_gradient3d", (), "'auto' or 'direct'"),
    ],
)
def test_algorithms_that_a_filter_knows(name, args, accepted):
    with refuses(ValueError, f"{name}: algorithm must be {accepted}, got 'best'"):
        getattr(torch_conv, name)(torch.zeros(7, 8, 9), *args, algorithm="best")


@pytest.mark.parametrize(
    ("name", "few", "many"),
    [
        ("unsharp_mask", (7, 1.3), ((9, 7), 1.3)),
        ("difference_of_gaussians", (0.5,), (0.6,)),
        ("gaussian_laplace", (0.8,), (1.0,)),
    ],
)
def test_one_window_up_to_49_taps(name, few, many):
    """Then the chain, which rounds a little differently."""
    function, image = getattr(torch_conv, name), make_image((2, 3, 30, 41))
    assert_same_bits(function(image, *few), function(image, *few, algorithm="direct"))
    for algorithm in ("fused", "separable"):
        assert not torch.equal(function(image, *few), function(image, *few, algorithm=algorithm))
        assert_same_bits(function(image, *many), function(image, *many, algorithm=algorithm))
    assert not torch.equal(function(image, *many), function(image, *many, algorithm="direct"))


def test_numbers_of_numpy():
    image, kernel = make_image((2, 3, 12, 15)), make_image((3, 3))
    f, three, width = torch_conv, np.int64(3), np.float32(1.25)
    assert_same_bits(f.gaussian_blur2d(image, three, width), f.gaussian_blur2d(image, 3, 1.25))
    assert_same_bits(f.gaussian_blur2d(image, (three, 5), [width, 1]), f.gaussian_blur2d(image, (3, 5), (1.25, 1)))
    assert_same_bits(f.difference_of_gaussians(image, width), f.difference_of_gaussians(image, 1.25))
    assert_same_bits(f.box_blur(image, three), f.box_blur(image, 3))
    assert_same_bits(
        f.gaussian_downsample(image, (three, 5), width, np.int64(2)), f.gaussian_downsample(image, (3, 5), 1.25, 2)
    )
    assert_same_bits(f.thin_edges(image, three, [width, 1]), f.thin_edges(image, 3, (1.25, 1)))
    assert_same_bits(f.sobel(image, eps=width), f.sobel(image, eps=1.25))
    assert_same_bits(f.spatial_gradient(image, order=np.int64(2)), f.spatial_gradient(image, order=2))
    assert_same_bits(
        f.filter2d(image, kernel, "constant", value=width, stride=np.int64(2), anchor=(np.int32(0), -1)),
        f.filter2d(image, kernel, "constant", value=1.25, stride=2, anchor=(0, -1)),
    )
    assert_same_bits(
        f.gaussian_blur3d(image, (three, 5, 1), [width, 1, 2]), f.gaussian_blur3d(image, (3, 5, 1), (1.25, 1, 2))
    )
    assert_same_bits(f.box_blur3d(image, three), f.box_blur3d(image, 3))
    assert_same_bits(
        f.filter3d(image, kernel[None], value=width, stride=np.int64(2), anchor=(np.int32(0), -1, 0)),
        f.filter3d(image, kernel[None], value=1.25, stride=2, anchor=(0, -1, 0)),
    )
    weight = kernel.expand(3, 1, 3, 3)
    assert_same_bits(f.conv2d(image, weight, stride=three, groups=three), f.conv2d(image, weight, stride=3, groups=3))


def test_spatial_gradient_into_a_strided_out(device):
    image = make_image((2, 3, 9, 11), device=device)
    expected = torch_conv.spatial_gradient(image, padding="valid")
    out = torch.zeros(2, 3, 7, 9, 2, device=device).movedim(-1, 2)
    assert torch_conv.spatial_gradient(image, padding="valid", out=out) is out
    assert_same_bits(out.contiguous(), expected)
    with refuses(ValueError, "spatial_gradient: out must have shape (2, 3, 2, 9, 11), got (2, 3, 2, 9, 12)"):
        torch_conv.spatial_gradient(image, out=torch.zeros(2, 3, 2, 9, 12, device=device))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("weight_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("groups", [1, 24])
def test_convolutions_under_autocast(device, dtype, weight_dtype, groups):
    """Tensors of float32 or half are cast to the dtype of the context, as F.conv2d casts them."""
    image = make_image((1, 24, 12, 15), device=device)
    weight, bias = make_image((24, 24 // groups, 3, 3), weight_dtype, device=device), make_image((24,), device=device)
    with torch.autocast(torch.device(device).type, dtype):
        got = torch_conv.conv2d(image, weight, bias, padding=1, groups=groups)
        line = torch_conv.conv1d(image[:, :, 0], weight[..., 0], bias, groups=groups)
        volume = torch_conv.conv3d(image[:, :, None], weight[:, :, None], bias, padding=(0, 1, 1), groups=groups)
    assert got.dtype == line.dtype == volume.dtype == dtype
    cast = [t.to(dtype) for t in (image, weight, bias)]
    assert_same_bits(got, torch_conv.conv2d(*cast, padding=1, groups=groups))
