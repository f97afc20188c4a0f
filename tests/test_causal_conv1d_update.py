"""causal_conv1d_update: outputs and states against the reference and against the convolution of the whole sequence."""

import itertools

import pytest
import torch
from refusals import check_operator, check_type, check_value, ones, refuses
from strategies import FLOATS, make_image, make_window
from tolerance import assert_same_bits

import torch_conv
from torch_conv import reference
from torch_conv.compat import causal_conv1d as compat

LAYOUTS = ["rows", "channels"]


def laid_out(t, layout):
    return t.transpose(1, 2).contiguous().transpose(1, 2) if layout == "channels" and t.dim() == 3 else t


def numbers(values, device):
    return torch.tensor(values, dtype=torch.int32, device=device)


def check(x, state, weight, bias, activation, seen=None, rows=None):
    """A call against the reference, in the outputs and in the whole state."""
    expected_state = state.clone()
    expected = reference.causal_conv1d_update(x, expected_state, weight, bias, activation, seen, rows)
    got = torch_conv.causal_conv1d_update(x, state, weight, bias, activation, seen, rows)
    assert got.shape == x.shape
    eps = torch.finfo(x.dtype).eps
    torch.testing.assert_close(got, expected, rtol=2 * eps + 4e-7 * (eps > 1e-15), atol=8 * eps)
    assert_same_bits(state, expected_state)
    return got


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("channels", [1, 130, 2064])
@pytest.mark.parametrize("steps", [None, 1, 4, 5])
def test_steps_states_and_rings(device, steps, channels, layout, dtype):
    weights = torch.float64 if dtype == torch.float64 else torch.float32
    for k, spare, ring, picked in itertools.product([1, 2, 3, 4, 6], [0, 1, 9], [False, True], [False, True]):
        x = laid_out(make_image((4, channels, steps or 1), dtype, seed=k, device=device), layout)
        x = x if steps else x[..., 0]
        state = laid_out(make_image((9 if picked else 4, channels, k - 1 + spare), dtype, device=device), layout)
        weight = make_window((channels, k), weights, device=device)
        bias = make_window((channels,), weights, device=device) if spare else None
        rows = numbers([7, -1, 0, 3], device) if picked else None
        seen = numbers([0, 5, 1023, k], device) if ring else None
        got = check(x, state, weight, bias, "silu" if k % 2 else None, seen, rows)
        assert not picked or (got[1] == 0).all()


def test_a_generation_is_the_convolution_of_the_whole(device):
    for layout, ring, size in itertools.product(LAYOUTS, [False, True], [3, 4, 8]):
        x = laid_out(make_image((2, 12, 40), torch.bfloat16, device=device), layout)
        weight, bias = make_window((12, 4), device=device), make_window((12,), device=device)
        whole = torch_conv.causal_conv1d(x, weight, bias, activation="silu")
        state = laid_out(torch.zeros(2, 12, size, dtype=torch.bfloat16, device=device), layout)
        seen, begin = 0, 0
        for steps in (1, 3, 1, 9, 1, 1, 24):
            used = numbers([seen, seen], device) if ring else None
            out = torch_conv.causal_conv1d_update(
                x[..., begin : begin + steps], state, weight, bias, "silu", cache_seqlens=used
            )
            assert_same_bits(out, whole[..., begin : begin + steps])
            begin, seen = begin + steps, seen + steps
        if not ring:
            assert_same_bits(state, x[..., -size:])


def test_textbook_example(device):
    state, weight = torch.tensor([[[3.0, 4]]], device=device), torch.tensor([[100.0, 10, 1]], device=device)
    assert torch_conv.causal_conv1d_update(torch.tensor([[5.0]], device=device), state, weight).tolist() == [[345]]
    assert state.tolist() == [[[4, 5]]]


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_cpu_gives_the_same_bits(cuda, dtype):
    weights = torch.float64 if dtype == torch.float64 else torch.float32
    for layout, k, steps, ring in itertools.product(LAYOUTS, [1, 2, 3, 4, 6], [1, 3], [False, True]):
        x, state = make_image((3, 70, steps), dtype), laid_out(make_image((3, 70, 6), dtype, seed=4), layout)
        given = [x, state, make_window((70, k), weights), make_window((70,), weights), None]
        given.append(torch.tensor([0, 4, 17], dtype=torch.int32) if ring else None)
        there = [t.to(cuda) if torch.is_tensor(t) else t for t in given]
        assert_same_bits(torch_conv.causal_conv1d_update(*there), torch_conv.causal_conv1d_update(*given))
        assert_same_bits(there[1], state)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_every_variant_gives_the_same_bits(cuda, pinned, dtype):
    served = set()
    for layout, k, spare in itertools.product(LAYOUTS, [2, 3, 4], [0, 1, 2]):
        x, rows = make_image((5, 512), dtype, device=cuda), numbers([3, 1, -1, 7, 0], cuda)
        state = laid_out(make_image((8, 512, k - 1 + spare), dtype, device=cuda), layout)
        weight, bias = make_window((512, k), device=cuda), make_window((512,), device=cuda)
        expected_state = state.clone()
        expected = torch_conv.causal_conv1d_update(x, expected_state, weight, bias, "silu", conv_state_indices=rows)
        for variant in ("step", "update", "general"):
            moved = state.clone()

            def call(moved=moved, given=(weight, bias, "silu", None, rows), x=x):
                return torch_conv.causal_conv1d_update(x, moved, *given)

            got = pinned(variant, call)
            if got is not None:
                served.add(variant)
                assert_same_bits(got, expected)
                assert_same_bits(moved, expected_state)
    assert served == {"step", "update", "general"}


@pytest.mark.parametrize(
    ("variant", "k", "size", "ring"),
    [
        ("step", 4, 3, False),
        ("step", 4, 4, False),
        ("update", 4, 7, False),
        ("update", 4, 4, True),
        ("general", 5, 4, False),
    ],
)
def test_planned_without_a_gpu(monkeypatch, variant, k, size, ring):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", "9.0 132 232448 4.8e12")
    x, state = make_image((2, 64), torch.bfloat16), make_image((2, 64, size), torch.bfloat16)
    seen = numbers([0, 1], "cpu") if ring else None
    plan = torch_conv.explain(torch_conv.causal_conv1d_update, x, state, make_window((64, k)), cache_seqlens=seen)
    assert f": causal/{variant} (" in str(plan)


@pytest.mark.parametrize(
    ("steps", "size", "ring", "elements"),
    [
        (1, 3, False, 2 + 3 + 3),  # x and out; the state, read and written
        (1, 4, False, 2 + 3 + 4),  # its oldest element is seen by no window, and goes
        (1, 9, False, 2 + 8 + 9),
        (5, 4, False, 10 + 3 + 4),
        (1, 9, True, 2 + 3 + 1),
        (5, 4, True, 10 + 3 + 4),
    ],
)
def test_explained_bytes_count_the_state(monkeypatch, steps, size, ring, elements):
    x, state = make_image((2, 64, steps), torch.bfloat16), make_image((2, 64, size), torch.bfloat16)
    seen = numbers([0, 1], "cpu") if ring else None
    for gpu in (None, "9.0 132 232448 4.8e12"):
        if gpu:
            monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", gpu)
        plan = torch_conv.explain(torch_conv.causal_conv1d_update, x, state, make_window((64, 4)), cache_seqlens=seen)
        assert f"; bytes {2 * 64 * elements * 2}, " in str(plan)


def test_a_split_tensor_is_refused(device):
    parts = torch_conv.split(make_image((2, 3, 8), device=device), [device] * 2, 0)
    with refuses(TypeError, "causal_conv1d_update: a SplitTensor is not taken; give it its .shards one by one"):
        torch_conv.causal_conv1d_update(parts, make_image((2, 3, 4), device=device), make_window((3, 4), device=device))


@pytest.mark.cuda
def test_captured_and_replayed(cuda):
    x, state = make_image((4, 64), device=cuda), torch.zeros(4, 64, 4, device=cuda)
    weight, seen = make_window((64, 4), device=cuda), torch.zeros(4, dtype=torch.int32, device=cuda)
    torch_conv.causal_conv1d_update(x, state.clone(), weight, cache_seqlens=seen)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = torch_conv.causal_conv1d_update(x, state, weight, cache_seqlens=seen)
        seen += 1
    state.zero_(), seen.zero_()
    sequence = make_image((4, 64, 10), device=cuda)
    whole = torch_conv.causal_conv1d(sequence, weight)
    for t in range(10):
        x.copy_(sequence[..., t])
        graph.replay()
        assert_same_bits(got, whole[..., t])


def test_no_elements(device):
    weight = make_window((3, 4), device=device)
    state = make_image((2, 3, 4), device=device)
    before = state.clone()
    assert torch_conv.causal_conv1d_update(torch.empty(2, 3, 0, device=device), state, weight).shape == (2, 3, 0)
    assert torch_conv.causal_conv1d_update(torch.empty(0, 3, device=device), state[:0], weight).shape == (0, 3)
    assert_same_bits(state, before)


def test_name_of_the_causal_conv1d_package():
    assert compat.causal_conv1d_update is torch_conv.causal_conv1d_update


def test_gradients_are_refused_before_the_state_moves(device):
    x, state = make_image((2, 3), device=device), make_image((2, 3, 4), device=device)
    before = state.clone()
    with pytest.raises(ValueError) as caught:
        torch_conv.causal_conv1d_update(x, state, make_window((3, 4), device=device).requires_grad_())
    assert str(caught.value) == (
        "causal_conv1d_update: conv_state does not support gradients, but an argument requires one; "
        "call it under torch.no_grad()"
    )
    assert_same_bits(state, before)


STEP, STATE, WINDOWS = ones(2, 3), ones(2, 3, 4), ones(3, 4)
REFUSED = [
    ((ones(3), STATE, WINDOWS), {}, "x must have 2 or 3 dimensions, got 1"),
    ((STEP, ones(2, 3), WINDOWS), {}, "conv_state must have 3 dimensions, got 2"),
    ((STEP, ones(4, 3, 4), WINDOWS), {}, "conv_state must have shape (2, 3, 4), got (4, 3, 4)"),
    ((STEP, ones(2, 3, 2), WINDOWS), {}, "conv_state must have at least 3 elements a channel, got 2"),
    ((STEP, STATE, ones(4, 4)), {}, "weight must have shape (3, k) with k at least 1, got (4, 4)"),
    ((STEP, STATE, WINDOWS, ones(2)), {}, "bias must have shape (3,), got (2,)"),
    ((STEP, STATE, WINDOWS, None, "relu"), {}, "activation must be None, 'silu' or 'swish', got 'relu'"),
    (
        (STEP, STATE, WINDOWS, None, None, ones(3, dtype=torch.int32)),
        {},
        "cache_seqlens must have shape (2,), got (3,)",
    ),
    (
        (STEP, STATE, WINDOWS, None, None, None, ones(3, dtype=torch.int32)),
        {},
        "conv_state_indices must have shape (2,), got (3,)",
    ),
]
REFUSED_TYPES = [
    ((STEP, STATE.half(), WINDOWS), "conv_state must have dtype float32, got float16"),
    (
        (STEP, STATE, WINDOWS, None, None, None, ones(2, dtype=torch.int64)),
        "conv_state_indices must have dtype int32, got int64",
    ),
    ((STEP, None, WINDOWS), "conv_state must be a torch.Tensor, got NoneType"),
]


def a_good_call():
    return torch_conv.causal_conv1d_update(STEP, STATE.clone(), WINDOWS)


@pytest.mark.parametrize(("args", "kwargs", "sentence"), REFUSED)
def test_refused_values(device, args, kwargs, sentence):
    check_value(device, "causal_conv1d_update", args, kwargs, sentence, a_good_call)
    check_operator(device, "causal_conv1d_update", args, kwargs, sentence)


@pytest.mark.parametrize(("args", "sentence"), REFUSED_TYPES)
def test_refused_types(device, args, sentence):
    check_type(device, "causal_conv1d_update", args, {}, sentence)


def test_refused_overlap(device):
    state = make_image((2, 3, 4), device=device)
    with refuses(ValueError, "causal_conv1d_update: conv_state must not overlap x"):
        torch_conv.causal_conv1d_update(state[..., 0], state, make_window((3, 4), device=device))


def test_a_backward_that_needs_the_old_state_refuses(device):
    slope, state = torch.ones(3, requires_grad=True, device=device), torch.ones(1, 1, 3, device=device)
    total = (state * slope).sum()
    with torch.no_grad():
        torch_conv.causal_conv1d_update(torch.ones(1, 1, device=device), state, torch.ones(1, 4, device=device))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_rows_that_the_state_does_not_have_are_padding(device):
    held = torch.zeros(8, 4, 3, device=device)
    rows = torch.tensor([5, 1, -3], dtype=torch.int32, device=device)
    x, weight = torch.ones(3, 4, device=device), torch.ones(4, 4, device=device)
    got = torch_conv.causal_conv1d_update(x, held[:2], weight, conv_state_indices=rows)
    assert got.tolist() == [[0.0] * 4, [1.0] * 4, [0.0] * 4]
    assert held.sum() == 4


def test_a_state_that_overlaps_itself_is_refused(device):
    state = torch.zeros(1, 4, 3, device=device).expand(2, 4, 3)
    with refuses(ValueError, "causal_conv1d_update: conv_state must not overlap itself, got strides (0, 3, 1)"):
        torch_conv.causal_conv1d_update(torch.ones(2, 4, device=device), state, torch.ones(4, 4, device=device))
