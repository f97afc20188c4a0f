"""Gradients of the fused pipelines, in the image and in the windows."""

import kornia.filters
import pytest
import torch
from strategies import make_image, make_window
from torch.autograd import gradcheck, gradgradcheck

import torch_conv

ops = torch.ops.torch_conv
WINDOWS = {
    "gaussian_sobel2d": lambda x, a, b, c, **o: ops.gaussian_sobel2d(x, a, b, **o),
    "gaussian_sobel2d l1": lambda x, a, b, c, **o: ops.gaussian_sobel2d(x, a, b, magnitude="l1", **o),
    "separable_sum2d": lambda x, a, b, c, **o: ops.separable_sum2d(x, [a, c], [b, b * 2], **o),
    "unsharp_mask2d": lambda x, a, b, c, **o: ops.unsharp_mask2d(x, a, b, amount=1.7, **o),
    "structure_tensor2d": lambda x, a, b, c, **o: ops.structure_tensor2d(x, a, b, **o),
    "thin_edges2d": lambda x, a, b, c, **o: ops.thin_edges2d(x, a, b, **o),
}


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("border", ["reflect", "constant", "replicate", "circular", "symmetric", "skip", "zero_output"])
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_windows(device, name, border, padding):
    image = make_image((2, 2, 12, 11), torch.float64, device=device).requires_grad_()
    given = [make_window((k,), torch.float64, device=device).abs().requires_grad_() for k in (3, 5, 3)]

    def call(x, a, b, c):
        return WINDOWS[name](x, a, b, c, border_type=border, padding=padding, value=0.5)

    assert gradcheck(call, (image, *given), fast_mode=True)
    corners = padding == "same"  # have no slope in an image that goes on as its mirror image: there the root bends
    if name not in ("gaussian_sobel2d l1", "thin_edges2d") and not (corners and name == "gaussian_sobel2d"):
        assert gradgradcheck(call, (image, *given), fast_mode=True)


@pytest.mark.parametrize("border", ["reflect", "replicate"])
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_derivatives(device, border, padding):
    image = make_image((2, 2, 8, 9), torch.float64, device=device).requires_grad_()
    options = {"border_type": border, "padding": padding}
    for mode in ("sobel", "diff", "scharr", "prewitt"):
        assert gradcheck(lambda x, m=mode: torch_conv.spatial_gradient(x, m, **options), (image,), fast_mode=True)
    assert gradcheck(lambda x: torch_conv.spatial_gradient(x, "sobel", 2, **options), (image,), fast_mode=True)
    assert gradgradcheck(lambda x: torch_conv.sobel(x, **options), (image,), fast_mode=True)
    volume = make_image((1, 6, 7, 8), torch.float64, device=device).requires_grad_()
    taps = make_window((3,), torch.float64, device=device).abs().requires_grad_()
    assert gradcheck(lambda x, k: ops.gaussian_gradient3d(x, k, k, k, **options), (volume, taps), fast_mode=True)


KORNIA = {
    "sobel": (lambda x: torch_conv.sobel(x), lambda x: kornia.filters.sobel(x)),
    "spatial_gradient": (lambda x: torch_conv.spatial_gradient(x), lambda x: kornia.filters.spatial_gradient(x)),
    "unsharp_mask": (
        lambda x: torch_conv.unsharp_mask(x, 5, 1.5),
        lambda x: kornia.filters.unsharp_mask(x, (5, 5), (1.5, 1.5)),
    ),
    "gaussian_blur2d": (
        lambda x: torch_conv.gaussian_blur2d(x, 5, 1.5),
        lambda x: kornia.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)),
    ),
    "box_blur": (lambda x: torch_conv.box_blur(x, 5), lambda x: kornia.filters.box_blur(x, (5, 5))),
    "laplacian": (lambda x: torch_conv.laplacian(x, 5), lambda x: kornia.filters.laplacian(x, 5)),
}


@pytest.mark.parametrize("name", KORNIA)
def test_gradients_agree_with_kornia(device, name):
    image = make_image((2, 3, 16, 17), device=device)
    found = []
    for call in KORNIA[name]:
        given = image.clone().requires_grad_()
        result = call(given)
        result.backward(make_image(tuple(result.shape), device=device))
        found.append(given.grad)
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


def test_a_flat_image_has_no_slope(device):
    """The length of a derivative that is 0 has no direction: its gradient is 0, not NaN."""
    image = torch.full((1, 9, 9), 3.0, device=device, requires_grad=True)
    torch_conv.gaussian_sobel(image, 3, 1.0).sum().backward()
    assert torch.equal(image.grad, torch.zeros_like(image))


LENGTHS = {
    "gaussian_sobel": (2, lambda x: torch_conv.gaussian_sobel(x, 3, 1.0)),
    "gaussian_sobel l1": (2, lambda x: torch_conv.gaussian_sobel(x, 3, 1.0, magnitude="l1")),
    "thin_edges": (2, lambda x: torch_conv.thin_edges(x, 3, 1.0)),
    "structure_tensor": (2, lambda x: torch_conv.structure_tensor(x, 3, 1.0)),
    "sobel": (2, lambda x: torch_conv.sobel(x, border_type="reflect")),
    "sobel without eps": (2, lambda x: torch_conv.sobel(x, eps=0.0, border_type="reflect")),
    "sobel by windows": (2, lambda x: torch_conv.sobel(x, eps=0.0, border_type="reflect", algorithm="direct")),
    "gradient magnitude": (3, lambda x: torch_conv.gaussian_gradient_magnitude3d(x, 3, 1.0, "reflect")),
}


@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_derivatives_of_every_order_are_finite(device, name, dtype):
    """With reflect the gradient is 0 at the corners of every image, and the magnitude has no derivative there."""
    axes, call = LENGTHS[name]
    shape = (1, *[7] * axes)
    for image in (make_image(shape, dtype), torch.full(shape, 0.7, dtype=dtype), torch.zeros(shape, dtype=dtype)):
        x = image.to(device).requires_grad_()
        found = call(x)
        for order in (1, 2, 3):
            if not found.requires_grad:  # functions that are linear in the image end early
                break
            weights = make_image(tuple(found.shape), dtype, device=device)
            (found,) = torch.autograd.grad((found * weights).sum(), x, create_graph=True, materialize_grads=True)
            assert found.isfinite().all(), order


SHARED = {
    "unsharp_mask2d": lambda x, k: ops.unsharp_mask2d(x, k, k),
    "structure_tensor2d": lambda x, k: ops.structure_tensor2d(x, k, 2 * k),
    "gaussian_sobel2d": lambda x, k: ops.gaussian_sobel2d(x, k, k * x.mean()),
    "separable_sum2d": lambda x, k: ops.separable_sum2d(x, [k, k], [k, 2 * k]),
    "filter2d_separable": lambda x, k: ops.filter2d_separable(x, k, k),
    "causal_conv1d": lambda x, k: ops.causal_conv1d(x[0], k * x[0].mean((0, 2))[:, None], k.sum().expand(7)),
}


@pytest.mark.parametrize("name", SHARED)
def test_arguments_that_depend_on_one_another(device, name):
    """With a graph of the gradient and without, it is the same."""
    image = make_image((1, 2, 7, 9), torch.float64, device=device).requires_grad_()
    taps = make_window((3,), torch.float64, device=device).abs().requires_grad_()
    found = [
        torch.autograd.grad(SHARED[name](image, taps).square().sum(), (image, taps), create_graph=again)
        for again in (False, True)
    ]
    torch.testing.assert_close(found[1], found[0])
    assert gradcheck(SHARED[name], (image, taps), fast_mode=True)
