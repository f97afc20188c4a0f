"""Filters on medical volumes: a brain by magnetic resonance, a CT phantom and a functional series, beside SciPy.

python examples/volume.py                          # or: make volume
python examples/volume.py --volume scan.nii.gz --fwhm 6 --border reflect --out pictures
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))  # a checkout, after an installed package

import torch
from files import in_one_sentence
from torch import Tensor
from volume_data import Volume, phantom, read_nifti, series, template
from volume_picture import Panel, draw, robust_maximum

import torch_conv
from torch_conv.cli.programs import UsageError, check_folder, make_folder, time_call

try:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table
except ImportError:
    sys.exit("volume: rich is not installed: pip install 'torch-conv[examples]'")

FWHM_PER_SIGMA = 2.3548  # sqrt(8 log 2): full width at half maximum of a Gaussian
TRUNCATE = 4.0  # the window's reach in sigmas, scipy's default too
BOX_MM = 9.0
LONG_S = 0.5  # what takes SciPy longer is timed once
SCIPY_MODES = {
    "replicate": "nearest",
    "reflect": "mirror",
    "symmetric": "reflect",
    "circular": "wrap",
    "constant": "constant",
}


@dataclass(frozen=True)
class Job:
    """One filter, two ways; both give the input's dtype, rounded once, or float32."""

    title: str
    input: Tensor  # on the CPU
    ours: Callable[[Tensor], Tensor]
    scipy: Callable[[Any, Any], Any]  # (scipy.ndimage, array) -> array, as float32


@dataclass
class Line:
    """A line of the table; times in seconds."""

    job: Job
    cpu: float
    gpu: float | None
    scipy: float | None
    difference: float | None
    result: Tensor


@in_one_sentence
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--volume", metavar="FILE", type=Path, help="another NIfTI file instead of the template")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("examples_out"), help="for the pictures")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="default: the CPU, and the GPU where there is one")
    parser.add_argument("--fwhm", metavar="MM", type=float, default=4.0, help="of the Gaussian (default: %(default)s)")
    parser.add_argument("--border", choices=list(SCIPY_MODES), default="replicate", help="default: %(default)s")
    parser.add_argument("--full", action="store_true", help="the phantom with 512^3 voxels, also without a GPU")
    args = parser.parse_args()
    if args.fwhm <= 0:
        raise UsageError("--fwhm must be positive")
    if args.volume is not None and not args.volume.is_file():
        raise UsageError(f"there is no file {args.volume}")
    check_folder(args.out)
    usable = torch.cuda.is_available() and torch.version.cuda is not None
    if args.device == "cuda" and not usable:
        raise UsageError("torch sees no CUDA device here")
    cuda = usable and args.device != "cpu"
    try:
        from scipy import ndimage
    except ImportError:
        ndimage = None
        print("SciPy is not installed: its columns stay empty")

    volume, scan = template() if args.volume is None else read_nifti(args.volume), series()
    if volume is None:
        print("nibabel or nilearn is not installed: no MR volume (pip install 'torch-conv[examples]')")
    if volume is not None and volume.data.dim() == 4:  # a series of one's own: its first volume is the volume
        volume, scan = Volume(volume.name, volume.data[0], volume.voxel, volume.origin), volume
    body = phantom(512 if cuda or args.full else 256, torch.device("cuda" if cuda else "cpu"))
    body = Volume(body.name, body.data.cpu(), body.voxel, body.origin)

    studies: list[tuple[Volume, list[Job]]] = []
    if volume is not None:
        jobs = [*smoothing(volume, args.fwhm, args.border), *smoothing(as_float(volume), args.fwhm, args.border)]
        studies.append((volume, [*jobs, gradient(volume, args.border)]))
    studies.append(
        (body, [*smoothing(body, args.fwhm, args.border), *smoothing(as_float(body), args.fwhm, args.border)])
    )
    if scan is not None:
        studies.append((scan, per_series(as_float(scan), args.fwhm, args.border)))

    console = Console(width=None if sys.stdout.isatty() else 120)
    lines: list[list[Line]] = []
    with torch.inference_mode(), Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("filtering", total=sum(len(jobs) for _, jobs in studies))
        for what, jobs in studies:
            lines.append([])
            for job in jobs:
                bar.update(task, description=f"{what.name}: {job.title}")
                lines[-1].append(measure(job, cuda, ndimage))
                bar.advance(task)
    console.print(table([(what, own) for (what, _), own in zip(studies, lines, strict=True)], cuda))
    pictures(args.out, [(what, own) for (what, _), own in zip(studies, lines, strict=True)], args.fwhm, console)


# ---- the filters -----------------------------------------------------------------------------------------------------


def as_float(volume: Volume) -> Volume:
    return Volume(volume.name, volume.data.float(), volume.voxel, volume.origin)


def smoothing(volume: Volume, fwhm: float, border: torch_conv.typing.Border) -> Iterator[Job]:
    """A Gaussian and a box, both given in millimetres: their extents in voxels differ where the voxels do."""
    sigma_z, sigma_y, sigma_x = (fwhm / FWHM_PER_SIGMA / mm for mm in volume.voxel)
    size_z, size_y, size_x = (2 * round((BOX_MM / mm - 1) / 2) + 1 if mm < BOX_MM else 1 for mm in volume.voxel)
    sigma, size = (sigma_z, sigma_y, sigma_x), (size_z, size_y, size_x)
    mode = SCIPY_MODES[border]
    yield Job(
        f"Gaussian {fwhm:g} mm",
        volume.data,
        lambda x: torch_conv.gaussian_blur3d(x, None, sigma, border, truncate=TRUNCATE),
        lambda nd, a: nd.gaussian_filter(a, sigma, mode=mode, truncate=TRUNCATE, output="float32"),
    )
    yield Job(
        f"box {BOX_MM:g} mm",
        volume.data,
        lambda x: torch_conv.box_blur3d(x, size, border),
        lambda nd, a: nd.uniform_filter(a, size, mode=mode, output="float32"),
    )


def gradient(volume: Volume, border: torch_conv.typing.Border) -> Job:
    """The length of the gradient by central differences, per millimetre."""
    per_mm = 1 / torch.tensor(volume.voxel[::-1])  # x, y, z: the gradient's order

    def ours(x: Tensor) -> Tensor:
        g = torch_conv.spatial_gradient3d(x[None, None], border_type=border)[0, 0]
        return g.mul_(per_mm.to(g.device)[:, None, None, None]).square_().sum(0).sqrt_()

    def in_scipy(nd: Any, a: Any) -> Any:
        squares = 0
        for axis, mm in enumerate(volume.voxel):
            taps = [-0.5 / mm, 0, 0.5 / mm]
            squares = squares + nd.correlate1d(a, taps, axis, mode=SCIPY_MODES[border], output="float32") ** 2
        return squares**0.5

    return Job("gradient", volume.data.float(), ours, in_scipy)


def per_series(scan: Volume, fwhm: float, border: torch_conv.typing.Border) -> list[Job]:
    """Every volume of a series smoothed: one call for all of them as a batch, and SciPy volume by volume."""
    job = next(smoothing(Volume(scan.name, scan.data[0], scan.voxel, scan.origin), fwhm, border))

    def each(nd: Any, a: Any) -> Any:
        import numpy

        return numpy.stack([job.scipy(nd, volume) for volume in a])

    return [Job(f"{job.title}, one call", scan.data, lambda x: job.ours(x[:, None])[:, 0], each)]


# ---- measuring -------------------------------------------------------------------------------------------------------


def measure(job: Job, cuda: bool, ndimage: Any) -> Line:
    result = job.ours(job.input)
    cpu = median(time_call(partial(job.ours, job.input), "cpu", repeats=5, warmup=1))
    gpu = None
    if cuda:
        x = job.input.cuda()
        result = job.ours(x).cpu()
        gpu = median(time_call(partial(job.ours, x), "cuda", repeats=7))
    scipy = difference = None
    if ndimage is not None:
        array = job.input.numpy()
        start = time.perf_counter()
        expected = torch.from_numpy(job.scipy(ndimage, array))
        scipy = time.perf_counter() - start
        if scipy < LONG_S:
            scipy = median(time_call(partial(job.scipy, ndimage, array), "cpu", repeats=3, warmup=0))
        if not result.dtype.is_floating_point:
            limits = torch.iinfo(result.dtype)
            expected = expected.round_().clamp_(limits.min, limits.max)
        difference = float((result.float() - expected).abs().max())
    return Line(job, cpu, gpu, scipy, difference, result)


def table(studies: list[tuple[Volume, list[Line]]], cuda: bool) -> Table:
    threads = f"CPU, {torch.get_num_threads()} threads"
    out = Table(
        title=f"torch_conv: {threads}" + (f"; {torch.cuda.get_device_name()}" if cuda else "") + ". SciPy: one thread",
        caption="difference: the largest one from scipy.ndimage; integers: from its float32 result, rounded once",
        box=SIMPLE_HEAD,
    )
    out.add_column("operation", no_wrap=True)
    for heading in ("torch_conv CPU", *(["torch_conv GPU"] if cuda else []), "SciPy", "SciPy / CPU", "difference"):
        out.add_column(heading, justify="right", no_wrap=True)
    for volume, lines in studies:
        shape = " × ".join(str(n) for n in reversed(volume.data.shape))
        out.add_row(f"[bold]{volume.name}[/bold], {shape}")
        for n in lines:
            dtype = str(n.job.input.dtype).removeprefix("torch.")
            out.add_row(
                f"{n.job.title}, {dtype}",
                pretty(n.cpu),
                *([pretty(n.gpu)] if cuda else []),
                pretty(n.scipy),
                "" if n.scipy is None else f"{n.scipy / n.cpu:.1f} ×",
                "" if n.difference is None else f"{n.difference:.2g}",
            )
        out.add_section()
    return out


def pretty(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for unit, scale in (("s", 1), ("ms", 1e3)):
        if seconds * scale >= 0.9995:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


# ---- pictures --------------------------------------------------------------------------------------------------------


def pictures(folder: Path, studies: list[tuple[Volume, list[Line]]], fwhm: float, console: Console) -> None:
    """A sheet per volume: before, and after each filter of its own dtype (a gradient has its own scale)."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        console.print("matplotlib is not installed: no pictures")
        return
    make_folder(folder)
    for volume, lines in studies:
        if volume.data.dim() == 4:
            continue
        ct = volume.name == "CT phantom"
        window = (-950.0, 500.0) if ct else (0.0, robust_maximum(volume.data))
        where = (0.5, 0.565, 0.3) if ct else (0.48, 0.47, 0.46)
        shown = [n for n in lines if n.job.input.dtype == volume.data.dtype or n.job.title == "gradient"]
        panels = [Panel("before", volume.data)]
        panels += [Panel(n.job.title, n.result, own_scale=n.job.title == "gradient") for n in shown]
        path = folder / (volume.name.lower().replace(" ", "_") + ".png")
        draw(path, volume, panels, where, window)
        console.print(
            f"{path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path} shows {volume.name}"
        )


if __name__ == "__main__":
    main()
