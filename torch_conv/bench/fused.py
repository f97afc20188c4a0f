"""Fused pipelines against the chains that they replace, on this machine; benchmarks/README.md states the rules.

The share of the copy is the share of the byte floor: one read of the image and one write of all results at the
rate of the copy.

torch-conv bench fused [--device cuda] [--rows 'gaussian_sobel*'] [--rounds 7] [--json FILE] [--list]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import torch_conv
from torch_conv import kernels
from torch_conv.bench.chains import Engine, by_conv, by_ours, by_slices, rounded_to
from torch_conv.bench.common import SHORT, TOLERANCE, Candidate, Row, cube, extent, square
from torch_conv.bench.families import Family
from torch_conv.bench.pipelines import (
    Job,
    difference,
    downsample,
    gaussian_sobel,
    gradient,
    gradient_magnitude3d,
    laplace,
    reference,
    sobel,
    structure_tensor,
    thin_edges,
    unsharp,
)
from torch_conv.bench.rivals import (
    compiled,
    conv_candidates,
    cudnn,
    cupyx_candidate,
    images,
    kornia_candidate,
    opencv_candidate,
    scipy_candidate,
)

BUDGET_S = 100.0  # after it rows have no rivals; the whole run stays below 120 s on an H200
PHOTOS = (16, 3, 1080, 1920)
V3 = "gaussian_sobel 3x3 l1 constant"  # the pipeline of the textbook's fused kernel


def row(
    device: str,
    job: Job,
    shape: tuple[int, ...],
    dtype: torch.dtype = torch.float32,
    out: torch.dtype | None = None,
    rivals: str = "",
    resident: bool = False,
    series: bool = False,
) -> Row:
    """A pipeline on images. `rivals` lists conv, TF32, heuristics, compile, compile-conv, ndimage, opencv, kornia.

    Our unfused chains are always candidates, and so is the textbook's kernel for its pipeline.
    """
    to = out or dtype
    ours = partial(job.ours, output_dtype=out) if out else job.ours
    planes = partial(images, spatial=job.spatial)
    conv_name, wanted = f"F.conv{job.spatial}d", rivals.split()

    def chain(x: Tensor, engine: Engine) -> Tensor:
        return rounded_to(to, job.chain(x if dtype.is_floating_point else x.float(), engine))

    def own() -> list[Candidate]:
        if job.step > 1:

            def every_second(x: Tensor) -> Tensor:
                blur = partial(torch_conv.gaussian_blur2d, kernel_size=2 * job.halo + 1)
                return blur(x, sigma=kernels.default_sigma(2 * job.halo + 1))[..., ::2, ::2].contiguous()

            return [Candidate("torch_conv + torch", every_second, own=True)]
        apart = Candidate("torch_conv separable", partial(ours, algorithm="separable"), own=True, planned=True)
        return [apart, Candidate("torch_conv + torch", partial(chain, engine=by_ours), prepare=planes, own=True)]

    def listed() -> list[Candidate]:
        found = own()
        by_cudnn = partial(chain, engine=by_conv)
        if device == "cuda" and job.name == V3 and dtype == torch.float32:
            window = kernels.gaussian2d(3)
            rung = partial(torch.ops.torch_conv.ladder2d, kernel=window, variant="fused", block=(16, 16))
            found.append(Candidate("textbook V3", rung))
        if "conv" in wanted:
            found += conv_candidates(conv_name, device, dtype, by_cudnn, planes, "TF32" in wanted)
        if "heuristics" in wanted:
            found.append(Candidate(f"{conv_name} heuristics", by_cudnn, planes, context=cudnn(False, benchmark=False)))
        if "compile" in wanted:
            found.append(compiled(partial(chain, engine=by_slices), prepare=planes))
        if "compile-conv" in wanted:
            found.append(compiled(by_cudnn, planes, f"torch.compile {conv_name}"))
        if "kornia" in wanted and job.kornia:
            found += kornia_candidate(job.kornia)
        if "ndimage" in wanted and job.ndimage:
            found += array_candidates(device, job)
        if "opencv" in wanted and job.opencv:
            found += opencv_candidate(job.opencv)
        return found

    largest = 1.0 if dtype.is_floating_point else 255.0
    types = SHORT[dtype] + (f" to {SHORT[out]}" if out else "")
    return Row(
        name=f"{job.name} {types} {extent(shape)}",
        device=device,
        shape=shape,
        dtype=dtype,
        ours=ours,
        rivals=listed,
        reference=partial(reference, job),
        border=job.border,
        halo=job.halo,
        taps=job.taps,
        tolerance=TOLERANCE[to] * (job.scale * largest if to.is_floating_point else 1.0),
        spatial=job.spatial,
        resident=resident,
        traffic=0.5 + 0.5 * job.outputs / job.step**job.spatial * to.itemsize / dtype.itemsize,
        series=job.name if series else "",
        out_dtype=to,
        step=job.step,
        chained=True,
        ties=job.ties,
        count=bool(rivals),
    )


def array_candidates(device: str, job: Job) -> list[Candidate]:
    """cupyx's ndimage on a GPU, SciPy's on a CPU: the same calls."""
    make = job.ndimage
    assert make is not None
    if device == "cuda":
        return cupyx_candidate(make, job.spatial)

    def run(ndimage: Any) -> Callable[[Any], Any]:
        import numpy

        return make(numpy, ndimage)

    return scipy_candidate(run, job.spatial)


# ---- the table -------------------------------------------------------------------------------------------------------


def rows(device: str) -> list[Row]:
    double, plain = gaussian_sobel(3), gaussian_sobel(3, "l1", "constant")
    edges, first, second = sobel(), gradient(1), gradient(2)
    laplacian, details, sharp = laplace(1.0), difference(1.0), unsharp(9)
    tensor, thin, half_size = structure_tensor(5), thin_edges(5), downsample(5)
    kinds = [double, edges, first, second, laplacian, details, sharp, tensor, thin, half_size]
    more = [plain, gaussian_sobel(5), gaussian_sobel(7), difference(0.6), unsharp(5)]
    more += [structure_tensor(3), structure_tensor(7)]
    if device == "cpu":
        every = "conv ndimage opencv kornia"
        return [
            *(row("cpu", job, square(2048), rivals=every) for job in kinds + more),
            row("cpu", double, square(2048), torch.uint8, rivals="conv"),
            row("cpu", double, square(512), rivals=every),
            row("cpu", gradient_magnitude3d(3), cube(128), rivals=every),
        ]
    cuda = partial(row, "cuda")
    more += [gaussian_sobel(5, "l1"), gaussian_sobel(7, "l1")]
    all_of_it = "conv TF32 heuristics ndimage kornia"
    few = (double, edges, first, tensor)
    half, byte, floats = torch.float16, torch.uint8, torch.float32
    return [
        cuda(double, square(4096), rivals=all_of_it + " compile compile-conv", series=True),
        *(cuda(job, square(4096), rivals=all_of_it + " compile", series=True) for job in kinds[1:]),  # takes seconds
        *(cuda(job, square(4096), rivals=all_of_it, series=True) for job in more),
        *(cuda(gradient_magnitude3d(k), cube(256), rivals="conv TF32 ndimage" + " compile" * (k == 3)) for k in (3, 7)),
        *(cuda(gradient_magnitude3d(k), cube(512), rivals="conv" * (k == 3)) for k in (3, 7)),
        *(cuda(gradient(1, border), square(4096), rivals="conv") for border in ("reflect", "constant", "circular")),
        *(cuda(job, square(4096), half, rivals="conv") for job in (double, edges, first, sharp, tensor, thin)),
        *(cuda(job, square(4096), byte, rivals="conv") for job in (double, edges, sharp, half_size)),
        *(cuda(job, square(4096), byte, floats, rivals="conv") for job in (double, first)),
        *(cuda(job, PHOTOS, half) for job in (double, edges, first)),
        *(cuda(job, PHOTOS, byte) for job in (double, edges)),
        *(
            cuda(job, shape, rivals="conv" * (job in few), resident=shape == square(512), series=True)
            for shape in (square(512), square(1024), square(2048), square(8192), PHOTOS)
            for job in kinds + more
        ),
    ]


def quick(device: str) -> list[Row]:
    jobs = (gaussian_sobel(3), sobel(), laplace(1.0), structure_tensor(5), downsample(5))
    rivals = "conv ndimage opencv" if device == "cpu" else "conv ndimage"
    return [row(device, job, square(384), rivals=rivals) for job in jobs]


FAMILIES = (Family("fused", rows, quick, budget_s=BUDGET_S),)
