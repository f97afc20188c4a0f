"""The filters of images that are one operator each: any window, two windows, a box."""
# TorchScript reads these annotations; it knows Optional[...], not `... | None`, around its own list types.
# ruff: noqa: UP045

from typing import Optional

import torch
from torch import Tensor

from torch_conv.functional._calls import check_out_dtype, public
from torch_conv.functional._types import BroadcastingList2

_filter2d = torch.ops.torch_conv.filter2d
_filter2d_out = torch.ops.torch_conv.filter2d_out
_filter2d_separable = torch.ops.torch_conv.filter2d_separable
_filter2d_separable_out = torch.ops.torch_conv.filter2d_separable_out
_box2d = torch.ops.torch_conv.box2d
_box2d_out = torch.ops.torch_conv.box2d_out


@public(keyword_only="value", operator="filter2d", axes=2)
def filter2d(
    input: Tensor,
    kernel: Tensor,
    border_type: str = "reflect",
    normalized: bool = False,
    padding: str = "same",
    behaviour: str = "corr",
    value: float = 0.0,
    anchor: Optional[BroadcastingList2[int]] = None,
    stride: BroadcastingList2[int] = 1,
    dilation: BroadcastingList2[int] = 1,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: str = "auto",
) -> Tensor:
    """Correlates every plane of an image with a window.

    Sums are taken in float32, or in float64 for float64 images, and the result is rounded once. 'direct' and 'low_rank'
    give a pixel the same bits wherever it lies; 'tensor_core' and 'fft' only from run to run and for every image of a
    batch. The page "Algorithms and their error bounds" (docs/algorithms.md) says when 'auto' takes which of them.

    Args:
        input: image (..., H, W) of dtype float32, float16, bfloat16, float64, uint8, int16 or uint16; any strides.
        kernel: the window: (kH, kW), one for all; (1|B, kH, kW), one per sample; or (1|B, 1|C, kH, kW), per sample and
            channel. Any real dtype; it is used in float32, or in float64 on float64 images. It may stay on the CPU
            while the image is on a GPU.
        border_type: how the image goes on outside: 'constant', 'replicate', 'reflect', 'symmetric', 'circular'; or
            'skip' (taps outside are left out of the sum), 'zero_output' (0 where the window does not fit).
        normalized: divide by the sum of the |taps|; with 'skip', of those inside.
        padding: 'same', the image's own size; 'valid', only the pixels whose window is fully inside.
        behaviour: 'corr', or 'conv', which flips the window.
        value: what 'constant' reads outside.
        anchor: the tap (y, x) that lies on the pixel, counted after a flip; -1 means k // 2, None (k - 1) // 2.
        stride: step between output pixels (y, x).
        dilation: step between taps (y, x).
        output_dtype: dtype of the result, by default the input's. Integers are rounded half to even and clamped.
        out: tensor that receives the result; it must not overlap `input`.
        algorithm: 'auto', 'direct', 'tensor_core', 'fft' or 'low_rank'; one that cannot serve the call is refused.

    Returns:
        Tensor (..., H', W') in the input's memory format; H' is ceil(H / stride), or
        (H - dilation * (kH - 1) - 1) // stride + 1 with padding='valid'.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `F.conv2d(F.pad(input, ..., mode=border_type), kernel.expand(C, 1, kH, kW), groups=C)`

    Example:
        >>> image = torch.arange(9.0).reshape(1, 1, 3, 3)
        >>> filter2d(image, torch.ones(3, 3), "constant")
        tensor([[[[ 8., 15., 12.],
                  [21., 36., 27.],
                  [20., 33., 24.]]]])
    """
    if out is not None:
        check_out_dtype(out, output_dtype)
        _filter2d_out(
            input,
            kernel,
            border_type,
            normalized,
            padding,
            behaviour,
            value=value,
            anchor=anchor,
            stride=stride,
            dilation=dilation,
            algorithm=algorithm,
            out=out,
        )
        return out
    return _filter2d(
        input,
        kernel,
        border_type,
        normalized,
        padding,
        behaviour,
        value=value,
        anchor=anchor,
        stride=stride,
        dilation=dilation,
        output_dtype=output_dtype,
        algorithm=algorithm,
    )


@public(keyword_only="value", operator="filter2d_separable", axes=2)
def filter2d_separable(
    input: Tensor,
    kernel_x: Tensor,
    kernel_y: Tensor,
    border_type: str = "reflect",
    normalized: bool = False,
    padding: str = "same",
    value: float = 0.0,
    anchor: Optional[BroadcastingList2[int]] = None,
    stride: BroadcastingList2[int] = 1,
    dilation: BroadcastingList2[int] = 1,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: str = "auto",
) -> Tensor:
    """Correlates every plane of an image with the outer product of two windows, in kH + kW steps a pixel.

    'separable' and 'fused' give a pixel the same bits wherever it lies; 'tensor_core' only from run to run and for all
    images of a batch. The page "Algorithms and their error bounds" (docs/algorithms.md) says when 'auto' takes which.

    Args:
        input: image (..., H, W), as in `filter2d`.
        kernel_x: taps along W: (kW,), (1|B, kW) or (1|B, 1|C, kW).
        kernel_y: taps along H: (kH,), (1|B, kH) or (1|B, 1|C, kH).
        border_type: as in `filter2d`.
        normalized: divide each window by the sum of its |taps|.
        padding: 'same' or 'valid'.
        value: what 'constant' reads outside.
        anchor: the tap (y, x) that lies on the pixel, as in `filter2d`.
        stride: step between output pixels (y, x).
        dilation: step between taps (y, x).
        output_dtype: dtype of the result, by default the input's; the value between the two passes is not rounded.
        out: tensor that receives the result.
        algorithm: 'auto', 'separable', 'tensor_core' or 'fused'; one that cannot serve the call is refused.

    Returns:
        Tensor (..., H', W'), as `filter2d` returns it.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `filter2d(input, kernel_y[..., :, None] * kernel_x[..., None, :], border_type, normalized, padding)`

    Example:
        >>> ones = torch.ones(3)
        >>> filter2d_separable(torch.ones(1, 1, 3, 3), ones, ones, "constant")
        tensor([[[[4., 6., 4.],
                  [6., 9., 6.],
                  [4., 6., 4.]]]])
    """
    if out is not None:
        check_out_dtype(out, output_dtype)
        _filter2d_separable_out(
            input,
            kernel_x,
            kernel_y,
            border_type,
            normalized,
            padding,
            value=value,
            anchor=anchor,
            stride=stride,
            dilation=dilation,
            algorithm=algorithm,
            out=out,
        )
        return out
    return _filter2d_separable(
        input,
        kernel_x,
        kernel_y,
        border_type,
        normalized,
        padding,
        value=value,
        anchor=anchor,
        stride=stride,
        dilation=dilation,
        output_dtype=output_dtype,
        algorithm=algorithm,
    )


@public(keyword_only="normalized", axes=2, exact_integers=True)
def box_blur(
    input: Tensor,
    kernel_size: BroadcastingList2[int],
    border_type: str = "reflect",
    separable: bool = True,
    normalized: bool = True,
    anchor: Optional[BroadcastingList2[int]] = None,
    padding: str = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: str = "auto",
) -> Tensor:
    """The mean over a window around each pixel, at a cost that hardly depends on its size.

    Over floats the error is at most 8 units in the last place (of the accumulation dtype) of the mean of |x| in the
    window, whatever lies elsewhere; NaN and Inf reach the windows that hold them and no others. The bits are the same
    on every device and for every batch, layout, split and number of threads. A crop of the image may differ in the last
    places: rows are added up in groups of eight of the image at hand. Over integers sums are exact, means rounded once.

    Args:
        input: image (..., H, W), as in `filter2d`.
        kernel_size: (kH, kW) or one number, each at least 1, odd or even.
        border_type: as in `filter2d`.
        separable: taken for kornia's sake; it changes nothing.
        normalized: divide by kH * kW, or with 'skip' by the number of pixels inside; False gives the sum.
        anchor: the tap (y, x) that lies on the pixel, as in `filter2d`.
        padding: 'same' or 'valid'.
        value: what 'constant' reads outside.
        output_dtype: dtype of the result, by default the input's.
        out: tensor that receives the result.
        algorithm: 'auto'; 'box', sums that neighbouring windows share; or 'separable', direct sums for odd square
            windows up to 13x13 of floats, which 'auto' takes for those.

    Returns:
        Tensor (..., H', W'), as `filter2d` returns it.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `filter2d(input, torch.ones(kH, kW), border_type, normalized)`

    Example:
        >>> box_blur(torch.arange(5.0).reshape(1, 5), (1, 3))
        tensor([[0.6667, 1.0000, 2.0000, 3.0000, 3.3333]])
    """
    if out is not None:
        check_out_dtype(out, output_dtype)
        _box2d_out(
            input,
            kernel_size,
            border_type,
            normalized,
            padding,
            value=value,
            anchor=anchor,
            algorithm=algorithm,
            out=out,
        )
        return out
    return _box2d(
        input,
        kernel_size,
        border_type,
        normalized,
        padding,
        value=value,
        anchor=anchor,
        output_dtype=output_dtype,
        algorithm=algorithm,
    )
