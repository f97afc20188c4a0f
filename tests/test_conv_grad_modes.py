"""Convolutions with and without gradients: the same strides, the same traces, the same kinds of tensors."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from strategies import lay_out, make_image, make_window
from tolerance import assert_same_bits
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import torch_conv
from torch_conv import nn as tnn

MODES = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
# (channels, output channels, groups)
BANKS = {
    "depthwise": (16, 16, 16),
    "multiplier": (8, 16, 8),
    "image": (1, 8, 1),
    "few": (4, 6, 1),
    "dense": (16, 24, 1),
}
LAYOUTS = ["contiguous", "channels_last", "tokens", "every_other", "padded_rows", "padded_tokens", "one"]
SIZES = {1: (30,), 2: (14, 15), 3: (5, 8, 9)}


def laid_out(image, layout):
    if layout == "tokens":  # channels innermost, without a memory format of torch's
        return image.movedim(1, -1).contiguous().movedim(-1, 1)
    if layout == "padded_tokens":
        return laid_out(F.pad(image, (1, 2)), "tokens")[..., 1:-2]
    if layout == "one":
        return image[:1]
    if layout == "padded_rows" and image.dim() == 3:
        return F.pad(image, (1, 2))[..., 1:-2]
    return lay_out(image, layout)


def conv_of(axes):
    return getattr(torch_conv, f"conv{axes}d"), getattr(F, f"conv{axes}d")


def strides(t):
    """The strides of dimensions of more than one; torch leaves the others undefined."""
    return [stride for stride, size in zip(t.stride(), t.shape, strict=True) if size > 1]


@pytest.mark.parametrize("options", [{}, {"stride": 2}, {"padding_mode": "circular"}, {"activation": "gelu"}], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bank", BANKS)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_strides(device, axes, bank, layout, options):
    conv, theirs = conv_of(axes)
    channels, outputs, groups = BANKS[bank]
    batch = laid_out(make_image((2, channels, *SIZES[axes]), device=device), layout)
    for dtype in (torch.float32, torch.bfloat16):
        weight = make_window((outputs, channels // groups, *[3] * axes), dtype, device=device)
        for image in (batch.to(dtype), batch[0].to(dtype)):
            given = {"padding": 1, "groups": groups, **options}
            trained = conv(image, weight.clone().requires_grad_(), **given)
            assert trained.requires_grad
            for mode in MODES.values():
                with mode():
                    for _ in range(2):  # once asked, once remembered
                        got = conv(image, weight, **given)
                    assert strides(got) == strides(trained)
            if bank == "dense" and not options:  # torch's, as torch has it
                assert trained.stride() == theirs(image, weight, padding=1, groups=groups).stride()
            elif layout in ("contiguous", "channels_last", "one") and image.dim() - 2 == axes > 1 and not options:
                # torch's in float32: without AVX512 it makes contiguous bfloat16 volumes of channels_last ones
                assert strides(trained) == strides(theirs(image.float(), weight.float(), padding=1, groups=groups))


@pytest.mark.parametrize(("axes", "dynamic"), [(1, True), (2, False), (3, True)])
def test_strides_of_compiled_calls(device, axes, dynamic):
    torch._dynamo.reset()
    conv, _ = conv_of(axes)
    compiled = torch.compile(partial(conv, padding=1, groups=16), backend="aot_eager", fullgraph=True, dynamic=dynamic)
    image = laid_out(make_image((2, 16, *SIZES[axes]), device=device), "tokens")
    weight = make_window((16, 1, *[3] * axes), device=device)
    trained = compiled(image, weight.clone().requires_grad_())
    with torch.no_grad():
        assert strides(compiled(image, weight)) == strides(trained) == strides(image)


@pytest.mark.parametrize("bank", BANKS)
@pytest.mark.parametrize("layer", [nn.Conv1d, nn.Conv2d, nn.Conv3d])
def test_traces(device, layer, bank, without_tf32):
    """torch's own check, which traces a second time without gradients, and the same graph in every mode."""
    channels, outputs, groups = BANKS[bank]
    axes = int(layer.__name__[4])
    image = make_image((1, channels, *SIZES[axes]), device=device)
    ours = getattr(tnn, layer.__name__)(channels, outputs, 3, padding=1, groups=groups, activation="relu").to(device)
    model = nn.Sequential(layer(channels, outputs, 3, padding=1, groups=groups), nn.ReLU()).to(device)
    tnn.replace_depthwise(model)
    for module in (model, ours):
        graphs = []
        for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            with mode():
                traced = torch.jit.trace(module, image)
                torch.testing.assert_close(traced(image), module(image), rtol=1e-5, atol=1e-5)
                graphs.append([node.kind() for node in traced.inlined_graph.nodes() if "::conv" in node.kind()])
        served = bank != "dense" and (module is ours or groups == channels > 1)
        assert graphs == [[f"{'torch_conv' if served else 'aten'}::{'conv' if served else '_conv'}{axes}d"]] * 3 or (
            not served and len({tuple(graph) for graph in graphs}) == 1
        )
        traced(image).square().sum().backward()
        assert all(p.grad is not None for p in module.parameters())


class Wrapped(torch.Tensor):
    """A tensor class that decomposes torch's operators, as a DTensor or a quantized weight does."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=inner.device,
            requires_grad=inner.requires_grad,
        )  # fmt: skip

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func.namespace != "aten":
            raise NotImplementedError(f"{func} is none of torch's")
        args, kwargs = tree_map(lambda t: t.inner if isinstance(t, cls) else t, (args, kwargs or {}))
        return tree_map(lambda t: cls(t) if isinstance(t, torch.Tensor) else t, func(*args, **kwargs))


class Named(torch.Tensor):
    """A subclass without operators of its own."""


@pytest.mark.parametrize("kind", ["image", "weight", "bias", "all", "named", "mkldnn"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_kinds_of_tensors(device, axes, kind):
    if kind == "mkldnn" and device != "cpu":
        pytest.skip("a layout of the CPU's")
    conv, theirs = conv_of(axes)
    plain = make_image((2, 8, *SIZES[axes]), device=device), make_window((8, 1, *[3] * axes), device=device)
    expected = theirs(*plain, plain[1].flatten()[:8], padding=1, groups=8)

    def given():
        tensors = dict(zip(("image", "weight", "bias"), (*plain, plain[1].flatten()[:8]), strict=True))
        for name, t in tensors.items():
            if kind == "named":
                tensors[name] = t.as_subclass(Named)
            elif kind in (name, "all"):
                tensors[name] = Wrapped(t)
        if kind == "mkldnn":
            tensors["image"] = tensors["image"].to_mkldnn()
        return tensors["image"], tensors["weight"], tensors["bias"]

    kinds = set()
    for mode in (torch.enable_grad, torch.no_grad):
        for wanted in (False, True):
            with mode():
                image, weight, bias = given()
                got = conv(image, weight.requires_grad_(wanted and kind != "mkldnn"), bias, padding=1, groups=8)
                kinds.add((type(got), got.layout))
                got = got.to_dense() if kind == "mkldnn" else got.inner if isinstance(got, Wrapped) else got
                torch.testing.assert_close(got.as_subclass(torch.Tensor).detach(), expected, rtol=1e-4, atol=1e-4)
    assert len(kinds) == 1


@pytest.mark.filterwarnings("ignore")
def test_a_module_of_dtensors():
    """Replaced layers work under no_grad as they do with gradients: torch's convolutions know a DTensor."""
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor, Shard, distribute_module, distribute_tensor, init_device_mesh

    if not dist.is_available() or dist.is_initialized():
        pytest.skip("no process group of its own")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        model = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.ReLU())
        image = make_image((2, 4, 8, 9))
        expected = model(image)
        assert tnn.replace_depthwise(model) == ["0"]
        model, sharded = distribute_module(model, mesh), distribute_tensor(image, mesh, [Shard(0)])
        model(sharded).sum().backward()
        for mode in (torch.enable_grad, torch.no_grad):
            with mode():
                got = model(sharded)
            assert type(got) is DTensor
            torch.testing.assert_close(got.full_tensor(), expected)
    finally:
        dist.destroy_process_group()


def test_a_call_of_a_subclass_is_not_remembered_for_others(device):
    image, weight = make_image((2, 16, 9, 9), device=device), make_window((16, 1, 3, 3), device=device)
    for one in (weight, Wrapped(weight), weight):
        with torch.no_grad():
            assert isinstance(torch_conv.conv2d(image, one, stride=(2, 1), groups=16), Wrapped) == (one is not weight)


def test_meta_weights_are_refused_with_gradients_too(device):
    image = make_image((2, 8, 7, 8), device=device)
    for groups in (1, 8):
        weight = make_window((8, 8 // groups, 3, 3)).to("meta").requires_grad_()
        with pytest.raises(ValueError, match="^conv2d: weight must be on"):
            torch_conv.conv2d(image, weight, groups=groups)


class Types(TorchDispatchMode):
    """The dtypes of the arguments of torch's convolutions."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if "aten.convolution" in str(func) or "aten.conv" in str(func):
            self.seen += [t.dtype for t in args if isinstance(t, torch.Tensor)]
            assert torch.float16 not in self.seen  # before torch, which may not come back
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_half_precision_on_the_cpu_is_never_handed_to_torch(axes):
    """From some of these calls torch 2.11 does not come back where the processor has AVX512-FP16."""
    conv, theirs = conv_of(axes)
    k = {1: 15, 2: 15, 3: 5}[axes]
    image = make_image((2, 8, *[18] * axes), torch.float16)
    weight = make_window((8, 1, *[k] * axes), torch.float16) / k**axes
    options = {"padding": k // 2, "groups": 8}
    tensors = [image.clone().requires_grad_(), weight.clone().requires_grad_()]
    exact = [t.detach().double().requires_grad_() for t in tensors]
    theirs(*exact, **options).square().sum().backward()
    with Types():
        conv(*tensors, **options).square().sum().backward()
        grads = torch.func.grad(lambda x, w: conv(x, w, **options).square().sum(), argnums=(0, 1))(image, weight)
        (tangent,) = torch.func.jvp(lambda x: conv(x, weight, **options), (image,), (image,))[1:]
        conv(image, weight, **options)
        conv(image, weight, padding=k // 2, groups=8, padding_mode="reflect")
    assert "depthwise/" in str(torch_conv.explain(conv, *tensors, **options)) or axes == 3
    assert "torch" not in str(torch_conv.explain(conv, *tensors, **options))
    for found in ([t.grad for t in tensors], grads):
        for got, wanted in zip(found, exact, strict=True):
            assert got.dtype == torch.float16
            torch.testing.assert_close(got.double(), wanted.grad, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(tangent, conv(image, weight, **options), rtol=1e-2, atol=1e-2)


# Errors that torch raises in a call that was handed to it


@pytest.mark.parametrize(
    "options", [{}, {"padding": [1, 1]}, {"padding_mode": "reflect"}, {"activation": "relu"}], ids=str
)
@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("failure", [torch.OutOfMemoryError, RuntimeError, NotImplementedError, ValueError])
def test_errors_of_torch_reach_the_caller(monkeypatch, failure, wanted, options):
    """Class and text, at once: whoever looks for the largest batch waits for it."""
    from torch_conv.functional import _convolve

    calls = []

    def fails(*_):
        calls.append(1)
        raise failure("the dtype of what torch says\nin two lines")

    image, weight = make_image((1, 16, 12, 13)), make_window((16, 16, 3, 3)).requires_grad_(wanted)
    with monkeypatch.context() as patch:
        patch.setitem(_convolve.BY_TORCH, 2, fails)
        for tried in (1, 2):  # once asked, once remembered
            with pytest.raises(failure) as caught:
                torch_conv.conv2d(image, weight, **options)
            assert type(caught.value) is failure
            assert str(caught.value) == "the dtype of what torch says\nin two lines"
            assert len(calls) == tried
    assert torch_conv.conv2d(image, weight, **options).shape[1] == 16


@pytest.mark.parametrize("wanted", [False, True])
def test_memory_that_is_not_there(wanted):
    image = torch.zeros(1, 16, 1, 1).expand(1, 16, 2_000_000, 2_000_000)  # beyond every address space
    weight = torch.zeros(16, 16, 3, 3, requires_grad=wanted)
    for call in (torch_conv.conv2d, F.conv2d):
        with pytest.raises(RuntimeError, match="can't allocate memory") as caught:
            call(image, weight)
        assert type(caught.value) is RuntimeError


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_dtypes_that_torch_refuses(device, axes, groups):
    conv, theirs = conv_of(axes)
    image = torch.ones((1, 4, *SIZES[axes]), dtype=torch.bool, device=device)
    weight = torch.ones((4, 4 // groups, *[3] * axes), dtype=torch.bool, device=device)
    with pytest.raises((RuntimeError, TypeError)) as expected:
        theirs(image, weight, groups=groups)
    with pytest.raises(type(expected.value)) as caught:
        conv(image, weight, groups=groups)
    assert type(caught.value) is type(expected.value)
    assert str(caught.value) == str(expected.value)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_no_images_may_have_no_pixels(device, axes):
    """An empty batch is served or refused as F.convNd does."""
    conv, theirs = conv_of(axes)
    for k in (1, 2, 3):
        weight = make_window((2, 1, *[k] * axes), device=device)
        for padding in (0, 1, 2):
            for stride in (1, 2):
                image = torch.zeros((0, 2, *[0] * axes), device=device)
                options = {"padding": padding, "stride": stride, "groups": 2}
                try:
                    expected = theirs(image, weight, **options)
                except RuntimeError:
                    with pytest.raises(ValueError, match=f"^conv{axes}d: "):
                        conv(image, weight, **options)
                else:
                    assert_same_bits(conv(image, weight, **options), expected)
        with pytest.raises(ValueError, match="must have at least one pixel an axis"):
            conv(torch.zeros((1, 2, *[0] * axes), device=device), weight, padding=3, groups=2)


@pytest.mark.parametrize("options", [{}, {"algorithm": "torch"}, {"padding_mode": "reflect"}], ids=str)
@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("groups", [1, 16])
@pytest.mark.parametrize("dilation", [0, (0, 1), [1, 0]], ids=str)
def test_a_dilation_of_none_never_reaches_torch(monkeypatch, device, dilation, groups, wanted, options):
    """Whose depthwise kernels on CUDA take it."""
    from torch_conv.functional import _convolve

    monkeypatch.setitem(_convolve.BY_TORCH, 2, lambda image, *_: image)
    image, weight = make_image((2, 16, 9, 9), device=device), make_window((16, 16 // groups, 3, 3), device=device)
    for _ in range(2):
        with pytest.raises(ValueError, match="^conv2d: dilation must be at least 1, got 0$"):
            torch_conv.conv2d(image, weight.requires_grad_(wanted), groups=groups, dilation=dilation, **options)
