"""Runs every kernel on small images, for compute-sanitizer (see CONTRIBUTING.md).

compute-sanitizer --tool memcheck python tests/small_kernels.py --dtype float16 --seconds 12

Most kernels are compiled when they are first called, a hundred for each dtype: a process a dtype, or one for each and
each --round and --seed, does that in parallel.
"""

import argparse
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["TORCH_CONV_COMPILE"] = "wait"  # each call runs the kernel that it asks for

import torch
from strategies import BORDERS, DTYPES
from variants import VARIANTS, variants_of

import torch_conv  # noqa: F401

OPS = torch.ops.torch_conv
FAMILIES = VARIANTS | {
    "separable3d": [*VARIANTS["separable3d"], ""],  # "": the chosen one, which may be passes
    "depthwise": variants_of("depthwise"),
    "causal": variants_of("causal"),
}
# Shapes of maps, extent of a window, and whether the channels are innermost.
MANY = [
    ((360, 768, 7, 7), 7, True),
    ((128, 768, 7, 7), 5, True),
    ((47, 96, 56, 56), 7, True),
    ((47, 96, 56, 56), 3, True),
    ((19, 64, 16, 16), 13, False),
    ((19, 1000, 16, 16), 13, False),
    ((46, 200, 32, 32), 31, False),
]
LADDER = ["naive", "constant", "tiled", "l2_halo", "fused"]
LADDER1D = ["naive", "constant", "tiled", "l2_halo"]
LADDER3D = [*LADDER1D, "separable"]

served: Counter[str] = Counter()


def each_variant(family: str, call: Callable[[], object]) -> None:
    for variant in FAMILIES[family]:
        os.environ["TORCH_CONV_VARIANT"] = variant
        try:
            call()
            served[f"{family}/{variant}"] += 1
        except RuntimeError as refusal:
            if "cannot serve this call" not in str(refusal):
                raise
    os.environ["TORCH_CONV_VARIANT"] = ""


def one_round(device: str, dtype: torch.dtype) -> None:
    border = random.choice(BORDERS)
    h, w = random.choice([1, 9, 40, 70]), random.choice([8, 33, 136, 264])
    planar = (torch.rand(2, 2, h, w, device=device) * 200).to(dtype)
    nhwc = planar.contiguous(memory_format=torch.channels_last)
    k, length = random.choice([3, 5, 7]), random.choice([3, 7, 15, 21])
    window, windows = torch.rand(k, k), torch.rand(2, 2, k, k, device=device)
    taps, own_taps = torch.rand(length), torch.rand(length, device=device)
    fits = h >= 25 and w >= 26
    padding = random.choice(["same", "valid"]) if fits else "same"
    anchor = random.choice([None, [0, k - 1]])

    each_variant("direct", lambda: OPS.filter2d(planar, window, border, padding=padding, anchor=anchor, value=3.0))
    each_variant("direct", lambda: OPS.filter2d(nhwc, windows, border))
    any_shape = torch.rand(random.randint(1, 31), random.randint(1, 31))
    each_variant("direct", lambda: OPS.filter2d(planar, any_shape, border, value=3.0))
    each_variant("separable", lambda: OPS.filter2d_separable(planar, taps, taps, border, padding=padding, value=3.0))
    each_variant("separable", lambda: OPS.filter2d_separable(nhwc, own_taps, taps, border))
    each_variant("separable", lambda: OPS.filter2d_separable(planar[..., 1:], taps, taps, border))
    for laid in (planar, nhwc):
        call = lambda x=laid: OPS.box2d(x, [length, length + 4], border, padding=padding, algorithm="box")  # noqa: E731
        each_variant("box", call)
    each_chain(planar, nhwc, random.choice([torch.ones(n) / n for n in (3, 5, 7)]), border, padding)
    each_variant("direct", lambda: OPS.filter2d(planar, any_shape, border, stride=2, value=3.0))
    OPS.filter2d(planar, window, border, stride=2, dilation=2)
    words = (torch.rand(1, h, w, 8, device=device) * 200).to(dtype).permute(0, 3, 1, 2)
    own = torch.rand(1, 8, *random.choice([(3, 3), (4, 5)]), device=device)
    for of_channels in (window, own):
        each_variant("direct", lambda w=of_channels: OPS.filter2d(words, w, border, value=3.0))
    each_variant("direct", lambda: OPS.filter2d(words[:, 1:4], own[:, 1:4], border, value=3.0))
    for channels in (2, 3, 4):
        hwc = words[:, :channels].contiguous(memory_format=torch.channels_last)
        for x in (hwc, hwc[..., 1:]):
            for of_channels in (own[:, :channels], any_shape):
                each_variant("direct", lambda x=x, t=of_channels: OPS.filter2d(x, t, border, value=3.0))
        each_variant("separable", lambda p=hwc: OPS.filter2d_separable(p, taps, taps, border, value=3.0))
        long = torch.rand(random.choice([9, 35, 63]))
        for x in (hwc, hwc[..., 1:]):
            each_variant("separable", lambda x=x, t=long: OPS.filter2d_separable(x, t, t, border, value=3.0))
            each_variant("box", lambda x=x: OPS.box2d(x, [length, length + 4], border, algorithm="box"))
    many = (torch.rand(1, h, min(w, 33), 256, device=device) * 200).to(dtype).permute(0, 3, 1, 2)
    each_variant("direct", lambda: OPS.filter2d(many, window, border, value=3.0))
    each_variant("direct", lambda: OPS.filter2d(many, torch.rand(1, 256, 3, 3, device=device), border, value=3.0))
    size = random.choice([(3, 3), (5, 5), (4, 6), (9, 9)])
    of_channels = torch.rand(1, 256, *size, device=device).to(dtype)
    OPS.filter2d(many, of_channels, "constant")
    each_variant("depthwise", lambda: OPS.filter2d(many, of_channels, "constant"))
    OPS.filter2d(planar, torch.rand(40, 40), border)  # too many taps for a kernel's parameters: uploaded
    if dtype.is_floating_point:
        depthwise, bank = (
            torch.rand(4, 1, 3, 3, device=device).to(dtype),
            torch.rand(3, 2, 3, 5, device=device).to(dtype),
        )
        OPS.conv2d(planar, depthwise, groups=2, padding=4, padding_mode="replicate", algorithm="direct")
        OPS.conv2d(planar, bank, torch.rand(3, device=device).to(dtype), padding=2, algorithm="direct")
    if dtype == torch.float32:
        for rung in LADDER:
            OPS.ladder2d(planar, torch.rand(3, 3), rung, [16, 16])
            served[f"ladder/{rung}"] += 1
        for rung in LADDER1D:
            OPS.ladder1d(planar, torch.rand(5), rung, [64])
            served[f"ladder1d/{rung}"] += 1


def one_round_of_depthwise(device: str, dtype: torch.dtype) -> None:
    """Maps and rows in both layouts; a pinned kernel of tensor cores serves 'ours' as well."""
    if not dtype.is_floating_point:
        return
    sizes = [*((side, side) for side in (7, 14, 28, 30, 32, 47, 56)), (16, 264)]  # the last: a row of several warps
    (h, w), k = random.choice(sizes), random.choice([3, 5, 7, 13])
    maps = torch.rand(random.choice([1, 3, 17]), 16, h, w, device=device).to(dtype)
    weight = torch.rand(16, 1, k, k, device=device).to(dtype)
    bias = torch.rand(16, device=device).to(dtype)
    for laid in (maps, maps.contiguous(memory_format=torch.channels_last)):
        options = {"groups": 16, "padding": k // 2, "algorithm": "ours", "activation": random.choice([None, "silu"])}
        each_variant("depthwise", lambda laid=laid, o=options: OPS.conv2d(laid, weight, bias, **o))
        each_variant("depthwise", lambda laid=laid, o=options: OPS.conv2d(laid, weight, bias, stride=2, **o))
    if dtype in (torch.float16, torch.bfloat16):  # blocks that go on with other images, and whole planes of 16
        shape, k, last = random.choice(MANY)
        maps = torch.rand(shape, device=device).to(dtype)
        maps = maps.contiguous(memory_format=torch.channels_last) if last else maps
        weight = torch.rand(shape[1], 1, k, k, device=device).to(dtype)
        options = {"groups": shape[1], "padding": k // 2, "algorithm": "tensor_core"}
        each_variant("depthwise", lambda: OPS.conv2d(maps, weight, None, **options))
    length, taps = random.choice([40, 203, 1024]), random.choice([3, 4, 15, 31])
    signals = torch.rand(3, 16, length, device=device).to(dtype)
    windows = torch.rand(16, 1, taps, device=device).to(dtype)
    for laid in (signals, signals.mT.contiguous().mT):
        each_variant(
            "depthwise",
            lambda laid=laid: OPS.conv1d(laid, windows, bias, padding=taps // 2, groups=16, algorithm="ours"),
        )


def one_round_of_sequences(device: str, dtype: torch.dtype) -> None:
    if not dtype.is_floating_point:
        return
    length, k = random.choice([1, 9, 64, 130, 1000, 1134]), random.choice([1, 2, 3, 4, 4, 6])
    rows = torch.rand(2, 12, length, device=device).to(dtype)
    inner = rows.transpose(1, 2).contiguous().transpose(1, 2)
    weight, bias = torch.rand(12, k, device=device).to(dtype), torch.rand(12, device=device).to(dtype)
    states = torch.rand(2, k - 1, 12, device=device).to(dtype).transpose(1, 2)
    numbers = torch.randint(-1, 3, (2, length), dtype=torch.int32, device=device).sort(1)[0]
    activation = random.choice([None, "silu"])
    for x in (rows, inner, rows[:, 1:9], rows[..., length // 3 :], rows[:, :, ::2]):
        channels = x.shape[1]
        given = (x, weight[:channels], bias[:channels])
        own = states[:, :channels]
        each_variant("causal", lambda g=given: OPS.causal_conv1d(*g, None, None, activation))
        each_variant("causal", lambda g=given, s=own: OPS.causal_conv1d_states(*g, None, s, activation))
    for x in (rows, inner):
        each_variant("causal", lambda x=x: OPS.causal_conv1d(x, weight, bias, numbers, None, activation))
    size, where = k - 1 + random.choice([0, 1, 9]), torch.tensor([4, -1], dtype=torch.int32, device=device)
    held = torch.rand(5, 12, size, device=device).to(dtype)
    seen = random.choice([None, torch.tensor([0, 77], dtype=torch.int32, device=device)])
    for state in (held, held.transpose(1, 2).contiguous().transpose(1, 2)):
        for x in (rows[..., 0].contiguous(), rows[..., :3], inner[..., :3]):
            given = (x, state, weight, bias, activation, seen, where)
            each_variant("causal", lambda g=given: OPS.causal_conv1d_update(*g))


def one_round_of_training(device: str, dtype: torch.dtype) -> None:
    """The gradients of depthwise windows and biases: both layouts, and sums that are not finite."""
    if dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return
    (h, w), k, stride = random.choice([(7, 7), (9, 33), (14, 14), (30, 40)]), random.choice([1, 3, 5, 7]), [1, 1]
    kernel, padding = [random.choice([k, 13]), k], [random.choice([0, k // 2]), k // 2]
    if random.random() < 0.3:
        stride = [2, random.choice([1, 2])]
    if h + 2 * padding[0] < kernel[0]:
        return
    image = torch.rand(random.choice([1, 3, 17]), random.choice([5, 40]), h, w, device=device).to(dtype)
    if random.random() < 0.2:
        image[0, 0, h // 2, w // 2] = float("inf")
    sizes = [(n + 2 * p - t) // s + 1 for n, p, t, s in zip((h, w), padding, kernel, stride, strict=True)]
    grad = torch.rand(*image.shape[:2], *sizes, device=device).to(dtype)
    for layout in (torch.contiguous_format, torch.channels_last):
        given = (image.contiguous(memory_format=layout), grad.contiguous(memory_format=layout))
        served["weight_gradient"] += len(OPS._weight_gradient(*given, kernel, stride, padding)) > 0


def each_chain(planar: torch.Tensor, nhwc: torch.Tensor, taps: torch.Tensor, border: str, padding: str) -> None:
    """Every chain in one launch where a kernel takes it, and taken apart into filters and `combine`."""
    wide = torch.float32 if planar.dtype == torch.uint8 else planar.dtype
    tail: dict = {"border_type": border, "padding": padding, "value": 3.0, "output_dtype": random.choice([None, wide])}
    rows = (taps, taps)
    filters: list[Callable[..., object]] = [
        lambda x, **kw: OPS.gradient2d(x, random.choice(["sobel", "diff", "scharr"]), **kw),
        lambda x, **kw: OPS.gradient2d(x, random.choice(["sobel", "diff"]), 2, **kw),
        lambda x, **kw: OPS.filter2d_separable(x, *rows, stride=2, **{**kw, "padding": "same"}),
    ]
    with_a_point: list[Callable[..., object]] = [
        lambda x, **kw: OPS.sobel2d(x, **kw),
        lambda x, **kw: OPS.gaussian_sobel2d(x, *rows, magnitude=random.choice(["l1", "l2"]), **kw),
        lambda x, **kw: OPS.separable_sum2d(x, rows, rows, **kw),
        lambda x, **kw: OPS.unsharp_mask2d(x, *rows, **kw),
        lambda x, **kw: OPS.structure_tensor2d(x, *rows, **kw),
        lambda x, **kw: OPS.thin_edges2d(x, *rows, **kw),
    ]
    for chain in filters + with_a_point:
        each_variant("fused", lambda chain=chain: chain(planar, algorithm="fused", **tail))
        chain(nhwc, algorithm="separable", **tail)
    longer = torch.rand(random.choice([9, 11, 13, 15]))
    each_variant("fused", lambda: OPS.separable_sum2d(planar, [longer, longer], [longer, longer], **tail))
    served["combine"] += len(with_a_point)


def one_round_of_volumes(device: str, dtype: torch.dtype) -> None:
    border = random.choice(BORDERS)
    d, h, w = random.choice([1, 4, 9]), random.choice([1, 9, 20]), random.choice([8, 33, 136])
    planar = (torch.rand(2, 2, d, h, w, device=device) * 200).to(dtype)
    ndhwc = planar.contiguous(memory_format=torch.channels_last_3d)
    k = random.choice([(3, 3, 3), (5, 5, 5), (7, 7, 7), (1, 3, 3), (3, 1, 1), (2, 3, 4)])
    window, windows = torch.rand(k), torch.rand(2, 2, *k, device=device)
    taps = [torch.rand(n) for n in random.choice([(3, 3, 3), (5, 5, 5), (7, 7, 7), (9, 3, 5), (4, 1, 2)])]
    fits = d >= 9 and h >= 9 and w >= 33
    padding = random.choice(["same", "valid"]) if fits else "same"
    column = torch.rand(random.choice([(2, 1), (7, 1), (20, 1)]))

    each_variant("direct", lambda: OPS.filter2d(planar, column, border, value=3.0))
    each_variant("direct3d", lambda: OPS.filter3d(planar, window, border, padding=padding, value=3.0))
    each_variant("direct3d", lambda: OPS.filter3d(ndhwc, windows, border))
    each_variant("separable3d", lambda: OPS.filter3d_separable(planar, *taps, border, padding=padding, value=3.0))
    each_variant("separable3d", lambda: OPS.filter3d_separable(ndhwc, *taps, border))
    row = random.choice([torch.ones(n) / n for n in (3, 5, 7)])
    for algorithm in ("fused", "separable"):
        tail = {"border_type": border, "value": 3.0, "algorithm": algorithm, "mode": random.choice(["diff", "sobel"])}
        family = "fused3d" if algorithm == "fused" else "separable3d"
        each_variant(family, lambda tail=tail: OPS.gaussian_gradient3d(planar, row, row, row, **tail))
    for size in ([4, 3, 9], [3, 3, 3], [random.choice([9, 17, 31]), 3, 5]):  # deep ones pass through a ring of planes
        fitting = padding if size[0] <= d else "same"
        each_variant("box3d", lambda s=size, p=fitting: OPS.box3d(planar, s, border, padding=p, algorithm="box"))
    OPS.box3d(planar, [3, 3, 3], border)
    OPS.filter3d(planar, window, border, stride=2, dilation=2)
    OPS.filter3d(planar, torch.rand(5, 9, 9), border)  # too many taps for a kernel's parameters: uploaded
    if dtype.is_floating_point:
        weight = torch.rand(4, 1, *k, device=device).to(dtype)
        bias = torch.rand(4, device=device).to(dtype)
        for volume in (planar, ndhwc):
            each_variant("direct3d", lambda volume=volume: OPS.conv3d(volume, weight, bias, groups=2, padding=3))
        OPS.conv3d(planar, torch.rand(3, 2, 3, 3, 5, device=device).to(dtype), padding=2)
        # Shapes of networks: more channels than a voxel, even planes from 7x7 up.
        maps = torch.rand(2, 32, d, *random.choice([(8, 8), (14, 14), (28, 56)]), device=device).to(dtype)
        cubes = torch.rand(32, 1, 3, 3, 3, device=device).to(dtype)
        mode = random.choice(["zeros", "reflect", "replicate", "circular"]) if d > 1 else "zeros"
        for volume in (maps, maps.contiguous(memory_format=torch.channels_last_3d)):
            each_variant(
                "direct3d",
                lambda volume=volume: OPS.conv3d(volume, cubes, groups=32, padding=[1, 1, 1], padding_mode=mode),
            )
    if dtype == torch.float32:
        for rung in LADDER3D:
            OPS.ladder3d(planar, torch.ones(3, 3, 3), rung, [8, 4, 4])
            served[f"ladder3d/{rung}"] += 1


def one_round_of_shards(device: str, dtype: torch.dtype) -> None:
    """Shards on all GPUs in turn, and on one: kernels that read other shards, and strips of copied rows."""
    border = random.choice(BORDERS)
    h, w = random.choice([9, 40, 70]), random.choice([8, 33, 136, 264])
    image = (torch.rand(2, 2, h, w, device=device) * 200).to(dtype)
    if random.random() < 0.3:
        image = image.contiguous(memory_format=torch.channels_last)
    sizes = random.choice([[h - 4, 4], [3, h - 5, 2], [h // 2, h - h // 2]])
    devices = [device, *(f"cuda:{i}" for i in range(1, torch.cuda.device_count()))] if device == "cuda" else [device]
    shards = [t.to(devices[i % len(devices)], copy=True) for i, t in enumerate(torch.split(image, sizes, -2))]
    k, length = random.choice([3, 5, 7]), random.choice([3, 7, 15, 21])
    window, taps, nine = torch.rand(k, k), torch.rand(length), torch.rand(9)
    for staged, aside in (("", ""), ("1", ""), ("", "1")):
        os.environ["TORCH_CONV_NO_PEER"], os.environ["TORCH_CONV_SIDE_STREAMS"] = staged, aside
        each_variant("direct", lambda: OPS.filter2d_split(shards, window, border, value=3.0))
        each_variant("separable", lambda: OPS.filter2d_separable_split(shards, taps, taps, border, value=3.0))
        OPS.filter2d_split(shards, window.to(devices[-1]), border, value=3.0)
        OPS.gaussian_sobel2d_split(shards, torch.ones(3), torch.ones(3), border)
        OPS.structure_tensor2d_split(shards, torch.ones(5), torch.ones(5), border)
        OPS.separable_sum2d_split(shards, [nine, nine], [nine, nine], border)
        for size in ([5, 4], [15, 15]):
            OPS.box2d_split(shards, size, border)
        served["shards"] += 1
    os.environ["TORCH_CONV_NO_PEER"] = os.environ["TORCH_CONV_SIDE_STREAMS"] = ""
    volume = (torch.rand(2, 24, 9, random.choice([33, 48]), device=device) * 200).to(dtype)
    sizes, n = random.choice([[9, 1, 14], [7, 8, 9]]), random.choice([3, 5, 7])
    slabs = [t.to(devices[i % len(devices)], copy=True) for i, t in enumerate(torch.split(volume, sizes, -3))]
    OPS.filter3d_split(slabs, torch.rand(n, n, n), border, dim=-3)
    OPS.filter3d_separable_split(slabs, *[torch.rand(n)] * 3, border, dim=-3)


ROUNDS = {
    "images": one_round,
    "depthwise": one_round_of_depthwise,
    "sequences": one_round_of_sequences,
    "training": one_round_of_training,
    "volumes": one_round_of_volumes,
    "shards": one_round_of_shards,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--device", default="cuda")
    names = [str(dtype).removeprefix("torch.") for dtype in DTYPES]
    parser.add_argument("--dtype", choices=names, help="only this one")
    parser.add_argument("--list-dtypes", action="store_true", help="print the names that --dtype takes, and stop")
    parser.add_argument("--round", choices=ROUNDS, action="append", help="only this one (may be given again)")
    parser.add_argument("--seed", type=int, default=3, help="of sizes and windows: another one finds other kernels")
    args = parser.parse_args()
    if args.list_dtypes:
        print(*names)
        return 0
    dtypes = [getattr(torch, args.dtype)] if args.dtype else DTYPES
    random.seed(args.seed)
    torch.manual_seed(0)
    end, rounds = time.monotonic() + args.seconds, 0
    while time.monotonic() < end or rounds < len(dtypes):
        dtype = dtypes[rounds % len(dtypes)]
        for name in args.round or ROUNDS:
            ROUNDS[name](args.device, dtype)
        rounds += 1
    if args.device == "cuda":
        for i in range(torch.cuda.device_count()):
            torch.cuda.synchronize(i)
    print(f"{rounds} rounds:", ", ".join(f"{name} {count}" for name, count in sorted(served.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
