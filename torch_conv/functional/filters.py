"""Filters of images with an operator of their own: a dense kernel, a separable kernel, a box."""
# TorchScript reads these annotations; it knows Optional[...], not `... | None`, around its own list types.
# ruff: noqa: UP045

from typing import Optional

import torch
from torch import Tensor

from torch_conv.functional._calls import check_out_dtype, public
from torch_conv.functional._types import (
    Behaviour,
    Border,
    BoxAlgorithm,
    BroadcastingList2,
    FilterAlgorithm,
    Padding,
    SeparableAlgorithm,
)

_filter2d = torch.ops.torch_conv.filter2d
_filter2d_out = torch.ops.torch_conv.filter2d_out
_filter2d_separable = torch.ops.torch_conv.filter2d_separable
_filter2d_separable_out = torch.ops.torch_conv.filter2d_separable_out
_box2d = torch.ops.torch_conv.box2d
_box2d_out = torch.ops.torch_conv.box2d_out


# Eager calls go to `eager_operator`. Scripts and torch.compile run the body, which calls the same operator.
@public(eager_operator="filter2d", axes=2)
def filter2d(
    input: Tensor,
    kernel: Tensor,
    border_type: Border = "reflect",
    normalized: bool = False,
    padding: Padding = "same",
    behaviour: Behaviour = "corr",
    *,
    value: float = 0.0,
    anchor: Optional[BroadcastingList2[int]] = None,
    stride: BroadcastingList2[int] = 1,
    dilation: BroadcastingList2[int] = 1,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: FilterAlgorithm = "auto",
) -> Tensor:
    """Correlates every plane of an image with a kernel.

    Sums are in float32, or in float64 for float64 images, and the result is rounded once. 'direct' and 'low_rank' give
    a pixel the same bits at any position. 'tensor_core' and 'fft' give the same bits from run to run and for every
    image of a batch. The page "Algorithms and their error bounds" (docs/algorithms.md) says which one 'auto' takes.

    Args:
        input: image (..., H, W) of dtype float32, float16, bfloat16, float64, uint8, int16 or uint16; any strides.
        kernel: taps (kH, kW) for all planes, (1|B, kH, kW) per sample, or (1|B, 1|C, kH, kW) per sample and channel.
            Any real dtype; the sums use it in float32, or in float64 for float64 images. It may stay on the CPU while
            the image is on a GPU.
        border_type: the pixels outside: 'constant', 'replicate', 'reflect', 'symmetric' or 'circular'; 'skip' leaves
            taps outside out of the sum; 'zero_output' writes 0 where the kernel does not fit.
        normalized: divide by the sum of the |taps|; with 'skip', of those inside.
        padding: 'same', the image's own size; 'valid', only pixels where the kernel lies fully inside.
        behaviour: 'corr', or 'conv', which flips the kernel.
        value: pixel value outside for 'constant'.
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
        check_out_dtype("filter2d", out, output_dtype)
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


@public(eager_operator="filter2d_separable", axes=2)
def filter2d_separable(
    input: Tensor,
    kernel_x: Tensor,
    kernel_y: Tensor,
    border_type: Border = "reflect",
    normalized: bool = False,
    padding: Padding = "same",
    *,
    value: float = 0.0,
    anchor: Optional[BroadcastingList2[int]] = None,
    stride: BroadcastingList2[int] = 1,
    dilation: BroadcastingList2[int] = 1,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: SeparableAlgorithm = "auto",
) -> Tensor:
    """Correlates every plane of an image with the outer product of two kernels, in kH + kW steps a pixel.

    'separable' and 'fused' give a pixel the same bits at any position. 'tensor_core' gives the same bits from run to
    run and for all images of a batch. The page "Algorithms and their error bounds" (docs/algorithms.md) says which one
    'auto' takes.

    Args:
        input: image (..., H, W), as in `filter2d`.
        kernel_x: taps along W: (kW,), (1|B, kW) or (1|B, 1|C, kW). The kernels have the order x, y, as in kornia;
            numbers per axis have the order y, x. Keywords say which is which.
        kernel_y: taps along H: (kH,), (1|B, kH) or (1|B, 1|C, kH).
        border_type: as in `filter2d`.
        normalized: divide each kernel by the sum of its |taps|.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
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
        >>> row, column = torch.ones(3), torch.tensor([1.0])
        >>> filter2d_separable(torch.ones(2, 4), kernel_x=row, kernel_y=column, border_type="constant")
        tensor([[2., 3., 3., 2.],
                [2., 3., 3., 2.]])
    """
    if out is not None:
        check_out_dtype("filter2d_separable", out, output_dtype)
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


@public(axes=2, exact_integers=True)
def box_blur(
    input: Tensor,
    kernel_size: BroadcastingList2[int],
    border_type: Border = "reflect",
    separable: bool = True,
    *,
    normalized: bool = True,
    anchor: Optional[BroadcastingList2[int]] = None,
    padding: Padding = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: BoxAlgorithm = "auto",
) -> Tensor:
    """The mean over a box around each pixel, at a cost that hardly depends on its size.

    For floats the error is at most 8 units in the last place (of the accumulation dtype) of the mean of |x| in the box.
    NaN and Inf reach only the boxes that hold them. For integers sums are exact and means are rounded once. The bits
    are the same on every device and for every batch, layout, split and number of threads. A crop of the image may
    differ in the last places, because sums run over groups of eight rows of the given image.

    Args:
        input: image (..., H, W), as in `filter2d`.
        kernel_size: (kH, kW) or one number, each at least 1, odd or even.
        border_type: as in `filter2d`.
        separable: accepted as in kornia, without effect.
        normalized: divide by kH * kW, or with 'skip' by the number of pixels inside; False gives the sum.
        anchor: the tap (y, x) that lies on the pixel, as in `filter2d`.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's.
        out: tensor that receives the result.
        algorithm: 'box', sums that neighbouring boxes share; 'separable', direct sums for odd square boxes up to
            13x13 of floats; or 'auto', 'separable' where it serves the call and 'box' elsewhere.

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
        check_out_dtype("box_blur", out, output_dtype)
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
