"""torchvision's images, videos and masks keep their class in filters; results of other shapes are plain tensors."""

import copy
import sys
import types

import pytest
import torch
from public_calls import FILTERS, calls, filtered
from strategies import make_image
from tolerance import assert_same_bits
from torch import nn

import torch_conv
from torch_conv import nn as tnn

tv_tensors = pytest.importorskip("torchvision.tv_tensors")
WIDER = ("spatial_gradient", "spatial_gradient3d", "structure_tensor")  # their results have one more dimension
SHAPE = (3, 12, 13)


class Slide(tv_tensors.Image):
    """A user's subclass."""


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("kind", [tv_tensors.Image, tv_tensors.Video, tv_tensors.Mask, Slide])
def test_filters(device, name, kind):
    image = make_image((2, *SHAPE), device=device)
    expected = filtered(name, image)
    got = filtered(name, kind(image))
    assert type(got) is (torch.Tensor if name in WIDER else kind)
    assert_same_bits(got.as_subclass(torch.Tensor), expected)
    args = list((calls()[name] | {"input": kind(image)}).values())
    assert type(getattr(torch_conv, name)(*args)) is type(got)


def test_neither_boxes_nor_plain_subclasses():
    boxes = tv_tensors.BoundingBoxes(torch.rand(4, 4), format="XYXY", canvas_size=(9, 9))
    assert type(torch_conv.box_blur(boxes, 3)) is torch.Tensor
    parameter = nn.Parameter(torch.rand(4, 5))
    assert type(torch_conv.box_blur(parameter, 3)) is torch.Tensor


def test_convolutions_give_plain_tensors_as_torchs():
    image, weight = tv_tensors.Image(torch.rand(SHAPE)), torch.rand(3, 1, 3, 3)
    assert type(nn.functional.conv2d(image, weight, groups=3)) is torch.Tensor
    assert type(torch_conv.conv2d(image, weight, groups=3)) is torch.Tensor
    assert type(torch_conv.causal_conv1d(image, torch.rand(12, 3))) is torch.Tensor
    assert type(torch_conv.causal_conv1d(x=image, weight=torch.rand(12, 3))) is torch.Tensor


def test_a_module_that_another_thread_imports(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision.tv_tensors", types.ModuleType("torchvision.tv_tensors"))
    assert type(torch_conv.box_blur(nn.Parameter(torch.rand(4, 5)), 3)) is torch.Tensor


def test_options_errors_and_gradients():
    image = tv_tensors.Image(torch.randint(256, SHAPE, dtype=torch.uint8))
    got = torch_conv.laplacian(image, 3, output_dtype=torch.int16, padding="valid")
    assert (type(got), got.dtype, got.shape) == (tv_tensors.Image, torch.int16, (3, 10, 11))
    out = torch.empty(SHAPE, dtype=torch.uint8)
    assert torch_conv.box_blur(image, 3, out=out) is out
    assert type(out) is torch.Tensor
    with pytest.raises(ValueError, match=r"^gaussian_blur2d: kernel_size must be odd and at least 1, got \(4, 4\)$"):
        torch_conv.gaussian_blur2d(image, 4, 1.0)
    wanted = torch.rand(SHAPE, requires_grad=True)
    blurred = torch_conv.gaussian_blur2d(tv_tensors.Image(wanted), sigma=1.0)
    assert type(blurred) is tv_tensors.Image
    blurred.sum().backward()
    torch.testing.assert_close(wanted.grad.sum(), torch.tensor(float(wanted.numel())))
    assert str(torch_conv.explain(torch_conv.box_blur, image, 3)).startswith("box2d: ")


def test_modules_among_transforms():
    v2 = pytest.importorskip("torchvision.transforms.v2")
    steps = [v2.ToDtype(torch.float32, scale=True), tnn.GaussianBlur2d(sigma=1.5), tnn.Sobel(), v2.Resize(8)]
    chain = v2.Compose(steps)
    image = tv_tensors.Image(torch.randint(256, SHAPE, dtype=torch.uint8))
    for transform in (chain, copy.deepcopy(chain)):
        got = transform(image)
        assert (type(got), got.shape) == (tv_tensors.Image, (3, 8, 8))


def test_torchvisions_own_name():
    from torch_conv.compat.torchvision import gaussian_blur

    for dtype in (torch.uint8, torch.int32, torch.float32):
        image = tv_tensors.Image(torch.randint(256, SHAPE).to(dtype))
        got = gaussian_blur(image, 3)
        assert (type(got), got.dtype) == (tv_tensors.Image, dtype)
