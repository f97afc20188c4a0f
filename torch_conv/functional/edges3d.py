"""Derivatives of volumes (..., D, H, W): gradients, and the gradient magnitude of a smoothed volume."""
# TorchScript reads these annotations; it knows Optional[...], not `... | None`, around its own list types.
# ruff: noqa: UP007, UP045

from typing import Optional, Union

import torch
from torch import Tensor

from torch_conv.functional._calls import check_out_dtype, public
from torch_conv.functional._composites import correlate_each, sum_dtype
from torch_conv.functional._derivative_kernels import gradient_kernels3d
from torch_conv.functional._gaussian_kernels import gaussian_parts3d
from torch_conv.functional._types import (
    Border,
    BroadcastingList3,
    Filter3dAlgorithm,
    GradientMode3d,
    Numbers3,
    Padding,
    PipelineAlgorithm,
)

_gaussian_gradient3d = torch.ops.torch_conv.gaussian_gradient3d
_gaussian_gradient3d_out = torch.ops.torch_conv.gaussian_gradient3d_out


@public()
def spatial_gradient3d(
    input: Tensor,
    mode: GradientMode3d = "diff",
    order: int = 1,
    *,
    border_type: Border = "replicate",
    padding: Padding = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: Filter3dAlgorithm = "auto",
) -> Tensor:
    """The first or second derivatives of a volume along x, y and z.

    Args:
        input: volume (..., D, H, W), as in `filter3d`.
        mode: 'diff', central differences; or, for order 1, 'sobel', which smooths them by (1, 2, 1) / 4 along the two
            other axes. kornia has no 'sobel' for volumes.
        order: 1 gives (d/dx, d/dy, d/dz); 2 gives (d2/dx2, d2/dy2, d2/dz2, d2/dxdy, d2/dydz, d2/dxdz). Their units
            are the volume's per voxel and per voxel squared, as kornia's.
        border_type: as in `filter3d`.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's; unsigned volumes need a signed one.
        out: tensor that receives the result.
        algorithm: 'auto' or 'direct'.

    Returns:
        Tensor (..., 3, D', H', W') for order 1, (..., 6, D', H', W') for order 2.

    Raises:
        ValueError: for an unknown mode or order, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `torch.stack([filter3d(input, k) for k in kernels], -4)`; for 'diff' `kernels[0]` is (-1/2, 0, 1/2) along x;
        kornia's function of this name for 'diff'.

    Example:
        >>> ramp = torch.arange(5.0).expand(1, 1, 5, 5, 5)
        >>> spatial_gradient3d(ramp)[0, 0, :, 2, 2, 2]
        tensor([1., 0., 0.])
    """
    if mode not in ["diff", "sobel"]:
        raise ValueError(f"spatial_gradient3d: mode must be 'diff' or 'sobel', got '{mode}'")
    if order not in [1, 2] or (order == 2 and mode == "sobel"):
        expected = "1 or 2" if mode == "diff" else "1"
        raise ValueError(f"spatial_gradient3d: order must be {expected} for mode '{mode}', got {order}")
    if input.dim() < 3:
        raise ValueError(f"spatial_gradient3d: input must have at least 3 dimensions, got {input.dim()}")
    kernels = gradient_kernels3d(mode, order, sum_dtype(input))
    return correlate_each(
        "spatial_gradient3d", input, kernels, border_type, padding, value, output_dtype, out, algorithm
    )


@public()
def gaussian_gradient_magnitude3d(
    input: Tensor,
    kernel_size: Optional[BroadcastingList3[int]] = None,
    sigma: Optional[Union[Tensor, Numbers3]] = None,
    border_type: Border = "replicate",
    *,
    mode: GradientMode3d = "diff",
    padding: Padding = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: PipelineAlgorithm = "auto",
) -> Tensor:
    """The magnitude of the gradient of a Gaussian-smoothed volume.

    Args:
        input: volume (..., D, H, W), as in `filter3d`.
        kernel_size: of the Gaussian, as in `gaussian_blur3d`; None takes 4 standard deviations on each side.
        sigma: of the Gaussian, as in `gaussian_blur3d`.
        border_type: of both steps, as in `filter3d`.
        mode: of the derivatives, 'diff' or 'sobel', as in `spatial_gradient3d`; per voxel.
        padding: of both steps, 'same' or 'valid'.
        value: pixel value outside for 'constant', in both steps.
        output_dtype: dtype of the result, by default the input's.
        out: tensor that receives the result.
        algorithm: 'fused', one pass over the volume, on CUDA; 'separable', a filter for each step, with the same bits;
            or 'auto', the first of these that can serve the call.

    Returns:
        Tensor (..., D', H', W'); computed in float32 (float64 for float64 volumes) and rounded once.

    Raises:
        ValueError: for an even kernel, sigma <= 0, an unknown mode, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `spatial_gradient3d(gaussian_blur3d(input, kernel_size, sigma), mode).square().sum(-4).sqrt()`

    Example:
        >>> ramp = 3.0 * torch.arange(9.0).expand(1, 1, 9, 9, 9)
        >>> gaussian_gradient_magnitude3d(ramp, 3, 1.0)[0, 0, 4, 4, 4]
        tensor(3.)
    """
    name = "gaussian_gradient_magnitude3d"
    z, y, x = gaussian_parts3d(name, kernel_size, sigma, 4.0, "separable", input)
    if out is not None:
        check_out_dtype(name, out, output_dtype)
        _gaussian_gradient3d_out(
            input, x, y, z, border_type, derivative=mode, padding=padding, value=value, algorithm=algorithm, out=out
        )
        return out
    return _gaussian_gradient3d(
        input,
        x,
        y,
        z,
        border_type,
        mode=mode,
        padding=padding,
        value=value,
        output_dtype=output_dtype,
        algorithm=algorithm,
    )
