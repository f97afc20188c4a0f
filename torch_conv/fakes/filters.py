"""Fake implementations of filters, of chains of them, and of textbook kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from torch_conv.dispatch.operators import Arguments, Operator, Signature
from torch_conv.fakes.shapes import filtered, refuse_meta


def fake_filter(operator: Operator) -> Callable[..., Tensor]:
    name, axes, signature = operator.name, operator.axes, Signature(operator.name)
    ones = (1,) * axes

    def fake(*args: object, **options: object) -> Tensor:
        given = signature.bind(args, options)
        refuse_meta(name, given["input"], **{kernel: given[kernel] for kernel in operator.kernels})
        if operator.check is not None:
            operator.check(given)
        _check(operator, given)
        return filtered(
            name,
            axes,
            given["input"],
            _footprint(operator, given),
            given["padding"],
            given.get("stride", ones),
            given.get("dilation", ones),
            given["output_dtype"],
            operator.planes(given) if operator.planes is not None else 0,
        )

    return fake


def fake_out(operator: Operator) -> Callable[..., None]:
    """The fake of the form that writes into `out` and returns nothing."""
    signature = Signature(f"{operator.name}_out")

    def fake(*args: object, **options: object) -> None:
        given = signature.bind(args, options)
        refuse_meta(
            operator.name, given["input"], **{kernel: given[kernel] for kernel in operator.kernels}, out=given["out"]
        )

    return fake


def fake_ladder(operator: Operator) -> Callable[..., Tensor]:
    def fake(input: Tensor, kernel: Tensor, *_: object, **__: object) -> Tensor:
        refuse_meta(operator.name, input, kernel=kernel)
        return input.new_empty(input.shape, dtype=torch.float32)

    return fake


def _check(operator: Operator, given: Arguments) -> None:
    name, axes = operator.name, operator.axes
    for argument, allowed in operator.choices.items():
        choice, choices = given[argument], ", ".join(f"'{c}'" for c in allowed[:-1]) + f" or '{allowed[-1]}'"
        torch._check(choice in allowed, lambda a=argument, c=choice, cs=choices: f"{name}: {a} must be {cs}, got '{c}'")
    if "kernel" in operator.kernels:
        dims = given["kernel"].dim()
        expected = f"{axes}, {axes + 1} or {axes + 2}"
        torch._check(axes <= dims <= axes + 2, lambda: f"{name}: kernel must have {expected} dimensions, got {dims}")
    if operator.kind == "chain":
        for argument in operator.kernels:
            for kernel in _terms(given[argument]):
                _check_row(name, argument, kernel)


def _check_row(name: str, argument: str, kernel: Tensor) -> None:
    torch._check(
        1 <= kernel.dim() <= 3, lambda: f"{name}: {argument} must have 1, 2 or 3 dimensions, got {kernel.dim()}"
    )
    k = kernel.shape[-1]
    torch._check(k % 2 == 1, lambda: f"{name}: {argument} must have an odd number of taps, got {k}")


def _footprint(operator: Operator, given: Arguments) -> Sequence[int]:
    if operator.footprint is not None:
        return operator.footprint(given)
    if "kernel" in operator.kernels:
        return given["kernel"].shape[-operator.axes :]
    z_to_x = reversed(list(operator.kernels))
    sizes = [_taps(operator.name, argument, _terms(given[argument])) for argument in z_to_x]
    return [k + operator.widening for k in sizes or [1] * operator.axes]


def _terms(kernel: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    """The kernels of an argument: one, or one for each term of a sum."""
    return [kernel] if isinstance(kernel, Tensor) else kernel


def _taps(name: str, argument: str, kernels: Sequence[Tensor]) -> int:
    k = kernels[0].shape[-1]
    for kernel in kernels[1:]:
        torch._check(
            kernel.shape[-1] == k,
            lambda own=kernel.shape[-1]: (
                f"{name}: {argument} must have the same number of taps each, got {k} and {own}"
            ),
        )
    return k
