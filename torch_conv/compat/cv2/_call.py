"""OpenCV's constants, and one call of a filter: arguments in the library's order, results in OpenCV's.

OpenCV's sizes and anchors are (width, height) and (x, y).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import _C, Tensor

from torch_conv import functional
from torch_conv.compat.cv2 import _arguments, _float64
from torch_conv.compat.cv2._arguments import is_array, is_odd, is_scalar, tensor
from torch_conv.dispatch.formats import in_order_of
from torch_conv.functional._composites import overlap
from torch_conv.functional._kernel_cache import is_plain
from torch_conv.functional.filters import filter2d

BORDER_CONSTANT = 0
BORDER_REPLICATE = 1
BORDER_REFLECT = 2
BORDER_WRAP = 3
BORDER_REFLECT_101 = 4
BORDER_REFLECT101 = BORDER_REFLECT_101
BORDER_DEFAULT = BORDER_REFLECT_101
BORDER_TRANSPARENT = 5
BORDER_ISOLATED = 16

CV_8U = 0
CV_16U = 2
CV_16S = 3
CV_32F = 5
CV_64F = 6

FILTER_SCHARR = -1

ALGO_HINT_DEFAULT = 0
ALGO_HINT_ACCURATE = 1
ALGO_HINT_APPROX = 2

_DTYPES = {CV_8U: torch.uint8, CV_16U: torch.uint16, CV_16S: torch.int16, CV_32F: torch.float32, CV_64F: torch.float64}
_NAMES = {dtype: str(dtype).removeprefix("torch.") for dtype in _DTYPES.values()}
_DEPTH_NAMES = {CV_8U: "CV_8U", CV_16U: "CV_16U", CV_16S: "CV_16S", CV_32F: "CV_32F", CV_64F: "CV_64F"}
_TAKEN = "uint8, uint16, int16, float32 or float64"

_BORDERS = {
    BORDER_CONSTANT: "constant",
    BORDER_REPLICATE: "replicate",
    BORDER_REFLECT: "symmetric",
    BORDER_REFLECT_101: "reflect",
}

BAND = 2**17  # pixels: of float64 a megabyte
# The depths of results that OpenCV has for an image's dtype.
Depths = dict[torch.dtype, tuple[int, ...]]
OF_FILTER2D: Depths = {
    torch.uint8: (CV_8U, CV_16U, CV_16S, CV_32F, CV_64F),
    torch.uint16: (CV_16U, CV_32F, CV_64F),
    torch.int16: (CV_16S, CV_32F, CV_64F),
    torch.float32: (CV_32F,),
    torch.float64: (CV_64F,),
}
OF_BOX: Depths = {dtype: tuple(_DTYPES) for dtype in _DTYPES.values()}
OF_PASSES: Depths = {**OF_BOX, torch.float64: (CV_8U, CV_16U, CV_16S, CV_64F)}


class Call:
    """One call: the image as the library reads it, the dtypes of sums and of the result, and its destination.

    Sums are in float64 where the image or the result is, as OpenCV's.
    """

    def __init__(
        self,
        name: str,
        src: Any,
        dst: Any,
        borderType: int,
        ddepth: int = -1,
        depths: Depths = OF_BOX,
        *,
        wrapping: tuple[torch.dtype, ...] = (),
    ) -> None:
        self.name = name
        image = tensor(name, "src", src)
        self.is_array = image is not src
        dtype, dims = image.dtype, image.dim()
        if dtype not in depths:
            raise TypeError(f"{name}: src must be {_TAKEN}, got {str(dtype).removeprefix('torch.')}")
        if dims not in (2, 3) or image.numel() == 0:
            raise ValueError(f"{name}: src must be (H, W) or (H, W, C) and not empty, got {tuple(image.shape)}")
        self.dtype = self._result_dtype(dtype, self.whole("ddepth", ddepth), depths)
        self.border = self._border(self.whole("borderType", borderType, BORDER_DEFAULT), dtype in wrapping)
        self.image = image if dims == 2 else _planes(image)
        self.dst, self.target = dst, None if dst is None else self._target(dst, image)
        self.sums = torch.float64 if torch.float64 in (dtype, self.dtype) else torch.float32
        self.is_plain = type(image) is Tensor and is_plain()
        self.into_float64 = self.is_plain and self.dtype == torch.float64 and image.is_cpu

    def run(self, filter: Callable[..., Tensor], *args: Any, rows: int, delta: float = 0.0, **options: Any) -> Any:
        """`filter` with a kernel of `rows` rows, plus `delta`, rounded once, as the caller's kind of image.

        Refusals have the name that was called.
        """
        target, options["border_type"] = self.target, self.border
        wants_gradient = torch.is_grad_enabled() and _C._any_requires_grad(self.image, target, *args)
        if target is not None and wants_gradient:
            raise ValueError(
                f"{self.name}: dst does not support gradients, but an argument requires one; call it under "
                "torch.no_grad() or without dst"
            )
        whole, out = self.dst, target
        if target is None or overlap(self.image, target):  # OpenCV filters in place; the operators do not
            makes_out = self.is_array or self.into_float64 or self._wants_bands(rows, delta)
            whole, out = self._fresh() if makes_out and self.is_plain and not wants_gradient else (None, None)
        try:
            if self.into_float64 and out is not None and _float64.filtered(filter, self.image, args, out, **options):
                result = out.add_(delta) if delta != 0 else out
            else:
                result = self._fill(out, filter, *args, rows=rows, delta=delta, **options)
        except (RuntimeError, TypeError, ValueError) as error:
            function, _, sentence = str(error).partition(": ")
            if function not in functional.__all__:
                raise
            raise type(error)(f"{self.name}: {sentence}") from None
        if target is not None:
            if result is not target:
                target.copy_(result)
            return self.dst
        if whole is not None:
            return whole
        image = result if result.dim() == 2 else result[0].permute(1, 2, 0)
        if not self.is_array:
            return image
        array = (image.detach() if image.requires_grad else image).numpy()
        return array if array.flags.c_contiguous else array.copy()

    def _fresh(self) -> tuple[Any, Tensor]:
        """Memory for a result: as the caller sees it, and as the library writes it."""
        if not self.is_array:
            out = in_order_of(self.image, 2, self.image.shape, self.dtype)
            return out if out.dim() == 2 else out[0].permute(1, 2, 0), out
        shape = self.image.shape
        # numpy's, because it asks for large pages: 32 MB are there in 6 ms instead of 14. An array came, so numpy is
        # loaded; this module is imported without it.
        whole = sys.modules["numpy"].empty(shape if len(shape) == 2 else (*shape[2:], shape[1]), _NAMES[self.dtype])
        return whole, _planes(torch.from_numpy(whole))

    def _fill(
        self, out: Tensor | None, filter: Callable[..., Tensor], *args: Any, rows: int, delta: float, **options: Any
    ) -> Tensor:
        """The result in `out`, or without it in a tensor of the operator's."""
        if out is not None and self._wants_bands(rows, delta):
            return self._in_bands(out, filter, *args, rows=rows, delta=delta, **options)
        written: dict[str, Any] = {"output_dtype": self.dtype} if out is None else {"out": out}
        image = self._summable(self.image)
        if self._rounds_after(delta):
            sums = filter(image, *args, output_dtype=self.sums, **options).add_(delta)
            return filter2d(sums, _one(), **written)  # rounded as every filter rounds
        result = filter(image, *args, **written, **options)
        return result.add_(delta) if delta != 0 else result

    def _in_bands(
        self, result: Tensor, filter: Callable[..., Tensor], *args: Any, rows: int, delta: float, **options: Any
    ) -> Tensor:
        """The result by bands of rows, so that copies in floats stay small."""
        image = self.image
        height, step = image.size(-2), self._band(rows)
        for y in range(0, height, step):
            # Rows whose kernel reads beyond the band are left out.
            first, last = max(0, y - rows), min(height, y + step + rows)
            band = self._summable(image[..., first:last, :])
            sums = filter(band, *args, output_dtype=self.sums, **options)[..., y - first : y - first + step, :]
            out = result[..., y : y + step, :]
            if delta != 0:
                sums.add_(delta)
            if self.dtype == self.sums:
                out.copy_(sums)
            else:
                filter2d(sums, _one(), out=out)
        return result

    def _band(self, rows: int) -> int:
        """Rows of a band; most of them do not belong to adjacent bands."""
        return max(BAND * self.image.size(-2) // self.image.numel(), 4 * rows)

    def _wants_bands(self, rows: int, delta: float) -> bool:
        """Whether a copy of the image or of its sums in floats would take several times a large image's memory."""
        if not (self._copies() or self._rounds_after(delta)) or not self.image.is_cpu:
            return False
        return self.image.numel() >= 16 * BAND and self.image.size(-2) >= 2 * self._band(rows)

    def _copies(self) -> bool:
        return self.sums == torch.float64 != self.image.dtype

    def _rounds_after(self, delta: float) -> bool:
        return delta != 0 and not self.dtype.is_floating_point

    def _summable(self, image: Tensor) -> Tensor:
        return image.double() if self._copies() else image  # the library sums in float64 for float64 images alone

    def sum_exactly(self, taps: float, factor: float) -> None:
        """Sums in float32 where it holds every sum of pixels times whole taps, of |sum| `taps`, times `factor`."""
        if self.into_float64:
            return  # no sum is faster there
        most = {torch.uint8: 255, torch.uint16: 65535, torch.int16: 32768}.get(self.image.dtype, math.inf)
        if math.frexp(factor)[0] in (0.5, -0.5) and most * taps <= 2**24:
            self.sums = torch.float32

    def taps(self, argument: str, kernel: Any) -> Tensor:
        """A kernel (kH, kW), on the CPU or on the image's device."""
        taps = _arguments.kernel(self.name, argument, kernel)
        if taps.device.type != "cpu" and taps.device != self.image.device:
            raise ValueError(
                f"{self.name}: {argument} must be on src's device {self.image.device} or on the CPU, got {taps.device}"
            )
        return taps

    def row(self, argument: str, kernel: Any) -> Tensor:
        taps = self.taps(argument, kernel)
        if taps.dim() == 1 and taps.numel() > 0:
            return taps
        if taps.numel() == 0 or taps.numel() != max(taps.shape, default=1):
            raise ValueError(f"{self.name}: {argument} must be one row or one column, got {tuple(taps.shape)}")
        return taps.reshape(-1)

    def anchor(self, anchor: Any, width: int, height: int) -> tuple[int, int]:
        x, y = self.pair("anchor", anchor, (-1, -1))
        at = (height // 2 if y == -1 else y, width // 2 if x == -1 else x)
        if not (0 <= at[0] < height and 0 <= at[1] < width):
            raise ValueError(f"{self.name}: anchor must lie in the window of {width}x{height}, got ({x}, {y})")
        return at

    def pair(self, argument: str, value: Any, default: tuple[int, int] = (0, 0)) -> tuple[int, int]:
        return _arguments.pair(self.name, argument, value, default)

    def whole(self, argument: str, value: Any, default: int = 0) -> int:
        return _arguments.whole(self.name, argument, value, default)

    def number(self, argument: str, value: Any, default: float = 0.0) -> float:
        return _arguments.number(self.name, argument, value, default)

    def _result_dtype(self, dtype: torch.dtype, ddepth: int, depths: Depths) -> torch.dtype:
        if ddepth < 0:
            return dtype
        # A type holds channels above its depth: above 5 bits in OpenCV 5, above 3 in OpenCV 4.
        depth = ddepth & 31
        depth = depth & 7 if depth > 12 else depth
        if depth not in depths[dtype]:
            taken = ", ".join(_DEPTH_NAMES[depth] for depth in depths[dtype])
            of = str(dtype).removeprefix("torch.")
            got = _DEPTH_NAMES.get(ddepth, str(ddepth))
            raise ValueError(f"{self.name}: ddepth for an image of {of} must be -1 or one of {taken}, got {got}")
        return _DTYPES[depth]

    def _border(self, border_type: int, may_wrap: bool) -> str:
        # An array is never part of a larger image, so every array is isolated.
        border = border_type & ~BORDER_ISOLATED
        if border == BORDER_WRAP and may_wrap:
            return "circular"
        if border not in _BORDERS:
            got = "BORDER_WRAP" if border == BORDER_WRAP else str(border_type)
            raise ValueError(
                f"{self.name}: borderType must be BORDER_CONSTANT, BORDER_REPLICATE, BORDER_REFLECT or "
                f"BORDER_REFLECT_101, got {got}"
            )
        return _BORDERS[border]

    def _target(self, dst: Any, image: Tensor) -> Tensor | None:
        """`dst` as the library writes it, or None where OpenCV would allocate another."""
        if is_scalar(dst):
            return None
        if is_array(dst) != self.is_array:
            kind = "a numpy array" if self.is_array else "a torch tensor"
            raise TypeError(f"{self.name}: dst must be {kind}, as src is, got {type(dst).__name__}")
        if self.is_array and (not dst.flags.writeable or is_odd(dst)):
            raise ValueError(f"{self.name}: dst must be writable, in native byte order and without negative strides")
        written = tensor(self.name, "dst", dst)
        if written.dim() not in (2, 3) or written.dtype != self.dtype or written.device != image.device:
            return None
        planes = _planes(written)
        return planes if planes.shape == self.image.shape else None


def _one() -> Tensor:
    return torch.ones(1, 1, dtype=torch.float32, device="cpu")


def _planes(image: Tensor) -> Tensor:
    """The image with its channels before its rows, read through its strides: (H, W) or (1, C, H, W)."""
    if image.dim() == 2:
        return image
    if image.size(2) == 1:
        return image[:, :, 0]
    return image.permute(2, 0, 1).unsqueeze(0)
