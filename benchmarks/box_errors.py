"""The errors of boxes against the exact mean, as the table docs/box_errors.md.

python benchmarks/box_errors.py [--device cuda] [--output docs/box_errors.md]

An error is the largest over all pixels. Its unit is the last place of the mean of |x| inside the box, in the dtype of
the sums. The exact means are sums of 80-bit floats. Both devices give the same bits.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch
from torch import Tensor

import torch_conv

SIDE = 320
SIZES = (3, 15, 200)
# Where sums are made in float32, results are asked for in float32, so that no rounding to 16 bits hides the error.
DTYPES = {
    torch.float32: torch.float32,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float64: torch.float64,
}


TEXT = """\
# How exact boxes are

`box_blur` of an image of 320x320, `border_type='reflect'`: the largest error over all pixels, in units in the last
place of the mean of |x| inside the window (of float32, or of float64 for float64 images). The promise is 8. Nothing is
subtracted, so a highlight, a NaN or an infinity is seen by the windows that hold it and by no other: the last two
columns are the errors of all other pixels. A dash: float16 does not reach 1e6. Means of uint8, int16 and uint16 are
exact, rounded half to even. CPU and CUDA give the same bits. Made by
`python benchmarks/box_errors.py --output docs/box_errors.md`.

"""


def noise() -> Tensor:
    return torch.rand(SIDE, SIDE, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def ramp() -> Tensor:
    return 1e6 + torch.arange(SIDE * SIDE, dtype=torch.float64).reshape(SIDE, SIDE) / SIDE


def with_pixel(value: float) -> Tensor:
    image = noise()
    image[SIDE // 2, SIDE // 3] = value
    return image


IMAGES: dict[str, Callable[[], Tensor]] = {
    "noise in [0, 1)": noise,
    "ramp from 1e6 on": ramp,
    "one highlight of 1e6": lambda: with_pixel(1e6),
    "one NaN": lambda: with_pixel(float("nan")),
    "one Inf": lambda: with_pixel(float("inf")),
}


def windows(k: int) -> np.ndarray:
    """Where the rows and columns under every output lie, (SIDE, k), with 'reflect' outside."""
    at = np.abs(np.arange(SIDE)[:, None] + np.arange(k) - (k - 1) // 2)
    return np.where(at < SIDE, at, 2 * (SIDE - 1) - at)


def exact_mean(image: np.ndarray, k: int) -> np.ndarray:
    wide = image.astype(np.longdouble)
    columns = np.stack([wide[rows].sum(0) for rows in windows(k)])
    return np.stack([columns[:, at].sum(1) for at in windows(k)], axis=1) / (k * k)


def largest_error(image: Tensor, k: int, device: str) -> str:
    """The error, and of what is not finite whether it stands exactly where a window holds it."""
    out = DTYPES[image.dtype]
    got = torch_conv.box_blur(image[None, None].to(device), k, output_dtype=out)[0, 0].cpu().double().numpy()
    given = image.double().numpy()
    with np.errstate(invalid="ignore"):
        expected, around = exact_mean(given, k), exact_mean(np.abs(given), k)
    stands = np.isfinite(expected)
    if not np.array_equal(np.isfinite(got), stands) or not np.array_equal(np.isnan(got), np.isnan(expected)):
        return "elsewhere"
    ulp = np.spacing(around[stands].astype(np.float32 if out == torch.float32 else np.float64))
    return f"{np.abs((got[stands] - expected[stands]) / ulp).max():.2f}"


def table(device: str) -> list[str]:
    lines = ["| image | " + " | ".join(IMAGES) + " |", "| --- " + "| --: " * len(IMAGES) + "|"]
    for dtype in DTYPES:
        for k in SIZES:
            cells = []
            for make in IMAGES.values():
                image = make()
                fits = image.nan_to_num(0, 0).max() <= torch.finfo(dtype).max
                cells.append(largest_error(image.to(dtype), k, device) if fits else "-")
            lines.append(f"| {str(dtype).removeprefix('torch.')} {k}x{k} | " + " | ".join(cells) + " |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    text = "\n".join([*TEXT.splitlines(), *table(asked.device), ""])
    if asked.output:
        asked.output.write_text(text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
