"""Functions of split images: the bits of the whole image, whatever the cut and the devices."""

import re

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import ON_TENSOR_CORES
from splits import IMAGES, PLACES, VOLUMES, assert_same, check, check_random, cuts, fixture_at, with_random_splits
from strategies import (
    BORDERS,
    DTYPES,
    FLOATS,
    LAYOUTS,
    VOLUME_LAYOUTS,
    filter_cases,
    lay_out,
    make_image,
    make_window,
    separable_cases,
)
from tolerance import assert_same_bits

import torch_conv
from torch_conv import SplitTensor, split

devices = fixture_at(PLACES)


def test_every_function_is_in_the_table():
    names = {name.split(" ")[0] for name in [*IMAGES, *VOLUMES]}
    apart = {"conv1d", "conv2d", "conv3d", "causal_conv1d", "causal_conv1d_update"}  # with tests of their own
    assert names | apart == set(torch_conv.functional.__all__)


@pytest.mark.parametrize("name", IMAGES)
def test_images(devices, name):
    image = make_image((2, 3, 11, 13))
    for border in BORDERS:
        for dim in range(4):
            for sizes in cuts(image.size(dim)):
                check(IMAGES[name], image, devices, dim, sizes, border_type=border)


@pytest.mark.parametrize("name", VOLUMES)
def test_volumes(devices, name):
    volume = make_image((2, 2, 6, 7, 8))
    for border in BORDERS:
        for dim in range(5):
            for sizes in cuts(volume.size(dim))[:2]:
                check(VOLUMES[name], volume, devices, dim, sizes, border_type=border)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["filter2d", "filter2d_separable", "box_blur", "gaussian_sobel", "spatial_gradient"])
def test_dtypes(devices, name, dtype):
    image = make_image((2, 3, 11, 13), dtype)
    for dim in (-1, -2, -3):
        check(IMAGES[name], image, devices, dim)
        if dtype.is_floating_point:
            check(IMAGES[name], image, devices, dim, output_dtype=torch.int16)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.uint16])
def test_running_sums_of_integers(devices, dtype):
    image = make_image((2, 2, 7, 9, 10), dtype)
    for border in BORDERS:
        for dim in (-1, -2, -3):
            check(lambda x, **kw: torch_conv.box_blur(x, (5, 4), **kw), image, devices, dim, border_type=border)
            check(lambda x, **kw: torch_conv.box_blur3d(x, (5, 4, 3), **kw), image, devices, dim, border_type=border)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_images(devices, layout):
    image = lay_out(make_image((2, 3, 11, 13)), layout)
    for dim in range(4):
        for name in ("filter2d", "filter2d_separable", "gaussian_sobel", "structure_tensor"):
            got = check(IMAGES[name], image, devices, dim)
    assert got.spec.dim == -1


def test_channels_last_stays(devices):
    for image, last in ((make_image((1, 3, 11, 13)), torch.channels_last), (make_image((1, 3, 5, 6, 7)), None)):
        last = last or torch.channels_last_3d
        function = torch_conv.filter2d if image.dim() == 4 else torch_conv.filter3d
        image = image.contiguous(memory_format=last)
        rows = split(image, devices(3), 2)
        result = function(rows, make_window((3,) * (image.dim() - 2)))
        for tensors in (rows.shards, result.shards, [result.gather(), result.gather("cpu"), rows.gather()]):
            assert all(t.is_contiguous(memory_format=last) for t in tensors)


@pytest.mark.parametrize("layout", VOLUME_LAYOUTS)
def test_layouts_of_volumes(devices, layout):
    volume = lay_out(make_image((2, 3, 6, 7, 8)), layout)
    for dim in range(5):
        for name in ("filter3d", "filter3d_separable", "spatial_gradient3d"):
            check(VOLUMES[name], volume, devices, dim)


@pytest.mark.parametrize("shape", [(17,), (9, 17), (2, 9, 5), (2, 2, 3, 4, 5)], ids=str)
def test_filter1d_of_any_dimensions(devices, shape):
    signal, kernel = make_image(shape), make_window((4,))
    for along in range(len(shape)):
        for dim in range(len(shape)):
            for border in ("reflect", "circular", "constant"):
                options = {"dim": along, "border_type": border, "value": 0.5}
                check(lambda x, o=options: torch_conv.filter1d(x, kernel, **o), signal, devices, dim)
            check(lambda x, d=along: torch_conv.filter1d(x, kernel, dim=d, stride=2), signal, devices, dim)


def test_filter1d_per_sample(devices):
    signal, image = make_image((3, 2, 15)), make_image((3, 2, 9, 11))
    for kernel in (make_window((3, 5)), make_window((3, 2, 5)), make_window((1, 2, 5))):
        for dim in range(3):
            check(lambda x, k=kernel: torch_conv.filter1d(x, k), signal, devices, dim)
        for dim in range(4):
            check(lambda x, k=kernel: torch_conv.filter1d(x, k, dim=-2), image, devices, dim)


def owner(o, stride, middle, bounds):
    """The shard that holds output o, by the row of its middle."""
    row = min(max(o * stride + middle, 0), bounds[-1] - 1)
    return next(i for i in range(len(bounds) - 1) if bounds[i] <= row < bounds[i + 1])


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("stride", [1, 2, 3, 7])
@pytest.mark.parametrize("k", [1, 2, 5, 8])
def test_owner_of_each_output(devices, padding, stride, k):
    """An output is on the shard of its row: with 'valid' the row of the window's middle."""
    image = make_image((1, 2, 23, 25))
    for dim in (-1, -2):
        at = image, devices, dim
        for sizes in ([8, 8, image.size(dim) - 16], [1, 0, 2, image.size(dim) - 3]):
            options = {"padding": padding, "stride": stride, "anchor": k - 1 if padding == "same" else None}
            got = check(lambda x, **kw: torch_conv.filter2d(x, make_window((k, k)), **kw), *at, sizes, **options)
            bounds = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
            middle = (k - 1) // 2 if padding == "valid" else 0
            owners = [owner(o, stride, middle, bounds) for o in range(got.size(dim))]
            assert list(got.spec.sizes) == [owners.count(i) for i in range(len(sizes))]


@pytest.mark.parametrize("border", BORDERS)
def test_windows_larger_than_shards_and_image(devices, border):
    image = make_image((1, 2, 5, 6))
    for dim in range(4):
        for sizes in ([1] * image.size(dim), [0, *[1] * image.size(dim), 0]):
            for shape in ((9, 4), (4, 15), (31, 31)):
                filtered = lambda x, s=shape, **kw: torch_conv.filter2d(x, make_window(s).abs(), **kw)  # noqa: E731
                check(filtered, image, devices, dim, sizes, border_type=border)
            check(IMAGES["gaussian_blur2d wide"], image, devices, dim, sizes, border_type=border)
            check(lambda x, **kw: torch_conv.gaussian_sobel(x, 15, 3.0, **kw), image, devices, dim, sizes)


def test_nothing_to_compute(devices):
    for shape in ((0, 3, 5, 6), (2, 0, 5, 6), (2, 3, 0, 6), (2, 3, 5, 0)):
        for dim in range(4):
            check(IMAGES["filter2d"], make_image(shape), devices, dim)
            check(IMAGES["filter1d along C"], make_image(shape), devices, dim)


def test_value_and_one_shard(devices):
    image = make_image((1, 2, 9, 11))
    for n in (1, 2, 9):
        for name in ("filter2d", "filter2d_separable", "gaussian_sobel", "spatial_gradient"):
            sizes = [9 // n] * n if 9 % n == 0 else [5, 4]
            check(IMAGES[name], image, devices, -2, sizes, border_type="constant", value=3.5)


@settings(max_examples=100)
@given(case=with_random_splits(filter_cases()))
def test_random_splits_of_images(devices, case):
    (call, which, places) = case
    image, kernel = lay_out(call.image, call.layout), call.kernels[0]
    check_random(lambda x: torch_conv.filter2d(x, kernel, **call.options), image, devices, which, places)


@settings(max_examples=60)
@given(case=with_random_splits(filter_cases(axes=3)))
def test_random_splits_of_volumes(devices, case):
    (call, which, places) = case
    image, kernel = lay_out(call.image, call.layout), call.kernels[0]
    check_random(lambda x: torch_conv.filter3d(x, kernel, **call.options), image, devices, which, places)


@settings(max_examples=60)
@given(case=with_random_splits(st.sampled_from([2, 3]).flatmap(lambda axes: separable_cases(axes=axes))))
def test_random_splits_of_separable_filters(devices, case):
    (call, which, places) = case
    function = torch_conv.filter2d_separable if len(call.kernels) == 2 else torch_conv.filter3d_separable
    image = lay_out(call.image, call.layout)
    way = {"algorithm": "separable"} if image.dtype in ON_TENSOR_CORES else {}
    check_random(lambda x: function(x, *call.kernels, **way, **call.options), image, devices, which, places)


def test_chains(devices):
    """A result is an input again, empty shards and all."""
    image = make_image((2, 3, 40, 31))

    def chain(x):
        x = torch_conv.gaussian_downsample(torch_conv.filter2d(x, make_window((5, 5)), padding="valid"), 5, 1.0)
        return torch_conv.thin_edges(torch_conv.gaussian_downsample(x, 3, 0.8, 4), 3, 1.0, "circular")

    for dim in range(4):
        check(chain, image, devices, dim, [3, 0, 1, image.size(dim) - 4] if image.size(dim) > 3 else None)


@pytest.mark.filterwarnings("ignore:Using padding=.same. with even kernel lengths")
def test_operators(devices):
    """Called directly: by name or by overload, positionally or by keyword."""
    ops, to = torch.ops.torch_conv, devices(3)
    image, kernel = make_image((1, 3, 9, 10)), make_window((3, 3))
    expected = ops.filter2d(image.to(to[0]), kernel)
    rows = split(image, to)
    assert_same(ops.filter2d(rows, kernel), expected)
    assert_same(ops.filter2d.default(kernel=kernel, input=rows), expected)
    assert_same(SplitTensor.from_shards(ops.filter2d_split(rows.shards, kernel), -2), expected)
    assert_same(SplitTensor.from_shards(ops.filter2d_split(split(image, to, -1).shards, kernel, dim=3), 3), expected)
    weight = make_window((3, 1, 2, 2)).to(to[0])
    expected = F.conv2d(image.to(to[0]), weight, padding="same", groups=3)
    for conv in (ops.conv2d, ops.conv2d.padding):
        assert_same(conv(rows, weight, padding="same", groups=3), expected, bits=False)


def use_shards(shards: list[torch.Tensor], kernel: torch.Tensor) -> list[torch.Tensor]:
    return torch.ops.torch_conv.filter2d_split(shards, kernel, "circular", dim=-1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_in_torchscript(devices):
    columns = split(make_image((2, 3, 9, 10)), devices(3), -1)
    kernel = make_window((5, 3))
    got = torch.jit.script(use_shards)(list(columns.shards), kernel)
    assert_same(SplitTensor.from_shards(got, -1), torch_conv.filter2d(columns.gather(), kernel, "circular"))


def test_wanted_reads_no_more_than_it_says(devices):
    """Shards that `shards_read` leaves out may hold anything."""
    from torch_conv.sharding.calls import shards_read

    operator = torch.ops.torch_conv.filter2d.default
    for n, sizes in ((20, [5, 5, 5, 5]), (13, [1, 2, 0, 6, 1, 1, 2])):
        image = make_image((1, 2, n, n))
        for dim in (-1, -2):
            for k, stride, padding in (
                (3, 1, "same"),
                (9, 1, "same"),
                (4, 3, "same"),
                (6, 2, "valid"),
                (31, 1, "same"),
            ):
                if padding == "valid" and k > n:
                    continue
                for border in BORDERS:
                    rows = split(image, devices(len(sizes)), dim, sizes)
                    args, kwargs = (make_window((k, k)).abs(), border, False, padding), {"stride": [stride, stride]}
                    expected = torch_conv.filter2d(rows, *args, **kwargs).shards
                    read = shards_read(operator, rows, args, kwargs)
                    assert len(read) == len(sizes)
                    for i, needed in enumerate(read):
                        shards = [s if j in needed else s * float("nan") for j, s in enumerate(rows.shards)]
                        (got,) = torch.ops.torch_conv.filter2d_split(shards, *args, **kwargs, dim=dim, wanted=[i])
                        assert_same_bits(got, expected[i])
                        assert got.device == shards[i].device
                    if k <= 3 and border != "circular" and 0 not in sizes:
                        assert all(set(needed) <= {i - 1, i, i + 1} for i, needed in enumerate(read))


def test_groups_of_shards_on_their_way():
    from torch_conv.sharding.calls import groups_of

    a, b = torch.device("cuda", 0), torch.device("cuda", 1)
    read = [[j for j in (i - 1, i, i + 1) if 0 <= j < 8] for i in range(8)]

    def groups(devices, arrived, turns=range(8), read=read):
        return list(groups_of(turns, devices, read, arrived.__contains__))

    # One of each device at a time, and at last those that read the other device's rows.
    assert groups([a] * 4 + [b] * 4, []) == [[0, 5], [1, 6], [2, 7], [3, 4]]
    assert groups([a] * 4 + [b] * 4, [], (3, 2, 1, 0, 7, 6, 5, 4)) == [[2, 7], [1, 6], [0, 5], [3, 4]]
    assert groups([a] * 2 + [b] * 6, []) == [[0, 3], [4], [5], [6], [7], [1, 2]]
    assert groups([a] * 3 + [b] * 3, [], range(6), [*read[:5], [4, 5]]) == [[0, 4], [1, 5], [2, 3]]
    assert groups([a, b] * 4, []) == [list(range(8))]
    assert groups([a, b] * 4, [], read=[[i] for i in range(8)]) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    # With them go those whose rows are there.
    assert groups([a] * 8, []) == [[i] for i in range(8)]
    assert groups([a] * 8, [0, 1, 2, 3]) == [[0, 1, 2], [3], [4], [5], [6], [7]]
    assert groups([a] * 8, [2, 3, 4, 5]) == [[0], [1], [2, 3, 4], [5], [6], [7]]
    assert groups([a] * 4 + [b] * 4, range(8)) == [[0, 5, 1, 6, 2, 7, 3, 4]]


def test_views_know_together_what_has_arrived():
    """A CUDA graph may not query events, so that all views must know the arrivals that one has found."""
    from torch_conv.sharding.calls import Ready

    class Event:
        over, asked = False, 0

        def query(self):
            self.asked += 1
            return self.over

    event = Event()
    parts = SplitTensor._of([torch.zeros(2, 3), torch.ones(2, 3)], -2, Ready.of([None, event]))
    view = parts.unsqueeze(0).flatten(0, 1)
    assert view._ready.arriving() and parts._ready.arriving() and event.asked == 2
    event.over = True
    assert not view._ready.arriving() and event.asked == 3
    assert not parts._ready.arriving() and not parts.unsqueeze(0)._ready.arriving() and event.asked == 3
    assert Ready.of([None, None]) is None


def test_explain(devices):
    plan = torch_conv.explain(torch_conv.filter2d, split(make_image((1, 1, 64, 64)), devices(2)), make_window((3, 3)))
    assert plan.lines
    assert all(re.match("filter2d", line) for line in plan.lines)


@pytest.mark.parametrize("dtype", FLOATS)
def test_nonfinite_values_stay_in_their_windows(devices, dtype):
    image = make_image((1, 1, 12, 12), dtype)
    image[0, 0, 4, 4], image[0, 0, 8, 3] = float("nan"), float("inf")
    for dim in (-1, -2):
        check(IMAGES["filter2d"], image, devices, dim, [4, 1, 7])
        check(IMAGES["gaussian_sobel"], image, devices, dim, [4, 1, 7])
        got = torch_conv.box_blur(split(image, devices(3), dim), 3).gather("cpu")
        assert torch.equal(got.isfinite(), torch_conv.box_blur(image, 3).isfinite())
