"""The host's time of a call on a small image: the function, the operator and torch's convolution that does the same.

python benchmarks/host.py [--device cuda] [--size 8] [--rounds 300] [--json FILE]

Microseconds of a call that wants no gradient, of the forward of one that does, and of its backward; in brackets torch's
time over it. The least of all rounds counts, in which the calls take turns: other processes only make one slower. Calls
are those of one convolution after the other; a backward stands alone, between others.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_conv
from torch_conv.bench.results import metadata
from torch_conv.bench.timing import wait_for_compiler

CALLS = 10  # in one sample: far fewer than the launches a stream holds before it blocks
CHANNELS = 4
WANTED = {"": "", "i": "image", "w": "weight", "iw": "image, weight", "iwb": "image, weight, bias"}
Call = Callable[[Tensor, Tensor, Tensor], Tensor]


def convolutions(k: int) -> dict[str, Call]:
    options = 1, k // 2, 1, CHANNELS
    operator = torch.ops.torch_conv.conv2d
    return {
        "torch": lambda x, w, b: F.conv2d(x, w, b, *options),
        "function": lambda x, w, b: torch_conv.conv2d(x, w, b, *options, algorithm="ours"),
        "operator": lambda x, w, b: operator(x, w, b, *options, algorithm="ours"),
    }


def filters(k: int) -> dict[str, Call]:
    """One window for all channels, zeros outside."""
    return {
        "torch": lambda x, w, b: F.conv2d(x, w[:1].expand_as(w), None, 1, k // 2, 1, CHANNELS),
        "function": lambda x, w, b: torch_conv.filter2d(x, w[0, 0], "constant"),
        "operator": lambda x, w, b: torch.ops.torch_conv.filter2d(x, w[0, 0], "constant"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", type=int, default=8, help="rows and columns of the image")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here as well")
    args = parser.parse_args()
    wait_for_compiler()
    torch.set_num_threads(1)
    rows = []
    for name, sides_of, letters in (
        ("conv2d", convolutions, ("", "i", "iw", "iwb")),
        ("filter2d", filters, ("", "i", "iw")),
    ):
        for k in (3, 7):
            for wanted in letters:
                found = measured(sides_of(k), given(k, wanted, args.size, args.device), args.rounds)
                row = {"call": f"{name} {k}x{k}", "wanted": WANTED[wanted], "us": found}
                rows.append(row)
                print(line(row), flush=True)
    if args.json:
        document = {"benchmark": "host", "metadata": metadata(args.rounds), "rows": rows}
        args.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


def given(k: int, wanted: str, size: int, device: str) -> list[Tensor]:
    shapes = {"i": (1, CHANNELS, size, size), "w": (CHANNELS, 1, k, k), "b": (CHANNELS,)}
    return [torch.rand(shape, device=device).requires_grad_(letter in wanted) for letter, shape in shapes.items()]


def measured(sides: dict[str, Call], tensors: list[Tensor], rounds: int) -> dict[str, list[float]]:
    """Of each side its forward's and, where a gradient is wanted, its backward's microseconds."""
    variables = [t for t in tensors if t.requires_grad]
    wait = torch.cuda.synchronize if tensors[0].is_cuda else lambda: None
    grad = torch.ones_like(tensors[0])
    least = {name: [math.inf, math.inf] for name in sides}
    for _ in range(rounds):
        for name, call in sides.items():
            wait()
            start = time.perf_counter()
            results = [call(*tensors) for _ in range(CALLS)]
            forward = (time.perf_counter() - start) / CALLS
            for result in results if variables else []:
                wait()
                start = time.perf_counter()
                torch.autograd.grad(result, variables, grad)
                least[name][1] = min(least[name][1], time.perf_counter() - start)
            least[name][0] = min(least[name][0], forward)
    return {name: [1e6 * t for t in times if t < math.inf] for name, times in least.items()}


def line(row: dict) -> str:
    parts = [f"{row['call']:13}{row['wanted'] or 'no gradient':21}"]
    for i, what in enumerate(("forward", "backward")[: len(row["us"]["torch"])]):
        torch_s = row["us"]["torch"][i]
        times = [
            f"{name} {t[i]:.1f}" + (f" ({torch_s / t[i]:.2f})" if name != "torch" else "")
            for name, t in row["us"].items()
        ]
        parts.append(f"{what}: " + ", ".join(times))
    return "  ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
