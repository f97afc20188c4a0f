"""Cases of test_distributed.py: every way to cut an image, every function, every border."""

import math
import random
from typing import Any

import torch
from sharded_group import BORDERS, R, case, check, refused, spread
from torch.distributed.tensor import Shard, distribute_tensor

import torch_conv
import torch_conv.distributed as sharded

# Cuts of an image


@case
def batch_channel_rows_and_columns(g):
    x, k = g.image(5, 3, 17, 14), torch.rand(5, 4)
    for dim in range(4):
        check(g, g.mesh(), [Shard(dim)], "filter2d", x, k)
        check(g, g.mesh(), [Shard(dim)], "gaussian_sobel", x, 5, 1.0)
        check(g, g.mesh(), [Shard(dim)], "structure_tensor", x, 3, 1.0)
    check(g, g.mesh(), [R], "filter2d", x, k)
    check(g, g.mesh(), [Shard(0)], "filter2d", x[0, 0], k)  # (H, W)
    check(g, g.mesh(), [Shard(0)], "filter2d", x[0], k)  # (C, H, W)


@case
def volumes_along_every_dimension(g):
    x = g.image(2, 3, 9, 10, 11)
    for dim in range(5):
        check(g, g.mesh(), [Shard(dim)], "filter3d", x, torch.rand(3, 2, 5), "reflect")
        check(g, g.mesh(), [Shard(dim)], "gaussian_blur3d", x, None, (1.0, 0.5, 1.5))
        check(g, g.mesh(), [Shard(dim)], "spatial_gradient3d", x)
        check(g, g.mesh(), [Shard(dim)], "gaussian_gradient_magnitude3d", x, 3, 1.0)


@case
def meshes_of_two_dimensions(g):
    x, k = g.image(4, 4, 15, 13), torch.rand(5, 4)
    mesh = g.grid()
    for placements in ([Shard(0), Shard(2)], [Shard(2), Shard(1)], [R, Shard(2)], [Shard(3), R]):
        check(g, mesh, placements, "filter2d", x, k)
    for border in BORDERS:
        for placements in ([Shard(2), Shard(3)], [Shard(3), Shard(2)]):
            check(g, mesh, placements, "filter2d", x, k, border, value=0.5)
            check(g, mesh, placements, "gaussian_sobel", x, 5, 1.0, border)
            check(g, mesh, placements, "filter2d", x, k, border, stride=(2, 3), anchor=(0, 3))
    check(g, mesh, [Shard(2), Shard(3)], "filter2d", x, k, padding="valid")
    check(g, mesh, [Shard(2), Shard(3)], "structure_tensor", x, 3, 1.0)
    check(g, mesh, [Shard(2), Shard(4)], "gaussian_blur3d", g.image(1, 1, 9, 8, 7), None, 0.6)
    check(g, mesh, [Shard(2), Shard(3)], "filter2d", x.to(memory_format=torch.channels_last), k)


@case
def one_dimension_of_a_larger_mesh(g):
    mesh = g.grid()["columns"]
    check(g, mesh, [Shard(2)], "filter2d", g.image(1, 2, 12, 5), torch.rand(3, 3))


@case
def uneven_and_empty_shards(g):
    for n in (1, 2, 3, 5, 7):  # of 4 ranks, the last may hold less than the others, or nothing
        x = g.image(1, 2, n, 6)
        for border in BORDERS:
            check(g, g.mesh(), [Shard(2)], "filter2d", x, torch.rand(3, 3), border)
            check(g, g.mesh(), [Shard(2)], "gaussian_blur2d", x, 5, 1.0, border)
        check(g, g.mesh(), [Shard(2)], "structure_tensor", x, 3, 1.0)
        check(g, g.mesh(), [Shard(2)], "filter2d", x, torch.rand(3, 3), stride=2)
        check(g, g.mesh(), [Shard(2)], "sobel", x, algorithm="direct")
        check(g, g.mesh(), [Shard(2)], "filter1d", x, torch.rand(4), dim=1)
        for weight in (torch.rand(2, 1, 3, 3), torch.rand(9, 2, 3, 3)):  # the second one is torch's
            groups, exact = 3 - weight.size(1), weight.size(1) == 1
            way = "direct" if exact else "auto"
            for mode in ("zeros", "replicate"):
                args = (weight.to(g.device), None, 1, 1, 1, groups)
                check(g, g.mesh(), [Shard(2)], "conv2d", x, *args, padding_mode=mode, exact=exact, algorithm=way)
    check(g, g.mesh(), [Shard(0)], "spatial_gradient", g.image(1, 2, 6, 6))
    check(g, g.mesh(), [Shard(2)], "filter2d", g.image(0, 2, 6, 6), torch.rand(3, 3))
    check(g, g.mesh(), [Shard(2)], "filter2d", g.image(1, 2, 0, 6), torch.rand(3, 3))


# Kernels


@case
def windows_larger_than_a_shard_and_than_the_image(g):
    x = g.image(1, 1, 9, 8)
    for border in BORDERS:
        for size in ((7, 1), (8, 3), (15, 5), (31, 2)):
            check(g, g.mesh(), [Shard(2)], "filter2d", x, torch.rand(size), border, value=2.0)
        check(g, g.mesh(), [Shard(2)], "gaussian_blur2d", x, None, 2.5, border)
        check(g, g.mesh(), [Shard(2)], "gaussian_sobel", x, 15, 2.5, border)
        check(g, g.mesh(), [Shard(3)], "thin_edges", x, 9, 2.0, border)


@case
def even_windows_anchors_strides_dilation_and_valid(g):
    x = g.image(2, 2, 23, 11)
    for border in BORDERS:
        for anchor in (None, 0, 3, -1):
            for stride in (1, 2, 5):
                k = torch.rand(4, 4)
                check(g, g.mesh(), [Shard(2)], "filter2d", x, k, border, anchor=anchor, stride=stride)
        check(g, g.mesh(), [Shard(2)], "filter2d", x, torch.rand(4, 3), border, dilation=(3, 1), normalized=True)
    for stride in (1, 2, 3):
        for size in (1, 2, 5, 6, 20, 23):
            check(g, g.mesh(), [Shard(2)], "filter2d", x, torch.rand(size, 3), padding="valid", stride=stride)
            check(
                g, g.mesh(), [Shard(2)], "filter2d_separable", x, torch.rand(3), torch.rand(size), padding="valid",
                stride=stride,
            )  # fmt: skip
    check(g, g.mesh(), [Shard(2)], "gaussian_blur3d", g.image(1, 1, 13, 6, 6), 5, 1.0, padding="valid")
    check(g, g.mesh(), [Shard(2)], "gaussian_sobel", x, 5, 1.0, padding="valid")
    check(g, g.mesh(), [Shard(2)], "gaussian_downsample", x, 5, 1.0, 3)


@case
def windows_per_sample_and_per_channel(g):
    x = g.image(3, 5, 12, 9)
    for dim in range(4):
        for lead in ((3,), (3, 5), (1, 5), (3, 1)):
            check(g, g.mesh(), [Shard(dim)], "filter2d", x, torch.rand(*lead, 3, 3).to(g.device))
            check(g, g.mesh(), [Shard(dim)], "filter2d_separable", x, torch.rand(*lead, 3), torch.rand(5))
        check(g, g.mesh(), [Shard(dim)], "gaussian_blur2d", x, 5, torch.rand(3, 2) + 0.5)
        check(g, g.mesh(), [Shard(dim)], "gaussian_sobel", x, 5, torch.rand(3, 2) + 0.5)
    check(g, g.mesh(), [Shard(0)], "filter2d", x[0], torch.rand(1, 5, 3, 3))
    check(g, g.mesh(), [Shard(1)], "filter3d", g.image(2, 3, 4, 5, 6), torch.rand(2, 3, 3, 3, 3))
    window = distribute_tensor(torch.rand(3, 3).to(g.device), g.mesh(), [R])
    result = sharded.filter2d(spread(x, g.mesh(), Shard(2)), window)
    g.expect(torch.equal(result.full_tensor(), torch_conv.filter2d(x, window.to_local())))


# Functions


@case
def every_function(g):
    x, v = g.image(2, 3, 19, 17), g.image(1, 2, 11, 9, 8)
    gaussian = (5, 1.2)
    calls: dict[str, tuple[Any, ...]] = {
        "box_blur": (x.to(torch.uint8), (4, 3)),
        "box_blur3d": (v.mul(255).to(torch.uint8), (4, 3, 2)),
        "conv1d": (x[:, :, 0], torch.rand(3, 1, 4).to(g.device), None, 2, 3, 2, 3),
        "conv2d": (x, torch.rand(6, 1, 4, 3).to(g.device), torch.rand(6).to(g.device), 1, (2, 1), 1, 3),
        "conv3d": (v, torch.rand(2, 1, 3, 3, 3).to(g.device), None, 1, "same", 1, 2),
        "difference_of_gaussians": (x, 1.0),
        "filter1d": (x, torch.rand(5)),
        "filter2d": (x, torch.rand(3, 3)),
        "filter2d_separable": (x, torch.rand(3), torch.rand(6)),
        "filter3d": (v, torch.rand(3, 3, 3)),
        "filter3d_separable": (v, torch.rand(3), torch.rand(2), torch.rand(6)),
        "gaussian_blur2d": (x, *gaussian),
        "gaussian_blur3d": (v, *gaussian),
        "gaussian_downsample": (x, *gaussian),
        "gaussian_gradient_magnitude3d": (v, *gaussian),
        "gaussian_laplace": (x, 1.0),
        "gaussian_sobel": (x, *gaussian),
        "laplacian": (x, 5),
        "sobel": (x,),
        "spatial_gradient": (x,),
        "spatial_gradient3d": (v,),
        "structure_tensor": (x, *gaussian),
        "thin_edges": (x, *gaussian),
        "unsharp_mask": (x, *gaussian),
    }
    sequences = {"causal_conv1d", "causal_conv1d_update"}  # no images
    assert set(calls) == set(torch_conv.functional.__all__) - sequences
    assert set(calls) <= set(sharded.__all__) <= set(vars(sharded))
    for name, (image, *args) in calls.items():
        mine = {"algorithm": "direct"} if name in ("conv1d", "conv2d") else {}  # 'auto' may hand them to torch
        for dim in range(image.dim()):
            check(g, g.mesh(), [Shard(dim)], name, image, *args, **mine)


@case
def boxes_over_floats(g):
    """The bits of a box depend on the row of the whole image."""
    x, v = g.image(2, 3, 45, 17), g.image(1, 2, 27, 20, 8)
    for border in BORDERS:
        for size in (7, (4, 3), (9, 4), (18, 5)):
            for dim in range(4):
                check(g, g.mesh(), [Shard(dim)], "box_blur", x, size, border, value=0.5)
        for dim in range(5):
            check(g, g.mesh(), [Shard(dim)], "box_blur3d", v, (10, 9, 3), border, value=0.5)
        for placements in ([Shard(2), Shard(3)], [Shard(3), Shard(2)]):
            check(g, g.grid(), placements, "box_blur", x, (9, 4), border, value=0.5)
    check(g, g.mesh(), [Shard(2)], "box_blur", x, (12, 3), padding="valid")


@case
def filter1d_along_every_dimension(g):
    x = g.image(2, 3, 7, 8)
    for cut in range(4):
        for dim in range(4):
            check(g, g.mesh(), [Shard(cut)], "filter1d", x, torch.rand(5), "circular", dim=dim)
    for kernel in (torch.rand(4), torch.rand(2, 4), torch.rand(1, 3, 4)):
        for cut in range(3):
            check(g, g.mesh(), [Shard(cut)], "filter1d", x[..., 0], kernel, stride=2)
    check(g, g.mesh(), [Shard(0)], "filter1d", g.image(13), torch.rand(6), anchor=1, padding="valid")


@case
def derivatives_by_windows(g):
    x = g.image(2, 3, 12, 9)
    for dim in range(4):
        check(g, g.mesh(), [Shard(dim)], "sobel", x, algorithm="direct")
        check(g, g.mesh(), [Shard(dim)], "spatial_gradient", x, "diff", 2, algorithm="direct")
        check(g, g.mesh(), [Shard(dim)], "spatial_gradient", x, "diff", 2, padding="valid")
        check(g, g.mesh(), [Shard(dim)], "structure_tensor", x, None, 1.0, "circular")


@case
def convolutions(g):
    x = g.image(3, 8, 13, 10)

    def weight(*shape):
        return torch.rand(shape).to(g.device)

    direct = {"algorithm": "direct"}  # torch's bits may depend on the parts
    for dim in range(4):
        for mode in ("zeros", "reflect", "replicate", "circular"):
            for args in (
                (weight(16, 1, 3, 4), None, 2, (3, 2), 1, 8),
                (weight(8, 1, 4, 3), weight(8), 1, "same", 2, 8),
            ):
                check(g, g.mesh(), [Shard(dim)], "conv2d", x, *args, padding_mode=mode, **direct)
        # Windows all outside
        check(g, g.mesh(), [Shard(dim)], "conv2d", x, weight(8, 1, 3, 3), None, 1, 6, 1, 8, **direct)
        check(g, g.mesh(), [Shard(dim)], "conv2d", x, weight(8, 1, 3, 3), None, 3, "valid", 1, 8, **direct)
    few = g.image(2, 4, 13, 10)
    for dim in (0, 2, 3):
        check(g, g.mesh(), [Shard(dim)], "conv2d", few, weight(6, 4, 3, 3), weight(6), 1, 1, **direct)
    check(g, g.mesh(), [Shard(0)], "conv2d", x[0], weight(8, 1, 3, 3), None, 1, 1, 1, 8, **direct)  # (C, H, W)
    check(g, g.mesh(), [Shard(2)], "conv3d", g.image(1, 2, 9, 5, 5), weight(2, 1, 3, 3, 3), None, 2, 1, 1, 2)
    check(
        g, g.mesh(), [Shard(1)], "conv2d", g.image(1, 6, 7, 7), weight(12, 2, 3, 3), None, 1, 1, 1, 3, **direct
    ) if g.world == 3 else None
    refused(
        g, lambda: sharded.conv2d(spread(few, g.mesh(), Shard(1)), weight(6, 4, 3, 3)),
        ValueError, "conv2d: input must not be sharded within its groups of 4 channels, got a shard of",
    )  # fmt: skip


@case
def convolutions_handed_to_torch(g):
    x, k = g.image(3, 8, 13, 10), torch.rand(16, 8, 3, 4).to(g.device)
    many, each = g.image(16, 32, 13, 10), torch.rand(32, 1, 3, 3).to(g.device)  # torch is ahead on CPU and CUDA
    for dim in range(4):
        check(g, g.mesh(), [Shard(dim)], "conv2d", many, each, None, 1, 1, 1, 32, exact=False)
    check(g, g.mesh(), [Shard(1)], "conv1d", many.flatten(2), each[:, :, 0], None, 1, "same", 1, 32, exact=False)
    for mode in ("zeros", "reflect", "replicate", "circular"):
        for dim in (0, 2, 3):
            mine = {"exact": False, "padding_mode": mode}
            check(g, g.mesh(), [Shard(dim)], "conv2d", x, k, None, 2, (2, 1), **mine)
            check(g, g.mesh(), [Shard(dim)], "conv2d", x, k, None, 1, "same", 2, **mine)
    check(g, g.grid(), [Shard(3), Shard(2)], "conv2d", x, k, k[:, 0, 0, 0].clone(), 1, 1, exact=False)
    check(g, g.mesh(), [Shard(1)], "conv1d", g.image(8, 12), torch.rand(16, 8, 3).to(g.device), None, 1, 1, exact=False)


# Tensors


@case
def dtypes_and_layouts(g):
    for dtype in (torch.uint8, torch.float16, torch.bfloat16, torch.float64, torch.int16, torch.uint16):
        x = g.image(2, 3, 11, 9, dtype=dtype)
        for dim in (0, 1, 2, 3):
            check(g, g.mesh(), [Shard(dim)], "filter2d", x, torch.rand(5, 3) / 8)
        check(g, g.mesh(), [Shard(2)], "gaussian_blur2d", x, 5, 1.0, output_dtype=torch.float32)
    x = g.image(2, 3, 11, 9)
    for dim in (0, 1, 2, 3):
        last = x.to(memory_format=torch.channels_last)
        result = check(g, g.mesh(), [Shard(dim)], "filter2d", last, torch.rand(5, 3))
        g.expect(result.stride() == last.stride(), "channels_last stays so")
        local = result.to_local()
        g.expect(local.numel() == 0 or local.is_contiguous(memory_format=torch.channels_last), "and so do its shards")
        check(g, g.mesh(), [Shard(dim)], "filter2d", x.transpose(2, 3), torch.rand(5, 3))
        check(g, g.mesh(), [Shard(dim)], "filter2d", x[:, :, ::2], torch.rand(5, 3))
    nan = x.clone()
    nan[0, 0, 5, 4] = math.nan
    result = sharded.filter2d(spread(nan, g.mesh(), Shard(2)), torch.rand(3, 3)).full_tensor()
    g.expect(torch.equal(result.isnan(), torch_conv.filter2d(nan, torch.rand(3, 3)).isnan()))


@case
def torch_distributes_and_gathers(g):
    x = g.image(2, 3, 11, 9)
    image = distribute_tensor(x, g.mesh(), [Shard(2)])
    smooth = sharded.gaussian_blur2d(image, 5, 1.0)
    edges = sharded.sobel(smooth)  # results are taken as they are
    g.expect(torch.equal(edges.full_tensor(), torch_conv.sobel(torch_conv.gaussian_blur2d(x, 5, 1.0))))
    columns = edges.redistribute(g.mesh(), [Shard(3)])
    both = sharded.unsharp_mask(columns, 5, 1.0).full_tensor()
    g.expect(torch.equal(both, torch_conv.unsharp_mask(edges.full_tensor(), 5, 1.0)))


@case
def random_calls(g):
    pick = random.Random(20 + g.world)
    for i in range(60 if g.device == "cpu" else 15):  # each wants kernels of its own, a second or two for the compiler
        shape = [pick.randint(1, 3), pick.randint(1, 4), pick.randint(1, 24), pick.randint(1, 12)]
        kernel = torch.rand(pick.randint(1, 9), pick.randint(1, 4), generator=torch.Generator().manual_seed(i))
        kwargs: dict[str, Any] = {"border_type": pick.choice(BORDERS), "stride": pick.randint(1, 3)}
        kwargs["anchor"] = pick.choice([None, -1, 0])
        kwargs["dilation"] = pick.randint(1, 2)
        footprint = [(k - 1) * kwargs["dilation"] + 1 for k in kernel.shape]
        if pick.random() < 0.3 and footprint[0] <= shape[2] and footprint[1] <= shape[3]:
            kwargs["padding"] = "valid"
        mesh = pick.choice([g.mesh(), g.grid()])
        dims = pick.sample(range(4), mesh.ndim)
        check(g, mesh, [Shard(d) for d in dims], "filter2d", g.image(*shape, seed=i), kernel, **kwargs)
