"""`torch_conv.kernels.prepare`: the device on which `filter2d` is fastest with a kernel."""

import torch
from torch import Tensor

from torch_conv.dispatch.remedies import no_tensor


def prepare(window: Tensor) -> Tensor:
    """Copies a kernel to the CPU if `filter2d` then takes 'low_rank', the fastest algorithm for it.

    `filter2d` reads the values of a kernel on the CPU only, because it would have to wait for a GPU. This function
    waits once, and later calls of `filter2d` do not. The copy does not follow changes of `window`.

    The decision is that of `filter2d` for planes of 2048 x 2048 pixels on the kernel's device, with default arguments.
    The image has the kernel's dtype if that is float64, float16 or bfloat16, else float32. `filter2d` may decide
    otherwise for small images, other dtypes, strides, or 'skip' with `normalized`.

    Args:
        window: the kernel: (kH, kW), (B, kH, kW) or (B, C, kH, kW), any real dtype and device, as for `filter2d`.

    Returns:
        `window.cpu()`, with its gradient, if `filter2d` takes 'low_rank' with it; else `window` itself.

    Raises:
        ValueError: if the kernel has another number of dimensions or no tap.
        TypeError: if it is not a tensor of a real dtype.

    Equivalent to:
        `window.cpu() if "low_rank" in str(torch_conv.explain(filter2d, image, window.cpu())) else window`

    Example:
        >>> window = torch_conv.kernels.gaussian2d(31, 4.0)
        >>> window = window.to("cuda" if torch.cuda.is_available() else "cpu")
        >>> prepare(window).device
        device(type='cpu')
    """
    if not isinstance(window, Tensor):
        raise no_tensor("prepare", "window", window)
    if window.layout is not torch.strided:
        raise TypeError(f"prepare: window must be a dense tensor, got {str(window.layout).removeprefix('torch.')}")
    host = window.cpu()
    dtype = window.dtype if window.dtype in (torch.float64, torch.float16, torch.bfloat16) else torch.float32
    samples, channels = (*window.shape[:-2], 1, 1)[:2]
    image = torch.empty(2048, dtype=dtype, device=window.device).expand(samples, channels, 2048, 2048)
    try:
        by_passes = torch.ops.torch_conv._filter2d_by_passes(image, host.detach())
    except RuntimeError as error:
        if not str(error).startswith("filter2d: "):  # not about the kernel
            raise
        sentence = str(error).replace("filter2d: kernel", "prepare: window")
        raise (TypeError if "dtype" in sentence else ValueError)(sentence) from None
    return host if by_passes else window
