"""First stages of corner and edge detectors: the structure tensor, thin edges."""
# TorchScript reads these annotations; it knows Optional[...], not `... | None`, around its own list types.
# ruff: noqa: UP007, UP045

from typing import Optional, Union

import torch
from torch import Tensor

from torch_conv.functional._calls import check_out_dtype, public
from torch_conv.functional._gaussian_kernels import gaussian_parts
from torch_conv.functional._types import Border, BroadcastingList2, GradientMode, Numbers, Padding, PipelineAlgorithm

_structure_tensor2d = torch.ops.torch_conv.structure_tensor2d
_structure_tensor2d_out = torch.ops.torch_conv.structure_tensor2d_out
_thin_edges2d = torch.ops.torch_conv.thin_edges2d
_thin_edges2d_out = torch.ops.torch_conv.thin_edges2d_out


@public()
def structure_tensor(
    input: Tensor,
    kernel_size: Optional[BroadcastingList2[int]] = None,
    sigma: Optional[Union[Tensor, Numbers]] = None,
    border_type: Border = "reflect",
    *,
    mode: GradientMode = "sobel",
    padding: Padding = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: PipelineAlgorithm = "auto",
) -> Tensor:
    """The products of an image's derivatives, smoothed by a Gaussian: gx^2, gx gy and gy^2.

    Args:
        input: image (..., H, W), as in `filter2d`.
        kernel_size: of the Gaussian, as in `gaussian_blur2d`.
        sigma: of the Gaussian, as in `gaussian_blur2d`.
        border_type: of every step, as in `filter2d`.
        mode: of the derivatives, 'sobel', 'diff', 'scharr' or 'prewitt', normalised as in `spatial_gradient`.
        padding: of every step, 'same' or 'valid'.
        value: pixel value outside for 'constant', in every step.
        output_dtype: dtype of the result, by default the input's; unsigned images need a signed one.
        out: tensor that receives the result.
        algorithm: 'fused', one pass over the image; 'separable', a filter for each step, with the same bits; or
            'auto', the first of these that can serve the call.

    Returns:
        Tensor (..., 3, H', W'), contiguous; computed in float32 (float64 for float64 images) and rounded once.

    Raises:
        ValueError: for an even kernel, sigma <= 0, an unknown mode, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `gx, gy = spatial_gradient(input, mode, border_type=border_type).unbind(-3)` and then
        `gaussian_blur2d(torch.stack([gx * gx, gx * gy, gy * gy], -3), kernel_size, sigma, border_type)`; for 'sobel'
        it is 1/64 of the result of `skimage.feature.structure_tensor`, whose order is that of the axes y, x.

    Source:
        W. Förstner and E. Gülch, A Fast Operator for Detection and Precise Location of Distinct Points, Corners and
        Centres of Circular Features, ISPRS Intercommission Conference (1987); C. Harris and M. Stephens, A Combined
        Corner and Edge Detector, Alvey Vision Conference (1988).

    Example:
        >>> ramp = 2.0 * torch.arange(9.0).expand(1, 1, 9, 9)
        >>> structure_tensor(ramp, 3, 1.0)[0, 0, :, 4, 4]
        tensor([4., 0., 0.])
    """
    y, x = gaussian_parts("structure_tensor", kernel_size, sigma, 4.0, "separable", input)
    if out is not None:
        check_out_dtype("structure_tensor", out, output_dtype)
        _structure_tensor2d_out(
            input, x, y, border_type, derivative=mode, padding=padding, value=value, algorithm=algorithm, out=out
        )
        return out
    return _structure_tensor2d(
        input,
        x,
        y,
        border_type,
        mode=mode,
        padding=padding,
        value=value,
        output_dtype=output_dtype,
        algorithm=algorithm,
    )


@public()
def thin_edges(
    input: Tensor,
    kernel_size: Optional[BroadcastingList2[int]] = None,
    sigma: Optional[Union[Tensor, Numbers]] = None,
    border_type: Border = "reflect",
    *,
    padding: Padding = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: PipelineAlgorithm = "auto",
) -> Tensor:
    """The edges of a smoothed image, one pixel thin: the gradient's magnitude on its ridges, 0 elsewhere.

    Args:
        input: image (..., H, W), as in `filter2d`.
        kernel_size: of the Gaussian, as in `gaussian_blur2d`.
        sigma: of the Gaussian, as in `gaussian_blur2d`.
        border_type: of every step, as in `filter2d`.
        padding: of every step, 'same' or 'valid'.
        value: pixel value outside for 'constant', in every step.
        output_dtype: dtype of the result, by default the input's.
        out: tensor that receives the result.
        algorithm: 'fused', one pass over the image; 'separable', a filter for each step, with the same bits; or
            'auto', the first of these that can serve the call.

    Returns:
        Tensor (..., H', W'); computed in float32 (float64 for float64 images) and rounded once.

    Raises:
        ValueError: for an even kernel, sigma <= 0, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `m = gaussian_sobel(input, kernel_size, sigma, border_type)`, set to 0 where m is not a maximum along the
        gradient. The two neighbours lie along the gradient's angle, rounded to 45 degrees, and are 0 outside the image.
        A maximum is larger than the first neighbour in raster order and not smaller than the second. Two thresholds and
        hysteresis turn these edges into Canny's.

    Source:
        J. Canny, A Computational Approach to Edge Detection, IEEE Trans. Pattern Anal. Mach. Intell. 8 (1986).

    Example:
        >>> thin_edges(torch.tensor([0.0, 0, 0, 1, 1, 1]).expand(3, 6), 3, 1.0)[1]
        tensor([0.0000, 0.0000, 2.9037, 0.0000, 0.0000, 0.0000])
    """
    y, x = gaussian_parts("thin_edges", kernel_size, sigma, 4.0, "separable", input)
    if out is not None:
        check_out_dtype("thin_edges", out, output_dtype)
        _thin_edges2d_out(input, x, y, border_type, padding=padding, value=value, algorithm=algorithm, out=out)
        return out
    return _thin_edges2d(
        input, x, y, border_type, padding=padding, value=value, output_dtype=output_dtype, algorithm=algorithm
    )
