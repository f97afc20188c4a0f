"""The columns of the textbook studies' tables: on the screen, in files of results, and in docs/textbook.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    key: str
    heading: str
    style: str = ".4f"  # a format specification; times are in ms
    cuda: bool | None = None  # only where a GPU is measured, or only where none is

    def shown(self, cuda: bool) -> bool:
        return self.cuda in (None, cuda)


def rungs(naive: str, tiled: str) -> tuple[Column, ...]:
    """The kernels of one window; the fused one has a table of its own."""
    labels = {"naive": naive, "constant": "constant", "tiled": tiled, "l2_halo": "L2 halo"}
    return tuple(Column(f"{rung}_ms", label, cuda=True) for rung, label in labels.items())


CPU = Column("cpu_ms", "CPU loop", ".2f")
RUNGS = rungs("V1 naive", "V2 tiled")
OVER_CPU = Column("naive_over_cpu", "V1 over CPU", ".0f", True), Column("tiled_over_cpu", "V2 over CPU", ".0f", True)
OVER_NAIVE = Column("tiled_over_naive", "V2 over V1", ".2f", True)
COPY = Column("copy_percent", "of copy, %", ".1f")
PRODUCTION = Column("production_ms", "torch_conv"), COPY
CONV2D, CONV1D = Column("conv2d_ms", "F.conv2d"), Column("conv1d_ms", "F.conv1d")
WORST = Column("error", "max error", ".1e")

COLUMNS: dict[str, tuple[Column, ...]] = {
    "stencil": (
        Column("size", "side", "d"),
        Column("images", "images", "d", True),
        *PRODUCTION,
        Column("mpixels", "Mpixel/s", ".0f"),
        Column("gbs_no_cache", "GB/s at 40 B", ".0f"),
        Column("gbs", "GB/s at 8 B", ".0f"),
        Column("gflops", "GFLOP/s", ".0f"),
        CONV2D,
        WORST,
        Column("arc_ms", "Arc A770", ".2f"),
    ),
    "correctness": (
        Column("window", "window", "s"),
        Column("naive", "V1 naive", ".1e", True),
        Column("constant", "constant", ".1e", True),
        Column("tiled", "V2 tiled", ".1e", True),
        Column("l2_halo", "L2 halo", ".1e", True),
        Column("fused", "V3 fused", ".1e", True),
        Column("production", "torch_conv", ".1e"),
        Column("conv2d", "F.conv2d", ".1e"),
    ),
    "size": (Column("size", "side", "d"), CPU, *RUNGS, *OVER_CPU, OVER_NAIVE, *PRODUCTION, CONV2D, WORST),
    "window": (Column("k", "K", "d"), CPU, *RUNGS, OVER_NAIVE, *PRODUCTION, CONV2D, WORST),
    "block": (Column("block", "block", "s"), CPU, *RUNGS, OVER_NAIVE, *PRODUCTION, CONV2D, WORST),
    "fused": (
        Column("size", "side", "d"),
        CPU,
        Column("fused_ms", "V3 fused", cuda=True),
        Column("unfused_ms", "V2 one by one", cuda=True),
        Column("fused_over_unfused", "V3 over V2", ".2f", True),
        *PRODUCTION,
        CONV2D,
        WORST,
    ),
    "signal": (
        Column("numbers", "numbers", "d"),
        Column("k", "K", "d"),
        CPU,
        *rungs("naive", "tiled"),
        Column("naive_over_cpu", "naive over CPU", ".0f", True),
        Column("tiled_over_naive", "tiled over naive", ".2f", True),
        *PRODUCTION,
        CONV1D,
        WORST,
    ),
    "borders": (
        Column("policy", "border", "s"),
        Column("cpu_direct_ms", "every tap, CPU", ".2f"),
        Column("direct_ms", "every tap, GPU", cuda=True),
        Column("direct_over_cpu", "GPU over CPU", ".0f", True),
        Column("cpu_ms", "torch_conv, CPU", ".3f", True),
        Column("production_ms", "torch_conv, GPU", cuda=True),
        Column("production_ms", "torch_conv", cuda=False),
        Column("production_over_cpu", "GPU over CPU", ".0f", True),
        COPY,
        CONV2D,
        Column("error", "max error", ".0f"),
    ),
    "volume": (
        Column("row", "kernel", "s"),
        Column("iterations", "iterations", "d"),
        Column("average_ms", "average"),
        Column("median_ms", "median"),
        Column("minimum_ms", "minimum"),
        WORST,
    ),
}
