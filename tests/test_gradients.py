"""Gradients of filters and of fused pipelines, in the image and in the windows: every border, padding and step."""

import pytest
import torch
from strategies import lay_out, make_image, make_window
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
    "sobel": (),
    "spatial_gradient": (),
    "unsharp_mask": ((5, 5), (1.5, 1.5)),
    "gaussian_blur2d": ((5, 5), (1.5, 1.5)),
    "box_blur": ((5, 5),),
    "laplacian": (5,),
}


@pytest.mark.parametrize("name", KORNIA)
def test_gradients_agree_with_kornia(device, name):
    kornia = pytest.importorskip("kornia.filters")
    image = make_image((2, 3, 16, 17), device=device)
    found = []
    for library in (torch_conv, kornia):
        given = image.clone().requires_grad_()
        result = getattr(library, name)(given, *KORNIA[name])
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


BORDERS = ["constant", "replicate", "reflect", "symmetric", "circular", "skip", "zero_output"]
OPTIONS = [  # of filter2d: the window's shape, and options
    ((3, 3), {}),
    ((3, 4), {"stride": 2, "anchor": -1}),
    ((2, 3, 3), {"stride": (2, 1), "dilation": (1, 2)}),
    ((2, 2, 2, 3), {"anchor": (0, 2), "behaviour": "conv"}),
    ((1, 2, 3, 1), {"dilation": 2}),
]


def image_of(shape, device, layout="contiguous"):
    return lay_out(make_image(shape, torch.float64, device=device), layout).requires_grad_()


def window_of(shape, device):
    return make_window(shape, torch.float64, device=device).requires_grad_()


def check(call, given, twice=True):
    assert gradcheck(call, given, fast_mode=True)
    if twice:
        assert gradgradcheck(call, given, fast_mode=True)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_filter2d(device, border, normalized, padding):
    for layout in ("contiguous", "channels_last"):
        image = image_of((2, 2, 7, 9), device, layout)
        for shape, options in OPTIONS:
            options = {"value": 1.5, "padding": padding, "normalized": normalized, **options}
            check(
                lambda x, k, o=options: torch_conv.filter2d(x, k, border, **o),
                (image, window_of(shape, device)),
                twice=layout == "contiguous" and len(shape) == 2,
            )


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_products_of_windows(device, border, normalized, padding):
    image, volume = image_of((2, 2, 7, 9), device), image_of((1, 2, 4, 5, 6), device)
    x, y, z = window_of((4,), device), window_of((2, 2, 3), device), window_of((3,), device)
    options = {"value": 1.5, "padding": padding, "normalized": normalized}
    for stride in (1, (2, 1)):
        check(
            lambda i, x, y, s=stride: torch_conv.filter2d_separable(i, x, y, border, stride=s, **options), (image, x, y)
        )
    check(
        lambda i, x, y, z: torch_conv.filter3d_separable(i, x, y, z, border, **options),
        (volume, window_of((1, 2, 3), device), window_of((2,), device), z),
        twice=False,
    )


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_boxes_and_volumes(device, border, normalized, padding):
    options = {"value": 1.5, "padding": padding, "normalized": normalized}
    image, volume = image_of((2, 2, 7, 9), device), image_of((1, 2, 4, 5, 6), device)
    check(lambda i: torch_conv.box_blur(i, (3, 4), border, anchor=(0, -1), **options), (image,))
    check(lambda i: torch_conv.box_blur3d(i, (3, 2, 3), border, **options), (volume,), twice=False)
    check(
        lambda i, k: torch_conv.filter3d(i, k, border, stride=(1, 2, 1), **options),
        (volume, window_of((2, 2, 3), device)),
        twice=False,
    )


@pytest.mark.parametrize("border", BORDERS[:5])
def test_windows_beyond_the_image(device, border):
    """The gradient of a pixel that is read many times is the sum over these reads."""
    for shape, k in [((3, 4), (9, 12)), ((1, 1), (3, 3)), ((1, 5), (4, 4)), ((2, 2), (7, 2))]:
        check(
            lambda x, w: torch_conv.filter2d(x, w, border, value=2.0),
            (image_of((2, *shape), device), window_of(k, device)),
        )


@pytest.mark.parametrize("shape", [(9,), (2, 9), (3, 0, 4), (0, 3, 5, 6), (2, 3, 5, 6, 7)])
def test_shapes(device, shape):
    """Any leading dimensions, none, and no elements: the gradients that autograd finds for plain torch."""
    axes = min(2, len(shape))
    given = [image_of(shape, device), window_of((3,) * axes, device)]
    weight = torch.randn(shape, dtype=torch.float64, device=device)  # of the results: no gradient is like another
    found = []
    for library in (torch_conv, torch_conv.reference):
        result = getattr(library, f"filter{axes}d")(*given)
        found.append(torch.autograd.grad((result * weight).sum(), given, materialize_grads=True))
    for got, expected in zip(*found, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dtypes(device, dtype):
    """Gradients have their argument's dtype and are rounded once, from sums in float32."""
    image, window = make_image((2, 3, 12, 13), dtype, device=device), make_window((5, 5), device=device)
    wanted = make_image((2, 3, 12, 13), dtype, device=device)
    exact = [t.double().requires_grad_() for t in (image, window)]
    given = [image.requires_grad_(), window.requires_grad_()]
    for tensors in (given, exact):
        torch_conv.filter2d(*tensors, "reflect").backward(wanted.to(tensors[0].dtype))
    for got, expected in zip(given, exact, strict=True):
        assert got.grad.dtype == got.dtype
        torch.testing.assert_close(got.grad.double(), expected.grad, rtol=2 * torch.finfo(got.dtype).eps, atol=1e-4)


def test_bytes_have_gradients_in_the_window_alone(device):
    image = make_image((2, 3, 8, 9), torch.uint8, device=device)
    window = make_window((3, 3), device=device).requires_grad_()
    torch_conv.filter2d(image, window, output_dtype=torch.float32).square().sum().backward()
    exact = window.detach().double().requires_grad_()
    torch_conv.filter2d(image.double(), exact).square().sum().backward()
    torch.testing.assert_close(window.grad.double(), exact.grad, rtol=1e-5, atol=0)
    assert not torch_conv.filter2d(image, window).requires_grad  # rounded to bytes


def test_a_window_elsewhere(device):
    """A window on the CPU gets its gradient there."""
    image, window = make_image((2, 8, 9), device=device), make_window((3, 3)).requires_grad_()
    torch_conv.filter2d(image, window).sum().backward()
    assert window.grad.is_cpu and window.grad.abs().sum() > 0


def test_the_same_gradients_twice(device):
    image, window = make_image((4, 3, 40, 33), device=device), make_window((5, 5), device=device)
    found = []
    for _ in range(3):
        given = [image.clone().requires_grad_(), window.clone().requires_grad_()]
        torch_conv.filter2d(*given, "replicate").square().sum().backward()
        found.append([t.grad for t in given])
    for again in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], again, strict=True))


def test_an_image_is_kept_for_windows_alone(device):
    """A blur with a fixed window does not hold on to its image until backward."""
    image = make_image((2, 3, 8, 9), device=device).requires_grad_()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.shape) or t, lambda t: t):
        torch_conv.gaussian_blur2d(image * 1, 3, 1.0)
    assert image.shape not in saved


def blurred(x, k):
    return torch_conv.filter2d(torch_conv.gaussian_blur2d(x, 3, 1.0), k, "replicate")


def edges(x, k):
    return torch_conv.sobel(x) + torch_conv.unsharp_mask(x, 5, 1.0) * torch_conv.box_blur(x, 3) + k.sum()


def convolved(x, k):
    return torch_conv.conv2d(x, k.expand(2, 1, 3, 3), padding=1, groups=2, algorithm="ours")


@pytest.mark.parametrize("call", [blurred, edges, convolved])
def test_compiled(device, call):
    given = [make_image((1, 2, 8, 9), device=device), make_window((3, 3), device=device)]
    found = []
    for run in (call, torch.compile(call, backend="aot_eager", fullgraph=True)):
        tensors = [t.clone().requires_grad_() for t in given]
        run(*tensors).square().sum().backward()
        found.append([t.grad for t in tensors])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-3)


def test_compiled_of_several_sizes(device):
    call = torch.compile(blurred, backend="aot_eager", fullgraph=True)
    for n in (8, 11, 13):
        image, window = make_image((1, 2, n, 9), device=device).requires_grad_(), make_window((3, 3), device=device)
        (got,) = torch.autograd.grad(call(image, window).square().sum(), image)
        (expected,) = torch.autograd.grad(blurred(image, window).square().sum(), image)
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-3)


def test_one_plane(device):
    """The gradient of one channel, which torch does not compute as a depthwise convolution."""
    image, window = make_image((1, 1, 64, 70), device=device), make_window((5, 5), device=device)
    exact = window.double().requires_grad_()
    torch_conv.filter2d(image.double(), exact).square().sum().backward()
    found = []
    for _ in range(2):
        given = window.clone().requires_grad_()
        torch_conv.filter2d(image, given).square().sum().backward()
        found.append(given.grad)
    assert torch.equal(*found)
    torch.testing.assert_close(found[0].double(), exact.grad, rtol=1e-4, atol=1e-3)


def test_in_a_script(device):
    @torch.jit.script
    def call(x: torch.Tensor, k: torch.Tensor):
        return torch.ops.torch_conv.filter2d(x, k, "circular")

    image, window = image_of((2, 6, 7), device), window_of((3, 3), device)
    scripted = torch.autograd.grad(call(image, window).square().sum(), (image, window))
    plain = torch.autograd.grad(torch_conv.filter2d(image, window, "circular").square().sum(), (image, window))
    torch.testing.assert_close(scripted, plain)


def test_a_pinned_chain_is_one_in_its_gradient(device):
    """'auto' would take passes for this window, which have other bits."""
    row = torch.exp(-(torch.linspace(-2, 2, 9) ** 2))
    window, grad = row[:, None] * row, make_image((1, 128, 128), device=device)
    image = make_image((1, 128, 128), seed=1, device=device).requires_grad_()
    torch_conv.filter2d(image, window, "constant", algorithm="direct").backward(grad)
    assert torch.equal(image.grad, torch_conv.filter2d(grad, window, "constant", algorithm="direct"))
    assert not torch.equal(image.grad, torch_conv.filter2d(grad, window, "constant", algorithm="low_rank"))
