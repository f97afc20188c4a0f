"""Every operator has a gradient or refuses by name; convolutions take the dtype of torch.autocast, as F.convNd does."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from public_calls import FILTERS, filtered
from strategies import make_image, make_window
from tolerance import assert_same_bits

import torch_conv

# name of the operator; a call of image, window and bias
CALLS = {
    "filter2d": lambda x, k, b: torch_conv.filter2d(x, k),
    "filter2d_separable": lambda x, k, b: torch_conv.filter2d_separable(x, k[0], k[1]),
    "box2d": lambda x, k, b: torch_conv.box_blur(x, 3) + k.sum() + b.sum(),
    "filter3d": lambda x, k, b: torch_conv.filter3d(x, k.expand(3, 3, 3)),
    "filter3d_separable": lambda x, k, b: torch_conv.filter3d_separable(x, *k),
    "box3d": lambda x, k, b: torch_conv.box_blur3d(x, 3) + k.sum() + b.sum(),
    "gradient2d": lambda x, k, b: torch_conv.spatial_gradient(x) + k.sum() + b.sum(),
    "sobel2d": lambda x, k, b: torch_conv.sobel(x) + k.sum() + b.sum(),
    "gaussian_sobel2d": lambda x, k, b: torch.ops.torch_conv.gaussian_sobel2d(x, k[0], k[1]),
    "separable_sum2d": lambda x, k, b: torch.ops.torch_conv.separable_sum2d(x, [k[0], k[1]], [k[2], k[0]]),
    "unsharp_mask2d": lambda x, k, b: torch.ops.torch_conv.unsharp_mask2d(x, k[0], k[1]),
    "structure_tensor2d": lambda x, k, b: torch.ops.torch_conv.structure_tensor2d(x, k[0], k[1]),
    "thin_edges2d": lambda x, k, b: torch.ops.torch_conv.thin_edges2d(x, k[0], k[1]),
    "gaussian_gradient3d": lambda x, k, b: torch.ops.torch_conv.gaussian_gradient3d(x, *k),
    "conv3d": lambda x, k, b: torch_conv.conv3d(
        x.transpose(0, 1), k.expand(3, 1, 2, 3, 3), b, groups=3, algorithm="direct"
    ),
    "conv2d": lambda x, k, b: torch_conv.conv2d(x, k.expand(3, 1, 3, 3), b, groups=3, algorithm="direct"),
    "conv1d": lambda x, k, b: torch_conv.conv1d(x[:, :, 0], k[:, None], b, groups=3, algorithm="direct"),
}
CALLS["causal_conv1d"] = lambda x, k, b: torch_conv.causal_conv1d(x[:, :, 0], k, b, return_final_states=True)[0]
TAKES = {
    "causal_conv1d": "xkb",
    "filter2d": "xk",
    "filter2d_separable": "xk",
    "box2d": "x",
    "conv2d": "xkb",
    "conv1d": "xkb",
}
TAKES |= {"filter3d": "xk", "filter3d_separable": "xk", "box3d": "x", "conv3d": "xkb"}
TAKES |= {"gradient2d": "x", "sobel2d": "x", "gaussian_sobel2d": "xk", "separable_sum2d": "xk", "unsharp_mask2d": "xk"}
TAKES |= {"structure_tensor2d": "xk", "thin_edges2d": "xk", "gaussian_gradient3d": "xk"}


def tensors(device, wanted):
    made = {
        "x": make_image((2, 3, 9, 11), device=device),
        "k": make_window((3, 3), device=device),
        "b": make_window((3,), device=device),
    }
    return [t.requires_grad_(name == wanted) for name, t in made.items()]


@pytest.mark.parametrize(("name", "wanted"), [(n, w) for n, letters in TAKES.items() for w in letters])
def test_every_operator_has_the_gradient_of_its_steps(device, name, wanted):
    """A step along the gradient changes the result as the gradient predicts: float32, every argument."""
    given = tensors(device, wanted)
    loss = CALLS[name](*given).double().square().mean()
    loss.backward()
    (variable,) = (t for t in given if t.requires_grad)
    assert variable.grad.dtype == variable.dtype and variable.grad.device == variable.device
    slope = variable.grad.double().square().sum()
    assert slope > 0
    step = 1e-3 * loss.detach().abs() / slope
    with torch.no_grad():
        moved = [t + step.float() * variable.grad if t is variable else t for t in given]
        gained = CALLS[name](*moved).double().square().mean() - loss
    torch.testing.assert_close(gained / (step * slope), torch.ones_like(slope), rtol=0.02, atol=0)


@pytest.mark.parametrize("name", CALLS)
def test_the_values_are_right_all_the_same(device, name):
    expected = CALLS[name](*tensors(device, None))
    assert_same_bits(CALLS[name](*tensors(device, "x")), expected)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_without_gradients(device, name, guard):
    with guard():
        result = CALLS[name](*tensors(device, "x"))
    assert not result.requires_grad
    assert_same_bits(result, CALLS[name](*tensors(device, None)))


@pytest.mark.parametrize(
    "call",
    [
        *(partial(filtered, name) for name in FILTERS),
        lambda x: torch_conv.unsharp_mask(x, 9, 1.0),
        lambda x: torch_conv.gaussian_blur3d(x, 5, 1.0),
        lambda x: torch.ops.torch_conv.filter2d(x, make_window((3, 3)).to(x.device)),
    ],
)
def test_every_function_has_a_gradient(device, call):
    """Gradients of named filters, whose windows are constants, agree with differences in float64."""
    image = make_image((1, 2, 9, 11), torch.float64, device=device).requires_grad_()
    assert torch.autograd.gradcheck(call, (image,), fast_mode=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch_conv.filter2d(torch_conv.split(x, [x.device] * 2), make_window((3, 3))).gather(),
        lambda x: torch.ops.torch_conv.ladder2d(x, make_window((3, 3))),
    ],
)
def test_functions_without_a_gradient_refuse_by_name(device, call):
    image = make_image((1, 2, 9, 11), device=device).requires_grad_()
    result = call(image)
    assert result.requires_grad
    with pytest.raises(RuntimeError, match=r"^(filter2d_split|ladder2d): backward is not implemented yet"):
        result.sum().backward()
    assert image.grad is None


@pytest.mark.parametrize("axes", [2, 3])
def test_dense_convolution_has_the_gradient_of_torch(device, axes):
    image = make_image((2, 24, 5, 7, 6)[: axes + 2], torch.float64, device=device).requires_grad_()
    weight = make_window((20, 24, 3, 3, 3)[: axes + 2], torch.float64, device=device).requires_grad_()
    ours, theirs = (getattr(library, f"conv{axes}d") for library in (torch_conv, torch.nn.functional))
    ours(image, weight, padding=1).square().sum().backward()
    got = image.grad.clone(), weight.grad.clone()
    image.grad = weight.grad = None
    theirs(image, weight, padding=1).square().sum().backward()
    torch.testing.assert_close(got, (image.grad, weight.grad))


def test_out_takes_no_gradient(device):
    """A result written into `out` cannot carry a gradient: refused, as torch does."""
    image = make_image((9, 11), device=device).requires_grad_()
    out = torch.zeros(9, 11, device=device)
    with pytest.raises((RuntimeError, ValueError)):
        torch_conv.filter2d(image, make_window((3, 3), device=device), out=out).sum().backward()
    k = make_window((3,))
    for name, args in (("filter3d", (k[None, None],)), ("filter3d_separable", (k, k, k)), ("box_blur3d", (3,))):
        with pytest.raises(ValueError, match=f"^{name}: out does not support gradients, but an argument requires one"):
            getattr(torch_conv, name)(image[None], *args, out=out[None])
    for name, args in (("sobel", ()), ("gaussian_sobel", (3, 1.0)), ("thin_edges", (3, 1.0))):
        with pytest.raises(ValueError, match=f"^{name}: out does not support gradients, but an argument requires one"):
            getattr(torch_conv, name)(image, *args, out=out)
    with pytest.raises(RuntimeError, match="^separable_sum2d: out does not support gradients"):
        torch.ops.torch_conv.separable_sum2d_out(out, [k.requires_grad_()], [k], out=torch.zeros_like(out))
    assert image.grad is None
    assert out.eq(0).all()


AXES = [1, 2, 3]


def given(axes, device, dtype=torch.float32):
    image = make_image((2, 8, *(6, 7, 5)[:axes]), dtype, device=device)
    return image, make_window((8, 1, *(3,) * axes), dtype, device=device), make_window((8,), dtype, device=device)


def calls(axes):
    operator = getattr(torch.ops.torch_conv, f"conv{axes}d")
    module = getattr(torch_conv.nn, f"Conv{axes}d")(8, 8, 3, padding=1, groups=8)

    def of_module(image, weight, bias):
        held = torch.jit.script(module.to(image.device))
        with torch.no_grad():
            held.weight.copy_(weight), held.bias.copy_(bias)
            return held(image)

    return {
        "operator": lambda x, w, b: operator(x, w, b, padding=[1] * axes, groups=8),
        "operator with words": lambda x, w, b: operator.padding(x, w, b, padding="same", groups=8),
        "function": lambda x, w, b: getattr(torch_conv, f"conv{axes}d")(x, w, b, padding=1, groups=8),
        "script": of_module,
    }


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("name", calls(1))
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_dtype(device, axes, name, dtype):
    tensors = given(axes, device)
    rounded = [t.to(dtype) for t in tensors]
    with torch.no_grad():
        expected = calls(axes)["operator"](*rounded)
        with torch.autocast(device, dtype):
            got = calls(axes)[name](*tensors)
            mixed = calls(axes)["operator"](rounded[0], *tensors[1:])  # as after another layer
            by_torch = getattr(F, f"conv{axes}d")(*tensors, padding=1, groups=8)
    assert got.dtype == by_torch.dtype == dtype
    torch.testing.assert_close(got, expected, rtol=2 * torch.finfo(dtype).eps, atol=2 * torch.finfo(dtype).eps)
    assert_same_bits(mixed, expected)


def test_float64_stays(device):
    tensors = given(2, device, torch.float64)
    expected = calls(2)["operator"](*tensors)
    with torch.autocast(device, torch.bfloat16):
        assert_same_bits(calls(2)["operator"](*tensors), expected)


def test_gradients_come_back_in_the_weights_dtype(device):
    image, weight, bias = (t.requires_grad_() for t in given(2, device))
    with torch.autocast(device, torch.bfloat16):
        result = calls(2)["operator"](image, weight, bias)
    result.float().square().sum().backward()
    for t in (image, weight, bias):
        assert t.grad.dtype == torch.float32 and t.grad.abs().sum() > 0


def test_backward_under_autocast(device):
    """The backward pass has the call's dtypes in any context."""
    tensors = given(2, device)
    found = []
    for enabled in (False, True):
        image, weight, bias = (t.clone().requires_grad_() for t in tensors)
        result = calls(2)["operator"](image, weight, bias)
        with torch.autocast(device, torch.bfloat16, enabled=enabled):
            found.append(torch.autograd.grad(result.sum(), (image, weight, bias)))
    for plain, under in zip(*found, strict=True):
        assert torch.equal(plain, under)


def test_without_autocast_nothing_changes(device):
    tensors = given(2, device)
    with torch.autocast(device, torch.bfloat16, enabled=False):
        assert calls(2)["operator"](*tensors).dtype == torch.float32
