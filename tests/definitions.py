"""The named filters by their definitions, in float64: one window each, handed to torch_conv.reference."""

from __future__ import annotations

import functools

import numpy as np
import torch

from torch_conv import reference

DERIVATIVES = {
    # mode, order: the raw windows and what normalisation divides them by
    ("sobel", 1): ([[[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]], [8]),
    ("scharr", 1): ([[[-3, 0, 3], [-10, 0, 10], [-3, 0, 3]]], [32]),
    ("prewitt", 1): ([[[-1, 0, 1], [-1, 0, 1], [-1, 0, 1]]], [6]),
    ("diff", 1): ([[[0, 0, 0], [-1, 0, 1], [0, 0, 0]]], [2]),
    ("sobel", 2): (
        [
            [[1, 0, -2, 0, 1], [4, 0, -8, 0, 4], [6, 0, -12, 0, 6], [4, 0, -8, 0, 4], [1, 0, -2, 0, 1]],
            [[1, 2, 0, -2, -1], [2, 4, 0, -4, -2], [0, 0, 0, 0, 0], [-2, -4, 0, 4, 2], [-1, -2, 0, 2, 1]],
        ],
        [64, 64],
    ),
    ("diff", 2): ([[[0, 0, 0], [1, -2, 1], [0, 0, 0]], [[1, 0, -1], [0, 0, 0], [-1, 0, 1]]], [1, 4]),
}
LAPLACIANS = {
    "4": [[0, 1, 0], [1, -4, 1], [0, 1, 0]],
    "8": [[1, 1, 1], [1, -8, 1], [1, 1, 1]],
    "opencv3": [[2, 0, 2], [0, -8, 0], [2, 0, 2]],
}


def per_axis(value, axes=2):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * axes


def radius(sigma, truncate=4.0):
    return int(truncate * sigma + 0.5)


def gaussian(size, sigma):
    x = np.arange(size) - (size - 1) / 2
    taps = np.exp(-0.5 * (x / sigma) ** 2)
    return taps / taps.sum()


def gaussian_window(size, sigma, truncate=4.0, axes=2):
    """(ky, kx) or (kz, ky, kx) sampled Gaussian; without a size the one that `truncate` sets."""
    sigmas = per_axis(sigma, axes)
    sizes = [2 * radius(s, truncate) + 1 for s in sigmas] if size is None else per_axis(size, axes)
    return outer(*(gaussian(k, s) for k, s in zip(sizes, sigmas, strict=True)))


def outer(*taps):
    return functools.reduce(np.multiply.outer, [np.asarray(t, float) for t in taps])


def centred(window, shape):
    """`window` with zeros around it."""
    before = [(n - k) // 2 for n, k in zip(shape, window.shape, strict=True)]
    return np.pad(window, [(b, n - k - b) for b, n, k in zip(before, shape, window.shape, strict=True)])


def apply(image, window, border_type, **options):
    """Images by a window of two axes, volumes by one of three."""
    window = torch.as_tensor(np.asarray(window, np.float64))
    filter_ = reference.filter2d if window.dim() == 2 else reference.filter3d
    return filter_(image.double(), window, border_type, **options)


def gaussian_blur2d(image, kernel_size, sigma, border_type="reflect", separable=True, *, truncate=4.0, **options):
    return apply(image, gaussian_window(kernel_size, sigma, truncate), border_type, **options)


def gaussian_blur3d(image, kernel_size, sigma, border_type="replicate", *, truncate=4.0, **options):
    return apply(image, gaussian_window(kernel_size, sigma, truncate, 3), border_type, **options)


def laplacian(image, kernel_size, border_type="reflect", normalized=True, *, variant="box", **options):
    ky, kx = per_axis(kernel_size)
    window = np.ones((ky, kx)) if variant == "box" else LAPLACIANS[variant]
    if variant == "box":
        window[ky // 2, kx // 2] = 1 - ky * kx
    return apply(image, window, border_type, normalized=normalized, **options)


def unsharp_mask(image, kernel_size, sigma, border_type="reflect", *, amount=1.0, **options):
    blur = gaussian_window(kernel_size, sigma)
    return apply(image, (1 + amount) * centred(np.ones((1, 1)), blur.shape) - amount * blur, border_type, **options)


def difference_of_gaussians(image, low_sigma, high_sigma=None, border_type="reflect", *, truncate=4.0, **options):
    high = gaussian_window(None, 1.6 * low_sigma if high_sigma is None else high_sigma, truncate)
    low = gaussian_window(None, low_sigma, truncate)
    return apply(image, centred(low, high.shape) - high, border_type, **options)


def gaussian_laplace(image, sigma, border_type="reflect", *, truncate=4.0, **options):
    """Second derivative along one axis, smoothing along the other, summed over the axes."""
    smooth, second = [], []
    for s in per_axis(sigma):
        r = radius(s, truncate)
        x, taps = np.arange(-r, r + 1), gaussian(2 * r + 1, s)
        smooth.append(taps)
        second.append(taps * (x**2 / s**4 - 1 / s**2))
    window = np.outer(second[0], smooth[1]) + np.outer(smooth[0], second[1])
    return apply(image, window, border_type, **options)


def spatial_gradient(image, mode="sobel", order=1, normalized=True, *, border_type="replicate", **options):
    """(..., 2, H, W) holding d/dx and d/dy, or (..., 3, H, W) holding xx, xy and yy."""
    windows, divisors = DERIVATIVES[mode, order]
    windows = [np.array(w) / (d if normalized else 1) for w, d in zip(windows, divisors, strict=True)]
    windows.append(windows[0].T)
    return torch.stack([apply(image, w, border_type, **options) for w in windows], -3)


def spatial_gradient3d(image, mode="diff", order=1, *, border_type="replicate", **options):
    """(..., 3, D, H, W) holding d/dx, d/dy and d/dz, or (..., 6, D, H, W) holding xx, yy, zz, xy, yz and xz."""
    slope, bend, along = np.array([-1, 0, 1]) / 2, np.array([1, -2, 1]), {"x": 2, "y": 1, "z": 0}
    windows = []
    for derivative in ("x", "y", "z") if order == 1 else ("xx", "yy", "zz", "xy", "yz", "xz"):
        taps = [np.array([1, 2, 1]) / 4 if mode == "sobel" else np.array([0, 1, 0])] * 3
        for axis in set(derivative):
            taps[along[axis]] = bend if derivative == 2 * axis else slope
        windows.append(outer(*taps))
    return torch.stack([apply(image, w, border_type, **options) for w in windows], -4)


def sobel(image, normalized=True, eps=1e-6, *, border_type="replicate", **options):
    gradient = spatial_gradient(image, "sobel", 1, normalized, border_type=border_type, **options)
    return (gradient.square().sum(-3) + eps).sqrt()


def gaussian_sobel(image, kernel_size, sigma, border_type="reflect", *, magnitude="l2", **options):
    blurred = gaussian_blur2d(image, kernel_size, sigma, border_type, **options)
    gx, gy = spatial_gradient(blurred, "sobel", 1, False, border_type=border_type, **options).unbind(-3)
    return gx.abs() + gy.abs() if magnitude == "l1" else (gx.square() + gy.square()).sqrt()
