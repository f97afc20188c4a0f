"""Under torch.vmap, refusals have the sentences of one example; some arguments cannot be mapped."""

import re
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from strategies import make_image, make_window
from vmap_cases import IMAGE, SEQUENCE, VOLUME, N, mapped, of

import torch_conv
from torch_conv.dispatch import batching

pytestmark = pytest.mark.usefixtures("without_vmap_fallback")

BAD_SIGMA = {
    "gaussian_blur2d": (lambda x, s: torch_conv.gaussian_blur2d(x, 5, s), IMAGE),
    "unsharp_mask": (lambda x, s: torch_conv.unsharp_mask(x, 5, s), IMAGE),
    "gaussian_blur3d": (lambda x, s: torch_conv.gaussian_blur3d(x, 5, s), VOLUME),
}


@pytest.mark.parametrize("name", BAD_SIGMA)
@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan")])
def test_a_sigma_for_each_is_checked(name, wrong):
    call, shape = BAD_SIGMA[name]
    images, sigmas = make_image((2, N, *shape)), torch.ones(2, N, 1, len(shape) - 2)
    sigmas[1, 2, 0, 1] = wrong
    with pytest.raises(ValueError, match="sigma must be finite and greater than 0, got") as of_one:
        call(images[1, 2], sigmas[1, 2])
    sentence = "^" + re.escape(str(of_one.value)) + "$"
    slope = torch.func.grad(lambda x, s: call(x, s).sum(), (0, 1))
    for of_many in (call, slope):
        with pytest.raises(ValueError, match=sentence):
            torch.vmap(of_many)(images[1], sigmas[1])
        with pytest.raises(ValueError, match=sentence):
            torch.vmap(torch.vmap(of_many, (0, 2)), (0, 0))(images, sigmas.movedim(1, -1))


@pytest.mark.parametrize(
    ("call", "shapes", "sentence"),
    [
        (torch_conv.filter2d, [(9,), (3, 3)], "filter2d: input must have at least 2 dimensions, got 1"),
        (torch_conv.filter2d, [IMAGE, (3,)], "filter2d: kernel must have 2, 3 or 4 dimensions, got 1"),
        (torch_conv.filter2d, [IMAGE, (3, 3, 3)], "filter2d: kernel's first dimension must be 1 or the batch size 2"),
        (torch_conv.filter2d, [IMAGE, (0, 3)], r"filter2d: kernel must have at least one tap, got shape \(0, 3\)"),
        (torch_conv.conv2d, [(9, 10), (4, 1, 3, 3)], r"conv2d: input must have 3 \(unbatched\) or 4 dimensions, got 2"),
        (
            torch_conv.conv2d,
            [IMAGE, (4, 3, 3, 3)],
            r"conv2d: input must have 3 channels for a weight of shape \(4, 3, 3, 3\) and groups 1, got 4",
        ),
        (torch_conv.conv2d, [IMAGE, (4,)], "conv2d: weight must have 4 dimensions, got 1"),
        (
            partial(torch_conv.conv2d, groups=4),
            [IMAGE, (5, 1, 3, 3)],
            "conv2d: the weight's 5 output channels must be a positive multiple of groups 4",
        ),
        (
            partial(torch_conv.conv2d, groups=0, algorithm="ours"),
            [IMAGE, (4, 4, 3, 3)],
            "conv2d: groups must be at least 1, got 0",
        ),
        (
            partial(torch_conv.conv2d, bias=torch.zeros(5), groups=4),
            [IMAGE, (4, 1, 3, 3)],
            r"conv2d: bias must have shape \(4,\), got \(5,\)",
        ),
        (
            partial(torch_conv.conv2d, groups=4, algorithm="ours"),
            [IMAGE, (4, 1, 0, 3)],
            r"conv2d: weight must have at least one tap, got shape \(4, 1, 0, 3\)",
        ),
        (torch_conv.conv3d, [(9,), (4, 1, 3, 3, 3)], r"conv3d: input must have 4 \(unbatched\) or 5 dimensions, got 1"),
        (torch_conv.causal_conv1d, [(3, 12), (3, 4)], "causal_conv1d: x must have 3 dimensions"),
        (
            partial(torch_conv.causal_conv1d, initial_states=torch.zeros(2, 3, 5)),
            [SEQUENCE, (3, 4)],
            r"causal_conv1d: initial_states must have shape \(2, 3, 3\), got \(2, 3, 5\)",
        ),
    ],
)
@torch.no_grad()
def test_refusals_are_those_of_one_example(call, shapes, sentence):
    image, window = make_image((N, *shapes[0])), make_window((N, *shapes[1]))
    for dims in ((0, None), (None, 0), (0, 0)):
        with pytest.raises(ValueError, match=f"^{sentence}"):
            mapped(call, [image, window], dims)


def whole():
    return torch_conv.split(torch.ones(2, 1, 16, 8), devices=["cpu", "cpu"])


@pytest.mark.parametrize(
    ("call", "shapes", "sentence"),
    [
        (
            lambda x, k: torch_conv.filter2d(x, k, out=torch.empty(IMAGE)),
            [IMAGE, (3, 3)],
            "filter2d: out does not support torch.vmap; call it without out",
        ),
        (
            lambda x, out: torch_conv.sobel(x, out=out),
            [IMAGE, IMAGE],
            "sobel: out does not support torch.vmap; call it without out",
        ),
        (
            lambda x, k: of.filter3d_out(x, k, out=torch.empty(VOLUME)),
            [VOLUME, (3, 3, 3)],
            "filter3d: out does not support torch.vmap; call it without out",
        ),
        (
            lambda x, w: torch_conv.causal_conv1d(
                x, w, return_final_states=True, final_states_out=torch.empty(2, 3, 3)
            ),
            [SEQUENCE, (3, 4)],
            "causal_conv1d: final_states_out does not support torch.vmap; call it without final_states_out",
        ),
        (
            lambda x, state: torch_conv.causal_conv1d_update(x, state, torch.ones(3, 4)),
            [(2, 3), (2, 3, 4)],
            "causal_conv1d_update: conv_state does not support torch.vmap; call it for each example",
        ),
        (
            lambda x, k: torch_conv.filter2d(whole(), k),
            [(1,), (3, 3)],
            "filter2d: a SplitTensor does not support torch.vmap; call it for each example",
        ),
        (
            lambda x, w: of.conv2d(whole(), w, padding="same"),
            [(1,), (4, 1, 3, 3)],
            "conv2d: a SplitTensor does not support torch.vmap; call it for each example",
        ),
        (
            lambda x, k: of.filter2d_split([x, x], k),
            [IMAGE, (3, 3)],
            "filter2d: a SplitTensor does not support torch.vmap; call it for each example",
        ),
    ],
)
@torch.no_grad()
def test_arguments_that_cannot_be_mapped(call, shapes, sentence):
    with pytest.raises(RuntimeError, match=f"^{re.escape(sentence)}$"):
        torch.vmap(call)(*(torch.ones(N, *shape) for shape in shapes))


def test_out_of_memory_is_not_tried_again_for_each_example(monkeypatch):
    calls = []

    def call(*_args, **_options):
        calls.append(1)
        raise torch.OutOfMemoryError("as torch says it")

    def register_vmap(_name, rule, lib):
        with pytest.raises(torch.OutOfMemoryError, match="^as torch says it$"):
            rule(SimpleNamespace(batch_size=3), (0,), torch.rand(3, 2, 8, 8))

    monkeypatch.setattr(torch.library, "register_vmap", register_vmap)
    batching._register("filter2d", call)
    assert calls == [1]
