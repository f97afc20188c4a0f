"""torch_conv.nn: the filters' modules agree with their functions and kornia's modules; copies, pickles and threads."""

import copy
import doctest
import importlib
import inspect
import io
import multiprocessing
import pickle
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from nn_cases import FUNCTIONS, IMAGE, MODULES, SIGMAS
from strategies import make_image, make_window
from tolerance import assert_same_bits, assert_within

import torch_conv
from torch_conv import nn as tnn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")


@pytest.fixture(params=MODULES)
def case(request, device):
    """A module on the device, an image, and the function's result."""
    build, function, shape = MODULES[request.param]
    image = make_image(shape, device=device)
    return build().to(device), image, function(image)


def test_is_the_function(case):
    module, image, expected = case
    assert_same_bits(module(image), expected)
    shown = eval(repr(module), {type(module).__name__: lambda **options: options, "torch": torch})
    assert all(getattr(module, name) == value for name, value in shown.items() if name not in ("kernel", "sigma"))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_reaches_the_function(monkeypatch, name):
    """Under its own name, and none of the function's is left out but `out`."""
    calls, kind = [], getattr(tnn, name)
    signature = inspect.signature(getattr(torch_conv, FUNCTIONS[name]))
    monkeypatch.setattr(inspect.getmodule(kind), FUNCTIONS[name], lambda *args, **kw: calls.append((args, kw)))
    ours = inspect.signature(kind).parameters
    assert all(parameter.default == signature.parameters[p].default for p, parameter in ours.items())
    given = {parameter: f"<{parameter}>" for parameter in ours}
    given |= {"kernel": torch.ones(3, 3, 3)} if "kernel" in given else {}
    kind(**given)(torch.ones(1))
    tried, called = (signature.bind(*args, **kw).arguments for args, kw in calls)
    assert called.pop("input").numel() == 1
    assert called == given
    assert set(signature.parameters) == {*given, "input", "out"}
    assert (tried["algorithm"], tried["input"].numel()) == ("auto", 0)


def test_scripted_saved_and_loaded(case):
    module, image, expected = case
    scripted = torch.jit.script(module)
    assert_same_bits(scripted(image), expected)
    file = io.BytesIO()
    torch.jit.save(scripted, file)
    file.seek(0)
    assert_same_bits(torch.jit.load(file)(image), expected)


def test_compiled_and_exported(case):
    module, image, expected = case
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(module, fullgraph=True, backend="aot_eager")(image), expected)
    with torch.no_grad():
        program = torch.export.export(module, (image,))
    torch.testing.assert_close(program.module()(image), expected)
    assert set(program.state_dict) == set(module.state_dict())


def test_copied_and_pickled(case):
    module, image, expected = case
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert_same_bits(other(image), expected)
        assert repr(other) == repr(module)
        assert not {t.data_ptr() for t in other.buffers()} & {t.data_ptr() for t in module.buffers()}


def test_on_meta_and_back(case):
    module, image, expected = case
    other = copy.deepcopy(module).to("meta")
    shape = other(image.to("meta"))
    assert (shape.shape, shape.dtype, shape.device.type) == (expected.shape, expected.dtype, "meta")
    assert shape.stride() == expected.stride()
    other.to_empty(device=image.device)
    for name, values in module.named_buffers():
        other.get_buffer(name).copy_(values)
    assert_same_bits(other(image), expected)


@pytest.mark.parametrize("name", MODULES)
def test_of_shards(name):
    build, function, shape = MODULES[name]
    image = make_image(shape)
    assert_same_bits(build()(torch_conv.split(image, ["cpu"] * 3)).gather(), function(image))


# The L1 norm of the windows bounds the factor of rounding errors on images in [-1, 1].
KORNIA = {
    "GaussianBlur2d": (((3, 5), (1.0, 1.5)), {}, "separable", (3, 5), 1),
    "GaussianBlur2d, of samples": ((5, SIGMAS, "circular", False), {}, "direct", (5, 5), 1),
    "BoxBlur": (((3, 5), "replicate"), {}, "box", (3, 5), 1),
    "Sobel": ((), {}, "composed", (3, 3), 2),
    "Sobel, raw": ((False, 1e-3), {}, "composed", (3, 3), 16),
    "SpatialGradient": ((), {}, "composed", (3, 3), 1),
    "SpatialGradient, order 2": (("sobel", 2), {}, "composed", (5, 5), 4),
    "SpatialGradient, diff": ((), {"mode": "diff", "normalized": False}, "composed", (3, 3), 2),
    "Laplacian": ((5, "constant"), {}, "direct", (5, 5), 1),
    "UnsharpMask": (((3, 3), (1.5, 1.5)), {}, "separable", (3, 3), 3),
    "UnsharpMask, large": (((9, 11), (2.0, 1.5), "constant"), {}, "separable", (9, 11), 3),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("name", KORNIA)
def test_witness_kornia(device, name, dtype):
    kornia = pytest.importorskip("kornia")
    args, options, algorithm, window, gain = KORNIA[name]
    image = make_image(IMAGE).tanh().to(dtype)
    kind = name.split(",")[0]
    exact = getattr(kornia.filters, kind)(*args, **options)(image.double())
    got = getattr(tnn, kind)(*args, **options).to(device)(image.to(device))
    assert got.dtype == dtype
    scale = torch.full_like(exact, gain)
    assert_within(got, exact, scale, in_dtype=dtype, algorithm=algorithm, window=window)


@pytest.mark.parametrize("name", sorted({name.split(",")[0] for name in KORNIA}))
def test_arguments_and_state_are_kornias(name):
    kornia = pytest.importorskip("kornia")
    theirs = inspect.signature(getattr(kornia.filters, name)).parameters.values()
    ours = inspect.signature(getattr(tnn, name)).parameters.values()
    positional = [p for p in ours if p.kind is not p.KEYWORD_ONLY]
    required = [(p.name, p.empty if p.name in ("kernel_size", "sigma") else p.default) for p in positional]
    assert required == [(p.name, p.default) for p in theirs]
    args = KORNIA[name][0]
    module, other = getattr(tnn, name)(*args), getattr(kornia.filters, name)(*args)
    module.load_state_dict(other.state_dict(), strict=True)
    other.load_state_dict(module.state_dict(), strict=True)


def test_windows_are_buffers_or_parameters():
    kernel = make_window((3, 3))
    module = tnn.Filter2d(kernel)
    assert dict(module.named_buffers())["kernel"] is kernel
    assert list(module.parameters()) == []
    other = tnn.Filter2d(torch.zeros(3, 3))
    other.load_state_dict(module.state_dict())
    assert_same_bits(other.kernel, kernel)
    learned = torch.nn.Parameter(kernel)
    assert list(tnn.Filter2d(learned).parameters()) == [learned]
    assert list(tnn.Filter3d(torch.nn.Parameter(make_window((3, 3, 3)))).state_dict()) == ["kernel"]
    sigma = torch.nn.Parameter(SIGMAS)
    assert list(tnn.GaussianBlur2d(3, sigma).parameters()) == [sigma]
    blur = tnn.GaussianBlur2d(3, SIGMAS)
    assert list(blur.state_dict()) == []
    assert blur.double().sigma.dtype == torch.float64  # it moves with the module


def test_windows_and_sigmas_learn(device):
    image = make_image(IMAGE, device=device)
    module = tnn.Filter2d(torch.nn.Parameter(make_window((3, 3), device=device)), "constant", stride=2)
    theirs = make_window((3, 3), device=device).requires_grad_()
    module(image).square().sum().backward()
    F.conv2d(image, theirs.expand(3, 1, 3, 3), None, 2, 1, groups=3).square().sum().backward()
    torch.testing.assert_close(module.kernel.grad, theirs.grad, rtol=5e-3, atol=5e-3)

    blur = tnn.GaussianBlur2d(5, torch.nn.Parameter(torch.full((1, 2), 2.0, device=device)))
    target = torch_conv.gaussian_blur2d(image, 5, 1.0)
    optimizer = torch.optim.SGD(blur.parameters(), lr=2.0)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        losses.append((blur(image) - target).square().mean())
        losses[-1].backward()
        optimizer.step()
    assert losses[0] > losses[1] > losses[2] > 0


def test_a_float32_window_serves_float16_images_unrounded(device):
    kernel, image = make_window((3, 3)), make_image(IMAGE, torch.float16, device=device)
    assert_same_bits(tnn.Filter2d(kernel)(image), torch_conv.filter2d(image, kernel.to(device)))


class Own(tnn.BoxBlur):
    """A user's subclass: other arguments, and a forward that needs an attribute set after the base class's __init__."""

    def __init__(self, times):
        super().__init__(3)
        self.times = times

    def forward(self, input):
        return super().forward(input) * self.times


def test_derived_classes():
    image = make_image(IMAGE)
    assert_same_bits(Own(2)(image), torch_conv.box_blur(image, 3) * 2)
    assert repr(Own(2)) == "Own(kernel_size=3, border_type='reflect', separable=True)"


@pytest.mark.parametrize(
    ("build", "error", "sentence"),
    [
        (
            lambda: tnn.Filter2d([[1.0]]),
            TypeError,
            r"Filter2d: kernel must be a torch.Tensor, got list; torch.tensor\(",
        ),
        (lambda: tnn.Filter2d(torch.ones(3)), ValueError, "Filter2d: kernel must have 2, 3 or 4 dimensions, got 1"),
        (lambda: tnn.Filter2d(torch.ones(3, 3), anchor=3), ValueError, "Filter2d: anchor must lie in the window"),
        (lambda: tnn.Filter3d(torch.ones(3, 3)), ValueError, "Filter3d: kernel must have 3, 4 or 5 dimensions, got 2"),
        (lambda: tnn.Filter3d(torch.ones(3, 3, 3).to(torch.cfloat)), TypeError, "Filter3d: kernel must have dtype"),
        (lambda: tnn.GaussianBlur2d(4, 1.0), ValueError, r"GaussianBlur2d: kernel_size must be odd .* got \(4, 4\)"),
        (lambda: tnn.GaussianBlur2d(3, -1), ValueError, "GaussianBlur2d: sigma must be finite and greater than 0"),
        (lambda: tnn.GaussianBlur2d(3, SIGMAS * 0), ValueError, "GaussianBlur2d: sigma must be finite and greater"),
        (lambda: tnn.GaussianBlur3d(3, (1.0, 2.0)), ValueError, "GaussianBlur3d: sigma must be one number or three"),
        (lambda: tnn.GaussianBlur3d(3, "wide"), TypeError, "GaussianBlur3d: sigma must be of type float, got str"),
        (lambda: tnn.GaussianBlur2d(), ValueError, "GaussianBlur2d: sigma must be given$"),
        (lambda: tnn.GaussianBlur3d(3), ValueError, "GaussianBlur3d: sigma must be given$"),
        (lambda: tnn.UnsharpMask(amount=2.0), ValueError, "UnsharpMask: sigma must be given$"),
        (
            lambda: tnn.GaussianBlur2d(sigma=SIGMAS),
            ValueError,
            "GaussianBlur2d: kernel_size must be given where sigma is a tensor$",
        ),
        (lambda: tnn.BoxBlur(0), ValueError, "BoxBlur: kernel_size must be at least 1, got 0"),
        (lambda: tnn.BoxBlur(3, padding=1), TypeError, "BoxBlur: padding must be of type str, got int"),
        (lambda: tnn.Sobel(border_type="none"), ValueError, "Sobel: border_type must be 'constant', .* got 'none'"),
        (lambda: tnn.SpatialGradient("roberts"), ValueError, "SpatialGradient: mode must be 'sobel', .* got 'roberts'"),
        (lambda: tnn.Laplacian(1), ValueError, "Laplacian: kernel_size must be odd and at least 3 along one axis"),
        (lambda: tnn.UnsharpMask(3, 1.0, "none"), ValueError, "UnsharpMask: border_type must be 'constant', .*'none'"),
    ],
)
def test_refusals_where_it_is_built(build, error, sentence):
    with pytest.raises(error, match=f"^{sentence}"):
        build()


def test_an_algorithm_is_refused_by_the_call():
    """One that a GPU alone has is no error of the arguments."""
    with pytest.raises(ValueError, match="^gaussian_blur2d: algorithm must be 'auto'"):
        tnn.GaussianBlur2d(3, 1.0, algorithm="none")(make_image(IMAGE))


class Blurred(torch.utils.data.Dataset):
    """A data set with a filter for its transform."""

    def __init__(self):
        self.transform = torch.nn.Sequential(tnn.GaussianBlur2d(5, 1.5), tnn.Sobel(), tnn.Conv2d(3, 3, 3, groups=3))
        self.transform[2].load_state_dict({"weight": make_window((3, 1, 3, 3)), "bias": make_window((3,))})

    def __len__(self):
        return 4

    @torch.no_grad()
    def __getitem__(self, index):
        return self.transform(make_image(IMAGE[1:], seed=index))


@pytest.mark.parametrize("start", [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()])
@pytest.mark.usefixtures("threads")
def test_in_the_workers_of_a_data_loader(device, start):
    """Workers of a parent that has used every kernel before, on several threads or on a GPU."""
    torch.set_num_threads(2)
    data = Blurred()
    copy.deepcopy(data.transform).to(device)(make_image(IMAGE, device=device))
    expected = torch.stack([data[i] for i in range(4)])
    loader = torch.utils.data.DataLoader(data, 2, num_workers=2, multiprocessing_context=start, timeout=120)
    assert_same_bits(torch.cat(list(loader)), expected)


@pytest.mark.cuda
def test_captured_and_replayed(cuda):
    modules = torch.nn.Sequential(
        tnn.Filter2d(make_window((3, 3))),  # the window stays on the CPU
        tnn.GaussianBlur2d(5, SIGMAS.to(cuda)),
        tnn.Sobel(),
        tnn.Conv2d(3, 6, 3, groups=3, activation="silu", device=cuda),
    )
    image = make_image(IMAGE, device=cuda)
    stream = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        modules(image)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            result = modules(image)
        image.copy_(make_image(IMAGE, seed=5))
        graph.replay()
        stream.synchronize()
        assert_same_bits(result, modules(image))


def test_packages_are_imported_when_asked_for():
    """`import torch_conv` stays as quick as it was."""
    script = """
import sys, torch_conv
named = {"torch_conv.nn", "torch_conv.distributed", "torch_conv.compat"}
assert not named & set(sys.modules) and "torch.distributed.tensor" not in sys.modules
assert {name.split(".")[1] for name in named} <= set(dir(torch_conv))
exec("from torch_conv import *")
assert not named & set(sys.modules) and "nn" not in globals() and "filter2d" in globals()
assert torch_conv.nn.Sobel and torch_conv.compat.__doc__ and torch_conv.distributed.halo_exchange
assert named <= set(sys.modules)
try:
    torch_conv.missing
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "module 'torch_conv' has no attribute 'missing'\n"


@pytest.mark.parametrize("name", ["torch_conv.nn", *sorted({getattr(tnn, n).__module__ for n in tnn.__all__})])
def test_examples_in_docstrings(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, extraglobs={"torch": torch}, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", sorted({*tnn.__all__} - {"Replaced"}))  # a result
def test_docstrings_are_complete(name):
    parts = ["Args:", "Raises:", "Equivalent to:", "Example:", "Returns:" if name.islower() else "Shape:"]
    assert [part for part in parts if part not in getattr(tnn, name).__doc__] == []


@pytest.mark.parametrize(
    "module",
    [
        tnn.UnsharpMask(3, 1.0, amount=2),
        tnn.GaussianBlur2d(None, 1.0, truncate=3),
        tnn.BoxBlur(3, "constant", value=1),
        tnn.Sobel(True, 1),
    ],
)
def test_scripted_with_integers_for_floats(module):
    image = make_image((1, 2, 12, 11))
    assert torch.equal(torch.jit.script(module)(image), module(image))
