"""A model's depthwise convolutions on this project's kernels, and what that changes.

python examples/depthwise_models.py [--model convnext_tiny] [--batch 8]

`torch_conv.nn.replace_depthwise` puts our convolution into every depthwise layer of a model, in place; weights, shapes
and state_dict stay as they are.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_conv.nn import replace_depthwise


class LargeWindow(nn.Module):
    """A large depthwise window between two 1x1 convolutions, beside the identity."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.inner = nn.Conv2d(channels, channels, 1)
        self.large = nn.Conv2d(channels, channels, size, padding=size // 2, groups=channels)
        self.outer = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.outer(F.gelu(self.large(F.gelu(self.inner(x)))))


class RepLK(nn.Module):
    """A stack in the manner of RepLKNet: windows of 31x31 at 32x32 pixels."""

    def __init__(self, channels: int = 384, blocks: int = 4, size: int = 31, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 7, stride=7)  # 224 -> 32 pixels
        self.blocks = nn.Sequential(*(LargeWindow(channels, size) for _ in range(blocks)))
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


MODELS = ["convnext_tiny", "mobilenetv3_large_100", "efficientnet_b0", "replk"]


def make_model(name: str) -> nn.Module:
    """With random weights; timm's, or torchvision's where timm is not installed."""
    torch.manual_seed(0)
    if name == "replk":
        return RepLK().eval()
    try:
        import timm  # type: ignore[import-not-found]

        model = timm.create_model(name)
    except ImportError:
        import torchvision.models as models

        model = getattr(models, {"mobilenetv3_large_100": "mobilenet_v3_large"}.get(name, name))()
    return settled(model)


def settled(model: nn.Module) -> nn.Module:
    """Its norms have seen images: random weights alone let signals die away, and outputs near 0 would always agree."""
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
    if norms:
        with torch.no_grad():
            model.train()(torch.rand(4, 3, 224, 224))
    return model.eval()


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
