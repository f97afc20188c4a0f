"""One image of a gigapixel on all GPUs: a Gaussian, then the magnitude of the gradient, and back to the host.

    python examples/multi_gpu.py                                        # all GPUs, 32768 x 32768
    python examples/multi_gpu.py --devices cpu,cpu,cpu --size 2048      # shards on the CPU
    python examples/multi_gpu.py --photo photo.jpg --devices cuda:0,cuda:0,cuda:1,cuda:1 --output edges.png

The enlarged photograph lies in host memory. Its shards of rows are copied to the GPUs, filtered while others are on
their way, and copied back. The Gaussian is as wide as two pixels of the photograph, so its kernel is hundreds of rows
high. Boundary strips read as many rows of the neighbour. Prints the time and whether one device gives the same
bits. Draws the photograph and its edges, with a tick at the side between shards.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))  # a checkout, after an installed package

import torch
import torch.nn.functional as F
from edges import bright, luminance
from files import check_output, in_one_sentence, read, save, shipped
from torch import Tensor

import torch_conv
from torch_conv.cli.programs import UsageError

GIGAPIXEL, MEGAPIXELS = 32768, 2048  # rows and columns by default, on GPUs and on the CPU
WIDTH = 2.0  # sigma of the Gaussian in pixels of the photograph
OVERVIEW = 720  # pixels of a picture's side


@in_one_sentence
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photo", type=Path, metavar="FILE", help="PNG, JPEG, ... (default: scikit-image's retina)")
    parser.add_argument("--size", type=int, metavar="N", help=f"N x N pixels (default: {GIGAPIXEL}; CPU {MEGAPIXELS})")
    parser.add_argument(
        "--devices", metavar="D,D", help="one for each shard; repeat one for several (default: all GPUs)"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", default=Path("multi_gpu.jpg"), help="default: %(default)s"
    )
    args = parser.parse_args()
    devices = devices_named(args.devices)
    size = args.size if args.size is not None else GIGAPIXEL if devices[0].type == "cuda" else MEGAPIXELS
    if size < 16:
        raise UsageError(f"--size must be at least 16, got {size}")
    check_output(args.output, args.photo)
    photo = photograph(args.photo or shipped("retina.jpg"))
    sigma = WIDTH * size / min(photo.shape[-2:])
    image = enlarged(photo, size)
    if devices[0].type == "cuda":
        image = image.pin_memory()  # so that nobody waits for its way to the GPUs

    edges, _ = timed(image, devices, sigma)  # the first call loads kernels and pins memory
    edges, seconds = timed(image, devices, sigma)
    sizes = torch_conv.split(image[..., :1].contiguous(), devices).spec.sizes
    where = ", ".join(f"{n} rows on {d}" for n, d in zip(sizes, devices, strict=True))
    print(f"{size} x {size} pixels, a window of {2 * int(4 * sigma + 0.5) + 1} rows: {where}")
    print(
        f"to the devices, Gaussian, gradient, and back: {1e3 * seconds:.1f} ms, {1e-6 * size**2 / seconds:.0f} Mpixel/s"
    )
    alone = steps(image.to(devices[0]), sigma).cpu()
    same = torch.equal(edges, alone)
    print(f"{devices[0]} alone gives {'the same' if same else 'OTHER'} bits")
    draw(args.output, {"photograph": overview(image), "edges": overview(edges, keep_largest=True).sqrt()}, sizes)
    print(f"{args.output} shows the photograph and its edges; ticks mark the boundaries of the {len(devices)} shards")
    if not same:
        sys.exit(1)


def timed(image: Tensor, devices: list[torch.device], sigma: float) -> tuple[Tensor, float]:
    start = time.perf_counter()
    edges = steps(torch_conv.split(image, devices), sigma).gather("cpu")
    return edges, time.perf_counter() - start


def steps(image: Any, sigma: float) -> Any:
    """Bytes to the magnitude of the gradient, of a tensor or of a SplitTensor alike."""
    smooth: Any = torch_conv.gaussian_blur2d(image, None, sigma, output_dtype=torch.float32)
    return torch_conv.sobel(smooth, output_dtype=torch.float16)


def devices_named(names: str | None) -> list[torch.device]:
    there = torch.cuda.device_count()
    if names is None:
        return [torch.device("cuda", i) for i in range(there)] or [torch.device("cpu")] * 2
    try:
        devices = [torch.device(name.strip()) for name in names.split(",")]
    except RuntimeError as error:
        raise UsageError(f"--devices must be names as cuda:0,cuda:1 or cpu,cpu, got {names}") from error
    if {d.type for d in devices} not in ({"cpu"}, {"cuda"}):
        raise UsageError(f"--devices must be all on the CPU or all CUDA devices, got {names}")
    if devices[0].type == "cuda" and max(d.index or 0 for d in devices) >= there:
        raise UsageError(f"--devices must be among the {there} CUDA devices of this machine, got {names}")
    return [torch.device("cuda", d.index or 0) if d.type == "cuda" else torch.device("cpu") for d in devices]


def photograph(path: Path) -> Tensor:
    """Its luminance (1, 1, H, W), 0 to 255."""
    return 255 * luminance(read(path))[None, None]


def enlarged(photo: Tensor, size: int) -> Tensor:
    """The middle of the photograph as bytes (1, 1, size, size), some rows at a time: floats take 4 times as much."""
    side = min(photo.shape[-2:])
    top, left = ((n - side) // 2 for n in photo.shape[-2:])
    square = photo[..., top : top + side, left : left + side]
    image = torch.empty(1, 1, size, size, dtype=torch.uint8)
    x = ((torch.arange(size) + 0.5) * 2 / size - 1)[None, :]
    for first in range(0, size, 1024):
        rows = torch.arange(first, min(first + 1024, size))
        y = ((rows + 0.5) * 2 / size - 1)[:, None]
        grid = torch.stack(torch.broadcast_tensors(x, y), -1)[None]
        part = F.grid_sample(square, grid, padding_mode="border", align_corners=False)
        image[..., rows[0] : rows[-1] + 1, :] = part.round_().clamp_(0, 255)
    return image


def overview(image: Tensor, keep_largest: bool = False) -> Tensor:
    """A small float picture in [0, 1]: means, or of thin lines the largest value of every block."""
    block = max(1, image.shape[-1] // OVERVIEW)
    rows = image[0].split(block * 64, -2)  # some at a time: they become floats
    pool = F.max_pool2d if keep_largest else F.avg_pool2d
    small = torch.cat([pool(r.float(), block, ceil_mode=True) for r in rows], -2)[0]
    return (small / bright(small)).clamp_(0, 1)


def draw(path: Path, pictures: dict[str, Tensor], sizes: tuple[int, ...]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 6.4), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    boundaries = [sum(sizes[:i]) / sum(sizes) for i in range(1, len(sizes))]
    for axes, (title, picture) in zip(figure.subplots(1, 2), pictures.items(), strict=True):
        axes.imshow(picture.numpy(), cmap="gray", vmin=0, vmax=1, extent=(0, 1, 1, 0), interpolation="bilinear")
        axes.set_title(title, fontsize=12)
        axes.set_xticks([])
        axes.set_yticks(boundaries, [""] * len(boundaries))
        axes.tick_params(axis="y", left=True, right=True, length=8, width=0.8, color="black")
        for spine in axes.spines.values():
            spine.set_visible(False)
    save(figure, path, dpi=110, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main()
