"""What the named filters are made of: sums in float32, one rounding at the end."""
# ruff: noqa: UP045, RUF005

from typing import Optional

import torch
from torch import Tensor

from torch_conv.functional._calls import check_out_dtype, shape_text
from torch_conv.split import SplitTensor, each_shard

_filter2d = torch.ops.torch_conv.filter2d
_filter2d_out = torch.ops.torch_conv.filter2d_out
_filter2d_separable = torch.ops.torch_conv.filter2d_separable
_filter2d_separable_out = torch.ops.torch_conv.filter2d_separable_out
_separable_sum2d = torch.ops.torch_conv.separable_sum2d
_separable_sum2d_out = torch.ops.torch_conv.separable_sum2d_out
_filter3d = torch.ops.torch_conv.filter3d
_filter3d_out = torch.ops.torch_conv.filter3d_out
_filter3d_separable = torch.ops.torch_conv.filter3d_separable
_filter3d_separable_out = torch.ops.torch_conv.filter3d_separable_out


def sum_dtype(input: Tensor) -> torch.dtype:
    """The dtype of sums: float64 for float64 images, else float32."""
    return torch.float64 if input.dtype == torch.float64 else torch.float32


def sum_of_squares(parts: list[Tensor]) -> Tensor:
    """Pixel by pixel, added from the first to the last."""
    total = parts[0] * parts[0]
    for i in range(1, len(parts)):
        total = total + parts[i] * parts[i]
    return total


def root(squares: Tensor) -> Tensor:
    """The root; of 0, and of what is no normal number, it is 0 with derivatives of every order that are 0."""
    # The root's derivative at 0 is infinite, and 0 times infinity is NaN: there the root of 1 is computed and not used.
    flat = squares.abs() < (2.0**-1022 if squares.dtype == torch.float64 else 2.0**-126)
    return torch.where(flat, 0.0, torch.where(flat, 1.0, squares).sqrt())


def one_window(
    input: Tensor,
    window: Tensor,
    border_type: str,
    normalized: bool,
    padding: str,
    value: float,
    output_dtype: Optional[torch.dtype],
    out: Optional[Tensor],
    algorithm: str,
) -> Tensor:
    """`filter2d`, into `out` if there is one."""
    if out is not None:
        check_out_dtype(out, output_dtype)
        _filter2d_out(input, window, border_type, normalized, padding, value=value, algorithm=algorithm, out=out)
        return out
    return _filter2d(
        input, window, border_type, normalized, padding, value=value, output_dtype=output_dtype, algorithm=algorithm
    )


def two_windows(
    input: Tensor,
    taps_y: Tensor,
    taps_x: Tensor,
    border_type: str,
    padding: str,
    value: float,
    output_dtype: Optional[torch.dtype],
    out: Optional[Tensor],
    algorithm: str,
) -> Tensor:
    """`filter2d_separable`, into `out` if there is one."""
    if out is not None:
        check_out_dtype(out, output_dtype)
        _filter2d_separable_out(
            input, taps_x, taps_y, border_type, False, padding, value=value, algorithm=algorithm, out=out
        )
        return out
    return _filter2d_separable(
        input, taps_x, taps_y, border_type, False, padding, value=value, output_dtype=output_dtype, algorithm=algorithm
    )


def one_window3d(
    input: Tensor,
    window: Tensor,
    border_type: str,
    padding: str,
    value: float,
    output_dtype: Optional[torch.dtype],
    out: Optional[Tensor],
    algorithm: str,
) -> Tensor:
    """`filter3d`, into `out` if there is one."""
    if out is not None:
        check_out_dtype(out, output_dtype)
        _filter3d_out(input, window, border_type, padding=padding, value=value, algorithm=algorithm, out=out)
        return out
    return _filter3d(
        input, window, border_type, padding=padding, value=value, output_dtype=output_dtype, algorithm=algorithm
    )


def three_windows(
    input: Tensor,
    parts: list[Tensor],
    border_type: str,
    padding: str,
    value: float,
    output_dtype: Optional[torch.dtype],
    out: Optional[Tensor],
    algorithm: str,
) -> Tensor:
    """`filter3d_separable` with the taps [z, y, x], into `out` if there is one."""
    z, y, x = parts[0], parts[1], parts[2]
    if out is not None:
        check_out_dtype(out, output_dtype)
        _filter3d_separable_out(input, x, y, z, border_type, padding=padding, value=value, algorithm=algorithm, out=out)
        return out
    return _filter3d_separable(
        input, x, y, z, border_type, padding=padding, value=value, output_dtype=output_dtype, algorithm=algorithm
    )


def windows_per_plane(
    name: str,
    input: Tensor,
    windows: Tensor,
    border_type: str,
    padding: str,
    value: float,
    output_dtype: Optional[torch.dtype],
    out: Optional[Tensor],
    algorithm: str,
) -> Tensor:
    """Every plane of images, or volume, under each of n windows: (..., n, H', W') or (..., n, D', H', W').

    It is read n times, as n channels with a window each. The windows, (n, 3, 3) and the like, are as long as wide.
    """
    axes, n = windows.dim() - 1, windows.size(0)
    if not torch.jit.is_scripting():  # noqa: SIM102 (TorchScript skips what is under this condition alone)
        if out is None and isinstance(input, SplitTensor) and -input.spec.dim > axes:
            # The shards share nothing, and flattening might mix them.
            return each_shard(
                windows_per_plane, name, input, windows, border_type, padding, value, output_dtype, None, algorithm
            )
    lead = list(input.shape[:-axes])
    planes = input.flatten(0, -axes - 1) if input.dim() > axes else input.unsqueeze(0)
    planes = planes.unsqueeze(1).expand([-1, n] + [-1] * axes)
    if out is not None:
        check_out_dtype(out, output_dtype)
        lost = windows.size(-1) - 1 if padding == "valid" else 0
        fits = True
        shape = lead + [n]
        for size in input.shape[-axes:]:
            shape = shape + [size - lost]
            fits = fits and size > lost
        if fits and list(out.shape) != shape:  # a window that does not fit is the operator's refusal
            raise ValueError(f"{name}: out must have shape {shape_text(shape)}, got {shape_text(list(out.shape))}")
        if not torch.jit.is_scripting():
            refuse_overlap(input, out)  # the planes may be a copy, where the operator would see no overlap
        if out.is_contiguous():
            target = out.view([planes.size(0)] + list(out.shape[-axes - 1 :]))
            _each_window(planes, windows, border_type, padding, value, None, target, algorithm)
            return out
        result = _each_window(planes, windows, border_type, padding, value, out.dtype, None, algorithm)
        _filter2d_out(result.reshape(shape), torch.ones(1, 1, device="cpu"), out=out)  # a copy that explain() skips
        return out
    result = _each_window(planes, windows, border_type, padding, value, output_dtype, None, algorithm)
    return result.reshape(lead + list(result.shape[1:]))


def _each_window(
    planes: Tensor,
    windows: Tensor,
    border_type: str,
    padding: str,
    value: float,
    output_dtype: Optional[torch.dtype],
    out: Optional[Tensor],
    algorithm: str,
) -> Tensor:
    windows = windows.unsqueeze(0)
    if windows.dim() == 5:
        return one_window3d(planes, windows, border_type, padding, value, output_dtype, out, algorithm)
    return one_window(planes, windows, border_type, False, padding, value, output_dtype, out, algorithm)


def sum_of_passes(
    input: Tensor,
    parts: list[Tensor],
    border_type: str,
    padding: str,
    value: float,
    output_dtype: Optional[torch.dtype],
    out: Optional[Tensor],
    algorithm: str,
) -> Tensor:
    """Correlation with [window], or in one launch with the sum of two outer products [y, x, y, x]."""
    if len(parts) == 1:
        return one_window(input, parts[0], border_type, False, padding, value, output_dtype, out, algorithm)
    xs, ys = [parts[1], parts[3]], [parts[0], parts[2]]
    if out is not None:
        check_out_dtype(out, output_dtype)
        _separable_sum2d_out(input, xs, ys, border_type, padding=padding, value=value, algorithm=algorithm, out=out)
        return out
    return _separable_sum2d(
        input, xs, ys, border_type, padding=padding, value=value, output_dtype=output_dtype, algorithm=algorithm
    )


def refuse_overlap(input: Tensor, out: Tensor) -> None:
    """As the operators do; not for TorchScript."""
    if torch.compiler.is_compiling() or input.numel() == 0 or out.numel() == 0:
        return
    (a, a_end), (b, b_end) = _memory(input), _memory(out)
    if a < b_end and b < a_end:
        raise RuntimeError("filter2d: out must not overlap input")  # public() puts the right name


def _memory(t: Tensor) -> tuple[int, int]:
    reach = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
    return t.data_ptr(), t.data_ptr() + (reach + 1) * t.element_size()
