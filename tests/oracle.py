"""Calls a function of torch_conv and compares it with the exact result under the bound of tolerance.py."""

import torch
import witness
from strategies import as_tuple, lay_out
from tolerance import assert_same_bits, assert_within

import torch_conv
from torch_conv import reference

# Options that choose an algorithm or a device: the oracle ignores them.
NOT_THE_SUM = {"algorithm", "output_dtype", "out"}
# Dtypes whose separable filters 'auto' may take to tensor cores, which have another bound, and bits of their own.
ON_TENSOR_CORES = {torch.float16, torch.bfloat16, torch.uint8}
# Windows with B and C dimensions need an image that has them.
LEAST_DIMENSIONS = {"filter2d": 4, "filter2d_separable": 4, "filter3d": 5, "filter3d_separable": 5}


def exact(name, image, *args, **options):
    """The float64 result of torch_conv.reference."""
    options = {key: value for key, value in options.items() if key not in NOT_THE_SUM}
    lifted = max(0, LEAST_DIMENSIONS.get(name, 0) - image.dim())
    image = image.cpu().double()[(None,) * lifted]
    result = getattr(reference, name)(image, *_each(args, lambda t: t.cpu().double()), **_doubles(options))
    return result[(0,) * lifted]


def magnitude(name, image, *args, **options):
    """The sum of |taps| * |pixels|, to which rounding errors are proportional."""
    options = {key: value for key, value in options.items() if key not in NOT_THE_SUM}
    if "value" in options:
        options["value"] = abs(options["value"])
    if isinstance(options.get("bias"), torch.Tensor):
        options["bias"] = options["bias"].abs()
    return exact(name, image.cpu().double().abs(), *_each(args, lambda t: t.cpu().double().abs()), **options)


def _doubles(options):
    return {key: value.cpu().double() if isinstance(value, torch.Tensor) else value for key, value in options.items()}


def _nothing_negative(image, args, options):
    """Then a sum is its own magnitude, and large windows are summed once instead of twice."""
    tensors = [image, *args, *options.values()]
    return options.get("value", 0) >= 0 and all(
        bool(t.double().min() >= 0) for t in tensors if isinstance(t, torch.Tensor) and t.numel()
    )


def _each(args, f):
    return [f(a) if isinstance(a, torch.Tensor) else a for a in args]


def check(
    name,
    image,
    *args,
    device,
    window,
    algorithm="direct",
    layout="contiguous",
    channels=1,
    scale=None,
    way="auto",
    **options,
):
    """Calls torch_conv.`name` on `device`, compares it with the oracle, and returns the result.

    `algorithm` says which bound holds, `way` which algorithm is asked for. `scale` replaces the magnitude of a linear
    filter where the function is none.
    """
    if way == "auto" and (name, algorithm) == ("filter2d_separable", "separable") and image.dtype in ON_TENSOR_CORES:
        way = "separable"
    given = lay_out(image.to(device), layout)
    before = given.clone()
    moved = _each(args, lambda t: t.to(device))
    options = {k: v.to(device) if isinstance(v, torch.Tensor) and k != "out" else v for k, v in options.items()}
    got = getattr(torch_conv, name)(given, *moved, algorithm=way, **options)
    assert_same_bits(given, before)  # inputs are never modified
    assert got.device.type == torch.device(device).type
    assert got.dtype == (options.get("output_dtype") or image.dtype)
    expected = exact(name, image, *args, **options)
    if scale is None:
        scale = expected if _nothing_negative(image, args, options) else magnitude(name, image, *args, **options)
    assert_within(got, expected, scale, in_dtype=image.dtype, algorithm=algorithm, window=window, channels=channels)
    return got


def check_conv(
    image, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, *, device, layout="contiguous", **kw
):
    """Calls our kernels of torch_conv.convNd on `device`, compares them with torch's own in float64, and returns the
    result."""
    given = lay_out(image.to(device), layout)
    moved = [None if t is None else t.to(device) for t in (weight, bias)]
    axes = weight.dim() - 2
    got = getattr(torch_conv, f"conv{axes}d")(
        given, *moved, stride, padding, dilation, groups, algorithm="direct", **kw
    )
    assert_same_bits(given, image)
    assert got.dtype == image.dtype
    mode = kw.get("padding_mode", "zeros")
    doubles = [None if t is None else t.cpu().double() for t in (image, weight, bias)]
    magnitudes = [None if t is None else t.abs() for t in doubles]
    assert_within(
        got,
        witness.conv(*doubles, stride, padding, dilation, groups, mode),
        witness.conv(*magnitudes, stride, padding, dilation, groups, mode),
        in_dtype=image.dtype,
        algorithm="direct",
        window=weight.shape[2:],
        channels=weight.shape[1],
    )
    return got


def check_box(operator, image, size, *, device, layout="contiguous", **options):
    """box2d or box3d against the plain sum of the reference's filter with a window of ones; returns the result."""
    axes = len(size)
    given = lay_out(image.to(device), layout)
    options = {"normalized": True} | options
    anchor = options.get("anchor")
    lists = {} if anchor is None else {"anchor": as_tuple(anchor, axes)}
    got = getattr(torch.ops.torch_conv, operator)(given, list(size), **(options | lists))
    assert_same_bits(given, image)
    call = (f"filter{axes}d", image, torch.ones(size, dtype=torch.float64))
    expected = exact(*call, **options)
    scale = expected if _nothing_negative(image, (), options) else magnitude(*call, **options)
    assert_within(got, expected, scale, in_dtype=image.dtype, algorithm="box", window=size)
    return got
