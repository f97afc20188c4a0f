"""The calls that conv1d, conv2d and conv3d hand to torch, and the table of them with its measurements."""

import sys

import pytest
import torch
import torch.nn.functional as F
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuses
from strategies import FLOATS, lay_out, make_image, make_window
from tolerance import assert_same_bits

import torch_conv
from torch_conv.functional import _router

path = [*sys.path]
sys.path.append(str(ROOT / "benchmarks"))
handover_table = pytest.importorskip("handover_table", reason="there are no benchmarks here")
sys.path[:] = path  # without the checkout that the benchmarks put before everything

HANDED = "handed to torch: it takes"
# (input, weight, layout, options) that torch takes on both devices, each by a row of its own; VOLUMES on the CPU.
CALLS = {
    "one channel to many": ((4, 1, 20, 31), (32, 1, 3, 3), "contiguous", {"padding": "valid"}),
    "signal to many channels": ((2, 1, 20000), (8, 1, 5), "contiguous", {"padding": 2}),
    "circular signal": ((50, 32, 40), (32, 1, 3), "contiguous", {"padding": 1, "padding_mode": "circular"}),
}
VOLUMES = {
    "channels innermost": ((1, 32, 8, 20, 20), (32, 1, 3, 3, 3), "channels_last", {"padding": 1}),
    "small planes": ((2, 64, 4, 14, 14), (64, 1, 3, 3, 3), "contiguous", {"padding": 1}),
    "strided volume": ((1, 32, 8, 28, 28), (32, 1, 5, 5, 5), "contiguous", {"padding": 2, "stride": 2}),
}
# Convolutions that our kernels serve faster than torch.
OURS = {
    "depthwise": ((4, 32, 14, 14), (32, 1, 3, 3), "contiguous", {"padding": 1}),
    "channels_last": ((4, 32, 14, 14), (32, 1, 3, 3), "channels_last", {"padding": 1}),
    "strided": ((2, 32, 20, 31), (32, 1, 3, 3), "contiguous", {"padding": 1, "stride": 2}),
    "signal": ((50, 32, 400), (32, 1, 4), "contiguous", {"padding": 2}),
}


def made(call, device, dtype=torch.float32):
    shape, window, layout, options = (CALLS | VOLUMES | OURS)[call]
    image = lay_out(make_image(shape, dtype, device=device), layout)
    weight, bias = make_window(window, dtype, device=device), make_window(window[:1], dtype, device=device)
    groups = shape[1 - len(window)]  # of one channel each
    return image, weight, bias, {**options, "groups": groups}


def by_torch(image, weight, bias, padding_mode="zeros", padding=0, **options):
    if padding_mode != "zeros":
        image = F.pad(image, [padding] * 2 * (weight.dim() - 2), padding_mode)
        padding = 0
    return getattr(F, f"conv{weight.dim() - 2}d")(image, weight, bias, padding=padding, **options)


def of(weight):
    return getattr(torch_conv, f"conv{weight.dim() - 2}d"), getattr(torch.ops.torch_conv, f"conv{weight.dim() - 2}d")


# The table


def test_the_table_says_what_was_measured():
    ratios = handover_table.by_row()
    for row in range(len(handover_table.REASONS)):
        found = [ratio for ratio, _ in ratios.get(row, [])]
        assert found, handover_table.REASONS[row]
        assert handover_table.said(row) == handover_table.spread(found), handover_table.REASONS[row]


def test_ours_serve_where_they_are_ahead():
    ours = handover_table.by_row()[handover_table.OURS]
    behind = sorted(pair for pair in ours if pair[0] < 0.95)
    assert len(behind) <= 0.015 * len(ours), behind
    assert not behind or behind[0][0] > 0.6, behind


def test_torch_serves_where_it_is_ahead():
    handed = [pair for row, pairs in handover_table.by_row().items() if row != handover_table.OURS for pair in pairs]
    assert sum(ratio > 1 for ratio, _ in handed) < 0.1 * len(handed)


def test_float16_on_the_cpu_stays_ours():
    """torch 2.11 dies with signal 11 of the last call where the CPU has AMX."""
    for reason in handover_table.REASONS:
        assert not ("float16" in reason.replace("bfloat16", "") and "AMD" in reason)
    for call in CALLS:
        image, weight, bias, options = made(call, "cpu", torch.float16)
        for conv in of(weight):
            assert "direct/" in str(torch_conv.explain(conv, image, weight, bias, **options))
    signal, weight = torch.rand(3, 1).half(), torch.rand(3, 1, 1).half()
    options = {"padding": 2, "stride": 3, "dilation": 2, "groups": 3}
    assert "depthwise/" in str(torch_conv.explain(torch_conv.conv1d, signal, weight, **options))
    assert torch_conv.conv1d(signal, weight, **options).shape == (3, 2)


SIDES = [1, 5, 7, 14, 27, 28, 33, 55, 56, 111, 112, 130, 223, 224, 230]


@st.composite
def numbers(draw):
    axes = draw(st.integers(1, 3))
    inner, outer = draw(st.sampled_from([(1, 1), (1, 2), (1, 8), (1, 32), (2, 2), (3, 8), (4, 5), (3, 1)]))
    groups = draw(st.sampled_from([1, 1, 3, 8, 16, 24, 32]))
    size = [draw(st.sampled_from(SIDES if axes < 3 else SIDES[:10])) for _ in range(axes)]
    window = [draw(st.integers(1, 16)) for _ in range(axes)]
    if axes > 1 and draw(st.booleans()):
        window = [draw(st.sampled_from([3, 5, 7]))] * axes
    elif axes == 3 and draw(st.booleans()):
        k = draw(st.sampled_from([1, 2, 3, 5, 9, 12]))
        window = draw(st.sampled_from([[k, k, k], [1, k, k], [k, 1, 1], [1, 1, k], [1, k, 1], [3, k, k], [k, k, 3]]))
    options = {
        "stride": [draw(st.sampled_from([1, 1, 2])) for _ in range(axes)],
        "dilation": [draw(st.sampled_from([1, 1, 2])) for _ in range(axes)],
        "padding": [draw(st.integers(0, 3)) for _ in range(axes)],
        "padding_mode": draw(st.sampled_from(["zeros", "zeros", "reflect", "replicate", "circular"])),
        "groups": groups,
    }
    layout = draw(st.sampled_from(["contiguous", "channels_last"]))
    return (2, inner * groups, *size), (outer * groups, inner, *window), draw(st.sampled_from(FLOATS)), layout, options


@given(case=numbers())
def test_function_and_operator_decide_alike(device, case):
    shape, window, dtype, layout, options = case
    image = torch.empty(shape, dtype=dtype, device=device)
    if layout == "channels_last":
        image = image.movedim(1, -1).contiguous().movedim(-1, 1)
    weight = torch.empty(window, dtype=dtype, device=device)
    function, operator = of(weight)
    try:
        said = torch_conv.explain(function, image, weight, **options)
    except ValueError:
        with pytest.raises(RuntimeError):
            torch_conv.explain(operator, image, weight, **options)
    else:
        assert said.lines == torch_conv.explain(operator, image, weight, **options).lines


@pytest.mark.parametrize("gradient", [_router._NO_GRADIENT, _router._WANTED, _router._REPLAYED])
@pytest.mark.parametrize("machine", ["cpu", "cuda"])
@given(case=numbers())
def test_unknown_sizes_get_the_route_of_all_sizes(machine, gradient, case):
    """Symbolic sizes are decided at run time, unless every size gets the same route."""
    shape, window, dtype, _, options = case
    stride, dilation, padding = (options[name] for name in ("stride", "dilation", "padding"))

    def route(size, padding):
        strides = list(torch.empty(shape, device="meta").stride())
        rest = dilation, options["groups"], options["padding_mode"], gradient, False, False
        return _router.decide(machine, dtype, size, strides, list(window), stride, padding, *rest)[0]

    unknown = _router._UNKNOWN
    cases = [([unknown] * len(shape), padding)]
    if gradient == _router._NO_GRADIENT:  # a step of training with an unknown padding is torch's
        cases.append((list(shape), [unknown] * len(padding)))
    for known in cases:
        assert route(*known) in (route(list(shape), padding), _router.OPERATOR)


# The calls


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("call", [*CALLS, *VOLUMES])
def test_calls_handed_to_torch_have_its_bits(device, call, dtype):
    if call in VOLUMES and device != "cpu":
        pytest.skip("ours are ahead on CUDA")
    image, weight, bias, options = made(call, device, dtype)
    function, operator = of(weight)
    (line,) = torch_conv.explain(function, image, weight, bias, **options).lines
    assert HANDED in line
    assert "measured on" in line
    expected = by_torch(image, weight, bias, **options)
    assert_same_bits(function(image, weight, bias, **options), expected)
    assert_same_bits(function(image, weight, None, **options), by_torch(image, weight, None, **options))
    per_axis = {k: [v] * (weight.dim() - 2) if type(v) is int and k != "groups" else v for k, v in options.items()}
    got = operator(image, weight, bias, **per_axis)
    assert_same_bits(got, expected)
    assert got.stride() == operator(image, weight, bias, **per_axis, algorithm="direct").stride()


@pytest.mark.parametrize("call", CALLS)
def test_direct_pins_our_kernels(device, call):
    image, weight, bias, options = made(call, device, torch.float64)
    function, _ = of(weight)
    assert "direct/" in str(torch_conv.explain(function, image, weight, bias, **options, algorithm="direct"))
    got = function(image, weight, bias, **options, algorithm="direct")
    torch.testing.assert_close(got, by_torch(image, weight, bias, **options), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("shape", "window", "options"),
    [
        ((1, 1, 512, 512), (1, 1, 3, 3), {}),
        ((2, 3, 240, 250), (3, 1, 7, 7), {"groups": 3}),
        ((2, 1, 600, 530), (1, 1, 31, 31), {}),
    ],
)
def test_ours_keep_what_they_are_ahead_in(device, shape, window, options):
    image, weight = torch.empty(shape, device=device), torch.empty(window, device=device)
    plan = str(torch_conv.explain(torch_conv.conv2d, image, weight, **options))
    assert "direct/" in plan or "depthwise/" in plan


@pytest.mark.parametrize(
    ("shape", "window", "layout", "dtype", "options"),
    [
        ((1, 16, 8, 28, 28), (1, 3, 3), "contiguous", torch.float32, {}),
        ((1, 64, 8, 56, 56), (1, 3, 3), "contiguous", torch.bfloat16, {}),
        ((1, 128, 4, 14, 14), (1, 3, 3), "channels_last", torch.float32, {}),
        ((1, 128, 4, 14, 14), (3, 1, 1), "channels_last", torch.float32, {}),
        ((2, 32, 8, 28, 28), (3, 1, 1), "contiguous", torch.bfloat16, {}),
        ((2, 32, 8, 28, 28), (1, 3, 3), "channels_last", torch.float32, {"stride": 2}),
        # Nothing like these was measured.
        ((1, 16, 8, 2, 200), (3, 3, 3), "contiguous", torch.float32, {}),
        ((1, 32, 8, 200, 7), (3, 3, 3), "contiguous", torch.float32, {}),
        ((1, 32, 8, 2, 200), (3, 3, 3), "channels_last", torch.float32, {}),
        ((1, 32, 1, 112, 112), (3, 3, 3), "channels_last", torch.bfloat16, {}),
        ((2, 32, 8, 28, 28), (5, 3, 3), "contiguous", torch.float32, {}),
        ((2, 32, 8, 28, 28), (3, 5, 5), "channels_last", torch.bfloat16, {}),
    ],
)
def test_volumes_go_to_torch_only_where_it_was_ahead(shape, window, layout, dtype, options):
    volume = lay_out(torch.empty(shape, dtype=dtype), layout)
    weight = torch.empty((shape[1], 1, *window), dtype=dtype)
    options = {"groups": shape[1], "padding": [k // 2 for k in window], **options}
    assert "handed" not in str(torch_conv.explain(torch_conv.conv3d, volume, weight, **options))


def test_no_volume_goes_to_torch_where_ours_are_ahead():
    handed = [pair for row, pairs in handover_table.by_row().items() if row != handover_table.OURS for pair in pairs]
    volumes = [(ratio, name) for ratio, name in handed if "DHW" in name]
    assert len(volumes) > 100
    assert max(volumes) < (1.05,)


@pytest.mark.parametrize("call", OURS)
def test_ours_got_ahead(device, call):
    image, weight, bias, options = made(call, device)
    assert "depthwise/" in str(torch_conv.explain(of(weight)[0], image, weight, bias, **options))
    got, expected = of(weight)[0](image, weight, bias, **options), by_torch(image, weight, bias, **options)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("call", [*CALLS, *VOLUMES, *OURS])
def test_gradients_agree_with_torch_for_both_implementations(device, call):
    image, weight, bias, options = made(call, device)
    conv, _operator = of(weight)
    theirs = [t.clone().requires_grad_() for t in (image, weight, bias)]
    by_torch(*theirs, **options).square().sum().backward()
    for algorithm in ("auto", "ours"):
        ours = [t.clone().requires_grad_() for t in (image, weight, bias)]
        conv(*ours, **options, algorithm=algorithm).square().sum().backward()
        for mine, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine.grad, other.grad, rtol=1e-4, atol=1e-3)


def test_a_wrong_call_is_refused_in_our_words(device):
    image, weight, bias, _ = made("depthwise", device)
    for options, sentence in (
        ({"stride": 0}, "stride must be at least 1, got 0"),
        ({"padding": -1}, "padding must be at least 0, got -1"),
        ({"groups": 31}, "input must have 31 channels for a weight of shape (32, 1, 3, 3) and groups 31, got 32"),
        ({"dilation": 9}, "a window of 19x19 does not fit into the padded image of 14x14"),
        ({"padding": "same", "stride": 2}, "padding='same' needs stride 1, got 2"),
        (
            {"padding_mode": "mirror"},
            "padding_mode must be 'zeros', 'reflect', 'replicate' or 'circular', got 'mirror'",
        ),
        ({"bias": bias[:3]}, "bias must have shape (32,), got (3,)"),
        ({"weight": weight.to("meta")}, f"weight must be on {image.device}, got meta"),
    ):
        with refuses(ValueError, f"conv2d: {sentence}"):
            torch_conv.conv2d(**{"input": image, "weight": weight, "groups": 32} | options)
    with pytest.raises(TypeError):
        torch_conv.conv2d(image, weight, groups=32, stride=["2", "2"])


def test_padding_that_torch_cannot_is_ours(device):
    signal, weight = make_image((250, 32, 9), device=device), make_window((32, 1, 3), device=device)
    options = {"groups": 32, "padding_mode": "reflect"}
    for padding, whose in ((8, "handed to torch"), (9, "direct/")):
        for conv in of(weight):
            given = {**options, "padding": [padding]}
            assert whose in str(torch_conv.explain(conv, signal, weight, **given))
            got, expected = conv(signal, weight, **given), conv(signal, weight, **given, algorithm="direct")
            torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def test_shards_are_served_as_the_whole(device):
    """By sizes that no shard has."""
    weight = make_window((32, 1, 3, 3), device=device)
    # On the GPU torch is ahead below 112 columns, on the CPU below 512.
    wide = make_image((1, 1, *{"cpu": (130, 520), "cuda": (40, 160)}[device]), device=device)
    parts = torch_conv.split(wide, [device] * 4, dim=-1)
    assert HANDED in str(torch_conv.explain(torch_conv.conv2d, parts.shards[1], weight, padding=1))
    lines = torch_conv.explain(torch_conv.conv2d, parts, weight, padding=1).lines
    assert any("direct/" in line for line in lines)
    assert not any("handed" in line for line in lines)
    expected = torch_conv.conv2d(wide, weight, padding=1, algorithm="direct")
    assert_same_bits(torch_conv.conv2d(parts, weight, padding=1).gather(), expected)
    image, weight, bias, options = made("one channel to many", device)
    for dim in (0, 2, 3):
        parts = torch_conv.split(image, [device] * 3, dim=dim)
        lines = torch_conv.explain(torch_conv.conv2d, parts, weight, bias, **options).lines
        assert any(line.startswith("conv2d: handed to torch: it takes") for line in lines)
        assert not any("direct/" in line for line in lines)
        got = torch_conv.conv2d(parts, weight, bias, **options)
        torch.testing.assert_close(got.gather(), F.conv2d(image, weight, bias, **options), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("call", "dynamic"),
    [
        ("one channel to many", False),
        ("one channel to many", True),
        ("depthwise", True),
        ("channels_last", False),
        ("strided", True),
        ("signal", False),
    ],
)
def test_compiled(device, call, dynamic):
    torch._dynamo.reset()
    image, weight, bias, options = made(call, device)
    conv, _ = of(weight)
    compiled = torch.compile(
        lambda x, w: conv(x, w, bias, **options) + 1, fullgraph=True, dynamic=dynamic, backend="aot_eager"
    )
    for x in (image, torch.cat([image, image], -1), torch.cat([image] * 20, -1)):
        got, expected = compiled(x, weight), conv(x, weight, bias, **options) + 1
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    loss = compiled(image, weight.clone().requires_grad_()).square().sum()
    loss.backward()


@pytest.mark.parametrize("strict", [False, True])
def test_exported_for_any_size(device, strict):
    """An exported program serves images that torch serves and images that our kernels serve."""
    weight = make_window((32, 1, 3, 3), device=device)

    class Depthwise(torch.nn.Module):
        def forward(self, x):
            return torch_conv.conv2d(x, weight, padding=1, groups=32)

    dims = {2: torch.export.Dim("h", min=4, max=512), 3: torch.export.Dim("w", min=4, max=512)}
    image = make_image((2, 32, 20, 30), device=device)
    program = torch.export.export(Depthwise(), (image,), dynamic_shapes=(dims,), strict=strict).module()
    for x in (image, make_image((2, 32, 150, 300), device=device)):
        torch.testing.assert_close(program(x), F.conv2d(x, weight, padding=1, groups=32), rtol=1e-3, atol=1e-3)


def test_under_autocast(device):
    image, weight, bias, options = made("one channel to many", device)
    with torch.autocast(torch.device(device).type, torch.bfloat16):
        got, expected = torch_conv.conv2d(image, weight, bias, **options), F.conv2d(image, weight, bias, **options)
    assert got.dtype == torch.bfloat16
    assert_same_bits(got, expected)
