"""The filter along one dimension of any tensor, computed on planes of an image."""
# TorchScript reads these annotations; it knows Optional[...], not `... | None`, around its own list types.
# ruff: noqa: UP045

from typing import Any, Optional

import torch
from torch import Tensor

from torch_conv.dispatch.numbers import is_whole, kind_of
from torch_conv.functional._calls import check_out_dtype, public
from torch_conv.functional._types import Behaviour, Border, BroadcastingList1, Filter1dAlgorithm, Padding
from torch_conv.split import SplitTensor, each_shard

_filter2d = torch.ops.torch_conv.filter2d
_filter2d_out = torch.ops.torch_conv.filter2d_out
_filter2d_default = torch.ops.torch_conv.filter2d.default
_TO_TRANSLATE = frozenset({"anchor", "stride", "dilation", "out"})


def _along_last_dim(input: Tensor, kernel: Tensor, *options: Any, dim: int = -1, **named: Any) -> Any:
    """`filter1d` along the last dimension, of arguments that `filter2d` has, too; None for other calls.

    Arguments at their defaults are not passed on, because the operator needs 3 us to read them (one AMD EPYC).
    """
    dims, kernel_dims = input.dim(), kernel.dim()
    if (
        type(dim) is not int
        or dim not in (-1, dims - 1)
        or not _TO_TRANSLATE.isdisjoint(named)
        or isinstance(input, SplitTensor)
    ):
        return None
    if dims == 0 or not 1 <= kernel_dims <= 3 or (kernel_dims > 1 and dims < 3):
        return None
    if dims == 1 or (dims == 3 and kernel_dims > 1):
        return _filter2d_default(input.unsqueeze(-2), kernel.unsqueeze(-2), *options, **named).squeeze(-2)
    return _filter2d_default(input, kernel.unsqueeze(-2), *options, **named)


@public(short=_along_last_dim)
def filter1d(
    input: Tensor,
    kernel: Tensor,
    border_type: Border = "reflect",
    normalized: bool = False,
    padding: Padding = "same",
    behaviour: Behaviour = "corr",
    *,
    dim: int = -1,
    value: float = 0.0,
    anchor: Optional[BroadcastingList1[int]] = None,
    stride: BroadcastingList1[int] = 1,
    dilation: BroadcastingList1[int] = 1,
    output_dtype: Optional[torch.dtype] = None,
    out: Optional[Tensor] = None,
    algorithm: Filter1dAlgorithm = "auto",
) -> Tensor:
    """Correlates a tensor with a kernel along one dimension.

    Args:
        input: tensor of 1 or more dimensions, of a dtype that `filter2d` takes.
        kernel: taps (k,). For (B, C, L), and (B, C, H, W) along H or W, also (1|B, k) per sample or (1|B, 1|C, k) per
            sample and channel.
        border_type: as in `filter2d`.
        normalized: divide by the sum of the |taps|.
        padding: 'same' or 'valid'.
        behaviour: 'corr', or 'conv', which flips the kernel.
        dim: the dimension to filter along.
        value: pixel value outside for 'constant'.
        anchor: the tap that lies on the pixel, as in `filter2d`: a number or a tuple of one, as in `F.conv1d`.
        stride: step between outputs, likewise.
        dilation: step between taps, likewise.
        output_dtype: dtype of the result, by default the input's.
        out: tensor that receives the result.
        algorithm: 'auto', 'direct' or 'fft', as in `filter2d`. 'auto' takes 'fft' on the CPU only, from some hundred
            taps on, and transforms run along `dim` alone.

    Returns:
        Tensor of the input's shape, but for `dim`, whose length is as in `filter2d`.

    Raises:
        ValueError: for a value that is not described above.
        TypeError: for a dtype or a type that is not described above.

    Equivalent to:
        `scipy.ndimage.correlate1d(input, kernel, dim, mode='mirror')` for odd kernels

    Example:
        >>> x = torch.tensor([8.0, 2, 5, 4, 1, 7, 3])
        >>> filter1d(x, torch.tensor([1.0, 3, 5, 3, 1]), "constant")
        tensor([51., 53., 52., 47., 46., 51., 37.])
    """
    if not torch.jit.is_scripting():
        _check_dim(dim)
    dims = input.dim()
    if dims == 0 or dim < -dims or dim >= dims:
        raise ValueError(f"filter1d: dim must name one of the input's {dims} dimensions, got {dim}")
    if kernel.dim() < 1 or kernel.dim() > 3:
        raise ValueError(f"filter1d: kernel must have 1, 2 or 3 dimensions, got {kernel.dim()}")
    axis = dim % dims
    from_end = dims - axis
    if from_end > 2 and kernel.dim() > 1:
        raise ValueError(f"filter1d: kernel must have 1 dimension along dim {dim} of {dims}, got {kernel.dim()}")

    along_x = from_end == 1
    as_row = along_x and (dims == 1 or (dims == 3 and kernel.dim() > 1))  # (L,) and (B, C, L): planes of one row
    taps = kernel.unsqueeze(-2 if along_x else -1)
    taps_anchor: Optional[list[int]] = None
    if anchor is not None:
        tap = _one("anchor", anchor)
        taps_anchor = [0, tap] if along_x else [tap, 0]
    step, distance = _one("stride", stride), _one("dilation", dilation)
    strides = [1, step] if along_x else [step, 1]
    dilations = [1, distance] if along_x else [distance, 1]

    if out is not None:
        check_out_dtype("filter1d", out, output_dtype)
        source, target = input, out
        if as_row:
            source, target = input.unsqueeze(-2), out.unsqueeze(-2)
        elif from_end > 2:
            source, target = input.movedim(axis, -2), out.movedim(axis, -2)
        _filter2d_out(
            source,
            taps,
            border_type,
            normalized,
            padding,
            behaviour,
            value=value,
            anchor=taps_anchor,
            stride=strides,
            dilation=dilations,
            algorithm=algorithm,
            out=target,
        )
        return out
    if not torch.jit.is_scripting():  # noqa: SIM102 (TorchScript skips what is under this condition alone)
        if isinstance(input, SplitTensor) and from_end > 2 and input.spec.dim != -from_end:
            # The shards share nothing, and flattening would mix them.
            return each_shard(
                filter1d,
                input,
                kernel,
                border_type,
                normalized,
                padding,
                behaviour,
                dim=dim,
                value=value,
                anchor=anchor,
                stride=stride,
                dilation=dilation,
                output_dtype=output_dtype,
                algorithm=algorithm,
            )
    image = input
    if as_row:
        image = input.unsqueeze(-2)
    elif from_end > 2:  # dimensions after `dim` become one row, dimensions before it the planes
        image = input.flatten(axis + 1)
        image = image.flatten(0, axis - 1) if axis > 0 else image
    result = _filter2d(
        image,
        taps,
        border_type,
        normalized,
        padding,
        behaviour,
        value=value,
        anchor=taps_anchor,
        stride=strides,
        dilation=dilations,
        output_dtype=output_dtype,
        algorithm=algorithm,
    )
    if as_row:
        return result.squeeze(-2)
    if from_end > 2:
        shape = list(input.shape)
        shape[axis] = result.size(-2)
        return result.reshape(shape)
    return result


@torch.jit.unused
def _check_dim(dim: Any) -> None:
    if not is_whole(dim):
        raise TypeError(f"filter1d: dim must be of type int, got {kind_of(dim)}")


def _one(argument: str, given: BroadcastingList1[int]) -> int:
    """The number that stands for the one dimension; TorchScript has made a list of it already."""
    if not torch.jit.is_scripting():
        given = _listed(argument, given)
    numbers: list[int] = list(given)  # type: ignore[arg-type]
    if len(numbers) != 1:
        raise ValueError(f"filter1d: {argument} must have 1 value, got {len(numbers)}")
    return numbers[0]


def _listed(argument: str, given: Any) -> list[int]:
    numbers = list(given) if isinstance(given, (list, tuple)) else [given]
    for number in numbers:
        if not isinstance(number, (int, torch.SymInt)):
            raise TypeError(f"filter1d: {argument} must be of type int, got {type(number).__name__}")
    return numbers
