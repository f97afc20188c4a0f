"""The table of the library's operators.

Fakes, gradients, vmap, autocast, flop counts and DTensors read it. A new operator is a new row, with kernels in csrc/
and a formula of its gradient in torch_conv/autograd/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload

# The arguments of a call by name.
Arguments = dict[str, Any]


@dataclass(frozen=True)
class Operator:
    """A row of the table.

    The kind decides the operator's other forms, its fake and its vmap rule:

        filter        images or volumes by one kernel, with border, stride and dilation
        chain         several filters in one launch
        convolution   as F.convNd
        sequence      causal convolutions of (B, D, L)
        ladder        textbook kernels
        gradient      operators that backward calls
    """

    name: str  # in torch.ops.torch_conv; "conv2d.padding" names an overload
    kind: str
    axes: int  # the operator works along this many last dimensions
    kernels: Mapping[str, int] = field(default_factory=dict)  # arguments with taps: their dimensions along the axes
    # Per axis, the footprint has `widening` more pixels than the kernel, or the sizes that `footprint` returns.
    widening: int = 0
    footprint: Callable[[Arguments], Sequence[int]] | None = None
    planes: Callable[[Arguments], int] | None = None  # the size of a dimension that the result adds before its axes
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)  # string arguments: their allowed values
    check: Callable[[Arguments], None] | None = None  # further checks of the fake
    taps: Callable[[Arguments], int] = lambda given: 0  # multiplications per result without those of the kernels
    gradient: str = ""  # "module.function" of torch_conv/autograd; if empty, backward raises
    linear: bool = True  # in the image: only other gradients need the image's values
    keeps_output: bool = False  # whether backward needs the result's values
    writes: str = ""  # the argument that the operator writes into

    @property
    def public(self) -> str:
        """The name in refusals."""
        return self.name.partition(".")[0].removesuffix("_out").removesuffix("_states")

    @property
    def has_out(self) -> bool:
        """Whether there is an operator X_out that writes into `out`."""
        return self.kind in ("filter", "chain")

    @property
    def has_split(self) -> bool:
        """Whether there is an operator X_split on shards."""
        return self.has_out or (self.kind == "convolution" and not self.name.startswith("_"))

    def forms(self) -> Iterator[str]:
        """The names of the operator and its other forms (csrc/api/schema.h)."""
        yield self.name
        if self.has_out:
            yield f"{self.name}_out"
        if self.has_split:
            yield split_name(self.name)
            yield _query_name(split_name(self.name))
        if self.name not in _WITHOUT_QUERY:
            yield _query_name(self.name)


def split_name(name: str) -> str:
    """The operator on shards that belongs to an operator: `filter2d_split`, `conv2d_split.padding`."""
    return _with_suffix(name, "_split")


def _query_name(name: str) -> str:
    return "_" + _with_suffix(name.removeprefix("_"), "_query")


def _with_suffix(name: str, suffix: str) -> str:
    base, dot, overload = name.partition(".")
    return f"{base}{suffix}{dot}{overload}"


def overload_of(name: str) -> OpOverload:
    """The operator of this name, which may be an overload's."""
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.torch_conv, packet), overload or "default")


class Signature:
    """An operator's arguments."""

    def __init__(self, name: str) -> None:
        self.arguments = overload_of(name)._schema.arguments
        self.names = [argument.name for argument in self.arguments]
        self._defaults = {a.name: a.default_value for a in self.arguments if a.has_default_value()}

    def bind(self, args: Sequence[Any], options: Arguments) -> dict[str, Any]:
        """All arguments of a call by name."""
        return {**self._defaults, **dict(zip(self.names, args, strict=False)), **options}


def _mode(given: Arguments) -> str:
    return given["derivative" if "derivative" in given else "mode"]  # X_out calls the mode a derivative


def _check_order(given: Arguments) -> None:
    mode, order = given["mode"], given["order"]
    both = mode in ("sobel", "diff")
    torch._check(
        order == 1 or (order == 2 and both),
        lambda: f"gradient2d: order must be {'1 or 2' if both else '1'} for mode '{mode}', got {order}",
    )


def _check_terms(given: Arguments) -> None:
    a, b = len(given["kernels_x"]), len(given["kernels_y"])
    torch._check(
        a == b and 1 <= a <= 3,
        lambda: f"separable_sum2d: kernels_x and kernels_y must be equally many, 1 to 3, got {a} and {b}",
    )


def _derivative_size(given: Arguments) -> int:
    return 5 if given["order"] == 2 and _mode(given) == "sobel" else 3


def _derivative_taps(given: Arguments) -> int:
    return 3 if _mode(given) == "diff" else _derivative_size(given) ** 2


_MODES = ("sobel", "diff", "scharr", "prewitt")
_XY = {"kernel_x": 1, "kernel_y": 1}
_XYZ = {**_XY, "kernel_z": 1}


def _filter(name: str, axes: int, kernels: Mapping[str, int], gradient: str, **facts: Any) -> Operator:
    return Operator(name, "filter", axes, kernels, gradient=f"_filters.{gradient}_gradients", **facts)


def _box(name: str, axes: int) -> Operator:
    def size(given: Arguments) -> Sequence[int]:
        return given["kernel_size"]

    return _filter(name, axes, {}, "box", footprint=size, taps=lambda given: sum(size(given)))


def _chain(
    name: str, axes: int, kernels: Mapping[str, int], taps: int | Callable[[Arguments], int] = 0, **facts: Any
) -> Operator:
    """`taps` counts those of all derivatives together, for each result."""
    count = taps if callable(taps) else lambda _: taps
    return Operator(name, "chain", axes, kernels, taps=count, gradient=f"_pipelines.{name}", **facts)


def _convolution(name: str, axes: int, gradient: str = "conv_gradients") -> Operator:
    return Operator(name, "convolution", axes, gradient=f"_convolutions.{gradient}")


def _causal(name: str) -> Operator:
    return Operator(name, "sequence", 1, gradient="_sequences.causal_gradients", linear=False)


_ROWS = (
    _filter("filter2d", 2, {"kernel": 2}, "filter"),
    _filter("filter2d_separable", 2, _XY, "separable"),
    _box("box2d", 2),
    _filter("filter3d", 3, {"kernel": 3}, "filter"),
    _filter("filter3d_separable", 3, _XYZ, "separable"),
    _box("box3d", 3),
    _chain(
        "gradient2d",
        2,
        {},
        _derivative_taps,
        footprint=lambda given: [_derivative_size(given)] * 2,
        planes=lambda given: given["order"] + 1,
        choices={"mode": _MODES},
        check=_check_order,
    ),
    _chain("sobel2d", 2, {}, 2 * 9, widening=2, linear=False),
    _chain("gaussian_sobel2d", 2, _XY, 2 * 9, widening=2, choices={"magnitude": ("l1", "l2")}, linear=False),
    _chain("separable_sum2d", 2, {"kernels_x": 1, "kernels_y": 1}, check=_check_terms),
    _chain("unsharp_mask2d", 2, _XY),
    # Three results share the taps of two derivatives.
    _chain("structure_tensor2d", 2, _XY, 2 * 3, widening=2, planes=lambda _: 3, choices={"mode": _MODES}, linear=False),
    _chain("thin_edges2d", 2, _XY, 2 * 9, widening=4, linear=False, keeps_output=True),
    _chain("gaussian_gradient3d", 3, _XYZ, 3 * 3, widening=2, choices={"mode": ("diff", "sobel")}, linear=False),
    _convolution("conv1d", 1),
    _convolution("conv2d", 2),
    _convolution("conv3d", 3),
    _convolution("conv1d.padding", 1),
    _convolution("conv2d.padding", 2),
    _convolution("conv3d.padding", 3),
    _convolution("_conv_ours", 0, "numbers_gradients"),  # the axes are an argument
    _causal("causal_conv1d"),
    _causal("causal_conv1d_states"),
    Operator("causal_conv1d_states_out", "sequence", 1, writes="final_states_out"),
    Operator("causal_conv1d_update", "sequence", 1, writes="conv_state"),
    Operator("ladder1d", "ladder", 1, {"kernel": 1}),
    Operator("ladder2d", "ladder", 2, {"kernel": 2}),
    Operator("ladder3d", "ladder", 3, {"kernel": 3}),
    Operator("_weight_gradient", "gradient", 0),
    Operator("_weight_gradient_or_torch", "gradient", 0),
)
OPERATORS = {operator.name: operator for operator in _ROWS}
_WITHOUT_QUERY = ("_conv_ours", "causal_conv1d_states_out", "_weight_gradient_or_torch")
# Schemas without a row. They take no tensors of users, or their callers handle gradients, vmap and fakes.
UTILITIES = (
    "_conv",
    *("_stepwise_passes", "_stepwise_means", "_stepwise_window"),
    *("_filter2d_in_float64", "_filter2d_separable_in_float64", "_box2d_in_float64"),
    *("_filter2d_by_passes", "_filter2d_least_taps", "_conv_route", "_conv_limits", "_handover_reasons"),
    *("_borders", "_shard_runs", "_shard_piece", "_shards_read"),
    *("_build_kernels", "_ptxas", "_store_report", "_deliver", "_deliver_and_repeat", "_repeated_calls"),
    *("_compile_in_background", "_finish_compiling"),
)
