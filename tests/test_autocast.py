"""torch.autocast of convolutions: functions, direct operators, scripts and modules take its dtype, as F.convNd does."""

import pytest
import torch
import torch.nn.functional as F
from strategies import make_image, make_window
from tolerance import assert_same_bits

import torch_conv

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
