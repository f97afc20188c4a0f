"""Gaussians of images: blur, downsampling, sharpening, band pass, Laplacian."""
# TorchScript reads these annotations; it knows Optional[...], not `... | None`, around its own list types.
# ruff: noqa: UP007, UP045

from typing import Optional, Union

import torch
from torch import Tensor

from torch_conv.functional._calls import check_out_dtype, public
from torch_conv.functional._composites import correlate2d, correlate2d_separable, correlate2d_sum, sum_dtype
from torch_conv.functional._gaussian_kernels import curvature_parts, difference_parts, gaussian_parts, unsharp_parts
from torch_conv.functional._types import (
    Border,
    BroadcastingList2,
    DerivativeAlgorithm,
    GaussianAlgorithm,
    Numbers,
    Padding,
    SeparableAlgorithm,
)

_filter2d_separable = torch.ops.torch_conv.filter2d_separable
_filter2d_separable_out = torch.ops.torch_conv.filter2d_separable_out
_unsharp_mask2d = torch.ops.torch_conv.unsharp_mask2d
_unsharp_mask2d_out = torch.ops.torch_conv.unsharp_mask2d_out


@public()
def gaussian_blur2d(
    input: Tensor,
    kernel_size: Optional[BroadcastingList2[int]] = None,
    sigma: Optional[Union[Tensor, Numbers]] = None,
    border_type: Border = "reflect",
    separable: bool = True,
    *,
    truncate: float = 4.0,
    padding: Padding = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: GaussianAlgorithm = "auto",
) -> Tensor:
    """Smooths an image with a sampled Gaussian.

    Args:
        input: image (..., H, W), as in `filter2d`.
        kernel_size: (ky, kx) or one number, odd; None takes 2 * int(truncate * sigma + 0.5) + 1, as scipy.
        sigma: standard deviation in pixels, > 0: a number, (sigma_y, sigma_x), or a tensor (1|B, 2) with a row per
            sample, which needs a `kernel_size`. The values of a tensor on a GPU are not checked. It must be given.
        border_type: as in `filter2d`.
        separable: two passes of one axis each; False takes one dense kernel, whose rounding differs slightly.
        truncate: radius of the kernel in standard deviations where `kernel_size` is None.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's.
        out: tensor that receives the result.
        algorithm: 'auto', 'separable', 'direct' or 'tensor_core', with the bits that `filter2d_separable` promises
            (`filter2d` for `separable=False`). 'auto' may take tensor cores for float16, bfloat16 and uint8 on CUDA.

    Returns:
        Tensor (..., H', W'), as `filter2d` returns it.

    Raises:
        ValueError: for an even kernel, sigma <= 0, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `filter2d(input, kernels.gaussian2d(kernel_size, sigma), border_type)`; kornia's function of this name.

    Example:
        >>> image = torch.zeros(1, 1, 3, 3)
        >>> image[0, 0, 1, 1] = 1
        >>> gaussian_blur2d(image, 3, 1.0, "constant")[0, 0]
        tensor([[0.0751, 0.1238, 0.0751],
                [0.1238, 0.2042, 0.1238],
                [0.0751, 0.1238, 0.0751]])
        >>> gaussian_blur2d(torch.ones(1, 3, 16, 16), sigma=2.0).shape  # a kernel of 17x17
        torch.Size([1, 3, 16, 16])
    """
    if algorithm not in ["auto", "separable", "direct", "tensor_core"]:  # public() puts the right name
        raise RuntimeError(
            f"filter2d: algorithm must be 'auto', 'separable', 'direct' or 'tensor_core', got '{algorithm}'"
        )
    passes = algorithm
    if algorithm == "auto" or algorithm == "tensor_core":
        passes = "separable" if separable else "direct"
    parts = gaussian_parts("gaussian_blur2d", kernel_size, sigma, truncate, passes, input)
    if len(parts) == 1:
        return correlate2d(input, parts[0], border_type, False, padding, value, output_dtype, out, algorithm)
    return correlate2d_separable(input, parts[0], parts[1], border_type, padding, value, output_dtype, out, algorithm)


@public()
def gaussian_downsample(
    input: Tensor,
    kernel_size: Optional[BroadcastingList2[int]] = None,
    sigma: Optional[Union[Tensor, Numbers]] = None,
    factor: int = 2,
    border_type: Border = "reflect",
    *,
    truncate: float = 4.0,
    padding: Padding = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: SeparableAlgorithm = "auto",
) -> Tensor:
    """Downsamples an image: a Gaussian blur, computed at every `factor`-th pixel of every `factor`-th row.

    Args:
        input: image (..., H, W), as in `filter2d`.
        kernel_size: as in `gaussian_blur2d`.
        sigma: as in `gaussian_blur2d`.
        factor: step between computed pixels along y and x, at least 1; the first row and column are computed.
        border_type: as in `filter2d`.
        truncate: as in `gaussian_blur2d`.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's.
        out: tensor that receives the result.
        algorithm: 'separable'; 'fused', for factor 2 with padding='same'; or 'auto', with the same bits. For factor 1
            the algorithms are those of `filter2d_separable`.

    Returns:
        Tensor (..., ceil(H' / factor), ceil(W' / factor)) where the blur has (..., H', W'), as `filter2d` returns it.

    Raises:
        ValueError: for an even kernel, sigma <= 0, factor < 1, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `gaussian_blur2d(input, kernel_size, sigma, border_type)[..., ::factor, ::factor]`

    Source:
        P. J. Burt and E. H. Adelson, The Laplacian Pyramid as a Compact Image Code, IEEE Trans. Commun. 31 (1983).

    Example:
        >>> gaussian_downsample(torch.ones(1, 3, 7, 8), 5, 1.0).shape
        torch.Size([1, 3, 4, 4])
    """
    if factor < 1:
        raise ValueError(f"gaussian_downsample: factor must be at least 1, got {factor}")
    parts = gaussian_parts("gaussian_downsample", kernel_size, sigma, truncate, "separable", input)
    if out is not None:
        check_out_dtype("gaussian_downsample", out, output_dtype)
        _filter2d_separable_out(
            input,
            parts[1],
            parts[0],
            border_type,
            False,
            padding,
            value=value,
            stride=[factor, factor],
            algorithm=algorithm,
            out=out,
        )
        return out
    return _filter2d_separable(
        input,
        parts[1],
        parts[0],
        border_type,
        False,
        padding,
        value=value,
        stride=[factor, factor],
        output_dtype=output_dtype,
        algorithm=algorithm,
    )


@public()
def unsharp_mask(
    input: Tensor,
    kernel_size: Optional[BroadcastingList2[int]] = None,
    sigma: Optional[Union[Tensor, Numbers]] = None,
    border_type: Border = "reflect",
    *,
    amount: float = 1.0,
    padding: Padding = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: DerivativeAlgorithm = "auto",
) -> Tensor:
    """Sharpens an image: adds the difference to its Gaussian blur.

    Args:
        input: image (..., H, W), as in `filter2d`.
        kernel_size: as in `gaussian_blur2d`.
        sigma: as in `gaussian_blur2d`.
        border_type: as in `filter2d`.
        amount: how much of the difference is added; 0 returns the image, 1 is kornia's.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's.
        out: tensor that receives the result.
        algorithm: 'direct', one dense kernel; 'fused', two passes of one axis each in one launch; 'separable', the same
            passes in two launches, with the same bits; or 'auto', the dense kernel up to 49 taps and passes beyond.

    Returns:
        Tensor (..., H', W'), as `filter2d` returns it; rounded once.

    Raises:
        ValueError: for an even kernel, sigma <= 0, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `input + amount * (input - gaussian_blur2d(input, kernel_size, sigma, border_type))`

    Example:
        >>> unsharp_mask(torch.tensor([[0.0, 0, 1, 1]]), (1, 3), 1.0)
        tensor([[ 0.0000, -0.2741,  1.2741,  1.0000]])
    """
    parts = unsharp_parts(kernel_size, sigma, amount, algorithm, input)
    if len(parts) == 1:
        return correlate2d(input, parts[0], border_type, False, padding, value, output_dtype, out, algorithm)
    if out is not None:
        check_out_dtype("unsharp_mask", out, output_dtype)
        _unsharp_mask2d_out(
            input,
            parts[1],
            parts[0],
            border_type,
            amount=amount,
            padding=padding,
            value=value,
            algorithm=algorithm,
            out=out,
        )
        return out
    return _unsharp_mask2d(
        input,
        parts[1],
        parts[0],
        border_type,
        amount=amount,
        padding=padding,
        value=value,
        output_dtype=output_dtype,
        algorithm=algorithm,
    )


@public()
def difference_of_gaussians(
    input: Tensor,
    low_sigma: Numbers,
    high_sigma: Optional[Numbers] = None,
    border_type: Border = "reflect",
    *,
    truncate: float = 4.0,
    padding: Padding = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: DerivativeAlgorithm = "auto",
) -> Tensor:
    """Band-passes an image: a narrow Gaussian blur minus a wide one.

    Args:
        input: image (..., H, W), as in `filter2d`. Unlike in skimage, integers are not scaled to [0, 1], and unsigned
            ones need a signed `output_dtype`.
        low_sigma: standard deviation of the narrow Gaussian in pixels, > 0: a number or (sigma_y, sigma_x).
        high_sigma: standard deviation of the wide Gaussian, at least `low_sigma`; by default 1.6 times `low_sigma`.
        border_type: as in `filter2d` (skimage's default is 'replicate').
        truncate: radius of each Gaussian in standard deviations.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's; unsigned images need a signed one.
        out: tensor that receives the result.
        algorithm: 'direct', one dense kernel; 'fused', two passes of one axis each in one launch; 'separable', the same
            passes in two launches, with the same bits; or 'auto', the dense kernel up to 49 taps and passes beyond.

    Returns:
        Tensor (..., H', W'), as `filter2d` returns it; rounded once.

    Raises:
        ValueError: for sigma <= 0, high_sigma < low_sigma, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `gaussian_blur2d(input, sigma=low_sigma) - gaussian_blur2d(input, sigma=high_sigma)`

    Source:
        D. Marr and E. Hildreth, Theory of Edge Detection, Proc. R. Soc. Lond. B 207 (1980), for the ratio 1.6.

    Example:
        >>> difference_of_gaussians(torch.ones(8, 8), 1.0).abs().max() < 1e-6
        tensor(True)
    """
    parts = difference_parts(low_sigma, high_sigma, truncate, algorithm, sum_dtype(input))
    return correlate2d_sum(input, parts, border_type, padding, value, output_dtype, out, algorithm)


@public()
def gaussian_laplace(
    input: Tensor,
    sigma: Numbers,
    border_type: Border = "reflect",
    *,
    truncate: float = 4.0,
    padding: Padding = "same",
    value: float = 0.0,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: DerivativeAlgorithm = "auto",
) -> Tensor:
    """The Laplacian of a Gaussian-smoothed image: the sum of the Gaussian's second derivatives.

    Args:
        input: image (..., H, W), as in `filter2d`.
        sigma: standard deviation in pixels, > 0: a number or (sigma_y, sigma_x).
        border_type: as in `filter2d` (scipy's default, which it calls 'reflect', is 'symmetric' here).
        truncate: radius of the kernel in standard deviations.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's; unsigned images need a signed one.
        out: tensor that receives the result.
        algorithm: 'direct', one dense kernel; 'fused', two passes of one axis each in one launch; 'separable', the same
            passes in two launches, with the same bits; or 'auto', the dense kernel up to 49 taps and passes beyond.

    Returns:
        Tensor (..., H', W'), as `filter2d` returns it; rounded once.

    Raises:
        ValueError: for sigma <= 0 or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `scipy.ndimage.gaussian_laplace(input, sigma, mode='mirror', truncate=truncate)`

    Example:
        >>> gaussian_laplace(torch.ones(8, 8), 1.0).shape
        torch.Size([8, 8])
    """
    parts = curvature_parts(sigma, truncate, algorithm, sum_dtype(input))
    return correlate2d_sum(input, parts, border_type, padding, value, output_dtype, out, algorithm)
