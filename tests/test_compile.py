"""torch.compile(fullgraph=True) with static and dynamic shapes, and torch.export."""

import shutil

import pytest
import torch
from public_calls import PARTIALS
from strategies import make_image, make_window
from tolerance import assert_same_bits
from torch._dynamo.backends.registry import lookup_backend
from torch.torch_version import TorchVersion

import torch_conv
from torch_conv.functional._exporting import without_dtype

FUNCTIONS = {name: lambda x, k, f=f: f(x) for name, f in PARTIALS.items()} | {
    "filter2d": lambda x, k: torch_conv.filter2d(x, k, "constant", value=1.0) * 2,
    "filter2d, every option": lambda x, k: torch_conv.filter2d(
        x, k, "circular", True, "same", "conv", anchor=(0, 1), stride=2, dilation=(1, 2), output_dtype=torch.float64
    ),
    "filter2d_separable": lambda x, k: torch_conv.filter2d_separable(x, k[0], k[1]),
    "filter1d": lambda x, k: torch_conv.filter1d(x, k[0], dim=-2),
    "box_blur": lambda x, k: torch_conv.box_blur(x, (3, 5)),
    "conv2d": lambda x, k: torch_conv.conv2d(x, k.expand(3, 1, 3, 3), groups=3, padding=1),
    "conv2d, same": lambda x, k: torch_conv.conv2d(x, k.expand(3, 1, 3, 3), groups=3, padding="same"),
    "conv1d": lambda x, k: torch_conv.conv1d(x[:, :, 0], k[:, None], groups=3),
    "causal_conv1d": lambda x, k: torch_conv.causal_conv1d(x[:, :, 0], k, k[0], activation="silu"),
    "causal_conv1d, states": lambda x, k: torch_conv.causal_conv1d(x[:, :, 0], k, return_final_states=True)[1],
    "gaussian_blur2d": lambda x, k: torch_conv.gaussian_blur2d(x, 5, 1.5),
    "gaussian_blur2d, truncated": lambda x, k: torch_conv.gaussian_blur2d(x, None, 1.5),
    "unsharp_mask": lambda x, k: torch_conv.unsharp_mask(x, 5, 1.0),
    "spatial_gradient, direct": lambda x, k: torch_conv.spatial_gradient(x, "scharr", algorithm="direct"),
    "spatial_gradient, order 2": lambda x, k: torch_conv.spatial_gradient(x, "sobel", 2, padding="valid"),
    "unsharp_mask, fused": lambda x, k: torch_conv.unsharp_mask(x, 9, 2.0),
    "difference_of_gaussians, fused": lambda x, k: torch_conv.difference_of_gaussians(x, 2.0),
    "gaussian_downsample": lambda x, k: torch_conv.gaussian_downsample(x, 5, 1.0),
    "structure_tensor": lambda x, k: torch_conv.structure_tensor(x, 5, 1.0, mode="scharr"),
    "thin_edges": lambda x, k: torch_conv.thin_edges(x, 5, 1.0, padding="valid"),
    "filter3d": lambda x, k: torch_conv.filter3d(x, k.expand(3, 3, 3), "constant", value=1.0) * 2,
    "filter3d, every option": lambda x, k: torch_conv.filter3d(
        x, k[None], "circular", True, "conv", anchor=(0, 0, 1), stride=2, dilation=(1, 1, 2), output_dtype=torch.float64
    ),
    "filter3d_separable": lambda x, k: torch_conv.filter3d_separable(x, k[0], k[1], k[2]),
    "box_blur3d": lambda x, k: torch_conv.box_blur3d(x, (2, 3, 5)),
    "conv3d": lambda x, k: torch_conv.conv3d(x[:, :, None], k.expand(3, 1, 1, 3, 3), groups=3, padding=1),
    "conv3d, same": lambda x, k: torch_conv.conv3d(x[:, :, None], k.expand(3, 1, 3, 3, 3), groups=3, padding="same"),
    "gaussian_blur3d": lambda x, k: torch_conv.gaussian_blur3d(x, 3, 1.5),
    "gaussian_blur3d, truncated": lambda x, k: torch_conv.gaussian_blur3d(x, None, (0.5, 1.0, 1.5)),
    "spatial_gradient3d, order 2": lambda x, k: torch_conv.spatial_gradient3d(x, "diff", 2),
}


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_one_graph_serves_many_shapes(device, name, dynamic):
    """From the second size on, or from the first; the CPU hands conv2d of large images to torch."""
    graphs, aot_eager = [], lookup_backend("aot_eager")

    def backend(graph, inputs):
        graphs.append(graph)
        return aot_eager(graph, inputs)

    function, kernel = FUNCTIONS[name], make_window((3, 3), device=device)
    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic, backend=backend)
    for n, h, w in ((2, 12, 15), (3, 13, 18), (4, 31, 60), (5, 90, 70)):
        image = make_image((n, 3, h, w), device=device)
        got, expected = compiled(image, kernel), function(image, kernel)
        assert got.stride() == expected.stride()
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    assert len(graphs) == (1 if dynamic else 2)


def test_channels_last_in_a_graph(device):
    compiled = torch.compile(lambda x, k: torch_conv.filter2d(x, k), fullgraph=True, backend="aot_eager")
    image = make_image((2, 3, 9, 11), device=device).contiguous(memory_format=torch.channels_last)
    assert compiled(image, make_window((3, 3), device=device)).is_contiguous(memory_format=torch.channels_last)
    compiled = torch.compile(lambda x, k: torch_conv.filter3d(x, k), fullgraph=True, backend="aot_eager")
    volume = make_image((2, 3, 5, 6, 7), device=device).contiguous(memory_format=torch.channels_last_3d)
    assert compiled(volume, make_window((3, 3, 3), device=device)).is_contiguous(memory_format=torch.channels_last_3d)


def test_out_in_a_graph(device):
    def function(x, k, out):
        torch_conv.filter2d(x, k, out=out)
        return out + 1

    image, kernel = make_image((9, 11), device=device), make_window((3, 3), device=device)
    out = torch.zeros(9, 11, device=device)
    got = torch.compile(function, fullgraph=True, backend="aot_eager")(image, kernel, out)
    assert_same_bits(got, torch_conv.filter2d(image, kernel) + 1)
    assert_same_bits(out, torch_conv.filter2d(image, kernel))


def test_out_of_a_volume_in_a_graph(device):
    def function(x, out):
        torch_conv.box_blur3d(x, 3, out=out[0])
        torch_conv.spatial_gradient3d(x, out=out)
        return out + 1

    volume, out = make_image((4, 6, 7), device=device), torch.zeros(3, 4, 6, 7, device=device)
    got = torch.compile(function, fullgraph=True, backend="aot_eager")(volume, out)
    assert_same_bits(out, torch_conv.spatial_gradient3d(volume))
    assert_same_bits(got, out + 1)


class Edges(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kernel", make_window((3, 3)))

    def forward(self, x):
        small = torch_conv.gaussian_downsample(
            torch_conv.filter2d(torch_conv.thin_edges(x, 5, 1.0), self.kernel), 3, 1.0
        )
        return torch_conv.structure_tensor(small, 3, 1.0)


def test_export(device):
    module, image = Edges().to(device), make_image((2, 3, 12, 15), device=device)
    height, width = torch.export.Dim("height", min=4, max=100), torch.export.Dim("width", min=4, max=100)
    program = torch.export.export(module, (image,), dynamic_shapes={"x": {2: height, 3: width}})
    other = make_image((2, 3, 33, 21), device=device)
    torch.testing.assert_close(program.module()(other), module(other), rtol=1e-6, atol=1e-6)


class Edges3d(torch.nn.Module):
    def forward(self, x):
        return torch_conv.spatial_gradient3d(torch_conv.gaussian_gradient_magnitude3d(x, 5, 1.0)).abs()


def test_export_of_volumes(device):
    module, volume = Edges3d().to(device), make_image((2, 3, 5, 12, 15), device=device)
    depth, width = torch.export.Dim("depth", min=4, max=100), torch.export.Dim("width", min=4, max=100)
    program = torch.export.export(module, (volume,), dynamic_shapes={"x": {2: depth, 4: width}})
    other = make_image((2, 3, 8, 12, 21), device=device)
    torch.testing.assert_close(program.module()(other), module(other), rtol=1e-6, atol=1e-6)


class Written(torch.nn.Module):
    """A function with another output dtype."""

    def __init__(self, function, dtype):
        super().__init__()
        self.function, self.dtype = function, dtype

    def forward(self, x):
        return self.function(x, output_dtype=self.dtype)


WRITTEN = {
    "filter2d": lambda x, **given: torch_conv.filter2d(x, torch.full((3, 3), 1 / 9), **given),
    "box_blur": lambda x, **given: torch_conv.box_blur(input=x, kernel_size=3, **given),
    "gaussian_blur3d": lambda x, **given: torch_conv.gaussian_blur3d(x, 3, 1.0, **given),
    "unsharp_mask": lambda x, **given: torch_conv.unsharp_mask(x, 9, 2.0, amount=3.0, **given),
    "spatial_gradient": lambda x, **given: torch_conv.spatial_gradient(x, **given),
}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_program_holds_no_dtype(name, strict):
    """AOTInductor of torch 2.11 takes a dtype among an operator's arguments for another one."""
    bytes_, floats = make_image((1, 2, 7, 9, 9), torch.uint8), 1e5 * make_image((1, 2, 7, 9, 9))
    for image, dtypes in ((bytes_, (torch.float32, torch.int16)), (floats, (torch.bfloat16, torch.uint8))):
        for dtype in dtypes:
            module = Written(WRITTEN[name], dtype)
            program = torch.export.export(module, (image,), strict=strict)
            assert "output_dtype" not in str(program.graph)
            got, expected = program.module()(image), module(image)
            # A mean whose sum has another dtype may be rounded to the other side of a tie.
            rtol, atol = torch.finfo(dtype).eps if dtype.is_floating_point else 0, int(not dtype.is_floating_point)
            box = name == "box_blur"
            torch.testing.assert_close(got, expected, rtol=rtol if box else 0, atol=atol if box else 0)
    with pytest.raises(Exception, match="dtype"):
        torch.export.export(Written(WRITTEN[name], torch.uint8), (torch.ones(9, 9, 9, dtype=torch.int64),))


def test_sums_of_integers_are_exact_in_an_exported_program():
    """In float32 they are not: 4096 numbers below 2^16."""
    image = torch.randint(0, 2**16, (1, 40, 4100), dtype=torch.int32).to(torch.uint16)
    for blur, image_, size in (
        (torch_conv.box_blur, image, (1, 4095)),
        (torch_conv.box_blur3d, image[None], (1, 1, 4095)),
    ):
        module = Written(lambda x, blur=blur, size=size, **given: blur(x, size, **given), torch.float64)
        assert_same_bits(torch.export.export(module, (image_,)).module()(image_), module(image_))


@pytest.mark.cuda
def test_tensor_cores_are_exported(cuda):
    """The kernels write the image's dtype only, which is no conversion."""
    image, taps = make_image((1, 2, 64, 64), torch.float16, device=cuda), make_window((5,))
    module = Written(
        lambda x, **given: torch_conv.filter2d_separable(x, taps, taps, algorithm="tensor_core", **given), torch.float16
    )
    assert_same_bits(torch.export.export(module, (image,)).module()(image), module(image))


def test_tensor_cores_are_given_the_image_as_it_is():
    """The kernels take no image that was converted to the dtype of sums."""
    given = []
    image = torch.ones(1, 2, 9, 9, dtype=torch.float16)
    for dtype in (torch.float16, torch.float32):
        without_dtype(
            lambda x, **options: given.append((x, options)), False, image, output_dtype=dtype, algorithm="tensor_core"
        )
    assert [x is image for x, _ in given] == [True, True]
    assert [options.get("output_dtype") for _, options in given] == [None, torch.float32]


def test_a_dtype_that_the_image_has_is_no_conversion():
    image = make_image((1, 2, 9, 9), torch.uint8)
    module = Written(WRITTEN["filter2d"], torch.uint8)
    program = torch.export.export(module, (image,))
    assert "aten" not in "".join(str(node.target) for node in program.graph.nodes if "full" not in str(node.target))
    assert_same_bits(program.module()(image), module(image))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a compiler")
@pytest.mark.parametrize("dtypes", [(torch.uint8, torch.float32), (torch.float32, torch.uint8)])
def test_a_package_writes_another_dtype(dtypes, tmp_path):
    module, image = Written(WRITTEN["filter2d"], dtypes[1]), (200 * torch.rand(1, 1, 6, 6)).to(dtypes[0])
    program = torch.export.export(module, (image,))
    package = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    got, expected = torch._inductor.aoti_load_package(package)(image), module(image)
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=int(dtypes[1] == torch.uint8))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a compiler")
@pytest.mark.parametrize("name", ["filter2d", "box2d", "gradient2d"])
def test_a_package_of_an_operator_with_another_dtype_is_right_or_refused(name, tmp_path):
    operator, size = getattr(torch.ops.torch_conv, name), torch.ones(3, 3) if name == "filter2d" else 3
    module = Written(lambda x, **given: operator(x, *([] if name == "gradient2d" else [size]), **given), torch.float32)
    image = make_image((1, 1, 6, 6), torch.uint8)
    program, path = torch.export.export(module, (image,)), str(tmp_path / "model.pt2")
    if TorchVersion(torch.__version__) >= TorchVersion("2.12"):
        package = torch._inductor.aoti_compile_and_package(program, package_path=path)
        assert_same_bits(torch._inductor.aoti_load_package(package)(image), module(image))
    else:
        with pytest.raises(Exception, match=f"{name}: output_dtype is read wrongly by AOTInductor"):
            torch._inductor.aoti_compile_and_package(program, package_path=path)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a compiler")
def test_inductor_on_the_cpu():
    compiled = torch.compile(FUNCTIONS["filter2d"], fullgraph=True)
    image, kernel = make_image((2, 3, 12, 15)), make_window((3, 3))
    assert_same_bits(compiled(image, kernel), FUNCTIONS["filter2d"](image, kernel))


NUMBERS = {
    "box_blur": (lambda x, n: torch_conv.box_blur(x, n), [3, 5, 4]),
    "box_blur3d": (lambda x, n: torch_conv.box_blur3d(x, n), [3, 5, 4]),
    "filter3d, stride": (lambda x, n: torch_conv.filter3d(x, torch.ones(3, 3, 3), stride=n), [1, 2, 3]),
    "filter2d, anchor": (lambda x, n: torch_conv.filter2d(x, torch.ones(3, 4), anchor=n), [0, 2, -1]),
    "conv3d, padding": (lambda x, n: torch_conv.conv3d(x, torch.ones(2, 1, 3, 3, 3), padding=n, groups=2), [0, 1, 2]),
    "spatial_gradient, order": (lambda x, n: torch_conv.spatial_gradient(x, order=n), [1, 2]),
    "gaussian_downsample": (lambda x, n: torch_conv.gaussian_downsample(x, 3, 1.0, n), [1, 2, 3]),
    "thin_edges, size": (lambda x, n: torch_conv.thin_edges(x, n, 1.0), [3, 5, 7]),
    "unsharp_mask, amount": (lambda x, n: torch_conv.unsharp_mask(x, 9, 2.0, amount=0.5 * n), [1, 2, 4]),
    "gaussian_blur3d, sigma": (lambda x, n: torch_conv.gaussian_blur3d(x, None, 0.5 * n), [1, 2, 4]),
    "gaussian_blur3d, size": (lambda x, n: torch_conv.gaussian_blur3d(x, n, 1.0), [3, 5, 7]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_changes(name):
    """torch.compile takes the second value for a symbol: one number for all axes must still be taken."""
    function, numbers = NUMBERS[name]
    volume = make_image((2, 2, 7, 8, 9))
    compiled = torch.compile(function, backend="eager", fullgraph=True)
    for n in numbers:
        assert_same_bits(compiled(volume, n), function(volume, n))


@torch.no_grad()
def test_a_number_of_images_that_only_the_data_says(device):
    class Masked(torch.nn.Module):
        def forward(self, x, mask):
            return torch_conv.box_blur(torch_conv.filter2d(x[mask], torch.ones(3, 3)), 3)

    given = make_image((4, 9, 10), device=device), torch.tensor([True, False, True, True], device=device)
    program = torch.export.export(Masked(), given)
    assert_same_bits(program.module()(*given), Masked()(*given))
