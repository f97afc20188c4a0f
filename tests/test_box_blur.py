"""box_blur: box2d under kornia's name and arguments."""

from __future__ import annotations

import pytest
import torch
from strategies import BORDERS, make_image
from tolerance import assert_same_bits

import torch_conv


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("normalized", [True, False])
def test_is_box2d(device, border, normalized):
    image = make_image((2, 3, 20, 31), device=device)
    got = torch_conv.box_blur(image, (5, 4), border, normalized=normalized, anchor=(0, 3))
    assert_same_bits(got, torch.ops.torch_conv.box2d(image, [5, 4], border, normalized, anchor=[0, 3]))


def test_one_number_is_a_square(device):
    image = make_image((20, 31), device=device)
    assert_same_bits(torch_conv.box_blur(image, 5), torch_conv.box_blur(image, (5, 5)))


def test_separable_changes_nothing(device):
    image = make_image((20, 31), device=device)
    assert_same_bits(torch_conv.box_blur(image, 5, "reflect", False), torch_conv.box_blur(image, 5, "reflect", True))


def test_height_comes_first(device):
    image = torch.zeros(9, 9, device=device)
    image[4, 4] = 3
    got = torch_conv.box_blur(image, (3, 1), "constant")
    assert got[:, 4].tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 0]
    assert got.count_nonzero() == 3


@pytest.mark.parametrize("size", [3, (3, 7), (9, 5)])
@pytest.mark.parametrize("border", ["constant", "reflect", "replicate", "circular"])
def test_witness_kornia(size, border):
    kornia = pytest.importorskip("kornia")
    image = make_image((2, 3, 19, 23), torch.float64)
    expected = kornia.filters.box_blur(image, size, border)
    torch.testing.assert_close(torch_conv.box_blur(image, size, border), expected, rtol=1e-11, atol=1e-11)
