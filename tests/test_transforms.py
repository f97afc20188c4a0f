"""torch.func's transforms give autograd's derivatives; forward-mode AD is torch's for convolutions, else refused.

Functions, direct calls of operators and scripts lose no tangent without an error. Some calls cannot tell whether a
tangent is there: calls compiled under an open level, or wrapped inside a transform of another. They are refused.
"""

import contextlib
import re

import pytest
import torch
import torch.nn.functional as F
from refusals import refuses
from strategies import make_image, make_window
from torch.autograd import forward_ad
from torch.func import grad, jacrev, jvp, vjp, vmap

import torch_conv

SENTENCE = "forward-mode derivatives are not implemented yet; call it on tensors without tangents (detach() drops them)"
SIZES = {1: (20,), 2: (9, 11), 3: (4, 9, 11)}


def of(axes, device):
    """Our function, torch's, an image, a tangent of it, a weight and a bias."""
    name, shape, window = f"conv{axes}d", (2, 4, *SIZES[axes]), (4, 1, *[3] * axes)
    given = [make_image(shape, seed=i, device=device) for i in range(2)]
    given += [make_window(window, device=device), make_window((4,), device=device)]
    return getattr(torch_conv, name), getattr(F, name), *given


@pytest.mark.parametrize("axes", SIZES)
def test_convolutions_carry_tangents(device, axes):
    conv, by_torch, x, tangent, weight, bias = of(axes, device)
    for wanted in (0, 1, 2):
        given = [x, weight, bias]
        along = tangent if wanted == 0 else torch.ones_like(given[wanted])

        def call(fn, value, given=given, wanted=wanted):
            return fn(*given[:wanted], value, *given[wanted + 1 :], padding=1, groups=4)

        got = torch.func.jvp(lambda v: call(conv, v), (given[wanted],), (along,))
        expected = torch.func.jvp(lambda v: call(by_torch, v), (given[wanted],), (along,))
        torch.testing.assert_close(got, expected)
        assert got[1].abs().max() > 0
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(given[wanted], along)
            torch.testing.assert_close(forward_ad.unpack_dual(call(conv, dual)).tangent, expected[1])
            if wanted == 0:
                assert "a tangent is given" in str(torch_conv.explain(conv, dual, weight, groups=4))
                assert "handed" not in str(torch_conv.explain(conv, dual.detach(), weight, groups=4))


def test_transforms_of_transforms(device):
    conv, by_torch, x, _, weight, bias = of(2, device)

    def loss(fn):
        return lambda w: fn(x, w, bias, groups=4).square().sum()

    for transform in (torch.func.jacfwd, torch.func.hessian):
        torch.testing.assert_close(transform(loss(conv))(weight), transform(loss(by_torch))(weight))


def test_compiled(device):
    torch._dynamo.reset()
    conv, by_torch, x, tangent, weight, _ = of(2, device)
    compiled = torch.compile(lambda v: conv(v, weight, groups=4), backend="aot_eager")
    compiled(x)  # without tangents first
    expected = torch.func.jvp(lambda v: by_torch(v, weight, groups=4), (x,), (tangent,))
    torch.testing.assert_close(torch.func.jvp(compiled, (x,), (tangent,)), expected)
    whole = torch.compile(
        lambda v, t: torch.func.jvp(lambda u: conv(u, weight, groups=4), (v,), (t,)), backend="aot_eager"
    )
    torch.testing.assert_close(whole(x, tangent), expected)


REFUSING = {
    "conv2d": lambda x, k: torch_conv.conv2d(x, k.expand(3, 1, 3, 3), groups=3, algorithm="direct"),
    "conv1d": lambda x, k: torch_conv.conv1d(x[:, :, 0], k[:, None], groups=3, algorithm="ours"),
    "filter2d": lambda x, k: torch_conv.filter2d(x, k),
    "filter2d_separable": lambda x, k: torch_conv.filter2d_separable(x, k[0], k[1]),
    "filter3d": lambda x, k: torch_conv.filter3d(x, k.expand(3, 3, 3)),
    "box_blur": lambda x, k: torch_conv.box_blur(x, 3),
    "gaussian_blur2d": lambda x, k: torch_conv.gaussian_blur2d(x, 5, 1.0),
    "sobel": lambda x, k: torch_conv.sobel(x),
    "causal_conv1d": lambda x, k: torch_conv.causal_conv1d(x[:, :, 0], k),
    "causal_conv1d_update": lambda x, k: torch_conv.causal_conv1d_update(x[:, :, 0], torch.zeros_like(x[:, :, 1]), k),
}


@pytest.mark.parametrize("name", REFUSING)
def test_ours_refuse_tangents(device, name):
    x, k = make_image((2, 3, 9, 11), device=device), make_window((3, 3), device=device)

    def check(call):
        with refuses(RuntimeError, f"{name}: {SENTENCE}"):
            call()

    check(lambda: torch.func.jvp(lambda v: REFUSING[name](v, k), (x,), (torch.ones_like(x),)))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        check(lambda: REFUSING[name](dual, k))
        assert REFUSING[name](dual.detach(), k).isfinite().all()
        if name.startswith("filter"):  # a tangent of the window
            check(lambda: REFUSING[name](x, forward_ad.make_dual(k, torch.ones_like(k))))


def test_shards_refuse_tangents(device):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(
            make_image((2, 3, 16, 11), device=device), make_image((2, 3, 16, 11), device=device)
        )
        parts = torch_conv.SplitTensor.from_shards([dual[:, :, :8], dual[:, :, 8:]], -2)
        for name, call in (
            ("filter2d", lambda: torch_conv.filter2d(parts, make_window((3, 3), device=device))),
            ("conv2d", lambda: torch_conv.conv2d(parts, make_window((3, 1, 3, 3), device=device), groups=3)),
        ):
            with refuses(RuntimeError, f"{name}: {SENTENCE}"):
                call()


def test_a_wrong_call_is_refused_for_what_is_wrong(device):
    x = make_image((2, 3, 9, 11), device=device)
    with forward_ad.dual_level(), pytest.raises(ValueError, match="^conv2d: stride must be at least 1, got 0$"):
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        torch_conv.conv2d(dual, make_window((3, 1, 3, 3), device=device), groups=3, stride=0, algorithm="direct")


OPS = torch.ops.torch_conv
OPERATORS = {
    "filter2d": lambda x, k: OPS.filter2d(x, k),
    "filter2d, into out": lambda x, k: OPS.filter2d_out(x, k, out=torch.empty_like(x)),
    "filter2d, of shards": lambda x, k: OPS.filter2d_split([x], k, dim=-2),
    "conv2d": lambda x, k: OPS.conv2d(x, k.expand(3, 1, 3, 3), groups=3),
    "conv2d, named padding": lambda x, k: OPS.conv2d(x, k.expand(3, 1, 3, 3), padding="same", groups=3),
    "conv2d, handed to torch": lambda x, k: OPS.conv2d(x, k.expand(30, 3, 3, 3)),
    "box2d": lambda x, k: OPS.box2d(x, [3, 3]),
    "separable_sum2d": lambda x, k: OPS.separable_sum2d(x, [k[0]], [k[1]]),
    "ladder1d": lambda x, k: OPS.ladder1d(x, k[0].cpu()),
    "ladder2d": lambda x, k: OPS.ladder2d(x, k.cpu()),
    "causal_conv1d": lambda x, k: OPS.causal_conv1d(x[:, :, 0], k),
    "causal_conv1d_update": lambda x, k: OPS.causal_conv1d_update(x[:, :, 0], torch.zeros_like(x[:, :, 1]), k),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_refuse_tangents(device, name):
    x, k = make_image((2, 3, 9, 11), device=device), make_window((3, 3), device=device)
    along, call = torch.ones_like(x), OPERATORS[name]
    sentence = f"{name.split(',')[0]}: {SENTENCE}"
    with refuses(RuntimeError, sentence):
        torch.func.jvp(lambda v: call(v, k), (x,), (along,))
    with forward_ad.dual_level():
        for grad in (torch.no_grad, torch.enable_grad):
            with grad(), pytest.raises(RuntimeError) as caught:
                call(forward_ad.make_dual(x.clone().requires_grad_("out" not in name), along), k)
            assert str(caught.value) == sentence
        call(x, k)


def test_scripts_refuse_tangents(device):
    x, k = make_image((2, 3, 9, 11), device=device), make_window((3, 3), device=device)
    scripted = torch.jit.script(torch_conv.filter2d)
    with forward_ad.dual_level():
        with pytest.raises(RuntimeError, match="filter2d: forward-mode derivatives are not implemented yet"):
            scripted(forward_ad.make_dual(x, torch.ones_like(x)), k)
        torch.testing.assert_close(scripted(x, k), torch_conv.filter2d(x, k))


def test_calls_that_may_have_a_tangent_are_refused(device):
    torch._dynamo.reset()
    x, k = make_image((2, 3, 9, 11), device=device), make_window((3, 3), device=device)
    compiled = torch.compile(lambda v: torch_conv.filter2d(v, k), backend="eager")
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match=re.escape(SENTENCE)):
        compiled(x)
    one = torch.ones((), device=device)
    with pytest.raises(RuntimeError, match=re.escape(SENTENCE)):
        torch.func.jvp(lambda v: v + torch.func.vmap(lambda z: torch_conv.filter2d(z, k))(x).sum(), (one,), (one,))


@pytest.mark.filterwarnings("ignore:.*(prototype|beta|deprecated)")
@pytest.mark.parametrize("name", REFUSING)
def test_tensors_that_are_not_dense_are_refused(device, name):
    call, window = getattr(torch_conv, name), make_window((3, 3), device=device)
    rest = {
        "conv2d": [window[None, None]],
        "conv1d": [window[:, None]],
        "filter2d": [window],
        "filter2d_separable": [window[0], window[1]],
        "filter3d": [window[None]],
        "box_blur": [3],
        "gaussian_blur2d": [5, 1.0],
        "sobel": [],
        "causal_conv1d": [window],
        "causal_conv1d_update": [window, window],
    }[name]
    image = make_image((2, 3, 9), device=device)
    for given, got in (
        (torch.nested.nested_tensor([image[0], image[1]]), "nested"),
        (torch.nested.nested_tensor([image[0], image[1]], layout=torch.jagged), "nested"),
        (image.to_sparse(), "sparse_coo"),
        (torch.quantize_per_tensor(image, 0.1, 0, torch.quint8), "quint8"),
    ):
        for level in (contextlib.nullcontext, forward_ad.dual_level):
            with level(), pytest.raises(TypeError) as caught:
                call(given, *rest)
            argument = "x" if name.startswith("causal") else "input"
            assert str(caught.value) == f"{name}: {argument} must be a dense tensor, got {got}", (name, level)


CALLS = {
    "filter2d": lambda x, k: torch_conv.filter2d(x, k),
    "filter2d, the operator": lambda x, k: OPS.filter2d(x, k, "constant", normalized=True),
    "filter2d_separable": lambda x, k: torch_conv.filter2d_separable(x, k[0], k[1], "circular"),
    "filter3d": lambda x, k: torch_conv.filter3d(x, k.expand(2, 3, 3)),
    "box_blur": lambda x, k: torch_conv.box_blur(x, 3) * k.sum(),
    "gaussian_blur2d": lambda x, k: torch_conv.gaussian_blur2d(x, 3, 1.0) * k.sum(),
    "sobel": lambda x, k: torch_conv.sobel(x) * k.sum(),
    "separable_sum2d": lambda x, k: OPS.separable_sum2d(x, [k[0], k[1]], [k[2], k[0]]),
    "conv2d": lambda x, k: torch_conv.conv2d(x, k.expand(4, 1, 3, 3), padding=1, groups=4, algorithm="ours"),
    "conv2d, the operator": lambda x, k: OPS.conv2d(x, k.expand(4, 1, 3, 3), None, 2, padding="valid", groups=4),
    "conv2d, torch's": lambda x, k: torch_conv.conv2d(x, k.expand(4, 1, 3, 3), groups=4),
    "causal_conv1d": lambda x, k: torch_conv.causal_conv1d(x[:, 0], k[0].expand(x.shape[2], 3)),
}


@pytest.fixture(params=CALLS)
def case(request, device):
    """Three images, a window, and a scalar OPS both."""
    images = make_image((3, 1, 4, 6, 7), torch.float64, device=device)
    window = make_window((3, 3), torch.float64, device=device)
    return images, window, lambda x, k: CALLS[request.param](x, k).pow(3).sum()


def gradients(loss, *given):
    given = [t.clone().requires_grad_() for t in given]
    return torch.autograd.grad(loss(*given), given)


def test_gradients(case):
    images, window, loss = case
    expected = gradients(loss, images[0], window)
    torch.testing.assert_close(grad(loss, (0, 1))(images[0], window), expected)
    torch.testing.assert_close(vjp(loss, images[0], window)[1](torch.ones_like(images[0].sum())), expected)
    with torch.no_grad():
        torch.testing.assert_close(vjp(loss, images[0], window)[1](torch.ones_like(images[0].sum())), expected)
    torch.testing.assert_close(grad(lambda k: loss(images[0], k))(window), expected[1])


def test_of_many_images(case):
    images, window, loss = case
    found = [gradients(loss, image, window) for image in images]
    each, of_window = (torch.stack(parts) for parts in zip(*found, strict=True))
    got = vmap(grad(loss, (0, 1)), (0, None))(images, window)
    torch.testing.assert_close(got, (each, of_window))
    got = grad(lambda x, k: vmap(lambda image: loss(image, k))(x).sum(), (0, 1))(images, window)
    torch.testing.assert_close(got, (each, of_window.sum(0)))


def test_second_derivatives(case):
    images, window, loss = case

    def slope(x, k):
        return grad(loss)(x, k).square().sum()

    def by_autograd(x, k):
        return torch.autograd.grad(loss(x, k), x, create_graph=True)[0].square().sum()

    expected = gradients(by_autograd, images[0], window)
    torch.testing.assert_close(grad(slope, (0, 1))(images[0], window), expected)
    torch.testing.assert_close(gradients(slope, images[0], window), expected)  # autograd around a transform
    by_rows = jacrev(grad(lambda k: loss(images[0], k)))(window)
    torch.testing.assert_close(by_rows.flatten(0, 1).flatten(1), by_rows.flatten(0, 1).flatten(1).T)


@pytest.mark.parametrize("name", ["filter2d", "filter2d, the operator", "conv2d", "conv2d, the operator"])
def test_tangents_are_refused_inside_too(name):
    image, window = make_image((1, 4, 6, 7)), make_window((3, 3))

    def loss(x, k):
        return CALLS[name](x, k).pow(3).sum()

    for call in (
        lambda: jvp(grad(lambda x: loss(x, window)), (image,), (image,)),
        lambda: jvp(lambda k: grad(loss)(image, k), (window,), (window,)),
        lambda: grad(lambda x: jvp(lambda y: loss(y, window), (x,), (image,))[1])(image),
    ):
        with pytest.raises(RuntimeError, match=r"^\w+2d: forward-mode derivatives are not implemented yet"):
            call()


def test_gradients_of_many_results_at_once(device):
    """`is_grads_batched` maps by an older vmap, which hides in plain tensors."""
    image = make_image((1, 4, 7, 8), torch.float64, device=device)
    window = make_window((3, 3), torch.float64, device=device).requires_grad_()
    weight = make_window((4, 1, 3, 3), torch.float64, device=device).requires_grad_()
    for given, call in (
        (window, lambda k: torch_conv.filter2d(image, k)),
        (weight, lambda w: torch_conv.conv2d(image, w, padding=1, groups=4, algorithm="ours")),
    ):
        result = call(given)
        many = torch.stack([make_image(tuple(result.shape), torch.float64, seed=i, device=device) for i in range(3)])
        found = torch.autograd.grad(result, given, many, retain_graph=True, is_grads_batched=True)[0]
        one_by_one = [torch.autograd.grad(result, given, grad, retain_graph=True)[0] for grad in many]
        torch.testing.assert_close(found, torch.stack(one_by_one))
