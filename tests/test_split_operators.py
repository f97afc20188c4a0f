"""Convolutions of split images, and operators on shards as torch sees them: fakes, refusals, calls that go wrong."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from splits import PLACES, assert_same, check, check_random, fixture_at, with_random_splits
from strategies import conv_cases, lay_out, make_image, make_window
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_conv
from torch_conv import split

devices = fixture_at(PLACES)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@settings(max_examples=60)
@given(case=with_random_splits(st.sampled_from([2, 3]).flatmap(conv_cases)))
def test_random_splits_of_convolutions(devices, case):
    (image, weight, bias, stride, padding, dilation, groups, layout), which, places = case
    axes = weight.dim() - 2
    conv = torch_conv.conv2d if axes == 2 else torch_conv.conv3d
    dim = which % image.dim()
    if dim == image.dim() - axes - 1:
        dim = image.dim() - 1  # along channels: test_convolutions_along_channels

    def call(x):
        w, b = (t if t is None else t.to(x.device) for t in (weight, bias))
        return conv(x, w, b, stride, padding, dilation, groups, algorithm="direct")

    check_random(call, lay_out(image, layout), devices, dim, places)


@pytest.mark.parametrize("padding_mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [0, 2, "same", "valid"])
def test_convolutions(devices, padding, padding_mode):
    for axes, shape in ((1, (2, 3, 13)), (2, (2, 3, 9, 10)), (3, (2, 3, 6, 7, 8)), (2, (3, 9, 10))):
        conv = getattr(torch_conv, f"conv{axes}d")
        weight, bias = make_window((6, 1, *(4, 3, 3)[:axes])), make_window((6,))

        def call(x, conv=conv, weight=weight, bias=bias):
            stride = 1 if padding == "same" else 2
            weight, bias = weight.to(x.device), bias.to(x.device)
            options = {"groups": 3, "padding_mode": padding_mode, "algorithm": "direct"}
            return conv(x, weight, bias, stride, padding, **options)

        for dim in range(len(shape)):
            check(call, make_image(shape), devices, dim)
            check(call, make_image(shape), devices, dim, [1, 0, shape[dim] - 1])


def test_convolutions_along_channels(devices):
    """Depthwise ones are cut with the image; where outputs need all channels the cut is refused."""
    image = make_image((2, 4, 9, 10))
    for multiplier in (1, 3):
        weight = make_window((4 * multiplier, 1, 3, 3))

        def call(x, w=weight):
            return torch_conv.conv2d(x, w.to(x.device), padding=1, groups=4, algorithm="direct")

        got = check(call, image, devices, 1, [1, 0, 3])
        assert got.spec.sizes == (multiplier, 0, 3 * multiplier)
    with pytest.raises(ValueError, match="^conv2d: "):
        torch_conv.conv2d(split(image, devices(2), 1), make_window((2, 4, 3, 3)).to(devices(1)[0]))


@pytest.mark.parametrize("algorithm", ["auto", "torch"])
def test_dense_convolutions(devices, algorithm):
    """Handed to torch shard by shard, whose sums may be in another order."""
    image, weight, bias = make_image((3, 16, 12, 13)), make_window((24, 16, 3, 3)), make_window((24,))

    def call(x, **options):
        return torch_conv.conv2d(x, weight.to(x.device), bias.to(x.device), algorithm=algorithm, **options)

    for dim in (0, 2, 3):
        for options in ({"padding": 1}, {"padding": "same", "dilation": 2}, {"stride": 2, "padding_mode": "reflect"}):
            check(call, image, devices, dim, bits=False, **options)


def test_autocast(devices):
    to = devices(3)
    kind = torch.device(to[0]).type
    image, weight = make_image((1, 3, 12, 13)), make_window((3, 1, 3, 3)).to(to[0])
    with torch.autocast(kind, torch.bfloat16):
        got = torch_conv.conv2d(split(image, to), weight, padding=1, groups=3, algorithm="direct")
        assert_same(got, torch_conv.conv2d(image.to(to[0]), weight, padding=1, groups=3, algorithm="direct"))
    assert got.dtype == torch.bfloat16


OPS = torch.ops.torch_conv


def image(*shape, device="cpu"):
    return torch.rand(shape, generator=torch.Generator().manual_seed(0)).to(device)


def inner(x):
    return x.contiguous(memory_format=torch.channels_last)


def in_three(x, dim=-2):
    return list(torch.tensor_split(x, 3, dim))


FAKED = {
    "rows": (OPS.filter2d_split, lambda x: in_three(x), (image(3, 3),), {"stride": 2}),
    "rows of the result left out": (OPS.filter2d_split, lambda x: in_three(x), (image(4, 3),), {"wanted": [2, 0]}),
    "valid": (OPS.filter2d_split, lambda x: in_three(x), (image(5, 3), "reflect", False, "valid"), {"stride": [3, 1]}),
    "layouts of their own": (OPS.filter2d_split, lambda x: [x, inner(x)], (image(3, 3),), {}),
    "an empty first shard": (OPS.filter2d_split, lambda x: [x[:, :, :0], inner(x)], (image(3, 3),), {}),
    "several outputs": (OPS.gradient2d_split, lambda x: in_three(inner(x)), (), {}),
    "samples": (OPS.filter2d_split, lambda x: [x[:1], x[1:]], (image(2, 1, 3, 3),), {"dim": 0}),
    "groups": (OPS.conv2d_split, lambda x: [x[:, :2], x[:, 2:]], (image(8, 1, 3, 3),), {"groups": 4, "dim": 1}),
}


@pytest.mark.parametrize("case", FAKED)
def test_fakes_know_shapes_and_strides(case):
    op, shards_of, args, kwargs = FAKED[case]
    shards = shards_of(image(2, 4, 12, 10))
    real = op(shards, *args, **kwargs)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = op([mode.from_tensor(t) for t in shards], *args, **kwargs)
    assert [(t.shape, t.stride(), t.dtype) for t in fake] == [(t.shape, t.stride(), t.dtype) for t in real]


def test_a_shard_on_meta_is_refused():
    x = image(1, 1, 8, 8)
    with pytest.raises(RuntimeError, match="filter2d_split: shards must be on cpu, got meta"):
        OPS.filter2d_split([x, x.to("meta")], image(3, 3))


REFUSED = [
    (lambda x: OPS.filter2d_split([], image(3, 3)), "filter2d: shards must hold at least one tensor"),
    (
        lambda x: OPS.filter2d_split([x, x[..., 1:]], image(3, 3)),
        "filter2d: shards must have the same shape but for dimension 2, got (1, 4, 12, 10) and (1, 4, 12, 9)",
    ),
    (
        lambda x: OPS.filter2d_split([x, x.double()], image(3, 3)),
        "filter2d: shards must have the same dtype, got float32 and float64",
    ),
    (
        lambda x: OPS.filter2d_split([x], image(3, 3), dim=4),
        "filter2d: dim must be one of the shards' 4 dimensions, got 4",
    ),
    (lambda x: OPS.filter2d_split([x, x], image(3, 3), wanted=[2]), "filter2d: wanted must name shards 0 to 1, got 2"),
    (
        lambda x: OPS.conv2d_split([x, x], image(16, 8, 3, 3), dim=1),
        "conv2d: a dense convolution cannot be split along its channels",
    ),
    (
        lambda x: OPS.conv2d_split([x[:, :1], x[:, 1:]], image(4, 2, 3, 3), groups=2, dim=1),
        "conv2d: shards along channels must hold whole groups of 2 channels, got one of 1 from channel 0 on",
    ),
    (
        lambda x: OPS.conv2d_split(
            in_three(x), image(64, 4, 3, 3), padding=12, padding_mode="reflect", algorithm="torch"
        ),
        "conv2d: padding must be at most 11 along an axis of 12 with padding_mode='reflect', got 12",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSED)
def test_refusals(call, sentence):
    with refuses(RuntimeError, sentence):
        call(image(1, 4, 12, 10))


def test_a_pinned_algorithm_is_that_of_the_whole(device):
    x, k = image(1, 2, 33, 20, device=device), image(5)
    whole = OPS.filter2d_separable(x, k, k, stride=2, algorithm="fused")
    parts = OPS.filter2d_separable_split(in_three(x), k, k, stride=2, algorithm="fused")
    assert torch.equal(torch.cat(parts, -2), whole)
    with pytest.raises(RuntimeError, match="algorithm 'fused' serves odd windows in their middle, with stride 2"):
        OPS.filter2d_separable_split(in_three(x), k, k, algorithm="fused")


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64])
def test_convolutions_that_torch_computes(dtype):
    x, w = (image(1, 3, 12, 10) * 9).to(dtype), (image(4, 3, 3, 3) * 9).to(dtype)
    parts = OPS.conv2d_split(in_three(x), w, padding=1)
    assert torch.allclose(torch.cat(parts, -2), F.conv2d(x, w, padding=1))


def test_shards_that_expand_one_row_or_column(device):
    k = image(3, 3)
    for x in (
        image(1, 1, 1, 64, device=device).expand(1, 2, 50, 64),
        image(1, 1, 50, 1, device=device).expand(-1, -1, -1, 64),
    ):
        whole = OPS.gaussian_sobel2d(x, k[0], k[1])
        for dim in (-1, -2):
            parts = OPS.gaussian_sobel2d_split(in_three(x, dim), k[0], k[1], dim=dim)
            assert torch.equal(torch.cat(parts, dim), whole)


def test_the_next_good_call_works_after_a_refused_one(device):
    x, k = image(1, 1, 30, 20, device=device), image(3, 3)
    expected = torch_conv.filter2d(x, k)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="kernel must have 2, 3 or 4 dimensions"):
            OPS.filter2d_split(in_three(x), image(3))
        assert torch.equal(torch.cat(OPS.filter2d_split(in_three(x), k), -2), expected)
        assert torch.equal(torch_conv.filter2d(x, k), expected)  # nothing of the call on shards is left behind


@pytest.mark.parametrize("question", ["footprint", "anything"])
def test_questions_that_a_call_on_shards_has_no_answer_to(question):
    with pytest.raises(RuntimeError) as refused:
        OPS._filter2d_split_query(question, in_three(image(1, 1, 30, 20)), image(3, 3))
    sentence = f"filter2d: question must be 'explain', 'prepare' or 'recorded', got '{question}'"
    assert str(refused.value).splitlines()[0] == sentence


def test_asking_how_far_a_call_reaches():
    def reach(operator, *args, **kwargs):
        numbers = operator("footprint", *args, **kwargs)
        return [numbers[i : i + 6] for i in (0, 6, 12)], numbers[18]

    x = torch.empty(1).expand(1, 1, 100, 80)
    (_, rows, columns), border = reach(OPS._filter2d_query, x, image(5, 4), "circular", stride=[2, 1])
    assert (rows, columns, border) == ([2, 5, 2, 0, 50, 1], [1, 4, 1, 0, 80, 1], 4)
    (_, rows, _), border = reach(OPS._gaussian_sobel2d_query, x, image(7), image(5), "constant", padding="valid")
    assert (rows, border) == ([0, 7, 1, 3, 94, 1], 0)
    (_, rows, columns), _ = reach(OPS._box2d_query, x, [5, 4])
    assert (rows, columns) == ([2, 5, 1, 0, 100, 8], [1, 4, 1, 0, 80, 1])


FAKES_REFUSE = [
    (
        lambda x, k: OPS.filter2d_split([x[0, 0, 0, 0]], k),
        "filter2d: dim must be one of the shards' 0 dimensions, got -2",
    ),
    (lambda x, k: OPS.conv2d_split([x[0, 0, 0, 0]], k), "conv2d: dim must be one of the shards' 0 dimensions, got -2"),
    (lambda x, k: OPS.filter2d_split([x], k, dim=4), "filter2d: dim must be one of the shards' 4 dimensions, got 4"),
    (lambda x, k: OPS.filter2d_split([x, x], k, wanted=[2]), "filter2d: wanted must name shards 0 to 1, got 2"),
    (lambda x, k: OPS._conv_ours(x, x, None, 2**40, 1, 0, 1, 1), "_conv: axes must be 1, 2 or 3, got 1099511627776"),
]


@pytest.mark.parametrize(("call", "sentence"), FAKES_REFUSE)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_fakes_refuse_as_kernels_do(call, sentence, device):
    with refuses(RuntimeError, sentence):
        call(image(1, 1, 3, 3).to(device), image(3, 3).to(device))
