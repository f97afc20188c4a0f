"""An image (H, W, C) as an argument of shape (..., H, W) causes one warning, which has the line to write instead."""

import warnings

import pytest
import torch
from public_calls import PARTIALS

import torch_conv
from torch_conv.functional import _channels_last

CALLS = {name: call for name, call in PARTIALS.items() if "3d" not in name and name != "filter1d"}
CALLS["gaussian_blur2d"] = lambda x: torch_conv.gaussian_blur2d(input=x, kernel_size=3, sigma=1.0)
WHERE = "filtered along its last two dimensions, 40 and 3; if the last one is channels, write "


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """A process that has warned of nothing."""
    monkeypatch.setattr(_channels_last, "_warned", False)
    for name in CALLS:
        looks_of(name)[0] = _channels_last.LOOKS


def looks_of(name):
    function = getattr(torch_conv, name)
    return dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))["looks"].cell_contents


def said(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [w for w in caught if "last two dimensions" in str(w.message)]


@pytest.mark.parametrize("name", CALLS)
def test_every_filter_of_images_warns_once(name):
    x = torch.zeros(33, 40, 3)
    caught = said(lambda: CALLS[name](x))
    assert [str(w.message) for w in caught] == [
        f"{name}: an input of shape (33, 40, 3) is {WHERE}{name}(x.permute(2, 0, 1), ...).permute(1, 2, 0)"
    ]
    assert caught[0].category is UserWarning
    assert caught[0].filename == __file__
    assert not any(said(lambda call=call: call(x)) for call in CALLS.values())


def test_a_module_names_the_line_that_calls_it():
    blur = torch_conv.nn.GaussianBlur2d(3, 1.0)
    caught = said(lambda: blur(torch.zeros(2, 33, 40, 3)))
    assert [str(w.message) for w in caught] == [
        f"gaussian_blur2d: an input of shape (2, 33, 40, 3) is {WHERE}"
        "gaussian_blur2d(x.permute(0, 3, 1, 2), ...).permute(0, 2, 3, 1)"
    ]
    assert caught[0].filename == __file__


SILENT = {
    "planes": torch.zeros(3, 33, 40),
    "few rows": torch.zeros(31, 40, 3),
    "few columns": torch.zeros(33, 31, 3),
    "one channel": torch.zeros(33, 40, 1),
    "more channels": torch.zeros(33, 40, 5),
    "one image": torch.zeros(40, 3),
    "channels_last": torch.zeros(2, 33, 40, 3).to(memory_format=torch.channels_last),
    "permuted": torch.zeros(33, 40, 3).permute(2, 0, 1),
}


@pytest.mark.parametrize("case", SILENT)
def test_other_images_are_silent(case):
    assert not said(lambda: torch_conv.box_blur(SILENT[case], 3))


def test_calls_without_a_warning():
    x = torch.zeros(33, 40, 3)
    scripted = torch.jit.script(torch_conv.box_blur)
    compiled = torch.compile(lambda x: torch_conv.box_blur(x, 3), backend="aot_eager", fullgraph=True)
    compiled(x)
    for call in (
        lambda: scripted(x, 3),
        lambda: compiled(x),
        lambda: torch.jit.trace(lambda x: torch_conv.box_blur(x, 3), (x,), check_trace=False),
        lambda: torch_conv.filter3d(torch.zeros(2, 33, 40, 3), torch.ones(3, 3, 3)),
        lambda: torch_conv.filter1d(x, torch.ones(3)),
    ):
        assert not said(call)
    np, facade = pytest.importorskip("numpy"), pytest.importorskip("torch_conv.compat.scipy_ndimage")
    assert not said(lambda: facade.uniform_filter(np.zeros((33, 40, 3), np.float32), 3))


def test_tensors_without_strides_are_refused_as_ever():
    x = torch.zeros(2, 33, 40, 3)
    for given in (x.to_sparse(), torch.nested.nested_tensor([x[0], x[1]])):
        with pytest.raises(TypeError, match="^box_blur: input must be a dense tensor, got "):
            torch_conv.box_blur(given, 3)


def test_transforms_of_functions():
    x = torch.zeros(2, 33, 40, 3)
    assert len(said(lambda: torch.vmap(lambda x: torch_conv.box_blur(x, 3))(x))) == 1
    assert not said(lambda: torch.func.grad(lambda x: torch_conv.box_blur(x, 3).sum())(x))


def test_only_the_first_calls_are_looked_at():
    for _ in range(_channels_last.LOOKS):
        torch_conv.box_blur(torch.zeros(2, 3), 3)
    assert looks_of("box_blur")[0] == 0
    assert not said(lambda: torch_conv.box_blur(torch.zeros(33, 40, 3), 3))
