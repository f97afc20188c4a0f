"""conv1d, conv2d and conv3d: drop-ins for the functions of torch.nn.functional."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from oracle import check, check_conv
from strategies import FLOATS, conv_cases, make_image, make_window
from tolerance import assert_same_bits

import torch_conv

PADDING_MODES = ["zeros", "reflect", "replicate", "circular"]
AXES = [1, 2, 3]
SIZES = {1: (31,), 2: (20, 31), 3: (6, 9, 11)}
WINDOWS = {1: (5,), 2: (3, 5), 3: (3, 3, 5)}
warns = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")


def ours(axes):
    return getattr(torch_conv, f"conv{axes}d")


def operator(axes):
    return getattr(torch.ops.torch_conv, f"conv{axes}d")


def theirs(axes):
    return getattr(F, f"conv{axes}d")


def depthwise_call(axes, device):
    """An image of three channels and a window for each of them."""
    image, window = make_image((2, 3, *SIZES[axes]), device=device), make_window((3, 1, *WINDOWS[axes]), device=device)
    return image, window


@warns
@pytest.mark.parametrize("axes", AXES)
@given(data=st.data())
def test_any_call_agrees_with_torch(device, axes, data):
    *call, layout = data.draw(conv_cases(axes))
    check_conv(*call, device=device, layout=layout)


@pytest.mark.parametrize("axes", [2, 3])
@given(data=st.data())
def test_any_call_agrees_with_the_oracle(device, axes, data):
    image, weight, bias, stride, padding, dilation, groups, layout = data.draw(conv_cases(axes))
    options = {"bias": bias, "stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    form = {"window": weight.shape[2:], "channels": weight.shape[1], "layout": layout}
    check(f"conv{axes}d", image, weight, device=device, way="direct", **form, **options)


def test_example_of_the_textbook(device):
    """The cells outside the signal hold 0."""
    x = torch.tensor([8.0, 2, 5, 4, 1, 7, 3], device=device).reshape(1, 1, 7)
    f = torch.tensor([1.0, 3, 5, 3, 1], device=device).reshape(1, 1, 5)
    y = torch_conv.conv1d(x, f, padding=2, algorithm="direct")[0, 0]
    assert y.shape == (7,)
    assert y[1:4].tolist() == [53, 52, 47]
    assert torch.equal(y.cpu(), F.conv1d(x.cpu(), f.cpu(), padding=2)[0, 0])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize(("axes", "size"), [*((2, k) for k in (1, 2, 3, 5, 7, 9)), *((3, k) for k in (1, 2, 3, 5, 7))])
def test_depthwise(device, dtype, axes, size, multiplier):
    channels, *sizes = {2: (6, 19, 37), 3: (4, 7, 9, 20)}[axes]
    image = make_image((2, channels, *sizes), dtype)
    weight = make_window((channels * multiplier, 1, *(size,) * axes), dtype)
    bias = make_window((channels * multiplier,), dtype)
    check_conv(image, weight, bias, padding=size // 2, groups=channels, device=device)
    check_conv(image, weight, None, 2, size // 2, 1, channels, device=device, layout="channels_last")


@pytest.mark.parametrize("window", [(1, 3, 3), (3, 1, 1), (3, 5, 5), (1, 1, 7), (4, 2, 3)])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_flat_and_long_windows(device, window, layout):
    volume, weight, bias = make_image((2, 3, 8, 9, 21)), make_window((3, 1, *window)), make_window((3,))
    padding = tuple(k // 2 for k in window)
    check_conv(volume, weight, bias, padding=padding, groups=3, device=device, layout=layout)


@pytest.mark.parametrize("padding_mode", PADDING_MODES)
@pytest.mark.parametrize(
    ("sizes", "window", "padding"),
    [
        ((20,), (5,), 3),
        *(((12, 15), (5, 3), padding) for padding in ("same", 2, (0, 3))),
        *(((6, 7, 11), (3, 5, 3), padding) for padding in ("same", 2, (1, 0, 3))),
    ],
)
def test_padding_modes(device, padding_mode, sizes, window, padding):
    image, weight = make_image((2, 3, *sizes)), make_window((3, 1, *window))
    check_conv(image, weight, padding=padding, groups=3, padding_mode=padding_mode, device=device)


@warns
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(("axes", "dilation"), [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2)])
def test_same_with_even_windows_pads_more_after(device, axes, size, dilation):
    image = make_image((1, 2, *{2: (15, 17), 3: (8, 9, 10)}[axes]))
    check_conv(image, make_window((2, 1, *(size,) * axes)), None, 1, "same", dilation, 2, device=device)


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("shape", [(1, 4), (8, 1), (3, 4), (8, 3)])
def test_few_channel_banks(device, axes, shape):
    """(C_out, C_in) of a single-channel bank, a sum over channels, and a small mix."""
    image = make_image((2, shape[1], *{2: (21, 33), 3: (6, 9, 13)}[axes]))
    check_conv(image, make_window((*shape, *WINDOWS[axes])), make_window((shape[0],)), padding="same", device=device)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("padding_mode", ["zeros", "circular"])
@pytest.mark.parametrize(
    ("shape", "bank"),
    [((2, 96, 40), (80, 96, 3)), ((2, 96, 9, 11), (80, 96, 3, 3)), ((1, 24, 4, 6, 7), (16, 24, 3, 3, 3))],
)
def test_torch_computes_dense_banks_of_many_channels(device, dtype, padding_mode, shape, bank):
    """The result has the bits of F.convNd, a matrix product."""
    axes = len(shape) - 2
    image, weight = make_image(shape, dtype, device=device), make_window(bank, dtype, device=device)
    bias = make_window(bank[:1], dtype, device=device)
    got = ours(axes)(image, weight, bias, 2, 1, padding_mode=padding_mode)
    padded = image if padding_mode == "zeros" else F.pad(image, (1,) * 2 * axes, padding_mode)
    assert_same_bits(got, theirs(axes)(padded, weight, bias, 2, 1 if padding_mode == "zeros" else 0))
    assert "torch" in str(torch_conv.explain(ours(axes), image, weight, bias, 2, 1))
    assert_same_bits(operator(axes)(image, weight, bias, 2, 1, padding_mode=padding_mode), got)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("padding_mode", ["reflect", "replicate", "circular"])
def test_same_of_even_windows_handed_to_torch(axes, padding_mode):
    kind = getattr(torch.nn, f"Conv{axes}d")
    layer = kind(24, 16, 4, padding="same", padding_mode=padding_mode, dtype=torch.float64)
    image = make_image((1, 24, *(6, 7, 8)[-axes:]), torch.float64)
    got = ours(axes)(image, layer.weight, layer.bias, padding="same", padding_mode=padding_mode, algorithm="torch")
    torch.testing.assert_close(got, layer(image))


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64, torch.complex128, torch.int32, torch.int8])
def test_torch_computes_other_dtypes(axes, dtype):
    real = make_image((1, 2, *(4, 5, 6)[-axes:]), torch.int16).div(1000, rounding_mode="floor")
    image, weight = real.to(dtype), torch.arange(2 * 3**axes).reshape(2, 1, *(3,) * axes).to(dtype)
    assert torch.equal(ours(axes)(image, weight, groups=2), theirs(axes)(image, weight, groups=2))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16])
def test_small_integers(dtype):
    """Sums inside the range of the dtype are exact."""
    image, weight = make_image((1, 2, 6, 7), torch.uint8).remainder(5).to(dtype), torch.arange(18).reshape(2, 1, 3, 3)
    weight = weight.remainder(6).to(dtype)
    expected = F.conv2d(image.double(), weight.double(), groups=2)
    assert torch.equal(torch_conv.conv2d(image, weight, groups=2).double(), expected)


@pytest.mark.parametrize("axes", AXES)
def test_no_samples(device, axes):
    image = torch.zeros(0, 3, *(5, 8, 9)[-axes:], device=device)
    got = ours(axes)(image, torch.ones(3, 1, *(3,) * axes, device=device), padding=2, groups=3)
    assert got.shape == (0, 3, *(7, 10, 11)[-axes:])


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize(
    ("channels", "lead", "window", "kwargs"),
    [
        ((3, 1), (2, 3), None, {"groups": 2}),
        ((4, 2), (2, 3), None, {}),
        ((1, 1), (), None, {}),
        ((3,), (2, 3), None, {}),  # a weight of too few dimensions
        ((3, 3), (2, 3), 9, {}),
        *(((3, 3), (2, 3), None, {name: 0}) for name in ("stride", "dilation", "groups")),
        *(((3, 3), (2, 3), None, {"padding": value}) for value in (-1, "full")),
        ((3, 3), (2, 3), None, {"padding": "same", "stride": 2}),
        ((3, 3), (2, 3), None, {"stride": (1, 2, 3, 4)}),
        *(((3, 3), (2, 3), None, {"bias": torch.zeros(shape)}) for shape in ((2,), (3, 1))),
    ],
)
def test_illegal_for_torch_is_illegal_here(device, axes, channels, lead, window, kwargs):
    image = torch.ones((*lead, *(8,) * axes), device=device)
    weight = torch.ones((*channels, *(window or 3,) * axes), device=device)
    kwargs = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()}
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        theirs(axes)(image, weight, **kwargs)
    with pytest.raises((ValueError, TypeError)):
        ours(axes)(image, weight, **kwargs)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("kwargs", [{}, {"padding": 1}, {"padding": "same"}, {"stride": 2}, {"dilation": (1, 2, 1)}])
def test_function_and_operator_are_one(device, axes, kwargs):
    image, weight = depthwise_call(axes, device)
    kwargs = {k: v[:axes] if isinstance(v, tuple) else v for k, v in kwargs.items()}
    expected = ours(axes)(image, weight, groups=3, **kwargs)
    assert_same_bits(operator(axes)(image, weight, groups=3, **kwargs), expected)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("padding_mode", ["zeros", "circular"])
def test_lists_of_one_serve_every_axis(device, axes, padding_mode):
    """The results are those of F.convNd."""
    image, weight = depthwise_call(axes, device)
    got = ours(axes)(image, weight, None, [2], [1], [2], 3, padding_mode=padding_mode)
    assert_same_bits(got, ours(axes)(image, weight, None, 2, 1, 2, 3, padding_mode=padding_mode))


@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize(("axes", "form"), [(2, torch.channels_last), (3, torch.channels_last_3d)])
def test_result_keeps_channels_last(device, axes, form, multiplier):
    image = make_image((2, 4, *(5, 9, 10)[-axes:]), device=device).contiguous(memory_format=form)
    weight = make_window((4 * multiplier, 1, *(3,) * axes), device=device)
    got = ours(axes)(image, weight, padding=1, groups=4, algorithm="direct")
    assert got.is_contiguous(memory_format=form)


def test_a_weight_one_plane_deep_is_conv2d_on_every_plane(device):
    volume, weight = make_image((2, 3, 5, 9, 11), device=device), make_window((3, 1, 3, 5), device=device)
    got = torch_conv.conv3d(volume, weight[:, :, None], padding=(0, 1, 2), groups=3)
    options = {"padding": (1, 2), "groups": 3, "algorithm": "direct"}
    planes = [torch_conv.conv2d(plane, weight, **options) for plane in volume.unbind(2)]
    assert_same_bits(got, torch.stack(planes, 2))


def test_refusals_of_empty_images_and_banks(device):
    image = torch.zeros(1, 1, 0, 5, device=device)
    with pytest.raises(ValueError, match="^conv2d: input must have at least one pixel an axis, got shape"):
        torch_conv.conv2d(image, torch.ones(1, 1, 3, 3, device=device), padding=2, padding_mode="circular")
    none = torch_conv.conv2d(torch.rand(1, 0, 8, 8, device=device), torch.rand(2, 0, 3, 3, device=device))
    assert none.shape == F.conv2d(torch.rand(1, 0, 8, 8), torch.rand(2, 0, 3, 3)).shape
    image, weight = torch.rand(1, 4, 8, 8, device=device), torch.rand(0, 1, 3, 3, device=device)
    with pytest.raises(ValueError, match="must be a positive multiple of groups 4$"):
        torch_conv.conv2d(image, weight, groups=4, algorithm="direct")


@pytest.mark.parametrize("argument", ["stride", "padding", "dilation"])
@pytest.mark.parametrize("value", [1.0, True, None, [1.0, 1, 1]])
def test_numbers_of_a_wrong_type(argument, value):
    if argument == "padding" and value is None:
        pytest.skip("F.conv3d has another sentence for it")
    x, w = torch.zeros(1, 2, 4, 4, 4), torch.zeros(2, 1, 3, 3, 3)
    got = type(value[0] if isinstance(value, list) else value).__name__
    with pytest.raises(TypeError, match=rf"^conv3d: {argument} must be of type int, got {got}$"):
        torch_conv.conv3d(x, w, groups=2, **{argument: value})


@pytest.mark.cuda
@pytest.mark.parametrize("shape", [(1, 1, 1 << 20), (1, (1 << 18) + 37), (16, 1, 30016), (3, 1, 180213), (40, 1, 700)])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "circular"])
def test_long_signals_have_the_bits_of_the_cpu(cuda, shape, with_bias, padding_mode):
    """Rows of one channel are cut into pieces that fill tiles (csrc/dispatch/long_rows.h)."""
    for dtype in FLOATS:
        signal, weight = make_image(shape, dtype), make_window((1, 1, 6), dtype)
        bias = torch.tensor([0.625], dtype=dtype) if with_bias else None
        options = {"padding": 4, "dilation": 2, "padding_mode": padding_mode, "algorithm": "direct"}
        got = torch_conv.conv1d(signal.to(cuda), weight.to(cuda), None if bias is None else bias.to(cuda), **options)
        assert_same_bits(got.cpu(), torch_conv.conv1d(signal, weight, bias, **options))


@pytest.mark.parametrize(
    ("shape", "with_bias", "launches"),
    [((1, 1, 1 << 20), False, 2), ((1, 1 << 20), True, 2), ((16, 1, 1 << 16), True, 2), ((16, 1, 20011), True, 1)],
    ids=str,
)
def test_plans_of_long_signals(monkeypatch, shape, with_bias, launches):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", "9.0 132 232448 3.35e12")
    bias = torch.rand(1) if with_bias else None
    options = {"padding": 2, "algorithm": "ours"}
    plans = torch_conv.explain(torch_conv.conv1d, torch.empty(shape), torch.rand(1, 1, 5), bias, **options)
    assert len(str(plans).splitlines()) == launches
