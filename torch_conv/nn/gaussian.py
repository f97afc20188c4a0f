"""Gaussians, and the unsharp mask."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from torch_conv.functional._types import Border, DerivativeAlgorithm, Gaussian3dAlgorithm, GaussianAlgorithm, Padding
from torch_conv.functional.smooth import gaussian_blur2d, unsharp_mask
from torch_conv.functional.volumes import gaussian_blur3d
from torch_conv.nn._options import Options, as_float


class _Gaussian(Options):
    def keep_sigma(self, sigma: Any) -> None:
        """A tensor becomes a buffer outside the `state_dict`, because kornia's modules have no such entry."""
        if isinstance(sigma, Tensor) and not isinstance(sigma, nn.Parameter):
            self.register_buffer("sigma", sigma, persistent=False)
        else:
            self.sigma = tuple(map(as_float, sigma)) if isinstance(sigma, (list, tuple)) else as_float(sigma)


class GaussianBlur2d(_Gaussian):
    """Smooths an image with a sampled Gaussian.

    Args:
        kernel_size: (ky, kx) or one number, odd; None takes 2 * int(truncate * sigma + 0.5) + 1, as scipy.
        sigma: standard deviation in pixels, > 0: a number, (sigma_y, sigma_x), or a tensor (1|B, 2) with a row per
            sample, which needs a `kernel_size`. A tensor moves with the module but is not in its `state_dict`, unless
            it is a `torch.nn.Parameter`. The values of a tensor on a GPU are not checked. It must be given.
        border_type: as in `torch_conv.filter2d`.
        separable: two passes of one axis each; False takes one dense kernel, whose rounding differs slightly.
        truncate: radius of the kernel in standard deviations where `kernel_size` is None.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's.
        algorithm: as in `torch_conv.gaussian_blur2d`.

    Shape:
        Image (..., H, W) of a dtype that `torch_conv.filter2d` takes, to (..., H', W').

    Raises:
        ValueError: for an even kernel, sigma <= 0, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `torch_conv.gaussian_blur2d(input, kernel_size, sigma, border_type, separable)`; kornia's module of this name.

    Example:
        >>> image = torch.zeros(1, 1, 3, 3)
        >>> image[0, 0, 1, 1] = 1
        >>> GaussianBlur2d((3, 3), (1.0, 1.0), "constant")(image)[0, 0]
        tensor([[0.0751, 0.1238, 0.0751],
                [0.1238, 0.2042, 0.1238],
                [0.0751, 0.1238, 0.0751]])
        >>> GaussianBlur2d(sigma=2.0)(torch.ones(1, 3, 16, 16)).shape  # a kernel of 17x17
        torch.Size([1, 3, 16, 16])
    """

    def __init__(
        self,
        kernel_size: int | Sequence[int] | None = None,
        sigma: float | Sequence[float] | Tensor | None = None,
        border_type: Border = "reflect",
        separable: bool = True,
        *,
        truncate: float = 4.0,
        padding: Padding = "same",
        value: float = 0.0,
        output_dtype: torch.dtype | None = None,
        algorithm: GaussianAlgorithm = "auto",
    ) -> None:
        super().__init__()
        self.keep_options(locals())
        self.keep_sigma(sigma)
        self.check_options(2, sigma)

    def forward(self, input: Tensor) -> Tensor:
        return gaussian_blur2d(
            input,
            self.kernel_size,
            self.sigma,
            self.border_type,
            self.separable,
            truncate=self.truncate,
            padding=self.padding,
            value=self.value,
            output_dtype=self.output_dtype,
            algorithm=self.algorithm,
        )


class GaussianBlur3d(_Gaussian):
    """Smooths a volume with a sampled Gaussian.

    Args:
        kernel_size: (kz, ky, kx) or one number, odd; None takes 2 * int(truncate * sigma + 0.5) + 1, as scipy.
        sigma: standard deviation in voxels, > 0: a number, (sigma_z, sigma_y, sigma_x), or a tensor (1|B, 3) with a
            row per sample, as in `GaussianBlur2d`. Voxels that are no cubes need a number per axis. It must be given.
        border_type: as in `torch_conv.filter3d`.
        truncate: radius of the kernel in standard deviations where `kernel_size` is None.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's.
        algorithm: as in `torch_conv.gaussian_blur3d`.

    Shape:
        Volume (..., D, H, W) of a dtype that `torch_conv.filter3d` takes, to (..., D', H', W').

    Raises:
        ValueError: for an even kernel, sigma <= 0, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `torch_conv.gaussian_blur3d(input, kernel_size, sigma, border_type)`

    Example:
        >>> GaussianBlur3d((1, 3, 5), (1.0, 1.0, 1.5))(torch.rand(1, 1, 8, 8, 8)).shape
        torch.Size([1, 1, 8, 8, 8])
    """

    def __init__(
        self,
        kernel_size: int | Sequence[int] | None = None,
        sigma: float | Sequence[float] | Tensor | None = None,
        border_type: Border = "replicate",
        *,
        truncate: float = 4.0,
        padding: Padding = "same",
        value: float = 0.0,
        output_dtype: torch.dtype | None = None,
        algorithm: Gaussian3dAlgorithm = "auto",
    ) -> None:
        super().__init__()
        self.keep_options(locals())
        self.keep_sigma(sigma)
        self.check_options(3, sigma)

    def forward(self, input: Tensor) -> Tensor:
        return gaussian_blur3d(
            input,
            self.kernel_size,
            self.sigma,
            self.border_type,
            truncate=self.truncate,
            padding=self.padding,
            value=self.value,
            output_dtype=self.output_dtype,
            algorithm=self.algorithm,
        )


class UnsharpMask(_Gaussian):
    """Sharpens an image: adds the difference to its Gaussian blur.

    Args:
        kernel_size: of the Gaussian, as in `GaussianBlur2d`.
        sigma: of the Gaussian, as in `GaussianBlur2d`.
        border_type: as in `torch_conv.filter2d`.
        amount: how much of the difference is added; 0 returns the image, 1 is kornia's.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's.
        algorithm: as in `torch_conv.unsharp_mask`.

    Shape:
        Image (..., H, W) of a dtype that `torch_conv.filter2d` takes, to (..., H', W').

    Raises:
        ValueError: for an even kernel, sigma <= 0, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `torch_conv.unsharp_mask(input, kernel_size, sigma, border_type)`; kornia's module of this name.

    Example:
        >>> UnsharpMask((1, 3), 1.0)(torch.tensor([[0.0, 0, 1, 1]]))
        tensor([[ 0.0000, -0.2741,  1.2741,  1.0000]])
    """

    def __init__(
        self,
        kernel_size: int | Sequence[int] | None = None,
        sigma: float | Sequence[float] | Tensor | None = None,
        border_type: Border = "reflect",
        *,
        amount: float = 1.0,
        padding: Padding = "same",
        value: float = 0.0,
        output_dtype: torch.dtype | None = None,
        algorithm: DerivativeAlgorithm = "auto",
    ) -> None:
        super().__init__()
        self.keep_options(locals())
        self.keep_sigma(sigma)
        self.check_options(2, sigma)

    def forward(self, input: Tensor) -> Tensor:
        return unsharp_mask(
            input,
            self.kernel_size,
            self.sigma,
            self.border_type,
            amount=self.amount,
            padding=self.padding,
            value=self.value,
            output_dtype=self.output_dtype,
            algorithm=self.algorithm,
        )
