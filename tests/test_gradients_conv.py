"""Gradients of convolutions in all arguments: layers in training, strides, saved tensors, causal ones."""

import pytest
import torch
import torch.nn.functional as F
from strategies import make_image, make_window
from torch.autograd import gradcheck, gradgradcheck

import torch_conv

CHANNELS = [(3, 3, 3), (2, 4, 2), (4, 6, 2), (1, 3, 1), (2, 3, 1)]  # in, out, groups
STEPS = [  # stride, padding, dilation
    (1, 1, 1),
    (2, 1, 1),
    (1, "same", 1),
    (1, 0, 2),
    (1, 4, 1),  # more than the window's radius
]


def given_of(axes, channels, device, dtype=torch.float64):
    c_in, c_out, groups = channels
    image = make_image((2, c_in, *(5, 6, 5)[:axes]), dtype, device=device)
    weight = make_window((c_out, c_in // groups, *(3, 2, 3)[:axes]), dtype, device=device)
    return [t.requires_grad_() for t in (image, weight, make_window((c_out,), dtype, device=device))]


@pytest.mark.filterwarnings("ignore:Using padding=")
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_convolutions(device, axes, channels, mode):
    conv = getattr(torch_conv, f"conv{axes}d")
    given = given_of(axes, channels, device)
    for stride, padding, dilation in STEPS:
        options = {"groups": channels[2], "padding_mode": mode, "algorithm": "ours"}
        assert gradcheck(
            lambda *t, s=stride, p=padding, d=dilation, o=options: conv(*t, s, p, d, **o), given, fast_mode=True
        )
    options = {"padding": 1, "groups": channels[2], "padding_mode": mode}
    assert gradgradcheck(lambda *t: conv(*t, algorithm="ours", **options), given, fast_mode=True, nondet_tol=1e-10)
    assert gradcheck(lambda *t: conv(*t, **options), given, fast_mode=True, nondet_tol=1e-10)  # torch's own


@pytest.mark.parametrize("activation", ["relu", "relu6", "gelu", "silu", "hardswish"])
def test_activations(device, activation):
    given = given_of(2, CHANNELS[0], device)
    for algorithm in ("auto", "ours"):
        options = {"padding": 1, "groups": 3, "activation": activation, "algorithm": algorithm}
        assert gradcheck(lambda *t, o=options: torch_conv.conv2d(*t, **o), given, fast_mode=True)
    operator = torch.ops.torch_conv.conv2d
    assert gradcheck(lambda *t: operator(*t, padding=1, groups=3, activation=activation), given, fast_mode=True)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("k, stride", [(3, 1), (7, 1), (5, 2)])
def test_gradients_agree_with_torch(device, dtype, memory_format, k, stride):
    """A layer of a network: the same gradients as F.conv2d's, in the same memory format."""
    image = make_image((2, 32, 14, 14), dtype, device=device).to(memory_format=memory_format)
    weight = make_window((32, 1, k, k), dtype, device=device)
    bias = make_window((32,), dtype, device=device)
    exact = [t.double().requires_grad_() for t in (image, weight, bias)]
    given = [t.requires_grad_() for t in (image, weight, bias)]
    result = torch_conv.conv2d(*given, stride, k // 2, groups=32)
    wanted = make_image(tuple(result.shape), dtype, device=device)
    result.backward(wanted)
    F.conv2d(*exact, stride, k // 2, groups=32).backward(wanted.double())
    for got, expected, roundings in zip(given, exact, (4, 32, 32), strict=True):  # weights and biases sum all pixels
        error = (got.grad.double() - expected.grad).abs().max() / expected.grad.abs().max()
        assert error <= roundings * torch.finfo(dtype).eps
    assert image.grad.is_contiguous(memory_format=memory_format)


def test_explain_says_who_serves_a_call_that_wants_a_gradient(device):
    given = [t.detach().float() for t in given_of(2, CHANNELS[0], device)]
    given[0].requires_grad_()
    plan = str(torch_conv.explain(torch_conv.conv2d, *given, padding=1, groups=3))
    assert (
        plan == "conv2d: handed to torch: a gradient is wanted, and torch's forward and backward together are as fast"
    )
    if device == "cuda":  # a layer of a network
        weight = torch.empty(96, 1, 7, 7, device=device)
        for memory_format in (torch.contiguous_format, torch.channels_last):
            image = torch.empty(64, 96, 56, 56, device=device).to(memory_format=memory_format).requires_grad_()
            assert "depthwise/" in str(torch_conv.explain(torch_conv.conv2d, image, weight, padding=3, groups=96))


@pytest.mark.cuda
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_layer_in_training(cuda, dtype, memory_format):
    """64x96x56x56 7x7, as ConvNeXt has it: the same bits each time, within a few roundings of float64's."""
    shape = (64, 96, 56, 56)
    made = [torch.randn(shape), torch.randn(96, 1, 7, 7), torch.randn(96), torch.randn(shape)]
    image, weight, bias, wanted = (t.to(cuda, dtype) for t in made)
    image, wanted = (t.to(memory_format=memory_format) for t in (image, wanted))

    def step(conv, dtype=dtype):
        given = [t.to(dtype).requires_grad_() for t in (image.clone(), weight.clone(), bias.clone())]
        return torch.autograd.grad(conv(*given, padding=3, groups=96), given, wanted.to(dtype))

    exact = step(F.conv2d, torch.float64)
    for ours, again, right in zip(step(torch_conv.conv2d), step(torch_conv.conv2d), exact, strict=True):
        assert torch.equal(ours, again)
        error = (ours.double() - right).abs().max() / right.abs().max()
        assert error <= 8 * torch.finfo(torch.float32).eps + torch.finfo(dtype).eps / 2


@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("k", [1, 2, 4, 7])
def test_causal(device, activation, k):
    x = make_image((2, 3, 7), torch.float64, device=device).requires_grad_()
    weight = make_window((3, k), torch.float64, device=device).requires_grad_()
    bias = make_window((3,), torch.float64, device=device).requires_grad_()
    before = make_image((2, 3, k - 1), torch.float64, device=device).requires_grad_()
    numbers = torch.tensor([[0, 0, 1, 1, 1, 2, 2], [3, 3, 3, -1, 4, 4, 4]], dtype=torch.int32, device=device)

    def plain(x, weight, bias):
        return torch_conv.causal_conv1d(x, weight, bias, activation=activation)

    def packed(x, weight, bias):
        return torch_conv.causal_conv1d(x, weight, bias, seq_idx=numbers, activation=activation)

    def continued(x, weight, before):
        return torch_conv.causal_conv1d(
            x, weight, None, initial_states=before, return_final_states=True, activation=activation
        )

    for call, given in ((plain, (x, weight, bias)), (packed, (x, weight, bias)), (continued, (x, weight, before))):
        if k == 1 and call is continued:
            continue  # no states
        assert gradcheck(call, given, fast_mode=True)
        assert gradgradcheck(call, given, fast_mode=True)


def test_causal_states_alone(device):
    x = make_image((2, 3, 7), torch.float64, device=device).requires_grad_()
    weight = make_window((3, 4), torch.float64, device=device)
    assert gradcheck(lambda x: torch_conv.causal_conv1d(x, weight, return_final_states=True)[1], (x,), fast_mode=True)


@pytest.mark.parametrize("shape", [(2, 3, 0), (0, 3, 5)])
def test_causal_of_nothing(device, shape):
    x = torch.ones(shape, device=device, requires_grad=True)
    weight = make_window((3, 4), device=device).requires_grad_()
    before = torch.ones(shape[0], 3, 3, device=device, requires_grad=True)
    out, states = torch_conv.causal_conv1d(x, weight, initial_states=before, return_final_states=True)
    (out.sum() + 2 * states.sum()).backward()
    assert x.grad.shape == x.shape and not weight.grad.any()
    assert before.grad.eq(2).all()


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
