"""Where a step of training, all gradients included, is faster by ours; `torch-conv bench training` measures it."""

import math
from bisect import bisect_left

import torch
from torch import Tensor

# What an eager step takes by torch, in us for 10^6 outputs: for windows of up to 9, 25, 100 and more taps; by axes,
# bytes of a number, and whether channels lie innermost. One NVIDIA H200, the least of 64x96x56x56, 64x672x14x14,
# 8x96x56x56, 64x768x7x7 and 8x64x64x64 (13x13), signals of 16x2048x4096 and 64x768x1024.
_MOST_TAPS = (9, 25, 100)
_BY_TORCH_US = {
    (2, 2, False): (17, 28, 150, 450),
    (2, 2, True): (12, 18, 38, 750),
    (2, 4, False): (44, 83, 144, 420),
    (2, 4, True): (15, 32, 222, 1400),
    (1, 2, False): (16, 16, 55, 55),
    (1, 2, True): (33, 33, 73, 73),
    (1, 4, False): (24, 24, 86, 86),
    (1, 4, True): (45, 45, 107, 107),
}
# A step of ours takes the host 80 to 110 us more than torch's, whose autograd is C++ (210 and 100 us, 7x7 of 1x96x56x56
# on the machine of that GPU). A model that the host binds feels it, so layers are ours where torch takes this much.
_LEAST_US = 350


def trained_faster(input: Tensor, weight: Tensor, axes: int, stride: int, padding: int, dilation: int) -> bool:
    """Of a convolution with zeros outside and one number for all axes."""
    if axes == 3 or dilation != 1 or stride > 2 or not input.is_cuda or input.dtype == torch.float64:
        return False
    if weight.shape[1] != 1 or input.dim() != axes + 2 or input.shape[1] < 2 or padding >= min(weight.shape[2:]):
        return False
    if weight.shape[-1] > 32:  # the weight's gradient is torch's then
        return False
    # The same problems from CUDA graphs, without the host's time: ours are 1.2 to 24 times as fast in all of them.
    if torch.compiler.is_compiling() or torch.cuda.is_current_stream_capturing():
        return True
    inner = input.stride(1) == 1
    if not inner and not input.is_contiguous():
        return False
    taps = math.prod(weight.shape[2:])
    of_taps = _BY_TORCH_US[axes, input.element_size(), inner][bisect_left(_MOST_TAPS, taps)]
    outputs = input.numel() / stride**axes * (weight.shape[0] / input.shape[1])
    return outputs * of_taps >= _LEAST_US * 1e6
