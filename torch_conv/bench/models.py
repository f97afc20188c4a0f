"""Whole models before and after their depthwise layers run on our kernels; benchmarks/README.md states the rules.

torch-conv bench models [--models convnext_tiny,replk] [--batches 1,64] [--ways eager,graph,compile] [--json FILE]

Float16 on CUDA (float32 on the CPU), random weights, 224x224 images. torch's times are with cudnn.benchmark on.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from torch_conv._timing import queue_sampler, turns
from torch_conv.bench.command import metadata
from torch_conv.bench.networks import MODELS, make_model
from torch_conv.nn import replace_depthwise

FORMATS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}
WORSE = 1.5  # our error may be so many times torch's, both against float32: neither is exact in float16


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--batches", default="1,64")
    parser.add_argument("--ways", default="eager,graph", help="of eager, graph, compile (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here as well")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cudnn.benchmark = True
    rows = []
    with torch.inference_mode():
        for name in args.models.split(","):
            for batch in map(int, args.batches.split(",")):
                for layout in FORMATS:
                    rows += measure(name, batch, layout, device, args.ways.split(","), args.rounds)
                    if args.json:
                        document = {"benchmark": "models", "metadata": metadata(args.rounds), "rows": rows}
                        args.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if all(row["correct"] for row in rows) else 1


def measure(name: str, batch: int, layout: str, device: str, ways: list[str], rounds: int) -> list[dict[str, Any]]:
    """A row a way: torch's model and ours take turns."""
    dtype = torch.float16 if device == "cuda" else torch.float32
    model = make_model(name).to(device, dtype).to(memory_format=FORMATS[layout])  # type: ignore[call-overload]
    images = torch.rand(batch, 3, 224, 224, device=device).to(dtype).to(memory_format=FORMATS[layout])
    ours = deepcopy(model)
    layers = len(replace_depthwise(ours))
    exact = deepcopy(model).float()(images.float())
    theirs_error, error = (((m(images) - exact).abs().max() / exact.abs().max()).item() for m in (model, ours))
    rows = []
    for way in ways:
        if device == "cpu" and way == "graph":
            continue
        calls = [RUN[way](m, images) for m in (model, ours)]
        times = clocked(dict(zip(("torch", "torch_conv"), calls, strict=True)), rounds, device)
        theirs_us, ours_us = (1e6 * statistics.median(times[name]) for name in ("torch", "torch_conv"))
        rows.append(
            {
                "model": name,
                "batch": batch,
                "layout": layout,
                "way": way,
                "layers": layers,
                "torch_us": theirs_us,
                "ours_us": ours_us,
                "speedup": theirs_us / ours_us,
                "error": error,
                "torch_error": theirs_error,
                "correct": error <= WORSE * theirs_error + 1e-3,
            }
        )
        print(
            f"{name:24} batch {batch:3} {layout} {way:8} torch {theirs_us:9.1f} us  ours {ours_us:9.1f} us"
            f"  {theirs_us / ours_us:5.2f} x  error {error:.1e} (torch's {theirs_error:.1e})"
            + ("" if rows[-1]["correct"] else "  WRONG"),
            flush=True,
        )
    return rows


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


def clocked(calls: Mapping[str, Callable[[], Any]], rounds: int, device: str) -> dict[str, list[float]]:
    """Seconds per call by the host's clock, of queues of at least 20 ms that take turns."""
    samplers = {name: queue_sampler(call, [device]) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _, name in turns(calls, rounds):
        times[name].append(samplers[name]())
    return times
