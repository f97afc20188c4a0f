"""Boxes over bytes on CUDA by their own kernel: the CPU's bits for any window, border, anchor, layout and width."""

import random

import pytest
import torch
from strategies import BORDERS, make_image

import torch_conv

box2d = torch.ops.torch_conv.box2d
pytestmark = pytest.mark.cuda


def assert_bytes_serve(pinned, image, size, border, **options):
    def call(x):
        return box2d(x, list(size), border, algorithm="box", **options)

    got = pinned("bytes", lambda: call(image))
    assert got is not None
    assert torch.equal(got.cpu(), call(image.cpu()))
    assert got.stride() == call(image).stride()


# Wider than a strip, of whole vectors and not, and smaller than most windows.
SHAPES = [(2, 70, 1920), (1, 40, 1917), (3, 33, 64), (2, 9, 5)]


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("size", [(1, 1), (3, 3), (4, 6), (15, 15), (1, 64), (33, 1), (9, 33), (20, 65), (200, 200)])
def test_sizes(cuda, pinned, border, size):
    for shape in SHAPES:
        image = make_image(shape, torch.uint8, device=cuda)
        for normalized in (True, False):
            assert_bytes_serve(pinned, image, size, border, normalized=normalized, value=7.0)


@pytest.mark.parametrize("size", [(257, 31), (255, 255), (256, 256), (182, 181), (31, 700)])
def test_the_largest_windows(cuda, pinned, size):
    """Sums of 16 and 24 bits up to their last ones, and means at ties: of two values, and of the largest."""
    for most in (2, 256):
        image = make_image((300, 777), torch.uint8, device=cuda) % most + (254 if most == 2 else 0)
        for border in ("reflect", "constant", "skip"):
            assert_bytes_serve(pinned, image, size, border, value=255.0)


@pytest.mark.parametrize("size", [(2, 2), (4, 5), (16, 16), (12, 100), (200, 200)])
def test_ties_go_to_the_even_number(cuda, pinned, size):
    """Images of small numbers, whose means are often halves."""
    image = make_image((260, 333), torch.uint8, device=cuda) % 3
    assert_bytes_serve(pinned, image, size, "reflect")


@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("border", BORDERS)
def test_hwc_images(cuda, pinned, channels, border):
    for shape, size in (
        ((2, 40, 700), (15, 15)),
        ((1, 33, 333), (8, 31)),
        ((1, 5, 3), (45, 37)),
        ((1, 30, 400), (9, 100)),
    ):
        hwc = make_image((*shape, channels), torch.uint8, device=cuda).permute(0, 3, 1, 2)
        assert_bytes_serve(pinned, hwc, size, border, value=3.0)


@pytest.mark.parametrize("left", range(9))
def test_rows_that_start_anywhere(cuda, pinned, left):
    whole = make_image((2, 40, 1030), torch.uint8, device=cuda)
    for right in (1030, 1029, 1024, 990):
        for border in ("reflect", "circular", "constant"):
            assert_bytes_serve(pinned, whole[..., left:right], (15, 15), border)
    assert_bytes_serve(pinned, whole[..., left:], (12, 31), "reflect", padding="valid")


def test_any_call(cuda, pinned):
    """At random: windows, borders, anchors, crops."""
    choose = random.Random(5)
    for i in range(40):
        size = (choose.randint(1, 60), choose.choice([3, 9, 15, 31, 40]))
        shape = (choose.randint(1, 3), choose.randint(60, 150), choose.randint(40, 2100))
        image = make_image(shape, torch.uint8, seed=i, device=cuda)[..., choose.choice([0, 0, 3]) :]
        options = {"normalized": choose.random() < 0.8, "padding": choose.choice(["same", "valid"])}
        options["anchor"] = [choose.randrange(size[0]), choose.randrange(size[1])]
        assert_bytes_serve(pinned, image, size, choose.choice(BORDERS), value=float(choose.randrange(256)), **options)


def test_calls_that_the_variant_refuses(cuda, pinned):
    image = make_image((2, 40, 64), torch.uint8, device=cuda)
    for x, size, options in (
        (image, (258, 3), {}),
        (image, (257, 257), {}),
        (image, (3, 3), {"output_dtype": torch.float32}),
        (image, (3, 3), {"border_type": "constant", "value": 2.5}),
        (image.int().to(torch.int16), (3, 3), {}),
        (image.mT, (3, 3), {}),
    ):
        assert pinned("bytes", lambda x=x, size=size, o=options: torch_conv.box_blur(x, size, **o)) is None
