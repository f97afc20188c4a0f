"""Calls whose kernels are not built ahead, for tests/test_background.py and the processes that it starts."""

import torch

import torch_conv

HALF = torch.float16
PLANES = (2, 3, 60, 96)


def image(*shape, dtype=torch.float32, **options):
    generator = torch.Generator().manual_seed(len(shape))
    return (torch.rand(shape, generator=generator, **options) * 200).to(dtype)


def taps(*shape):
    """A window whose memory begins at a multiple of 128 bytes: the alignment is part of a call's signature."""
    generator = torch.Generator().manual_seed(1)
    window = torch.rand(shape, generator=generator) / torch.tensor(shape).prod()
    memory = torch.empty(window.numel() + 32)
    begin = -memory.data_ptr() % 128 // 4
    return memory[begin : begin + window.numel()].view(shape).copy_(window)


# Calls whose kernels are not built ahead, on tensors of any device.
CALLS = {
    "filter2d": lambda at: torch_conv.filter2d(at(image(*PLANES)), taps(9, 11)),
    "filter2d, unaligned rows": lambda at: torch_conv.filter2d(at(image(2, 3, 60, 97)), taps(5, 6)),
    "filter2d, few taps": lambda at: torch_conv.filter2d(at(image(*PLANES, dtype=HALF)), taps(3, 2)),
    "filter2d, bytes": lambda at: torch_conv.filter2d(at(image(*PLANES, dtype=torch.uint8)), taps(4, 6)),
    "filter3d": lambda at: torch_conv.filter3d(at(image(1, 1, 9, 40, 48, dtype=HALF)), taps(5, 5, 5)),
    "filter2d_separable": lambda at: torch_conv.filter2d_separable(at(image(*PLANES)), taps(11), taps(9)),
    "filter3d_separable": lambda at: torch_conv.filter3d_separable(at(image(1, 1, 20, 40, 48)), *[taps(9)] * 3),
    "box_blur": lambda at: torch_conv.box_blur(at(image(*PLANES)), (21, 17)),
    "box_blur, bytes": lambda at: torch_conv.box_blur(at(image(*PLANES, dtype=torch.uint8)), (21, 17)),
    "box_blur3d": lambda at: torch_conv.box_blur3d(at(image(1, 1, 20, 40, 48)), (9, 8, 7)),
    "gaussian_sobel": lambda at: torch_conv.gaussian_sobel(at(image(*PLANES)), 7, 1.5, border_type="replicate"),
    "thin_edges": lambda at: torch_conv.thin_edges(at(image(*PLANES, dtype=HALF)), 5, 1.5),
    "depthwise conv2d": lambda at: torch_conv.conv2d(
        at(image(2, 8, 20, 24)), at(taps(8, 1, 4, 5)), groups=8, padding=2, activation="silu"
    ),
    "gaussian_gradient_magnitude3d": lambda at: torch_conv.gaussian_gradient_magnitude3d(
        at(image(1, 1, 20, 40, 48, dtype=HALF)), sigma=0.5
    ),
    "causal_conv1d_update": lambda at: torch_conv.causal_conv1d_update(
        at(image(2, 8, dtype=HALF)), at(image(2, 8, 4, dtype=HALF)), at(taps(8, 4))
    ),
    "causal_conv1d": lambda at: torch_conv.causal_conv1d(at(image(2, 8, 96)), at(taps(8, 3))),
}
# Calls on tensor cores. The sums of no chain have their bits.
ON_TENSOR_CORES = {
    "filter2d": lambda at: torch_conv.filter2d(at(image(*PLANES, dtype=HALF)), taps(11, 9)),
    "filter2d, unaligned rows": lambda at: torch_conv.filter2d(at(image(2, 3, 60, 97, dtype=HALF)), taps(6, 8)),
    "filter2d, bfloat16": lambda at: torch_conv.filter2d(at(image(*PLANES, dtype=torch.bfloat16)), taps(8, 9)),
    "filter2d_separable": lambda at: torch_conv.filter2d_separable(at(image(*PLANES, dtype=HALF)), taps(19), taps(17)),
    "filter2d_separable, bytes": lambda at: torch_conv.filter2d_separable(
        at(image(*PLANES, dtype=torch.uint8)), taps(25), taps(11)
    ),
    "depthwise conv2d": lambda at: torch_conv.conv2d(
        at(image(2, 8, 28, 28, dtype=HALF)), at(taps(8, 1, 5, 5).to(HALF)), groups=8, padding=2
    ),
    "depthwise conv2d, channels_last": lambda at: torch_conv.conv2d(
        at(image(2, 32, 28, 28, dtype=HALF)).contiguous(memory_format=torch.channels_last),
        at(taps(32, 1, 7, 5).to(HALF)),
        groups=32,
        padding=(3, 2),
    ),
    "depthwise conv1d": lambda at: torch_conv.conv1d(
        at(image(2, 8, 512, dtype=HALF)), at(taps(8, 1, 21).to(HALF)), groups=8, padding=10
    ),
}
