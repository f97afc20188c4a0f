"""Cases of test_distributed.py: refusals, comparisons between ranks, halo_exchange."""

import random

import torch
import torch.nn.functional as F
from sharded_group import BORDERS, case, check, part_of, refused, spread, verified_case
from torch.distributed.tensor import DTensor, Partial, Shard

import torch_conv.distributed as sharded
from torch_conv.reference._extend import source_of

NOT_SHARDED = (
    "input must be a DTensor, got Tensor; torch.distributed.tensor.distribute_tensor(input, mesh, placements) makes one"
)

# Gradients, refusals, agreement


@case
def backward_refuses(g):
    image = spread(g.image(1, 1, 8, 8), g.mesh(), Shard(2)).requires_grad_()
    result = sharded.filter2d(image, torch.rand(3, 3))
    g.expect(result.requires_grad)
    text = "filter2d: backward is not implemented yet"
    refused(g, lambda: result.to_local().sum().backward(), RuntimeError, text)
    with torch.no_grad():
        g.expect(not sharded.filter2d(image, torch.rand(3, 3)).requires_grad)


@verified_case
def refusals_on_every_rank(g):
    x = g.image(1, 2, 8, 8)
    image, k = spread(x, g.mesh(), Shard(2)), torch.rand(3, 3)
    refused(g, lambda: sharded.filter2d(x, k), TypeError, f"filter2d: {NOT_SHARDED}")
    refused(g, lambda: sharded.filter2d(image, k, out=x), ValueError, "filter2d: out is not taken with a DTensor")
    refused(g, lambda: sharded.filter2d(image, k, "mirrored"), ValueError, "filter2d: border_type must be")
    refused(g, lambda: sharded.gaussian_blur2d(image, 4, 1.0), ValueError, "gaussian_blur2d: kernel_size must be odd")
    refused(g, lambda: sharded.filter2d(image), TypeError, "filter2d: missing a required argument: 'kernel'")
    refused(g, lambda: sharded.filter2d(image, spread(k, g.mesh(), Shard(0))), ValueError, "kernel must be replicated")
    partial = DTensor.from_local(x, g.mesh(), [Partial()])
    refused(g, lambda: sharded.filter2d(partial, k), ValueError, "filter2d: input must be sharded or replicated, got P")
    if g.world == 4:
        twice = DTensor.from_local(x[:, :, :2], g.grid(), [Shard(2), Shard(2)])
        refused(g, lambda: sharded.filter2d(twice, k), ValueError, "sharded twice along dimension 2")
    lopsided = DTensor.from_local(x[:, :, : 1 + g.rank], g.mesh(), [Shard(2)], shape=x.shape, stride=x.stride())
    refused(g, lambda: sharded.filter2d(lopsided, k), (ValueError, sharded.RankError), "filter2d: ")
    check(g, g.mesh(), [Shard(2)], "filter2d", x, k)  # the next good call works


@verified_case
def an_error_on_one_rank_reaches_all(g):
    x = g.image(2, 2, 8, 8)
    for mesh, placements in ((g.mesh(), [Shard(2)]), (g.mesh(), [Shard(0)]), (g.grid(), [Shard(2), Shard(3)])):
        image = spread(x, mesh, *placements)
        wrong = g.rank == 1
        border, size, sigma = ("nowhere" if wrong else "reflect"), (4 if wrong else 5), (-1.0 if wrong else 1.0)
        for name, call in (
            ("filter2d", lambda: sharded.filter2d(image, torch.rand(3, 3), border)),  # noqa: B023
            ("gaussian_sobel", lambda: sharded.gaussian_sobel(image, size, 1.0)),  # noqa: B023
            ("gaussian_blur2d", lambda: sharded.gaussian_blur2d(image, 5, sigma)),  # noqa: B023
            ("box_blur", lambda: sharded.box_blur(image, 3, out=x if wrong else None)),  # noqa: B023
        ):
            if wrong:
                refused(g, call, ValueError, f"{name}: ")
            else:
                refused(g, call, sharded.RankError, f"{name}: rank 1 refused the call")
        check(g, mesh, placements, "filter2d", x, torch.ones(3, 3))


@verified_case
def a_call_that_one_rank_cannot_make_reaches_all(g):
    x, k = g.image(1, 2, 8, 8), torch.rand(3, 3)
    image, wrong = spread(x, g.mesh(), Shard(2)), g.rank == 1
    for call, sentence in (
        (
            lambda: sharded.filter2d(image, k, **({"bordertype": "reflect"} if wrong else {})),
            "got an unexpected keyword",
        ),
        (lambda: sharded.filter2d(*((image,) if wrong else (image, k))), "missing a required argument: 'kernel'"),
        (lambda: sharded.filter2d(*((x, image) if wrong else (image, k))), NOT_SHARDED),
    ):
        if wrong:
            refused(g, call, TypeError, f"filter2d: {sentence}")
        else:
            refused(g, call, sharded.RankError, "filter2d: rank 1 refused the call")
    check(g, g.mesh(), [Shard(2)], "filter2d", x, k)


@verified_case
def arguments_that_differ_are_an_error_on_all(g):
    image = spread(g.image(1, 1, 8, 8), g.mesh(), Shard(2))
    last = g.rank == g.world - 1
    differ = f"arguments differ between ranks 0 and {g.world - 1}"
    k = torch.ones(3, 3)
    for call in (
        lambda: sharded.filter2d(image, torch.ones(5 if last else 3, 3)),
        lambda: sharded.filter2d(image, 2 * k if last else k),  # also of the windows' values
        lambda: sharded.filter2d(image, k, "circular" if last else "reflect"),
        lambda: sharded.filter2d(image, k, stride=2 if last else 1),
    ):
        refused(g, call, sharded.RankError, f"filter2d: {differ}")
    name = "sobel" if last else "filter2d"
    refused(
        g, lambda: sharded.sobel(image) if last else sharded.filter2d(image, k), sharded.RankError, f"{name}: {differ}"
    )
    other = spread(g.image(1, 1, 8 + last, 8), g.mesh(), Shard(2))
    refused(g, lambda: sharded.filter2d(other, k), sharded.RankError, f"filter2d: {differ}")
    sharded.filter2d(image, k, border_type="reflect") if last else sharded.filter2d(image, k, "reflect")  # the same


@verified_case
def calls_that_were_fine_before_are_compared(g):
    x, k = g.image(2, 2, 8, 8), torch.ones(3, 3)
    wrong = g.rank == g.world - 1
    for mesh, placements in ((g.mesh(), [Shard(2)]), (g.mesh(), [Shard(0)]), (g.grid(), [Shard(2), Shard(3)])):
        image = spread(x, mesh, *placements)
        for _ in range(2):
            check(g, mesh, placements, "filter2d", x, k)
            check(g, mesh, placements, "filter2d", x, k, "circular")
        for _ in range(2):
            differ = f"filter2d: arguments differ between ranks 0 and {g.world - 1}"
            call = lambda: sharded.filter2d(image, k, "circular" if wrong else "reflect")  # noqa: E731, B023
            refused(g, call, sharded.RankError, differ)
            call = lambda: sharded.filter2d(image, k, "nowhere" if wrong else "reflect")  # noqa: E731, B023
            refused(g, call, ValueError if wrong else sharded.RankError, "filter2d: ")
            check(g, mesh, placements, "filter2d", x, k)
    window = k.clone()
    image = spread(x, g.mesh(), Shard(2))
    sharded.filter2d(image, window)
    window[0, 0] = 2 + wrong  # the same tensor, other values
    refused(g, lambda: sharded.filter2d(image, window), sharded.RankError, "filter2d: arguments differ")


@case
def verify_is_asked_for(g):
    g.expect(not sharded.verify.on)
    with sharded.verify(True):
        g.expect(sharded.verify.on)
        with sharded.verify(False):
            g.expect(not sharded.verify.on)
        g.expect(sharded.verify.on)
    sharded.verify(True)
    g.expect(sharded.verify.on)
    sharded.verify(False)


# halo_exchange


@case
def halos(g):
    pick = random.Random(5)
    for dtype in (torch.float32, torch.uint8, torch.uint16, torch.float16, torch.int64, torch.bool):
        for border in BORDERS[:5]:
            for dim in range(3):
                rows = [pick.randint(0, 5) for _ in range(g.world)]
                rows[pick.randrange(g.world)] += 1
                before, after = pick.randint(0, 12), pick.randint(0, 4)
                shape = [2, 3, 4]
                shape[dim] = n = sum(rows)
                whole = g.image(*shape).mul(200).to(dtype)
                low = sum(rows[: g.rank])
                local = whole.narrow(dim, low, rows[g.rank])
                got = sharded.halo_exchange(local, g.mesh(), dim - 3, before, after, border, value=1.0)
                at = torch.arange(low - before, low + rows[g.rank] + after)
                inside = ((at >= 0) & (at < n)).view([-1 if i == dim else 1 for i in range(3)])
                source = at.clamp(0, n - 1) if border == "constant" else source_of(at, n, border)
                taken = whole.cpu().to(torch.float64).index_select(dim, source)
                if border == "constant":
                    taken = torch.where(inside, taken, 1.0)
                g.expect(got.dtype == dtype and torch.equal(got.cpu().to(torch.float64), taken), (border, dim, rows))
    same = sharded.halo_exchange(local, g.mesh(), 2, 0, 0)
    g.expect(torch.equal(same, local) and (same.numel() == 0 or same.data_ptr() != local.data_ptr()))


@case
def halos_on_a_mesh_of_two_dimensions(g):
    mesh, x = g.grid(), g.image(7, 8)
    local = part_of(x, mesh, [Shard(0), Shard(1)])
    wide = sharded.halo_exchange(local, mesh["rows"], 0, 2, 1, "reflect")
    wide = sharded.halo_exchange(wide, mesh["columns"], 1, 1, 3, "reflect")
    whole = F.pad(x[None], (1, 3, 2, 1), "reflect")[0]
    high, wide_columns = wide.shape
    top, left = (min(p * -(-n // s), n) for p, n, s in zip(mesh.get_coordinate(), x.shape, mesh.shape, strict=True))
    g.expect(torch.equal(wide, whole[top : top + high, left : left + wide_columns]))


@case
def halos_refused(g):
    x, mesh = g.image(4, 4), g.mesh()
    name = "halo_exchange"
    refused(g, lambda: sharded.halo_exchange(x, g.grid(), 0, 1, 1), ValueError, f"{name}: mesh must have 1 dimension")
    for border in ("skip", "zero_output"):
        refused(g, lambda: sharded.halo_exchange(x, mesh, 0, 1, 1, border), ValueError, f"{name}: border_type")  # noqa: B023
    refused(g, lambda: sharded.halo_exchange(x, mesh, 2, 1, 1), ValueError, f"{name}: dim must name one")
    refused(
        g, lambda: sharded.halo_exchange(x, mesh, 0, -1, 1), ValueError, f"{name}: before and after must be at least"
    )
    refused(g, lambda: sharded.halo_exchange(x, mesh, 0, 1.5, 1), TypeError, f"{name}: before must be of type int")
    empty = x[:0]
    refused(
        g, lambda: sharded.halo_exchange(empty, mesh, 0, 1, 1, "reflect"), ValueError, f"{name}: local must have rows"
    )
    one = g.rank == 0
    kind, text = (ValueError, "at least 0") if one else (sharded.RankError, f"{name}: rank 0 refused the call")
    refused(g, lambda: sharded.halo_exchange(x, mesh, 0, -1 if one else 1, 1), kind, text)
    differ = sharded.RankError, f"{name}: arguments differ between ranks 0 and 1"
    refused(g, lambda: sharded.halo_exchange(x, mesh, 0, 1, 2 if one else 1), *differ)
    refused(g, lambda: sharded.halo_exchange(x if one else x[:, :2], mesh, 0, 1, 1), *differ)
