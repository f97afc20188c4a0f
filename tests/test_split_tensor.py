"""split, SplitTensor, gather: their parts, their printed form, and their refusals."""

import doctest
import re
import weakref

import numpy as np
import pytest
import torch
from refusals import refuses
from splits import IMAGES, PLACES, fixture_at
from strategies import DTYPES, LAYOUTS, lay_out, make_image, make_window
from tolerance import assert_same_bits

import torch_conv
from torch_conv import SplitTensor, split

CPUS = ["cpu"] * 3

devices = fixture_at(PLACES)


@pytest.mark.parametrize(
    ("n", "parts", "sizes"),
    [(10, 3, (4, 3, 3)), (11, 3, (4, 4, 3)), (12, 3, (4, 4, 4)), (2, 4, (1, 1, 0, 0)), (0, 2, (0, 0)), (5, 1, (5,))],
)
def test_the_first_parts_take_the_remainder(n, parts, sizes):
    assert split(torch.zeros(n, 2), ["cpu"] * parts).spec.sizes == sizes


@pytest.mark.parametrize("dtype", [*DTYPES, torch.int64, torch.bool, torch.complex64])
def test_there_and_back(devices, dtype):
    image = make_image((2, 3, 9, 10)).mul(10).to(dtype)
    for layout in LAYOUTS:
        laid_out = lay_out(image, layout)
        for dim in range(-4, 4):
            n = image.size(dim)
            for sizes in (None, [0, n, 0], [1, n - 2, 1]):
                parts = split(laid_out, devices(3), dim, sizes)
                assert parts.spec.dim == dim - 4 * (dim >= 0)
                assert sizes is None or parts.spec.sizes == tuple(sizes)
                for shard, part in zip(parts.shards, image.split(list(parts.spec.sizes), dim), strict=True):
                    assert torch.equal(shard.cpu(), part)
                for device in dict.fromkeys((None, "cpu", *devices(3))):
                    whole = parts.gather(device)
                    assert whole.device == torch.device(device or devices(1)[0])
                    assert torch.equal(whole.cpu(), image)


def test_parts_on_the_own_device_are_views(devices):
    image = make_image((9, 10)).to(devices(1)[0])
    parts = split(image, devices(1) * 3)
    assert all(s.untyped_storage().data_ptr() == image.untyped_storage().data_ptr() for s in parts.shards)
    whole = parts.gather()
    assert whole.untyped_storage().data_ptr() != image.untyped_storage().data_ptr()
    alone = split(image, devices(1)).gather()
    assert alone.untyped_storage().data_ptr() != image.untyped_storage().data_ptr()


def test_by_default_all_gpus_or_the_cpu():
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    expected = [f"cuda:{i}" for i in range(count)] or ["cpu"]
    assert [str(d) for d in split(torch.zeros(3, 4)).spec.devices] == expected


def test_repr_and_attributes():
    image = make_image((2, 3, 10, 7), torch.float16)
    parts = split(image, CPUS)
    assert repr(parts) == "SplitTensor((2, 3, 10, 7) float16 along dim -2: 4 on cpu, 3 on cpu, 3 on cpu)"
    assert parts.shape == image.shape and isinstance(parts.shape, torch.Size)
    assert (parts.dtype, parts.device, parts.layout) == (image.dtype, image.device, image.layout)
    assert (parts.dim(), parts.ndim, parts.numel(), parts.element_size()) == (4, 4, 420, 2)
    assert (parts.size(), parts.size(-2), parts.size(0)) == (image.shape, 10, 2)
    assert parts.is_cpu and not parts.is_cuda and not parts.requires_grad
    assert parts.is_floating_point() and not parts.is_complex()
    spec = parts.spec
    assert (spec.shape, spec.dtype, spec.dim, spec.sizes) == ((2, 3, 10, 7), torch.float16, -2, (4, 3, 3))
    assert spec.devices == (torch.device("cpu"),) * 3
    assert spec == split(image, CPUS, 2).spec
    assert torch_conv.SplitTensor is SplitTensor


def test_examples_in_docstrings():
    names = {"torch": torch, "torch_conv": torch_conv, "split": split, "SplitTensor": SplitTensor}
    for documented in (split, SplitTensor.from_shards, SplitTensor.gather):
        example = doctest.DocTestParser().get_doctest(documented.__doc__, names, documented.__name__, None, None)
        assert example.examples
        if "split(" not in documented.__doc__ or not torch.cuda.is_available():
            assert doctest.DocTestRunner().run(example).failed == 0


# Shard by shard where the split dimension stays whole.
VIEWS = {
    "unsqueeze": {(0,): -2, (3,): -3, (-1,): -3, (-3,): -2},
    "flatten": {(0, 1): -2, (2, 3): -1, (2,): -1},
    "reshape": {(6, 10, 7): -2, ((6, -1, 7),): -2, (2, 3, 1, 10, 1, 7): -3, (3, 2, 70): -1},
    "movedim": {(2, 0): -4, (0, -1): -3, (-1, 0): -1},
    "expand": {(5, -1, -1, 10, 7): -2, ((2, 3, -1, 7),): -2},
    "squeeze": {(1,): -2, (2,): -2},
}


@pytest.mark.parametrize(("name", "args", "dim"), [(n, *v) for n in VIEWS for v in VIEWS[n].items()], ids=str)
def test_views(name, args, dim):
    image = make_image((2, 3, 10, 7))
    got = getattr(split(image, CPUS), name)(*args)
    assert got.spec.dim == dim
    assert_same_bits(got.gather(), getattr(image, name)(*args))


def test_squeeze_and_expand():
    image = make_image((1, 4, 1, 5))
    for dim, left in ((0, 3), (2, 3), (1, 4)):
        got = split(image, CPUS, 1).squeeze(dim)
        assert got.dim() == left
        assert_same_bits(got.gather(), image.squeeze(dim))
    assert_same_bits(split(image, CPUS, 1).expand(6, 4, 2, 5).gather(), image.expand(6, 4, 2, 5))
    assert_same_bits(split(image, CPUS, 3).reshape(4, 5).gather(), image.reshape(4, 5))
    assert_same_bits(split(image, CPUS, 1, [2, 0, 2]).reshape(2, 10).gather(), image.reshape(2, 10))


def test_arithmetic(devices):
    image = make_image((2, 3, 10, 7))
    parts = split(image, devices(3))
    for got, expected in (
        (parts * parts + parts * 2 + 1.5, image * image + image * 2 + 1.5),
        (2 * parts - 1, 2 * image - 1),
        ((parts * parts + 1).sqrt() / 2.5, (image * image + 1).sqrt() / 2.5),
        (1 + parts / (parts * parts + 1), 1 + image / (image * image + 1)),
        (parts.to(torch.float16), image.to(torch.float16)),
    ):
        torch.testing.assert_close(got.gather("cpu"), expected)
    assert parts.to(torch.float32) is parts


def test_gradients_stop_where_backward_refuses():
    image = make_image((1, 2, 9, 10)).requires_grad_()
    parts = split(image, CPUS)
    assert parts.requires_grad and not parts.detach().requires_grad
    for name in ("filter2d", "sobel direct", "spatial_gradient direct"):
        result = IMAGES[name](parts)
        assert result.requires_grad
        with pytest.raises(RuntimeError, match="backward is not implemented yet"):
            result.gather().sum().backward()
    along_channels = IMAGES["filter1d along C"]  # shard by shard
    of_shards, of_the_image = (
        torch.autograd.grad(given.square().sum(), image)
        for given in (along_channels(parts).gather(), along_channels(image))
    )
    torch.testing.assert_close(of_shards, of_the_image)
    with torch.no_grad():
        assert not torch_conv.filter2d(parts, make_window((3, 3))).requires_grad
    assert not torch_conv.filter2d(parts.detach(), make_window((3, 3))).requires_grad
    kernel = make_window((3, 3)).requires_grad_()
    assert torch_conv.filter2d(parts.detach(), kernel).requires_grad
    (gradient,) = torch.autograd.grad((2 * split(image, CPUS)).gather().sum(), image)
    assert_same_bits(gradient, torch.full_like(image, 2))


IMAGE = torch.zeros(100, 4)
REFUSED = [
    (([1, 2],), {}, TypeError, "split: tensor must be a torch.Tensor, got list; torch.tensor(tensor) makes one"),
    ((IMAGE.to_sparse(),), {}, TypeError, "split: tensor must be dense, got sparse_coo"),
    ((IMAGE.to("meta"),), {}, ValueError, "split: tensor must be on the CPU or on CUDA devices, got meta"),
    ((IMAGE, "cpu"), {}, TypeError, "split: devices must be a list of devices, got 'cpu'"),
    ((IMAGE, 2), {}, TypeError, "split: devices must be a list of devices, got 2"),
    ((IMAGE, []), {}, ValueError, "split: devices must have at least one device, got none"),
    ((IMAGE, ["cpu", "meta"]), {}, ValueError, "split: devices must be CPU or CUDA, got meta"),
    ((IMAGE, ["cpu", "gpu"]), {}, ValueError, "split: devices must be CPU or CUDA, got gpu"),
    ((IMAGE, [1.5]), {}, ValueError, "split: devices must be CPU or CUDA, got 1.5"),
    ((IMAGE, CPUS, 2), {}, ValueError, "split: dim must name one of the tensor's 2 dimensions, got 2"),
    ((IMAGE[0], CPUS), {}, ValueError, "split: dim must name one of the tensor's 1 dimensions, got -2"),
    ((IMAGE, CPUS, 0.0), {}, TypeError, "split: dim must be of type int, got float"),
    ((IMAGE, CPUS), {"sizes": [33, 33, 33]}, ValueError, "split: sizes must add up to 100 along dim -2, got 99"),
    ((IMAGE, CPUS, 1), {"sizes": [1, 1, 1]}, ValueError, "split: sizes must add up to 4 along dim -1, got 3"),
    ((IMAGE, CPUS), {"sizes": [50, 50]}, ValueError, "split: sizes must have one number for each of 3 devices, got 2"),
    ((IMAGE, CPUS), {"sizes": [101, -1, 0]}, ValueError, "split: sizes must be at least 0, got -1"),
    ((IMAGE, CPUS), {"sizes": [50, 25.0, 25]}, TypeError, "split: sizes must be of type int, got float"),
    ((IMAGE, CPUS), {"sizes": 100}, TypeError, "split: sizes must be a list of int, got int"),
]


@pytest.mark.parametrize(("args", "kwargs", "kind", "sentence"), REFUSED, ids=[r[-1] for r in REFUSED])
def test_split_refuses(args, kwargs, kind, sentence):
    with refuses(kind, sentence):
        split(*args, **kwargs)


def test_split_refuses_devices_that_are_not_there():
    there = torch.cuda.device_count()
    with refuses(ValueError, f"split: devices must be among the {there} CUDA devices of this machine, got cuda:77"):
        split(IMAGE, ["cuda:77"])
    if there:
        with pytest.raises(ValueError) as caught:
            split(IMAGE, ["cpu", "cuda:0"])
        expected = "split: devices must be all on the CPU or all on CUDA devices, got cpu and cuda:0"
        assert str(caught.value) == expected


def test_numbers_of_numpy_are_numbers():
    assert split(IMAGE, CPUS, np.int64(0), [np.int64(50), 50, 0]).spec.sizes == (50, 50, 0)


SHARDS = [
    (torch.zeros(2), TypeError, "shards must be a list of tensors, got Tensor"),
    ([], ValueError, "shards must have at least one tensor, got none"),
    ([IMAGE, 1], TypeError, "shards[1] must be a torch.Tensor, got int"),
    ([IMAGE, IMAGE.half()], TypeError, "shards must be of one dtype, got float32 and float16"),
    ([IMAGE, IMAGE[0]], ValueError, "shards must have one shape but along dim -2, got (100, 4) and (4,)"),
    ([IMAGE, IMAGE.t()], ValueError, "shards must have one shape but along dim -2, got (100, 4) and (4, 100)"),
    ([IMAGE[0]], ValueError, "dim must name one of the shards' 1 dimensions, got -2"),
]


@pytest.mark.parametrize(("shards", "kind", "sentence"), SHARDS, ids=[s[-1] for s in SHARDS])
def test_from_shards_refuses(shards, kind, sentence):
    with refuses(kind, f"from_shards: {sentence}"):
        SplitTensor.from_shards(shards, -2)


def refusal(kind, call):
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def test_out_is_refused(devices):
    parts, kernel = split(make_image((1, 1, 9, 10)), devices(3)), make_window((3, 3))
    out = torch.empty(1, 1, 9, 10, device=devices(1)[0])
    for name, call in IMAGES.items():
        text = refusal(ValueError, lambda call=call: call(parts, out=out))
        assert text == f"{name.split(' ')[0]}: out is not taken with a SplitTensor"
    volume = split(make_image((1, 1, 4, 9, 10)), devices(3))
    out = torch.empty(1, 1, 3, 4, 9, 10, device=devices(1)[0])
    with refuses(ValueError, "spatial_gradient3d: out is not taken with a SplitTensor"):
        torch_conv.spatial_gradient3d(volume, out=out)
    image = out[0, 0, 0, :1]
    expected = "filter2d: out is not taken with a SplitTensor"
    assert refusal(ValueError, lambda: torch_conv.filter2d(image, kernel, out=parts)) == expected
    assert refusal(RuntimeError, lambda: torch.ops.torch_conv.filter2d_out(parts, kernel, out=image)) == expected


def test_other_arguments_must_be_tensors():
    image, parts = make_image((1, 1, 9, 10)), split(make_image((3, 3)), CPUS)
    with refuses(TypeError, "filter2d: kernel must be a torch.Tensor, got SplitTensor; kernel.gather() makes one"):
        torch_conv.filter2d(image, parts)
    with refuses(TypeError, "filter1d: kernel must be a torch.Tensor, got SplitTensor; kernel.gather() makes one"):
        torch_conv.filter1d(image, parts)
    row = image[0, 0, 0]
    sentence = "kernel_y must be a torch.Tensor, got SplitTensor; kernel_y.gather() makes one"
    with refuses(TypeError, f"filter2d_separable: {sentence}"):
        torch_conv.filter2d_separable(image, row, parts)
    call = torch.ops.torch_conv.separable_sum2d
    with refuses(RuntimeError, "separable_sum2d: kernels_x must be a torch.Tensor, got SplitTensor"):
        call(image, [parts, row], [row, row])


def test_arguments_of_the_form_of_shards_are_its_own(devices):
    parts, kernel = split(make_image((1, 1, 9, 10)), devices(3)), make_window((3, 3))
    for argument in ({"wanted": [0]}, {"dim": -1}):
        (name,) = argument
        text = refusal(TypeError, lambda argument=argument: torch_conv.filter2d(parts, kernel, **argument))
        assert text == f"filter2d: got an unexpected keyword argument '{name}'"
        with pytest.raises(RuntimeError, match=f"filter2d: got an unexpected keyword argument '{name}'"):
            torch.ops.torch_conv.filter2d(parts, kernel, **argument)


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_every_way_to_call(devices, mode):
    """The image by its name, `out` that is None, and the operator itself, with and without autograd."""
    image, kernel = make_image((1, 2, 9, 10)), make_window((3, 3))
    expected = torch_conv.filter2d(image, kernel, "replicate", stride=2)
    for dim in range(-4, 0):
        parts = split(image, devices(3), dim)
        with mode():
            for got in (
                torch_conv.filter2d(parts, kernel, "replicate", stride=2),
                torch_conv.filter2d(parts, kernel, "replicate", stride=2, out=None),
                torch_conv.filter2d(kernel=kernel, input=parts, border_type="replicate", stride=np.int64(2)),
                torch.ops.torch_conv.filter2d(parts, kernel, "replicate", stride=2),
                torch.ops.torch_conv.filter2d.default(parts, kernel, "replicate", stride=2),
            ):
                assert got.spec.dim == dim and not got.requires_grad
                assert_same_bits(got.gather("cpu"), expected)


def test_refusals_of_the_whole_image_hold_for_shards(devices):
    parts = split(make_image((1, 1, 9, 10)), devices(3))
    kernel = make_window((3, 3))
    for call in (
        lambda x: torch_conv.filter2d(x, kernel, "wrapped"),
        lambda x: torch_conv.filter2d(x, make_window((11, 3)), padding="valid"),
        lambda x: torch_conv.filter2d(x, make_window((2, 3, 3))),
        lambda x: torch_conv.gaussian_blur2d(x, 4, 1.0),
        lambda x: torch_conv.gaussian_blur2d(x, 5, torch.ones(3, 2)),
        lambda x: torch_conv.sobel(x, algorithm="best"),
        lambda x: torch_conv.spatial_gradient(x, "sobel", 3),
        lambda x: torch_conv.filter1d(x, kernel[0], dim=4),
        lambda x: torch_conv.conv2d(x, make_window((3, 2, 3, 3)).to(devices(1)[0])),
        lambda x: torch_conv.filter2d(x, "kernel"),
    ):
        whole = parts.gather()
        expected = refusal((ValueError, TypeError, RuntimeError), lambda call=call, whole=whole: call(whole))
        got = refusal((ValueError, TypeError, RuntimeError), lambda call=call: call(parts))
        if re.match("[a-z0-9]+d?: |[a-z_]+2d: ", expected) and "weight of size" not in expected:
            assert got == expected
        assert_same_bits(torch_conv.filter2d(parts, kernel).gather("cpu"), torch_conv.filter2d(whole.cpu(), kernel))


def test_the_rest_of_torch_says_what_to_do():
    parts = split(make_image((1, 2, 9, 10)), CPUS)
    hint = "a SplitTensor is not taken; give it .gather() or, one by one, .shards"
    for name, call in {
        "torch.add": lambda: torch.add(parts, 1),
        "torch.nn.functional.pad": lambda: torch.nn.functional.pad(parts, (1, 1)),
        "torch.cat": lambda: torch.cat([parts, parts]),
        "torch.nn.functional.conv2d": lambda: torch.nn.functional.conv2d(parts, make_window((1, 2, 3, 3))),
        "torch.ops.torch_conv.ladder2d": lambda: torch.ops.torch_conv.ladder2d(parts, make_window((3, 3))),
        "torch.ops.aten.add": lambda: torch.ops.aten.add(parts, 1),
    }.items():
        assert refusal(TypeError, call) == f"{name}: {hint}"
    with refuses(AttributeError, "SplitTensor has no mean of its own; .gather() gives a tensor and .shards the parts"):
        parts.mean()
    assert refusal(AttributeError, lambda: parts.means()) == "SplitTensor has no attribute 'means'"
    with refuses(
        TypeError, "SplitTensor: it is made by split(tensor, devices) or SplitTensor.from_shards(shards, dim)"
    ):
        SplitTensor()
    assert refusal(TypeError, lambda: parts.to("cpu")) == "SplitTensor.to: dtype must be of type dtype, got str"
    expected = "SplitTensor: + - * / take numbers and other SplitTensors, got Tensor"
    assert refusal(TypeError, lambda: parts * torch.ones(1)) == expected
    assert refusal(TypeError, lambda: torch.ones(1) + parts) == expected
    assert refusal(ValueError, lambda: parts.gather("meta")) == "gather: device must be CPU or CUDA, got meta"
    assert refusal(ValueError, lambda: parts + split(make_image((1, 2, 9, 10)), CPUS, -1)) == (
        "SplitTensor: both must be split alike, got (1, 2, 9, 10) float32 along dim -2: 3 on cpu, 3 on cpu, 3 on cpu "
        "and (1, 2, 9, 10) float32 along dim -1: 4 on cpu, 3 on cpu, 3 on cpu"
    )


def test_views_that_would_mix_shards():
    parts = split(make_image((2, 3, 10, 7)), CPUS)
    whole = "the shards along dim -2 of (2, 3, 10, 7) would not stay whole in"
    end = "; reshape .gather() or .shards"
    for name, call, shape in (
        ("flatten", lambda: parts.flatten(), "(420,)"),
        ("flatten", lambda: parts.flatten(1, 2), "(2, 30, 7)"),
        ("reshape", lambda: parts.reshape(6, 5, 14), "(6, 5, 14)"),
        ("expand", lambda: parts.expand(2, 3, 20, 7), "(2, 3, 20, 7)"),
        ("squeeze", lambda: split(make_image((2, 1)), ["cpu"], -1).squeeze(1), None),
    ):
        text = refusal(ValueError, call)
        if shape:
            assert text == f"{name}: {whole} {shape}{end}"
    assert refusal(ValueError, lambda: parts.reshape(5, 5)) == "reshape: shape must have 420 elements, got (5, 5)"
    assert refusal(ValueError, lambda: parts.unsqueeze(7)) == "unsqueeze: dim must be in -5 to 4, got 7"


def test_it_is_in_no_cycle():
    """Its memory is free as soon as no variable refers to it."""
    parts = split(torch.zeros(9, 4), CPUS)
    result = torch_conv.filter2d(parts, torch.ones(3, 3))
    result.spec, parts.spec  # noqa: B018
    alive = weakref.ref(parts), weakref.ref(result)
    del parts, result
    assert [ref() for ref in alive] == [None, None]
