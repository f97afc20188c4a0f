"""Every chain of filters against the oracle, in any dtype, layout and border, and the sizes of their Gaussians."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import check, magnitude
from strategies import BORDERS, DTYPES, FLOATS, LAYOUTS, VOLUME_LAYOUTS, as_tuple, make_image, seeds, shapes, sides
from tolerance import assert_same_bits

import torch_conv


class Call(NamedTuple):
    """The arguments after the input, and the terms of the bound of tolerance.py."""

    args: tuple[Any, ...]
    window: tuple[int, ...]
    scale: Any = None  # None: the magnitude of a linear filter
    algorithm: str = "composed"
    options: dict[str, Any] = {}  # noqa: RUF012


def pick(*values):
    return st.sampled_from(values)


def largest(image):
    return image.double().abs().max().item()


def box_of(size, axes=2, more=0):
    return tuple(k + more for k in as_tuple(size, axes))


def blur2d(draw, image, border):
    size = draw(pick(1, 3, 5, 9, 15, 31)), draw(pick(1, 3, 5, 9, 15, 31))
    return Call((size, (draw(st.floats(0.3, 6)), draw(st.floats(0.3, 6)))), size, algorithm="separable")


def blur3d(draw, image, border):
    size = draw(pick(1, 3, 5)), draw(pick(1, 3, 5)), draw(pick(1, 3, 5, 9))
    sigma = tuple(draw(st.floats(0.3, 6)) for _ in range(3))
    return Call((size, sigma), size, algorithm="separable")


def downsample(draw, image, border):
    size = draw(pick(1, 3, 5, (3, 7), 15))
    return Call((size, 1.3, draw(pick(1, 2, 2, 2, 3, 5))), box_of(size), algorithm="separable")


def laplace(draw, image, border):
    sigma = draw(pick(0.6, 1.0, 2.2))
    size = 2 * int(4 * sigma + 0.5) + 1
    # The second derivative's taps sum to less than 2 / sigma^2 in absolute value, and there are two of them.
    return Call((sigma,), (size, size), 4 / sigma**2 * largest(image))


def difference(draw, image, border):
    low, high = draw(pick(0.5, 1.0, 1.7)), draw(pick(None, 2.5, 3.1))
    wide = high or 1.6 * low
    size = 2 * int(4 * wide + 0.5) + 1
    scale = sum(magnitude("gaussian_blur2d", image, None, sigma, border) for sigma in (low, wide))
    return Call((low, high), (size, size), scale)


def unsharp(draw, image, border):
    size, sigma = draw(pick(1, 3, (5, 7), 15)), draw(pick(0.6, (1.5, 0.9), 3.0))
    amount = draw(pick(1.0, 0.0, 0.5, 2.5))
    blurred = magnitude("gaussian_blur2d", image, size, sigma, border)
    scale = (1 + amount) * image.double().abs() + amount * blurred
    return Call((size, sigma), box_of(size), scale, options={"amount": amount})


def laplacian(draw, image, border):
    size, normalized = draw(pick(3, 5, (3, 7), (9, 1), 15)), draw(st.booleans())
    ky, kx = box_of(size)
    scale = (1.0 if normalized else 2.0 * (ky * kx - 1)) * (largest(image) + 1e-300)
    if border == "skip" and normalized:
        scale *= ky * kx  # the divisor is a part of the sum of |taps|
    return Call((size,), (ky, kx), scale, "direct", {"normalized": normalized})


def sobel(draw, image, border):
    normalized = draw(st.booleans())
    return Call((normalized,), (3, 3), (2.0 if normalized else 16.0) * largest(image))


def gaussian_sobel(draw, image, border):
    size, kind = draw(pick(1, 3, 5, (3, 7))), draw(pick("l1", "l2"))
    return Call((size, 1.3), box_of(size, more=2), 16 * largest(image), options={"magnitude": kind})


def structure_tensor(draw, image, border):
    size, mode = draw(pick(1, 3, 5, (3, 7))), draw(pick("sobel", "diff", "scharr", "prewitt"))
    # Normalised derivatives are not larger than the image, and the Gaussian's taps sum to 1.
    return Call((size, 1.3), box_of(size, more=2), largest(image) ** 2, options={"mode": mode})


def gradient(draw, image, border):
    kinds = ("sobel", 1), ("sobel", 2), ("diff", 1), ("diff", 2), ("scharr", 1), ("prewitt", 1)
    normalized = draw(st.booleans())
    weight = 1.0 if normalized else 64.0  # the largest sum of |taps| of a raw window
    return Call((*draw(pick(*kinds)), normalized), (5, 5), weight * largest(image))


def gradient3d(draw, image, border):
    return Call(draw(pick(("diff", 1), ("diff", 2), ("sobel", 1))), (3, 3, 3), 4 * largest(image), "direct")


def magnitude3d(draw, image, border):
    size, value = draw(pick(1, 3, 5, (1, 3, 5))), draw(pick(0.0, 1.5, -2.0))
    window = box_of(size, 3, 2)
    fits = all(n >= k for n, k in zip(image.shape[-3:], window, strict=True))
    padding = draw(pick("same", "valid")) if fits else "same"
    options = {"mode": draw(pick("diff", "sobel")), "value": value, "padding": padding}
    # Three derivatives, none larger than the volume.
    return Call((size, 1.1), window, 3**0.5 * max(largest(image), abs(value)), options=options)


class Pipeline(NamedTuple):
    call: Callable[..., Call]
    dtypes: list[torch.dtype] = FLOATS
    ways: tuple[str, ...] = ("auto",)
    borders: list[str] = BORDERS
    axes: int = 2


WAYS = ("auto", "direct", "separable")
OF_GRADIENTS = ["replicate", "reflect", "constant", "symmetric", "circular"]
PIPELINES = {
    "gaussian_blur2d": Pipeline(blur2d, DTYPES),
    "gaussian_blur3d": Pipeline(blur3d, DTYPES, WAYS, axes=3),
    "gaussian_downsample": Pipeline(downsample, DTYPES),
    "gaussian_laplace": Pipeline(laplace, ways=WAYS),
    "difference_of_gaussians": Pipeline(difference, ways=WAYS),
    "unsharp_mask": Pipeline(unsharp, DTYPES, WAYS),
    "laplacian": Pipeline(laplacian, DTYPES),
    "sobel": Pipeline(sobel, ways=WAYS, borders=OF_GRADIENTS),
    "gaussian_sobel": Pipeline(gaussian_sobel, ways=("auto", "separable")),
    "structure_tensor": Pipeline(structure_tensor, ways=("auto", "separable")),
    "spatial_gradient": Pipeline(gradient, ways=WAYS, borders=OF_GRADIENTS),
    "spatial_gradient3d": Pipeline(gradient3d, borders=OF_GRADIENTS, axes=3),
    "gaussian_gradient_magnitude3d": Pipeline(magnitude3d, ways=("auto", "separable"), axes=3),
}


@pytest.mark.parametrize("name", PIPELINES)
@given(data=st.data())
def test_any_call_agrees_with_the_oracle(device, name, data):
    pipeline, draw = PIPELINES[name], data.draw
    sizes = (draw(sides()), draw(sides(40))) if pipeline.axes == 2 else draw(shapes(3))
    lead = draw(st.lists(st.integers(1, 3), max_size=3))
    image = make_image((*lead, *sizes), draw(st.sampled_from(pipeline.dtypes)), draw(seeds()))
    border, way = draw(st.sampled_from(pipeline.borders)), draw(st.sampled_from(pipeline.ways))
    layout = draw(st.sampled_from(LAYOUTS if pipeline.axes == 2 else VOLUME_LAYOUTS))
    call = pipeline.call(draw, image, border)
    algorithm = "direct" if (way, call.algorithm) == ("direct", "separable") else call.algorithm
    bound = {"algorithm": algorithm, "window": call.window, "scale": call.scale}
    options = {"border_type": border, "way": way, "layout": layout, **bound, **call.options}
    got = check(name, image, *call.args, device=device, **options)
    assert got.is_contiguous() or got.dim() == image.dim()


OF_SIGMA = [
    "gaussian_blur2d",
    "gaussian_downsample",
    "unsharp_mask",
    "gaussian_sobel",
    "structure_tensor",
    "thin_edges",
]
OF_SIGMA += ["gaussian_blur3d", "gaussian_gradient_magnitude3d"]


def image_for(name, device="cpu", lead=()):
    return make_image((*lead, *((6, 9, 12) if name.endswith("3d") else (20, 31))), device=device)


@pytest.mark.parametrize("name", OF_SIGMA)
def test_sigma_alone(name):
    function, image = getattr(torch_conv, name), image_for(name)
    assert torch.equal(function(image, sigma=1.0), function(image, None, 1.0))
    with pytest.raises(ValueError, match=f"^{name}: sigma must be given$"):
        function(image, 5)


@pytest.mark.parametrize("name", OF_SIGMA)
def test_one_number_serves_every_axis(device, name):
    function, image, axes = getattr(torch_conv, name), image_for(name, device), 3 if name.endswith("3d") else 2
    assert_same_bits(function(image, 5, 1.1), function(image, (5,) * axes, (1.1,) * axes))


@pytest.mark.parametrize("name", OF_SIGMA)
def test_default_size_is_the_truncated_radius(device, name):
    """The radius is int(4 * sigma + 0.5)."""
    function, image, axes = getattr(torch_conv, name), image_for(name, device), 3 if name.endswith("3d") else 2
    expected = function(image, (5, 11, 17)[-axes:], (0.5, 1.3, 2.0)[-axes:])
    assert_same_bits(function(image, None, (0.5, 1.3, 2.0)[-axes:]), expected)


@pytest.mark.parametrize("name", [name for name in OF_SIGMA if name != "thin_edges"])  # a last bit decides there
@pytest.mark.parametrize("size", [3, 9, (3, 5, 7)])
def test_sigma_per_sample(device, name, size):
    """Rows of one sigma an axis."""
    function, axes = getattr(torch_conv, name), 3 if name.endswith("3d") else 2
    image, size = image_for(name, device, (3, 2)), size if isinstance(size, int) else size[-axes:]
    sigma = torch.tensor([[0.5, 1.0, 2.0], [1.5, 1.5, 1.5], [3.0, 0.7, 1.0]])[:, :axes]
    got = function(image, size, sigma.to(device))
    for n in range(3):
        one = function(image[n], size, tuple(sigma[n].tolist()))
        torch.testing.assert_close(got[n], one, rtol=1e-5, atol=5e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "size"), [("gaussian_blur2d", 15), ("gaussian_blur3d", 3), ("gaussian_blur3d", 7)])
def test_constant_image_stays_constant(device, dtype, name, size):
    image = torch.full((3, 6, 20, 33), 77, device=device).to(dtype)
    got = getattr(torch_conv, name)(image, size, 2.5)
    if dtype in (torch.float32, torch.float64):
        torch.testing.assert_close(got, image, rtol=1e-6, atol=0)
    else:
        assert_same_bits(got, image)


@pytest.mark.parametrize("name", ["difference_of_gaussians", "thin_edges"])
def test_flat_image_gives_nothing(device, name):
    args = (5, 1.0) if name == "thin_edges" else (1.0,)
    got = getattr(torch_conv, name)(torch.full((3, 20, 31), 5.0, device=device), *args)
    assert got.abs().max() < 1e-5
    assert name != "thin_edges" or got.abs().max() == 0


BORDERS_OF_KORNIA = ["constant", "reflect", "replicate", "circular"]
KORNIA = [
    *(
        ("gaussian_blur2d", ((5, 7), (1.5, 0.8), b, separable))
        for b in BORDERS_OF_KORNIA
        for separable in (True, False)
    ),
    *(("unsharp_mask", ((5, 3), (1.5, 0.8), b)) for b in BORDERS_OF_KORNIA),
    *(("laplacian", (size, "reflect", normalized)) for size in (3, 5, (3, 7)) for normalized in (True, False)),
    *(("sobel", (normalized,)) for normalized in (True, False)),
    *(
        ("spatial_gradient", (mode, order, normalized))
        for mode in ("sobel", "diff")
        for order in (1, 2)
        for normalized in (True, False)
    ),
    *(("spatial_gradient3d", ("diff", order)) for order in (1, 2)),
]


@pytest.mark.parametrize(("name", "args"), KORNIA)
def test_witness_kornia(name, args):
    kornia = pytest.importorskip("kornia")
    image = make_image((2, 3, 5, 8, 9) if name.endswith("3d") else (2, 3, 13, 17), torch.float64)
    expected = getattr(kornia.filters, name)(image, *args)
    # kornia computes the taps of a tuple of sigmas in float32.
    tolerance = 2e-6 if name in ("gaussian_blur2d", "unsharp_mask") else 1e-11
    torch.testing.assert_close(getattr(torch_conv, name)(image, *args), expected, rtol=tolerance, atol=tolerance)
