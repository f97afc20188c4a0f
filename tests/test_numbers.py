"""Numbers that are given as tensors: a gradient that one requires is found, or the call is refused by name."""

import inspect

import pytest
import torch
from public_calls import calls, number_arguments
from strategies import make_image
from torch.autograd import gradcheck

import torch_conv
from torch_conv import kernels

NUMBERS = [(name, argument) for name in torch_conv.functional.__all__ for argument in number_arguments(name)]


def test_every_function_is_called():
    assert set(calls()) == set(torch_conv.functional.__all__)
    assert len(NUMBERS) > 60


def one_number(name: str, argument: str) -> float:
    given = calls()[name].get(argument, inspect.signature(getattr(torch_conv, name)).parameters[argument].default)
    return float(given) if isinstance(given, (int, float)) else 1.0


@pytest.mark.parametrize(("name", "argument"), NUMBERS)
def test_no_gradient_of_a_number_is_lost(name, argument):
    number = torch.tensor(one_number(name, argument), requires_grad=True)

    def call(given):
        return getattr(torch_conv, name)(**(calls()[name] | {argument: given}))

    several = [[number, number], (number, number)] if "sigma" in argument else []
    for given in (number, *several):
        with pytest.raises((TypeError, ValueError), match=f"^{name}: {argument} must") as refused:
            call(given)
        assert refused.value.__cause__ is None
    if name.startswith("conv"):
        return  # numbers that are all integers
    with pytest.raises((TypeError, ValueError), match=f"^{name}: {argument} must"):
        torch.func.grad(lambda given: call(given).sum())(number.detach())


SIGMAS = [name for name, argument in NUMBERS if argument == "sigma" and name != "gaussian_laplace"]


@pytest.mark.parametrize("size", [3, 9])
@pytest.mark.parametrize("name", SIGMAS)
def test_a_sigma_per_sample_has_a_gradient(device, name, size):
    """A tensor (B, 2) or (B, 3) is no number: the taps are made of it by torch."""
    axes = 3 if name.endswith("3d") else 2
    image = make_image((2, 1, *[10] * axes), torch.float64, device=device)
    sigma = (0.8 + torch.rand(2, axes, dtype=torch.float64)).to(device).requires_grad_()
    assert gradcheck(lambda s: getattr(torch_conv, name)(image, size, s), (sigma,), fast_mode=True)
    getattr(torch_conv, name)(image.float(), size, sigma).sum().backward()
    assert sigma.grad is not None and sigma.grad.isfinite().all()


@pytest.mark.parametrize("make", [kernels.gaussian1d, kernels.gaussian2d, kernels.gaussian3d])
def test_windows_by_name_have_no_gradient(make):
    sigma, axes = torch.tensor(1.5, requires_grad=True), int(make.__name__[-2])
    for given in (sigma, [sigma] * axes, sigma.expand(axes)) if axes > 1 else (sigma,):
        with pytest.raises(ValueError, match=r"^gaussian\dd: sigma must not require a gradient"):
            make(5, given)
    with torch.no_grad():
        assert torch.equal(make(5, sigma), make(5, 1.5))


def test_modules_refuse_where_they_are_built():
    number, window = torch.tensor(1.0, requires_grad=True), torch.ones(3, 3)
    for build, argument in (
        (lambda: torch_conv.nn.Filter2d(window, value=number), "value"),
        (lambda: torch_conv.nn.BoxBlur(3, value=number), "value"),
        (lambda: torch_conv.nn.Sobel(eps=number), "eps"),
        (lambda: torch_conv.nn.UnsharpMask(3, 1.0, amount=number), "amount"),
        (lambda: torch_conv.nn.GaussianBlur2d(None, 1.0, truncate=number), "truncate"),
    ):
        with pytest.raises(ValueError, match=f": {argument} must not require a gradient"):
            build()


INTEGERS = [
    (name, argument)
    for name, argument in NUMBERS
    if inspect.signature(getattr(torch_conv, name)).parameters[argument].annotation in (int, None, type(None))
]


@pytest.mark.parametrize(("name", "argument"), INTEGERS)
def test_a_fraction_is_no_integer(name, argument):
    """Torch drops it from a tensor that an operator is given for an integer."""
    given = calls()[name]
    for fraction in (1.9, 3.0, 3.9):
        number = torch.tensor(fraction)
        for value in (fraction, number, *([n] * axes for n in (fraction, number) for axes in (1, 2, 3))):
            for form in (value, tuple(value)) if isinstance(value, list) else (value,):
                with pytest.raises((TypeError, ValueError), match=f"^{name}: {argument} must"):
                    getattr(torch_conv, name)(**(given | {argument: form}))
                if isinstance(form, (float, torch.Tensor)) or len(form) == 2 + name.endswith("3d"):
                    with pytest.raises(TypeError):
                        getattr(torch_conv, name)(**(given | {argument: form}))


@pytest.mark.parametrize("algorithm", ["auto", "ours"])
@pytest.mark.parametrize("argument", ["stride", "padding", "dilation", "groups"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_fraction_is_no_integer_of_a_convolution_that_is_served(axes, argument, algorithm):
    image, weight = torch.ones(1, 4, *[9] * axes), torch.ones(4, 2, *[3] * axes)
    call = getattr(torch_conv, f"conv{axes}d")
    given = {"groups": 2, "algorithm": algorithm}
    assert call(image, weight, **(given | {argument: torch.tensor(2)})).shape[1] == 4
    for wrong in (torch.tensor(2.9), torch.tensor(2.0), 2.9):
        with pytest.raises(TypeError, match=f"^conv{axes}d: {argument} must be of type int, got "):
            call(image, weight, **(given | {argument: wrong}))


def test_integer_tensors_are_integers():
    image, two = make_image((1, 2, 9, 9)), torch.tensor(2)
    window = torch.ones(2, 1, 3, 3)
    expected = torch_conv.filter2d(image, window[0, 0], stride=2, dilation=(1, 2))
    assert torch.equal(torch_conv.filter2d(image, window[0, 0], stride=(two, two), dilation=(1, two)), expected)
    expected = torch_conv.conv2d(image, window, stride=2, groups=2)
    assert torch.equal(torch_conv.conv2d(image, window, stride=two, groups=2), expected)
    for wrong in (torch.tensor(0.9), 0.9):
        with pytest.raises(TypeError, match="^split: dim must be of type int, got (float|a tensor of float32)$"):
            torch_conv.split(image, ["cpu"] * 2, dim=wrong)
        with pytest.raises(TypeError, match="^gaussian2d: size must be of type int, got (float|a tensor of float32)$"):
            kernels.gaussian2d(wrong, 1.0)


def test_numbers_without_gradients_are_taken():
    image, window = make_image((1, 1, 8, 8)), torch.ones(3, 3)
    expected = torch_conv.filter2d(image, window, "constant", value=2.0)
    number = torch.tensor(2.0)
    assert torch.equal(torch_conv.filter2d(image, window, "constant", value=number), expected)
    with torch.no_grad():
        number.requires_grad_()
        assert torch.equal(torch_conv.filter2d(image, window, "constant", value=number), expected)
