"""Filters with a window of their own, and the box."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from torch_conv.functional.filters import box_blur, filter2d
from torch_conv.functional.volumes import filter3d
from torch_conv.nn._options import Options, as_float, settled


class _Windowed(Options):
    """A filter that holds its window."""

    kernel: Tensor

    def keep_window(self, kernel: Tensor, axes: int, forward: Callable[[Tensor, Tensor], Tensor]) -> None:
        """Tries the arguments with a window like `kernel`, which may be on any device, and registers that one."""
        name = f"Filter{axes}d"
        if not isinstance(kernel, Tensor):
            raise TypeError(f"{name}: kernel must be of type Tensor, got {type(kernel).__name__}")
        # Whether its samples and channels are the image's is for the call to say.
        leading = max(kernel.dim() - axes, 0)
        like = torch.zeros((1,) * leading + tuple(kernel.shape[leading:]), dtype=kernel.dtype, device="cpu")
        self.try_options(lambda image: forward(image, like), axes)
        if isinstance(kernel, nn.Parameter):
            self.kernel = kernel
        else:
            self.register_buffer("kernel", kernel)


class Filter2d(_Windowed):
    """Correlates every plane of an image with a window that the module holds.

    Args:
        kernel: the window (kH, kW), (1|B, kH, kW) or (1|B, 1|C, kH, kW), as in `torch_conv.filter2d`. A tensor becomes
            a buffer, a `torch.nn.Parameter` stays one; both are in the `state_dict`. `.half()` casts it with the rest
            of the module; a float32 window serves float16 images as it is.
        border_type: as in `torch_conv.filter2d`.
        normalized: divide by the sum of the |taps|.
        padding: 'same' or 'valid'.
        behaviour: 'corr', or 'conv', which flips the window.
        value: what 'constant' reads outside.
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
        border_type: str = "reflect",
        normalized: bool = False,
        padding: str = "same",
        behaviour: str = "corr",
        *,
        value: float = 0.0,
        anchor: int | Sequence[int] | None = None,
        stride: int | Sequence[int] = 1,
        dilation: int | Sequence[int] = 1,
        output_dtype: torch.dtype | None = None,
        algorithm: str = "auto",
    ) -> None:
        super().__init__()
        self.border_type = border_type
        self.normalized = normalized
        self.padding = padding
        self.behaviour = behaviour
        self.value = as_float(value)
        self.anchor = settled(anchor)
        self.stride = settled(stride)
        self.dilation = settled(dilation)
        self.output_dtype = output_dtype
        self.algorithm = algorithm
        self.keep_window(kernel, 2, lambda image, window: Filter2d._correlate(self, image, window))

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


class Filter3d(_Windowed):
    """Correlates every volume with a window that the module holds.

    Args:
        kernel: the window (kD, kH, kW), (1|B, kD, kH, kW) or (1|B, 1|C, kD, kH, kW), as in `torch_conv.filter3d`; kept
            as `Filter2d` keeps its own.
        border_type: as in `torch_conv.filter3d`.
        normalized: divide by the sum of the |taps|.
        behaviour: 'corr', or 'conv', which flips the window.
        padding: 'same' or 'valid'.
        value: what 'constant' reads outside.
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
        border_type: str = "replicate",
        normalized: bool = False,
        behaviour: str = "corr",
        *,
        padding: str = "same",
        value: float = 0.0,
        anchor: int | Sequence[int] | None = None,
        stride: int | Sequence[int] = 1,
        dilation: int | Sequence[int] = 1,
        output_dtype: torch.dtype | None = None,
        algorithm: str = "auto",
    ) -> None:
        super().__init__()
        self.border_type = border_type
        self.normalized = normalized
        self.behaviour = behaviour
        self.padding = padding
        self.value = as_float(value)
        self.anchor = settled(anchor)
        self.stride = settled(stride)
        self.dilation = settled(dilation)
        self.output_dtype = output_dtype
        self.algorithm = algorithm
        self.keep_window(kernel, 3, lambda volume, window: Filter3d._correlate(self, volume, window))

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
    """The mean over a window around each pixel, at a cost that hardly depends on its size.

    Args:
        kernel_size: (kH, kW) or one number, each at least 1, odd or even.
        border_type: as in `torch_conv.filter2d`.
        separable: taken for kornia's sake; it changes nothing.
        normalized: divide by kH * kW; False gives the sum.
        anchor: the tap (y, x) that lies on the pixel.
        padding: 'same' or 'valid'.
        value: what 'constant' reads outside.
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
        border_type: str = "reflect",
        separable: bool = True,
        *,
        normalized: bool = True,
        anchor: int | Sequence[int] | None = None,
        padding: str = "same",
        value: float = 0.0,
        output_dtype: torch.dtype | None = None,
        algorithm: str = "auto",
    ) -> None:
        super().__init__()
        self.kernel_size = settled(kernel_size)
        self.border_type = border_type
        self.separable = separable
        self.normalized = normalized
        self.anchor = settled(anchor)
        self.padding = padding
        self.value = as_float(value)
        self.output_dtype = output_dtype
        self.algorithm = algorithm
        self.try_options(lambda image: BoxBlur.forward(self, image), 2)

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
