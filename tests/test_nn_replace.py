"""replace_depthwise: which layers become ours, and that nothing else of a model changes."""

import copy
import io
import pickle

import pytest
import torch
from strategies import make_image
from torch import nn
from torch.nn.utils import parametrizations

import torch_conv
from torch_conv import nn as tnn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Own(nn.Conv2d):
    """A subclass with its own forward."""

    def forward(self, input):
        return super().forward(input) * 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.widen = nn.Conv2d(4, 8, 1)
        self.filter = nn.Conv2d(8, 16, 3, padding=1, groups=8)  # two outputs a channel
        self.grouped = nn.Conv2d(16, 16, 3, groups=4)
        self.own = Own(16, 16, 3, groups=16)
        self.up = nn.ConvTranspose2d(16, 16, 3, groups=16)
        self.tied = self.filter

    def forward(self, x):
        x = self.own(self.grouped(self.filter(self.widen(x))))
        return self.up(x) + self.tied(x.narrow(1, 0, 8)).mean()


@pytest.fixture
def model(device):
    torch.manual_seed(0)
    return nn.Sequential(Block(), nn.Conv2d(16, 16, 5, groups=16, padding_mode="circular", padding=2)).to(device)


def test_which_and_what_of_them(device, model):
    image, before = make_image((2, 4, 12, 13), device=device), copy.deepcopy(model)
    names = [name for name, _ in model.named_modules(remove_duplicate=False)]
    assert tnn.replace_depthwise(model) == ["0.filter", "1"]
    assert [name for name, _ in model.named_modules(remove_duplicate=False)] == names
    kinds = {name: type(module) for name, module in model.named_modules() if isinstance(module, nn.Conv2d)}
    assert kinds == {
        "0.widen": nn.Conv2d,
        "0.filter": tnn.Conv2d,
        "0.grouped": nn.Conv2d,
        "0.own": Own,
        "1": tnn.Conv2d,
    }
    assert type(model[0].tied) is tnn.Conv2d
    assert model[0].tied is model[0].filter
    assert str(model) == str(before)
    assert set(model.state_dict()) == set(before.state_dict())
    for level in (torch.no_grad, torch.enable_grad):
        with level():
            torch.testing.assert_close(model(image), before(image), rtol=1e-3, atol=1e-3)
    before.load_state_dict(model.state_dict(), strict=True)
    model.load_state_dict(before.state_dict(), strict=True)


def test_a_second_call_changes_nothing(model):
    assert tnn.replace_depthwise(model)
    first = list(model.modules())
    assert tnn.replace_depthwise(model) == []
    assert all(a is b for a, b in zip(first, model.modules(), strict=True))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_every_number_of_axes(device, axes):
    conv = getattr(nn, f"Conv{axes}d")
    model = nn.ModuleDict({"deep": conv(6, 6, 3, groups=6), "wide": conv(6, 12, 3), "one": conv(1, 8, 3)}).to(device)
    assert tnn.replace_depthwise(model) == ["deep"]
    assert type(model["deep"]) is getattr(tnn, f"Conv{axes}d")
    image = make_image((2, 6, 7, 8, 9)[: axes + 2], device=device)
    with torch.no_grad():
        expected = getattr(nn.functional, f"conv{axes}d")(image, model["deep"].weight, model["deep"].bias, groups=6)
        torch.testing.assert_close(model["deep"](image), expected, rtol=1e-4, atol=1e-4)


def test_the_model_may_be_the_convolution_itself():
    conv = nn.Conv2d(4, 4, 3, groups=4)
    held = [conv]
    assert tnn.replace_depthwise(conv) == [""]
    assert type(held[0]) is tnn.Conv2d
    assert tnn.replace_depthwise(nn.Conv2d(4, 4, 3)) == []


def test_parameters_flags_hooks_and_buffers_stay(model):
    conv = model[1]
    parameters = dict(conv.named_parameters())
    conv.register_buffer("count", torch.zeros(()))
    conv.weight.requires_grad_(False)
    conv.eval()
    conv.note = "mine"
    seen = []
    conv.register_forward_hook(lambda *_: seen.append("after"))
    conv.register_forward_pre_hook(lambda *_: seen.append("before"))
    conv.register_full_backward_hook(lambda *_: seen.append("backward"))
    conv.register_load_state_dict_post_hook(lambda *_: seen.append("loaded"))
    assert "1" in tnn.replace_depthwise(model)
    assert all(parameters[name] is parameter for name, parameter in model[1].named_parameters())
    assert (model[1].weight.requires_grad, model[1].bias.requires_grad) == (False, True)
    assert (model[1].training, model[0].training, model[1].note) == (False, True, "mine")
    assert "count" in model[1].state_dict()
    device = conv.weight.device
    model[1](make_image((1, 16, 9, 9), device=device).requires_grad_()).sum().backward()
    model[1].load_state_dict(model[1].state_dict())
    assert seen == ["before", "after", "backward", "loaded"]


def test_an_optimizer_goes_on(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    image = make_image((2, 4, 12, 13), device=model[1].weight.device)
    weights = [copy.deepcopy(model), model]
    optimizers = [torch.optim.SGD(weights[0].parameters(), lr=0.1, momentum=0.9), optimizer]
    for step in range(3):
        if step == 1:
            assert len(tnn.replace_depthwise(model)) == 2
        for one, stepper in zip(weights, optimizers, strict=True):
            stepper.zero_grad()
            one(image).square().mean().backward()
            stepper.step()
    for a, b in zip(weights[0].parameters(), weights[1].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def test_modules_that_are_not_replaced():
    conv = nn.Conv2d(8, 8, 3, groups=8)
    parametrized = parametrizations.weight_norm(copy.deepcopy(conv))
    own = copy.deepcopy(conv)
    own.forward = lambda input: input
    scripted = torch.jit.script(copy.deepcopy(conv))
    lazy = nn.LazyConv2d(8, 3, groups=8)
    assert tnn.replace_depthwise(nn.ModuleList([parametrized, own, scripted, lazy])) == []
    assert type(parametrized).__name__ == "ParametrizedConv2d"
    lazy(make_image((1, 8, 5, 5)))
    assert tnn.replace_depthwise(lazy) == [""]  # by now it is a Conv2d


@pytest.mark.filterwarnings("ignore:.*is deprecated")
def test_weights_that_a_hook_computes():
    conv = nn.utils.weight_norm(nn.Conv2d(8, 8, 3, groups=8))
    image = make_image((1, 8, 9, 9))
    expected = conv(image)
    assert tnn.replace_depthwise(conv) == [""]
    torch.testing.assert_close(conv(image), expected, rtol=1e-5, atol=1e-5)
    conv(image).sum().backward()
    assert conv.weight_g.grad is not None


def test_a_compiled_model_is_compiled_anew(model):
    graphs = []

    def backend(graph, inputs):
        graphs.append([str(node.target) for node in graph.graph.nodes])
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(model[1], backend=backend, fullgraph=True)
    image = make_image((2, 16, 12, 13), device=model[1].weight.device)
    with torch.no_grad():
        expected = compiled(image)
        assert tnn.replace_depthwise(compiled) == ["_orig_mod"]
        torch.testing.assert_close(compiled(image), expected, rtol=1e-4, atol=1e-4)
    assert ["torch_conv" in str(targets) for targets in graphs] == [False, True]


def test_replaced_models_are_scripted_copied_and_pickled():
    model = nn.Sequential(nn.Conv2d(8, 8, 3, groups=8, padding="same"), nn.ReLU())
    image = make_image((1, 8, 9, 9))
    tnn.replace_depthwise(model)
    with torch.no_grad():
        expected = model(image)
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.jit.script(model)):
            torch.testing.assert_close(other(image), expected)
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        torch.testing.assert_close(torch.load(file, weights_only=False)(image), expected)
        assert "torch_conv.conv2d" in str(torch.export.export(model, (image,)).graph)
    plan = torch_conv.explain(model, image.clone())
    assert str(plan).startswith("conv2d: ")


def test_what_it_left_and_why(model):
    model.extend([model[0], nn.Conv1d(4, 4, 3), nn.Linear(2, 2), nn.LazyConv2d(8, 3, groups=8)])
    parametrized = parametrizations.weight_norm(nn.Conv2d(8, 8, 3, groups=8))
    own = nn.Conv2d(8, 8, 3, groups=8)
    own.forward = lambda input: input
    model.append(nn.ModuleList([parametrized, own, torch.jit.script(nn.Conv2d(8, 8, 3, groups=8))]))
    replaced = tnn.replace_depthwise(model)
    left = {
        "0.widen": "dense (groups=1)",
        "0.grouped": "grouped (4 input channels a group)",
        "0.own": "of the subclass Own",
        "0.up": "transposed",
        "3": "dense (groups=1)",
        "5": "lazy, without its number of channels",
        "6.0": "parametrized",
        "6.1": "given a forward of its own",
        "6.2": "scripted",
    }
    assert (replaced, replaced.left) == (["0.filter", "1"], left)
    assert repr(replaced) == "['0.filter', '1']"
    lines = str(replaced).splitlines()
    assert lines[:3] == [
        "replaced 2: 0.filter, 1",
        "left 2 because dense (groups=1): 0.widen, 3",
        "left 1 because grouped (4 input channels a group): 0.grouped",
    ]
    assert len(lines) == 1 + len(set(left.values()))
    for other in (copy.copy(replaced), copy.deepcopy(replaced), pickle.loads(pickle.dumps(replaced))):
        assert (type(other), other, other.left) == (type(replaced), replaced, left)
    again = tnn.replace_depthwise(model)
    assert (again, again.left) == ([], left | dict.fromkeys(replaced, "already of torch_conv.nn"))


def test_long_lists_are_short_in_print():
    printed = str(tnn.replace_depthwise(nn.Sequential(*[nn.Conv2d(2, 2, 1) for _ in range(9)])))
    assert printed == "replaced 0\nleft 9 because dense (groups=1): 0, 1, 2, and 6 more"
    assert str(tnn.replace_depthwise(nn.Conv2d(2, 2, 1, groups=2))) == "replaced 1: the model itself"


@pytest.mark.parametrize("wrong", [None, nn.Conv2d, [nn.Conv2d(4, 4, 3, groups=4)]])
def test_refusals(wrong):
    with pytest.raises(
        TypeError, match=f"^replace_depthwise: model must be of type Module, got {type(wrong).__name__}"
    ):
        tnn.replace_depthwise(wrong)
