"""Independent witnesses in NumPy and torch: the same sums another way, to hold torch_conv.reference to account."""

import functools

import numpy as np
import torch.nn.functional as F
from strategies import as_tuple

SCIPY = {
    "constant": "constant",
    "replicate": "nearest",
    "reflect": "mirror",
    "symmetric": "reflect",
    "circular": "wrap",
}
PAD_MODES = {
    "constant": "constant",
    "replicate": "edge",
    "reflect": "reflect",
    "symmetric": "symmetric",
    "circular": "wrap",
    "skip": "constant",
    "zero_output": "constant",
}


def filter2d(image, kernel, border_type="reflect", normalized=False, padding="same", behaviour="corr", **options):
    return correlate(2, image, kernel, border_type, normalized, padding, behaviour, **options)


def filter3d(image, kernel, border_type="replicate", normalized=False, behaviour="corr", *, padding="same", **options):
    return correlate(3, image, kernel, border_type, normalized, padding, behaviour, **options)


def correlate(
    axes, image, kernel, border_type, normalized, padding, behaviour, *, value=0.0, anchor=None, stride=1, dilation=1
):
    """numpy.pad, then one shifted slice per tap. `kernel` broadcasts against `image` without its last `axes` axes."""
    image, kernel = np.asarray(image, np.float64), np.asarray(kernel, np.float64)
    if kernel.ndim == axes + 1 and kernel.shape[0] > 1:
        kernel = kernel[:, None]  # per sample
    elif kernel.ndim > axes and image.ndim < axes + 2:
        kernel = kernel.reshape(kernel.shape[-axes:])
    spatial = tuple(range(-axes, 0))
    if behaviour == "conv":
        kernel = np.flip(kernel, spatial)
    total = np.abs(kernel).sum(spatial, keepdims=True)
    if normalized and border_type != "skip":
        kernel = kernel / total
    window, size = kernel.shape[-axes:], image.shape[-axes:]
    steps, spread = np.broadcast_to(stride, axes), np.broadcast_to(dilation, axes)
    anchors = [(k - 1) // 2 for k in window] if anchor is None else np.broadcast_to(anchor, axes)
    anchors = [k // 2 if a == -1 else a for a, k in zip(anchors, window, strict=True)]
    before = [a * d for a, d in zip(anchors, spread, strict=True)]
    after = [(k - 1 - a) * d for k, a, d in zip(window, anchors, spread, strict=True)]
    widths = [(0, 0)] * (image.ndim - axes) + list(zip(before, after, strict=True))
    mode = PAD_MODES[border_type]
    fill = {"constant_values": value if border_type == "constant" else 0.0} if mode == "constant" else {}
    inside = np.pad(np.ones_like(image), widths)
    wide = np.pad(image, widths, mode=mode, **fill)
    if padding == "valid":
        crop = (..., *(slice(b, b + n) for b, n in zip(before, size, strict=True)))
        inside, wide = inside[crop], wide[crop]
        size = tuple(n - (k - 1) * d for n, k, d in zip(size, window, spread, strict=True))
    out = np.zeros((*image.shape[:-axes], *size))
    weight, hit = np.zeros_like(out), np.zeros_like(out)
    for index in np.ndindex(*window):
        at = (..., *(slice(i * d, i * d + n) for i, d, n in zip(index, spread, size, strict=True)))
        tap = kernel[(..., *index)][(..., *[None] * axes)]
        out += tap * wide[at]
        weight += np.abs(tap) * inside[at]
        hit += inside[at]
    if border_type == "skip" and normalized:
        out /= weight
    if border_type == "zero_output":
        out[hit < np.prod(window)] = 0.0
    return out[(..., *(slice(None, None, s) for s in steps))]


def outer(*taps):
    """The window whose taps along each axis these are, in float64."""
    return functools.reduce(np.multiply.outer, [np.asarray(t, float) for t in taps])


def box_sum(image, size, border_type, anchor):
    """Window sums by cumulative sums in float64: fast for any size, exact on integers."""
    axes = len(size)
    widths = [(0, 0)] * (image.ndim - axes) + [(a, k - 1 - a) for a, k in zip(anchor, size, strict=True)]
    wide = np.pad(np.asarray(image, np.float64), widths, mode=PAD_MODES[border_type])
    for axis, k in zip(range(-axes, 0), size, strict=True):
        sums = np.insert(np.cumsum(wide, axis), 0, 0, axis)
        n = sums.shape[axis]
        wide = np.take(sums, np.arange(k, n), axis) - np.take(sums, np.arange(n - k), axis)
    return wide


def conv(image, weight, bias, stride, padding, dilation, groups, padding_mode="zeros"):
    """F.convNd; other padding modes by F.pad, as torch.nn.ConvNd does."""
    axes = weight.dim() - 2
    if padding_mode != "zeros":
        if padding == "same":
            spans = [d * (k - 1) for d, k in zip(as_tuple(dilation, axes), weight.shape[2:], strict=True)]
            pads = [(s // 2, s - s // 2) for s in spans]
        else:
            pads = [(p, p) for p in as_tuple(padding, axes)]
        image, padding = F.pad(image, [p for pad in reversed(pads) for p in pad], mode=padding_mode), 0
    return getattr(F, f"conv{axes}d")(image, weight, bias, stride, padding, dilation, groups)
