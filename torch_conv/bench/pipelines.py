"""The pipelines of fused.py: our call, the chain that it replaces, and the calls of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

import torch_conv
from torch_conv import kernels
from torch_conv.bench.chains import Engine, Windows, by_conv, magnitude
from torch_conv.reference.pipelines import suppress
from torch_conv.typing import Border, Magnitude

# (numpy or cupy, its ndimage) -> a function of an array; several results are a tuple.
NdimageMake = Callable[[Any, Any], Callable[[Any], Any]]
MakeOne = Callable[[Any], Callable[[Any], Any]]  # of OpenCV or kornia.filters


@dataclass(frozen=True)
class Job:
    """One pipeline."""

    name: str
    ours: Callable[..., Tensor]  # (image, algorithm=, output_dtype=)
    chain: Callable[[Tensor, Engine], Tensor]  # (N, 1, ...) -> (N, outputs, ...), unrounded
    halo: int  # footprint of the chain on each side, in pixels
    taps: int  # multiply-adds a pixel, without taps of 0
    border: str
    outputs: int = 1
    step: int = 1
    scale: float = 1.0  # the largest result of an image in [0, 1]
    ties: int = 0
    spatial: int = 2
    ndimage: NdimageMake | None = None
    opencv: MakeOne | None = None
    kornia: MakeOne | None = None


def pair(y: Tensor, x: Tensor) -> list[Tensor]:
    """A separable kernel's taps in float64, in the order of the axes."""
    return [y.double(), x.double()]


def gaussian(k: int, sigma: float, spatial: int = 2) -> Windows:
    return Windows([kernels.gaussian1d(k, sigma, dtype=torch.float64)] * spatial)


SLOPE, SMOOTH, CURVE = torch.tensor([-1.0, 0, 1]), torch.tensor([1.0, 2, 1]), torch.tensor([1.0, -2, 1])
SOBEL = Windows(pair(SMOOTH, SLOPE), pair(SLOPE, SMOOTH))
NORMALIZED = Windows(pair(SMOOTH, SLOPE / 8), pair(SLOPE, SMOOTH / 8))


def five(one: Tensor, other: Tensor) -> Tensor:
    """The convolution of two rows of 3 taps."""
    return torch.nn.functional.conv1d(one[None, None], other.flip(0)[None, None], padding=2)[0, 0]


# kornia's second Sobel windows are 5 x 5: xx, xy, yy, divided by 64.
SECOND = Windows(
    pair(five(SMOOTH, SMOOTH), five(SLOPE, SLOPE) / 64),
    pair(five(SMOOTH, SLOPE), five(SMOOTH, SLOPE) / 64),
    pair(five(SLOPE, SLOPE), five(SMOOTH, SMOOTH) / 64),
)
CV_BORDER = {"reflect": "BORDER_REFLECT_101", "replicate": "BORDER_REPLICATE", "constant": "BORDER_CONSTANT"}
ND_BORDER = {"reflect": "mirror", "replicate": "nearest", "constant": "constant", "circular": "wrap"}


def sobels(nd: Any, x: Any, border: str) -> tuple[Any, Any]:
    return nd.sobel(x, axis=1, mode=ND_BORDER[border]), nd.sobel(x, axis=0, mode=ND_BORDER[border])


def cv_sobels(cv2: Any, x: Any, border: str, scale: float = 1.0) -> tuple[Any, Any]:
    options = {"ksize": 3, "scale": scale, "borderType": getattr(cv2, CV_BORDER[border])}
    return cv2.Sobel(x, cv2.CV_32F, 1, 0, **options), cv2.Sobel(x, cv2.CV_32F, 0, 1, **options)


def smooth_by(nd: Any, x: Any, k: int, sigma: float, border: str) -> Any:
    return nd.gaussian_filter(x, sigma, mode=ND_BORDER[border], truncate=k // 2 / sigma)


def cv_smooth(cv2: Any, x: Any, k: int, sigma: float, border: str) -> Any:
    return cv2.GaussianBlur(x, (k, k), sigma, borderType=getattr(cv2, CV_BORDER[border]))


# ---- one stage -------------------------------------------------------------------------------------------------------


def sobel() -> Job:
    def by_ndimage(xp: Any, nd: Any) -> Callable[[Any], Any]:
        def call(x: Any) -> Any:
            gx, gy = sobels(nd, x, "replicate")
            return xp.hypot(gx, gy) / 8

        return call

    return Job(
        "sobel",
        torch_conv.sobel,
        lambda x, engine: magnitude(engine(x, NORMALIZED, "replicate"), 1e-6),
        1,
        NORMALIZED.count,
        "replicate",
        ndimage=by_ndimage,
        opencv=lambda cv2: lambda x: cv2.magnitude(*cv_sobels(cv2, x, "replicate", 1 / 8)),
        kornia=lambda filters: filters.sobel,
    )


def gradient(order: int, border: Border = "replicate") -> Job:
    windows = NORMALIZED if order == 1 else SECOND
    first = order == 1 and border != "circular"
    name = f"spatial_gradient order {order}" + (f" {border}" if border != "replicate" else "")
    return Job(
        name,
        partial(torch_conv.spatial_gradient, order=order, border_type=border),
        lambda x, engine: torch.cat(engine(x, windows, border), 1),
        windows.size // 2,
        windows.count,
        border,
        outputs=order + 1,
        ndimage=(lambda xp, nd: lambda x: tuple(g / 8 for g in sobels(nd, x, border))) if first else None,
        opencv=(lambda cv2: lambda x: cv_sobels(cv2, x, border, 1 / 8)) if first else None,
        kornia=(lambda filters: partial(filters.spatial_gradient, order=order)) if border == "replicate" else None,
    )


def laplace(sigma: float) -> Job:
    r = int(4 * sigma + 0.5)
    taps, x = kernels.gaussian1d(2 * r + 1, sigma, dtype=torch.float64), torch.arange(-r, r + 1.0)
    curve = (x.square() / sigma**2 - 1) / sigma**2 * taps
    windows = Windows(pair(curve, taps), pair(taps, curve))
    return Job(
        f"gaussian_laplace sigma {sigma:g}",
        lambda x, **options: torch_conv.gaussian_laplace(x, sigma, **options),
        lambda x, engine: torch.add(*engine(x, windows, "reflect")),
        r,
        windows.count,
        "reflect",
        scale=4.0 / sigma**2,
        ndimage=lambda xp, nd: lambda x: nd.gaussian_laplace(x, sigma, mode="mirror", truncate=4.0),
    )


def difference(sigma: float) -> Job:
    low, high = 2 * int(4 * sigma + 0.5) + 1, 2 * int(4 * 1.6 * sigma + 0.5) + 1
    narrow, wide = gaussian(low, sigma), gaussian(high, 1.6 * sigma)

    def by_ndimage(xp: Any, nd: Any) -> Callable[[Any], Any]:
        return lambda x: smooth_by(nd, x, low, sigma, "reflect") - smooth_by(nd, x, high, 1.6 * sigma, "reflect")

    def by_opencv(cv2: Any) -> Callable[[Any], Any]:
        def call(x: Any) -> Any:
            wide = cv_smooth(cv2, x, high, 1.6 * sigma, "reflect")
            return cv2.subtract(cv_smooth(cv2, x, low, sigma, "reflect"), wide)

        return call

    return Job(
        f"difference_of_gaussians sigma {sigma:g}",
        lambda x, **options: torch_conv.difference_of_gaussians(x, sigma, **options),
        lambda x, engine: engine(x, narrow, "reflect")[0] - engine(x, wide, "reflect")[0],
        high // 2,
        narrow.count + wide.count,
        "reflect",
        ndimage=by_ndimage,
        opencv=by_opencv,
    )


def unsharp(k: int, amount: float = 1.5) -> Job:
    sigma = kernels.default_sigma(k)
    blur = gaussian(k, sigma)

    def by_opencv(cv2: Any) -> Callable[[Any], Any]:
        return lambda x: cv2.addWeighted(x, 1 + amount, cv_smooth(cv2, x, k, sigma, "reflect"), -amount, 0)

    return Job(
        f"unsharp_mask {k}x{k}",
        lambda x, **options: torch_conv.unsharp_mask(x, k, sigma, amount=amount, **options),
        lambda x, engine: torch.lerp(x, engine(x, blur, "reflect")[0], -amount),
        k // 2,
        blur.count + 1,
        "reflect",
        scale=1 + 2 * amount,
        ndimage=lambda xp, nd: lambda x: x + amount * (x - smooth_by(nd, x, k, sigma, "reflect")),
        opencv=by_opencv,
    )


def downsample(k: int) -> Job:
    sigma = kernels.default_sigma(k)
    taps = kernels.gaussian1d(k, sigma, dtype=torch.float64)
    blur = Windows([taps, taps], step=2)
    return Job(
        f"gaussian_downsample {k}x{k}",
        lambda x, **options: torch_conv.gaussian_downsample(x, k, sigma, **options),
        lambda x, engine: engine(x, blur, "reflect")[0],
        k // 2,
        k // 2 + k // 4,  # every second row of sums, every fourth pixel
        "reflect",
        step=2,
        ndimage=lambda xp, nd: lambda x: xp.ascontiguousarray(smooth_by(nd, x, k, sigma, "reflect")[::2, ::2]),
        opencv=lambda cv2: cv2.pyrDown,  # the same pipeline with the taps 1 4 6 4 1
    )


# ---- several stages --------------------------------------------------------------------------------------------------


def gaussian_sobel(k: int, norm: Magnitude = "l2", border: Border = "reflect") -> Job:
    sigma = kernels.default_sigma(k)
    blur = gaussian(k, sigma)

    def chain(x: Tensor, engine: Engine) -> Tensor:
        gx, gy = engine(engine(x, blur, border)[0], SOBEL, border)
        return magnitude((gx, gy)) if norm == "l2" else gx.abs() + gy.abs()

    def by_ndimage(xp: Any, nd: Any) -> Callable[[Any], Any]:
        def call(x: Any) -> Any:
            gx, gy = sobels(nd, smooth_by(nd, x, k, sigma, border), border)
            return xp.hypot(gx, gy) if norm == "l2" else xp.abs(gx) + xp.abs(gy)

        return call

    def by_opencv(cv2: Any) -> Callable[[Any], Any]:
        def call(x: Any) -> Any:
            gx, gy = cv_sobels(cv2, cv_smooth(cv2, x, k, sigma, border), border)
            return cv2.magnitude(gx, gy) if norm == "l2" else cv2.add(cv2.absdiff(gx, 0), cv2.absdiff(gy, 0))

        return call

    return Job(
        f"gaussian_sobel {k}x{k} {norm}" + (f" {border}" if border != "reflect" else ""),
        lambda x, **options: torch_conv.gaussian_sobel(x, k, sigma, border, magnitude=norm, **options),
        chain,
        k // 2 + 1,
        blur.count + SOBEL.count,
        border,
        scale=8.0,
        ndimage=by_ndimage,
        opencv=by_opencv,
    )


def structure_tensor(k: int) -> Job:
    sigma = kernels.default_sigma(k)
    blur = gaussian(k, sigma)

    def chain(x: Tensor, engine: Engine) -> Tensor:
        gx, gy = engine(x, NORMALIZED, "reflect")
        return torch.cat([engine(product, blur, "reflect")[0] for product in (gx * gx, gx * gy, gy * gy)], 1)

    def by_ndimage(xp: Any, nd: Any) -> Callable[[Any], Any]:
        def call(x: Any) -> Any:
            gx, gy = (g / 8 for g in sobels(nd, x, "reflect"))
            return tuple(smooth_by(nd, product, k, sigma, "reflect") for product in (gx * gx, gx * gy, gy * gy))

        return call

    def by_opencv(cv2: Any) -> Callable[[Any], Any]:
        def call(x: Any) -> Any:
            gx, gy = cv_sobels(cv2, x, "reflect", 1 / 8)
            products = (cv2.multiply(gx, gx), cv2.multiply(gx, gy), cv2.multiply(gy, gy))
            return tuple(cv_smooth(cv2, product, k, sigma, "reflect") for product in products)

        return call

    return Job(
        f"structure_tensor {k}x{k}",
        lambda x, **options: torch_conv.structure_tensor(x, k, sigma, **options),
        chain,
        k // 2 + 1,
        NORMALIZED.count + 3 * blur.count,
        "reflect",
        outputs=3,
        ndimage=by_ndimage,
        opencv=by_opencv,
    )


def thin_edges(k: int) -> Job:
    sigma = kernels.default_sigma(k)
    blur = gaussian(k, sigma)

    def chain(x: Tensor, engine: Engine) -> Tensor:
        gx, gy = engine(engine(x, blur, "reflect")[0], SOBEL, "reflect")
        return suppress(torch.hypot(gx, gy), gx, gy)

    return Job(
        f"thin_edges {k}x{k}",
        lambda x, **options: torch_conv.thin_edges(x, k, sigma, **options),
        chain,
        k // 2 + 2,
        blur.count + SOBEL.count,
        "reflect",
        scale=8.0,
        ties=4,
    )


def gradient_magnitude3d(k: int) -> Job:
    sigma = kernels.default_sigma(k)
    blur = gaussian(k, sigma, 3)
    one, half = torch.tensor([0.0, 1, 0]).double(), (SLOPE / 2).double()
    slopes = Windows([one, one, half], [one, half, one], [half, one, one])

    def by_ndimage(xp: Any, nd: Any) -> Callable[[Any], Any]:
        def call(x: Any) -> Any:
            smooth = smooth_by(nd, x, k, sigma, "replicate")
            taps = xp.asarray([-0.5, 0.0, 0.5], dtype=xp.float32)
            parts = [nd.correlate1d(smooth, taps, axis=axis, mode="nearest") for axis in range(3)]
            return xp.sqrt(parts[0] * parts[0] + parts[1] * parts[1] + parts[2] * parts[2])

        return call

    return Job(
        f"gaussian_gradient_magnitude3d {k}x{k}x{k}",
        lambda x, **options: torch_conv.gaussian_gradient_magnitude3d(x, k, sigma, **options),
        lambda x, engine: magnitude(engine(engine(x, blur, "replicate")[0], slopes, "replicate")),
        k // 2 + 1,
        blur.count + 6,
        "replicate",
        spatial=3,
        ndimage=by_ndimage,
    )


def reference(job: Job, piece: Tensor) -> Tensor:
    """The chain in float64 on a piece of an image, for `checks.crops`."""
    values = job.chain(piece[None, None].double(), by_conv)[0]
    return values if job.outputs > 1 else values[0]
