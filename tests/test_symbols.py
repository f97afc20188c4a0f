"""Numbers and sizes that are symbols: the number of compilations by torch.compile, and sizes that depend on data."""

import math

import pytest
import torch
from public_calls import PARTIALS
from strategies import make_image, make_window
from torch._dynamo.testing import CompileCounterWithBackend

import torch_conv


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


NEAR_ONE = [1.0 + 0.01 * i for i in range(12)]  # sigmas whose windows have one size
NUMBERS = {
    "gaussian_blur2d": (lambda x, n: torch_conv.gaussian_blur2d(x, 5, n), NEAR_ONE),
    "gaussian_blur2d, derived size": (lambda x, n: torch_conv.gaussian_blur2d(x, None, n), NEAR_ONE),
    "gaussian_blur2d, size": (lambda x, n: torch_conv.gaussian_blur2d(x, n, 1.0), range(3, 21, 2)),
    "gaussian_blur3d, a pair": (lambda x, n: torch_conv.gaussian_blur3d(x, 3, (1.0, n, 2 * n)), NEAR_ONE),
    "gaussian_downsample": (lambda x, n: torch_conv.gaussian_downsample(x, 5, n), NEAR_ONE),
    "unsharp_mask, amount": (lambda x, n: torch_conv.unsharp_mask(x, 5, 1.0, amount=n), NEAR_ONE),
    "difference_of_gaussians": (lambda x, n: torch_conv.difference_of_gaussians(x, n), NEAR_ONE),
    "gaussian_laplace": (lambda x, n: torch_conv.gaussian_laplace(x, n), NEAR_ONE),
    "gaussian_sobel": (lambda x, n: torch_conv.gaussian_sobel(x, 5, n), NEAR_ONE),
    "structure_tensor": (lambda x, n: torch_conv.structure_tensor(x, 5, n), NEAR_ONE),
    "gaussian_gradient_magnitude3d": (lambda x, n: torch_conv.gaussian_gradient_magnitude3d(x, 3, n), NEAR_ONE),
    "kernels.gaussian2d": (lambda x, n: torch_conv.filter2d(x, torch_conv.kernels.gaussian2d(5, n)), NEAR_ONE),
    "kernels.gaussian1d, size": (
        lambda x, n: torch_conv.filter1d(x, torch_conv.kernels.gaussian1d(n, 1.0)),
        range(3, 15),
    ),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_compiled_for_once(name):
    """torch.compile takes a number that changes for a symbol; torchvision's blur is compiled twice, too."""
    function, numbers = NUMBERS[name]
    graphs = CompileCounterWithBackend("aot_eager")
    compiled, image = torch.compile(function, backend=graphs, fullgraph=True), make_image((1, 2, 7, 12, 14))
    for n in numbers:
        torch.testing.assert_close(compiled(image, n), function(image, n), rtol=1e-5, atol=1e-6)
    assert graphs.frame_count <= 3


@pytest.mark.parametrize("name", ["gaussian_blur2d, derived size", "gaussian_laplace", "difference_of_gaussians"])
def test_a_size_that_follows_sigma_is_compiled_for_once(name):
    function, _ = NUMBERS[name]
    graphs = CompileCounterWithBackend("aot_eager")
    compiled, image = torch.compile(function, backend=graphs, fullgraph=True), make_image((1, 1, 9, 9))
    for n in (1.0, 1.03, 1.06, 0.5, 0.52, 1.09, 0.54, 1.01):  # windows of two sizes
        torch.testing.assert_close(compiled(image, n), function(image, n), rtol=1e-5, atol=1e-6)
    assert graphs.frame_count <= 4


def test_a_number_that_is_no_width_is_refused_by_what_was_compiled():
    compiled = torch.compile(lambda x, n: torch_conv.gaussian_blur2d(x, 5, n), backend="aot_eager")
    image = make_image((9, 9))
    for n in (1.0, 1.1, 1.2):
        compiled(image, n)
    with pytest.raises(ValueError, match="gaussian_blur2d: sigma must be finite and greater than 0"):
        compiled(image, -1.0)


def test_every_function_is_compiled_by_itself():
    """Dynamo counts compilations by code objects, and gives up after eight."""
    functions = [getattr(torch_conv.functional, name) for name in torch_conv.functional.__all__]
    assert len({id(function.__code__) for function in functions}) == len(functions)
    assert all(function.__code__.co_name == function.__name__ for function in functions)


def weights(channels, *size):
    return 0.1 * torch.arange(1.0, 1 + channels * math.prod(size)).reshape(channels, 1, *size)


ROW = torch.tensor([0.25, 0.5, 0.25])
# Calls of images (B, 2, 8, 9) and volumes (B, 2, 5, 8, 9).
IMAGES, VOLUMES = (
    {name: lambda x, f=f: f(x) for name, f in PARTIALS.items() if ("3d" in name) == of_volumes}
    for of_volumes in (False, True)
)
IMAGES |= {
    "filter2d, normalized": lambda x: torch_conv.filter2d(x, torch.ones(3, 3), "skip", True),
    "filter2d, stride": lambda x: torch_conv.filter2d(x, torch.ones(3, 3), "constant", stride=2, dilation=2),
    "filter2d_separable": lambda x: torch_conv.filter2d_separable(x, ROW, ROW, "circular"),
    "box_blur, valid": lambda x: torch_conv.box_blur(x, (2, 3), padding="valid"),
    "conv2d": lambda x: torch_conv.conv2d(x, weights(2, 3, 3), groups=2, padding=1, algorithm="ours"),
    "conv2d, valid": lambda x: torch_conv.conv2d(x, weights(2, 3, 3), groups=2, algorithm="ours"),
    "conv2d, stride": lambda x: torch_conv.conv2d(x, weights(2, 3, 3), groups=2, stride=2, algorithm="ours"),
    "conv1d": lambda x: torch_conv.conv1d(x[:, :, 0], weights(2, 3), groups=2, algorithm="ours"),
    "causal_conv1d": lambda x: torch_conv.causal_conv1d(x[:, :, 0], weights(2, 3)[:, 0]),
    "gaussian_blur2d": lambda x: torch_conv.gaussian_blur2d(x, 5, 1.0),
    "unsharp_mask": lambda x: torch_conv.unsharp_mask(x, 9, 1.0),
    "difference_of_gaussians": lambda x: torch_conv.difference_of_gaussians(x, 0.5),
    "gaussian_laplace": lambda x: torch_conv.gaussian_laplace(x, 0.5),
}
VOLUMES["conv3d"] = lambda x: torch_conv.conv3d(x, weights(2, 3, 3, 3), groups=2, algorithm="ours")
FUNCTIONS = {**{n: (f, (2, 8, 9)) for n, f in IMAGES.items()}, **{n: (f, (2, 5, 8, 9)) for n, f in VOLUMES.items()}}


def gradient(function, *given):
    x = given[0].detach().clone().requires_grad_()
    result = function(x, *given[1:])
    result.square().sum().backward()
    return result.detach(), x.grad


@pytest.mark.parametrize("algorithm", ["auto", "ours"])
@pytest.mark.parametrize("option", ["stride", "padding", "dilation"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_options_of_convolutions_are_compiled_for_once(axes, option, algorithm):
    """Torch's own are compiled twice."""
    conv, weight = getattr(torch_conv, f"conv{axes}d"), weights(4, *[3] * axes)

    def function(x, n):
        return conv(x, weight, groups=4, algorithm=algorithm, **{option: n})

    graphs = CompileCounterWithBackend("aot_eager")
    compiled, image = (
        torch.compile(function, backend=graphs, fullgraph=True),
        make_image((2, 4, 23, 22, 21)[: axes + 2]),
    )
    for n in range(1, 7):
        torch.testing.assert_close(gradient(compiled, image, n), gradient(function, image, n), rtol=1e-5, atol=1e-4)
    assert graphs.frame_count <= 3


@pytest.mark.thorough
@pytest.mark.parametrize("name", FUNCTIONS)
@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_a_batch_that_only_the_data_says(name):
    function, shape = FUNCTIONS[name]
    compiled = torch.compile(lambda x, mask: function(x[mask]), backend="aot_eager", fullgraph=True)
    image = make_image((4, *shape))
    for mask in ([True, False, True, True], [False, True, False, False]):
        got = gradient(compiled, image, torch.tensor(mask))
        expected = gradient(lambda x, mask: function(x[mask]), image, torch.tensor(mask))
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_where_every_size_is_a_symbol(name):
    function, shape = FUNCTIONS[name]
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=True)
    for more in (0, 2, 4):  # where the last window of a stride of 2 ends depends on an odd size
        image = make_image((4 + more, 2, *(n + more for n in shape[1:])))
        with torch._dynamo.config.patch(error_on_recompile=more > 0):
            got = gradient(compiled, image)
        torch.testing.assert_close(got, gradient(function, image), rtol=1e-5, atol=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["filter2d, normalized", "gaussian_blur2d", "unsharp_mask", "conv2d", "box_blur"])
@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace")
def test_compiled_autograd(name):
    function, shape = FUNCTIONS[name]
    image = make_image((2, *shape))
    expected = gradient(function, image)
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
        torch.testing.assert_close(gradient(function, image), expected, rtol=1e-5, atol=1e-6)


def test_groups_are_exported_as_a_symbol():
    class OfSamples(torch.nn.Module):
        """A weight for each sample: samples are groups."""

        def forward(self, x, w):
            b, c, h, v = x.shape
            images, rows = x.reshape(1, b * c, h, v), w.reshape(b * c, 1, 3, 3)
            return torch_conv.conv2d(images, rows, padding=1, groups=b * c).reshape(b, c, h, v)

    x, w, batch = make_image((3, 4, 8, 8)), make_window((3, 4, 3, 3)), torch.export.Dim("batch")
    program = torch.export.export(OfSamples(), (x, w), dynamic_shapes={"x": {0: batch}, "w": {0: batch}})
    torch.testing.assert_close(program.module()(x[:2], w[:2]), OfSamples()(x[:2], w[:2]), rtol=1e-5, atol=1e-5)
