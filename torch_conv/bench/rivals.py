"""The rivals at their best: convolutions by cuDNN, compiled sums, and the libraries that are installed here."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_conv.bench.common import Candidate

# One kernel is compiled at a time, so a pool of compiler processes would only cost time.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
COMPILE_LIMIT_S = 20.0
torch._dynamo.config.recompile_limit = 64  # a function is compiled for every row

Make = Callable[[Any], Callable[[Any], Any]]


def images(x: Tensor, spatial: int) -> Tensor:
    """Leading dimensions as (N * C, 1), because one kernel for all is a single-channel convolution."""
    return x.reshape(-1, 1, *x.shape[-spatial:])


def cudnn(tf32: bool, benchmark: bool = True) -> Callable[[], Any]:
    return partial(torch.backends.cudnn.flags, enabled=True, benchmark=benchmark, deterministic=False, allow_tf32=tf32)


def conv_candidates(
    name: str,
    device: str,
    dtype: torch.dtype,
    call: Callable[[Tensor], Any],
    prepare: Callable[[Tensor], Any],
    tf32: bool = True,
) -> list[Candidate]:
    """`call` with TF32 off, and for float32 on CUDA also with TF32 on."""
    both = tf32 and device == "cuda" and dtype == torch.float32
    return [
        Candidate(name + " TF32" * on, call, prepare=prepare, context=cudnn(on))
        for on in ((False, True) if both else (False,))
    ]


def compiled(
    call: Callable[[Tensor], Tensor], prepare: Callable[[Tensor], Any] = lambda x: x, name: str = "torch.compile"
) -> Candidate:
    """`call` through torch.compile for these very sizes; left out where that takes too long."""
    return Candidate(name, torch.compile(call, dynamic=False), prepare=prepare, limit_s=COMPILE_LIMIT_S)


def shifted_sum(x: Tensor, window: Sequence[Any], spatial: int) -> Tensor:
    """A correlation with zeros outside as a sum of shifted slices, which torch.compile turns into one kernel.

    The kernel is nested lists of numbers, or of tensors that broadcast against the image, odd in every axis.
    """
    sizes = []
    level: Any = window
    for _ in range(spatial):
        sizes.append(len(level))
        level = level[0]
    shape = x.shape[-spatial:]
    padded = F.pad(x.float(), [k // 2 for k in reversed(sizes) for _ in range(2)])
    total = None
    for tap in itertools.product(*map(range, sizes)):
        weight: Any = window
        for i in tap:
            weight = weight[i]
        if isinstance(weight, float) and weight == 0:
            continue
        where: Any = (..., *(slice(i, i + n) for i, n in zip(tap, shape, strict=True)))
        term = weight * padded[where]
        total = term if total is None else total + term
    assert total is not None
    return total.to(x.dtype)


def tensors(convert: Callable[[Any], Tensor], y: Any) -> Tensor:
    """Another library's array as a tensor; several as one, along a dimension before the image's."""
    return torch.stack([convert(part) for part in y]) if isinstance(y, tuple) else convert(y)


def by_fft(window: Tensor, image: Sequence[int]) -> Callable[[Tensor], Tensor]:
    """The correlation of images (..., H, W) with a kernel, zeros outside, by one torch.fft of the whole image.

    The kernel is transformed once, here. Tap (k - 1) // 2 lies on the pixel.
    """
    size = [fft_length(n + k - 1) for n, k in zip(image, window.shape, strict=True)]
    spectrum = torch.fft.rfft2(window.flip(0, 1), size)
    kept = (..., *(slice(k // 2, k // 2 + n) for n, k in zip(image, window.shape, strict=True)))

    def run(x: Tensor) -> Tensor:
        return torch.fft.irfft2(torch.fft.rfft2(x, size) * spectrum, size)[kept]

    return run


def fft_length(least: int) -> int:
    """The next multiple of 8 without a prime factor above 7, for which FFT libraries are fast."""
    length = -(-least // 8) * 8
    while True:
        rest = length
        for prime in (2, 3, 5, 7):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return length
        length += 8


def absent(name: str, error: ImportError) -> Candidate:
    """A rival that is not installed: left out of the row, and named."""
    why = f"not installed: {error}"

    def refuse(_: Any) -> Any:
        raise ImportError(why)

    return Candidate(name, refuse, prepare=refuse)


def cupyx_candidate(
    make: Callable[[Any, Any], Callable[[Any], Any]], spatial: int, name: str = "cupyx"
) -> list[Candidate]:
    """`make(cupy, cupyx.scipy.ndimage)` on torch's stream, where cupy is installed; it cannot be captured."""
    try:
        import cupy
        from cupyx.scipy import ndimage
    except ImportError as error:
        return [absent(name, error)]
    call = make(cupy, ndimage)

    def run(x: Any) -> Any:
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            return call(x)

    def prepare(x: Tensor) -> Any:
        return cupy.from_dlpack(x.view(x.shape[-spatial:]))

    return [Candidate(name, run, prepare=prepare, result=partial(tensors, torch.from_dlpack), graph=False)]


def cupyx_correlate(weights: Tensor) -> list[Candidate]:
    """cupyx's correlation with a kernel on the GPU, zeros outside."""
    return cupyx_candidate(
        lambda cupy, ndimage: partial(ndimage.correlate, weights=cupy.from_dlpack(weights), mode="constant"),
        weights.dim(),
    )


def opencv_candidate(make: Make, photo: bool = False) -> list[Candidate]:
    """`make(cv2)` on as many threads as torch has, where OpenCV is installed; of a plane, or of a photo (H, W, C)."""
    try:
        import cv2
    except ImportError as error:
        return [absent("OpenCV", error)]
    cv2.setNumThreads(torch.get_num_threads())
    if photo:
        hwc = lambda x: x[0].permute(1, 2, 0).numpy()  # noqa: E731
        return [Candidate("OpenCV", make(cv2), hwc, result=lambda y: torch.from_numpy(y).permute(2, 0, 1))]
    return [
        Candidate("OpenCV", make(cv2), prepare=lambda x: x[0, 0].numpy(), result=partial(tensors, torch.from_numpy))
    ]


def scipy_candidate(make: Make, spatial: int) -> list[Candidate]:
    """`make(scipy.ndimage)`, which has one thread, where SciPy is installed."""
    try:
        from scipy import ndimage
    except ImportError as error:
        return [absent("scipy", error)]
    prepare = lambda x: x.view(x.shape[-spatial:]).numpy()  # noqa: E731
    return [Candidate("scipy", make(ndimage), prepare=prepare, result=partial(tensors, torch.from_numpy))]


def kornia_candidate(make: Make) -> list[Candidate]:
    """`make(kornia.filters)`, its convolutions with TF32 off, where kornia is installed."""
    try:
        import kornia.filters
    except ImportError as error:
        return [absent("kornia", error)]
    return [Candidate("kornia", make(kornia.filters), context=cudnn(False))]
