"""The families of benchmarks by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from torch_conv.bench.common import Row
from torch_conv.bench.pairs import Pair

ROUNDS = 7

# Each is a module of this folder, imported on demand; depthwise.py holds all depthwise families.
NAMES = {
    "filter2d": "filters of images: any window, Gaussians and boxes, in the formats that people have",
    "blur": "Gaussians and boxes over the size of the window, for each dtype",
    "large_windows": "any window from 3x3 to 255x255, by algorithm",
    "filter3d": "filters of volumes",
    "fused": "fused pipelines beside the chains that they replace",
    "depthwise": "depthwise convolutions of images",
    "depthwise1d": "depthwise convolutions of signals",
    "depthwise3d": "depthwise convolutions of volumes",
    "models": "whole models, before and after their depthwise layers run on this library",
    "training": "steps of training, forward and all gradients (a GPU is needed)",
}


@dataclass(frozen=True)
class Family:
    """The rows of one benchmark, for the device 'cuda' or 'cpu'."""

    name: str
    rows: Callable[[str], Sequence[Row | Pair]]
    quick: Callable[[str], Sequence[Row | Pair]]  # a few small ones: 20 s on a CPU
    budget_s: float = inf  # after so many seconds rows get no rivals
    rounds: int = ROUNDS
    imports: bool = False  # the time of the import is measured as well


def family_named(name: str) -> Family:
    module = importlib.import_module(f"torch_conv.bench.{'depthwise' if name.startswith('depthwise') else name}")
    found: Sequence[Family] = module.FAMILIES
    return next(family for family in found if family.name == name)
