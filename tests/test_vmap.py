"""torch.vmap over functions and operators: one call for all examples, a loop's values, the refusals of one example."""

import re
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from operator_log import Log
from refusals import refuses
from strategies import make_image, make_window
from tolerance import assert_same_bits

import torch_conv
from torch_conv.dispatch import batching

of = torch.ops.torch_conv
N = 3
IMAGE, VOLUME, SEQUENCE = (2, 4, 9, 10), (2, 2, 6, 7, 8), (2, 3, 12)

# name: a call, the image's shape, and the shapes of other arguments that may be mapped.
CALLS = {
    "filter2d": (torch_conv.filter2d, IMAGE, [(3, 3)]),
    "filter2d, of samples": (torch_conv.filter2d, IMAGE, [(2, 3, 3)]),
    "filter2d, of channels": (partial(torch_conv.filter2d, padding="valid"), IMAGE, [(1, 4, 2, 3)]),
    "filter2d, of one image": (torch_conv.filter2d, (9, 10), [(3, 3)]),
    "filter2d, unbatched": (torch_conv.filter2d, (4, 9, 10), [(1, 4, 3, 3)]),
    "filter2d, of many dimensions": (torch_conv.filter2d, (2, 1, 4, 9, 10), [(3, 3)]),
    "filter1d": (partial(torch_conv.filter1d, dim=-2), IMAGE, [(2, 3)]),
    "filter2d_separable": (torch_conv.filter2d_separable, IMAGE, [(3,), (2, 4, 5)]),
    "filter3d": (partial(torch_conv.filter3d, stride=2), VOLUME, [(2, 3, 3, 3)]),
    "filter3d_separable": (torch_conv.filter3d_separable, VOLUME, [(3,), (1, 3), (2, 5)]),
    "box_blur": (partial(torch_conv.box_blur, kernel_size=(3, 4)), IMAGE, []),
    "box_blur3d": (partial(torch_conv.box_blur3d, kernel_size=3), VOLUME, []),
    "gaussian_blur2d": (lambda x: torch_conv.gaussian_blur2d(x, 5, 1.5), IMAGE, []),
    "sobel": (torch_conv.sobel, IMAGE, []),
    "spatial_gradient": (torch_conv.spatial_gradient, (4, 9, 10), []),
    "gaussian_sobel": (of.gaussian_sobel2d, IMAGE, [(2, 3), (2, 3)]),
    "unsharp_mask": (lambda x: torch_conv.unsharp_mask(x, 9, 2.0), IMAGE, []),
    "difference_of_gaussians": (lambda x: torch_conv.difference_of_gaussians(x, 2.0), IMAGE, []),
    "structure_tensor": (of.structure_tensor2d, IMAGE, [(1, 3), (2, 3)]),
    "thin_edges": (of.thin_edges2d, IMAGE, [(3,), (3,)]),
    "gaussian_gradient_magnitude3d": (of.gaussian_gradient3d, VOLUME, [(3,), (2, 3), (1, 3)]),
    "conv1d": (partial(torch_conv.conv1d, padding=1, groups=4), (2, 4, 20), [(8, 1, 3), (8,)]),
    "conv2d": (partial(torch_conv.conv2d, padding=1, groups=4), IMAGE, [(4, 1, 3, 3), (4,)]),
    "conv2d, unbatched": (partial(torch_conv.conv2d, groups=4), (4, 9, 10), [(4, 1, 3, 3), (4,)]),
    "conv2d, bank": (torch_conv.conv2d, IMAGE, [(6, 4, 3, 3)]),
    "conv2d, same": (partial(of.conv2d, padding="same", groups=4), IMAGE, [(4, 1, 3, 4)]),
    "conv2d, activation": (partial(torch_conv.conv2d, groups=4, activation="silu"), IMAGE, [(4, 1, 3, 3), (4,)]),
    "conv2d, dense": (torch_conv.conv2d, (2, 16, 9, 10), [(16, 16, 3, 3)]),
    "conv3d": (partial(torch_conv.conv3d, groups=2, stride=2), VOLUME, [(2, 1, 3, 3, 3)]),
    "causal_conv1d": (torch_conv.causal_conv1d, SEQUENCE, [(3, 4), (3,)]),
    "causal_conv1d, states": (
        lambda x, w, before: torch_conv.causal_conv1d(x, w, initial_states=before, return_final_states=True)[1],
        SEQUENCE,
        [(3, 4), (2, 3, 3)],
    ),
}


def one_by_one(call, stacks, dims):
    return torch.stack(
        [call(*(t[0] if d is None else t[i] for t, d in zip(stacks, dims, strict=True))) for i in range(N)]
    )


def mapped(call, stacks, dims):
    """A call with the examples in the last dimension."""
    given = [t[0] if d is None else t.movedim(0, d) for t, d in zip(stacks, dims, strict=True)]
    return torch.vmap(call, tuple(dims))(*given)


def close(got, expected):
    assert got.dtype == expected.dtype
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


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


BAD_SIGMA = {
    "gaussian_blur2d": (lambda x, s: torch_conv.gaussian_blur2d(x, 5, s), IMAGE),
    "unsharp_mask": (lambda x, s: torch_conv.unsharp_mask(x, 5, s), IMAGE),
    "gaussian_blur3d": (lambda x, s: torch_conv.gaussian_blur3d(x, 5, s), VOLUME),
}


@pytest.mark.parametrize("name", BAD_SIGMA)
@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan")])
def test_a_sigma_for_each_is_checked(name, wrong):
    call, shape = BAD_SIGMA[name]
    images, sigmas = make_image((2, N, *shape)), torch.ones(2, N, 1, len(shape) - 2)
    sigmas[1, 2, 0, 1] = wrong
    with pytest.raises(ValueError, match="sigma must be finite and greater than 0, got") as of_one:
        call(images[1, 2], sigmas[1, 2])
    sentence = "^" + re.escape(str(of_one.value)) + "$"
    slope = torch.func.grad(lambda x, s: call(x, s).sum(), (0, 1))
    for of_many in (call, slope):
        with pytest.raises(ValueError, match=sentence):
            torch.vmap(of_many)(images[1], sigmas[1])
        with pytest.raises(ValueError, match=sentence):
            torch.vmap(torch.vmap(of_many, (0, 2)), (0, 0))(images, sigmas.movedim(1, -1))


WEIGHT, MULTIPLE = "a weight of shape (4, 3, 3, 3)", "must be a positive multiple of groups"
OURS, BEFORE = {"algorithm": "ours"}, {"initial_states": torch.zeros(2, 3, 5)}


@pytest.mark.parametrize(
    ("name", "options", "shapes", "sentence"),
    [
        ("filter2d", {}, [(9,), (3, 3)], "input must have at least 2 dimensions, got 1"),
        ("filter2d", {}, [IMAGE, (3,)], "kernel must have 2, 3 or 4 dimensions, got 1"),
        ("filter2d", {}, [IMAGE, (3, 3, 3)], "kernel's first dimension must be 1 or the batch size 2"),
        ("filter2d", {}, [IMAGE, (0, 3)], "kernel must have at least one tap, got shape (0, 3)"),
        ("conv2d", {}, [(9, 10), (4, 1, 3, 3)], "input must have 3 (unbatched) or 4 dimensions, got 2"),
        ("conv2d", {}, [IMAGE, (4, 3, 3, 3)], f"input must have 3 channels for {WEIGHT} and groups 1, got 4"),
        ("conv2d", {}, [IMAGE, (4,)], "weight must have 4 dimensions, got 1"),
        ("conv2d", {"groups": 4}, [IMAGE, (5, 1, 3, 3)], f"the weight's 5 output channels {MULTIPLE} 4"),
        ("conv2d", OURS | {"groups": 0}, [IMAGE, (4, 4, 3, 3)], "groups must be at least 1, got 0"),
        ("conv2d", {"bias": torch.zeros(5), "groups": 4}, [IMAGE, (4, 1, 3, 3)], "bias must have shape (4,), got (5,)"),
        (
            "conv2d",
            OURS | {"groups": 4},
            [IMAGE, (4, 1, 0, 3)],
            "weight must have at least one tap, got shape (4, 1, 0",
        ),
        ("conv3d", {}, [(9,), (4, 1, 3, 3, 3)], "input must have 4 (unbatched) or 5 dimensions, got 1"),
        ("causal_conv1d", {}, [(3, 12), (3, 4)], "x must have 3 dimensions"),
        ("causal_conv1d", BEFORE, [SEQUENCE, (3, 4)], "initial_states must have shape (2, 3, 3), got (2, 3, 5)"),
    ],
)
@torch.no_grad()
def test_refusals_are_those_of_one_example(name, options, shapes, sentence):
    image, window = make_image((N, *shapes[0])), make_window((N, *shapes[1]))
    for dims in ((0, None), (None, 0), (0, 0)):
        with pytest.raises(ValueError, match="^" + re.escape(f"{name}: {sentence}")):
            mapped(partial(getattr(torch_conv, name), **options), [image, window], dims)


def whole():
    return torch_conv.split(torch.ones(2, 1, 16, 8), devices=["cpu", "cpu"])


def update(x, state):
    return torch_conv.causal_conv1d_update(x, state, torch.ones(3, 4))


INTO, CUT = (
    "{0} does not support torch.vmap; call it without {0}",
    "does not support torch.vmap; call it for each example",
)
WINDOW, CUBE, STATES = (3, 3), (3, 3, 3), {"return_final_states": True, "final_states_out": torch.empty(2, 3, 3)}


@pytest.mark.parametrize(
    ("name", "call", "shapes", "sentence"),
    [
        (
            "filter2d",
            lambda x, k: torch_conv.filter2d(x, k, out=torch.empty(IMAGE)),
            [IMAGE, WINDOW],
            INTO.format("out"),
        ),
        ("sobel", lambda x, out: torch_conv.sobel(x, out=out), [IMAGE, IMAGE], INTO.format("out")),
        ("filter3d", lambda x, k: of.filter3d_out(x, k, out=torch.empty(VOLUME)), [VOLUME, CUBE], INTO.format("out")),
        (
            "causal_conv1d",
            partial(torch_conv.causal_conv1d, **STATES),
            [SEQUENCE, (3, 4)],
            INTO.format("final_states_out"),
        ),
        ("causal_conv1d_update", update, [(2, 3), (2, 3, 4)], f"conv_state {CUT}"),
        ("filter2d", lambda x, k: torch_conv.filter2d(whole(), k), [(1,), WINDOW], f"a SplitTensor {CUT}"),
        ("conv2d", lambda x, w: of.conv2d(whole(), w, padding="same"), [(1,), (4, 1, 3, 3)], f"a SplitTensor {CUT}"),
        ("filter2d", lambda x, k: of.filter2d_split([x, x], k), [IMAGE, WINDOW], f"a SplitTensor {CUT}"),
    ],
)
@torch.no_grad()
def test_arguments_that_cannot_be_mapped(name, call, shapes, sentence):
    with refuses(RuntimeError, f"{name}: {sentence}"):
        torch.vmap(call)(*(torch.ones(N, *shape) for shape in shapes))


def test_out_of_memory_is_not_tried_again_for_each_example(monkeypatch):
    calls = []

    def call(*_args, **_options):
        calls.append(1)
        raise torch.OutOfMemoryError("as torch says it")

    def register_vmap(_name, rule, lib):
        with pytest.raises(torch.OutOfMemoryError, match="^as torch says it$"):
            rule(SimpleNamespace(batch_size=3), (0,), torch.rand(3, 2, 8, 8))

    monkeypatch.setattr(torch.library, "register_vmap", register_vmap)
    batching._register("filter2d", call)
    assert calls == [1]
