"""Shapes, dtypes and strides of the results without computing them: for torch.compile, torch.export and FakeTensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map_only

from torch_conv import fake_causal, fake_pipelines
from torch_conv._asking import with_lists
from torch_conv._fakes import filtered, in_order_of, refuse_meta
from torch_conv.fake_split import on_shards, split_name
from torch_conv.functional._convolve import check_numbers, pads_of
from torch_conv.functional._router import served_here
from torch_conv.sharding.geometry import axes_of

Ints = Sequence[int]


def register() -> None:
    """Called once, by the package."""
    fakes: dict[str, Callable[..., Any]] = {
        "filter2d": _filter2d,
        "filter2d_separable": _filter2d_separable,
        "box2d": _box2d,
        "filter3d": _filter3d,
        "filter3d_separable": _filter3d_separable,
        "box3d": _box3d,
        "ladder1d": _ladder1d,
        "ladder2d": _ladder2d,
        "ladder3d": _ladder3d,
    }
    for axes in (2, 3):
        fakes[f"filter{axes}d_out"] = _into_out(f"filter{axes}d", "kernel")
        rows = ["kernel_x", "kernel_y", "kernel_z"][:axes]
        fakes[f"filter{axes}d_separable_out"] = _into_out(f"filter{axes}d_separable", *rows)
        fakes[f"box{axes}d_out"] = _into_out(f"box{axes}d")
    for name, (pipeline, windows) in fake_pipelines.FAKES.items():
        fakes[name] = pipeline
        fakes[f"{name}_out"] = _into_out(name, *windows)
    for axes in (1, 2, 3):
        fakes[f"conv{axes}d"] = fakes[f"conv{axes}d.padding"] = _convolution(axes)
    for name, fake in list(fakes.items()):
        if not name.endswith("_out") and not name.startswith("ladder"):
            fakes[split_name(name)] = on_shards(name, axes_of(name), fake)
    fakes |= fake_causal.FAKES | {"_conv_ours": _conv_ours, "_weight_gradient_by_anyone": _weight_gradient}
    for name, fake in fakes.items():
        torch.library.register_fake(f"torch_conv::{name}", fake, lib=_LIBRARY)
    _FAKES.update(fakes)


_LIBRARY = torch.library.Library("torch_conv", "IMPL")
_FAKES: dict[str, Callable[..., Any]] = {}


def result_of(name: str, overload: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """An uninitialised result of a call of an operator, on the device of its image or of its shards."""
    image: Any = args[0] if args else next(kwargs[key] for key in ("input", "x", "shards") if key in kwargs)
    of_meta = tree_map_only(
        Tensor, lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta"), (args, kwargs)
    )
    made = _FAKES[name if overload in ("", "default") else f"{name}.{overload}"](*of_meta[0], **of_meta[1])

    def on(like: Tensor, device: torch.device) -> Tensor:
        return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=device)

    if isinstance(image, Tensor):
        return tree_map_only(Tensor, lambda t: on(t, image.device), made)
    shards = image if kwargs.get("wanted") is None else [image[i] for i in kwargs["wanted"]]
    return [on(result, shard.device) for result, shard in zip(made, shards, strict=True)]


# Arguments that neither shape nor dtype of the result depends on are taken and left, in `_`.


def _filter2d(
    input: Tensor,
    kernel: Tensor,
    border_type: str = "reflect",
    normalized: bool = False,
    padding: str = "same",
    behaviour: str = "corr",
    *,
    stride: Ints = (1, 1),
    dilation: Ints = (1, 1),
    output_dtype: torch.dtype | None = None,
    **_: object,
) -> Tensor:
    return _one_window("filter2d", 2, input, kernel, padding, stride, dilation, output_dtype)


def _filter3d(
    input: Tensor,
    kernel: Tensor,
    border_type: str = "replicate",
    normalized: bool = False,
    behaviour: str = "corr",
    *,
    padding: str = "same",
    stride: Ints = (1, 1, 1),
    dilation: Ints = (1, 1, 1),
    output_dtype: torch.dtype | None = None,
    **_: object,
) -> Tensor:
    return _one_window("filter3d", 3, input, kernel, padding, stride, dilation, output_dtype)


def _one_window(
    op: str,
    axes: int,
    input: Tensor,
    kernel: Tensor,
    padding: str,
    stride: Ints,
    dilation: Ints,
    output_dtype: torch.dtype | None,
) -> Tensor:
    refuse_meta(op, input, kernel=kernel)
    forms = ", ".join(str(axes + i) for i in range(2)) + f" or {axes + 2}"
    torch._check(
        axes <= kernel.dim() <= axes + 2, lambda: f"{op}: kernel must have {forms} dimensions, got {kernel.dim()}"
    )
    return filtered(op, axes, input, kernel.shape[-axes:], padding, stride, dilation, output_dtype)


def _filter2d_separable(
    input: Tensor,
    kernel_x: Tensor,
    kernel_y: Tensor,
    border_type: str = "reflect",
    normalized: bool = False,
    padding: str = "same",
    *,
    stride: Ints = (1, 1),
    dilation: Ints = (1, 1),
    output_dtype: torch.dtype | None = None,
    **_: object,
) -> Tensor:
    refuse_meta("filter2d_separable", input, kernel_x=kernel_x, kernel_y=kernel_y)
    size = (kernel_y.shape[-1], kernel_x.shape[-1])
    return filtered("filter2d_separable", 2, input, size, padding, stride, dilation, output_dtype)


def _filter3d_separable(
    input: Tensor,
    kernel_x: Tensor,
    kernel_y: Tensor,
    kernel_z: Tensor,
    border_type: str = "replicate",
    normalized: bool = False,
    *,
    padding: str = "same",
    stride: Ints = (1, 1, 1),
    dilation: Ints = (1, 1, 1),
    output_dtype: torch.dtype | None = None,
    **_: object,
) -> Tensor:
    refuse_meta("filter3d_separable", input, kernel_x=kernel_x, kernel_y=kernel_y, kernel_z=kernel_z)
    size = (kernel_z.shape[-1], kernel_y.shape[-1], kernel_x.shape[-1])
    return filtered("filter3d_separable", 3, input, size, padding, stride, dilation, output_dtype)


def _box2d(
    input: Tensor,
    kernel_size: Ints,
    border_type: str = "reflect",
    normalized: bool = True,
    padding: str = "same",
    *,
    output_dtype: torch.dtype | None = None,
    **_: object,
) -> Tensor:
    return filtered("box2d", 2, input, kernel_size, padding, (1, 1), (1, 1), output_dtype)


def _box3d(
    input: Tensor,
    kernel_size: Ints,
    border_type: str = "replicate",
    normalized: bool = True,
    *,
    padding: str = "same",
    output_dtype: torch.dtype | None = None,
    **_: object,
) -> Tensor:
    return filtered("box3d", 3, input, kernel_size, padding, (1, 1, 1), (1, 1, 1), output_dtype)


def _convolution(axes: int) -> Callable[..., Tensor]:
    op, by_torch = f"conv{axes}d", (F.conv1d, F.conv2d, F.conv3d)[axes - 1]

    def fake(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Ints = (1,) * axes,
        padding: Ints | str = (0,) * axes,
        dilation: Ints = (1,) * axes,
        groups: int = 1,
        *,
        padding_mode: str = "zeros",
        algorithm: str = "auto",
        activation: str | None = None,
    ) -> Tensor:
        refuse_meta(op, input, weight=weight, bias=bias)
        check_numbers(op, axes, input, weight, stride, padding, dilation)
        pads = pads_of(weight, padding, dilation)
        channels, bank = input.shape[-axes - 1], weight.shape[0]
        if algorithm != "torch" and served_here(input, weight, groups):
            needed = weight.shape[1] * groups
            torch._check(
                channels == needed, lambda: f"{op}: input must have {needed} channels for this weight, got {channels}"
            )
            torch._check(bank % groups == 0, lambda: f"{op}: {bank} output channels are no multiple of groups {groups}")
            if bias is not None:
                torch._check(
                    bias.dim() == 1 and bias.shape[0] == bank,
                    lambda: f"{op}: bias must have shape ({bank},), got {tuple(bias.shape)}",
                )
            return _convolved(op, axes, input, weight, stride, pads, dilation)
        if padding_mode != "zeros":
            input, padding = F.pad(input, pads, padding_mode), (0,) * axes
        return by_torch(input, weight, bias, stride, padding, dilation, groups)

    return fake


def _conv_ours(*args: Any, **kwargs: Any) -> Tensor:
    axes, args, kwargs = with_lists(*args, **kwargs)
    return _convolution(axes)(*args, **kwargs)


def _weight_gradient(input: Tensor, grad: Tensor, kernel_size: Ints, *_: object) -> tuple[Tensor, Tensor]:
    channels = grad.shape[1]
    return input.new_empty((channels, 1, *kernel_size)), input.new_empty(channels)


def _ladder1d(input: Tensor, kernel: Tensor, variant: str = "naive", block: Ints = (256,)) -> Tensor:
    refuse_meta("ladder1d", input, kernel=kernel)
    return input.new_empty(input.shape, dtype=torch.float32)


def _ladder2d(input: Tensor, kernel: Tensor, variant: str = "naive", block: Ints = (16, 16)) -> Tensor:
    refuse_meta("ladder2d", input, kernel=kernel)
    return input.new_empty(input.shape, dtype=torch.float32)


def _ladder3d(input: Tensor, kernel: Tensor, variant: str = "naive", block: Ints = (8, 8, 8)) -> Tensor:
    refuse_meta("ladder3d", input, kernel=kernel)
    return input.new_empty(input.shape, dtype=torch.float32)


def _into_out(op: str, *windows: str) -> Callable[..., None]:
    """What writes into a tensor that is there already has nothing to make."""

    def fake(input: Tensor, *args: Tensor, out: Tensor, **_: object) -> None:
        refuse_meta(op, input, **dict(zip(windows, args, strict=False)), out=out)

    return fake


def _convolved(name: str, axes: int, input: Tensor, weight: Tensor, stride: Ints, pads: Ints, dilation: Ints) -> Tensor:
    """`pads` as F.pad takes them: the last axis first, before and after."""
    result = []
    for a in range(axes):
        before, after = pads[2 * (axes - 1 - a) :][:2]
        n = input.shape[a - axes] + before + after
        reach = dilation[a] * (weight.shape[a + 2] - 1) + 1
        torch._check(n >= reach, lambda: f"{name}: a window does not fit into the padded input")
        result.append((n - reach) // stride[a] + 1)
    return in_order_of(input, axes, [*input.shape[: -axes - 1], weight.shape[0], *result], input.dtype)
