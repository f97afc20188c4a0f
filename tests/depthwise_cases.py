"""Shared by the tests of depthwise convolutions: the kernels, compared with one another and with the exact result."""

from functools import partial

import torch
import torch.nn.functional as F
import witness
from tolerance import assert_same_bits, assert_within

import torch_conv

CHAINS = ["warps", "planes", "tiles", "large", "channels", "channels_tma", "channels_rows", "rows", "general"]
MMA = ["planes_mma", "large_mma", "channels_mma", "rows_mma"]
HALVES = [torch.float16, torch.bfloat16]
LAYOUTS = ["contiguous", "channels_last", "offset", "padded_rows", "every_other"]


def conv(image, weight, bias=None, algorithm="direct", **options):
    run = torch_conv.conv1d if weight.dim() == 3 else torch_conv.conv2d
    return run(image, weight, bias, groups=image.shape[1], algorithm=algorithm, **options)


def exact(image, weight, bias, stride=1, padding=0, dilation=1, activation=None):
    """In float64, and the same sum of magnitudes; the activation's slope is never more than 1.13."""
    tensors = [None if t is None else t.cpu().double() for t in (image, weight, bias)]
    sums = witness.conv(*tensors, stride, padding, dilation, image.shape[1])
    scale = witness.conv(*(None if t is None else t.abs() for t in tensors), stride, padding, dilation, image.shape[1])
    return (getattr(F, activation)(sums), 2 * scale) if activation else (sums, scale)


def check_every_kernel(device, pinned, image, weight, bias=None, served=None, **options):
    """FMA kernels give one another's bits, and the CPU's.

    Tensor-core kernels stay within their bound, and their general variants give the same bits.
    """
    served = {} if served is None else served
    expected, scale = exact(image, weight, bias, **options)
    window = tuple(weight.shape[2:])
    if image.is_cuda:
        cpu = conv(image.cpu(), weight.cpu(), None if bias is None else bias.cpu(), **options)
    chain = conv(image, weight, bias, **options)
    # An activation is one more rounding or two, and its function is not the same on both.
    assert_within(chain, expected, scale, in_dtype=image.dtype, algorithm="tensor_core", window=window)
    if image.is_cuda and options.get("activation") in (None, "relu", "relu6"):
        assert_same_bits(chain, cpu)
    for variant in CHAINS if image.is_cuda else []:
        got = pinned(variant, lambda: conv(image, weight, bias, **options))
        if got is not None:
            served[variant] = served.get(variant, 0) + 1
            assert_same_bits(got, chain)
            assert got.stride() == chain.stride()
    products = image.is_cuda and image.dtype in HALVES and image.shape[1] > 1
    for variant in MMA if products else []:
        call = partial(conv, image, weight, bias, "tensor_core", **options)
        got = pinned(variant, call)
        general = pinned(f"{variant}_general", call)
        assert (got is None) == (general is None)
        if got is not None:
            served[variant] = served.get(variant, 0) + 1
            assert_within(got, expected, scale, in_dtype=image.dtype, algorithm="tensor_core", window=window)
            assert_same_bits(general, got)
            assert got.stride() == general.stride() == chain.stride()
    return served
