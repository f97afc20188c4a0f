"""Which results are older than the kernels that they measured.

Kernels are compared by their source as it was and as it is: without comments, includes and the names of files and
namespaces, and with the renames of `tests/vocabulary.py`. A file that was moved or renamed has not changed.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from torch_conv.bench.documents import Document, Row

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))

import vocabulary  # noqa: E402

IMAGES = ("direct2d", "separable2d", "overlap_save", "depthwise")
VOLUMES = ("direct3d", "separable3d", "separable2d", "direct2d")
# benchmark: the kernel families that its rows call
FAMILIES = {
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
FAMILY_OF_SHARDS = {
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
        for (commit, families), count in Counter((commit, families_of(document, row)) for commit, row in rows).items():
            if changed := changes_since(commit, families):
                notices.append(
                    f"{count} rows of {document.path.name} were measured at {commit}; {changed} files of their kernels "
                    "have changed since"
                )
    return notices


def measured(document: Document) -> str:
    """When a document's rows were measured, and at which commits."""
    return f"{document.date}, commit {' and '.join(document.commits)}"


def rows_of(document: Document) -> list[tuple[str, Row]]:
    """The rows of a document, and the commit each was measured at; where it holds tables, those as one row."""
    return [(row.get("commit") or document.meta.get("commit") or "", row) for row in document.rows or [{}]]


def families_of(document: Document, row: Row) -> tuple[str, ...]:
    if document.benchmark != "scaling":
        return FAMILIES[document.benchmark]
    family = FAMILY_OF_SHARDS.get(row["name"].split()[0])
    return (family,) if family else ("runtime",)


@cache
def changes_since(commit: str, families: tuple[str, ...]) -> int:
    """How many files of these families' kernels, or of what they share with the host, have no equal at that commit.

    0 where git does not know the commit.
    """
    now, then = sources(), sources(commit.removesuffix("-dirty"))
    if not then:
        return 0
    known = {code_of(text) for text in then.values()}
    files = set().union(*(kernel_files(family) for family in families))
    return sum(code_of(now[path]) not in known for path in files)


@cache
def kernel_files(family: str) -> frozenset[str]:
    """Kernels' source and parameters: a family's own, and those of other folders that they include."""
    texts, found = sources(), set()
    ahead = [path for path in texts if re.search(rf"/{family}/(.+/)?[^/]+\.cuh$", path)]
    while ahead:
        path = ahead.pop()
        if path not in found and path in texts:
            found.add(path)
            ahead += [f"csrc/{name}" for name in re.findall(r'^#include "([^"]+)"', texts[path], re.MULTILINE)]
    return frozenset(path for path in found if path.endswith(".cuh") or Path(path).name.startswith("params"))


@cache
def sources(commit: str = "") -> Mapping[str, str]:
    """Headers and kernels of csrc by path: those of the checkout, or those of a commit; none where git has no such."""
    if not commit:
        files = [path for path in (ROOT / "csrc").rglob("*.*") if path.suffix in (".h", ".cuh")]
        return {path.relative_to(ROOT).as_posix(): path.read_text() for path in files}
    done = subprocess.run(["git", "archive", commit, "csrc"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        return {}
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        members = [member for member in archive if member.name.endswith((".h", ".cuh"))]
        return {member.name: archive.extractfile(member).read().decode() for member in members}  # type: ignore[union-attr]


@cache
def code_of(text: str) -> str:
    """A file's code without includes, comments and white space, with today's names."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(
        r"^ *(#include|#pragma once|namespace|using namespace|\}  *// namespace).*", "", text, flags=re.MULTILINE
    )
    return "".join(vocabulary.in_new_words(text).split())
