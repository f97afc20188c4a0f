"""Refusals that all functions share: wrong types, devices, leaks, tensors without memory."""

import gc
from pathlib import Path

import numpy as np
import pytest
import torch
from memory_use import heap_bytes, needs_mallinfo
from PIL import Image
from public_calls import FILTERS, calls, filtered
from refusals import ones, refuses
from tolerance import assert_same_bits

import torch_conv

CUBE = ones(3, 3, 3)


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "argument"),
    [
        ("filter2d", ("photo.png", ones(3, 3)), {}, "input"),
        ("filter2d", (ones(4, 5), [[1.0]]), {}, "kernel"),
        ("filter2d", (ones(4, 5), None), {}, "kernel"),
        ("filter2d", (ones(4, 5), ones(3, 3), 5), {}, "border_type"),
        ("filter2d", (ones(4, 5), ones(3, 3)), {"value": "1"}, "value"),
        ("filter2d", (ones(4, 5), ones(3, 3)), {"stride": 1.5}, "stride"),
        ("filter2d_separable", (ones(4, 5), 3, ones(3)), {}, "kernel_x"),
        ("box_blur", (ones(4, 5), "3"), {}, "kernel_size"),
        ("filter3d", (ones(2, 4, 5), [[[1.0]]]), {}, "kernel"),
        ("filter3d", (ones(2, 4, 5), CUBE), {"stride": 1.5}, "stride"),
        ("filter3d", (ones(2, 4, 5), CUBE), {"padding": 1}, "padding"),
        ("filter3d_separable", (ones(2, 4, 5), ones(3), ones(3), 3), {}, "kernel_z"),
        ("box_blur3d", (ones(2, 4, 5), "3"), {}, "kernel_size"),
        ("conv3d", (ones(1, 1, 2, 4, 5), None), {}, "weight"),
        ("gaussian_blur3d", ("volume.npy", 3, 1.0), {}, "input"),
        ("spatial_gradient3d", (3,), {}, "input"),
        ("conv2d", (ones(1, 1, 4, 5), None), {}, "weight"),
        ("filter1d", (ones(4, 5), ones(3)), {"dim": "x"}, "dim"),
    ],
)
def test_wrong_types_from_python(name, args, kwargs, argument):
    with pytest.raises(TypeError) as caught:
        getattr(torch_conv, name)(*args, **kwargs)
    message = str(caught.value)
    assert message.startswith(f"{name}: {argument} must be "), message
    assert "\n" not in message


NO_TENSORS = [
    (lambda tensor: tensor.numpy(), "numpy.ndarray; torch.from_numpy({}) makes one"),
    (
        lambda _: Image.new("RGB", (4, 5)),
        "PIL.Image.Image; torchvision.transforms.v2.functional.pil_to_tensor({}) makes one",
    ),
    (lambda tensor: tensor.tolist(), "list; torch.tensor({}) makes one"),
    (lambda tensor: (tensor, tensor), "tuple; torch.stack({}) makes one"),
    (lambda tensor: memoryview(b""), "memoryview"),
    (lambda _: None, "NoneType"),
]


@pytest.mark.parametrize("name", calls())
@pytest.mark.parametrize(("make", "got"), NO_TENSORS, ids=[got.partition(";")[0] for _, got in NO_TENSORS])
def test_the_refusal_of_no_tensor_names_what_makes_one(name, make, got):
    function, given = getattr(torch_conv, name), calls()[name]
    for argument, tensor in given.items():
        if isinstance(tensor, torch.Tensor):
            wrong = given | {argument: make(tensor)}
            with refuses(TypeError, f"{name}: {argument} must be a torch.Tensor, got {got.format(argument)}"):
                function(**wrong)
            image, *rest = wrong.items()
            with refuses(TypeError, f"{name}: {argument} must be a torch.Tensor, got {got.format(argument)}"):
                function(image[1], **dict(rest))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda x: torch_conv.filter2d(Path("photo.png"), x),
            "filter2d: input must be a torch.Tensor, got PosixPath; torchvision.io.decode_image(input) reads a picture",
        ),
        (
            lambda x: torch_conv.filter2d(x, "sobel_x"),
            "filter2d: kernel must be a torch.Tensor, got str; torch_conv.kernels.named(kernel) makes one",
        ),
        (
            lambda x: torch_conv.filter2d(x, Path("taps.npy")),
            "filter2d: kernel must be a torch.Tensor, got PosixPath",
        ),
        (
            lambda x: torch_conv.sobel(np.zeros((8, 9, 3))),
            "sobel: input must be a torch.Tensor, got numpy.ndarray; torch.from_numpy(input).movedim(-1, -3) makes one",
        ),
        (
            lambda x: torch_conv.sobel(np.zeros((8, 9, 4))[::-1]),
            "sobel: input must be a torch.Tensor, got numpy.ndarray; "
            "torch.from_numpy(input.copy()).movedim(-1, -3) makes one",
        ),
        (
            lambda x: torch_conv.filter2d(x, np.ones((1, 3, 3))[:, ::-1]),
            "filter2d: kernel must be a torch.Tensor, got numpy.ndarray; torch.from_numpy(kernel.copy()) makes one",
        ),
        (
            lambda x: torch_conv.nn.GaussianBlur2d(sigma=1.0)(x.numpy()),
            "gaussian_blur2d: input must be a torch.Tensor, got numpy.ndarray; torch.from_numpy(input) makes one",
        ),
        (
            lambda x: torch_conv.nn.Conv2d(1, 1, 3)(x.numpy()),
            "conv2d: input must be a torch.Tensor, got numpy.ndarray; torch.from_numpy(input) makes one",
        ),
        (
            lambda x: torch_conv.nn.Filter2d(x.numpy()),
            "Filter2d: kernel must be a torch.Tensor, got numpy.ndarray; torch.from_numpy(kernel) makes one",
        ),
        (
            lambda x: torch_conv.split(x.numpy()),
            "split: tensor must be a torch.Tensor, got numpy.ndarray; torch.from_numpy(tensor) makes one",
        ),
        (
            lambda x: torch_conv.distributed.sobel(x.numpy()),
            "sobel: input must be a DTensor, got numpy.ndarray; torch.distributed.tensor.distribute_tensor("
            "torch.from_numpy(input), mesh, placements) makes one",
        ),
        (lambda x: torch_conv.distributed.sobel(None), "sobel: input must be a DTensor, got NoneType"),
    ],
)
def test_the_refusal_of_no_tensor_elsewhere(call, sentence):
    with refuses(TypeError, sentence):
        call(ones(4, 5))


def test_no_path_in_a_message(device):
    with pytest.raises(RuntimeError) as caught:
        torch.ops.torch_conv.filter2d(ones(4, 5).to(device), ones(3).to(device))
    assert "/" not in str(caught.value)
    assert "\n" not in str(caught.value)


@needs_mallinfo
def test_refused_calls_leak_nothing_on_the_cpu():
    """The refusal comes after the input was copied, since its leading dimensions do not merge: 35 MB a call."""
    strange = ones(4, 3, 2, 600, 610).transpose(0, 1)

    def refused():
        with pytest.raises(ValueError, match="stride"):
            torch_conv.filter2d(strange, ones(3, 3), stride=0)

    refused()
    before = heap_bytes()
    for _ in range(20):
        refused()
    assert heap_bytes() - before < 4 << 20


@pytest.mark.cuda
def test_refused_calls_leak_nothing_on_the_gpu(cuda):
    strange = ones(4, 3, 2, 40, 37).to(cuda).transpose(0, 1)
    gc.collect()  # memory of earlier tests must not be freed in between
    before = torch.cuda.memory_allocated()
    for _ in range(200):
        with pytest.raises(ValueError, match="stride"):
            torch_conv.filter2d(strange, ones(3, 3), stride=0)
        with pytest.raises(ValueError, match="does not fit"):
            torch_conv.filter2d(strange, ones(50, 50), padding="valid")
    assert torch.cuda.memory_allocated() == before


@pytest.mark.cuda
def test_devices_are_named(cuda):
    with refuses(ValueError, "filter2d: kernel must be on cpu, as the input is, got cuda:0"):
        torch_conv.filter2d(ones(4, 5), ones(3, 3).to(cuda))
    with refuses(ValueError, "conv2d: weight must be on cuda:0, got cpu"):
        torch_conv.conv2d(ones(1, 1, 4, 5).to(cuda), ones(1, 1, 3, 3))


@pytest.mark.cuda
@pytest.mark.multi_gpu
def test_a_window_on_another_gpu_is_refused(cuda):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    with refuses(ValueError, "filter2d: kernel must be on cpu or cuda:0, got cuda:1"):
        torch_conv.filter2d(ones(4, 5).to("cuda:0"), ones(3, 3).to("cuda:1"))


@pytest.mark.parametrize("kernel_device", ["meta", "cpu"])
def test_a_meta_tensor_has_a_shape_alone(kernel_device):
    got = torch_conv.filter2d(torch.empty(2, 4, 5, device="meta"), torch.ones(3, 3, device=kernel_device))
    assert got.device.type == "meta"
    assert got.shape == (2, 4, 5)
    assert torch_conv.gaussian_blur2d(torch.empty(2, 4, 5, device="meta"), 3, 1.0).shape == (2, 4, 5)
    volume = torch.empty(2, 4, 5, device="meta")
    assert torch_conv.spatial_gradient(volume, order=2).shape == (2, 3, 4, 5)
    assert torch_conv.sobel(volume, padding="valid").shape == (2, 2, 3)
    assert torch_conv.thin_edges(volume, 3, 1.0).shape == torch_conv.unsharp_mask(volume, 9, 2.0).shape == (2, 4, 5)
    assert torch_conv.structure_tensor(volume, 3, 1.0).shape == (2, 3, 4, 5)
    assert torch_conv.gaussian_downsample(volume, 3, 1.0).shape == (2, 2, 3)
    assert torch_conv.gaussian_gradient_magnitude3d(volume, 3, 1.0).shape == (2, 4, 5)
    assert torch_conv.filter3d(volume, torch.ones(3, 3, 3, device=kernel_device), stride=2).shape == (1, 2, 3)
    assert torch_conv.gaussian_blur3d(volume, 5, 1.0).shape == (2, 4, 5)
    assert torch_conv.spatial_gradient3d(volume).shape == (3, 2, 4, 5)
    assert torch_conv.conv3d(volume[None], torch.ones(2, 1, 2, 3, 3, device="meta")).shape == (2, 1, 2, 3)


META = "must be on cpu, got meta"


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda f, x, k: f.filter2d(x, k.to("meta")), f"filter2d: kernel {META}"),
        (lambda f, x, k: f.filter2d(x, k, out=x.to("meta")), f"filter2d: out {META}"),
        (
            lambda f, x, k: f.filter2d(x.to("meta"), k, out=torch.empty_like(x)),
            "filter2d: out must be on meta, got cpu",
        ),
        (lambda f, x, k: f.filter2d_separable(x, k[0], k[1].to("meta")), f"filter2d_separable: kernel_y {META}"),
        (lambda f, x, k: f.box_blur(x, 3, out=x.to("meta")), f"box_blur: out {META}"),
        (lambda f, x, k: f.filter3d(x[None], k[None].to("meta")), f"filter3d: kernel {META}"),
        (
            lambda f, x, k: f.filter3d_separable(x[None], k[0], k[1], k[2].to("meta")),
            f"filter3d_separable: kernel_z {META}",
        ),
        (lambda f, x, k: f.filter3d_separable(x[None], *k, out=x[None].to("meta")), f"filter3d_separable: out {META}"),
        (lambda f, x, k: f.box_blur3d(x[None], 3, out=x.to("meta")), f"box_blur3d: out {META}"),
        (lambda f, x, k: f.conv3d(x[None, None], k[None, None, None].to("meta")), f"conv3d: weight {META}"),
        (lambda f, x, k: f.sobel(x, out=x.to("meta")), f"sobel: out {META}"),
        (
            lambda f, x, k: f.structure_tensor(x, 3, torch.ones(1, 2, device="meta")),
            f"structure_tensor: kernel_x {META}",
        ),
        (lambda f, x, k: f.laplacian(x, 3, out=x.to("meta")), f"laplacian: out {META}"),
        (lambda f, x, k: f.conv2d(x[None], k[None, None].to("meta")), f"conv2d: weight {META}"),
        (lambda f, x, k: f.conv2d(x[None].to("meta"), k[None, None]), "conv2d: weight must be on meta, got cpu"),
        (lambda f, x, k: f.conv2d(x[None], k[None, None], ones(1).to("meta")), f"conv2d: bias {META}"),
    ],
)
def test_meta_and_real_tensors_do_not_mix(call, sentence):
    with refuses(ValueError, sentence):
        call(torch_conv, ones(8, 9), ones(3, 3))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda f, x, k: f.filter2d(x.to_sparse(), k), "filter2d: input must be a dense tensor, got sparse_coo"),
        (lambda f, x, k: f.filter2d(x, k.to_sparse_csr()), "filter2d: kernel must be a dense tensor, got sparse_csr"),
        (
            lambda f, x, k: f.gaussian_blur2d(torch.quantize_per_tensor(x, 0.1, 0, torch.quint8), 3, 1.0),
            "gaussian_blur2d: input must be a dense tensor, got quint8",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:.*quant")
def test_only_dense_tensors(call, sentence):
    with refuses(TypeError, sentence):
        call(torch_conv, ones(8, 9), ones(3, 3))


@pytest.mark.parametrize("name", FILTERS)
def test_two_dtypes_for_one_result(name):
    shape = (3, 12, 13) if "3d" in name else (12, 13)
    out = ones(*shape)
    with refuses(TypeError, f"{name}: out must have the output_dtype float64, got float32"):
        filtered(name, ones(*shape), output_dtype=torch.float64, out=out)
    assert_same_bits(out, ones(*shape))


def freed(*shape, first=0):
    """A tensor whose storage was given back, as FSDP does between steps; of a larger one, the rows from `first` on."""
    image = ones(*shape)[first:]
    image.untyped_storage().resize_(0)
    return image


@pytest.mark.parametrize(
    ("name", "call", "shape"),
    [
        ("sobel", lambda f: f(freed(4, 5)), (4, 5)),
        ("sobel", lambda f: f(freed(4, 5, first=2)), (2, 5)),
        ("filter2d", lambda f: f(ones(4, 5), freed(3, 3)), (3, 3)),
        ("box_blur", lambda f: f(ones(4, 5), 3, out=freed(4, 5)), (4, 5)),
        ("conv2d", lambda f: f(ones(1, 2, 5, 5), freed(2, 1, 3, 3), groups=2, algorithm="ours"), (2, 1, 3, 3)),
        ("causal_conv1d", lambda f: f(freed(1, 2, 9), ones(2, 3)), (1, 2, 9)),
    ],
)
def test_freed_memory_is_not_read(name, call, shape):
    with refuses(ValueError, f"{name}: a tensor of shape {shape} has no memory: its storage was freed"):
        call(getattr(torch_conv, name))


def test_empty_tensors_need_no_memory():
    assert torch_conv.sobel(freed(0, 4, 5)).shape == (0, 4, 5)


@pytest.mark.parametrize("form", [("filter2d",), ("_filter2d_query", "explain"), ("_filter2d_query", "footprint")])
def test_operators_refuse_none_for_a_tensor(form):
    for args in ((None, ones(3, 3)), (ones(4, 5), None)):
        with pytest.raises(RuntimeError) as caught:
            getattr(torch.ops.torch_conv, form[0])(*form[1:], *args)
        assert "a tensor is None" in str(caught.value) or "NoneType" in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch_conv.sobel(None),
        lambda: torch_conv.filter2d(ones(4, 5), None),
        lambda: torch_conv.causal_conv1d(ones(1, 2, 9), None),
        lambda: torch.ops.torch_conv.filter2d(ones(4, 5), None),
        lambda: torch.ops.torch_conv.filter2d_out(ones(4, 5), ones(3, 3), out=None),
        lambda: torch.ops.torch_conv._conv(ones(1, 1, 4, 5), None, None, 0),
    ],
)
def test_none_is_refused_without_a_stack(call, capfd):
    """Torch prints its C++ stack where it is asked for the memory of nothing."""
    with pytest.raises((TypeError, RuntimeError)):
        call()
    assert capfd.readouterr().err == ""


def test_a_dtype_that_the_headers_do_not_know():
    with pytest.raises(TypeError, match="^filter2d: output_dtype must be one that kernels write, got quint8$"):
        torch_conv.filter2d(ones(4, 5), ones(3, 3), output_dtype=torch.quint8)


@pytest.mark.parametrize("algorithm", ["auto", "torch"])
def test_a_dilation_of_nothing(device, algorithm):
    """Torch's depthwise convolution of images on CUDA takes it."""
    image, weight = ones(1, 2, 5, 5).to(device), ones(2, 1, 3, 3).to(device)
    for dilation in (0, (1, 0), -1):
        for wanted in (False, True):
            with pytest.raises(ValueError, match="^conv2d: dilation must be at least 1, got"):
                torch_conv.conv2d(
                    image.requires_grad_(wanted), weight, groups=2, dilation=dilation, algorithm=algorithm
                )
