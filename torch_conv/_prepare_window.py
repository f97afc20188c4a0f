"""Windows on a GPU before their first call: `torch_conv.kernels.prepare`."""

import torch
from torch import Tensor


def prepare(window: Tensor) -> Tensor:
    """The window where `filter2d` is fastest with it: on the CPU if it is one for 'low_rank', else where it lies.

    `filter2d` looks at the values of a window on the CPU only; on a GPU it would have to wait for them. This function
    waits, once, and no call of `filter2d` with its result does. The copy does not see later changes of `window`.

    `filter2d` itself decides, as it does for planes of 2048 x 2048 pixels on the window's device, other arguments at
    their defaults; the image has the window's dtype if that is float64, float16 or bfloat16, else float32. For other
    images and arguments it may take another algorithm than 'low_rank' all the same: for small images, for float64 ones
    if the window is not, with a stride, or with 'skip' and `normalized` if the window is of rank 2 or more.

    Args:
        window: (kH, kW), (B, kH, kW) or (B, C, kH, kW), any real dtype and device, as `filter2d` takes it.

    Returns:
        `window.cpu()`, with its gradient, where `filter2d` then takes 'low_rank'; otherwise `window` itself, as always
        if it lies on the CPU.

    Raises:
        ValueError: if the window has another number of dimensions or no tap.
        TypeError: if it is no tensor, or of a dtype that is not described above.

    Equivalent to:
        `window.cpu() if "low_rank" in str(torch_conv.explain(filter2d, image, window.cpu())) else window`

    Example:
        >>> window = torch_conv.kernels.gaussian2d(31, 4.0)
        >>> window = window.to("cuda" if torch.cuda.is_available() else "cpu")
        >>> prepare(window).device
        device(type='cpu')
    """
    if not isinstance(window, Tensor):
        raise TypeError(f"prepare: window must be of type Tensor, got {type(window).__name__}")
    if window.layout is not torch.strided:
        raise TypeError(f"prepare: window must be a dense tensor, got {str(window.layout).removeprefix('torch.')}")
    host = window.cpu()
    dtype = window.dtype if window.dtype in (torch.float64, torch.float16, torch.bfloat16) else torch.float32
    samples, channels = (*window.shape[:-2], 1, 1)[:2]
    image = torch.empty(2048, dtype=dtype, device=window.device).expand(samples, channels, 2048, 2048)
    try:
        by_passes = torch.ops.torch_conv._filter2d_by_passes(image, host.detach())
    except RuntimeError as error:
        if not str(error).startswith("filter2d: "):  # the machine's, not the window's
            raise
        sentence = str(error).replace("filter2d: kernel", "prepare: window")
        raise (TypeError if "dtype" in sentence else ValueError)(sentence) from None
    return host if by_passes else window
