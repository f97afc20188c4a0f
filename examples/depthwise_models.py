"""A model's depthwise convolutions on this project's kernels, and what that changes.

python examples/depthwise_models.py [--model convnext_tiny] [--batch 8]

`torch_conv.nn.replace_depthwise` puts our convolution into every depthwise layer of a model, in place; weights, shapes
and state_dict stay as they are.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))  # a checkout, after an installed package

import torch

from torch_conv.bench.networks import MODELS, make_model
from torch_conv.nn import replace_depthwise


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="convnext_tiny")
    parser.add_argument("--batch", type=int, default=1)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.float16 if device == "cuda" else torch.float32
    model = make_model(args.model).to(device, dtype)
    images = torch.rand(args.batch, 3, 224, 224, device=device).to(dtype)
    with torch.inference_mode():
        before = model(images)
        replaced = replace_depthwise(model)
        after = model(images)
    worst = (after - before).abs().max().item() / before.abs().max().item()
    print(f"{args.model}: {len(replaced)} depthwise layers replaced; outputs differ by {worst:.1e} of the largest")
    return 0


if __name__ == "__main__":
    sys.exit(main())
