"""What a call must do: the bytes of its image and result, and the multiply-adds of its cheapest exact form.

The cheapest exact form of a window is a sum of separable ones where its rank is low, of a box running sums, of a
derivative its taps that are not 0. Fourier transforms do not count, because their errors depend on the whole tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from torch_conv.bench.anywhere.call import Call
from torch_conv.dispatch.numbers import per_axis

RANK_TOLERANCE = 1e-6  # of singular values, relative to the largest: taps are rounded to float32
DERIVATIVE = {"sobel": 5, "scharr": 5, "prewitt": 5, "diff": 2}  # multiply-adds of one as a separable kernel
SECOND_DERIVATIVE = {"sobel": 8, "diff": 3}
SOBEL_MAGNITUDE = 2 * 5 + 2
TENSOR_CORE_PARTS = {
    torch.float16: 1,
    torch.bfloat16: 1,
    torch.uint8: 2,
}  # of a tap on tensor cores: taps of bytes in two parts


def result_of(call: Call) -> tuple[tuple[int, ...], torch.dtype]:
    """Shape and dtype of the result, without computing it."""
    x = torch.empty(call.shape, dtype=call.dtype, device="meta")
    with torch.no_grad():
        result = call.bound("meta")(x)
    return tuple(result.shape), result.dtype


def bytes_moved(call: Call) -> int:
    """Bytes that the call reads and writes at least: the image and the result, once.

    A gradient reads the incoming gradient, of the result's size, and writes the image's. It reads the image, too, if
    the function is not linear.
    """
    shape, dtype = result_of(call)
    image, result = prod(call.shape) * call.dtype.itemsize, prod(shape) * dtype.itemsize
    state = 2 * prod(call.tensors["conv_state"].shape) * call.dtype.itemsize if "conv_state" in call.tensors else 0
    return image + result + state + (image if call.backward and call.function in NONLINEAR else 0)


NONLINEAR = ("sobel", "gaussian_sobel", "structure_tensor", "thin_edges", "gaussian_gradient_magnitude3d")


def window_sizes(call: Call) -> list[int]:
    """Taps along each axis, in the order of the axes; of a chain, those of its Gaussian."""
    given, axes = call.options, call.axes
    if "kernel" in call.tensors:
        return list(call.tensors["kernel"].shape[-1 if call.function == "filter1d" else -axes :])
    if "kernel_x" in call.tensors:
        return [call.tensors[f"kernel_{axis}"].shape[-1] for axis in "zyx"[-axes:]]
    if "weight" in call.tensors:
        return list(call.tensors["weight"].shape[-axes:])
    if given.get("kernel_size") is not None:
        return [int(k) for k in per_axis(given["kernel_size"], axes)]
    if call.function == "difference_of_gaussians":
        return [gaussian_size(1.6 * s) for s in per_axis(given["low_sigma"], axes)]
    if "sigma" in given:
        return [gaussian_size(s) for s in per_axis(given["sigma"], axes)]
    return [5 if given.get("order") == 2 and given.get("mode") == "sobel" else 3] * axes


def gaussian_size(sigma: float, truncate: float = 4.0) -> int:
    return 2 * int(truncate * sigma + 0.5) + 1


WIDENING = {"gaussian_sobel": 2, "structure_tensor": 2, "thin_edges": 4, "gaussian_gradient_magnitude3d": 2}


def footprint(call: Call) -> list[int]:
    """The pixels along each axis of which one output depends."""
    k, more = window_sizes(call), WIDENING.get(call.function, 0)
    distances = per_axis(call.options.get("dilation", 1), len(k))
    return [(size - 1) * d + 1 + more for size, d in zip(k, distances, strict=True)]


def output_step(call: Call) -> list[int]:
    """The distance of outputs along each axis, in pixels."""
    step = call.options.get("stride", call.options.get("factor", 1))
    return [int(s) for s in per_axis(step, len(window_sizes(call)))]


def spatial(call: Call) -> Sequence[int]:
    """The sizes of the axes that the window has."""
    if call.function == "filter1d":
        return [call.shape[call.options.get("dim", -1)]]
    return call.shape[-len(window_sizes(call)) :]


def multiply_adds(call: Call) -> float:
    """Of the whole call. A gradient in the image takes as many as the call itself."""
    shape, _ = result_of(call)
    return prod(shape) * each(call)


def each(call: Call) -> float:
    """Multiply-adds for an element of the result; a division or a root counts as none."""
    name, given, k = call.function, call.options, window_sizes(call)
    passes = separable(k, output_step(call))
    if name in ("filter1d", "filter2d", "filter3d", "laplacian"):
        return dense(call)
    if name.startswith("conv"):
        return prod(call.tensors["weight"].shape[1:])
    if name in ("causal_conv1d", "causal_conv1d_update"):
        return k[0]
    if name.startswith("box"):
        return 2 * call.axes  # an element enters the running sum of each axis, and one leaves it
    if name.startswith("spatial_gradient"):
        known = SECOND_DERIVATIVE if given["order"] == 2 else DERIVATIVE
        return known[given["mode"]] + 3 * (name.endswith("3d") and given["mode"] == "sobel")
    chains: dict[str, float] = {
        "difference_of_gaussians": passes + separable([gaussian_size(s) for s in lows(call)], [1, 1]),
        "gaussian_laplace": 2 * passes,
        "unsharp_mask": passes + 1,
        "sobel": SOBEL_MAGNITUDE,
        "gaussian_sobel": passes + SOBEL_MAGNITUDE,
        "thin_edges": passes + SOBEL_MAGNITUDE,
        "structure_tensor": passes + (2 * DERIVATIVE[given.get("mode", "sobel")] + 3) / 3,  # for one of three results
        "gaussian_gradient_magnitude3d": passes + 3 * (2 if given.get("mode") == "diff" else 8) + 3,
    }
    return chains.get(name, passes)


def lows(call: Call) -> Sequence[float]:
    return per_axis(call.options.get("low_sigma", 1.0), 2)


def separable(k: Sequence[int], step: Sequence[int]) -> float:
    """Of one pass an axis, the last one first: a pass before a step along another axis computes what that one drops."""
    total, kept = 0.0, 1
    for size, distance in sorted(zip(k, step, strict=True), key=lambda axis: axis[1]):
        total = total * distance + size
        kept *= distance
    return total


def dense(call: Call) -> float:
    """Taps that are not 0, or fewer as sums of separable kernels."""
    if call.function == "laplacian":
        box = call.options["variant"] == "box"
        return min(prod(window_sizes(call)), 5) if box else {"4": 5, "8": 5, "opencv3": 5}[call.options["variant"]]
    taps = one_window(call)
    count = int((taps != 0).sum())
    if taps.dim() < 2:
        return count
    return min(count, rank_of(call) * separable(window_sizes(call), output_step(call)))


def one_window(call: Call) -> Tensor:
    axes = len(window_sizes(call))
    taps: Tensor = call.arguments("cpu")["kernel"].double()
    return taps.reshape(-1, *taps.shape[-axes:])[0]


def rank_of(call: Call) -> float:
    """How many separable kernels sum to the window; of volumes 1 or, for want of a cheap answer, infinitely many."""
    taps = one_window(call)
    unfolded = [taps.movedim(axis, 0).flatten(1) for axis in range(taps.dim())]
    ranks = [int(torch.linalg.matrix_rank(m, rtol=RANK_TOLERANCE)) for m in unfolded]
    return max(ranks) if taps.dim() == 2 or max(ranks) == 1 else float("inf")
