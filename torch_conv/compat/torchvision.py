"""torchvision's Gaussian blur under its own name: `from torch_conv.compat.torchvision import gaussian_blur`.

Arguments and results are those of torchvision.transforms.functional and of its v2. Two cases that they refuse work
here: kernels larger than the image, and images without a channel dimension.

    >>> import torch
    >>> from torch_conv.compat.torchvision import gaussian_blur
    >>> gaussian_blur(torch.tensor([[[0, 0, 100, 0, 0]]], dtype=torch.uint8), [3, 1])
    tensor([[[ 0, 24, 52, 24,  0]]], dtype=torch.uint8)
"""
# TorchScript reads annotations; it knows Optional[...], not `... | None`, around its own list types.
# ruff: noqa: UP045

from __future__ import annotations

import sys
from collections.abc import Sequence
from operator import index
from typing import Any, Optional

import torch
from torch import Tensor

from torch_conv.compat._missing import missing
from torch_conv.compat._types import PilImage
from torch_conv.functional.smooth import gaussian_blur2d

__all__ = ["gaussian_blur"]

# The modes that torchvision takes, and the dtype of those whose bands are not bytes.
_WIDE_MODES = {"I": torch.int32, "F": torch.float32}
_MODES = ("L", "LA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "I", "F")


def gaussian_blur(
    img: PilImage, kernel_size: int | Sequence[int], sigma: float | Sequence[float] | None = None
) -> PilImage:
    """Smooths an image with a sampled Gaussian, with reflection at the border.

    Args:
        img: image (..., H, W) of any real dtype, any strides, or a PIL image of mode L, LA, RGB, RGBA, RGBX, CMYK,
            YCbCr, HSV, I or F.
        kernel_size: (kx, ky), width first, or one number for both; odd.
        sigma: (sigma_x, sigma_y) in pixels, > 0, or one number for both, also in a list; by default
            0.15 kernel_size + 0.35 along each axis. A tensor of one number gets its gradient.

    Returns:
        Tensor of img's shape and dtype, or a PIL image of its mode and size; integers are rounded half to even.

    Raises:
        ValueError: for an even or negative size, sigma <= 0, a sequence of another length, or another mode.
        TypeError: for a type that is not described above.

    Equivalent to:
        `torchvision.transforms.v2.functional.gaussian_blur`

    Source:
        sigma's default is OpenCV's, 0.3 ((k - 1) / 2 - 1) + 0.8.

    Example:
        >>> gaussian_blur(torch.eye(3)[None], 3, 1.0)
        tensor([[[0.5046, 0.3715, 0.3005],
                 [0.3715, 0.3544, 0.3715],
                 [0.3005, 0.3715, 0.5046]]])
    """
    sizes, sigmas = _sizes(kernel_size), _sigmas(sigma)
    if isinstance(img, Tensor):
        return _blurred(img, sizes, sigmas)
    pil = sys.modules.get("PIL.Image")  # an image exists only where Pillow is imported
    if pil is None or not isinstance(img, pil.Image):
        raise TypeError(f"gaussian_blur: img should be PIL Image or Tensor. Got {type(img)}")
    if img.mode not in _MODES:
        raise ValueError(f"gaussian_blur: img should be a PIL Image of mode {', '.join(_MODES)}. Got {img.mode}")
    bands = torch.frombuffer(bytearray(img.tobytes()), dtype=_WIDE_MODES.get(img.mode, torch.uint8))
    rows = bands.view(1, img.height, img.width, -1).permute(0, 3, 1, 2)
    result = _blurred(rows, sizes, sigmas).permute(0, 2, 3, 1).contiguous()
    return pil.frombytes(img.mode, img.size, result.numpy().tobytes())


def _sizes(kernel_size: Any) -> list[int]:
    if not isinstance(kernel_size, (int, list, tuple)):
        raise TypeError(f"gaussian_blur: kernel_size should be int or a sequence of integers. Got {type(kernel_size)}")
    sizes = [kernel_size, kernel_size] if isinstance(kernel_size, int) else list(kernel_size)
    try:
        return [index(size) for size in sizes]
    except TypeError:
        raise TypeError(f"gaussian_blur: kernel_size should be int or a sequence of integers. Got {sizes}") from None


def _sigmas(sigma: Any) -> Any:
    """A list of numbers, or of tensors where one of them wants a gradient."""
    if sigma is None:
        return None
    if not isinstance(sigma, (int, float, list, tuple)):
        raise TypeError(f"gaussian_blur: sigma should be either float or sequence of floats. Got {type(sigma)}")
    sigmas = [sigma] if isinstance(sigma, (int, float)) else list(sigma)
    try:
        if any(isinstance(s, (str, bytes)) for s in sigmas):  # float() would convert it
            raise TypeError
        if torch.is_grad_enabled() and any(isinstance(s, Tensor) and s.requires_grad for s in sigmas):
            return [torch.as_tensor(s, dtype=torch.float64).reshape(()) for s in sigmas]
        return [float(s) for s in sigmas]
    except (TypeError, ValueError, RuntimeError):  # a RuntimeError: a tensor of several numbers
        raise TypeError(f"gaussian_blur: sigma should be either float or sequence of floats. Got {sigmas}") from None


def _blurred(img: Tensor, kernel_size: list[int], sigma: Optional[list[float]] = None) -> Tensor:
    """`gaussian_blur` of a tensor, which TorchScript can compile."""
    if len(kernel_size) != 2:
        raise ValueError(f"gaussian_blur: If kernel_size is a sequence its length should be 2. Got {len(kernel_size)}")
    kx, ky = kernel_size[0], kernel_size[1]
    if kx % 2 == 0 or kx < 0 or ky % 2 == 0 or ky < 0:
        raise ValueError(f"gaussian_blur: kernel_size should have odd and positive integers. Got {kernel_size}")
    if sigma is None:
        sigma = [kx * 0.15 + 0.35, ky * 0.15 + 0.35]
    elif len(sigma) == 1:
        sigma = [sigma[0], sigma[0]]
    if len(sigma) != 2:
        raise ValueError(f"gaussian_blur: If sigma is a sequence, its length should be 2. Got {len(sigma)}")
    if not (sigma[0] > 0 and sigma[1] > 0):
        raise ValueError(f"gaussian_blur: sigma should have positive values. Got {sigma}")
    if img.dim() < 2:
        raise ValueError(f"gaussian_blur: img should have at least 2 dimensions. Got {img.dim()}")
    floats = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
    if img.is_complex() or (img.is_floating_point() and img.dtype not in floats):
        raise TypeError(f"gaussian_blur: img should be of a real dtype that filters take. Got {img.dtype}")
    served = img.is_floating_point() or img.dtype in [torch.uint8, torch.int16, torch.uint16]
    image = img if served else img.to(torch.float32)
    if not torch.jit.is_scripting():  # noqa: SIM102 (TorchScript skips what is under this condition alone)
        if isinstance(sigma[0], Tensor):
            return _in_dtype_of(img, gaussian_blur2d(image, (ky, kx), torch.stack([sigma[1], sigma[0]]).unsqueeze(0)))
    return _in_dtype_of(img, gaussian_blur2d(image, (ky, kx), (sigma[1], sigma[0])))


def _in_dtype_of(img: Tensor, result: Tensor) -> Tensor:
    if result.dtype == img.dtype:
        return result
    result.round_()  # it returns a plain tensor for a tv_tensor, whose class `to` keeps
    return result.to(img.dtype)


gaussian_blur.__prepare_scriptable__ = lambda: _blurred  # type: ignore[attr-defined]
__getattr__ = missing("compat.torchvision", "torchvision.transforms.functional")


def __dir__() -> list[str]:
    return __all__
