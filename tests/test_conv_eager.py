"""Convolutions that want no gradient: to which operator or function they go, the right one every time."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from strategies import make_image, make_window
from tolerance import assert_same_bits
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

import torch_conv

OURS = make_image((2, 8, 14, 15)), make_window((8, 1, 3, 3)), {"groups": 8, "padding": 1}


def operators_of(call):
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        call()
    return {event.name for event in seen.events()}


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize(
    "numbers",
    [{"padding": 1}, {"padding": (1, 1)}, {"padding": (1,), "stride": (2, 2), "dilation": 1}, {"padding": "valid"}],
    ids=str,
)
def test_one_number_for_all_axes_needs_no_lists(mode, numbers):
    image, weight, _ = OURS
    expected = torch_conv.conv2d(image, weight, **numbers, groups=8, algorithm="direct")
    with mode():
        got = torch_conv.conv2d(image, weight, **numbers, groups=8)
        assert_same_bits(got, expected)
        names = operators_of(lambda: torch_conv.conv2d(image, weight, **numbers, groups=8))
    assert "torch_conv::_conv" in names
    assert "torch_conv::conv2d" not in names


@pytest.mark.parametrize(
    "numbers", [{"padding": (1, 0)}, {"padding": "same"}, {"stride": [1, 2]}, {"padding_mode": "reflect", "padding": 1}]
)
def test_other_numbers_go_to_the_public_operator(numbers):
    image, weight, _ = OURS
    expected = torch_conv.conv2d(image, weight, **numbers, groups=8, algorithm="direct")
    for _ in range(2):
        assert_same_bits(torch_conv.conv2d(image, weight, **numbers, groups=8), expected)
    assert "torch_conv::_conv" not in operators_of(lambda: torch_conv.conv2d(image, weight, **numbers, groups=8))


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("first", ["ours", "torch's"])
def test_calls_with_the_same_options_go_each_their_own_way(axes, activation, first):
    """A bank of few channels is ours, a dense one torch's; `groups` is 1 for both."""
    conv, by_torch = getattr(torch_conv, f"conv{axes}d"), getattr(F, f"conv{axes}d")
    size, window = (7, 8, 9)[:axes], (3,) * axes
    padding = 1 if first == "ours" else (1,) * axes  # options that no other test has asked for before
    calls = [
        (make_image((2, 2, *size), torch.float64), make_window((3, 2, *window), torch.float64)),
        (make_image((2, 16, *size), torch.float64), make_window((8, 16, *window), torch.float64)),
    ]
    for image, weight in (calls if first == "ours" else calls[::-1]) * 3:
        expected = by_torch(image, weight, padding=padding)
        got = conv(image, weight, padding=padding, activation=activation)
        torch.testing.assert_close(got, F.silu(expected) if activation else expected)


def test_modes_and_scripts_see_the_public_operator():
    image, weight, options = OURS
    expected = torch_conv.conv2d(image, weight, **options)
    with Log() as log:
        got = torch_conv.conv2d(image, weight, **options)
    assert_same_bits(got, expected)
    assert log.names == ["torch_conv.conv2d.default"]
    traced = torch.jit.trace(lambda x: torch_conv.conv2d(x, weight, **options), image)
    assert "torch_conv::conv2d(" in str(traced.graph)
    assert_same_bits(traced(image), expected)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_calls_take_no_lists(dynamic):
    image, weight, options = OURS
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(
        lambda x: torch_conv.conv2d(x, weight, **options, activation="relu"), backend=backend, dynamic=dynamic
    )
    with torch.no_grad():
        for size in (14, 20):
            x = image.repeat(1, 1, 2, 2)[..., :size]
            assert_same_bits(compiled(x), torch_conv.conv2d(x, weight, **options, activation="relu"))
    called = {str(node.target) for graph in graphs for node in graph.graph.nodes if "torch_conv" in str(node.target)}
    assert called == {"torch_conv._conv_ours"}


def test_a_window_of_other_axes_is_refused_also_when_the_options_are_known():
    image, weight, options = OURS
    torch_conv.conv2d(image, weight, **options)
    with pytest.raises(ValueError, match=r"^conv2d: weight must have 4 dimensions, got 3$"):
        torch_conv.conv2d(image[..., 0], weight[..., 0], **options)
    with pytest.raises(ValueError, match=r"^conv1d: weight must have 3 dimensions, got 4$"):
        torch_conv.conv1d(image, weight, **options)


def test_what_the_host_does_for_a_call_is_bounded():
    """Options of thousands of kinds are forgotten, not kept for ever."""
    from torch_conv.functional import _eager

    image, weight = make_image((1, 1, 8, 8)), make_window((1, 1, 1, 1))
    for stride in range(1, _eager._MOST_SEEN + 10):
        torch_conv.conv2d(image, weight, stride=stride)
    assert len(_eager._ways) <= _eager._MOST_SEEN
    assert torch_conv.conv2d(image, weight, stride=4).shape == (1, 1, 2, 2)
