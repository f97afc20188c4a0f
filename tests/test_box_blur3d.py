"""box_blur3d: box3d under the name and arguments of the functions."""

from __future__ import annotations

import pytest
import torch
from oracle import check
from strategies import BORDERS, make_image
from tolerance import assert_same_bits

import torch_conv


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("normalized", [True, False])
def test_is_box3d(device, border, normalized):
    volume = make_image((2, 3, 6, 9, 15), device=device)
    got = torch_conv.box_blur3d(volume, (3, 5, 4), border, normalized=normalized, anchor=(2, 0, 3))
    operator = torch.ops.torch_conv.box3d
    assert_same_bits(got, operator(volume, [3, 5, 4], border, normalized, anchor=[2, 0, 3]))


def test_defaults(device):
    """The mean, and voxels at the edge repeat outside."""
    volume = make_image((2, 6, 9, 15))
    check("box_blur3d", volume, 3, device=device, algorithm="box", window=(3, 3, 3))
    got = torch_conv.box_blur3d(volume.to(device), 3)
    assert_same_bits(got, torch_conv.box_blur3d(volume.to(device), (3, 3, 3), "replicate", normalized=True))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_order_is_depth_height_width(device, axis):
    volume, size = torch.zeros(7, 7, 7, device=device), [1, 1, 1]
    volume[3, 3, 3] = 3
    size[axis] = 3
    got = torch_conv.box_blur3d(volume, size, "constant")
    assert got.movedim(axis, -1)[3, 3].tolist() == [0, 0, 1, 1, 1, 0, 0]
    assert got.count_nonzero() == 3


def test_one_plane_deep_is_box_blur_on_every_plane(device):
    volume = make_image((2, 5, 12, 15), torch.uint8, device=device)
    got = torch_conv.box_blur3d(volume, (1, 5, 4), "reflect")
    assert_same_bits(got, torch_conv.box_blur(volume, (5, 4), "reflect"))
