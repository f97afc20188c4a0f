"""Filters on tensor cores and the bounds of their results, for the test files of 'tensor_core'."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from oracle import check
from strategies import EXTENDING, make_window
from torch import Tensor

import torch_conv

HALVES = (torch.float16, torch.bfloat16)
BORDERS = [*EXTENDING, "zero_output"]
H200 = "9.0 132 232448 4.8e12"
A100 = "8.0 108 166912 2.0e12"


class Kind(NamedTuple):
    """A filter that tensor cores serve, and its chains of multiply-adds."""

    name: str
    dtypes: tuple[torch.dtype, ...]
    chain: str  # the algorithm of chains
    windows: Callable[..., tuple[Tensor, ...]]  # of (size, lead): the windows, along x before y

    def products(self, image, *args, **options):
        return getattr(torch_conv, self.name)(image, *args, algorithm="tensor_core", **options)

    def chains(self, image, *args, **options):
        return getattr(torch_conv, self.name)(image, *args, algorithm=self.chain, **options)

    def bound(self, dtype):
        """The bound's name in tests/tolerance.py; uint8 is made of parts of float16."""
        if self.name == "filter2d":
            return "tensor_core"
        return "banded bfloat16" if dtype == torch.bfloat16 else "banded"

    def check(self, image, windows, device, **options):
        """Against the float64 reference, under the bound of tests/tolerance.py."""
        size = windows[0].shape[-2:] if len(windows) == 1 else (windows[1].shape[-1], windows[0].shape[-1])
        kinds = {"way": "tensor_core", "algorithm": self.bound(image.dtype), "window": tuple(size)}
        return check(self.name, image, *windows, device=device, **kinds, **options)

    def line(self, monkeypatch, image, size, gpu=H200, **options):
        """The first line of the plan for a GPU that is not there."""
        monkeypatch.setenv("TORCH_CONV_EXPLAIN_FOR", gpu)
        return torch_conv.explain(getattr(torch_conv, self.name), image, *self.windows(size), **options).lines[0]


def rows_of(size, lead=(), seed=3):
    return make_window((*lead, size[1]), seed=seed), make_window((*lead, size[0]), seed=seed + 1)


DIRECT = Kind("filter2d", HALVES, "direct", lambda size, lead=(): (make_window((*lead, *size)),))
SEPARABLE = Kind("filter2d_separable", (*HALVES, torch.uint8), "separable", rows_of)
products, chains = DIRECT.products, DIRECT.chains


def check_products(image, window, device, **options):
    return DIRECT.check(image, (window,), device, **options)
