"""Models with depthwise layers, of timm or torchvision where they are installed, and one with large windows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn


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


STACKS: dict[str, Callable[[], nn.Module]] = {
    "replk": RepLK,
    "replk_small": partial(RepLK, channels=64, blocks=2, size=13),  # for --quick
}
MODELS = ["convnext_tiny", "mobilenetv3_large_100", "efficientnet_b0", "replk"]


def make_model(name: str) -> nn.Module:
    """A model with random weights, of timm, or of torchvision where timm is not installed."""
    torch.manual_seed(0)
    if name in STACKS:
        return STACKS[name]().eval()
    try:
        import timm  # type: ignore[import-not-found]

        model = timm.create_model(name)
    except ImportError:
        import torchvision.models as models

        model = getattr(models, {"mobilenetv3_large_100": "mobilenet_v3_large"}.get(name, name))()
    return settled(model)


def settled(model: nn.Module) -> nn.Module:
    """The model with statistics in its norms; without them outputs vanish and always agree."""
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = 1.0
    if norms:
        with torch.no_grad():
            model.train()(torch.rand(4, 3, 224, 224))
    return model.eval()
