"""Steps of training, forward and all gradients, on our kernels and on torch's; benchmarks/README.md states the rules.

torch-conv bench training [--only layers,models,weights] [--json FILE]

`weights`: the gradients in weight and bias alone, from CUDA graphs. `layers`: a depthwise convolution's whole step,
eager and from a CUDA graph. `models`: a whole model's step and its inference, before and after `replace_depthwise`,
likewise; float16 is autocast. torch's times are with cudnn.benchmark on and TF32 off.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_conv
from torch_conv.bench.families import Family
from torch_conv.bench.networks import make_model
from torch_conv.bench.pairs import FORMATS, Pair, clocked
from torch_conv.bench.timing import interleaved
from torch_conv.nn import replace_depthwise

# ConvNeXt's stages, MobileNet's and EfficientNet's windows and strides, RepLKNet's: shape, window, stride.
SHAPES = [
    ((64, 96, 56, 56), 7, 1),
    ((64, 192, 28, 28), 7, 1),
    ((64, 384, 14, 14), 7, 1),
    ((64, 768, 7, 7), 7, 1),
    ((8, 96, 56, 56), 7, 1),
    ((64, 96, 56, 56), 3, 1),
    ((64, 672, 14, 14), 5, 1),
    ((64, 96, 112, 112), 3, 2),
    ((8, 384, 32, 32), 31, 1),
    ((8, 96, 56), 3, 1),
    ((16, 2048, 4096), 4, 1),
]
WAYS = ("eager", "graph")
DTYPES = (torch.float16, torch.float32)
RELATIVE = {torch.float16: 1e-2, torch.float32: 1e-3}  # of the largest value, because torch sums in another order
Sides = dict[str, Callable[[], Any]]  # "torch" and "torch_conv"


def rows(device: str) -> list[Pair]:
    """On a GPU only."""
    if device == "cpu":
        return []
    cases = [(*case, dtype, layout) for case in SHAPES for dtype in DTYPES for layout in FORMATS]
    return [
        *(row for case in cases for row in weight_rows(*case)),
        *(row for case in cases for row in layer_rows(*case)),
        *(row for dtype in DTYPES for layout in FORMATS for row in model_rows("convnext_tiny", 64, dtype, layout)),
    ]


def weight_rows(shape: tuple[int, ...], window: int, stride: int, dtype: torch.dtype, layout: str) -> list[Pair]:
    facts = {"part": "weights", "way": "graph", **described(shape, window, stride, dtype, layout)}
    sides = partial(weights, shape, window, stride, dtype, layout)
    return [Pair("cuda", facts, partial(measure, sides, "graph", RELATIVE[dtype]), "weights")]


def layer_rows(shape: tuple[int, ...], window: int, stride: int, dtype: torch.dtype, layout: str) -> list[Pair]:
    facts = {"part": "layers", **described(shape, window, stride, dtype, layout)}
    sides = partial(layers, shape, window, stride, dtype, layout)
    return [
        Pair("cuda", {**facts, "way": way}, partial(measure, sides, way, RELATIVE[dtype]), "layers") for way in WAYS
    ]


def model_rows(name: str, batch: int, dtype: torch.dtype, layout: str) -> list[Pair]:
    # Rounding differs in every layer: gradients of whole models in float16 agree to some percent of the largest.
    limit = 0.1 if dtype == torch.float16 else 1e-2
    facts = {"model": name, "batch": batch, "dtype": str(dtype)[6:], "layout": layout}
    return [
        Pair("cuda", {"part": part, **facts, "way": way}, partial(measure, sides, way, limit), "models")
        for part in ("inference", "training")
        for sides in (partial(model_steps, part, name, batch, dtype, layout),)
        for way in WAYS
    ]


def measure(
    sides_of: Callable[[], Sides], way: str, limit: float, rounds: int
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    sides = sides_of()
    correct = difference(sides) <= limit
    times = clocked(sides, rounds, "cuda") if way == "eager" else interleaved(sides, "cuda", rounds=rounds)
    return times, {"correct": correct}


def operands(shape: tuple[int, ...], window: int, stride: int, dtype: torch.dtype, layout: str) -> tuple[Any, ...]:
    """Image, weight, bias, the outputs' gradient, and the options of F.convNd."""
    axes = len(shape) - 2
    padding = window // 2 if axes == 2 else window - 1

    def laid_out(*sizes: int) -> Tensor:
        t = torch.randn(sizes, device="cuda").to(dtype)
        return t if layout == "NCHW" else t.movedim(1, -1).contiguous().movedim(-1, 1)

    image = laid_out(*shape).requires_grad_()
    weight = torch.randn(shape[1], 1, *[window] * axes, device="cuda").to(dtype).requires_grad_()
    bias = torch.randn(shape[1], device="cuda").to(dtype).requires_grad_()
    grad = laid_out(*shape[:2], *((n + 2 * padding - window) // stride + 1 for n in shape[2:]))
    return image, weight, bias, grad, {"stride": stride, "padding": padding, "groups": shape[1]}


def weights(shape: tuple[int, ...], window: int, stride: int, dtype: torch.dtype, layout: str) -> Sides:
    """The kernels alone; torch's as it is called by default, which may add in another order each time."""
    image, weight, _, grad, options = operands(shape, window, stride, dtype, layout)
    image = image.detach()
    axes = len(shape) - 2
    lists = [[n] * axes for n in (window, stride, options["padding"])]

    def by_torch() -> list[Tensor]:
        found = torch.ops.aten.convolution_backward(
            grad, image, weight, [shape[1]], *lists[1:], [1] * axes, False, [0] * axes, shape[1], [False, True, True]
        )
        return list(found[1:])

    return {"torch": by_torch, "torch_conv": lambda: torch.ops.torch_conv._weight_gradient(image, grad, *lists)}


def layers(shape: tuple[int, ...], window: int, stride: int, dtype: torch.dtype, layout: str) -> Sides:
    """A step of one layer; the function chooses for itself."""
    *given, grad, options = operands(shape, window, stride, dtype, layout)
    axes = len(shape) - 2

    def step(conv: Callable[..., Tensor]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(conv(*given, **options), given, grad)

    return {"torch": step(getattr(F, f"conv{axes}d")), "torch_conv": step(getattr(torch_conv, f"conv{axes}d"))}


@lru_cache(maxsize=1)
def both(name: str, layout: str) -> dict[str, torch.nn.Module]:
    """A model with torch's layers and with ours; its rows share it."""
    model = make_model(name).cuda().to(memory_format=FORMATS[layout])  # type: ignore[call-overload]
    ours = deepcopy(model)
    replace_depthwise(ours)
    return {"torch": model, "torch_conv": ours}


def model_steps(part: str, name: str, batch: int, dtype: torch.dtype, layout: str) -> Sides:
    """A model's inference, or the gradients of a loss in all its parameters."""
    images = torch.rand(batch, 3, 224, 224, device="cuda").to(memory_format=FORMATS[layout])
    cast = torch.autocast("cuda", torch.float16, enabled=dtype == torch.float16)

    def inference(model: torch.nn.Module) -> Callable[[], Any]:
        def run() -> tuple[Tensor, ...]:
            with torch.inference_mode(), cast:
                return (model(images),)

        return run

    def training(model: torch.nn.Module) -> Callable[[], Any]:
        parameters = list(model.parameters())

        def run() -> tuple[Tensor, ...]:
            with cast:
                loss = model(images).float().square().mean()
            return torch.autograd.grad(loss, parameters)

        return run

    of = inference if part == "inference" else training
    return {side: of(model) for side, model in both(name, layout).items()}


def described(shape: tuple[int, ...], window: int, stride: int, dtype: torch.dtype, layout: str) -> dict[str, Any]:
    return {"shape": list(shape), "window": window, "stride": stride, "dtype": str(dtype)[6:], "layout": layout}


def difference(sides: Sides) -> float:
    """The largest difference of the results, each relative to its largest value."""
    pairs = zip(*(side() for side in sides.values()), strict=True)
    return max(((a.float() - b.float()).abs().max() / b.float().abs().max().clamp(min=1e-20)).item() for a, b in pairs)


def quick(device: str) -> list[Pair]:
    case = (8, 96, 56, 56), 7, 1, torch.float16
    cuda = [layout for layout in FORMATS if device == "cuda"]
    return [row for layout in cuda for row in (*weight_rows(*case, layout), *layer_rows(*case, layout))]


FAMILIES = (Family("training", rows, quick, rounds=5),)
