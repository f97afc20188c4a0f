"""Convolutions of split images: the bits of the whole image, whatever the cut and the devices."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from splits import PLACES, assert_same, check, check_random, devices_at, with_random_splits
from strategies import conv_cases, lay_out, make_image, make_window

import torch_conv
from torch_conv import split


@pytest.fixture(scope="module", params=PLACES)
def devices(request):
    return devices_at(request.param)


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
    for dim in (0, 2, 3):
        for options in ({"padding": 1}, {"padding": "same", "dilation": 2}, {"stride": 2, "padding_mode": "reflect"}):
            check(
                lambda x, **kw: torch_conv.conv2d(x, weight.to(x.device), bias.to(x.device), algorithm=algorithm, **kw),
                image,
                devices,
                dim,
                bits=False,
                **options,
            )


def test_autocast(devices):
    to = devices(3)
    kind = torch.device(to[0]).type
    image, weight = make_image((1, 3, 12, 13)), make_window((3, 1, 3, 3)).to(to[0])
    with torch.autocast(kind, torch.bfloat16):
        got = torch_conv.conv2d(split(image, to), weight, padding=1, groups=3, algorithm="direct")
        assert_same(got, torch_conv.conv2d(image.to(to[0]), weight, padding=1, groups=3, algorithm="direct"))
    assert got.dtype == torch.bfloat16
