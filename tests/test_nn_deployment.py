"""Modules and models where PyTorch takes them: compiled for all sizes, exported, packaged, traced, run in parallel."""

import copy
import io
import pickle
import shutil
import tempfile
from pathlib import Path

import processes
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from conftest import ROOT  # noqa: F401 (the processes that are started here find the package by it)
from nn_cases import MODULES
from strategies import make_image, make_window
from tolerance import assert_same_bits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import torch_conv
from torch_conv import nn as tnn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

# Batches too; on either side of where the CPU hands 3x3, 5x5 and 7x7 depthwise layers to torch.
SIZES = [(2, 20, 24), (3, 28, 36), (5, 70, 65), (4, 130, 40), (2, 33, 240)]
OF_SAMPLES = [name for name in MODULES if "of samples" in name]  # their batch is their window's


class Block(nn.Module):
    """Layers of models: convolutions, depthwise ones of several windows, filters with and without weights."""

    def __init__(self):
        super().__init__()
        self.widen = nn.Conv2d(3, 8, 1)
        self.small = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.strided = nn.Conv2d(8, 8, 5, stride=2, padding=2, groups=8)
        self.large = nn.Conv2d(8, 8, 7, padding="same", groups=8, padding_mode="reflect", bias=False)
        self.learned = tnn.Filter2d(nn.Parameter(make_window((3, 3)) / 9), "reflect")
        self.blur = tnn.GaussianBlur2d(5, 1.5)

    def forward(self, x):
        x = self.strided(torch.relu(self.small(self.widen(x))))
        return self.blur(self.learned(torch.relu(self.large(x))))


def replaced(device="cpu"):
    torch.manual_seed(0)
    model = Block().to(device)
    assert tnn.replace_depthwise(model) == ["small", "strided", "large"]
    return model


def images_of(shape, sizes=SIZES, device="cpu"):
    """Images, or volumes of the same planes, of several sizes."""
    for n, *plane in sizes:
        depth = [plane[0] // 4] if len(shape) == 5 else []
        yield make_image((n, shape[1], *depth, *plane), device=device)


def close(got, expected):
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


class Graphs:
    """A backend of torch.compile that counts its graphs."""

    def __init__(self):
        torch._dynamo.reset()
        self.number = 0

    def __call__(self, graph, inputs):
        self.number += 1
        return graph.forward


# torch.compile


@pytest.mark.parametrize("level", [torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_compiled_for_all_sizes(device, name, level):
    build, _, shape = MODULES[name]
    module, graphs = build().to(device), Graphs()
    compiled = torch.compile(module, fullgraph=True, backend=graphs)
    sizes = [(2, *size[1:]) for size in SIZES] if name in OF_SAMPLES else SIZES
    with level():
        for image in images_of(shape, sizes, device):
            close(compiled(image), module(image))
    assert graphs.number == 2  # for the first size, and for all others


@pytest.mark.parametrize("level", [torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_a_model_is_compiled_for_all_sizes(device, memory_format, level):
    model, graphs = replaced(device).to(memory_format=memory_format), Graphs()
    compiled = torch.compile(model, fullgraph=True, backend=graphs)
    with level():
        for image in images_of((2, 3, 0, 0), device=device):
            image = image.contiguous(memory_format=memory_format)
            close(compiled(image), model(image))
    assert graphs.number == 2


OPTIONS = [
    {"padding": 1},
    {"stride": 2},
    {"padding": "same", "padding_mode": "replicate"},
    {"padding": "same", "padding_mode": "circular"},
    {"padding": 1, "padding_mode": "reflect"},
]


@pytest.mark.parametrize(
    ("axes", "options"),
    [*((2, options) for options in OPTIONS), (1, OPTIONS[1]), (1, OPTIONS[2]), (3, OPTIONS[0]), (3, OPTIONS[3])],
)
def test_a_convolution_is_compiled_for_all_sizes(device, axes, options):
    graphs = Graphs()
    conv = getattr(tnn, f"Conv{axes}d")(32, 32, 3, groups=32, **options).to(device)
    compiled = torch.compile(conv, fullgraph=True, backend=graphs)
    with torch.no_grad():
        for n, h, w in SIZES:
            image = make_image((n, 32, *(6 + n, h, w)[-axes:]), device=device)
            close(compiled(image), conv(image))
    assert graphs.number == 2


def test_training_steps_of_a_compiled_model(device):
    models = [replaced(device), replaced(device)]
    torch._dynamo.reset()
    compiled = torch.compile(models[0], fullgraph=True, backend="aot_eager")
    for image in images_of((2, 3, 0, 0), SIZES[:3], device):
        for model, run in zip(models, (compiled, models[1]), strict=True):
            model.zero_grad()
            run(image).square().mean().backward()
        for ours, eager in zip(*(model.parameters() for model in models), strict=True):
            close(ours.grad, eager.grad)


# torch.export and its programs


def any_size(shape, batch=True):
    sizes = {i + len(shape) - 2: torch.export.Dim(name, min=16) for i, name in enumerate(("height", "width"))}
    return ({0: torch.export.Dim("batch", min=1), **sizes} if batch else sizes,)


@torch.no_grad()
@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_exported_for_any_size(device, name):
    build, _, shape = MODULES[name]
    module, fixed = build().to(device), name in OF_SAMPLES
    image, other = images_of(shape, [(2, 20, 24), (2 if fixed else 1, 20, 70)], device)
    program = torch.export.export(module, (image,), dynamic_shapes=any_size(shape, not fixed))
    close(program.module()(other), module(other))


@torch.no_grad()
def test_a_model_is_exported_saved_and_loaded(device):
    model = replaced(device).eval()
    image, other = images_of((2, 3, 0, 0), [SIZES[0], SIZES[-1]], device)
    program = torch.export.export(model, (image,), dynamic_shapes=any_size(image.shape))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    loaded = torch.export.load(file)
    assert set(loaded.state_dict) == set(model.state_dict())
    for one in (loaded, loaded.run_decompositions()):
        close(one.module()(other), model(other))


def packaged(device, path, model=None):
    """A model as AOTInductor's package, loaded and compared; torch's own if there is no other."""
    with torch.no_grad():
        model = (model or nn.Conv2d(3, 8, 1)).to(device).eval()
        image, *others = images_of((2, 3, 0, 0), SIZES[:3], device)
        program = torch.export.export(model, (image,), dynamic_shapes=any_size(image.shape))
        package = torch._inductor.aoti_compile_and_package(program, package_path=f"{path}/model.pt2")
        run = torch._inductor.aoti_load_package(package)
        for other in others:
            close(run(other), model(other))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="AOTInductor needs a compiler")
def test_a_model_is_packaged(device, tmp_path):
    alone = mp.get_context("spawn").Process(target=packaged, args=(device, tmp_path))
    alone.start()
    alone.join()
    if alone.exitcode != 0:
        pytest.skip("torch cannot load a package of its own here")
    packaged(device, tmp_path, replaced(device))


@torch.no_grad()
def test_a_model_is_scripted_frozen_and_loaded(device):
    model = replaced(device).eval()
    file = io.BytesIO()
    torch.jit.save(torch.jit.freeze(torch.jit.script(model)), file)
    file.seek(0)
    loaded = torch.jit.load(file)
    for image in images_of((2, 3, 0, 0), device=device):
        close(loaded(image), model(image))


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_traced_by_fx(name):
    build, function, shape = MODULES[name]
    traced = torch.fx.symbolic_trace(nn.Sequential(build()))
    for one in (traced, copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        assert_same_bits(one(make_image(shape)), function(make_image(shape)))


def test_a_model_is_traced_by_fx(device):
    """The model before its layers are replaced."""
    model = replaced(device)
    traced = torch.fx.symbolic_trace(model)
    assert {node.target for node in traced.graph.nodes if node.op == "call_function"} >= {torch_conv.conv2d}
    for image in images_of((2, 3, 0, 0), SIZES[:2], device):
        close(traced(image), model(image))


# Where modules are built and kept


@pytest.mark.parametrize("name", [name for name in MODULES if not name.startswith("Filter")])  # which get a window
def test_a_module_is_built_on_meta_and_on_fakes(name):
    build, function, shape = MODULES[name]
    with torch.device("meta"):
        result = build().to("meta")(torch.empty(shape))
    expected = function(make_image(shape))  # no cache keeps a window on meta
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        fake = build()(torch.empty(shape))
    for got in (result, fake):
        assert (got.shape, got.dtype, got.stride()) == (expected.shape, expected.dtype, expected.stride())
    assert_same_bits(build()(make_image(shape)), expected)


@pytest.mark.parametrize("name", torch_conv.functional.__all__)
def test_functions_are_pickled_and_copied(name):
    """The transform of a data set must be picklable, and functions are such transforms."""
    function = getattr(torch_conv, name)
    assert pickle.loads(pickle.dumps(function)) is copy.deepcopy(function) is function


@pytest.mark.parametrize("name", MODULES)
def test_autocast_leaves_filters_alone(device, name):
    build, function, shape = MODULES[name]
    image = make_image(shape, device=device)
    for dtype in (torch.float32, torch.bfloat16):
        expected = function(image.to(dtype))
        with torch.autocast(device, torch.bfloat16):
            assert_same_bits(build().to(device)(image.to(dtype)), expected)


def test_a_model_under_autocast(device):
    model, image = replaced(device), make_image((2, 3, 20, 24), device=device)
    expected = model(image)
    with torch.autocast(device, torch.bfloat16):
        got = model(image)
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), expected, rtol=0.1, atol=0.02)
    got.float().square().mean().backward()
    grads = [parameter.grad for parameter in model.parameters()]
    assert all(grad.dtype == torch.float32 and grad.any() for grad in grads)


# Several processes


def gradients(model, images, run=None):
    """The gradients of the mean over all images."""
    (run or model)(images).square().mean().backward()
    return [parameter.grad for parameter in model.parameters()]


def train(rank, world, device, folder):
    """One process of a data-parallel group: its part of the batch, and the gradients of all of it."""
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(rank)
    backend = "gloo" if device == "cpu" else "nccl"
    dist.init_process_group(backend, f"file://{folder}/meet", rank=rank, world_size=world)
    here = device if device == "cpu" else f"cuda:{rank}"
    model = replaced(here)
    parallel = DistributedDataParallel(model, device_ids=None if device == "cpu" else [rank])
    batch = make_image((4, 3, 20, 24), device=here)
    grads = gradients(model, batch.chunk(world)[rank], parallel)
    torch.save([grad.cpu() for grad in grads], f"{folder}/{rank}")
    dist.destroy_process_group()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=[pytest.mark.cuda, pytest.mark.multi_gpu])])
def test_data_parallel_gradients_are_those_of_the_whole_batch(device):
    if device == "cuda" and torch.cuda.device_count() < 2:
        pytest.skip("fewer than 2 GPUs")
    expected = gradients(replaced(device), make_image((4, 3, 20, 24), device=device))
    with tempfile.TemporaryDirectory() as folder:
        method = processes.context(device).get_start_method()
        mp.start_processes(train, (2, device, folder), nprocs=2, start_method=method)
        found = [torch.load(Path(folder, str(rank))) for rank in range(2)]
    for grads in found:
        for got, whole in zip(grads, expected, strict=True):
            torch.testing.assert_close(got, whole.cpu(), rtol=1e-4, atol=1e-6)


# CUDA graphs


@pytest.mark.cuda
def test_training_steps_as_a_cuda_graph(cuda):
    image = make_image((2, 3, 20, 24), device=cuda)
    model = replaced(cuda)
    graphed = torch.cuda.make_graphed_callables(replaced(cuda), (image.clone(),))
    for seed in (1, 2):
        other = make_image((2, 3, 20, 24), seed=seed, device=cuda)
        for one in (model, graphed):
            one.zero_grad()
            one(other).square().mean().backward()
        for ours, eager in zip(graphed.parameters(), model.parameters(), strict=True):
            close(ours.grad, eager.grad)


@pytest.mark.cuda
@pytest.mark.slow
@torch.no_grad()
def test_compiled_with_cuda_graphs(cuda):
    model = replaced(cuda).eval()
    model.blur = nn.Identity()  # its window is on the CPU, where torch's graphs cannot read it
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, mode="reduce-overhead")
    for seed in range(4):  # warm up, record, replay
        image = make_image((2, 3, 20, 24), seed=seed, device=cuda)
        close(compiled(image), model(image))
