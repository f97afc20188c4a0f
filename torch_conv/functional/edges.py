"""Derivatives of images: gradients, their magnitude, Laplacians."""
# TorchScript reads these annotations; it knows Optional[...], not `... | None`, around its own list types.
# ruff: noqa: UP007, UP045

from typing import Optional, Union

import torch
from torch import Tensor

from torch_conv.functional._calls import check_out_dtype, public
from torch_conv.functional._composites import (
    correlate2d,
    correlate_each,
    refuse_overlap,
    root,
    sum_dtype,
    sum_of_squares,
)
from torch_conv.functional._derivative_kernels import gradient_kernels, laplacian_taps
from torch_conv.functional._gaussian_kernels import gaussian_parts
from torch_conv.functional._kernel_arguments import odd_sizes
from torch_conv.functional._types import (
    Border,
    BroadcastingList2,
    DerivativeAlgorithm,
    FilterAlgorithm,
    GradientMode,
    LaplacianVariant,
    Magnitude,
    Numbers,
    Padding,
    PipelineAlgorithm,
)

_gradient2d = torch.ops.torch_conv.gradient2d
_gradient2d_out = torch.ops.torch_conv.gradient2d_out
_sobel2d = torch.ops.torch_conv.sobel2d
_sobel2d_out = torch.ops.torch_conv.sobel2d_out
_gaussian_sobel2d = torch.ops.torch_conv.gaussian_sobel2d
_gaussian_sobel2d_out = torch.ops.torch_conv.gaussian_sobel2d_out


@public()
def spatial_gradient(
    input: Tensor,
    mode: GradientMode = "sobel",
    order: int = 1,
    normalized: bool = True,
    *,
    border_type: Border = "replicate",
    padding: Padding = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: DerivativeAlgorithm = "auto",
) -> Tensor:
    """The first or second derivatives of an image along x and y.

    Args:
        input: image (..., H, W), as in `filter2d`.
        mode: 'sobel' or 'diff' (central differences); for order 1 also 'scharr' or 'prewitt'.
        order: 1 gives (d/dx, d/dy); 2 gives (d2/dx2, d2/dxdy, d2/dy2).
        normalized: divide the integer taps as kornia does: for order 1 by the sum of their magnitudes (sobel 8, diff 2,
            scharr 32, prewitt 6), for order 2 by the response to a unit second derivative (sobel 64, diff 1, 4, 1).
        border_type: as in `filter2d`.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's; unsigned images need a signed one.
        out: tensor that receives the result.
        algorithm: 'fused', one pass over the image for all derivatives; 'separable', a separable filter for each, with
            the same bits; 'direct', `filter2d` for each; or 'auto', the first of these that can serve the call.

    Returns:
        Tensor (..., 2, H', W') for order 1, (..., 3, H', W') for order 2; contiguous.

    Raises:
        ValueError: for an unknown mode or order, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `torch.stack([filter2d(input, w, 'replicate', normalized) for w in (sobel_x(), sobel_y())], -3)`

    Example:
        >>> ramp = torch.arange(5.0).expand(1, 1, 5, 5)
        >>> spatial_gradient(ramp)[0, 0, :, 2, 2]
        tensor([1., 0.])
    """
    _check_algorithm("spatial_gradient", algorithm)
    if algorithm == "direct":
        return _gradient_by_kernels(input, mode, order, normalized, border_type, padding, value, output_dtype, out)
    if out is not None:
        check_out_dtype("spatial_gradient", out, output_dtype)
        _gradient2d_out(
            input,
            mode,
            order,
            normalized,
            border_type=border_type,
            padding=padding,
            value=value,
            algorithm=algorithm,
            out=out,
        )
        return out
    return _gradient2d(
        input,
        mode,
        order,
        normalized,
        border_type=border_type,
        padding=padding,
        value=value,
        output_dtype=output_dtype,
        algorithm=algorithm,
    )


def _check_algorithm(name: str, algorithm: str) -> None:
    if algorithm not in ["auto", "direct", "fused", "separable"]:
        raise ValueError(f"{name}: algorithm must be 'auto', 'direct', 'fused' or 'separable', got '{algorithm}'")


def _gradient_by_kernels(
    input: Tensor,
    mode: str,
    order: int,
    normalized: bool,
    border_type: str,
    padding: str,
    value: float,
    output_dtype: Optional[torch.dtype],
    out: Optional[Tensor],
) -> Tensor:
    if mode not in ["sobel", "diff", "scharr", "prewitt"]:
        raise ValueError(f"spatial_gradient: mode must be 'sobel', 'diff', 'scharr' or 'prewitt', got '{mode}'")
    if order not in [1, 2] or (order == 2 and mode not in ["sobel", "diff"]):
        expected = "1 or 2" if mode in ["sobel", "diff"] else "1"
        raise ValueError(f"spatial_gradient: order must be {expected} for mode '{mode}', got {order}")
    if input.dim() < 2:
        raise ValueError(f"spatial_gradient: input must have at least 2 dimensions, got {input.dim()}")
    kernels = gradient_kernels(mode, order, normalized, sum_dtype(input))
    return correlate_each("spatial_gradient", input, kernels, border_type, padding, value, output_dtype, out, "direct")


@public()
def sobel(
    input: Tensor,
    normalized: bool = True,
    eps: float = 1e-6,
    *,
    border_type: Border = "replicate",
    padding: Padding = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: DerivativeAlgorithm = "auto",
) -> Tensor:
    """The magnitude of the Sobel gradient, sqrt(gx^2 + gy^2 + eps).

    Args:
        input: image (..., H, W), as in `filter2d`.
        normalized: divide the taps by 8.
        eps: number under the root, which keeps its slope finite at 0.
        border_type: as in `filter2d`.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's.
        out: tensor that receives the result.
        algorithm: 'fused', one pass over the image; 'separable', a filter for each step, with the same bits; 'direct',
            `filter2d` for each derivative; or 'auto', the first of these that can serve the call.

    Returns:
        Tensor (..., H', W'); computed in float32 (float64 for float64 images) and rounded once.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `(spatial_gradient(input, 'sobel', 1, normalized).square().sum(-3) + eps).sqrt()`

    Example:
        >>> ramp = torch.arange(5.0).expand(1, 1, 5, 5)
        >>> sobel(ramp)[0, 0, 2, 2]
        tensor(1.0000)
    """
    _check_algorithm("sobel", algorithm)
    if algorithm == "direct":
        return _sobel_by_kernels(input, normalized, eps, border_type, padding, value, output_dtype, out)
    if out is not None:
        check_out_dtype("sobel", out, output_dtype)
        _sobel2d_out(
            input, normalized, eps, border_type=border_type, padding=padding, value=value, algorithm=algorithm, out=out
        )
        return out
    return _sobel2d(
        input,
        normalized,
        eps,
        border_type=border_type,
        padding=padding,
        value=value,
        output_dtype=output_dtype,
        algorithm=algorithm,
    )


def _sobel_by_kernels(
    input: Tensor,
    normalized: bool,
    eps: float,
    border_type: str,
    padding: str,
    value: float,
    output_dtype: Optional[torch.dtype],
    out: Optional[Tensor],
) -> Tensor:
    sums = sum_dtype(input)
    kernels = gradient_kernels("sobel", 1, normalized, sums)
    gx = correlate2d(input, kernels[0], border_type, False, padding, value, sums, None, "direct")
    gy = correlate2d(input, kernels[1], border_type, False, padding, value, sums, None, "direct")
    dtype = output_dtype
    if out is not None and not torch.jit.is_scripting():
        refuse_overlap(input, out)
    if out is None and output_dtype is None:
        dtype = input.dtype
    # A filter of one tap rounds.
    one = torch.ones(1, 1, device="cpu")
    length = _root_of(sum_of_squares([gx, gy]) + eps)
    return correlate2d(length, one, "reflect", False, "same", 0.0, dtype, out, "auto")


def _root_of(squares: Tensor) -> Tensor:
    if not torch.jit.is_scripting():  # noqa: SIM102 (TorchScript skips what is under this condition alone)
        if not isinstance(squares, Tensor):  # shards, which have no gradient
            return squares.sqrt()
    return root(squares)


@public()
def gaussian_sobel(
    input: Tensor,
    kernel_size: Optional[BroadcastingList2[int]] = None,
    sigma: Optional[Union[Tensor, Numbers]] = None,
    border_type: Border = "reflect",
    *,
    magnitude: Magnitude = "l2",
    padding: Padding = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: PipelineAlgorithm = "auto",
) -> Tensor:
    """The magnitude of the raw Sobel gradient of a Gaussian-smoothed image.

    Args:
        input: image (..., H, W), as in `filter2d`.
        kernel_size: of the Gaussian, as in `gaussian_blur2d`.
        sigma: of the Gaussian, as in `gaussian_blur2d`.
        border_type: of both steps, as in `filter2d`.
        magnitude: 'l2', sqrt(gx^2 + gy^2), or 'l1', |gx| + |gy|.
        padding: of both steps, 'same' or 'valid'.
        value: pixel value outside for 'constant', in both steps.
        output_dtype: dtype of the result, by default the input's.
        out: tensor that receives the result.
        algorithm: 'auto', 'fused' or 'separable', as in `sobel`.

    Returns:
        Tensor (..., H', W'); computed in float32 (float64 for float64 images) and rounded once.

    Raises:
        ValueError: for an even kernel, sigma <= 0, an unknown magnitude, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `sobel(gaussian_blur2d(input, kernel_size, sigma, border_type), False, 0.0, border_type=border_type)`,
        of integers and half precision with the blurred image in float32

    Example:
        >>> gaussian_sobel(torch.ones(8, 8), 3, 1.0).shape
        torch.Size([8, 8])
    """
    y, x = gaussian_parts("gaussian_sobel", kernel_size, sigma, 4.0, "separable", input)
    if out is not None:
        check_out_dtype("gaussian_sobel", out, output_dtype)
        _gaussian_sobel2d_out(
            input, x, y, border_type, magnitude=magnitude, padding=padding, value=value, algorithm=algorithm, out=out
        )
        return out
    return _gaussian_sobel2d(
        input,
        x,
        y,
        border_type,
        magnitude=magnitude,
        padding=padding,
        value=value,
        output_dtype=output_dtype,
        algorithm=algorithm,
    )


@public()
def laplacian(
    input: Tensor,
    kernel_size: BroadcastingList2[int],
    border_type: Border = "reflect",
    normalized: bool = True,
    *,
    variant: LaplacianVariant = "box",
    padding: Padding = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: FilterAlgorithm = "auto",
) -> Tensor:
    """A discrete Laplacian of an image.

    Args:
        input: image (..., H, W), as in `filter2d`.
        kernel_size: (ky, kx) or one number, odd and at least 3 along one axis; 3 for every variant but 'box'.
        border_type: as in `filter2d`.
        normalized: divide by the sum of the |taps|.
        variant: 'box' (ones, and 1 - ky * kx in the middle, as in kornia), '4' (the 5-point stencil), '8' (the 9-point
            stencil) or 'opencv3' (`cv2.Laplacian` with ksize=3).
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's; unsigned images need a signed one.
        out: tensor that receives the result.
        algorithm: as in `filter2d`.

    Returns:
        Tensor (..., H', W'), as `filter2d` returns it.

    Raises:
        ValueError: for an unknown variant, a size it does not come in, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `filter2d(input, kernels.laplacian(kernel_size, variant=variant), border_type, normalized)`

    Example:
        >>> bowl = (torch.arange(5.0) - 2).square().expand(1, 1, 5, 5)
        >>> laplacian(bowl, 3, normalized=False, variant="4")[0, 0, 2, 2]
        tensor(2.)
    """
    sizes = odd_sizes("laplacian", kernel_size, 2)
    kernel = laplacian_taps(sizes[0], sizes[1], variant, sum_dtype(input))
    return correlate2d(input, kernel, border_type, normalized, padding, value, output_dtype, out, algorithm)
