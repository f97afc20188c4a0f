"""Filters of volumes (..., D, H, W): a dense kernel, a separable kernel, a box, a Gaussian."""
# TorchScript reads these annotations; it knows Optional[...], not `... | None`, around its own list types.
# ruff: noqa: UP007, UP045

from typing import Optional, Union

import torch
from torch import Tensor

from torch_conv.functional._calls import check_out_dtype, public
from torch_conv.functional._composites import correlate3d, correlate3d_separable
from torch_conv.functional._gaussian_kernels import gaussian_parts3d
from torch_conv.functional._types import (
    Behaviour,
    Border,
    BoxAlgorithm,
    BroadcastingList3,
    Filter3dAlgorithm,
    Gaussian3dAlgorithm,
    Numbers3,
    Padding,
    Separable3dAlgorithm,
)

_filter3d = torch.ops.torch_conv.filter3d
_filter3d_out = torch.ops.torch_conv.filter3d_out
_filter3d_separable = torch.ops.torch_conv.filter3d_separable
_filter3d_separable_out = torch.ops.torch_conv.filter3d_separable_out
_box3d = torch.ops.torch_conv.box3d
_box3d_out = torch.ops.torch_conv.box3d_out


# Eager calls go to `eager_operator`. Scripts and torch.compile run the body, which calls the same operator.
@public(eager_operator="filter3d", axes=3)
def filter3d(
    input: Tensor,
    kernel: Tensor,
    border_type: Border = "replicate",
    normalized: bool = False,
    behaviour: Behaviour = "corr",
    *,
    padding: Padding = "same",
    value: float = 0.0,
    anchor: Optional[BroadcastingList3[int]] = None,
    stride: BroadcastingList3[int] = 1,
    dilation: BroadcastingList3[int] = 1,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: Filter3dAlgorithm = "auto",
) -> Tensor:
    """Correlates every volume with a kernel.

    Args:
        input: volume (..., D, H, W) of dtype float32, float16, bfloat16, float64, uint8, int16 or uint16; any strides.
        kernel: taps (kD, kH, kW) for all volumes, (1|B, kD, kH, kW) per sample, or (1|B, 1|C, kD, kH, kW) per sample
            and channel. Any real dtype; the sums use it in float32, or in float64 for float64 volumes. It may stay on
            the CPU while the volume is on a GPU.
        border_type: the voxels outside: 'constant', 'replicate', 'reflect', 'symmetric' or 'circular'; 'skip' leaves
            taps outside out of the sum; 'zero_output' writes 0 where the kernel does not fit.
        normalized: divide by the sum of the |taps|; with 'skip', of those inside.
        behaviour: 'corr', or 'conv', which flips the kernel.
        padding: 'same', the volume's own size; 'valid', only voxels where the kernel lies fully inside.
        value: pixel value outside for 'constant'.
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
        check_out_dtype("filter3d", out, output_dtype)
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


@public(eager_operator="filter3d_separable", axes=3)
def filter3d_separable(
    input: Tensor,
    kernel_x: Tensor,
    kernel_y: Tensor,
    kernel_z: Tensor,
    border_type: Border = "replicate",
    normalized: bool = False,
    *,
    padding: Padding = "same",
    value: float = 0.0,
    anchor: Optional[BroadcastingList3[int]] = None,
    stride: BroadcastingList3[int] = 1,
    dilation: BroadcastingList3[int] = 1,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: Separable3dAlgorithm = "auto",
) -> Tensor:
    """Correlates every volume with the outer product of three kernels, in kD + kH + kW steps a voxel.

    Args:
        input: volume (..., D, H, W), as in `filter3d`.
        kernel_x: taps along W: (kW,), (1|B, kW) or (1|B, 1|C, kW). The kernels have the order x, y, z; numbers per
            axis have the order z, y, x. Keywords say which is which.
        kernel_y: taps along H: (kH,), (1|B, kH) or (1|B, 1|C, kH).
        kernel_z: taps along D: (kD,), (1|B, kD) or (1|B, 1|C, kD).
        border_type: as in `filter3d`.
        normalized: divide each kernel by the sum of its |taps|.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
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
        >>> volume = torch.ones(2, 2, 3)
        >>> filter3d_separable(volume, kernel_x=two, kernel_y=one, kernel_z=two, border_type="constant")[0]
        tensor([[4., 4., 2.],
                [4., 4., 2.]])
    """
    if out is not None:
        check_out_dtype("filter3d_separable", out, output_dtype)
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


@public(eager_operator="box3d", axes=3, exact_integers=True)
def box_blur3d(
    input: Tensor,
    kernel_size: BroadcastingList3[int],
    border_type: Border = "replicate",
    *,
    normalized: bool = True,
    anchor: Optional[BroadcastingList3[int]] = None,
    padding: Padding = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: BoxAlgorithm = "auto",
) -> Tensor:
    """The mean over a box around each voxel, at a cost that hardly depends on its size.

    Errors, bits and integers are as in `box_blur`, with groups of eight planes and rows.

    Args:
        input: volume (..., D, H, W), as in `filter3d`.
        kernel_size: (kD, kH, kW) or one number, each at least 1, odd or even.
        border_type: as in `filter3d`.
        normalized: divide by kD * kH * kW, or with 'skip' by the number of voxels inside; False gives the sum.
        anchor: the tap (z, y, x) that lies on the voxel, as in `filter3d`.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's.
        out: tensor that receives the result.
        algorithm: 'box', sums that neighbouring boxes share; 'separable', direct sums for odd cubic boxes up to
            13x13x13 of floats of 32 and 16 bits; or 'auto', 'separable' where it serves the call and 'box' elsewhere.

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
        check_out_dtype("box_blur3d", out, output_dtype)
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


@public()
def gaussian_blur3d(
    input: Tensor,
    kernel_size: Optional[BroadcastingList3[int]] = None,
    sigma: Optional[Union[Tensor, Numbers3]] = None,
    border_type: Border = "replicate",
    *,
    truncate: float = 4.0,
    padding: Padding = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: Gaussian3dAlgorithm = "auto",
) -> Tensor:
    """Smooths a volume with a sampled Gaussian.

    Args:
        input: volume (..., D, H, W), as in `filter3d`.
        kernel_size: (kz, ky, kx) or one number, odd; None takes 2 * int(truncate * sigma + 0.5) + 1, as scipy.
        sigma: standard deviation in voxels, > 0: a number, (sigma_z, sigma_y, sigma_x), or a tensor (1|B, 3) with a
            row per sample, which needs a `kernel_size`. Voxels that are no cubes need a number per axis. The values of
            a tensor on a GPU are not checked. It must be given.
        border_type: as in `filter3d`.
        truncate: radius of the kernel in standard deviations where `kernel_size` is None.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's.
        out: tensor that receives the result.
        algorithm: 'direct', one dense kernel; 'separable', a pass per axis, whose rounding differs slightly; or
            'auto', the dense kernel up to 27 taps and passes beyond.

    Returns:
        Tensor (..., D', H', W'), as `filter3d` returns it.

    Raises:
        ValueError: for an even kernel, sigma <= 0, or a value that is not described above.
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
        return correlate3d(input, parts[0], border_type, padding, value, output_dtype, out, algorithm)
    return correlate3d_separable(input, parts, border_type, padding, value, output_dtype, out, algorithm)
