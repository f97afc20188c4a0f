"""A photograph of 24 megapixels as it lies in memory, (H, W, 3) bytes, through a blur, a sharpening window and edges.

    python examples/photo.py                                   # 4000 x 6000 pixels of scikit-image's cup of coffee
    python examples/photo.py --photo photo.jpg --device cpu --output pictures.jpg

`photo.permute(2, 0, 1)[None]` is the photograph as an image (1, 3, H, W) in channels_last, a view: the filters take it
as it is, and what they return lies in memory alike. Prints each filter's time and bytes a second beside OpenCV's and
torchvision's, where they are installed, and draws the pictures.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))  # a checkout, after an installed package

import torch
import torch.nn.functional as F
from files import check_output, in_one_sentence, read, save, shipped
from torch import Tensor

import torch_conv
from torch_conv.cli.programs import UsageError, device_named, queue_sampler, synchronize, turns

MEGAPIXELS = 24.0
SIZE, SIGMA = 15, 2.6  # of the blur
SHARPNESS = 3.0  # torchvision's factor: 1 is the photograph, 0 its mean over 3x3 pixels, the middle one five times
ROUNDS = 5
LONG_S, ENDLESS_S = 0.5, 2.0  # what takes longer is timed once; what takes longer still, when its picture is made
CROP = 400, 600  # rows and columns that are drawn pixel by pixel

Filter = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Job:
    """A filter of images (1, 3, H, W) of bytes, and others' ways to it; OpenCV's takes (cv2, array (H, W, 3))."""

    title: str
    ours: Filter
    opencv: Callable[[Any, Any], Any]
    torchvision: Callable[[Any, Tensor], Tensor] | None = None  # of torchvision.transforms.v2.functional


@dataclass
class Line:
    library: str
    seconds: float
    picture: Tensor  # (H, W, 3)


def sharpening() -> Tensor:
    smooth = torch.ones(3, 3)
    smooth[1, 1] = 5.0
    window = (1 - SHARPNESS) * smooth / smooth.sum()
    window[1, 1] += SHARPNESS
    return window


SHARPEN = sharpening()


def opencv_edges(cv2: Any, photo: Any) -> Any:
    gradient = [
        cv2.Sobel(photo, cv2.CV_32F, *axis, ksize=3, borderType=cv2.BORDER_REPLICATE) for axis in ((1, 0), (0, 1))
    ]
    return cv2.convertScaleAbs(cv2.magnitude(*gradient))


JOBS = [
    Job(
        f"blur {SIZE}x{SIZE}",
        lambda x: torch_conv.gaussian_blur2d(x, SIZE, SIGMA),
        lambda cv2, photo: cv2.GaussianBlur(photo, (SIZE, SIZE), SIGMA, borderType=cv2.BORDER_REFLECT_101),
        lambda functional, x: functional.gaussian_blur(x, [SIZE, SIZE], [SIGMA, SIGMA]),
    ),
    Job(
        "sharpen 3x3",
        lambda x: torch_conv.filter2d(x, SHARPEN),
        lambda cv2, photo: cv2.filter2D(photo, -1, SHARPEN.numpy(), borderType=cv2.BORDER_REFLECT_101),
        lambda functional, x: functional.adjust_sharpness(x, SHARPNESS),
    ),
    Job("edges", lambda x: torch_conv.sobel(x, normalized=False), opencv_edges),
]


@in_one_sentence
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photo", type=Path, metavar="FILE", help="PNG, JPEG, ... (default: scikit-image's coffee)")
    parser.add_argument(
        "--megapixels",
        type=float,
        metavar="N",
        help=f"the photograph, mirrored again and again, or its corner (default: {MEGAPIXELS:g}; of FILE, all it has)",
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="default: %(default)s")
    parser.add_argument("--output", type=Path, metavar="FILE", default=Path("photo.jpg"), help="default: %(default)s")
    args = parser.parse_args()
    if args.megapixels is not None and not 0.01 <= args.megapixels <= 400:
        raise UsageError(f"--megapixels must be between 0.01 and 400, got {args.megapixels:g}")
    check_output(args.output, args.photo)
    device = device_named(args.device)
    original = read(args.photo or shipped("coffee.png")).permute(1, 2, 0).contiguous()
    megapixels = args.megapixels or (MEGAPIXELS if args.photo is None else None)
    photo = original if megapixels is None else mirrored(original, megapixels)
    image = photo.to(device).permute(2, 0, 1)[None]  # a view: channels_last

    height, width = photo.shape[:2]
    print(f"{height} x {width} x 3 bytes, {photo.numel() / 1e6:.0f} MB; {machines(device)}")
    print(row("", "", "ms", "GB/s", "× ours", "levels apart"))
    pictures = {"photograph": photo}
    with torch.inference_mode():
        for job in JOBS:
            lines = measure(job, image, photo)
            report(job.title, lines)
            pictures[job.title] = lines[0].picture
    kept = all(picture.is_contiguous() for picture in pictures.values())
    print(f"torch_conv's results lie in memory as {'(H, W, 3)' if kept else 'SOMETHING ELSE'}, as the photograph does")
    draw(args.output, pictures, *corner(original, photo), whole=photo is original)
    print(f"{args.output} shows a piece of {' | '.join(pictures)}, pixel by pixel")


def mirrored(photo: Tensor, megapixels: float) -> Tensor:
    """So many pixels of the same shape: the photograph beside its mirror image beside itself, rows and columns."""
    scale = (megapixels * 1e6 / (photo.shape[0] * photo.shape[1])) ** 0.5
    for axis in (0, 1):
        n = photo.shape[axis]
        index = torch.arange(max(1, round(scale * n))) % (2 * n)
        photo = photo.index_select(axis, torch.minimum(index, 2 * n - 1 - index))
    return photo


# ---- time ------------------------------------------------------------------------------------------------------------


def measure(job: Job, image: Tensor, photo: Tensor) -> list[Line]:
    """Our time, then those of the libraries that are installed, in turn."""
    cpu = torch.device("cpu")
    calls: dict[str, tuple[Callable[[], Any], torch.device]] = {"torch_conv": (partial(job.ours, image), image.device)}
    try:
        import cv2
    except ImportError:
        pass
    else:
        cv2.setNumThreads(torch.get_num_threads())
        calls["OpenCV"] = (partial(job.opencv, cv2, photo.numpy()), cpu)
    try:
        from torchvision.transforms.v2 import functional
    except ImportError:
        pass
    else:
        if job.torchvision:
            calls["torchvision"] = (partial(job.torchvision, functional, image), image.device)

    lines, samplers = {}, {}
    for name, (call, device) in calls.items():
        picture, seconds = once(call, device)
        if seconds < ENDLESS_S:
            seconds = once(call, device)[1]
        if isinstance(picture, Tensor):
            picture = picture[0].permute(1, 2, 0).cpu()
        lines[name] = Line(name, seconds, torch.as_tensor(picture))
        if seconds < LONG_S:
            samplers[name] = queue_sampler(call, [device])
    samples: dict[str, list[float]] = {name: [] for name in samplers}
    for _, name in turns(samplers, ROUNDS):
        samples[name].append(samplers[name]())
    for name, each in samples.items():
        lines[name].seconds = median(each)
    return list(lines.values())


def once(call: Callable[[], Any], device: torch.device) -> tuple[Any, float]:
    synchronize([device])
    start = time.perf_counter()
    result = call()
    synchronize([device])
    return result, time.perf_counter() - start


def machines(device: torch.device) -> str:
    cpu = f"the CPU, {torch.get_num_threads()} threads"
    if device.type == "cpu":
        return f"all on {cpu}"
    return f"torch_conv and torchvision on {torch.cuda.get_device_name(device)}, OpenCV on {cpu}"


def report(title: str, lines: list[Line]) -> None:
    """One read and one write of the photograph in the time of a call; the largest difference from our result.

    The outermost pixels are not compared: torchvision does not sharpen them.
    """
    ours = lines[0]
    inner = (slice(1, -1), slice(1, -1))
    for line in lines:
        figures = [figure(1e3 * line.seconds), figure(2e-9 * ours.picture.numel() / line.seconds), "", ""]
        if line is not ours:
            apart = (line.picture[inner].short() - ours.picture[inner].short()).abs().max().item()
            figures[2:] = [figure(line.seconds / ours.seconds), str(apart)]
        print(row(title if line is ours else "", line.library, *figures))


def row(title: str, library: str, *figures: str) -> str:
    return f"{title:14}{library:14}{'{:>9}{:>9}{:>9}{:>14}'.format(*figures)}".rstrip()


def figure(x: float) -> str:
    """Three digits."""
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


# ---- the picture -----------------------------------------------------------------------------------------------------


def corner(original: Tensor, photo: Tensor) -> tuple[int, int]:
    """Where the piece begins that is drawn pixel by pixel: in the middle of a copy that is not mirrored."""
    first = []
    for n, whole, size in zip(original.shape, photo.shape, CROP, strict=False):
        copy = whole // 2 // (2 * n) * (2 * n)
        first.append(max(0, min(copy + (n - size) // 2, whole - size)))
    return first[0], first[1]


def draw(path: Path, pictures: dict[str, Tensor], top: int, left: int, whole: bool) -> None:
    """The piece of every picture, and above it, if wanted, the whole of it with the piece in a frame."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    height, width = next(iter(pictures.values())).shape[:2]
    rows, columns = min(CROP[0], height), min(CROP[1], width)
    ratios = [height / width, rows / columns] if whole else [rows / columns]
    each = 4.4  # inches a picture is wide
    canvas = Figure(figsize=(each * len(pictures), each * sum(ratios) + 0.4), layout="constrained", facecolor="white")
    FigureCanvasAgg(canvas)
    axes = canvas.subplots(len(ratios), len(pictures), height_ratios=ratios, squeeze=False)
    for i, (title, picture) in enumerate(pictures.items()):
        piece = picture[top : top + rows, left : left + columns]
        axes[-1, i].imshow(piece.numpy(), interpolation="nearest")
        if whole:
            axes[0, i].imshow(overview(picture).numpy(), extent=(0, width, height, 0), interpolation="bilinear")
            axes[0, i].add_patch(Rectangle((left, top), columns, rows, fill=False, edgecolor="white", linewidth=1.5))
        axes[0, i].set_title(title, fontsize=14)
    for axis in axes.flat:
        axis.axis("off")
    save(canvas, path, dpi=110, pil_kwargs={"quality": 85, "optimize": True})


def overview(picture: Tensor) -> Tensor:
    """A small picture of a large one, (H, W, 3) bytes: means over its blocks."""
    block = max(1, picture.shape[1] // CROP[1])
    planes = picture.permute(2, 0, 1)[:, None]
    small = torch.cat([F.avg_pool2d(plane.float(), block, ceil_mode=True) for plane in planes])
    return small.round_().to(torch.uint8).permute(1, 2, 0)


if __name__ == "__main__":
    main()
