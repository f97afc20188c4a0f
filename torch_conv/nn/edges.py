"""Derivatives of images: gradients, their magnitude, Laplacians."""

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_conv.functional._types import (
    Border,
    DerivativeAlgorithm,
    FilterAlgorithm,
    GradientMode,
    LaplacianVariant,
    Padding,
)
from torch_conv.functional.edges import laplacian, sobel, spatial_gradient
from torch_conv.nn._options import Options


class Sobel(Options):
    """The magnitude of the Sobel gradient of every plane of an image.

    Args:
        normalized: divide the taps by 8.
        eps: number under the root, which keeps its slope finite at 0.
        border_type: as in `torch_conv.filter2d`.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's.
        algorithm: as in `torch_conv.sobel`.

    Shape:
        Image (..., H, W) of a dtype that `torch_conv.filter2d` takes, to (..., H', W').

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `torch_conv.sobel(input, normalized, eps)`; kornia's module of this name.

    Example:
        >>> Sobel()(torch.arange(5.0).expand(1, 1, 5, 5))[0, 0, 2]
        tensor([0.5000, 1.0000, 1.0000, 1.0000, 0.5000])
    """

    def __init__(
        self,
        normalized: bool = True,
        eps: float = 1e-6,
        *,
        border_type: Border = "replicate",
        padding: Padding = "same",
        value: float = 0.0,
        output_dtype: torch.dtype | None = None,
        algorithm: DerivativeAlgorithm = "auto",
    ) -> None:
        super().__init__()
        self.keep_options(locals())
        self.check_options(2)

    def forward(self, input: Tensor) -> Tensor:
        return sobel(
            input,
            self.normalized,
            self.eps,
            border_type=self.border_type,
            padding=self.padding,
            value=self.value,
            output_dtype=self.output_dtype,
            algorithm=self.algorithm,
        )


class SpatialGradient(Options):
    """The derivatives of every plane of an image, of first or second order.

    Args:
        mode: 'sobel' or 'diff' (central differences); for order 1 also 'scharr' or 'prewitt'.
        order: 1 gives (d/dx, d/dy); 2 gives (d2/dx2, d2/dxdy, d2/dy2).
        normalized: divide the integer taps, as in `torch_conv.spatial_gradient`.
        border_type: as in `torch_conv.filter2d`.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's; unsigned images need a signed one.
        algorithm: as in `torch_conv.spatial_gradient`.

    Shape:
        Image (..., H, W) of a dtype that `torch_conv.filter2d` takes, to (..., 2|3, H', W').

    Raises:
        ValueError: for an unknown mode or order, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `torch_conv.spatial_gradient(input, mode, order, normalized)`; kornia's module of this name.

    Example:
        >>> SpatialGradient()(torch.arange(5.0).expand(1, 1, 5, 5))[0, 0, :, 2]
        tensor([[0.5000, 1.0000, 1.0000, 1.0000, 0.5000],
                [0.0000, 0.0000, 0.0000, 0.0000, 0.0000]])
    """

    def __init__(
        self,
        mode: GradientMode = "sobel",
        order: int = 1,
        normalized: bool = True,
        *,
        border_type: Border = "replicate",
        padding: Padding = "same",
        value: float = 0.0,
        output_dtype: torch.dtype | None = None,
        algorithm: DerivativeAlgorithm = "auto",
    ) -> None:
        super().__init__()
        self.keep_options(locals())
        self.check_options(2)

    def forward(self, input: Tensor) -> Tensor:
        return spatial_gradient(
            input,
            self.mode,
            self.order,
            self.normalized,
            border_type=self.border_type,
            padding=self.padding,
            value=self.value,
            output_dtype=self.output_dtype,
            algorithm=self.algorithm,
        )


class Laplacian(Options):
    """The sum of second derivatives of every plane of an image.

    Args:
        kernel_size: (ky, kx) or one number, odd, at least 3 along one axis.
        border_type: as in `torch_conv.filter2d`.
        normalized: divide by the sum of the |taps|.
        variant: 'box', or a fixed 3x3 kernel, as in `torch_conv.laplacian`.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's; unsigned images need a signed one.
        algorithm: as in `torch_conv.laplacian`.

    Shape:
        Image (..., H, W) of a dtype that `torch_conv.filter2d` takes, to (..., H', W').

    Raises:
        ValueError: for an even kernel, an unknown variant, or a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `torch_conv.laplacian(input, kernel_size, border_type, normalized)`; kornia's module of this name.

    Example:
        >>> image = torch.zeros(3, 3)
        >>> image[1, 1] = 1
        >>> Laplacian(3, "constant", False)(image)
        tensor([[ 1.,  1.,  1.],
                [ 1., -8.,  1.],
                [ 1.,  1.,  1.]])
    """

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        border_type: Border = "reflect",
        normalized: bool = True,
        *,
        variant: LaplacianVariant = "box",
        padding: Padding = "same",
        value: float = 0.0,
        output_dtype: torch.dtype | None = None,
        algorithm: FilterAlgorithm = "auto",
    ) -> None:
        super().__init__()
        self.keep_options(locals())
        self.check_options(2)

    def forward(self, input: Tensor) -> Tensor:
        return laplacian(
            input,
            self.kernel_size,
            self.border_type,
            self.normalized,
            variant=self.variant,
            padding=self.padding,
            value=self.value,
            output_dtype=self.output_dtype,
            algorithm=self.algorithm,
        )
