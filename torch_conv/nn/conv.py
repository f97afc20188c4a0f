"""torch.nn's convolutions, computed by the functions of torch_conv."""

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from torch_conv.functional._calls import Image
from torch_conv.functional._convolve import check_activation
from torch_conv.functional._types import Activation, ConvAlgorithm, Padding, PaddingMode
from torch_conv.functional.conv import conv1d, conv2d, conv3d

# Scripts call the operators, which take both numbers and 'same' or 'valid' as padding.
_conv1d = torch.ops.torch_conv.conv1d
_conv2d = torch.ops.torch_conv.conv2d
_conv3d = torch.ops.torch_conv.conv3d


class _Conv:
    """The arguments of torch.nn's convolutions and two more. It is the first base, one of those the second."""

    padding: Any  # numbers or a word

    if TYPE_CHECKING:

        def __call__(self, input: Image) -> Image: ...

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | Padding = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        *,
        activation: Activation | None = None,
        algorithm: ConvAlgorithm = "auto",
    ) -> None:
        name = next(c.__name__ for c in type(self).__mro__ if c.__module__ == __name__)
        check_activation(name, activation)
        given: Any = (in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode)
        try:
            super().__init__(*given, device=device, dtype=dtype)  # type: ignore[call-arg]
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        self.activation = activation
        self.algorithm = algorithm

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """Refuses to fold a batch norm into a layer with an activation, which lies between them; else as torch's."""
        if getattr(self, "activation", None) is not None and _torch_folds():
            raise RuntimeError(
                f"{type(self).__name__}: a batch norm cannot be folded into a layer with "
                f"activation='{self.activation}', which comes before the norm"
            )
        super().register_parameter(name, param)  # type: ignore[misc]

    def _call(self: Any, function: Callable[..., Tensor], input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return function(
            input,
            weight,
            bias,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            padding_mode=self.padding_mode,
            algorithm=self.algorithm,
            activation=self.activation,
        )

    def extra_repr(self) -> str:
        text: str = super().extra_repr()  # type: ignore[misc]
        if self.activation is not None:
            text += f", activation={self.activation}"
        if self.algorithm != "auto":
            text += f", algorithm={self.algorithm}"
        return text


_FOLD = nn.utils.fusion.fuse_conv_bn_eval.__code__


def _torch_folds() -> bool:
    """Whether torch's `fuse_conv_bn_eval` assigns the parameter. It takes a layer of any class and has no hook.

    Torch's other foldings take only layers whose type is a class of torch.nn. The assignment alone is no sign of a
    folding: pruning and `load_state_dict(assign=True)` assign parameters, too.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not _FOLD:
        frame = frame.f_back
    return frame is not None


class Conv1d(_Conv, nn.Conv1d):
    """`torch.nn.Conv1d` by `torch_conv.conv1d`: its parameters, initialization and `state_dict` are torch's.

    Args:
        in_channels: channels C of the input.
        out_channels: channels of the result.
        kernel_size: extent of the kernel in samples.
        stride: step between outputs.
        padding: samples added on each side, or 'same' or 'valid'.
        dilation: step between taps.
        groups: number of groups the channels fall into; `in_channels` of them make a depthwise convolution.
        bias: whether a number is added to every output channel.
        padding_mode: 'zeros', 'reflect', 'replicate' or 'circular'.
        device: of the parameters.
        dtype: of the parameters.
        activation: None, 'relu', 'relu6', 'gelu', 'silu' or 'hardswish', of the sum with its bias, as in
            `torch_conv.conv2d`.
        algorithm: as in `torch_conv.conv2d`.

    Shape:
        Signal (N, C, L) or (C, L) to (N, C_out, L') or (C_out, L').

    Raises:
        ValueError: for numbers that `torch.nn.Conv1d` refuses, and an unknown activation.

    Equivalent to:
        `torch.nn.Conv1d` of the same arguments, with `torch.nn.functional`'s activation of its result

    Example:
        >>> Conv1d(8, 16, 3, groups=8, padding="same", activation="silu")(torch.rand(2, 8, 20)).shape
        torch.Size([2, 16, 20])
    """

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if not torch.jit.is_scripting():
            return self._call(conv1d, input, weight, bias)
        return _conv1d(
            input,
            weight,
            bias,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            padding_mode=self.padding_mode,
            algorithm=self.algorithm,
            activation=self.activation,
        )


class Conv2d(_Conv, nn.Conv2d):
    """`torch.nn.Conv2d` by `torch_conv.conv2d`: its parameters, initialization and `state_dict` are torch's.

    Args:
        in_channels: channels C of the input.
        out_channels: channels of the result.
        kernel_size: extents of the kernel (kH, kW), or one number.
        stride: step between output pixels (y, x).
        padding: pixels added on each side (y, x), or 'same' or 'valid'.
        dilation: step between taps (y, x).
        groups: number of groups the channels fall into; `in_channels` of them make a depthwise convolution.
        bias: whether a number is added to every output channel.
        padding_mode: 'zeros', 'reflect', 'replicate' or 'circular'.
        device: of the parameters.
        dtype: of the parameters.
        activation: None, 'relu', 'relu6', 'gelu', 'silu' or 'hardswish', of the sum with its bias, as in
            `torch_conv.conv2d`.
        algorithm: as in `torch_conv.conv2d`.

    Shape:
        Image (N, C, H, W) or (C, H, W) to (N, C_out, H', W') or (C_out, H', W').

    Raises:
        ValueError: for numbers that `torch.nn.Conv2d` refuses, and an unknown activation.

    Equivalent to:
        `torch.nn.Conv2d` of the same arguments, with `torch.nn.functional`'s activation of its result

    Example:
        >>> theirs = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)
        >>> ours = Conv2d(8, 8, 3, padding=1, groups=8)
        >>> ours.load_state_dict(theirs.state_dict())
        <All keys matched successfully>
        >>> x = torch.rand(2, 8, 16, 16)
        >>> torch.allclose(ours(x), theirs(x), atol=1e-6)
        True
    """

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if not torch.jit.is_scripting():
            return self._call(conv2d, input, weight, bias)
        return _conv2d(
            input,
            weight,
            bias,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            padding_mode=self.padding_mode,
            algorithm=self.algorithm,
            activation=self.activation,
        )


class Conv3d(_Conv, nn.Conv3d):
    """`torch.nn.Conv3d` by `torch_conv.conv3d`: its parameters, initialization and `state_dict` are torch's.

    Args:
        in_channels: channels C of the input.
        out_channels: channels of the result.
        kernel_size: extents of the kernel (kD, kH, kW), or one number.
        stride: step between output voxels (z, y, x).
        padding: voxels added on each side (z, y, x), or 'same' or 'valid'.
        dilation: step between taps (z, y, x).
        groups: number of groups the channels fall into; `in_channels` of them make a depthwise convolution.
        bias: whether a number is added to every output channel.
        padding_mode: 'zeros', 'reflect', 'replicate' or 'circular'.
        device: of the parameters.
        dtype: of the parameters.
        activation: None, 'relu', 'relu6', 'gelu', 'silu' or 'hardswish', of the sum with its bias, as in
            `torch_conv.conv2d`.
        algorithm: as in `torch_conv.conv2d`.

    Shape:
        Volume (N, C, D, H, W) or (C, D, H, W) to (N, C_out, D', H', W') or (C_out, D', H', W').

    Raises:
        ValueError: for numbers that `torch.nn.Conv3d` refuses, and an unknown activation.

    Equivalent to:
        `torch.nn.Conv3d` of the same arguments, with `torch.nn.functional`'s activation of its result

    Example:
        >>> Conv3d(4, 4, 3, groups=4, padding=1, padding_mode="replicate")(torch.rand(1, 4, 6, 7, 8)).shape
        torch.Size([1, 4, 6, 7, 8])
    """

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if not torch.jit.is_scripting():
            return self._call(conv3d, input, weight, bias)
        return _conv3d(
            input,
            weight,
            bias,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            padding_mode=self.padding_mode,
            algorithm=self.algorithm,
            activation=self.activation,
        )
