"""3-D filters against torch, cupyx, SciPy and kornia on this machine; benchmarks/README.md states the rules.

torch-conv bench filter3d [--device cuda] [--rows 'gaussian*'] [--rounds 7] [--json FILE] [--list]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import torch_conv
from torch_conv import kernels
from torch_conv.bench.chains import rounded_to
from torch_conv.bench.checks import correlate, correlate_axes
from torch_conv.bench.common import SHORT, Candidate, Row, cube, extent
from torch_conv.bench.families import Family
from torch_conv.bench.rivals import (
    compiled,
    conv_candidates,
    cudnn,
    cupyx_candidate,
    cupyx_correlate,
    images,
    kornia_candidate,
    scipy_candidate,
    shifted_sum,
)

BUDGET_S = 120.0  # the whole run stays below 150 s on an H200
# Sizes that only the figure shows, without rivals.
SIZES = (64, 128, 192, 384, 768, 1024)
BRAIN = (1, 1, 197, 233, 189)  # a head at 1 mm; rows start at any address

volumes = partial(images, spatial=3)


def row_name(op: str, window: int | str, dtype: torch.dtype, shape: tuple[int, ...], border: str = "") -> str:
    sides = window if isinstance(window, str) else f"{window}x{window}x{window}"
    return f"{op} {sides} {SHORT[dtype]} {extent(shape)} {border}".rstrip()


def as_channels_last(x: Tensor) -> Tensor:
    """The memory with the strides of channels_last_3d, which torch does not set for one channel."""
    x = volumes(x)
    d, h, w = x.shape[-3:]
    return x.as_strided(x.shape, (d * h * w, 1, h * w, w, 1))


def conv3d_candidates(device: str, dtype: torch.dtype, call: Callable[[Tensor], Any], tf32: bool) -> list[Candidate]:
    return conv_candidates("F.conv3d", device, dtype, call, volumes, tf32)


def ndimage_candidates(wanted: list[str], function: str, **options: Any) -> list[Candidate]:
    """A function of scipy.ndimage, on the GPU by cupyx and on the CPU by SciPy, where a row wants them."""
    out: list[Candidate] = []
    if "cupyx" in wanted:
        out += cupyx_candidate(lambda cupy, ndimage: partial(getattr(ndimage, function), **options), spatial=3)
    if "scipy" in wanted:
        out += scipy_candidate(lambda ndimage: partial(getattr(ndimage, function), **options), spatial=3)
    return out


# ---- any window ------------------------------------------------------------------------------------------------------


def window_of(k: int | str, dtype: torch.dtype) -> Tensor:
    """The 7-point star, or k x k x k taps without structure."""
    if k == "7-point":
        taps = torch.zeros(3, 3, 3)
        for axis in range(3):
            taps.movedim(axis, 0)[:, 1, 1] = 1.0
    else:
        assert isinstance(k, int)
        taps = torch.randn(k, k, k, generator=torch.Generator().manual_seed(k))
    taps /= taps.abs().sum()
    return taps.abs() if dtype in (torch.uint8, torch.uint16) else taps  # rounding, not clamping, is compared


def dense_row(
    device: str,
    shape: tuple[int, ...],
    k: int | str,
    dtype: torch.dtype = torch.float32,
    border: torch_conv.typing.Border = "constant",
    rivals: str = "",
    resident: bool = False,
    series: str = "",
) -> Row:
    """filter3d with a dense kernel. `rivals` lists conv, TF32, channels_last, compile, cupyx, kornia, scipy."""
    taps = window_of(k, dtype)
    r = taps.shape[0] // 2
    on_device = taps.to(device)
    own = taps if taps.numel() <= 64 else on_device  # a small kernel on the CPU travels with the launch
    floating = dtype.is_floating_point
    weight = on_device[None, None].to(dtype if floating else torch.float32)
    wanted, nested_taps = rivals.split(), taps.tolist()

    def conv(x: Tensor, weight: Tensor) -> Tensor:
        y = x if floating else x.float()
        if border == "constant":
            y = F.conv3d(y, weight, padding=r)
        else:
            y = F.conv3d(F.pad(y, (r,) * 6, mode=border), weight)
        return rounded_to(dtype, y)

    def summed(x: Tensor) -> Tensor:
        return rounded_to(dtype, shifted_sum(x if floating else x.float(), nested_taps, spatial=3))

    def listed() -> list[Candidate]:
        out: list[Candidate] = []
        if "conv" in wanted:
            out += conv3d_candidates(device, dtype, partial(conv, weight=weight), "TF32" in wanted)
        if "channels_last" in wanted:
            each = weight.as_strided(weight.shape, (weight.numel(), 1, *weight.stride()[-3:]))
            call = partial(conv, weight=each)
            out.append(Candidate("F.conv3d channels_last", call, prepare=as_channels_last, context=cudnn(False)))
        if "compile" in wanted:
            out.append(compiled(summed))
        if "kornia" in wanted:
            out += kornia_candidate(lambda filters: lambda x: filters.filter3d(x, on_device[None], border))
        if "cupyx" in wanted:
            out += cupyx_correlate(on_device)
        if "scipy" in wanted:
            window = taps.numpy()
            out += scipy_candidate(lambda nd: partial(nd.correlate, weights=window, mode="constant"), spatial=3)
        return out

    return Row(
        name=row_name("filter3d", k, dtype, shape, "" if border == "constant" else border),
        device=device,
        shape=shape,
        dtype=dtype,
        ours=lambda x: torch_conv.filter3d(x, own, border),
        rivals=listed,
        reference=lambda piece: correlate(piece, taps),
        border=border,
        halo=r,
        taps=int((taps != 0).sum()),
        spatial=3,
        resident=resident,
        series=series,
    )


# ---- Gaussian --------------------------------------------------------------------------------------------------------


def gaussian_row(device: str, shape: tuple[int, ...], k: int, rivals: str = "", series: str = "") -> Row:
    """gaussian_blur3d, the last voxels repeated: torch as three 1-D convolutions."""
    sigma, r = kernels.default_sigma(k), k // 2
    taps = kernels.gaussian1d(k, sigma, dtype=torch.float64)
    own = taps.float().to(device)
    wanted = rivals.split()

    def three_passes(x: Tensor) -> Tensor:
        x = F.pad(x, (r,) * 6, mode="replicate")
        x = F.conv3d(x, own.view(1, 1, 1, 1, k))
        return F.conv3d(F.conv3d(x, own.view(1, 1, 1, k, 1)), own.view(1, 1, k, 1, 1))

    def listed() -> list[Candidate]:
        out: list[Candidate] = []
        if "conv" in wanted:
            out += conv3d_candidates(device, torch.float32, three_passes, "TF32" in wanted)
        return [*out, *ndimage_candidates(wanted, "gaussian_filter", sigma=sigma, mode="nearest", truncate=r / sigma)]

    return Row(
        name=row_name("gaussian", k, torch.float32, shape),
        device=device,
        shape=shape,
        dtype=torch.float32,
        ours=lambda x: torch_conv.gaussian_blur3d(x, k, sigma),
        rivals=listed,
        reference=lambda piece: correlate_axes(piece, taps),
        border="replicate",
        halo=r,
        taps=3 * k,
        spatial=3,
        series=series,
    )


# ---- box -------------------------------------------------------------------------------------------------------------


def box_row(device: str, shape: tuple[int, ...], k: int, rivals: str = "") -> Row:
    """box_blur3d with an odd box, zeros outside."""
    r = k // 2
    wanted = rivals.split()

    def three_passes(x: Tensor) -> Tensor:
        taps = torch.full((k,), 1 / k, dtype=x.dtype, device=x.device)
        x = F.conv3d(x, taps.view(1, 1, 1, 1, k), padding=(0, 0, r))
        x = F.conv3d(x, taps.view(1, 1, 1, k, 1), padding=(0, r, 0))
        return F.conv3d(x, taps.view(1, 1, k, 1, 1), padding=(r, 0, 0))

    def listed() -> list[Candidate]:
        out: list[Candidate] = []
        if "conv" in wanted:
            out += conv3d_candidates(device, torch.float32, three_passes, "TF32" in wanted)
        if "pool" in wanted:
            out.append(Candidate("F.avg_pool3d", lambda x: F.avg_pool3d(x, k, stride=1, padding=r), prepare=volumes))
        if "fft" in wanted:
            size = [-(-(n + k) // 64) * 64 for n in shape[-3:]]
            spectrum = torch.fft.rfftn(torch.full((k, k, k), 1 / k**3, device=device), size)
            inside = tuple(slice(r, r + n) for n in shape[-3:])

            def fft(x: Tensor) -> Tensor:
                return torch.fft.irfftn(torch.fft.rfftn(x, size) * spectrum, size)[(..., *inside)]

            out.append(Candidate("torch.fft", fft))
        return [*out, *ndimage_candidates(wanted, "uniform_filter", size=k, mode="constant")]

    return Row(
        name=row_name("box", k, torch.float32, shape),
        device=device,
        shape=shape,
        dtype=torch.float32,
        ours=lambda x: torch_conv.box_blur3d(x, k, "constant"),
        rivals=listed,
        reference=lambda piece: correlate_axes(piece, torch.full((k,), 1 / k, dtype=torch.float64)),
        border="constant",
        halo=r,
        taps=3,  # two additions a voxel and axis, whatever the size
        spatial=3,
    )


# ---- gradient --------------------------------------------------------------------------------------------------------


def gradient_row(device: str, shape: tuple[int, ...]) -> Row:
    """spatial_gradient3d, central differences along x, y and z; the crops are of the last, z."""
    windows = torch.zeros(3, 1, 3, 3, 3)
    for i, axis in enumerate((-1, -2, -3)):
        windows[i, 0].movedim(axis, 0)[:, 1, 1] = torch.tensor([-0.5, 0.0, 0.5])
    weight = windows.to(device)

    def conv(x: Tensor) -> Tensor:
        return F.conv3d(F.pad(x, (1,) * 6, mode="replicate"), weight)

    def summed(x: Tensor) -> Tensor:
        d, h, w = x.shape[-3:]
        x = F.pad(x, (1,) * 6, mode="replicate")
        zs, ys, xs = slice(1, 1 + d), slice(1, 1 + h), slice(1, 1 + w)
        along_x = x[..., zs, ys, 2:] - x[..., zs, ys, :-2]
        along_y = x[..., zs, 2:, xs] - x[..., zs, :-2, xs]
        along_z = x[..., 2:, ys, xs] - x[..., :-2, ys, xs]
        return 0.5 * torch.stack([along_x, along_y, along_z], dim=-4)

    def listed() -> list[Candidate]:
        out = conv3d_candidates(device, torch.float32, conv, tf32=False)
        out += kornia_candidate(lambda filters: filters.spatial_gradient3d)
        if device == "cuda":
            out.append(compiled(summed))
        return out

    return Row(
        name=row_name("spatial_gradient3d", "diff", torch.float32, shape),
        device=device,
        shape=shape,
        dtype=torch.float32,
        ours=torch_conv.spatial_gradient3d,
        rivals=listed,
        reference=lambda piece: correlate(piece, windows[2, 0]),
        border="replicate",
        halo=1,
        taps=3 * 2,
        spatial=3,
        traffic=2.0,
    )


# ---- the table -------------------------------------------------------------------------------------------------------


def rows(device: str) -> list[Row]:
    if device == "cpu":
        small = cube(128)
        return [
            dense_row("cpu", small, 3, rivals="conv scipy kornia"),
            dense_row("cpu", small, 3, torch.int16, rivals="conv scipy"),
            dense_row("cpu", small, 5, rivals="conv scipy"),
            gaussian_row("cpu", small, 7, rivals="conv scipy"),
            gaussian_row("cpu", small, 15, rivals="conv scipy"),
            box_row("cpu", small, 9, rivals="conv scipy"),
            box_row("cpu", small, 31, rivals="conv scipy"),
            gradient_row("cpu", small),
        ]
    mid, big = cube(256), cube(512)
    half, every = torch.float16, "conv TF32 channels_last compile cupyx"
    dense, gauss = partial(dense_row, "cuda"), partial(gaussian_row, "cuda")
    return [
        dense(mid, 3, rivals=every + " kornia", series="filter3d 3x3x3"),
        dense(big, 3, rivals=every, series="filter3d 3x3x3"),
        dense(mid, "7-point", rivals="conv compile cupyx"),
        dense(big, "7-point", rivals="conv compile cupyx"),
        dense(mid, 3, half, rivals="conv channels_last compile"),
        dense(big, 3, half, rivals="conv channels_last compile"),
        dense(big, 3, torch.int16, rivals="conv compile cupyx"),
        dense(big, 3, torch.uint8, rivals="conv compile"),
        dense(big, 3, torch.uint16, rivals="conv cupyx"),
        dense(mid, 5, rivals="conv TF32 channels_last cupyx"),
        dense(mid, 7, rivals="conv TF32 cupyx"),
        gauss(mid, 7, rivals="conv TF32 cupyx", series="gaussian 7x7x7"),
        gauss(big, 7, rivals="conv cupyx", series="gaussian 7x7x7"),
        gauss(mid, 15, rivals="conv TF32 cupyx"),
        gauss(big, 15, rivals="conv cupyx"),
        *(gauss(BRAIN, k, rivals="conv") for k in (7, 15)),
        box_row("cuda", mid, 9, rivals="conv pool cupyx"),
        box_row("cuda", big, 9, rivals="conv cupyx"),
        box_row("cuda", mid, 31, rivals="conv fft cupyx"),
        box_row("cuda", big, 31, rivals="fft cupyx"),
        gradient_row("cuda", mid),
        gradient_row("cuda", big),
        *(dense((1, 1, 8, 128, 128), k, rivals="conv TF32 cupyx", resident=True) for k in (7, 15)),
        *(dense(big, 3, border=border, rivals="conv") for border in ("replicate", "reflect", "circular")),
        dense(big, 3, border="symmetric"),
        *(dense(cube(n), 3, series="filter3d 3x3x3") for n in SIZES),
        *(gauss(cube(n), 7, series="gaussian 7x7x7") for n in SIZES),
    ]


def quick(device: str) -> list[Row]:
    small = cube(64)
    ndimage = "scipy" if device == "cpu" else "cupyx"
    return [
        dense_row(device, small, 3, rivals=f"conv kornia {ndimage}"),
        dense_row(device, small, 3, torch.int16, rivals=f"conv {ndimage}"),
        gaussian_row(device, small, 7, rivals=f"conv {ndimage}"),
        box_row(device, small, 9, rivals=f"conv {ndimage}"),
    ]


FAMILIES = (Family("filter3d", rows, quick, budget_s=BUDGET_S),)
