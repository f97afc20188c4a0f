"""The kernel of depthwise convolutions' gradients in weight and bias, and which plans deal its work out."""

import re

import pytest
import torch
import torch.nn.functional as F
from tolerance import assert_same_bits
from torch._subclasses import FakeTensorMode

import torch_conv
from torch_conv.dispatch.query import answer_text

ours = torch.ops.torch_conv._weight_gradient


def explain(*args, **kwargs):
    return answer_text(torch.ops.torch_conv._weight_gradient_query("explain", *args, **kwargs))


# image (N, C, H, W), outputs a channel, window, stride, padding
IMAGES = [
    ((2, 5, 9, 11), 1, (3, 3), (1, 1), (1, 1)),
    ((3, 40, 14, 14), 1, (7, 7), (1, 1), (3, 3)),
    ((2, 33, 16, 24), 1, (7, 7), (1, 1), (3, 3)),
    ((2, 4, 56, 56), 1, (5, 5), (1, 1), (2, 2)),
    ((2, 6, 17, 33), 2, (3, 5), (1, 1), (0, 4)),
    ((2, 8, 20, 32), 1, (7, 7), (2, 2), (3, 3)),
    ((2, 8, 21, 30), 1, (3, 3), (2, 1), (1, 1)),
    ((1, 3, 40, 40), 1, (31, 31), (1, 1), (15, 15)),
    ((2, 3, 24, 32), 1, (13, 13), (1, 1), (6, 6)),
    ((2, 3, 12, 40), 1, (2, 32), (1, 1), (1, 31)),
    ((2, 3, 40, 12), 1, (33, 1), (3, 3), (32, 0)),
    ((2, 4, 8, 8), 1, (4, 6), (4, 4), (2, 3)),
    ((70, 2, 1, 1), 1, (3, 3), (1, 1), (1, 1)),
    ((1, 64, 7, 7), 1, (7, 7), (1, 1), (6, 6)),
    ((1, 2, 130, 70), 1, (1, 1), (1, 1), (0, 0)),
]
SIGNALS = [
    ((3, 40, 100), 1, (4,), (1,), (3,)),
    ((2, 5, 257), 2, (31,), (2,), (15,)),
    ((2, 64, 64), 1, (3,), (1,), (1,)),
]
FORMATS = {"planes": lambda t: t.contiguous(), "channels": lambda t: t.movedim(1, -1).contiguous().movedim(-1, 1)}
SUMS = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}  # of sums; of one rounding


def operands(case, dtype, layout, device):
    shape, multiplier, kernel, stride, padding = case
    make = torch.Generator().manual_seed(len(shape) * sum(shape))
    sizes = [(n + 2 * p - k) // s + 1 for n, k, s, p in zip(shape[2:], kernel, stride, padding, strict=True)]
    x = torch.randn(shape, generator=make).to(device, dtype)
    grad = torch.randn((shape[0], shape[1] * multiplier, *sizes), generator=make).to(device, dtype)
    return FORMATS[layout](x), FORMATS[layout](grad), kernel, stride, padding


def by_torch(x, grad, kernel, stride, padding):
    """The gradient in float64, and the sum of all terms' magnitudes, which bounds the rounding errors."""
    conv = {3: F.conv1d, 4: F.conv2d}[x.dim()]

    def gradient(x, grad):
        weight = torch.zeros(grad.shape[1], 1, *kernel, dtype=torch.float64, device=x.device, requires_grad=True)
        y = conv(x.double().contiguous(), weight, None, stride, padding, 1, x.shape[1])
        return torch.autograd.grad(y, weight, grad.double().contiguous())[0]

    over = [0, *range(2, grad.dim())]
    exact = gradient(x, grad), grad.double().sum(over)
    return exact, (gradient(x.abs(), grad.abs()), grad.double().abs().sum(over))


def check_gradients(made, x, grad, kernel, stride, padding):
    exact, bounds = by_torch(x, grad, kernel, stride, padding)
    assert len(made) == 2
    for found, wanted, bound in zip(made, exact, bounds, strict=True):
        assert found.shape == wanted.shape and found.dtype == x.dtype and found.is_contiguous()
        error = (found.double() - wanted).abs()
        assert (error <= 1e-6 * bound + SUMS[x.dtype] * wanted.abs() + 1e-7).all(), error.max()


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", SUMS)
@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("case", IMAGES + SIGNALS, ids=lambda case: "x".join(map(str, (*case[0], *case[2]))))
def test_against_float64(cuda, pinned, case, layout, dtype):
    given = operands(case, dtype, layout, cuda)
    made = ours(*given)
    check_gradients(made, *given)
    for general, streaming in zip(pinned("general", lambda: ours(*given)), made, strict=True):
        assert_same_bits(general, streaming)
    assert all(torch.equal(a, b) for a, b in zip(made, ours(*given), strict=True))  # by its steps, the same order


@pytest.mark.cuda
def test_any_layout(cuda):
    x, grad, *options = operands(IMAGES[2], torch.float32, "planes", cuda)
    wanted = ours(x, grad, *options)
    other = FORMATS["channels"](grad)
    assert all(torch.equal(a, b) for a, b in zip(ours(x, other, *options), wanted, strict=True))
    expanded = torch.ones((), device=cuda).expand(grad.shape)
    check_gradients(ours(x, expanded, *options), x, expanded, *options)
    channels = FORMATS["channels"](x)
    check_gradients(ours(channels, expanded, *options), channels, expanded, *options)
    wide = torch.randn(2, 33, 16, 31, device=cuda)
    crop = wide[..., 3:27]  # rows that start on no vector
    check_gradients(ours(crop, grad, *options), crop, grad, *options)
    rows = torch.randn(16, 33, 2, 24, device=cuda).permute(2, 1, 0, 3)
    check_gradients(ours(rows, grad, *options), rows, grad, *options)


@pytest.mark.cuda
@pytest.mark.parametrize("layout", FORMATS)
def test_fewer_outputs(cuda, layout):
    """Padding before an image alone: the last outputs of the padded one are not there."""
    x, grad, *options = operands(IMAGES[1], torch.float32, layout, cuda)
    whole = grad.clone()
    whole[:, :, -2:] = 0
    whole[..., -3:] = 0
    for found, wanted in zip(ours(x, grad[..., :-2, :-3], *options), ours(x, whole, *options), strict=True):
        torch.testing.assert_close(found, wanted)


@pytest.mark.cuda
@pytest.mark.parametrize("layout", FORMATS)
def test_not_finite(cuda, pinned, layout):
    """A NaN or infinity changes the taps that read it, and no others."""
    for case in (IMAGES[2], IMAGES[1]):
        x, grad, *options = operands(case, torch.float32, layout, cuda)
        x[0, 3, 0, 0] = x[-1, 1, -1, -1] = torch.inf
        weight, bias = ours(x, grad, *options)
        (exact, _), _ = by_torch(x.cpu(), grad.cpu(), *options)  # torch's own there keeps them apart
        assert torch.equal(torch.isfinite(weight).cpu(), torch.isfinite(exact)) and not torch.isfinite(exact).all()
        assert_same_bits(pinned("general", lambda given=(x, grad, *options): ours(*given))[0], weight)
        assert torch.isfinite(bias).all()


@pytest.mark.cuda
def test_left_to_torch(cuda):
    x, grad, *options = operands(IMAGES[0], torch.float64, "planes", cuda)
    assert ours(x, grad, *options) == []
    assert ours(x.float()[:0], grad.float()[:0], *options) == []


def test_left_to_torch_on_the_cpu():
    assert ours(*operands(IMAGES[0], torch.float32, "planes", "cpu")) == []


@pytest.mark.parametrize("case", [IMAGES[4], SIGNALS[1]], ids=["image", "signal"])
def test_ours_or_torch(device, case):
    """Compiled code calls torch's gradients where our kernels make none, and a fake that knows their shapes."""
    given = operands(case, torch.float32, "planes", device)
    ours_or_torch = torch.ops.torch_conv._weight_gradient_or_torch
    check_gradients(ours_or_torch(*given), *given)
    with FakeTensorMode() as mode:
        fakes = ours_or_torch(*(mode.from_tensor(t) for t in given[:2]), *given[2:])
    for fake, made in zip(fakes, ours_or_torch(*given), strict=True):
        assert fake.shape == made.shape and fake.dtype == made.dtype and fake.device == made.device


@pytest.mark.parametrize("name", ["_weight_gradient_or_torch", "_weight_gradient"])
def test_no_second_derivative(device, name):
    """The second derivative is composed of other operators; the operators themselves refuse it."""
    x, grad, *options = operands(IMAGES[0], torch.float32, "planes", device)
    made = getattr(torch.ops.torch_conv, name)(x, grad.requires_grad_(), *options)
    if len(made):
        with pytest.raises(RuntimeError, match=f"^{name}: backward is not implemented yet"):
            made[0].sum().backward()


@pytest.mark.cuda
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_compiled_layer(cuda, memory_format):
    """A compiled step of training runs on our kernels, forward and both gradients."""
    layer = torch_conv.nn.Conv2d(16, 16, 7, padding=3, groups=16).to(cuda)
    image = torch.randn(4, 16, 20, 20, device=cuda).to(memory_format=memory_format).requires_grad_()

    def step(model):
        return torch.autograd.grad(model(image).square().sum(), [image, layer.weight, layer.bias])

    with torch.profiler.profile() as profile:
        found = step(torch.compile(layer, fullgraph=True))
        torch.cuda.synchronize()
    kernels = " ".join(event.key for event in profile.key_averages())
    assert "weight_gradient_streaming" in kernels and "cudnn" not in kernels, kernels
    for ours, theirs in zip(found, step(by_torch_layer(layer)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3)


def by_torch_layer(layer):
    return lambda image: F.conv2d(image, layer.weight, layer.bias, padding=3, groups=16)


@pytest.mark.parametrize(
    ("case", "layout", "dtype", "says"),
    [
        (((64, 96, 56, 56), 1, (7, 7), (1, 1), (3, 3)), "planes", torch.float16, "480 blocks of 128"),
        (((64, 96, 56, 56), 1, (7, 7), (1, 1), (3, 3)), "planes", torch.float32, "384 blocks of 128"),
        (((64, 96, 56, 56), 1, (7, 7), (1, 1), (3, 3)), "channels", torch.float16, "396 blocks of 128"),
        (((1, 96, 56, 56), 1, (3, 3), (1, 1), (1, 1)), "planes", torch.float64, "left to torch: no float32"),
        (((1, 2, 80, 80), 1, (3, 33), (1, 1), (1, 1)), "planes", torch.float32, "left to torch: more than 32 taps"),
        (((1, 2, 80, 80), 1, (3, 3), (5, 5), (1, 1)), "planes", torch.float32, "left to torch: a stride beyond 4"),
        (((1, 2, 80, 80), 1, (3, 3), (1, 1), (3, 3)), "planes", torch.float32, "left to torch: padding beyond"),
    ],
)
def test_plans(monkeypatch, case, layout, dtype, says):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", "9.0 132 232448 4.8e12")
    assert says in explain(*operands(case, dtype, layout, "cpu"))


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("dtype", SUMS)
def test_the_general_variant_has_one_kernel(monkeypatch, layout, dtype):
    """One kernel for all windows and strides, with the grid and the scratch of the other variant."""
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", "9.0 132 232448 4.8e12")
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_KERNELS", "1")
    kernels = set()
    for case in IMAGES:
        given = operands(case, dtype, layout, "cpu")
        scratch = [re.search(r"scratch \d+ B", explain(*given))[0]]
        with monkeypatch.context() as pinned:
            pinned.setenv("TORCH_CONV_VARIANT", "general")
            line = explain(*given)
        scratch.append(re.search(r"scratch \d+ B", line)[0])
        kernels.add(tuple(line.split("; kernel ")[1:]))
        assert "weight_gradient/general (any window" in line and scratch[0] == scratch[1]
    ((sums, finish),) = kernels
    assert sums.startswith("weight_gradient::weight_gradient_general<") and "weight_gradient_finish<" in finish


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"grad": torch.ones(1, 2, 5, 6)},
            "grad must not be larger than the convolution's outputs, got shape (1, 2, 5, 6)",
        ),
        ({"grad": torch.ones(1, 3, 5, 5)}, "grad must have the input's samples and a multiple of its channels"),
        ({"grad": torch.ones(1, 2, 5, 5).double()}, "grad must have the input's dtype float32, got float64"),
        ({"stride": [0, 1]}, "stride must be at least 1, got 0"),
    ],
)
def test_refused(monkeypatch, change, sentence):
    monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", "9.0 132 232448 4.8e12")
    given = {"input": torch.ones(1, 2, 5, 5), "grad": torch.ones(1, 2, 5, 5), "kernel_size": [3, 3]}
    given |= {"stride": [1, 1], "padding": [1, 1]} | change
    with pytest.raises(RuntimeError) as refused:
        explain(**given)
    assert str(refused.value).splitlines()[0] == f"_weight_gradient: {sentence}"
