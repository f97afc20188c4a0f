"""The tables of the textbook studies: cases, measurement and columns of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F

import torch_conv
from torch_conv import kernels
from torch_conv.bench.ladder.borders import borders
from torch_conv.bench.ladder.columns import COLUMNS
from torch_conv.bench.ladder.signals import signal
from torch_conv.bench.ladder.study import (
    RUNGS,
    TOLERANCE,
    Bench,
    Row,
    Study,
    Sweep,
    Tensor,
    copies,
    copy_percent,
    error,
)

SIGMA = 0.8  # of the 3x3 Gaussian before Sobel, close to the binomial taps 1-2-1
SQUARE = (16, 16)
WINDOWS = (
    ("gaussian", 3),
    ("gaussian", 5),
    ("gaussian", 7),
    ("sobel_x", 3),
    ("sobel_y", 3),
    ("laplacian", 3),
    ("box", 3),
    ("box", 5),
    ("sharpen", 3),
    ("emboss", 3),
    ("identity", 3),
)
FUSED_TOLERANCE, STENCIL_TOLERANCE = 1e-4, 1e-3  # the studies' own
ARC_A770_MS = {256: 0.02, 512: 0.07, 1024: 0.28, 2048: 1.12}  # the stencil study's published table


def ladder(image: Tensor, kernel: Tensor, variant: str = "naive", block: tuple[int, int] = SQUARE) -> Tensor:
    return torch.ops.torch_conv.ladder2d(image, kernel, variant, block)


def conv2d(image: Tensor, kernel: Tensor) -> Tensor:
    return F.conv2d(image, kernel[None, None], padding=kernel.shape[-1] // 2)


# --- the stencil study: 3x3 box blur, interior only ---------------------------------------------------------------


def measure_stencil(bench: Bench, case: tuple[int, bool]) -> Row:
    size, rotate = case
    image, kernel = bench.image(size), kernels.named("box", 3)
    weight = kernel.to(image)

    def blur(x: Tensor) -> Tensor:
        return torch_conv.filter2d(x, kernel, border_type="zero_output")

    blurred, gold = blur(image).cpu(), ladder(image.cpu(), kernel)
    inside = (..., slice(1, -1), slice(1, -1))
    errors = {"torch_conv": error(blurred[inside], gold[inside])}
    blurred[inside] = 0
    errors["the border of torch_conv"] = error(blurred, torch.zeros_like(gold))

    images = [image]
    if rotate:
        cache = torch.cuda.get_device_properties(bench.device).L2_cache_size
        images += [image.clone() for _ in range(math.ceil(4 * cache / (2 * image.nbytes)) - 1)]
    targets = [copies(x) for x in images]
    row = bench.time(
        {
            "copy": [t["copy"] for t in targets],
            "add": [t["add"] for t in targets],
            "production": [partial(blur, x) for x in images],
            "conv2d": [partial(conv2d, x, weight) for x in images],
        }
    )
    rate = size * size / (row["production_ms"] / 1e3)  # pixels a second
    return (
        row
        | {
            "size": size,
            "images": len(images),
            "mpixels": rate / 1e6,
            "gbs_no_cache": rate * 40 / 1e9,
            "gbs": rate * 8 / 1e9,
            "gflops": rate * 18 / 1e9,
            "copy_percent": copy_percent(row),
            "error": bench.check(f"stencil {size}x{size}", errors, STENCIL_TOLERANCE),
        }
        | ({"arc_ms": ARC_A770_MS[size]} if size in ARC_A770_MS else {})
    )


def stencil(sizes: Sequence[int], cuda: bool) -> Study:
    return Study(
        "stencil",
        "Stencil study: 3x3 box blur, interior only (border 0), float32, times in ms",
        COLUMNS["stencil"],
        [(size, rotate) for size in sizes for rotate in ((False, True) if cuda else (False,))],
        measure_stencil,
        "40 B/pixel counts every read of the window, 8 B/pixel one read and one write; 18 flops a pixel. The Arc A770 "
        "column is published, not measured."
        + (" One image stays in the L2 cache; several together are four times as large as it." if cuda else ""),
    )


# --- the 2-D study ------------------------------------------------------------------------------------------------


def measure_correctness(bench: Bench, case: tuple[str, int]) -> Row:
    name, size = case
    kernel = kernels.named(name, size)
    squares = torch.arange(64) // 8
    checkerboard = ((squares[:, None] + squares) % 2).float()[None, None].to(bench.device)

    worst: dict[str, float] = {}
    for image in (checkerboard, bench.image(64)):
        gold = ladder(image.cpu(), kernel)
        results = {"production": torch_conv.filter2d(image, kernel, border_type="constant")}
        if bench.cuda:
            results |= {rung: ladder(image, kernel, rung) for rung in RUNGS}
        errors = {rung: error(result, gold) for rung, result in results.items()}
        bench.check(f"correctness, {name} {size}x{size}", errors, TOLERANCE)
        if bench.cuda and size == 3:
            fused = ladder(image.cpu(), kernel, "fused")
            errors["fused"] = error(ladder(image, kernel, "fused"), fused)
            bench.check(f"correctness, {name} 3x3", {"fused": errors["fused"]}, FUSED_TOLERANCE)
        errors["conv2d"] = error(conv2d(image, kernel.to(image)), gold)
        worst = {k: max(e, worst.get(k, 0.0)) for k, e in errors.items()}
    return {"window": f"{name} {size}x{size}"} | worst


def measure_rungs(bench: Bench, what: str, size: int, kernel: Tensor, block: tuple[int, int]) -> Row:
    image = bench.image(size)
    ours = {"production": lambda: torch_conv.filter2d(image, kernel, border_type="constant")}
    rival = {"conv2d": partial(conv2d, image, kernel.to(image))}
    return bench.rungs(what, image, partial(ladder, kernel=kernel, block=block), ours, rival) | {"size": size}


def measure_size(bench: Bench, size: int) -> Row:
    return measure_rungs(bench, f"size {size}x{size}", size, kernels.named("gaussian", 3), SQUARE)


def measure_window(bench: Bench, case: tuple[int, int]) -> Row:
    size, k = case
    return {"k": k} | measure_rungs(bench, f"window {k}x{k}", size, kernels.named("gaussian", k), SQUARE)


def measure_block(bench: Bench, case: tuple[int, tuple[int, int]]) -> Row:
    size, block = case
    name = f"{block[0]}x{block[1]}"
    return {"block": name} | measure_rungs(bench, f"block {name}", size, kernels.named("gaussian", 5), block)


def measure_fused(bench: Bench, size: int) -> Row:
    image = bench.image(size)
    blur, sobel_x, sobel_y = kernels.gaussian2d(3, SIGMA), kernels.named("sobel_x", 3), kernels.named("sobel_y", 3)
    weight, both = blur.to(image), torch.stack([sobel_x, sobel_y])[:, None].to(image)
    gold, cpu_ms = bench.gold(partial(ladder, image.cpu(), blur, "fused"))

    def unfused() -> Tensor:
        blurred = ladder(image, blur, "tiled")
        return ladder(blurred, sobel_x, "tiled").abs_().add_(ladder(blurred, sobel_y, "tiled").abs_())

    def chain() -> Tensor:
        return F.conv2d(conv2d(image, weight), both, padding=1).abs_().sum(1, keepdim=True)

    ours: dict[str, Callable[[], Tensor]] = {
        "production": lambda: torch_conv.gaussian_sobel(image, 3, SIGMA, "constant", magnitude="l1", algorithm="fused")
    }
    if bench.cuda:
        ours |= {"fused": partial(ladder, image, blur, "fused"), "unfused": unfused}
    row = bench.contest(f"fused {size}x{size}", image, gold, ours, {"conv2d": chain}, FUSED_TOLERANCE)
    row |= {"size": size, "cpu_ms": cpu_ms}
    if bench.cuda:
        row["fused_over_unfused"] = row["unfused_ms"] / row["fused_ms"]
    return row


def studies(cuda: bool, sweep: Sweep) -> list[Study]:
    """Every table in the order it is printed."""
    one_image = "One image again and again, as the study does"
    one_image += ": up to 2048x2048 it stays in a large GPU's L2 cache." if cuda else "."
    return [
        stencil(sweep.of(256, 512, 1024, 2048), cuda),
        Study(
            "correctness",
            "2-D study (a): max abs error against the float64 CPU loop, 64x64 checkerboard and noise",
            COLUMNS["correctness"],
            WINDOWS,
            measure_correctness,
            "Allowed: 1e-5, for V3 1e-4. V3 puts the window before Sobel, so it takes 3x3 only.",
        ),
        Study(
            "size",
            "2-D study (b): image size, Gaussian 3x3, block 16x16, float32, times in ms",
            COLUMNS["size"],
            sweep.of(256, 512, 1024, 2048, 4096),
            measure_size,
            one_image,
        ),
        Study(
            "window",
            f"2-D study (c): window size, Gaussian, {sweep.size}x{sweep.size}, block 16x16, float32, times in ms",
            COLUMNS["window"],
            [(sweep.size, k) for k in sweep.windows],
            measure_window,
            one_image,
        ),
        Study(
            "block",
            f"2-D study (d): block, Gaussian 5x5, {sweep.size}x{sweep.size}, float32, times in ms",
            COLUMNS["block"],
            [(sweep.size, block) for block in (sweep.blocks if cuda else (SQUARE,))],
            measure_block,
            one_image + ("" if cuda else " A CPU has no blocks: one row."),
        ),
        Study(
            "fused",
            "2-D study (e): Gaussian 3x3 + Sobel |Gx| + |Gy|, fused against one by one, float32, times in ms",
            COLUMNS["fused"],
            sweep.of(512, 1024, 2048),
            measure_fused,
            one_image
            + " One by one: three V2 launches and three element-wise ones. F.conv2d: two, then |.| and a sum.",
        ),
        signal(sweep, cuda),
        borders(sweep, cuda),
    ]


TABLES = tuple(study.name for study in studies(cuda=True, sweep=Sweep()))
