"""The functions inside torch.jit.script, saved and loaded, and the operators called from a script."""

import io

import pytest
import torch
from strategies import make_image, make_window
from tolerance import assert_same_bits

import torch_conv

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")


def use_filter2d(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.filter2d(x, k, "circular", True, "same", "conv", anchor=(0, 1), stride=2, dilation=(1, 2))


def use_filter2d_defaults(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.filter2d(x, k)


def use_separable(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.filter2d_separable(x, k[0], k[1], "constant", value=2.0)


def use_filter1d(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.filter1d(x, k[0], dim=-2)


def use_box_blur(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.box_blur(x, (3, 5)) + torch_conv.box_blur(x, 3, normalized=False)


def use_conv2d(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.conv2d(x, k.expand(3, 1, 3, 3), None, 2, 1, groups=3)


def use_conv1d(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.conv1d(x[:, :, 0], k[:, None], groups=3)


def use_causal_conv1d(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    out = torch_conv.causal_conv1d(x[:, :, 0], k, activation="silu")
    assert isinstance(out, torch.Tensor)
    return out


def use_causal_conv1d_update(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.causal_conv1d_update(x[:, :, 0, 0], x[:, :, 1].clone(), k)


def use_gaussian_blur2d(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.gaussian_blur2d(x, (3, 5), (1.0, 1.5))


def use_spatial_gradient(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.spatial_gradient(x, "scharr")


def use_sobel(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.sobel(x) + torch_conv.sobel(x, algorithm="direct")


def use_laplacian(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.laplacian(x, 3, variant="8")


def use_unsharp_mask(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.unsharp_mask(x, (5, 5), (1.0, 1.0), amount=0.5)


def use_difference_of_gaussians(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.difference_of_gaussians(x, 1.0)


def use_gaussian_laplace(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.gaussian_laplace(x, 1.0)


def use_gaussian_sobel(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.gaussian_sobel(x, (3, 3), (1.0, 1.0), magnitude="l1")


def use_gradients_by_algorithm(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    y = torch_conv.spatial_gradient(x, "diff", 2, algorithm="separable") - torch_conv.spatial_gradient(x, order=2)
    return y[:, :, :2] + torch_conv.spatial_gradient(x, algorithm="direct")


def use_fused_sums(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    y = torch_conv.unsharp_mask(x, (9, 9), (2.0, 2.0)) + torch_conv.difference_of_gaussians(x, 2.0, padding="same")
    return y + torch_conv.gaussian_laplace(x, 1.5, algorithm="fused") * torch_conv.sobel(x, eps=0.5, algorithm="fused")


def use_gaussian_downsample(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.gaussian_downsample(x, (5, 3), 1.0) + torch_conv.gaussian_downsample(x, None, (1.0, 2.0), 2)


def use_structure_tensor(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.structure_tensor(x, 5, 1.0) + torch_conv.structure_tensor(x, 3, k[:2, :2].abs() + 1, mode="diff")


def use_thin_edges(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.thin_edges(x, 5, 1.0, "circular")


def use_gaussian_gradient_magnitude3d(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    y = torch_conv.gaussian_gradient_magnitude3d(x, (1, 3, 5), (1.0, 1.5, 2.0), mode="sobel")
    return y + torch_conv.gaussian_gradient_magnitude3d(x, None, 0.8)


def use_filter3d(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    y = torch_conv.filter3d(x, k.expand(3, 3, 3), "circular", True, "conv", anchor=(0, 1, 2), stride=2)
    return y + torch_conv.filter3d(x, k.unsqueeze(0), padding="valid", dilation=(1, 1, 2)).sum()


def use_filter3d_separable(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.filter3d_separable(x, k[0], k[1], k[2], "constant", value=2.0)


def use_box_blur3d(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.box_blur3d(x, (1, 3, 5)) + torch_conv.box_blur3d(x, 3, normalized=False)


def use_conv3d(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.conv3d(x, k.expand(2, 1, 3, 3, 3), None, 2, 1, groups=2)


def use_gaussian_blur3d(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    y = torch_conv.gaussian_blur3d(x, (1, 3, 5), (1.0, 1.5, 2.0)) + torch_conv.gaussian_blur3d(x, 3, 1.0)
    return y + torch_conv.gaussian_blur3d(x, None, 0.8, algorithm="separable")


def use_gaussian_blur3d_per_sample(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.gaussian_blur3d(x.unsqueeze(1), (1, 3, 5), k[:2].abs() + 0.5)


def use_spatial_gradient3d(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch_conv.spatial_gradient3d(x, "sobel") + torch_conv.spatial_gradient3d(x, "diff", 2)[:, :3]


def use_operators(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    y = torch.ops.torch_conv.filter2d(x, k)
    y = torch.ops.torch_conv.filter2d_separable(y, k[0], k[1])
    y = torch.ops.torch_conv.separable_sum2d(y, [k[0], k[1]], [k[1], k[2]])
    return torch.ops.torch_conv.box2d(y, [3, 3])


def use_operators_on_volumes(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    y = torch.ops.torch_conv.filter3d(x, k.expand(3, 3, 3))
    y = torch.ops.torch_conv.filter3d_separable(y, k[0], k[1], k[2])
    y = torch.ops.torch_conv.conv3d(y, k.expand(2, 1, 3, 3, 3), groups=2, padding="same")
    return torch.ops.torch_conv.box3d(y, [3, 3, 3])


FUNCTIONS = [f for name, f in sorted(globals().items()) if name.startswith("use_")]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__.removeprefix("use_"))
def test_scripted_saved_and_loaded(device, function):
    image, kernel = make_image((2, 3, 12, 15), device=device), make_window((3, 3), device=device)
    expected = function(image, kernel)
    scripted = torch.jit.script(function)
    assert_same_bits(scripted(image, kernel), expected)
    buffer = io.BytesIO()
    torch.jit.save(scripted, buffer)
    buffer.seek(0)
    assert_same_bits(torch.jit.load(buffer)(image, kernel), expected)


@pytest.fixture
def without_fuser():
    """TorchScript's fuser contracts expressions around our operators, sobel's a * a + b * b: other bits on CUDA."""
    before = torch._C._jit_texpr_fuser_enabled()
    torch._C._jit_set_texpr_fuser_enabled(False)
    yield
    torch._C._jit_set_texpr_fuser_enabled(before)


@pytest.mark.usefixtures("without_fuser")
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__.removeprefix("use_"))
def test_traced(device, function):
    image, kernel = make_image((2, 3, 12, 15), device=device), make_window((3, 3), device=device)
    traced = torch.jit.trace(function, (image, kernel))
    other = make_image((2, 3, 12, 15), seed=5, device=device)
    assert_same_bits(traced(other, kernel), function(other, kernel))


def test_a_refusal_inside_a_script(device):
    scripted = torch.jit.script(use_filter2d_defaults)
    with pytest.raises(RuntimeError, match="filter2d: kernel must have 2, 3 or 4 dimensions, got 1"):
        scripted(torch.zeros(4, 5, device=device), torch.ones(3, device=device))
    image, kernel = make_image((9, 11), device=device), make_window((3, 3), device=device)
    assert_same_bits(scripted(image, kernel), torch_conv.filter2d(image, kernel))


def use_out(x: torch.Tensor, k: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    torch_conv.filter2d(x, k, output_dtype=torch.float32, out=out)
    return torch_conv.spatial_gradient(x, output_dtype=torch.float32, out=out.unsqueeze(-3).repeat(2, 1, 1))


def use_out3d(x: torch.Tensor, k: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    torch_conv.filter3d(x, k, output_dtype=torch.float32, out=out)
    return torch_conv.spatial_gradient3d(x, output_dtype=torch.float32, out=out.unsqueeze(-4).repeat(3, 1, 1, 1))


def test_out_inside_a_script(device):
    image, kernel = make_image((9, 11), device=device), make_window((3, 3), device=device)
    scripted = torch.jit.script(use_out)
    out = torch.zeros_like(image)
    assert_same_bits(scripted(image, kernel, out), torch_conv.spatial_gradient(image))
    assert_same_bits(out, torch_conv.filter2d(image, kernel))
    volume, cube = image[None].repeat(3, 1, 1), kernel.expand(3, 3, 3)
    out3d = torch.zeros_like(volume)
    assert_same_bits(torch.jit.script(use_out3d)(volume, cube, out3d), torch_conv.spatial_gradient3d(volume))
    assert_same_bits(out3d, torch_conv.filter3d(volume, cube))
    with pytest.raises(torch.jit.Error, match="out must have the output_dtype"):
        scripted(image, kernel, out.double())
