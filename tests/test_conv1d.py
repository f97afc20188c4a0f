"""conv1d: a drop-in for torch.nn.functional.conv1d, through the kernels of images."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from strategies import FLOATS, make_image, make_window, seeds
from tolerance import assert_same_bits, assert_within

import torch_conv


@st.composite
def conv_cases(draw):
    groups = draw(st.integers(1, 4))
    inner, multiplier = draw(st.sampled_from([(1, 1), (1, 2), (2, 1), (3, 2)]))
    n, k = draw(st.integers(1, 60)), draw(st.integers(1, 9))
    stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    least = max(0, (k - 1) * dilation + 1 - n + 1) // 2
    padding = least + draw(st.integers(0, 3))
    if stride == 1 and draw(st.booleans()):
        padding = "same"
    dtype = draw(st.sampled_from(FLOATS))
    signal = make_image((*draw(st.sampled_from([(), (1,), (3,)])), groups * inner, n), dtype, draw(seeds()))
    weight = make_window((groups * multiplier, inner, k), dtype, draw(seeds()))
    bias = make_window((groups * multiplier,), dtype, draw(seeds())) if draw(st.booleans()) else None
    return signal, weight, bias, {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@given(case=conv_cases())
def test_any_call_agrees_with_conv1d(device, case):
    signal, weight, bias, options = case
    tensors = [None if t is None else t.to(device) for t in (signal, weight, bias)]
    got = torch_conv.conv1d(*tensors, algorithm="direct", **options)
    doubles = [None if t is None else t.double() for t in (signal, weight, bias)]
    assert_within(
        got,
        F.conv1d(*doubles, **options),
        F.conv1d(*(None if t is None else t.abs() for t in doubles), **options),
        in_dtype=signal.dtype,
        algorithm="direct",
        window=(1, weight.shape[-1]),
        channels=weight.shape[1],
    )
    assert_same_bits(tensors[0], signal)


def test_textbook_example(device):
    """x = [8, 2, 5, 4, 1, 7, 3], f = [1, 3, 5, 3, 1], zero ghost cells."""
    x = torch.tensor([8.0, 2, 5, 4, 1, 7, 3], device=device).reshape(1, 1, 7)
    f = torch.tensor([1.0, 3, 5, 3, 1], device=device).reshape(1, 1, 5)
    y = torch_conv.conv1d(x, f, padding=2, algorithm="direct")[0, 0]
    assert y.shape == (7,)
    assert y[1:4].tolist() == [53, 52, 47]
    assert torch.equal(y.cpu(), F.conv1d(x.cpu(), f.cpu(), padding=2)[0, 0])


@pytest.mark.parametrize("padding_mode", ["zeros", "reflect", "replicate", "circular"])
def test_padding_modes(device, padding_mode):
    signal, weight = make_image((2, 3, 20), torch.float64), make_window((3, 1, 5), torch.float64)
    options = {"padding": 3, "groups": 3, "padding_mode": padding_mode, "algorithm": "direct"}
    got = torch_conv.conv1d(signal.to(device), weight.to(device), **options).cpu()
    mode = "constant" if padding_mode == "zeros" else padding_mode
    expected = F.conv1d(F.pad(signal, (3, 3), mode=mode), weight, groups=3)
    torch.testing.assert_close(got, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.cuda
@pytest.mark.parametrize("shape", [(1, 1, 1 << 20), (1, (1 << 18) + 37), (16, 1, 30016), (3, 1, 180213), (40, 1, 700)])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "circular"])
def test_long_signals_have_the_bits_of_the_cpu(cuda, shape, with_bias, padding_mode):
    """Those of one channel are cut into pieces that fill tiles (csrc/dispatch/long_rows.h)."""
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


def test_dense_many_channels_is_torch_s(device):
    signal, weight = make_image((2, 96, 40), device=device), make_window((80, 96, 3), device=device)
    assert_same_bits(torch_conv.conv1d(signal, weight, padding=1), F.conv1d(signal, weight, padding=1))


def test_function_and_operator_are_one(device):
    signal, weight = make_image((2, 3, 31), device=device), make_window((3, 1, 5), device=device)
    op = torch.ops.torch_conv.conv1d
    assert_same_bits(op(signal, weight, groups=3), torch_conv.conv1d(signal, weight, groups=3))
    assert_same_bits(
        op(signal, weight, padding="same", groups=3), torch_conv.conv1d(signal, weight, padding="same", groups=3)
    )


@pytest.mark.parametrize(
    ("signal", "weight", "kwargs"),
    [
        ((2, 3, 8), (3, 3, 9), {}),
        ((2, 3, 8), (4, 2, 3), {}),
        ((8,), (1, 1, 3), {}),
        ((2, 3, 8), (3, 3, 3), {"stride": 0}),
        ((2, 3, 8), (3, 3, 3), {"padding": "same", "stride": 2}),
    ],
)
def test_illegal_for_torch_is_illegal_here(device, signal, weight, kwargs):
    signal, weight = torch.ones(signal, device=device), torch.ones(weight, device=device)
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        F.conv1d(signal, weight, **kwargs)
    with pytest.raises((ValueError, TypeError)):
        torch_conv.conv1d(signal, weight, **kwargs)
