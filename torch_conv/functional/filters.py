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

    'direct' sums tap by tap, and has the same bits wherever a pixel lies. 'auto' takes it, or of the following what is
    expected to be faster for these sizes, dtype, memory format, kind of device and values of a window on the CPU:

    * 'tensor_core', for float16 and bfloat16 and windows of more than 16 taps to 31x31 on CUDA (Hopper on; planes, or 2
      to 4 channels side by side, as in photos (H, W, C); stride and dilation 1, the dtype kept; of 16 taps where rows
      do not start on 16 bytes or the channels of a photo have a window each): the taps as good as in float32, one
      rounding at the end, and sums in an order of the hardware's. They lie within one rounding of the exact ones, and
      where images go there their bits do not change with the batch, between planes and photos, with where rows start in
      memory or from run to run, but may with the pixel's position. A window of the image's own dtype takes half the
      products, in bfloat16 a third, and goes there from 9 taps on where rows start anywhere, else from 10 if it lies on
      the GPU or belongs to one channel of a photo: where its taps came from a network in half precision, or are exact
      in it, hand it over as it is. With one such window of 10 taps to 9x9 a channel (of 26 taps on where the channels
      are no multiple of 16), the same for all samples, at least 2 rows and 2 columns and zeros outside, images of more
      than 4 channels in channels_last go there too (Hopper; pixels that are whole 16 bytes and start on as many).
      Pixels of them that start elsewhere, and windows that differ by sample, are summed tap by tap, so those bits may
      change with where rows start and with the batch.
    * 'low_rank', for windows of at least 81 taps that lie on the CPU (on the GPU their values are not looked at, but
      once by `torch_conv.kernels.prepare`) and are sums of up to 4 products of a column and a row: as many separable
      filters, whose sums are added. What is left of the window is below rounding: at most `2**-21` of its largest tap
      and `2**-22` of the sum of its |taps| (`2**-50` and `2**-51` for float64 images). The bits are the same wherever a
      pixel lies. An infinity may come out as NaN.
    * 'fft', for windows of more than 225 taps, those of one row or one column on the CPU only: the image is cut into
      tiles. A sum lies within `2**-23 * log2(n) * sqrt(n) * m * norm(kernel)` of the exact one (`2**-52` for float64
      images), before it is rounded to the result's dtype; n are the pixels of a tile, as `explain` prints it, and
      norm(kernel) is the root of the sum of the squared taps. m is the largest |pixel| of the tile, but at most 512
      times the largest in the window's neighbourhood, which is the window and half a window, or 30 pixels, around it;
      `value` counts where it is read. Windows whose neighbourhood holds much smaller pixels are summed directly, which
      takes longer, and those of zeros give 0. Where no pixel of a tile and no tap is negative, no result is. With
      `normalized` the bound is divided as the sum is. The bits are the same from run to run and for every image of a
      batch. A tile that a NaN, an infinity or an overflow reaches is summed directly, so they stay in the windows that
      hold them. Extra memory: at most 512 MiB and the windows' transforms, unless a single tile of a larger window
      takes more.

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

    'separable' sums along x, then along y, one chain of multiply-adds each, and has the same bits wherever a pixel
    lies. 'auto' takes it, or on CUDA, where that is expected to be faster,

    * 'tensor_core', for float16, bfloat16 and uint8 and windows of 9 taps along x or y on, to 63x63 (Hopper on; planes,
      or 2 to 4 channels side by side that share a window, as in photos (H, W, C); stride and dilation 1, the dtype
      kept; borders but 'skip'): both passes as products of matrices, in an order of the hardware's, and one rounding at
      the end. Taps, and sums between the passes, are held as two numbers of 16 bits, 22 bits of them together for
      float16 and uint8, 16 for bfloat16. Where taps do not cancel each other, results lie within one rounding of the
      exact ones (bytes are the nearest, unless the exact sum lies within 1e-4 of the middle between two); where they
      do, `(kH + kW + 16) * 2**-22` of the sum of the |tap * pixel| comes to that, and of bfloat16 `2**-15` of it. A NaN
      or an infinity stays in the windows that hold it. The bits do not change with the batch, with where rows start in
      memory, with channels side by side or from run to run, but may with the pixel's position, and so where shards
      meet.
    * 'fused', for odd windows in their middle with stride 2, dilation 1 and padding='same': the bits of 'separable'.

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
