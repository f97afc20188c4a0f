"""filter1d: one window along any dimension."""

import numpy as np
import pytest
import scipy.ndimage as ndi
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import check
from strategies import BORDERS, DTYPES, make_image, make_window, seeds
from tolerance import assert_same_bits

import torch_conv


@st.composite
def filter_cases(draw):
    shape = draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    k = draw(st.one_of(st.integers(1, 7), st.just(29)))
    stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    options = {
        "border_type": draw(st.sampled_from(BORDERS)),
        "normalized": draw(st.booleans()),
        "padding": draw(st.sampled_from(["same", "valid"])) if (k - 1) * dilation < shape[dim] else "same",
        "behaviour": draw(st.sampled_from(["corr", "conv"])),
        "dim": dim,
        "anchor": draw(st.one_of(st.none(), st.integers(-1, k - 1))),
        "stride": stride,
        "dilation": dilation,
        "value": draw(st.sampled_from([0.0, 1.5])),
    }
    signal = make_image(shape, draw(st.sampled_from(DTYPES)), draw(seeds()))
    return signal, make_window((k,), seed=draw(seeds())).abs() + 0.25, options


@given(case=filter_cases())
def test_any_call_agrees_with_the_oracle(device, case):
    signal, kernel, options = case
    check("filter1d", signal, kernel, device=device, window=(1, kernel.shape[-1]), **options)


def test_textbook_example(device):
    """x = [8, 2, 5, 4, 1, 7, 3], f = [1, 3, 5, 3, 1], zero ghost cells."""
    x = torch.tensor([8.0, 2, 5, 4, 1, 7, 3], device=device)
    f = torch.tensor([1.0, 3, 5, 3, 1], device=device)
    y = torch_conv.filter1d(x, f, "constant")
    assert y.shape == (7,)
    assert y[1:4].tolist() == [53, 52, 47]


@pytest.mark.parametrize("dim", [0, 1, 2, 3, -1, -2, -3, -4])
def test_every_dimension(device, dim):
    image, kernel = make_image((5, 6, 7, 8)), make_window((3,))
    moved = torch_conv.filter1d(image.movedim(dim, -1).contiguous().to(device), kernel.to(device), "circular")
    got = torch_conv.filter1d(image.to(device), kernel.to(device), "circular", dim=dim)
    assert_same_bits(got, moved.movedim(-1, dim))


def test_is_one_row_of_filter2d(device):
    image, kernel = make_image((3, 20, 31), device=device), make_window((5,), device=device)
    assert_same_bits(torch_conv.filter1d(image, kernel), torch_conv.filter2d(image, kernel[None]))
    assert_same_bits(torch_conv.filter1d(image, kernel, dim=-2), torch_conv.filter2d(image, kernel[:, None]))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_volumes_along_every_axis(device, axis):
    """One row of filter3d, and three rows of filter3d_separable."""
    volume, kernel = make_image((2, 3, 6, 9, 13), device=device), make_window((5,), device=device)
    shape = [1, 1, 1]
    shape[axis] = 5
    got = torch_conv.filter1d(volume, kernel, "replicate", dim=axis - 3)
    assert_same_bits(got, torch_conv.filter3d(volume, kernel.reshape(shape)))
    taps = [torch.ones(1, device=device)] * 3
    taps[axis] = kernel
    z, y, x = taps
    assert_same_bits(got, torch_conv.filter3d_separable(volume, x, y, z))
    last = volume.contiguous(memory_format=torch.channels_last_3d)
    assert_same_bits(torch_conv.filter1d(last, kernel, "replicate", dim=axis - 3), got)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_witness_scipy(device, axis):
    image, kernel = make_image((9, 10, 11), torch.float64), make_window((4,), torch.float64)
    expected = ndi.correlate1d(image.numpy(), kernel.numpy(), axis, mode="reflect")
    got = torch_conv.filter1d(image.to(device), kernel.to(device), "symmetric", dim=axis, anchor=-1).cpu()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-13, atol=1e-13)


FORMS = {"tuple": lambda n: (n,), "list": lambda n: [n], "numpy": np.int64, "list of numpy": lambda n: [np.int64(n)]}


@pytest.mark.parametrize("dim", [-1, -2, 0])
@pytest.mark.parametrize("form", FORMS)
def test_numbers_as_conv1d_takes_them(device, form, dim):
    image, kernel = make_image((9, 16, 17), device=device), make_window((4,), device=device)
    options = {"stride": 2, "dilation": 2, "anchor": 1}
    expected = torch_conv.filter1d(image, kernel, dim=dim, **options)
    for names in ({"stride"}, {"dilation"}, {"anchor"}, set(options)):
        given = {name: FORMS[form](n) if name in names else n for name, n in options.items()}
        assert_same_bits(torch_conv.filter1d(image, kernel, dim=dim, **given), expected)
    out = torch.empty_like(expected)
    torch_conv.filter1d(image, kernel, dim=dim, out=out, **{name: FORMS[form](n) for name, n in options.items()})
    assert_same_bits(out, expected)


def use_numbers(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.filter1d(x, k, stride=2, dilation=2, anchor=1)


def use_lists(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.filter1d(x, k, stride=(2,), dilation=[2], anchor=(1,))


def use_two(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.filter1d(x, k, stride=(2, 1))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_numbers_in_a_script_and_compiled(device):
    image, kernel = make_image((3, 16, 17), device=device), make_window((4,), device=device)
    expected = use_numbers(image, kernel)
    assert not torch.equal(expected, torch_conv.filter1d(image, kernel, stride=2))
    torch._dynamo.reset()
    for use in (use_numbers, use_lists):
        assert_same_bits(torch.jit.script(use)(image, kernel), expected)
        assert_same_bits(torch.compile(use, fullgraph=True, backend="aot_eager")(image, kernel), expected)
    with pytest.raises(torch.jit.Error, match="filter1d: stride must have 1 value, got 2"):
        torch.jit.script(use_two)(image, kernel)


@pytest.mark.parametrize("name", ["stride", "dilation", "anchor"])
@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ((1, 1), ValueError, "must have 1 value, got 2"),
        ((), ValueError, "must have 1 value, got 0"),
        (1.0, TypeError, "must be of type int, got float"),
        (["1"], TypeError, "must be of type int, got str"),
    ],
)
def test_no_such_numbers(device, name, given, error, sentence):
    with pytest.raises(error, match=f"^filter1d: {name} {sentence}$"):
        torch_conv.filter1d(torch.zeros(9, device=device), torch.ones(3, device=device), **{name: given})


@pytest.mark.parametrize("dim", [2, -3])
def test_dim_out_of_range(device, dim):
    with pytest.raises((ValueError, IndexError), match="filter1d: dim"):
        torch_conv.filter1d(torch.zeros(4, 5, device=device), torch.ones(3, device=device), dim=dim)


LONG = [(1, 1, 1 << 20), (3, 360001), (2, 3, 180213), (40, 700), (2, 20, 130), (1100007,)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.uint8, torch.int16])
@pytest.mark.parametrize("shape", LONG, ids=str)
def test_long_rows_have_the_bits_of_the_cpu(cuda, shape, dtype):
    """A few long rows are cut into pieces that fill tiles, many short ones of all planes make one image."""
    signal = make_image(shape, dtype)
    for k, options in (
        (1, {}),
        (5, {"border_type": "circular"}),
        (8, {"border_type": "replicate", "value": 2.0}),
        (31, {"border_type": "reflect"}),
        (5, {"border_type": "skip", "normalized": True}),
        (6, {"border_type": "zero_output", "anchor": 0}),
        (7, {"border_type": "constant", "value": 3.0, "dilation": 3}),
        (9, {"padding": "valid", "behaviour": "conv"}),
        (3, {"border_type": "symmetric", "stride": 2}),
    ):
        kernel = make_window((k,))
        for taps in (kernel, kernel.to(cuda)):
            got = torch_conv.filter1d(signal.to(cuda), taps, **options)
            assert_same_bits(got.cpu(), torch_conv.filter1d(signal, kernel, **options))
    out = torch.full_like(signal.to(cuda), 7)
    torch_conv.filter1d(signal.to(cuda), kernel, out=out)
    assert_same_bits(out.cpu(), torch_conv.filter1d(signal, kernel))


def test_long_rows_that_lie_apart(cuda):
    """Rows with gaps between, channels that are every other one, and steps of two numbers."""
    signal = make_image((4, 6, 270000))
    for view in (lambda x: x[:1, :, 3:260000], lambda x: x[:, ::2], lambda x: x[1:3, :, ::2], lambda x: x[0, :4, 1:]):
        got = torch_conv.filter1d(view(signal.to(cuda)), make_window((5,)))
        assert_same_bits(got.cpu(), torch_conv.filter1d(view(signal), make_window((5,))))


@pytest.mark.parametrize("channels", [3, 4, 16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_long_rows_of_channels_side_by_side(cuda, channels, dtype):
    signal = make_image((1, channels, 1, 300007), dtype).contiguous(memory_format=torch.channels_last)
    for kernel in (make_window((1, 5)), make_window((1, 24))):
        got = torch_conv.filter2d(signal.to(cuda), kernel, algorithm="direct")
        assert_same_bits(got.cpu(), torch_conv.filter2d(signal, kernel, algorithm="direct"))


@pytest.mark.parametrize(
    ("shape", "options", "launches"),
    [
        ((1, 1, 1 << 20), {}, 2),
        ((1, 1, 1 << 20), {"border_type": "circular"}, 3),
        ((1, 1, 1 << 20), {"anchor": 0}, 2),
        ((1 << 20,), {"padding": "valid"}, 2),
        ((2, 2, 1 << 20), {"border_type": "skip"}, 2),
        ((16, 4, 1 << 16), {}, 1),
        ((1, 1, 1 << 17), {}, 1),
        ((1, 1, 1 << 20), {"stride": 2}, 1),
        ((1, 1, 1 << 20), {"algorithm": "direct"}, 2),
    ],
    ids=str,
)
def test_plans_of_long_rows(monkeypatch, shape, options, launches):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", "9.0 132 232448 3.35e12")
    plans = str(torch_conv.explain(torch_conv.filter1d, torch.empty(shape), torch.rand(5), **options)).splitlines()
    assert len(plans) == launches
    tile = "tile 124x32" if {"anchor", "padding"} & set(options) else "tile 128x32"  # 124: of unaligned views
    assert launches == 1 or tile in plans[-1]
    assert all("tile_tma" in plan for plan in plans) or "skip" in options.values()


CALLS = [
    ((17,), (5,), {}),
    ((3, 17), (5,), {"border_type": "constant", "value": 2.0}),
    ((2, 3, 17), (5,), {"padding": "valid", "output_dtype": torch.float64}),
    ((2, 3, 17), (2, 5), {"normalized": True}),
    ((2, 3, 17), (2, 3, 5), {"behaviour": "conv"}),
    ((2, 3, 4, 17), (2, 3, 5), {"algorithm": "direct"}),
    ((2, 3, 4, 2, 17), (5,), {"dim": -1}),
    ((2, 3, 17), (5,), {"dim": 2}),
]


@pytest.mark.parametrize(("shape", "window", "options"), CALLS, ids=str)
def test_short_calls_are_the_whole_function(device, shape, window, options):
    """From Python, along the last dimension, only the given arguments go to the operator."""
    signal, kernel = make_image(shape, device=device), make_window(window, device=device)
    whole = torch_conv.filter1d(signal, kernel, **options, stride=1)
    assert_same_bits(torch_conv.filter1d(signal, kernel, **options), whole)
    assert_same_bits(torch_conv.filter1d(input=signal, kernel=kernel, **options), whole)
    signal.requires_grad_()
    assert torch_conv.filter1d(signal, kernel, **options).requires_grad


@pytest.mark.parametrize(
    ("shape", "window", "sentence"),
    [
        ((), (3,), "filter1d: dim must name one of the input's 0 dimensions, got -1"),
        ((9,), (), "filter1d: kernel must have 1, 2 or 3 dimensions, got 0"),
        ((9,), (1, 1, 1, 3), "filter1d: kernel must have 1, 2 or 3 dimensions, got 4"),
    ],
    ids=str,
)
def test_no_such_dimensions(device, shape, window, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        torch_conv.filter1d(torch.zeros(shape, device=device), torch.ones(window, device=device))


def test_windows_for_channels_have_a_one_before_them():
    image = torch.ones(2, 3, 8)
    with pytest.raises(ValueError, match=r"^filter1d: kernel's first dimension .* for channels give \(1, 3, \.\.\.\)$"):
        torch_conv.filter1d(image, torch.ones(3, 5))
    assert torch_conv.filter1d(image, torch.ones(1, 3, 5)).shape == image.shape
