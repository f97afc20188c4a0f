"""Steps of training, forward and all gradients, on our kernels and on torch's; benchmarks/README.md states the rules.

torch-conv bench training [--only layers,models,weights] [--json FILE]

`weights`: the gradients in weight and bias alone, from CUDA graphs. `layers`: a depthwise convolution's whole step,
eager and from a CUDA graph. `models`: a whole model's step and its inference, before and after `replace_depthwise`,
likewise; float16 is autocast. torch's times are with cudnn.benchmark on and TF32 off.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_conv
from torch_conv._timing import interleaved
from torch_conv.bench.command import metadata
from torch_conv.bench.models import FORMATS, clocked
from torch_conv.bench.networks import make_model
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
DTYPES = (torch.float16, torch.float32)
RELATIVE = {torch.float16: 1e-2, torch.float32: 1e-3}  # of the largest: torch's and our sums take other orders
Sides = dict[str, Callable[[], Any]]  # "torch" and "torch_conv"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="weights,layers,models")
    parser.add_argument("--models", default="convnext_tiny")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here as well")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("torch sees no CUDA device here")
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    only, rows = args.only.split(","), []
    for part, measure in (("weights", weights), ("layers", layers)):
        for shape, window, stride in SHAPES if part in only else []:
            for dtype in DTYPES:
                for layout in FORMATS:
                    rows += measure(shape, window, stride, dtype, layout, args.rounds)
    for name in args.models.split(",") if "models" in only else []:
        for dtype in DTYPES:
            for layout in FORMATS:
                rows += model_steps(name, 64, dtype, layout, args.rounds)
    if args.json:
        document = {"benchmark": "training", "metadata": metadata(args.rounds), "rows": rows}
        args.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if all(row["correct"] for row in rows) else 1


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


def weights(shape: tuple[int, ...], window: int, stride: int, dtype: torch.dtype, layout: str, rounds: int) -> list:
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

    sides: Sides = {
        "torch": by_torch,
        "torch_conv": lambda: torch.ops.torch_conv._weight_gradient(image, grad, *lists),
    }
    times = interleaved(sides, "cuda", rounds=rounds)
    row = {"part": "weights", "way": "graph", **described(shape, window, stride, dtype, layout)}
    return [finished(row, times, difference(sides) <= RELATIVE[dtype])]


def layers(shape: tuple[int, ...], window: int, stride: int, dtype: torch.dtype, layout: str, rounds: int) -> list:
    """A step of one layer; the function chooses for itself."""
    *given, grad, options = operands(shape, window, stride, dtype, layout)
    axes = len(shape) - 2

    def step(conv: Callable[..., Tensor]) -> Callable[[], Any]:
        return lambda: torch.autograd.grad(conv(*given, **options), given, grad)

    sides = {
        "torch": step(getattr(F, f"conv{axes}d")),
        "torch_conv": step(getattr(torch_conv, f"conv{axes}d")),
    }
    correct = difference(sides) <= RELATIVE[dtype]
    row = {"part": "layers", **described(shape, window, stride, dtype, layout)}
    return [
        finished({**row, "way": "eager"}, clocked(sides, rounds, "cuda"), correct),
        finished({**row, "way": "graph"}, interleaved(sides, "cuda", rounds=rounds), correct),
    ]


def model_steps(name: str, batch: int, dtype: torch.dtype, layout: str, rounds: int) -> list[dict[str, Any]]:
    models = {"torch": make_model(name).cuda().to(memory_format=FORMATS[layout])}  # type: ignore[call-overload]
    models["torch_conv"] = deepcopy(models["torch"])
    replace_depthwise(models["torch_conv"])
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

    rows = []
    for part, of in (("inference", inference), ("training", training)):
        sides = {side: of(model) for side, model in models.items()}
        # Rounding differs in every layer: gradients of whole models in float16 agree to some percent of the largest.
        correct = difference(sides) <= (0.1 if dtype == torch.float16 else 1e-2)
        row = {"part": part, "model": name, "batch": batch, "dtype": str(dtype)[6:], "layout": layout}
        rows.append(finished({**row, "way": "eager"}, clocked(sides, rounds, "cuda"), correct))
        rows.append(finished({**row, "way": "graph"}, interleaved(sides, "cuda", rounds=rounds), correct))
    return rows


def described(shape: tuple[int, ...], window: int, stride: int, dtype: torch.dtype, layout: str) -> dict[str, Any]:
    return {"shape": list(shape), "window": window, "stride": stride, "dtype": str(dtype)[6:], "layout": layout}


def difference(sides: Sides) -> float:
    """The largest difference of the results, each relative to its largest value."""
    pairs = zip(*(side() for side in sides.values()), strict=True)
    return max(((a.float() - b.float()).abs().max() / b.float().abs().max().clamp(min=1e-20)).item() for a, b in pairs)


def finished(row: dict[str, Any], times: dict[str, list[float]], correct: bool) -> dict[str, Any]:
    theirs, ours = (1e6 * statistics.median(times[name]) for name in ("torch", "torch_conv"))
    row |= {"torch_us": theirs, "ours_us": ours, "speedup": theirs / ours, "correct": correct}
    what = row.get("model") or f"{'x'.join(map(str, row['shape']))} k={row['window']} step {row['stride']}"
    print(
        f"{row['part']:9} {what:28} {row['dtype']} {row['layout']} {row['way']:5} torch {theirs:9.1f} us"
        f"  ours {ours:9.1f} us  {theirs / ours:5.2f} x" + ("" if correct else "  WRONG"),
        flush=True,
    )
    return row
