"""Images on one device and in shards on several: one process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from scaling_filters import filter_named
from scaling_rows import Rounds, Row, Task, buffers_of, checks, devices_of, image
from torch import Tensor

import torch_conv


def strong(task: Task, graph: bool = False) -> Row:
    """One image on one device and in shards on all: the operators and the functions; or graphs of the operators."""
    devices = devices_of(task)
    n, first = len(devices), devices[0]
    row = Row(task.part, task.name, list(task.shape), n)
    filtering = filter_named(task.filter, task.border, task.dim, first)
    wholes = [image(task.shape, first, task.dtype)]
    wholes += [wholes[0].clone() for _ in range(buffers_of(task, n) - 1)]
    splits = [torch_conv.split(x, devices, task.dim) for x in wholes]
    shards = [list(s.shards) for s in splits]
    row.facts["buffers"] = len(wholes)
    rounds = Rounds(row, task, devices)
    same, _ = checks(row, task, filtering.whole(wholes[0]))
    of_shards = [partial(filtering.shards, s) for s in shards]
    rounds.add("one", [partial(filtering.whole, x) for x in wholes], graph=graph, host=not graph)
    rounds.add("operator", of_shards, check=partial(same, "operator"), graph=graph, host=not graph)
    if not graph:
        functions = [partial(filtering.function, x) for x in wholes]
        rounds.add("one function", functions, check=lambda y: same("one function", [y]), host=True)
        functions = [partial(filtering.function, s) for s in splits]
        rounds.add("function", functions, check=partial(same, "function"), host=True)
    if task.staged:
        rounds.add("staged", of_shards, without_peers, partial(same, "staged"))
    rounds.play()
    rounds.efficiency("operator", "one", "operator", n)
    rounds.efficiency("function", "one function", "function", n)
    rounds.efficiency("staged", "one", "staged", n)
    return row


@contextmanager
def without_peers() -> Iterator[None]:
    """No kernel reads another device's memory: halos are copied."""
    before = os.environ.get("TORCH_CONV_NO_PEER")
    os.environ["TORCH_CONV_NO_PEER"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TORCH_CONV_NO_PEER"]
        else:
            os.environ["TORCH_CONV_NO_PEER"] = before


def weak(task: Task) -> Row:
    """As many images, one below the other, as there are devices: the time should stay."""
    devices = devices_of(task)
    row = Row("weak", task.name, list(task.shape), len(devices))
    filtering = filter_named(task.filter, task.border, task.dim, devices[0])
    rounds = Rounds(row, task, devices)
    for n in range(1, len(devices) + 1):
        shape = [*task.shape[:-2], n * task.shape[-2], task.shape[-1]]
        whole = image(shape, devices[0])
        shards = list(torch_conv.split(whole, devices[:n], task.dim).shards)
        expected = filtering.whole(whole)

        def check(result: Sequence[Tensor], n: int = n, expected: Tensor = expected) -> None:
            whole = torch.cat([y.to(devices[0]) for y in result], task.dim)
            row.expect(f"{n} devices: other bits than one device's", torch.equal(whole, expected))

        rounds.add(str(n), [partial(filtering.shards, shards)], check=check)
    rounds.play()
    if "1" in row.timings:
        row.efficiency = {n: row.timings["1"].median_us / t.median_us for n, t in row.timings.items() if n != "1"}
    return row


def gather(task: Task) -> Row:
    """`split` of a tensor on one device and `gather` back, beside plain copies of as many bytes between devices.

    The plain copies write into memory that exists, and copy the other devices' shards only. `gather` allocates, and
    also copies the first device's own shard.
    """
    devices = devices_of(task)
    first = devices[0]
    row = Row("gather", task.name, list(task.shape), len(devices))
    whole = image(task.shape, first)
    split = torch_conv.split(whole, devices, task.dim)
    row.expect("gather: other values than what was split", torch.equal(split.gather(first), whole))
    away = [s for s in split.shards if s.device != first]
    here = [torch.empty_like(s, device=first) for s in away]
    row.facts["bytes"] = sum(s.nbytes for s in away)

    def out() -> None:
        for near, far in zip(here, away, strict=True):
            far.copy_(near, non_blocking=True)

    def back() -> None:
        for near, far in zip(here, away, strict=True):
            near.copy_(far, non_blocking=True)

    def back_at_once() -> None:
        for near, far, (receiving, sending) in zip(here, away, streams, strict=True):
            with torch.cuda.stream(receiving), torch.cuda.stream(sending):
                near.copy_(far, non_blocking=True)

    rounds = Rounds(row, task, devices)
    rounds.add("split", [lambda: torch_conv.split(whole, devices, task.dim)])
    rounds.add("gather", [lambda: split.gather(first)])
    rounds.add("copy out", [out])
    rounds.add("copy back", [back])
    if first.type == "cuda":
        streams = [[torch.cuda.Stream(d) for d in (first, s.device)] for s in away]
        rounds.add("copy back at once", [back_at_once])
    rounds.play()
    row.facts["gbs"] = {name: row.facts["bytes"] / t.median_us / 1e3 for name, t in row.timings.items()}
    return row
