"""Which convolutions handover.py measures."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Shapes = Sequence[tuple[int, ...]]


@dataclass(frozen=True)
class Case:
    kind: str  # depthwise, image (one channel), bank
    layout: str  # NCHW, NHWC, NCL, NLC, NCDHW, NDHWC
    dtype: str
    shape: tuple[int, ...]  # n, c, then l or h, w or d, h, w
    out: int  # output channels
    groups: int
    k: int  # the window's sides
    stride: int = 1
    dilation: int = 1
    height: int = 0  # the first side of a window whose sides differ
    mode: str = "zeros"  # padding_mode

    @property
    def axes(self) -> int:
        return len(self.shape) - 2

    @property
    def window(self) -> tuple[int, ...]:
        return (*[self.height or self.k][: self.axes - 1], *[self.k] * max(self.axes - 1, 1))

    @property
    def name(self) -> str:
        window = "x".join(map(str, self.window))
        steps = f" s{self.stride}" * (self.stride > 1) + f" d{self.dilation}" * (self.dilation > 1)
        steps += f" {self.mode}" * (self.mode != "zeros")
        channels = f" to {self.out}, {self.groups} groups" if self.kind == "bank" or self.out != self.shape[1] else ""
        return f"{self.kind} {self.layout} {self.dtype} {window}{steps} {'x'.join(map(str, self.shape))}{channels}"


def depthwise(layouts: str, dtypes: str, windows: list[int], shapes: Shapes, **more: Any) -> Iterator[Case]:
    multiplier: int = more.pop("multiplier", 1)
    for layout, dtype, k, shape in itertools.product(layouts.split(), dtypes.split(), windows, shapes):
        yield Case("depthwise", layout, dtype, shape, shape[1] * multiplier, shape[1], k, **more)


def images(layout: str, dtypes: str, windows: list[int], shapes: Shapes, **more: Any) -> Iterator[Case]:
    for dtype, k, shape in itertools.product(dtypes.split(), windows, shapes):
        yield Case("image", layout, dtype, shape, 1, 1, k, **more)


def banks(
    layouts: str,
    dtypes: str,
    windows: list[int],
    channels: Sequence[tuple[int, int, int]],
    places: Shapes,
    **more: Any,
) -> Iterator[Case]:
    """`channels` are (in, out, groups), `places` n and then h, w or l."""
    for layout, dtype, k, (c, out, groups), place in itertools.product(
        layouts.split(), dtypes.split(), windows, channels, places
    ):
        yield Case("bank", layout, dtype, (place[0], c, *place[1:]), out, groups, k, **more)


def square(n: int, c: int, size: int) -> tuple[int, ...]:
    return (n, c, size, size)


def cuda_cases() -> tuple[list[Case], list[Case]]:
    """The core, and the rest."""
    maps = [square(64, 768, 7), square(64, 768, 14), square(64, 384, 28), square(64, 96, 56), square(32, 64, 112)]
    maps += [square(16, 32, 224), square(4, 16, 512), square(2, 8, 1024), square(1, 3, 2048)]
    rows = [(64, 768, 14), (64, 768, 128), (3072, 128, 202), (64, 768, 1024), (4, 2048, 4096), (8, 64, 16384)]
    rows += [(1, 8, 1 << 20)]
    both, flat = "NCHW NHWC", "NCL NLC"
    core = [
        *depthwise(both, "f32 f16", [3, 5, 7, 9, 13, 31], maps),
        *depthwise(both, "bf16", [3, 7, 13], maps),
        *depthwise(flat, "f32 f16", [3, 4, 7, 15, 31], rows),
        *depthwise(flat, "bf16", [4, 15], rows),
        *images("NCHW", "f32 f16", [3, 7, 13, 31], [square(1, 1, 256), square(1, 1, 4096), square(64, 1, 28)]),
        *banks(
            both, "f32 f16", [3, 7], [(1, 4, 1), (1, 64, 1), (3, 8, 1)], [(64, 28, 28), (16, 224, 224), (1, 1024, 1024)]
        ),
    ]
    few = [square(1, 768, 14), square(8, 768, 14), square(1, 96, 56), square(8, 96, 56), square(1, 32, 224)]
    few += [square(64, 3, 224), square(1, 3, 4096), square(1, 16, 512), square(256, 8, 32)]
    wide = [(8, 32, 28, 512), (8, 32, 512, 28), (1, 96, 1, 4096), (16, 64, 57, 61)]
    banked = [(1, 16, 1), (3, 1, 1), (4, 8, 1), (16, 16, 8), (32, 64, 8)]
    rest = [
        *depthwise(both, "f32 f16", [3, 7], few),
        *depthwise(both, "f32 f16", [3, 7], wide),
        *depthwise(both, "f32 f16", [3, 7], [maps[1], maps[3], maps[5]], multiplier=2),
        *depthwise(both, "f32 f16", [3, 5, 7], [maps[1], *maps[2:6]], stride=2),
        *depthwise(both, "f32 f16", [3, 7], [maps[1], maps[3], maps[5]], dilation=2),
        *depthwise(both, "f32 f16", [1, 2, 4, 6], [maps[1], maps[3], maps[6]]),
        *depthwise(both, "f64", [3, 7, 13], [maps[1], maps[3], maps[5], maps[7]]),
        *depthwise(both, "bf16", [5, 31], [maps[1], maps[3], maps[5], maps[7]]),
        *images("NCHW", "f32 f16 bf16 f64", [3, 7, 31], [square(1, 1, 1024), square(16, 1, 512), square(256, 1, 64)]),
        *depthwise(both, "f32 f16", [1], [maps[1], maps[3], maps[6]], height=7),
        *depthwise(both, "f32 f16", [11], [maps[1], maps[3], maps[6]], height=1),
        *depthwise(both, "f32 f16", [3, 7], [maps[2], maps[4]], mode="reflect"),
        *depthwise(flat, "f32 f16", [4, 15], [rows[1], rows[4]], mode="circular"),
        *banks(both, "f32 f16", [3, 7], banked, [(64, 28, 28), (16, 224, 224), (1, 1024, 1024)]),
        *banks(both, "f32 f16", [15], [(1, 4, 1), (3, 8, 1)], [(64, 28, 28), (16, 224, 224), (1, 1024, 1024)]),
        *banks(both, "f64 bf16", [5], [(1, 4, 1), (3, 8, 1)], [(64, 28, 28), (16, 224, 224), (1, 1024, 1024)]),
        *depthwise(flat, "f64", [3, 15], [rows[1], rows[3], rows[5]]),
        *depthwise(
            flat, "f32 f16", [3, 15], [(1, 768, 1024), (8, 768, 128), (256, 16, 512), (1, 96, 4096), (1, 3, 1 << 18)]
        ),
        *depthwise(flat, "f32 f16", [3, 7], [rows[1], rows[3], rows[5]], stride=2),
        *depthwise(flat, "f32 f16", [3, 7], [rows[1], rows[3], rows[5]], dilation=2),
        *depthwise(flat, "f32 f16", [3], [rows[1], rows[3], rows[5]], multiplier=2),
        *images("NCL", "f32 f16", [3, 15, 31, 127], [(1, 1, 1 << 20), (64, 1, 1024), (16, 1, 65536)]),
        *banks(flat, "f32 f16", [3, 15], [(1, 16, 1), (3, 8, 1), (16, 16, 8)], [(64, 1024), (1, 1 << 18), (16, 16384)]),
    ]
    middle = [(64, 56, 56), (64, 112, 112), (4, 512, 512)]
    strided = [square(1, 1, 1024), square(16, 1, 512), square(1, 1, 4096), square(64, 1, 56)]
    rest += [
        *images("NCHW", "f32 f16 bf16", [3, 5, 7, 13], [square(64, 1, 56), square(64, 1, 112), square(1, 1, 512)]),
        *images("NCHW", "f32 f16", [2, 5, 9, 21], [square(64, 1, 28), square(256, 1, 64), square(1, 1, 1024)]),
        *images("NCHW", "f32 f16", [3, 7], strided, stride=2),
        *images("NCHW", "f32 f16", [3, 7], strided, dilation=2),
        *images("NCL", "f64 bf16", [3, 15], [(1, 1, 1 << 20), (64, 1, 1024)]),
        *images("NCL", "f32 f16 bf16 f64", [3, 31], [(1, 1, 1 << n) for n in (16, 18, 24)] + [(4, 1, 1 << 19)]),
        *images("NCL", "f32 f16", [5], [(1, 1, 1 << 19), (32, 1, 4096), (31, 1, 4096)]),
        *images("NCL", "f32 f16", [3, 31], [(1, 1, 1 << 20), (64, 1, 1024), (16, 1, 65536)], mode="reflect"),
        *images("NCL", "f32 f16", [5, 15], [(1, 1, 1 << 20)], dilation=8),
        *images("NCL", "f32 f16", [5, 15], [(1, 1, 1 << 20)], dilation=64),
        *images("NCL", "f32 f16", [3, 15], [(1, 1, 1 << 20), (64, 1, 1024)], stride=2),
        *images("NCL", "f32 f16", [3, 15], [(1, 1, 1 << 20), (64, 1, 1024)], dilation=2),
        *banks(both, "f32 f16", [3, 7], [(1, 4, 1), (1, 64, 1), (3, 8, 1), *banked], middle),
        *banks(both, "f32 f16", [3, 7], [(1, 16, 1), (3, 1, 1), (3, 8, 1)], [middle[0], (16, 224, 224)], stride=2),
        *banks(both, "f32 f16", [3, 7], [(1, 16, 1), (3, 1, 1), (3, 8, 1)], [middle[0], (16, 224, 224)], dilation=2),
        *banks(both, "f64", [3, 7], [(1, 16, 1), (3, 1, 1), (3, 8, 1)], [middle[0], (16, 224, 224)]),
        *banks(flat, "f32 f16", [3, 15], [(1, 16, 1), (3, 8, 1)], [(64, 1024), (16, 16384)], stride=2),
        *banks(flat, "f64 bf16", [5], [(1, 16, 1), (3, 8, 1)], [(64, 1024), (16, 16384)]),
        *depthwise(both, "f32 f16", [2, 4, 6, 9, 11], [maps[2], maps[4], maps[5]]),
        *depthwise(both, "f32 f16", [1], [maps[2], maps[4]], height=3),
        *depthwise(both, "f32 f16", [1], [maps[2], maps[4]], height=7),
        *depthwise(both, "f32 f16", [3, 11], [maps[2], maps[4]], height=1),
        *depthwise(both, "f32 f16", [3, 5, 13], [maps[2], maps[4]], dilation=2),
        *depthwise(both, "f32 f16", [2, 9, 13], [maps[2], maps[4]], stride=2),
        *depthwise(both, "f32 f16", [3, 5, 7], [maps[2], maps[4]], multiplier=2),
        *depthwise(both, "f32 f16", [3, 7], [maps[2], maps[4]], multiplier=2, stride=2),
        *depthwise(both, "f32 f16", [3, 5, 7], [square(1, 64, 112), square(1, 384, 28), square(1, 32, 64)]),
        *depthwise(both, "f64", [5, 9], [maps[2], maps[4]]),
        *depthwise(both, "bf16", [3, 7], [maps[2], maps[4]], stride=2),
        *depthwise(both, "bf16", [3, 7], [maps[2], maps[4]], dilation=2),
        *depthwise(flat, "f32 f16", [15, 31], [rows[1], rows[5]], stride=2),
        *depthwise(flat, "f32 f16", [15, 31], [rows[1], rows[5]], dilation=2),
        *depthwise(flat, "f64 bf16", [3, 15], [rows[1], rows[5]], stride=2),
    ]
    return core, rest


def cpu_cases() -> tuple[list[Case], list[Case]]:
    maps = [square(8, 384, 7), square(8, 384, 14), square(8, 192, 28), square(8, 96, 56), square(4, 32, 112)]
    maps += [square(2, 16, 224), square(1, 8, 512), square(1, 3, 1024)]
    rows = [(16, 384, 14), (16, 384, 128), (4, 128, 1024), (4, 32, 8192), (1, 3, 1 << 18)]
    both, flat = "NCHW NHWC", "NCL NLC"
    core = [
        *depthwise(both, "f32", [3, 5, 7, 13], maps),
        *depthwise(both, "bf16", [3, 7], maps),
        *depthwise(flat, "f32", [3, 4, 7, 15, 31], rows),
        *depthwise(flat, "bf16", [4, 15], rows),
        *images("NCHW", "f32", [3, 7, 13], [square(1, 1, 256), square(1, 1, 1024), square(64, 1, 28)]),
        *banks(both, "f32", [3, 7], [(1, 4, 1), (1, 64, 1), (3, 8, 1)], [(32, 28, 28), (1, 224, 224), (1, 512, 512)]),
    ]
    few = [square(1, 384, 14), square(1, 96, 56), square(1, 32, 112), square(1, 3, 224), square(32, 3, 56)]
    rest = [
        *depthwise(both, "f32 bf16", [3, 7], few),
        *depthwise(both, "f32", [3, 7], [maps[1], maps[3], maps[5]], multiplier=2),
        *depthwise(both, "f32 bf16", [3, 7], [maps[1], maps[3], maps[5]], stride=2),
        *depthwise(both, "f32", [3, 7], [maps[1], maps[3], maps[5]], dilation=2),
        *depthwise(both, "f32", [1, 2, 9, 31], [maps[1], maps[3], maps[5]]),
        *depthwise(both, "f64", [3, 7], [maps[1], maps[3], maps[5], maps[7]]),
        *depthwise(both, "f32", [1], [maps[1], maps[3], maps[5]], height=7),
        *depthwise(both, "f32", [11], [maps[1], maps[3], maps[5]], height=1),
        *depthwise(both, "f32", [3], [maps[1], maps[3], maps[5]], mode="reflect"),
        *images("NCHW", "f32 bf16 f64", [3, 7, 31], [square(1, 1, 512), square(16, 1, 128)]),
        *banks(both, "f32", [3, 7], [(1, 16, 1), (3, 1, 1), (4, 8, 1), (16, 16, 8)], [(32, 28, 28), (1, 224, 224)]),
        *banks(both, "f64 bf16", [5], [(1, 4, 1), (3, 8, 1)], [(32, 28, 28), (1, 224, 224)]),
        *depthwise(flat, "f64", [3, 15], [rows[1], rows[3]]),
        *depthwise(flat, "f32", [3, 7], [rows[1], rows[3]], stride=2),
        *depthwise(flat, "f32", [3, 7], [rows[1], rows[3]], dilation=2),
        *images("NCL", "f32 bf16", [3, 15, 31, 127], [(1, 1, 1 << 18), (64, 1, 1024)]),
        *banks(flat, "f32", [3, 15], [(1, 16, 1), (3, 8, 1), (16, 16, 8)], [(32, 1024), (1, 1 << 16)]),
    ]
    small = [square(1, 16, 8), square(1, 32, 14), square(1, 16, 28), square(1, 64, 28), square(1, 512, 7)]
    small += [square(1, 1024, 7), square(4, 128, 14), square(1, 32, 56), square(2, 64, 56)]
    short = [(1, 32, 128), (1, 128, 128), (1, 512, 100), (4, 256, 128), (8, 256, 128)]
    middle = [(8, 56, 56), (2, 112, 112)]
    rest += [
        *depthwise(both, "f32 bf16", [3, 5, 7, 9, 11], [maps[2], maps[4], square(1, 16, 512)]),
        *depthwise(both, "f32 bf16", [3, 7], small),
        *depthwise(both, "f32", [3, 7], small, stride=2),
        *depthwise(flat, "f32 bf16", [3, 7], short),
        *depthwise(both, "f32", [15, 21], [maps[1], maps[3], maps[5]]),
        *depthwise(both, "f32", [3, 7], [square(8, 8, 56), square(8, 12, 56), square(8, 16, 56), square(8, 24, 56)]),
        *depthwise(both, "f32 bf16", [3, 7], [maps[2], maps[4], maps[6]], stride=2),
        *depthwise(both, "f32 bf16", [3, 7], [maps[2], maps[4], maps[6]], dilation=2),
        *depthwise(both, "f32", [3, 7], [maps[2], maps[4]], multiplier=2),
        *depthwise(both, "f32", [3, 7], [maps[2], maps[4], maps[6]], mode="reflect"),
        *images("NCHW", "f32", [3, 7], [square(8, 1, 56), square(1, 1, 512)], stride=2),
        *images("NCHW", "f32", [3, 7], [square(8, 1, 56), square(1, 1, 512)], dilation=2),
        *banks(both, "f32", [3, 7], [(1, 4, 1), (1, 16, 1), (1, 64, 1), (3, 8, 1), (4, 8, 1)], middle),
        *banks(both, "f32", [3, 7], [(1, 16, 1), (3, 8, 1)], middle, stride=2),
        *banks(both, "bf16", [3, 7], [(1, 16, 1), (3, 8, 1)], middle),
        *banks(flat, "f32", [3, 15], [(1, 16, 1), (1, 64, 1), (3, 8, 1), (4, 8, 1)], [(32, 128), (4, 8192)]),
        *banks(both, "f32 bf16", [3, 7], [(1, 16, 1), (1, 64, 1), (3, 8, 1)], [(1, 14, 14), (1, 28, 28), (1, 56, 56)]),
        *banks(flat, "bf16", [5], [(1, 16, 1), (3, 8, 1)], [(32, 1024), (1, 1 << 16)]),
        *depthwise(flat, "f32 bf16", [3, 7, 9, 11], [(16, 384, 128), (8, 64, 512), (8, 32, 2048)]),
        *depthwise(flat, "f32", [3, 7], [(8, 64, 512), (8, 32, 2048)], stride=2),
        *depthwise(flat, "f32", [4], [(16, 384, 128), (4, 128, 1024)], mode="circular"),
    ]
    return core, [*rest, *cpu_volumes()]


def cpu_volumes() -> list[Case]:
    both = "NCDHW NDHWC"
    maps = [(4, 64, 4, 7, 7), (1, 128, 4, 14, 14), (2, 32, 8, 28, 28), (1, 64, 8, 56, 56), (1, 16, 8, 112, 112)]
    more = [(1, 8, 8, 56, 56), (1, 12, 8, 56, 56), (1, 24, 4, 14, 14), (1, 32, 16, 56, 56), (1, 64, 2, 7, 7)]
    return [
        *depthwise(both, "f32 bf16", [3, 5], maps),
        *depthwise(both, "f32 bf16", [3], [*more, (1, 3, 16, 112, 112)]),
        *depthwise(both, "f32 bf16", [1, 2, 7], maps[1:4]),
        *depthwise("NDHWC", "f32", [9, 11], maps[1:4]),
        *depthwise(both, "f32 bf16", [3], maps[1:4], height=1),
        *depthwise(both, "f32 bf16", [1], maps[1:4], height=3),
        *depthwise(both, "f32 bf16", [3, 5], maps[1:4], stride=2),
        *depthwise(both, "f32 bf16", [3], maps[1:4], dilation=2),
        *depthwise(both, "f32 bf16", [3], maps[1:4], multiplier=2),
        *depthwise(both, "f32", [3], maps[1:4], mode="replicate"),
    ]


def cases(device: str) -> list[Case]:
    """All, shuffled within the core and within the rest: what a time limit cuts off is missing evenly."""
    both = cuda_cases() if device == "cuda" else cpu_cases()
    for part in both:
        random.Random(0).shuffle(part)
    return list(dict.fromkeys([*both[0], *both[1]]))
