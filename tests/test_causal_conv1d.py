"""causal_conv1d: against the reference in float64, over the grid of lengths, widths, dtypes, layouts and states."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from refusals import check_operator, check_type, check_value, ones, refuses
from strategies import FLOATS, make_image, make_window
from tolerance import assert_same_bits, assert_within

import torch_conv
from torch_conv import reference
from torch_conv.compat.causal_conv1d import causal_conv1d_fn

LENGTHS = [1, 2, 8, 16, 32, 64, 128, 129, 130, 151, 256, 372, 512, 784, 1024, 1134, 2048, 4096]
STATES = ["none", "initial", "final", "both", "packed"]
LAYOUTS = ["rows", "channels"]


def sequences(batch, channels, length, dtype, layout, device, spare=40):
    """A part of the channels of a larger tensor, as a model has them behind a projection."""
    if layout == "channels":
        wide = make_image((batch, length, channels + spare), dtype, device=device)
        return wide[..., spare // 2 : spare // 2 + channels].transpose(1, 2)
    return make_image((batch, channels + spare, length), dtype, device=device)[:, spare // 2 : spare // 2 + channels]


def packed(batch, length, device):
    """Sequences of several lengths in each row, with padding in some of it."""
    generator = torch.Generator().manual_seed(3)
    return torch.randint(-1, 5, (batch, length), generator=generator).sort(1)[0].int().to(device)


def case(x, k, states, *, bias=True, weights=None):
    """The arguments of a call."""
    weights = weights or (torch.float64 if x.dtype == torch.float64 else torch.float32)
    batch, channels, length = x.shape
    initial = make_image((batch, k - 1, channels), x.dtype, seed=5, device=x.device).transpose(1, 2)
    return {
        "x": x,
        "weight": make_window((channels, k), weights, device=x.device),
        "bias": make_window((channels,), weights, seed=8, device=x.device) if bias else None,
        "seq_idx": packed(batch, length, x.device) if states == "packed" else None,
        "initial_states": initial if states in ("initial", "both") else None,
        "return_final_states": states in ("final", "both"),
    }


def check(given, activation=None):
    """A call against the reference; returns its results."""
    got = torch_conv.causal_conv1d(**given, activation=activation)
    expected = reference.causal_conv1d(**given, activation=activation)
    if given["return_final_states"]:
        (got, final), (expected, final_expected) = got, expected
        assert_same_bits(final, final_expected)
    assert got.stride() == reference_strides(given["x"])
    x, weight = given["x"], given["weight"]
    if activation:
        eps = torch.finfo(x.dtype).eps
        torch.testing.assert_close(got, expected, rtol=2 * eps + 4e-7 * (eps > 1e-15), atol=8 * eps)
        return got
    doubles = {name: t.double() if torch.is_tensor(t) and t.is_floating_point() else t for name, t in given.items()}
    doubles["return_final_states"] = False
    sizes = {name: t.abs() if torch.is_tensor(t) and t.is_floating_point() else t for name, t in doubles.items()}
    exact, scale = reference.causal_conv1d(**doubles).cpu(), reference.causal_conv1d(**sizes).cpu()
    assert_within(got, exact, scale, in_dtype=x.dtype, algorithm="direct", window=(1, weight.shape[1]))
    return got


def reference_strides(x):
    """The strides of a dense result, with the channels innermost if they are innermost in x."""
    channels, length = x.shape[1:]
    if x.stride(1) == 1 and x.stride(2) > 1:
        return (length * channels, 1, channels)
    return (channels * length, length, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("length", LENGTHS)
def test_lengths_widths_and_states(device, length, layout, dtype):
    if device == "cpu" and length > 784:
        pytest.skip("longer sequences mean nothing new on a CPU")
    for k, states, bias, activation in itertools.product([2, 3, 4], STATES, [False, True], [None, "silu"]):
        x = sequences(2, 64, length, dtype, layout, device)
        check(case(x, k, states, bias=bias), activation)


@pytest.mark.cuda
@pytest.mark.parametrize("layout", LAYOUTS)
def test_many_channels(cuda, layout):
    for length, k, states in itertools.product([1, 130, 1024, 1134], [2, 4], STATES):
        x = sequences(2, 4096 + 32, length, torch.bfloat16, layout, cuda, spare=4096)
        check(case(x, k, states), "silu")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("k", [1, 2, 4, 5, 9, 40])
def test_any_width_channels_and_layout(device, k, dtype):
    for channels, length, states in itertools.product([1, 3, 6, 33], [1, 7, 100], STATES):
        wide = make_image((2, channels + 1, 2 * length + 1), dtype, device=device)
        for x in (
            wide[:, 1:, :length],
            wide[:, 1:, 1 : length + 1],
            wide[:, 1:, : 2 * length : 2],
            wide[:1, :channels, :length].expand(2, -1, -1),
            wide[:, :channels, :length].transpose(1, 2).contiguous().transpose(1, 2),
        ):
            check(case(x, k, states))


@pytest.mark.parametrize("weights", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_weights_of_another_dtype(device, dtype, weights):
    for layout, k in itertools.product(LAYOUTS, [3, 6]):
        check(case(sequences(2, 8, 70, dtype, layout, device), k, "none", weights=weights))


def test_textbook_example(device):
    x, weight = torch.tensor([[[1.0, 2, 3, 4]]], device=device), torch.tensor([[10.0, 1]], device=device)
    assert torch_conv.causal_conv1d(x, weight).tolist() == [[[1, 12, 23, 34]]]
    expected = F.conv1d(x, weight[:, None], padding=1)[..., :4]
    assert_same_bits(torch_conv.causal_conv1d(x, weight), expected)


def test_packed_sequences_are_the_sequences_one_by_one(device):
    for layout, k in itertools.product(LAYOUTS, [3, 4, 6]):
        x = sequences(1, 8, 50, torch.float32, layout, device)
        numbers = torch.tensor([[7] * 20 + [3] * 2 + [7] * 13 + [-1] * 5 + [0] * 10], dtype=torch.int32, device=device)
        weight, bias = make_window((8, k), device=device), make_window((8,), device=device)
        got = torch_conv.causal_conv1d(x, weight, bias, numbers, activation="silu")
        for begin, end in ((0, 20), (20, 22), (40, 50)):
            alone = torch_conv.causal_conv1d(x[..., begin:end], weight, bias, activation="silu")
            assert_same_bits(got[..., begin:end], alone)
        assert (got[..., 35:40] == 0).all()


def test_a_sequence_in_parts(device):
    for layout, k in itertools.product(LAYOUTS, [2, 4, 7]):
        x = sequences(2, 12, 90, torch.bfloat16, layout, device)
        weight, bias = make_window((12, k), device=device), make_window((12,), device=device)
        whole, last = torch_conv.causal_conv1d(x, weight, bias, return_final_states=True, activation="swish")
        state, parts = None, []
        for part in x.split([1, 2, 50, 37], dim=2):
            out, state = torch_conv.causal_conv1d(
                part, weight, bias, initial_states=state, return_final_states=True, activation="silu"
            )
            parts.append(out)
        assert_same_bits(torch.cat(parts, dim=2), whole)
        assert_same_bits(state, last)


def test_final_states_into_a_tensor(device):
    x, weight = make_image((2, 6, 20), device=device), make_window((6, 4), device=device)
    for into in (torch.empty(2, 6, 3, device=device), torch.empty(2, 3, 6, device=device).transpose(1, 2)):
        out, states = torch_conv.causal_conv1d(x, weight, return_final_states=True, final_states_out=into)
        assert states is into
        assert_same_bits(into, x[..., -3:])
        assert_same_bits(out, torch_conv.causal_conv1d(x, weight))
    untouched = torch.full((2, 6, 3), 5.0, device=device)
    torch_conv.causal_conv1d(x, weight, final_states_out=untouched)
    assert (untouched == 5).all()


def test_no_elements(device):
    weight = make_window((3, 4), device=device)
    assert torch_conv.causal_conv1d(torch.empty(0, 3, 5, device=device), weight).shape == (0, 3, 5)
    states = make_image((2, 3, 3), device=device)
    empty = torch.empty(2, 3, 0, device=device)
    out, last = torch_conv.causal_conv1d(empty, weight, initial_states=states, return_final_states=True)
    assert out.shape == (2, 3, 0)
    assert_same_bits(last, states)
    assert torch_conv.causal_conv1d(torch.empty(2, 0, 5, device=device), weight[:0]).shape == (2, 0, 5)


def test_nan_and_inf_stay_in_their_windows(device):
    for layout, k, bad in itertools.product(LAYOUTS, [3, 5], [float("nan"), float("inf")]):
        x = sequences(1, 8, 600, torch.bfloat16, layout, device).clone()
        x[0, 2, 100], x[0, 5, 599] = bad, bad
        out = torch_conv.causal_conv1d(x, make_window((8, k), device=device))
        spoilt = (~out.isfinite()).nonzero().tolist()
        assert spoilt == [[0, 2, 100 + j] for j in range(k)] + [[0, 5, 599]]


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_variant_and_the_cpu_give_the_same_bits(cuda, pinned, dtype):
    served = set()
    for layout, k, states, length in itertools.product(LAYOUTS, [1, 2, 3, 4, 6], STATES, [5, 64, 513, 1134]):
        given = case(sequences(2, 36, length, dtype, layout, cuda), k, states)
        expected = torch_conv.causal_conv1d(**{n: t.cpu() if torch.is_tensor(t) else t for n, t in given.items()})
        for variant in ("rows", "channels", "general"):
            got = pinned(variant, lambda given=given: torch_conv.causal_conv1d(**given))
            if got is None:
                continue
            served.add(variant)
            for mine, its in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, expected)), strict=True):
                assert_same_bits(mine, its)
    assert served == ({"general"} if dtype == torch.float64 else {"rows", "channels", "general"})


def test_in_shards_of_samples_or_channels(device):
    given = case(make_image((4, 6, 30), device=device), 4, "both")
    expected = torch_conv.causal_conv1d(**given)
    for dim in (0, 1):
        parts = torch_conv.split(given["x"], [device] * 3, dim)
        got = torch_conv.causal_conv1d(**given | {"x": parts})
        for mine, its in zip(got, expected, strict=True):
            assert mine.spec.sizes == parts.spec.sizes
            assert_same_bits(mine.gather(), its)
    with refuses(ValueError, "causal_conv1d: x must be split along batch or channels, got shards along the length"):
        torch_conv.causal_conv1d(**given | {"x": torch_conv.split(given["x"], [device] * 2, 2)})


def test_name_of_the_causal_conv1d_package(device):
    x, weight = make_image((1, 4, 9), device=device), make_window((4, 4), device=device)
    assert causal_conv1d_fn is torch_conv.causal_conv1d
    assert_same_bits(
        causal_conv1d_fn(x, weight, None, None, None, False, None, "silu"), F.silu(causal_conv1d_fn(x, weight))
    )


@pytest.mark.parametrize(
    ("variant", "length", "layout", "options"),
    [
        ("rows", 1000, "rows", {}),
        ("rows", 1001, "rows", {"states": "both"}),
        ("general", 1000, "rows", {"states": "packed"}),
        ("channels", 1001, "channels", {"states": "packed"}),
        ("channels", 1001, "channels", {"states": "both"}),
        ("general", 1000, "channels", {"k": 5}),
    ],
)
def test_planned_without_a_gpu(monkeypatch, variant, length, layout, options):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", "9.0 132 232448 4.8e12")
    x = sequences(2, 64, length, torch.bfloat16, layout, "cpu")
    given = case(x, options.get("k", 4), options.get("states", "none"))
    assert f": causal/{variant} (" in str(torch_conv.explain(torch_conv.causal_conv1d, **given))


def test_explained():
    x, weight = make_image((2, 64, 100)), make_window((64, 4))
    assert str(torch_conv.explain(torch_conv.causal_conv1d, x, weight)).startswith("causal_conv1d: causal/rows (")
    inner = x.transpose(1, 2).contiguous().transpose(1, 2)
    assert "causal/channels (" in str(torch_conv.explain(torch_conv.causal_conv1d, inner, weight))
    states = {"initial_states": make_image((2, 64, 3)), "return_final_states": True}
    for given, elements in (({}, 100 + 100), (states, 3 + 100 + 100 + 3)):
        text = str(torch_conv.explain(torch_conv.causal_conv1d, x, weight, **given))
        assert f"; bytes {2 * 64 * elements * 4}, " in text


SEQUENCES, WINDOWS = ones(2, 3, 8), ones(3, 4)
REFUSED = [
    ((ones(3, 8), WINDOWS), {}, "x must have 3 dimensions, got 2"),
    ((SEQUENCES, ones(3, 1, 4)), {}, "weight must have 2 dimensions, got 3"),
    ((SEQUENCES, ones(4, 4)), {}, "weight must have shape (3, k) with k at least 1, got (4, 4)"),
    ((SEQUENCES, ones(3, 0)), {}, "weight must have shape (3, k) with k at least 1, got (3, 0)"),
    ((SEQUENCES, WINDOWS, ones(2)), {}, "bias must have shape (3,), got (2,)"),
    ((SEQUENCES, WINDOWS), {"activation": "relu"}, "activation must be None, 'silu' or 'swish', got 'relu'"),
    ((SEQUENCES, WINDOWS, None, ones(2, 7, dtype=torch.int32)), {}, "seq_idx must have shape (2, 8), got (2, 7)"),
    ((SEQUENCES, WINDOWS, None, None, ones(2, 3, 4)), {}, "initial_states must have shape (2, 3, 3), got (2, 3, 4)"),
    (
        (SEQUENCES, WINDOWS, None, ones(2, 8, dtype=torch.int32), ones(2, 3, 3)),
        {},
        "initial_states must be None where seq_idx is given",
    ),
]
REFUSED_TYPES = [
    ((ones(2, 3, 8, dtype=torch.int16), WINDOWS), "x must have dtype float32, float16, bfloat16 or float64, got int16"),
    (
        (SEQUENCES, WINDOWS.double()),
        "weight must have dtype float32, float16 or bfloat16 beside x of dtype float32, got float64",
    ),
    ((SEQUENCES.double(), WINDOWS), "weight must have dtype float64 beside x of dtype float64, got float32"),
    ((SEQUENCES, WINDOWS, ones(3, dtype=torch.float16)), "bias must have dtype float32, got float16"),
    ((SEQUENCES, WINDOWS, None, ones(2, 8, dtype=torch.int64)), "seq_idx must have dtype int32, got int64"),
    (
        (SEQUENCES, WINDOWS, None, None, ones(2, 3, 3, dtype=torch.float16)),
        "initial_states must have dtype float32, got float16",
    ),
    ((SEQUENCES, 3), "weight must be a torch.Tensor, got int"),
]


def a_good_call():
    return torch_conv.causal_conv1d(SEQUENCES, WINDOWS)


@pytest.mark.parametrize(("args", "kwargs", "sentence"), REFUSED)
def test_refused_values(device, args, kwargs, sentence):
    check_value(device, "causal_conv1d", args, kwargs, sentence, a_good_call)
    check_operator(device, "causal_conv1d", args, kwargs, sentence)


@pytest.mark.parametrize(("args", "sentence"), REFUSED_TYPES)
def test_refused_types(device, args, sentence):
    check_type(device, "causal_conv1d", args, {}, sentence)


def test_refused_final_states(device):
    x, weight = SEQUENCES.to(device), WINDOWS.to(device)
    numbers = ones(2, 8, dtype=torch.int32).to(device)
    for kwargs, sentence in (
        ({"seq_idx": numbers}, "return_final_states must be False where seq_idx is given"),
        ({"final_states_out": x[..., :2]}, "final_states_out must have shape (2, 3, 3), got (2, 3, 2)"),
        ({"final_states_out": x[..., :3]}, "final_states_out must not overlap x"),
    ):
        with refuses(ValueError, f"causal_conv1d: {sentence}"):
            torch_conv.causal_conv1d(x, weight, return_final_states=True, **kwargs)
