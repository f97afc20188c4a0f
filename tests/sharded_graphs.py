"""The last case of test_distributed.py: a distributed call in a CUDA graph."""

import torch
from sharded_group import case, part_of, spread
from torch.distributed.tensor import Shard

import torch_conv
import torch_conv.distributed as sharded


@case
def graphs_carry_rows_by_nccl(g):
    """A capture follows exchanges through symmetric memory, and such exchanges run between its replays."""
    if g.device == "cpu":
        return
    kernel, rows = torch.rand(3, 3, generator=torch.Generator().manual_seed(1)), [Shard(2)]
    image = spread(g.image(1, 2, 8 * g.world, 64), g.mesh(), *rows)

    def is_right(result, x):
        expected = part_of(torch_conv.filter2d(x, kernel, "circular"), g.mesh(), rows)
        g.expect(torch.equal(result.to_local(), expected))

    for _ in range(3):
        sharded.filter2d(image, kernel, "circular")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = sharded.filter2d(image, kernel, "circular")
    for seed in range(1, 4):
        x = g.image(1, 2, 8 * g.world, 64, seed=seed)
        image.to_local().copy_(part_of(x, g.mesh(), rows))
        graph.replay()
        is_right(result, x)
        is_right(sharded.filter2d(image, kernel, "circular"), x)
