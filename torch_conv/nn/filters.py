"""Filters that hold their kernel, and the box."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from torch_conv.dispatch.remedies import no_tensor
from torch_conv.functional._types import Behaviour, Border, BoxAlgorithm, Filter3dAlgorithm, FilterAlgorithm, Padding
from torch_conv.functional.filters import box_blur, filter2d
from torch_conv.functional.volumes import filter3d
from torch_conv.nn._options import Options


class _KernelFilter(Options):
    """A filter that holds its kernel."""

    kernel: Tensor

    def hold_kernel(self, kernel: Tensor, axes: int, forward: Callable[[Tensor, Tensor], Tensor]) -> None:
        """Checks the arguments with a kernel of this shape on the CPU, and registers `kernel`."""
        name = f"Filter{axes}d"
        if not isinstance(kernel, Tensor):
            raise no_tensor(name, "kernel", kernel)
        # Only the call knows the samples and channels of the image.
        leading = max(kernel.dim() - axes, 0)
        like = torch.zeros((1,) * leading + tuple(kernel.shape[leading:]), dtype=kernel.dtype, device="cpu")
        self.check_options(axes, forward=lambda image: forward(image, like))
        if isinstance(kernel, nn.Parameter):
            self.kernel = kernel
        else:
            self.register_buffer("kernel", kernel)


class Filter2d(_KernelFilter):
    """Correlates every plane of an image with a kernel that the module holds.

    Args:
        kernel: taps (kH, kW), (1|B, kH, kW) or (1|B, 1|C, kH, kW), as in `torch_conv.filter2d`. A tensor becomes a
            buffer, a `torch.nn.Parameter` stays one; both are in the `state_dict`. `.half()` casts it with the rest of
            the module; a float32 kernel also serves float16 images.
        border_type: as in `torch_conv.filter2d`.
        normalized: divide by the sum of the |taps|.
        padding: 'same' or 'valid'.
        behaviour: 'corr', or 'conv', which flips the kernel.
        value: pixel value outside for 'constant'.
        anchor: the tap (y, x) that lies on the pixel.
        stride: step between output pixels (y, x).
        dilation: step between taps (y, x).
        output_dtype: dtype of the result, by default the input's.
        algorithm: as in `torch_conv.filter2d`.

    Shape:
        Image (..., H, W) of a dtype that `torch_conv.filter2d` takes, to (..., H', W') as that returns it.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `torch_conv.filter2d(input, kernel, border_type, normalized, padding, behaviour)`

    Example:
        >>> Filter2d(torch.ones(1, 3), "constant")(torch.tensor([[1.0, 2, 3]]))
        tensor([[3., 6., 5.]])
    """

    def __init__(
        self,
        kernel: Tensor,
        border_type: Border = "reflect",
        normalized: bool = False,
        padding: Padding = "same",
        behaviour: Behaviour = "corr",
        *,
        value: float = 0.0,
        anchor: int | Sequence[int] | None = None,
        stride: int | Sequence[int] = 1,
        dilation: int | Sequence[int] = 1,
        output_dtype: torch.dtype | None = None,
        algorithm: FilterAlgorithm = "auto",
    ) -> None:
        super().__init__()
        self.keep_options(locals())
        self.hold_kernel(kernel, 2, lambda image, kernel: Filter2d._correlate(self, image, kernel))

    def forward(self, input: Tensor) -> Tensor:
        return self._correlate(input, self.kernel)

    def _correlate(self, input: Tensor, kernel: Tensor) -> Tensor:
        return filter2d(
            input,
            kernel,
            self.border_type,
            self.normalized,
            self.padding,
            self.behaviour,
            value=self.value,
            anchor=self.anchor,
            stride=self.stride,
            dilation=self.dilation,
            output_dtype=self.output_dtype,
            algorithm=self.algorithm,
        )


class Filter3d(_KernelFilter):
    """Correlates every volume with a kernel that the module holds.

    Args:
        kernel: taps (kD, kH, kW), (1|B, kD, kH, kW) or (1|B, 1|C, kD, kH, kW), as in `torch_conv.filter3d`; a buffer or
            a parameter as in `Filter2d`.
        border_type: as in `torch_conv.filter3d`.
        normalized: divide by the sum of the |taps|.
        behaviour: 'corr', or 'conv', which flips the kernel.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        anchor: the tap (z, y, x) that lies on the voxel.
        stride: step between output voxels (z, y, x).
        dilation: step between taps (z, y, x).
        output_dtype: dtype of the result, by default the input's.
        algorithm: 'auto' or 'direct'.

    Shape:
        Volume (..., D, H, W) of a dtype that `torch_conv.filter3d` takes, to (..., D', H', W') as that returns it.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `torch_conv.filter3d(input, kernel, border_type, normalized, behaviour)`

    Example:
        >>> Filter3d(torch.ones(1, 1, 3))(torch.tensor([[[1.0, 2, 3]]]))
        tensor([[[4., 6., 8.]]])
    """

    def __init__(
        self,
        kernel: Tensor,
        border_type: Border = "replicate",
        normalized: bool = False,
        behaviour: Behaviour = "corr",
        *,
        padding: Padding = "same",
        value: float = 0.0,
        anchor: int | Sequence[int] | None = None,
        stride: int | Sequence[int] = 1,
        dilation: int | Sequence[int] = 1,
        output_dtype: torch.dtype | None = None,
        algorithm: Filter3dAlgorithm = "auto",
    ) -> None:
        super().__init__()
        self.keep_options(locals())
        self.hold_kernel(kernel, 3, lambda volume, kernel: Filter3d._correlate(self, volume, kernel))

    def forward(self, input: Tensor) -> Tensor:
        return self._correlate(input, self.kernel)

    def _correlate(self, input: Tensor, kernel: Tensor) -> Tensor:
        return filter3d(
            input,
            kernel,
            self.border_type,
            self.normalized,
            self.behaviour,
            padding=self.padding,
            value=self.value,
            anchor=self.anchor,
            stride=self.stride,
            dilation=self.dilation,
            output_dtype=self.output_dtype,
            algorithm=self.algorithm,
        )


class BoxBlur(Options):
    """The mean over a box around each pixel, at a cost that hardly depends on its size.

    Args:
        kernel_size: (kH, kW) or one number, each at least 1, odd or even.
        border_type: as in `torch_conv.filter2d`.
        separable: accepted as in kornia, without effect.
        normalized: divide by kH * kW; False gives the sum.
        anchor: the tap (y, x) that lies on the pixel.
        padding: 'same' or 'valid'.
        value: pixel value outside for 'constant'.
        output_dtype: dtype of the result, by default the input's.
        algorithm: as in `torch_conv.box_blur`.

    Shape:
        Image (..., H, W) of a dtype that `torch_conv.filter2d` takes, to (..., H', W').

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `torch_conv.box_blur(input, kernel_size, border_type)`; kornia's module of this name.

    Example:
        >>> BoxBlur((1, 3))(torch.arange(5.0).reshape(1, 5))
        tensor([[0.6667, 1.0000, 2.0000, 3.0000, 3.3333]])
    """

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        border_type: Border = "reflect",
        separable: bool = True,
        *,
        normalized: bool = True,
        anchor: int | Sequence[int] | None = None,
        padding: Padding = "same",
        value: float = 0.0,
        output_dtype: torch.dtype | None = None,
        algorithm: BoxAlgorithm = "auto",
    ) -> None:
        super().__init__()
        self.keep_options(locals())
        self.check_options(2)

    def forward(self, input: Tensor) -> Tensor:
        return box_blur(
            input,
            self.kernel_size,
            self.border_type,
            self.separable,
            normalized=self.normalized,
            anchor=self.anchor,
            padding=self.padding,
            value=self.value,
            output_dtype=self.output_dtype,
            algorithm=self.algorithm,
        )
