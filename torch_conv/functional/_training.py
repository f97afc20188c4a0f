"""Where a step of training, forward and all gradients, is faster by our kernels; benchmarks/training.py measures it."""

import math

import torch
from torch import Tensor

# What an eager step takes by torch, in us for 10^6 outputs: for windows of up to 9, up to 25 and more taps; by axes,
# bytes of a number, and whether channels lie innermost. One NVIDIA H200, the least of 64x96x56x56, 64x672x14x14,
# 8x96x56x56 and 64x768x7x7, signals of 16x2048x4096 and 64x768x1024.
_BY_TORCH_US = {
    (2, 2, False): (17, 28, 150),
    (2, 2, True): (12, 18, 38),
    (2, 4, False): (44, 83, 144),
    (2, 4, True): (15, 32, 222),
    (1, 2, False): (16, 16, 55),
    (1, 2, True): (33, 33, 73),
    (1, 4, False): (24, 24, 86),
    (1, 4, True): (45, 45, 107),
}
_OUR_HOST_US = 165  # of a step of ours; what torch does in less is left to it


def trained_faster(input: Tensor, weight: Tensor, axes: int, stride: int, padding: int, dilation: int) -> bool:
    """Of a convolution with zeros outside and one number for all axes."""
    if axes == 3 or dilation != 1 or stride > 2 or not input.is_cuda or input.dtype == torch.float64:
        return False
    if weight.shape[1] != 1 or input.dim() != axes + 2 or input.shape[1] < 2 or padding >= min(weight.shape[2:]):
        return False
    # The same problems from CUDA graphs, without the host's time: ours are 1.2 to 24 times as fast in all of them.
    if torch.compiler.is_compiling() or torch.cuda.is_current_stream_capturing():
        return True
    inner = input.stride(1) == 1
    if not inner and not input.is_contiguous():
        return False
    taps = math.prod(weight.shape[2:])
    of_taps = _BY_TORCH_US[axes, input.element_size(), inner][0 if taps <= 9 else 1 if taps <= 25 else 2]
    outputs = input.numel() / stride**axes * (weight.shape[0] / input.shape[1])
    return outputs * of_taps >= _OUR_HOST_US * 1e6
