"""Convolutions that want no gradient: to which operator or function they go, the right one every time."""

import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
from operator_log import Log
from strategies import make_image, make_window
from tolerance import assert_same_bits
from torch.profiler import ProfilerActivity, profile

import torch_conv
from torch_conv.functional import _eager

OURS = make_image((2, 8, 14, 15)), make_window((8, 1, 3, 3)), {"groups": 8, "padding": 1}


def made(size, window):
    return make_image(size, torch.float64), make_window(window, torch.float64)


def operators_of(call):
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        call()
    return {event.name for event in seen.events()}


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
def test_calls_with_the_same_options_go_each_their_own_way(monkeypatch, axes, activation, first):
    """A bank of few channels is ours, a dense one torch's; `groups` is 1 for both."""
    monkeypatch.setattr(_eager, "_prepared", {})
    conv, by_torch = getattr(torch_conv, f"conv{axes}d"), getattr(F, f"conv{axes}d")
    size, window = (7, 8, 9)[:axes], (3,) * axes
    calls = [
        (made((2, 2, *size), (3, 2, *window)), "torch_conv::_conv_ours"),
        (made((2, 16, *size), (8, 16, *window)), "aten::convolution"),
    ]
    order = calls if first == "ours" else calls[::-1]
    for (image, weight), _ in order * 3:
        expected = by_torch(image, weight, padding=1)
        got = conv(image, weight, padding=1, activation=activation)
        torch.testing.assert_close(got, F.silu(expected) if activation else expected)
    for (image, weight), name in order:
        names = operators_of(lambda x=image, w=weight: conv(x, w, padding=1, activation=activation))
        assert name in names
        assert "torch_conv::_conv" not in names  # known by now
        assert ("torch_conv::_conv_ours" in names) == (name == "torch_conv::_conv_ours")


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


def test_a_weight_of_a_subclass_and_a_function_mode_see_the_public_operator():
    image, weight, options = OURS
    seen = []

    class Named(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return super().__torch_function__(func, types, args, kwargs or {})

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    torch_conv.conv2d(image, weight, **options)
    torch_conv.conv2d(image, weight.as_subclass(Named), **options)
    with Mode():
        torch_conv.conv2d(image, weight, **options)
    assert "torch_conv.conv2d.default" in seen
    assert not [name for name in seen if "torch_conv._" in name]


@pytest.mark.parametrize("dense", [False, True])
def test_traced_scripts_keep_what_torch_promises(dense):
    """A dense bank is torch's, with its gradients; of ours the script decides when it runs."""
    weight = make_window((16, 8, 3, 3) if dense else (8, 1, 3, 3))
    image, groups = OURS[0], 1 if dense else 8
    traced = torch.jit.trace(lambda x: torch_conv.conv2d(x, weight, padding=1, groups=groups), image)
    torch.testing.assert_close(traced(image), F.conv2d(image, weight, padding=1, groups=groups))
    if dense:
        wanted = image.clone().requires_grad_()
        traced(wanted).sum().backward()
        assert wanted.grad is not None


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("level", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_vmap(which, level):
    image, weight, options = OURS
    images, weights = make_image((4, *image.shape)), make_window((4, *weight.shape))
    given = [(images, weight), (image, weights)][which]
    with level():
        for _ in range(2):
            dims = [(0, None), (None, 0)][which]
            got = torch.vmap(lambda x, w: torch_conv.conv2d(x, w, **options), in_dims=dims)(*given)
            for i in range(4):
                one = (images[i], weight) if which == 0 else (image, weights[i])
                assert_same_bits(got[i], torch_conv.conv2d(*one, **options))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("padding", [1, (1,), [1, 1], [1, 0], "valid"], ids=str)
def test_compiled_calls_take_no_lists(dynamic, padding):
    image, weight, _ = OURS
    graphs = []

    def backend(graph, inputs):
        graphs.append((graph, inputs))
        return graph.forward

    def call(x):
        return torch_conv.conv2d(x, weight, groups=8, padding=padding, activation="relu")

    torch._dynamo.reset()
    compiled = torch.compile(call, backend=backend, dynamic=dynamic, fullgraph=True)
    with torch.no_grad():
        for size in (14, 20):
            x = image.repeat(1, 1, 2, 2)[..., :size]
            assert_same_bits(compiled(x), call(x))
    called = {str(node.target) for graph, _ in graphs for node in graph.graph.nodes if "torch_conv" in str(node.target)}
    assert called == {"torch_conv.conv2d.default" if padding == [1, 0] else "torch_conv._conv_ours.default"}
    if not dynamic:
        graph, inputs = graphs[0]
        assert str(torch_conv.explain(graph, *map(torch.empty_like, inputs))).startswith("conv2d: depthwise/")


def test_compiled_gradients_are_refused_not_lost():
    image, weight, options = OURS

    def total(x):
        return torch_conv.conv2d(x, weight, **options).sum()

    expected = torch.func.grad(lambda x: F.conv2d(x, weight, **options).sum())(image)
    for transform in (torch.func.grad, lambda f: torch.vmap(torch.func.grad(f))):
        batch = image if transform is torch.func.grad else image[None]
        try:
            got = torch.compile(transform(total), backend="aot_eager")(batch)
        except RuntimeError as refused:  # torch's own words: an operator that cannot be transformed
            assert "_conv_ours" in str(refused)
        else:
            torch.testing.assert_close(got.reshape(expected.shape), expected)


def test_direct_calls_by_numbers_have_gradients_and_refuse_tangents():
    image, weight, _ = OURS
    wanted = image.clone().requires_grad_()
    torch.ops.torch_conv._conv_ours(wanted, weight, None, 2, 1, 1, 1, 8).sum().backward()
    plain = image.clone().requires_grad_()
    torch.nn.functional.conv2d(plain, weight, None, 1, 1, 1, 8).sum().backward()
    torch.testing.assert_close(wanted.grad, plain.grad)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(image, image)
        with pytest.raises(RuntimeError, match="^conv2d: forward-mode derivatives are not implemented yet"):
            torch.ops.torch_conv._conv_ours(dual, weight, None, 2, 1, 1, 1, 8)
    with pytest.raises(RuntimeError, match="axes must be 1, 2 or 3, got 7"):
        torch.ops.torch_conv._conv_ours(image, weight, None, 7, 1, 1, 1, 8)


def test_a_window_of_other_axes_is_refused_also_when_the_options_are_known():
    image, weight, options = OURS
    torch_conv.conv2d(image, weight, **options)
    with pytest.raises(ValueError, match=r"^conv2d: weight must have 4 dimensions, got 3$"):
        torch_conv.conv2d(image[..., 0], weight[..., 0], **options)
    with pytest.raises(ValueError, match=r"^conv1d: weight must have 3 dimensions, got 4$"):
        torch_conv.conv1d(image, weight, **options)


def test_caches_of_calls_are_bounded(monkeypatch):
    monkeypatch.setattr(_eager, "_MOST", 50)
    monkeypatch.setattr(_eager, "_prepared", {})
    monkeypatch.setattr(_eager, "_routes", {})
    image, weight = make_image((1, 1, 8, 8)), make_window((1, 1, 1, 1))
    for stride in range(1, 60):
        torch_conv.conv2d(image, weight, stride=stride)
        assert len(_eager._prepared) <= 50
    dense = make_window((4, 16, 1, 1))
    for size in range(1, 60):
        assert torch_conv.conv2d(make_image((1, 16, size, 3)), dense).shape == (1, 4, size, 3)
        assert 0 < len(_eager._routes) <= 50


def test_meta_weights_are_refused_whatever_was_seen():
    image, weight = make_image((2, 16, 7, 8)), make_window((8, 16, 3, 3))
    for _ in range(2):
        torch_conv.conv2d(image, weight)
    with pytest.raises((TypeError, ValueError), match="^conv2d: "):
        torch_conv.conv2d(image, weight.to("meta"))


@pytest.mark.parametrize("wrong", [{"stride": "x"}, {"padding": 1.5}, {"groups": 3}, {"algorithm": "tensor_core"}])
@pytest.mark.parametrize("name", ["conv2d", "filter2d"])
def test_refused_calls_let_go_of_their_tensors(name, wrong):
    """Without waiting for a collection: after an out-of-memory error it would come too late."""
    image, weight = torch.rand(1, 2, 9, 9), torch.rand(2, 1, 3, 3)
    given = weakref.ref(image)
    gc.collect()
    gc.disable()
    try:
        with pytest.raises((TypeError, ValueError)):
            if name == "conv2d":
                torch_conv.conv2d(image, weight, **wrong)
            else:
                torch_conv.filter2d(image, weight[:, 0], stride=next(iter(wrong.values())))
        del image
        assert given() is None
    finally:
        gc.enable()
