"""torch_conv.nn's convolutions have the parameters, values and gradients of torch.nn's; copies and pickles."""

import copy
import inspect
import io
import pickle

import pytest
import torch
import torch.nn.functional as F
from strategies import make_image
from tolerance import assert_same_bits

import torch_conv
from torch_conv import nn as tnn

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning"),
    pytest.mark.usefixtures("without_tf32"),
]

SIZE = (7, 12, 13)
AXES = [1, 2, 3]
# Arguments after the channels and the size, for every number of axes; None stands for their number.
OPTIONS = {
    "depthwise": (8, 8, {"groups": 8}),
    "multiplier": (4, 12, {"groups": 4, "stride": 2, "padding": 1, "bias": False}),
    "bank": (3, 8, {"padding": "valid", "dilation": 2}),
    "dense": (8, 32, {"padding": 1}),
    "same": (8, 8, {"groups": 8, "padding": "same", "dilation": 2}),
    "reflect": (8, 8, {"groups": 8, "padding": 1, "padding_mode": "reflect"}),
    "replicate, same": (8, 8, {"groups": 8, "padding": "same", "padding_mode": "replicate"}),
    "circular": (8, 8, {"groups": 8, "padding": 1, "padding_mode": "circular", "stride": 2}),
}
ACTIVATIONS = {"relu": F.relu, "relu6": F.relu6, "gelu": F.gelu, "silu": F.silu, "hardswish": F.hardswish}


def both(axes, name="depthwise", device="cpu", **more):
    """Our module and torch's with the same numbers, and an image."""
    c_in, c_out, options = OPTIONS[name]
    theirs = getattr(torch.nn, f"Conv{axes}d")(c_in, c_out, 3, **options).to(device)
    ours = getattr(tnn, f"Conv{axes}d")(c_in, c_out, 3, **options, **more).to(device)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    return ours, theirs, make_image((2, c_in, *SIZE[-axes:]), device=device)


@pytest.fixture(params=[(axes, name) for axes in AXES for name in OPTIONS], ids=lambda p: f"{p[0]}d {p[1]}")
def pair(request, device):
    return both(*request.param, device=device)


def close(got, expected, **tolerance):
    assert got.dtype == expected.dtype
    torch.testing.assert_close(got, expected, **(tolerance or {"rtol": 1e-5, "atol": 1e-5}))


def test_values_with_and_without_gradients(pair):
    ours, theirs, image = pair
    close(ours(image), theirs(image))
    with torch.no_grad():
        close(ours(image), theirs(image))
        close(ours(image[0]), theirs(image[0]))  # unbatched


def test_gradients(pair):
    ours, theirs, image = pair
    images = [image.clone().requires_grad_() for _ in range(2)]
    for module, given in zip((ours, theirs), images, strict=True):
        (module(given) * torch.linspace(-1, 1, given.shape[-1], device=given.device)[0]).square().sum().backward()
    close(images[0].grad, images[1].grad, rtol=1e-3, atol=1e-3)
    for ours_p, theirs_p in zip(ours.parameters(), theirs.parameters(), strict=True):
        close(ours_p.grad, theirs_p.grad, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("axes", AXES)
def test_arguments_initialization_and_state_are_torchs(axes):
    ours, theirs = getattr(tnn, f"Conv{axes}d"), getattr(torch.nn, f"Conv{axes}d")
    assert issubclass(ours, theirs)
    parameters = list(inspect.signature(ours).parameters.values())
    positional = [(p.name, p.default) for p in parameters if p.kind is not p.KEYWORD_ONLY]
    assert positional == [(p.name, p.default) for p in inspect.signature(theirs).parameters.values()]
    modules = []
    for kind in (ours, theirs):
        torch.manual_seed(3)
        modules.append(kind(4, 8, 3, 2, 1, 1, 4, True, "circular", "cpu", torch.float64))
    assert str(modules[0]) == str(modules[1])
    assert list(modules[0].state_dict()) == ["weight", "bias"]
    for key, value in modules[0].state_dict().items():
        assert_same_bits(value, modules[1].state_dict()[key])
    modules[1].load_state_dict(modules[0].state_dict(), strict=True)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        modules[1].load_state_dict(modules[0].state_dict() | {"activation": torch.zeros(1)}, strict=True)


@pytest.mark.parametrize("name", ["depthwise", "dense"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(device, activation, name):
    ours, theirs, image = both(2, name, device, activation=activation)
    assert f", activation={activation})" in str(ours)
    close(ours(image), ACTIVATIONS[activation](theirs(image)))
    with torch.no_grad():
        close(ours(image), ACTIVATIONS[activation](theirs(image)))


def test_an_algorithm_is_passed_on(device):
    ours, _, image = both(2, "bank", device, algorithm="direct")
    assert str(ours).endswith(", algorithm=direct)")
    with torch.no_grad():
        expected = torch_conv.conv2d(image, ours.weight, ours.bias, dilation=2, algorithm="direct")
        assert_same_bits(ours(image), expected)
    ours.algorithm = "tensor_core"
    with torch.no_grad(), pytest.raises(ValueError, match="^conv2d: algorithm 'tensor_core'"):
        ours(image)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"groups": 3}, "in_channels must be divisible by groups"),
        ({"groups": 0}, "groups must be a positive integer"),
        ({"padding": "full"}, "Invalid padding string 'full'"),
        ({"padding": "same", "stride": 2}, "padding='same' is not supported for strided convolutions"),
        ({"padding_mode": "symmetric"}, "padding_mode must be one of"),
        ({"activation": "tanh"}, "activation must be None, 'relu', .* or 'hardswish', got 'tanh'"),
    ],
)
def test_refusals_where_it_is_built(axes, options, sentence):
    with pytest.raises(ValueError, match=f"^Conv{axes}d: {sentence}"):
        getattr(tnn, f"Conv{axes}d")(8, 8, 3, **options)


@torch.no_grad()
def test_scripted_saved_and_loaded(pair):
    ours, _, image = pair
    scripted = torch.jit.script(ours)
    close(scripted(image), ours(image))
    file = io.BytesIO()
    torch.jit.save(scripted, file)
    file.seek(0)
    close(torch.jit.load(file)(image), ours(image))


@torch.no_grad()
def test_scripted_and_traced_with_an_activation(device):
    ours, theirs, image = both(2, device=device, activation="gelu")
    close(torch.jit.script(ours)(image), F.gelu(theirs(image)))
    close(torch.jit.trace(ours, (image,))(image), F.gelu(theirs(image)))


@pytest.mark.parametrize("level", [torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize("name", ["depthwise", "dense", "circular"])
def test_compiled(device, name, level):
    ours, theirs, image = both(2, name, device)
    torch._dynamo.reset()
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    with level():
        close(compiled(image), theirs(image))
    if level is torch.enable_grad:
        compiled(image).sum().backward()
        theirs(image).sum().backward()
        close(ours.weight.grad, theirs.weight.grad, rtol=1e-3, atol=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("name", ["depthwise", "dense"])
def test_exported_for_any_batch_and_size(device, name):
    ours, theirs, image = both(2, name, device)
    sizes = ({0: torch.export.Dim("batch"), 2: torch.export.Dim("height", min=8)},)
    program = torch.export.export(ours, (image,), dynamic_shapes=sizes)
    assert list(program.state_dict) == ["weight", "bias"]
    other = make_image((5, 8, 20, 13), device=device)
    close(program.module()(other), theirs(other))


@pytest.mark.parametrize("name", ["depthwise", "dense"])
@pytest.mark.parametrize("level", [torch.no_grad, torch.enable_grad])
def test_autocast(device, name, level):
    ours, theirs, image = both(2, name, device)
    with torch.autocast(device, torch.bfloat16), level():
        got, expected = ours(image), theirs(image)
    assert got.dtype == torch.bfloat16
    close(got, expected, rtol=2**-7, atol=1e-2)
    with torch.autocast(device, torch.bfloat16), level():
        half = torch.nn.Sequential(ours, torch.nn.Sigmoid())(image)
        assert torch.compile(ours, fullgraph=True, backend="aot_eager")(image).dtype == torch.bfloat16
    assert half.dtype == torch.bfloat16


def test_vmap_over_the_models_of_an_ensemble(device):
    models = [both(2, device=device)[0] for _ in range(3)]
    image = make_image((2, 8, 12, 13), device=device)
    parameters, buffers = torch.func.stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")

    def one(parameters, buffers, x):
        return torch.func.functional_call(base, (parameters, buffers), (x,))

    for level in (torch.no_grad, torch.enable_grad):
        with level():
            got = torch.vmap(one, (0, 0, None))(parameters, buffers, image)
            close(got, torch.stack([model(image) for model in models]))


def test_gradients_per_sample(device):
    ours, theirs, image = both(2, device=device)

    def per_sample(module):
        def loss(parameters, x):
            return torch.func.functional_call(module, parameters, (x[None],)).square().sum()

        return torch.vmap(torch.func.grad(loss), (None, 0))(dict(module.named_parameters()), image)

    got, expected = per_sample(ours), per_sample(theirs)
    for key in ("weight", "bias"):
        close(got[key], expected[key], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("axes", AXES)
def test_built_on_meta_and_materialised(device, axes):
    ours, _, image = both(axes, "reflect", activation="silu")
    meta = type(ours)(8, 8, 3, padding=1, groups=8, padding_mode="reflect", activation="silu", device="meta")
    assert meta.weight.is_meta
    shape = meta(image.to("meta"))
    assert (shape.shape, shape.device.type) == (image.shape, "meta")
    real = meta.to_empty(device=device)
    real.load_state_dict(ours.state_dict())
    close(real(image.to(device)).cpu(), ours(image))
    with torch.device("meta"):
        assert type(ours)(8, 8, 3).weight.is_meta


@torch.no_grad()
def test_copied_and_pickled(pair):
    ours, _, image = pair
    for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert_same_bits(other(image), ours(image))
        assert str(other) == str(ours)
        assert other.weight.data_ptr() != ours.weight.data_ptr()


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature")
@torch.no_grad()
def test_of_shards_and_other_dtypes():
    ours, _, image = both(2)
    ours.algorithm = "direct"
    assert_same_bits(ours(torch_conv.split(image, ["cpu"] * 3)).gather(), ours(image))
    ours, theirs, image = both(2)
    close(ours.double()(image.double()), theirs.double()(image.double()))
    complexes = [tnn.Conv2d(4, 4, 3, groups=4, dtype=torch.complex64), torch.nn.Conv2d(4, 4, 3, groups=4)]
    complexes[1].to(torch.complex64).load_state_dict(complexes[0].state_dict())
    given = make_image((1, 4, 6, 7)).cfloat()
    close(complexes[0](given), complexes[1](given))
