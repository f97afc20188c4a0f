"""Shared by the tests of depthwise convolutions on the CPU: the definition, cases, and the variants that serve them."""

import itertools
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from strategies import make_image, make_window

ops = torch.ops.torch_conv

VARIANTS = {  # and a layout that they serve
    "channels": "channels_last",
    "blocks": "contiguous",
    "strips": "contiguous",
    "plane_pairs": "contiguous",
    "channel_pairs": "channels_last",
    "block_pairs": "contiguous",
}
PAIRS = [variant for variant in VARIANTS if variant.endswith("pairs")]
EXACT_ACTIVATIONS = {
    None: lambda x: x,
    "relu": lambda x: torch.where(x < 0, 0, x),
    "relu6": lambda x: torch.where(x < 0, 0, torch.where(x > 6, 6, x)),
    "hardswish": lambda x: x * torch.where(x + 3 < 0, 0, torch.where(x + 3 > 6, 6, x + 3)) / 6,
}
CURVES = {"gelu": F.gelu, "silu": F.silu}


def fma(a, b, c):
    """a * b + c of float32 numbers in one rounding: the product is exact in float64, the sum is rounded to odd there,
    and so the rounding to float32 is the only one."""
    product, c = a.double() * b.double(), c.double()
    total = product + c
    other = total - product
    lost = (product - (total - other)) + (c - other)
    even = (total.view(torch.int64) & 1) == 0
    odd = torch.nextafter(total, torch.where(lost > 0, torch.inf, -torch.inf).double())
    return torch.where((lost != 0) & lost.isfinite() & even, odd, total).float()


def chain(image, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), activation=None):
    """The definition: row by row, tap by tap, from 0 on; then the bias, the activation, one rounding."""
    (n, c, _, _), (outputs, _, kh, kw) = image.shape, weight.shape
    padded = F.pad(image.float(), (padding[1], padding[1], padding[0], padding[0]))
    padded = padded.repeat_interleave(outputs // c, 1)
    h = (padded.shape[2] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    w = (padded.shape[3] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    total = torch.zeros(n, outputs, h, w)
    for i, j in itertools.product(range(kh), range(kw)):
        rows = slice(i * dilation[0], i * dilation[0] + (h - 1) * stride[0] + 1, stride[0])
        columns = slice(j * dilation[1], j * dilation[1] + (w - 1) * stride[1] + 1, stride[1])
        total = fma(weight[:, 0, i, j].float()[:, None, None], padded[:, :, rows, columns], total)
    total = total + (0 if bias is None else bias.float()[:, None, None])
    return EXACT_ACTIVATIONS[activation](total).to(image.dtype)


def conv(image, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), activation=None):
    options = {"groups": image.shape[1], "algorithm": "direct", "activation": activation}
    return ops.conv2d(image, weight, bias, list(stride), list(padding), list(dilation), **options)


def case(dtype, channels, h, w, kh, kw, multiplier=1, n=2):
    outputs = channels * multiplier
    return (
        make_image((n, channels, h, w), dtype),
        make_window((outputs, 1, kh, kw), dtype),
        make_window((outputs,), dtype, seed=3),
    )


def instructions(variant):
    """Whether this processor has those that the variant is made of."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    return {"avx512f", "avx512bw", "avx512vl"} | ({"avx512_bf16"} if variant in PAIRS else set()) <= set(flags)


def offered(variant, dtype):
    """Whether the variant has this dtype, and the processor the instructions that it is made of."""
    if variant == "strips" or variant in PAIRS:
        return dtype == (torch.float32 if variant == "strips" else torch.bfloat16) and instructions(variant)
    return (variant, dtype) != ("blocks", torch.float64)


def served(pinned, variant, call, dtype=torch.bfloat16):
    """The call's result by this variant; skips where it is not to be had."""
    result = pinned(variant, call)
    assert (result is not None) == offered(variant, dtype)
    if result is None:
        pytest.skip(f"no {variant} of this dtype or on this processor")
    return result
