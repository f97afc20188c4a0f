"""Which results are older than the kernels that they measured: the files of a room, and what those include."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from torch_conv.cli.report.results import Document, Row

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
KERNELS = "**/{}/**/*.cuh"  # of a folder of csrc, at whichever depth it lies or lay

IMAGES = ("direct2d", "separable2d", "overlap_save", "depthwise")
VOLUMES = ("direct3d", "separable3d", "separable2d", "direct2d")
# benchmark: the rooms of csrc whose kernels its rows call
ROOMS = {
    "filter2d": (*IMAGES, "box"),
    "large_windows": IMAGES,
    "blur": ("separable2d", "box"),
    "filter3d": (*VOLUMES, "box"),
    "fused": ("fused", "fused3d", *IMAGES, *VOLUMES),
    "depthwise": ("depthwise", "direct2d"),
    "depthwise1d": ("depthwise", "causal", "direct2d"),
    "depthwise3d": ("direct3d", "depthwise", "direct2d"),
    "handover": ("depthwise", "direct2d", "direct3d"),
    "models": ("depthwise", "direct2d"),
    "training": ("depthwise", "direct2d", "weight_gradient"),
    "ladder": ("ladder", "direct2d", "separable2d", "fused"),
    "volume": ("ladder", "direct3d", "separable3d"),
}
# Of shards every row says by its name which one; those not here have no kernel but the copy's.
ROOM_OF_SHARDS = {
    "filter2d": "direct2d",
    "gaussian": "separable2d",
    "filter3d": "direct3d",
    "gaussian3d": "separable3d",
    "sobel": "fused",
    "gaussian_sobel": "fused",
    "box": "box",
}


def older_than_kernels(documents: Sequence[Document]) -> list[str]:
    """A notice for every document of a GPU with rows that were measured before the last change of their kernels."""
    notices = []
    for document in documents:
        rows = rows_of(document) if document.on_gpu else []
        for (commit, rooms), count in Counter((commit, rooms_of(document, row)) for commit, row in rows).items():
            if changes := changes_since(commit, rooms):
                notices.append(
                    f"{count} rows of {document.path.name} were measured at {commit}; their kernels have changed in "
                    f"{changes} commits since"
                )
    return notices


def measured(document: Document) -> str:
    """When a document's rows were measured, and at which commits."""
    return f"{document.date}, commit {' and '.join(document.commits)}"


def rows_of(document: Document) -> list[tuple[str, Row]]:
    """The rows of a document, and the commit each was measured at; where it holds tables, those as one row."""
    return [(row.get("commit") or document.meta.get("commit") or "", row) for row in document.rows or [{}]]


def rooms_of(document: Document, row: Row) -> tuple[str, ...]:
    if document.benchmark != "scaling":
        return ROOMS[document.benchmark]
    room = ROOM_OF_SHARDS.get(row["name"].split()[0])
    return (room,) if room else ("runtime",)


@cache
def changes_since(commit: str, rooms: tuple[str, ...]) -> int:
    """Commits that changed a kernel of these rooms, or what it and the host agree on; 0 where git does not know."""
    files = sorted(set().union(*(kernel_files(room) for room in rooms)))
    # Files that are no more are changes, too.
    gone = [f":(glob)csrc/{KERNELS.format(room)}" for room in rooms]
    span = [f"{commit.removesuffix('-dirty')}..HEAD", "--", *gone, *files]
    log = subprocess.run(["git", "log", "--oneline", *span], cwd=ROOT, capture_output=True, text=True, check=False)
    return len(log.stdout.splitlines()) if log.returncode == 0 else 0


@cache
def kernel_files(room: str) -> frozenset[str]:
    """Kernels' source and parameters: a room's own, and those of other folders that they include."""
    found: set[Path] = set()
    ahead = list(CSRC.glob(KERNELS.format(room)))
    while ahead:
        path = ahead.pop()
        if path not in found and path.exists():
            found.add(path)
            ahead += [CSRC / name for name in re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE)]
    kernels = [path for path in found if path.suffix == ".cuh" or path.name.startswith("params")]
    return frozenset(str(path.relative_to(ROOT)) for path in kernels)
