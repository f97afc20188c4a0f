"""torch's tools around a call: torch.fx, the flop counter, and the folding of batch norms."""

import copy
import io
import pickle
import subprocess
import sys

import pytest
import torch
from conftest import ROOT, needs_built_checkout
from nn_cases import MODULES
from strategies import make_image, make_window
from tolerance import assert_same_bits
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import torch_conv
from torch_conv import nn as tnn

SIGNAL, IMAGE, VOLUME = (2, 4, 13), (1, 4, 12, 13), (1, 4, 6, 8, 9)
ROW, WINDOW, CUBE = make_window((3,)), make_window((3, 5)), make_window((3, 3, 3))
STATE = make_image((2, 4, 3))

# A call of every public function, the shape of its input, and the flops that torch's counter finds a pixel:
# of Gaussians that go by one small window those of that.
CALLS = {
    "conv1d": (lambda x: torch_conv.conv1d(x, ROW.expand(4, 1, 3), groups=4, padding=1), SIGNAL, 6),
    "conv2d": (lambda x: torch_conv.conv2d(x, weight=WINDOW.expand(4, 1, 3, 5), groups=4, padding=(1, 2)), IMAGE, 30),
    "conv3d": (lambda x: torch_conv.conv3d(x, CUBE.expand(4, 1, 3, 3, 3), groups=4, padding=1), VOLUME, 54),
    "filter1d": (lambda x: torch_conv.filter1d(x, ROW), IMAGE, 6),
    "filter2d": (lambda x: torch_conv.filter2d(input=x, kernel=WINDOW), IMAGE, 30),
    "filter2d_separable": (lambda x: torch_conv.filter2d_separable(x, ROW, make_window((5,))), IMAGE, 16),
    "filter3d": (lambda x: torch_conv.filter3d(x, CUBE), VOLUME, 54),
    "filter3d_separable": (lambda x: torch_conv.filter3d_separable(x, ROW, ROW, make_window((5,))), VOLUME, 22),
    "box_blur": (lambda x: torch_conv.box_blur(x, (3, 5)), IMAGE, 16),
    "box_blur3d": (lambda x: torch_conv.box_blur3d(x, 3), VOLUME, 18),
    "causal_conv1d": (lambda x: torch_conv.causal_conv1d(x, ROW.expand(4, 3)), SIGNAL, 6),
    "causal_conv1d_update": (lambda x: torch_conv.causal_conv1d_update(x, STATE.clone(), ROW.expand(4, 3)), SIGNAL, 6),
    "difference_of_gaussians": (lambda x: torch_conv.difference_of_gaussians(x, 0.5), IMAGE, 2 * 7 * 7),
    "gaussian_blur2d": (lambda x: torch_conv.gaussian_blur2d(x, (3, 5), 1.0), IMAGE, 16),
    "gaussian_blur3d": (lambda x: torch_conv.gaussian_blur3d(x, 3, 1.0), VOLUME, 54),
    "gaussian_downsample": (lambda x: torch_conv.gaussian_downsample(x, 3, 1.0), IMAGE, None),
    "gaussian_gradient_magnitude3d": (lambda x: torch_conv.gaussian_gradient_magnitude3d(x, 3, 1.0), VOLUME, 18 + 18),
    "gaussian_laplace": (lambda x: torch_conv.gaussian_laplace(x, 0.5), IMAGE, None),
    "gaussian_sobel": (lambda x: torch_conv.gaussian_sobel(x, 3, 1.0), IMAGE, 12 + 36),
    "laplacian": (lambda x: torch_conv.laplacian(x, 3), IMAGE, None),
    "sobel": (lambda x: torch_conv.sobel(x), IMAGE, 36),
    "spatial_gradient": (lambda x: torch_conv.spatial_gradient(x), IMAGE, 36),
    "spatial_gradient3d": (lambda x: torch_conv.spatial_gradient3d(x), VOLUME, None),
    "structure_tensor": (lambda x: torch_conv.structure_tensor(x, 3, 1.0), IMAGE, 36 + 36),
    "thin_edges": (lambda x: torch_conv.thin_edges(x, 3, 1.0), IMAGE, 12 + 36),
    "unsharp_mask": (lambda x: torch_conv.unsharp_mask(x, 3, 1.0), IMAGE, 18),
}


def test_every_function_has_its_call():
    assert set(CALLS) == set(torch_conv.functional.__all__)


# torch.fx


@pytest.mark.parametrize("name", CALLS)
def test_a_function_is_one_node(name):
    call, shape, _ = CALLS[name]
    traced = torch.fx.symbolic_trace(call)
    assert [node.target for node in traced.graph.nodes if node.op.startswith("call")] == [getattr(torch_conv, name)]
    image = make_image(shape)
    for one in (traced, copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        assert_same_bits(one(image), call(image))
    assert f".{name}(" in traced.code.replace("_", ".").replace(name.replace("_", "."), name)


def test_numbers_and_windows_may_be_proxies():
    traced = torch.fx.symbolic_trace(lambda x, k, s: torch_conv.filter2d(torch_conv.gaussian_blur2d(x, 5, s), k) * 2)
    image = make_image(IMAGE)
    expected = torch_conv.filter2d(torch_conv.gaussian_blur2d(image, 5, 1.5), WINDOW) * 2
    assert_same_bits(traced(image, WINDOW, 1.5), expected)


def test_a_trace_refuses_what_a_call_refuses():
    with pytest.raises(TypeError, match="^conv2d: padding_mode and what follows it must be given by keyword"):
        torch.fx.symbolic_trace(lambda x: torch_conv.conv2d(x, WINDOW, None, 1, 0, 1, 1, "zeros"))


def test_a_step_whose_output_nobody_uses_stays():
    def step(x, state):
        torch_conv.causal_conv1d_update(x, state, ROW.expand(4, 3))
        return x

    traced = torch.fx.symbolic_trace(step)
    traced.graph.eliminate_dead_code()
    traced.recompile()
    state, expected = STATE.clone(), STATE.clone()
    x = make_image(SIGNAL)
    torch_conv.causal_conv1d_update(x, expected, ROW.expand(4, 3))
    traced(x, state)
    assert_same_bits(state, expected)


# The flop counter


def flops(call, *args):
    with FlopCounterMode(display=False) as counter:
        call(*args)
    return counter.get_total_flops()


@pytest.mark.parametrize("name", CALLS)
def test_flops_of_a_function(name):
    call, shape, each = CALLS[name]
    image = make_image(shape)
    counted = flops(call, image)
    assert counted > 0
    if each is not None:
        assert counted == each * image.numel()
    if name != "causal_conv1d_update":  # which has no gradient
        assert flops(lambda: call(image.clone().requires_grad_())) == counted


def test_flops_of_operators_that_write_and_of_shards():
    image, out = make_image(IMAGE), torch.empty(IMAGE)
    assert flops(lambda: torch_conv.filter2d(image, WINDOW, out=out)) == 30 * image.numel()
    shards = list(image.chunk(3, -2))
    assert flops(lambda: torch.ops.torch_conv.filter2d_split(shards, WINDOW)) == 30 * image.numel()
    rows = [ROW], [ROW]
    assert flops(lambda: torch.ops.torch_conv.separable_sum2d_out(image, *rows, out=out)) == 12 * image.numel()
    assert flops(lambda: torch.ops.torch_conv.gaussian_sobel2d(image, kernel_x=ROW, kernel_y=ROW)) == 48 * image.numel()


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("layer", [nn.Conv1d, nn.Conv2d, nn.Conv3d])
def test_a_replaced_model_counts_the_same(device, layer, wanted):
    axes = int(layer.__name__[4])
    model = nn.Sequential(layer(8, 16, 3, padding=1, groups=8), layer(16, 16, 5, stride=2, groups=16)).to(device)
    image = make_image((2, 8, *[12] * axes), device=device).requires_grad_(wanted)

    def step():
        with torch.set_grad_enabled(wanted):
            result = model(image)
            if wanted:
                result.sum().backward()

    before = flops(step)
    assert len(tnn.replace_depthwise(model)) == 2
    assert flops(step) == before


def test_flops_of_the_weight_gradient_equal_those_of_torch():
    image, grad = make_image((2, 4, 9, 9)), make_image((2, 4, 9, 9))
    given = grad, image, make_window((4, 1, 3, 3)), [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 4, [False, True, True]
    expected = flops(torch.ops.aten.convolution_backward, *given)
    assert flops(torch.ops.torch_conv._weight_gradient_or_torch, image, grad, [3, 3], [1, 1], [1, 1]) == expected


@pytest.mark.thorough
@needs_built_checkout
def test_the_counter_is_imported_by_whoever_counts():
    program = """
import sys, torch, torch_conv
assert "torch.utils.flop_counter" not in sys.modules
finders = len(sys.meta_path)
from torch.utils.flop_counter import flop_registry
assert torch.ops.torch_conv.conv2d in flop_registry
assert len(sys.meta_path) == finders - 1
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=60)


# Batch norms


@pytest.fixture
def layers():
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(4).eval()
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    return tnn.Conv2d(4, 4, 3, groups=4, activation="relu").eval(), norm


def test_no_batch_norm_is_folded_before_an_activation(layers):
    sequence = nn.Sequential(*layers)
    with pytest.raises(
        RuntimeError, match="^Conv2d: a batch norm cannot be folded into a layer with activation='relu'"
    ):
        nn.utils.fusion.fuse_conv_bn_eval(*layers)
    with pytest.raises((AssertionError, NotImplementedError)):
        torch.ao.quantization.fuse_modules(sequence, [["0", "1"]])
    from torch.fx.experimental import optimization

    image = make_image((1, 4, 9, 10))
    torch.testing.assert_close(optimization.fuse(sequence)(image), sequence(image))


class Watched(tnn.Conv2d):
    """A layer of a user's, whose own method stands between torch's function and ours."""

    def __setattr__(self, name, value):
        super().__setattr__(name, value)

    def register_parameter(self, name, param):
        super().register_parameter(name, param)


def test_no_batch_norm_is_folded_before_an_activation_of_a_subclass(layers):
    layer = Watched(4, 4, 3, groups=4, activation="relu").eval()
    with pytest.raises(RuntimeError, match="^Watched: a batch norm cannot be folded"):
        nn.utils.fusion.fuse_conv_bn_eval(layer, layers[1])
    layer.weight = nn.Parameter(torch.ones(4, 1, 3, 3))


def test_a_batch_norm_is_folded_where_there_is_no_activation(layers):
    plain = tnn.Conv2d(4, 4, 3, groups=4).eval()
    image = make_image((1, 4, 9, 10))
    fused = nn.utils.fusion.fuse_conv_bn_eval(plain, layers[1])
    assert type(fused) is tnn.Conv2d
    torch.testing.assert_close(fused(image), layers[1](plain(image)), rtol=1e-4, atol=1e-5)


def test_parameters_of_a_layer_with_an_activation_are_set_as_ever(layers):
    layer = copy.deepcopy(layers[0])
    layer.weight = nn.Parameter(layers[0].weight.detach() * 2)
    layer.bias = None
    image = make_image((1, 4, 9, 10))
    expected = torch_conv.conv2d(image, layers[0].weight * 2, groups=4, activation="relu")
    torch.testing.assert_close(layer(image), expected)


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_traced_without_their_own_modules(name):
    """Every tracer of torch that knows torch.nn only does so."""
    build, _, shape = MODULES[name]
    traced = torch.fx.symbolic_trace(nn.Sequential(build()))
    assert_same_bits(traced(make_image(shape)), build()(make_image(shape)))


# ONNX


@pytest.fixture(params=[nn.Conv1d, nn.Conv2d, nn.Conv3d])
def replaced(request):
    """A model of replaced layers and one that no other algorithm serves, and an image for it."""
    layer = request.param
    axes = int(layer.__name__[4])
    model = nn.Sequential(layer(8, 8, 3, padding=1, groups=8), layer(8, 8, 4, padding="same", groups=8))
    tnn.replace_depthwise(model)
    model.append(getattr(tnn, layer.__name__)(8, 8, 3, groups=8, activation="relu", algorithm="direct"))
    return model, make_image((1, 8, *[9] * axes))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("wanted", [False, True])
def test_onnx_export_of_a_replaced_model_equals_that_of_torch(monkeypatch, replaced, wanted):
    """The exports of torch.onnx hold torch's convolutions, by torch.export and by a trace."""
    model, image = replaced
    with monkeypatch.context() as patch, torch.set_grad_enabled(wanted):
        patch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
        exported = str(torch.export.export(model, (image,)).graph)
        traced = str(torch.jit.trace(model, image).inlined_graph)
    assert "ops.torch_conv" not in exported
    assert "torch_conv::" not in traced
    assert "relu" in exported
    assert "relu" in traced
    assert "ops.torch_conv" in str(torch.export.export(model, (image,)).graph)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamo", [False, True])
def test_onnx_files_hold_convolutions_of_torch(replaced, dynamo):
    onnx = pytest.importorskip("onnx")
    if dynamo:
        pytest.importorskip("onnxscript")
    model, image = replaced
    file = io.BytesIO()
    torch.onnx.export(model, (image,), file, dynamo=dynamo)
    nodes = [node.op_type for node in onnx.load_model_from_string(file.getvalue()).graph.node]
    assert nodes.count("Conv") == 3
    known = "Conv Relu Pad Constant Cast ConstantOfShape Concat Reshape Slice Transpose"
    assert set(nodes) <= set(known.split())
