"""Depthwise convolutions of many images and planes, of none, and of one wherever it stands among them."""

import pytest
import torch
import torch.nn.functional as F
from depthwise_cases import HALVES, LAYOUTS, check_every_kernel, conv, exact
from strategies import lay_out, make_image, make_window
from tolerance import assert_same_bits, assert_within

import torch_conv

# (shape, window, outputs of a channel): problems that are more than a block or two for every multiprocessor.
WALKS = [
    ((64, 96, 56, 56), 7, 1),  # 32 channels, four stages; blocks begin inside images
    ((128, 32, 56, 56), 3, 1),  # three stages
    ((64, 768, 14, 14), 7, 1),  # 16 channels, two stages
    ((700, 400, 7, 7), 5, 1),  # images of one block of rows, which leave by two boxes
    ((1000, 96, 7, 7), 7, 1),
]
PLANES = [
    ((19, 64, 16, 16), 13, 1),  # three images in the last group
    ((19, 1000, 16, 16), 13, 1),  # four channels a block
    ((40, 301, 16, 16), 13, 2),
    ((46, 200, 32, 32), 31, 1),
]


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("variant, case", [*(("channels_mma", c) for c in WALKS), *(("large_mma", c) for c in PLANES)])
def test_many_images(cuda, pinned, dtype, variant, case):
    """Blocks that go on with other images, and whole planes of 16 images; one pixel is NaN."""
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("no bulk copies")
    shape, k, multiplier = case
    image = make_image(shape, dtype, device=cuda)
    image[-1, -1, shape[2] // 2, 1] = float("nan")
    weight = make_window((multiplier * shape[1], 1, k, k), dtype, device=cuda)
    bias = make_window((multiplier * shape[1],), dtype, device=cuda)
    laid = lay_out(image, "channels_last" if variant == "channels_mma" else "contiguous")

    def call():
        return conv(laid, weight, bias, "tensor_core", padding=k // 2)

    got = pinned(variant, call)
    assert got is not None
    if variant == "large_mma":
        assert "whole planes" in str(pinned(variant, lambda: torch_conv.explain(call)))
    assert_same_bits(pinned(variant, call), got)
    with torch.backends.cudnn.flags(enabled=False):
        options = {"padding": k // 2, "groups": shape[1]}
        exact = F.conv2d(image.double(), weight.double(), bias.double(), **options).cpu()
        sizes = (t.double().nan_to_num().abs() for t in (image, weight, bias))
        scale = F.conv2d(*sizes, **options).cpu()
    finite = exact.isfinite()
    assert torch.equal(got.isfinite().cpu(), finite)
    assert_within(
        got.cpu()[finite], exact[finite], scale[finite], in_dtype=dtype, algorithm="tensor_core", window=(k, k)
    )


@pytest.mark.parametrize("algorithm", ["direct", "ours"])
@pytest.mark.parametrize("layout", LAYOUTS[:2])
def test_an_image_is_the_same_wherever_it_stands_in_the_batch(device, algorithm, layout):
    for shape, k in [((17, 16, 14, 14), 7), ((6, 8, 32, 32), 13), ((5, 32, 56, 56), 3)]:
        image = make_image(shape, torch.float16, device=device)
        image[-1] = image[0]
        weight = make_window((shape[1], 1, k, k), torch.float16, device=device)
        got = conv(lay_out(image, layout), weight, algorithm=algorithm, padding=k // 2)
        assert_same_bits(got[-1], got[0])


@pytest.mark.parametrize("shape", [(0, 4, 8, 8), (1, 70000, 3, 3), (70000, 1, 2, 5)], ids=str)
def test_none_and_many_planes(device, pinned, shape):
    image, weight = make_image(shape, device=device), make_window((shape[1], 1, 3, 3), device=device)
    if shape[1] == 1:
        image, weight = image.expand(-1, 2, -1, -1), make_window((2, 1, 3, 3), device=device)
    if shape[0] == 0:
        assert conv(image, weight, padding=1).shape == shape
    else:
        check_every_kernel(device, pinned, image, weight, padding=1)


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS[:2])
def test_more_than_2_to_the_31_elements(cuda, layout):
    shape = (2**15 + 1, 64, 32, 32)
    image = torch.zeros(shape, dtype=torch.float16, device=cuda)
    image = lay_out(image, layout) if layout == "channels_last" else image
    image[-1] = make_image(shape[1:], torch.float16, device=cuda)
    weight = make_window((64, 1, 3, 3), torch.float16, device=cuda)
    got = conv(image, weight, algorithm="ours", padding=1)
    sums, scale = exact(image[-1:], weight, None, padding=1)  # many images may go to products, one to a chain
    assert_within(got[-1:], sums, scale, in_dtype=image.dtype, algorithm="tensor_core", window=(3, 3))
    assert not got[:-1].any()
