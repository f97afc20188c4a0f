"""What the named filters are made of until they have kernels of their own: sums in float32, one rounding at the end."""
# ruff: noqa: UP045

from typing import Optional

import torch
from torch import Tensor

from torch_conv.functional._calls import check_out_dtype

_filter2d = torch.ops.torch_conv.filter2d
_filter2d_out = torch.ops.torch_conv.filter2d_out
_filter2d_separable = torch.ops.torch_conv.filter2d_separable
_filter2d_separable_out = torch.ops.torch_conv.filter2d_separable_out


def sum_dtype(input: Tensor) -> torch.dtype:
    """The dtype of sums: float64 for float64 images, else float32."""
    return torch.float64 if input.dtype == torch.float64 else torch.float32


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


def sum_of_products(
    input: Tensor,
    parts: list[Tensor],
    border_type: str,
    padding: str,
    value: float,
    output_dtype: Optional[torch.dtype],
    out: Optional[Tensor],
    algorithm: str,
) -> Tensor:
    """Correlation with [window], or with the sum of the outer products [y, x, y, x, ...], all of one size.

    One size makes the sum of the passes equal the one window for every border, 'skip' and 'zero_output' included.
    """
    if len(parts) == 1:
        return one_window(input, parts[0], border_type, False, padding, value, output_dtype, out, algorithm)
    if len(parts) == 2:
        return two_windows(input, parts[0], parts[1], border_type, padding, value, output_dtype, out, algorithm)
    dtype = sum_dtype(input)
    total = two_windows(input, parts[0], parts[1], border_type, padding, value, dtype, None, algorithm)
    for i in range(2, len(parts), 2):
        total = total + two_windows(input, parts[i], parts[i + 1], border_type, padding, value, dtype, None, algorithm)
    return rounded(total, input, output_dtype, out)


def rounded(total: Tensor, input: Tensor, output_dtype: Optional[torch.dtype], out: Optional[Tensor]) -> Tensor:
    """`total` in the dtype of the result, by the rounding rule of every filter: that of a 1x1 window."""
    one = torch.ones(1, 1, device="cpu")
    if out is not None:
        check_out_dtype(out, output_dtype)
        if not torch.jit.is_scripting():
            _refuse_overlap(input, out)
        _filter2d_out(total, one, out=out)
        return out
    dtype = input.dtype if output_dtype is None else output_dtype
    return total if dtype == total.dtype else _filter2d(total, one, output_dtype=dtype)


def _refuse_overlap(input: Tensor, out: Tensor) -> None:
    # `total` is a tensor of its own, so the operator cannot see what the caller must not do.
    if torch.compiler.is_compiling() or input.numel() == 0 or out.numel() == 0:
        return
    (a, a_end), (b, b_end) = _memory(input), _memory(out)
    if a < b_end and b < a_end:
        raise RuntimeError("filter2d: out must not overlap input")  # public() puts the right name


def _memory(t: Tensor) -> tuple[int, int]:
    reach = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
    return t.data_ptr(), t.data_ptr() + (reach + 1) * t.element_size()
