"""torch.library.opcheck on every operator: schema, fake implementation (strides included), dispatch keys."""

from functools import partial

import pytest
import torch
from refusals import refuses
from strategies import make_image, make_window

import torch_conv
from torch_conv.dispatch.operators import OPERATORS, overload_of, split_name

OPS = torch.ops.torch_conv
# Gradients come later; the refusal has its own test.
CHECKS = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic", "test_autograd_registration")


def last(*shape):
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return make_image(shape).contiguous(memory_format=formats[len(shape)])


SAMPLES = {
    "filter2d": [
        ((make_image((9, 11)), make_window((3, 4))), {}),
        ((make_image((2, 3, 9, 11)), make_window((2, 3, 3, 3)), "constant", True, "valid", "conv"), {"value": 2.0}),
        ((last(2, 3, 9, 11), make_window((3, 3))), {"stride": [2, 3], "dilation": [1, 2]}),
        ((make_image((2, 9, 11), torch.uint8), make_window((3, 3))), {"output_dtype": torch.int16, "anchor": [0, 2]}),
        ((make_image((9, 11, 3)).permute(2, 0, 1), make_window((3, 3))), {}),
        ((make_image((4, 5)).t(), make_window((3, 3)), "skip"), {}),
        ((torch.zeros(0, 3, 4, 5), make_window((3, 3))), {}),
    ],
    "filter2d_separable": [
        ((make_image((9, 11)), make_window((3,)), make_window((4,))), {}),
        ((last(2, 3, 9, 11), make_window((2, 3)), make_window((5,)), "circular", True), {"stride": [2, 1]}),
        ((make_image((2, 9, 11), torch.uint8), make_window((3,)), make_window((3,))), {"output_dtype": torch.float32}),
    ],
    "box2d": [
        ((make_image((9, 11)), [3, 4]), {}),
        ((last(2, 3, 9, 11), [3, 3], "constant", False, "valid"), {"value": 1.0}),
        ((make_image((2, 9, 11), torch.uint8), [5, 5]), {"anchor": [0, 0], "output_dtype": torch.float16}),
    ],
    "conv1d": [
        ((make_image((2, 3, 11)), make_window((3, 1, 4)), make_window((3,))), {"groups": 3, "padding": [2]}),
        ((make_image((3, 11)), make_window((6, 1, 3))), {"groups": 3, "stride": [2]}),
    ],
    "conv2d": [
        ((make_image((2, 3, 9, 11)), make_window((3, 1, 3, 4)), make_window((3,))), {"groups": 3, "padding": [1, 2]}),
        ((last(2, 3, 9, 11), make_window((6, 1, 3, 3))), {"groups": 3, "stride": [2, 1], "dilation": [1, 2]}),
        ((make_image((4, 9, 11)), make_window((2, 4, 3, 3))), {"padding_mode": "reflect", "padding": [1, 1]}),
    ],
    "conv1d.padding": [((make_image((2, 3, 11)), make_window((3, 1, 4))), {"groups": 3, "padding": "same"})],
    "conv2d.padding": [
        ((make_image((2, 3, 9, 11)), make_window((3, 1, 3, 4))), {"groups": 3, "padding": "same"}),
        ((make_image((2, 3, 9, 11)), make_window((3, 1, 3, 4))), {"groups": 3, "padding": "valid"}),
    ],
    "causal_conv1d": [
        ((make_image((2, 3, 11)), make_window((3, 4)), make_window((3,))), {"activation": "silu"}),
        ((make_image((2, 11, 3)).transpose(1, 2), make_window((3, 4)), None, None, make_image((2, 3, 3))), {}),
        ((make_image((2, 3, 11)), make_window((3, 4)), None, torch.zeros(2, 11, dtype=torch.int32)), {}),
    ],
    "causal_conv1d_states": [
        ((make_image((2, 3, 11)), make_window((3, 4)), make_window((3,))), {}),
        ((make_image((2, 11, 3)).transpose(1, 2), make_window((3, 4))), {}),
    ],
    "causal_conv1d_states_out": [
        ((make_image((2, 3, 11)), make_window((3, 4))), {"final_states_out": torch.empty(2, 3, 3)})
    ],
    "causal_conv1d_update": [
        ((make_image((2, 3)), make_image((2, 3, 5)), make_window((3, 4)), make_window((3,)), "silu"), {}),
        ((make_image((2, 4, 3)).transpose(1, 2), make_image((2, 3, 5)), make_window((3, 4))), {}),
    ],
    "ladder1d": [
        ((make_image((11,)), make_window((3,))), {}),
        ((make_image((2, 9, 11)), make_window((5,)), "tiled", [64]), {}),
    ],
    "ladder2d": [
        ((make_image((9, 11)), make_window((3, 3))), {}),
        ((make_image((2, 9, 11)), make_window((5, 5)), "tiled", [8, 8]), {}),
    ],
    "filter3d": [
        ((make_image((5, 9, 11)), make_window((3, 2, 4))), {}),
        (
            (make_image((2, 3, 5, 9, 11)), make_window((2, 3, 3, 3, 3)), "constant", True, "conv"),
            {"value": 2.0, "padding": "valid"},
        ),
        ((last(2, 3, 5, 9, 11), make_window((3, 3, 3))), {"stride": [2, 3, 1], "dilation": [1, 1, 2]}),
        (
            (make_image((2, 5, 9, 11), torch.uint8), make_window((3, 3, 3))),
            {"output_dtype": torch.int16, "anchor": [0, 0, 2]},
        ),
        ((make_image((5, 9, 11, 3)).permute(3, 0, 1, 2), make_window((3, 3, 3))), {}),
        ((make_image((4, 5, 6)).transpose(0, 2), make_window((3, 3, 3)), "skip"), {}),
        ((torch.zeros(0, 3, 4, 5, 6), make_window((3, 3, 3))), {}),
    ],
    "filter3d_separable": [
        ((make_image((5, 9, 11)), make_window((3,)), make_window((4,)), make_window((2,))), {}),
        (
            (last(2, 3, 5, 9, 11), make_window((2, 3)), make_window((5,)), make_window((1, 3)), "circular", True),
            {"stride": [1, 2, 1]},
        ),
        (
            (make_image((2, 5, 9, 11), torch.uint8), make_window((3,)), make_window((3,)), make_window((3,))),
            {"output_dtype": torch.float32, "padding": "valid"},
        ),
    ],
    "box3d": [
        ((make_image((5, 9, 11)), [2, 3, 4]), {}),
        ((last(2, 3, 5, 9, 11), [3, 3, 3], "constant", False), {"value": 1.0, "padding": "valid"}),
        ((make_image((2, 5, 9, 11), torch.uint8), [5, 5, 5]), {"anchor": [0, 0, 0], "output_dtype": torch.float16}),
    ],
    "conv3d": [
        (
            (make_image((2, 3, 5, 9, 11)), make_window((3, 1, 2, 3, 4)), make_window((3,))),
            {"groups": 3, "padding": [0, 1, 2]},
        ),
        (
            (last(2, 3, 5, 9, 11), make_window((6, 1, 3, 3, 3))),
            {"groups": 3, "stride": [1, 2, 1], "dilation": [1, 1, 2]},
        ),
        ((make_image((4, 5, 9, 11)), make_window((2, 4, 3, 3, 3))), {"padding_mode": "reflect", "padding": [1, 1, 1]}),
    ],
    "conv3d.padding": [
        ((make_image((2, 3, 5, 9, 11)), make_window((3, 1, 2, 3, 4))), {"groups": 3, "padding": "same"}),
        ((make_image((2, 3, 5, 9, 11)), make_window((3, 1, 2, 3, 4))), {"groups": 3, "padding": "valid"}),
    ],
    "ladder3d": [
        ((make_image((5, 9, 11)), make_window((3, 3, 3))), {}),
        ((make_image((2, 5, 9, 11)), make_window((3, 5, 5)), "tiled", [4, 8, 8]), {}),
    ],
    "gradient2d": [
        ((make_image((9, 11)),), {}),
        ((last(2, 3, 9, 11), "sobel", 2), {"padding": "valid", "output_dtype": torch.float64}),
        ((make_image((9, 11, 3)).permute(2, 0, 1), "scharr", 1, False), {"border_type": "skip"}),
        ((torch.zeros(0, 3, 4, 5),), {}),
    ],
    "sobel2d": [
        ((make_image((2, 9, 11), torch.uint8),), {"output_dtype": torch.float32}),
        ((last(2, 3, 9, 11), False, 0.5), {"border_type": "constant", "value": 2.0, "padding": "valid"}),
    ],
    "gaussian_sobel2d": [
        ((make_image((9, 11)), make_window((3,)), make_window((5,))), {"magnitude": "l1"}),
        ((last(2, 3, 9, 11), make_window((2, 3)), make_window((2, 3, 3)), "circular"), {"padding": "valid"}),
    ],
    "separable_sum2d": [
        ((make_image((9, 11)), [make_window((3,))], [make_window((5,))]), {}),
        ((last(2, 3, 9, 11), [make_window((3,))] * 3, [make_window((5,))] * 3, "skip"), {"padding": "valid"}),
    ],
    "unsharp_mask2d": [
        ((make_image((2, 9, 11), torch.uint8), make_window((3,)), make_window((5,))), {"amount": 0.5}),
        ((last(2, 3, 9, 11), make_window((3,)), make_window((3,))), {"padding": "valid"}),
    ],
    "structure_tensor2d": [
        ((make_image((9, 11)), make_window((3,)), make_window((5,))), {"mode": "diff"}),
        ((last(2, 3, 9, 11), make_window((3,)), make_window((3,))), {"padding": "valid"}),
    ],
    "thin_edges2d": [
        ((make_image((9, 11)), make_window((3,)), make_window((5,))), {}),
        ((last(2, 3, 9, 11), make_window((3,)), make_window((3,))), {"padding": "valid"}),
    ],
    "gaussian_gradient3d": [
        ((make_image((5, 9, 11)), make_window((3,)), make_window((5,)), make_window((1,))), {"mode": "sobel"}),
        ((last(2, 3, 7, 9, 11), *make_window((3, 3)), "constant"), {"padding": "valid", "value": 1.0}),
    ],
}


def into_out(name, args, kwargs):
    """The sample of an operator as one of its form that writes into `out`."""
    out = overload_of(name)(*args, **kwargs)
    options = {"derivative" if key == "mode" else key: kwargs[key] for key in kwargs if key != "output_dtype"}
    dtype = out.dtype if out.is_floating_point() else torch.float16  # a float also has a lazy sign
    return args, {**options, "out": torch.empty_like(out, dtype=dtype)}


def in_shards(args, kwargs):
    """The sample of an operator as one of its form on shards: two of them, along the last dimension."""
    image, *rest = args
    return ([part.clone() for part in image.tensor_split(2, -1)], *rest), {**kwargs, "dim": -1}


SAMPLES |= {
    form: [of(*sample) for sample in samples]
    for name, samples in SAMPLES.items()
    for form, of, has in (
        (f"{name}_out", partial(into_out, name), OPERATORS[name].has_out),
        (split_name(name), in_shards, OPERATORS[name].has_split),
    )
    if has
}


@pytest.mark.parametrize(("name", "sample"), [(n, i) for n, samples in SAMPLES.items() for i in range(len(samples))])
def test_opcheck(device, name, sample):
    args, kwargs = SAMPLES[name][sample]
    on_cpu = name.startswith("ladder")  # its window travels with the launch

    def move(value, index=0):
        if isinstance(value, list) and isinstance(value[0], torch.Tensor):
            return [v.to(device) for v in value]
        return value.to(device) if isinstance(value, torch.Tensor) and not (on_cpu and index == 1) else value

    args = tuple(move(a, i) for i, a in enumerate(args))
    # Tracing shards takes seconds and is the same for every sample, whose shapes the fakes' check compares.
    checks = [c for c in CHECKS if not (sample > 0 and c == "test_aot_dispatch_dynamic" and name.endswith("_split"))]
    torch.library.opcheck(
        overload_of(name), args, {k: move(v) for k, v in kwargs.items()}, test_utils=checks, raise_exception=True
    )


def test_every_operator_has_a_sample():
    public = {form for operator in OPERATORS.values() for form in operator.forms() if not form.startswith("_")}
    assert public == set(SAMPLES)


def test_fake_tensors_know_shapes_and_strides(device):
    """Spelled out for one operator: fake and real results agree in everything but their values."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    for image in (make_image((2, 3, 9, 11), device=device), last(2, 3, 9, 11).to(device)):
        real = torch_conv.filter2d(image, make_window((3, 3), device=device), stride=2)
        with FakeTensorMode() as mode:
            fake = torch_conv.filter2d(mode.from_tensor(image), torch.empty(3, 3, device=device), stride=2)
        assert (fake.shape, fake.stride(), fake.dtype) == (real.shape, real.stride(), real.dtype)
        assert fake.device == real.device
    for volume in (make_image((2, 3, 5, 9, 11), device=device), last(2, 3, 5, 9, 11).to(device)):
        real = torch_conv.filter3d(volume, make_window((3, 3, 3), device=device), stride=(1, 2, 3))
        with FakeTensorMode() as mode:
            given, cube = mode.from_tensor(volume), torch.empty(3, 3, 3, device=device)
            fake = torch_conv.filter3d(given, cube, stride=(1, 2, 3))
        assert (fake.shape, fake.stride(), fake.dtype) == (real.shape, real.stride(), real.dtype)


MAGNITUDE, FITS = "gaussian_gradient_magnitude3d", "a window of {0}x{0} does not fit"


@pytest.mark.parametrize(
    ("name", "call", "sentence"),
    [
        ("spatial_gradient", lambda f, x: f(x, "foo"), "mode must be 'sobel', 'diff', "),
        ("spatial_gradient", lambda f, x: f(x, order=3), "order must be 1 or 2 for mode 'sobel', got 3"),
        ("spatial_gradient", lambda f, x: f(x, order=2, padding="valid"), FITS.format(5)),
        ("sobel", lambda f, x: f(x[0]), "input must have at least 2 dimensions, got 1"),
        ("gaussian_sobel", lambda f, x: f(x, 3, 1.0, padding="full"), "padding must be 'same' or 'valid'"),
        ("gaussian_sobel", lambda f, x: f(x, 3, 1.0, magnitude="linf"), "magnitude must be 'l1' or 'l2', got 'linf'"),
        ("gaussian_sobel", lambda f, x: f(x, 3, 1.0, padding="valid"), FITS.format(5)),
        ("structure_tensor", lambda f, x: f(x, 3, 1.0, mode="foo"), "mode must be 'sobel', 'diff', "),
        ("thin_edges", lambda f, x: f(x, 3, 1.0, padding="valid"), f"{FITS.format(7)} into an image"),
        (MAGNITUDE, lambda f, x: f(x[None], 3, 1.0, mode="scharr"), "mode must be 'diff' or 'sobel', got 'scharr'"),
    ],
)
def test_fakes_of_pipelines_refuse_what_the_operators_refuse(name, call, sentence):
    for image in (torch.empty(4, 5, device="meta"), torch.empty(4, 5)):
        with pytest.raises(ValueError) as caught:
            call(getattr(torch_conv, name), image)
        assert str(caught.value).startswith(f"{name}: {sentence}")


EACH, FEW = "must have the same number of taps each", "must have 1, 2 or 3 dimensions"


def test_fakes_refuse_windows_that_are_no_chain():
    for device in ("meta", "cpu"):
        image, three, four = (torch.empty(n, device=device) for n in ((9, 9), (3,), (4,)))
        for name, call, sentence in (
            ("unsharp_mask2d", lambda f, x, a, b: f(x, a, b), "kernel_y must have an odd number of taps"),
            ("separable_sum2d", lambda f, x, a, b: f(x, [a], [b]), "kernels_y must have an odd number"),
            ("separable_sum2d", lambda f, x, a, b: f(x, [a], []), "kernels_x and kernels_y must be equally"),
            ("separable_sum2d", lambda f, x, a, b: f(x, [a, a.repeat(3)], [a, a]), f"kernels_x {EACH}, got 3 and 9"),
            ("thin_edges2d", lambda f, x, a, b: f(x, a[0], a), f"kernel_x {FEW}, got 0"),
            ("gaussian_sobel2d", lambda f, x, a, b: f(x, a, a.reshape(1, 1, 1, 3)), f"kernel_y {FEW}, got 4"),
            ("separable_sum2d", lambda f, x, a, b: f(x, [a], [a[0]]), f"kernels_y {FEW}, got 0"),
        ):
            with pytest.raises(RuntimeError) as caught:
                call(getattr(OPS, name), image, three, four)
            assert str(caught.value).startswith(f"{name}: {sentence}")


def test_fakes_refuse_what_the_operators_refuse():
    """A program that cannot run is not traced either."""
    image = torch.empty(4, 5, device="meta")
    for kernel, options in (
        (torch.empty(3, device="meta"), {}),
        (torch.empty(9, 9, device="meta"), {"padding": "valid"}),
        (torch.empty(3, 3, device="meta"), {"stride": 0}),
    ):
        with pytest.raises((ValueError, RuntimeError)):
            torch_conv.filter2d(image, kernel, **options)
    volume = torch.empty(2, 4, 5, device="meta")
    for size, options, sentence in (
        ((3, 3), {}, "kernel must have 3, 4 or 5 dimensions, got 2"),
        ((3, 3, 3), {"padding": "valid"}, "a window of 3x3x3 does not fit into a volume of 2x4x5 with padding='valid'"),
        ((3, 3, 3), {"stride": 0}, "stride and dilation must be at least 1"),
    ):
        with refuses(ValueError, f"filter3d: {sentence}"):
            torch_conv.filter3d(volume, torch.empty(size, device="meta"), **options)
    with pytest.raises(ValueError, match="^box_blur3d: input must have at least 3 dimensions, got 2$"):
        torch_conv.box_blur3d(image, 3)
    with pytest.raises(ValueError, match="^box_blur3d: the window must have at least one tap$"):
        torch_conv.box_blur3d(volume, 0)
    cube = torch.empty(3, 3, 3, device="meta")
    for options in ({"padding": "full"}, {"output_dtype": torch.int64}):
        with pytest.raises((ValueError, TypeError)):
            torch_conv.filter3d(volume, cube, **options)
    maps, weight = torch.empty(1, 3, 5, 5, 5, device="meta"), torch.empty(3, 1, 3, 3, 3, device="meta")
    assert torch_conv.conv3d(maps, weight, groups=3).shape == (1, 3, 3, 3, 3)
    for options in (
        {"padding": "same", "stride": 2},
        {"padding": -1},
        {"padding": "full"},
        {"stride": 0},
        {"groups": 2},
        {"bias": torch.empty(5, device="meta")},
    ):
        with pytest.raises(ValueError, match="^conv3d: "):
            torch_conv.conv3d(maps, weight, **{"groups": 3, **options})


@pytest.mark.parametrize(
    "args",
    [
        (make_image((2, 3, 11)), make_window((3, 1, 4)), make_window((3,)), 1, 1, 2, 1, 3),
        (last(2, 3, 9, 11), make_window((6, 1, 3, 3)), None, 2, 2, 1, 1, 3, "silu"),
    ],
)
def test_the_convolution_of_numbers(args):
    """The nodes of conv1d, conv2d and conv3d in compiled graphs."""
    torch.library.opcheck(OPS._conv_ours.default, args, {}, test_utils=CHECKS)
