"""Depthwise layers in training: the layout of gradients, the saved tensors, and the weights' gradients on the CPU."""

import pytest
import torch
import torch.nn.functional as F
from strategies import make_image, make_window

import torch_conv


def steps(conv, image, weight, wanted, *options):
    given = [t.clone(memory_format=torch.preserve_format).requires_grad_() for t in (image, weight)]
    return torch.autograd.grad(conv(*given, None, *options), given, wanted)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("image_last", [False, True])
@pytest.mark.parametrize("grad_last", [False, True, None])
def test_gradients_have_the_strides_of_torch(device, stride, frozen, image_last, grad_last):
    formats = {False: torch.contiguous_format, True: torch.channels_last}
    image = make_image((2, 8, 9, 10), device=device).to(memory_format=formats[image_last])
    weight = make_window((8, 1, 3, 3), device=device).requires_grad_(not frozen)
    found = []
    for conv in (torch_conv.conv2d, F.conv2d):
        x = image.requires_grad_() * 1  # a leaf's gradient would be copied into its layout
        options = {} if conv is F.conv2d else {"algorithm": "ours"}
        result = conv(x, weight, None, stride, 1, 1, 8, **options)
        wanted = make_image(result.shape, device=device)
        wanted = (
            wanted[:1, :1, :1, :1].expand_as(wanted)
            if grad_last is None
            else wanted.to(memory_format=formats[grad_last])
        )
        found.append(torch.autograd.grad(result, x, wanted)[0])
    torch.testing.assert_close(*found, check_stride=True)


def test_the_bias_is_not_kept(device):
    image, weight, bias = (make_image(s, device=device) for s in ((1, 2, 5, 6), (2, 1, 3, 3), (2,)))
    bias.requires_grad_()
    result = torch_conv.conv2d(image, weight.requires_grad_(), bias, groups=2, algorithm="ours")
    with torch.no_grad():
        bias += 1
    result.sum().backward()
    assert bias.grad.eq(12).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    ("shape", "window", "options"),
    [
        ((1, 4, 8, 8), (3, 3), (1, 1, 1)),
        ((3, 4, 8, 9), (3, 3), (2, 1, 1)),
        ((2, 3, 14, 11), (7, 7), (1, 3, 1)),
        ((2, 3, 14, 11), (4, 5), (2, 2, 1)),
        ((2, 3, 14, 11), (5, 3), (1, 0, 2)),
        ((2, 3, 15, 12), (3, 5), (3, 2, 2)),
        ((1, 1, 9, 9), (5, 5), (1, 2, 1)),
        ((2, 3, 7, 8), (3, 3), ((1, 2), (0, 1), 1)),
        ((1, 3, 70, 70), (5, 5), (1, 2, 1)),
        ((2, 64, 20, 21), (3, 3), (1, 1, 1)),
    ],
)
@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.usefixtures("without_tf32")  # some of the gradients are torch's
def test_weights_of_depthwise_layers(device, dtype, layout, shape, window, options, multiplier):
    """Torch's convolution of the image or ours with the gradient as its window, whichever is the faster."""
    channels = shape[1]
    image = make_image(shape, dtype, device=device).to(memory_format=layout)
    weight = make_window((channels * multiplier, 1, *window), dtype, device=device)
    exact = [image.double(), weight.double()]
    wanted = make_image(F.conv2d(*exact, None, *options, channels).shape, dtype, device=device)
    expected = steps(F.conv2d, *exact, wanted.double(), *options, channels)
    found = [
        steps(lambda *a: torch_conv.conv2d(*a, algorithm="ours"), image, weight, wanted, *options, channels)
        for _ in range(2)
    ]
    for got, again, right in zip(*found, expected, strict=True):
        assert torch.equal(got, again) and got.dtype == dtype
        error = (got.double() - right).abs().max() / right.abs().max()
        assert error <= 32 * torch.finfo(dtype).eps


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_weights_of_extended_images(device, mode):
    image, weight = make_image((2, 3, 8, 9), device=device), make_window((3, 1, 5, 5), device=device)
    wanted = make_image((2, 3, 8, 9), device=device)
    found = steps(
        lambda *a: torch_conv.conv2d(*a, padding_mode=mode, algorithm="ours"), image, weight, wanted, 1, 2, 1, 3
    )
    by_torch = steps(
        lambda x, w, b, *o: F.conv2d(F.pad(x, [2] * 4, mode), w, b, 1, 0, 1, 3),
        image.double(), weight.double(), wanted.double(),
    )  # fmt: skip
    for got, right in zip(found, by_torch, strict=True):
        torch.testing.assert_close(got.double(), right, rtol=1e-5, atol=1e-5)


@pytest.mark.cuda
def test_a_strided_layer_in_a_cuda_graph(cuda, monkeypatch):
    """The image's gradient is torch's there, and a search of kernels, which clocks them, would end the capture."""
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    image = make_image((3, 34, 22, 46), device=cuda)  # too small for ours but where a stream captures
    weight, grad = make_window((34, 1, 3, 3), device=cuda), make_image((3, 34, 11, 23), device=cuda)
    call = (torch_conv.conv2d, image, weight, grad, 2, 1, 1, 34)
    expected = steps(F.conv2d, *call[1:])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = steps(*call)
    graph.replay()
    for got, by_torch in zip(found, expected, strict=True):
        torch.testing.assert_close(got, by_torch, rtol=1e-4, atol=1e-4)
    assert torch.backends.cudnn.benchmark
