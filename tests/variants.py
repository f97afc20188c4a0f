"""The variants of every kernel family, calls that it serves, and the comparison of results."""

import os
import re
from pathlib import Path

import torch
from strategies import make_window
from tolerance import assert_same_bits

import torch_conv


def variants_of(family: str) -> list[str]:
    """The names in the lists of candidates of this family of csrc/kernels, each once."""
    lists = [path.read_text() for name in ("plan.h", "tuning.h") if (path := KERNELS / family / name).exists()]
    found = re.findall(r'\{"(\w+)",\s*\w*refusal\b', "".join(lists))
    assert found, family
    return list(dict.fromkeys(found))


KERNELS = Path(__file__).resolve().parent.parent / "csrc" / "kernels"
VARIANTS = {
    "direct": variants_of("direct2d"),
    "separable": variants_of("separable2d"),
    "box": [variant for variant in variants_of("box") if not variant.startswith("depth")],
    "direct3d": variants_of("direct3d"),
    "separable3d": variants_of("separable3d"),
    "box3d": variants_of("box"),
    "fused": variants_of("fused"),
    "fused3d": variants_of("fused3d"),
}
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.uint8]
SHAPES = [(2, 3, 40, 64), (1, 1, 5, 128), (1, 2, 130, 520), (3, 1, 33, 333), (1, 1, 9, 1918), (300, 1, 7, 48)]


def call_direct(size):
    """Chains only: test_tensor_core.py tests the tensor cores that 'auto' may use."""
    return lambda x, **kw: torch_conv.filter2d(x, make_window((size, size)) / size, algorithm="direct", **kw)


def call_separable(size):
    """Chains, as above."""
    taps, other = make_window((size,)) / size, make_window((size,), seed=8)
    return lambda x, **kw: torch_conv.filter2d_separable(x, taps, other, algorithm="separable", **kw)


def call_box(size):
    return lambda x, **kw: torch_conv.box_blur(x, (size, size + 3), **kw)


CUBES = [(3, 3, 3), (5, 5, 5), (7, 7, 7), (9, 9, 9), (15, 15, 15)]
VOLUME_SHAPES = [(2, 3, 9, 14, 64), (1, 1, 5, 20, 130), (1, 2, 20, 9, 520), (3, 1, 7, 33, 45), (60, 1, 4, 5, 48)]


def call_direct3d(*size):
    kernel = make_window(size) / 3
    return lambda x, **kw: torch_conv.filter3d(x, kernel, **kw)


def call_separable3d(*size):
    z, y, x = (make_window((k,), seed=i) / 2 for i, k in enumerate(size))
    return lambda v, **kw: torch_conv.filter3d_separable(v, x, y, z, **kw)


def call_box3d(*size):
    return lambda x, **kw: torch_conv.box_blur3d(x, size, algorithm="box", **kw)


def call_fused(size):
    return lambda x, **kw: torch_conv.gaussian_sobel(x, size, 1.1, algorithm=chain(x), **kw)


def call_fused3d(size):
    return lambda x, **kw: torch_conv.gaussian_gradient_magnitude3d(x, size, 1.1, algorithm=chain(x), **kw)


def chain(x):
    """A variant of the fused kernel families is pinned where nothing else may serve; the CPU is the witness."""
    pin = os.environ.get("TORCH_CONV_VARIANT")
    return "fused" if pin and x.is_cuda else "auto"


def calls_of_every_family():
    return {
        "direct": call_direct(5),
        "separable": call_separable(7),
        "box": call_box(9),
        "direct3d": call_direct3d(5, 5, 5),
        "separable3d": call_separable3d(5, 5, 5),
        "box3d": call_box3d(3, 5, 9),
        "fused": call_fused(5),
        "fused3d": call_fused3d(3),
    }


def agree(pinned, algorithm, call, image, served, exact_bits=True, **options):
    """The chosen kernel and every pinned one; counts in `served` the variants that took the call."""
    chosen = call(image, **options)
    for variant in VARIANTS[algorithm]:
        got = pinned(variant, lambda: call(image, **options))
        if got is None:
            continue
        served[variant] = served.get(variant, 0) + 1
        if exact_bits:
            assert_same_bits(got, chosen)
        else:
            low = image.dtype in (torch.float16, torch.bfloat16)
            torch.testing.assert_close(got, chosen, **({} if low else {"rtol": 2e-5, "atol": 2e-5}))
        assert got.stride() == chosen.stride()
    return chosen
