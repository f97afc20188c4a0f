"""What the tests feed to the operators: images in every dtype and layout, windows, and hypothesis cases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st

DTYPES = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.uint8,
    torch.int16,
    torch.uint16,
]
FLOATS = [d for d in DTYPES if d.is_floating_point]
INTEGERS = [d for d in DTYPES if not d.is_floating_point]
EXTENDING = ["constant", "replicate", "reflect", "symmetric", "circular"]
BORDERS = [*EXTENDING, "skip", "zero_output"]
LAYOUTS = ["contiguous", "channels_last", "transposed", "every_other", "offset", "padded_rows"]
RANGES = {torch.uint8: (0, 256), torch.int16: (-32768, 32768), torch.uint16: (0, 65536)}


def make_image(shape, dtype=torch.float32, seed=42, device="cpu"):
    """Noise: normal for floats, the whole range for integers."""
    generator = torch.Generator().manual_seed(seed)
    if dtype in RANGES:
        return torch.randint(*RANGES[dtype], tuple(shape), generator=generator, dtype=torch.int32).to(dtype).to(device)
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float64).to(dtype).to(device)


def make_window(shape, dtype=torch.float32, seed=7, device="cpu"):
    """Taps in about [-1, 1], none of them special; small whole numbers for integer dtypes."""
    generator = torch.Generator().manual_seed(seed)
    if not dtype.is_floating_point:
        return torch.randint(-3, 4, tuple(shape), generator=generator).to(dtype).to(device)
    return (torch.rand(tuple(shape), generator=generator, dtype=torch.float64) * 2 - 1).to(dtype).to(device)


def lay_out(image, layout):
    """The same values under other strides; channels_last needs four dimensions and is contiguous otherwise."""
    if layout == "contiguous":
        return image.contiguous()
    if layout == "channels_last":
        return image.contiguous(memory_format=torch.channels_last) if image.dim() == 4 else image.contiguous()
    if layout == "transposed":
        return image.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "every_other":
        wide = image.new_zeros((*image.shape[:-1], 2 * image.shape[-1]))
        wide[..., ::2] = image
        return wide[..., ::2]
    if layout == "offset":
        # starts one element after an aligned address
        flat = image.new_zeros(image.numel() + 1)
        view = flat[1:].view(image.shape)
        view.copy_(image)
        return view
    assert layout == "padded_rows"
    wide = image.new_zeros((*image.shape[:-2], image.shape[-2] + 2, image.shape[-1] + 3))
    wide[..., 1:-1, 2:-1] = image
    return wide[..., 1:-1, 2:-1]


@dataclass
class Case:
    """One call: an image and the layout it is given in, a window (or two), and the options as keyword arguments."""

    image: torch.Tensor
    kernels: tuple[torch.Tensor, ...]
    layout: str = "contiguous"
    options: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        kernels = ", ".join(f"{tuple(k.shape)} {k.dtype}" for k in self.kernels)
        return f"Case({tuple(self.image.shape)} {self.image.dtype} {self.layout}; kernels {kernels}; {self.options})"


def seeds():
    return st.integers(0, 2**16)


def sides(largest=24):
    return st.integers(1, largest)


def extents(largest=7):
    """A window's extent along one axis; now and then far larger than the image."""
    return st.one_of(st.integers(1, largest), st.integers(1, largest), st.sampled_from([9, 13, 31]))


@st.composite
def anchors(draw, kh, kw):
    pair = st.tuples(st.integers(-1, kh - 1), st.integers(-1, kw - 1))
    one = st.integers(-1, min(kh, kw) - 1)
    return draw(st.one_of(st.none(), pair, one))


@st.composite
def pairs(draw, largest=3):
    return draw(st.one_of(st.integers(1, largest), st.tuples(st.integers(1, largest), st.integers(1, largest))))


def as_pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


@st.composite
def filter_cases(draw, dtypes=DTYPES, borders=BORDERS):
    """Any call of filter2d."""
    leading = draw(st.lists(st.integers(1, 3), max_size=3))
    h, w = draw(sides()), draw(sides(40))
    kh, kw = draw(extents()), draw(extents())
    forms = [(), (1,), (1, 1)]
    if len(leading) == 2:
        b, c = leading
        forms += [(b,), (b, 1), (1, c), (b, c)]
    dtype = draw(st.sampled_from(dtypes))
    image = make_image((*leading, h, w), dtype, draw(seeds()))
    kernel_dtype = draw(st.sampled_from([torch.float32, torch.float32, torch.float64, torch.float16, torch.int64]))
    kernel = make_window((*draw(st.sampled_from(forms)), kh, kw), kernel_dtype, draw(seeds()))
    options = {
        "border_type": draw(st.sampled_from(borders)),
        "normalized": draw(st.booleans()),
        "padding": draw(st.sampled_from(["same", "same", "valid"])),
        "behaviour": draw(st.sampled_from(["corr", "conv"])),
        "anchor": draw(anchors(kh, kw)),
        "stride": draw(pairs()),
        "dilation": draw(pairs()),
        "value": draw(st.sampled_from([0.0, 1.5, -2.0])),
    }
    dy, dx = as_pair(options["dilation"])
    if options["padding"] == "valid" and ((kh - 1) * dy >= h or (kw - 1) * dx >= w):
        options["padding"] = "same"
    if (options["normalized"] and (kernel.abs().sum((-1, -2)) == 0).any()) or options["border_type"] == "skip":
        kernel = kernel.abs() + 1  # no sum of taps may be zero, not even of those inside
    return Case(image, (kernel,), draw(st.sampled_from(LAYOUTS)), options)


@st.composite
def separable_cases(draw, dtypes=DTYPES, borders=BORDERS):
    """Any call of filter2d_separable."""
    case = draw(filter_cases(dtypes=dtypes, borders=borders))
    (kh, kw), rows = case.kernels[0].shape[-2:], draw(st.sampled_from([(), (1,)]))
    case.kernels = tuple(make_window((*rows, k), seed=draw(seeds())) for k in (kw, kh))
    if case.options["normalized"] or case.options["border_type"] == "skip":
        case.kernels = tuple(k.abs() + 0.5 for k in case.kernels)
    del case.options["behaviour"]
    return case
