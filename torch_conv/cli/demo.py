"""`torch-conv demo`: real photographs through five filters, beside torch and OpenCV doing the same."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_conv
from torch_conv import kernels
from torch_conv.bench.files import check_folder, make_folder
from torch_conv.bench.formatting import ratio
from torch_conv.bench.load import MedianAndRange, Watch, disturbance, median_and_range, within_noise
from torch_conv.bench.sampling import in_turn
from torch_conv.bench.timing import sampler, wait_for_compiler
from torch_conv.bench.usage import needed
from torch_conv.cli._images import device_named, write_image
from torch_conv.cli._pictures import read_picture
from torch_conv.cli._sheet import contact_sheet
from torch_conv_cli import printable

PHOTOS = {"astronaut": "astronaut.png", "retina": "retina.jpg"}  # 512 x 512 and 1411 x 1411, shipped by scikit-image
TABLE_WIDTH = 120
ROUNDS = {"ours": 7, "torch": 3, "cv2": 7}
CHECKED = 96  # side of the corner that is compared with float64

SIGMA, UNSHARP_SIGMA, AMOUNT = 5.0, 2.0, 1.5


@dataclass(frozen=True)
class Job:
    """One filter by torch_conv, torch and OpenCV: uint8 to uint8, border 'reflect'."""

    title: str
    function: Callable[..., Tensor]  # ours: (C, H, W) uint8, then args and kwargs
    in_torch_form: Callable[[Tensor], Tensor]  # (C, 1, H, W) floats, unrounded: also the float64 reference
    in_cv2_form: Callable[[Any, Any], Any]  # (cv2, (H, W, C) array)
    halo: int  # pixels that the kernel reaches
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        return self.title.lower().replace(" ", "_").replace("×", "x")


@dataclass
class Measured:
    """A line of the table; times in seconds."""

    job: Job
    photo: str
    algorithm: str
    ours: MedianAndRange
    torch: MedianAndRange
    cv2: MedianAndRange
    difference: float  # grey levels, against float64
    before: Tensor
    after: Tensor


def two_passes(x: Tensor, taps: Tensor) -> Tensor:
    """F.conv2d with a row and then a column of taps, tap (k - 1) // 2 on the pixel, mirrored borders."""
    k = taps.numel()
    before, after = (k - 1) // 2, k // 2
    x = F.pad(x, (before, after, before, after), mode="reflect")
    taps = taps.to(x)
    return F.conv2d(F.conv2d(x, taps.view(1, 1, 1, k)), taps.view(1, 1, k, 1))


def unsharp_in_torch(x: Tensor) -> Tensor:
    return x + AMOUNT * (x - two_passes(x, kernels.gaussian1d(13, UNSHARP_SIGMA, dtype=torch.float64)))


def unsharp_in_cv2(cv2: Any, x: Any) -> Any:
    blurred = cv2.GaussianBlur(x, (13, 13), UNSHARP_SIGMA, borderType=cv2.BORDER_REFLECT_101)
    return cv2.addWeighted(x, 1 + AMOUNT, blurred, -AMOUNT, 0)


def sobel_in_torch(x: Tensor) -> Tensor:
    windows = torch.stack([kernels.sobel_x(), kernels.sobel_y()]).to(x)[:, None]
    gradient = F.conv2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), windows)
    return (gradient.square().sum(1, keepdim=True) + 1e-6).sqrt()


def sobel_in_cv2(cv2: Any, x: Any) -> Any:
    gx = cv2.Sobel(x, cv2.CV_32F, 1, 0, ksize=3, borderType=cv2.BORDER_REPLICATE)
    gy = cv2.Sobel(x, cv2.CV_32F, 0, 1, ksize=3, borderType=cv2.BORDER_REPLICATE)
    return cv2.convertScaleAbs(cv2.magnitude(gx, gy))


JOBS = [
    Job(
        "Gaussian 31×31",
        torch_conv.gaussian_blur2d,
        lambda x: two_passes(x, kernels.gaussian1d(31, SIGMA, dtype=torch.float64)),
        lambda cv2, x: cv2.GaussianBlur(x, (31, 31), SIGMA, borderType=cv2.BORDER_REFLECT_101),
        halo=15,
        args=(31, SIGMA),
    ),
    Job(
        "Box 200×200",
        torch_conv.box_blur,
        lambda x: two_passes(x, torch.full((200,), 1 / 200, dtype=torch.float64)),
        lambda cv2, x: cv2.blur(x, (200, 200), anchor=(99, 99), borderType=cv2.BORDER_REFLECT_101),
        halo=100,
        args=(200,),
    ),
    Job(
        "Sharpen",
        torch_conv.filter2d,
        lambda x: F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), kernels.sharpen().to(x)[None, None]),
        lambda cv2, x: cv2.filter2D(x, -1, kernels.sharpen().numpy(), borderType=cv2.BORDER_REFLECT_101),
        halo=1,
        args=(kernels.sharpen(),),
    ),
    Job(
        "Unsharp mask",
        torch_conv.unsharp_mask,
        unsharp_in_torch,
        unsharp_in_cv2,
        halo=6,
        args=(13, UNSHARP_SIGMA),
        kwargs={"amount": AMOUNT},
    ),
    Job("Sobel edges", torch_conv.sobel, sobel_in_torch, sobel_in_cv2, halo=1, kwargs={"normalized": False}),
]


def add_parser(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "demo",
        description="Filter the photographs that scikit-image ships with five filters, write the results and one "
        "before/after contact sheet, and print the times beside those of F.conv2d on the same device and of OpenCV "
        "on the CPU.",
    )
    parser.add_argument("--device", metavar="D", help="cpu, cuda or cuda:N (default: the GPU, where there is one)")
    parser.add_argument(
        "--output",
        metavar="FOLDER",
        type=Path,
        default=Path("demo_out"),
        help="pictures of an earlier demo in it are replaced (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    wait_for_compiler()
    progress = needed("rich.progress", "rich")
    skimage, cv2 = needed("skimage", "scikit-image"), needed("cv2", "OpenCV")
    needed("matplotlib", "matplotlib")
    device = device_named(args.device)
    check_folder(args.output)
    cv2.setNumThreads(torch.get_num_threads())
    folder = Path(skimage.__file__).parent / "data"
    make_folder(args.output)
    lines, watch = [], Watch()
    tasks = [(photo, job) for photo in PHOTOS for job in JOBS]
    # F.conv2d at its fastest with float32 sums, as ours.
    exact = torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=False, allow_tf32=False)
    with exact, torch.inference_mode():
        for photo, job in progress.track(tasks, description="filtering", transient=True):
            line = measure(job, photo, read_picture(folder / PHOTOS[photo]), device, cv2)
            write_image(args.output / f"{photo}_{job.file_name}.png", line.after)
            lines.append(line)
    sheet = args.output / "contact_sheet.jpg"
    contact_sheet(sheet, {p: [(n.job.title, n.before, n.after) for n in lines if n.photo == p] for p in PHOTOS})
    print_table(lines, device)
    times = [time for line in lines for time in (line.ours, line.torch, line.cv2)]
    if busy := disturbance(watch.others(), times):
        print(busy)
    print(f"{printable(args.output)} holds {len(lines)} pictures; {printable(sheet)} shows them all, before and after")


def measure(job: Job, photo: str, before: Tensor, device: torch.device, cv2: Any) -> Measured:
    """Filters once, checks a corner against float64, then times the three implementations."""
    image = before.to(device)
    planes = image[:, None]
    array = before.permute(1, 2, 0).contiguous().numpy()

    def ours() -> Tensor:
        return job.function(image, *job.args, **job.kwargs)

    def in_torch() -> Tensor:
        return job.in_torch_form(planes.float()).round().clamp(0, 255).to(torch.uint8)

    samplers = {
        "ours": sampler(ours, device),
        "torch": sampler(in_torch, device, warmup=1),
        "cv2": sampler(lambda: job.in_cv2_form(cv2, array), "cpu"),
    }
    samples = in_turn(samplers, dict.fromkeys(samplers, nullcontext), ROUNDS, longer=1)
    after = ours().cpu()
    side = CHECKED + 2 * job.halo
    corner = job.in_torch_form(before[:, None, :side, :side].double()).round().clamp(0, 255)
    difference = after[:, None, :CHECKED, :CHECKED].double() - corner[..., :CHECKED, :CHECKED]
    return Measured(
        job=job,
        photo=photo,
        algorithm=algorithms(torch_conv.explain(job.function, image, *job.args, **job.kwargs).lines),
        **{name: median_and_range(each) for name, each in samples.items()},
        difference=float(difference.abs().max()),
        before=before,
        after=after,
    )


def algorithms(plan: Sequence[str]) -> str:
    """The algorithms of a plan's lines, "operator: algorithm/variant (why); ...", without the variants if several."""
    names = list(dict.fromkeys(line.split()[1] for line in plan))
    return names[0] if len(names) == 1 else " + ".join(dict.fromkeys(name.split("/")[0] for name in names))


def print_table(lines: list[Measured], device: torch.device) -> None:
    console = needed("rich.console", "rich").Console()
    if console.width < TABLE_WIDTH:  # on a narrower terminal rich would cut numbers
        console = needed("rich.console", "rich").Console(width=TABLE_WIDTH)
    threads = f"{torch.get_num_threads()} threads"
    here = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {threads}"
    table = needed("rich.table", "rich").Table(
        title=f"8-bit photographs; torch_conv and F.conv2d on {here}; OpenCV on the CPU, {threads}",
        caption='speed-up: their time over torch_conv\'s, "noise" where the times vary more than they differ\n'
        "difference: grey levels between torch_conv and float64 rounded once, on a corner of the picture",
        box=needed("rich.box", "rich").SIMPLE_HEAD,
    )
    for heading in ("filter", "algorithm"):
        table.add_column(heading, no_wrap=True)
    for heading in ("torch_conv", "F.conv2d", "speed-up", "OpenCV", "speed-up", "difference"):
        table.add_column(heading, justify="right", no_wrap=True)
    for photo in dict.fromkeys(n.photo for n in lines):
        own = [n for n in lines if n.photo == photo]
        height, width = own[0].before.shape[-2:]
        table.add_row(f"[bold]{photo}[/bold], {width} × {height}")
        for n in own:
            others = (text for time in (n.torch, n.cv2) for text in (pretty(time[0]), speedup(time, n.ours)))
            table.add_row(n.job.title, n.algorithm, pretty(n.ours[0]), *others, f"{n.difference:.0f}")
        table.add_section()
    console.print(table)


def speedup(theirs: MedianAndRange, ours: MedianAndRange) -> str:
    return "noise" if within_noise(theirs, ours) else f"{ratio(theirs[0] / ours[0])} ×"


def pretty(seconds: float) -> str:
    for unit, scale in (("s", 1), ("ms", 1e3)):
        if seconds * scale >= 0.9995:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
