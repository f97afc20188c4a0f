"""Same bits under every option: a pixel's result does not depend on shards, batch, layout or threads.

`test_same_bits` holds chosen calls on the CPU and on GPUs; here functions and their options are drawn at random.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import (
    BORDERS,
    DTYPES,
    FLOATS,
    LAYOUTS,
    VOLUME_LAYOUTS,
    conv_cases,
    filter_cases,
    lay_out,
    make_image,
    make_window,
    seeds,
    separable_cases,
)
from tolerance import assert_same_bits

import torch_conv

ACTIVATIONS = [None, "relu", "relu6", "gelu", "silu", "hardswish"]


class Call:
    """A function `f` of one image (B, C, ...), the image, and its number of spatial axes."""

    def __init__(self, name, f, image, axes):
        self.name, self.f, self.image, self.axes = name, f, image, axes

    def __repr__(self):
        return f"{self.name} of {tuple(self.image.shape)} {self.image.dtype}"


@st.composite
def filters(draw):
    """A window, or one for each axis, over images and volumes; every sample's is the same."""
    axes, separable = draw(st.sampled_from([2, 2, 3])), draw(st.booleans())
    case = draw((separable_cases if separable else filter_cases)(axes=axes))
    size = case.image.shape[-axes:]
    image = make_image((draw(st.integers(1, 3)), draw(st.integers(1, 3)), *size), case.image.dtype, draw(seeds()))
    ways = {2: "separable" if separable else "direct", 3: "auto"}
    options = case.options | {"algorithm": ways[axes], "output_dtype": draw(st.sampled_from([None, torch.float32]))}
    spatial = 1 if separable else axes
    windows = [k.reshape(-1, *k.shape[-spatial:])[0] for k in case.kernels]
    name = f"filter{axes}d" + "_separable" * separable
    return Call(f"{name} {options}", lambda x: getattr(torch_conv, name)(x, *windows, **options), image, axes)


@st.composite
def convolutions(draw):
    axes, activation = draw(st.sampled_from([2, 2, 3])), draw(st.sampled_from(ACTIVATIONS))
    image, weight, bias, stride, padding, dilation, groups, _ = draw(conv_cases(axes))
    image = image if image.dim() == axes + 2 else image[None]
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "activation": activation}
    options |= {"algorithm": "direct", "padding_mode": draw(st.sampled_from(["zeros", "replicate"]))}
    conv = getattr(torch_conv, f"conv{axes}d")
    return Call(f"conv{axes}d {weight.shape} {options}", lambda x: conv(x, weight, bias, **options), image, axes)


@st.composite
def depthwise(draw):
    """Many channels, with every activation: whole registers of channels or of pixels, and remainders."""
    channels, k = draw(st.sampled_from([3, 8, 17, 40])), draw(st.sampled_from([1, 3, 5, 7]))
    axes = draw(st.sampled_from([1, 2]))
    dtype, size = draw(st.sampled_from(FLOATS)), draw(st.tuples(*[st.integers(8, 40)] * axes))
    image = make_image((draw(st.integers(1, 3)), channels, *size), dtype, draw(seeds()))
    weight, bias = make_window((channels, 1, *[k] * axes), dtype), make_window((channels,), dtype)
    options = {"padding": k // 2, "groups": channels, "activation": draw(st.sampled_from(ACTIVATIONS))}
    options |= {"stride": draw(st.sampled_from([1, 2])), "algorithm": "direct"}
    conv = torch_conv.conv2d if axes == 2 else torch_conv.conv1d
    return Call(f"conv{axes}d {weight.shape} {options}", lambda x: conv(x, weight, bias, **options), image, axes)


def gaussians(algorithm):
    """Functions of images that take border, padding, value, output_dtype; whose windows hold no more than 7 pixels."""
    way = {"algorithm": algorithm}
    return {
        "gaussian_blur2d": lambda x, **o: torch_conv.gaussian_blur2d(x, (5, 7), 1.1, **o, **way),
        "unsharp_mask": lambda x, **o: torch_conv.unsharp_mask(x, 5, 1.1, **o, **way, amount=0.7),
        "difference_of_gaussians": lambda x, **o: torch_conv.difference_of_gaussians(x, 0.5, truncate=3.0, **o, **way),
        "gaussian_laplace": lambda x, **o: torch_conv.gaussian_laplace(x, 0.8, **o, **way),
    }


PIPELINES = {
    "laplacian": lambda x, **o: torch_conv.laplacian(x, 5, **o),
    "sobel": lambda x, **o: torch_conv.sobel(x, **o),
    "spatial_gradient": lambda x, **o: torch_conv.spatial_gradient(x, "scharr", **o),
    "gaussian_sobel": lambda x, **o: torch_conv.gaussian_sobel(x, 5, 1.1, **o),
    "structure_tensor": lambda x, **o: torch_conv.structure_tensor(x, 5, 1.1, **o),
    "thin_edges": lambda x, **o: torch_conv.thin_edges(x, 3, 1.1, **o),
    "box_blur": lambda x, **o: torch_conv.box_blur(x, (4, 5), **o),
}
VOLUMES = {
    "box_blur3d": lambda x, **o: torch_conv.box_blur3d(x, (2, 3, 5), **o),
    "gaussian_blur3d": lambda x, **o: torch_conv.gaussian_blur3d(x, 3, 0.8, **o),
    "spatial_gradient3d": lambda x, **o: torch_conv.spatial_gradient3d(x, **o),
    "gaussian_gradient_magnitude3d": lambda x, **o: torch_conv.gaussian_gradient_magnitude3d(x, 3, 0.8, **o),
}


@st.composite
def pipelines(draw):
    axes = draw(st.sampled_from([2, 2, 3]))
    functions = VOLUMES if axes == 3 else PIPELINES | gaussians(draw(st.sampled_from(["direct", "separable"])))
    name = draw(st.sampled_from(sorted(functions)))
    size = draw(st.tuples(*(st.integers(7, n) for n in ((30, 40) if axes == 2 else (9, 11, 20)))))
    image = make_image(
        (draw(st.integers(1, 3)), draw(st.integers(1, 3)), *size), draw(st.sampled_from(DTYPES)), draw(seeds())
    )
    options = {"border_type": draw(st.sampled_from(BORDERS))}
    options |= {"value": draw(st.sampled_from([0.0, -1.5])), "padding": draw(st.sampled_from(["same", "valid"]))}
    options |= {"output_dtype": draw(st.sampled_from([None, torch.float32]))}
    return Call(f"{name} {options}", lambda x: functions[name](x, **options), image, axes)


def calls():
    return st.one_of(filters(), convolutions(), depthwise(), pipelines())


@settings(max_examples=150)
@given(call=calls(), data=st.data())
def test_whole_and_shards(call, data):
    spatial = range(2, call.image.dim())
    dim = data.draw(st.sampled_from([0, *spatial]), "dim")
    n = call.image.shape[dim]
    parts = data.draw(st.integers(1, min(n, 3)), "parts")
    got = call.f(torch_conv.split(call.image, ["cpu"] * parts, dim=dim)).gather()
    assert_same_bits(got, call.f(call.image))


@settings(max_examples=150)
@given(call=calls(), data=st.data())
def test_alone_and_in_a_batch(call, data):
    n = data.draw(st.integers(0, call.image.shape[0] - 1), "sample")
    assert_same_bits(call.f(call.image)[n : n + 1], call.f(call.image[n : n + 1].clone()))


@settings(max_examples=150)
@given(call=calls(), data=st.data())
def test_every_layout(call, data):
    layout = data.draw(st.sampled_from(LAYOUTS if call.axes == 2 else VOLUME_LAYOUTS if call.axes == 3 else ["offset"]))
    assert_same_bits(call.f(lay_out(call.image, layout)), call.f(call.image))


@settings(max_examples=100)
@given(call=calls())
def test_one_thread_and_several(call):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = call.f(call.image)
        torch.set_num_threads(3)
        assert_same_bits(call.f(call.image), one)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("activation", ACTIVATIONS[1:])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_an_activation_of_a_number_has_one_value(device, dtype, activation):
    """Wherever it lies in a row, by the kernels for depthwise convolutions and behind those for any other."""
    numbers = torch.linspace(-12, 12, 301).to(dtype).to(device)
    one = torch.ones(1, 1, 1, 1, dtype=dtype, device=device)

    def activated(x, groups):
        weight = one.expand(groups, 1, 1, 1)
        call = {"groups": groups, "algorithm": "direct", "activation": activation}
        return torch_conv.conv2d(x.expand(1, groups, *x.shape), weight, **call)[0]

    rows = torch.stack([numbers.roll(i) for i in range(70)])
    one_by_one = activated(numbers[:, None], 1)[0, :, 0]
    expected = torch.stack([one_by_one.roll(i) for i in range(70)])
    for groups in (1, 2, 40):
        for view in (lambda r: r, lambda r: r.t(), lambda r: r[:, 1:], lambda r: r[:, ::2]):
            assert_same_bits(activated(view(rows), groups), view(expected).expand(groups, -1, -1))


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("activation", ACTIVATIONS[1:])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("padding_mode", ["zeros", "replicate"])
def test_an_activation_is_rounded_once(device, dtype, activation, axes, padding_mode):
    """The activation gets the sum in float32."""
    image = make_image((1, 6, *[9] * axes), dtype, device=device)
    for weight, groups in ((make_window((6, 1, *[3] * axes), dtype), 6), (make_window((4, 3, *[3] * axes), dtype), 2)):
        options = {"padding": 1, "groups": groups, "padding_mode": padding_mode, "algorithm": "direct"}
        conv, weight = getattr(torch_conv, f"conv{axes}d"), weight.to(device)
        sums = conv(image.float(), weight.float(), **options)
        exact = getattr(torch.nn.functional, activation)(sums.double())
        got = conv(image, weight, activation=activation, **options)
        # A sum or an activation in float32 may be off by a few units of its last place before the one rounding.
        unit, last = 2.0**-24, torch.finfo(dtype).eps / 2
        allowed = exact.abs() * last * (1 + 2.0**-6) + 16 * unit * (1 + sums.abs().double())
        assert ((got.double() - exact).abs() <= allowed).all()
