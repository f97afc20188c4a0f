"""The options that all named filters share: dtypes with one rounding at the end, padding, border value, out."""

from __future__ import annotations

import pytest
import torch
from oracle import exact
from strategies import DTYPES, make_image
from tolerance import INTEGER_RANGE, ROUNDING, assert_same_bits

import torch_conv

# name: positional arguments after the image
CALLS = {
    "gaussian_blur2d": (5, 1.3),
    "laplacian": (3,),
    "unsharp_mask": (5, 1.3),
    "difference_of_gaussians": (0.8,),
    "gaussian_laplace": (1.0,),
    "gaussian_sobel": (3, 1.0),
    "spatial_gradient": (),
    "sobel": (),
}
REACH = 12  # more than any of their radii


def rounded(exact_result, dtype):
    """Clamped, as an integer result must be; floats as they are."""
    return exact_result.clamp(*INTEGER_RANGE[dtype]) if dtype in INTEGER_RANGE else exact_result


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("output", [None, torch.float32, torch.int16])
def test_one_rounding_at_the_end(device, name, dtype, output):
    """Within one rounding of the output dtype, so nothing was rounded on the way."""
    image = make_image((2, 3, 20, 31), dtype)
    got = getattr(torch_conv, name)(image.to(device), *CALLS[name], output_dtype=output).cpu()
    assert got.dtype == (output or dtype)
    expected = rounded(exact(name, image, *CALLS[name]), got.dtype)
    last = ROUNDING[got.dtype]
    sums = 1e-12 if dtype == torch.float64 else 3e-5
    slack = sums * image.double().abs().max()
    allowed = slack + torch.clamp(expected.abs() * last.relative * 1.01, min=last.absolute)
    assert ((got.double() - expected).abs() <= allowed).all()
    assert got.double().abs().max() > 0


@pytest.mark.parametrize("name", CALLS)
def test_valid_is_the_inside_of_same(device, name):
    image = make_image((1, 2, 40, 45), torch.float64, device=device)
    function = getattr(torch_conv, name)
    same, valid = function(image, *CALLS[name]), function(image, *CALLS[name], padding="valid")
    dy, dx = (a - b for a, b in zip(same.shape[-2:], valid.shape[-2:], strict=True))
    assert dy == dx
    assert 0 < dy < 2 * REACH
    r = dy // 2
    torch.testing.assert_close(valid, same[..., r:-r, r:-r], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CALLS)
def test_border_value(device, name):
    """Outside stands the value, at every step: the middle of an image embedded in it."""
    image, value = make_image((1, 2, 14, 17), torch.float64), 2.5
    got = getattr(torch_conv, name)(image.to(device), *CALLS[name], border_type="constant", value=value).cpu()
    expected = exact(name, image, *CALLS[name], border_type="constant", value=value)
    torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-11)
    without = getattr(torch_conv, name)(image.to(device), *CALLS[name], border_type="constant").cpu()
    assert (got - without).abs().max() > 1e-3


@pytest.mark.parametrize("name", CALLS)
def test_out(device, name):
    image = make_image((2, 3, 20, 31), device=device)
    expected = getattr(torch_conv, name)(image, *CALLS[name])
    out = torch.full_like(expected, -7)
    before = image.clone()
    assert getattr(torch_conv, name)(image, *CALLS[name], out=out) is out
    assert_same_bits(out, expected)
    assert_same_bits(image, before)
    if expected.shape == image.shape:
        with pytest.raises(ValueError) as caught:
            getattr(torch_conv, name)(image, *CALLS[name], out=image)
        assert str(caught.value) == f"{name}: out must not overlap input"
        assert_same_bits(image, before)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("border", ["clamp", "Reflect"])
def test_errors_carry_the_function_s_own_name(device, name, border):
    with pytest.raises(ValueError) as caught:
        getattr(torch_conv, name)(torch.zeros(1, 1, 8, 9, device=device), *CALLS[name], border_type=border)
    assert str(caught.value).startswith(f"{name}: border_type must be 'constant', ")
    assert str(caught.value).endswith(f"got '{border}'")
