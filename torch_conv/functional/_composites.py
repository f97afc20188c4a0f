"""Steps of the named filters: sums in float32, one rounding at the end."""
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
    """The square root. For 0 and subnormal numbers the root and all its derivatives are 0."""
    # The root's derivative at 0 is infinite, and 0 times infinity is NaN: there the root of 1 is computed and not used.
    flat = squares.abs() < (2.0**-1022 if squares.dtype == torch.float64 else 2.0**-126)
    return torch.where(flat, 0.0, torch.where(flat, 1.0, squares).sqrt())


def correlate2d(
    input: Tensor,
    kernel: Tensor,
    border_type: str,
    normalized: bool,
    padding: str,
    value: float,
    output_dtype: Optional[torch.dtype],
    out: Optional[Tensor],
    algorithm: str,
) -> Tensor:
    """`filter2d`, into `out` if given."""
    if out is not None:
        check_out_dtype("filter2d", out, output_dtype)
        _filter2d_out(input, kernel, border_type, normalized, padding, value=value, algorithm=algorithm, out=out)
        return out
    return _filter2d(
        input, kernel, border_type, normalized, padding, value=value, output_dtype=output_dtype, algorithm=algorithm
    )


def correlate2d_separable(
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
    """`filter2d_separable`, into `out` if given."""
    if out is not None:
        check_out_dtype("filter2d_separable", out, output_dtype)
        _filter2d_separable_out(
            input, taps_x, taps_y, border_type, False, padding, value=value, algorithm=algorithm, out=out
        )
        return out
    return _filter2d_separable(
        input, taps_x, taps_y, border_type, False, padding, value=value, output_dtype=output_dtype, algorithm=algorithm
    )


def correlate3d(
    input: Tensor,
    kernel: Tensor,
    border_type: str,
    padding: str,
    value: float,
    output_dtype: Optional[torch.dtype],
    out: Optional[Tensor],
    algorithm: str,
) -> Tensor:
    """`filter3d`, into `out` if given."""
    if out is not None:
        check_out_dtype("filter3d", out, output_dtype)
        _filter3d_out(input, kernel, border_type, padding=padding, value=value, algorithm=algorithm, out=out)
        return out
    return _filter3d(
        input, kernel, border_type, padding=padding, value=value, output_dtype=output_dtype, algorithm=algorithm
    )


def correlate3d_separable(
    input: Tensor,
    parts: list[Tensor],
    border_type: str,
    padding: str,
    value: float,
    output_dtype: Optional[torch.dtype],
    out: Optional[Tensor],
    algorithm: str,
) -> Tensor:
    """`filter3d_separable` with the taps [z, y, x], into `out` if given."""
    z, y, x = parts[0], parts[1], parts[2]
    if out is not None:
        check_out_dtype("filter3d_separable", out, output_dtype)
        _filter3d_separable_out(input, x, y, z, border_type, padding=padding, value=value, algorithm=algorithm, out=out)
        return out
    return _filter3d_separable(
        input, x, y, z, border_type, padding=padding, value=value, output_dtype=output_dtype, algorithm=algorithm
    )


def correlate_each(
    name: str,
    input: Tensor,
    kernels: Tensor,
    border_type: str,
    padding: str,
    value: float,
    output_dtype: Optional[torch.dtype],
    out: Optional[Tensor],
    algorithm: str,
) -> Tensor:
    """Correlates every plane or volume with each of n kernels: (..., n, H', W') or (..., n, D', H', W').

    The input is expanded to n channels with a kernel each. The kernels, (n, k, k) or (n, k, k, k), have equal sides.
    """
    axes, n = kernels.dim() - 1, kernels.size(0)
    if not torch.jit.is_scripting():  # noqa: SIM102 (TorchScript skips what is under this condition alone)
        if out is None and isinstance(input, SplitTensor) and -input.spec.dim > axes:
            # The kernels do not reach across shards, and flattening could mix them.
            return each_shard(
                correlate_each, name, input, kernels, border_type, padding, value, output_dtype, None, algorithm
            )
    lead = list(input.shape[:-axes])
    planes = input.flatten(0, -axes - 1) if input.dim() > axes else input.unsqueeze(0)
    planes = planes.unsqueeze(1).expand([-1, n] + [-1] * axes)
    if out is not None:
        check_out_dtype(name, out, output_dtype)
        lost = kernels.size(-1) - 1 if padding == "valid" else 0
        fits = True
        shape = lead + [n]
        for size in input.shape[-axes:]:
            shape = shape + [size - lost]
            fits = fits and size > lost
        if fits and list(out.shape) != shape:  # the operator refuses a kernel that does not fit
            raise ValueError(f"{name}: out must have shape {shape_text(shape)}, got {shape_text(list(out.shape))}")
        if not torch.jit.is_scripting():
            refuse_overlap(input, out)  # the planes may be a copy, where the operator would see no overlap
        if out.is_contiguous():
            target = out.view([planes.size(0)] + list(out.shape[-axes - 1 :]))
            _correlate_stack(planes, kernels, border_type, padding, value, None, target, algorithm)
            return out
        result = _correlate_stack(planes, kernels, border_type, padding, value, out.dtype, None, algorithm)
        _filter2d_out(result.reshape(shape), torch.ones(1, 1, device="cpu"), out=out)  # a copy that explain() skips
        return out
    result = _correlate_stack(planes, kernels, border_type, padding, value, output_dtype, None, algorithm)
    return result.reshape(lead + list(result.shape[1:]))


def _correlate_stack(
    planes: Tensor,
    kernels: Tensor,
    border_type: str,
    padding: str,
    value: float,
    output_dtype: Optional[torch.dtype],
    out: Optional[Tensor],
    algorithm: str,
) -> Tensor:
    kernels = kernels.unsqueeze(0)
    if kernels.dim() == 5:
        return correlate3d(planes, kernels, border_type, padding, value, output_dtype, out, algorithm)
    return correlate2d(planes, kernels, border_type, False, padding, value, output_dtype, out, algorithm)


def correlate2d_sum(
    input: Tensor,
    parts: list[Tensor],
    border_type: str,
    padding: str,
    value: float,
    output_dtype: Optional[torch.dtype],
    out: Optional[Tensor],
    algorithm: str,
) -> Tensor:
    """Correlates with [kernel], or in one launch with the sum of two outer products [y, x, y, x]."""
    if len(parts) == 1:
        return correlate2d(input, parts[0], border_type, False, padding, value, output_dtype, out, algorithm)
    xs, ys = [parts[1], parts[3]], [parts[0], parts[2]]
    if out is not None:
        check_out_dtype("separable_sum2d", out, output_dtype)
        _separable_sum2d_out(input, xs, ys, border_type, padding=padding, value=value, algorithm=algorithm, out=out)
        return out
    return _separable_sum2d(
        input, xs, ys, border_type, padding=padding, value=value, output_dtype=output_dtype, algorithm=algorithm
    )


def refuse_overlap(input: Tensor, out: Tensor) -> None:
    """Refuses overlapping memory as the operators do. TorchScript must skip it."""
    if torch.compiler.is_compiling() or input.numel() == 0 or out.numel() == 0:
        return
    if overlap(input, out):
        raise RuntimeError("filter2d: out must not overlap input")  # public() puts the right name


def overlap(a: Tensor, b: Tensor) -> bool:
    (a_start, a_end), (b_start, b_end) = _memory(a), _memory(b)
    return a.device == b.device and a_start < b_end and b_start < a_end


def _memory(t: Tensor) -> tuple[int, int]:
    last = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
    return t.data_ptr(), t.data_ptr() + (last + 1) * t.element_size()
