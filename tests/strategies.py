"""Inputs of the tests: images in every dtype and layout, windows, and hypothesis cases."""

import functools
import math
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.uint8, torch.int16, torch.uint16]
FLOATS = [d for d in DTYPES if d.is_floating_point]
INTEGERS = [d for d in DTYPES if not d.is_floating_point]
EXTENDING = ["constant", "replicate", "reflect", "symmetric", "circular"]
BORDERS = [*EXTENDING, "skip", "zero_output"]
LAYOUTS = ["contiguous", "channels_last", "transposed", "every_other", "offset", "padded_rows"]
VOLUME_LAYOUTS = [*LAYOUTS, "depth_inner"]
RANGES = {torch.uint8: (0, 256), torch.int16: (-32768, 32768), torch.uint16: (0, 65536)}


def make_image(shape, dtype=torch.float32, seed=42, device="cpu"):
    """Noise: normal for floats, the whole range for integers."""
    return _fresh(_noise, tuple(shape), dtype, seed, device)


def make_window(shape, dtype=torch.float32, seed=7, device="cpu"):
    """Taps in about [-1, 1], none of them special; small whole numbers for integer dtypes."""
    return _fresh(_taps, tuple(shape), dtype, seed, device)


def _fresh(make, shape, dtype, seed, device):
    """A copy of cached numbers: tests write into the tensor, and noise takes ten times as long as a copy."""
    if math.prod(shape) > 1 << 20:
        return make.__wrapped__(shape, dtype, seed).to(device)
    made = make(shape, dtype, seed)
    return made.clone() if device == "cpu" else made.to(device)


@functools.lru_cache(maxsize=128)
def _noise(shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    if dtype in RANGES:
        return torch.randint(*RANGES[dtype], shape, generator=generator, dtype=torch.int32).to(dtype)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


@functools.lru_cache(maxsize=128)
def _taps(shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    if not dtype.is_floating_point:
        return torch.randint(-3, 4, shape, generator=generator).to(dtype)
    return (torch.rand(shape, generator=generator, dtype=torch.float64) * 2 - 1).to(dtype)


def lay_out(image, layout):
    """The image's values under other strides; channels_last is contiguous unless the dimensions are four or five."""
    if layout == "contiguous":
        return image.contiguous()
    if layout == "channels_last":
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        return image.contiguous(memory_format=formats.get(image.dim(), torch.contiguous_format))
    if layout == "depth_inner":
        return image.movedim(-3, -1).contiguous().movedim(-1, -3)
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
def anchors(draw, *window):
    each = st.tuples(*(st.integers(-1, k - 1) for k in window))
    one = st.integers(-1, min(window) - 1)
    return draw(st.one_of(st.none(), each, one))


@st.composite
def per_axis(draw, axes=2, largest=3):
    """A number, or one for every axis."""
    return draw(st.one_of(st.integers(1, largest), st.tuples(*[st.integers(1, largest)] * axes)))


def as_tuple(value, axes=2):
    return (value,) * axes if isinstance(value, int) else tuple(value)


@st.composite
def shapes(draw, axes=2):
    """The spatial shape of an image (H, W) or of a volume (D, H, W)."""
    return (draw(sides()), draw(sides(40))) if axes == 2 else (draw(sides(6)), draw(sides(9)), draw(sides(24)))


@st.composite
def windows(draw, axes=2):
    """A window's extents; the depth of one over volumes stays small, for the sake of the oracle's time."""
    if axes == 2:
        return draw(extents()), draw(extents())
    return draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(st.one_of(st.integers(1, 5), st.just(13)))


@st.composite
def filter_cases(draw, dtypes=DTYPES, borders=BORDERS, axes=2):
    """Any call of filter2d, or with three axes of filter3d."""
    leading = draw(st.lists(st.integers(1, 3), max_size=3))
    size, window = draw(shapes(axes)), draw(windows(axes))
    forms = [(), (1,), (1, 1)]
    if len(leading) == 2:
        b, c = leading
        forms += [(b,), (b, 1), (1, c), (b, c)]
    dtype = draw(st.sampled_from(dtypes))
    image = make_image((*leading, *size), dtype, draw(seeds()))
    kernel_dtype = draw(st.sampled_from([torch.float32, torch.float32, torch.float64, torch.float16, torch.int64]))
    kernel = make_window((*draw(st.sampled_from(forms)), *window), kernel_dtype, draw(seeds()))
    options = {
        "border_type": draw(st.sampled_from(borders)),
        "normalized": draw(st.booleans()),
        "padding": draw(st.sampled_from(["same", "same", "valid"])),
        "behaviour": draw(st.sampled_from(["corr", "conv"])),
        "anchor": draw(anchors(*window)),
        "stride": draw(per_axis(axes)),
        "dilation": draw(per_axis(axes)),
        "value": draw(st.sampled_from([0.0, 1.5, -2.0])),
    }
    steps = as_tuple(options["dilation"], axes)
    if any((k - 1) * d >= n for n, k, d in zip(size, window, steps, strict=True)):
        options["padding"] = "same"
    spatial = tuple(range(-axes, 0))
    if (options["normalized"] and (kernel.abs().sum(spatial) == 0).any()) or options["border_type"] == "skip":
        kernel = kernel.abs() + 1  # no sum of taps may be zero, not even of those inside
    return Case(image, (kernel,), draw(st.sampled_from(LAYOUTS if axes == 2 else VOLUME_LAYOUTS)), options)


@st.composite
def separable_cases(draw, dtypes=DTYPES, borders=BORDERS, axes=2):
    """Any call of filter2d_separable, or with three axes of filter3d_separable."""
    case = draw(filter_cases(dtypes=dtypes, borders=borders, axes=axes))
    window, rows = case.kernels[0].shape[-axes:], draw(st.sampled_from([(), (1,)]))
    case.kernels = tuple(make_window((*rows, k), seed=draw(seeds())) for k in reversed(window))
    if case.options["normalized"] or case.options["border_type"] == "skip":
        case.kernels = tuple(k.abs() + 0.5 for k in case.kernels)
    del case.options["behaviour"]
    return case


@st.composite
def box_cases(draw, axes=2):
    """An image or a volume, a window's extents and the options of a box."""
    leading = draw(st.lists(st.integers(1, 3), max_size=3))
    shape, window = draw(shapes(axes)), draw(windows(axes))
    fits = all(k <= n for k, n in zip(window, shape, strict=True))
    image = make_image((*leading, *shape), draw(st.sampled_from(DTYPES)), draw(seeds()))
    options = {
        "border_type": draw(st.sampled_from(BORDERS)),
        "normalized": draw(st.booleans()),
        "padding": draw(st.sampled_from(["same", "valid"])) if fits else "same",
        "anchor": draw(anchors(*window)),
        "value": draw(st.sampled_from([0.0, 2.5])),
        "layout": draw(st.sampled_from(LAYOUTS if axes == 2 else VOLUME_LAYOUTS)),
    }
    return image, window, options


@st.composite
def conv_cases(draw, axes=2):
    """Calls of a convolution served here: depthwise with a multiplier, single-channel and few-channel banks."""
    groups = draw(st.integers(1, 4))
    inner, multiplier = draw(st.sampled_from([(1, 1), (1, 1), (1, 2), (1, 3), (2, 1), (3, 2)]))
    most, largest = {1: ((60,), (9,)), 2: ((20, 30), (6, 6)), 3: ((6, 9, 20), (3, 3, 5))}[axes]
    shape = draw(st.tuples(*(st.integers(1, n) for n in most)))
    window = draw(st.tuples(*(st.integers(1, k) for k in largest)))
    dtype = draw(st.sampled_from(FLOATS))
    stride, dilation = draw(per_axis(axes)), draw(per_axis(axes))
    footprint = [(k - 1) * d + 1 for k, d in zip(window, as_tuple(dilation, axes), strict=True)]
    least = [max(0, r - n + 1) // 2 for r, n in zip(footprint, shape, strict=True)]
    padding = tuple(p + draw(st.integers(0, 3)) for p in least)
    if stride == 1 and draw(st.booleans()):
        padding = "same"
    leading = draw(st.sampled_from([(), (1,), (3,)]))
    image = make_image((*leading, groups * inner, *shape), dtype, draw(seeds()))
    weight = make_window((groups * multiplier, inner, *window), dtype, draw(seeds()))
    bias = make_window((groups * multiplier,), dtype, draw(seeds())) if draw(st.booleans()) else None
    layout = draw(st.sampled_from(VOLUME_LAYOUTS if axes == 3 else LAYOUTS))
    return image, weight, bias, stride, padding, dilation, groups, layout
