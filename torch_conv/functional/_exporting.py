"""The output dtype in exported programs, by conversions around the call.

AOTInductor of torch 2.11 shifts a dtype among an operator's arguments to its predecessor in torch's list. Its package
then returns other numbers, or None. An exported program therefore holds no dtype argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_conv.dispatch.formats import DTYPES


def leaves_out_dtypes(kwargs: dict[str, Any]) -> bool:
    """Whether torch.export traces a call with an output dtype that our kernels write."""
    if kwargs.get("out") is not None or kwargs.get("output_dtype") not in DTYPES:
        return False
    return getattr(torch.compiler, "_is_exporting_flag", False)  # Dynamo takes is_exporting() for true, always


def without_dtype(
    fn: Callable[..., Any], exact_integers: bool, input: Tensor, *args: Any, output_dtype: torch.dtype, **kwargs: Any
) -> Any:
    """The call on an image in the dtype of its sums, rounded once to the output's dtype as the kernels do."""
    if not isinstance(input, Tensor) or input.dtype not in DTYPES:  # which the operator refuses
        return fn(input, *args, output_dtype=output_dtype, **kwargs)
    if output_dtype == input.dtype:
        return fn(input, *args, **kwargs)
    if kwargs.get("algorithm") == "tensor_core":  # which writes no other dtype: the operator says so
        return fn(input, *args, output_dtype=output_dtype, **kwargs)
    sums = torch.float64 if input.dtype == torch.float64 else torch.float32
    if exact_integers and not input.is_floating_point():
        sums = torch.float64
    result = fn(input.to(sums), *args, **kwargs)
    if output_dtype.is_floating_point:
        return result.to(output_dtype)
    least, most = torch.iinfo(output_dtype).min, torch.iinfo(output_dtype).max
    return result.nan_to_num(0.0, most, least).round().clamp(least, most).to(output_dtype)
