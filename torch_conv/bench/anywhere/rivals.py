"""Who else can do a drawn call: torch, and what is installed of kornia, torchvision, cupyx or SciPy, and OpenCV.

Each result is checked against the same values as ours, so one that means something else is left out, not timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_conv.bench.anywhere.call import INNER, Call
from torch_conv.bench.anywhere.chains import (
    CHAINS,
    OF_PLANES,
    by_torch,
    computed_in,
    default_border,
    has_form,
    shaped,
    unshaped,
)
from torch_conv.bench.anywhere.checking import axes_of
from torch_conv.bench.anywhere.work import window_sizes
from torch_conv.bench.common import Candidate
from torch_conv.bench.rivals import (
    absent,
    conv_candidates,
    cupyx_candidate,
    kornia_candidate,
    opencv_candidate,
    scipy_candidate,
    tensors,
)
from torch_conv.dispatch.numbers import per_axis

ND_BORDER = {"reflect": "mirror", "replicate": "nearest", "constant": "constant", "circular": "wrap"}
ND_BORDER["symmetric"] = "reflect"
CV_BORDER = {"reflect": "REFLECT_101", "symmetric": "REFLECT", "replicate": "REPLICATE", "constant": "CONSTANT"}
MOST_TAPS = 64 * 64  # F.conv takes seconds for larger dense windows
FIRST_S = 10.0  # a rival whose first call takes longer is left out
CONVS: dict[str, Callable[..., Tensor]] = {"conv1d": F.conv1d, "conv2d": F.conv2d, "conv3d": F.conv3d}


def rivals(call: Call, device: str) -> list[Candidate]:
    """All candidates that may be able to do the call."""
    given = call.arguments(device)
    if call.function in CONVS:
        found = list(convolutions(call, given, device))
    elif call.function.startswith("causal"):
        found = list(causal(call, given, device))
    else:
        found = [*chain(call, given, device)]
        if not call.backward:
            if computed_in(call.dtype, device) == call.dtype or call.dtype == torch.uint8:
                found += [*of_kornia(call, given), *of_torchvision(call, given)]
            found += [*of_ndimage(call, given, device), *(of_opencv(call, given) if device == "cpu" else [])]
    return [replace(c, limit_s=FIRST_S) for c in found]


# ---- torch -----------------------------------------------------------------------------------------------------------


def chain(call: Call, given: dict[str, Any], device: str) -> Iterator[Candidate]:
    """The call by F.pad and F.conv, on planes and in its own memory format."""
    if call.function not in CHAINS or not has_form(call, given):
        return
    if "kernel" in call.tensors and given["kernel"].numel() > MOST_TAPS:
        return
    run = by_torch(call, given, device)
    axes = 1 if call.function == "filter1d" else call.axes
    formats = [False, True] if INNER in call.layout and not call.function.startswith(OF_PLANES) else [False]
    for inner in formats if axes > 1 else [False]:
        name = f"F.conv{axes}d" + " channels_last" * inner

        def prepare(x: Tensor, inner: bool = inner) -> Tensor:
            return shaped(call, x, inner) if inner else shaped(call, x.contiguous(), False)

        (candidate,) = conv_candidates(name, device, call.dtype, run, prepare, tf32=False)
        like = torch.empty(call.shape, device="meta")
        yield replace(candidate, result=partial(unshaped, call, x=like))


def convolutions(call: Call, given: dict[str, Any], device: str) -> Iterator[Candidate]:
    """F.convNd in the call's layout and in the other one."""
    activation, mode = given.pop("activation", None), given.pop("padding_mode", "zeros")
    if mode != "zeros":
        around = [p for p in reversed(per_axis(given.pop("padding"), call.axes)) for _ in range(2)]
    conv, floats = CONVS[call.function], computed_in(call.dtype, device)
    given = {key: value.to(floats) if isinstance(value, Tensor) else value for key, value in given.items()}

    def run(x: Tensor) -> Tensor:
        wide = x.to(floats)
        y = conv(wide if mode == "zeros" else F.pad(wide, around, mode=mode), **given)
        return (y if activation is None else getattr(F, activation)(y)).to(x.dtype)

    name = f"F.{call.function}"
    other = torch.Tensor.contiguous if INNER in call.layout else inner_copy
    for each, prepare in ((name, lambda x: x), (f"{name}, other layout", other)):
        yield from conv_candidates(each, device, call.dtype, run, prepare, tf32=False)


def inner_copy(x: Tensor) -> Tensor:
    return x.movedim(1, -1).contiguous().movedim(-1, 1)


def causal(call: Call, given: dict[str, Any], device: str) -> Iterator[Candidate]:
    """F.conv1d of the padded sequence, and the package causal-conv1d where it is installed."""
    floats = computed_in(call.dtype, device)
    weight = given["weight"][:, None].to(floats)
    bias = given["bias"].to(floats) if "bias" in given else None
    k, d = weight.shape[-1], len(weight)
    silu = given.get("activation") is not None
    state = given.get("conv_state")

    def run(x: Tensor) -> Tensor:
        if state is None:
            y = F.conv1d(x.to(floats), weight, bias, padding=k - 1, groups=d)[..., : x.shape[-1]]
        else:
            whole = torch.cat([state, x], -1)
            state.copy_(whole[..., -state.shape[-1] :])
            y = F.conv1d(whole[..., -(k - 1 + x.shape[-1]) :].to(floats), weight, bias, groups=d)
        return (F.silu(y) if silu else y).to(x.dtype)

    yield from conv_candidates("F.conv1d", device, call.dtype, run, lambda x: x, tf32=False)
    if device == "cuda":
        try:
            import causal_conv1d  # type: ignore[import-not-found]
        except ImportError as error:
            yield absent("causal-conv1d", error)
        else:
            name = "causal_conv1d_fn" if state is None else call.function
            yield Candidate("causal-conv1d", lambda x: getattr(causal_conv1d, name)(x, **given))


# ---- other libraries -------------------------------------------------------------------------------------------------


def plain_options(call: Call, given: dict[str, Any]) -> bool:
    """Whether there is nothing that other libraries lack."""
    rare = ("stride", "dilation", "padding", "behaviour", "output_dtype", "value", "normalized", "anchor")
    own = any(len(taps.shape) > call.axes for taps in call.tensors.values() if call.function != "filter1d")
    return not own and not any(key in given for key in rare)


def of_kornia(call: Call, given: dict[str, Any]) -> list[Candidate]:
    """Functions of the same name, of floats; with their own border, mostly 'replicate', where they take none."""
    border = given.get("border_type", default_border(call))
    if not call.dtype.is_floating_point or not plain_options(call, given):
        return []
    k, name = tuple(window_sizes(call)), call.function
    if name in ("gaussian_blur2d", "unsharp_mask") and (name == "gaussian_blur2d" or given["amount"] == 1):
        sigmas = tuple(per_axis(given["sigma"], 2))
        make = lambda filters: lambda x: getattr(filters, name)(x, k, sigmas, border)  # noqa: E731
    elif name in ("box_blur", "laplacian") and given.get("variant", "box") == "box":
        make = lambda filters: lambda x: getattr(filters, name)(x, k, border)  # noqa: E731
    elif name in ("sobel", "spatial_gradient", "spatial_gradient3d") and border == "replicate":
        if given.get("mode", "sobel") not in (("diff",) if call.axes == 3 else ("sobel", "diff")):
            return []
        named = {key: given[key] for key in ("mode", "order") if key in given}
        make = lambda filters: lambda x: getattr(filters, name)(x, **named)  # noqa: E731
    else:
        return []
    inner = INNER in call.layout
    planes = [2 + (given.get("order") == 2)] if name.startswith("spatial") else []
    if name == "spatial_gradient3d":
        planes = [6 if given["order"] == 2 else 3]

    def prepare(x: Tensor) -> Tensor:
        return shaped(call, x, inner)

    def result(y: Tensor) -> Tensor:
        return y.reshape(*call.shape[: -call.axes], *planes, *y.shape[-call.axes :])

    return adapted(kornia_candidate(make), prepare, result)


def adapted(
    found: list[Candidate], prepare: Callable[[Tensor], Any], result: Callable[[Any], Tensor]
) -> list[Candidate]:
    """The candidates on images prepared in another way; one that is not installed refuses as before."""
    return [c if c.prepare is c.call else replace(c, prepare=prepare, result=result) for c in found]


def of_torchvision(call: Call, given: dict[str, Any]) -> list[Candidate]:
    sizes = window_sizes(call)
    if call.function != "gaussian_blur2d" or given.get("border_type", "reflect") != "reflect":
        return []
    if not plain_options(call, given) or max(sizes) >= 64:  # it takes every tap of the dense window
        return []
    try:
        from torchvision.transforms.v2.functional import gaussian_blur
    except ImportError as error:
        return [absent("torchvision", error)]
    sigmas = [float(s) for s in reversed(per_axis(given["sigma"], 2))]
    return [Candidate("torchvision", partial(gaussian_blur, kernel_size=sizes[::-1], sigma=sigmas), graph=False)]


def of_ndimage(call: Call, given: dict[str, Any], device: str) -> list[Candidate]:
    """scipy.ndimage on the CPU, cupyx's on a GPU; dimensions without a window have size 1 or sigma 0."""
    border = given.get("border_type", default_border(call))
    if border not in ND_BORDER or not plain_options(call, given):
        return []
    lead, k = len(call.shape) - len(window_sizes(call)), window_sizes(call)
    options = {"mode": ND_BORDER[border]}
    name = call.function

    def make(nd: Any) -> Callable[[Any], Any]:
        if name in ("filter2d", "filter3d"):
            taps = array(given["kernel"].reshape([1] * lead + k), device)
            return lambda x: nd.correlate(x, taps, origin=origin([1] * lead + k), **options)
        if name == "filter1d":
            taps = array(given["kernel"], device)
            return lambda x: nd.correlate1d(x, taps, axis=axes_of(call)[0], origin=origin(k)[0], **options)
        if name.startswith("box"):
            return lambda x: nd.uniform_filter(x, [1] * lead + k, origin=origin([1] * lead + k), **options)
        if name == "gaussian_laplace":
            return lambda x: nd.gaussian_laplace(x, given["sigma"], **options)
        sigmas = [float(s) for s in per_axis(given["sigma"], call.axes)]
        truncate = k[0] // 2 / sigmas[0] if given.get("kernel_size") else 4.0
        return lambda x: nd.gaussian_filter(x, [0.0] * lead + sigmas, truncate=truncate, **options)

    blurs = ("gaussian_blur2d", "gaussian_blur3d", "box_blur", "box_blur3d", "filter1d", "filter2d", "filter3d")
    if name not in blurs and not (name == "gaussian_laplace" and lead == 0):
        return []
    if device == "cuda":
        found = cupyx_candidate(lambda cupy, nd: make(nd), spatial=len(call.shape))
    else:
        found = scipy_candidate(make, spatial=len(call.shape))
    return found


def origin(sizes: Sequence[int]) -> list[int]:
    """Of tap (k - 1) // 2, counted from ndimage's own tap k // 2."""
    return [(k - 1) // 2 - k // 2 for k in sizes]


def array(taps: Tensor, device: str) -> Any:
    if device == "cpu":
        return taps.numpy()
    import cupy

    return cupy.from_dlpack(taps.cuda().contiguous())


def of_opencv(call: Call, given: dict[str, Any]) -> list[Candidate]:
    """Plane by plane, or of a photo (H, W, C) at once."""
    border, name = given.get("border_type", default_border(call)), call.function
    if border not in CV_BORDER or not plain_options(call, given) or call.dtype in (torch.float16, torch.bfloat16):
        return []
    photo = INNER in call.layout and len(call.shape) == 3

    def make(cv2: Any) -> Callable[[Any], Any]:
        kind = {"borderType": getattr(cv2, f"BORDER_{CV_BORDER[border]}")}
        k = window_sizes(call)
        anchor = tuple((n - 1) // 2 for n in reversed(k))
        if name == "filter2d":
            taps = given["kernel"].numpy()
            each = lambda x: cv2.filter2D(x, -1, taps, anchor=anchor, **kind)  # noqa: E731
        elif name == "filter2d_separable":
            rows = given["kernel_x"].numpy(), given["kernel_y"].numpy()
            each = lambda x: cv2.sepFilter2D(x, -1, *rows, anchor=anchor, **kind)  # noqa: E731
        elif name == "box_blur":
            each = lambda x: cv2.blur(x, tuple(reversed(k)), anchor=anchor, **kind)  # noqa: E731
        else:
            sy, sx = per_axis(given["sigma"], 2)
            each = lambda x: cv2.GaussianBlur(x, tuple(reversed(k)), sx, sigmaY=sy, **kind)  # noqa: E731
        return each if photo else lambda planes: tuple(map(each, planes))

    if name not in ("filter2d", "filter2d_separable", "box_blur", "gaussian_blur2d"):
        return []
    found = opencv_candidate(make, photo)
    if photo:
        return adapted(found, lambda x: x.permute(1, 2, 0).numpy(), lambda y: torch.from_numpy(y).permute(2, 0, 1))
    return adapted(
        found,
        lambda x: list(x.contiguous().reshape(-1, *x.shape[-2:]).numpy()),
        lambda y: tensors(torch.from_numpy, y).reshape(*call.shape[:-2], *y[0].shape),
    )
