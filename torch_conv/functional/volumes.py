"""The filters of volumes (..., D, H, W): any window, three windows, a box, a Gaussian."""
# TorchScript reads these annotations; it knows Optional[...], not `... | None`, around its own list types.
# ruff: noqa: UP007, UP045

from typing import Optional, Union

import torch
from torch import Tensor

from torch_conv.functional._calls import check_out_dtype, public
from torch_conv.functional._composites import one_window3d, three_windows
from torch_conv.functional._types import BroadcastingList3
from torch_conv.functional._windows import gaussian_parts3d

_filter3d = torch.ops.torch_conv.filter3d
_filter3d_out = torch.ops.torch_conv.filter3d_out
_filter3d_separable = torch.ops.torch_conv.filter3d_separable
_filter3d_separable_out = torch.ops.torch_conv.filter3d_separable_out
_box3d = torch.ops.torch_conv.box3d
_box3d_out = torch.ops.torch_conv.box3d_out


@public(keyword_only="padding", operator="filter3d", axes=3)
def filter3d(
    input: Tensor,
    kernel: Tensor,
    border_type: str = "replicate",
    normalized: bool = False,
    behaviour: str = "corr",
    padding: str = "same",
    value: float = 0.0,
    anchor: Optional[BroadcastingList3[int]] = None,
    stride: BroadcastingList3[int] = 1,
    dilation: BroadcastingList3[int] = 1,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: str = "auto",
) -> Tensor:
    """Correlates every volume with a window.

    Args:
        input: volume (..., D, H, W) of dtype float32, float16, bfloat16, float64, uint8, int16 or uint16; any strides.
        kernel: the window: (kD, kH, kW), one for all; (1|B, kD, kH, kW), one per sample; or
            (1|B, 1|C, kD, kH, kW), per sample and channel. Any real dtype; it is used in float32, or in float64 on
            float64 volumes. It may stay on the CPU while the volume is on a GPU.
        border_type: how the volume goes on outside: 'constant', 'replicate', 'reflect', 'symmetric', 'circular'; or
            'skip' (taps outside are left out of the sum), 'zero_output' (0 where the window does not fit).
        normalized: divide by the sum of the |taps|; with 'skip', of those inside.
        behaviour: 'corr', or 'conv', which flips the window.
        padding: 'same', the volume's own size; 'valid', only the voxels whose window is fully inside.
        value: what 'constant' reads outside.
        anchor: the tap (z, y, x) that lies on the voxel, counted after a flip; -1 means k // 2, None (k - 1) // 2.
        stride: step between output voxels (z, y, x).
        dilation: step between taps (z, y, x).
        output_dtype: dtype of the result, by default the input's. Integers are rounded half to even and clamped.
        out: tensor that receives the result; it must not overlap `input`.
        algorithm: 'auto' or 'direct'.

    Returns:
        Tensor (..., D', H', W') in the input's memory format (channels_last_3d stays so); D' is ceil(D / stride), or
        (D - dilation * (kD - 1) - 1) // stride + 1 with padding='valid'; H' and W' likewise.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `F.conv3d(F.pad(input, ..., mode=border_type), kernel.expand(C, 1, kD, kH, kW), groups=C)`

    Example:
        >>> volume = torch.arange(8.0).reshape(2, 2, 2)
        >>> filter3d(volume, torch.ones(1, 1, 2), "constant")
        tensor([[[ 1.,  1.],
                 [ 5.,  3.]],
        <BLANKLINE>
                [[ 9.,  5.],
                 [13.,  7.]]])
    """
    if out is not None:
        check_out_dtype(out, output_dtype)
        _filter3d_out(
            input,
            kernel,
            border_type,
            normalized,
            behaviour,
            padding=padding,
            value=value,
            anchor=anchor,
            stride=stride,
            dilation=dilation,
            algorithm=algorithm,
            out=out,
        )
        return out
    return _filter3d(
        input,
        kernel,
        border_type,
        normalized,
        behaviour,
        padding=padding,
        value=value,
        anchor=anchor,
        stride=stride,
        dilation=dilation,
        output_dtype=output_dtype,
        algorithm=algorithm,
    )


@public(keyword_only="padding", operator="filter3d_separable", axes=3)
def filter3d_separable(
    input: Tensor,
    kernel_x: Tensor,
    kernel_y: Tensor,
    kernel_z: Tensor,
    border_type: str = "replicate",
    normalized: bool = False,
    padding: str = "same",
    value: float = 0.0,
    anchor: Optional[BroadcastingList3[int]] = None,
    stride: BroadcastingList3[int] = 1,
    dilation: BroadcastingList3[int] = 1,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: str = "auto",
) -> Tensor:
    """Correlates every volume with the outer product of three windows, in kD + kH + kW steps a voxel.

    Args:
        input: volume (..., D, H, W), as in `filter3d`.
        kernel_x: taps along W: (kW,), (1|B, kW) or (1|B, 1|C, kW).
        kernel_y: taps along H: (kH,), (1|B, kH) or (1|B, 1|C, kH).
        kernel_z: taps along D: (kD,), (1|B, kD) or (1|B, 1|C, kD).
        border_type: as in `filter3d`.
        normalized: divide each window by the sum of its |taps|.
        padding: 'same' or 'valid'.
        value: what 'constant' reads outside.
        anchor: the tap (z, y, x) that lies on the voxel, as in `filter3d`.
        stride: step between output voxels (z, y, x).
        dilation: step between taps (z, y, x).
        output_dtype: dtype of the result, by default the input's; the values between the passes are not rounded.
        out: tensor that receives the result.
        algorithm: 'auto' or 'separable'.

    Returns:
        Tensor (..., D', H', W'), as `filter3d` returns it.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `filter3d(input, torch.einsum('...i,...j,...k->...ijk', kernel_z, kernel_y, kernel_x), border_type, normalized)`

    Example:
        >>> one, two = torch.ones(1), torch.ones(2)
        >>> filter3d_separable(torch.ones(2, 2, 3), two, one, two, "constant")[0]
        tensor([[4., 4., 2.],
                [4., 4., 2.]])
    """
    if out is not None:
        check_out_dtype(out, output_dtype)
        _filter3d_separable_out(
            input,
            kernel_x,
            kernel_y,
            kernel_z,
            border_type,
            normalized,
            padding=padding,
            value=value,
            anchor=anchor,
            stride=stride,
            dilation=dilation,
            algorithm=algorithm,
            out=out,
        )
        return out
    return _filter3d_separable(
        input,
        kernel_x,
        kernel_y,
        kernel_z,
        border_type,
        normalized,
        padding=padding,
        value=value,
        anchor=anchor,
        stride=stride,
        dilation=dilation,
        output_dtype=output_dtype,
        algorithm=algorithm,
    )


@public(keyword_only="normalized", operator="box3d", axes=3, exact_integers=True)
def box_blur3d(
    input: Tensor,
    kernel_size: BroadcastingList3[int],
    border_type: str = "replicate",
    normalized: bool = True,
    anchor: Optional[BroadcastingList3[int]] = None,
    padding: str = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: str = "auto",
) -> Tensor:
    """The mean over a window around each voxel, at a cost that hardly depends on its size.

    Over floats the error is at most 8 units in the last place (of the accumulation dtype) of the mean of |x| in the
    window, whatever lies elsewhere; NaN and Inf reach the windows that hold them and no others. The bits are the same
    on every device and for every batch, layout, split and number of threads. A crop of the volume may differ in the
    last places: planes and rows are added up in groups of eight of the volume at hand. Over integers sums are exact,
    means rounded once.

    Args:
        input: volume (..., D, H, W), as in `filter3d`.
        kernel_size: (kD, kH, kW) or one number, each at least 1, odd or even.
        border_type: as in `filter3d`.
        normalized: divide by kD * kH * kW, or with 'skip' by the number of voxels inside; False gives the sum.
        anchor: the tap (z, y, x) that lies on the voxel, as in `filter3d`.
        padding: 'same' or 'valid'.
        value: what 'constant' reads outside.
        output_dtype: dtype of the result, by default the input's.
        out: tensor that receives the result.
        algorithm: 'auto'; 'box', sums that neighbouring windows share; or 'separable', direct sums for odd cubic
            windows up to 13x13x13 of floats of 32 and 16 bits, which 'auto' takes for those.

    Returns:
        Tensor (..., D', H', W'), as `filter3d` returns it.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `filter3d(input, torch.ones(kD, kH, kW), border_type, normalized)`

    Example:
        >>> box_blur3d(torch.arange(4.0).reshape(4, 1, 1), (3, 1, 1)).flatten()
        tensor([0.3333, 1.0000, 2.0000, 2.6667])
    """
    if out is not None:
        check_out_dtype(out, output_dtype)
        _box3d_out(
            input,
            kernel_size,
            border_type,
            normalized,
            padding=padding,
            value=value,
            anchor=anchor,
            algorithm=algorithm,
            out=out,
        )
        return out
    return _box3d(
        input,
        kernel_size,
        border_type,
        normalized,
        padding=padding,
        value=value,
        anchor=anchor,
        output_dtype=output_dtype,
        algorithm=algorithm,
    )


@public(keyword_only="truncate")
def gaussian_blur3d(
    input: Tensor,
    kernel_size: Optional[BroadcastingList3[int]] = None,
    sigma: Optional[Union[Tensor, float, tuple[float, float, float]]] = None,
    border_type: str = "replicate",
    truncate: float = 4.0,
    padding: str = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: str = "auto",
) -> Tensor:
    """Smooths a volume with a sampled Gaussian; voxels that are not cubes want a sigma per axis.

    Args:
        input: volume (..., D, H, W), as in `filter3d`.
        kernel_size: (kz, ky, kx) or one number, odd; None takes 2 * int(truncate * sigma + 0.5) + 1, as scipy.
        sigma: standard deviation in voxels, > 0: a number, (sigma_z, sigma_y, sigma_x), or a tensor (1|B, 3) with a
            row per sample. A tensor on a GPU is not looked at, so its values are not checked.
        border_type: as in `filter3d`.
        truncate: reach of the window in standard deviations where `kernel_size` is None.
        padding: 'same' or 'valid'.
        value: what 'constant' reads outside.
        output_dtype: dtype of the result, by default the input's.
        out: tensor that receives the result.
        algorithm: 'direct', one window; 'separable', passes of one axis each, which round a little differently; or
            'auto', the one window up to 27 taps and the passes beyond.

    Returns:
        Tensor (..., D', H', W'), as `filter3d` returns it.

    Raises:
        ValueError: for an even window, sigma <= 0, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `filter3d(input, kernels.gaussian3d(kernel_size, sigma), border_type)`;
        `scipy.ndimage.gaussian_filter(input, sigma, mode='nearest', truncate=truncate)` without a size.

    Example:
        >>> volume = torch.zeros(1, 1, 3, 3, 3)
        >>> volume[0, 0, 1, 1, 1] = 1
        >>> gaussian_blur3d(volume, (1, 3, 3), 1.0, "constant")[0, 0, 1]
        tensor([[0.0751, 0.1238, 0.0751],
                [0.1238, 0.2042, 0.1238],
                [0.0751, 0.1238, 0.0751]])
    """
    parts = gaussian_parts3d("gaussian_blur3d", kernel_size, sigma, truncate, algorithm, input)
    if len(parts) == 1:
        return one_window3d(input, parts[0], border_type, padding, value, output_dtype, out, algorithm)
    return three_windows(input, parts, border_type, padding, value, output_dtype, out, algorithm)
