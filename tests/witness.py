"""Independent witnesses in NumPy: the same sums written another way, to hold torch_conv.reference to account."""

from __future__ import annotations

import numpy as np

PAD_MODES = {
    "constant": "constant",
    "replicate": "edge",
    "reflect": "reflect",
    "symmetric": "symmetric",
    "circular": "wrap",
    "skip": "constant",
    "zero_output": "constant",
}


def filter2d(
    image,
    kernel,
    border_type="reflect",
    normalized=False,
    padding="same",
    behaviour="corr",
    *,
    value=0.0,
    anchor=None,
    stride=1,
    dilation=1,
):
    """numpy.pad, then one shifted slice per tap. `kernel` broadcasts against `image` without its last two axes."""
    image, kernel = np.asarray(image, np.float64), np.asarray(kernel, np.float64)
    if kernel.ndim == 3 and kernel.shape[0] > 1:
        kernel = kernel[:, None]  # (B, kH, kW): per sample
    elif kernel.ndim > 2 and image.ndim < 4:
        kernel = kernel.reshape(kernel.shape[-2:])
    if behaviour == "conv":
        kernel = kernel[..., ::-1, ::-1]
    total = np.abs(kernel).sum((-1, -2), keepdims=True)
    if normalized and border_type != "skip":
        kernel = kernel / total
    (kh, kw), (h, w) = kernel.shape[-2:], image.shape[-2:]
    (sy, sx), (dy, dx) = np.broadcast_to(stride, 2), np.broadcast_to(dilation, 2)
    ay, ax = ((kh - 1) // 2, (kw - 1) // 2) if anchor is None else np.broadcast_to(anchor, 2)
    ay, ax = (k // 2 if a == -1 else a for a, k in ((ay, kh), (ax, kw)))
    before = (ay * dy, ax * dx)
    after = ((kh - 1 - ay) * dy, (kw - 1 - ax) * dx)
    widths = [(0, 0)] * (image.ndim - 2) + list(zip(before, after, strict=True))
    mode = PAD_MODES[border_type]
    fill = {"constant_values": value if border_type == "constant" else 0.0} if mode == "constant" else {}
    inside = np.pad(np.ones_like(image), widths)
    wide = np.pad(image, widths, mode=mode, **fill)
    if padding == "valid":
        crop = (..., slice(before[0], before[0] + h), slice(before[1], before[1] + w))
        inside, wide, size = inside[crop], wide[crop], (h - (kh - 1) * dy, w - (kw - 1) * dx)
    else:
        size = (h, w)
    out = np.zeros((*image.shape[:-2], *size))
    weight, hit = np.zeros_like(out), np.zeros_like(out)
    for i in range(kh):
        for j in range(kw):
            at = (..., slice(i * dy, i * dy + size[0]), slice(j * dx, j * dx + size[1]))
            tap = kernel[..., i, j, None, None]
            out += tap * wide[at]
            weight += np.abs(tap) * inside[at]
            hit += inside[at]
    if border_type == "skip" and normalized:
        out /= weight
    if border_type == "zero_output":
        out[hit < kh * kw] = 0.0
    return out[..., ::sy, ::sx]


def box_sum(image, size, border_type, anchor):
    """Window sums by cumulative sums in float64: fast for any size, exact on integers."""
    (ky, kx), (ay, ax) = size, anchor
    widths = [(0, 0)] * (image.ndim - 2) + [(ay, ky - 1 - ay), (ax, kx - 1 - ax)]
    wide = np.pad(np.asarray(image, np.float64), widths, mode=PAD_MODES[border_type])
    for axis, k in ((-2, ky), (-1, kx)):
        sums = np.insert(np.cumsum(wide, axis), 0, 0, axis)
        n = sums.shape[axis]
        wide = np.take(sums, np.arange(k, n), axis) - np.take(sums, np.arange(n - k), axis)
    return wide
