"""torch.func's transforms, one inside another, give the derivatives that autograd finds."""

import pytest
import torch
from strategies import make_image, make_window
from torch.func import grad, jacrev, jvp, vjp, vmap

import torch_conv

of = torch.ops.torch_conv
CALLS = {
    "filter2d": lambda x, k: torch_conv.filter2d(x, k),
    "filter2d, the operator": lambda x, k: of.filter2d(x, k, "constant", normalized=True),
    "filter2d_separable": lambda x, k: torch_conv.filter2d_separable(x, k[0], k[1], "circular"),
    "filter3d": lambda x, k: torch_conv.filter3d(x, k.expand(2, 3, 3)),
    "box_blur": lambda x, k: torch_conv.box_blur(x, 3) * k.sum(),
    "gaussian_blur2d": lambda x, k: torch_conv.gaussian_blur2d(x, 3, 1.0) * k.sum(),
    "sobel": lambda x, k: torch_conv.sobel(x) * k.sum(),
    "separable_sum2d": lambda x, k: of.separable_sum2d(x, [k[0], k[1]], [k[2], k[0]]),
    "conv2d": lambda x, k: torch_conv.conv2d(x, k.expand(4, 1, 3, 3), padding=1, groups=4, algorithm="ours"),
    "conv2d, the operator": lambda x, k: of.conv2d(x, k.expand(4, 1, 3, 3), None, 2, padding="valid", groups=4),
    "conv2d, torch's": lambda x, k: torch_conv.conv2d(x, k.expand(4, 1, 3, 3), groups=4),
    "causal_conv1d": lambda x, k: torch_conv.causal_conv1d(x[:, 0], k[0].expand(x.shape[2], 3)),
}


@pytest.fixture(params=CALLS)
def case(request, device):
    """Three images, a window, and a scalar of both."""
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
