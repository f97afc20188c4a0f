"""Derivatives: gradients, their magnitude, Laplacians."""
# TorchScript reads these annotations; it knows Optional[...], not `... | None`, around its own list types.
# ruff: noqa: UP007, UP045

from typing import Optional, Union

import torch
from torch import Tensor

from torch_conv.functional._calls import public
from torch_conv.functional._composites import one_window, rounded, sum_dtype, sum_of_products, windows_per_plane
from torch_conv.functional._stencils import gradient_windows, laplacian_taps
from torch_conv.functional._types import BroadcastingList2
from torch_conv.functional._windows import gaussian_parts, odd_sizes


@public(keyword_only="border_type")
def spatial_gradient(
    input: Tensor,
    mode: str = "sobel",
    order: int = 1,
    normalized: bool = True,
    border_type: str = "replicate",
    padding: str = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: str = "auto",
) -> Tensor:
    """The first or second derivatives of an image along x and y.

    Args:
        input: image (..., H, W), as in `filter2d`.
        mode: 'sobel' or 'diff' (central differences); for order 1 also 'scharr' or 'prewitt'.
        order: 1 gives (d/dx, d/dy); 2 gives (d2/dx2, d2/dxdy, d2/dy2).
        normalized: divide the raw integer windows by the sum of their |taps| (order 1: sobel 8, diff 2, scharr 32,
            prewitt 6) or by their response to a unit second derivative (order 2: sobel 64, diff 1, 4, 1), as kornia.
        border_type: as in `filter2d`.
        padding: 'same' or 'valid'.
        value: what 'constant' reads outside.
        output_dtype: dtype of the result, by default the input's; unsigned images want one with a sign.
        out: tensor that receives the result.
        algorithm: 'auto' or 'direct'.

    Returns:
        Tensor (..., 2, H', W') for order 1, (..., 3, H', W') for order 2.

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
    if mode not in ["sobel", "diff", "scharr", "prewitt"]:
        raise ValueError(f"spatial_gradient: mode must be 'sobel', 'diff', 'scharr' or 'prewitt', got '{mode}'")
    if order not in [1, 2] or (order == 2 and mode not in ["sobel", "diff"]):
        expected = "1 or 2" if mode in ["sobel", "diff"] else "1"
        raise ValueError(f"spatial_gradient: order must be {expected} for mode '{mode}', got {order}")
    if input.dim() < 2:
        raise ValueError(f"spatial_gradient: input must have at least 2 dimensions, got {input.dim()}")
    windows = torch.stack(gradient_windows(mode, order, normalized, sum_dtype(input)))
    return windows_per_plane(
        "spatial_gradient", input, windows, border_type, padding, value, output_dtype, out, algorithm
    )


@public(keyword_only="border_type")
def sobel(
    input: Tensor,
    normalized: bool = True,
    eps: float = 1e-6,
    border_type: str = "replicate",
    padding: str = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: str = "auto",
) -> Tensor:
    """The magnitude of the Sobel gradient, sqrt(gx^2 + gy^2 + eps).

    Args:
        input: image (..., H, W), as in `filter2d`.
        normalized: divide the windows by 8.
        eps: keeps the root's slope finite at 0.
        border_type: as in `filter2d`.
        padding: 'same' or 'valid'.
        value: what 'constant' reads outside.
        output_dtype: dtype of the result, by default the input's.
        out: tensor that receives the result.
        algorithm: 'auto' or 'direct'.

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
    gx, gy = _sobel_pair(input, normalized, border_type, padding, value, algorithm)
    return rounded((gx * gx + gy * gy + eps).sqrt(), input, output_dtype, out)


@public(keyword_only="magnitude")
def gaussian_sobel(
    input: Tensor,
    kernel_size: Optional[BroadcastingList2[int]],
    sigma: Union[Tensor, float, tuple[float, float]],
    border_type: str = "reflect",
    magnitude: str = "l2",
    padding: str = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: str = "auto",
) -> Tensor:
    """The magnitude of the raw Sobel gradient of a Gaussian-smoothed image.

    Args:
        input: image (..., H, W), as in `filter2d`.
        kernel_size: of the Gaussian, as in `gaussian_blur2d`.
        sigma: of the Gaussian, as in `gaussian_blur2d`.
        border_type: of both steps, as in `filter2d`.
        magnitude: 'l2', sqrt(gx^2 + gy^2), or 'l1', |gx| + |gy|.
        padding: of both steps, 'same' or 'valid'.
        value: what 'constant' reads outside, in both steps.
        output_dtype: dtype of the result, by default the input's.
        out: tensor that receives the result.
        algorithm: 'auto', the only one.

    Returns:
        Tensor (..., H', W'); computed in float32 (float64 for float64 images) and rounded once.

    Raises:
        ValueError: for an even window, sigma <= 0, an unknown magnitude, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `sobel(gaussian_blur2d(input, kernel_size, sigma, border_type), False, 0.0, border_type=border_type)`

    Example:
        >>> gaussian_sobel(torch.ones(8, 8), 3, 1.0).shape
        torch.Size([8, 8])
    """
    if magnitude not in ["l1", "l2"]:
        raise ValueError(f"gaussian_sobel: magnitude must be 'l1' or 'l2', got '{magnitude}'")
    if algorithm != "auto":
        raise ValueError(f"gaussian_sobel: algorithm must be 'auto', got '{algorithm}'")
    dtype = sum_dtype(input)
    parts = gaussian_parts("gaussian_sobel", kernel_size, sigma, 4.0, "separable", dtype)
    blurred = sum_of_products(input, parts, border_type, padding, value, dtype, None, algorithm)
    gx, gy = _sobel_pair(blurred, False, border_type, padding, value, algorithm)
    total = gx.abs() + gy.abs() if magnitude == "l1" else (gx * gx + gy * gy).sqrt()
    return rounded(total, input, output_dtype, out)


def _sobel_pair(
    input: Tensor, normalized: bool, border_type: str, padding: str, value: float, algorithm: str
) -> tuple[Tensor, Tensor]:
    dtype = sum_dtype(input)
    windows = gradient_windows("sobel", 1, normalized, dtype)
    gx = one_window(input, windows[0], border_type, False, padding, value, dtype, None, algorithm)
    gy = one_window(input, windows[1], border_type, False, padding, value, dtype, None, algorithm)
    return gx, gy


@public(keyword_only="variant")
def laplacian(
    input: Tensor,
    kernel_size: BroadcastingList2[int],
    border_type: str = "reflect",
    normalized: bool = True,
    variant: str = "box",
    padding: str = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: str = "auto",
) -> Tensor:
    """A discrete Laplacian of an image.

    Args:
        input: image (..., H, W), as in `filter2d`.
        kernel_size: (ky, kx) or one number, odd and at least 3 along one axis; 3 for every variant but 'box'.
        border_type: as in `filter2d`.
        normalized: divide by the sum of the |taps|.
        variant: 'box' (ones, and 1 - ky * kx in the middle, as kornia), '4' (the 5-point stencil), '8' (the 9-point
            stencil) or 'opencv3' (`cv2.Laplacian` with ksize=3).
        padding: 'same' or 'valid'.
        value: what 'constant' reads outside.
        output_dtype: dtype of the result, by default the input's; unsigned images want one with a sign.
        out: tensor that receives the result.
        algorithm: 'auto' or 'direct'.

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
    window = laplacian_taps(sizes[0], sizes[1], variant, sum_dtype(input))
    return one_window(input, window, border_type, normalized, padding, value, output_dtype, out, algorithm)
