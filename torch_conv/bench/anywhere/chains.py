"""Every function in plain torch: borders by F.pad, windows by F.conv, the rest pointwise. It is the rival of all calls.

It gives None for what torch has no form of: the borders 'symmetric', 'skip' and 'zero_output', a window a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_conv import kernels
from torch_conv.bench.anywhere.call import Call
from torch_conv.bench.anywhere.checking import axes_of
from torch_conv.bench.anywhere.work import gaussian_size, window_sizes
from torch_conv.bench.chains import magnitude, rounded_to
from torch_conv.bench.pipelines import CURVE, SLOPE, SMOOTH, five
from torch_conv.dispatch.numbers import per_axis
from torch_conv.reference.pipelines import suppress

PADDED = ("constant", "replicate", "reflect", "circular")
SCALES = {"sobel": 8, "diff": 2, "scharr": 32, "prewitt": 6}
SIDES = {"sobel": [1.0, 2, 1], "diff": [0.0, 1, 0], "scharr": [3.0, 10, 3], "prewitt": [1.0, 1, 1]}
CONVS: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}

Rows = Sequence[Tensor]  # the taps along each axis of a separable window


class Chain:
    """One drawn call on images (N, C, ...) of floats, each channel for itself."""

    def __init__(self, call: Call, given: dict[str, Any], device: str) -> None:
        self.call, self.given, self.axes = call, given, call.axes
        self.floats = computed_in(call.dtype, device)
        self.border = given.get("border_type", default_border(call))
        self.step, self.distance = (per_axis(given.get(name, 1), self.axes) for name in ("stride", "dilation"))
        self.device = device

    def on_device(self, taps: Tensor) -> Tensor:
        return taps.to(self.device, self.floats)

    def padded(self, x: Tensor, sizes: Sequence[int], distance: Sequence[int]) -> Tensor:
        if self.given.get("padding") == "valid":
            return x
        anchor = self.given.get("anchor")
        around: list[int] = []
        for k, d in zip(reversed(sizes), reversed(distance), strict=True):
            before = k // 2 if anchor == -1 else (k - 1) // 2
            around += [before * d, (k - 1 - before) * d]
        value = self.given.get("value", 0.0) if self.border == "constant" else None
        return F.pad(x, around, mode=self.border, value=value)

    def conv(self, x: Tensor, weight: Tensor, step: Sequence[int], distance: Sequence[int]) -> Tensor:
        """Each channel with the windows (outputs, 1, ...) of `weight`."""
        channels = x.shape[1]
        if channels > 1 and len(weight) != channels:
            weight = weight.repeat(channels, *[1] * (weight.dim() - 1))
        return CONVS[self.axes](x, weight, None, list(step), 0, list(distance), channels)

    def dense(self, x: Tensor, weight: Tensor) -> Tensor:
        return self.conv(self.padded(x, weight.shape[2:], self.distance), weight, self.step, self.distance)

    def passes(self, x: Tensor, rows: Rows, step: Sequence[int] | None = None, plain: bool = False) -> Tensor:
        """A separable window, one axis after the other; `plain` ignores strides and dilations."""
        one = [1] * self.axes
        steps, distance = (one, one) if plain else (step or self.step, self.distance)
        x = self.padded(x, [len(taps) for taps in rows], distance)
        for axis in reversed(range(self.axes)):
            shape = [-1 if a == axis else 1 for a in range(self.axes)]
            along = [steps[a] if a == axis else 1 for a in range(self.axes)]
            x = self.conv(x, self.on_device(rows[axis]).view(1, 1, *shape), along, distance)
        return x

    def gaussian(self, sigmas: Sequence[float], sizes: Sequence[int]) -> list[Tensor]:
        return [kernels.gaussian1d(k, s, dtype=torch.float64) for k, s in zip(sizes, sigmas, strict=True)]

    def blur(self) -> list[Tensor]:
        return self.gaussian(per_axis(self.given["sigma"], self.axes), window_sizes(self.call))

    def slopes(self, mode: str, normalized: bool = True) -> Tensor:
        """The windows of the first derivatives along x, y (and z), (outputs, 1, ...)."""
        along, side = SLOPE.double(), torch.tensor(SIDES[mode], dtype=torch.float64)
        if self.axes == 3:
            along, side = along / 2, side / side.sum()
        found = []
        for axis in reversed(range(self.axes)):
            rows = [along if a == axis else side for a in range(self.axes)]
            found.append(outer(rows) / (SCALES[mode] if normalized and self.axes == 2 else 1))
        return self.on_device(torch.stack(found)[:, None])

    def curvatures(self, mode: str) -> Tensor:
        """The windows of the second derivatives in the order of `spatial_gradient` and `spatial_gradient3d`."""
        one, slope, curve = (torch.tensor([0.0, 1, 0]), SLOPE, CURVE)
        if self.axes == 3:
            by = (one, slope / 2, curve)
            rows = [[by[name.count(a)] for a in "zyx"] for name in ("xx", "yy", "zz", "xy", "yz", "xz")]
        elif mode == "diff":
            rows = [[one, curve], [slope / 2, slope / 2], [curve, one]]
        else:
            smooth, mixed, curved = five(SMOOTH, SMOOTH), five(SMOOTH, SLOPE), five(SLOPE, SLOPE)
            rows = [[smooth, curved / 64], [mixed, mixed / 64], [curved / 64, smooth]]
        return self.on_device(torch.stack([outer(each) for each in rows])[:, None])

    def derivatives(self, x: Tensor) -> Tensor:
        mode = self.given["mode"]
        return self.dense(x, self.curvatures(mode) if self.given["order"] == 2 else self.slopes(mode))

    def first(self, x: Tensor, mode: str, normalized: bool = True) -> list[Tensor]:
        return list(self.dense(x, self.slopes(mode, normalized)).split(1, dim=1))


def computed_in(dtype: torch.dtype, device: str) -> torch.dtype:
    """The dtype of torch's convolutions: on a CPU some of half precision do not return (torch 2.11)."""
    if (dtype.itemsize == 2 and device == "cpu") or not dtype.is_floating_point:
        return torch.float32
    return dtype


def outer(rows: Rows) -> Tensor:
    product = rows[0].double()
    for taps in rows[1:]:
        product = product[..., None] * taps.double()
    return product


def default_border(call: Call) -> str:
    replicated = call.axes == 3 or call.function in ("sobel", "spatial_gradient")
    return "replicate" if replicated else "reflect"


# ---- one function each: images (N, C, ...) -> images, unrounded ------------------------------------------------------


def any_window(c: Chain, x: Tensor) -> Tensor:
    taps = c.on_device(c.given["kernel"])
    spatial = tuple(range(-len(window_sizes(c.call)), 0))
    if c.given.get("behaviour") == "conv":
        taps = taps.flip(spatial)
    if c.given.get("normalized"):
        taps = taps / taps.abs().sum(spatial, keepdim=True)
    return c.dense(x, taps.reshape(-1, 1, *taps.shape[-c.axes :]))


def any_row(c: Chain, x: Tensor) -> Tensor:
    """filter1d of images (N, 1, L): the filtered dimension is the last one."""
    return c.dense(x, c.on_device(c.given["kernel"])[None, None])


def separable(c: Chain, x: Tensor) -> Tensor:
    return c.passes(x, [c.given[f"kernel_{axis}"] for axis in "zyx"[-c.axes :]])


def box(c: Chain, x: Tensor) -> Tensor:
    mean = c.given.get("normalized", True)
    return c.passes(x, [torch.full((k,), 1 / k if mean else 1.0, dtype=torch.float64) for k in window_sizes(c.call)])


def gaussian(c: Chain, x: Tensor) -> Tensor:
    return c.passes(x, c.blur(), [c.given.get("factor", 1)] * c.axes)


def unsharp(c: Chain, x: Tensor) -> Tensor:
    blurred = c.passes(x, c.blur())
    return torch.lerp(middle(x, blurred), blurred, -c.given["amount"])


def middle(x: Tensor, y: Tensor) -> Tensor:
    """The part of the image x that has a result in y: all of it, or with padding 'valid' less."""
    for dim in range(2, x.dim()):
        x = x.narrow(dim, (x.shape[dim] - y.shape[dim]) // 2, y.shape[dim])
    return x


def difference(c: Chain, x: Tensor) -> Tensor:
    low = [float(s) for s in per_axis(c.given["low_sigma"], 2)]
    high = [1.6 * s for s in low]
    wide = c.passes(x, c.gaussian(high, [gaussian_size(s) for s in high]))
    narrow = c.passes(x, c.gaussian(low, [gaussian_size(s) for s in low]))
    return middle(narrow, wide) - wide


def laplace_of_gaussian(c: Chain, x: Tensor) -> Tensor:
    sigmas = [float(s) for s in per_axis(c.given["sigma"], 2)]
    blur = c.blur()
    total = None
    for axis, sigma in enumerate(sigmas):
        away = torch.arange(len(blur[axis]), dtype=torch.float64) - len(blur[axis]) // 2
        curved = blur[axis] * (away.square() / sigma**2 - 1) / sigma**2
        term = c.passes(x, [curved if a == axis else taps for a, taps in enumerate(blur)])
        total = term if total is None else total + term
    assert total is not None
    return total


def laplacian(c: Chain, x: Tensor) -> Tensor:
    taps = kernels.laplacian(c.given["kernel_size"], variant=c.given["variant"], dtype=torch.float64)
    return c.dense(x, c.on_device(taps / taps.abs().sum())[None, None])


def sobel(c: Chain, x: Tensor) -> Tensor:
    return magnitude(c.first(x, "sobel", c.given.get("normalized", True)), c.given.get("eps", 1e-6))


def gaussian_sobel(c: Chain, x: Tensor) -> Tensor:
    gx, gy = c.first(c.passes(x, c.blur()), "sobel", False)
    return gx.abs() + gy.abs() if c.given["magnitude"] == "l1" else torch.hypot(gx, gy)


def structure_tensor(c: Chain, x: Tensor) -> Tensor:
    gx, gy = c.first(x, c.given["mode"])
    return torch.cat([c.passes(product, c.blur()) for product in (gx * gx, gx * gy, gy * gy)], 1)


def thin_edges(c: Chain, x: Tensor) -> Tensor:
    gx, gy = c.first(c.passes(x, c.blur()), "sobel", False)
    thin = suppress(torch.hypot(gx, gy), gx, gy)
    return thin[..., 1:-1, 1:-1] if c.given.get("padding") == "valid" else thin


def gradient_magnitude3d(c: Chain, x: Tensor) -> Tensor:
    return magnitude(c.first(c.passes(x, c.blur()), c.given["mode"]))


CHAINS: dict[str, Callable[[Chain, Tensor], Tensor]] = {
    **dict.fromkeys(("filter2d", "filter3d"), any_window),
    "filter1d": any_row,
    **dict.fromkeys(("filter2d_separable", "filter3d_separable"), separable),
    **dict.fromkeys(("box_blur", "box_blur3d"), box),
    **dict.fromkeys(("gaussian_blur2d", "gaussian_blur3d", "gaussian_downsample"), gaussian),
    "unsharp_mask": unsharp,
    "difference_of_gaussians": difference,
    "gaussian_laplace": laplace_of_gaussian,
    "laplacian": laplacian,
    **dict.fromkeys(("spatial_gradient", "spatial_gradient3d"), Chain.derivatives),
    "sobel": sobel,
    "gaussian_sobel": gaussian_sobel,
    "structure_tensor": structure_tensor,
    "thin_edges": thin_edges,
    "gaussian_gradient_magnitude3d": gradient_magnitude3d,
}
# Each channel gives several results, or several convolutions are combined: images of one channel each.
OF_PLANES = ("spatial_gradient", "sobel", "structure", "thin", "gaussian_sobel", "gaussian_gradient")


def has_form(call: Call, given: dict[str, Any]) -> bool:
    """Whether torch has this call."""
    if given.get("border_type", "reflect") not in PADDED:
        return False
    return "kernel" not in call.tensors or len(call.tensors["kernel"].shape) <= call.axes


def by_torch(call: Call, given: dict[str, Any], device: str) -> Callable[[Tensor], Tensor]:
    """The call on images (N, C, ...) of its dtype, as `shaped` makes them of its own image."""
    chain, run = Chain(call, given, device), CHAINS[call.function]
    out = given.get("output_dtype") or call.dtype
    if call.function == "filter1d":
        chain.axes = 1
        chain.step, chain.distance = (per_axis(given.get(name, 1), 1) for name in ("stride", "dilation"))
    return lambda x: rounded_to(out, run(chain, x.to(chain.floats)))


def shaped(call: Call, x: Tensor, inner: bool) -> Tensor:
    """The image as (N, C, ...) in its memory format, or as planes (N, 1, ...)."""
    if call.function == "filter1d":
        dim = axes_of(call)[0]
        return x.movedim(dim, -1).reshape(-1, 1, x.shape[dim])
    spatial = x.shape[-call.axes :]
    return x.reshape(-1, x.shape[-call.axes - 1], *spatial) if inner else x.reshape(-1, 1, *spatial)


def unshaped(call: Call, y: Tensor, x: Tensor) -> Tensor:
    """A result in the shape of the call's own."""
    if call.function == "filter1d":
        dim = axes_of(call)[0]
        lead = x.movedim(dim, -1).shape[:-1]
        return y.reshape(*lead, y.shape[-1]).movedim(-1, dim)
    planes = [y.shape[1]] if call.function.startswith(("spatial_gradient", "structure")) else []
    return y.reshape(*x.shape[: -call.axes], *planes, *y.shape[-call.axes :])
