"""Fake implementations of the pipelines: chains of small filters, as large as one window with the reach of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from torch_conv._fakes import filtered, refuse_meta


def _gradient2d(
    input: Tensor,
    mode: str = "sobel",
    order: int = 1,
    normalized: bool = True,
    *,
    padding: str = "same",
    output_dtype: torch.dtype | None = None,
    **_: object,
) -> Tensor:
    both = mode in ("sobel", "diff")
    _check_word("gradient2d", "mode", mode, _MODES)
    torch._check(
        order == 1 or (order == 2 and both),
        lambda: f"gradient2d: order must be {'1 or 2' if both else '1'} for mode '{mode}', got {order}",
    )
    k = 5 if order == 2 and mode == "sobel" else 3
    return _chain("gradient2d", input, [k, k], padding, output_dtype, order + 1)


def _sobel2d(
    input: Tensor,
    normalized: bool = True,
    eps: float = 1e-6,
    *,
    padding: str = "same",
    output_dtype: torch.dtype | None = None,
    **_: object,
) -> Tensor:
    return _chain("sobel2d", input, [3, 3], padding, output_dtype)


def _separable_sum2d(
    input: Tensor,
    kernels_x: Sequence[Tensor],
    kernels_y: Sequence[Tensor],
    border_type: str = "reflect",
    *,
    padding: str = "same",
    output_dtype: torch.dtype | None = None,
    **_: object,
) -> Tensor:
    refuse_meta("separable_sum2d", input, kernels_x=kernels_x, kernels_y=kernels_y)
    torch._check(
        len(kernels_x) == len(kernels_y) and 1 <= len(kernels_x) <= 3,
        lambda: (
            "separable_sum2d: kernels_x and kernels_y must be equally many, 1 to 3, "
            f"got {len(kernels_x)} and {len(kernels_y)}"
        ),
    )
    for name, kernels in (("kernels_x", kernels_x), ("kernels_y", kernels_y)):
        for kernel in kernels:
            _check_row("separable_sum2d", name, kernel)
    sizes = [kernels_y[0].shape[-1], kernels_x[0].shape[-1]]
    for name, kernels, k in (("kernels_y", kernels_y, sizes[0]), ("kernels_x", kernels_x, sizes[1])):
        for kernel in kernels:
            torch._check(
                kernel.shape[-1] == k,
                lambda n=name, a=k, b=kernel.shape[-1]: (
                    f"separable_sum2d: {n} must have the same number of taps each, got {a} and {b}"
                ),
            )
    return _chain("separable_sum2d", input, sizes, padding, output_dtype)


def _smoothing(op: str, lost: int, axes: int = 2, outputs: int = 0, **words: tuple[str, ...]) -> Callable[..., Tensor]:
    """The fake of a chain with a window of the caller's, whose other stages reach over `lost` more pixels an axis.

    `words` says what arguments that are words may be.
    """
    names = ("kernel_x", "kernel_y", "kernel_z")[:axes]

    def fake(
        input: Tensor,
        *rows: Tensor | str,
        padding: str = "same",
        output_dtype: torch.dtype | None = None,
        **given: object,
    ) -> Tensor:
        kernels = [row for row in rows[:axes] if isinstance(row, Tensor)]
        refuse_meta(op, input, **dict(zip(names, kernels, strict=True)))
        for argument, allowed in words.items():
            _check_word(op, argument, given.get(argument, allowed[0]), allowed)
        for name, kernel in zip(names, kernels, strict=True):
            _check_row(op, name, kernel)
        return _chain(op, input, [k.shape[-1] + lost for k in reversed(kernels)], padding, output_dtype, outputs)

    return fake


_MODES = ("sobel", "diff", "scharr", "prewitt")
_ROWS = ("kernel_x", "kernel_y")
# The fake of every pipeline, and the names of its windows.
FAKES: dict[str, tuple[Callable[..., Tensor], tuple[str, ...]]] = {
    "gradient2d": (_gradient2d, ()),
    "sobel2d": (_sobel2d, ()),
    "gaussian_sobel2d": (_smoothing("gaussian_sobel2d", 2, magnitude=("l1", "l2")), _ROWS),
    "separable_sum2d": (_separable_sum2d, ("kernels_x", "kernels_y")),
    "unsharp_mask2d": (_smoothing("unsharp_mask2d", 0), _ROWS),
    "structure_tensor2d": (_smoothing("structure_tensor2d", 2, outputs=3, mode=_MODES), _ROWS),
    "thin_edges2d": (_smoothing("thin_edges2d", 4), _ROWS),
    "gaussian_gradient3d": (_smoothing("gaussian_gradient3d", 2, 3, mode=("diff", "sobel")), (*_ROWS, "kernel_z")),
}


def _chain(
    op: str, input: Tensor, sizes: list[int], padding: str, output_dtype: torch.dtype | None, outputs: int = 0
) -> Tensor:
    ones = (1,) * len(sizes)
    return filtered(op, len(sizes), input, sizes, padding, ones, ones, output_dtype, outputs)


def _check_row(op: str, name: str, kernel: Tensor) -> None:
    torch._check(1 <= kernel.dim() <= 3, lambda: f"{op}: {name} must have 1, 2 or 3 dimensions, got {kernel.dim()}")
    k = kernel.shape[-1]
    torch._check(k % 2 == 1, lambda: f"{op}: {name} must have an odd number of taps, got {k}")


def _check_word(op: str, argument: str, word: object, allowed: tuple[str, ...]) -> None:
    names = ", ".join(f"'{w}'" for w in allowed[:-1]) + f" or '{allowed[-1]}'"
    torch._check(word in allowed, lambda: f"{op}: {argument} must be {names}, got '{word}'")
