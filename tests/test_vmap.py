"""torch.vmap over functions and operators: one call for all examples, and the values of a loop."""

from functools import partial

import pytest
import torch
from operator_log import Log
from strategies import make_image, make_window
from tolerance import assert_same_bits
from vmap_cases import CALLS, IMAGE, SEQUENCE, VOLUME, N, close, mapped, of, one_by_one

import torch_conv

pytestmark = pytest.mark.usefixtures("without_tf32", "without_vmap_fallback")


@pytest.fixture(params=CALLS)
def case(request, device):
    """A call, its tensors of N examples, and the calls one by one, of which some arguments are the first example's."""
    call, shape, others = CALLS[request.param]
    stacks = [make_image((N, *shape), device=device)]
    stacks += [make_window((N, *s), seed=i, device=device) for i, s in enumerate(others)]
    return call, stacks


@torch.no_grad()
def test_images(case):
    call, stacks = case
    for dim in (0, -1):
        dims = [dim] + [None] * (len(stacks) - 1)
        close(mapped(call, stacks, dims), one_by_one(call, stacks, dims))


@torch.no_grad()
def test_windows(case):
    """Each window alone, all windows, and all windows with the images."""
    call, stacks = case
    rest = len(stacks) - 1
    for dims in [[0 if i == j else None for j in range(rest)] for i in range(rest)] + [[-1] * rest]:
        for of_images in (None, 0):
            if any(d is not None for d in dims):
                dims_of_all = [of_images, *dims]
                close(mapped(call, stacks, dims_of_all), one_by_one(call, stacks, dims_of_all))


@torch.no_grad()
@pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0)])
@pytest.mark.parametrize("name", ["filter2d", "conv2d", "filter3d_separable"])
def test_it_is_one_call_with_the_same_bits(device, name, dims):
    shape, others = CALLS[name][1:]
    call = {
        "filter2d": of.filter2d,
        "conv2d": partial(torch_conv.conv2d, padding=1, groups=4, algorithm="direct"),
        "filter3d_separable": lambda x, k: of.filter3d_separable(x, k[0], k[0], k[0]),
    }[name]
    stacks = [make_image((N, *shape), device=device), make_window((N, *others[0]), device=device)]
    if name == "filter3d_separable":
        stacks[1] = stacks[1][:, None]
    with Log() as log:
        got = mapped(call, stacks, dims)
    assert [called for called in log.names if called.startswith("torch_conv.")] == [f"torch_conv.{name}.default"]
    assert_same_bits(got, one_by_one(call, stacks, dims))


ONE_BY_ONE = {"filter2d, of many dimensions", "causal_conv1d", "causal_conv1d, states"}


@torch.no_grad()
@pytest.mark.parametrize("name", CALLS)
def test_calls_with_a_batching_rule_are_made_once(device, name):
    call, shape, others = CALLS[name]
    stacks = [make_image((N, *shape), device=device), *(make_window((N, *s), device=device) for s in others)]
    with Log() as log:
        mapped(call, stacks, [0] * len(stacks))
    calls = [called for called in log.names if called.startswith("torch_conv.")]
    assert len(calls) == N if name in ONE_BY_ONE else len(calls) <= 1  # of convolutions torch takes some


def shape_of_none(call, shapes, dims, device):
    given = [torch.ones((0, *s) if d == 0 else s, device=device) for s, d in zip(shapes, dims, strict=True)]
    return torch.vmap(call, tuple(dims))(*given).shape


@torch.no_grad()
@pytest.mark.parametrize("name", CALLS)
def test_no_examples(device, name):
    call, *shapes = CALLS[name]
    if call is torch_conv.conv2d:  # the function hands such layers to torch, whose own rule knows no such case
        call = of.conv2d
    shapes = [shapes[0], *shapes[1]]
    expected = call(*(torch.ones(s, device=device) for s in shapes)).shape
    for dims in ([0] * len(shapes), [0] + [None] * len(shapes[1:]), [None] + [0] * len(shapes[1:])):
        if 0 in dims:
            assert shape_of_none(call, shapes, dims, device) == (0, *expected)
    assert shape_of_none(torch.vmap(call), [(2, *s) for s in shapes], [0] * len(shapes), device) == (0, 2, *expected)


def test_no_examples_with_a_gradient(device):
    images = torch.ones(0, *IMAGE, device=device, requires_grad=True)
    window = make_window((3, 3), device=device).requires_grad_()
    torch.vmap(torch_conv.filter2d, (0, None))(images, window).sum().backward()
    assert images.grad.shape == images.shape
    assert not window.grad.any()


@torch.no_grad()
def test_no_examples_of_integers(device):
    integers = torch.ones(0, *IMAGE, device=device, dtype=torch.uint16)
    assert torch.vmap(torch_conv.sobel)(integers).dtype == torch_conv.sobel(integers.new_ones(IMAGE)).dtype


@torch.no_grad()
def test_no_examples_are_refused_as_one(device):
    with pytest.raises(ValueError, match=r"^causal_conv1d: weight must have shape \(3, k\)"):
        shape_of_none(torch_conv.causal_conv1d, [SEQUENCE, (5, 4)], (0, 0), device)


def test_with_gradients(device):
    images, windows = make_image((N, *IMAGE), device=device), make_window((N, 3, 3), device=device)
    found = []
    for transform in (mapped, one_by_one):
        x, k = images.clone().requires_grad_(), windows.clone().requires_grad_()
        transform(torch_conv.filter2d, [x, k], (0, 0)).square().sum().backward()
        found.append((x.grad, k.grad))
    for got, expected in zip(*found, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_gradients_of_many_results_at_once(device):
    """torch.autograd maps over them."""
    image = make_image((2, 4, 5), torch.float64, device=device).requires_grad_()
    weight = make_window((2, 1, 3, 3), torch.float64, device=device)
    for call in (
        lambda x: torch_conv.filter2d(x, weight[0, 0]),
        lambda x: torch_conv.conv2d(x, weight, padding=1, groups=2, algorithm="ours"),
        lambda x: torch_conv.sobel(x),
    ):
        jacobian = partial(torch.autograd.functional.jacobian, call, image)
        torch.testing.assert_close(jacobian(vectorize=True), jacobian())


@torch.no_grad()
def test_vmap_of_vmap(device):
    images, windows = make_image((N, 2, 4, 9, 10), device=device), make_window((5, 3, 3), device=device)
    weights = make_window((5, 4, 1, 3, 3), device=device)
    for call, others in (
        (torch_conv.filter2d, windows),
        (partial(torch_conv.conv2d, padding=1, groups=4, algorithm="direct"), weights),
    ):
        got = torch.vmap(torch.vmap(call, (None, 0)), (0, None))(images, others)
        assert_same_bits(got, torch.stack([torch.stack([call(x, k) for k in others]) for x in images]))


@torch.no_grad()
def test_a_sigma_for_each(device):
    images, sigmas = make_image((N, *IMAGE), device=device), torch.tensor([[[0.5, 1.0]], [[1.5, 2.0]], [[1.0, 3.0]]])
    sigmas = sigmas.to(device)
    blur = partial(torch_conv.gaussian_blur2d, kernel_size=5)
    got = torch.vmap(lambda x, s: blur(x, sigma=s))(images, sigmas)
    close(got, torch.stack([blur(x, sigma=s) for x, s in zip(images, sigmas, strict=True)]))


# name: a call, an example's shape, and the shapes of other arguments that may be mapped.
FORMATS = {
    "filter2d": (torch_conv.filter2d, IMAGE, [(2, 3, 3)]),
    "filter3d": (torch_conv.filter3d, VOLUME, [(3, 3, 3)]),
    "conv1d": (partial(torch_conv.conv1d, groups=4, algorithm="ours"), (2, 4, 20), [(8, 1, 3), (8,)]),
    "conv2d": (partial(torch_conv.conv2d, groups=4, algorithm="ours"), IMAGE, [(8, 1, 3, 3), (8,)]),
    "conv2d, unbatched": (partial(torch_conv.conv2d, groups=4, algorithm="ours"), IMAGE[1:], [(8, 1, 3, 3)]),
    "conv2d, dense": (of.conv2d, IMAGE, [(6, 4, 3, 3)]),
    "conv3d": (partial(torch_conv.conv3d, groups=2, algorithm="ours"), VOLUME, [(4, 1, 3, 3, 3)]),
    "causal_conv1d": (torch_conv.causal_conv1d, SEQUENCE, [(3, 4)]),
}


@torch.no_grad()
@pytest.mark.parametrize("name", FORMATS)
def test_channels_stay_innermost(device, name):
    call, shape, others = FORMATS[name]
    axes = {"causal_conv1d": 1, "filter2d": 2, "filter3d": 3}.get(name, len(others[0]) - 2)
    images = make_image((N, *shape), device=device).movedim(-axes - 1, -1).contiguous().movedim(-1, -axes - 1)
    stacks = [images, *(make_window((N, *s), device=device) for s in others)]
    expected = call(*(t[0] for t in stacks))
    assert expected.stride(-axes - 1) == 1
    for dims in ([0] * len(stacks), [0] + [None] * len(others), [None] + [0] * len(others)):
        got = mapped(call, stacks, dims)
        assert [one.stride() for one in got] == [expected.stride()] * N
        close(got, one_by_one(call, stacks, dims))


@torch.no_grad()
def test_memory_formats_and_bytes_stay(device):
    images = make_image((N, *IMAGE), torch.uint8, device=device)
    inner = images.flatten(0, 1).contiguous(memory_format=torch.channels_last).unflatten(0, (N, -1))
    window = make_window((3, 3), device=device)
    got = torch.vmap(lambda x: torch_conv.filter2d(x, window))(inner)
    assert got.stride() == inner.stride()
    assert_same_bits(got, torch_conv.filter2d(images, window))


@torch.no_grad()
def test_compiled(device):
    images, windows = make_image((N, *IMAGE), device=device), make_window((N, 3, 3), device=device)
    call = torch.vmap(torch_conv.filter2d)
    torch._dynamo.reset()
    close(torch.compile(call, fullgraph=True, backend="aot_eager")(images, windows), call(images, windows))
