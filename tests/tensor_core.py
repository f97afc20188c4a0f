"""filter2d by products of matrices, and what its results are held to: the test files of 'tensor_core' share it."""

from __future__ import annotations

import torch
from oracle import check

import torch_conv

HALVES = [torch.float16, torch.bfloat16]
H200 = "9.0 132 232448 4.8e12"


def products(image, window, *args, **options):
    return torch_conv.filter2d(image, window, *args, algorithm="tensor_core", **options)


def check_products(image, window, device, **options):
    """Against the float64 reference, under the bound of tests/tolerance.py."""
    size = tuple(window.shape[-2:])
    kinds = {"way": "tensor_core", "algorithm": "tensor_core", "window": size}
    return check("filter2d", image, window, device=device, **kinds, **options)
