"""Whole models before and after their depthwise layers run on our kernels; benchmarks/README.md states the rules.

torch-conv bench models [--models convnext_tiny,replk] [--batches 1,64] [--ways eager,graph,compile] [--json FILE]

Float16 on CUDA (float32 on the CPU), random weights, 224x224 images. torch's times are with cudnn.benchmark on.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from torch_conv.bench.families import Family
from torch_conv.bench.networks import MODELS, make_model
from torch_conv.bench.pairs import FORMATS, Pair, clocked
from torch_conv.nn import replace_depthwise

BATCHES = (1, 64)
WORSE = 1.5  # bound of our error over torch's, both against float32


def rows(device: str) -> list[Pair]:
    ways = ("eager", "compile") if device == "cpu" else ("eager", "graph", "compile")
    return [
        model_row(device, name, batch, layout, way)
        for name in MODELS
        for batch in BATCHES
        for layout in FORMATS
        for way in ways
    ]


def model_row(device: str, name: str, batch: int, layout: str, way: str) -> Pair:
    facts = {"model": name, "batch": batch, "layout": layout, "way": way}
    return Pair(device, facts, partial(measure, name, batch, layout, way, device))


@torch.inference_mode()
def measure(
    name: str, batch: int, layout: str, way: str, device: str, rounds: int
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """torch's model and ours take turns."""
    sides, images, facts = both(name, batch, layout, device)
    return clocked({side: RUN[way](model, images) for side, model in sides.items()}, rounds, device), facts


@lru_cache(maxsize=1)
def both(name: str, batch: int, layout: str, device: str) -> tuple[dict[str, nn.Module], Tensor, dict[str, Any]]:
    """torch's model and ours, their input and their errors, shared by all ways to run them."""
    dtype = torch.float16 if device == "cuda" else torch.float32
    model = make_model(name).to(device, dtype).to(memory_format=FORMATS[layout])  # type: ignore[call-overload]
    images = torch.rand(batch, 3, 224, 224, device=device).to(dtype).to(memory_format=FORMATS[layout])
    ours = deepcopy(model)
    layers = len(replace_depthwise(ours))
    exact = deepcopy(model).float()(images.float())
    theirs_error, error = (((m(images) - exact).abs().max() / exact.abs().max()).item() for m in (model, ours))
    facts = {"layers": layers, "error": error, "torch_error": theirs_error}
    return {"torch": model, "torch_conv": ours}, images, {**facts, "correct": error <= WORSE * theirs_error + 1e-3}


def eager(model: nn.Module, images: Tensor) -> Callable[[], Any]:
    return lambda: model(images)


def graph(model: nn.Module, images: Tensor) -> Callable[[], Any]:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(images)
        stream.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured, stream=stream):
            model(images)
    return captured.replay


def compiled(model: nn.Module, images: Tensor) -> Callable[[], Any]:
    fast = torch.compile(model, dynamic=False)
    return lambda: fast(images)


RUN = {"eager": eager, "graph": graph, "compile": compiled}


def quick(device: str) -> list[Pair]:
    ways = ("eager",) if device == "cpu" else ("eager", "graph")
    return [model_row(device, "replk_small", 1, layout, way) for layout in FORMATS for way in ways]


FAMILIES = (Family("models", rows, quick),)
