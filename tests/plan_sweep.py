"""Thousands of calls and their plans, for GPUs that are not there and for the CPU. A refactoring leaves them alike.

    python tests/plan_sweep.py                  # compares with tests/plan_sweep.txt.xz and prints the differences
    python tests/plan_sweep.py --write          # writes that file
    python tests/plan_sweep.py --show median    # prints the plans of calls whose description holds a text

The file has a block a call: its description, then its plans, each after the machines that make it. A plan is what
`explain` prints with the names of its kernels, without its reasons. `RENAMED` says which names have changed since
the file was written.
"""

import argparse
import difflib
import hashlib
import lzma
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from gpus import GPUS
from torch import Tensor

import torch_conv
from torch_conv.dispatch.query import answer_text

FILE = Path(__file__).parent / "plan_sweep.txt.xz"
RENAMED: list[tuple[str, str]] = []  # patterns and their replacements in the file's text before it is compared

MACHINES = {GPUS[name].split()[0]: GPUS[name] for name in ("A100", "H200", "B200", "RTX 5090")}

T = TypeVar("T")


class Draw:
    """Choices that depend on a seed only, on every machine and in every version of Python."""

    def __init__(self, seed: str) -> None:
        self._seed, self._count = seed, 0

    def number(self, below: int) -> int:
        self._count += 1
        digest = hashlib.blake2b(f"{self._seed} {self._count}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") % below

    def one(self, choices: Sequence[T]) -> T:
        return choices[self.number(len(choices))]

    def rarely(self, usual: T, choices: Sequence[T], one_in: int = 4) -> T:
        return usual if self.number(one_in) else self.one(choices)


F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
U8, I16, U16 = torch.uint8, torch.int16, torch.uint16
DTYPES = (F32, F32, F16, BF16, U8, U8, F64, I16, U16)
FLOATS = (F32, F32, F16, BF16, F64)
BORDERS = ("constant", "replicate", "reflect", "symmetric", "circular", "zero_output", "skip")
NAMES = {t: str(t).removeprefix("torch.") for t in (F16, BF16, F32, F64, U8, I16, U16)}
WIDTHS = (1, 7, 16, 31, 64, 100, 128, 224, 255, 256, 333, 512, 640, 1000, 1024, 1920, 2048, 3000, 4096)
SIZES = (1, 2, 3, 3, 3, 4, 5, 5, 5, 7, 7, 9, 11, 13, 15, 17, 21, 25, 31, 33, 45, 63, 101)
DEPTH_SIZES = (1, 2, 3, 3, 3, 5, 5, 7, 9, 11, 13, 15, 21)


class Described:
    """A call under construction: its arguments, and the words that describe them."""

    def __init__(self, name: str) -> None:
        self.words = [name]
        self.args: list[Any] = []
        self.options: dict[str, Any] = {}

    def option(self, name: str, value: Any, usual: Any = None) -> None:
        if value != usual:
            self.options[name] = value
            self.words.append(f"{name}={NAMES.get(value, value)}".replace(" ", ""))

    @property
    def text(self) -> str:
        return " ".join(self.words)


Calls = Callable[[Draw, Described], None]  # draws a call's arguments
Shape = Callable[[Draw], tuple[int, ...]]


def strange(shape: Sequence[int]) -> Tensor:
    """Numbers without structure: no sum of few outer products."""
    return torch.arange(1, math.prod(shape) + 1, dtype=torch.float64).square().mul(0.7).sin().float().reshape(*shape)


def bounded(shape: tuple[int, ...]) -> tuple[int, ...]:
    """One sample if the image has more than 2^27 elements: even untouched memory is limited."""
    return shape if math.prod(shape) <= 1 << 27 else (1, *shape[1:])


def laid_out(draw: Draw, call: Described, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """An image in untouched memory, in one of the usual formats."""
    last = "channels_last"
    kind = draw.rarely("planes", [last, last, last, last, "rows apart", "from column 1", "every other"], 2)
    call.words.append(f"{NAMES[dtype]} {'x'.join(map(str, shape))}" + ("" if kind == "planes" else f" ({kind})"))
    if kind == last and len(shape) in (4, 5):
        memory_format = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
        return torch.empty(shape, dtype=dtype, memory_format=memory_format)
    *outer, width = shape
    if kind == "rows apart":
        return torch.empty(*outer, width + 16, dtype=dtype)[..., :width]
    if kind == "from column 1":
        return torch.empty(*outer, width + 1, dtype=dtype)[..., 1:]
    if kind == "every other":
        return torch.empty(*outer, 2 * width, dtype=dtype)[..., ::2]
    return torch.empty(shape, dtype=dtype)


def image_shape(draw: Draw) -> tuple[int, ...]:
    n, c = draw.one(((1, 1), (1, 1), (1, 3), (1, 3), (1, 4), (8, 1), (16, 3), (4, 64), (2, 256)))
    if draw.number(2):
        return bounded((n, c, *draw.one(((64, 64), (256, 256)) if c > 4 else ((512, 512), (1080, 1920), (4096, 4096)))))
    return bounded((n, c, *((draw.one(WIDTHS[:10]),) * 2 if c > 4 else (draw.one(WIDTHS), draw.one(WIDTHS)))))


def volume_shape(draw: Draw) -> tuple[int, ...]:
    n, c = draw.one(((1, 1), (1, 1), (1, 1), (2, 1), (1, 3), (2, 48), (8, 432)))
    sides = (1, 5, 16, 33, 64, 100, 128, 189, 256) if c < 4 else (3, 7, 14, 16, 28)
    return n, c, draw.one(sides), draw.one(sides), draw.one(sides)


def common_options(draw: Draw, call: Described, border: str, dtype: torch.dtype, borders: Sequence[str]) -> None:
    call.option("border_type", draw.rarely(border, borders, 2), border)
    call.option("padding", draw.rarely("same", ("valid",), 8), "same")
    call.option("value", draw.rarely(0.0, (1.5,), 16), 0.0)
    call.option("output_dtype", draw.rarely(dtype, DTYPES, 6), dtype)


def steps(draw: Draw, call: Described, axes: int) -> None:
    call.option("stride", draw.rarely(1, (2, 2, 3, (1,) * (axes - 1) + (2,)), 6), 1)
    call.option("dilation", draw.rarely(1, (2, 3), 8), 1)
    call.option("anchor", draw.rarely(None, ((0,) * axes,), 10))
    call.option("normalized", draw.rarely(False, (True,), 8), False)


def square(draw: Draw, sizes: Sequence[int], axes: int) -> tuple[int, ...]:
    k = draw.one(sizes)
    return draw.rarely((k,) * axes, [tuple(draw.one(sizes) for _ in range(axes)), (k,) + (1,) * (axes - 1)], 3)


def window(draw: Draw, call: Described, size: tuple[int, ...], image: Tensor) -> Tensor:
    """One for all channels, one each, or one for each channel of each image; ones have structure."""
    n, c = image.shape[:2]
    kind = draw.rarely("", ["ones", "a channel", "a channel", "an image"], 2)
    call.words.append(f"k={'x'.join(map(str, size))}{' ' + kind if kind else ''}")
    if kind == "ones":
        return torch.ones(size)
    return strange({"": (), "a channel": (1, c), "an image": (n, c)}[kind] + size)


def filter2d(draw: Draw, call: Described) -> None:
    dtype = draw.one(DTYPES)
    image = laid_out(draw, call, image_shape(draw), dtype)
    call.args = [image, window(draw, call, square(draw, SIZES, 2), image)]
    common_options(draw, call, "reflect", dtype, BORDERS)
    steps(draw, call, 2)
    call.option("algorithm", draw.rarely("auto", ("direct", "fft", "tensor_core", "low_rank"), 4), "auto")


def filter1d(draw: Draw, call: Described) -> None:
    dtype = draw.one(DTYPES)
    call.args = [laid_out(draw, call, image_shape(draw), dtype), strange((k := draw.one((*SIZES, 301, 1001)),))]
    call.words.append(f"k={k}")
    call.option("dim", draw.one((-1, -2)), -1)
    common_options(draw, call, "reflect", dtype, BORDERS)


def filter2d_separable(draw: Draw, call: Described) -> None:
    dtype = draw.one(DTYPES)
    ky, kx = square(draw, (*SIZES, 151, 255), 2)
    call.args = [laid_out(draw, call, image_shape(draw), dtype), strange((kx,)), strange((ky,))]
    call.words.append(f"k={ky}x{kx}")
    common_options(draw, call, "reflect", dtype, BORDERS)
    steps(draw, call, 2)
    call.option("algorithm", draw.rarely("auto", ("tensor_core",), 4), "auto")


def filter3d(draw: Draw, call: Described) -> None:
    dtype = draw.one(DTYPES)
    image = laid_out(draw, call, volume_shape(draw), dtype)
    call.args = [image, window(draw, call, square(draw, DEPTH_SIZES, 3), image)]
    common_options(draw, call, "replicate", dtype, BORDERS)
    steps(draw, call, 3)


def filter3d_separable(draw: Draw, call: Described) -> None:
    dtype = draw.one(DTYPES)
    size = square(draw, (*DEPTH_SIZES, 31, 63), 3)
    call.args = [laid_out(draw, call, volume_shape(draw), dtype), *(strange((k,)) for k in reversed(size))]
    call.words.append(f"k={'x'.join(map(str, size))}")
    common_options(draw, call, "replicate", dtype, BORDERS)
    steps(draw, call, 3)


def box(shape: Shape, border: str, sizes: Sequence[int], axes: int) -> Calls:
    def draw_call(draw: Draw, call: Described) -> None:
        dtype = draw.one(DTYPES)
        call.args = [laid_out(draw, call, shape(draw), dtype), size := square(draw, sizes, axes)]
        call.words.append(f"k={'x'.join(map(str, size))}")
        common_options(draw, call, border, dtype, BORDERS)
        call.option("normalized", draw.rarely(True, (False,), 4), True)

    return draw_call


def pipeline(
    shape: Shape, border: str, sizes: Sequence[int], sigmas: Sequence[float], **choices: Sequence[Any]
) -> Calls:
    """A size and a sigma, where there are any, then the function's own options."""

    def draw_call(draw: Draw, call: Described) -> None:
        dtype = draw.one(DTYPES)
        call.args = [laid_out(draw, call, shape(draw), dtype)]
        if sigmas:
            call.option("kernel_size", draw.one(sizes))
            call.option("sigma", draw.one(sigmas))
        for name, values in choices.items():
            call.option(name, draw.one(values))
        common_options(draw, call, border, dtype, BORDERS[:5])

    return draw_call


def of_images(*, border: str = "reflect", sigmas: bool = True, **choices: Sequence[Any]) -> Calls:
    sizes, values = (3, 5, 5, 7, 9, 11, 15, 21, 31), (0.8, 1.5, 4.0)
    return pipeline(image_shape, border, sizes, values if sigmas else (), **choices)


def of_volumes(*, sigmas: bool = True, **choices: Sequence[Any]) -> Calls:
    return pipeline(volume_shape, "replicate", (3, 5, 7, 9, 15), (0.8, 1.5) if sigmas else (), **choices)


def convolution(axes: int) -> Calls:
    """Depthwise, grouped and dense, by this library's kernels and as the router decides."""

    def draw_call(draw: Draw, call: Described) -> None:
        dtype = draw.one(FLOATS)
        depthwise = [(32, 1, 1), (96, 1, 1), (384, 1, 1), (432, 1, 1), (48, 1, 2)]
        groups, each, outs = draw.rarely(draw.one(depthwise), [(1, 1, 1), (1, 3, 8), (4, 2, 4)])
        sides = {
            1: (17, 30, 64, 1000, 4096, 1 << 19 if groups == 1 else 16384),
            2: (7, 14, 28, 56, 112, 224, 512),
            3: (7, 14, 16, 28, 64),
        }[axes]
        n = draw.one((1, 1, 8, 64) if axes < 3 else (1, 2))
        side = draw.one(sides)
        shape = (n, groups * each, *draw.rarely((side,) * axes, [tuple(draw.one(sides) for _ in range(axes))], 2))
        sizes = (1, 2, 3, 3, 3, 4, 5, 7, 7, 9, 13, 31) if axes < 3 else (1, 2, 3, 3, 5, 7)
        k = square(draw, sizes, axes)
        image = laid_out(draw, call, bounded(shape), dtype)
        bias = torch.ones(groups * outs, dtype=dtype) if draw.number(2) else None
        call.args = [image, strange((groups * outs, each, *k)).to(dtype), bias]
        call.words.append(f"k={groups * outs}x{each}x{'x'.join(map(str, k))}{' bias' if bias is not None else ''}")
        call.option("stride", draw.rarely(1, (2, 2, 3), 5), 1)
        call.option("padding", draw.rarely(tuple(size // 2 for size in k), (0,), 4), 0)
        call.option("dilation", draw.rarely(1, (2,), 8), 1)
        call.option("groups", groups, 1)
        call.option("padding_mode", draw.rarely("zeros", ("reflect", "replicate", "circular"), 8), "zeros")
        call.option("algorithm", draw.rarely("ours", ("auto",), 4), "auto")
        call.option("activation", draw.rarely(None, ("relu", "gelu", "hardswish"), 4))

    return draw_call


def causal_conv1d(draw: Draw, call: Described) -> None:
    dtype, width = draw.one(FLOATS), draw.one((2, 3, 4, 4, 7))
    channels = draw.one((64, 768, 4096))
    shape = draw.one((1, 8)), channels, draw.one((1, 100, 2048, 16384))
    if draw.number(2):
        x = laid_out(draw, call, shape, dtype)
    else:
        x = torch.empty(shape[0], shape[2], channels, dtype=dtype).transpose(1, 2)
        call.words.append(f"{NAMES[dtype]} {'x'.join(map(str, shape))} (channels innermost)")
    call.args = [x, strange((channels, width)).to(dtype)]
    call.words.append(f"k={width}")
    call.option("activation", draw.one((None, "silu")))


def causal_conv1d_update(draw: Draw, call: Described) -> None:
    dtype, width = draw.one(FLOATS), draw.one((2, 4, 4, 7))
    n, channels, length = draw.one((1, 8, 64)), draw.one((64, 768, 4096)), draw.one((1, 1, 4))
    call.args = [
        laid_out(draw, call, (n, channels, length), dtype),
        torch.empty(n, channels, width + length - 2, dtype=dtype),
        strange((channels, width)).to(dtype),
    ]
    call.words.append(f"k={width}")


def weight_gradient(draw: Draw, call: Described) -> None:
    """The operators that the gradients of depthwise convolutions call."""
    dtype, k = draw.one(FLOATS), draw.one((3, 3, 4, 5, 7))
    n, channels, side = draw.one((1, 8, 64)), draw.one((32, 96, 384)), draw.one((7, 14, 28, 56, 112))
    x = laid_out(draw, call, (n, channels, side, side), dtype)
    stride, pad = draw.rarely(1, (2,), 3), k // 2
    out = (side + 2 * pad - k) // stride + 1
    call.args = [x, torch.empty(n, channels, out, out, dtype=dtype), [k, k], [stride] * 2, [pad] * 2]
    call.words.append(f"k={k} stride={stride}")


# The function that draws calls of each function, and their number.
FUNCTIONS: dict[str, tuple[Calls, int]] = {
    "filter2d": (filter2d, 900),
    "filter1d": (filter1d, 150),
    "filter2d_separable": (filter2d_separable, 500),
    "filter3d": (filter3d, 400),
    "filter3d_separable": (filter3d_separable, 300),
    "box_blur": (box(image_shape, "reflect", (*SIZES, 201, 1001, 20001, 200001), 2), 300),
    "box_blur3d": (box(volume_shape, "replicate", (*DEPTH_SIZES, 41, 101, 1001), 3), 200),
    "gaussian_blur2d": (of_images(), 100),
    "gaussian_blur3d": (of_volumes(), 60),
    "gaussian_downsample": (of_images(factor=(2, 3)), 80),
    "gaussian_gradient_magnitude3d": (of_volumes(mode=("diff", "sobel")), 100),
    "gaussian_laplace": (of_images(sigmas=False, sigma=(0.5, 1.0, 2.0, 4.0)), 60),
    "gaussian_sobel": (of_images(magnitude=("l1", "l2")), 100),
    "difference_of_gaussians": (of_images(sigmas=False, low_sigma=(0.7, 1.0, 3.0)), 60),
    "laplacian": (of_images(sigmas=False, kernel_size=(3, 5)), 60),
    "sobel": (of_images(border="replicate", sigmas=False), 100),
    "spatial_gradient": (of_images(border="replicate", sigmas=False, mode=("sobel", "diff"), order=(1, 2)), 80),
    "spatial_gradient3d": (of_volumes(sigmas=False, mode=("sobel", "diff"), order=(1, 2)), 80),
    "structure_tensor": (of_images(), 60),
    "thin_edges": (of_images(), 60),
    "unsharp_mask": (of_images(amount=(1.0, 0.5)), 80),
    "conv1d": (convolution(1), 200),
    "conv2d": (convolution(2), 1200),
    "conv3d": (convolution(3), 300),
    "_weight_gradient": (weight_gradient, 120),
    "causal_conv1d": (causal_conv1d, 80),
    "causal_conv1d_update": (causal_conv1d_update, 40),
}
# These depend on the processor's instruction set, too.
NOT_ON_THE_CPU = ("conv1d", "conv2d", "conv3d", "_weight_gradient", "causal_conv1d", "causal_conv1d_update")
NOT_SPLIT = ("_weight_gradient", "causal_conv1d", "causal_conv1d_update")


def plan_of(line: str) -> str:
    """A line of `explain` without its reasons, and without the floor, which follows from its bytes."""
    name, _, plan = line.partition(": ")
    found = re.match(r"(\w+/\w+) \(", plan)
    if not found:
        return line
    depth, at = 1, found.end()
    while depth and at < len(plan):
        depth += {"(": 1, ")": -1}.get(plan[at], 0)
        at += 1
    numbers = [part for part in plan[at:].split("; ") if re.match(r"(tile|launches|bytes|kernel|scratch) ", part)]
    return "; ".join([f"{name}: {found[1]}", *numbers])


def lines(name: str, call: Described) -> Sequence[str]:
    """The lines of `explain`."""
    if name.startswith("_"):
        return answer_text(getattr(torch.ops.torch_conv, f"{name}_query")("explain", *call.args)).splitlines()
    return torch_conv.explain(getattr(torch_conv, name), *call.args, **call.options).lines


def plans(name: str, call: Described) -> str:
    """The plans that `explain` prints, or the kind of error."""
    try:
        explained = lines(name, call)
    except (ValueError, TypeError) as error:
        return f"refused: {type(error).__name__}"
    return "\n".join(map(plan_of, explained)) or "nothing to compute"


def blocks() -> Iterator[str]:
    """A block of text for each call."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("TORCH_CONV_")}
    with mock.patch.dict(os.environ, others | {"TORCH_CONV_EXPLAIN_KERNELS": "1"}, clear=True):
        for name, (draw_call, count) in FUNCTIONS.items():
            for number in range(count):
                call = Described(name)
                draw = Draw(f"{name} {number}")
                draw_call(draw, call)
                if name not in NOT_SPLIT and draw.number(16) == 0:
                    call.args[0] = torch_conv.split(call.args[0], ["cpu"] * 3, draw.one((-2, -1)))
                    call.words.append(f"in three shards along {call.args[0].dim}")
                machines = MACHINES if name in NOT_ON_THE_CPU else {"cpu": "", **MACHINES}
                made: dict[str, list[str]] = {}
                for machine, described in machines.items():
                    os.environ["TORCH_CONV_EXPLAIN_FOR"] = described
                    made.setdefault(plans(name, call), []).append(machine)
                yield "\n".join(
                    [call.text] + [f"  [{' '.join(on)}] " + plan.replace("\n", "\n    ") for plan, on in made.items()]
                )


def recorded() -> list[str]:
    text = lzma.decompress(FILE.read_bytes()).decode()
    for old, new in RENAMED:
        text = re.sub(old, new, text)
    return text.split("\n\n")


def differences(found: Sequence[str], expected: Sequence[str]) -> list[str]:
    """The calls that differ, as a diff."""
    lines = []
    for new, old in zip(found, expected, strict=True):
        if new != old:
            lines += [*difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=9)][2:]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the file")
    parser.add_argument("--show", metavar="TEXT", help="print the calls whose description holds this text")
    args = parser.parse_args()
    found = list(blocks())
    if args.write:
        FILE.write_bytes(lzma.compress("\n\n".join(found).encode(), preset=9 | lzma.PRESET_EXTREME))
        print(f"{len(found)} calls, {FILE.stat().st_size} bytes")
        return 0
    if args.show is not None:
        print("\n\n".join(block for block in found if args.show in block.splitlines()[0]))
        return 0
    lines = differences(found, recorded())
    print("\n".join(lines[:400]) if lines else f"{len(found)} calls: the same plans")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main())
